"""What a POST and the reading of its JSON reply cost over each transport, against `httpx.AsyncClient.post`.

    python benchmarks/transports.py [--check]

The server is a process of its own and answers the same reply to whatever comes. The sides run in
turns, each at 1 and at 64 calls at once, so that whatever disturbs one disturbs the others; httpx2's
transport is one of them where it is installed. CPU is this process's alone. A transport called directly
is given a new `httpx.Request` for each call, as an attempt gives it one. With `--check` the exit status is
1 if ours takes more CPU than bare aiohttp by more than the limit.
"""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib import import_module
from statistics import median
from time import perf_counter, process_time
from typing import Any

import aiohttp
import httpx
import msgspec

from turnout.engine.http.over_aiohttp import AiohttpTransport

LIMIT = 1.5
ROUNDS = 15
CALLS = 320
"""Calls of one side in each round."""

AT_ONCE = (1, 64)
OURS, BARE, CLIENT = "AiohttpTransport", "aiohttp", "httpx client"

BODY = msgspec.json.encode(
    {"model": "small", "messages": [{"role": "user", "content": "Good morning. " * 20}], "temperature": 0.5}
)
HEADERS = {
    "content-type": "application/json",
    "accept": "application/json",
    "accept-encoding": "identity",
    "authorization": "Bearer of-nothing",
}
ANSWER = msgspec.json.encode(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Good morning. " * 20}}],
        "usage": {"prompt_tokens": 80, "completion_tokens": 80, "total_tokens": 160},
    }
)
REPLY = (
    b"HTTP/1.1 200 OK\r\ndate: Mon, 05 Oct 2026 10:00:00 GMT\r\nserver: benchmark\r\n"
    b"content-type: application/json\r\nx-request-id: req_0123456789abcdef\r\ncontent-length: %d\r\n\r\n%b"
) % (len(ANSWER), ANSWER)

Call = Callable[[], Awaitable[bytes]]


class Server(asyncio.Protocol):
    """Answers each request as soon as its body is there."""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.received = b""

    def data_received(self, data: bytes) -> None:
        self.received += data
        if self.received.endswith(BODY):
            self.received = b""
            self.transport.write(REPLY)


async def serve() -> None:
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def over(transport: httpx.AsyncBaseTransport, url: httpx.URL) -> Call:
    async def call() -> bytes:
        request = httpx.Request(
            "POST", url, headers=HEADERS, content=BODY, extensions={"timeout": {}, "trace": trace}
        )
        response = await transport.handle_async_request(request)
        parts = [part async for part in response.aiter_raw()]
        await response.aclose()
        return b"".join(parts)

    async def trace(event: str, info: object) -> None:
        pass

    return call


def over_httpx2(pool: Any, library: Any, url: str) -> Call:
    """httpx's continuation has the same interface, and classes of its own."""

    async def call() -> bytes:
        request = library.Request("POST", url, headers=HEADERS, content=BODY, extensions={"timeout": {}})
        response = await pool.handle_async_request(request)
        parts = [part async for part in response.aiter_raw()]
        await response.aclose()
        return b"".join(parts)

    return call


def over_session(session: aiohttp.ClientSession, url: str) -> Call:
    async def call() -> bytes:
        async with session.post(url, data=BODY, headers=HEADERS) as response:
            return await response.read()

    return call


def over_client(client: httpx.AsyncClient, url: str) -> Call:
    async def call() -> bytes:
        return (await client.post(url, content=BODY, headers=HEADERS)).content

    return call


async def timed(call: Call, at_once: int) -> tuple[float, float]:
    """CPU and wall time of one call, in microseconds."""

    async def some() -> None:
        for _ in range(CALLS // at_once):
            msgspec.json.decode(await call())

    began, spent = perf_counter(), process_time()
    await asyncio.gather(*(some() for _ in range(at_once)))
    return (process_time() - spent) / CALLS * 1e6, (perf_counter() - began) / CALLS * 1e6


async def measured(url: str) -> dict[int, dict[str, tuple[float, float]]]:
    """The medians: for so many calls at once, by side, CPU and wall time."""
    kept = httpx.Limits(max_connections=None)
    context = httpx.create_ssl_context()
    ours, pool = AiohttpTransport(context), httpx.AsyncHTTPTransport(verify=context, limits=kept)
    async with ours, pool, httpx.AsyncClient(verify=context) as client, aiohttp.ClientSession() as session:
        sides = {
            CLIENT: over_client(client, url),
            "httpx transport": over(pool, httpx.URL(url)),
            OURS: over(ours, httpx.URL(url)),
            BARE: over_session(session, url),
        }
        with suppress(ImportError):
            httpx2 = import_module("httpx2")
            second = httpx2.AsyncHTTPTransport(verify=context, limits=httpx2.Limits(max_connections=None))
            sides["httpx2 transport"] = over_httpx2(second, httpx2, url)
        figures: dict[int, dict[str, list[tuple[float, float]]]] = {
            at_once: {name: [] for name in sides} for at_once in AT_ONCE
        }
        for turn in range(ROUNDS + 1):
            for at_once, of_side in figures.items():
                for name, call in sides.items():
                    gc.collect()
                    figure = await timed(call, at_once)
                    if turn:  # the first round opens the connections
                        of_side[name].append(figure)
    return {
        at_once: {name: (median(c for c, _ in f), median(w for _, w in f)) for name, f in of_side.items()}
        for at_once, of_side in figures.items()
    }


def main(arguments: list[str]) -> int:
    if "--serve" in arguments:
        asyncio.run(serve())
    with subprocess.Popen([sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        try:
            figures = asyncio.run(measured(f"http://127.0.0.1:{port}/v1/chat/completions"))
        finally:
            server.terminate()
    worst = 0.0
    for at_once, of_side in figures.items():
        print(f"{at_once} at once".ljust(20) + "CPU us   ratio    wall us   ratio")
        cpu_of_client, wall_of_client = of_side[CLIENT]
        for name, (cpu, wall) in of_side.items():
            print(f"  {name:16}{cpu:8.0f}{cpu / cpu_of_client:8.2f}{wall:11.0f}{wall / wall_of_client:8.2f}")
        ratio = of_side[OURS][0] / of_side[BARE][0]
        print(f"  ours to bare aiohttp: {ratio:.2f} of its CPU (at most {LIMIT})")
        worst = max(worst, ratio)
    return 1 if "--check" in arguments and worst > LIMIT else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
