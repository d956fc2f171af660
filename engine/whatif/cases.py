"""A recorded turn as it would begin under other rules, and what may come of asking a target in it.

What was recorded of a target in this very turn happens again. Where nothing was, a target that is known to
refuse such a turn is assumed to refuse it, and everyone else may do anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations, islice
from math import inf
from typing import Final, get_args

from turnout.engine import pricing
from turnout.engine.audit import AuditRecord, ProbeRecord
from turnout.engine.classify.verdict import ALWAYS, Evidence, Verdict
from turnout.engine.context import Eviction, SessionContext
from turnout.engine.habits import MOST_TOKENS
from turnout.engine.policy import Policy
from turnout.engine.refusals import Refusal, Refuser, refusal
from turnout.engine.selection import Coolings
from turnout.engine.turn import Interruption, Turn
from turnout.engine.whatif.routing import Routing
from turnout.engine.whatif.worlds import World
from turnout.machines.vocabulary import ErrorKind, RoutingFallbackReason, TurnState

MOST_WAYS: Final = 64
"""Ways that one turn is followed on, over all worlds of its session."""

RECORDED: Final = ""
ASSUMED: Final = "assumed"
UNKNOWN: Final = "unknown"
"""How an outcome is known."""

_INTERRUPTIONS: Final = get_args(Interruption)


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
        server = self.record.server
        price = now.price or (None if server is None else server.price)
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
        used = sorted(needs - ALWAYS)
        for number in range(1, len(used) + 1):
            yield from ((ErrorKind.CAPABILITY, features) for features in combinations(used, number))
    yield from ((kind, ()) for kind in ErrorKind)
