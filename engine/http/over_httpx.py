"""httpx's own pool, with what httpcore leaves undone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final, cast
from weakref import WeakKeyDictionary

import httpx

Tell = Callable[[str, Mapping[str, Any]], Awaitable[None]]

CONNECTED: Final = "connection.connect_tcp.complete"
SENDING: Final = "http11.send_request_headers.started"


class PoolTransport(httpx.AsyncHTTPTransport):
    """Carries requests over httpx's pool, and tells of one through a proxy as if there were none.

    httpcore tells of the `CONNECT` that opens a tunnel as of the request itself, which would seem to be sent
    and answered before it is; it leaves the socket open of whoever goes within a TLS handshake; and what a
    server sends behind its answer it takes for the answer to the next request, whosever that is.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._lines: WeakKeyDictionary[Any, _Line] = WeakKeyDictionary()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        asking = _Asking(request.extensions.get("trace"))
        request.extensions = {**request.extensions, "trace": asking.told}
        try:
            response = await super().handle_async_request(request)
        except BaseException:
            await asking.cut()
            raise
        await self._check(response)
        return response

    async def _check(self, response: httpx.Response) -> None:
        """See that a reply on a connection that was kept was read from it after the request went out.

        Raises:
            httpx.RemoteProtocolError: it was there before.
        """
        connection = response.extensions.get("network_stream")
        if connection is None:
            return
        line = self._lines.get(connection)
        if line is None:
            line = self._lines[connection] = _Line(connection)
        elif line.reads == line.reads_before:
            await connection.aclose()
            await response.aclose()
            raise httpx.RemoteProtocolError("The server had sent more than its answer to an earlier request.")
        response.stream = _Counted(cast("httpx.AsyncByteStream", response.stream), line)


class _Line:
    """How often one connection was read from."""

    def __init__(self, connection: Any) -> None:
        self.reads = 0
        self.reads_before = 0
        """When the last reply had come to its end."""
        read = connection.read

        async def counted(*args: Any, **named: Any) -> bytes:
            self.reads += 1
            return cast("bytes", await read(*args, **named))

        connection.read = counted


class _Counted(httpx.AsyncByteStream):
    """The body of a reply, whose end is noted."""

    def __init__(self, body: httpx.AsyncByteStream, line: _Line) -> None:
        self._body = body
        self._line = line

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._body.__aiter__()

    async def aclose(self) -> None:
        await self._body.aclose()
        self._line.reads_before = self._line.reads


class _Asking:
    """One request until the head of its reply is there."""

    def __init__(self, tell: Tell | None) -> None:
        self._tell = tell
        self._tunnelling = False
        self._opened: Any = None
        """The connection that was made for it, as httpcore's backend has it."""

    async def told(self, event: str, info: Mapping[str, Any]) -> None:
        if event.startswith("socks.connect_tcp."):
            event = event.replace("socks", "connection", 1)
        if event == CONNECTED:
            self._opened = info["return_value"]
        elif event == SENDING:
            self._tunnelling = info["request"].method == b"CONNECT"
        if self._tell is not None and not self._tunnelling:
            await self._tell(event, info)

    async def cut(self) -> None:
        """Close the connection, whatever httpcore has done of it."""
        if self._opened is not None:
            await self._opened.aclose()
