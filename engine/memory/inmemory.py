"""A memory that lives and dies with its object: for tests, demonstrations and single processes."""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from turnout.engine.context import EMPTY, Eviction, Identity, Key, SessionContext
from turnout.engine.errors import MemoryRefusal
from turnout.engine.habits import NO_HABITS, Habits
from turnout.engine.health import WELL, Health
from turnout.engine.memory.ids import kept_id, shown, shown_id
from turnout.engine.memory.protocol import Change, Held, Page, Swept
from turnout.engine.memory.stripped import Learnt, keys_of, learn
from turnout.engine.memory.sweeping import Oldest

Kept = str | bytes
"""An id as it is kept."""


class _Row(NamedTuple):
    """One eviction, and the epoch of its target in which it was recorded."""

    eviction: Eviction
    epoch: int


class _Epoch(NamedTuple):
    """How often a target was restored everywhere, and when for the last time."""

    number: int = 0
    since: float = -math.inf

    def overtakes(self, row: _Row) -> bool:
        return row.epoch != self.number and row.eviction.latest_at <= self.since


_FIRST: Final = _Epoch()


class _Holder:
    """One identity, and what it holds."""

    __slots__ = ("agent", "habits", "last_use", "number", "rows", "session")

    def __init__(self, session: Kept, agent: Kept, last_use: float) -> None:
        self.session = session
        self.agent = agent
        self.last_use = last_use
        self.number = 0
        self.rows: dict[Key, _Row] = {}
        self.habits = NO_HABITS


class _Roll:
    """Identities by number, in the order in which they came. It is read on from any number at little cost."""

    _BLOCK: Final = 1024

    def __init__(self) -> None:
        self.next = 0
        self._blocks: dict[int, dict[int, _Holder]] = {}  # in order: only the last one is ever begun

    def enter(self, holder: _Holder) -> None:
        holder.number = self.next
        self.next += 1
        self._blocks.setdefault(holder.number // self._BLOCK, {})[holder.number] = holder

    def leave(self, holder: _Holder) -> None:
        at = holder.number // self._BLOCK
        del self._blocks[at][holder.number]
        if not self._blocks[at]:
            del self._blocks[at]

    def since(self, number: int) -> Iterator[_Holder]:
        for at, block in self._blocks.items():
            if at >= number // self._BLOCK:
                yield from (holder for its, holder in block.items() if its >= number)


class _Pass:
    """A sweep that is under way."""

    def __init__(self, end: int) -> None:
        self.number = 0
        self.end = end
        """Who came after it began is not looked at."""
        self.oldest: Oldest[Kept] = Oldest()
        self.victims: deque[tuple[float, Kept]] | None = None
        """Who may have to go, once everyone has been looked at."""
        self.again = False
        """Whether there are too many for one pass."""


class _Space:
    """What one namespace holds."""

    def __init__(self) -> None:
        self.sessions: dict[Kept, dict[Kept, _Holder]] = {}
        self.roll = _Roll()
        self.epochs: dict[tuple[str, str], _Epoch] = {}
        self.learnt: OrderedDict[tuple[str, str], Learnt] = OrderedDict()
        self.health: dict[tuple[str, str], Health] = {}
        self.sweep: _Pass | None = None

    def holder(self, identity: Identity) -> _Holder | None:
        agents = self.sessions.get(kept_id(identity.session))
        return None if agents is None else agents.get(kept_id(identity.agent))

    def enter(self, holder: _Holder) -> None:
        self.sessions.setdefault(holder.session, {})[holder.agent] = holder
        self.roll.enter(holder)

    def leave(self, holder: _Holder) -> None:
        self.roll.leave(holder)
        agents = self.sessions[holder.session]
        del agents[holder.agent]
        if not agents:
            del self.sessions[holder.session]

    def epoch(self, eviction: Eviction) -> _Epoch:
        return self.epochs.get((eviction.target, eviction.fingerprint), _FIRST)

    def standing(self, holder: _Holder) -> list[Eviction]:
        """The evictions that no new epoch of their target has overtaken."""
        if not self.epochs:  # then none has
            return [row.eviction for row in holder.rows.values()]
        return [row.eviction for row in holder.rows.values() if not self.epoch(row.eviction).overtakes(row)]


class InMemory:
    """Evictions, habits, refused keys and targets' health in dictionaries.

    Args:
        ttl_secs: how long an identity is remembered after its last use, and a target's refused keys
            after the last refusal, in seconds.
        max_sessions: how many sessions of a namespace a sweep leaves, the most recently used ones; and
            the refused keys of how many of its targets are remembered.
    """

    def __init__(self, *, ttl_secs: float = 86400.0, max_sessions: int = 1_000_000) -> None:
        self._ttl = ttl_secs
        self._touch_after = min(3600.0, ttl_secs / 10)
        self._max_sessions = max_sessions
        self._spaces: dict[str, _Space] = {}

    async def read(self, identity: Identity, *, now: float) -> SessionContext:
        if (found := self._found(identity, now)) is None:
            return EMPTY
        space, holder = found
        return SessionContext(space.standing(holder), holder.habits)

    async def record(
        self, identity: Identity, eviction: Eviction, *, used: float | None = None
    ) -> tuple[Change, ...]:
        space, now = self._space(identity.namespace), eviction.latest_at if used is None else used
        holder, expired = self._in_use(space, identity, now)
        row, epoch = holder.rows.get(eviction.key), space.epoch(eviction)
        merged = eviction if row is None or epoch.overtakes(row) else row.eviction.merge(eviction)
        holder.rows[eviction.key] = _Row(merged, epoch.number)
        return expired

    async def settle(self, identity: Identity, habits: Habits, *, now: float) -> tuple[Change, ...]:
        holder, expired = self._in_use(self._space(identity.namespace), identity, now)
        holder.habits = holder.habits.merge(habits)
        return expired

    async def touch(self, identity: Identity, *, now: float) -> None:
        if (found := self._found(identity, now)) is None:
            return
        space, holder = found
        if holder.last_use + self._touch_after <= now and (holder.habits or space.standing(holder)):
            holder.last_use = now

    async def remove(
        self, identity: Identity, evictions: Sequence[Eviction], *, now: float, why: str
    ) -> tuple[Change, ...]:
        if (found := self._found(identity, now)) is None:
            return ()
        space, holder = found
        read = {(e.key, e.latest_turn) for e in evictions}
        going = [e for e in space.standing(holder) if (e.key, e.latest_turn) in read]
        self._take(space, holder, going)
        return tuple(Change(now, shown(identity), eviction, why) for eviction in going)

    async def forget(
        self, namespace: str, session: str, agent: str | None = None, *, now: float
    ) -> tuple[Change, ...]:
        if (space := self._spaces.get(namespace)) is None:
            return ()
        agents, only = space.sessions.get(kept_id(session), {}), None if agent is None else kept_id(agent)
        changes: list[Change] = []
        for holder in [h for name, h in agents.items() if only is None or name == only]:
            why = "expired" if self._expired(holder, now) else "forgotten"
            past = [row.eviction for row in holder.rows.values() if row.eviction.latest_at <= now]
            going = [eviction for eviction in space.standing(holder) if eviction.latest_at <= now]
            changes += self._changes(namespace, holder, going, now, why)
            holder.habits = holder.habits.since(now)
            self._take(space, holder, past)
        return tuple(changes)

    async def restore_everywhere(self, namespace: str, target: str, fingerprint: str, *, now: float) -> None:
        epochs, key = self._space(namespace).epochs, (target, fingerprint)
        number, since = epochs.get(key, _FIRST)
        epochs[key] = _Epoch(number + 1, max(since, now))

    async def stripped(
        self, namespace: str, target: str, fingerprint: str, configuration: str, *, now: float
    ) -> frozenset[str]:
        space, key = self._spaces.get(namespace), (target, fingerprint)
        if space is None or key not in space.learnt:
            return frozenset()
        space.learnt.move_to_end(key)
        return keys_of(space.learnt[key], configuration, now=now, ttl_secs=self._ttl)

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
        learnt, key = self._space(namespace).learnt, (target, fingerprint)
        known = learnt.pop(key, {})
        learnt[key] = learn(known, configuration, keys, now=now, ttl_secs=self._ttl)
        while len(learnt) > self._max_sessions:
            learnt.popitem(last=False)

    async def health(self, namespace: str, targets: Sequence[tuple[str, str]]) -> tuple[Health, ...]:
        known = self._spaces[namespace].health if namespace in self._spaces else {}
        return tuple([known.get(target, WELL) for target in targets])

    async def change_health(
        self, namespace: str, target: str, fingerprint: str, change: Callable[[Health], Health]
    ) -> Health:
        known, key = self._space(namespace).health, (target, fingerprint)
        known[key] = change(known.get(key, WELL))
        return known[key]

    async def held(
        self,
        namespace: str,
        session: str | None = None,
        *,
        now: float,
        cursor: str = "",
        most: int = 1000,
    ) -> Page:
        space = self._spaces.get(namespace, _Space())
        number, most = _number(cursor), max(most, 1)
        if session is None:
            ahead = space.roll.since(number)
        else:
            agents = space.sessions.get(kept_id(session), {})
            ahead = (holder for holder in agents.values() if holder.number >= number)
        page = list(islice(ahead, most))
        held = []
        for holder in page:
            evictions = SessionContext(space.standing(holder)).evictions
            if (evictions or holder.habits) and not self._expired(holder, now):
                whose = self._whose(namespace, holder)
                held.append(Held(whose, holder.last_use, evictions, holder.habits))
        return Page(tuple(held), str(page[-1].number + 1) if len(page) == most else "")

    async def sweep(self, namespace: str, *, now: float, most: int = 1000) -> Swept:
        space = self._spaces.get(namespace)
        if space is None:
            return Swept((), more=False)
        if space.sweep is None:
            space.sweep = _Pass(space.roll.next)
        sweep, most = space.sweep, max(most, 1)
        if sweep.victims is None:
            changes = self._look(namespace, space, sweep, now, most)
        else:
            changes = self._crowd_out(namespace, space, sweep.victims, now, most)
        if sweep.victims is None or (sweep.victims and self._too_many(space)):
            return Swept(tuple(changes), more=True)
        space.sweep = None
        if not (space.sessions or space.epochs or space.learnt or space.health):
            del self._spaces[namespace]
        return Swept(tuple(changes), sweep.again)

    async def close(self) -> None:
        """Nothing to let go of: what is held goes with the object."""

    def _look(self, namespace: str, space: _Space, sweep: _Pass, now: float, most: int) -> list[Change]:
        """Go through some more identities: remove the expired, and remember whose session is an old one."""
        changes: list[Change] = []
        part = list(islice(space.roll.since(sweep.number), most))
        for holder in part:
            if self._expired(holder, now):
                changes += self._changes(namespace, holder, space.standing(holder), now, "expired")
                space.leave(holder)
                continue
            agents = space.sessions[holder.session]
            if next(iter(agents.values())) is holder:  # each session once
                sweep.oldest.add(_last_use(agents), holder.session)
        sweep.number = part[-1].number + 1 if part else sweep.end
        if len(part) < most or sweep.number >= sweep.end:
            sweep.victims = deque(sweep.oldest.in_order() if self._too_many(space) else ())
            sweep.again = len(space.sessions) - self._max_sessions > len(sweep.victims)
        return changes

    def _crowd_out(
        self, namespace: str, space: _Space, victims: deque[tuple[float, Kept]], now: float, most: int
    ) -> list[Change]:
        changes: list[Change] = []
        gone = 0
        while victims and gone < most and self._too_many(space):
            last_use, session = victims.popleft()
            agents = space.sessions.get(session, {})
            if not agents or _last_use(agents) > last_use:
                continue  # forgotten or used since it was looked at
            for holder in tuple(agents.values()):
                if gone == most:  # the session has more agents than a step removes
                    victims.appendleft((last_use, session))
                    break
                gone += 1
                why = "expired" if self._expired(holder, now) else "crowded out"
                changes += self._changes(namespace, holder, space.standing(holder), now, why)
                space.leave(holder)
        return changes

    def _too_many(self, space: _Space) -> bool:
        return len(space.sessions) > self._max_sessions

    def _space(self, namespace: str) -> _Space:
        return self._spaces.setdefault(namespace, _Space())

    def _found(self, identity: Identity, now: float) -> tuple[_Space, _Holder] | None:
        """Who holds something that has not expired, and where."""
        space = self._spaces.get(identity.namespace)
        holder = None if space is None else space.holder(identity)
        return None if space is None or holder is None or self._expired(holder, now) else (space, holder)

    def _in_use(self, space: _Space, identity: Identity, now: float) -> tuple[_Holder, tuple[Change, ...]]:
        """Who is in use now; and what of it had expired, and is gone."""
        holder = space.holder(identity)
        expired: list[Change] = []
        if holder is not None and self._expired(holder, now):
            expired = self._changes(identity.namespace, holder, space.standing(holder), now, "expired")
            space.leave(holder)
            holder = None
        if holder is None:
            holder = _Holder(kept_id(identity.session), kept_id(identity.agent), now)
            space.enter(holder)
        holder.last_use = max(holder.last_use, now)
        return holder, tuple(expired)

    def _expired(self, holder: _Holder, now: float) -> bool:
        return holder.last_use + self._ttl <= now

    def _take(self, space: _Space, holder: _Holder, going: Sequence[Eviction]) -> None:
        for eviction in going:
            del holder.rows[eviction.key]
        if not (holder.rows or holder.habits):
            space.leave(holder)

    def _changes(
        self, namespace: str, holder: _Holder, evictions: Sequence[Eviction], now: float, why: str
    ) -> list[Change]:
        return [Change(now, self._whose(namespace, holder), eviction, why) for eviction in evictions]

    def _whose(self, namespace: str, holder: _Holder) -> Identity:
        return Identity(namespace, shown_id(holder.session), shown_id(holder.agent))


def _last_use(agents: dict[Kept, _Holder]) -> float:
    return max(holder.last_use for holder in agents.values())


def _number(cursor: str) -> int:
    if cursor and not (cursor.isascii() and cursor.isdigit()):
        raise MemoryRefusal(f"memory: could not list: {cursor!r} is no cursor of it; begin without one")
    return int(cursor or 0)
