"""One probe: asking one target, with its own retries and its own correction.

`Probe` is the model that the probe machine steps: no clock and no I/O. `ask` is who
steps it, with attempts that someone else makes (`upstream/` over HTTP, `call.py` by the
embedder's own client) and with waits on the clock. A stream that has committed keeps its
probe in `sending` until it ends; `Streaming` steps it from there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from turnout.engine.attempts import Answer, Attempt, OpenStream, Progress, Request
from turnout.engine.audit import AttemptRecord, StreamRecord
from turnout.engine.classify.verdict import Verdict
from turnout.engine.clock import Clock, Wanted
from turnout.engine.sse import StreamEvent
from turnout.engine.targets import Target
from turnout.machines import probe as probe_machine
from turnout.machines.stepping import StepMachine, StepRefused
from turnout.machines.vocabulary import ErrorKind, ProbeState

FIRST_BACKOFF: Final = 0.25
LONGEST_BACKOFF: Final = 2.0
"""Back-off doubles from the first to the longest, in seconds."""
JITTER: Final = 0.25
"""The largest share of a back-off that is added to it by chance."""


class Probe:
    """The model that the probe machine steps.

    Args:
        target: whom to ask.
        injected: the keys of `extra_body` that this request gets from us.
        without: those of them that the target is known to refuse: they stay out from the first attempt on.
        jitter: gives a number from 0 to 1, a new one for each back-off.
    """

    __slots__ = (
        "_jitter",
        "_left",
        "_machine",
        "attempts",
        "committed",
        "corrected",
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
        without: frozenset[str] = frozenset(),
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
        self.stripped = injected & without
        """The injected keys that stay out."""
        self.corrected = False
        """Whether some were taken out because of what this probe was told."""
        self.committed = False
        """Whether a stream has begun to answer: nothing is asked again after that."""
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
            self.wait, self.stripped, self.corrected = 0.0, self.injected, True
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
        return self._injection_refused() and not self.corrected

    def can_correct(self) -> bool:
        """A guard: an injected key was refused and is taken out, once."""
        return self.target.on_parameter_reject == "strip_once" and self.misconfigured and not self.committed

    def may_retry(self) -> bool:
        """A guard: the refusal may pass, and budget, cap and deadline allow the wait."""
        verdict = self.verdict
        if verdict is None or verdict.kind is not ErrorKind.UNAVAILABLE or self.committed:
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
        """A parameter reject that names an injected key, or none at all. A capability reject counts as one if
        it names one: the caller did not ask for what was refused.
        """
        verdict, added = self.verdict, self.injected - self.stripped
        if verdict is None or not added:
            return False
        # providers spell a name in their own way: presencePenalty, presence_penalty
        named = _plain(re.split(r"[.\[]", verdict.param, maxsplit=1)[0])
        if verdict.kind is ErrorKind.CAPABILITY:
            return named in map(_plain, added)
        return verdict.kind is ErrorKind.PARAMETER_REJECT and (not named or named in map(_plain, added))

    def _next_wait(self, verdict: Verdict) -> float:
        if self._is_free(verdict):
            return 0.0
        if verdict.retry_after is not None:
            return verdict.retry_after
        backoff: float = min(FIRST_BACKOFF * 2**self.retries, LONGEST_BACKOFF)
        return backoff * (1 + JITTER * self._jitter())


def _plain(name: str) -> str:
    return re.sub(r"[_-]", "", name).lower()


class Streaming:
    """The rest of a probe whose stream has committed."""

    def __init__(self, probe: Probe, stream: OpenStream, attempt: _Attempt) -> None:
        self._probe = probe
        self._stream = stream
        self._attempt = attempt

    @property
    def target(self) -> Target:
        """Whose answer it is."""
        return self._probe.target

    @property
    def outcome(self) -> Answer | Verdict | None:
        """How it ended, once it has."""
        return self._stream.outcome

    async def more(self, left: float | None) -> Sequence[StreamEvent]:
        """The next events, at least one unless it has ended.

        Args:
            left: seconds until the turn's deadline, which is kept by the caller.
        """
        return await self._stream.more(left)

    @property
    def waiting(self) -> bool:
        """Whether there are events that were not given out."""
        return self._stream.waiting

    def unread(self, events: Sequence[StreamEvent]) -> None:
        """These never reached the caller."""
        self._stream.unread(events)

    def settle(self) -> Answer | Verdict:
        """It has ended, and the caller has got all of it: so ends its probe."""
        outcome = self._stream.outcome
        if outcome is None:
            raise StepRefused(f"the stream of target {self.target.name!r} has not ended")
        self._record(outcome, outcome.evidence.rule if isinstance(outcome, Verdict) else "")
        _step(self._probe, outcome, None)
        return outcome

    def cut(self, trigger: str) -> None:
        """The turn ends before the stream does: by `expired`, `cancelled` or `broken`."""
        self._record(None, trigger)

    async def close(self) -> None:
        """Let go of the connection, at once if the stream has not ended."""
        await self._stream.close()

    def _record(self, outcome: Answer | Verdict | None, interrupted: str) -> None:
        told = msgspec.structs.replace(self._stream.record, interrupted=interrupted)
        self._probe.attempts.append(self._attempt.record(outcome, told))


async def ask(
    probe: Probe, request: Request, attempt: Attempt, clock: Clock, deadline: float | None
) -> Answer | Verdict | Streaming:
    """Step a probe until it is settled, or until its stream commits.

    Every attempt is in `probe.attempts`, also one that is cut short by an exception.

    Returns:
        The answer; how the last attempt was read; or what is left of a probe that streams.

    Args:
        deadline: when the turn has to end, as `clock.monotonic` counts; kept by the caller.
    """
    while True:
        trying = _Attempt(probe, clock)
        outcome = await trying.made_by(attempt, request, deadline)
        if not isinstance(outcome, Answer | Verdict):
            probe.committed = True
            return Streaming(probe, outcome, trying)
        _step(probe, outcome, _left(clock, deadline))
        if probe.settled:
            return outcome
        if probe.wait:
            await clock.sleep(probe.wait)
        probe.resend()


def _step(probe: Probe, outcome: Answer | Verdict, left: float | None) -> None:
    if isinstance(outcome, Answer):
        probe.answered()
    else:
        probe.refused(outcome, left=left)


class _Attempt:
    """One attempt of a probe from its beginning to its record."""

    def __init__(self, probe: Probe, clock: Clock) -> None:
        self._probe = probe
        self._clock = clock
        self._began = clock.monotonic()
        self._waited = probe.wait
        self._progress = Progress()

    async def made_by(
        self, attempt: Attempt, request: Request, deadline: float | None
    ) -> Answer | Verdict | OpenStream:
        outcome: Answer | Verdict | OpenStream | None = None
        probe, wanted = self._probe, Wanted()
        try:
            outcome = await attempt(
                probe.target,
                request,
                self._progress,
                without=probe.stripped,
                fresh=probe.fresh,
                left=_left(self._clock, deadline),
            )
            wanted.check()
        except BaseException:
            if outcome is not None and not isinstance(outcome, Answer | Verdict):
                await outcome.close()
                outcome = None
            probe.attempts.append(self.record(outcome))
            raise
        if isinstance(outcome, Answer | Verdict):
            probe.attempts.append(self.record(outcome))
        return outcome

    def record(self, outcome: Answer | Verdict | None, stream: StreamRecord | None = None) -> AttemptRecord:
        """What became of it; no outcome: it was cut short."""
        progress = self._progress
        verdict = outcome if isinstance(outcome, Verdict) else None
        return AttemptRecord(
            self._clock.monotonic() - self._began,
            self._waited,
            progress.status if outcome is None or outcome.status is None else outcome.status,
            verdict.kind if verdict else None,
            verdict.evidence if verdict else None,
            verdict.code if verdict else "",
            verdict.message if verdict else "",
            verdict.retry_after if verdict else None,
            outcome.request_id if outcome else "",
            tuple(sorted(self._probe.stripped)),
            progress.bytes,
            progress.sent
            and not isinstance(outcome, Answer)
            and (outcome is None or outcome.status is None or stream is not None),
            stream,
        )


def _left(clock: Clock, deadline: float | None) -> float | None:
    return None if deadline is None else deadline - clock.monotonic()
