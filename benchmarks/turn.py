"""What a pure turn costs, and what it would cost on the stock triggers of `transitions`.

    python benchmarks/turn.py [--check]

The turn has five transitions (`probed`, `capability`, `advance`, `probed`, `answered`) and
leaves its record. Both sides run the same `Turn` on machines made from the same rows, in
one process and in turns, so that whatever disturbs one disturbs the other. With `--check`
the exit status is 1 if ours takes more than a fifth of the stock one's time.
"""

from __future__ import annotations

import gc
import sys
from statistics import median
from time import perf_counter_ns
from typing import Any

from transitions import Machine

from turnout.engine.classify.verdict import Evidence, Verdict
from turnout.engine.targets import Target
from turnout.engine.turn import Turn
from turnout.machines import turn as turn_machine
from turnout.machines.stepping import Definition, Step, Steppable
from turnout.machines.vocabulary import ErrorKind

LIMIT = 0.2
REPEATS = 200
TURNS = 20
"""Turns of one side in each repeat."""

LADDER = (Target("small"), Target("large"))
NO_IMAGES = Verdict(
    kind=ErrorKind.CAPABILITY, evidence=Evidence("told", "error.code"), status=400, features=("image",)
)


class StockMachine:
    """A stock machine with the same rows, behind the one method that a `Turn` calls.

    The model is not added to it: that would cost as much again.
    """

    def __init__(self, definition: Definition) -> None:
        self._machine = Machine(
            model=None,
            states=[{"name": str(s), "final": s in definition.final} for s in definition.states],
            initial=str(definition.initial),
            transitions=[
                {
                    "trigger": arc.trigger,
                    "source": arc.source,
                    "dest": arc.dest,
                    "conditions": None if arc.guard.startswith("!") else arc.guard or None,
                    "unless": arc.guard[1:] if arc.guard.startswith("!") else None,
                }
                for arc in definition.arcs
            ],
            auto_transitions=False,
        )

    def step(self, model: Steppable, trigger: str) -> Step:
        source = model.state = str(model.state)  # of an enum member it would take the name for the state
        if not self._machine.events[trigger].trigger(model):
            raise RuntimeError(f"{trigger} was refused in {source}")
        return Step(trigger, source, model.state)


def one_turn(machine: Any) -> Turn:
    """Five transitions and a record."""
    turn = Turn(LADDER, id="turn", machine=machine)
    turn.probed(NO_IMAGES, at=1.0)
    turn.act()
    turn.advance()
    turn.probed(None)
    turn.act()
    turn.record(route="chat", started=1.0, took=0.5)
    return turn


def microseconds(machine: Any) -> float:
    """One turn's share of a repeat."""
    began = perf_counter_ns()
    for _ in range(TURNS):
        one_turn(machine)
    return (perf_counter_ns() - began) / TURNS / 1000


def main(arguments: list[str]) -> int:
    sides = {"StepMachine": turn_machine.MACHINE, "stock": StockMachine(turn_machine.DEFINITION)}
    walked = {name: one_turn(machine).steps for name, machine in sides.items()}
    if walked["StepMachine"] != walked["stock"]:
        raise RuntimeError(f"the two sides do not do the same: {walked}")
    for machine in sides.values():
        microseconds(machine)
    spent: dict[str, list[float]] = {name: [] for name in sides}
    gc.disable()
    for _ in range(REPEATS):
        for name, machine in sides.items():
            spent[name].append(microseconds(machine))
    medians = {name: median(times) for name, times in spent.items()}
    for name, time in medians.items():
        print(f"{name:12}{time:9.1f} us a turn")
    ratio = medians["StepMachine"] / medians["stock"]
    print(f"{'ratio':12}{ratio:9.3f}    (at most {LIMIT})")
    return 1 if "--check" in arguments and ratio > LIMIT else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
