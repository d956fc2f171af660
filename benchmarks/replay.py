"""How many records a second `turnout replay` plays, decoding included, on one core.

    python benchmarks/replay.py [--check]

The records are those of sessions made up by chance, which hold every sort of turn. A floor in the same
run is the decoding alone. With `--check` the exit status is 1 below 20,000 records a second.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

TESTS: Final = Path(__file__).parent.parent / "tests"
sys.path[:0] = [str(TESTS / "support"), str(TESTS / "proof")]

from random_sessions import session  # noqa: E402 - where it is has just been said

from turnout.engine.audit import decode, encode  # noqa: E402
from turnout.engine.replay import replay  # noqa: E402

LEAST: Final = 20_000
ROUNDS: Final = 15


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args(arguments)
    lines = [encode(record) for seed in range(40) for record in session(seed)]
    decoding, playing = [], []
    for _ in range(ROUNDS):
        began = perf_counter()
        for line in lines:
            decode(line)
        decoded = perf_counter()
        differing = sum(replay(decode(line)) is not None for line in lines)
        decoding.append(decoded - began)
        playing.append(perf_counter() - decoded)
    rate, alone = len(lines) / median(playing), len(lines) / median(decoding)
    size = sum(map(len, lines)) / len(lines)
    print(f"{len(lines)} records of {size:.0f} bytes, {differing} differ")
    print(f"decoded and played: {rate:,.0f} a second   to reach: {LEAST:,}")
    print(f"decoded alone:      {alone:,.0f} a second")
    return 1 if given.check and (rate < LEAST or differing) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
