"""A SQLite file with a write-ahead log, under which reads and writes do not wait for each other."""

from __future__ import annotations

import sqlite3
import time

from turnout.engine.memory.sqlite.aside import code_of


def keep_a_log(connection: sqlite3.Connection) -> None:
    """Switch to the log, from now on and for everybody."""
    patience = time.monotonic() + pragma(connection, "busy_timeout") / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as why:
            # the busy timeout does not cover two processes that switch a new file at once
            if code_of(why) != sqlite3.SQLITE_BUSY or time.monotonic() >= patience:
                raise
            time.sleep(0.001)


def pragma(connection: sqlite3.Connection, name: str) -> int:
    """A number that SQLite tells of a file or a connection."""
    value: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return value
