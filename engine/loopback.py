"""HTTP upstreams of your own on 127.0.0.1: real sockets, and a count of what really arrived.

    async with LoopbackUpstream(answer) as upstream:
        target = Target("small", base_url=upstream.base_url)
        ...
    assert len(upstream.requests) == 1

They run on the event loop that opened them, keep connections alive and close all of them when they end.
"""

from __future__ import annotations

import asyncio
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, Self

import msgspec
from msgspec import Struct

Answer = Callable[[Mapping[str, Any]], tuple[int, Mapping[str, Any]]]
"""From a request's JSON body to the HTTP status and JSON body of the reply."""

HOST: Final = "127.0.0.1"
END_OF_HEAD: Final = b"\r\n\r\n"


class Received(Struct, frozen=True):
    """One request that arrived whole."""

    method: str
    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: Mapping[str, Any]

    @property
    def last(self) -> bool:
        """Whether the client wants no other reply on this connection."""
        return self.headers.get("connection", "").lower() == "close"


class LoopbackServer(ABC):
    """Serves connections on a port of its own, one exchange of each after the other."""

    def __init__(self) -> None:
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self.port = 0
        """Where it listens, once it is open."""

    @abstractmethod
    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Read one request and answer it. False: the connection has served."""

    async def __aenter__(self) -> Self:
        listening = _bound()
        self.port = listening.getsockname()[1]
        self._server = await asyncio.start_server(self._accept, sock=listening)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._server is None:
            return
        self._server.close()
        while serving := [task for task in self._connections if not task.done()]:
            for writer in self._connections.values():
                writer.close()
            await asyncio.wait(serving)
        await self._server.wait_closed()
        for task in self._connections:
            task.result()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections[asyncio.create_task(self._serve(reader, writer))] = writer

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):  # the client has gone
            try:
                while await self._exchange(reader, writer):
                    pass
            finally:
                writer.close()
                await writer.wait_closed()


class LoopbackUpstream(LoopbackServer):
    """Answers every request by a function.

    Args:
        answer: is called once for each request. Should it raise, the client's connection
            breaks, and what it raised comes out where the upstream is closed.
    """

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self._answer = answer
        self.requests: list[Received] = []
        """What arrived, in order. What is no HTTP, or whose body is no JSON object, is not in it."""

    @property
    def base_url(self) -> str:
        """Where it listens, once it is open; a client appends `/chat/completions`."""
        return f"http://{HOST}:{self.port}/v1"

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        try:
            received = await read_request(reader)
        except (ValueError, msgspec.DecodeError, asyncio.LimitOverrunError) as error:
            writer.write(_reply(HTTPStatus.BAD_REQUEST, {"error": {"message": f"no such request: {error}"}}))
            await writer.drain()
            return False
        self.requests.append(received)
        writer.write(_reply(*self._answer(received.body)))
        await writer.drain()
        return not received.last


async def read_request(reader: asyncio.StreamReader) -> Received:
    """The next request of a connection.

    Raises:
        ValueError, msgspec.DecodeError, asyncio.LimitOverrunError: it is none that can be answered.
        asyncio.IncompleteReadError: the client closed the connection.
    """
    head = await reader.readuntil(END_OF_HEAD)
    first, *lines = head.removesuffix(END_OF_HEAD).decode("latin-1").split("\r\n")
    if len(words := first.split(" ")) != 3:
        raise ValueError("its first line is not METHOD PATH VERSION")
    fields = [line.partition(":") for line in lines]
    headers = {name.lower(): value.strip() for name, _, value in fields}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(words[0], words[1], headers, msgspec.json.decode(body, type=dict[str, Any]))


def head_of_reply(status: int, headers: Mapping[str, str]) -> bytes:
    """The first line and the headers of a reply."""
    phrase = HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else ""
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join(lines).encode("latin-1") + END_OF_HEAD


def _bound() -> socket.socket:
    """A socket on a port of its own.

    Raises:
        OSError: the system has none; asyncio would not say so.
    """
    # its protocol is named: only then does asyncio make it send without delay
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.bind((HOST, 0))
    except OSError as error:
        made.close()
        raise OSError(error.errno, f"cannot listen on {HOST}: {error.strerror}") from None
    return made


def _reply(status: int, body: Mapping[str, Any]) -> bytes:
    content = msgspec.json.encode(body)
    headers = {"content-type": "application/json", "content-length": str(len(content))}
    return head_of_reply(status, headers) + content
