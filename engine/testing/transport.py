"""Carries requests to doubles without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import httpx
import msgspec

from turnout.engine.clock import Clock, SystemClock
from turnout.engine.targets import Format
from turnout.engine.testing.doubles import ok
from turnout.engine.testing.steps import Break, Data, Fail, Head, Pause, Scripted, Step

FORMATS: Final[Mapping[str, Format]] = {
    "/chat/completions": "openai_chat",
    "/responses": "openai_responses",
    "/messages": "anthropic_messages",
}
"""The wire format of a request, by how its path ends."""

GOING_OUT: Final = (
    "connection.connect_tcp.started",
    "http11.send_request_headers.started",
    "http11.send_request_body.complete",
)
ANSWERED: Final = "http11.receive_response_headers.complete"
"""What httpcore tells its `trace` extension of a request on a fresh connection, and what of its reply."""


def model_of(request: httpx.Request) -> str:
    """The model id that a request asks for: a target's name, unless it was given another id."""
    return str(_body(request)["model"])


def _body(request: httpx.Request) -> Any:
    return msgspec.json.decode(request.content)


def _format_of(request: httpx.Request) -> Format:
    for end, spoken in FORMATS.items():
        if request.url.path.endswith(end):
            return spoken
    return "openai_chat"


class Script:
    """The replies of each target: in order, and the last one repeats.

    Args:
        replies: by the target's name; a target that is not named answers "ok".
        name_of: tells the target's name from a request.
    """

    def __init__(
        self,
        replies: Mapping[str, Sequence[Scripted]] | None = None,
        *,
        name_of: Callable[[httpx.Request], str] = model_of,
    ) -> None:
        self._replies = {name: list(given) for name, given in (replies or {}).items()}
        self._name_of = name_of

    def next(self, request: httpx.Request) -> tuple[Step, ...]:
        """What is done with this request, which takes it off the script."""
        replies = self._replies.get(self._name_of(request)) or [ok()]
        scripted = replies.pop(0) if len(replies) > 1 else replies[0]
        return tuple(scripted.steps(_format_of(request), bool(_body(request).get("stream"))))


class ScriptedTransport(httpx.AsyncBaseTransport):
    """Answers each target by its script: in order, and the last reply repeats.

    Args:
        script: the replies by the target's name; a target that is not named answers "ok".
        clock: what pauses are kept on.
        name_of: tells the target's name from a request.
    """

    def __init__(
        self,
        script: Mapping[str, Sequence[Scripted]] | None = None,
        *,
        clock: Clock | None = None,
        name_of: Callable[[httpx.Request], str] = model_of,
    ) -> None:
        self._script = Script(script, name_of=name_of)
        self._clock = clock if clock is not None else SystemClock()
        self.requests: list[httpx.Request] = []
        """What was asked, in order."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return await perform(self._script.next(request), request, self._clock)


async def perform(steps: Iterable[Step], request: httpx.Request, clock: Clock) -> httpx.Response:
    """Play the steps of a reply, as the transport of a fresh connection would give it.

    Raises:
        httpx.ReadError: the connection breaks, here or while the body is read.
        RuntimeError: the script fails.
    """
    await _tell(request, *GOING_OUT)
    parts = _parts(steps, clock)
    head = await anext(parts)
    if not isinstance(head, Head):
        raise RuntimeError("a script has data before its head")
    await _tell(request, ANSWERED)
    return httpx.Response(head.status, headers=dict(head.headers), stream=_Body(parts))


async def _tell(request: httpx.Request, *events: str) -> None:
    if (trace := request.extensions.get("trace")) is not None:
        for event in events:
            await trace(event, {})


async def _parts(steps: Iterable[Step], clock: Clock) -> AsyncGenerator[Head | bytes, None]:
    """Head and data, each when it is due."""
    for step in steps:
        if isinstance(step, Head):
            yield step
        elif isinstance(step, Data):
            yield step.content
        elif isinstance(step, Pause):
            await clock.sleep(step.secs)
        elif isinstance(step, Break):
            raise httpx.ReadError("connection reset by peer")
        elif isinstance(step, Fail):
            raise RuntimeError(step.text)
        else:
            await asyncio.get_running_loop().create_future()


class _Body(httpx.AsyncByteStream):
    """The rest of a play. Closing it ends the play."""

    def __init__(self, parts: AsyncGenerator[Head | bytes, None]) -> None:
        self._parts = parts

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._parts:
            if isinstance(part, bytes):
                yield part

    async def aclose(self) -> None:
        await self._parts.aclose()
