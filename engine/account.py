"""A session told from its records: turn by turn who was asked, who was not, and which turn is the cause."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from turnout.engine.audit import AuditRecord, PassedOver, ProbeRecord
from turnout.engine.context import Cause, Eviction
from turnout.machines.vocabulary import RoutingFallbackReason

_CACHED: Final = ("cached_tokens", "cache_read_input_tokens")
"""What providers call the tokens of a request that came from a prompt cache."""


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
    """Tokens of the last request that came from the cache of the one before: they are paid for anew."""


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
    switch: Switch | None = None
    notes: tuple[str, ...] = ()


class Account(Struct, frozen=True):
    """A session, as its records tell it."""

    session: str
    turns: tuple[TurnAccount, ...]


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
    if before is None or record.served_by is None or before.served_by in (None, record.served_by):
        return None
    usage = before.usage or {}
    cached = sum(usage[key] for key in _CACHED if key in usage)
    return Switch(str(before.served_by), record.served_by, cached)


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
    if told.switch is not None:
        lost = f"; {told.switch.cached} cached tokens are lost" if told.switch.cached else ""
        yield f"  switched from {told.switch.before} to {told.switch.now}{lost}"
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


def _words_of_asked(one: Asked) -> str:
    how = [f"asked {one.attempts} times" if one.attempts > 1 else "asked"]
    how += ["as last resort, since all were ruled out"] if one.last_resort else []
    how += ["as the one trial of a target that had cooled"] if one.trial else []
    how += [f"waited {one.waited:.3g} s"] if one.waited else []
    how += [f"without {', '.join(one.stripped)}"] if one.stripped else []
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


def _add(known: list[str], more: Sequence[str]) -> None:
    known += [one for one in dict.fromkeys(more) if one not in known]
