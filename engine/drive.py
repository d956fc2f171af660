"""Drives one turn: memory, probes, deadline and record around the pure `Turn`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

from turnout.engine.audit import AttemptRecord, AuditRecord
from turnout.engine.classify.verdict import Verdict
from turnout.engine.clock import Clock, Wanted
from turnout.engine.context import EMPTY, SessionContext
from turnout.engine.errors import (
    DeadlineExceeded,
    InjectionRefused,
    TurnBroken,
    TurnFailed,
    UpstreamError,
    told,
)
from turnout.engine.identity import Asking
from turnout.engine.memory.bounded import BoundedMemory
from turnout.engine.probe import Answer, Attempt, Probe, Request, ask
from turnout.engine.redaction import Redactor
from turnout.engine.route import Route
from turnout.engine.secrets import secrets_of
from turnout.engine.targets import usable
from turnout.engine.turn import Interruption, Turn
from turnout.engine.wire import openai_chat
from turnout.machines.vocabulary import TurnoutError

LOG: Final = logging.getLogger("turnout")

Sink = Callable[[AuditRecord], Any]
Failure = UpstreamError | DeadlineExceeded | TurnBroken


@dataclass(frozen=True)
class Surroundings:
    """What every turn of a router has around it."""

    attempt: Attempt
    clock: Clock
    jitter: Callable[[], float]
    new_id: Callable[[], str]
    later: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
    """Runs what a caller who has gone does not wait for; closing the router does."""
    on_record: Sink | None


class Drive:
    """One turn in flight. Leaves exactly one record, whatever happens."""

    def __init__(
        self, route: Route, request: Request, asking: Asking, memory: BoundedMemory, around: Surroundings
    ) -> None:
        self._route = route
        self._request = request
        self._asking = asking
        self._memory = memory
        self._around = around
        self._clock = around.clock
        self._wanted = Wanted()
        self._id = str(around.new_id())
        self._started = self._clock.now()
        self._began = self._clock.monotonic()
        self._needs = openai_chat.needs(request.body)
        self._size = openai_chat.size(request.body) if request.size is None else request.size
        self._turn = self._new_turn(EMPTY)
        self._probe: Probe | None = None

    async def run(self) -> tuple[Answer, AuditRecord]:
        """Route the turn to its end.

        Raises:
            TurnFailed: it ended as failed, with its error and its record.
            asyncio.CancelledError: the caller has gone; the record was left all the same.
        """
        try:
            outcome = await self._within_deadline()
        except BaseException as gone:
            self._interrupt("cancelled" if isinstance(gone, asyncio.CancelledError) else "broken")
            self._leave_record(None)
            if isinstance(gone, asyncio.CancelledError):
                self._around.later(self._keep_books())
            raise
        try:
            await self._keep_books_whatever_happens()
        finally:
            record = self._leave_record(outcome)
        if isinstance(outcome, Answer):
            return outcome, record
        raise TurnFailed(outcome, record)

    async def _within_deadline(self) -> Answer | Failure:
        bound = usable(self._route.deadline_secs)
        deadline = None if bound is None else self._began + bound
        scope = self._clock.timeout(bound)
        try:
            async with scope:
                return await self._until_ended(deadline)
        except asyncio.CancelledError as error:
            if not self._wanted:
                raise
            return self._broken(error)  # nobody has cancelled the turn: something within it was
        except Exception as error:
            # whatever it is, the turn ends and says so; what a client makes of a cancellation does not count
            if not self._wanted:
                raise asyncio.CancelledError from error
            if not scope.expired():
                return self._broken(error)
            self._interrupt("expired")
            return DeadlineExceeded(
                f"route {self._route.id!r}: the turn's deadline of {bound:g} s has passed"
            )

    def _broken(self, error: BaseException) -> TurnBroken:
        # ours was cleaned where its secrets are known
        said = str(error) if isinstance(error, TurnBroken) else self._cleaned(told(error))
        self._interrupt("broken")
        broken = TurnBroken(f"route {self._route.id!r}: {said}")
        broken.__cause__ = (error.__cause__ or error) if isinstance(error, TurnBroken) else error
        return broken

    async def _until_ended(self, deadline: float | None) -> Answer | Failure:
        if context := await self._memory.read():
            self._turn = self._new_turn(context)
        turn = self._turn
        while True:
            self._probe = probe = self._new_probe()
            outcome = await ask(probe, self._request, self._around.attempt, self._clock, deadline)
            self._probe = None
            turn.probed(probe.verdict, tuple(probe.attempts), at=self._clock.now())
            turn.act()
            if turn.eviction is not None:
                await self._memory.record(turn.eviction)
            if not turn.ended:
                again = await self._memory.read() if turn.may_go_on else None
                self._wanted.check()
                turn.advance(again)
            if turn.ended:
                return outcome if isinstance(outcome, Answer) else _error(probe, outcome)

    def _new_turn(self, context: SessionContext) -> Turn:
        return Turn(
            self._route.ladder,
            policy=self._route.policy,
            context=context,
            id=self._id,
            needs=self._needs,
            size=self._size,
        )

    def _new_probe(self) -> Probe:
        target = self._turn.target
        injected = openai_chat.injected(self._request.body, target)
        return Probe(target, injected=injected, jitter=self._around.jitter)

    def _interrupt(self, trigger: Interruption) -> None:
        """End the turn where it stands. What a probe in flight has sent so far goes into the record."""
        attempts: tuple[AttemptRecord, ...] = ()
        if self._probe is not None:
            attempts = tuple(self._probe.attempts)
            self._probe.interrupt(trigger)
        self._turn.interrupt(trigger, attempts)

    async def _keep_books(self) -> None:
        await self._memory.keep_books(self._turn.restored, final=self._asking.caller.final)

    async def _keep_books_whatever_happens(self) -> None:
        """A caller who leaves now takes no removal along."""
        if not (self._turn.restored or self._asking.caller.final):
            await self._keep_books()
            return
        await asyncio.shield(self._around.later(self._keep_books()))

    def _leave_record(self, outcome: Answer | Failure | None) -> AuditRecord:
        failure = outcome if isinstance(outcome, TurnoutError) else None
        record = self._turn.record(
            route=self._route.id,
            caller=self._asking.caller,
            started=self._started,
            took=self._clock.monotonic() - self._began,
            request=self._asking.request_id,
            error="" if failure is None else str(failure),  # what is not ours in it was cleaned where it came
            usage=outcome.usage if isinstance(outcome, Answer) else None,
            notes=tuple(self._memory.notes),
        )
        if self._around.on_record is not None:
            try:
                self._around.on_record(record)
            except Exception:
                LOG.exception("turn %s: on_record raised; the turn goes on", record.turn)
        return record

    def _cleaned(self, text: str) -> str:
        secrets = [secret for target in self._route.ladder for secret in secrets_of(target)]
        return Redactor(secrets, self._request.quotations).clean(text)


def _error(probe: Probe, verdict: Verdict) -> UpstreamError:
    if probe.misconfigured and probe.target.on_parameter_reject == "report":
        return InjectionRefused(probe.target.name, verdict, probe.injected)
    return UpstreamError(probe.target.name, verdict)
