"""What a memory costs, with few sessions in it and with many.

    python benchmarks/memory.py [--sessions 1000,100000,1000000] [--check]

For each store and number of sessions: one read of an identity that holds an eviction, one of a
session that holds none, one recording, in microseconds (median, 99th of a hundred); recordings a
second by 64 tasks at once; and what a session takes on disk and in this process's memory. SQLite
and the dictionary at every number, Redis (where `redis-server` is installed) at those below a
million. With `--check` the exit status is 1 if a figure is above its limit.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import random
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Final, NamedTuple

from turnout import InMemory, SqliteMemory
from turnout.engine.classify.verdict import Evidence
from turnout.engine.context import Cause, Eviction, Identity
from turnout.engine.memory.protocol import Memory
from turnout.machines.vocabulary import ErrorKind, RoutingFallbackReason

SESSIONS: Final = (1_000, 100_000, 1_000_000)
CALLS: Final = 2_000
"""Of each kind that are timed, each alone."""
AT_ONCE: Final = 64
MOST_IN_REDIS: Final = 100_000
NOW: Final = time.time()


class Figures(NamedTuple):
    """Of one store with so many sessions. Latencies in microseconds: median and 99th of a hundred."""

    hit: tuple[float, float]
    miss: tuple[float, float]
    record: tuple[float, float]
    a_second: float
    disk: float
    """Bytes a session."""
    resident: float


def eviction(number: int) -> Eviction:
    cause = Cause(
        f"{number:032x}",
        NOW,
        ErrorKind.CAPABILITY,
        Evidence("feature_unsupported", "error.message", ("image: image", "refuses_plainly: not .. support")),
        400,
        message="image input is not supported by this model",
        features=("image",),
    )
    return Eviction(
        "small",
        RoutingFallbackReason.CAPABILITY,
        "0123456789abcdef",
        first=cause,
        latest_turn=cause.turn,
        latest_at=NOW,
        refused=frozenset({("image",)}),
    )


def who(number: int) -> Identity:
    return Identity("", f"session-{number:012d}")


async def fill(memory: Memory, first: int, last: int, what: str) -> float:
    """Recordings a second."""
    numbers = iter(range(first, last))
    told = time.perf_counter()

    async def some() -> None:
        nonlocal told
        for number in numbers:
            await memory.record(who(number), eviction(number))
            if time.perf_counter() - told > 0.5:
                told = time.perf_counter()
                print(f"\r{what}: {number:,} of {last:,} sessions ", end="", file=sys.stderr, flush=True)

    began = time.perf_counter()
    await asyncio.gather(*(some() for _ in range(AT_ONCE)))
    print("\r" + " " * 60 + "\r", end="", file=sys.stderr)
    return (last - first) / (time.perf_counter() - began)


async def timed(call: Callable[[int], Awaitable[object]], numbers: list[int]) -> tuple[float, float]:
    taken = []
    for number in numbers:
        began = time.perf_counter_ns()
        await call(number)
        taken.append((time.perf_counter_ns() - began) / 1000)
    return median(taken), quantiles(taken, n=100)[98]


def resident() -> int:
    """Bytes of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


async def measured(name: str, memory: Memory, folder: Path, before: int, sessions: int) -> Figures:
    """The figures of a store that has so many sessions, and is given the rest."""
    chance = random.Random(1)
    rate = await fill(memory, before, sessions, name)
    known = [chance.randrange(sessions) for _ in range(CALLS)]
    unknown = [chance.randrange(10**10, 10**11) for _ in range(CALLS)]

    def read(number: int) -> Awaitable[object]:
        return memory.read(who(number), now=NOW)

    hit, miss = await timed(read, known), await timed(read, unknown)
    record = await timed(lambda number: memory.record(who(number), eviction(number)), unknown[:500])
    return Figures(hit, miss, record, rate, size(folder) / sessions, 0.0)


@asynccontextmanager
async def in_memory(folder: Path) -> AsyncIterator[Memory]:
    yield InMemory(max_sessions=10_000_000)


@asynccontextmanager
async def sqlite(folder: Path) -> AsyncIterator[Memory]:
    memory = SqliteMemory(folder / "memory.db", max_sessions=10_000_000)
    yield memory
    await memory.close()


@asynccontextmanager
async def redis(folder: Path) -> AsyncIterator[Memory]:
    from turnout.engine.memory.redis import RedisMemory

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--port", str(port), "--bind", "127.0.0.1", "--appendonly", "yes", "--save", ""]
    command = ["redis-server", *options, "--dir", str(folder)]
    server = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL)
    try:
        for _ in range(100):
            with socket.socket() as there:
                if not there.connect_ex(("127.0.0.1", port)):
                    break
            await asyncio.sleep(0.05)
        memory = RedisMemory(f"redis://127.0.0.1:{port}")
        yield memory
        await memory.close()
    finally:
        server.terminate()
        await server.wait()


Opened = Callable[[Path], AbstractAsyncContextManager[Memory]]


async def of_store(name: str, opened: Opened, sessions: list[int]) -> dict[int, Figures]:
    """Its figures by the number of sessions, on one store that grows."""
    found: dict[int, Figures] = {}
    with tempfile.TemporaryDirectory() as folder:
        async with opened(Path(folder)) as memory:
            before = 0
            gc.collect()
            empty = resident()
            for number in sessions:
                figures = await measured(name, memory, Path(folder), before, number)
                gc.collect()
                found[number] = figures._replace(resident=max(resident() - empty, 0) / number)
                before = number
                print(line(name, number, found[number]), flush=True)
    return found


def line(name: str, sessions: int, figures: Figures) -> str:
    latencies = "".join(f"{m:8.1f}{p:9.1f}" for m, p in (figures.hit, figures.miss, figures.record))
    kept = f"{figures.disk:8.0f}{figures.resident:8.0f}"
    return f"{name:10}{sessions:>10,}{latencies}{figures.a_second:10,.0f}{kept}"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sessions", default=",".join(map(str, SESSIONS)))
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args(arguments)
    sessions = sorted(int(number) for number in given.sessions.split(","))
    stores: dict[str, Opened] = {"in memory": in_memory, "sqlite": sqlite}
    if shutil.which("redis-server"):
        stores["redis"] = redis
    else:
        print("redis-server is not installed: Redis is left out")
    print(" " * 20 + "  read a hit us   a miss us        record us     a second  disk B   RSS B")
    print(f"{'':20}" + "  median      p99" * 3)
    found = {}
    for name, opened in stores.items():
        chosen = [number for number in sessions if name != "redis" or number <= MOST_IN_REDIS]
        found[name] = asyncio.run(of_store(name, opened, chosen))
    few, many = sessions[0], sessions[-1]
    growth = found["sqlite"][many].hit[0] / found["sqlite"][few].hit[0]
    dictionary = max(figures.hit[0] for figures in found["in memory"].values())
    miss = max(figures.miss[0] for figures in found["sqlite"].values())
    print(f"a read of sqlite at {many:,} to one at {few:,}: {growth:.2f}   to reach: 2.0")
    print(f"a read of the dictionary: {dictionary:.1f} us   to reach: 5")
    print(f"a read of sqlite for a session that holds nothing: {miss:.1f} us   to reach: 30")
    return 1 if given.check and (growth > 2 or dictionary > 5 or miss > 30) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
