"""An httpx transport that carries its requests over aiohttp, for a fraction of what httpx's own pool costs.

It stands on aiohttp's connections and parser, below its `ClientSession`: a session costs as much again,
sends an idempotent request twice unasked, and knows cookies, redirects and headers of its own. Here one
request goes out once, byte for byte as it is, and its reply comes back as it was sent. Whatever fails
comes out as httpx's own errors, which say nothing of the request but where it went.
"""

from __future__ import annotations

import asyncio
import os
import re
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import aiohttp
import httpx
import yarl
from aiohttp.client_proto import ResponseHandler
from aiohttp.http import HttpProcessingError, StreamWriter

from turnout.engine.http.framing import Framing

if TYPE_CHECKING:
    from aiohttp.connector import Connection
    from aiohttp.http_parser import RawResponseMessage
    from aiohttp.tracing import Trace

HEAD: Final = 65_536
"""How long a line of a reply's head may be, in bytes: some policies in headers outgrow aiohttp's 8 KiB."""

AHEAD: Final = 65_536
"""With twice so many bytes of a body waiting to be read, no more is taken from the socket."""

PIECE: Final = 65_536
"""Bytes that are handed over at once: TLS takes all that it is given, and is held back only between."""

CONNECTING: Final = "connection.connect_tcp.started"
SENDING: Final = "http11.send_request_headers.started"
SENT: Final = "http11.send_request_body.complete"
ANSWERED: Final = "http11.receive_response_headers.complete"
"""What is told to a request's `trace` extension, by httpcore's names."""

Tell = Callable[[str, Mapping[str, Any]], Awaitable[None]]

SWITCHED: Final = 101
"""The one 1xx that ends a reply: what follows is no HTTP."""

_TELL: Final[ContextVar[Tell | None]] = ContextVar("tell")
"""Whom to tell of a connection being made: aiohttp hands on nothing of the caller's but its slow tracing."""

_UNBOUND: Final = aiohttp.ClientTimeout()
_SENDABLE: Final = re.compile(
    rb"[A-Z]+ [!-~]+ HTTP/1\.1\r\n([!#$%&'*+.^_`|~0-9A-Za-z-]+: [^\0\r\n]*\r\n)*\r\n"
)
"""The head of a request, of as many lines as were put into it."""

_FAILURES: Final = (aiohttp.ClientError, HttpProcessingError, OSError)


class AiohttpTransport(httpx.AsyncBaseTransport):
    """Carries requests over connections of aiohttp's; for the tasks of one event loop.

    The caller keeps every bound: nothing here times out. A request's `trace` extension is told when a
    connection is being made, when there is one, when the whole request has been handed to the system,
    and when the head of a reply is there. A request's body is read whole before it is sent.

    Args:
        ssl_context: what certificates are trusted, for `https`.
        keep: whether a connection whose reply was read to its end serves another request.
    """

    def __init__(self, ssl_context: ssl.SSLContext, *, keep: bool = True) -> None:
        self._ssl_context = ssl_context
        self._keep = keep
        self._connector: _Connector | None = None
        self._asking: dict[yarl.URL, aiohttp.ClientRequest] = {}
        self._flights: set[_Flight] = set()
        self._closed = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send it, and return as soon as the head of the reply is there.

        Raises:
            httpx.TransportError: it could not be sent, or what came is no reply.
            RuntimeError: the transport is closed.
        """
        address = _address(str(request.url))
        message = _message(request, address.target, await request.aread())
        flight = _Flight(request.extensions.get("trace"), self._flights)
        try:
            flight.connection = await self._connected(address.origin, flight.tell)
            return await flight.reply(message, bodiless=request.method == "HEAD")
        except _FAILURES as error:
            failure: Exception = error
            flight.cut()
        except BaseException:
            flight.cut()
            raise
        raise _told(failure, sent=flight.sent)

    async def aclose(self) -> None:
        """Close every connection, those in use as well: who waits for one is told that it broke."""
        self._closed = True
        for flight in tuple(self._flights):
            flight.cut()
        connector, self._connector = self._connector, None
        if connector is not None:
            await connector.close()

    async def _connected(self, origin: yarl.URL, tell: Tell | None) -> Connection:
        connector = self._connector or self._opened()
        if (asking := self._asking.get(origin)) is None:
            asking = self._asking[origin] = aiohttp.ClientRequest("GET", origin)
        token = _TELL.set(tell)
        try:
            connection = await connector.connect(asking, [], _UNBOUND)
            # a second reply to the request before would be taken for the reply to this one
            while _protocol(connection).should_close:
                connection.close()
                connection = await connector.connect(asking, [], _UNBOUND)
        finally:
            _TELL.reset(token)
        _protocol(connection).answered = False
        _protocol(connection).framing.over()
        if not self._keep:
            _protocol(connection).force_close()
        return connection

    def _opened(self) -> _Connector:
        if self._closed:
            raise RuntimeError("this transport is closed")
        self._connector = _Connector(self._ssl_context)
        return self._connector


class _Handler(ResponseHandler):
    """One connection.

    aiohttp's own leaves who reads a body waiting for ever if the body's framing breaks, and takes in whatever
    a server sends that nobody asked for.
    """

    answered = False
    """Whether the reply that was asked for has begun, or none was asked for: what else comes is nobody's."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.framing = Framing()

    def data_received(self, data: bytes) -> None:
        if data:
            self.framing.take(data)
        over = self.answered and (self._payload is None or self._payload.is_eof())
        if not over or not data:
            super().data_received(data)
            if not (self.answered and self._buffer):
                return
        self._should_close = True
        if self.transport is not None:
            self.transport.abort()

    def set_exception(self, exc: BaseException, exc_cause: BaseException | None = None) -> None:
        super().set_exception(exc, *(() if exc_cause is None else (exc_cause,)))
        content = self._payload
        if content is not None and not content.is_eof() and content.exception() is None:
            content.set_exception(exc)


class _Connector(aiohttp.TCPConnector):
    """Makes and keeps connections, and tells when it makes one."""

    def __init__(self, ssl_context: ssl.SSLContext) -> None:
        # names are resolved as httpx resolves them, whether or not a resolver of aiohttp's is installed
        super().__init__(ssl=ssl_context, limit=0, resolver=aiohttp.ThreadedResolver())
        self._factory = cast("partial[ResponseHandler]", partial(_Handler, loop=asyncio.get_running_loop()))
        self._swept = time.monotonic()

    async def _create_connection(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> ResponseHandler:
        if (tell := _TELL.get()) is not None:
            await tell(CONNECTING, {})
        protocol = await super()._create_connection(req, traces, timeout)
        # writing counts as paused until all is handed to the system: so it is known when that is so
        cast("asyncio.Transport", protocol.transport).set_write_buffer_limits(high=1, low=0)
        return protocol

    def _cleanup(self) -> None:
        """Close what has been idle for as long as a connection is kept, by the loop's time.

        aiohttp sets its timer by that and then goes by the system's: where the loop's is virtual, it would
        set the timer again for ever.
        """
        for kept in self._conns.values():
            for protocol, since in kept:
                if since <= self._swept:
                    protocol.close()
        self._swept = time.monotonic()
        super()._cleanup()


class _Flight(httpx.AsyncByteStream):
    """One request on its way, from the first step of its connection to the end of its reply's body."""

    def __init__(self, tell: Tell | None, flights: set[_Flight]) -> None:
        self.tell = tell
        self.sent = False
        self.connection: Connection | None = None
        self._head: RawResponseMessage | None = None
        self._content: aiohttp.StreamReader | None = None
        self._writer: asyncio.Task[None] | None = None
        self._flights = flights
        self._bodiless = False
        flights.add(self)

    async def reply(self, message: bytes, *, bodiless: bool) -> httpx.Response:
        """Send the message over the connection, and return once the head of the reply is there."""
        self._bodiless = bodiless
        protocol = _protocol(self.connection)
        if self.tell is not None:
            await self.tell(SENDING, {})
        protocol.set_response_params(
            skip_payload=bodiless,
            read_until_eof=True,
            auto_decompress=False,
            read_bufsize=AHEAD,
            max_line_size=HEAD,
            max_field_size=HEAD,
        )
        await self._send(protocol, _pieces(message))
        head, content = await protocol.read()
        while head.code < 200 and head.code != SWITCHED:
            head, content = await protocol.read()
        protocol.answered = True
        self._head, self._content = head, content
        if self.tell is not None:
            await self.tell(ANSWERED, {})
        return httpx.Response(head.code, headers=head.raw_headers, stream=self)

    async def _send(self, protocol: ResponseHandler, pieces: Iterator[memoryview]) -> None:
        """Hand over what is left of the message; if the connection breaks meanwhile, reading will tell."""
        for piece in pieces:
            if (transport := _writable(protocol)) is None:
                return
            transport.write(piece)
            if protocol.writing_paused:  # a reply may come before all of it is out
                self._writer = asyncio.create_task(self._send_on(protocol, pieces))
                return
        if _writable(protocol) is not None:
            await self._whole()

    async def _send_on(self, protocol: ResponseHandler, pieces: Iterator[memoryview]) -> None:
        try:
            await StreamWriter(protocol, asyncio.get_running_loop()).drain()
        except OSError:
            return
        await self._send(protocol, pieces)

    async def _whole(self) -> None:
        self.sent = True
        if self.tell is not None:
            await self.tell(SENT, {})

    async def __aiter__(self) -> AsyncIterator[bytes]:
        content = cast("aiohttp.StreamReader", self._content)
        failure: Exception | None = None
        while failure is None:
            try:
                part = await content.readany()
            except _FAILURES as error:
                failure, part = error, _rest(content)
            else:
                if not part:
                    failure = self._broken()
                    break
            if part:
                yield part
        if failure is not None:
            raise _told(failure, sent=True)

    async def aclose(self) -> None:
        """Give the connection back if the reply was read to its end, or close it."""
        head, content, connection = self._head, self._content, self.connection
        if head and content and connection and content.at_eof() and self.sent and self._is_clean(head):
            self._flights.discard(self)
            self.connection = None
            connection.release()
        else:
            self.cut()

    def _is_clean(self, head: RawResponseMessage) -> bool:
        """Whether its connection can carry another request."""
        bodiless = self._bodiless or head.code in (204, 304)
        framing = _protocol(self.connection).framing
        return head.code != SWITCHED and framing.is_clean(head.headers, bodiless=bodiless)

    def cut(self) -> None:
        """Close the connection at once, whatever waits to be sent or read."""
        self._flights.discard(self)
        connection, self.connection = self.connection, None
        if connection is None:
            return
        if self._writer is not None:
            self._writer.cancel()
        if self._content is not None:
            self._content.set_exception(aiohttp.ClientConnectionError("closed"))
        if connection.transport is not None:
            connection.transport.abort()
        connection.close()

    def _broken(self) -> Exception | None:
        """Why the connection broke, where its end is the body's end: aiohttp takes any end for that."""
        headers = cast("RawResponseMessage", self._head).headers
        if self.connection is None or "content-length" in headers or "transfer-encoding" in headers:
            return None
        error = _protocol(self.connection).exception()
        return error if isinstance(error, aiohttp.ClientOSError) else None


def _writable(protocol: ResponseHandler) -> asyncio.Transport | None:
    transport = protocol.transport
    return None if transport is None or transport.is_closing() else transport


def _pieces(message: bytes) -> Iterator[memoryview]:
    view = memoryview(message)
    return (view[at : at + PIECE] for at in range(0, len(view), PIECE))


def _protocol(connection: Connection | None) -> _Handler:
    return cast("_Handler", cast("Connection", connection).protocol)


def _rest(content: aiohttp.StreamReader) -> bytes:
    """What had arrived before the body broke."""
    content.set_exception(cast("Exception", None))
    return content.read_nowait()


class _Address(NamedTuple):
    origin: yarl.URL
    target: bytes


@lru_cache(maxsize=1024)
def _address(url: str) -> _Address:
    """Whom to connect to and what to ask there."""
    parsed = httpx.URL(url)
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise httpx.UnsupportedProtocol("The URL begins with neither http:// nor https:// and a host.")
    return _Address(yarl.URL(f"{parsed.scheme}://{parsed.netloc.decode('ascii')}"), parsed.raw_path)


def _message(request: httpx.Request, target: bytes, content: bytes) -> bytes:
    """The request as it goes over the wire."""
    lines = [b"%b %b HTTP/1.1\r\n" % (request.method.encode(), target)]
    lines += [b"%b: %b\r\n" % header for header in request.headers.raw]
    head = b"".join(lines) + b"\r\n"
    if _SENDABLE.fullmatch(head) is None or head.count(b"\n") != len(lines) + 1:
        raise httpx.LocalProtocolError("The request's method, URL or headers hold what HTTP does not allow.")
    if b"\ntransfer-encoding:" in head.lower():
        content = (b"%x\r\n%b\r\n" % (len(content), content) if content else b"") + b"0\r\n\r\n"
    return head + content


def _told(error: Exception, *, sent: bool) -> httpx.TransportError:
    """The same failure in httpx's words. aiohttp's may quote a URL or a header."""
    failure = _words(error, sent=sent)
    failure.__cause__ = _origin(error)
    return failure


def _words(error: Exception, *, sent: bool) -> httpx.TransportError:
    match error:
        case aiohttp.ClientConnectorError():
            return httpx.ConnectError(f"No connection{_why(error)}.")
        case aiohttp.ServerDisconnectedError(message=str()):
            return httpx.RemoteProtocolError("Server disconnected without sending a response.")
        case aiohttp.ServerDisconnectedError():
            return httpx.RemoteProtocolError("Server disconnected within the head of its response.")
        case HttpProcessingError():
            return httpx.RemoteProtocolError(f"The response is not valid HTTP{_why(error)}.")
        case aiohttp.ClientPayloadError():
            return httpx.RemoteProtocolError(f"The response's body is incomplete{_why(error)}.")
        case _ if sent:
            return httpx.ReadError(f"The connection broke before the response was complete{_why(error)}.")
        case _:
            return httpx.WriteError(f"The connection broke before the request was sent{_why(error)}.")


def _why(error: Exception) -> str:
    """What the system or TLS says; of what aiohttp's parser says, its class alone: it quotes what it read."""
    if (origin := _origin(error)) is not None:
        return f": {origin}"
    *others, last = _causes(error)
    return f" ({type(last).__name__})" if others else ""


def _origin(error: Exception) -> OSError | None:
    """The system's or TLS's own error behind one of aiohttp's."""
    for link in _causes(error):
        if isinstance(link, OSError):
            if not isinstance(link, aiohttp.ClientError):
                return link
            if link.errno is not None and link.__cause__ is None:
                return OSError(link.errno, os.strerror(link.errno))
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = error
    while link is not None:
        yield link
        link = link.__cause__
