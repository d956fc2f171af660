"""Records as lines of JSON, in a file that begins anew when it is long or old.

Several processes may write to one file, so each line is written, and the file renamed, under a lock on
it. Nothing that is written is ever lost for want of the lock: lines are only appended, and a new name is
reserved before it is used.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import time
from calendar import timegm
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Literal, NamedTuple

from turnout.engine.audit import AuditRecord, encode
from turnout.engine.errors import ConfigurationError
from turnout.engine.memory.protocol import Change
from turnout.engine.sinks.bounds import check

if sys.platform != "win32":  # where an open file can neither be locked so nor renamed: it grows
    import fcntl

LOG: Final = logging.getLogger("turnout")

RENAMED: Final = re.compile(r"\.([0-9]{8}T[0-9]{6}Z)(?:-([0-9]{6,}))?\Z")
"""How the name goes on of a file that was renamed: when, and the how many-eth of that second, from 0."""

_STAMP: Final = "%Y%m%dT%H%M%SZ"
_LONGEST: Final = 255 - len(".20261201T101500Z-000001")
"""Bytes of a name that can go on so."""
_PATIENCE_SECS: Final = 1.0
"""How long a line waits for a lock: whoever has it for longer is stopped, or at something else."""
_TRIES: Final = 20
"""How often a file is opened again that was renamed before it was locked."""


class JsonLines:
    """Appends each record, or change, to a file, a line of JSON each.

    Pass it as one of a router's `sinks`, or as `on_record`. The file is created with mode 0600 in a folder
    that exists. Several processes may append to the same file, and any thread may. What is long or old
    enough is renamed, `records.jsonl` to `records.jsonl.20261201T101500Z`, and a new file begins; where that
    fails it is logged, and the file goes on; on Windows none is renamed. A file is as old as the end of its
    first turn, or as the last renaming if that was later.

    Args:
        path: the file; where a link leads is found out once.
        max_bytes: how long a file becomes; without it, it grows.
        max_age_secs: how old it becomes, in seconds since it was begun.
        keep: how many of the renamed files are left; all, where none is given.
        fsync: `always`, so that a line survives a loss of power; that takes milliseconds, so it is for a
            sink beside the turns.

    Raises:
        ConfigurationError: a bound that is none; a name too long to be renamed.
        OSError: the file cannot be opened or written.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        max_bytes: int | None = None,
        max_age_secs: float | None = None,
        keep: int | None = None,
        fsync: Literal["never", "always"] = "never",
    ) -> None:
        check("JsonLines", whole={"max_bytes": max_bytes, "keep": keep}, secs={"max_age_secs": max_age_secs})
        if fsync not in ("never", "always"):
            raise ConfigurationError(f"JsonLines: fsync is {fsync!r}; give never or always")
        self.path = _resolved(Path(path))
        bounded = max_bytes is not None or max_age_secs is not None
        if bounded and len(os.fsencode(self.path.name)) > _LONGEST:
            raise ConfigurationError(
                f"JsonLines: {self.path.name} is too long a name for one that is renamed;"
                f" give one of at most {_LONGEST} bytes"
            )
        self._max_bytes = max_bytes
        self._max_age = max_age_secs
        self._keep = keep
        self._fsync = fsync == "always"
        self._told = False
        self._ended_at: _End | None = None
        """Where the last line that was written here ends."""
        os.close(self._open())  # a path that cannot be used is told now, not turn by turn

    def __call__(self, what: AuditRecord | Change) -> None:
        line = encode(what) + b"\n"
        while True:
            with self._opened() as file:
                begins_anew = file.alone and self._is_full(file, len(line)) and self._set_aside()
                if not begins_anew:
                    self._append(file, line)
                    return

    def _open(self) -> int:
        return os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)

    @contextmanager
    def _opened(self) -> Iterator[_Opened]:
        """The file that has the name, locked."""
        for tries_left in reversed(range(_TRIES)):
            file = self._open()
            try:
                locked = _lock(file)
                found = os.fstat(file)
                there = self._has_the_name(found)
                if there or not tries_left:
                    end = _End(found.st_dev, found.st_ino, found.st_size)
                    yield _Opened(file, end, locked and there)
                    return
            finally:
                os.close(file)

    def _has_the_name(self, file: os.stat_result) -> bool:
        try:
            return os.path.samestat(file, self.path.stat())
        except FileNotFoundError:
            return False

    def _append(self, file: _Opened, line: bytes) -> None:
        # what a full disk or the end of a process has cut off must not spoil the line that comes after it
        if file.size and file.end != self._ended_at:
            os.lseek(file.descriptor, -1, os.SEEK_END)
            line = b"\n" * (os.read(file.descriptor, 1) != b"\n") + line
        self._ended_at, length = None, len(line)
        while line:
            line = line[os.write(file.descriptor, line) :]
        self._ended_at = file.end._replace(size=file.size + length)
        if self._fsync:
            os.fsync(file.descriptor)

    def _is_full(self, file: _Opened, more: int) -> bool:
        """Whether the file is to begin anew before so many bytes are added."""
        if not file.size:
            return False
        if self._max_bytes is not None and file.size + more > self._max_bytes:
            return True
        return self._max_age is not None and self._is_old(file.descriptor, self._max_age)

    def _is_old(self, file: int, max_age: float) -> bool:
        now = time.time()
        if now - _ended(file) < max_age:
            return False
        # a turn may have ended long before it came to be written: then it was begun when the last was renamed
        try:
            return not any(now - max_age < renamed.at <= now for renamed in self._renamed()[-1:])
        except OSError:  # that is told where it is renamed
            return True

    def _set_aside(self) -> bool:
        """Give the file another name, and remove those that are too many. Whether another one can begin."""
        name = None
        try:
            name = self._reserved()
            self.path.replace(name)
        except OSError as error:
            if name is not None:
                with suppress(OSError):
                    if not name.stat().st_size:  # else it was renamed, whatever was told
                        name.unlink()
            self._tell("it cannot be renamed, and goes on", error)
            return False
        try:
            for old in self._renamed()[: -self._keep] if self._keep else ():
                old.path.unlink(missing_ok=True)
        except OSError as error:
            self._tell("an older one cannot be removed", error)
        else:
            self._told = False
        return True

    def _reserved(self) -> Path:
        """A name after all others that it had before. Nobody else can take it: there is a file, an empty one.

        Raises:
            OSError: there can be none.
        """
        stamp, number = time.strftime(_STAMP, time.gmtime()), 0
        if (renamed := self._renamed()) and renamed[-1].stamp >= stamp:
            stamp, number = renamed[-1].stamp, renamed[-1].number + 1  # or the clock went back
        while True:
            name = self.path.with_name(f"{self.path.name}.{stamp}{f'-{number:06}' if number else ''}")
            try:
                os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            except FileExistsError:  # what is no file, or one of somebody without the lock
                number += 1
            else:
                return name

    def _renamed(self) -> list[_Renamed]:
        """The files that had the name before, oldest first."""
        found = []
        with os.scandir(self.path.parent) as entries:
            for entry in entries:
                end = RENAMED.fullmatch(entry.name.removeprefix(self.path.name))
                if end and entry.name.startswith(self.path.name) and entry.is_file(follow_symlinks=False):
                    found.append(_Renamed(end[1], int(end[2] or 0), self.path.with_name(entry.name)))
        return sorted(found)

    def _tell(self, what: str, error: OSError) -> None:
        if not self._told:
            LOG.warning("records %s: %s: %s", self.path, what, error.strerror)
        self._told = True


class _End(NamedTuple):
    """Which file, and how long it is."""

    device: int
    file: int
    size: int


class _Opened(NamedTuple):
    """The file, open."""

    descriptor: int
    end: _End
    alone: bool
    """Whether everybody else is kept out of it, and it still has the name."""

    @property
    def size(self) -> int:
        return self.end.size


class _Renamed(NamedTuple):
    """A file that had the name before."""

    stamp: str
    number: int
    path: Path

    @property
    def at(self) -> float:
        """When it was renamed, in seconds since 1970; long ago, where its name tells no time."""
        try:
            return timegm(time.strptime(self.stamp, _STAMP))
        except ValueError:
            return 0.0


def _resolved(path: Path) -> Path:
    """Where it leads, once for all: neither another working directory nor a renaming changes that."""
    path = path.absolute()
    # what stands behind a pipe or a terminal, as behind /dev/stdout, has no name of its own
    return path if path.exists() and not path.is_file() else Path(os.path.realpath(path))


def _lock(file: int) -> bool:
    """Keep everybody else out until it is closed. Whether that could be done."""
    if sys.platform == "win32":
        return False
    patience = time.monotonic() + _PATIENCE_SECS
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= patience:
                return False
            time.sleep(0.0005)
        except OSError:  # a file system without locks: then whoever writes there is alone
            return True
        else:
            return True


def _ended(file: int) -> float:
    """When the first turn of a file ended, or its first change was; now, where the line tells none."""
    os.lseek(file, 0, os.SEEK_SET)
    first = os.read(file, 65_536).partition(b"\n")[0]
    started = _number(first, b'"started":')
    if started is None:
        started = _number(first, b'"at":')
    return time.time() if started is None else started + (_number(first, b'"took":') or 0.0)


def _number(line: bytes, key: bytes) -> float | None:
    """What stands behind the first such key."""
    with suppress(ValueError):
        return float(re.split(rb"[,}]", line.partition(key)[2], maxsplit=1)[0])
    return None
