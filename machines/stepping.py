"""Stepping a `transitions` machine at the speed of a table look-up.

`transitions` is the only table: states, rows, guards and their order are its own. A stock
trigger builds an `EventData`, a partial and a dozen callback lists for every step, which
none of our rows uses; `step` looks up the cell, asks the guards on the model and sets the
state. `tests/test_parity.py` steps both through every cell and finds no difference but
one, which is wanted: what a stock trigger answers with a silent False is refused aloud here.

A machine is shared by every turn of a process and holds no model. A model is any object
with a `state` and the guards that the rows name; it is stepped synchronously.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, NotRequired, Protocol, TypedDict

from transitions import Machine, Transition

from turnout.machines.vocabulary import TurnoutError


class Row(TypedDict):
    """One row, in the definition format of `transitions`. `source` may list several states."""

    trigger: str
    source: str | list[str]
    dest: str
    conditions: NotRequired[str]
    unless: NotRequired[str]


class Arc(NamedTuple):
    """One row for one source, as pictures and checks read it. `guard` is empty, `name` or `!name`."""

    trigger: str
    source: str
    dest: str
    guard: str


class Step(NamedTuple):
    """One transition that was taken."""

    trigger: str
    source: str
    dest: str


class Steppable(Protocol):
    """What a machine steps: anything with a state, and with the guards that its rows name."""

    state: str


class InvalidMachine(TurnoutError):
    """A definition that could not work. Raised at import, so a broken machine never runs."""


class StepRefused(TurnoutError):
    """No row leads out of this state by this trigger, or its guard refused. Nothing was changed."""


@dataclass(frozen=True)
class Definition:
    """A machine as data: what pictures draw, explorers walk and `StepMachine` steps."""

    name: str
    states: tuple[str, ...]
    initial: str
    final: tuple[str, ...]
    rows: tuple[Row, ...]

    @cached_property
    def arcs(self) -> tuple[Arc, ...]:
        """The rows with every source spelled out, in the order in which they are tried."""
        return tuple(
            Arc(str(row["trigger"]), str(source), str(row["dest"]), _guard(row))
            for row in self.rows
            for source in _sources(row)
        )

    @cached_property
    def digest(self) -> str:
        """Names this very table: 16 hexadecimal digits, kept in every record made with it."""
        table = [self.name, self.initial, sorted(self.states), sorted(self.final), self.arcs]
        return hashlib.sha256(json.dumps(table).encode()).hexdigest()[:16]


def _sources(row: Row) -> list[str]:
    source = row["source"]
    return source if isinstance(source, list) else [source]


def _guard(row: Row) -> str:
    if unless := row.get("unless"):
        return f"!{unless}"
    return row.get("conditions", "")


class StepMachine(Machine):
    """The one machine of its kind in a process. Holds no model, has no queue and no callbacks."""

    def __init__(self, definition: Definition) -> None:
        super().__init__(
            model=None,
            name=definition.name,
            # plain strings: for enum members `transitions` takes the name, not the value
            states=[{"name": str(s), "final": s in definition.final} for s in definition.states],
            initial=str(definition.initial),
            transitions=[
                {
                    "trigger": str(row["trigger"]),
                    "source": [str(source) for source in _sources(row)],
                    "dest": str(row["dest"]),
                    "conditions": row.get("conditions"),
                    "unless": row.get("unless"),
                }
                for row in definition.rows
            ],
            auto_transitions=False,
        )
        self.definition = definition
        self._cells: dict[tuple[str, str], tuple[_Way, ...]] = {
            (trigger, source): tuple(_way(trigger, transition) for transition in transitions)
            for trigger, event in self.events.items()
            for source, transitions in event.transitions.items()
        }

    def step(self, model: Steppable, trigger: str) -> Step:
        """Take the first row that leads out of the model's state by `trigger` and whose guard holds.

        Raises:
            StepRefused: there is none; the model is as it was.
        """
        for step, guards in self._cells.get((trigger, model.state), ()):
            for guard, wanted in guards:
                if getattr(model, guard)() is not wanted:
                    break
            else:
                model.state = step.dest
                return step
        raise StepRefused(
            f"{self.name}no row leads from state {str(model.state)!r} by trigger {str(trigger)!r}"
            " under the present guards; the state is unchanged"
        )


_Way = tuple[Step, tuple[tuple[str, bool], ...]]
"""A row that may be taken, and the answer that each of its guards has to give."""


def _way(trigger: str, transition: Transition) -> _Way:
    guards = tuple((str(condition.func), condition.target) for condition in transition.conditions)
    return Step(trigger, transition.source, str(transition.dest)), guards


def validate(definition: Definition) -> Definition:
    """The definition itself, if it can work.

    `transitions` accepts undeclared states and a mistyped `initial`; we do not.

    Raises:
        InvalidMachine: naming everything that is wrong with it.
    """
    states, arcs = set(map(str, definition.states)), definition.arcs
    wrong = [f"state {s!r} is declared twice" for s in states if definition.states.count(s) > 1]
    wrong += [f"initial state {definition.initial!r} is not declared"] * (definition.initial not in states)
    wrong += [f"final state {s!r} is not declared" for s in definition.final if s not in states]
    for arc in arcs:
        wrong += [f"{arc}: state {s!r} is not declared" for s in (arc.source, arc.dest) if s not in states]
        wrong += [f"{arc}: leads out of a final state"] * (arc.source in definition.final)
    reached, grew = {str(definition.initial)}, True
    while grew:
        more = {arc.dest for arc in arcs if arc.source in reached} - reached
        grew, reached = bool(more), reached | more
    wrong += [f"state {s!r} is never reached" for s in sorted(states - reached)]
    leaving = {arc.source for arc in arcs}
    wrong += [
        f"state {s!r} has no way out and is not final"
        for s in sorted(states - leaving)
        if s not in definition.final
    ]
    ending = _reaching(set(map(str, definition.final)), arcs) if definition.final else states
    wrong += [f"no final state can be reached from state {s!r}" for s in sorted(states - ending)]
    for trigger, source in dict.fromkeys((arc.trigger, arc.source) for arc in arcs):
        wrong += _undecided(
            trigger, source, [a.guard for a in arcs if (a.trigger, a.source) == (trigger, source)]
        )
    if wrong:
        raise InvalidMachine(f"machine {definition.name!r}: " + "; ".join(wrong))
    return definition


def _reaching(goal: set[str], arcs: tuple[Arc, ...]) -> set[str]:
    while more := {arc.source for arc in arcs if arc.dest in goal} - goal:
        goal = goal | more
    return goal


def _undecided(trigger: str, source: str, guards: list[str]) -> list[str]:
    """What is wrong with the rows of one cell: each must be able to win, and one must always win."""
    where = f"trigger {trigger!r} from {source!r}"
    wrong, settled = [], False
    for place, guard in enumerate(guards):
        if settled or guard in guards[:place]:
            wrong.append(f"{where}: row {place + 1} can never be taken")
        opposite = guard[1:] if guard.startswith("!") else f"!{guard}"
        settled = settled or not guard or opposite in guards[:place]
    return wrong if settled else [*wrong, f"{where}: no row is left when every guard refuses"]
