"""One probe: asking one target, with its own retries and its own correction.

`Probe` is the model that the probe machine steps: no clock and no I/O. `ask` is who
steps it, with attempts that someone else makes (`upstream.py` over HTTP, `call.py` by the
embedder's own client) and with waits on the clock.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from msgspec import Struct

from turnout.engine.audit import AttemptRecord
from turnout.engine.classify.verdict import Verdict
from turnout.engine.clock import Clock, Wanted
from turnout.engine.redaction import Quotations
from turnout.engine.targets import Target, usable
from turnout.machines import probe as probe_machine
from turnout.machines.stepping import StepMachine, StepRefused
from turnout.machines.vocabulary import ErrorKind, ProbeState

FIRST_BACKOFF: Final = 0.25
LONGEST_BACKOFF: Final = 2.0
"""Back-off doubles from the first to the longest, in seconds."""
JITTER: Final = 0.25
"""The largest share of a back-off that is added to it by chance."""


class Request:
    """What the caller asked.

    Args:
        body: in the wire format of the ladder.
        headers: the caller's, in lower case.
        size: the request's size in tokens, where the caller knows it.
    """

    __slots__ = ("body", "headers", "quotations", "size")

    def __init__(self, body: Mapping[str, Any], headers: Mapping[str, str], size: int | None = None) -> None:
        self.body = body
        self.headers = headers
        self.size = size
        self.quotations = Quotations(body)
        """Its text, in which what upstreams say is looked for: folded once a turn, if at all."""


class Answer(Struct, frozen=True):
    """A complete answer."""

    body: Mapping[str, Any]
    status: int | None = None
    usage: Mapping[str, int] | None = None
    request_id: str = ""


class Attempt(Protocol):
    """Makes one attempt. Raises only for what is not the target's doing."""

    async def __call__(
        self, target: Target, request: Request, *, without: frozenset[str], fresh: bool, left: float | None
    ) -> Answer | Verdict:
        """Ask once.

        Args:
            without: the injected keys that have to stay out of the body.
            fresh: use no connection that was kept.
            left: seconds until the turn's deadline, which is kept by the caller.
        """
        ...


class Probe:
    """The model that the probe machine steps.

    Args:
        target: whom to ask.
        injected: the keys of `extra_body` that this request gets from us.
        jitter: gives a number from 0 to 1, a new one for each back-off.
    """

    __slots__ = (
        "_jitter",
        "_left",
        "_machine",
        "attempts",
        "fresh",
        "injected",
        "retries",
        "state",
        "stripped",
        "target",
        "verdict",
        "wait",
    )

    def __init__(
        self,
        target: Target,
        *,
        injected: frozenset[str] = frozenset(),
        jitter: Callable[[], float] = lambda: 0.0,
        machine: StepMachine = probe_machine.MACHINE,
    ) -> None:
        self.target = target
        self.state: str = ProbeState.SENDING
        self.attempts: list[AttemptRecord] = []
        self.retries = 0
        """How many retries of the target's budget are spent."""
        self.verdict: Verdict | None = None
        """How the last attempt was read; None if it was answered."""
        self.wait = 0.0
        """Seconds to wait before the next attempt."""
        self.fresh = False
        """Whether a kept connection has failed, so that the next attempt needs a fresh one."""
        self.stripped: frozenset[str] = frozenset()
        """The injected keys that were taken out."""
        self.injected = injected
        self._jitter = jitter
        self._left: float | None = None
        self._machine = machine

    def answered(self) -> None:
        """The last attempt brought a complete answer."""
        self._check_sending()
        self.verdict = None
        self._machine.step(self, "answered")

    def refused(self, verdict: Verdict, *, left: float | None = None) -> None:
        """The last attempt failed.

        Args:
            verdict: how it was read.
            left: seconds until the turn's deadline.
        """
        self._check_sending()
        self.verdict = verdict
        self._left = left
        self.wait = self._next_wait(verdict)
        self._machine.step(self, "refused")
        if self.state == ProbeState.CORRECTING:
            self.wait, self.stripped = 0.0, self.injected
        elif self.state == ProbeState.WAITING and self._is_free(verdict):
            self.fresh = True
        elif self.state == ProbeState.WAITING:
            self.retries += 1

    def resend(self) -> None:
        """The wait is over, or the request is corrected."""
        self._machine.step(self, "resend")

    def interrupt(self, trigger: str) -> None:
        """The turn ends the probe: `expired`, `cancelled` or `broken`."""
        self._machine.step(self, trigger)

    @property
    def settled(self) -> bool:
        """Whether the probe is over."""
        return self.state == ProbeState.SETTLED

    @property
    def misconfigured(self) -> bool:
        """Whether what was refused is something that we injected, and nothing was taken out for it."""
        return self._injection_refused() and not self.stripped

    def can_correct(self) -> bool:
        """A guard: an injected key was refused and is taken out, once."""
        return self.target.on_parameter_reject == "strip_once" and self.misconfigured

    def may_retry(self) -> bool:
        """A guard: the refusal may pass, and budget, cap and deadline allow the wait."""
        verdict = self.verdict
        if verdict is None or verdict.kind is not ErrorKind.UNAVAILABLE:
            return False
        return (
            (self.target.retry_timeouts if verdict.timed_out else verdict.retryable)
            and (self.retries < self.target.max_retries or self._is_free(verdict))
            and self.wait <= self.target.max_retry_after_secs
            and (self._left is None or self.wait < self._left)
        )

    def _check_sending(self) -> None:
        if self.state != ProbeState.SENDING:
            raise StepRefused(
                f"target {self.target.name!r} was not asked anything: its probe is {self.state}"
            )

    def _is_free(self, verdict: Verdict) -> bool:
        """Whether another try costs nothing of the budget: a kept connection broke, for the first time."""
        return verdict.stale and not self.fresh

    def _injection_refused(self) -> bool:
        """A parameter reject that names an injected key, or none at all."""
        verdict = self.verdict
        if verdict is None or verdict.kind is not ErrorKind.PARAMETER_REJECT or not self.injected:
            return False
        # providers spell a name in their own way: presencePenalty, presence_penalty
        named = _plain(re.split(r"[.\[]", verdict.param, maxsplit=1)[0])
        return not named or named in map(_plain, self.injected)

    def _next_wait(self, verdict: Verdict) -> float:
        if self._is_free(verdict):
            return 0.0
        if verdict.retry_after is not None:
            return verdict.retry_after
        backoff: float = min(FIRST_BACKOFF * 2**self.retries, LONGEST_BACKOFF)
        return backoff * (1 + JITTER * self._jitter())


def _plain(name: str) -> str:
    return re.sub(r"[_-]", "", name).lower()


async def ask(
    probe: Probe, request: Request, attempt: Attempt, clock: Clock, deadline: float | None
) -> Answer | Verdict:
    """Step a probe until it is settled: the answer, or how the last attempt was read.

    Every attempt is in `probe.attempts`, also one that is cut short by an exception.

    Args:
        deadline: when the turn has to end, as `clock.monotonic` counts; kept by the caller.
    """
    while True:
        outcome = await _attempt(probe, request, attempt, clock, deadline)
        if isinstance(outcome, Answer):
            probe.answered()
            return outcome
        probe.refused(outcome, left=_left(clock, deadline))
        if probe.settled:
            return outcome
        if probe.wait:
            await clock.sleep(probe.wait)
        probe.resend()


async def _attempt(
    probe: Probe, request: Request, attempt: Attempt, clock: Clock, deadline: float | None
) -> Answer | Verdict:
    sent, outcome = clock.monotonic(), None
    wanted = Wanted()
    try:
        outcome = await attempt(
            probe.target,
            request,
            without=probe.stripped,
            fresh=probe.fresh,
            left=_left(clock, deadline),
        )
        wanted.check()
        return outcome
    finally:
        took = clock.monotonic() - sent
        probe.attempts.append(_record(outcome, took, probe.wait, tuple(sorted(probe.stripped))))


def _record(
    outcome: Answer | Verdict | None, took: float, waited: float, stripped: tuple[str, ...]
) -> AttemptRecord:
    if outcome is None:
        return AttemptRecord(took, waited, stripped=stripped)
    if isinstance(outcome, Answer):
        return AttemptRecord(took, waited, outcome.status, request_id=outcome.request_id, stripped=stripped)
    return AttemptRecord(
        took,
        waited,
        outcome.status,
        outcome.kind,
        outcome.evidence,
        outcome.code,
        outcome.message,
        outcome.retry_after,
        outcome.request_id,
        stripped,
    )


def _left(clock: Clock, deadline: float | None) -> float | None:
    return None if deadline is None else deadline - clock.monotonic()


def own_bound(bound: float | None, left: float | None) -> float | None:
    """The seconds that an attempt's own bound allows; None where the deadline comes first.

    The deadline is the turn's to keep: it ends the turn without a verdict on the target.
    """
    bound = usable(bound)
    return None if bound is None or (left is not None and left <= bound) else bound
