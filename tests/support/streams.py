"""A transport that plays streams in virtual time, and what a router makes of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import httpx
import msgspec

from turnout import InMemory, Router, Target, TurnFailed
from turnout.engine.audit import AuditRecord
from turnout.engine.clock import VirtualClock
from turnout.engine.sse import StreamEvent

BODY = {"messages": [{"role": "user", "content": "hello"}]}
HANG = "hang"
SSE = {"content-type": "text/event-stream"}

Step = bytes | float | str | Exception
"""Some bytes, a pause in seconds, silence for ever, or a connection that breaks."""


def chunk(text: str | None = None, **delta: Any) -> bytes:
    """One event of a Chat Completions stream."""
    content = {"content": text} if text is not None else {}
    choice = {"index": 0, "delta": {**content, **delta}, "finish_reason": None}
    return data({"object": "chat.completion.chunk", "choices": [choice]})


def data(value: object) -> bytes:
    return b"data: " + msgspec.json.encode(value) + b"\n\n"


ROLE = chunk("", role="assistant")
STOP = data({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
DONE = b"data: [DONE]\n\n"
END = (STOP, DONE)
RESET = httpx.ReadError("connection reset by peer")


@dataclass
class Played:
    """A reply of some upstream: its head, then its steps."""

    steps: Iterable[Step] = ()
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: dict(SSE))


class StreamTransport(httpx.AsyncBaseTransport):
    """Answers each target, by its model's name, with the next of its replies; the last one repeats."""

    def __init__(self, clock: VirtualClock, script: dict[str, list[Played]]) -> None:
        self._clock = clock
        self._script = {name: list(replies) for name, replies in script.items()}
        self.asked: list[tuple[str, float]] = []
        """The model and the time of each request."""
        self.bodies: list[dict[str, Any]] = []
        self.open = 0
        """Replies whose connection is held."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = msgspec.json.decode(request.content)
        self.bodies.append(body)
        self.asked.append((body["model"], round(self._clock.monotonic(), 3)))
        for event in ("http11.send_request_headers.started", "http11.send_request_body.complete"):
            await request.extensions["trace"](event, {})
        replies = self._script[body["model"]]
        reply = replies.pop(0) if len(replies) > 1 else replies[0]
        self.open += 1
        return httpx.Response(reply.status, headers=reply.headers, stream=_Steps(self, reply.steps))

    async def play(self, steps: Iterable[Step]) -> AsyncIterator[bytes]:
        for step in steps:
            if isinstance(step, bytes):
                yield step
            elif isinstance(step, Exception):
                raise step
            elif step == HANG:
                await asyncio.get_running_loop().create_future()
            else:
                await self._clock.sleep(float(step))


class _Steps(httpx.AsyncByteStream):
    def __init__(self, transport: StreamTransport, steps: Iterable[Step]) -> None:
        self._transport = transport
        self._steps = steps
        self._closed = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._transport.play(self._steps)

    async def aclose(self) -> None:
        if not self._closed:
            self._closed = True
            self._transport.open -= 1


@dataclass
class Told:
    """What the caller of one streaming turn saw."""

    events: list[StreamEvent]
    failure: TurnFailed | None
    record: AuditRecord
    transport: StreamTransport
    took: float

    @property
    def raw(self) -> bytes:
        return b"".join(event.raw for event in self.events)

    @property
    def attempts(self) -> list[str]:
        return [model for model, _ in self.transport.asked]


Reading = Callable[[Router, VirtualClock, StreamTransport], Any]


def streamed(
    script: dict[str, list[Played]],
    *,
    format: str = "openai_chat",
    body: Mapping[str, Any] | None = None,
    route: dict[str, Any] | None = None,
    **client: Any,
) -> Told:
    """One streaming turn over the targets of the script, read to its end."""
    clock = VirtualClock()
    transport = StreamTransport(clock, script)
    records: list[AuditRecord] = []
    events: list[StreamEvent] = []
    failure: list[TurnFailed] = []

    async def story() -> None:
        router = a_router(script, transport, clock, records, format, route or {}, client)
        async with router:
            try:
                async with router.stream(body or BODY, session="s") as stream:
                    async for event in stream:
                        events.append(event)  # noqa: PERF401 - those before a failure count
            except TurnFailed as failed:
                failure.append(failed)
        assert transport.open == 0, "a connection is still held"
        assert asyncio.all_tasks() == {asyncio.current_task()}, "a task was left behind"

    clock.run(story())
    (record,) = records
    return Told(events, failure[0] if failure else None, record, transport, round(record.took, 3))


def a_router(
    script: dict[str, list[Played]],
    transport: StreamTransport,
    clock: VirtualClock,
    records: list[AuditRecord],
    format: str,
    route: dict[str, Any],
    client: dict[str, Any],
) -> Router:
    ladder = [
        Target(name, base_url=f"https://{name}.test/v1", format=format, **client)  # type: ignore[arg-type]
        for name in script
    ]
    return Router(
        ladder=ladder,
        memory=InMemory(),
        transport=transport,
        clock=clock,
        jitter=lambda: 0.0,
        on_record=records.append,
        **route,
    )


def with_stream(
    script: dict[str, list[Played]],
    reading: Callable[..., Any],
    *,
    route: dict[str, Any] | None = None,
    **client: Any,
) -> tuple[list[AuditRecord], StreamTransport]:
    """A story that reads a stream in its own way.

    Args:
        reading: is given the router and the clock.
    """
    clock = VirtualClock()
    transport = StreamTransport(clock, script)
    records: list[AuditRecord] = []

    async def story() -> None:
        async with a_router(script, transport, clock, records, "openai_chat", route or {}, client) as router:
            with suppress(TurnFailed):
                await reading(router, clock)
        assert transport.open == 0, "a connection is still held"
        assert asyncio.all_tasks() == {asyncio.current_task()}, "a task was left behind"

    clock.run(story())
    return records, transport
