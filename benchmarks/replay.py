"""How many records a second `turnout replay` and `turnout whatif` play, decoding included, on one core.

    python benchmarks/replay.py [--check]

The records are those of sessions made up by chance, which hold every sort of turn, and of which a policy
that skips capability rejects leaves much unknown. A floor in the same run is the decoding alone. With
`--check` the exit status is 1 below 20,000 records a second for the one, and 5,000 for the other.
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

from msgspec import structs  # noqa: E402
from random_sessions import session  # noqa: E402 - where it is has just been said

from turnout.engine.audit import AuditRecord, decode, encode  # noqa: E402
from turnout.engine.replay import replay  # noqa: E402
from turnout.engine.whatif import WhatIf  # noqa: E402
from turnout.engine.whatif.routing import ChangedPolicy  # noqa: E402

LEAST: Final = 20_000
LEAST_WHATIF: Final = 5_000
ROUNDS: Final = 15


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args(arguments)
    lines = [encode(record) for seed in range(40) for record in named(seed)]
    decoding, playing, asking = [], [], []
    for _ in range(ROUNDS):
        began = perf_counter()
        for line in lines:
            decode(line)
        decoded = perf_counter()
        differing = sum(replay(decode(line)) is not None for line in lines)
        played = perf_counter()
        whatif = WhatIf(ChangedPolicy({"capability": "skip"}))
        for line in lines:
            whatif.take(decode(line))
        report = whatif.report()
        decoding.append(decoded - began)
        playing.append(played - decoded)
        asking.append(perf_counter() - played)
    alone, rate, asked = (len(lines) / median(took) for took in (decoding, playing, asking))
    size = sum(map(len, lines)) / len(lines)
    print(f"{len(lines)} records of {size:.0f} bytes, {differing} differ")
    print(f"decoded alone:      {alone:,.0f} a second")
    print(f"decoded and played: {rate:,.0f} a second   to reach: {LEAST:,}")
    print(f"asked what if:      {asked:,.0f} a second   to reach: {LEAST_WHATIF:,}")
    print(f"                    {report.too_many_ways} of {report.sessions} sessions went too many ways")
    return 1 if given.check and (rate < LEAST or asked < LEAST_WHATIF or differing) else 0


def named(seed: int) -> list[AuditRecord]:
    """The records of one session, which has a name of its own."""
    return [
        structs.replace(record, caller=structs.replace(record.caller, session=f"s{seed}"))
        for record in session(seed)
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
