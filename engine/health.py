"""The health of a target across sessions, as data: what `machines/health.py` steps, and what it remembers.

Everything here is pure. A store keeps a `Health` for each target and swaps it for what these functions make
of it; `breakers.py` asks them for one turn. Times are in seconds since 1970, so that processes
can share them and a restart changes nothing; what a clock has told that is not ours is believed
as far as it can be true.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from msgspec import Struct, structs

from turnout.engine.context import Cause
from turnout.engine.errors import ConfigurationError
from turnout.engine.printable import numbered
from turnout.machines import health as health_machine
from turnout.machines.stepping import Step
from turnout.machines.vocabulary import ErrorKind, HealthState

_CLOSED: Final = HealthState.CLOSED
_OPEN: Final = HealthState.OPEN
_HALF_OPEN: Final = HealthState.HALF_OPEN

COUNTS: Final = frozenset({ErrorKind.UNAVAILABLE, ErrorKind.QUOTA_OR_BILLING})
"""The kinds of error that say something of a target's health."""

LONGEST: Final = 86_400.0
"""Seconds that a target cools at most, whatever it asks for: a day."""
SKEW: Final = 60.0
"""Seconds that the clocks of two processes may be apart. What was told further ahead than that was told by a
clock that was wrong: it does not count, and a trial tells what does.
"""
MOST_FAILURES: Final = 1000
_DOUBLED: Final = 30
"""More openings in a row lengthen nothing any more."""


class Breaker(Struct, frozen=True, kw_only=True):
    """When a target cools, and for how long.

    Raises:
        ConfigurationError: a value that cannot be used.
    """

    failures: int = 3
    """So many failed probes in a row open it, 1 to 1000."""
    cool_secs: float = 30.0
    """How long it cools at first, in seconds. Each trial that fails doubles that."""
    max_cool_secs: float = 300.0
    """The longest that it comes to by that, in seconds; and how long a trial is waited for whose process has
    died. What the target itself asks for may be longer.
    """

    def __post_init__(self) -> None:
        if wrong := [f"{key} {what}" for key, what in mistakes(structs.asdict(self))]:
            raise ConfigurationError(f"breaker: {'; '.join(wrong)}")


def mistakes(values: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Each value of a breaker that cannot be used: its key, and what would be right."""
    given = {**{f.name: f.default for f in structs.fields(Breaker)}, **values}
    failures, cool, longest = given["failures"], given["cool_secs"], given["max_cool_secs"]
    if type(failures) is not int or not 1 <= failures <= MOST_FAILURES:
        yield "failures", f"is {numbered(failures)}; give 1 to {MOST_FAILURES}"
    seconds = {"cool_secs": cool, "max_cool_secs": longest}
    unusable = [key for key, value in seconds.items() if not _is_a_time(value)]
    for key in unusable:
        yield key, f"is {numbered(seconds[key])}; give seconds above 0, at most {LONGEST:g}"
    if not unusable and cool > longest:
        first, most = numbered(cool), numbered(longest)
        if "cool_secs" in values:
            yield "cool_secs", f"is {first}, more than max_cool_secs ({most}); give less"
        else:
            yield "max_cool_secs", f"is {most}, less than cool_secs ({first}); give more"


def _is_a_time(value: object) -> bool:
    return type(value) in (int, float) and 0 < value <= LONGEST  # type: ignore[operator]


class Health(Struct, frozen=True, omit_defaults=True):
    """How one target is, as all sessions know it. As long as nothing is known it is well."""

    state: HealthState = _CLOSED
    failures: int = 0
    """Failed probes in a row."""
    openings: int = 0
    """How often it has opened since it was closed."""
    until: float = 0.0
    """When it has cooled; in `half_open`, when the trial's lease runs out."""
    trial: str = ""
    """The turn that has the trial."""
    cause: Cause | None = None
    """What failed last: its turn, kind and status, and nothing that it said."""
    at: float = 0.0
    """When it came to be so."""

    def due(self, now: float) -> bool:
        """Whether its time is up."""
        return not (now < self.until <= now + LONGEST + SKEW and self.at <= now + SKEW)

    @property
    def clean(self) -> bool:
        """Whether nothing speaks against it."""
        return self.state is _CLOSED and not self.failures


WELL: Final = Health()


class Cooling(Struct, frozen=True, omit_defaults=True):
    """A target that is passed over for its health."""

    target: str
    until: float
    trial: str = ""
    """The turn that has its trial, if one has."""
    cause: Cause | None = None


class Moved(NamedTuple):
    """What became of a health, by which transitions."""

    health: Health
    steps: tuple[Step, ...] = ()


class _Model:
    """What the machine steps."""

    __slots__ = ("_due", "_on_trial", "_tripped", "state")

    def __init__(self, health: Health, now: float, *, turn: str = "", tripped: bool = False) -> None:
        self.state: str = health.state
        self._tripped = tripped
        self._due = health.due(now)
        self._on_trial = health.trial == turn != ""

    def tripped(self) -> bool:
        """A guard: enough probes in a row have failed."""
        return self._tripped

    def due(self) -> bool:
        """A guard: the time is up."""
        return self._due

    def on_trial(self) -> bool:
        """A guard: it is told by the turn that has the trial."""
        return self._on_trial


def failed(health: Health, breaker: Breaker, cause: Cause, *, wait: float | None, now: float) -> Moved:
    """A probe was settled by an error that counts.

    Args:
        cause: what it was, and in which turn.
        wait: the seconds that the target asked to wait, if it did.
    """
    before = health.cause
    if _is_older(now, health) or (before and (before.turn, before.at) == (cause.turn, cause.at)):
        return Moved(health)  # what is told late, or once more, decides nothing
    failures = health.failures + 1
    model = _Model(health, now, turn=cause.turn, tripped=failures >= breaker.failures)
    step = health_machine.MACHINE.step(model, "failed")
    # its turn, kind and status; what it said, its codes too, are another session's
    cause = Cause(cause.turn, cause.at, cause.kind, cause.evidence, status=cause.status)
    if model.state == _HALF_OPEN:  # nothing that is asked for reaches beyond the trial
        return Moved(structs.replace(health, failures=failures), (step,))
    asked = now + min(wait or 0.0, LONGEST)
    # the longest that was asked for wins; a lease is nothing that was asked for
    lasts = health.state is not _HALF_OPEN and not health.due(now)
    until = max(asked, health.until) if lasts else asked
    openings = min(max(health.openings, 0), _DOUBLED)
    if model.state == _OPEN and health.state is not _OPEN:
        until = max(until, now + min(breaker.cool_secs * 2**openings, breaker.max_cool_secs))
        openings += 1
    return Moved(Health(HealthState(model.state), failures, openings, until, "", cause, now), (step,))


def answered(health: Health, *, now: float) -> Moved:
    """The target has answered."""
    if health.clean or _is_older(now, health):
        return Moved(health)
    model = _Model(health, now)
    step = health_machine.MACHINE.step(model, "answered")
    return Moved(Health(HealthState(model.state), at=now), (step,))


def _is_older(at: float, health: Health) -> bool:
    """Whether something that happened then was told so late that others know better."""
    return at + SKEW < health.at <= at + LONGEST


def tried(health: Health, breaker: Breaker, turn: str, *, now: float) -> Moved:
    """A turn asks for the trial. It has it if it is named in what comes back."""
    steps: list[Step] = []
    model = _Model(health, now)
    for state, trigger in ((_HALF_OPEN, "lapsed"), (_OPEN, "cooled")):
        if model.state == state:
            before = model.state
            step = health_machine.MACHINE.step(model, trigger)
            steps += [step] if model.state != before else []
    if not steps:
        return Moved(health)
    state, until = HealthState(model.state), now + breaker.max_cool_secs
    return Moved(structs.replace(health, state=state, until=until, trial=turn, at=now), tuple(steps))


def returned(health: Health, turn: str, *, now: float) -> Moved:
    """A turn's trial came to neither an answer nor an error that counts: the next turn may have it."""
    if health.state is not _HALF_OPEN or health.trial != turn:
        return Moved(health)
    model = _Model(health, now, turn=turn)
    step = health_machine.MACHINE.step(model, "returned")
    return Moved(
        structs.replace(health, state=HealthState(model.state), until=now, trial="", at=now), (step,)
    )


def cooling(target: str, health: Health, turn: str, *, now: float) -> Cooling | None:
    """Whether a turn has to pass a target over just now."""
    if health.state is _CLOSED or health.due(now) or health.trial == turn != "":
        return None
    cause = health.cause and structs.replace(health.cause, message="", code="", features=())
    return Cooling(target, health.until, health.trial, cause)


def needs_trial(health: Health, turn: str) -> bool:
    """Whether a turn that may ask a target needs its trial for that, and has not got it."""
    return health.state is not _CLOSED and (health.trial != turn or not turn)
