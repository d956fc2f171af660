"""Audit records as they were kept, in files of JSON lines or of SQLite, read one at a time."""

from __future__ import annotations

import os
import re
import sqlite3
import stat
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import msgspec

from turnout.engine.audit import AuditRecord, decode
from turnout.engine.errors import SinkTrouble
from turnout.engine.sinks.json_lines import RENAMED
from turnout.engine.sinks.sqlite import bodies_in

MAX_LINE: Final = 16_777_216
"""Bytes of one line with its end, so that no file can fill the memory: 16 MiB."""
NAMED: Final = re.compile(r"\.jsonl(\.[0-9][0-9TZ-]*)?$|\.db$")
"""What the files of a folder that are read are called; `records.jsonl.1` is one of them."""
SQLITE: Final = b"SQLite format 3\0"
"""What such a file begins with."""
NO_RECORD: Final = (msgspec.DecodeError, UnicodeError, RecursionError)
"""What is raised for bytes that are none."""


class _Change(msgspec.Struct):
    """What a line of `on_change` is recognised by."""

    identity: msgspec.Raw
    eviction: msgspec.Raw
    why: str


_CHANGE: Final = msgspec.json.Decoder(_Change)


class Line(NamedTuple):
    """A line of a file that should hold records."""

    file: Path
    number: int
    record: AuditRecord | None
    wrong: str = ""
    """Why there is none; empty for a line that holds something else of Turnout's."""
    torn: bool = False
    """It is the last one, and has no end: whoever wrote it was interrupted, or is at it still."""

    @property
    def place(self) -> str:
        """Where it stands: the file and, unless it is all of that, the line."""
        return f"{self.file}:{self.number}" if self.number else str(self.file)


def files_of(path: Path, unreadable: Callable[[OSError], None]) -> list[Path]:
    """A file itself; of a folder, however deep, its files of records by their names, oldest first.

    Args:
        unreadable: told of each folder that cannot be read.
    """

    def is_file(file: Path) -> bool:
        try:
            return file.is_file()
        except OSError as error:
            unreadable(error)
            return False

    if not os.path.isdir(path):  # noqa: PTH112 - what cannot be found out is told when it is opened
        return [path]
    found = [
        Path(folder) / name
        for folder, _, names in os.walk(path, onerror=unreadable)
        for name in names
        if NAMED.search(name)
    ]
    return sorted(filter(is_file, found), key=_age)


def _age(file: Path) -> tuple[str, str, int]:
    """What sorts files with one name by when they were renamed; the one that has the name is the youngest."""
    if renamed := RENAMED.search(str(file)):
        return str(file)[: renamed.start()], renamed[1], int(renamed[2] or 0)
    name, dot, end = str(file).rpartition(".jsonl.")
    return (name + dot[:-1], end, 0) if dot else (str(file), "~", 0)


def lines_of(paths: Iterable[Path]) -> Iterator[Line]:
    """Every line that is not empty, in order; of a SQLite file, every row. What cannot be read is one too.

    A file comes once, however often it is named, and a record once, in however many files it was kept: it is
    known by its writer's number of it, which each has that was kept by a router with sinks.
    """
    read, come = set[tuple[int, int]](), defaultdict[str, Numbers](Numbers)
    for path in paths:
        unreadable: list[OSError] = []
        yield from _new_lines(files_of(path, unreadable.append), read, come, unreadable)
        # a file that was renamed meanwhile has not been read under the name that it had
        again = files_of(path, lambda _: None) if os.path.isdir(path) else []  # noqa: PTH112
        yield from _new_lines(again, read, come, unreadable)
        for why in unreadable:
            where = Path(os.fsdecode(why.filename or path))
            yield Line(where, 0, None, f"cannot be read: {why.strerror}")


def _new_lines(
    files: Iterable[Path],
    read: set[tuple[int, int]],
    come: Mapping[str, Numbers],
    unreadable: list[OSError],
) -> Iterator[Line]:
    """The lines of files that were not read yet, with the records that have not come yet."""
    told = {error.filename for error in unreadable}
    for file in files:
        try:
            with file.open("rb") as opened:
                there = os.fstat(opened.fileno())
                if (which := (there.st_dev, there.st_ino)) in read:
                    continue
                if stat.S_ISREG(there.st_mode):
                    read.add(which)
                of_sqlite = opened.peek(len(SQLITE)).startswith(SQLITE)
                for line in _rows(file) if of_sqlite else _lines(file, opened):
                    record = line.record
                    if record is None or not record.sequence or come[record.writer].add(record.sequence):
                        yield line
        except OSError as error:
            if error.filename not in told:
                unreadable.append(error)


class Numbers:
    """Which numbers have come. They come one after the other for the most part, and are kept as runs."""

    def __init__(self) -> None:
        self._first: list[int] = []
        self._last: list[int] = []

    def add(self, number: int) -> bool:
        """Take one in. Whether it has not come before."""
        place = bisect_right(self._first, number)  # of the run after it
        if place and number <= self._last[place - 1]:
            return False
        follows = place > 0 and number == self._last[place - 1] + 1
        precedes = place < len(self._first) and number == self._first[place] - 1
        if follows and precedes:
            self._last[place - 1] = self._last.pop(place)
            del self._first[place]
        elif follows:
            self._last[place - 1] = number
        elif precedes:
            self._first[place] = number
        else:
            self._first.insert(place, number)
            self._last.insert(place, number)
        return True


def _rows(path: Path) -> Iterator[Line]:
    number = 0
    try:
        for number, body in enumerate(bodies_in(path), 1):
            yield _row(path, number, body)
    except (sqlite3.Error, SinkTrouble) as error:
        yield Line(path, number and number + 1, None, f"cannot be read: {error}")


def _row(path: Path, number: int, body: bytes | sqlite3.Error) -> Line:
    if isinstance(body, sqlite3.Error):
        return Line(path, number, None, f"cannot be read: {body}")
    try:
        return Line(path, number, decode(body))
    except NO_RECORD as error:
        return Line(path, number, None, f"is no record: {error}")


def _lines(path: Path, file: BinaryIO) -> Iterator[Line]:
    number = 0
    while text := file.readline(MAX_LINE):
        number += 1
        if not text.strip():
            continue
        whole = text.endswith(b"\n")
        if not whole and len(text) == MAX_LINE:
            yield Line(path, number, None, f"is longer than {MAX_LINE} bytes")
            while (rest := file.readline(MAX_LINE)) and not rest.endswith(b"\n"):
                pass
            continue
        try:
            yield Line(path, number, decode(text))
        except NO_RECORD as error:
            wrong = "" if _is_a_change(text) else f"is no record: {error}"
            yield Line(path, number, None, wrong, torn=bool(wrong) and not whole)


def _is_a_change(text: bytes) -> bool:
    try:
        _CHANGE.decode(text)
    except NO_RECORD:
        return False
    return True
