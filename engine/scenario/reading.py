"""Reading a scenario file: TOML to the turns that it plays, every mistake at once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from turnout.engine.credentials import presentable
from turnout.engine.deployment import Deployment
from turnout.engine.deployment.checks import mistakes
from turnout.engine.deployment.document import read_toml
from turnout.engine.deployment.finding import Finding, Findings
from turnout.engine.deployment.finding import Path as Place
from turnout.engine.deployment.tables import Keys, Table, kind_of, read
from turnout.engine.errors import ConfigurationError, ScenarioError
from turnout.engine.printable import did_you_mean, named, number, printable
from turnout.engine.route import Route
from turnout.engine.scenario.answers import AFTER, ANSWERS, COMMENT, NAMED_EVENT, SCRIPTED
from turnout.engine.scenario.model import PlannedTurn, Scenario
from turnout.engine.scenario.shared import deployment_of, place_of, reloaded, route_of
from turnout.engine.scenario.tables import (
    EXPECT,
    HAVE_TO_BE_TRUE,
    RANGES,
    SHARED,
    TOP,
    TURN,
    WORDS,
)
from turnout.engine.targets import Format
from turnout.engine.testing import Raises, Scripted
from turnout.machines.vocabulary import ErrorKind

_HELLO: Final = [{"role": "user", "content": "hello"}]
HELLO: Final[Mapping[Format, Mapping[str, Any]]] = {
    "openai_chat": {"messages": _HELLO},
    "openai_responses": {"input": "hello"},
    "anthropic_messages": {"messages": _HELLO, "max_tokens": 1024},
}
"""The request of a turn that gives none."""


def load(path: str | os.PathLike[str]) -> Scenario:
    """Read a scenario file.

    Raises:
        ScenarioError: listing everything that is wrong with it, a line each.
    """
    try:
        document = read_toml(path)
    except ConfigurationError as refused:
        raise ScenarioError(f"{printable(os.fspath(path))}: {presentable(str(refused))}") from refused
    return read_document(document, Path(path))


def read_document(document: Table, source: Path) -> Scenario:
    """The same for a document that was read already.

    Args:
        source: what the errors name as the file.

    Raises:
        ScenarioError: listing everything that is wrong with it, a line each.
    """
    return _Reader(document, source).scenario()


class _Listed(dict[str, object]):
    """A list as a table of its places, `[1]`, `[2]`, so that a finding can say which one it is about."""

    def __init__(self, items: Iterable[object] = ()) -> None:
        super().__init__({f"[{place}]": item for place, item in enumerate(items, 1)})


def _listed(document: Table) -> Table:
    """The document with its lists of turns, of answers and of events by place."""
    turns = document.get("turns")
    if not isinstance(turns, list):
        return document
    return {**document, "turns": _Listed(_answers_listed(turn) for turn in turns)}


def _answers_listed(turn: object) -> object:
    if not isinstance(turn, dict) or not isinstance(upstream := turn.get("upstream"), dict):
        return turn
    listed = {
        name: _Listed(map(_events_listed, them)) if isinstance(them, list) else them
        for name, them in upstream.items()
    }
    return {**turn, "upstream": listed}


def _events_listed(answer: object) -> object:
    if not isinstance(answer, dict) or not isinstance(events := answer.get("events"), list):
        return answer
    return {**answer, "events": _Listed(events)}


class _Reader:
    """Reads one document from its top to its turns. What it cannot use becomes a finding."""

    def __init__(self, document: Table, source: Path) -> None:
        self._document = _listed(document)
        self._source = source
        self._findings = Findings(str(source))
        self._deployments: list[str] = []
        """What is wrong with the deployments that the shared tables mean, a line each."""
        self._in_ladders: set[str] = set()

    def scenario(self) -> Scenario:
        """What the document describes.

        Raises:
            ScenarioError: it has mistakes.
        """
        top = self._read((), self._document, TOP)
        memory, on_disk = self._memory(top.get("memory", {}))
        shared: dict[str, Table] = {name: top.get(name, {}) for name in SHARED}
        loaded = self._deployment(shared, memory)
        turns = list(self._turns(top.get("turns"), shared, route_of(loaded) if loaded else None))
        self._no_stream_by_call(turns)
        for name in shared["targets"]:
            if name not in self._in_ladders and not self._deployments:
                self._findings.error(("targets", name), "", "is in no ladder; take it out, or name it there")
        found = [*self._deployments, *map(_line, self._findings.in_order(self._document))]
        if found or loaded is None:
            raise ScenarioError("\n".join(found))
        return Scenario(
            source=self._source,
            name=top.get("name", printable(self._source.stem)),
            about=top.get("about", ""),
            memory=loaded.memory,
            on_disk=on_disk,
            route=route_of(loaded),
            turns=tuple(PlannedTurn(**values, route=route) for values, route in turns if route is not None),
        )

    def _read(self, path: Place, table: Table, keys: Keys) -> dict[str, Any]:
        """The values of a table as far as they can be used."""
        values: dict[str, Any] = read(self._findings, path, table, keys)
        for key, value in values.items():
            self._check(path, key, value)
        return values

    def _check(self, path: Place, key: str, value: Any) -> None:
        """What a value has to be beyond its type."""
        if key in RANGES:
            least, most = RANGES[key]
            if not least <= value <= most:
                self._findings.error(path, key, f"is {number(value)}; give {least} to {most}")
        elif key in WORDS and isinstance(value, str):
            self._word(path, key, value, WORDS[key])
        elif key in WORDS:
            for name, word in value.items():
                self._word((*path, key), name, word, WORDS[key])
        elif key in HAVE_TO_BE_TRUE and not value:
            self._findings.error(path, key, "is false; give true, or leave it out")

    def _word(self, path: Place, key: str, word: str, words: tuple[str, ...]) -> None:
        if word not in words:
            what = f"is {named(word)}, which it cannot be{did_you_mean(word, words)}"
            self._findings.error(path, key, what)

    def _name(self, path: Place, key: str, name: str, ladder: Iterable[str]) -> None:
        """A name has to be a target's. The ladder is empty where it could not be read."""
        if ladder and name not in ladder:
            what = f"names {named(name)}, which is not in the ladder{did_you_mean(name, ladder)}"
            self._findings.error(path, key, what)

    # -- what a scenario shares with a deployment

    def _memory(self, memory: Table) -> tuple[Table, bool]:
        """Its keys but `url`, and whether it is on disk. No store that is there already is ever opened."""
        url = memory.get("url", "memory:")
        if url not in ("memory:", "sqlite:"):
            what = "is no memory of a scenario; give sqlite: for a fresh file, or memory:"
            self._findings.error(("memory",), "url", what)
        return {key: value for key, value in memory.items() if key != "url"}, url == "sqlite:"

    def _deployment(self, shared: Mapping[str, Table], memory: Table, under: str = "") -> Deployment | None:
        """The deployment that these tables mean, without credentials; None if it has mistakes.

        Args:
            under: the table that they stand in, with a dot at its end.
        """
        loaded, wrong = deployment_of(shared, memory, self._source)
        file = printable(str(self._source))
        self._deployments += [f"{file}: {under}{place}: {what}" for place, what in wrong]
        if loaded is not None:
            self._in_ladders.update(target.name for target in route_of(loaded).ladder)
        return loaded

    # -- turns

    def _turns(
        self, turns: object, shared: Mapping[str, Table], route: Route | None
    ) -> Iterator[tuple[dict[str, Any], Route | None]]:
        """The values of each turn, and the route in force; None where that has mistakes."""
        for place, (index, turn) in enumerate(self._items((), "turns", turns), 1):
            path = ("turns", index)
            if not isinstance(turn, dict):
                self._findings.error(path, "", f"is {kind_of(turn)} where a table is needed")
                continue
            values = self._read(path, turn, TURN)
            reload = values.pop("reload", None)
            if reload is not None:
                shared = reloaded(shared, self._read((*path, "reload"), reload, SHARED))
                # mistakes of the tables that it changes would only be told again
                loaded = self._deployment(shared, {}, f"turns[{place}].reload.") if route else None
                route = route_of(loaded) if loaded else None
            self._turn(path, values, route)
            yield {**values, "place": place, "reload": reload is not None}, route

    def _turn(self, path: Place, values: dict[str, Any], route: Route | None) -> None:
        """Check a turn's tables and turn its answers into what plays them."""
        ladder = [target.name for target in route.ladder] if route else []
        values.setdefault("request", HELLO[route.ladder[0].format if route else "openai_chat"])
        if values["request"].get("stream"):
            what = "is not read here; leave it out, and give the turn itself stream = true"
            self._findings.error((*path, "request"), "stream", what)
        for key in ("restore", "pin"):
            if key in values:
                self._name(path, key, values[key], ladder)
        upstream = {}
        for name, answers in values.get("upstream", {}).items():
            self._name((*path, "upstream"), name, name, ladder)
            upstream[name] = tuple(self._answers((*path, "upstream"), name, answers))
            if not values.get("stream"):
                self._no_events((*path, "upstream", name), answers)
        values["upstream"] = upstream
        values["expect"] = self._expectations((*path, "expect"), values.get("expect", {}), ladder)

    def _no_events(self, path: Place, answers: object) -> None:
        """A turn that does not stream gets no stream."""
        for index, answer in answers.items() if isinstance(answers, _Listed) else ():
            if isinstance(answer, dict) and "events" in answer:
                what = "goes with a turn that streams; give the turn stream = true"
                self._findings.error((*path, index), "events", what)

    def _no_stream_by_call(self, turns: list[tuple[dict[str, Any], Route | None]]) -> None:
        """A service's own client brings whole answers."""
        scripts = [scripted for values, _ in turns for scripted in values["upstream"].values()]
        if any(isinstance(answer, Raises) for scripted in scripts for answer in scripted):
            for values, _ in turns:
                if values.get("stream"):
                    what = "does not go with raises, for which a client of the service brings whole answers"
                    self._findings.error(("turns", f"[{values['place']}]"), "stream", what)

    def _expectations(self, path: Place, table: Table, ladder: list[str]) -> dict[str, Any]:
        values = self._read(path, table, EXPECT)
        if "served_by" in values:
            self._name(path, "served_by", values["served_by"], ladder)
        for key, value in values.items():
            if isinstance(value, tuple):
                for name in value:
                    self._name(path, key, name, ladder)
            elif isinstance(value, Mapping):
                for name in value:
                    self._name((*path, key), name, name, ladder)
        if "stripped" in values:
            of_each = dict.fromkeys(values["stripped"], tuple[str, ...])
            values["stripped"] = read(self._findings, (*path, "stripped"), values["stripped"], of_each)
        return values

    def _answers(self, path: Place, name: str, answers: object) -> Iterator[Scripted]:
        for index, answer in self._items(path, name, answers):
            within = (*path, name, index)
            if not isinstance(answer, dict):
                what = f'is {kind_of(answer)} where a table is needed, like {{ ok = "text" }}'
                self._findings.error(within, "", what)
            elif (scripted := self._answer(within, answer)) is not None:
                yield scripted

    def _answer(self, path: Place, answer: Table) -> Scripted | None:
        """One answer; None if it has mistakes."""
        forms = [form for form in ANSWERS if form in answer]
        if len(forms) != 1:
            told = f"has {' and '.join(forms)}" if forms else "tells no answer"
            self._findings.error(path, "", f"{told}; give one of {', '.join(ANSWERS)}")
            return None
        values = self._read(path, answer, ANSWERS[forms[0]] if forms else AFTER)
        if "feature" in values and values.get("kind") != ErrorKind.CAPABILITY:
            self._findings.error(path, "feature", 'goes with kind = "capability" only')
        if "json" in values and "body" in values:
            self._findings.error(path, "body", "does not go with json; keep one")
        if "events" in values:
            values["events"] = self._events(path, values["events"])
        for mistake in mistakes("extra_headers", values.get("headers", {})):
            self._findings.error((*path, "headers"), mistake.within, mistake.what)
        return None if self._findings.wrong(path) else SCRIPTED[forms[0]](values)

    def _events(self, path: Place, events: object) -> list[Table]:
        """The events of a stream; it may have none."""
        if not isinstance(events, _Listed):
            self._findings.error(path, "events", f"is {kind_of(events)}; give a list of tables")
            return []
        return [self._event((*path, "events", index), event) for index, event in events.items()]

    def _event(self, path: Place, event: object) -> Table:
        if not isinstance(event, dict):
            what = f'is {kind_of(event)} where a table is needed, like {{ comment = "text" }}'
            self._findings.error(path, "", what)
            return {}
        for keys in (COMMENT, NAMED_EVENT):
            if next(iter(keys)) in event:
                for key in keys.keys() - event.keys():
                    self._findings.error(path, key, "is missing; give a table, or the text as it is sent")
                return self._read(path, event, keys)
        return event

    def _items(self, path: Place, key: str, value: object) -> Iterable[tuple[str, object]]:
        """The items of a list that has to have some, by their places."""
        if isinstance(value, _Listed):
            what = "is empty"
        else:
            what = "is missing" if value is None else f"is {kind_of(value)}"
            value = _Listed()
        if not value:
            self._findings.error(path, key, f"{what}; give a list of at least one table")
        return value.items()


def _line(finding: Finding) -> str:
    return ": ".join(filter(None, (printable(finding.file), place_of(finding), finding.what)))
