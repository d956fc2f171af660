"""httpx's own pool, with what httpcore leaves undone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final, cast
from weakref import WeakKeyDictionary

import httpx

from turnout.engine.http.framing import Framing

Tell = Callable[[str, Mapping[str, Any]], Awaitable[None]]

CONNECTED: Final = ".connect_tcp.complete"
SECURED: Final = ".start_tls.complete"
SENDING: Final = "http11.send_request_headers.started"


class PoolTransport(httpx.AsyncHTTPTransport):
    """Carries requests over httpx's pool, and tells of one through a proxy as if there were none.

    httpcore tells of the `CONNECT` that opens a tunnel as of the request itself, which would seem to be sent
    and answered before it is. It leaves the socket open of whoever goes within a TLS handshake, and in its
    pool the connection of whoever is cancelled while a reply is closed. And what a server sends behind its
    answer it takes for the answer to the next request, whosever that is.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._lines: WeakKeyDictionary[Any, Framing] = WeakKeyDictionary()
        """By the connection, as httpcore's backend has it."""
        self._closing: set[asyncio.Task[None]] = set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        asking = _Asking(request.extensions.get("trace"), self._lines)
        request.extensions = {**request.extensions, "trace": asking.told}
        try:
            response = await super().handle_async_request(request)
        except BaseException:
            await asking.cut()
            raise
        line = self._lines.get(response.extensions.get("network_stream"))
        if line is None:
            return response
        body = _Body(response, line, bodiless=request.method == "HEAD" or response.status_code in (204, 304))
        if not line.reads:
            await body.aclose()
            raise httpx.RemoteProtocolError("The server had sent more than its answer to an earlier request.")
        response.stream = _Closed(body, self._closing)
        return response

    async def aclose(self) -> None:
        if self._closing:
            await asyncio.wait(self._closing)
        await super().aclose()


class _Asking:
    """One request until the head of its reply is there."""

    def __init__(self, tell: Tell | None, lines: WeakKeyDictionary[Any, Framing]) -> None:
        self._tell = tell
        self._lines = lines
        self._tunnelling = False
        self._opened: Any = None
        """The connection that was made for it, as httpcore's backend has it."""

    async def told(self, event: str, info: Mapping[str, Any]) -> None:
        if event.endswith((CONNECTED, SECURED)):
            connection = info["return_value"]
            self._lines[connection] = _followed(connection)
            if event.endswith(CONNECTED):
                self._opened = connection
        elif event == SENDING:
            self._tunnelling = info["request"].method == b"CONNECT"
        if event.startswith("socks.connect_tcp."):
            event = event.replace("socks", "connection", 1)
        if self._tell is not None and not self._tunnelling:
            await self._tell(event, info)

    async def cut(self) -> None:
        """Close the connection, whatever httpcore has done of it."""
        if self._opened is not None:
            await self._opened.aclose()


def _followed(connection: Any) -> Framing:
    """What follows the replies that are read from a connection."""
    framing, read = Framing(), connection.read

    async def followed(*args: Any, **named: Any) -> bytes:
        data = cast("bytes", await read(*args, **named))
        framing.take(data)
        return data

    connection.read = followed
    return framing


class _Body(httpx.AsyncByteStream):
    """The body of a reply. Its connection is used again if nothing has come behind it."""

    def __init__(self, response: httpx.Response, line: Framing, *, bodiless: bool) -> None:
        self._bodiless = bodiless
        self._body = cast("httpx.AsyncByteStream", response.stream)
        self._response = response
        self._line = line

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._body.__aiter__()

    async def aclose(self) -> None:
        try:
            if not self._line.is_clean(self._response.headers, bodiless=self._bodiless):
                await self._response.extensions["network_stream"].aclose()
        finally:
            self._line.over()
            await self._body.aclose()


class _Closed(httpx.AsyncByteStream):
    """A body whose closing is finished, whether or not the task that closes it stays for that."""

    def __init__(self, body: _Body, closing: set[asyncio.Task[None]]) -> None:
        self._body = body
        self._closing = closing

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._body.__aiter__()

    async def aclose(self) -> None:
        task = asyncio.create_task(self._body.aclose())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        await asyncio.shield(task)
