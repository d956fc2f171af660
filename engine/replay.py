"""A recorded turn, played again on today's machines: no network, no store, no clock, only its record."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Final, get_args

from msgspec import Struct

from turnout.engine.audit import SCHEMA, AuditRecord, NotTried, PassedOver, ProbeRecord, Rung
from turnout.engine.context import SessionContext
from turnout.engine.errors import ConfigurationError
from turnout.engine.habits import Home
from turnout.engine.health import Cooling
from turnout.engine.policy import Action, Policy
from turnout.engine.pricing import Price
from turnout.engine.selection import NO_OPTIONS, Coolings, Options
from turnout.engine.targets import Target
from turnout.engine.turn import Interruption, Turn
from turnout.machines import turn as turn_machine
from turnout.machines.stepping import Step, StepMachine, StepRefused
from turnout.machines.vocabulary import TurnoutError

_COMPARED: Final = (
    *("state", "ended_by", "served_by"),
    *("passed_over", "not_tried", "probes", "restored", "lifted", "standings_after", "settled"),
)
"""What of a record has to come out again, beside its steps and whom it asked."""
_INTERRUPTIONS: Final = get_args(Interruption)


class Difference(Struct, frozen=True):
    """The first thing that goes another way today than it was recorded."""

    turn: str
    session: str
    step: int
    """Its place among the recorded steps, from 1."""
    recorded: str
    today: str

    @property
    def digest(self) -> str:
        """Names this sort of difference, in whatever turn: 8 hexadecimal digits."""
        return hashlib.sha256(f"{self.recorded}\n{self.today}".encode()).hexdigest()[:8]


class _Differs(TurnoutError):
    """Something went another way."""

    def __init__(self, recorded: str, today: str) -> None:
        super().__init__(f"{recorded}: today {today}")
        self.recorded = recorded
        self.today = today


@dataclass(frozen=True, repr=False)
class RecordedTarget(Target):
    """A target as a record has it: it is known by what it was known by then."""

    recorded: str = field(default="", kw_only=True)
    """Its fingerprint."""

    @cached_property
    def fingerprint(self) -> str:
        return self.recorded


def target_of(rung: Rung) -> Target:
    """The target that a rung of a recorded ladder stands for."""
    limits = repr(rung.limits) if rung.limits else ""
    key = (rung.target, rung.model, rung.format, rung.fingerprint, limits, rung.price)
    if (known := _TARGETS.get(key)) is None:
        if len(_TARGETS) >= _MOST_KNOWN:
            _TARGETS.clear()
        told: dict[str, Any] = {
            "format": rung.format,
            **{key: tuple(value) if key == "input" else value for key, value in rung.limits.items()},
        }
        known = _TARGETS[key] = RecordedTarget(
            rung.target, model=rung.model, recorded=rung.fingerprint, price=rung.price, **told
        )
    return known


_TARGETS: Final[dict[tuple[str | Price | None, ...], Target]] = {}
_MOST_KNOWN: Final = 10_000


@lru_cache(maxsize=1024)
def policy_of(table: tuple[tuple[str, str], ...]) -> Policy:
    """The policy of a record, by the items of its table."""
    return Policy.of_table({case: Action(action) for case, action in table})


def options_of(given: Mapping[str, Any]) -> Options:
    """The options of a record."""
    return _options(tuple(given.items())) if given else NO_OPTIONS


@lru_cache(maxsize=1024)
def _options(given: tuple[tuple[str, Any], ...]) -> Options:
    return Options(**dict(given))


def turn_of(record: AuditRecord, *, machine: StepMachine = turn_machine.MACHINE) -> Turn:
    """The turn of a record as it began.

    Raises:
        ConfigurationError: the record holds what no turn can begin with.
    """
    return Turn(
        [target_of(rung) for rung in record.ladder],
        policy=policy_of(tuple(record.policy.items())),
        context=SessionContext(record.standings_before),
        id=record.turn,
        options=options_of(record.options),
        needs=frozenset(record.needs),
        size=record.size,
        output=record.output,
        calibrated=record.calibrated,
        pin=record.pin or None,
        home=record.home,
        coolings=_by_target(record.cooling),
        machine=machine,
    )


def replay(record: AuditRecord, *, machine: StepMachine = turn_machine.MACHINE) -> Difference | None:
    """Play a recorded turn again. None if it goes the way that it went.

    Args:
        machine: the turn machine; another one shows what a change of its rows changes.

    Raises:
        ConfigurationError: the record holds what no turn can begin with.
    """
    if record.schema > SCHEMA:
        raise ConfigurationError(f"it is of schema {record.schema}, and {SCHEMA} is the newest known here")
    try:
        turn = turn_of(record, machine=machine)
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigurationError(f"{type(error).__name__}: {error}") from error
    try:
        play_again(record, turn)
        _compare(record, turn)
    except _Differs as differs:
        recorded, today = differs.recorded, differs.today
    except StepRefused:
        recorded, today = _told(record.steps[len(turn.steps)]), "no row leads on from there"
    else:
        return None
    return Difference(record.turn, record.caller.session, len(turn.steps), recorded, today)


def play_again(record: AuditRecord, turn: Turn) -> None:
    """Lead a turn that has not begun the way of a record, as far as it goes.

    Raises:
        TurnoutError: it goes another way.
    """
    rereads = {
        reread.before_step: (SessionContext(reread.evictions), _by_target(reread.cooling))
        for reread in record.rereads
    }
    probes = iter(record.probes)
    for place, step in enumerate(record.steps):
        _take(turn, step, next(probes, None) if _is_asked(turn, step) else None, rereads.get(place))
        if (taken := turn.steps[-1]) != step:
            raise _Differs(_told(step), _told(taken))
    if not turn.ended:
        raise _Differs(f"ended as {record.state}", f"goes on from {turn.state}")


def _is_asked(turn: Turn, step: Step) -> bool:
    """Whether a step is about a target that is asked: with its probe in the record, or none was begun."""
    return step.trigger == "probed" or (step.trigger in _INTERRUPTIONS and turn.state == "probing")


def _take(
    turn: Turn, step: Step, probe: ProbeRecord | None, reread: tuple[SessionContext, Coolings] | None
) -> None:
    if probe is not None and turn.target.name != probe.target:
        raise _Differs(f"asks {probe.target}", f"asks {turn.target.name}")
    if step.trigger == "probed" and probe is not None:
        turn.probed(probe.verdict, probe.attempts, at=probe.at, committed=probe.committed, trial=probe.trial)
    elif step.trigger in _INTERRUPTIONS:
        attempts, committed, trial = (
            ((), False, False) if probe is None else (probe.attempts, probe.committed, probe.trial)
        )
        turn.interrupt(step.trigger, attempts, committed=committed, trial=trial)  # type: ignore[arg-type]
    elif step.trigger == "advance":
        if turn.state not in ("evicted", "skipped"):
            raise _Differs(_told(step), f"is {turn.state} by then")
        context, coolings = reread or (None, None)
        turn.advance(context, coolings)
    else:
        turn.act()


def _compare(record: AuditRecord, turn: Turn) -> None:
    """See that the turn has come to the same, not only by the same steps."""
    again = turn.record(caller=record.caller)
    for what in _COMPARED:
        before, today = getattr(record, what), getattr(again, what)
        if before != today:
            raise _Differs(f"{what}: {_names(before)}", _names(today))


def _names(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(_name, value)) or "nobody"
    if isinstance(value, Home):
        return f"at home with {value.home.target}, served last by {value.last.target}"
    return str(value)


def _name(one: Any) -> str:
    if isinstance(one, PassedOver):
        return f"{one.target} {one.why}" + (f" ({one.limit})" if one.limit else "")
    if isinstance(one, NotTried):
        return f"{one.target} {one.why}"
    if isinstance(one, ProbeRecord):
        last = " as last resort" if one.last_resort else ""
        return f"{one.target} {'answered' if one.answered else one.reason or 'not classified'}{last}"
    return f"{one.target} {one.reason}"


def _told(step: Step) -> str:
    return f"{step.trigger} in {step.source} leads to {step.dest}"


def _by_target(cooling: tuple[Cooling, ...]) -> Coolings:
    return {one.target: one for one in cooling}
