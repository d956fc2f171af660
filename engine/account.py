"""A session told from its records: turn by turn who was asked, who was not, and which turn is the cause."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from turnout.engine import pricing
from turnout.engine.audit import AuditRecord, PassedOver, ProbeRecord, Rung
from turnout.engine.context import Cause, Eviction
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
    possibly_billed: int = 0
    """Attempts that failed and that the upstream may charge for all the same."""


class NotAsked(Struct, frozen=True, omit_defaults=True):
    """A target that was passed over, or that the turn did not come to."""

    target: str
    why: str
    """`evicted`, `gated`, `cooling`; or what ended the turn before it."""
    limit: str = ""
    until: float | None = None
    """When it has cooled, in seconds since 1970."""
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
        return _words_of_cost(sum(known) if known else None, sum(turn.cost_unknown for turn in self.turns))


def account(session: str, records: Iterable[AuditRecord]) -> Account:
    """Tell a session from its records, which may come in any order. Each agent's switches are its own."""
    ordered = in_order(records)
    numbers = {record.turn: number for number, record in enumerate(ordered, 1)}
    last: dict[str, AuditRecord] = {}
    turns = []
    for record in ordered:
        turns.append(_turn(record, numbers, last.get(record.caller.agent)))
        if record.served_by is not None:
            last[record.caller.agent] = record
    return Account(session, tuple(turns))


def in_order(records: Iterable[AuditRecord]) -> list[AuditRecord]:
    """Records in the order in which their turns began."""
    return sorted(records, key=lambda record: (record.started, record.sequence, record.turn))


def _turn(record: AuditRecord, numbers: Mapping[str, int], before: AuditRecord | None) -> TurnAccount:
    not_asked = [_passed_over(over, numbers) for over in record.passed_over]
    not_asked += [NotAsked(left.target, str(left.why)) for left in record.not_tried]
    places = {rung.target: place for place, rung in enumerate(record.ladder)}
    cost, cost_unknown = _cost(record)
    return TurnAccount(
        number=numbers[record.turn],
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
        home="" if record.settled is None or record.home is not None else record.settled.home.target,
        cost=cost,
        cost_unknown=cost_unknown,
        switch=_switch(record, before),
        notes=record.notes,
    )


def _asked(record: AuditRecord) -> Iterator[Asked]:
    for probe in record.probes:
        yield Asked(
            probe.target,
            _outcome(probe, record.ended_by),
            attempts=max(1, len(probe.attempts)),
            secs=sum(attempt.waited + attempt.duration for attempt in probe.attempts),
            waited=sum(attempt.waited for attempt in probe.attempts),
            stripped=probe.attempts[-1].stripped if probe.attempts else (),
            last_resort=probe.last_resort,
            trial=probe.trial,
            reason=_said(probe),
            possibly_billed=sum(attempt.possibly_billed for attempt in probe.attempts),
        )


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


def _passed_over(over: PassedOver, numbers: Mapping[str, int]) -> NotAsked:
    if over.cooling is not None:
        cause = over.cooling.cause
        reasons = () if cause is None else (_of_cause(str(cause.kind), cause, numbers),)
        return NotAsked(over.target, str(over.why), until=over.cooling.until, reasons=reasons)
    return NotAsked(
        over.target,
        str(over.why),
        over.limit,
        reasons=tuple(_of_eviction(e, numbers) for e in over.evictions),
    )


def _of_eviction(eviction: Eviction, numbers: Mapping[str, int]) -> Reason:
    return _of_cause(str(eviction.reason), eviction.first, numbers)


def _of_cause(kind: str, cause: Cause, numbers: Mapping[str, int]) -> Reason:
    return Reason(
        kind,
        cause.evidence.rule,
        cause.evidence.field,
        cause.status,
        cause.code,
        cause.message,
        cause.features,
        cause.turn,
        numbers.get(cause.turn),
    )


def _switch(record: AuditRecord, before: AuditRecord | None) -> Switch | None:
    was, now = None if before is None else before.served_by, record.served_by
    if before is None or was is None or now is None or was == now:
        return None
    cached = max(0, _from_cache(before) - _from_cache(record))
    rung = _served_by(record)
    more = 0.0 if rung is None or rung.price is None else pricing.uncached(cached, rung.price)
    return Switch(was, now, cached, more)


def _served_by(record: AuditRecord) -> Rung | None:
    return next((rung for rung in record.ladder if rung.target == record.served_by), None)


def _from_cache(record: AuditRecord) -> int:
    rung = _served_by(record)
    return 0 if rung is None else pricing.from_cache(record.usage, rung.format)


def _cost(record: AuditRecord) -> tuple[float | None, bool]:
    """What a turn cost, and whether that is unknown although its target declares a price."""
    rung = _served_by(record)
    if rung is None or rung.price is None:
        return None, False
    cost = pricing.cost(record.usage, rung.price, rung.format)
    return cost, cost is None


# -- in words


def lines(told: TurnAccount) -> Iterator[str]:
    """A turn as a person reads it, a line for each thing. Nothing is made fit for a terminal."""
    by = f"by {told.served_by}" if told.served_by else told.state
    agent = f", agent {told.agent}" if told.agent else ""
    yield f"turn {told.number}  {by} in {told.took:.3g} s on route {told.route}{agent}"
    for one in told.asked:
        yield f"  {one.target}: {_words_of_asked(one)}"
    for other in told.not_asked:
        yield f"  {other.target}: {_words_of_not_asked(other, told.at)}"
    yield from _lines_of_cost(told)
    if told.switch is not None:
        yield f"  {_words_of_switch(told.switch)}"
    if told.home:
        yield f"  the session is at home with {told.home} from now on"
    if told.restored:
        yield f"  restored, since it served: {', '.join(told.restored)}"
    if told.lifted:
        yield f"  evicted, but not for this request: {', '.join(told.lifted)}"
    if told.error:
        yield f"  the caller got: {told.error}"
    for note in told.notes:
        yield f"  note: {note}"


def _lines_of_cost(told: TurnAccount) -> Iterator[str]:
    if told.cost_unknown:
        yield "  cost unknown: the tokens were not reported, or not so that they can be believed"
    elif told.cost is not None:
        yield f"  cost {pricing.shown(told.cost)}"


def _words_of_cost(cost: float | None, unknown: int) -> str:
    """What several turns cost; empty where nothing is to be told of it."""
    parts = [] if cost is None else [f"cost {pricing.shown(cost)}"]
    parts += [f"{'1 turn' if unknown == 1 else f'{unknown} turns'} of unknown cost"] if unknown else []
    return " and ".join(parts)


def _words_of_switch(switch: Switch) -> str:
    more = f", which costs about {pricing.shown(switch.cost)} more" if switch.cost else ""
    lost = f"; {switch.cached} cached tokens are lost{more}" if switch.cached else ""
    return f"switched from {switch.before} to {switch.now}{lost}"


def _words_of_asked(one: Asked) -> str:
    how = [f"asked {one.attempts} times" if one.attempts > 1 else "asked"]
    how += ["as last resort, since all were ruled out"] if one.last_resort else []
    how += ["as the one trial of a target that had cooled"] if one.trial else []
    how += [f"waited {one.waited:.3g} s"] if one.waited else []
    how += [f"without {', '.join(one.stripped)}"] if one.stripped else []
    billed = "an attempt" if one.possibly_billed == 1 else f"{one.possibly_billed} attempts"
    how += [f"{billed} may be billed all the same"] if one.possibly_billed else []
    said = f": {_words_of_reason(one.reason)}" if one.reason is not None else ""
    return f"{', '.join(how)}, {one.outcome}{said}"


def _words_of_not_asked(one: NotAsked, at: float) -> str:
    if one.why == "gated":
        return f"passed over, gated: {one.limit}"
    if one.why == "cooling":
        left = "" if one.until is None else f" for {max(0.0, one.until - at):.3g} s more"
        since = "; ".join(f" since {_where(r)}: {_words_of_reason(r)}" for r in one.reasons)
        return f"passed over, cooling{left}{since}"
    if one.why == "evicted":
        causes = "; ".join(f"in {_where(r)}: {_words_of_reason(r)}" for r in one.reasons)
        return f"passed over, evicted {causes}"
    return f"not tried: {_NOT_TRIED.get(one.why, one.why)}"


_NOT_TRIED: Final[Mapping[str, str]] = {
    "served": "another one had served",
    "surfaced": "the error before it went to the caller",
    "deadline": "the deadline had passed",
    "cancelled": "the caller had gone",
    "broken": "the turn was broken",
}


def _where(reason: Reason) -> str:
    return f"turn {reason.number}" if reason.number is not None else f"turn {reason.turn}, not of these"


def _words_of_reason(reason: Reason) -> str:
    what = f" ({', '.join(reason.features)})" if reason.features else ""
    status = f", HTTP {reason.status}" if reason.status else ""
    code = f", code {reason.code}" if reason.code else ""
    field = f" in {reason.field}" if reason.field else ""
    said = f': "{reason.message}"' if reason.message else ""
    return f"{reason.kind}{what}{status}{code}, known by {reason.rule}{field}{said}"


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
        cost, unknown = _cost(record)
        self.cost_unknown += unknown
        if cost is not None:
            self.cost = (self.cost or 0.0) + cost

    @property
    def spent(self) -> str:
        """Its cost, in words; empty where none is known."""
        return "" if self.cost is None else _words_of_cost(self.cost, self.cost_unknown)


def _add(known: list[str], more: Sequence[str]) -> None:
    known += [one for one in dict.fromkeys(more) if one not in known]
