"""What stands between a client and its Redis, or in its place: to hold replies, lose them, or invent them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path


class Proxy:
    """Passes everything on, as long as nothing else is asked of it."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[bytes] = []
        """What clients have sent, each in one piece."""
        self.came = asyncio.Event()
        """Set whenever something was sent."""
        self.open = asyncio.Event()
        """Replies are held back while it is not set."""
        self.open.set()
        self.lose_replies = False
        """Whether a connection is lost when its next reply comes."""


@asynccontextmanager
async def proxy_to(socket: Path) -> AsyncIterator[Proxy]:
    proxy = Proxy()

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_reader, to_writer = await asyncio.open_unix_connection(socket)

        async def back() -> None:
            while data := await to_reader.read(2**20):
                await proxy.open.wait()
                if proxy.lose_replies:
                    break
                writer.write(data)
            writer.close()

        backwards = asyncio.create_task(back())
        try:
            with suppress(ConnectionError):
                while data := await reader.read(2**20):
                    proxy.asked.append(data)
                    proxy.came.set()
                    to_writer.write(data)
        finally:
            backwards.cancel()
            to_writer.close()

    async with _serving(pass_on) as proxy.url:
        yield proxy


@asynccontextmanager
async def pretender(answer: Callable[[list[bytes]], bytes | None]) -> AsyncIterator[str]:
    """The url of what takes commands as Redis does and answers what it is told to.

    Args:
        answer: gets the command and gives the reply as it goes out; None is `+OK`.
    """

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while head := await reader.readline():
                command = []
                for _ in range(int(head[1:])):
                    length = int((await reader.readline())[1:])
                    command.append((await reader.readexactly(length + 2))[:-2])
                writer.write(answer(command) or b"+OK\r\n")
        writer.close()

    async with _serving(serve) as url:
        yield url


@asynccontextmanager
async def _serving(
    handle: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[str]:
    tasks: set[asyncio.Task[None]] = set()

    async def handled(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await handle(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(handled, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"redis://127.0.0.1:{port}"
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
