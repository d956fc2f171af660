"""Recorded sessions under other rules: what another policy, ladder or limits would have changed.

Turns are taken one by one, in the order of their records, and a session is kept as the worlds that it may
be in by then. What it comes to is told twice: if every target went on refusing what it had refused in a
conversation, and whatever any target may have done that is not recorded. Both are ranges, from the least to
the most.

Coolings are taken as they were recorded; deadlines, retries and waits are those of the recorded probes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from operator import add
from typing import Final

from msgspec import Struct

from turnout.engine.audit import AuditRecord
from turnout.engine.context import Eviction, Identity, Key
from turnout.engine.errors import ConfigurationError
from turnout.engine.refusals import Refusals, Refuser, refusals_of, verdict_of
from turnout.engine.whatif.cases import MOST_WAYS, Case
from turnout.engine.whatif.routing import Rules
from turnout.engine.whatif.totals import FIGURES, NOTHING, ZERO, Figures, Range, either, plus, widest
from turnout.engine.whatif.ways import Known, Way, follow
from turnout.engine.whatif.worlds import Alike, World
from turnout.machines.vocabulary import TurnState

MOST_SESSIONS: Final = 50_000
"""Sessions, and agents of sessions, that are kept at a time. Of more, the one that was heard of least
recently is closed: what comes of it later is played from its own record alone."""
MOST_WORLDS: Final = 16
"""Worlds of one session that are told apart."""
LATE_SECS: Final = 1.0
"""How much earlier than the one before a turn of a session may have ended: clocks differ."""


class Path(Struct, frozen=True):
    """Whom a turn asked, or would ask."""

    asked: tuple[str, ...]
    served_by: str | None
    known: tuple[str, ...] = ()
    """How the outcome of each is known: empty for recorded, `assumed` or `unknown`."""


class Elsewhere(Struct, frozen=True):
    """A turn that goes elsewhere, or may."""

    turn: str
    session: str
    recorded: Path
    would: tuple[Path, ...]
    """Every way that it may go, if targets went on refusing what they had refused; empty: too many."""


class Report(Struct, frozen=True):
    """What all turns come to. See `FIGURES` for what each figure means."""

    turns: int
    sessions: int
    recorded: Mapping[str, float]
    assumed: Mapping[str, tuple[float, float]]
    """From the least to the most, if every target goes on refusing what it has refused."""
    possible: Mapping[str, tuple[float, float]]
    """From the least to the most, whatever any target may have done that is not recorded."""
    closed_early: int
    """Sessions, or agents of sessions, that were closed since there were too many."""
    too_many_ways: int
    """Sessions that may have gone more ways than are followed: anything is thought possible from there on."""
    out_of_order: int
    """Turns that came after one of their session that had ended later."""
    overlapping: int
    """Turns that began before the one before of their session had ended: what the one learnt of the other by
    then is guessed from the times that were recorded."""
    cost_unknown: int
    """Turns of which the cost is not known, although their target declares a price: no sum has it."""
    remarks: tuple[str, ...]
    """What is to be known of the rules, in words."""


class WhatIf:
    """Plays recorded turns under other rules.

    Args:
        rules: by what they are routed instead.
        most_sessions: how many sessions are kept at a time.
    """

    def __init__(self, rules: Rules, *, most_sessions: int = MOST_SESSIONS) -> None:
        self._rules = rules
        self._most = most_sessions
        self._open: OrderedDict[Identity, _Session] = OrderedDict()
        """The one that was heard of last at the end."""
        self._agents: dict[tuple[str, str], set[Identity]] = {}
        """Those of each session that are open."""
        self._recorded: Figures = ZERO
        self._assumed = self._possible = NOTHING
        self._turns = self._sessions = self._closed_early = self._too_many_ways = 0
        self._out_of_order = self._overlapping = self._cost_unknown = 0

    def take(self, record: AuditRecord) -> Elsewhere | None:
        """Play one more turn. None if it goes as it was recorded.

        Raises:
            ConfigurationError: it cannot be played; it counts for nothing then.
        """
        caller = record.caller
        identity = Identity(caller.namespace, caller.session, caller.agent)
        session = (self._open.get(identity) if caller.remembered else None) or _Session()
        heard_until = session.heard_until
        try:
            case = Case(record, self._rules.routing(record), overlaps=heard_until > record.started)
            elsewhere = session.play(case)
        except (TypeError, ValueError, OverflowError) as error:
            raise ConfigurationError(f"{type(error).__name__}: {error}") from error
        self._turns += 1
        late = heard_until > record.started + record.took + LATE_SECS
        self._out_of_order += late
        self._overlapping += heard_until > record.started and not late
        self._cost_unknown += record.cost_unknown
        self._keep(identity, session, record)
        return elsewhere

    def report(self) -> Report:
        """What all turns that were taken come to. Closes every session."""
        for identity in list(self._open):
            self._close(identity)
        return Report(
            turns=self._turns,
            sessions=self._sessions,
            recorded=dict(zip(FIGURES, self._recorded, strict=True)),
            assumed=_by_name(self._assumed),
            possible=_by_name(self._possible),
            closed_early=self._closed_early,
            too_many_ways=self._too_many_ways,
            out_of_order=self._out_of_order,
            overlapping=self._overlapping,
            cost_unknown=self._cost_unknown,
            remarks=tuple(self._rules.remarks()),
        )

    def _keep(self, identity: Identity, session: _Session, record: AuditRecord) -> None:
        """Keep what is remembered, as long as it is, and as much as is to be kept."""
        caller = record.caller
        if not caller.remembered:
            self._add(session)
            return
        whole = identity.namespace, identity.session
        if whole not in self._agents:
            self._agents[whole] = set()
            self._sessions += 1
        self._agents[whole].add(identity)
        self._open[identity] = session
        self._open.move_to_end(identity)
        if caller.final:
            for ended in [identity] if caller.agent else list(self._agents[whole]):
                self._close(ended)
        elif len(self._open) > self._most:
            self._close(next(iter(self._open)))
            self._closed_early += 1

    def _close(self, identity: Identity) -> None:
        self._add(self._open.pop(identity))
        whole = identity.namespace, identity.session
        self._agents[whole].discard(identity)
        if not self._agents[whole]:
            del self._agents[whole]

    def _add(self, session: _Session) -> None:
        self._too_many_ways += session.too_many_ways
        self._recorded = tuple(map(add, self._recorded, session.recorded))
        possible, assumed = session.comes_to()
        self._possible = plus(self._possible, possible)
        self._assumed = plus(self._assumed, assumed)


def _by_name(figures: Range) -> dict[str, tuple[float, float]]:
    return dict(zip(FIGURES, zip(*figures, strict=True), strict=True))


class _Session:
    """The turns of one identity so far: the worlds that it may be in, and what each came to."""

    def __init__(self) -> None:
        self._worlds: dict[Alike, tuple[World, Range, Range | None]] = {(): (World(), NOTHING, NOTHING)}
        self._known: Refusals[Known] = Refusals()
        self._seen: Refusals[bool] = Refusals()
        """The same of targets as they were then."""
        self._suspects: set[str] = set()
        """Targets that may have refused something of which nothing is known."""
        self._standing: dict[Key, Eviction] = {}
        """As recorded by the turn before."""
        self.turns = 0
        self.heard_until = 0.0
        self.recorded: Figures = ZERO
        """What its turns came to as they were recorded."""
        self.too_many_ways = False

    def play(self, case: Case) -> Elsewhere | None:
        """Take a turn in every world."""
        record = case.record
        self._meet_what_others_did(case)
        if (ways := self._ways(case)) is None:
            self._give_up()
        self.recorded = tuple(map(add, self.recorded, self._measured(case)))
        if self.too_many_ways:
            served = record.state == TurnState.SERVED
            ladder, size = case.routing.ladder, case.size or 0
            anything = widest(len(ladder), size, served=served, priced=case.priced)
            ((world, possible, _),) = self._worlds.values()
            possible = plus(possible, anything)
            self._worlds = {(): (world, possible, possible)}
        self._learn(case)
        self._standing = {e.key: e for e in record.standings_after}
        self.turns += 1
        self.heard_until = max(self.heard_until, record.started + record.took)
        if ways is not None and not any(way.elsewhere(case) for way in ways):
            return None
        would = tuple(dict.fromkeys(Path(w.asked, w.served_by, w.marks) for w in ways or ()))
        recorded = Path(tuple(probe.target for probe in record.probes), record.served_by)
        return Elsewhere(record.turn, record.caller.session, recorded, would)

    def comes_to(self) -> tuple[Range, Range]:
        """What its turns come to whatever anyone did, and if everyone refused who is known to."""
        possible = assumed = None
        for _, one, other in self._worlds.values():
            possible, assumed = either(possible, one), either(assumed, other)
        return possible or NOTHING, assumed or NOTHING

    def _ways(self, case: Case) -> list[Way] | None:
        """Every way that the turn goes if everyone refuses who is known to; None: there are too many."""
        if self.too_many_ways:
            return None
        after: dict[Alike, tuple[World, Range, Range | None]] = {}
        found: list[Way] = []
        followed = 0
        suspects: set[str] = set()
        for world, possible, assumed in self._worlds.values():
            ways = follow(case, world, self._known, self._suspects, MOST_WAYS - followed)
            if ways is None:
                return None
            followed += len(ways)
            for way in ways:
                any_figures, figures = way.figures(case)
                one = plus(possible, any_figures)
                other = None if assumed is None or figures is None else plus(assumed, figures)
                if other is not None:
                    found.append(way)
                key, world_after = way.leads_to(world, case)
                if (known := after.get(key)) is not None:
                    world_after, before, before_assumed = known
                    one, other = either(before, one) or one, either(before_assumed, other)
                after[key] = world_after, one, other
                if way.guessed:
                    suspects.update(name for name, mark in zip(way.asked, way.marks, strict=True) if mark)
            if len(after) > MOST_WORLDS:
                return None
        self._worlds = after
        self._suspects |= suspects
        return found

    def _give_up(self) -> None:
        """From now on anything may be."""
        possible, _ = self.comes_to()
        self.too_many_ways = True
        self._worlds = {(): (World(), possible, possible)}

    def _measured(self, case: Case) -> Figures:
        """What a turn came to as it was recorded."""
        record = case.record
        probes, size = len(record.probes), case.size or 0
        certain = 0
        for probe in record.probes:
            told = case.refusal(probe, self._refuser_then(record, probe.target))
            if told is not None:
                certain += self._seen.find(told.by, case.needs, case.size) is not None
                self._seen.add(told, True)
        secs = sum(probe.secs for probe in record.probes)
        failed = record.state != TurnState.SERVED
        return 0, probes, certain, failed, 0, 0, secs, probes * size, record.cost or 0

    def _meet_what_others_did(self, case: Case) -> None:
        """Take in evictions that came and went otherwise than by the turns that were played."""
        record, translated = case.record, case.routing.evictions
        before = {e.key: e for e in record.standings_before}
        came = tuple(e for key, e in before.items() if key not in self._standing)
        went = tuple(
            e for key, e in self._standing.items() if key not in before and e.latest_at < record.started
        )
        if not (came or went):
            return
        for eviction in came:
            for told in refusals_of(eviction):
                self._seen.add(told, True)
        refused = []
        for eviction in translated(came):
            for told in refusals_of(eviction):
                refused.append(told)
                if self._known.find(told.by, frozenset(told.features), told.size) is None:
                    self._known.add(told, Known(verdict_of(eviction.first), None))
        removed = frozenset(e.key for e in translated(went))
        self._worlds = {
            key: (world.without(removed)._replace(refused=world.refused.union(refused)), one, other)
            for key, (world, one, other) in self._worlds.items()
        }

    def _learn(self, case: Case) -> None:
        """Keep what targets have refused, for the turns to come."""
        for name, probe in case.probes.items():
            told = case.refusal(probe, case.refuser(name))
            if told is not None and probe.verdict is not None:
                self._known.add(told, Known(probe.verdict, probe.secs))

    @staticmethod
    def _refuser_then(record: AuditRecord, target: str) -> Refuser:
        there = (rung.fingerprint for rung in record.ladder if rung.target == target)
        return Refuser(target, next(there, ""))
