"""Plays doubles over real sockets, in virtual time.

The server runs in the event loop of the client, so the two ends of an exchange are known
together, and so is whether anything is on its way between them: the client waits for it,
and the server does not wait for the clock. As long as that is so, the clock is held, and
the loop waits for the socket. The server sends nothing more until what it has sent has
arrived.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import struct
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NoReturn, Self, cast

import httpx

from turnout.engine.clock import VirtualClock
from turnout.engine.http import Transports
from turnout.engine.loopback import HOST, LoopbackServer, head_of_reply, read_request
from turnout.engine.testing.steps import Break, Data, Fail, Head, Pause, Step
from turnout.engine.testing.transport import perform

NAME: Final = "x-scripted-exchange"
"""The header by which the server knows which request it is."""

_RESET: Final = struct.pack("ii", 1, 0)
"""To linger for no time: closing the socket resets the connection."""

_HEAD: Final = 1
_END: Final = 1
"""A head, and the end of a reply, count like a byte of its body."""

StepsOf = Callable[[httpx.Request], Sequence[Step]]
"""What is done with a request."""


class Exchange:
    """One request and its reply, as both ends know it.

    Args:
        steps: what the server does with the request.
        forget: is called once it is over.
    """

    def __init__(self, steps: Sequence[Step], forget: Callable[[], object]) -> None:
        self.steps = steps
        self._forget = forget
        self._awaited = False
        """Whether the client waits for something."""
        self._silent = False
        """Whether the server waits for the clock."""
        self._under_way = 0
        """How much the server has sent that has not arrived."""
        self._arrived = asyncio.Event()
        self._playing: asyncio.Task[bool] | None = None
        self._over = False

    @property
    def in_flight(self) -> bool:
        """Whether something is on its way to an end that waits for it: the request, a reply, or its end."""
        return self._awaited and not self._silent

    # -- the client's end

    @contextmanager
    def awaited(self) -> Iterator[None]:
        """Within this the client waits for what comes next."""
        self._awaited = True
        try:
            yield
        except BaseException:
            self.leave()
            raise
        finally:
            self._awaited = False

    def arrived(self, amount: int) -> None:
        """So much of what was sent has come."""
        self._under_way -= amount
        self._arrived.set()

    def complete(self) -> None:
        """The whole reply has come."""
        self._over = True
        self.arrived(_END)
        self._forget()

    def leave(self) -> None:
        """The client wants nothing more, or gets nothing more."""
        if not self._over:
            self._over = True
            self._forget()
            if self._playing is not None:
                self._playing.cancel()

    # -- the server's end

    async def play(self, playing: asyncio.Task[bool]) -> bool:
        """Wait until this has played the steps. False: the client has left, or its connection was broken."""
        self._playing = playing
        try:
            await asyncio.wait([playing])
        finally:
            playing.cancel()
        return not playing.cancelled() and playing.result()

    @contextmanager
    def silence(self) -> Iterator[None]:
        """Within this the server waits for the clock."""
        self._silent = True
        try:
            yield
        finally:
            self._silent = False

    async def sent(self, amount: int) -> None:
        """Wait until so much more has arrived."""
        self._under_way += amount
        while self._under_way > 0:
            self._arrived.clear()
            await self._arrived.wait()


class ScriptedServer(LoopbackServer):
    """An upstream that does what each request's script says. Opened and used in virtual time.

    Args:
        clock: what pauses are kept on. It is held while anything is on its way.
    """

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock
        self._numbers = itertools.count(1)
        self._exchanges: dict[str, Exchange] = {}
        self._trouble: OSError | None = None
        """Why there is no connection any more."""

    async def __aenter__(self) -> Self:
        asyncio.get_running_loop().set_exception_handler(self._heard)
        return await super().__aenter__()

    def _heard(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """The loop tells what nobody waits for: of a server, that it cannot accept."""
        error = context.get("exception")
        if isinstance(error, OSError) and "socket" in context:
            self._trouble = error
        else:
            loop.default_exception_handler(context)

    async def give_up(self, trouble: OSError) -> NoReturn:
        """The system has no connection for an exchange, which would hold the time for ever."""
        self._trouble = trouble
        await asyncio.get_running_loop().create_future()
        raise trouble

    def busy(self) -> bool:
        """Whether anything is on its way.

        Raises:
            OSError: something is, and never will arrive.
        """
        trouble, self._trouble = self._trouble, None
        if trouble is not None:
            raise trouble
        return any(exchange.in_flight for exchange in self._exchanges.values())

    def expect(self, request: httpx.Request, steps: Sequence[Step]) -> tuple[httpx.Request, Exchange]:
        """The request as it has to be sent for these steps, and the exchange that it begins."""
        name = str(next(self._numbers))
        exchange = Exchange(steps, lambda: self._exchanges.pop(name, None))
        self._exchanges[name] = exchange
        addressed = httpx.Request(
            request.method,
            request.url.copy_with(scheme="http", host=HOST, port=self.port),
            headers=[*request.headers.multi_items(), (NAME, name)],
            content=request.content,
            extensions=request.extensions,
        )
        return addressed, exchange

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        received = await read_request(reader)
        exchange = self._exchanges.get(received.headers.get(NAME, ""))
        played = exchange is not None and await exchange.play(
            asyncio.create_task(self._play(exchange, writer))
        )
        if not played:
            writer.transport.abort()
        return played

    async def _play(self, exchange: Exchange, writer: asyncio.StreamWriter) -> bool:
        """Do what the script says. False: it broke the connection."""
        chunked = False
        for step in exchange.steps:
            if isinstance(step, Head):
                chunked = "content-length" not in step.headers
                framing = {"transfer-encoding": "chunked"} if chunked else {}
                writer.write(head_of_reply(step.status, {**step.headers, **framing}))
                await exchange.sent(_HEAD)
            elif isinstance(step, Data):
                if step.content:
                    writer.write(_chunk(step.content) if chunked else step.content)
                    await exchange.sent(len(step.content))
            elif isinstance(step, Break):
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                return False
            else:
                with exchange.silence():
                    await self._wait(step)
        if chunked:
            writer.write(_chunk(b""))
        await exchange.sent(_END)
        return True

    async def _wait(self, step: Step) -> None:
        if isinstance(step, Pause):
            await self._clock.sleep(step.secs)
        else:
            await asyncio.get_running_loop().create_future()


def _chunk(content: bytes) -> bytes:
    """A piece of a body; an empty one is its end."""
    return b"%x\r\n%b\r\n" % (len(content), content)


class OverSockets(httpx.AsyncBaseTransport):
    """Carries requests to a scripted server, whatever their address, by transports that are real.

    Args:
        server: where they go.
        steps_of: what is done with a request.
        clock: what is kept to where the script fails, which no server can make a client do.
        transports: what carries them. Others may share them: they are not closed with this.
    """

    def __init__(
        self,
        server: ScriptedServer,
        steps_of: StepsOf,
        clock: VirtualClock,
        transports: Transports,
    ) -> None:
        self._server = server
        self._steps_of = steps_of
        self._clock = clock
        self._transports = transports

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        steps = self._steps_of(request)
        if any(isinstance(step, Fail) for step in steps):
            return await perform(steps, request, self._clock)
        # a connection that breaks before a byte of the reply is a fresh one: a kept one would be tried again
        fresh = _breaks_at_once(steps)
        addressed, exchange = self._server.expect(request, steps)
        transport = self._transports.of(addressed.url, ca_file=None, fresh=fresh)
        with exchange.awaited():
            try:
                response = await transport.handle_async_request(addressed)
            except httpx.ConnectError as error:
                await self._server.give_up(_of_system(error))
        exchange.arrived(_HEAD)
        return httpx.Response(
            response.status_code,
            headers=response.headers,
            stream=_Counted(response, exchange),
            extensions=response.extensions,
        )


def _of_system(error: BaseException) -> OSError:
    """What the system said when there was no connection to be had."""
    while not isinstance(error, OSError) and (cause := error.__cause__ or error.__context__):
        error = cause
    return error if isinstance(error, OSError) else OSError(str(error))


def _breaks_at_once(steps: Sequence[Step]) -> bool:
    return isinstance(next(step for step in steps if not isinstance(step, Pause)), Break)


class _Counted(httpx.AsyncByteStream):
    """The body of a reply, of which the exchange is told what arrives."""

    def __init__(self, response: httpx.Response, exchange: Exchange) -> None:
        self._response = response
        self._exchange = exchange
        self._pieces = cast("AsyncGenerator[bytes, None]", response.aiter_raw())

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            with self._exchange.awaited():
                piece = await anext(self._pieces, None)
            if piece is None:
                self._exchange.complete()
                return
            self._exchange.arrived(len(piece))
            yield piece

    async def aclose(self) -> None:
        await self._pieces.aclose()
        await self._response.aclose()
        self._exchange.leave()
