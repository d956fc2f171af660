"""Every way that a recorded turn may go under other rules: it forks where nothing was recorded.

Ways that leave a session alike are one world from then on, with the least and the most that they came to.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Final, NamedTuple

from turnout.engine.classify.verdict import Verdict
from turnout.engine.context import Eviction, Key, SessionContext
from turnout.engine.habits import Home
from turnout.engine.refusals import Refusal, Refusals, refusal
from turnout.engine.turn import Turn
from turnout.engine.whatif.cases import ASSUMED, RECORDED, UNKNOWN, Case
from turnout.engine.whatif.totals import Figures, Range
from turnout.engine.whatif.worlds import Alike, World, alike, places, smallest
from turnout.machines.vocabulary import TurnState

AN_INSTANT: Final = 1e-6
"""Seconds between two things that happen one after the other, if nothing is known of the time."""


class Known(NamedTuple):
    """That a target has refused, and how."""

    verdict: Verdict
    secs: float | None
    """How long that took; None if it is not recorded."""


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
                yield _Outcome(secs=0.0 if probe is None else probe.secs, interrupts=True)
                return
            if here or not self.on_path:
                yield _Outcome(how=UNKNOWN, secs=None, interrupts=True)
        if probe is not None and (probe.answered or probe.verdict is not None):
            secs = probe.secs
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
        refused = smallest(world.refused | self.refused) if self.refused else world.refused
        after = World(gone, more, homes, refused)
        return alike(after, context, case.routing), after

    def _homes(self, world: World, case: Case) -> tuple[tuple[str, Home | None], ...]:
        homes, route, settled = dict(world.homes), case.record.route, self.turn.settled
        recorded = case.routing.home(case.record.settled)
        if route in homes:
            homes[route] = settled or homes[route]
        elif places(settled) != places(recorded):
            homes[route] = settled or self.turn.home
        return tuple(sorted(homes.items(), key=lambda item: item[0]))


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
