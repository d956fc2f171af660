"""Audit records as they were kept, in files of JSON lines or of SQLite, read one at a time."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import msgspec

from turnout.engine.audit import AuditRecord, decode
from turnout.engine.sinks.sqlite import records_in

MAX_LINE: Final = 16_777_216
"""Bytes of one line with its end, so that no file can fill the memory: 16 MiB."""
NAMED: Final = re.compile(r"\.jsonl(\.[0-9][0-9TZ-]*)?$|\.db$")
"""What the files of a folder that are read are called; `records.jsonl.1` is one of them."""
SQLITE: Final = b"SQLite format 3\0"
"""What such a file begins with."""


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
    """A file itself; of a folder, however deep, its files of records by their names.

    Args:
        unreadable: told of each folder that cannot be read.
    """
    if not path.is_dir():
        return [path]
    found = [
        Path(folder) / name
        for folder, _, names in os.walk(path, onerror=unreadable)
        for name in names
        if NAMED.search(name)
    ]
    # what was renamed is older than what now has the name: "." comes before "~"
    return sorted((file for file in found if file.is_file()), key=lambda file: f"{file}~")


def lines_of(paths: Iterable[Path]) -> Iterator[Line]:
    """Every line that is not empty, in order; of a SQLite file, every row. What cannot be read is one too."""
    for path in paths:
        unreadable: list[OSError] = []
        for file in files_of(path, unreadable.append):
            try:
                with file.open("rb") as opened:
                    if opened.peek(len(SQLITE)).startswith(SQLITE):
                        yield from _rows(file)
                    else:
                        yield from _lines(file, opened)
            except OSError as error:
                unreadable.append(error)
        for why in unreadable:
            where = Path(os.fsdecode(why.filename or path))
            yield Line(where, 0, None, f"cannot be read: {why.strerror}")


def _rows(path: Path) -> Iterator[Line]:
    number = 0
    try:
        for number, record in enumerate(records_in(path), 1):
            yield Line(path, number, record)
    except (sqlite3.Error, msgspec.DecodeError) as error:
        yield Line(path, number + 1, None, f"is no record: {error}")


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
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            wrong = "" if _is_a_change(text) else f"is no record: {error}"
            yield Line(path, number, None, wrong, torn=bool(wrong) and not whole)


def _is_a_change(text: bytes) -> bool:
    try:
        _CHANGE.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True
