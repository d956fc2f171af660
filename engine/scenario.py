"""A scenario file: TOML to the turns that it plays, every mistake at once.

`load` reads a file; `simulation.py` plays it. The tables that a scenario shares with a
deployment file (`[memory]`, `[route]`, `[client]`, `[targets.*]`) are put together as the
deployment that they mean and checked as one, so a key means the same in both.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from turnout.engine.audit import WhyNotTried, WhyPassedOver
from turnout.engine.classify.verdict import Feature
from turnout.engine.deployment import Deployment, MemorySettings, examine_document
from turnout.engine.deployment.checks import mistakes
from turnout.engine.deployment.document import read_toml
from turnout.engine.deployment.finding import Finding, Findings, dotted
from turnout.engine.deployment.finding import Path as Place
from turnout.engine.deployment.tables import Keys, Table, did_you_mean, kind_of, read
from turnout.engine.errors import ConfigurationError, ScenarioError
from turnout.engine.route import Route
from turnout.engine.targets import MAX_SECS, Target
from turnout.engine.testing import Hang, Raises, Reply, Reset, Scripted, in_json, ok, refusal
from turnout.engine.upstream import url
from turnout.machines.vocabulary import ErrorKind, RoutingFallbackReason, TurnState

HELLO: Final[Mapping[str, Any]] = {"messages": [{"role": "user", "content": "hello"}]}
"""The request of a turn that gives none."""

BASE_URL: Final = "https://upstream.test/v1"
"""Where every target is that is given no other address. Nothing is ever sent there."""


@dataclass(frozen=True, kw_only=True)
class PlannedTurn:
    """One `[[turns]]` of a file."""

    place: int
    """Which one of the file it is, from 1."""
    session: str = "s1"
    """Empty: none, unless the headers tell one."""
    agent: str | None = None
    """Makes it a sub-agent's; empty, one that sent no id."""
    final: bool = False
    size: int | None = None
    request: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)
    at: float | None = None
    """Virtual seconds since the scenario began; None: when the turn before has ended."""
    repeat: int = 1
    cancel_at: float | None = None
    """Virtual seconds after its start at which the caller leaves."""
    restart: bool = False
    restore: str | None = None
    """A target that is made eligible for every session before the turn."""
    forget: str | None = None
    """A session that is forgotten before the turn."""
    reload: bool = False
    """Whether the deployment is reloaded before the turn."""
    route: Route
    """The route in force."""
    upstream: Mapping[str, tuple[Scripted, ...]]
    expect: Mapping[str, Any]
    """What is expected of it, by the names of `simulation.Outcome`."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """What a scenario file describes."""

    source: Path
    name: str
    about: str
    memory: MemorySettings
    on_disk: bool
    """Whether the memory is a fresh SQLite file and not in memory."""
    route: Route
    """The route that the first router opens with."""
    turns: tuple[PlannedTurn, ...]

    @property
    def calls(self) -> bool:
        """Whether the targets are served by an embedder's `call=`: some answer `raises`."""
        scripts = (replies for turn in self.turns for replies in turn.upstream.values())
        return any(isinstance(reply, Raises) for replies in scripts for reply in replies)


TOP: Final[Keys] = {
    "name": str,
    "about": str,
    "memory": Table,
    "route": Table,
    "client": Table,
    "targets": Table,
    "turns": object,
}
SHARED: Final[Keys] = {key: TOP[key] for key in ("route", "client", "targets")}
"""The tables that a `reload` may change."""

TURN: Final[Keys] = {
    "session": str,
    "agent": str,
    "final": bool,
    "size": int,
    "request": Mapping[str, object],
    "headers": Mapping[str, str],
    "at": float,
    "repeat": int,
    "cancel_at": float,
    "reload": Table,
    "restart": bool,
    "restore": str,
    "forget": str,
    "upstream": Table,
    "expect": Table,
}

_AFTER: Final[Keys] = {"after": float}
ANSWERS: Final[Mapping[str, Keys]] = {
    "ok": {"ok": str, "usage": Mapping[str, object], **_AFTER},
    "status": {"status": int, "json": object, "body": str, "headers": Mapping[str, str], **_AFTER},
    "kind": {"kind": str, "feature": str, **_AFTER},
    "reset": {"reset": bool, **_AFTER},
    "hang": {"hang": bool},
    "raises": {"raises": str, **_AFTER},
}
"""The forms of an answer, by the key that tells each, and the keys that it may have."""

EXPECT: Final[Keys] = {
    "probes": tuple[str, ...],
    "attempts": tuple[str, ...],
    "passed_over": tuple[str, ...],
    "state": str,
    "served_by": str,
    "reasons": Mapping[str, str],
    "kinds": Mapping[str, str],
    "status": int,
    "code": str,
    "evicted": tuple[str, ...],
    "slept": float,
    "took": float,
    "not_tried": Mapping[str, str],
    "passed_over_for": Mapping[str, str],
    "stripped": Table,
}

_KEYS_NOT_YET: Final = frozenset({"pin", "stream", "events", "end", "every", "content_events", "interrupted"})
_WORDS_NOT_YET: Final = frozenset({"gated", "cooling"})
"""What a later version of the format plays."""

_LONGEST: Final = int(MAX_SECS)
_RANGES: Final[Mapping[str, tuple[int, int]]] = {
    "repeat": (1, 1000),
    "size": (0, 10**9),
    "at": (0, _LONGEST),
    "cancel_at": (0, _LONGEST),
    "after": (0, _LONGEST),
    "slept": (0, _LONGEST),
    "took": (0, _LONGEST),
    "status": (200, 599),
}

_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "kind": tuple(ErrorKind),
    "feature": tuple(Feature),
    "state": (TurnState.SERVED, TurnState.FAILED),
    "reasons": tuple(RoutingFallbackReason),
    "kinds": tuple(ErrorKind),
    "not_tried": tuple(WhyNotTried),
    "passed_over_for": tuple(WhyPassedOver),
}
"""The words that the value of a key, or each value of its table, may be."""

_HAVE_TO_BE_TRUE: Final = ("reset", "hang")

_SCENARIO: Final = "scenario"
"""What the one route and the one client are called in the deployment that a scenario means."""

_AS_IN_FILE: Final = (
    (re.compile(rf"^routes\.{_SCENARIO}\b"), "route"),
    (re.compile(rf"^llm_clients\.{_SCENARIO}\b"), "client"),
    (re.compile(r'\."\[(\d+)\]"'), r"[\1]"),
)
"""From the place of a finding to the words of a scenario file."""

_NO_CREDENTIAL: Final = "scripted-upstreams-need-no-credential"


def load(path: str | os.PathLike[str]) -> Scenario:
    """Read a scenario file.

    Raises:
        ScenarioError: listing everything that is wrong with it, a line each.
    """
    try:
        document = read_toml(path)
    except ConfigurationError as refused:
        raise ScenarioError(f"{os.fspath(path)}: {refused}") from refused
    return read_document(document, Path(path))


def read_document(document: Table, source: Path) -> Scenario:
    """The same for a document that was read already.

    Args:
        source: what the errors name as the file.

    Raises:
        ScenarioError: listing everything that is wrong with it, a line each.
    """
    try:
        return _Reader(document, source).scenario()
    except RecursionError:
        raise ScenarioError(f"{source}: is nested too deeply to be read") from None


class _Listed(dict[str, object]):
    """A list as a table of its places, `[1]`, `[2]`, so that a finding can say which one it is about."""

    def __init__(self, items: Iterable[object] = ()) -> None:
        super().__init__({f"[{place}]": item for place, item in enumerate(items, 1)})


def _listed(document: Table) -> Table:
    """The document with its lists of turns and of answers by place."""
    turns = document.get("turns")
    if not isinstance(turns, list):
        return document
    return {**document, "turns": _Listed(_answers_listed(turn) for turn in turns)}


def _answers_listed(turn: object) -> object:
    if not isinstance(turn, dict) or not isinstance(upstream := turn.get("upstream"), dict):
        return turn
    listed = {name: _Listed(them) if isinstance(them, list) else them for name, them in upstream.items()}
    return {**turn, "upstream": listed}


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
        turns = list(self._turns(top.get("turns"), shared, _route(loaded) if loaded else None))
        for name in shared["targets"]:
            if name not in self._in_ladders and not self._deployments:
                self._findings.error(("targets", name), "", "is in no ladder; take it out, or name it there")
        found = [*self._deployments, *map(_line, self._findings.in_order(self._document))]
        if found or loaded is None:
            raise ScenarioError("\n".join(found))
        return Scenario(
            source=self._source,
            name=top.get("name", self._source.stem),
            about=top.get("about", ""),
            memory=loaded.memory,
            on_disk=on_disk,
            route=_route(loaded),
            turns=tuple(PlannedTurn(**values, route=route) for values, route in turns if route is not None),
        )

    def _read(self, path: Place, table: Table, keys: Keys) -> dict[str, Any]:
        """The values of a table as far as they can be used."""
        for key in table.keys() & _KEYS_NOT_YET:
            self._findings.error(path, key, "is not supported by this version of turnout")
        values: dict[str, Any] = read(self._findings, path, table, keys)
        for key, value in values.items():
            self._check(path, key, value)
        return values

    def _check(self, path: Place, key: str, value: Any) -> None:
        """What a value has to be beyond its type."""
        if key in _RANGES:
            least, most = _RANGES[key]
            if not least <= value <= most:
                self._findings.error(path, key, f"is {_shown(value)}; give {least} to {most}")
        elif key in _WORDS and isinstance(value, str):
            self._word(path, key, value, _WORDS[key])
        elif key in _WORDS:
            for name, word in value.items():
                self._word((*path, key), name, word, _WORDS[key])
        elif key in _HAVE_TO_BE_TRUE and not value:
            self._findings.error(path, key, "is false; give true, or leave it out")

    def _word(self, path: Place, key: str, word: str, words: tuple[str, ...]) -> None:
        if word in _WORDS_NOT_YET:
            self._findings.error(path, key, f"is {word!r}, which is not supported by this version of turnout")
        elif word not in words:
            self._findings.error(path, key, f"is {word!r}, which it cannot be{did_you_mean(word, words)}")

    def _name(self, path: Place, key: str, name: str, ladder: Iterable[str]) -> None:
        """A name has to be a target's. The ladder is empty where it could not be read."""
        if ladder and name not in ladder:
            what = f"names {name!r}, which is not in the ladder{did_you_mean(name, ladder)}"
            self._findings.error(path, key, what)

    # -- what a scenario shares with a deployment

    def _memory(self, memory: Table) -> tuple[Table, bool]:
        """Its keys but `url`, and whether it is on disk. No store that is there already is ever opened."""
        url = memory.get("url", "memory:")
        if url not in ("memory:", "sqlite:"):
            what = f"is {url!r}; give sqlite: for a fresh file, or memory:"
            self._findings.error(("memory",), "url", what)
        return {key: value for key, value in memory.items() if key != "url"}, url == "sqlite:"

    def _deployment(self, shared: Mapping[str, Table], memory: Table, under: str = "") -> Deployment | None:
        """The deployment that these tables mean, without credentials; None if it has mistakes.

        Args:
            under: the table that they stand in, with a dot at its end.
        """
        ladder = shared["route"].get("ladder")
        named = [name for name in ladder if isinstance(name, str)] if isinstance(ladder, list) else []
        targets: dict[str, object] = {name: {} for name in named} | dict(shared["targets"])
        document = {
            "memory": memory,
            "llm_clients": {_SCENARIO: {"base_url": BASE_URL, **shared["client"]}},
            "targets": {name: _target(name, own) for name, own in targets.items()},
            "routes": {_SCENARIO: shared["route"]},
        }
        examination = examine_document(document, self._source, _credentials(document))
        wrong = [(_place(finding), finding.what) for finding in examination.findings if finding.stops]
        wrong += _of_client(targets)
        if (loaded := examination.deployment) is not None:
            wrong += _alike(_route(loaded).ladder)
            self._in_ladders.update(named)
        self._deployments += [f"{self._source}: {under}{place}: {what}" for place, what in wrong]
        return None if wrong else loaded

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
                shared = _reloaded(shared, self._read((*path, "reload"), reload, SHARED))
                # mistakes of the tables that it changes would only be told again
                loaded = self._deployment(shared, {}, f"turns[{place}].reload.") if route else None
                route = _route(loaded) if loaded else None
            ladder = [target.name for target in route.ladder] if route else []
            self._turn(path, values, ladder)
            yield {**values, "place": place, "reload": reload is not None}, route

    def _turn(self, path: Place, values: dict[str, Any], ladder: list[str]) -> None:
        """Check a turn's tables and turn its answers into what plays them."""
        values.setdefault("request", HELLO)
        msgspec.json.encode(values["request"])  # nested too deeply to be sent: told now, not while it plays
        if values["request"].get("stream"):
            self._findings.error((*path, "request"), "stream", "is not supported by this version of turnout")
        if "restore" in values:
            self._name(path, "restore", values["restore"], ladder)
        upstream = {}
        for name, answers in values.get("upstream", {}).items():
            self._name((*path, "upstream"), name, name, ladder)
            upstream[name] = tuple(self._answers((*path, "upstream"), name, answers))
        values["upstream"] = upstream
        values["expect"] = self._expectations((*path, "expect"), values.get("expect", {}), ladder)

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
        if len(forms) != 1 and not answer.keys() & _KEYS_NOT_YET:
            told = f"has {' and '.join(forms)}" if forms else "tells no answer"
            self._findings.error(path, "", f"{told}; give one of {', '.join(ANSWERS)}")
            return None
        values = self._read(path, answer, ANSWERS[forms[0]] if forms else _AFTER)
        if "feature" in values and values.get("kind") != ErrorKind.CAPABILITY:
            self._findings.error(path, "feature", 'goes with kind = "capability" only')
        if "json" in values and "body" in values:
            self._findings.error(path, "body", "does not go with json; keep one")
        for mistake in mistakes("extra_headers", values.get("headers", {})):
            self._findings.error((*path, "headers"), mistake.within, mistake.what)
        return None if self._findings.wrong(path) else _SCRIPTED[forms[0]](values)

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


# -- answers: each form by what plays it


def _status(values: dict[str, Any]) -> Scripted:
    given, body = values.pop("json", None), values.pop("body", "")
    return Reply(body=body.encode(), **values) if given is None else in_json(body=given, **values)


_SCRIPTED: Final[Mapping[str, Callable[[dict[str, Any]], Scripted]]] = {
    "ok": lambda values: ok(values.pop("ok"), **values),
    "status": _status,
    "kind": lambda values: refusal(**values),
    "reset": lambda values: Reset(values.get("after", 0.0)),
    "hang": lambda _: Hang(),
    "raises": lambda values: Raises(values["raises"], values.get("after", 0.0)),
}


# -- deployments


def _route(loaded: Deployment) -> Route:
    """The only route there is. Its targets need no credential: nothing is sent anywhere."""
    (route,) = loaded.routes.values()
    ladder = tuple(
        replace(target, api_key_env=None, api_key=lambda: _NO_CREDENTIAL) if target.api_key_env else target
        for target in route.ladder
    )
    return replace(route, ladder=ladder)


def _target(name: str, own: object) -> object:
    """A target's entry in the deployment. What is no table is left for the deployment to tell."""
    return {"id": name, **own, "llm_client": _SCENARIO} if isinstance(own, dict) else own


def _reloaded(shared: Mapping[str, Table], changed: Mapping[str, Table]) -> Mapping[str, Table]:
    """The tables with these keys changed, those of each target too."""
    merged = {name: {**table, **changed.get(name, {})} for name, table in shared.items()}
    for name, own in changed.get("targets", {}).items():
        former = shared["targets"].get(name, {})
        if isinstance(own, dict) and isinstance(former, dict):
            merged["targets"][name] = {**former, **own}
    return merged


def _credentials(document: Mapping[str, Any]) -> Mapping[str, str]:
    """An environment in which every credential that the document names is there."""
    owners = [*document["llm_clients"].values(), *document["targets"].values()]
    named = [owner.get("api_key_env") for owner in owners if isinstance(owner, dict)]
    return {name: _NO_CREDENTIAL for name in named if isinstance(name, str)}


def _of_client(targets: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for name, own in targets.items():
        if isinstance(own, dict) and "llm_client" in own:
            yield (
                dotted(("targets", name, "llm_client")),
                "is unknown here: [client] is the client of every target; give the keys that differ",
            )


def _alike(ladder: Iterable[Target]) -> Iterator[tuple[str, str]]:
    """Targets whose requests a scripted upstream could not tell apart."""
    first: dict[tuple[str, str], str] = {}
    for target in ladder:
        name = first.setdefault(address(target), target.name)
        if name != target.name:
            yield (
                dotted(("targets", target.name)),
                f"is the same model at the same address as {name!r}; give it another id or base_url",
            )


def address(target: Target) -> tuple[str, str]:
    """By what a request to a target is known: its URL and its model id."""
    return str(url(target)), target.model_id


# -- words


def _shown(number: float) -> str:
    # Python refuses to write very long integers
    return "too large" if isinstance(number, int) and number.bit_length() > 64 else str(number)


def _line(finding: Finding) -> str:
    return ": ".join(filter(None, (finding.file, _place(finding), finding.what)))


def _place(finding: Finding) -> str:
    """Where a finding is: `turns[2].expect.probes`."""
    place = ".".join(filter(None, (finding.table, finding.key)))
    for pattern, words in _AS_IN_FILE:
        place = pattern.sub(words, place)
    return place
