"""A memory in one SQLite file, shared by every process of a host.

Reads run on the event loop: a look-up by key costs less than a hop to a thread. They
never wait for a lock; should one be in the way, that read moves to the worker. Writes run
on the worker, the one thread that may block. Whatever has gathered while it wrote goes
into its next transaction, so a hundred turns that evict at once pay for one commit.

A file of a newer schema is read by the columns that this version knows. Its rows are
added to and removed, but none is rewritten: what its newer columns mean is not known here.
"""

from __future__ import annotations

import asyncio
import math
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, Final, Generic, Literal, ParamSpec, TypeVar

import msgspec

from turnout.engine.context import EMPTY, Eviction, Identity, SessionContext
from turnout.engine.errors import ConfigurationError, MemoryRefusal, MemoryTrouble
from turnout.engine.habits import NO_HABITS, Habits
from turnout.engine.health import Health
from turnout.engine.memory.ids import NoText, kept_id, kept_ids, kept_namespace, shown, shown_id
from turnout.engine.memory.protocol import Change, Held, Page, Swept
from turnout.engine.memory.sqlite import schema as sql
from turnout.engine.memory.sqlite.aside import (
    DAMAGE,
    HEADLESS,
    START_ANEW,
    Connection,
    Opened,
    code_of,
    lost_its_head,
    opening,
    set_aside,
    text,
    which,
)
from turnout.engine.memory.sqlite.log import keep_a_log, pragma
from turnout.engine.memory.sqlite.rows import (
    Kept,
    column_of,
    eviction_of,
    executed,
    habits_of,
    learnt_of,
    named,
    row_of,
)
from turnout.engine.memory.sqlite.sweep import EVER, Pass, after
from turnout.engine.memory.stripped import Learnt, keys_of, learn
from turnout.engine.memory.values import health_in, json_of
from turnout.machines.vocabulary import TurnoutError

T = TypeVar("T")
P = ParamSpec("P")
Durability = Literal["process", "full"]
_Failure = tuple[Exception, str | None]
"""Why something failed, and what came of that."""

_LISTED_AT_ONCE: Final = 64
"""How many identities are listed before the worker turns to what waits."""
_FORGOTTEN_AT_ONCE: Final = 256
"""How many agents of a session are forgotten in one write."""
_LOOK_EVERY_SECS: Final = 1.0
"""How long a file that was deleted, renamed or replaced is read on at most."""
_TRIES: Final = 3
"""How often a write is done that went into a file which was replaced meanwhile."""
_Written = str | tuple[str, bool]
"""An id in a cursor: text, or bytes in hexadecimal and whether they are kept as text."""
_CURSOR: Final = msgspec.json.Decoder(tuple[_Written, _Written])
_ENCODE: Final = msgspec.json.Encoder().encode

_WHAT_TO_DO: Final = {
    sqlite3.SQLITE_BUSY: "another process holds its lock: try again, or end that process",
    sqlite3.SQLITE_CORRUPT: START_ANEW,
    sqlite3.SQLITE_ERROR: "its tables are not those that Turnout makes: give another path",
    sqlite3.SQLITE_FULL: "make room: nothing needs to be restarted",
    sqlite3.SQLITE_NOTADB: "give another path, or move that file away",
}
_IT_GOES: Final = "it goes with what is recorded in its place, or with its session: forget that"
_NO_TEXT: Final = "Could not decode to UTF-8"
_SEE_TO_ACCESS: Final = "see that the file and its directory can be read and written"

_SYNCHRONOUS: Final[dict[Durability, str]] = {"process": "NORMAL", "full": "FULL"}


class _Unusable(TurnoutError):
    """What SQLite has no error for."""

    def __init__(self, why: str, what_to_do: str) -> None:
        super().__init__(why)
        self.what_to_do = what_to_do


class _Refusal(_Unusable):
    """What concerns only what was asked for."""


class _Headless(_Unusable):
    """It was emptied, and its log is there still."""


# ValueError and OverflowError: text that is no Unicode, a number that is no SQLite integer
_TROUBLES: Final = (sqlite3.Error, OSError, ValueError, OverflowError, _Unusable)


class _Job(Generic[T]):
    """One accepted write, and what came of it."""

    __slots__ = ("_work", "error", "result")

    result: T

    def __init__(self, work: Callable[[sqlite3.Connection], T]) -> None:
        self._work = work
        self.error: Exception | None = None

    def run(self, connection: sqlite3.Connection) -> None:
        """Do the work within the transaction. If it fails, it alone is undone."""
        self.error = None
        connection.execute("SAVEPOINT job")
        try:
            self.result = self._work(connection)
        except Exception as why:
            if not connection.in_transaction:  # SQLite has undone everything already
                raise
            connection.execute("ROLLBACK TO job")
            self.error = why
        connection.execute("RELEASE job")


class SqliteMemory:
    """Evictions, habits, refused keys and targets' health in a SQLite file.

    Nothing is opened before the first use; one event loop uses it.

    Args:
        path: the file; it is made, readable by its owner only, where there is none.
        ttl_secs: how long an identity is remembered after its last use, and a target's refused keys
            after the last refusal, in seconds.
        max_sessions: how many sessions of a namespace a sweep leaves, the most recently used ones.
        durability: what a recorded eviction survives: `process`, the death of the process; `full`, a
            power loss as well, at several times the cost.

    Raises:
        ConfigurationError: another durability.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        ttl_secs: float = 86400.0,
        max_sessions: int = 1_000_000,
        durability: Durability = "process",
    ) -> None:
        if durability not in _SYNCHRONOUS:
            raise ConfigurationError(
                f"memory {os.fspath(path)}: durability is {durability!r}; give {' or '.join(_SYNCHRONOUS)}"
            )
        self._path = Path(path).absolute()
        self._ttl = ttl_secs
        self._touch_after = min(3600.0, ttl_secs / 10)
        self._max_sessions = max_sessions
        self._passes: dict[str, Pass] = {}  # of sweeps, by namespace; used on the worker only
        # no mmap_size: after each write the other connection would unmap everything, for more than a read
        self._pragmas: dict[str, str | int] = {
            "busy_timeout": 2000,
            "synchronous": _SYNCHRONOUS[durability],
        }
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="turnout-memory")
        self._jobs: deque[_Job[Any]] = deque()
        self._writing: Connection | None = None  # used on the worker only
        self._reading: Connection | None = None  # opened on the worker, used on the loop
        self._at_it = threading.Lock()  # held by the loop to use it, and by the worker to take it away
        self._opening: asyncio.Task[_Failure | None] | None = None
        self._had: Opened | None = None  # what was opened last
        self._look_at = -math.inf  # when a read sees next whether that is there still, in monotonic time
        self._newer = False  # whether the file is of a newer schema, as seen last
        self._closed = False

    async def read(self, identity: Identity, *, now: float) -> SessionContext:
        whose = (*kept_ids(identity), self._ttl, now)
        rows = await self._select("read", sql.READ_ALL, (*whose, *whose))
        if not rows:
            return EMPTY
        session = kept_id(identity.session)
        try:
            habits = NO_HABITS if rows[-1][0] is not None else self._used_to(session, rows.pop()[1])
            return SessionContext(self._understood(session, rows), habits)
        except _Refusal as why:
            raise self._trouble("read", why) from why

    async def record(
        self, identity: Identity, eviction: Eviction, *, used: float | None = None
    ) -> tuple[Change, ...]:
        now = eviction.latest_at if used is None else used
        return await self._write(
            "record", lambda connection: self._record(connection, identity, eviction, now)
        )

    async def settle(self, identity: Identity, habits: Habits, *, now: float) -> tuple[Change, ...]:
        return await self._write("settle", lambda connection: self._settle(connection, identity, habits, now))

    async def touch(self, identity: Identity, *, now: float) -> None:
        ids = kept_ids(identity)
        due = (*ids, self._ttl, now, self._touch_after, now)
        if await self._select("touch", sql.DUE, due):
            await self._write("touch", lambda connection: self._touch(connection, ids, now))

    async def remove(
        self, identity: Identity, evictions: Sequence[Eviction], *, now: float, why: str
    ) -> tuple[Change, ...]:
        read = {(e.key, e.latest_turn) for e in evictions}

        def remove(connection: sqlite3.Connection) -> tuple[Change, ...]:
            ids = kept_ids(identity)
            known = self._readable(connection, ids, now)
            going = [e for e in known if (e.key, e.latest_turn) in read]
            connection.executemany(sql.REMOVE, [(*ids, *eviction.key) for eviction in going])
            connection.execute(sql.LEAVE, ids)
            return tuple(Change(now, shown(identity), eviction, why) for eviction in going)

        return await self._write("remove", remove)

    async def forget(
        self, namespace: str, session: str, agent: str | None = None, *, now: float
    ) -> tuple[Change, ...]:
        changes: list[Change] = []
        only = None if agent is None else kept_id(agent)
        place: Kept | None = only or ""
        while place is not None:  # in parts, so that no other write waits for more than one
            part = partial(self._forget, namespace, kept_id(session), only, place, now)
            gone, place = await self._write("forget", part)
            changes += gone
        return tuple(changes)

    async def restore_everywhere(self, namespace: str, target: str, fingerprint: str, *, now: float) -> None:
        def restore(connection: sqlite3.Connection) -> None:
            if self._newer:
                raise _Refusal(
                    f"it is of schema {_version(connection)}, and {sql.SCHEMA} is the newest known here",
                    "restore the target with the version of Turnout that made it so",
                )
            connection.execute(sql.NEW_EPOCH, (kept_namespace(namespace), target, fingerprint, now))

        await self._write("restore everywhere", restore)

    async def stripped(
        self, namespace: str, target: str, fingerprint: str, configuration: str, *, now: float
    ) -> frozenset[str]:
        verb = "read what was stripped"
        rows = await self._select(verb, sql.STRIPPED, (kept_namespace(namespace), target, fingerprint))
        try:
            learnt = self._learnt(target, rows)
        except _Refusal as why:
            raise self._trouble(verb, why) from why
        return keys_of(learnt, configuration, now=now, ttl_secs=self._ttl)

    async def strip(
        self,
        namespace: str,
        target: str,
        fingerprint: str,
        configuration: str,
        keys: frozenset[str],
        *,
        now: float,
    ) -> None:
        def strip(connection: sqlite3.Connection) -> None:
            key = (kept_namespace(namespace), target, fingerprint)
            try:
                known = self._learnt(target, connection.execute(sql.STRIPPED, key))
            except _Refusal:  # what is learnt now takes the place of what nobody can read
                known = {}
            learnt = learn(known, configuration, keys, now=now, ttl_secs=self._ttl)
            connection.execute(sql.FIRST_STRIP if self._newer else sql.STRIP, (*key, column_of(learnt)))

        await self._write("keep what was stripped", strip)

    async def health(self, namespace: str, targets: Sequence[tuple[str, str]]) -> tuple[Health, ...]:
        space, found = kept_namespace(namespace), list[Health]()
        for target in targets:
            rows = await self._select("read health", sql.HEALTH, (space, *target))
            found.append(health_in(rows[0][0] if rows else None))
        return tuple(found)

    async def change_health(
        self, namespace: str, target: str, fingerprint: str, change: Callable[[Health], Health]
    ) -> Health:
        key = (kept_namespace(namespace), target, fingerprint)

        def swap(connection: sqlite3.Connection) -> Health:
            row = connection.execute(sql.HEALTH, key).fetchone()
            known = health_in(row[0] if row else None)
            changed = change(known)
            if changed != known and not self._newer:
                connection.execute(sql.CHANGE_HEALTH, (*key, json_of(changed).decode()))
            return changed

        return await self._write("keep health", swap)

    async def held(
        self,
        namespace: str,
        session: str | None = None,
        *,
        now: float,
        cursor: str = "",
        most: int = 1000,
    ) -> Page:
        only = None if session is None else kept_id(session)
        held: list[Held] = []
        seen, most = 0, max(most, 1)
        while seen < most:  # in parts, so that no write waits for more than one
            some = min(most - seen, _LISTED_AT_ONCE)
            part, cursor = await self._ask("list", self._list, namespace, only, cursor, some, now)
            held += part
            seen += some
            if not cursor:
                break
        return Page(tuple(held), cursor)

    async def sweep(self, namespace: str, *, now: float, most: int = 1000) -> Swept:
        def step(connection: sqlite3.Connection) -> Swept:
            sweep = self._passes.pop(namespace, None) or Pass(
                namespace, ttl_secs=self._ttl, max_sessions=self._max_sessions
            )
            swept, ended = sweep.step(connection, now=now, most=most)
            if not ended:  # nor failed: then the next pass begins anew
                self._passes[namespace] = sweep
            return swept

        return await self._write("sweep", step)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            await self._on_worker(self._let_go)
        finally:
            self._worker.shutdown(wait=False)

    # -- the work of a write, on the worker and within its transaction

    def _record(
        self, connection: sqlite3.Connection, identity: Identity, eviction: Eviction, now: float
    ) -> tuple[Change, ...]:
        ids = kept_ids(identity)
        changes = self._expire(connection, identity, now)
        # one that is damaged is replaced: it tells nobody anything
        for known in self._readable(connection, ids, now):
            if known.key == eviction.key:
                if self._newer:
                    return changes
                eviction = known.merge(eviction)
        key = (ids[0], eviction.target, eviction.fingerprint)
        epoch = connection.execute(sql.EPOCH, key).fetchone()
        connection.execute(sql.RECORD, (*ids, *row_of(eviction), epoch[0] if epoch else 0))
        connection.execute(sql.FIRST_USE if self._newer else sql.USE, (*ids, now))
        return changes

    def _settle(
        self, connection: sqlite3.Connection, identity: Identity, habits: Habits, now: float
    ) -> tuple[Change, ...]:
        ids = kept_ids(identity)
        changes = self._expire(connection, identity, now)
        connection.execute(sql.FIRST_USE if self._newer else sql.USE, (*ids, now))
        known = self._habits(connection, ids)
        if not self._newer:
            connection.execute(sql.SETTLE, (json_of(known.merge(habits)).decode(), *ids))
        return changes

    def _unsettle(self, connection: sqlite3.Connection, ids: tuple[Kept, Kept, Kept], now: float) -> None:
        """Forget the habits of until then."""
        row = executed(connection, sql.HABITS, ids).fetchone()
        if row is not None and row[0] is not None and not self._habits(connection, ids).since(now):
            executed(connection, sql.SETTLE, (None, *ids))

    def _expire(self, connection: sqlite3.Connection, identity: Identity, now: float) -> tuple[Change, ...]:
        """Remove what an identity holds, if it has expired."""
        ids = kept_ids(identity)
        if connection.execute(sql.EXPIRED, (*ids, self._ttl, now)).fetchone() is None:
            return ()
        expired = self._readable(connection, ids, EVER)
        connection.execute(sql.FORGET_EVICTIONS, ids)
        connection.execute(sql.FORGET, ids)
        return tuple([Change(now, shown(identity), gone, "expired") for gone in expired])

    def _touch(self, connection: sqlite3.Connection, ids: tuple[str | bytes, ...], now: float) -> None:
        if not self._newer:
            connection.execute(sql.TOUCH, (now, *ids))

    def _forget(
        self,
        namespace: str,
        session: Kept,
        only: Kept | None,
        place: Kept,
        now: float,
        connection: sqlite3.Connection,
    ) -> tuple[list[Change], Kept | None]:
        """Forget the agents of a session from a place on, or only the one there; and where to go on."""
        changes: list[Change] = []
        most = _FORGOTTEN_AT_ONCE if only is None else 1
        space = kept_namespace(namespace)
        rows = executed(connection, sql.IDENTITIES_OF, (space, session, place, most)).fetchall()
        for _, agent, last_use in rows:
            if only is not None and agent != only:
                return [], None
            ids = (space, session, agent)
            if (identity := named(namespace, session, agent)) is not None:
                why = "expired" if last_use + self._ttl <= now else "forgotten"
                going = [e for e in self._readable(connection, ids, EVER) if e.latest_at <= now]
                changes += [Change(now, identity, eviction, why) for eviction in going]
            executed(connection, sql.FORGET_UNTIL, (*ids, now))
            self._unsettle(connection, ids, now)
            executed(connection, sql.LEAVE, ids)
        return changes, after(rows[-1][1]) if only is None and len(rows) == most else None

    def _list(
        self,
        connection: sqlite3.Connection,
        namespace: str,
        only: Kept | None,
        cursor: str,
        most: int,
        now: float,
    ) -> tuple[list[Held], str]:
        space, (session, agent) = kept_namespace(namespace), _place(cursor)
        if only is None:
            rows = executed(connection, sql.IDENTITIES, (space, session, agent, most)).fetchall()
        else:
            rows = executed(connection, sql.IDENTITIES_OF, (space, only, agent, most)).fetchall()
        held = []
        for session, agent, last_use in rows:
            if (who := named(namespace, session, agent)) is None:
                continue  # nobody can ask for it, and a sweep removes it
            if last_use + self._ttl <= now:
                continue
            ids = (space, session, agent)
            found = connection.execute(sql.READ, (*ids, self._ttl, now)).fetchall()
            evictions, habits = self._understood(session, found), self._habits(connection, ids)
            if evictions or habits:
                held.append(Held(who, last_use, SessionContext(evictions).evictions, habits))
        return held, _cursor(session, after(agent)) if len(rows) == most else ""

    def _readable(
        self, connection: sqlite3.Connection, ids: tuple[str | bytes, ...], now: float
    ) -> list[Eviction]:
        """What stands of an identity, as far as it can be read."""
        evictions = []
        for row in connection.execute(sql.READ, (*ids, self._ttl, now)).fetchall():
            with suppress(ValueError):
                evictions.append(eviction_of(row))
        return evictions

    def _understood(self, session: Kept, rows: Iterable[tuple[Any, ...]]) -> list[Eviction]:
        """The evictions that rows say.

        Raises:
            _Refusal: one of them is damaged.
        """
        evictions = []
        for row in rows:
            try:
                evictions.append(eviction_of(row))
            except ValueError as why:
                self._refuse_damage(f"target {row[0]!r} in session {shown_id(session)!r}", why)
        return evictions

    def _habits(self, connection: sqlite3.Connection, ids: tuple[str | bytes, ...]) -> Habits:
        """What of an identity's habits can be read."""
        row = executed(connection, sql.HABITS, ids).fetchone()
        with suppress(ValueError):
            return habits_of(row[0] if row else None)
        return NO_HABITS

    def _used_to(self, session: Kept, column: object) -> Habits:
        """The habits that a column says.

        Raises:
            _Refusal: it is damaged.
        """
        try:
            return habits_of(column)
        except ValueError as why:
            self._refuse_damage(f"session {shown_id(session)!r}", why)
        return NO_HABITS

    def _learnt(self, target: str, rows: Iterable[tuple[str | None]]) -> Learnt:
        for (column,) in rows:  # at most one
            try:
                return {} if column is None else learnt_of(column)
            except ValueError as why:
                self._refuse_damage(f"target {target!r}", why)
        return {}

    def _refuse_damage(self, whose: str, why: ValueError) -> None:
        """A row that is not understood is damaged, unless the file is of a newer schema."""
        if not self._newer:
            raise _Refusal(f"a row of {whose} is damaged: {why}", _IT_GOES) from why

    # -- on the event loop

    async def _select(self, verb: str, statement: str, parameters: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        try:
            gone = time.monotonic() >= self._look_at and self._is_gone()
            if (gone or self._reading is None) and not self._closed and self._is_nowhere():
                return []  # to look makes no file
            while True:  # by the time the worker has opened it, it may have been let go of again
                self._refuse_if_closed()
                with self._at_it:
                    if self._reading is not None and not gone:
                        return self._reading.execute(statement, parameters).fetchall()
                failed, gone = await self._opened(), False
                if failed is not None:
                    raise self._trouble(verb, *failed) from failed[0]
        except _TROUBLES as why:
            if code_of(why) == sqlite3.SQLITE_BUSY:
                return await self._ask(verb, lambda it: it.execute(statement, parameters).fetchall())
            raise self._trouble(verb, why, await self._open_anew(why)) from why

    def _is_nowhere(self) -> bool:
        """Whether there is no file, and could be one."""
        return not self._path.exists() and self._path.parent.is_dir()

    def _is_gone(self) -> bool:
        """Whether the file that is open was deleted, renamed or replaced."""
        self._look_at = time.monotonic() + _LOOK_EVERY_SECS
        return self._had is not None and not self._had.is_there()

    async def _ask(
        self,
        verb: str,
        work: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **named: P.kwargs,
    ) -> T:
        """Read on the worker what may take a while."""
        try:
            self._refuse_if_closed()
            return await self._on_worker(lambda: work(self._open(), *args, **named))
        except _TROUBLES as why:
            raise self._trouble(verb, why, await self._open_anew(why)) from why

    async def _write(self, verb: str, work: Callable[[sqlite3.Connection], T]) -> T:
        job = _Job(work)
        try:
            self._refuse_if_closed()
            self._jobs.append(job)
            await self._on_worker(self._drain)
            if job.error is not None:
                raise job.error
        except _TROUBLES as why:
            raise self._trouble(verb, why, await self._open_anew(why)) from why
        return job.result

    async def _opened(self) -> _Failure | None:
        """Have the file opened: all who wait for that wait for one attempt. Why it failed, if it did."""
        if self._opening is None or self._opening.done():
            self._opening = asyncio.get_running_loop().create_task(self._attempt())
        return await asyncio.shield(self._opening)

    async def _attempt(self) -> _Failure | None:
        try:
            self._refuse_if_closed()
            await self._on_worker(self._open)
        except _TROUBLES as why:
            return why, await self._open_anew(why)
        return None

    async def _open_anew(self, why: Exception) -> str | None:
        """After trouble the next use opens the file again: it may have been replaced to mend it.

        Returns:
            What came of it if it was damaged.
        """
        return None if self._closed else await self._on_worker(lambda: self._see_to_it(why))

    async def _on_worker(self, work: Callable[[], T]) -> T:
        # shielded: what was accepted is done, whether or not the caller stays for it
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._worker, work))

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise _Unusable("it was closed", "open another memory on the same file")

    def _trouble(self, verb: str, why: Exception, done: str | None = None) -> MemoryTrouble:
        if isinstance(why, sqlite3.OperationalError) and _NO_TEXT in str(why):
            why = _Refusal("a row is damaged: it holds text that is no UTF-8", _IT_GOES)  # nor is that told
        refused = isinstance(why, (_Refusal, ValueError, OverflowError))
        if done is not None:
            what_to_do = done
        elif isinstance(why, _Unusable):
            what_to_do = why.what_to_do
        elif isinstance(why, (ValueError, OverflowError)):
            what_to_do = "give text that is valid Unicode, and sizes below 2 ** 63"
        else:
            what_to_do = _WHAT_TO_DO.get(code_of(why), _SEE_TO_ACCESS)
        kind = MemoryRefusal if refused else MemoryTrouble
        return kind(f"memory {self._path}: could not {verb}: {why}; {what_to_do}")

    # -- on the worker

    def _drain(self) -> None:
        """Do every write that waits, in one transaction."""
        group = [self._jobs.popleft() for _ in range(len(self._jobs))]
        if not group:
            return
        try:
            for _ in range(_TRIES):
                if self._done(group):
                    return
            raise _Unusable("it is replaced again and again", "leave it in its place")
        except Exception as why:  # noqa: BLE001  # it is raised where each of the group is awaited
            for job in group:
                job.error = why
            self._let_go(as_it_is=True)

    def _done(self, group: Iterable[_Job[Any]]) -> bool:
        """Do these writes; whether the file that they are in is the one that others find."""
        connection = self._open()
        connection.execute("BEGIN IMMEDIATE")
        self._newer = _version(connection) > sql.SCHEMA
        for job in group:
            job.run(connection)
        connection.execute("COMMIT")
        return not self._is_gone()

    def _open(self) -> Connection:
        if self._writing is not None and self._had is not None and not self._had.is_there():
            self._had.make_way("memory")
            self._let_go(as_it_is=True)
            self._passes.clear()
        if self._writing is None:
            with opening(self._path):
                self._create()
                there = which(self._path)
                self._writing = self._connect(self._pragmas, _prepare)
                self._writing.text_factory = text
                self._had = Opened.at(self._path, there)
            self._newer = _version(self._writing) > sql.SCHEMA
        if self._reading is None:  # at once: no read shall find the worker waiting for a lock
            # nobody sets aside what is open
            self._reading = self._connect({**self._pragmas, "busy_timeout": 0, "query_only": 1}, _version)
        return self._writing

    def _create(self) -> None:
        """Make the file before SQLite does, for its owner only; -wal and -shm inherit that."""
        try:
            # O_EXCL: to open a file that exists and close it again would drop SQLite's locks on it
            os.close(os.open(os.path.realpath(self._path), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except FileExistsError:
            if lost_its_head(self._path):
                raise _Headless(HEADLESS, START_ANEW) from None
        except FileNotFoundError as why:
            raise _Unusable(f"there is no directory {self._path.parent}", "create it") from why

    def _connect(
        self, pragmas: dict[str, str | int], prepare: Callable[[sqlite3.Connection], object]
    ) -> Connection:
        connection = Connection(str(self._path), self._path, isolation_level=None, check_same_thread=False)
        try:
            for name, value in pragmas.items():
                connection.execute(f"PRAGMA {name} = {value}")
            prepare(connection)
        except BaseException:
            connection.close_as_it_is()
            raise
        return connection

    def _see_to_it(self, why: Exception) -> str | None:
        self._let_go(as_it_is=True)
        if code_of(why) in DAMAGE or isinstance(why, _Headless):
            had = None if self._newer or self._had is None else self._had.files[0]
            return set_aside(self._path, known=had)
        return None

    def _let_go(self, *, as_it_is: bool = False) -> None:
        """Close the connections, undoing what is not committed."""
        with self._at_it:
            reading, self._reading = self._reading, None
        writing, self._writing = self._writing, None
        for connection in (reading, writing):
            if connection is not None:
                connection.close_as_it_is() if as_it_is else connection.close()


def _prepare(connection: sqlite3.Connection) -> None:
    """Make the file a memory of this schema, if it is new or older.

    Raises:
        _Unusable: it is another application's.
    """
    connection.create_function("kept_namespace", 1, _again(kept_namespace), deterministic=True)
    connection.create_function("kept_id", 1, _again(kept_id), deterministic=True)
    connection.execute("BEGIN")  # one view of the three
    application, version = pragma(connection, "application_id"), _version(connection)
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    connection.execute("COMMIT")
    if application != sql.APPLICATION_ID and (application, version, tables) != (0, 0, 0):
        raise _Unusable("it is the database of another application", "give another path")
    keep_a_log(connection)
    if version < sql.SCHEMA:
        connection.execute("BEGIN IMMEDIATE")
        for done in range(_version(connection), sql.SCHEMA):  # none, if another process came first
            for statement in sql.MIGRATIONS[done]:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {done + 1}")
        connection.execute(f"PRAGMA application_id = {sql.APPLICATION_ID}")
        connection.execute("COMMIT")


def _again(keep: Callable[[str], Kept]) -> Callable[[Kept], Kept]:
    """Keeps what an older version kept otherwise."""
    return lambda kept: keep(kept if isinstance(kept, str) else kept.decode("utf-8", "surrogatepass"))


def _cursor(session: Kept, agent: Kept) -> str:
    """A place in the order of the file, as text."""
    written = [
        id_ if isinstance(id_, str) else (id_.hex(), isinstance(id_, NoText)) for id_ in (session, agent)
    ]
    return _ENCODE(written).decode()


def _place(cursor: str) -> tuple[Kept, Kept]:
    if not cursor:
        return "", ""
    try:
        session, agent = _CURSOR.decode(cursor)
        return _kept(session), _kept(agent)
    except ValueError as why:
        raise _Refusal(f"{cursor!r} is no cursor of it", "begin without one") from why


def _kept(written: _Written) -> Kept:
    if isinstance(written, str):
        return written
    stored, as_text = written
    return (NoText if as_text else bytes).fromhex(stored)


def _version(connection: sqlite3.Connection) -> int:
    return pragma(connection, "user_version")
