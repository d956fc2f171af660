"""A sweep of a SQLite file, in steps that are each a write of their own: no turn waits for more than one.

A pass goes through the identities of a namespace in the order of their key. So it needs no index
on the last use, which every use would have to write.
"""

from __future__ import annotations

import math
import sqlite3
from collections import deque
from contextlib import suppress
from typing import Final

from turnout.engine.memory.ids import kept_namespace
from turnout.engine.memory.protocol import Change, Swept
from turnout.engine.memory.sqlite import schema as sql
from turnout.engine.memory.sqlite.rows import Kept, eviction_of, executed, named
from turnout.engine.memory.sweeping import Oldest

EVER: Final = -math.inf
"""A time at which nothing had expired yet."""

AT_ONCE: Final = 64
"""How many identities or evictions go in one step: to remove one costs as much as to look at dozens."""


class _Room:
    """How much may still be removed in a step, and what was."""

    def __init__(self) -> None:
        self.left = AT_ONCE
        self.changes: list[Change] = []


class Pass:
    """One pass through a namespace."""

    def __init__(self, namespace: str, *, ttl_secs: float, max_sessions: int) -> None:
        self._namespace = namespace
        self._kept = kept_namespace(namespace)
        self._ttl = ttl_secs
        self._max_sessions = max_sessions
        self._at: tuple[Kept, Kept] = ("", "")
        """Where the next step begins: a session, and an agent of it."""
        self._session: tuple[float, Kept] | None = None
        """The session at hand, whose agents may go on in the next step."""
        self._count = 0
        self._oldest: Oldest[Kept] = Oldest()
        self._victims: deque[tuple[float, Kept]] | None = None
        self._again = False

    def step(self, connection: sqlite3.Connection, *, now: float, most: int) -> tuple[Swept, bool]:
        """Go on a little. Whether anything is left to do, and whether this pass is at its end."""
        room = _Room()
        if self._victims is None:
            self._look(connection, room, now, max(most, 1))
        else:
            self._crowd_out(connection, room, self._victims, now)
        ended = self._victims is not None and not self._victims
        return Swept(tuple(room.changes), not ended or self._again), ended

    def _look(self, connection: sqlite3.Connection, room: _Room, now: float, most: int) -> None:
        """Go through some more identities: remove the expired, and remember whose session is an old one."""
        rows = executed(connection, sql.IDENTITIES, (self._kept, *self._at, most)).fetchall()
        for session, agent, last_use in rows:
            self._at = session, after(agent)
            if last_use + self._ttl <= now or named(self._namespace, session, agent) is None:
                self._remove(connection, room, (session, agent), now, "expired")
                if room.left <= 0:
                    return
            elif self._session is None or self._session[1] != session:
                self._count_session()
                self._session = last_use, session
            else:
                self._session = max(last_use, self._session[0]), session
        if len(rows) < most:
            self._count_session()
            excess = max(self._count - self._max_sessions, 0)
            self._victims = deque(self._oldest.in_order()[:excess] if excess else ())
            self._again = excess > len(self._victims)

    def _count_session(self) -> None:
        if self._session is not None:
            self._count += 1
            self._oldest.add(*self._session)

    def _crowd_out(
        self, connection: sqlite3.Connection, room: _Room, victims: deque[tuple[float, Kept]], now: float
    ) -> None:
        """Remove the first of them, each an agent at a time: one of many agents takes many steps."""
        while victims and room.left > 0:
            seen, session = victims[0]
            agents = []
            if connection.execute(sql.USED_SINCE, (self._kept, session, seen)).fetchone() is None:
                agents = connection.execute(
                    sql.IDENTITIES_OF, (self._kept, session, "", room.left)
                ).fetchall()
            if not agents:
                victims.popleft()
            for _, agent, last_use in agents:
                if room.left > 0:
                    why = "expired" if last_use + self._ttl <= now else "crowded out"
                    self._remove(connection, room, (session, agent), now, why)

    def _remove(
        self, connection: sqlite3.Connection, room: _Room, who: tuple[Kept, Kept], now: float, why: str
    ) -> None:
        ids = (self._kept, *who)
        if (identity := named(self._namespace, *who)) is not None:
            rows = connection.execute(sql.READ, (*ids, self._ttl, EVER)).fetchall()
            for row in rows:
                with suppress(ValueError):  # a damaged row goes, and nobody can say what it was
                    room.changes.append(Change(now, identity, eviction_of(row), why))
            room.left -= len(rows)
        executed(connection, sql.FORGET_EVICTIONS, ids)
        executed(connection, sql.FORGET, ids)
        room.left -= 1


def after(agent: Kept) -> Kept:
    """What comes next after an agent in the order of the file."""
    return agent + "\0" if isinstance(agent, str) else type(agent)(agent + b"\0")
