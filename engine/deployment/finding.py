"""What is wrong with a deployment file, and where: one finding for each mistake."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from turnout.engine.credentials import hidden, presentable
from turnout.engine.printable import printable, shortened
from turnout.engine.targets import HEADER

Path = tuple[str, ...]
"""A table's place in a file: `("llm_clients", "openrouter")`; empty for the top of the file.

Of a list of tables each has its place in it as a step: `("llm_clients", "openrouter", "errors", "[0]")`.
"""

"""What a header may be called. What is no such name may be anything, even a credential: it is not shown."""

_PLACE: Final = re.compile(r"\[\d+\]")
"""A place in a list, as a step of a path."""
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


class Level(StrEnum):
    """What a check makes of a finding."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True)
class Finding:
    """One mistake: where it stands, what is wrong, what would be right. Never holds a credential."""

    level: Level
    stops: bool
    """Whether the deployment cannot be loaded because of it."""
    file: str
    table: str
    """As the file's own header would name it, `llm_clients.openrouter`; empty for the top of the file."""
    key: str
    """Empty where the whole table, or the whole file, is meant."""
    what: str
    remedy: str = ""
    """What would be right on this machine, where that may not be the one that Turnout runs on."""

    def __str__(self) -> str:
        return self._told(f"{self.what} here; it has to be where turnout runs" if self.remedy else self.what)

    def as_error(self) -> str:
        """The same where it stops loading, on the machine that Turnout runs on."""
        return self._told(f"{self.what}; {self.remedy}" if self.remedy else self.what)

    def _told(self, what: str) -> str:
        table = f"[{self.table}]" if self.table else ""
        where = " ".join(filter(None, (table, self.key)))
        return ": ".join(filter(None, (printable(self.file), where, what)))


class Findings:
    """Collects findings, each once, and gives them in the order of the file."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._found: dict[Finding, tuple[Path, str]] = {}
        self._places: set[tuple[Path, str]] = set()
        self._wrong: set[Path] = set()

    def error(self, path: Path, key: str, what: str, *, stops: bool = True, meant: str = "") -> None:
        """A mistake. It stops loading unless something sensible can be made of it.

        Args:
            meant: the key that this one was probably meant to be, which then is no further mistake.
        """
        self._add(Level.ERROR, stops, path, key, what)
        if meant:
            self._places.add((path, meant))
        if stops:
            self._wrong.update(path[:depth] for depth in range(len(path) + 1))

    def warning(self, path: Path, key: str, what: str) -> None:
        """What is allowed and probably not meant, or may do no harm on another machine."""
        self._add(Level.WARNING, False, path, key, what)

    def missing_here(self, path: Path, key: str, what: str, remedy: str) -> None:
        """What may be there on another machine: loading, which happens where it is needed, stops."""
        self._add(Level.WARNING, True, path, key, what, remedy)

    def _add(self, level: Level, stops: bool, path: Path, key: str, what: str, remedy: str = "") -> None:
        shown = dotted((key,), _name(path)) if key else ""
        finding = Finding(level, stops, self._file, dotted(path), shown, presentable(what), remedy)
        self._found.setdefault(finding, (path, key))
        self._places.add((path, key))

    def at(self, path: Path, key: str) -> bool:
        """Whether anything was found at this key."""
        return (path, key) in self._places

    def wrong(self, path: Path) -> bool:
        """Whether an error in this table, or in one inside it, stops loading."""
        return path in self._wrong

    def in_order(self, document: Mapping[str, object]) -> tuple[Finding, ...]:
        """All of them, as one meets them when reading from its top the file that they are about."""
        places = {path: line for line, (path, _) in enumerate(walk(document))}

        def line(finding: Finding) -> tuple[int, int]:
            path, key = self._found[finding]
            return places[path], places.get((*path, key), -1)  # a key that is missing has no line

        return tuple(sorted(self._found, key=line))


def walk(document: Mapping[str, object]) -> list[tuple[Path, object]]:
    """Every value of a document with its path, in the order of the file.

    The items of a list have its path, and tables among them their place in it as a further step.
    """
    found: list[tuple[Path, object]] = []
    # no recursion: a file may be nested deeper than the interpreter's stack
    stack: list[tuple[Path, object]] = [((), document)]
    while stack:
        path, value = stack.pop()
        found.append((path, value))
        if isinstance(value, Mapping):
            stack += [((*path, key), inner) for key, inner in reversed(list(value.items()))]
        elif isinstance(value, list):
            items = [
                ((*path, f"[{place}]") if isinstance(inner, Mapping) else path, inner)
                for place, inner in enumerate(value)
            ]
            stack += reversed(items)
    return found


def dotted(path: Path, within: str = "") -> str:
    """A path as TOML writes it: names that are not bare keys are quoted.

    Args:
        within: the name of the table that the path begins in.
    """
    shown = ""
    for step, name in enumerate(path):
        if _PLACE.fullmatch(name):
            shown += name
        else:
            shown += ("." if shown else "") + _shown(name, _name((within, *path[:step])))
    return shown


def _name(path: Path) -> str:
    """What the table, or the list that it stands in, is called; empty for the top of the file."""
    return next((name for name in reversed(path) if not _PLACE.fullmatch(name)), "")


def _shown(name: str, table: str) -> str:
    if table == "extra_headers" and not HEADER.fullmatch(name):
        return "[not shown]"
    seen = shortened(hidden(name))
    return printable(seen if _BARE.fullmatch(name) else json.dumps(seen, ensure_ascii=False))
