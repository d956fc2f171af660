"""A memory that lives and dies with its object: for tests, demonstrations and single processes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from turnout.engine.context import EMPTY, Eviction, Identity, Key, SessionContext
from turnout.engine.memory.protocol import Change
from turnout.engine.memory.stripped import Learnt, keys_of, learn


class _Row(NamedTuple):
    """One eviction, and the epoch of its target in which it was recorded."""

    eviction: Eviction
    epoch: int


class _Held:
    """What one identity holds."""

    __slots__ = ("last_use", "rows")

    def __init__(self, last_use: float) -> None:
        self.last_use = last_use
        self.rows: dict[Key, _Row] = {}


class InMemory:
    """Evictions and refused keys in dictionaries.

    Args:
        ttl_secs: how long an identity is remembered after its last use, and a target's refused keys
            after the last refusal, in seconds.
        max_sessions: how many sessions are remembered, and the refused keys of how many targets; one
            more, and the least recently used one goes.
    """

    def __init__(self, *, ttl_secs: float = 86400.0, max_sessions: int = 1_000_000) -> None:
        self._ttl = ttl_secs
        self._touch_after = min(3600.0, ttl_secs / 10)
        self._max_sessions = max_sessions
        self._sessions: OrderedDict[tuple[str, str], dict[str, _Held]] = OrderedDict()
        self._epochs: dict[tuple[str, str, str], int] = {}
        self._learnt: OrderedDict[tuple[str, str, str], Learnt] = OrderedDict()

    async def read(self, identity: Identity, *, now: float) -> SessionContext:
        held = self._used(identity)
        if held is None or self._expired(held, now):
            return EMPTY
        return SessionContext(self._standing(identity.namespace, held))

    async def record(self, identity: Identity, eviction: Eviction) -> None:
        agents = self._sessions.setdefault((identity.namespace, identity.session), {})
        held = agents.get(identity.agent)
        if held is None or self._expired(held, eviction.latest_at):
            held = agents[identity.agent] = _Held(eviction.latest_at)
        held.last_use = max(held.last_use, eviction.latest_at)
        row, epoch = held.rows.get(eviction.key), self._epoch(identity.namespace, eviction)
        merged = row.eviction.merge(eviction) if row is not None and row.epoch == epoch else eviction
        held.rows[eviction.key] = _Row(merged, epoch)
        self._used(identity)
        while len(self._sessions) > self._max_sessions:
            self._sessions.popitem(last=False)

    async def touch(self, identity: Identity, *, now: float) -> None:
        held = self._used(identity)
        if held is not None and not self._expired(held, now) and held.last_use + self._touch_after <= now:
            held.last_use = now

    async def remove(
        self, identity: Identity, evictions: Sequence[Eviction], *, now: float, why: str
    ) -> tuple[Change, ...]:
        held = self._used(identity)
        if held is None or self._expired(held, now):
            return ()
        read = {(e.key, e.latest_turn) for e in evictions}
        going = [e for e in self._standing(identity.namespace, held) if (e.key, e.latest_turn) in read]
        for eviction in going:
            del held.rows[eviction.key]
        return tuple(Change(now, identity, eviction, why) for eviction in going)

    async def forget(
        self, namespace: str, session: str, agent: str | None = None, *, now: float
    ) -> tuple[Change, ...]:
        agents = self._sessions.get((namespace, session), {})
        going = [name for name in agents if agent is None or name == agent]
        changes = []
        for name in going:
            held = agents.pop(name)
            why = "expired" if self._expired(held, now) else "forgotten"
            who = Identity(namespace, session, name)
            changes += [Change(now, who, eviction, why) for eviction in self._standing(namespace, held)]
        if not agents:
            self._sessions.pop((namespace, session), None)
        return tuple(changes)

    async def restore_everywhere(self, namespace: str, target: str, fingerprint: str) -> None:
        key = (namespace, target, fingerprint)
        self._epochs[key] = self._epochs.get(key, 0) + 1

    async def stripped(
        self, namespace: str, target: str, fingerprint: str, configuration: str, *, now: float
    ) -> frozenset[str]:
        key = (namespace, target, fingerprint)
        if key in self._learnt:
            self._learnt.move_to_end(key)
        return keys_of(self._learnt.get(key, {}), configuration, now=now, ttl_secs=self._ttl)

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
        key = (namespace, target, fingerprint)
        known = self._learnt.pop(key, {})
        self._learnt[key] = learn(known, configuration, keys, now=now, ttl_secs=self._ttl)
        while len(self._learnt) > self._max_sessions:
            self._learnt.popitem(last=False)

    async def close(self) -> None:
        """Nothing to let go of: what is held goes with the object."""

    def _used(self, identity: Identity) -> _Held | None:
        """What the identity holds, if anything; its session is now the most recently used one."""
        session = (identity.namespace, identity.session)
        agents = self._sessions.get(session)
        if agents is None:
            return None
        self._sessions.move_to_end(session)
        return agents.get(identity.agent)

    def _expired(self, held: _Held, now: float) -> bool:
        return held.last_use + self._ttl <= now

    def _epoch(self, namespace: str, eviction: Eviction) -> int:
        return self._epochs.get((namespace, eviction.target, eviction.fingerprint), 0)

    def _standing(self, namespace: str, held: _Held) -> Iterator[Eviction]:
        """The evictions that no new epoch of their target has overtaken."""
        for eviction, epoch in held.rows.values():
            if epoch == self._epoch(namespace, eviction):
                yield eviction
