"""The proof, printed: `python tests/proof/report.py [--ladder N]`.

The whole of it takes some minutes. First what the explorer walked, then every mutant of every machine, of
the rules of a choice and of the policy with the properties that caught it, and those that change nothing with
the reason. Exit status 1 if a property is violated or a mutant survives without a reason.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from time import perf_counter

import health_world
import probe_world
from mutants import (
    EQUIVALENT,
    Finding,
    health_findings,
    policy_findings,
    probe_findings,
    selection_findings,
    standing_findings,
    turn_findings,
)
from world import (
    ALL_OPTIONS,
    EVERY_KIND,
    OPTIONS,
    Figures,
    World,
    one_turn,
    sessions,
    sessions_by_effect,
    sessions_by_view,
    with_option,
)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Print the explorer's figures and the mutant table.")
    parser.add_argument("--ladder", type=int, default=5, metavar="N", help="the longest ladder, 1 to 5")
    longest = parser.parse_args(arguments).ladder
    sound = figures(longest)
    for title, findings in (
        ("turn", turn_findings((2, 3))),
        ("standing", standing_findings((2, 3))),
        ("probe", probe_findings()),
        ("health", health_findings()),
        ("selection", selection_findings()),
        ("policy", policy_findings()),
    ):
        sound = mutants(title, findings) and sound
    return 0 if sound else 1


def figures(longest: int) -> bool:
    print("what was walked                      ladder  contexts     paths  seconds  violations")
    walked = [_row("one turn, every kind of outcome", one_turn(World(n, EVERY_KIND))) for n in _upto(longest)]
    walked += [_row("all sessions", sessions(World(n))) for n in _upto(min(longest, 3))]
    walked += [_row("all sessions, by view", sessions_by_view(World(n))) for n in _upto(longest)]
    walked += [_row("one turn, with turns that overlap", one_turn(World(min(longest, 3), overlap=True)))]
    for option in OPTIONS:
        for n in _upto(min(longest, 3 if option == ALL_OPTIONS else 4)):
            walked.append(_row(f"health and {option}", sessions_by_effect(with_option(option, n))))
    health = health_world.walked()
    print(
        f"{'one target, whatever happens to it':43}{health.states:10}{len(health.endings):10}"
        f"{health.secs:9.2f}{len(health.violations):12}"
    )
    began = perf_counter()
    probes = probe_world.probes()
    violated = [ending for ending in probes if ending.violated]
    print(f"{'one probe':37}{'':16}{len(probes):10}{perf_counter() - began:9.2f}{len(violated):12}")
    return all(walked) and not violated and not health.violations


def _upto(longest: int) -> range:
    return range(1, longest + 1)


def _row(what: str, seen: Figures) -> bool:
    print(
        f"{what:37}{seen.size:6}{seen.contexts:10}{seen.paths:10}{seen.secs:9.2f}{len(seen.violations):12}",
        flush=True,
    )
    for ending in seen.violations[:3]:
        print(f"    {ending}")
    return not seen.violations


def mutants(title: str, findings: Iterable[Finding]) -> bool:
    print(f"\nmutants of {title}")
    found = list(findings)
    for finding in found:
        print(f"  {finding.name.removeprefix(f'{title}: ')}")
        for rule in finding.caught_by:
            print(f"      caught: {rule}")
        if not finding.caught_by:
            print(f"      equivalent: {EQUIVALENT.get(finding.name, 'NO REASON IS GIVEN: it survived')}")
    survived = [finding.name for finding in found if not finding.caught_by]
    unexplained = [name for name in survived if name not in EQUIVALENT]
    print(
        f"  {len(found)} mutants: {len(found) - len(survived)} caught,"
        f" {len(survived) - len(unexplained)} equivalent, {len(unexplained)} survived"
    )
    return not unexplained


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
