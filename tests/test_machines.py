"""The ground floor: definitions that are checked at import, steps that are taken or refused, walks."""

from typing import Any

import pytest

from turnout.machines import health, probe, standing, turn
from turnout.machines.catalog import DIGESTS, EVERY_TURN, MACHINES
from turnout.machines.explore import Choose, TooManyPaths, walk
from turnout.machines.stepping import (
    Definition,
    InvalidMachine,
    Row,
    Step,
    StepMachine,
    StepRefused,
    validate,
)
from turnout.machines.vocabulary import RoutingFallbackReason, TurnoutError

DOOR: tuple[Row, ...] = (
    {"trigger": "open", "source": "shut", "dest": "ajar", "unless": "locked"},
    {"trigger": "open", "source": "shut", "dest": "shut", "conditions": "locked"},
    {"trigger": "shut", "source": "ajar", "dest": "shut"},
    {"trigger": "break", "source": ["shut", "ajar"], "dest": "broken"},
)


def door(rows: tuple[Row, ...] = DOOR, **changes: Any) -> Definition:
    parts = {"name": "door", "states": ("shut", "ajar", "broken"), "initial": "shut", "final": ("broken",)}
    return Definition(**{**parts, "rows": rows, **changes})


class Door:
    def __init__(self, state: str = "shut", *, locked: bool = False) -> None:
        self.state = state
        self._locked = locked

    def locked(self) -> bool:
        return self._locked


# -- stepping


def test_a_step_moves_the_model_and_says_what_was_taken() -> None:
    model = Door()
    assert StepMachine(door()).step(model, "open") == Step("open", "shut", "ajar")
    assert model.state == "ajar"


def test_the_first_row_whose_guard_holds_is_taken() -> None:
    machine = StepMachine(door())
    assert machine.step(Door(locked=True), "open") == Step("open", "shut", "shut")
    assert machine.step(Door(locked=False), "open") == Step("open", "shut", "ajar")


def test_one_machine_steps_any_number_of_models_and_keeps_none() -> None:
    machine = StepMachine(door())
    one, other = Door(), Door()
    machine.step(one, "open")
    machine.step(other, "break")
    assert (one.state, other.state, machine.models) == ("ajar", "broken", [])


def test_a_trigger_without_a_row_is_refused_and_changes_nothing() -> None:
    machine, model = StepMachine(door()), Door("ajar")
    for _ in range(2):  # the table of `transitions` makes a row of what is looked up in it; ours must not
        with pytest.raises(StepRefused, match=r"door.*'ajar'.*'open'.*unchanged"):
            machine.step(model, "open")
    assert model.state == "ajar"
    assert [t.source for t in machine.get_transitions("open")] == ["shut", "shut"]
    assert "ajar" not in machine.events["open"].transitions


def test_a_guard_without_an_else_is_refused_aloud() -> None:
    model = Door(locked=True)
    with pytest.raises(StepRefused, match="guards"):
        StepMachine(door(DOOR[:1] + DOOR[2:])).step(model, "open")
    assert model.state == "shut"


def test_an_unknown_trigger_is_refused() -> None:
    model = Door()
    with pytest.raises(StepRefused, match="by trigger 'slam'"):
        StepMachine(door()).step(model, "slam")
    assert model.state == "shut"


def test_a_refusal_is_one_of_our_errors() -> None:
    assert issubclass(StepRefused, TurnoutError)
    assert issubclass(InvalidMachine, TurnoutError)
    assert issubclass(TooManyPaths, TurnoutError)


# -- what a definition must be


def row(trigger: str, source: str | list[str], dest: str, **guard: str) -> Row:
    return {"trigger": trigger, "source": source, "dest": dest, **guard}  # type: ignore[typeddict-item]


WRONG: dict[str, tuple[Definition, str]] = {
    "a state twice": (
        door(states=("shut", "ajar", "ajar", "broken")),
        "state 'ajar' is declared twice",
    ),
    "a mistyped initial": (door(initial="shutt"), "initial state 'shutt' is not declared"),
    "a mistyped final": (door(final=("broken", "brokn")), "final state 'brokn' is not declared"),
    "a mistyped dest": (door((*DOOR, row("slam", "ajar", "shutt"))), "state 'shutt' is not declared"),
    "a mistyped source": (door((*DOOR, row("slam", "ajarr", "shut"))), "state 'ajarr' is not declared"),
    "a way out of a final state": (
        door((*DOOR, row("mend", "broken", "shut"))),
        "leads out of a final state",
    ),
    "a state that is never reached": (
        door((*DOOR, row("open", "bolted", "ajar")), states=("shut", "ajar", "broken", "bolted")),
        "state 'bolted' is never reached",
    ),
    "a dead end": (door(final=()), "state 'broken' has no way out and is not final"),
    "a circle that no final state is reached from": (
        door(
            (
                *DOOR[:3],
                row("break", "shut", "broken"),
                row("jam", "ajar", "stuck"),
                row("jam", "stuck", "stuck"),
            ),
            states=("shut", "ajar", "broken", "stuck"),
        ),
        "no final state can be reached from state 'stuck'",
    ),
    "a row behind one that always wins": (
        door((*DOOR, row("shut", "ajar", "broken"))),
        "trigger 'shut' from 'ajar': row 2 can never be taken",
    ),
    "the same guard twice": (
        door((DOOR[0], DOOR[0], *DOOR[1:])),
        "trigger 'open' from 'shut': row 2 can never be taken",
    ),
    "a guard without an else": (
        door(DOOR[:1] + DOOR[2:]),
        "trigger 'open' from 'shut': no row is left when every guard refuses",
    ),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_a_definition_that_could_not_work_is_refused_with_the_mistake(mistake: str) -> None:
    definition, complaint = WRONG[mistake]
    with pytest.raises(InvalidMachine) as refused:
        validate(definition)
    assert complaint in str(refused.value)
    assert str(refused.value).startswith("machine 'door': ")


def test_every_mistake_is_named_at_once() -> None:
    with pytest.raises(InvalidMachine, match=r"'shutt' is not declared; .*'brokn' is not declared"):
        validate(door(initial="shutt", final=("brokn",)))


def test_a_definition_that_can_work_is_returned() -> None:
    sound = door()
    assert validate(sound) is sound


def test_a_machine_may_have_no_final_state() -> None:
    rows = (row("open", "shut", "ajar"), row("shut", "ajar", "shut"))
    assert validate(door(rows, states=("shut", "ajar"), final=()))


# -- the machines themselves


def test_the_catalog_holds_every_machine() -> None:
    assert list(MACHINES) == ["turn", "standing", "probe", "health"]
    assert EVERY_TURN == {"turn": turn.DIGEST, "standing": standing.DIGEST, "probe": probe.DIGEST}
    assert DIGESTS == {**EVERY_TURN, "health": health.DIGEST}


def test_a_digest_changes_with_any_word_of_the_table() -> None:
    changed = [
        door(),
        door(initial="ajar"),
        door(final=()),
        door(states=("shut", "ajar", "broken", "bolted")),
        door(name="gate"),
        door(DOOR[:-1]),
        door((row("open", "shut", "ajar", conditions="locked"), *DOOR[1:])),
    ]
    assert len({definition.digest for definition in changed}) == len(changed)
    assert door().digest == door().digest
    assert all(len(digest) == 16 for digest in DIGESTS.values())


def test_what_leaves_classified_for_another_target_is_a_fallback_reason() -> None:
    leaving = {
        arc.trigger
        for arc in turn.DEFINITION.arcs
        if arc.source == "classified" and arc.dest in ("evicted", "skipped")
    }
    assert leaving == {reason.value for reason in RoutingFallbackReason}


def test_unavailable_has_no_row_in_the_standing() -> None:
    assert RoutingFallbackReason.UNAVAILABLE not in {arc.trigger for arc in standing.DEFINITION.arcs}


# -- walking


def test_a_walk_plays_every_path_once_in_the_order_of_the_options() -> None:
    def breakfast(choose: Choose) -> str:
        drink = choose(["tea", "coffee"])
        return f"{drink}, {choose(['milk', 'sugar'])}" if drink == "tea" else drink

    assert list(walk(breakfast)) == ["tea, milk", "tea, sugar", "coffee"]


def test_a_story_without_a_choice_has_one_path() -> None:
    assert list(walk(lambda _: "so it goes")) == ["so it goes"]


@pytest.mark.parametrize(("limit", "stops"), [(8, False), (7, True)])
def test_a_walk_that_is_too_long_is_not_taken_for_a_whole_one(limit: int, stops: bool) -> None:
    def three_coins(choose: Choose) -> tuple[str, ...]:
        return tuple(choose("ht") for _ in range(3))

    def walked() -> list[tuple[str, ...]]:
        return list(walk(three_coins, limit=limit))

    if stops:
        with pytest.raises(TooManyPaths, match="more than 7 paths"):
            walked()
    else:
        assert len(set(walked())) == 8
