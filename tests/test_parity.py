"""Our step and the stock one of `transitions` do the same, in every cell of every machine."""

import itertools

import pytest
from transitions import Machine, MachineError

from turnout.machines.catalog import MACHINES
from turnout.machines.stepping import Definition, StepMachine, StepRefused

CELLS = [
    pytest.param(machine, state, trigger, id=f"{name}-{state}-{trigger}")
    for name, machine in MACHINES.items()
    for state in map(str, machine.definition.states)
    for trigger in dict.fromkeys(arc.trigger for arc in machine.definition.arcs)
]


class Model:
    """Holds a state, and answers each guard as it was told to."""

    def __init__(self, state: str, guards: dict[str, bool]) -> None:
        self.state = state
        for name, holds in guards.items():
            setattr(self, name, lambda holds=holds: holds)


def guards_of(definition: Definition) -> list[str]:
    return sorted({arc.guard.removeprefix("!") for arc in definition.arcs} - {""})


def combinations(definition: Definition) -> list[dict[str, bool]]:
    """Every way in which the guards of a machine can answer."""
    names = guards_of(definition)
    return [
        dict(zip(names, answers, strict=True))
        for answers in itertools.product((True, False), repeat=len(names))
    ]


def stock(definition: Definition, model: Model) -> Machine:
    """A machine as anyone would make it from the same rows, with the model added to it."""
    return Machine(
        model=model,
        states=[{"name": str(state), "final": state in definition.final} for state in definition.states],
        initial=model.state,
        transitions=[{key: plain(value) for key, value in row.items()} for row in definition.rows],
        auto_transitions=False,
    )


def plain(words: str | list[str]) -> str | list[str]:
    """Strings that are no enum members: of those, `transitions` would take the name for the state."""
    return [str(word) for word in words] if isinstance(words, list) else str(words)


def step_stock(definition: Definition, state: str, trigger: str, guards: dict[str, bool]) -> str | None:
    """The state that the stock machine leads to; None where it does not step."""
    model = Model(state, guards)
    stock(definition, model)
    try:
        stepped = model.trigger(trigger)  # type: ignore[attr-defined]  # given to the model by the machine
    except MachineError:
        stepped = False
    return model.state if stepped else None


def step_ours(machine: StepMachine, state: str, trigger: str, guards: dict[str, bool]) -> str | None:
    """The state that our machine leads to; None where it refuses, which has to leave the state alone."""
    model = Model(state, guards)
    try:
        step = machine.step(model, trigger)
    except StepRefused:
        assert model.state == state
        return None
    assert step == (trigger, state, model.state)
    return model.state


@pytest.mark.parametrize(("machine", "state", "trigger"), CELLS)
def test_every_cell_steps_as_the_stock_machine_does(machine: StepMachine, state: str, trigger: str) -> None:
    for guards in combinations(machine.definition):
        ours = step_ours(machine, state, trigger, guards)
        assert ours == step_stock(machine.definition, state, trigger, guards), guards


def test_a_refused_guard_is_the_difference_stock_says_nothing_and_we_raise() -> None:
    """With no way out of a guard, the stock machine returns False and the caller may miss it."""
    rows = ({"trigger": "go", "source": "here", "dest": "there", "conditions": "may_go"},)
    definition = Definition("gate", ("here", "there"), "here", ("there",), rows)  # type: ignore[arg-type]
    model = Model("here", {"may_go": False})
    stock(definition, model)
    assert model.trigger("go") is False  # type: ignore[attr-defined]
    with pytest.raises(StepRefused, match=r"gate.*'here'.*'go'"):
        StepMachine(definition).step(Model("here", {"may_go": False}), "go")


@pytest.mark.parametrize("name", MACHINES)
def test_the_machines_are_stock_in_everything_but_the_event(name: str) -> None:
    machine = MACHINES[name]
    assert isinstance(machine, Machine)
    assert machine.models == []
    assert list(machine.states) == list(map(str, machine.definition.states))
    assert [str(state) for state in machine.states if machine.get_state(state).final] == list(
        map(str, machine.definition.final)
    )
    assert len(machine.get_transitions()) == len(machine.definition.arcs)
