"""What carries a request: the same over aiohttp as over httpx's own pool, on real sockets.

Where httpx's own differs, the test says so.
"""

import asyncio
import base64
import gc
import socket
import ssl
import struct
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
import httpx
import pytest
import trustme

from turnout import ConfigurationError
from turnout.engine.classify import transport_failure
from turnout.engine.http import Transports
from turnout.engine.http.over_aiohttp import ANSWERED, CONNECTING, SENDING, SENT, AiohttpTransport
from turnout.engine.http.over_httpx import PoolTransport

LIBRARIES = ("aiohttp", "httpx")
MEGABYTE = 1 << 20
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
RESET = struct.pack("ii", 1, 0)

PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "REQUEST_METHOD")


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


# -- what plays the server


class Line:
    """One connection, as the server has it."""

    def __init__(self, server: "Server", reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.server = server
        self.reader = reader
        self.writer = writer

    async def head(self) -> bytes:
        head = await self.reader.readuntil(b"\r\n\r\n")
        self.server.heads.append(head)
        return head

    async def request(self) -> bytes:
        """The next request's body."""
        head = (await self.head()).lower()
        if b"transfer-encoding: chunked" in head:
            body = b""
            while size := int(await self.reader.readline(), 16):
                body += await self.reader.readexactly(size)
                await self.reader.readline()
            await self.reader.readline()
            return body
        _, named, after = head.partition(b"content-length: ")
        return await self.reader.readexactly(int(after.partition(b"\r\n")[0]) if named else 0)

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def reset(self) -> None:
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.writer.transport.abort()

    async def gone(self) -> None:
        """Until the client has closed it, whatever it sends before."""
        with suppress(ConnectionError):
            while await self.reader.read(MEGABYTE):
                pass


Serve = Callable[[Line], Awaitable[None]]


class Server:
    """Serves every connection by the same function, and waits at its end until each is served."""

    def __init__(self, serve: Serve, context: ssl.SSLContext | None = None) -> None:
        self.heads: list[bytes] = []
        self.connections = 0
        self._serve = serve
        self._context = context
        self._serving: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, ssl=self._context)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.close()
        if error is not None:  # the story broke off: its clients may never close
            for task in self._serving:
                task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=error is not None)

    def url(self, path: str = "/v1/chat") -> str:
        return f"{'https' if self._context else 'http'}://127.0.0.1:{self.port}{path}"

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._serving.add(asyncio.create_task(self._served(Line(self, reader, writer))))

    async def _served(self, line: Line) -> None:
        try:
            await self._serve(line)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has gone
        finally:
            line.writer.close()
            with suppress(ConnectionError, ssl.SSLError):
                await line.writer.wait_closed()


def replying(*replies: bytes) -> Serve:
    """The same replies on every connection, one for each request, and the end once the client has gone."""

    async def serve(line: Line) -> None:
        for reply in replies:
            await line.request()
            line.send(reply)
        await line.gone()

    return serve


def closing(reply: bytes) -> Serve:
    """One reply, after which the server closes."""

    async def serve(line: Line) -> None:
        await line.request()
        line.send(reply)

    return serve


# -- what plays the client


def transport(library: str, *, keep: bool = True) -> httpx.AsyncBaseTransport:
    if library == "aiohttp":
        return AiohttpTransport(ssl.create_default_context(), keep=keep)
    return PoolTransport(
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=None if keep else 0)
    )


Story = Callable[[Server, httpx.AsyncBaseTransport], Awaitable[None]]


def play(
    library: str, serve: Serve, story: Story, *, keep: bool = True, context: ssl.SSLContext | None = None
) -> Server:
    """The server, after a story in which no task, no socket and no error was left behind."""
    unheard: list[Mapping[str, Any]] = []

    async def all_of_it() -> Server:
        asyncio.get_running_loop().set_exception_handler(lambda _, what: unheard.append(what))
        async with (
            asyncio.timeout(60),
            Server(serve, context) as server,
            transport(library, keep=keep) as carrier,
        ):
            await story(server, carrier)
        await turns()
        assert asyncio.all_tasks() == {asyncio.current_task()}, "a task was left behind"
        return server

    served = asyncio.run(all_of_it())
    gc.collect()  # what was left open warns now
    assert unheard == []
    return served


async def turns(count: int = 20) -> None:
    """Some turns of the loop, in which what is on its way arrives."""
    for _ in range(count):
        await asyncio.sleep(0)


def request(server: Server, path: str = "/v1/chat", **how: Any) -> httpx.Request:
    how = {"content": b"{}", **how}
    return httpx.Request(how.pop("method", "POST"), server.url(path), **how)


async def read(carrier: httpx.AsyncBaseTransport, asked: httpx.Request) -> tuple[int, bytes]:
    response = await carrier.handle_async_request(asked)
    try:
        return response.status_code, b"".join([part async for part in response.aiter_raw()])
    finally:
        await response.aclose()


async def hear(response: httpx.Response, heard: Callable[[bytes], None]) -> None:
    """Read a reply to its end, telling each part."""
    try:
        async for part in response.aiter_raw():
            heard(part)
    finally:
        await response.aclose()


def trace(told: list[str]) -> dict[str, Any]:
    """A request's extensions that keep what it tells of the four moments that matter."""

    async def tell(event: str, info: Mapping[str, Any]) -> None:
        if event in (CONNECTING, SENDING, SENT, ANSWERED):
            told.append(event)

    return {"trace": tell, "timeout": {}}


# -- what goes out and what comes back


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_request_goes_out_as_it_is_and_nothing_is_added(library: str) -> None:
    asked = httpx.Request("GET", "http://unset")

    async def story(server: Server, carrier: httpx.AsyncBaseTransport) -> None:
        nonlocal asked
        asked = request(
            server, "/v1/chat%2Fx?key=a%20b&b=%C3%A9", headers={"X-Team": "birds", "accept": "a/b"}
        )
        assert await read(carrier, asked) == (200, b"{}")

    server = play(library, replying(OK), story)
    first, *headers = server.heads[0].removesuffix(b"\r\n\r\n").split(b"\r\n")
    assert first == b"POST /v1/chat%2Fx?key=a%20b&b=%C3%A9 HTTP/1.1"
    assert sorted(headers) == sorted(b"%b: %b" % header for header in asked.headers.raw)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_reply_comes_back_as_it_was_sent(library: str) -> None:
    reply = (
        b"HTTP/1.1 429 Slow Down\r\nX-Limit: 1\r\nx-limit: 2\r\ncontent-encoding: gzip\r\n"
        b"content-length: 5\r\n\r\n\x1f\x8bnot"
    )

    async def story(server: Server, carrier: httpx.AsyncBaseTransport) -> None:
        response = await carrier.handle_async_request(request(server))
        assert response.status_code == 429
        assert response.headers.get_list("x-limit") == ["1", "2"]
        assert [part async for part in response.aiter_raw()] == [b"\x1f\x8bnot"]

    play(library, replying(reply), story)


@pytest.mark.parametrize("library", LIBRARIES)
def test_parts_of_a_body_are_there_as_they_arrive(library: str) -> None:
    heard = asyncio.Event()

    async def serve(line: Line) -> None:
        await line.request()
        line.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n")
        await heard.wait()
        line.send(b"3\r\ntwo\r\n0\r\n\r\n")
        await line.gone()

    async def story(server: Server, carrier: httpx.AsyncBaseTransport) -> None:
        parts = []
        response = await carrier.handle_async_request(request(server))
        async for part in response.aiter_raw():
            parts.append(part)
            heard.set()
        assert parts == [b"one", b"two"]

    play(library, serve, story)


REPLIES = {
    "with a length": (OK, b"{}"),
    "that ends with the connection": (b"HTTP/1.1 200 OK\r\n\r\n{}", b"{}"),
    "after two that only inform": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n" + OK,
        b"{}",
    ),
    "with a header of 30 KB": (OK.replace(b"OK\r\n", b"OK\r\nx: %b\r\n" % (b"a" * 30_000)), b"{}"),
    "of HTTP/1.0": (OK.replace(b"1.1", b"1.0"), b"{}"),
    "with an empty body": (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", b""),
}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("case", REPLIES)
def test_a_reply_is_read(library: str, case: str) -> None:
    reply, body = REPLIES[case]

    async def story(server: Server, carrier: httpx.AsyncBaseTransport) -> None:
        assert await read(carrier, request(server)) == (200, body)

    play(library, closing(reply), story)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_redirect_is_an_answer_and_a_cookie_stays_where_it_was(library: str) -> None:
    moved = (
        b"HTTP/1.1 307 Moved\r\nlocation: /elsewhere\r\nset-cookie: session=s3cret; Path=/\r\n"
        b"content-length: 0\r\n\r\n"
    )

    async def story(server: Server, carrier: httpx.AsyncBaseTransport) -> None:
        for _ in range(2):
            assert await read(carrier, request(server)) == (307, b"")

    server = play(library, replying(moved, moved), story)
    assert len(server.heads) == 2
    assert b"cookie" not in server.heads[1].lower()


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_reply_to_head_has_a_length_and_no_body(library: str) -> None:
    async def story(server: Server, carrier: httpx.AsyncBaseTransport) -> None:
        for _ in range(2):
            asked = request(server, method="HEAD", content=None)
            assert await read(carrier, asked) == (200, b"")

    head = OK.removesuffix(b"{}")
    assert play(library, replying(head, head), story).connections == 1


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_body_without_a_known_length_is_sent(library: str) -> None:
    received: list[bytes] = []

    async def parts() -> AsyncIterator[bytes]:
        yield b'{"a":'
        yield b"1}"

    async def serve(line: Line) -> None:
        received.append(await line.request())
        line.send(OK)
        await line.gone()

    async def story(server: Server, carrier: httpx.AsyncBaseTransport) -> None:
        assert await read(carrier, request(server, content=parts())) == (200, b"{}")

    play(library, serve, story)
    assert received == [b'{"a":1}']


def test_a_switch_of_protocols_is_left_to_the_caller() -> None:
    """httpx's own takes it for a breach of the protocol."""
    switch = b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: other\r\n\r\nother"

    async def story(server: Server, carrier: httpx.AsyncBaseTransport) -> None:
        assert await read(carrier, request(server)) == (101, b"")
        assert await read(carrier, request(server)) == (101, b"")

    assert play("aiohttp", replying(switch), story).connections == 2

    async def refused(server: Server, carrier: httpx.AsyncBaseTransport) -> None:
        with pytest.raises(httpx.RemoteProtocolError):
            await read(carrier, request(server))

    play("httpx", replying(switch), refused)


def test_a_switch_that_names_no_protocol_is_not_followed_by_another_request() -> None:
    async def story(server: Server, carrier: httpx.AsyncBaseTransport) -> None:
        for _ in range(2):
            assert await read(carrier, request(server)) == (101, b"")

    assert play("aiohttp", replying(b"HTTP/1.1 101 Switching\r\n\r\n"), story).connections == 2


# -- connections


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_connection_whose_reply_was_read_serves_the_next_request(library: str) -> None:
    async def story(server: Server, carrier: httpx.AsyncBaseTransport) -> None:
        for _ in range(3):
            assert await read(carrier, request(server)) == (200, b"{}")

    assert play(library, replying(OK, OK, OK), story).connections == 1


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_fresh_connection_is_closed_after_its_reply(library: str) -> None:
    async def story(server: Server, carrier: httpx.AsyncBaseTransport) -> None:
        for _ in range(2):
            assert await read(carrier, request(server)) == (200, b"{}")

    server = play(library, replying(OK), story, keep=False)
    assert server.connections == 2
    assert b"connection" not in server.heads[0].lower().replace(b"connection: keep-alive", b"")


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_body_that_is_given_up_closes_its_connection_at_once(library: str) -> None:
    gone = asyncio.Event()

    async def serve(line: Line) -> None:
        await line.request()
        line.send(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nthe beginning")
        await line.gone()
        gone.set()

    async def story(server: Server, carrier: httpx.AsyncBaseTransport) -> None:
        response = await carrier.handle_async_request(request(server))
        async for part in response.aiter_raw():
            assert part == b"the beginning"
            break
        await response.aclose()
        await gone.wait()

    play(library, serve, story)


@pytest.mark.parametrize("library", LIBRARIES)
def test_an_unread_body_is_not_taken_in_without_bound(library: str) -> None:
    lines: list[Line] = []

    async def serve(line: Line) -> None:
        lines.append(line)
        await line.request()
        line.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % (48 * MEGABYTE) + bytes(48 * MEGABYTE))
        await line.gone()

    async def story(server: Server, carrier: httpx.AsyncBaseTransport) -> None:
        response = await carrier.handle_async_request(request(server))
        await turns(2000)
        assert lines[0].writer.transport.get_write_buffer_size() > 24 * MEGABYTE
        await response.aclose()

    play(library, serve, story)


UNASKED = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 4\r\n\r\nlate"


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("unasked", [UNASKED, UNASKED * 3, UNASKED[:20], b"\r\n"], ids=len)
def test_a_reply_that_nobody_asked_for_is_nobodys_reply(library: str, late: bool, unasked: bytes) -> None:
    """It comes while the connection idles, or with the first: which httpcore would take for the next."""
    read_first = asyncio.Event()

    async def serve(line: Line) -> None:
        await line.request()
        line.send(OK if late else OK + unasked)
        if late:
            await read_first.wait()
            line.send(unasked)
        await line.gone()

    async def story(server: Server, carrier: httpx.AsyncBaseTransport) -> None:
        assert await read(carrier, request(server)) == (200, b"{}")
        read_first.set()
        await turns()
        assert await read(carrier, request(server)) == (200, b"{}")

    assert play(library, serve, story).connections == 2


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_kept_connection_that_the_server_closed_is_not_used(library: str) -> None:
    async def story(server: Server, carrier: httpx.AsyncBaseTransport) -> None:
        for _ in range(2):
            assert await read(carrier, request(server)) == (200, b"{}")
            await turns()

    assert play(library, closing(OK), story).connections == 2


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_request_is_sent_once_even_if_its_kept_connection_breaks(library: str, method: str) -> None:
    async def serve(line: Line) -> None:
        await line.request()
        line.send(OK)
        await line.request()

    async def story(server: Server, carrier: httpx.AsyncBaseTransport) -> None:
        assert await read(carrier, request(server)) == (200, b"{}")
        with pytest.raises(httpx.RemoteProtocolError, match="without sending a response"):
            await read(carrier, request(server, method=method))

    assert len(play(library, serve, story).heads) == 2


# -- what a request tells while it is made


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_request_tells_of_its_connection_its_sending_and_its_reply(library: str, method: str) -> None:
    told: list[list[str]] = [[], []]

    async def story(server: Server, carrier: httpx.AsyncBaseTransport) -> None:
        for each in told:
            content = b"{}" if method == "POST" else None
            await read(carrier, request(server, method=method, content=content, extensions=trace(each)))

    play(library, replying(OK, OK), story)
    assert told == [[CONNECTING, SENDING, SENT, ANSWERED], [SENDING, SENT, ANSWERED]]


def a_long_request(told: list[str]) -> tuple[Serve, Story]:
    """A server that reads a request when it likes, and who asks it: not all is sent before that."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def serve(line: Line) -> None:
        await line.head()
        begun.set()
        await go_on.wait()
        await line.reader.readexactly(32 * MEGABYTE)
        line.send(OK)
        await line.gone()

    async def story(server: Server, carrier: httpx.AsyncBaseTransport) -> None:
        asked = request(server, content=bytes(32 * MEGABYTE), extensions=trace(told))
        asking = asyncio.create_task(read(carrier, asked))
        await begun.wait()
        await turns(2000)
        assert told == [CONNECTING, SENDING]
        go_on.set()
        assert await asking == (200, b"{}")

    return serve, story


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_long_request_is_sent_only_when_all_of_it_has_gone_out(library: str) -> None:
    told: list[str] = []
    play(library, *a_long_request(told))
    assert told == [CONNECTING, SENDING, SENT, ANSWERED]


def test_a_reply_before_the_request_is_all_out_is_read_and_ends_the_sending() -> None:
    """httpx's own reads no reply before it has sent everything."""
    told: list[str] = []

    async def serve(line: Line) -> None:
        await line.head()
        line.send(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno")
        await line.gone()

    async def story(server: Server, carrier: httpx.AsyncBaseTransport) -> None:
        asked = request(server, content=bytes(32 * MEGABYTE), extensions=trace(told))
        response = await carrier.handle_async_request(asked)
        assert response.status_code == 413
        assert told == [CONNECTING, SENDING, ANSWERED]
        assert [part async for part in response.aiter_raw()] == [b"no"]

    play("aiohttp", serve, story)
    assert told == [CONNECTING, SENDING, ANSWERED]


@pytest.mark.parametrize("library", LIBRARIES)
def test_what_is_told_may_end_the_request(library: str) -> None:
    """A bound that passes while something is told, say: the connection is not left open."""

    class Enough(Exception):
        pass

    async def story(server: Server, carrier: httpx.AsyncBaseTransport) -> None:
        for last in (CONNECTING, SENDING, SENT, ANSWERED):

            async def tell(event: str, info: Mapping[str, Any], last: str = last) -> None:
                if event == last:
                    raise Enough

            with pytest.raises(Enough):
                await read(carrier, request(server, extensions={"trace": tell, "timeout": {}}))

    play(library, replying(OK), story)


# -- failures


def cut(reply: bytes) -> Serve:
    """The reply, and a reset once it has arrived: by then the client waits for more."""

    async def serve(line: Line) -> None:
        await line.request()
        line.send(reply)
        await turns()
        line.reset()

    return serve


LENGTH = b"HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
FAILURES: dict[str, tuple[Serve, type[httpx.TransportError], str]] = {
    "closed before a byte": (
        closing(b""),
        httpx.RemoteProtocolError,
        "Server disconnected without sending a response.",
    ),
    "reset before a byte": (cut(b""), httpx.ReadError, ""),
    "closed within the first line": (closing(b"HTT"), httpx.RemoteProtocolError, "within the head"),
    "closed within the head": (
        closing(b"HTTP/1.1 200 OK\r\nset-cookie: s3cret"),
        httpx.RemoteProtocolError,
        "within the head",
    ),
    "no HTTP": (closing(b"s3cret\r\n\r\n"), httpx.RemoteProtocolError, "not valid HTTP"),
    "a header without a colon": (
        closing(b"HTTP/1.1 200 OK\r\ns3cret\r\ncontent-length: 0\r\n\r\n"),
        httpx.RemoteProtocolError,
        "not valid HTTP",
    ),
    "a head without end": (
        closing(b"HTTP/1.1 200 OK\r\nx-s3cret: " + b"a" * 300_000),
        httpx.RemoteProtocolError,
        "not valid HTTP (LineTooLong)",
    ),
    "a length that is no number": (
        closing(b"HTTP/1.1 200 OK\r\ncontent-length: s3cret\r\n\r\n{}"),
        httpx.RemoteProtocolError,
        "not valid HTTP",
    ),
    "two lengths": (
        closing(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}"),
        httpx.RemoteProtocolError,
        "not valid HTTP",
    ),
    "a chunk of no size": (closing(CHUNKED + b"s3cret\r\n"), httpx.RemoteProtocolError, "not valid HTTP"),
    "a body shorter than its length": (closing(LENGTH + b"{}"), httpx.RemoteProtocolError, "incomplete"),
    "a body without its last chunk": (
        closing(CHUNKED + b"2\r\n{}\r\n"),
        httpx.RemoteProtocolError,
        "incomplete",
    ),
    "a body that is reset, where its end is the connection's": (
        cut(b"HTTP/1.1 200 OK\r\n\r\n{}"),
        httpx.ReadError,
        "",
    ),
}
QUERY = "/v1/chat?key=s3cret"


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("case", FAILURES)
def test_a_failure_is_told_in_httpx_words_and_read_as_a_broken_connection(library: str, case: str) -> None:
    """httpx's own knows no reply that was cut within its head, has words of its own, and quotes the reply."""
    serve, kind, words = FAILURES[case]

    async def story(server: Server, carrier: httpx.AsyncBaseTransport) -> None:
        asked = request(server, QUERY, headers={"authorization": "Bearer s3cret"})
        with pytest.raises(httpx.TransportError) as caught:
            await read(carrier, asked)
        assert type(caught.value) is kind
        verdict = transport_failure(caught.value)
        assert verdict is not None
        assert verdict.retryable
        assert not verdict.timed_out
        if library == "aiohttp":
            assert words in str(caught.value)
            assert_says_nothing(caught.value)

    play(library, serve, story)


def assert_says_nothing(error: BaseException | None) -> None:
    """No secret, and nothing of aiohttp's own."""
    while error is not None:
        assert "s3cret" not in repr(error)
        assert not type(error).__module__.startswith("aiohttp")
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize("library", LIBRARIES)
def test_what_came_before_a_body_broke_is_there(library: str) -> None:
    """As one packet: all of it is there before anything of it is read."""
    heard: list[bytes] = []

    async def story(server: Server, carrier: httpx.AsyncBaseTransport) -> None:
        response = await carrier.handle_async_request(request(server))
        await turns()
        with pytest.raises(httpx.RemoteProtocolError, match="incomplete"):
            await hear(response, heard.append)
        assert heard == [b"{}"]

    play(library, closing(CHUNKED + b"2\r\n{}\r\n"), story)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_body_that_turns_into_nonsense_is_broken_and_not_waited_for(library: str) -> None:
    heard = asyncio.Event()

    async def serve(line: Line) -> None:
        await line.request()
        line.send(CHUNKED + b"2\r\n{}\r\n")
        await heard.wait()
        line.send(b"s3cret\r\n")
        await line.gone()

    async def story(server: Server, carrier: httpx.AsyncBaseTransport) -> None:
        response = await carrier.handle_async_request(request(server))
        with pytest.raises(httpx.RemoteProtocolError) as caught:
            await hear(response, lambda _: heard.set())
        if library == "aiohttp":
            assert_says_nothing(caught.value)

    play(library, serve, story)


def test_a_connection_that_breaks_while_the_request_goes_out_is_a_failure_to_write() -> None:
    """httpx's own goes on to read, and fails at that."""

    async def serve(line: Line) -> None:
        await line.head()
        line.reset()

    async def story(server: Server, carrier: httpx.AsyncBaseTransport) -> None:
        with pytest.raises(httpx.WriteError) as caught:
            await read(carrier, request(server, QUERY, content=bytes(32 * MEGABYTE)))
        assert_says_nothing(caught.value)
        assert transport_failure(caught.value) is not None

    play("aiohttp", serve, story)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_port_where_nobody_listens_refuses(library: str) -> None:
    async def story(server: Server, carrier: httpx.AsyncBaseTransport) -> None:
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))
            where = f"http://127.0.0.1:{nobody.getsockname()[1]}{QUERY}"
            with pytest.raises(httpx.ConnectError) as caught:
                await read(carrier, httpx.Request("POST", where))
        assert_is_no_connection(library, caught.value)

    play(library, replying(), story)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_name_that_nobody_knows_is_no_connection(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async def story(server: Server, carrier: httpx.AsyncBaseTransport) -> None:
        monkeypatch.setattr(socket, "getaddrinfo", unknown)
        with pytest.raises(httpx.ConnectError, match="Name or service not known") as caught:
            await read(carrier, httpx.Request("POST", f"http://nobody.example{QUERY}"))
        assert_is_no_connection(library, caught.value)

    play(library, replying(), story)


def assert_is_no_connection(library: str, error: BaseException) -> None:
    verdict = transport_failure(error)
    assert verdict is not None
    assert not verdict.timed_out
    if library == "aiohttp":
        assert_says_nothing(error)


UNSENDABLE: dict[str, dict[str, Any]] = {
    "a header that begins another": {"headers": [(b"x-a", b"1\r\nx-s3cret: 2")]},
    "a name of a header with a blank": {"headers": [(b"x s3cret", b"1")]},
}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("case", UNSENDABLE)
def test_a_request_that_http_does_not_allow_is_not_sent(library: str, case: str) -> None:
    async def story(server: Server, carrier: httpx.AsyncBaseTransport) -> None:
        with pytest.raises(httpx.LocalProtocolError) as caught:
            await read(carrier, request(server, **UNSENDABLE[case]))
        if library == "aiohttp":
            assert_says_nothing(caught.value)

    assert play(library, replying(), story).heads == []


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_url_that_is_not_http_is_not_asked(library: str) -> None:
    async def story(server: Server, carrier: httpx.AsyncBaseTransport) -> None:
        with pytest.raises(httpx.UnsupportedProtocol):
            await read(carrier, httpx.Request("POST", "ftp://127.0.0.1/x"))

    play(library, replying(), story)


# -- being given up


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("when", ["sending", "waiting", "reading"])
def test_a_caller_who_goes_closes_the_connection_at_once(library: str, when: str) -> None:
    reached, gone = asyncio.Event(), asyncio.Event()

    async def serve(line: Line) -> None:
        await line.head()
        if when == "reading":
            line.send(LENGTH + b"{}")
        if when != "reading":
            reached.set()
        await line.gone()
        gone.set()

    async def story(server: Server, carrier: httpx.AsyncBaseTransport) -> None:
        async def asking() -> None:
            content = bytes(32 * MEGABYTE) if when == "sending" else b"{}"
            response = await carrier.handle_async_request(request(server, content=content))
            await hear(response, lambda _: reached.set())

        asked = asyncio.create_task(asking())
        await reached.wait()
        await turns()
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        await gone.wait()

    play(library, serve, story)


@pytest.mark.parametrize("when", ["sending", "waiting", "reading"])
def test_closing_the_transport_breaks_what_is_on_its_way(when: str) -> None:
    """httpx's own closes only the connections."""
    reached = asyncio.Event()

    async def serve(line: Line) -> None:
        await line.head()
        if when == "reading":
            line.send(LENGTH + b"{}")
        else:
            reached.set()
        await line.gone()

    async def story(server: Server, carrier: httpx.AsyncBaseTransport) -> None:
        async def asking() -> None:
            content = bytes(32 * MEGABYTE) if when == "sending" else b"{}"
            response = await carrier.handle_async_request(request(server, content=content))
            await hear(response, lambda _: reached.set())

        asked = asyncio.create_task(asking())
        await reached.wait()
        await turns()
        await carrier.aclose()
        with pytest.raises(httpx.TransportError):
            await asked

    play("aiohttp", serve, story)


def test_a_closed_transport_carries_nothing_more() -> None:
    async def story(server: Server, carrier: httpx.AsyncBaseTransport) -> None:
        await carrier.aclose()
        with pytest.raises(RuntimeError, match="closed"):
            await read(carrier, request(server))

    play("aiohttp", replying(), story)


# -- which transport carries a request


def carried(library: Any, url: str = "http://127.0.0.1", *, fresh: bool = False) -> httpx.AsyncBaseTransport:
    return Transports(library).of(httpx.URL(url), ca_file=None, fresh=fresh)


def test_aiohttp_carries_requests_where_it_is_installed() -> None:
    assert isinstance(carried(None), AiohttpTransport)
    assert isinstance(carried("aiohttp"), AiohttpTransport)
    assert isinstance(carried("httpx"), httpx.AsyncHTTPTransport)


def missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)


def outdated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aiohttp, "__version__", "3.11.18")


def next_major(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aiohttp, "__version__", "4.0.0a2.dev0")


@pytest.mark.parametrize("state", [missing, outdated, next_major])
def test_where_aiohttp_cannot_be_used_httpx_carries_unless_aiohttp_is_asked_for(
    state: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    state(monkeypatch)
    assert isinstance(carried(None), httpx.AsyncHTTPTransport)
    with pytest.raises(ConfigurationError, match=r"pip install 'turnout\[aiohttp\]'"):
        Transports("aiohttp")


@pytest.mark.parametrize("library", LIBRARIES)
def test_there_is_one_transport_for_kept_connections_and_one_for_fresh(library: Any) -> None:
    transports = Transports(library)
    a, b = httpx.URL("http://a.example/v1"), httpx.URL("https://b.example")
    kept = transports.of(a, ca_file=None, fresh=False)
    fresh = transports.of(a, ca_file=None, fresh=True)
    assert transports.of(b, ca_file=None, fresh=False) is kept
    assert transports.of(b, ca_file=None, fresh=True) is fresh
    assert kept is not fresh


# -- certificates


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def ca_file(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("ca") / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return str(path)


def server_context(authority: trustme.CA, name: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    return context


def play_chosen(
    library: Any, ca_file: str | None, story: Story, serve: Serve, *, context: ssl.SSLContext | None = None
) -> Server:
    """A story over what `Transports` chooses."""

    async def chosen(server: Server, _: httpx.AsyncBaseTransport) -> None:
        transports = Transports(library)
        try:
            await story(server, transports.of(httpx.URL(server.url()), ca_file=ca_file, fresh=False))
        finally:
            await transports.aclose()

    return play(library, serve, chosen, context=context)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_server_whose_certificate_the_file_vouches_for_is_asked(
    library: str, authority: trustme.CA, ca_file: str
) -> None:
    told: list[str] = []

    async def story(server: Server, carrier: httpx.AsyncBaseTransport) -> None:
        for _ in range(2):
            assert await read(carrier, request(server, extensions=trace(told))) == (200, b"{}")

    context = server_context(authority, "127.0.0.1")
    assert play_chosen(library, ca_file, story, replying(OK, OK), context=context).connections == 1
    assert told == [CONNECTING, SENDING, SENT, ANSWERED, SENDING, SENT, ANSWERED]


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_long_request_over_tls_is_sent_only_when_all_of_it_has_gone_out(
    library: str, authority: trustme.CA, ca_file: str
) -> None:
    told: list[str] = []
    serve, story = a_long_request(told)
    play_chosen(library, ca_file, story, serve, context=server_context(authority, "127.0.0.1"))
    assert told == [CONNECTING, SENDING, SENT, ANSWERED]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("trusting", [True, False], ids=["of another name", "that nothing vouches for"])
def test_a_certificate_is_refused(library: str, trusting: bool, authority: trustme.CA, ca_file: str) -> None:
    async def story(server: Server, carrier: httpx.AsyncBaseTransport) -> None:
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED") as caught:
            await read(carrier, request(server, QUERY))
        assert_is_no_connection(library, caught.value)

    context = server_context(authority, "elsewhere.example" if trusting else "127.0.0.1")
    play_chosen(library, ca_file if trusting else None, story, replying(), context=context)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_server_that_does_not_speak_tls_is_no_connection(library: str) -> None:
    async def serve(line: Line) -> None:
        await line.reader.read(1)
        line.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await line.gone()

    async def story(server: Server, carrier: httpx.AsyncBaseTransport) -> None:
        with pytest.raises(httpx.ConnectError) as caught:
            await read(carrier, httpx.Request("POST", f"https://127.0.0.1:{server.port}{QUERY}"))
        assert_is_no_connection(library, caught.value)

    play(library, serve, story)


def test_a_file_is_read_once_and_the_usual_certificates_are_not_those_of_a_file(ca_file: str) -> None:
    transports = Transports()
    url = httpx.URL("https://a.example")
    by_file = transports.of(url, ca_file=ca_file, fresh=False)
    assert transports.of(url, ca_file=ca_file, fresh=False) is by_file
    assert transports.of(url, ca_file=None, fresh=False) is not by_file


@pytest.mark.parametrize("content", [None, "", "no certificate"], ids=["missing", "empty", "something else"])
def test_a_file_without_certificates_is_named(content: str | None, tmp_path: Path) -> None:
    path = tmp_path / "trusted.pem"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigurationError, match=r"trusted\.pem"):
        Transports().of(httpx.URL("https://a.example"), ca_file=str(path), fresh=False)


def test_certificates_of_the_environment_that_cannot_be_read_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/certificates.pem")
    with pytest.raises(ConfigurationError, match="SSL_CERT_FILE"):
        Transports()


# -- proxies

ENVIRONMENTS: dict[str, dict[str, str]] = {
    "none": {},
    "http": {"HTTP_PROXY": "http://p.example:1"},
    "lower case": {"https_proxy": "http://p.example:1"},
    "without a scheme": {"HTTPS_PROXY": "p.example:1"},
    "all": {"ALL_PROXY": "http://p.example:1"},
    "one for each": {"HTTP_PROXY": "http://p.example:1", "HTTPS_PROXY": "http://q.example:2"},
    "all but": {"ALL_PROXY": "http://p.example:1", "HTTPS_PROXY": "http://q.example:2"},
    **{
        f"no {exempt}": {"ALL_PROXY": "http://p.example:1", "NO_PROXY": exempt}
        for exempt in (
            "*",
            "a.example",
            ".a.example",
            "*.a.example",
            "b.a.example, c.example",
            "A.Example",
            "example",
            "a.example:8080",
            "127.0.0.1",
            "127.0.0.0/8",
            "::1",
            "localhost",
            "LOCALHOST",
            "https://a.example",
            "http://",
            "all://a.example:8080",
            ",,",
            "a.example,*",
        )
    },
}
URLS = [
    f"{scheme}://{host}{port}/v1"
    for scheme in ("http", "https")
    for host in ("a.example", "b.a.example", "xa.example", "c.example", "localhost", "127.0.0.1", "[::1]")
    for port in ("", ":8080")
]


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_a_url_is_asked_through_the_proxy_that_httpx_would_take(
    environment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ENVIRONMENTS[environment].items():
        monkeypatch.setenv(name, value)
    client = httpx.AsyncClient()
    transports = Transports()
    ours = {url: transports.of(httpx.URL(url), ca_file=None, fresh=False) for url in URLS}
    theirs = {url: client._transport_for_url(httpx.URL(url)) for url in URLS}
    for url in URLS:
        assert isinstance(ours[url], AiohttpTransport) is (theirs[url] is client._transport), url
    proxied = [url for url in URLS if not isinstance(ours[url], AiohttpTransport)]
    assert {url: proxy_of(ours[url]) for url in proxied} == {url: proxy_of(theirs[url]) for url in proxied}


def proxy_of(transport: Any) -> object:
    return transport._pool._proxy_url


class Proxy:
    """Passes on what it is asked for, whether by a whole URL or through a tunnel."""

    def __init__(self, *, refuse: bytes = b"") -> None:
        self.asked: list[bytes] = []
        self._refuse = refuse

    async def __call__(self, line: Line) -> None:
        head = await line.head()
        self.asked.append(head.split(b"\r\n")[0])
        if self._refuse:
            line.send(self._refuse)
            return
        method, where, _ = self.asked[-1].split(b" ")
        tunnel = method == b"CONNECT"
        host, port = where.rsplit(b":", 1) if tunnel else where.split(b"/")[2].split(b":")
        reader, writer = await asyncio.open_connection(host.decode(), int(port))
        if tunnel:
            line.send(b"HTTP/1.1 200 Connection Established\r\n\r\n")
        else:
            writer.write(head)
        await asyncio.gather(self._pass(line.reader, writer), self._pass(reader, line.writer))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while part := await reader.read(65_536):
                writer.write(part)
        writer.close()


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("tls", [False, True], ids=["http", "https"])
def test_a_request_goes_through_a_proxy(
    library: Any, tls: bool, authority: trustme.CA, ca_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy, told = Proxy(), list[str]()
    context = server_context(authority, "127.0.0.1") if tls else None

    async def story(server: Server, _: httpx.AsyncBaseTransport) -> None:
        async with Server(proxy) as between:
            monkeypatch.setenv("HTTP_PROXY", f"http://user:s3cret@127.0.0.1:{between.port}")
            monkeypatch.setenv("HTTPS_PROXY", f"http://user:s3cret@127.0.0.1:{between.port}")
            transports = Transports(library)
            carrier = transports.of(httpx.URL(server.url()), ca_file=ca_file, fresh=False)
            assert await read(carrier, request(server, extensions=trace(told))) == (200, b"{}")
            assert b"Proxy-Authorization: Basic " + base64.b64encode(b"user:s3cret") in between.heads[0]
            where = f"127.0.0.1:{server.port}"
            assert proxy.asked == [
                f"CONNECT {where} HTTP/1.1".encode()
                if tls
                else f"POST http://{where}/v1/chat HTTP/1.1".encode()
            ]
            await transports.aclose()

    play(library, replying(OK), story, context=context)
    assert told == [CONNECTING, SENDING, SENT, ANSWERED]


@pytest.mark.parametrize("fresh", [False, True], ids=["kept", "fresh"])
@pytest.mark.parametrize("tls", [False, True], ids=["http", "https"])
def test_a_connection_through_a_proxy_is_kept_unless_a_fresh_one_is_asked_for(
    tls: bool, fresh: bool, authority: trustme.CA, ca_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(server: Server, direct: httpx.AsyncBaseTransport) -> None:
        async with Server(Proxy()) as between:
            monkeypatch.setenv("ALL_PROXY", f"http://127.0.0.1:{between.port}")
            transports = Transports()
            carrier = transports.of(httpx.URL(server.url()), ca_file=ca_file, fresh=fresh)
            for _ in range(2):
                assert await read(carrier, request(server)) == (200, b"{}")
            await transports.aclose()
        assert between.connections == server.connections == (2 if fresh else 1)

    context = server_context(authority, "127.0.0.1") if tls else None
    play("httpx", replying(OK, OK), story, context=context)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_tunnel_that_is_refused_tells_neither_of_a_request_nor_of_the_password(
    library: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = Proxy(refuse=b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")
    told: list[str] = []

    async def story(server: Server, _: httpx.AsyncBaseTransport) -> None:
        async with Server(proxy) as between:
            monkeypatch.setenv("HTTPS_PROXY", f"http://user:s3cret@127.0.0.1:{between.port}")
            transports = Transports(library)
            where = httpx.URL(f"https://127.0.0.1:{server.port}{QUERY}")
            carrier = transports.of(where, ca_file=None, fresh=False)
            with pytest.raises(httpx.ProxyError, match="407") as caught:
                await read(carrier, httpx.Request("POST", where, content=b"{}", extensions=trace(told)))
            assert "s3cret" not in repr(caught.value) + repr(transports) + repr(carrier)
            assert transport_failure(caught.value) is not None
            await transports.aclose()

    play(library, replying(), story)
    assert told == [CONNECTING]


@pytest.mark.parametrize("proxy", ["ftp://user:s3cret@p.example", "http://user:s3cret@p.example:port"])
def test_a_proxy_that_cannot_be_used_is_refused_without_its_password(
    proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    with pytest.raises(ConfigurationError, match="HTTPS_PROXY") as caught:
        Transports()
    assert "s3cret" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_a_socks_proxy_needs_a_package_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "socksio", None)
    monkeypatch.setenv("ALL_PROXY", "socks5://user:s3cret@p.example:1")
    with pytest.raises(ConfigurationError, match=r"httpx\[socks\]") as caught:
        carried(None)
    assert "s3cret" not in str(caught.value)


def test_a_name_in_no_proxy_that_is_no_host_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "a.example:port")
    with pytest.raises(ConfigurationError, match=r"a\.example:port"):
        Transports()
