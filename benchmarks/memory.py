"""What a memory costs, with few sessions in it and with many.

    python benchmarks/memory.py [--sessions 1000,100000,1000000] [--check]

For each store and number of sessions: one read of an identity that holds an eviction, one of a
session that holds none, one recording, and one read right after that (it finds SQLite's cache
emptied), in microseconds (median, 99th of a hundred); recordings a second by 64 tasks at once; and
what a session takes on disk and in this process's memory. Each number has a store of its own, and
the calls that are timed go to them in turn, so that the noise of the machine is the same for all.
SQLite and the dictionary at every number, Redis (where `redis-server` is installed) at those below
a million. With `--check` the exit status is 1 if a figure is above its limit.
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
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Final, NamedTuple

from turnout import InMemory, SqliteMemory
from turnout.engine.classify.verdict import Evidence
from turnout.engine.context import Cause, Eviction, Identity
from turnout.engine.memory.protocol import Memory
from turnout.machines.vocabulary import ErrorKind, RoutingFallbackReason

SESSIONS: Final = (1_000, 100_000, 1_000_000)
ROUNDS: Final = 20
CALLS: Final = 200
"""Reads of each kind that are timed in a round, each alone; a tenth as many recordings."""
AT_ONCE: Final = 64
MOST_IN_REDIS: Final = 100_000
NOW: Final = time.time()


class Figures(NamedTuple):
    """Of one store with so many sessions. Latencies in microseconds: median and 99th of a hundred."""

    hit: tuple[float, float]
    miss: tuple[float, float]
    record: tuple[float, float]
    after: tuple[float, float]
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


async def fill(memory: Memory, sessions: int, what: str) -> float:
    """Recordings a second."""
    numbers = iter(range(sessions))
    told = time.perf_counter()

    async def some() -> None:
        nonlocal told
        for number in numbers:
            await memory.record(who(number), eviction(number))
            if time.perf_counter() - told > 0.5:
                told = time.perf_counter()
                print(f"\r{what}: {number:,} of {sessions:,} sessions ", end="", file=sys.stderr, flush=True)

    began = time.perf_counter()
    await asyncio.gather(*(some() for _ in range(AT_ONCE)))
    print("\r" + " " * 60 + "\r", end="", file=sys.stderr)
    return sessions / (time.perf_counter() - began)


async def timed(call: Callable[[int], Awaitable[object]], numbers: list[int]) -> list[float]:
    """Microseconds of each call."""
    taken = []
    for number in numbers:
        began = time.perf_counter_ns()
        await call(number)
        taken.append((time.perf_counter_ns() - began) / 1000)
    return taken


def summary(taken: list[float]) -> tuple[float, float]:
    return median(taken), quantiles(taken, n=100)[98]


def resident() -> int:
    """Bytes of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def warm(path: Path) -> None:
    """Have the system keep the files in its memory, as those in use are."""
    for file in path.rglob("*"):
        if file.is_file():
            with file.open("rb") as opened:
                while opened.read(1 << 20):
                    pass


class Filled:
    """A store with so many sessions, and what calls to it took."""

    def __init__(self, memory: Memory, sessions: int) -> None:
        self._memory = memory
        self._sessions = sessions
        self._chance = random.Random(1)
        self.hits: list[float] = []
        self.misses: list[float] = []
        self.records: list[float] = []
        self.afters: list[float] = []

    def _known(self) -> int:
        return self._chance.randrange(self._sessions)

    def _unknown(self) -> int:
        return self._chance.randrange(10**10, 10**11)

    async def read(self) -> None:
        self.hits += await timed(self._read, [self._known() for _ in range(CALLS)])
        self.misses += await timed(self._read, [self._unknown() for _ in range(CALLS)])

    async def write(self) -> None:
        for _ in range(CALLS // 10):
            self.records += await timed(self._record, [self._unknown()])
            self.afters += await timed(self._read, [self._known()])

    def _read(self, number: int) -> Awaitable[object]:
        return self._memory.read(who(number), now=NOW)

    def _record(self, number: int) -> Awaitable[object]:
        return self._memory.record(who(number), eviction(number))


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
    """Its figures by the number of sessions."""
    filled: dict[int, Filled] = {}
    kept: dict[int, tuple[float, float, float]] = {}
    async with AsyncExitStack() as stack:
        folders = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in sessions]
        for number, folder in zip(sessions, folders, strict=True):
            gc.collect()
            empty = resident()
            memory = await stack.enter_async_context(opened(folder))
            rate = await fill(memory, number, name)
            gc.collect()
            kept[number] = rate, size(folder) / number, max(resident() - empty, 0) / number
            filled[number] = Filled(memory, number)
        for folder in folders:
            warm(folder)
        for _ in range(ROUNDS):
            for store in filled.values():
                await store.read()
        for _ in range(ROUNDS):
            for store in filled.values():
                await store.write()
    figures = {
        number: Figures(
            *(summary(of.hits), summary(of.misses), summary(of.records), summary(of.afters)), *kept[number]
        )
        for number, of in filled.items()
    }
    for number in sessions:
        print(line(name, number, figures[number]), flush=True)
    return figures


def line(name: str, sessions: int, figures: Figures) -> str:
    latencies = "".join(f"{m:9.1f}{p:8.1f}" for m, p in figures[:4])
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
    print(
        " " * 20 + "     read a hit           a miss           record    a hit after  a second disk B  RSS B"
    )
    print(" " * 20 + "   median    p99" * 4)
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
