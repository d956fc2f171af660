"""Records in a SQLite file: found by session, bounded by age and size, erased by session."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from turnout.engine.audit import AuditRecord, decode, encode
from turnout.engine.errors import ConfigurationError
from turnout.engine.memory.protocol import Change

APPLICATION_ID: Final = 0x74757272
"""Marks a database file as one of records: `turr` in ASCII."""
PRUNE_EVERY: Final = 256
"""Records between two looks at age and size."""
SHARE: Final = 10
"""Of a file that is too long one record in so many goes at once, the oldest."""

_SCHEMA: Final = """
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA journal_mode = WAL;
CREATE TABLE IF NOT EXISTS record (
    id INTEGER PRIMARY KEY,
    at REAL NOT NULL, namespace TEXT NOT NULL, session TEXT NOT NULL, agent TEXT NOT NULL,
    turn TEXT NOT NULL,            -- empty for a change
    state TEXT NOT NULL,           -- served or failed; of a change, why
    served_by TEXT, body BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS record_of ON record (namespace, session, at);
CREATE INDEX IF NOT EXISTS record_at ON record (at);
"""


class SqliteRecords:
    """Keeps records and changes in a SQLite file. Pass it as one of a router's `sinks`.

    The file is made with mode 0600; several processes may share it. One thread at a time uses an object.

    Args:
        max_age_secs: what is older goes, in seconds.
        max_bytes: about how long the file becomes: then the oldest records go.

    Raises:
        ConfigurationError: a bound that is none; the file is another application's.
        sqlite3.Error: the file cannot be used.
    """

    def __init__(
        self, path: str | Path, *, max_age_secs: float | None = None, max_bytes: int | None = None
    ) -> None:
        for name, value in (("max_age_secs", max_age_secs), ("max_bytes", max_bytes)):
            if value is not None and not value > 0:
                raise ConfigurationError(f"SqliteRecords: {name} is {value}; give a number above 0, or none")
        self.path = Path(path)
        self._max_age = max_age_secs
        self._max_bytes = max_bytes
        self._since_pruned = PRUNE_EVERY
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        self._connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA busy_timeout = 2000")
        ours = self._pragma("application_id")
        if ours not in (0, APPLICATION_ID) or (not ours and self._pragma("schema_version")):
            self._connection.close()
            raise ConfigurationError(f"{self.path} is the database of another application; give another path")
        self._connection.executescript(_SCHEMA)
        self._connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        self._connection.execute("PRAGMA secure_delete = ON")  # what is erased is gone from the file too

    def __call__(self, what: AuditRecord | Change) -> None:
        row: tuple[float | str | None, ...]
        if isinstance(what, Change):
            row = (what.at, *what.identity, "", what.why, None)
        else:
            caller = what.caller
            row = (
                *(what.started, caller.namespace, caller.session, caller.agent),
                *(what.turn, what.state, what.served_by),
            )
        self._connection.execute(
            "INSERT INTO record (at, namespace, session, agent, turn, state, served_by, body)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (*row, encode(what)),
        )
        self._since_pruned += 1
        if self._since_pruned >= PRUNE_EVERY:
            self._since_pruned = 0
            self.prune()

    def prune(self, *, now: float | None = None) -> None:
        """Remove what is too old, and the oldest of what is too much.

        Args:
            now: in seconds since 1970; the system's time where none is given.
        """
        run = self._connection.execute
        if self._max_age is not None:
            run("DELETE FROM record WHERE at < ?", ((time.time() if now is None else now) - self._max_age,))
        while self._max_bytes is not None and self._bytes() > self._max_bytes:
            count = run("SELECT count(*) FROM record").fetchone()[0]
            if not count:
                break
            run(
                "DELETE FROM record WHERE id IN (SELECT id FROM record ORDER BY at, id LIMIT ?)",
                (max(1, count // SHARE),),
            )
            self._connection.executescript("PRAGMA incremental_vacuum")  # `execute` would free one page

    def erase(self, session: str, *, namespace: str = "") -> int:
        """Remove every record and change of a session and its agents, from the file itself too. How many."""
        found = self._connection.execute(
            "DELETE FROM record WHERE namespace = ? AND session = ?", (namespace, session)
        ).rowcount
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return found

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def _bytes(self) -> int:
        return self._pragma("page_size") * (self._pragma("page_count") - self._pragma("freelist_count"))

    def _pragma(self, name: str) -> int:
        value: int = self._connection.execute(f"PRAGMA {name}").fetchone()[0]
        return value


def records_in(path: Path) -> Iterator[AuditRecord]:
    """Every record of such a file, oldest first; changes are passed over.

    Raises:
        sqlite3.Error: it cannot be read.
    """
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        for (body,) in connection.execute("SELECT body FROM record WHERE turn <> '' ORDER BY at, id"):
            yield decode(body)
