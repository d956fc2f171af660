"""Drives one turn: memory, probes, deadline and record around the pure `Turn`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from turnout.engine import wire
from turnout.engine.attempts import Answer, Attempt, Request
from turnout.engine.audit import AttemptRecord, AuditRecord
from turnout.engine.breakers import Breakers
from turnout.engine.classify.verdict import Verdict
from turnout.engine.clock import Clock, Wanted
from turnout.engine.context import EMPTY, SessionContext
from turnout.engine.errors import (
    ConfigurationError,
    DeadlineExceeded,
    InjectionRefused,
    StreamInterrupted,
    TurnBroken,
    TurnFailed,
    UpstreamError,
    told,
)
from turnout.engine.habits import MOST_TOKENS, NO_HABITS, Habits, Scale, calibrated, served_last
from turnout.engine.identity import Asking
from turnout.engine.memory.bounded import BoundedMemory
from turnout.engine.memory.shared_health import SharedHealth
from turnout.engine.probe import Probe, Streaming, ask
from turnout.engine.redaction import Redactor
from turnout.engine.route import Route
from turnout.engine.secrets import secrets_of
from turnout.engine.selection import NONE_COOLS, Coolings, Wants
from turnout.engine.sse import StreamEvent
from turnout.engine.targets import usable
from turnout.engine.turn import Interruption, Turn
from turnout.engine.wire.reading import Reading
from turnout.machines.vocabulary import TurnoutError

LOG: Final = logging.getLogger("turnout")

T = TypeVar("T")
SizeOf = Callable[[Mapping[str, Any]], int | None]
Sink = Callable[[AuditRecord], Any]
Failure = UpstreamError | DeadlineExceeded | TurnBroken


@dataclass(frozen=True)
class Surroundings:
    """What every turn of a router has around it."""

    health: SharedHealth
    namespace: str
    size: SizeOf | None
    """Measures requests in place of the estimate."""
    attempt: Attempt
    clock: Clock
    jitter: Callable[[], float]
    new_id: Callable[[], str]
    later: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
    """Runs what a caller who has gone does not wait for; closing the router does."""
    on_record: Sink | None
    keep: Callable[[AuditRecord], AuditRecord] | None = None
    """Numbers a record, and hands it to what takes it beside the turns."""


class Drive:
    """One turn in flight. Leaves exactly one record, whatever happens.

    `run` routes a turn to its end. Of a stream it comes back when a target has committed, and
    `more` gives the events until the turn has ended; `leave` ends it before.
    """

    def __init__(
        self, route: Route, request: Request, asking: Asking, memory: BoundedMemory, around: Surroundings
    ) -> None:
        self._route = route
        self._request = request
        self._asking = asking
        self._memory = memory
        self._around = around
        self._clock = around.clock
        self._id = str(around.new_id())
        self._started = self._clock.now()
        self._began = self._clock.monotonic()
        self._bound = usable(route.deadline_secs)
        self._loop = asyncio.get_running_loop()
        self._asks = asks_of(route, request)
        self._turn = self._new_turn(EMPTY)
        self._scale: Scale | None = None
        self._usage: Mapping[str, int] | None = None
        """What the upstream has reported of the answer."""
        self._breakers: Breakers | None = None
        if route.has_breakers:
            self._breakers = Breakers(
                around.health,
                route.ladder,
                self._id,
                self._clock,
                namespace=around.namespace,
                note=memory.note,
            )
        self._probe: Probe | None = None
        self._streaming: Streaming | None = None
        self._pulling = False
        self._watch: asyncio.Task[None] | None = None
        self.when_over: Callable[[], object] = lambda: None
        """Called when a stream that nobody reads has come to its end."""
        self._learnt: Probe | None = None
        """The probe that had to be corrected and was answered then, or began to be."""
        self.record: AuditRecord | None = None
        """The turn's record, once it has ended."""
        self.failure: Failure | None = None
        """Why it ended as failed, where there is anybody to tell."""

    @property
    def served_by(self) -> str | None:
        """The target whose stream has committed."""
        return None if self._streaming is None else self._streaming.target.name

    async def run(self) -> Answer | None:
        """Route the turn to its end, or until a target's stream commits: then None comes back.

        Raises:
            TurnFailed: it ended as failed, with its error and its record.
            asyncio.CancelledError: the caller has gone; the record was left all the same.
        """
        outcome = await self._guarded(self._until_answered)
        if isinstance(outcome, Streaming):
            if self._bound is not None:
                self._watch = self._around.later(self._expire_unread())
            return None
        await self._end(outcome)
        if isinstance(outcome, Answer):
            return outcome
        raise self.failed()

    async def more(self) -> Sequence[StreamEvent]:
        """The stream's next events, at least one unless the turn has ended; then `failure` says how.

        Raises:
            asyncio.CancelledError: the caller has gone; the record was left all the same.
        """
        if self.record is not None:
            return ()
        if self._answered:
            pulled: Sequence[StreamEvent] | Failure = await self._pull()
        else:
            self._pulling = True
            try:
                pulled = await self._guarded(self._pull)
            finally:
                self._pulling = False
        if isinstance(pulled, TurnoutError):
            await self._end(pulled)
            return ()
        if not pulled:  # all of it has reached the caller: now the turn ends
            await self._end(self._concluded())
        return pulled

    @property
    def _answered(self) -> bool:
        """Whether all of a stream has come, in time: it only waits to be read."""
        return self._streaming is not None and isinstance(self._streaming.outcome, Answer)

    async def leave(self, unread: Sequence[StreamEvent]) -> None:
        """The caller reads no more of the stream: unless he has got all of it, the turn is cancelled.

        Args:
            unread: events that were given out and did not reach him.
        """
        if (streaming := self._streaming) is None or self.record is not None:
            return
        if self._answered and not unread and not streaming.waiting:
            await self._end_unread(self._concluded())
            return
        streaming.unread(unread)
        self._interrupt("cancelled")
        await self._end_unread(None)

    def abandon(self, unread: Sequence[StreamEvent]) -> None:
        """The same for a caller who has dropped the stream, from whatever thread, and waits for nothing."""

        async def leave() -> None:
            try:
                await self.leave(unread)
            finally:
                self.when_over()

        with suppress(RuntimeError):  # the loop is closed, and everything with it
            self._loop.call_soon_threadsafe(lambda: self._around.later(leave()))

    def failed(self) -> TurnFailed:
        """The error of a turn that has ended as failed."""
        if self.failure is None or self.record is None:
            raise AssertionError("the turn has not failed")
        return TurnFailed(self.failure, self.record)

    # -- whatever happens

    async def _guarded(self, doing: Callable[[], Awaitable[T]]) -> T | Failure:
        """What it comes to, within the deadline. Whoever leaves meanwhile leaves a record."""
        wanted = Wanted()
        try:
            return await self._within_deadline(doing, wanted)
        except BaseException as gone:
            cancelled = isinstance(gone, asyncio.CancelledError)
            self._interrupt("cancelled" if cancelled else "broken")
            self._leave_record(None)
            if cancelled:
                self._around.later(self._keep_books())
            await self._let_go()
            raise

    async def _within_deadline(self, doing: Callable[[], Awaitable[T]], wanted: Wanted) -> T | Failure:
        left = self._left()
        if left is not None and left <= 0:
            return self._expired()
        scope = None if left is None else self._clock.timeout(left)
        try:
            if scope is None:
                return await doing()
            async with scope:
                return await doing()
        except asyncio.CancelledError as error:
            if not wanted:
                raise
            return self._broken(error)  # nobody has cancelled the turn: something within it was
        except Exception as error:
            # whatever it is, the turn ends and says so; what a client makes of a cancellation does not count
            if not wanted:
                raise asyncio.CancelledError from error
            return self._expired() if scope is not None and scope.expired() else self._broken(error)

    def _expired(self) -> DeadlineExceeded:
        self._interrupt("expired")
        return DeadlineExceeded(
            f"route {self._route.id!r}: the turn's deadline of {self._bound:g} s has passed"
        )

    def _broken(self, error: BaseException) -> TurnBroken:
        # ours was cleaned where its secrets are known
        said = str(error) if isinstance(error, TurnBroken) else self._cleaned(told(error))
        self._interrupt("broken")
        broken = TurnBroken(f"route {self._route.id!r}: {said}")
        broken.__cause__ = (error.__cause__ or error) if isinstance(error, TurnBroken) else error
        return broken

    def _interrupt(self, trigger: Interruption) -> None:
        """End the turn where it stands. What a probe in flight has sent so far goes into the record."""
        attempts: tuple[AttemptRecord, ...] = ()
        committed = trial = False
        if (probe := self._probe) is not None:
            if self._streaming is not None:
                self._streaming.cut(trigger)
            attempts, committed, trial = tuple(probe.attempts), probe.committed, self._on_trial(probe)
            self._learn(probe, answered=False)
            probe.interrupt(trigger)
            self._probe = None
        self._turn.interrupt(trigger, attempts, committed=committed, trial=trial)
        if self._breakers is not None:
            self._breakers.give_back()

    async def _expire_unread(self) -> None:
        """The deadline of a stream that nobody reads just now: it holds its connection no longer."""
        while (left := self._left()) is not None and left > 0:
            await self._clock.sleep(left)
        if self.record is None and not self._pulling and not self._answered:
            self._watch = None
            await self._end_unread(self._expired())

    async def _end_unread(self, outcome: Answer | Failure | None) -> None:
        """End a turn that nobody waits for: its record is left before anything else happens."""
        self._usage = outcome.usage if isinstance(outcome, Answer) else None
        try:
            self._leave_record(outcome)
            self._around.later(self._keep_books())
            await self._let_go()
        finally:
            self.when_over()

    async def _end(self, outcome: Answer | Failure) -> None:
        """The books and the record of a turn that has come to its end."""
        self._usage = outcome.usage if isinstance(outcome, Answer) else None
        try:
            await self._let_go()
            await self._keep_books_whatever_happens()
        finally:
            self._leave_record(outcome)

    async def _let_go(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        if self._streaming is not None:
            await self._streaming.close()

    # -- the turn

    async def _begin(self) -> Turn:
        """See what the request is, and whom the session and the targets' health leave to ask."""
        if self._around.size is not None:
            self._asks = measured(self._asks, self._request, self._around.size)
            self._turn = self._new_turn(EMPTY)
        if context := await self._memory.read():
            self._scale = context.habits.scale
            self._turn = self._new_turn(context)
        if self._breakers is not None:
            await self._choose(None)
        return self._turn

    async def _until_answered(self) -> Answer | Failure | Streaming:
        turn, wanted = await self._begin(), Wanted()
        while True:
            self._probe = probe = await self._new_probe()
            outcome = await ask(probe, self._request, self._around.attempt, self._clock, self._deadline)
            if isinstance(outcome, Streaming):
                self._streaming = outcome
                if self._breakers is not None:  # it answers: others need not wait for the end
                    self._breakers.settled(probe.target, None)
                return outcome
            self._classify(probe)
            if turn.eviction is not None:
                await self._memory.record(turn.eviction)
            if not turn.ended:
                again = await self._memory.read() if turn.may_go_on else None
                if self._breakers is not None:
                    await self._choose(again)
                wanted.check()
                turn.advance(again)
            if turn.ended:
                return outcome if isinstance(outcome, Answer) else _error(probe, outcome)

    async def _choose(self, context: SessionContext | None) -> None:
        """Let the turn choose among those that do not cool. One that has cooled is asked only by who gets its
        trial; where another turn does, the choice is made again.
        """
        if (breakers := self._breakers) is None:
            return
        coolings = await breakers.read()
        target = self._turn.consider(context, coolings)
        for _ in self._route.ladder:  # each may be refused once
            if target is None or target.name in coolings or await breakers.may_ask(target):
                return
            coolings = breakers.coolings()
            target = self._turn.consider(None, coolings)

    def _on_trial(self, probe: Probe) -> bool:
        return self._breakers is not None and self._breakers.on_trial(probe.target.name)

    async def _pull(self) -> Sequence[StreamEvent]:
        if self._streaming is None:
            raise AssertionError("no stream has committed")
        events = await self._streaming.more(self._left())
        if self._streaming.outcome is not None:
            await self._streaming.close()  # its connection need not wait for a slow reader
        return events

    def _concluded(self) -> Answer | Failure:
        """What a stream has come to that has ended."""
        streaming, probe = self._streaming, self._probe
        if streaming is None or probe is None:
            raise AssertionError("no stream has committed")
        outcome = streaming.settle()
        self._classify(probe)
        return outcome if isinstance(outcome, Answer) else _error(probe, outcome)

    def _classify(self, probe: Probe) -> None:
        """Take the outcome of a probe into the turn, and act on it."""
        self._probe = None
        self._turn.probed(
            probe.verdict,
            tuple(probe.attempts),
            at=self._clock.now(),
            committed=probe.committed,
            trial=self._on_trial(probe),
        )
        if self._breakers is not None:
            self._breakers.settled(probe.target, probe.verdict)
            self._breakers.give_back()
        self._turn.act()
        self._learn(probe, answered=probe.verdict is None)

    def _learn(self, probe: Probe, *, answered: bool) -> None:
        """What the correction of a probe has shown, if it helped: the answer is there, or has begun."""
        if probe.corrected and (answered or probe.committed):
            self._learnt = probe

    def _new_turn(self, context: SessionContext) -> Turn:
        return new_turn(self._route, self._asks, context, id=self._id, pin=self._request.pin)

    async def _new_probe(self) -> Probe:
        target = self._turn.target
        injected = wire.injected(self._request.body, target)
        without = injected
        if injected:
            without = await self._memory.stripped(target.name, target.fingerprint, target.configuration)
        return Probe(target, injected=injected, without=without, jitter=self._around.jitter)

    @property
    def _deadline(self) -> float | None:
        return None if self._bound is None else self._began + self._bound

    def _left(self) -> float | None:
        return None if self._bound is None else self._began + self._bound - self._clock.monotonic()

    # -- books and record

    async def _keep_books(self) -> None:
        if self._learnt is not None:
            target, keys = self._learnt.target, self._learnt.stripped
            await self._memory.strip(target.name, target.fingerprint, target.configuration, keys)
        await self._memory.keep_books(self._turn.restored, self._habits(), final=self._asking.caller.final)

    def _habits(self) -> Habits:
        """What the session has got used to in this turn."""
        home, before, scale = self._turn.settled, self._turn.home, self._calibrated()
        if home is None and scale is None:
            return NO_HABITS
        if home is not None and before is not None and home.home == before.home:
            home = served_last(home.last)
        return Habits({} if home is None else {self._route.id: home}, scale)

    def _calibrated(self) -> Scale | None:
        """What the upstream's count says of the estimate, where sizes are held against a window."""
        reading, usage = self._asks.reading, self._usage
        if reading is None or not usage or not self._route.has_windows:
            return None
        counts = [usage[key] for key in wire.of(self._route.ladder[0].format).PROMPT if key in usage]
        if not counts:
            return None
        return calibrated(
            self._scale, text=reading.text, other=reading.other, reported=sum(counts), at=self._clock.now()
        )

    async def _keep_books_whatever_happens(self) -> None:
        """A caller who leaves now takes no removal along."""
        final = self._asking.caller.final
        if not (self._turn.restored or self._habits() or final or self._learnt):
            await self._keep_books()
            return
        wanted = Wanted()
        try:
            await asyncio.shield(self._around.later(self._keep_books()))
        except asyncio.CancelledError:
            if not wanted:
                raise  # else it was the store's own doing, and nothing may change how the turn has ended

    def _leave_record(self, outcome: Answer | Failure | None) -> None:
        self.failure = outcome if isinstance(outcome, TurnoutError) else None
        record = self._turn.record(
            route=self._route.id,
            caller=self._asking.caller,
            started=self._started,
            took=self._clock.monotonic() - self._began,
            request=self._asking.request_id,
            # what is not ours in it was cleaned where it came
            error="" if self.failure is None else str(self.failure),
            usage=outcome.usage if isinstance(outcome, Answer) else None,
            health=() if self._breakers is None else self._breakers.steps,
            notes=tuple(self._memory.notes),
        )
        if self._around.keep is not None:
            record = self._around.keep(record)
        self.record = record
        if self._around.on_record is not None:
            try:
                self._around.on_record(record)
            except (Exception, asyncio.CancelledError):
                LOG.exception("turn %s: on_record raised; the turn goes on", record.turn)

    def _cleaned(self, text: str) -> str:
        secrets = [secret for target in self._route.ladder for secret in secrets_of(target)]
        return Redactor(secrets, self._request.quotations).clean(text)


class Asks(NamedTuple):
    """A request as it was read."""

    wants: Wants
    reading: Reading | None
    """Its estimate; None where its size is known better."""


def asks_of(route: Route, request: Request) -> Asks:
    """What a request asks of whoever serves it."""
    form = wire.of(route.ladder[0].format)
    reading, output = form.read(request.body), form.output(request.body)
    if request.size is not None:
        return Asks(Wants(reading.needs, request.size, output), None)
    return Asks(Wants(reading.needs, reading.tokens(), output), reading)


def measured(asks: Asks, request: Request, size: SizeOf) -> Asks:
    """The same with the size that the embedder's function gives; it is not asked where the caller told one.

    Raises:
        ConfigurationError: it gives no size.
    """
    if request.size is not None or (tokens := size(request.body)) is None:
        return asks
    if type(tokens) is not int or not 0 <= tokens <= MOST_TOKENS:
        told = f"a {type(tokens).__name__}" if type(tokens) is not int else "a number that is none of tokens"
        raise ConfigurationError(f"size= gave {told}; it has to give a whole number of tokens, or None")
    return Asks(asks.wants._replace(size=tokens), None)


def new_turn(
    route: Route,
    asks: Asks,
    context: SessionContext,
    *,
    id: str = "",
    pin: str | None = None,
    coolings: Coolings = NONE_COOLS,
) -> Turn:
    """A turn of a route that nobody has been asked in yet."""
    (wants, reading), scale = asks, context.habits.scale
    counted = None
    if scale is not None and scale.believable and reading is not None and route.has_windows:
        counted = reading.tokens(scale.factor)
    return Turn(
        route.ladder,
        policy=route.policy,
        context=context,
        id=id,
        options=route.options,
        needs=wants.needs,
        size=wants.size,
        output=wants.output,
        calibrated=counted,
        pin=pin,
        home=context.habits.homes.get(route.id),
        coolings=coolings,
    )


def _error(probe: Probe, verdict: Verdict) -> UpstreamError:
    if probe.committed:
        return StreamInterrupted(probe.target.name, verdict)
    if probe.misconfigured and probe.target.on_parameter_reject == "report":
        return InjectionRefused(probe.target.name, verdict, probe.injected)
    return UpstreamError(probe.target.name, verdict)
