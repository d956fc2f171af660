"""What the rules of who may be probed cost a turn, in microseconds.

    python benchmarks/turn.py [--check]

With every option off: the choice among three targets of which nothing is declared and nothing is
remembered. With all on, for a request of 2 KB: to read what it needs and how large it is, and what
the choice costs more by evictions that may be lifted, declared limits, a pin, a home, and targets whose
health this process knows, one of which cools. Medians, each taken in turn with the others. With
`--check` the exit status is 1 if a figure is above its limit.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from statistics import median
from time import perf_counter_ns
from typing import Final

from turnout import Breaker, Habits, InMemory, Options, Policy, Route, Target
from turnout.engine.attempts import Request
from turnout.engine.breakers import Breakers
from turnout.engine.classify.verdict import Evidence
from turnout.engine.clock import VirtualClock
from turnout.engine.context import EMPTY, Cause, Eviction, SessionContext
from turnout.engine.drive import asks_of, new_turn
from turnout.engine.habits import Home, Place
from turnout.engine.health import failed
from turnout.engine.memory.shared_health import SharedHealth
from turnout.engine.selection import Coolings, Selection, Wants
from turnout.machines.vocabulary import ErrorKind, RoutingFallbackReason

ROUNDS: Final = 300
CALLS: Final = 100
OFF_LIMIT: Final = 2.0
ON_LIMIT: Final = 25.0

PLAIN: Final = tuple(Target(name, base_url="https://llm.example/v1") for name in ("a", "b", "c"))
DECLARED: Final = tuple(
    Target(
        name,
        base_url="https://llm.example/v1",
        context_window=window,
        input=("image",),
        breaker=Breaker(failures=1),
    )
    for name, window in (("a", 8_000), ("b", 32_000), ("c", 128_000))
)
OFF: Final = Route(id="off", ladder=PLAIN)
ON: Final = Route(
    id="on",
    ladder=DECLARED,
    options=Options(capability_scope="feature", readmit_below=0.8, affinity="home"),
)
TEXT: Final = "The quick brown fox jumps over the lazy dog, and nobody wonders why it did so. " * 6
BODY: Final = {
    "messages": [{"role": role, "content": TEXT} for role in ("user", "assistant", "user", "assistant")],
    "max_tokens": 500,
}


def evicted(target: Target, reason: RoutingFallbackReason) -> Eviction:
    cause = Cause("t1", 0.0, ErrorKind(reason), Evidence("told"), features=("image",))
    overflowed = reason is RoutingFallbackReason.CONTEXT_WINDOW
    return Eviction(
        target.name,
        reason,
        target.fingerprint,
        first=cause,
        latest_turn="t1",
        latest_at=0.0,
        size=9_000 if overflowed else None,
        refused=frozenset() if overflowed else frozenset({("image",)}),
    )


REMEMBERED: Final = SessionContext(
    [
        evicted(DECLARED[0], RoutingFallbackReason.CAPABILITY),
        evicted(DECLARED[1], RoutingFallbackReason.CONTEXT_WINDOW),
    ],
    Habits(
        {
            "on": Home(
                Place("c", DECLARED[2].fingerprint, 1.0),
                Place("b", DECLARED[1].fingerprint, 2.0),
            )
        }
    ),
)


def healths() -> Callable[[], Coolings]:
    """Who cools, as a turn finds it out where nothing has to be read."""
    clock = VirtualClock()
    health = SharedHealth(InMemory(), clock)
    cause = Cause("t1", 0.0, ErrorKind.UNAVAILABLE, Evidence("told"))

    async def open_one() -> None:
        now = clock.now()
        event = partial(failed, breaker=Breaker(failures=1), cause=cause, wait=None, now=now)
        health.happened(("", "b", DECLARED[1].fingerprint), event)

    clock.run(open_one())
    return lambda: Breakers(health, DECLARED, "t2", clock, namespace="", note=print).coolings()


def medians(timed: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Microseconds a call of each, taken in turn."""
    taken: dict[str, list[float]] = {name: [] for name in timed}
    for _ in range(ROUNDS):
        for name, call in timed.items():
            began = perf_counter_ns()
            for _ in range(CALLS):
                call()
            taken[name].append((perf_counter_ns() - began) / CALLS / 1000)
    return {name: median(times) for name, times in taken.items()}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args(arguments)
    request, policy = Request(BODY, {}), Policy()
    asks, nothing = asks_of(ON, request), Wants()
    cooling = healths()
    assert list(cooling()) == ["b"]
    found = medians(
        {
            "the choice, every option off": lambda: Selection(PLAIN, policy, wants=nothing).rulings(EMPTY),
            "a turn until its first probe, off": lambda: new_turn(OFF, asks, EMPTY),
            "a turn until its first probe, on": lambda: new_turn(
                ON, asks, REMEMBERED, pin="b", coolings=cooling()
            ),
            "what the request needs and its size": lambda: asks_of(ON, request),
        }
    )
    for name, time in found.items():
        print(f"{name:40}{time:8.2f} us")
    off, before, after, reading = found.values()
    more = reading + after - before
    print(f"every option off: {off:.2f} us   to reach: {OFF_LIMIT:g}")
    print(f"all on, 2 KB: {more:.2f} us   to reach: {ON_LIMIT:g}")
    return 1 if given.check and (off > OFF_LIMIT or more > ON_LIMIT) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
