"""A file that is damaged beyond use is set aside under another name, so that a new one can begin.

It is renamed with its log, and nothing in it is changed. That is done only where nothing speaks
against it:

- SQLite finds it malformed, or no database, not once but again when all of it is checked.
- It is ours: it bears our mark, or is the very file that this memory had open. What never was, such
  as the file of another application, is left, and so is one of a newer schema.
- Nobody has it open: another process may well read what it holds. Who reads or writes a file with a
  log keeps a shared lock on it for as long as it is open; so one who can lock it alone is alone.
- It is the file that was checked: of two processes that find it at once, one sets it aside, and the
  other finds that it is gone.
- Nobody is about to open it: SQLite finds a log and a journal by their names, and who had the old file
  in hand would take the new one's for its own. So to open a file one holds a shared lock on its
  directory for that moment, and to rename it an exclusive one.
"""

from __future__ import annotations

import glob
import itertools
import logging
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple
from weakref import WeakSet

from turnout.engine.memory.ids import NoText
from turnout.engine.memory.sqlite.schema import APPLICATION_ID, SCHEMA

if sys.platform != "win32":  # where nobody can know who has a file open: all are left as they are
    import fcntl

LOG: Final = logging.getLogger("turnout")

FileId = tuple[int, int]
"""Which file it is, whatever its name: device and number."""

_READ_IT: Final = "`turnout evictions export --damaged` tells what can still be read of it"
START_ANEW: Final = f"move the file away, and a new one begins; {_READ_IT}"
HEADLESS: Final = "it is empty, and its log is not"
_TRY_AGAIN: Final = "it is whole again: try again"
_SET_ASIDE: Final = "it is set aside, and a new one begins"
_IN_USE: Final = "if it is Turnout's, it is set aside as soon as nobody else has it open"

DAMAGE: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_MAGIC: Final = b"SQLite format 3\0"
_VERSION_AT, _MARK_AT, _HEADER = 60, 68, 100
"""Where a database's first page has its user version and its application id, and how long its header is."""
_SHARED_AT, _SHARED_BYTES = 0x40000002, 510
"""Where SQLite keeps its shared locks."""
_PATIENCE_SECS: Final = 1.0
_ASIDE, _LEFT = ".corrupt-", ".left-"
"""How the names go on of a file that is set aside, and of the log of one that is gone."""
_LOGS: Final = ("-wal", "-shm")
_ALL: Final = ("-journal", *_LOGS, "")

_ONE_AT_A_TIME: Final = threading.Lock()
_OPEN: Final[dict[str, WeakSet[Connection]]] = {}


class Connection(sqlite3.Connection):
    """One that this process knows of: to open and close the file beside it would drop its locks."""

    def __init__(self, name: str, file: Path, **options: Any) -> None:
        with _ONE_AT_A_TIME:
            self._others = _OPEN.setdefault(os.path.realpath(file), WeakSet())
            self._others.add(self)
        try:
            super().__init__(name, **options)
        except BaseException:
            self._leave()
            raise

    def close(self) -> None:
        super().close()
        self._leave()

    def close_as_it_is(self) -> None:
        """Close it, and leave the log: what is damaged in there must not get into the file."""
        self.interrupt()  # the last to close would copy the log, and stops at this
        self.close()

    def _leave(self) -> None:
        with _ONE_AT_A_TIME:
            self._others.discard(self)


def code_of(why: Exception) -> int:
    """SQLite's primary result code; 0 if the error is not SQLite's own."""
    code: int = getattr(why, "sqlite_errorcode", 0)
    return code & 0xFF


def text(stored: bytes) -> str | NoText:
    """A text as it is stored, also one that is damaged: what nobody can read can be removed all the same."""
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return NoText(stored)


@contextmanager
def opening(path: Path) -> Iterator[None]:
    """While the file is being opened, nobody sets it aside."""
    with _directory_locked(Path(os.path.realpath(path)), exclusive=False):
        yield


@contextmanager
def _directory_locked(file: Path, *, exclusive: bool) -> Iterator[bool]:
    """Lock it, unless it cannot be: whoever has it locked for long is at something else."""
    if sys.platform == "win32":
        yield False
        return
    try:
        descriptor = os.open(file.parent, os.O_RDONLY)
    except OSError:
        yield False
        return
    try:
        yield _locked(descriptor, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _locked(descriptor: int, how: int) -> bool:
    patience = time.monotonic() + _PATIENCE_SECS
    while True:
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= patience:
                return False
            time.sleep(0.001)
        except OSError:
            return False
        else:
            return True


def which(path: Path) -> FileId | None:
    """Which file is there."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


class Opened(NamedTuple):
    """A file that is open, with its log and the log's index. Meanwhile no other file can be taken for one."""

    real: Path
    """Where a link leads: beside that is the log."""
    names: tuple[Path, ...]
    files: tuple[FileId | None, ...]
    """What was found by these names."""

    @classmethod
    def at(cls, path: Path, file: FileId | None) -> Opened:
        """That has just been opened.

        Args:
            file: which was there before that: if it was replaced meanwhile, that is noticed later.
        """
        real = Path(os.path.realpath(path))
        logs = _of(real, _LOGS)
        return cls(real, (path, *logs), (file, *map(which, logs)))

    def is_there(self) -> bool:
        """Whether it is what one finds at its path, and its log is too."""
        return which(self.names[0]) == self.files[0] and which(self.names[1]) == self.files[1]

    def make_way(self, what: str) -> None:
        """Leave the path to what is there now, which must not take this one's log for its own.

        Args:
            what: it is, for the log.
        """
        (path, log, _), (file, ours, _) = self.names, self.files
        with _directory_locked(self.real, exclusive=True):
            # where only a link leads elsewhere now, the log stays with its file
            if which(self.real) != file or which(log) != ours:
                found = zip(_LOGS, self.files[1:], map(which, self.names[1:]), strict=True)
                left = [suffix for suffix, had, there in found if had == there is not None]
                _move(self.real, left, _LEFT)
        LOG.warning(
            "%s %s: it was deleted, renamed or replaced; what is there now is used, and what was in its log"
            " is in %s%s…",
            what,
            path,
            self.real,
            _LEFT,
        )


def left_logs(path: Path) -> list[Path]:
    """The logs of files that had the path before, where they were put when those were moved away."""
    file = Path(os.path.realpath(path))
    return sorted(file.parent.glob(f"{glob.escape(file.name + _LEFT)}*-wal"))


def lost_its_head(path: Path) -> bool:
    """Whether it was emptied, and its log was not. SQLite would take it for new, and delete the log."""
    # the log first: a new file has its first page before it has a log
    return has_a_log(path) and _size(path) == 0


def has_a_log(path: Path) -> bool:
    """Whether a part of what it holds may be in its log."""
    file = Path(os.path.realpath(path))
    return _size(file.with_name(f"{file.name}-wal")) > 0


def set_aside(path: Path, *, known: FileId | None) -> str | None:
    """Set a file aside that SQLite finds damaged, if that is safe. No connection of the caller's may be open.

    Args:
        known: the file that the caller had open here.

    Returns:
        What came of it; None if the file is left as it is, for others to see to.
    """
    file = Path(os.path.realpath(path))
    if sys.platform == "win32" or _ASIDE in file.name:
        return None
    try:
        before = _state(file)
        with _alone(file) as descriptor:
            if descriptor is None:
                return _IN_USE
            ours = _bears_our_mark(descriptor, known)
        with opening(file):
            damage, ours = _checked(file, ours)
        if not ours:
            return None
        if not damage:
            return _TRY_AGAIN
        with _alone(file) as descriptor:
            if descriptor is None:
                return _IN_USE
            if _state(file) != before:
                return _TRY_AGAIN
            aside = _move(file, _ALL, _ASIDE)
    except FileNotFoundError:
        return _TRY_AGAIN
    except sqlite3.Error as why:
        return _IN_USE if code_of(why) == sqlite3.SQLITE_BUSY else None
    except OSError:
        return None
    LOG.warning(
        "memory %s: %s; it is set aside as %s, and a new one begins; %s", path, damage, aside, _READ_IT
    )
    return _SET_ASIDE


def _checked(file: Path, ours: bool) -> tuple[str, bool]:
    """What is wrong with all of it, and whether it is ours, where SQLite can read more than the file says."""
    if lost_its_head(file):
        return HEADLESS, True
    checking = Connection(f"{file.as_uri()}?mode=rw", file, uri=True, isolation_level=None, timeout=0)
    try:
        application, version = [
            checking.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
        ]
        if application == APPLICATION_ID:
            ours = version <= SCHEMA
        if not ours:
            return "", False
        (found,) = checking.execute("PRAGMA quick_check(1)").fetchone()
        return "" if found == "ok" else " ".join(found.split()), True
    except sqlite3.DatabaseError as why:
        if code_of(why) not in DAMAGE:
            raise
        return str(why), ours
    finally:
        checking.close_as_it_is()


@contextmanager
def _alone(file: Path) -> Iterator[int | None]:
    """The file, with everybody else kept out of it; None if somebody has it open.

    Nobody opens it meanwhile, and who has just met the damage too is waited for.
    """
    with _directory_locked(file, exclusive=True) as locked:
        patience = time.monotonic() + _PATIENCE_SECS / 5
        while locked:
            with _ONE_AT_A_TIME:
                descriptor = None if _OPEN.get(str(file)) else _locked_alone(file)
                if descriptor is not None:
                    try:
                        yield descriptor
                    finally:
                        os.close(descriptor)
                    return
            if time.monotonic() >= patience:
                break
            time.sleep(0.001)
        yield None


def _locked_alone(file: Path) -> int | None:
    descriptor = os.open(file, os.O_RDWR)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, _SHARED_BYTES, _SHARED_AT)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _bears_our_mark(descriptor: int, known: FileId | None) -> bool:
    header = os.pread(descriptor, _HEADER, 0)
    version, mark = (int.from_bytes(header[at : at + 4]) for at in (_VERSION_AT, _MARK_AT))
    if mark == APPLICATION_ID:
        return version <= SCHEMA
    found = os.fstat(descriptor)
    named = header.startswith(_MAGIC) and len(header) == _HEADER  # then it is another's
    return not named and known == (found.st_dev, found.st_ino)


def _move(file: Path, suffixes: Sequence[str], name: str) -> Path:
    """Rename what there is of it: the log first, since without its file it would be taken for nobody's."""
    stem = f"{file.name}{name}{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    stems = (stem if number == 1 else f"{stem}-{number}" for number in itertools.count(1))
    aside = next(
        path for path in map(file.with_name, stems) if not any(map(os.path.lexists, _of(path, _ALL)))
    )
    moved: list[tuple[Path, Path]] = []
    try:
        for old, new in zip(_of(file, suffixes), _of(aside, suffixes), strict=True):
            if os.path.lexists(old):
                old.rename(new)
                moved.append((old, new))
    except OSError:
        for old, new in moved:
            new.rename(old)
        raise
    return aside


def _of(file: Path, suffixes: Sequence[str]) -> list[Path]:
    return [file.with_name(file.name + suffix) for suffix in suffixes]


def _state(file: Path) -> tuple[object, ...]:
    """What changes whenever the file or its log does."""
    found = file.stat()
    log = file.with_name(f"{file.name}-wal")
    written = log.stat().st_mtime_ns if _size(log) else 0  # SQLite may make an empty one to look at the file
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, _size(log), written


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0
