"""An upstream over real sockets that misbehaves as it is told, at the stage that it is told."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from functools import lru_cache
from types import TracebackType
from typing import Any, Literal, NamedTuple, NoReturn, Self

import trustme

from turnout.engine.clock import SystemClock

GUARD = 60.0
"""Seconds after which a whole test is given up: nothing else here is measured."""

Framing = Literal["chunked", "close", "length"]
"""How the end of a reply's body is told: by chunks, by the end of the connection, by its length."""


class Impatient(SystemClock):
    """The clock on the wall, but for waits between attempts: they are over at once."""

    async def sleep(self, secs: float) -> None:
        await asyncio.sleep(0)


# -- what a format sends when all is well


class Frames(NamedTuple):
    """One answer, as a body and as a stream."""

    answer: bytes
    opening: bytes
    """Events before the first content."""
    empty: bytes
    """An event without content, of which there may be any number."""
    content: tuple[bytes, ...]
    """Events that hold output."""
    end: bytes
    """The events after that, up to the format's finish marker."""

    @property
    def stream(self) -> bytes:
        return self.opening + b"".join(self.content) + self.end


def frames(format: str, text: str = "hello") -> Frames:
    return _FRAMES[format](text)


def _event(body: dict[str, Any]) -> bytes:
    name = f"event: {body['type']}\n".encode() if "type" in body else b""
    return name + b"data: " + json.dumps(body).encode() + b"\n\n"


def _chat(text: str) -> Frames:
    def chunk(delta: dict[str, Any], ended: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": ended}
        return _event({"object": "chat.completion.chunk", "choices": [choice]})

    message = {"role": "assistant", "content": text}
    return Frames(
        answer=json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode(),
        opening=chunk({"role": "assistant", "content": ""}),
        empty=chunk({"role": "assistant", "content": ""}),
        content=(chunk({"content": text[:2]}), chunk({"content": text[2:]})),
        end=chunk({}, "stop") + b"data: [DONE]\n\n",
    )


def _responses(text: str) -> Frames:
    def delta(piece: str) -> bytes:
        return _event({"type": "response.output_text.delta", "item_id": "m", "delta": piece})

    begun = {"id": "r", "object": "response", "status": "in_progress", "output": []}
    message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    whole = {**begun, "status": "completed", "output": [message]}
    progress = _event({"type": "response.in_progress", "response": begun})
    return Frames(
        answer=json.dumps(whole).encode(),
        opening=_event({"type": "response.created", "response": begun}) + progress,
        empty=progress,
        content=(delta(text[:2]), delta(text[2:])),
        end=_event({"type": "response.completed", "response": whole}),
    )


def _messages(text: str) -> Frames:
    def delta(piece: str) -> bytes:
        told = {"type": "text_delta", "text": piece}
        return _event({"type": "content_block_delta", "index": 0, "delta": told})

    message = {"id": "m", "type": "message", "role": "assistant"}
    block = {"type": "text", "text": text}
    return Frames(
        answer=json.dumps({**message, "content": [block], "stop_reason": "end_turn"}).encode(),
        opening=_event({"type": "message_start", "message": {**message, "content": []}})
        + _event({"type": "content_block_start", "index": 0, "content_block": {**block, "text": ""}}),
        empty=_event({"type": "ping"}),
        content=(delta(text[:2]), delta(text[2:])),
        end=_event({"type": "content_block_stop", "index": 0})
        + _event({"type": "message_delta", "delta": {"stop_reason": "end_turn"}})
        + _event({"type": "message_stop"}),
    )


_FRAMES: dict[str, Callable[[str], Frames]] = {
    "openai_chat": _chat,
    "openai_responses": _responses,
    "anthropic_messages": _messages,
}


# -- the server


class Line:
    """One connection, as the server has it."""

    def __init__(self, server: Faulty, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.frames = server.frames
        self.framing: Framing = "chunked"
        self.streams = False
        """Whether the request that is being answered asks for a stream."""
        self.idle = asyncio.Event()
        """The connection waits for a request, or is closed."""
        self._server = server
        self._reader = reader
        self._writer = writer

    async def request(self) -> None:
        """The next request, read to its end."""
        self.idle.set()
        head = await self._reader.readuntil(b"\r\n\r\n")
        self.idle.clear()
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        body = json.loads(await self._reader.readexactly(length))
        self._server.asked.append(head)
        self.streams = bool(body.get("stream"))

    @property
    def whole(self) -> bytes:
        """The body of a reply that is right."""
        return self.frames.stream if self.streams else self.frames.answer

    @property
    def part(self) -> bytes:
        """What is no answer yet: half of a body, or a stream up to the middle of its first content."""
        if not self.streams:
            return self.frames.answer[: len(self.frames.answer) // 2]
        return self.frames.opening + self.frames.content[0][:-10]

    def head(self, status: str = "200 OK", *more: str, length: int | None = None) -> bytes:
        """The head of a reply.

        Args:
            length: what a body that is framed by its length claims to have; all of it by default.
        """
        framed = {
            "chunked": "transfer-encoding: chunked",
            "close": "connection: close",
            "length": f"content-length: {len(self.whole) if length is None else length}",
        }
        kind = "text/event-stream" if self.streams else "application/json"
        lines = (f"HTTP/1.1 {status}", f"content-type: {kind}", framed[self.framing], *more)
        return "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n"

    def framed(self, body: bytes) -> bytes:
        return b"%x\r\n%b\r\n" % (len(body), body) if self.framing == "chunked" else body

    async def send(self, *parts: bytes) -> None:
        """Raises ConnectionError once the client has gone."""
        self._writer.write(b"".join(parts))
        await self._writer.drain()
        if self._writer.is_closing():
            raise ConnectionResetError

    async def endless(self, part: bytes) -> NoReturn:
        """The same again and again, until the client has gone."""
        while True:
            await self.send(part)
            await asyncio.sleep(0)

    async def heard(self) -> None:
        """Until the caller has got content."""
        await self._server.heard.wait()

    async def gone(self) -> NoReturn:
        """Until the client has closed its side, whatever it sends before: raises ConnectionError then."""
        while await self._reader.read(65_536):
            pass
        raise ConnectionResetError

    def end(self) -> None:
        """Send no more; go on listening."""
        self._writer.write_eof()

    def reset(self) -> None:
        linger = struct.pack("ii", 1, 0)
        self._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self._writer.transport.abort()


Play = Callable[[Line], Awaitable[None]]
"""What the server does with one request of a connection."""


Door = Literal["http", "no tls", "untrusted", "not accepting", "full", "refusing"]
"""How a server meets whoever connects: as usual; without TLS where the client expects it; by a certificate
that nobody trusts; never, though the system does; not even the system; by refusing.
"""


@lru_cache(maxsize=1)
def _untrusted() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    return context


class Faulty:
    """Plays the same to every request, and waits at its end until the client has closed every connection.

    Args:
        text: what it answers when it does.
    """

    def __init__(self, format: str, play: Play, *, text: str = "hello", door: Door = "http") -> None:
        self.frames = frames(format, text)
        self.asked: list[bytes] = []
        """The head of each request that came."""
        self.heard = asyncio.Event()
        """The caller has got content."""
        self._play = play
        self._door = door
        self._lines: list[Line] = []
        self._serving: set[asyncio.Task[None]] = set()
        self._closing = AsyncExitStack()

    @property
    def url(self) -> str:
        scheme = "https" if self._door in ("no tls", "untrusted") else "http"
        return f"{scheme}://127.0.0.1:{self._port}/v1"

    async def __aenter__(self) -> Self:
        listening = self._closing.enter_context(socket.socket())
        listening.bind(("127.0.0.1", 0))
        self._port: int = listening.getsockname()[1]
        match self._door:
            case "refusing":
                pass  # bound, and nobody listens
            case "not accepting":
                listening.listen(9)
            case "full":
                listening.listen(0)
                listening.setblocking(False)
                waiting = self._closing.enter_context(socket.create_connection(listening.getsockname()))
                waiting.setblocking(False)
            case door:
                context = _untrusted() if door == "untrusted" else None
                server = await asyncio.start_server(
                    self._connected, sock=listening, ssl=context, limit=1 << 20
                )
                self._closing.callback(server.close)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._closing.aclose()
        if kind is not None:
            for task in self._serving:
                task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=kind is not None)

    async def let_go(self) -> None:
        """Until the client has closed every connection on which a reply is not over."""
        for line in self._lines:
            await line.idle.wait()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = Line(self, reader, writer)
        self._lines.append(line)
        self._serving.add(asyncio.create_task(self._served(line, writer)))

    async def _served(self, line: Line, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                await self._play(line)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has gone
        finally:
            line.idle.set()
            writer.close()
            with suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()
