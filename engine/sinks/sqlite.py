"""Records in a SQLite file: found by session, bounded by age and size, erased by session."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

from turnout.engine.audit import AuditRecord, encode
from turnout.engine.errors import ConfigurationError, SinkTrouble
from turnout.engine.identity import as_id
from turnout.engine.memory.ids import kept_id, shown_id
from turnout.engine.memory.protocol import Change
from turnout.engine.memory.sqlite.aside import (
    Connection,
    Opened,
    code_of,
    has_a_log,
    left_logs,
    opening,
    which,
)
from turnout.engine.memory.sqlite.log import keep_a_log, pragma
from turnout.engine.memory.sqlite.schema import APPLICATION_ID as MEMORY_ID
from turnout.engine.sinks.bounds import check

APPLICATION_ID: Final = 0x74757272
"""Marks a database file as one of records: `turr` in ASCII."""
PRUNE_EVERY: Final = 256
"""Records between two looks at age."""
SHARE: Final = 10
"""Of a file that is too long one record in so many goes at once, the oldest."""
LOG_SHARE: Final = 4
"""Of `max_bytes` one in so many is for the write-ahead log, but no more than SQLite's own `MOST_LOG`."""
MOST_LOG: Final = 4_096_000
BUSY_SECS: Final = 2.0
"""How long another process is waited for."""

_TRIES: Final = 3
"""How often something is done that was done in a file which was replaced meanwhile."""
_SCHEMA: Final = (
    """
    CREATE TABLE record (
        id INTEGER PRIMARY KEY,
        at REAL NOT NULL, namespace TEXT NOT NULL,
        session TEXT NOT NULL,         -- as memories show it: a long id by its digest
        agent TEXT NOT NULL,
        turn TEXT NOT NULL,            -- empty for a change
        state TEXT NOT NULL,           -- served or failed; of a change, why
        served_by TEXT, body BLOB NOT NULL
    )
    """,
    "CREATE INDEX record_of ON record (namespace, session, at)",
    "CREATE INDEX record_at ON record (at)",
)

_INSERT: Final = (
    "INSERT INTO record (at, namespace, session, agent, turn, state, served_by, body)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)

T = TypeVar("T")
LOG: Final = logging.getLogger("turnout")


class SqliteRecords:
    """Keeps records and changes in a SQLite file. Pass it as one of a router's `sinks`.

    The file is made with mode 0600; several processes may share it, each with an object of its own that was
    made after any fork. An object may be used by several threads. A file that was deleted or replaced is
    left, and what is there then is gone on with, a new one where nothing is.

    Args:
        max_age_secs: what is older goes, in seconds.
        max_bytes: about how long the file becomes with its log: then the oldest records go.

    Raises:
        ConfigurationError: a bound that is none; the file is another application's.
        SinkTrouble: by every use after it was closed, or in another process than it was made in.
        sqlite3.Error, OSError: the file cannot be used.
    """

    def __init__(
        self, path: str | Path, *, max_age_secs: float | None = None, max_bytes: int | None = None
    ) -> None:
        check("SqliteRecords", whole={"max_bytes": max_bytes}, secs={"max_age_secs": max_age_secs})
        self.path = Path(path).absolute()
        self._max_age = max_age_secs
        self._max_bytes = max_bytes
        self._log_bytes = MOST_LOG if max_bytes is None else min(max_bytes // LOG_SHARE, MOST_LOG)
        self._since_pruned = PRUNE_EVERY
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._closed = self._told = False
        self._connection: Connection | None = None
        self._had: Opened | None = None
        self._open()

    def __call__(self, what: AuditRecord | Change) -> None:
        row = (*_columns(what), encode(what))
        with self._in_use():
            self._done(lambda connection: connection.execute(_INSERT, row))
            self._since_pruned += 1
            now = time.time() if self._since_pruned >= PRUNE_EVERY else None
            try:
                self._done(lambda connection: self._prune(connection, now))
            except sqlite3.Error as error:  # the record is kept all the same
                self._tell(f"what is too old or too much cannot be removed: {error}")
            else:
                self._told = False

    def prune(self, *, now: float | None = None) -> None:
        """Remove what is too old, and the oldest of what is too much.

        Args:
            now: in seconds since 1970; the system's time where none is given.
        """
        with self._in_use():
            self._done(lambda connection: self._prune(connection, time.time() if now is None else now))

    def erase(self, session: str, *, namespace: str = "") -> int:
        """Remove every record and change of a session and its agents, from the file itself too.

        Args:
            session: its id, or its digest as memories show it.

        Returns:
            How many there were.

        Raises:
            SinkTrouble: they are removed, and nobody finds them any more; but somebody else is at the file,
                and as long as that is so it holds their bytes, or the log of a file that was replaced is
                there still. Erase the session again, until this is not raised.
        """
        whose = as_id(namespace), _shown(session)
        with self._in_use():
            found, busy = self._done(lambda connection: _erase(connection, whose))
        if busy:
            raise SinkTrouble(
                f"records {self.path}: the session's records and changes are removed ({found} now), but the"
                " file or its log still holds their bytes, because somebody is reading it; call erase again"
                " when that has ended"
            )
        if left := ", ".join(path.name for path in left_logs(self.path)):
            raise SinkTrouble(
                f"records {self.path}: the session's records and changes are removed ({found} now), but the"
                f" log of a file that was here before may hold some of them: {left}; remove that, and call"
                " erase again"
            )
        return found

    def close(self) -> None:
        """Let go of the file, for good. Calling it again does nothing."""
        self._refuse_another_process()
        with self._lock:
            self._closed = True
            self._let_go(as_it_is=not self._is_there())

    @contextmanager
    def _in_use(self) -> Iterator[None]:
        """One thread at a time: closing a connection within a statement of another thread ends the process.

        Raises:
            SinkTrouble: it cannot be used.
        """
        self._refuse_another_process()
        with self._lock:
            if self._closed:
                raise SinkTrouble(f"records {self.path}: this sink was closed; make another one")
            yield

    def _refuse_another_process(self) -> None:
        if os.getpid() != self._process:  # SQLite would take the locks of that one for its own
            raise SinkTrouble(
                f"records {self.path}: this sink is of process {self._process}, before the fork;"
                " make one in each process"
            )

    def _done(self, work: Callable[[Connection], T]) -> T:
        """Do something in the file that others find at the path.

        Raises:
            SinkTrouble: that is another one each time.
        """
        for _ in range(_TRIES):
            try:
                result = work(self._open())
            except sqlite3.Error:
                if self._is_there():
                    self._let_go(as_it_is=True)  # it may be replaced to mend it: the next use opens it again
                    raise
            else:
                if self._is_there():
                    return result
            if self._had is not None:
                self._had.make_way("records")
            self._let_go(as_it_is=True)
        raise SinkTrouble(f"records {self.path}: it is replaced again and again; leave it in its place")

    def _is_there(self) -> bool:
        """Whether what is open, if anything is, was neither deleted nor renamed nor replaced."""
        return self._had is None or self._had.is_there()

    def _open(self) -> Connection:
        if self._connection is None:
            with opening(self.path):
                _create(self.path)
                there = which(self.path)
                self._connection = self._connect()
                self._had = Opened.at(self.path, there)
        return self._connection

    def _connect(self) -> Connection:
        connection = Connection(str(self.path), self.path, isolation_level=None, check_same_thread=False)
        try:
            connection.execute(f"PRAGMA busy_timeout = {int(BUSY_SECS * 1000)}")
            _prepare(connection, self.path)
            pages = self._log_bytes // pragma(connection, "page_size")
            connection.execute(f"PRAGMA wal_autocheckpoint = {max(1, pages)}").fetchall()
            connection.execute(f"PRAGMA journal_size_limit = {self._log_bytes}").fetchall()
            # what is erased is gone from the file too
            connection.execute("PRAGMA secure_delete = ON").fetchall()
        except BaseException:
            connection.close_as_it_is()
            raise
        return connection

    def _let_go(self, *, as_it_is: bool) -> None:
        connection, self._connection, self._had = self._connection, None, None
        if connection is not None:
            connection.close_as_it_is() if as_it_is else connection.close()

    def _prune(self, connection: Connection, now: float | None) -> None:
        """Remove what is too much and, if it is told what time it is, what is too old."""
        if now is not None:
            self._since_pruned = 0
            if self._max_age is not None:
                connection.execute("DELETE FROM record WHERE at < ?", (now - self._max_age,))
        if self._max_bytes is None:
            return
        while _bytes(connection) > self._max_bytes - self._log_bytes:
            count = connection.execute("SELECT count(*) FROM record").fetchone()[0]
            if count <= 1:  # the last one stays, however small the bound is
                break
            connection.execute(
                "DELETE FROM record WHERE id IN (SELECT id FROM record ORDER BY at, id LIMIT ?)",
                (max(1, count // SHARE),),
            )
            connection.executescript("PRAGMA incremental_vacuum")  # `execute` would free one page

    def _tell(self, what: str) -> None:
        if not self._told:
            LOG.warning("records %s: %s", self.path, what)
        self._told = True


def _columns(what: AuditRecord | Change) -> tuple[float | str | None, ...]:
    if isinstance(what, Change):
        namespace, session, agent = what.identity
        return what.at, namespace, _shown(session), agent, "", what.why, None
    caller = what.caller
    return (
        *(what.started, caller.namespace, _shown(caller.session), caller.agent),
        *(what.turn, what.state, what.served_by),
    )


def _shown(session: str) -> str:
    """A session as changes show it: so its records are found by the same."""
    return shown_id(kept_id(as_id(session)))


def _create(path: Path) -> None:
    """Make the file before SQLite does, for its owner only; its log inherits that."""
    with suppress(FileExistsError):
        # O_EXCL: to open a file that exists and close it again would drop SQLite's locks on it
        os.close(os.open(os.path.realpath(path), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _prepare(connection: Connection, path: Path) -> None:
    """Make the file one of records, if it is new.

    Raises:
        ConfigurationError: it is another application's.
    """
    connection.execute("BEGIN")  # one view of both
    new = _is_new(connection, path)
    connection.execute("COMMIT")
    if new:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # before there is anything in it
    keep_a_log(connection)
    if not new:
        return
    connection.execute("BEGIN IMMEDIATE")
    if _is_new(connection, path):  # no other process came first
        for statement in _SCHEMA:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute("COMMIT")


def _is_new(connection: Connection, path: Path) -> bool:
    application = pragma(connection, "application_id")
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    if application != APPLICATION_ID and (application, tables) != (0, 0):
        raise ConfigurationError(f"{path} is the database of another application; give another path")
    return application != APPLICATION_ID


def _erase(connection: Connection, whose: tuple[str, str]) -> tuple[int, bool]:
    """How many rows are removed, and whether their bytes are still somewhere."""
    found = connection.execute("DELETE FROM record WHERE namespace = ? AND session = ?", whose).rowcount
    busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return found, bool(busy)


def _bytes(connection: Connection) -> int:
    pages = pragma(connection, "page_count") - pragma(connection, "freelist_count")
    return pages * pragma(connection, "page_size")


def bodies_in(path: Path) -> Iterator[bytes | sqlite3.Error]:
    """Every record of such a file as it was encoded, or why it cannot be read, oldest first. Changes are
    passed over, and so is all of a file that is a memory of Turnout's.

    Raises:
        SinkTrouble: it is another application's, or cannot be read where it is.
        sqlite3.Error: it cannot be read, or no further.
    """
    with closing(_reading(path)) as connection:
        connection.text_factory = bytes  # whatever it is: to decode it is another matter
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        if application == MEMORY_ID:
            return
        if application != APPLICATION_ID:
            raise SinkTrouble("it is the database of another application")
        # each row by itself: one that is damaged does not hide those after it
        for (row,) in connection.execute("SELECT id FROM record WHERE turn <> '' ORDER BY at, id"):
            try:
                body = connection.execute("SELECT body FROM record WHERE id = ?", (row,)).fetchone()[0]
            except sqlite3.Error as error:
                yield error
            else:
                yield body if isinstance(body, bytes) else b""


def _reading(path: Path) -> sqlite3.Connection:
    where = path.absolute().as_uri()
    connection = sqlite3.connect(f"{where}?mode=ro", uri=True)
    try:
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except sqlite3.Error as error:
        connection.close()
        # a folder that cannot be written has no place for the log's index
        if code_of(error) not in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
            raise
        if has_a_log(path):
            raise SinkTrouble(
                "a part of it is in its log, which needs a folder that can be written:"
                f" copy it elsewhere, with {path.name}-wal"
            ) from error
        return sqlite3.connect(f"{where}?immutable=1", uri=True)
    return connection
