"""A session told from its records: turn by turn who was asked, who was not, and which turn is the cause."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from msgspec import Struct, structs

from turnout.engine import pricing
from turnout.engine.audit import AuditRecord, PassedOver, ProbeRecord
from turnout.engine.context import Cause, Eviction
from turnout.engine.errors import ConfigurationError
from turnout.engine.habits import Place
from turnout.engine.refusals import Refusal, Refuser, refusal
from turnout.engine.replay import options_of
from turnout.engine.selection import NO_OPTIONS, Options, Wants, applies
from turnout.machines.vocabulary import RoutingFallbackReason


class Reason(Struct, frozen=True, omit_defaults=True):
    """What an upstream said, and how that was known."""

    kind: str
    rule: str
    field: str = ""
    status: int | None = None
    code: str = ""
    message: str = ""
    features: tuple[str, ...] = ()
    turn: str = ""
    """The turn in which it was said."""
    number: int | None = None
    """That turn's place in the session; None if it is of another one, or its record is not here."""


class Asked(Struct, frozen=True, omit_defaults=True):
    """A target that was asked."""

    target: str
    outcome: str
    """`answered`, `evicted`, `skipped`, `failed`, or what ended the turn meanwhile."""
    attempts: int = 1
    secs: float = 0.0
    """From the first attempt to the end of the last one, waits included."""
    waited: float = 0.0
    """Of that, between attempts."""
    stripped: tuple[str, ...] = ()
    last_resort: bool = False
    trial: bool = False
    reason: Reason | None = None
    failures: tuple[str, ...] = ()
    """What its attempts met before."""
    possibly_billed: int = 0
    """Attempts that failed and that the upstream may charge for all the same."""


class NotAsked(Struct, frozen=True, omit_defaults=True):
    """A target that was passed over, or that the turn did not come to."""

    target: str
    why: str
    """`evicted`, `gated`, `cooling`; or what ended the turn before it."""
    limit: str = ""
    until: float | None = None
    """When it has cooled, or its trial lapses, in seconds since 1970."""
    trial: str = ""
    """The turn that tries it meanwhile."""
    reasons: tuple[Reason, ...] = ()


class Switch(Struct, frozen=True, omit_defaults=True):
    """Another target served than before."""

    before: str
    now: str
    cached: int = 0
    """Tokens that came from the cache of the one before, and do not from that of the new one."""
    cost: float = 0.0
    """How much more these cost at the new one, about; 0 where that declares no price of a cache."""


class TurnAccount(Struct, frozen=True, omit_defaults=True):
    """One turn of a session."""

    number: int
    turn: str
    at: float
    took: float
    route: str
    state: str
    served_by: str | None = None
    agent: str = ""
    error: str = ""
    asked: tuple[Asked, ...] = ()
    not_asked: tuple[NotAsked, ...] = ()
    restored: tuple[str, ...] = ()
    """Targets of which an eviction was contradicted."""
    lifted: tuple[str, ...] = ()
    """Targets with an eviction that did not apply."""
    home: str = ""
    """Where the session came to be at home by this turn."""
    cost: float | None = None
    """What the served answer cost, in money; None where that is unknown or no price is declared."""
    cost_unknown: bool = False
    """Its target declares a price, and the tokens are not known."""
    switch: Switch | None = None
    notes: tuple[str, ...] = ()


class Account(Struct, frozen=True):
    """A session, as its records tell it."""

    session: str
    turns: tuple[TurnAccount, ...]

    @property
    def spent(self) -> str:
        """What its turns cost, in words; empty where no target of them declares a price."""
        known = [turn.cost for turn in self.turns if turn.cost is not None]
        return pricing.spent(sum(known) if known else None, sum(turn.cost_unknown for turn in self.turns))


def account(session: str, records: Iterable[AuditRecord]) -> Account:
    """Tell a session from its records, which may come in any order, and some of them twice."""
    told = _Session(in_order(records))
    return Account(session, tuple([told.turn(number) for number in range(1, len(told.records) + 1)]))


def in_order(records: Iterable[AuditRecord]) -> list[AuditRecord]:
    """Records in the order in which their turns began, each turn once: several sinks may have kept it."""
    ordered = sorted(records, key=lambda record: (record.started, record.sequence, record.turn))
    return list({(record.turn, record.started): record for record in ordered}.values())


class _Refused(NamedTuple):
    """A refusal that led to an eviction."""

    at: float
    refusal: Refusal
    reason: Reason


class _Session:
    """What the turns of a session have to do with one another."""

    def __init__(self, records: Sequence[AuditRecord]) -> None:
        self.records = records
        self._numbers: dict[str, list[int]] = {}
        self._refused: dict[tuple[str, str, RoutingFallbackReason], list[_Refused]] = {}
        self._before: dict[int, AuditRecord] = {}
        """Who had served last when a turn was served, of the same agent on the same route."""
        for number, record in enumerate(records, 1):
            self._numbers.setdefault(record.turn, []).append(number)
            self._note_refusals(number, record)
        self._homes: dict[tuple[str, str, int], Place] = {}
        """Of each move of a home the one that counts: turns that overlap may each have made it."""
        for record in records:
            if (settled := record.settled) is not None:
                move = record.caller.agent, record.route, settled.moves
                first = min(settled.home, self._homes.get(move, settled.home), key=lambda p: (p.at, p.target))
                self._homes[move] = first
        last: dict[tuple[str, str], AuditRecord] = {}
        for number, record in sorted(enumerate(records, 1), key=lambda one: one[1].started + one[1].took):
            if record.served_by is not None:
                whose = record.caller.agent, record.route
                if whose in last:
                    self._before[number] = last[whose]
                last[whose] = record

    def turn(self, number: int) -> TurnAccount:
        """One of its turns, by its number."""
        record = self.records[number - 1]
        not_asked = [self._passed_over(over, record) for over in record.passed_over]
        not_asked += [NotAsked(left.target, str(left.why)) for left in record.not_tried]
        places = {rung.target: place for place, rung in enumerate(record.ladder)}
        return TurnAccount(
            number=number,
            turn=record.turn,
            at=record.started,
            took=record.took,
            route=record.route,
            state=record.state,
            served_by=record.served_by,
            agent=record.caller.agent,
            error=record.error,
            asked=tuple(_asked(record)),
            not_asked=tuple(sorted(not_asked, key=lambda one: places.get(one.target, len(places)))),
            restored=tuple(dict.fromkeys(eviction.target for eviction in record.restored)),
            lifted=tuple(dict.fromkeys(eviction.target for eviction in record.lifted)),
            home=self._new_home(record),
            cost=record.cost,
            cost_unknown=record.cost_unknown,
            switch=_switch(record, self._before.get(number)),
            notes=record.notes,
        )

    def _new_home(self, record: AuditRecord) -> str:
        """Where the session came to be at home by a turn."""
        if (settled := record.settled) is None:
            return ""
        before = None if record.home is None else record.home.home
        counts = self._homes[record.caller.agent, record.route, settled.moves] == settled.home
        return settled.home.target if counts and settled.home != before else ""

    def _note_refusals(self, number: int, record: AuditRecord) -> None:
        needs = frozenset(record.needs)
        for probe in record.probes:
            said, why = _said(probe), probe.reason
            if probe.verdict is None or said is None or why is None or why not in _LASTING:
                continue
            told = refusal(Refuser(probe.target, ""), probe.verdict, needs, record.size)
            if told is not None:
                whose = record.caller.agent, probe.target, why
                reason = structs.replace(said, turn=record.turn, number=number)
                self._refused.setdefault(whose, []).append(_Refused(probe.at, told, reason))

    def _passed_over(self, over: PassedOver, record: AuditRecord) -> NotAsked:
        if (cooling := over.cooling) is not None:
            since = () if cooling.cause is None else (self._of_cause(cooling.cause),)
            trial = cooling.trial
            return NotAsked(over.target, str(over.why), until=cooling.until, trial=trial, reasons=since)
        reasons = [self._of_eviction(eviction, record) for eviction in over.evictions]
        return NotAsked(over.target, str(over.why), over.limit, reasons=tuple(reasons))

    def _of_eviction(self, eviction: Eviction, record: AuditRecord) -> Reason:
        """The refusal that rules a target out of this turn. An eviction keeps only the first of several."""
        known = self._refused.get((record.caller.agent, eviction.target, eviction.reason), [])
        merged = [one for one in known if eviction.first.at <= one.at <= eviction.latest_at]
        options, wants = _options(record), Wants(frozenset(record.needs), record.size)
        for refused in sorted(merged, key=lambda one: one.at):
            _, features, size = refused.refusal
            alone = structs.replace(eviction, size=size or None, refused=frozenset({features}))
            if applies(alone, options, wants):
                return refused.reason
        return self._of_cause(eviction.first)

    def _of_cause(self, cause: Cause) -> Reason:
        numbers = self._numbers.get(cause.turn, [])
        begun = [number for number in numbers if self.records[number - 1].started <= cause.at]
        return Reason(
            str(cause.kind),
            cause.evidence.rule,
            cause.evidence.field,
            cause.status,
            cause.code,
            cause.message,
            cause.features,
            cause.turn,
            next(reversed(begun or numbers), None),
        )


_LASTING: Final = (RoutingFallbackReason.CONTEXT_WINDOW, RoutingFallbackReason.CAPABILITY)


def _options(record: AuditRecord) -> Options:
    """The options of a record; the defaults where it holds none that a turn could begin with."""
    try:
        return options_of(record.options)
    except (ConfigurationError, TypeError):
        return NO_OPTIONS


def _asked(record: AuditRecord) -> Iterator[Asked]:
    for probe in record.probes:
        yield Asked(
            probe.target,
            _outcome(probe, record.ended_by),
            attempts=max(1, len(probe.attempts)),
            secs=probe.secs,
            waited=sum(attempt.waited for attempt in probe.attempts),
            stripped=probe.attempts[-1].stripped if probe.attempts else (),
            last_resort=probe.last_resort,
            trial=probe.trial,
            reason=_said(probe),
            failures=tuple(_failures(probe)),
            possibly_billed=sum(attempt.possibly_billed for attempt in probe.attempts),
        )


def _failures(probe: ProbeRecord) -> Iterator[str]:
    """What attempts met, but for the one that was classified."""
    for attempt in probe.attempts if probe.verdict is None else probe.attempts[:-1]:
        if attempt.kind is not None:
            yield f"{attempt.kind} HTTP {attempt.status}" if attempt.status else str(attempt.kind)


def _outcome(probe: ProbeRecord, ended_by: str) -> str:
    if probe.answered:
        return "answered"
    if probe.verdict is None:
        return ended_by
    if probe.reason is None:
        return "failed"
    return "skipped" if probe.reason is RoutingFallbackReason.UNAVAILABLE else "evicted"


def _said(probe: ProbeRecord) -> Reason | None:
    verdict = probe.verdict
    if verdict is None:
        return None
    return Reason(
        str(verdict.kind),
        verdict.evidence.rule,
        verdict.evidence.field,
        verdict.status,
        verdict.code,
        verdict.message,
        tuple(map(str, verdict.features)),
    )


def _switch(record: AuditRecord, before: AuditRecord | None) -> Switch | None:
    was, now = None if before is None else before.served_by, record.served_by
    if before is None or was is None or now is None or was == now:
        return None
    cached = max(0, _from_cache(before) - _from_cache(record))
    rung = record.server
    more = 0.0 if rung is None or rung.price is None else pricing.uncached(cached, rung.price)
    return Switch(was, now, cached, more)


def _from_cache(record: AuditRecord) -> int:
    rung = record.server
    return 0 if rung is None else pricing.from_cache(record.usage, rung.format)


# -- which sessions there are


class SessionLine(Struct):
    """One session, in short."""

    session: str
    namespace: str = ""
    turns: int = 0
    failed: int = 0
    fell_back: int = 0
    passed_over: int = 0
    """Turns in which somebody was."""
    first: float = 0.0
    last: float = 0.0
    served_by: list[str] = []
    reasons: list[str] = []
    cost: float | None = None
    """Of the turns whose cost is known; None if of none."""
    cost_unknown: int = 0
    """Turns of which it is not, although their targets declare a price."""

    def add(self, record: AuditRecord) -> None:
        """Count a turn of it."""
        self.turns += 1
        self.failed += record.state == "failed"
        self.fell_back += any(probe.reason is not None for probe in record.probes)
        self.passed_over += bool(record.passed_over)
        self.first = min(self.first or record.started, record.started)
        self.last = max(self.last, record.started)
        reasons = [str(probe.reason) for probe in record.probes if probe.reason is not None]
        _add(self.served_by, [record.served_by] if record.served_by else [])
        _add(self.reasons, reasons)
        self.cost_unknown += record.cost_unknown
        if (cost := record.cost) is not None:
            self.cost = (self.cost or 0.0) + cost

    @property
    def spent(self) -> str:
        """Its cost, in words; empty where no target of it declares a price."""
        return pricing.spent(self.cost, self.cost_unknown)


def _add(known: list[str], more: Sequence[str]) -> None:
    known += [one for one in dict.fromkeys(more) if one not in known]
