"""What recording costs a turn, in microseconds: to make the record, number it, and hand it to two sinks.

    python benchmarks/recording.py [--check]

The turns are those of sessions made up by chance, of every sort. The sinks do nothing, in threads of their
own; what they then do costs no turn anything. With `--check` the exit status is 1 above 15 microseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from typing import Final

TESTS: Final = Path(__file__).parent.parent / "tests"
sys.path[:0] = [str(TESTS / "support"), str(TESTS / "proof")]

from random_sessions import session  # noqa: E402 - where it is has just been said

from turnout import InMemory, Router, Target  # noqa: E402
from turnout.engine.replay import play_again, turn_of  # noqa: E402

LIMIT: Final = 15.0
ROUNDS: Final = 20


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args(arguments)
    records = [record for seed in range(10) for record in session(seed)]
    turns = []
    for record in records:
        turns.append(turn_of(record))
        play_again(record, turns[-1])
    found = asyncio.run(timed(list(zip(records, turns, strict=True))))
    print(f"to make and hand over a record, of {len(records)}: {found:.1f} us median   to reach: {LIMIT:g}")
    return 1 if given.check and found > LIMIT else 0


async def timed(turns: list) -> float:  # type: ignore[type-arg]
    router = Router(
        ladder=[Target("a", base_url="http://upstream.example")],
        memory=InMemory(),
        sinks=[lambda _: None, lambda _: None],
    )
    taken = []
    async with router:
        for _ in range(ROUNDS):
            for record, turn in turns:
                began = perf_counter_ns()
                made = turn.record(
                    route=record.route,
                    caller=record.caller,
                    started=record.started,
                    took=record.took,
                    request=record.request,
                    error=record.error,
                    usage=record.usage,
                    health=record.health,
                )
                router._keep(made)
                taken.append((perf_counter_ns() - began) / 1000)
            await asyncio.sleep(0.01)
    return median(taken)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
