"""What can still be read of a damaged SQLite file.

SQLite reads a table in order until it meets the damage, and from the other end too. What lies
between two damaged places is found by its key, where the other table still lists it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from turnout.engine.context import Eviction, Identity, Key, SessionContext
from turnout.engine.errors import MemoryTrouble
from turnout.engine.memory.ids import kept_namespace, shown_id
from turnout.engine.memory.protocol import Held
from turnout.engine.memory.sqlite.aside import DAMAGE, Connection, code_of, text
from turnout.engine.memory.sqlite.rows import eviction_of
from turnout.engine.memory.sqlite.schema import APPLICATION_ID, SCHEMA

Kept = str | bytes
"""An id as it is kept."""


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
        """Whether anything was met that cannot be read."""

    def __iter__(self) -> Iterator[Held]:
        """Who holds what, as far as it can be read.

        Raises:
            MemoryTrouble: nothing can be: it is no file, no database, or not Turnout's.
        """
        try:
            connection = Connection(
                f"{self._path.absolute().as_uri()}?mode=ro", self._path, uri=True, isolation_level=None
            )
            connection.text_factory = text
            connection.execute(
                "PRAGMA writable_schema = ON"
            )  # or a file that was cut short is not read at all
            try:
                self._see_that_it_is_ours(connection)
                yield from self._held(connection)
            finally:
                connection.close_as_it_is()
        except sqlite3.Error as why:
            raise MemoryTrouble(f"memory {self._path}: nothing of it can be read: {why}") from why

    def _see_that_it_is_ours(self, connection: Connection) -> None:
        mark, version = [
            connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
        ]
        if mark != APPLICATION_ID or version > SCHEMA:
            raise MemoryTrouble(
                f"memory {self._path}: it is none of Turnout's, or of a schema newer than {SCHEMA}"
            )

    def _held(self, connection: Connection) -> Iterator[Held]:
        epochs = self._epochs(connection)
        seen: set[tuple[Kept, Kept]] = set()
        for table in ("identity", "eviction"):
            listed = f"SELECT session, agent FROM {table} WHERE namespace = ? ORDER BY"  # noqa: S608
            for who in self._both_ways(connection, listed, ("session", "agent"), (self._kept,)):
                if who not in seen:
                    seen.add(who)
                    if held := self._of(connection, epochs, *who):
                        yield held

    def _of(
        self, connection: Connection, epochs: dict[tuple[str, str], _Epoch], session: Kept, agent: Kept
    ) -> Held | None:
        ids, key = (self._kept, session, agent), ("target", "reason", "fingerprint")
        evictions: dict[Key, Eviction] = {}
        for *row, epoch in self._both_ways(connection, _EVICTIONS, key, ids):
            try:
                eviction = eviction_of(tuple(row))
            except ValueError:
                self.damaged = True
                continue
            current, since = epochs.get((eviction.target, eviction.fingerprint), (epoch, None))
            if epoch == current or (since is not None and eviction.latest_at > since):
                evictions[eviction.key] = eviction
        used = [last_use for (last_use,) in self._both_ways(connection, _LAST_USE, ("agent",), ids)]
        last_use = max(used or [eviction.latest_at for eviction in evictions.values()], default=0.0)
        if not evictions or last_use + self._ttl <= self._now:
            return None
        identity = Identity(self._namespace, shown_id(session), shown_id(agent))
        return Held(identity, last_use, SessionContext(evictions.values()).evictions)

    def _epochs(self, connection: Connection) -> dict[tuple[str, str], _Epoch]:
        columns = {name for _, name, *_ in connection.execute("PRAGMA table_info(target)")}
        since = "restored_at" if "restored_at" in columns else "NULL"
        listed = f"SELECT target, fingerprint, epoch, {since} FROM target WHERE namespace = ? ORDER BY"  # noqa: S608
        rows = self._both_ways(connection, listed, ("target", "fingerprint"), (self._kept,))
        return {(target, fingerprint): (epoch, since) for target, fingerprint, epoch, since in rows}

    def _both_ways(
        self, connection: Connection, listed: str, key: tuple[str, ...], parameters: tuple[Any, ...]
    ) -> Iterator[Any]:
        """Rows in order until the damage, and if there is any, those from the other end until it."""
        for direction in ("ASC", "DESC"):
            rows = connection.cursor()
            try:
                yield from rows.execute(
                    f"{listed} {', '.join(f'{column} {direction}' for column in key)}", parameters
                )
            except sqlite3.DatabaseError as why:
                if code_of(why) not in DAMAGE:
                    raise
                self.damaged = True
            else:
                return
            finally:
                with suppress(sqlite3.Error):
                    rows.close()


_Epoch = tuple[int, float | None]
"""How often a target was restored everywhere, and when for the last time."""
_EVICTIONS: Final = """
    SELECT target, reason, fingerprint, first, latest_turn, latest_at, size, refused, machine, epoch
    FROM eviction WHERE namespace = ? AND session = ? AND agent = ? ORDER BY
"""
_LAST_USE: Final = """
    SELECT last_use FROM identity WHERE namespace = ? AND session = ? AND agent = ? ORDER BY
"""
