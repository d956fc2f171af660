"""What can still be read of a damaged SQLite file.

SQLite reads a table in order until it meets the damage, and from the other end too. Between two
damaged places it is let begin anew, at keys in the middle of what is left. What a table says is
believed only where it is what was asked for: a damaged one may lead to others' rows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from turnout.engine.context import Eviction, Key, SessionContext
from turnout.engine.errors import MemoryTrouble
from turnout.engine.habits import NO_HABITS
from turnout.engine.memory.ids import NoText, kept_namespace, shown_id
from turnout.engine.memory.protocol import Held
from turnout.engine.memory.sqlite.aside import (
    DAMAGE,
    HEADLESS,
    Connection,
    code_of,
    has_a_log,
    lost_its_head,
    text,
)
from turnout.engine.memory.sqlite.rows import Kept, eviction_of, executed, habits_of, named
from turnout.engine.memory.sqlite.schema import APPLICATION_ID, SCHEMA

_UNREADABLE: Final = (*DAMAGE, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_TOOBIG)
"""What SQLite says of a damaged place: of the file, of the disk, of how much is said to be there."""
_IN_VAIN: Final = 8
"""How often what is left between two damaged places is halved while nothing is found in it."""


class _Table(NamedTuple):
    name: str
    key: tuple[str, ...]
    columns: tuple[str, ...]


_WHO: Final = ("namespace", "session", "agent")
_EVICTION: Final = _Table(
    "eviction",
    (*_WHO, "target", "reason", "fingerprint"),
    ("first", "latest_turn", "latest_at", "size", "refused", "machine", "epoch"),
)
_IDENTITY: Final = _Table("identity", _WHO, ("last_use", "habits"))
_OLD_IDENTITY: Final = _IDENTITY._replace(columns=("last_use", "NULL"))
_TARGET: Final = _Table("target", ("namespace", "target", "fingerprint"), ("epoch", "restored_at"))
_OLD_TARGET: Final = _TARGET._replace(columns=("epoch", "NULL"))

_HOLDER: Final = _EVICTION._replace(columns=())
_LAST: Final = b"\xff" * 129
"""Behind every id: the longest that are kept as they are have 128 bytes."""

T = TypeVar("T")
_Row = tuple[Any, ...]
_Place = tuple[Kept, ...]
"""A key, or a part of one."""
_Epoch = tuple[int, float | None]


class Salvage:
    """What a damaged file still holds for one namespace.

    Args:
        ttl_secs: who was used longer ago has expired; where the last use cannot be read, the last
            recording counts.
    """

    def __init__(self, path: Path, namespace: str, *, ttl_secs: float, now: float) -> None:
        self._path = path
        self._namespace = namespace
        self._kept = kept_namespace(namespace)
        self._ttl = ttl_secs
        self._now = now
        self.damaged = False
        """Whether anything cannot be read; it is known when all was told."""

    def __iter__(self) -> Iterator[Held]:
        """Who holds what, as far as it can be read.

        Raises:
            MemoryTrouble: nothing can be: it is no file, no database, or not Turnout's.
        """
        with _opened(self._path) as connection:
            reading = _Reading(connection)
            columns = {
                f"{table}.{name}"
                for table in ("identity", "target")
                for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")
            }
            identities = _IDENTITY if "identity.habits" in columns else _OLD_IDENTITY
            yield from self._held(reading, identities, _epochs(reading, self._kept, columns))
            self.damaged = reading.damaged or not reading.is_whole()

    def _held(self, reading: _Reading, identities: _Table, epochs: dict[_Place, _Epoch]) -> Iterator[Held]:
        used: dict[_Place, float | None] = {}
        for _, session, agent, last_use, habits in reading.rows(identities, (self._kept,), between=True):
            if (session, agent) not in used:
                known = reading.only(float, last_use)
                used[session, agent] = known
                yield from self._of(reading, epochs, session, agent, known, habits)
        for _, session, agent, *_ in reading.rows(_HOLDER, (self._kept,), between=True):
            if (session, agent) not in used:
                used[session, agent] = None
                reading.damaged = True  # its identity was lost
                yield from self._of(reading, epochs, session, agent, None, None)

    def _of(
        self,
        reading: _Reading,
        epochs: dict[_Place, _Epoch],
        session: Kept,
        agent: Kept,
        last_use: float | None,
        column: object,
    ) -> Iterator[Held]:
        identity = named(self._namespace, session, agent)
        if identity is None:
            reading.damaged = True
            return
        evictions: dict[Key, Eviction] = {}
        habits = NO_HABITS
        try:
            habits = habits_of(column)
        except ValueError:
            reading.damaged = True
        rows = list(reading.rows(_EVICTION, (self._kept, session, agent)))
        reading.damaged |= not (rows or column)  # nobody is there who holds nothing
        for row in rows:
            try:
                eviction = eviction_of(row[3:-1])
            except ValueError:
                reading.damaged = True
                continue
            epoch = reading.only(int, row[-1])
            current, since = epochs.get((eviction.target, eviction.fingerprint), (epoch, None))
            if epoch == current or (since is not None and eviction.latest_at > since):
                evictions[eviction.key] = eviction
        if last_use is None:
            last_use = max([eviction.latest_at for eviction in evictions.values()], default=0.0)
        if (evictions or habits) and last_use + self._ttl > self._now:
            yield Held(identity, last_use, SessionContext(evictions.values()).evictions, habits)


def namespaces_in(path: Path) -> list[str]:
    """The namespaces that a file holds anything of, as far as it can be read; a long one as its digest.

    Raises:
        MemoryTrouble: nothing can be: it is no file, no database, or not Turnout's.
    """
    with _opened(path) as connection:
        reading = _Reading(connection)
        found = {
            row[0] for table in (_OLD_IDENTITY, _HOLDER) for row in reading.rows(table, (), between=True)
        }
    named_so = []
    for kept in found:
        with suppress(ValueError):
            named_so.append(shown_id(kept))
    return sorted(named_so)


class _Reading:
    """A file that is read past its damage."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.damaged = False
        """Whether anything was met that cannot be read."""

    def rows(self, table: _Table, begin: _Place, *, between: bool = False) -> Iterator[_Row]:
        """The rows whose key begins so, from both ends until the damage; some may come twice.

        Args:
            between: whether to look for more between two damaged places.
        """
        free = len(table.key) - len(begin)
        first: _Place = ("",) * free
        last: _Place = (_LAST,) * free
        gaps = [(first, last, _IN_VAIN if between else 0)]
        while gaps:
            low, high, tries = gaps.pop()
            up, whole = yield from self._run(table, begin, low, high, "ASC")
            if whole:
                continue
            down, whole = yield from self._run(table, begin, up, high, "DESC")
            if whole:
                continue
            tries = _IN_VAIN if between and (up, down) != (low, high) else tries - 1
            if tries > 0 and (middle := _middle(up, down)) is not None:
                gaps += [(up, middle, tries), (middle, down, tries)]

    def _run(
        self, table: _Table, begin: _Place, low: _Place, high: _Place, direction: str
    ) -> Generator[_Row, None, tuple[_Place, bool]]:
        """The rows between two places in this direction until the damage: how far, and whether all."""
        fixed, free = table.key[: len(begin)], table.key[len(begin) :]
        key, marks = f"({', '.join(free)})", f"({', '.join('?' * len(free))})"
        where = [*(f"{column} = ?" for column in fixed), f"{key} >= {marks}", f"{key} <= {marks}"]
        statement = (
            f"SELECT {', '.join(table.key + table.columns)} FROM {table.name} "  # noqa: S608
            f"WHERE {' AND '.join(where)} ORDER BY {', '.join(f'{column} {direction}' for column in free)}"
        )
        reached = low if direction == "ASC" else high
        try:
            for row in executed(self._connection, statement, (*begin, *low, *high)):
                place = row[len(begin) : len(table.key)]
                asked_for = row[: len(begin)] == begin and all(isinstance(id_, str | bytes) for id_ in place)
                if not asked_for or not _order(low) <= _order(place) <= _order(high):
                    self.damaged = True
                    continue
                if (_order(place) < _order(reached)) is (direction == "ASC") and place != reached:
                    self.damaged = True  # it is out of order
                else:
                    reached = place
                yield row
        except sqlite3.DatabaseError as why:
            if code_of(why) not in _UNREADABLE:
                raise
            self.damaged = True
            return reached, False
        return reached, True

    def only(self, kind: type[T], value: object) -> T | None:
        """A value if it is of this type."""
        if isinstance(value, kind):
            return value
        self.damaged = True
        return None

    def is_whole(self) -> bool:
        """Whether SQLite finds nothing wrong with all of it."""
        try:
            found: _Row = self._connection.execute("PRAGMA quick_check(1)").fetchone()
        except sqlite3.DatabaseError as why:
            if code_of(why) not in _UNREADABLE:
                raise
            return False
        return found == ("ok",)


@contextmanager
def _opened(path: Path) -> Iterator[Connection]:
    """Open it, and change nothing in it or beside it as long as all is in the file itself."""
    try:
        if lost_its_head(path):
            raise MemoryTrouble(f"memory {path}: nothing of it can be read: {HEADLESS}")
        # without a log nobody writes to it, and SQLite needs no files of its own beside it
        how = "mode=ro" if has_a_log(path) else "mode=ro&immutable=1"
        connection = Connection(f"{path.absolute().as_uri()}?{how}", path, uri=True, isolation_level=None)
        try:
            connection.text_factory = text
            # or a file that was cut short is not read at all
            connection.execute("PRAGMA writable_schema = ON")
            _see_that_it_is_ours(connection, path)
            yield connection
        finally:
            connection.close_as_it_is()
    except sqlite3.Error as why:
        raise MemoryTrouble(f"memory {path}: nothing of it can be read: {why}") from why


def _see_that_it_is_ours(connection: Connection, path: Path) -> None:
    mark, version = [
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
    ]
    if mark != APPLICATION_ID or version > SCHEMA:
        raise MemoryTrouble(f"memory {path}: it is none of Turnout's, or of a schema newer than {SCHEMA}")


def _epochs(reading: _Reading, namespace: Kept, columns: set[str]) -> dict[_Place, _Epoch]:
    """How often each target was restored everywhere, and when for the last time."""
    table = _TARGET if "target.restored_at" in columns else _OLD_TARGET
    epochs: dict[_Place, _Epoch] = {}
    for _, target, fingerprint, epoch, since in reading.rows(table, (namespace,), between=True):
        known = reading.only(int, epoch)
        if known is not None:
            epochs[target, fingerprint] = known, None if since is None else reading.only(float, since)
    return epochs


def _order(place: _Place) -> list[tuple[bool, bytes]]:
    """As SQLite orders it: text before bytes, each by its bytes."""
    return [
        (False, part.encode()) if isinstance(part, str) else (not isinstance(part, NoText), part)
        for part in place
    ]


def _middle(low: _Place, high: _Place) -> _Place | None:
    """A place about half way; None if there is none."""
    pairs = zip(_order(low), _order(high), strict=True)
    at = next((at for at, (one, other) in enumerate(pairs) if one != other), None)
    if at is None:
        return None
    (is_blob, begin), (to_blob, end) = _order(low)[at], _order(high)[at]
    if is_blob != to_blob and end:
        half: Kept = b""  # where text ends
    else:
        end = end or b"\xff" * (len(begin) + 1)
        size = max(len(begin), len(end)) + 1
        numbers = [int.from_bytes(part.ljust(size, b"\0")) for part in (begin, end)]
        found = (sum(numbers) // 2).to_bytes(size).rstrip(b"\0")
        half = found if is_blob else NoText(found)
    middle = (*low[:at], half, *[""] * (len(low) - at - 1))
    return middle if _order(low) < _order(middle) < _order(high) else None
