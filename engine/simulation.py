"""Plays a scenario: the real router on a virtual clock, over upstreams that answer by the script.

Nothing is random and nothing waits, so the same file gives the same output every time.
Everything of the router is the real thing but what carries a request, and that is, too,
where a scenario is played over sockets.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx

from turnout.engine.attempts import Answer, Progress, Request
from turnout.engine.audit import AuditRecord
from turnout.engine.classify.verdict import Verdict
from turnout.engine.clock import Standstill, VirtualClock
from turnout.engine.context import Identity
from turnout.engine.deployment import MemorySettings
from turnout.engine.errors import ClientError, ConfigurationError, MemoryTrouble, ScenarioError, TurnFailed
from turnout.engine.http import Transports
from turnout.engine.memory import from_url
from turnout.engine.memory.protocol import Memory
from turnout.engine.printable import printable
from turnout.engine.route import Route
from turnout.engine.router import Router
from turnout.engine.scenario import PlannedTurn, Scenario, address
from turnout.engine.targets import Target
from turnout.engine.testing import Script, Step, model_of, perform
from turnout.engine.testing.sockets import OverSockets, ScriptedServer
from turnout.engine.upstream import HttpUpstream

SERVED: Final = 200
"""What a server tells the caller of a served turn, and of a stream that has begun."""

AN_INSTANT: Final = 1e-8
"""Seconds: too few to show, and enough for everything that can happen now to have happened."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one turn: everything that can be expected of it. Times are in seconds."""

    probes: tuple[str, ...]
    attempts: tuple[str, ...]
    """The target of each HTTP request."""
    passed_over: tuple[str, ...]
    state: str
    served_by: str | None
    reasons: Mapping[str, str]
    kinds: Mapping[str, str]
    status: int | None
    """What a server would tell the caller; None for a caller who has gone."""
    code: str | None
    """None where the turn was served, and for a caller who has gone."""
    evicted: tuple[str, ...]
    """The identity's evictions after the turn, in ladder order."""
    slept: float
    """Waited between attempts."""
    took: float
    not_tried: Mapping[str, str]
    passed_over_for: Mapping[str, str]
    content_events: int
    """Of a stream: the events with content that the caller received."""
    interrupted: bool
    """Whether a stream broke off after its first content."""
    stripped: Mapping[str, tuple[str, ...]]


class Miss(NamedTuple):
    """An expectation that does not hold."""

    key: str
    expected: Any
    actual: Any


@dataclass(frozen=True, kw_only=True)
class PlayedTurn:
    """One turn that was played."""

    number: int
    """Its place among all turns that were played, from 1."""
    planned: PlannedTurn
    repeat: int
    """Its place in `repeat`, from 1."""
    outcome: Outcome
    record: AuditRecord
    notes: tuple[str, ...]
    """What went wrong beside it: those of the record, without the place of a memory that is gone now."""
    misses: tuple[Miss, ...]


def play(scenario: Scenario, *, http: bool = False) -> tuple[PlayedTurn, ...]:
    """Play every turn of a scenario, in the order of the file.

    Args:
        http: over real sockets on 127.0.0.1, which takes no virtual time.

    Raises:
        ScenarioError: a turn hangs, and nothing will ever end it; or the system has no room for the play.
    """
    clock = VirtualClock()
    try:
        with tempfile.TemporaryDirectory() if scenario.on_disk else nullcontext() as folder:
            store = _Store(scenario.memory, folder)
            try:
                return clock.run(_Play(scenario, clock, store, http=http).run())
            except MemoryTrouble as trouble:
                what = f"cannot be played: {store.told(str(trouble))}"
    except Standstill:
        what = "a turn hangs for ever; give it cancel_at, or its route or client a bound in seconds"
    except OSError as error:
        what = f"cannot be played: {error.strerror or error}"
    except ConfigurationError as error:
        what = f"cannot be played: {error}"
    raise ScenarioError(printable(f"{scenario.source}: {what}"))


class _Store:
    """What outlives a router: the one memory, or the file that each memory is opened on."""

    def __init__(self, settings: MemorySettings, folder: str | None) -> None:
        self._settings = settings
        self._folder = folder
        self._url = "memory:" if folder is None else f"sqlite:{Path(folder) / 'turnout.db'}"
        self._kept = None if folder is not None else self._opened()

    def open(self) -> Memory:
        """The memory for one more router, which closes it. A memory that is no file loses nothing by that."""
        return self._kept or self._opened()

    def told(self, note: str) -> str:
        """What is said of the memory, without the folder, which has another name each time."""
        return note if self._folder is None else note.replace(f"{self._folder}{os.sep}", "")

    def _opened(self) -> Memory:
        settings = self._settings
        return from_url(
            self._url,
            ttl_secs=settings.ttl_secs,
            max_sessions=settings.max_sessions,
            durability=settings.durability,
        )


class _Stage:
    """One turn while it is played."""

    def __init__(self, number: int, turn: PlannedTurn, repeat: int) -> None:
        self.number = number
        self.turn = turn
        self.repeat = repeat
        self.script = Script(turn.upstream, name_of=_namer(turn.route))
        self.late: tuple[Miss, ...] = ()
        self.records: list[AuditRecord] = []
        self.committed = False
        """Whether a stream has begun, and with it a reply to the caller."""
        self.content_events = 0
        """Received so far."""


_STAGE: Final[ContextVar[_Stage]] = ContextVar("stage")
"""The turn that the running task belongs to: turns overlap, and each has its own script."""


def _steps_of(request: httpx.Request) -> tuple[Step, ...]:
    """What the upstreams of the running turn do with a request."""
    return _STAGE.get().script.next(request)


class _WithoutSockets(httpx.AsyncBaseTransport):
    """Carries each request to the upstreams of its turn."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await perform(_steps_of(request), request, self._clock)


class _Play:
    """One scenario while it is played: its routers, one after the other, and its turns."""

    def __init__(self, scenario: Scenario, clock: VirtualClock, store: _Store, *, http: bool) -> None:
        self._scenario = scenario
        self._clock = clock
        self._store = store
        self._memory = store.open()
        self._http = http
        self._over_sockets: OverSockets | None = None
        self._routers: list[Router] = []
        """Those that are not closed: the one in force, and before it those that are to close."""
        self._turns: list[asyncio.Task[PlayedTurn]] = []
        self._closing: list[asyncio.Task[None]] = []

    async def run(self) -> tuple[PlayedTurn, ...]:
        async with AsyncExitStack() as open_now:
            if self._http:
                server = await open_now.enter_async_context(ScriptedServer(self._clock))
                open_now.enter_context(self._clock.hold(server.busy))
                # what a router has in production, but for a proxy, which could not reach the server
                transports = Transports(proxied=False)
                open_now.push_async_callback(transports.aclose)
                self._over_sockets = OverSockets(server, _steps_of, self._clock, transports)
            return await self._run()

    async def _run(self) -> tuple[PlayedTurn, ...]:
        try:
            self._routers.append(self._router(self._scenario.route))
            for number, (turn, repeat) in enumerate(_each(self._scenario.turns), 1):
                stage = _Stage(number, turn, repeat)
                await self._until(stage)
                await self._prepare(turn)
                self._turns.append(asyncio.create_task(self._end(stage, self._begin(stage))))
            played = await asyncio.gather(*self._turns)
            await asyncio.gather(*self._closing)
            return tuple(played)
        finally:
            for router in self._routers:
                await router.close()
            await self._memory.close()

    async def _until(self, stage: _Stage) -> None:
        """Wait until it is time for a turn."""
        at = stage.turn.at
        if at is None and self._turns:
            await asyncio.wait(self._turns[-1:])
        now = self._clock.monotonic()
        ahead = 0.0 if at is None else at - now
        if _millis(ahead) < 0:
            stage.late = (Miss("at", at, _millis(now)),)
        # no two turns do anything at the very same time: threads of a store would race
        begins = now if at is None else at + (stage.number - 1) * AN_INSTANT
        await self._clock.sleep(max(begins - now, 0.0) + AN_INSTANT)

    async def _prepare(self, turn: PlannedTurn) -> None:
        """What happens to the router before a turn."""
        if turn.restart:
            await self._routers.pop().close()
        elif turn.reload:
            await self._replace(self._routers[-1])
        if turn.restart or turn.reload:
            self._routers.append(self._router(turn.route))
        if turn.restore is not None:
            await self._routers[-1].restore(target=turn.restore)
        if turn.forget is not None:
            await self._routers[-1].forget(turn.forget)

    async def _replace(self, router: Router) -> None:
        """Close a router: now, if no turn is running, else once they have ended."""
        if running := [turn for turn in self._turns if not turn.done()]:
            self._closing.append(asyncio.create_task(self._close(router, running)))
        else:
            await self._close(router, [])

    async def _close(self, router: Router, running: list[asyncio.Task[PlayedTurn]]) -> None:
        if running:
            await asyncio.wait(running)
            await self._clock.sleep(AN_INSTANT / 2)  # between what turns do
        await router.close()
        self._routers.remove(router)

    def _router(self, route: Route) -> Router:
        settings = self._scenario.memory
        return Router(
            routes=[route],
            memory=self._store.open(),
            namespace=settings.namespace,
            on_memory_error=settings.on_memory_error,
            memory_timeout_ms=settings.memory_timeout_ms,
            call=self._call if self._scenario.calls else None,
            transport=None if self._scenario.calls else self._transport(),
            clock=self._clock,
            jitter=lambda: 0.0,
            new_id=lambda: _turn_id(_STAGE.get().number),
            on_record=_keep,
        )

    async def _call(
        self, target: Target, request: Mapping[str, Any], /, *, timeout: float | None
    ) -> Mapping[str, Any]:
        """A service's own client: what an upstream refuses, it tells by ClientError."""
        # what the client adds is in the request already, or was taken out of it
        plain = replace(target, extra_body={})
        asked = Request(request, {})
        upstream = HttpUpstream(self._clock, self._transport())
        try:
            outcome = await upstream(plain, asked, Progress(), without=frozenset(), fresh=False, left=timeout)
        finally:
            await upstream.close()
        if isinstance(outcome, Answer):
            return outcome.body
        if not isinstance(outcome, Verdict):
            raise TypeError("a stream came that was not asked for")
        raise ClientError(
            kind=outcome.kind,
            status=outcome.status,
            message=outcome.message,
            features=outcome.features,
            retry_after=outcome.retry_after,
        )

    def _transport(self) -> httpx.AsyncBaseTransport:
        """What carries requests."""
        return self._over_sockets or _WithoutSockets(self._clock)

    def _begin(self, stage: _Stage) -> asyncio.Task[None]:
        """Start a turn on the router that is there now."""
        _STAGE.set(stage)
        turn = stage.turn
        calling = asyncio.create_task(_asked(self._routers[-1], stage))
        if turn.cancel_at is not None:
            asyncio.get_running_loop().call_later(turn.cancel_at, calling.cancel)
        return calling

    async def _end(self, stage: _Stage, calling: asyncio.Task[None]) -> PlayedTurn:
        """What became of a turn, once it has ended."""
        status, code = await _told(calling, stage)
        if calling.cancelled():
            await self._clock.sleep(AN_INSTANT)
        (record,) = stage.records
        evicted = await self._evicted(stage.turn.route, record)
        outcome = _outcome(record, status, code, evicted, stage.content_events)
        return PlayedTurn(
            number=stage.number,
            planned=stage.turn,
            repeat=stage.repeat,
            outcome=outcome,
            record=record,
            notes=tuple(map(self._store.told, record.notes)),
            misses=tuple(_misses(stage, outcome)),
        )

    async def _evicted(self, route: Route, record: AuditRecord) -> tuple[str, ...]:
        """The identity's evictions as they stand in the store: of the targets as they are now."""
        caller = record.caller
        if not caller.remembered:
            return ()
        identity = Identity(caller.namespace, caller.session, caller.agent)
        context = await self._memory.read(identity, now=self._clock.now())
        return tuple(t.name for t in route.ladder if context.of(t.name, t.fingerprint))


def _each(turns: tuple[PlannedTurn, ...]) -> Iterator[tuple[PlannedTurn, int]]:
    """Each turn as often as it is repeated, with its place in that."""
    for turn in turns:
        for repeat in range(1, turn.repeat + 1):
            yield turn, repeat


def _namer(route: Route) -> Callable[[httpx.Request], str]:
    """What tells the target that a request is for."""
    names = {address(target): target.name for target in route.ladder}
    return lambda request: names[str(request.url), model_of(request)]


def _turn_id(number: int) -> str:
    return f"{number:06}"


def _keep(record: AuditRecord) -> None:
    _STAGE.get().records.append(record)


async def _asked(router: Router, stage: _Stage) -> None:
    """Ask for the turn, and take the answer, a stream as long as there is something of it."""
    turn = stage.turn
    arguments: dict[str, Any] = {
        "session": turn.session,
        "agent": turn.agent,
        "subagent": None if turn.agent is None else True,
        "final": turn.final,
        "pin": turn.pin,
        "headers": turn.headers,
        "size": turn.size,
    }
    if not turn.stream:
        await router.turn(turn.request, **arguments)
        return
    async with router.stream(turn.request, **arguments) as stream:
        stage.committed = True
        async for event in stream:
            stage.content_events += event.content


async def _told(calling: asyncio.Task[None], stage: _Stage) -> tuple[int | None, str | None]:
    """Status and code that a server would tell the caller, once the turn has ended. What breaks a stream off
    that has begun comes after its status.
    """
    await asyncio.wait([calling])
    if calling.cancelled():
        return None, None
    try:
        calling.result()
    except TurnFailed as failed:
        return SERVED if stage.committed else failed.surface.status, failed.surface.code
    return SERVED, None


def _outcome(
    record: AuditRecord,
    status: int | None,
    code: str | None,
    evicted: tuple[str, ...],
    content_events: int,
) -> Outcome:
    attempts = [(probe.target, attempt) for probe in record.probes for attempt in probe.attempts]
    return Outcome(
        probes=tuple(probe.target for probe in record.probes),
        attempts=tuple(target for target, _ in attempts),
        passed_over=tuple(over.target for over in record.passed_over),
        state=record.state,
        served_by=record.served_by,
        reasons={p.target: str(p.reason) for p in record.probes if p.reason is not None},
        kinds={p.target: str(p.verdict.kind) for p in record.probes if p.verdict is not None},
        status=status,
        code=code,
        evicted=evicted,
        slept=_millis(sum(attempt.waited for _, attempt in attempts)),
        took=_millis(record.took),
        not_tried={left.target: str(left.why) for left in record.not_tried},
        passed_over_for={over.target: str(over.why) for over in record.passed_over},
        content_events=content_events,
        interrupted=any(attempt.stream and attempt.stream.interrupted for _, attempt in attempts),
        stripped={target: attempt.stripped for target, attempt in attempts if attempt.stripped},
    )


def _misses(stage: _Stage, outcome: Outcome) -> Iterator[Miss]:
    """What does not hold, in the order of `Outcome`."""
    yield from stage.late
    expect = stage.turn.expect
    for key in (field.name for field in fields(outcome)):
        if key in expect and not _same(expect[key], actual := getattr(outcome, key)):
            yield Miss(key, expect[key], actual)


def _same(expected: Any, actual: Any) -> bool:
    """Whether they are equal, times to the millisecond."""
    return bool((_millis(expected) if isinstance(expected, float) else expected) == actual)


def _millis(secs: float) -> float:
    return round(secs, 3)
