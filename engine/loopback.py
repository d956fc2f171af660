"""An HTTP upstream of your own on 127.0.0.1: real sockets, and a count of what really arrived.

    async with LoopbackUpstream(answer) as upstream:
        target = Target("small", base_url=upstream.base_url)
        ...
    assert len(upstream.requests) == 1

It runs on the event loop that opened it, keeps connections alive and closes all of them when it ends.
"""

from __future__ import annotations

import asyncio
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


class LoopbackUpstream:
    """Answers every request by a function, on a port of its own.

    Args:
        answer: is called once for each request. Should it raise, the client's connection
            breaks, and what it raised comes out where the upstream is closed.
    """

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self.requests: list[Received] = []
        """What arrived, in order. What is no HTTP, or whose body is no JSON object, is not in it."""
        self.base_url = ""
        """Where it listens, once it is open; a client appends `/chat/completions`."""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, HOST, 0)
        self.base_url = f"http://{HOST}:{self._server.sockets[0].getsockname()[1]}/v1"
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

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request. False: the connection has served."""
        try:
            received = await _read(reader)
        except (ValueError, msgspec.DecodeError, asyncio.LimitOverrunError) as error:
            writer.write(_reply(HTTPStatus.BAD_REQUEST, {"error": {"message": f"no such request: {error}"}}))
            await writer.drain()
            return False
        self.requests.append(received)
        writer.write(_reply(*self._answer(received.body)))
        await writer.drain()
        return not received.last


async def _read(reader: asyncio.StreamReader) -> Received:
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


def _reply(status: int, body: Mapping[str, Any]) -> bytes:
    content = msgspec.json.encode(body)
    head = (
        f"HTTP/1.1 {status} {_phrase(status)}\r\n"
        "content-type: application/json\r\n"
        f"content-length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


def _phrase(status: int) -> str:
    return HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else ""
