"""The router: what a service embeds."""

from __future__ import annotations

import asyncio
import inspect
import os
import random
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import httpx
import msgspec

from turnout.engine import deployment
from turnout.engine.arguments import check, never_runs
from turnout.engine.attempts import Request
from turnout.engine.audit import AuditRecord
from turnout.engine.breakers import Breakers
from turnout.engine.call import Call, CallUpstream
from turnout.engine.capture import Capture
from turnout.engine.clock import Clock, SystemClock
from turnout.engine.context import EMPTY, Identity
from turnout.engine.drive import (
    LOG,
    Drive,
    Sink,
    SizeOf,
    Surroundings,
    asks_of,
    measured,
    new_turn,
)
from turnout.engine.errors import (
    ConfigurationError,
    InvalidBody,
    MemoryTrouble,
    RouterMisused,
    UnknownPin,
    UnknownRoute,
)
from turnout.engine.habits import MOST_TOKENS
from turnout.engine.http import Library, Transports
from turnout.engine.identity import Asking, as_id, identify, is_unicode
from turnout.engine.memory import from_url
from turnout.engine.memory.bounded import BoundedMemory, OnMemoryError
from turnout.engine.memory.ids import shown
from turnout.engine.memory.keeper import Keeper
from turnout.engine.memory.operations import BringBack, Forget, Restore
from turnout.engine.memory.protocol import Change, Memory
from turnout.engine.memory.shared_health import SharedHealth
from turnout.engine.memory.sqlite import SqliteMemory
from turnout.engine.policy import Policy
from turnout.engine.preview import Preview
from turnout.engine.route import BOUNDS, Route
from turnout.engine.secrets import credential_from_environment
from turnout.engine.selection import NO_OPTIONS, NONE_COOLS, Options
from turnout.engine.sinks.beside import Beside, SinkHealth, close_all
from turnout.engine.sinks.beside import Sink as TakesAll
from turnout.engine.stream import Stream
from turnout.engine.targets import Target, unusable_bounds
from turnout.engine.upstream import HttpUpstream, url

Told = TypeVar("Told", AuditRecord, Change)

DEFAULT_ROUTE: Final = "default"
"""The id of the route of a router that was given a ladder."""
DEFAULT_MEMORY: Final = "turnout.db"
"""The SQLite file of a router that was given no memory."""


@dataclass(frozen=True)
class Reply:
    """A served turn."""

    body: Mapping[str, Any]
    """The upstream's answer, decoded."""
    served_by: str
    """The name of the target that answered."""
    record: AuditRecord


class Router:
    """Routes the turns of many sessions. Used by any number of tasks of one event loop.

    Give either a `ladder`, which makes one route with `on`, `deadline_secs` and `options`, or `routes`.

    Args:
        ladder: the targets to try, in order.
        on: what a kind of error does, where that differs from the default policy.
        deadline_secs: bounds a whole turn.
        options: who may be probed.
        routes: several routes, each with its ladder and policy.
        memory: where evictions are kept; a SQLite file `turnout.db` by default. Closed with the router.
        namespace: keeps the sessions of one embedder apart from another's in the same memory.
        on_record: called with the record of each turn, within the turn. One that raises is logged.
        sinks: take each record and change beside the turns, each in a thread of its own: `JsonLines(…)`,
            `SqliteRecords(…)`, `Logged()`, or any callable. Closed with the router.
        on_change: called with each eviction that was removed: when, whose, which and why. One that raises is
            logged.
        call: makes the calls, where the service has a client of its own: an async function, in the place of
            any `transport`.
        size: gives a request's size in tokens, from its body, in place of the estimate, which stands where it
            gives None.
        capture: keeps the replies that no rule knows, to correct or report how they are read.
        on_memory_error: `serve` (go on without, and note it) or `raise` (the turn is broken).
        memory_timeout_ms: how long a turn waits for the memory, each time.
        transport: what carries HTTP requests: `aiohttp` or `httpx` for that library's pool of connections,
            or a transport of your own. By default aiohttp where it is installed, else httpx.
        clock: where time comes from.
        jitter: gives a number from 0 to 1 for each back-off.
        new_id: names a turn.

    Raises:
        ConfigurationError: no ladder, a route twice, an argument of another type, two that do not go
            together; without `call`, a target that has no `base_url`, whose `api_key_env` names no credential
            or whose `ca_file` no certificate; a library that is missing.
    """

    def __init__(
        self,
        *,
        ladder: Sequence[Target] = (),
        on: Mapping[str, str] | None = None,
        deadline_secs: float | None = None,
        options: Options | None = None,
        routes: Iterable[Route] = (),
        memory: Memory | None = None,
        namespace: str = "",
        on_record: Sink | None = None,
        on_change: Callable[[Change], Any] | None = None,
        sinks: Iterable[TakesAll] = (),
        call: Call | None = None,
        size: SizeOf | None = None,
        capture: Capture | None = None,
        on_memory_error: OnMemoryError = "serve",
        memory_timeout_ms: float = 100,
        transport: httpx.AsyncBaseTransport | Transports | Library | None = None,
        clock: Clock | None = None,
        jitter: Callable[[], float] | None = None,
        new_id: Callable[[], str] | None = None,
    ) -> None:
        check(
            memory=memory,
            on_record=on_record,
            on_change=on_change,
            size=size,
            capture=capture,
            on_memory_error=on_memory_error,
            memory_timeout_ms=memory_timeout_ms,
            transport=transport,
            clock=clock,
            jitter=jitter,
            new_id=new_id,
        )
        if call is not None and transport is not None:
            raise ConfigurationError(
                "call= makes the calls, and nothing is left for transport= to carry; keep one"
            )
        routes = _all_routes(ladder, on, deadline_secs, options, routes)
        self._routes = _by_id(routes, calls=call is not None)
        self._namespace = as_id(namespace)
        if not is_unicode(str(namespace)):
            raise ConfigurationError(f"namespace is {namespace!r}, which is no Unicode; give another one")
        self._on_memory_error: OnMemoryError = on_memory_error
        self._clock = clock if clock is not None else SystemClock()
        memory = memory if memory is not None else SqliteMemory(DEFAULT_MEMORY)
        self._sinks = tuple([Beside(sink) for sink in _all_sinks(sinks)])
        self._writer, self._sequence = _time_ordered_id(), 0
        self._on_change = on_change
        self._keeper = Keeper(
            memory, self._clock, timeout_ms=memory_timeout_ms, on_change=self._changed if sinks else on_change
        )
        self._health = SharedHealth(
            memory,
            self._clock,
            timeout_ms=memory_timeout_ms,
            is_left_alone=lambda: self._keeper.is_left_alone,
        )
        self._upstream: HttpUpstream | CallUpstream
        if call is None:
            if transport is None or isinstance(transport, str):
                transport = Transports(transport)
            self._upstream = HttpUpstream(self._clock, transport, capture)
            for target in self._targets():
                self._upstream.check(target)
        else:
            self._upstream = CallUpstream(call, self._clock, capture)
        self._calls = call is not None
        self._around = Surroundings(
            health=self._health,
            namespace=self._namespace,
            size=size,
            attempt=self._upstream,
            clock=self._clock,
            jitter=jitter or random.random,
            new_id=new_id or _time_ordered_id,
            later=self._later,
            on_record=on_record,
            keep=self._keep if self._sinks else None,
        )
        self._life = _Life()
        self._background: set[asyncio.Task[None]] = set()
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str], **arguments: Any) -> Self:
        """A router for the routes of a deployment file.

        Args:
            arguments: of the router, where they differ from what the file says.

        Raises:
            ConfigurationError: listing every mistake in the file that stops it from being used.
        """
        loaded = deployment.load(path)
        settings = loaded.memory
        from_file: dict[str, Any] = {
            "routes": loaded.routes.values(),
            "namespace": settings.namespace,
            "on_memory_error": settings.on_memory_error,
            "memory_timeout_ms": settings.memory_timeout_ms,
        }
        if "memory" not in arguments:
            from_file["memory"] = from_url(
                settings.url,
                ttl_secs=settings.ttl_secs,
                max_sessions=settings.max_sessions,
                durability=settings.durability,
            )
        if "call" not in arguments:
            from_file["transport"] = loaded.http.library
        if "capture" not in arguments and loaded.capture is not None:
            from_file["capture"] = Capture(loaded.capture.dir, max_bytes=loaded.capture.max_bytes)
        return cls(**{**from_file, **arguments})

    @property
    def memory(self) -> Keeper:
        """The memory as this router keeps it: `router.memory.health` says how it is."""
        return self._keeper

    @property
    def sinks(self) -> tuple[SinkHealth, ...]:
        """How each of the sinks is: what it has taken, what waits for it, what was dropped."""
        return tuple([sink.health for sink in self._sinks])

    @property
    def routes(self) -> Mapping[str, Route]:
        """The routes by id."""
        return self._routes

    async def turn(
        self,
        body: Mapping[str, Any],
        *,
        route: str | None = None,
        session: str | None = None,
        agent: str | None = None,
        subagent: bool | None = None,
        final: bool = False,
        pin: str | None = None,
        headers: Mapping[str, str] | None = None,
        size: int | None = None,
        request_id: str | None = None,
    ) -> Reply:
        """Route one request of a session.

        Args:
            body: the request, in the wire format of the route's ladder. Its `model` is replaced.
            route: the route's id; needless where there is only one.
            session: whose evictions count; without one the turn is routed all the same.
            agent: makes the turn a sub-agent's, whose evictions are its own.
            subagent: whether it is one, where that is not as `agent` or the headers say.
            final: the last request: forget the session with all its agents, or that agent, afterwards.
            pin: the target of the ladder that goes first in this turn. It is passed over like any other.
            headers: the caller's HTTP headers; arguments win over what they say.
            size: the request's size in tokens, where the caller knows better than the estimate.
            request_id: the caller's name for the request, for the record.

        Raises:
            TurnFailed: with the concrete upstream error and the record.
            RequestRefused: no such route or pin, or a body that is no JSON object; there was no turn.
            RouterMisused: closed, or of another event loop or process.
        """
        if isinstance(body, Mapping) and body.get("stream"):
            raise InvalidBody("the body asks for a stream, which turn() does not give; use stream()")
        chosen = self._route(route)
        request = self._request(chosen, body, headers, size, pin)
        asking = identify(
            request.headers,
            namespace=self._namespace,
            session=session,
            agent=agent,
            subagent=subagent,
            final=final,
            request_id=request_id,
        )
        with self._life.turn():
            drive = self._drive(chosen, request, asking)
            answer = await drive.run()
        if answer is None or drive.record is None:
            raise AssertionError("a turn without a stream has ended without an answer")
        return Reply(answer.body, str(drive.record.served_by), drive.record)

    def stream(
        self,
        body: Mapping[str, Any],
        *,
        route: str | None = None,
        session: str | None = None,
        agent: str | None = None,
        subagent: bool | None = None,
        final: bool = False,
        pin: str | None = None,
        headers: Mapping[str, str] | None = None,
        size: int | None = None,
        request_id: str | None = None,
    ) -> Stream:
        """Route one request of a session whose answer is to come as a stream. Nothing is asked yet.

        Args:
            body: as for `turn`; it is sent with `stream` set.

        The other arguments are those of `turn`.

        Raises:
            RequestRefused: no such route or pin, or a body that is no JSON object; there was no turn.
            ConfigurationError: this router calls by `call=`, which brings whole answers.
        """
        if self._calls:
            raise ConfigurationError("call= brings whole answers and no stream; use turn()")
        chosen = self._route(route)
        request = self._request(chosen, body, headers, size, pin, stream=True)
        asking = identify(
            request.headers,
            namespace=self._namespace,
            session=session,
            agent=agent,
            subagent=subagent,
            final=final,
            request_id=request_id,
        )
        return Stream(lambda: self._drive(chosen, request, asking), self._life.turn)

    async def preview(
        self,
        body: Mapping[str, Any],
        *,
        route: str | None = None,
        session: str | None = None,
        agent: str | None = None,
        subagent: bool | None = None,
        pin: str | None = None,
        headers: Mapping[str, str] | None = None,
        size: int | None = None,
    ) -> Preview:
        """Which target would be probed first if this request came now, and which would be passed over.

        Nothing is asked and nothing is written. The arguments are those of `turn`; a body with `stream` set
        is looked at as a stream.

        Raises:
            RequestRefused: no such route or pin, or a body that is no JSON object.
            ConfigurationError: the router's `size=` gives no size.
            RouterMisused: closed, or of another event loop or process.
        """
        chosen = self._route(route)
        request = self._request(chosen, body, headers, size, pin)
        asking = identify(
            request.headers, namespace=self._namespace, session=session, agent=agent, subagent=subagent
        )
        context, coolings, notes = EMPTY, NONE_COOLS, list[str]()
        with self._life.turn():
            if asking.identity is not None:
                whose = shown(asking.identity)
                try:
                    context = await self._keeper.peek(whose)
                except MemoryTrouble as trouble:
                    context = self._keeper.known(whose)
                    notes.append(str(trouble))
            if chosen.has_breakers:
                breakers = Breakers(
                    self._health,
                    chosen.ladder,
                    "",
                    self._clock,
                    namespace=self._namespace,
                    note=lambda trouble: notes.append(str(trouble)),
                )
                coolings = await breakers.read()
        asks = asks_of(chosen, request)
        if self._around.size is not None:
            asks = measured(asks, request, self._around.size)
        turn = new_turn(chosen, asks, context, pin=pin, coolings=coolings)
        return turn.preview(chosen.id, tuple(notes))

    async def forget(self, session: str, *, agent: str | None = None) -> tuple[Change, ...]:
        """Forget a session with all its agents, or one agent of it (`""` is the root).

        Raises:
            MemoryTrouble: the memory could not be written now. It is kept, and written when it is back.
        """
        with self._life.turn():
            now = self._clock.now()
            who = shown(Identity(self._namespace, as_id(session), as_id(agent)))
            whose = None if agent is None else who.agent
            return tuple(await self._keeper.do(Forget(who.namespace, who.session, whose, now)))

    async def restore(
        self, session: str | None = None, *, target: str, agent: str = ""
    ) -> tuple[Change, ...]:
        """Make a target eligible again: for a session's root, one agent of it, or all sessions at once.

        Returns:
            What was removed; for all sessions nothing is listed, since nothing was searched.

        Raises:
            ConfigurationError: no route has this target.
            MemoryTrouble: the memory could not be written now. It is kept, and written when it is back.
        """
        with self._life.turn():
            fingerprints = self._fingerprints(target)
            now = self._clock.now()
            if session is not None:
                identity = shown(Identity(self._namespace, as_id(session), as_id(agent)))
                return tuple(await self._keeper.do(BringBack(identity, target, now)))
            troubles = []
            for fingerprint in fingerprints:
                try:
                    await self._keeper.do(Restore(self._namespace, target, fingerprint, now))
                except MemoryTrouble as trouble:
                    troubles.append(trouble)
            if troubles:
                raise troubles[0]
            return ()

    async def close(self) -> None:
        """Refuse further turns, wait for those in flight, and close connections, memory and sinks.

        What goes wrong with a sink is logged: nothing of it is raised.

        Raises:
            RouterMisused: of another event loop or process.
        """
        self._life.close()
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        # whoever waits no longer does not stop it, and whoever comes later waits for the same
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        await self._life.idle()
        if self._background:
            await asyncio.wait(self._background)
        async with AsyncExitStack() as closing:  # each is closed, whatever becomes of those before it
            closing.push_async_callback(self._close_sinks)
            closing.push_async_callback(self._keeper.close)
            closing.push_async_callback(self._health.close)
            await self._upstream.close()

    async def _close_sinks(self) -> None:
        if not self._sinks:
            return
        # in a thread of its own: the loop's may be busy for long with what the embedder does
        executor = ThreadPoolExecutor(1, "turnout-closing-sinks")
        try:
            await asyncio.get_running_loop().run_in_executor(executor, close_all, self._sinks)
        except RuntimeError:  # no room for a thread: rather hold the loop up than lose what waits
            close_all(self._sinks)
        finally:
            executor.shutdown(wait=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def _request(
        self,
        route: Route,
        body: Mapping[str, Any],
        headers: Mapping[str, str] | None,
        size: int | None,
        pin: str | None,
        *,
        stream: bool = False,
    ) -> Request:
        """What the caller asks.

        Raises:
            InvalidBody: it is no request.
            UnknownPin: the route does not have it.
        """
        if pin is not None and pin not in (names := [target.name for target in route.ladder]):
            raise UnknownPin(f"route {route.id!r} has no target {pin!r}; pin one of {', '.join(names)}")
        if size is not None and (type(size) is not int or not 0 <= size <= MOST_TOKENS):
            told = f"is {size}" if type(size) is int and abs(size) <= 10 * MOST_TOKENS else "is none"
            raise InvalidBody(f"size {told}; give a whole number of tokens, or leave it out")
        lowered = {
            name.lower(): value
            for name, value in dict(headers or {}).items()
            if isinstance(name, str) and isinstance(value, str)
        }
        if not isinstance(body, Mapping):
            raise InvalidBody(f"the body is {type(body).__name__}; give a JSON object")
        if strange := [key for key in body if not isinstance(key, str)]:
            raise InvalidBody(f"the body has the key {strange[0]!r}; the keys of JSON are strings")
        try:
            return Request(dict(body), lowered, size, stream=stream, pin=pin)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidBody(f"the body is no JSON: {error}") from None

    def _drive(self, route: Route, request: Request, asking: Asking) -> Drive:
        memory = BoundedMemory(
            self._keeper,
            asking.identity and shown(asking.identity),
            self._clock,
            namespace=self._namespace,
            on_error=self._on_memory_error,
        )
        return Drive(route, request, asking, memory, self._around)

    def _route(self, id: str | None) -> Route:
        if id is None and len(self._routes) == 1:
            return next(iter(self._routes.values()))
        if id is None or id not in self._routes:
            asked = "which route is not said" if id is None else f"there is no route {id!r}"
            raise UnknownRoute(f"{asked}; there are {', '.join(map(repr, self._routes))}")
        return self._routes[id]

    def _targets(self) -> Iterator[Target]:
        for route in self._routes.values():
            yield from route.ladder

    def _fingerprints(self, target: str) -> set[str]:
        if found := {t.fingerprint for t in self._targets() if t.name == target}:
            return found
        raise ConfigurationError(f"no route has a target {target!r}; evictions of it count nowhere")

    def _keep(self, what: Told) -> Told:
        """Number a record or a change, so that it is known by that wherever it is kept, and hand it over."""
        self._sequence += 1
        numbered = msgspec.structs.replace(what, writer=self._writer, sequence=self._sequence)
        for sink in self._sinks:
            sink.put(numbered)
        return numbered

    def _changed(self, change: Change) -> None:
        change = self._keep(change)
        if self._on_change is not None:
            self._on_change(change)

    def _later(self, doing: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(doing)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task


class _Life:
    """Which loop and process a router belongs to, how many turns are in flight, whether it is closed."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._in_flight = 0
        self._closed = False
        self._idle: asyncio.Event | None = None

    def turn(self) -> Self:
        """Let one turn in.

        Raises:
            RouterMisused: closed, or of another event loop or process.
        """
        if self._closed:
            raise RouterMisused("this router is closed; make another one")
        self._see_where()
        return self

    def _see_where(self) -> None:
        if os.getpid() != self._process:
            raise RouterMisused(
                f"this router is of process {self._process}, before the fork; make one in each process"
            )
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise RouterMisused("this router is of another event loop; make one for each loop")

    def __enter__(self) -> None:
        self._in_flight += 1

    def __exit__(self, *_: object) -> None:
        self._in_flight -= 1
        if not self._in_flight and self._idle is not None:
            self._idle.set()

    def close(self) -> None:
        """Refuse further turns.

        Raises:
            RouterMisused: of another event loop or process.
        """
        self._see_where()
        self._closed = True

    async def idle(self) -> None:
        """Wait until no turn is in flight."""
        if self._in_flight:
            self._idle = asyncio.Event()
            await self._idle.wait()


def _all_routes(
    ladder: Sequence[Target],
    on: Mapping[str, str] | None,
    deadline_secs: float | None,
    options: Options | None,
    routes: Iterable[Route],
) -> tuple[Route, ...]:
    """The routes of a router, of which a ladder makes one.

    Raises:
        ConfigurationError: they are none, or a ladder does not go with the rest.
    """
    if isinstance(routes, str | Route) or not isinstance(routes, Iterable):
        raise ConfigurationError(f"routes is of type {type(routes).__name__}; give a list, [Route(…), …]")
    routes = tuple(routes)
    if others := sorted({type(route).__name__ for route in routes if not isinstance(route, Route)}):
        raise ConfigurationError(f"routes holds {', '.join(others)}; give routes only, Route(…)")
    if not ladder:
        if routes and (on, deadline_secs, options) != (None, None, None):
            raise ConfigurationError(
                "on, deadline_secs and options go with a ladder; each of several routes has its own:"
                " Route(…, policy=Policy({…}), deadline_secs=…, options=Options(…))"
            )
        return routes
    if routes:
        raise ConfigurationError(
            "a ladder makes one route, beside which there are no others; give ladder or routes"
        )
    whole: Any = (
        tuple(ladder) if isinstance(ladder, Iterable) else ladder
    )  # what is no ladder the route tells
    return (
        Route(
            id=DEFAULT_ROUTE,
            ladder=whole,
            policy=Policy(on),
            deadline_secs=deadline_secs,
            options=NO_OPTIONS if options is None else options,
        ),
    )


def _all_sinks(sinks: Iterable[TakesAll]) -> tuple[TakesAll, ...]:
    if not isinstance(sinks, Iterable) or isinstance(sinks, str):
        raise ConfigurationError(f"sinks is of type {type(sinks).__name__}; give a list, [JsonLines(…), …]")
    found = tuple(sinks)
    for sink in found:
        if inspect.isclass(sink) or not callable(sink) or never_runs(sink):
            raise ConfigurationError(
                f"sinks holds {sink!r}, which takes no records; give callables that are not async,"
                " such as JsonLines(…)"
            )
    return found


def _by_id(routes: Iterable[Route], *, calls: bool) -> Mapping[str, Route]:
    found: dict[str, Route] = {}
    unusable: list[str] = []
    for route in routes:
        if route.id in found:
            raise ConfigurationError(f"route {route.id!r} is given twice; each needs an id of its own")
        found[route.id] = route
        for target in route.ladder:
            if not calls and not target.base_url:
                raise ConfigurationError(
                    f"target {target.name!r} has no base_url; give one, or make the calls yourself by call="
                )
            if not calls:
                credential_from_environment(target)
                _check_address(target)
            unusable += (f"target {target.name}: {key} = {v}" for key, v in unusable_bounds(target))
        unusable += (f"route {route.id}: {key} = {v}" for key, v in unusable_bounds(route, BOUNDS))
    for bound in dict.fromkeys(unusable):  # each once, in however many routes its target is
        LOG.warning("%s cannot be used and means no bound", bound)
    if not found:
        raise ConfigurationError("a router needs a ladder, or routes; give at least one target")
    return found


def _check_address(target: Target) -> None:
    try:
        if url(target).host:
            return
    except (httpx.InvalidURL, UnicodeError, ValueError):
        pass
    raise ConfigurationError(
        f"target {target.name!r}: its base_url is no address; give one like https://api.example.com/v1"
    )


def _time_ordered_id() -> str:
    """A name that sorts by the time it was given: 16 digits of nanoseconds, then 16 of chance."""
    return f"{time.time_ns():016x}{random.getrandbits(64):016x}"
