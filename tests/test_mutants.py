"""Each machine and the policy with one word changed at a time: the properties notice."""

from collections.abc import Callable, Iterator

import pytest
import report
from mutants import (
    EQUIVALENT,
    Finding,
    health_findings,
    mutants,
    policy_findings,
    probe_findings,
    selection_findings,
    standing_findings,
    turn_findings,
)
from world import Property, World, sessions

from turnout.machines import health, probe, standing, turn
from turnout.machines.catalog import MACHINES
from turnout.machines.stepping import StepMachine


@pytest.mark.parametrize(
    ("machine", "hunt"),
    [
        ("turn", turn_findings),
        ("standing", standing_findings),
        ("probe", probe_findings),
        ("health", health_findings),
        ("selection", selection_findings),
        ("policy", policy_findings),
    ],
)
def test_every_mutant_is_caught_or_listed_with_its_reason(
    machine: str, hunt: Callable[[], Iterator[Finding]]
) -> None:
    survived = [finding.name for finding in hunt() if not finding.caught_by]
    listed = [name for name in EQUIVALENT if name.startswith(f"{machine}:")]
    assert sorted(survived) == sorted(listed)


def test_the_mutants_are_all_there_are() -> None:
    """Counted by hand from the rows: each arc removed, and with each other destination, trigger, guard."""
    arcs, states, triggers, swaps = 22, 6, 10, 2
    guards = 3  # none, has_next, unless has_next
    assert len(list(mutants(turn.DEFINITION))) == arcs * (1 + states - 1 + triggers - 1 + guards - 1) + swaps
    assert len(list(mutants(standing.DEFINITION))) == 5 * (1 + 1 + 2)
    assert len(list(mutants(probe.DEFINITION))) == 15 * (1 + 3 + 5 + 4) + 2
    assert len(list(mutants(health.DEFINITION))) == 13 * (1 + 2 + 4 + 6) + 4
    assert len(list(selection_findings())) == 3 * (1 + 2) + 2
    for machine in MACHINES.values():
        made = list(mutants(machine.definition))
        assert len({mutant.name for mutant in made}) == len(made)
        assert machine.definition.arcs not in [mutant.definition.arcs for mutant in made]


def test_capability_for_this_turn_only_is_one_changed_word_and_is_noticed() -> None:
    (changed,) = [
        mutant.definition
        for mutant in mutants(turn.DEFINITION)
        if mutant.name == "turn: capability in classified to evicted -> skipped"
    ]
    violated = sessions(World(2, machine=StepMachine(changed))).violated
    assert Property.NOT_AGAIN in violated
    assert Property.LASTING in violated


def test_the_report_says_what_was_walked(capsys: pytest.CaptureFixture[str]) -> None:
    assert report.figures(1)
    printed = capsys.readouterr().out.splitlines()
    assert printed[1].split()[:-2] == ["one", "turn,", "every", "kind", "of", "outcome", "1", "1", "81"]
    assert len(printed) == 13


def test_the_report_lists_every_mutant_and_is_content_only_if_none_survived(
    capsys: pytest.CaptureFixture[str],
) -> None:
    equivalent = next(name for name in EQUIVALENT if name.startswith("turn:"))
    findings = [Finding("turn: a removed", (Property.ONCE,)), Finding(equivalent, ())]
    assert report.mutants("turn", findings)
    assert "2 mutants: 1 caught, 1 equivalent, 0 survived" in capsys.readouterr().out
    assert not report.mutants("turn", [*findings, Finding("turn: b -> c", ())])
    assert "NO REASON IS GIVEN" in capsys.readouterr().out
