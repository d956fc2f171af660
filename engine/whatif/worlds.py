"""One recorded turn under other rules: every way that it may go, and where a session stands after each.

What was recorded of a target in this very turn happens again. Where nothing was, a target that is known to
refuse such a turn is assumed to refuse it, and everyone else may do anything: the turn forks. Ways that
leave a session alike are one world from then on, with the least and the most that they came to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import combinations, islice
from math import inf
from typing import Any, Final, NamedTuple, get_args

from turnout.engine import pricing
from turnout.engine.audit import AttemptRecord, AuditRecord, ProbeRecord
from turnout.engine.classify.verdict import Evidence, Feature, Verdict
from turnout.engine.context import Eviction, Key, SessionContext
from turnout.engine.habits import MOST_TOKENS, Home
from turnout.engine.policy import Policy
from turnout.engine.refusals import Refusal, Refusals, Refuser, refusal
from turnout.engine.selection import Coolings
from turnout.engine.turn import Interruption, Turn
from turnout.engine.whatif.routing import Routing
from turnout.engine.whatif.totals import Figures, Range
from turnout.machines.vocabulary import ErrorKind, RoutingFallbackReason, TurnState

MOST_WAYS: Final = 128
"""Ways that one turn is followed on, over all worlds of its session."""
MOST_WORLDS: Final = 32
"""Worlds of one session that are told apart."""

RECORDED: Final = ""
ASSUMED: Final = "assumed"
UNKNOWN: Final = "unknown"

_INTERRUPTIONS: Final = get_args(Interruption)
AN_INSTANT: Final = 1e-6
"""Seconds between two things that happen one after the other, if nothing is known of the time."""


class Known(NamedTuple):
    """That a target has refused, and how."""

    verdict: Verdict
    secs: float | None
    """How long that took; None if it is not recorded."""


class World(NamedTuple):
    """A session as it may stand under other rules, by how that differs from how it was recorded."""

    gone: frozenset[Key] = frozenset()
    """Evictions that were recorded, and are not there."""
    more: tuple[Eviction, ...] = ()
    """Evictions that were not recorded, or not so."""
    homes: tuple[tuple[str, Home | None], ...] = ()
    """Of the routes where the session is not at home where it was."""
    refused: frozenset[Refusal] = frozenset()
    """What targets have refused in it."""

    def context(self, recorded: tuple[Eviction, ...], at: float) -> tuple[Eviction, ...]:
        """Its evictions at a time, from those that were recorded then."""
        if not (self.gone or self.more):
            return recorded
        known = {e.key: e for e in recorded if e.key not in self.gone}
        return tuple((known | {e.key: e for e in self.more if e.first.at <= at}).values())

    def without(self, keys: frozenset[Key]) -> World:
        """The world after somebody has removed evictions."""
        return self._replace(more=tuple(e for e in self.more if e.key not in keys)) if self.more else self


Alike = tuple[Any, ...]
"""What two worlds have in common that go on alike."""


def _alike(world: World, context: SessionContext, routing: Routing) -> Alike:
    sizes, features = routing.by_size, routing.by_feature
    standing, at = [], 0.0
    for eviction in context.evictions:  # the oldest first: of their times only the order counts
        size, refused = eviction.size if sizes else None, eviction.refused if features else None
        standing.append((eviction.key, eviction.first.at == at, size, refused))
        at = eviction.first.at
    return tuple(standing), tuple((route, _places(home)) for route, home in world.homes), world.refused


class Case:
    """A recorded turn as every world meets it."""

    def __init__(self, record: AuditRecord, routing: Routing, *, overlaps: bool = False) -> None:
        self.record = record
        self.began = record.started if overlaps else inf
        """Until when it saw at first what was learnt: all of it, unless it overlaps a turn played before."""
        self.routing = routing
        self.needs = frozenset(record.needs)
        self.size = record.size if record.size is not None and 0 <= record.size <= MOST_TOKENS else None
        self.before = routing.evictions(record.standings_before)
        self.after = {e.key: e for e in routing.evictions(record.standings_after)}
        self._refusers = {t.name: Refuser(t.name, t.fingerprint) for t in routing.ladder}
        self.probes = {name: p for p in record.probes if (name := routing.name(p.target)) is not None}
        self.path = tuple([routing.name(p.target) for p in record.probes])
        self.settled = sum(p.answered or p.verdict is not None for p in record.probes)
        """How many of its probes came to something."""
        self.interruption: Interruption | None = None
        if record.ended_by in _INTERRUPTIONS:
            self.interruption = record.ended_by  # type: ignore[assignment]
        self.interrupted_in = record.steps[-1].source if record.steps else ""
        self.interrupted_while_asking: str | None = None
        """Whom it asked when it was interrupted; empty: the first one, of whom nothing was recorded yet."""
        if self.interruption and self.interrupted_in == TurnState.PROBING:
            self.interrupted_while_asking = "" if self.settled == len(self.path) else self.path[-1]
        self.served_by = None if record.served_by is None else routing.name(record.served_by)
        self._rereads = [
            ((r.before_step + 1) // 3, routing.evictions(r.evictions), routing.coolings(r.cooling))
            for r in record.rereads
        ]
        self._gates = any(target.limited for target in routing.ladder)
        self.priced = any(target.price is not None for target in routing.ladder) or any(
            rung.price is not None for rung in record.ladder
        )

    def cost(self, target: str, how: str) -> tuple[float, float]:
        """The least and the most that a target's answer cost, by what it costs now, else by what it did."""
        if how != RECORDED:
            return 0, inf if self.priced else 0
        (now,) = [one for one in self.routing.ladder if one.name == target]
        price = now.price or next(
            (r.price for r in self.record.ladder if r.target == self.record.served_by), None
        )
        cost = pricing.cost(self.record.usage, price, now.format) or 0
        return cost, cost

    def reread(self, probes: int, *, on_path: bool) -> tuple[tuple[Eviction, ...], Coolings] | None:
        """What was read again by so many probes; None: nothing.

        Args:
            on_path: the turn has asked as was recorded, and so has added what was recorded.
        """
        for after, evictions, coolings in reversed(self._rereads):
            if after <= probes:
                own = self.record.turn
                others = [e for e in evictions if on_path or (e.first.turn, e.latest_turn) != (own, own)]
                return tuple(others), coolings
        return None

    @property
    def cost_unknown(self) -> bool:
        """Whether it is not known what the recorded answer cost, although its target declares a price."""
        served = next((rung for rung in self.record.ladder if rung.target == self.record.served_by), None)
        if served is None or served.price is None:
            return False
        return pricing.cost(self.record.usage, served.price, served.format) is None

    def refusal(self, probe: ProbeRecord, by: Refuser) -> Refusal | None:
        """What a recorded probe says of later turns."""
        if probe.verdict is None or probe.committed:
            return None
        return refusal(by, probe.verdict, self.needs, self.size)

    def refuser(self, name: str) -> Refuser:
        """Who a target of the ladder is."""
        return self._refusers[name]

    def unknown(self, beside: Verdict | None) -> Iterator[Verdict]:
        """What a target may say of which nothing is known, as far as it makes a difference here.

        Args:
            beside: what it is assumed to say. What comes to the same is not told again.
        """
        policy = self.routing.policy
        assumed = None if beside is None else _effect(policy, beside, gates=self._gates)
        for verdict in _apart(policy, self.needs, by_feature=self.routing.by_feature, gates=self._gates):
            if assumed is None or _effect(policy, verdict, gates=self._gates) != assumed:
                yield verdict

    def turn(self, world: World) -> Turn:
        """The turn as it begins in a world."""
        record, routing = self.record, self.routing
        homes = dict(world.homes)
        return Turn(
            routing.ladder,
            policy=routing.policy,
            context=SessionContext(world.context(self.before, self.began)),
            id=record.turn,
            options=routing.options,
            needs=self.needs,
            size=self.size,
            output=record.output,
            calibrated=record.calibrated,
            pin=routing.name(record.pin) if record.pin else None,
            home=homes[record.route] if record.route in homes else routing.home(record.home),
            coolings=routing.coolings(record.cooling),
        )


@lru_cache(maxsize=4096)
def _apart(policy: Policy, needs: frozenset[str], *, by_feature: bool, gates: bool) -> tuple[Verdict, ...]:
    """A refusal of each sort that a policy tells apart, those first that tell of later turns.

    Args:
        by_feature: whether evictions go by what was refused.
        gates: whether an overflow rules smaller windows out, too.
    """
    found: dict[_Effect, Verdict] = {}
    # each of them is a way: beyond so many there are too many ways
    for kind, features in islice(_sorts(needs, by_feature=by_feature), MOST_WAYS):
        verdict = Verdict(kind=kind, evidence=Evidence(UNKNOWN), features=features)
        found.setdefault(_effect(policy, verdict, gates=gates), verdict)
    return tuple(found.values())


_Effect = tuple[RoutingFallbackReason | None, bool, tuple[str, ...]]


def _effect(policy: Policy, verdict: Verdict, *, gates: bool) -> _Effect:
    """What comes of a refusal, for the turn and for those after it."""
    reason = policy.reason(verdict)
    overflow = verdict.kind is ErrorKind.CONTEXT_WINDOW and gates
    return reason, overflow, verdict.features if reason is RoutingFallbackReason.CAPABILITY else ()


def _sorts(needs: frozenset[str], *, by_feature: bool) -> Iterator[tuple[ErrorKind, tuple[str, ...]]]:
    yield ErrorKind.CONTEXT_WINDOW, ()
    if by_feature:
        used = sorted(needs - _ALWAYS)
        for number in range(1, len(used) + 1):
            yield from ((ErrorKind.CAPABILITY, features) for features in combinations(used, number))
    yield from ((kind, ()) for kind in ErrorKind)


_ALWAYS: Final = frozenset({Feature.ENDPOINT.value, Feature.ROLE.value})
"""What every request needs."""


class _Outcome(NamedTuple):
    """What may come of a probe."""

    verdict: Verdict | None = None
    how: str = RECORDED
    holds: bool = True
    """Whether what is known to be refused is refused."""
    at: float = 0.0
    secs: float | None = 0.0
    committed: bool = False
    trial: bool = False
    interrupts: bool = False


class Way:
    """One way that a turn may go."""

    __slots__ = (
        "asked",
        "assumed_certain",
        "assumed_secs",
        "at",
        "certain",
        "doubtful",
        "guessed",
        "holds",
        "marks",
        "maybe_certain",
        "on_path",
        "open_ended",
        "refused",
        "secs",
        "turn",
    )

    def __init__(self, turn: Turn, at: float) -> None:
        self.turn = turn
        self.at = at
        """When it has come so far, in seconds since 1970."""
        self.asked: tuple[str, ...] = ()
        self.marks: tuple[str, ...] = ()
        """How the outcome of each is known: `RECORDED`, `ASSUMED` or `UNKNOWN`."""
        self.on_path = True
        """Whether it has asked as was recorded so far."""
        self.holds = True
        """Whether everyone has refused who is known to."""
        self.certain = self.assumed_certain = self.maybe_certain = 0
        """Of those that are certain, how many are only assumed; and how many there may have been."""
        self.doubtful = 0
        """Probes that may not have come to be."""
        self.secs = self.assumed_secs = 0.0
        self.guessed = False
        """Whether it goes by something that is unknown."""
        self.open_ended = False
        """Whether something of it may have taken any time."""
        self.refused: frozenset[Refusal] = frozenset()

    def fork(self) -> Way:
        other = object.__new__(Way)
        for name in Way.__slots__:
            setattr(other, name, getattr(self, name))
        other.turn = self.turn.fork()
        return other

    def outcomes(self, case: Case, known: Refusals[Known]) -> Iterator[_Outcome]:
        """What may come of asking whom the turn asks now."""
        name = self.turn.target.name
        probe = case.probes.get(name)
        if case.interruption is not None:
            here = self.on_path and len(self.asked) == case.settled
            if here and case.interrupted_while_asking in (name, ""):
                yield _Outcome(secs=0.0 if probe is None else secs_of(probe.attempts), interrupts=True)
                return
            if here or not self.on_path:
                yield _Outcome(how=UNKNOWN, secs=None, interrupts=True)
        if probe is not None and (probe.answered or probe.verdict is not None):
            secs = secs_of(probe.attempts)
            yield _Outcome(
                probe.verdict, at=probe.at, secs=secs, committed=probe.committed, trial=probe.trial
            )
            return
        refused = known.find(case.refuser(name), case.needs, case.size)
        if refused is not None:
            yield _Outcome(refused.verdict, ASSUMED, secs=refused.secs)
        holds = refused is None
        yield _Outcome(how=UNKNOWN, holds=holds, secs=None)
        for verdict in case.unknown(None if refused is None else refused.verdict):
            yield _Outcome(verdict, UNKNOWN, holds, secs=None)

    def take(self, outcome: _Outcome, case: Case, world: World, suspects: set[str]) -> None:
        """Go on by what came of the probe.

        Args:
            suspects: targets that may have refused something in this conversation of which nothing is known.
        """
        turn, name = self.turn, self.turn.target.name
        self._count(name, outcome, case)
        if outcome.interrupts and case.interruption is not None:
            turn.interrupt(case.interruption)
            return
        # in its own order: of several that are out the one is probed as last resort that was out first
        self.at = outcome.at if self.on_path else self.at + (outcome.secs or 0.0) + AN_INSTANT
        turn.probed(outcome.verdict, at=self.at, committed=outcome.committed, trial=outcome.trial)
        self._count_refusal(name, outcome, case, world, suspects)
        if self._is_interrupted(case, TurnState.CLASSIFIED):
            return
        turn.act()
        if turn.ended or self._is_interrupted(case, turn.state):
            return
        if (reread := case.reread(len(self.asked), on_path=self.on_path)) is None:
            turn.advance()
        else:
            turn.advance(SessionContext(world.context(reread[0], max(self.at, case.began))), reread[1])

    def _count(self, name: str, outcome: _Outcome, case: Case) -> None:
        place = len(self.asked)
        asked = outcome.how != RECORDED or not outcome.interrupts or place < len(case.path)
        if asked:
            self.asked = (*self.asked, name)
            self.marks = (*self.marks, outcome.how)
            self.on_path = self.on_path and place < len(case.path) and case.path[place] == name
        self.doubtful += outcome.interrupts and outcome.how == UNKNOWN
        self.holds = self.holds and outcome.holds
        self.guessed = self.guessed or outcome.how == UNKNOWN
        if outcome.how == RECORDED:
            self.secs += outcome.secs or 0.0
        elif outcome.secs is None:
            self.open_ended = True
        else:
            self.assumed_secs += outcome.secs

    def _count_refusal(
        self, name: str, outcome: _Outcome, case: Case, world: World, suspects: set[str]
    ) -> None:
        if outcome.verdict is None or outcome.committed:
            return
        by = case.refuser(name)
        if (told := refusal(by, outcome.verdict, case.needs, case.size)) is None:
            return
        certain = any(one.by == by and one.concerns(case.needs, case.size) for one in world.refused)
        self.certain += certain
        self.assumed_certain += certain and outcome.how == ASSUMED
        self.maybe_certain += certain or name in suspects
        if outcome.how != UNKNOWN:
            self.refused |= {told}

    def _is_interrupted(self, case: Case, state: str) -> bool:
        """Whether the recorded turn ended here, which ends this one if it has come the same way."""
        here = self.on_path and len(self.asked) == case.settled and case.interrupted_in == state
        if here and case.interruption is not None:
            self.turn.interrupt(case.interruption)
            return True
        return False

    # -- what it comes to

    @property
    def served_by(self) -> str | None:
        return self.asked[-1] if self.turn.state == TurnState.SERVED else None

    def elsewhere(self, case: Case) -> bool:
        """Whether it asks others, or ends otherwise, than was recorded."""
        return (self.asked, self.served_by) != (case.path, case.served_by)

    def figures(self, case: Case) -> tuple[Range, Range | None]:
        """What it comes to whatever anyone did, and if everyone refused who is known to."""
        served, was_served = self.turn.state == TurnState.SERVED, case.record.state == TurnState.SERVED
        probes, size = len(self.asked), case.size or 0
        rest = not served, was_served and not served, served and not was_served
        elsewhere = self.elsewhere(case)
        sure = probes - self.doubtful
        cost = case.cost(self.asked[-1], self.marks[-1]) if served else (0, 0)
        certain = self.certain - self.assumed_certain  # it may have been refused for anything else
        low: Figures = (elsewhere, sure, certain, *rest, self.secs, sure * size, cost[0])
        most = inf if self.open_ended or ASSUMED in self.marks else self.secs
        high: Figures = (elsewhere, probes, self.maybe_certain, *rest, most, probes * size, cost[1])
        if not self.holds:
            return (low, high), None
        secs = self.secs + self.assumed_secs
        most = inf if self.open_ended else secs
        least = (elsewhere, sure, self.certain, *rest, secs, *low[7:])
        return (low, high), (least, (*high[:6], most, *high[7:]))

    def leads_to(self, world: World, case: Case) -> tuple[Alike, World]:
        """The world after it, and what makes it like others."""
        context, recorded = self.turn.context, case.after
        evictions = context.by_key
        gone: frozenset[Key] = frozenset()
        more: tuple[Eviction, ...] = ()
        if evictions != recorded:
            gone = frozenset(recorded.keys() - evictions.keys())
            more = tuple([e for key, e in evictions.items() if recorded.get(key) != e])
        if world.more:  # what was learnt only after this turn had begun, and it did not see
            more += tuple([e for e in world.more if e.first.at > case.began and e.key not in evictions])
        homes = world.homes if case.routing.options.affinity is None else self._homes(world, case)
        refused = _smallest(world.refused | self.refused) if self.refused else world.refused
        after = World(gone, more, homes, refused)
        return _alike(after, context, case.routing), after

    def _homes(self, world: World, case: Case) -> tuple[tuple[str, Home | None], ...]:
        homes, route, settled = dict(world.homes), case.record.route, self.turn.settled
        recorded = case.routing.home(case.record.settled)
        if route in homes:
            homes[route] = settled or homes[route]
        elif _places(settled) != _places(recorded):
            homes[route] = settled or self.turn.home
        return tuple(sorted(homes.items(), key=lambda item: item[0]))


def _places(home: Home | None) -> tuple[str, str] | None:
    return None if home is None else (home.home.target, home.last.target)


def _smallest(refused: frozenset[Refusal]) -> frozenset[Refusal]:
    """Without the sizes of targets that have refused a smaller one."""
    least: dict[Refuser, Refusal] = {}
    for one in refused:
        if not one.features and (one.by not in least or one.size < least[one.by].size):
            least[one.by] = one
    return frozenset(one for one in refused if one.features or least[one.by] is one)


def secs_of(attempts: Iterable[AttemptRecord]) -> float:
    """How long a probe took, waits included."""
    return sum(attempt.waited + attempt.duration for attempt in attempts)


def follow(
    case: Case, world: World, known: Refusals[Known], suspects: set[str], most: int
) -> list[Way] | None:
    """Every way that a turn may go in a world; None: there are too many.

    Args:
        known: what targets have refused in this conversation.
        suspects: those that may have refused something of which nothing is known.
        most: how many ways to follow.
    """
    under_way, ended = [Way(case.turn(world), case.record.started)], list[Way]()
    while under_way:
        way = under_way.pop()
        *others, last = way.outcomes(case, known)
        for outcome in others:
            other = way.fork()
            other.take(outcome, case, world, suspects)
            (ended if other.turn.ended else under_way).append(other)
        way.take(last, case, world, suspects)
        (ended if way.turn.ended else under_way).append(way)
        if len(ended) + len(under_way) > most:
            return None
    return ended
