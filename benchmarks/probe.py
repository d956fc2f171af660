"""What a turn costs over HTTP: buffered, skipping, evicting, and for each event of a stream.

    python benchmarks/probe.py [--check] [--environment DIRECTORY]

CPU and wall time of one turn at 1 and at 64 turns at once, with a SQLite memory, its record kept, error
reading and redaction on; and as ratios to what others take for the same request in the same run:

- `httpx.AsyncClient.post` and a JSON parse: httpx 0.28.1 with default limits and without sniffio, in an
  environment of its own, which is made in DIRECTORY (or a temporary one) if it is not there
- the chosen transport called directly with a new `httpx.Request`, and a JSON parse
- bare aiohttp's `session.post`, and a JSON parse

The upstream is a process of its own. The sides run in turns, so that whatever disturbs one disturbs the
others; figures are medians of the rounds. CPU is that of the whole process, its memory's thread included.
With `--check` the exit status is 1 if a ratio is above its limit.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from itertools import count
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any, Final, NamedTuple

ROUNDS: Final = 15
CALLS: Final = 256
"""Turns of one side in each round."""
AT_ONCE: Final = (1, 64)

SERVING: Final = str(Path(__file__).with_name("serving.py"))
TEXT: Final = "Good morning. " * 20
BODY: Final = {
    "model": "small",
    "messages": [{"role": "user", "content": TEXT}],
    "temperature": 0.5,
}
HEADERS: Final = {
    "content-type": "application/json",
    "accept": "application/json",
    "accept-encoding": "identity",
    "authorization": "Bearer of-nothing-at-all",
}

Call = Callable[[], Awaitable[object]]


class Cost(NamedTuple):
    """Of one turn, in microseconds."""

    cpu: float
    wall: float


# -- bare httpx, in an environment of its own, which has httpx and nothing else: what is imported above this
# line is of the standard library


async def over_httpx(url: str) -> None:
    """Measures when it is told to: a line of standard input says which call, and how many at once."""
    import httpx

    content = json.dumps(BODY).encode()
    streaming = json.dumps({**BODY, "stream": True}).encode()

    async with httpx.AsyncClient() as client:

        async def post() -> object:
            return (await client.post(f"{url}/ok/v1", content=content, headers=HEADERS)).json()

        async def stream() -> object:
            async with client.stream(
                "POST", f"{url}/stream/v1", content=streaming, headers=HEADERS
            ) as response:
                return [
                    json.loads(line[6:])
                    async for line in response.aiter_lines()
                    if line.startswith("data: {")
                ]

        calls: dict[str, Call] = {"post": post, "stream": stream}
        for line in sys.stdin:
            name, at_once, number = line.split()
            print(json.dumps(await timed(calls[name], int(at_once), int(number))), flush=True)


async def timed(call: Call, at_once: int, calls: int) -> Cost:
    """What one call costs, made so many times in so many tasks."""

    async def some() -> None:
        for _ in range(max(calls // at_once, 1)):
            await call()

    made = max(calls // at_once, 1) * at_once
    gc.collect()
    began, spent = perf_counter(), process_time()
    await asyncio.gather(*(some() for _ in range(at_once)))
    return Cost((process_time() - spent) / made * 1e6, (perf_counter() - began) / made * 1e6)


@contextmanager
def bare_httpx(url: str, environment: Path) -> Iterator[Callable[[str, int, int], Cost]]:
    """Asks the process that runs in that environment."""
    python = environment / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "httpx==0.28.1"], check=True)
    has_sniffio = subprocess.run([python, "-c", "import sniffio"], capture_output=True, check=False)
    if not has_sniffio.returncode:
        raise SystemExit(f"{environment} has sniffio, with which httpx is faster; give another directory")
    command = [str(python), __file__, "--over-httpx", url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        asked, told = process.stdin, process.stdout
        assert asked is not None
        assert told is not None

        def ask(name: str, at_once: int, calls: int) -> Cost:
            asked.write(f"{name} {at_once} {calls}\n")
            asked.flush()
            return Cost(*json.loads(told.readline()))

        try:
            yield ask
        finally:
            asked.close()


# -- ours


async def sides(url: str, folder: str, closing: AsyncExitStack) -> dict[str, Call]:
    """What is measured in this process, by name."""
    import aiohttp
    import httpx
    import msgspec

    from turnout import Router, SqliteMemory, Target
    from turnout.engine.http import Transports

    numbers = count()
    content = msgspec.json.encode(BODY)
    streaming = msgspec.json.encode({**BODY, "stream": True})
    session = await closing.enter_async_context(aiohttp.ClientSession())
    transports = Transports()
    closing.push_async_callback(transports.aclose)
    address = httpx.URL(f"{url}/ok/v1/chat/completions")
    transport = transports.of(address, ca_file=None, fresh=False)

    async def aiohttp_post() -> object:
        async with session.post(f"{url}/ok/v1", data=content, headers=HEADERS) as response:
            return msgspec.json.decode(await response.read())

    async def aiohttp_stream() -> object:
        async with session.post(f"{url}/stream/v1", data=streaming, headers=HEADERS) as response:
            return [
                msgspec.json.decode(line[6:])
                async for line in response.content
                if line.startswith(b"data: {")
            ]

    async def direct() -> object:
        request = httpx.Request(
            "POST", address, headers=HEADERS, content=content, extensions={"timeout": {}, "trace": trace}
        )
        response = await transport.handle_async_request(request)
        parts = [part async for part in response.aiter_raw()]
        await response.aclose()
        return msgspec.json.decode(b"".join(parts))

    async def trace(event: str, info: object) -> None:
        pass

    def target(path: str) -> Target:
        key = {"extra_headers": {"authorization": HEADERS["authorization"]}}
        return Target(path, base_url=f"{url}/{path}/v1", max_retries=0, **key)  # type: ignore[arg-type]

    async def router(*ladder: str) -> Router:
        memory = SqliteMemory(Path(folder) / f"{'-'.join(ladder)}.db")
        kept = deque[Any](maxlen=1000).append
        made = Router(ladder=[target(name) for name in ladder], memory=memory, on_record=kept)
        return await closing.enter_async_context(made)

    healthy, skips, evicts, streams = [
        await router(*ladder) for ladder in (["ok"], ["busy", "ok"], ["overflow", "ok"], ["stream"])
    ]

    async def turn(through: Router, sessions: int = 1_000_000_000) -> object:
        return await through.turn(BODY, session=f"session-{next(numbers) % sessions}")

    async def stream() -> object:
        async with streams.stream(BODY, session=f"session-{next(numbers) % 100}") as stream:
            return [event async for event in stream]

    return {
        "aiohttp": aiohttp_post,
        "transport": direct,
        "healthy": lambda: turn(healthy, 1000),
        "skips": lambda: turn(skips, 1000),
        "evicts": lambda: turn(evicts),
        "aiohttp stream": aiohttp_stream,
        "stream": stream,
    }


LIMITS: Final = {
    ("healthy", "httpx", 1): 0.40,
    ("healthy", "httpx", 64): 0.15,
    ("healthy", "transport", 1): 1.25,
    ("healthy", "transport", 64): 1.25,
    ("healthy", "aiohttp", 1): 2.0,
    ("healthy", "aiohttp", 64): 2.0,
    ("skips", "healthy", 1): 2.2,
    ("skips", "healthy", 64): 2.2,
    ("evicts", "healthy", 1): 2.6,
    ("evicts", "healthy", 64): 2.6,
}
"""The CPU that the first may take of the second's, with so many turns at once."""


async def measured(url: str, environment: Path) -> dict[tuple[str, int], Cost]:
    """The medians, by side and how many at once."""
    figures: dict[tuple[str, int], list[Cost]] = {}
    async with AsyncExitStack() as closing:
        folder = closing.enter_context(tempfile.TemporaryDirectory())
        ask = closing.enter_context(bare_httpx(url, environment))
        ours = await sides(url, folder, closing)
        for number in range(ROUNDS + 1):
            for at_once in AT_ONCE:
                for name, call in ours.items():
                    calls = CALLS // 8 if "stream" in name else CALLS
                    cost = await timed(call, at_once, calls)
                    figures.setdefault((name, at_once), []).append(cost)
                for name, asked in (("httpx", "post"), ("httpx stream", "stream")):
                    calls = CALLS // 8 if asked == "stream" else CALLS
                    figures.setdefault((name, at_once), []).append(ask(asked, at_once, calls))
            print(f"\rround {number} of {ROUNDS}", end="", file=sys.stderr, flush=True)
        print("\r", end="", file=sys.stderr)
    # the first round opens connections and files
    return {
        side: Cost(median(cost.cpu for cost in costs[1:]), median(cost.wall for cost in costs[1:]))
        for side, costs in figures.items()
    }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--environment", type=Path)
    parser.add_argument("--over-httpx", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.over_httpx:
        asyncio.run(over_httpx(given.over_httpx))
        return 0
    from serving import EVENTS, serving

    with serving() as url, tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(measured(url, given.environment or Path(folder) / "httpx"))
    for at_once in AT_ONCE:
        print(f"{at_once} at once".ljust(18) + "CPU us   wall us")
        for (name, number), (cpu, wall) in figures.items():
            if number == at_once:
                per_event = f"{cpu / EVENTS:10.1f} us CPU an event" if "stream" in name else ""
                print(f"  {name:14}{cpu:9.0f}{wall:10.0f}{per_event}")
    above = 0
    print("CPU of what, of what, at once")
    for (name, base, at_once), limit in LIMITS.items():
        ratio = figures[name, at_once].cpu / figures[base, at_once].cpu
        above += ratio > limit
        print(f"  {name:10}{base:12}{at_once:4}{ratio:8.2f}   to reach: {limit}")
    for base in ("httpx stream", "aiohttp stream"):
        for at_once in AT_ONCE:
            ratio = figures["stream", at_once].cpu / figures[base, at_once].cpu
            print(f"  {'stream':10}{base.split()[0]:12}{at_once:4}{ratio:8.2f}")
    return 1 if given.check and above else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
