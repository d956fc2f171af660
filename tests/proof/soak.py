"""Many processes on one memory, some of them killed: is what was recorded remembered and honoured?

    python tests/proof/soak.py [--store sqlite|redis://HOST:PORT] [--processes 8] [--sessions 2000]
                               [--turns 20000] [--kills 40] [--seed 1]

Each process routes turns of random sessions over four targets. What a target does is random by turn
(unavailable, or not) and fixed by session (it overflows, it refuses, or it serves); the last one always
serves, so there is an alternative at any time. Processes are killed with SIGKILL at random and others take
their place. Each notes, in a way that outlives it, when a read of the memory began, whom it asked after
that, and when a recording was over.

Afterwards no recording that was over may be missing, and nobody may have been asked whose eviction was
recorded before the read that the turn went by. The exit status is 1 if one of these is broken.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from turnout import Router, Target
from turnout.engine.context import Eviction, Identity, SessionContext
from turnout.engine.memory import from_url
from turnout.engine.memory.protocol import Memory

LADDER: Final = ("a", "b", "c", "d")
AT_ONCE: Final = 8
OVERFLOW: Final = (400, {"error": {"code": "context_length_exceeded", "message": "The context is too long."}})
REFUSAL: Final = (400, {"error": {"message": "image input is not supported by this model"}})
DOWN: Final = (503, {"error": {"message": "The server is overloaded."}})
ANSWER: Final = (200, {"choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}}]})

_READ_AT: Final[ContextVar[list[int]]] = ContextVar("read_at")
"""When the read began that the turn of this task goes by, in nanoseconds that all processes share."""


@dataclass(frozen=True)
class Counts:
    """What a run has come to."""

    turns: int
    probes: int
    recorded: int
    killed: int
    lost: tuple[tuple[str, str], ...]
    """Sessions and targets whose eviction was recorded and is not there."""
    ignored: tuple[tuple[str, str], ...]
    """Sessions and targets that were asked though their eviction was recorded before."""

    @property
    def holds(self) -> bool:
        return not self.lost and not self.ignored

    def __str__(self) -> str:
        return (
            f"{self.turns} turns, {self.probes} probes, {self.recorded} evictions recorded,"
            f" {self.killed} processes killed; {len(self.lost)} recorded and lost,"
            f" {len(self.ignored)} asked in spite of it"
        )


def behaves(session: str, target: str) -> tuple[int, Any] | None:
    """What a target always does in a session; None: it serves, or is down for a moment."""
    if target == LADDER[-1]:
        return ANSWER
    return random.Random(f"{session}/{target}").choice((OVERFLOW, REFUSAL, None, None))


def store(url: str) -> Memory:
    return from_url(url, ttl_secs=86_400.0, max_sessions=1_000_000, durability="process")


# -- one process


class Noted:
    """A memory that notes when a read begins, and when a recording is over."""

    def __init__(self, memory: Memory, note: Any) -> None:
        self._memory = memory
        self._note = note

    def __getattr__(self, name: str) -> Any:
        return getattr(self._memory, name)

    async def read(self, identity: Identity, *, now: float) -> SessionContext:
        _READ_AT.get()[0] = time.monotonic_ns()
        return await self._memory.read(identity, now=now)

    async def record(self, identity: Identity, eviction: Eviction) -> None:
        await self._memory.record(identity, eviction)
        self._note("recorded", identity.session, eviction.target, time.monotonic_ns())


async def work(url: str, log: Path, sessions: int, seed: str) -> None:
    """Route turns until killed."""
    chance = random.Random(seed)
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(*what: object) -> None:
        os.write(file, json.dumps(what).encode() + b"\n")

    def answer(request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        session, target = body["messages"][0]["content"], body["model"]
        note("asked", session, target, _READ_AT.get()[0])
        status, content = behaves(session, target) or (DOWN if chance.random() < 0.2 else ANSWER)
        return httpx.Response(status, json=content)

    ladder = [Target(name, base_url="http://upstream.example/v1", max_retries=0) for name in LADDER]
    memory: Any = Noted(store(url), note)
    async with Router(
        ladder=ladder, memory=memory, transport=httpx.MockTransport(answer), memory_timeout_ms=60_000
    ) as router:

        async def some() -> None:
            _READ_AT.set([0])
            while True:
                session = f"session-{chance.randrange(sessions)}"
                await router.turn({"messages": [{"role": "user", "content": session}]}, session=session)
                note("turn")

        await asyncio.gather(*(some() for _ in range(AT_ONCE)))


# -- all of them


def soak(
    url: str, *, processes: int, sessions: int, turns: int, kills: int, seed: int, show: bool = False
) -> Counts:
    """Run it and look at what is left."""
    chance = random.Random(seed)
    killed = 0
    with tempfile.TemporaryDirectory() as folder:
        if url == "sqlite":
            url = f"sqlite:{folder}/memory.db"
        names = itertools.count()
        logs: list[Path] = []

        def start() -> subprocess.Popen[bytes]:
            logs.append(Path(folder) / f"{next(names)}.log")
            options = ["--work", url, str(logs[-1]), str(sessions), f"{seed}/{logs[-1].stem}"]
            return subprocess.Popen([sys.executable, __file__, *options])

        running = [start() for _ in range(processes)]
        told = time.monotonic()
        due = sorted(chance.randrange(turns) for _ in range(kills))
        try:
            while (done := sum(map(turns_in, logs))) < turns:
                if show and time.monotonic() > told + 0.5:
                    told = time.monotonic()
                    print(f"\r{done} of {turns} turns, {killed} killed ", end="", file=sys.stderr, flush=True)
                if ended := [one for one in running if one.poll() is not None]:
                    raise RuntimeError(f"a process ended by itself, with {ended[0].returncode}")
                while due and due[0] <= done:
                    due.pop(0)
                    place = chance.randrange(processes)
                    running[place].send_signal(signal.SIGKILL)
                    running[place].wait()
                    killed += 1
                    running[place] = start()
                time.sleep(0.05)
        finally:
            for process in running:
                process.kill()
                process.wait()
        if show:
            print("\r" + " " * 60 + "\r", end="", file=sys.stderr)
        return asyncio.run(looked_at(url, logs, killed))


def turns_in(log: Path) -> int:
    return log.read_bytes().count(b'["turn"]') if log.exists() else 0


async def looked_at(url: str, logs: list[Path], killed: int) -> Counts:
    recorded: dict[tuple[str, str], int] = {}
    asked: list[tuple[str, str, int]] = []
    turns = 0
    for log in logs:
        for line in log.read_bytes().splitlines() if log.exists() else ():
            try:
                kind, *told = json.loads(line)
            except ValueError:
                continue  # the last words of one that was killed
            if kind == "turn":
                turns += 1
            elif kind == "asked":
                asked.append((told[0], told[1], told[2]))
            else:
                key = (told[0], told[1])
                recorded[key] = min(told[2], recorded.get(key, told[2]))
    kept: dict[str, set[str]] = defaultdict(set)
    memory = store(url)
    try:
        for session in {session for session, _ in recorded}:
            context = await memory.read(Identity("", session), now=time.time())
            kept[session] = {eviction.target for eviction in context.evictions}
    finally:
        await memory.close()
    lost = tuple(key for key in recorded if key[1] not in kept[key[0]])
    never = 2**63
    ignored = tuple((s, t) for s, t, read_at in asked if recorded.get((s, t), never) < read_at)
    return Counts(turns, len(asked), len(recorded), killed, lost, ignored)


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--work"]:
        url, log, sessions, seed = arguments[1:]
        asyncio.run(work(url, Path(log), int(sessions), seed))
        return 0
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--store", default="sqlite")
    for name, default in (
        ("processes", 8),
        ("sessions", 2000),
        ("turns", 20_000),
        ("kills", 40),
        ("seed", 1),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = vars(parser.parse_args(arguments))
    counts = soak(given.pop("store"), **given, show=True)
    print(counts)
    return 0 if counts.holds else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
