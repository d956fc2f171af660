"""Every machine, the rules of a choice and the policy with one word changed, and which property notices.

A mutant changes one arc (a row for one of its sources): each other destination, each other
trigger, each other condition, the arc removed, and two arcs of one cell in the other order.
A mutant of the policy changes one entry to each other action; one of the rules of a choice takes one out,
changes the order of two, or who is the last resort. It is caught if some path
violates a property; one that no property catches must stand in `EQUIVALENT`, with the
reason why it changes nothing that anyone could see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Final, NamedTuple

import health_world
import probe_world
from world import EVERY_KIND, Figures, Property, World, one_turn, sessions, sessions_by_effect

from turnout.engine import selection
from turnout.engine.errors import ConfigurationError
from turnout.engine.policy import DEFAULT, Action, Policy
from turnout.engine.selection import Filter
from turnout.machines import health, probe, standing, turn
from turnout.machines.stepping import Arc, Definition, Row, StepMachine

_SECOND: Final = "it is tried second: the arc before it takes every turn that has a next target"
_LATER: Final = "it is tried second: the arc before it takes whatever its own guard would refuse"
_OPPOSITES: Final = "the two guards are each other's opposite, so their order decides nothing"
_KINDS: Final = "a parameter_reject is never retried and nothing else is corrected: never do both guards hold"
_LAST: Final = "it is tried last, and the arcs before it take every probe for which this guard would refuse"
_ANSWERED: Final = "an answer leaves no refusal, so that the guard always lets it pass"
_OF_NOBODY: Final = "whoever tells this has no trial just then, so that the guard always lets it pass"
_ITS_OWN: Final = "only who has the trial returns it, so that the guard always lets it pass"
_NO_FAILURE: Final = "only a failure can trip, so that the guard always lets it pass"
_CORRECTED: Final = "once it is corrected, or was refused for another cause, the guard always lets it pass"

EQUIVALENT: Final = {
    "turn: advance in evicted to failed [unless has_next] -> [always]": _SECOND,
    "turn: advance in skipped to failed [unless has_next] -> [always]": _SECOND,
    "turn: advance in evicted to probing [has_next] after the next": _OPPOSITES,
    "turn: advance in skipped to probing [has_next] after the next": _OPPOSITES,
    "probe: refused in sending to correcting [can_correct] after the next": _KINDS,
    "probe: refused in sending to settled -> [unless can_correct]": _LAST,
    "probe: refused in sending to settled -> [unless may_retry]": _LAST,
    "probe: answered in sending to settled -> [unless can_correct]": _ANSWERED,
    "probe: answered in sending to settled -> [unless may_retry]": _ANSWERED,
    "probe: resend in waiting to sending -> [unless can_correct]": _CORRECTED,
    "probe: resend in correcting to sending -> [unless can_correct]": _CORRECTED,
    "probe: resend in correcting to sending -> [unless may_retry]": _CORRECTED,
    "health: failed in closed to open [tripped] after the next": _OPPOSITES,
    "health: cooled in open to half_open [due] after the next": _OPPOSITES,
    "health: lapsed in half_open to open [due] after the next": _OPPOSITES,
    "health: failed in half_open to open [on_trial] after the next": _OPPOSITES,
    "health: failed in half_open to half_open [unless on_trial] -> [always]": _LATER,
    "health: failed in closed to closed [unless tripped] -> [unless on_trial]": _OF_NOBODY,
    "health: failed in open to open -> [unless on_trial]": _OF_NOBODY,
    "health: cooled in open to open [unless due] -> [unless on_trial]": _OF_NOBODY,
    "health: lapsed in half_open to half_open [unless due] -> [unless on_trial]": _OF_NOBODY,
    "health: returned in half_open to open -> [on_trial]": _ITS_OWN,
    "health: failed in closed to closed [unless tripped] -> [always]": _LATER,
    "health: cooled in open to open [unless due] -> [always]": _LATER,
    "health: lapsed in half_open to half_open [unless due] -> [always]": _LATER,
    "health: cooled in open to open [unless due] -> [unless tripped]": _NO_FAILURE,
    "health: lapsed in half_open to half_open [unless due] -> [unless tripped]": _NO_FAILURE,
    "health: returned in half_open to open -> [unless tripped]": _NO_FAILURE,
    **{
        f"health: answered in {state} to closed -> [unless {guard}]": why
        for state in ("closed", "open", "half_open")
        for guard, why in (("tripped", _NO_FAILURE), ("on_trial", _OF_NOBODY))
    },
    **{
        f"probe: {trigger} in {state} to settled -> [unless {guard}]": _CORRECTED
        for trigger in ("expired", "cancelled", "broken")
        for state, guard in (
            ("sending", "can_correct"),
            ("waiting", "can_correct"),
            ("correcting", "can_correct"),
            ("correcting", "may_retry"),
        )
    },
}
"""The mutants that change no behaviour, and why."""


class Mutant(NamedTuple):
    """A definition with one arc changed."""

    name: str
    definition: Definition


class Finding(NamedTuple):
    """What came of a mutant."""

    name: str
    caught_by: tuple[str, ...]
    """Every property that some path violated; empty if it survived."""


def mutants(definition: Definition) -> Iterator[Mutant]:
    """The definition with each of its arcs changed in every way, one change at a time."""
    arcs = list(definition.arcs)
    for place, arc in enumerate(arcs):
        where, before, after = f"{definition.name}: {_told(arc)}", arcs[:place], arcs[place + 1 :]
        yield Mutant(f"{where} removed", _with(definition, before + after))
        for what, instead in _changes(arc, definition):
            yield Mutant(f"{where} {what}", _with(definition, [*before, instead, *after]))
        for other, neighbour in enumerate(after):
            if neighbour[:2] == arc[:2]:
                swapped = [*before, neighbour, *after[:other], arc, *after[other + 1 :]]
                yield Mutant(f"{where} after the next", _with(definition, swapped))
                break


def _changes(arc: Arc, definition: Definition) -> Iterator[tuple[str, Arc]]:
    arcs = definition.arcs
    for dest in map(str, definition.states):
        if dest != arc.dest:
            yield f"-> {dest}", arc._replace(dest=dest)
    for trigger in dict.fromkeys(arc.trigger for arc in arcs):
        if trigger != arc.trigger:
            yield f"by {trigger}", arc._replace(trigger=trigger)
    guards = sorted({arc.guard.removeprefix("!") for arc in arcs} - {""})
    for guard in ("", *guards, *(f"!{guard}" for guard in guards)):
        if guard != arc.guard:
            yield f"-> {_guard(guard) or '[always]'}", arc._replace(guard=guard)


def _with(definition: Definition, arcs: Iterable[Arc]) -> Definition:
    # not validated: that import refuses most mutants is another matter than that the properties do
    return Definition(
        definition.name, definition.states, definition.initial, definition.final, tuple(map(_row, arcs))
    )


def _row(arc: Arc) -> Row:
    row: Row = {"trigger": arc.trigger, "source": arc.source, "dest": arc.dest}
    if arc.guard.startswith("!"):
        return {**row, "unless": arc.guard[1:]}
    return {**row, "conditions": arc.guard} if arc.guard else row


def _told(arc: Arc) -> str:
    return f"{arc.trigger} in {arc.source} to {arc.dest} {_guard(arc.guard)}".rstrip()


def _guard(guard: str) -> str:
    return f"[unless {guard[1:]}]" if guard.startswith("!") else f"[{guard}]" if guard else ""


# -- the hunt


def turn_findings(ladders: Iterable[int] = (1, 2, 3)) -> Iterator[Finding]:
    """Each mutant of the turn machine, on each length of ladder until it is caught."""
    for name, definition in mutants(turn.DEFINITION):
        machine = StepMachine(definition)
        yield Finding(name, _first_caught(lambda size, m=machine: World(size, machine=m), ladders))


def standing_findings(ladders: Iterable[int] = (1, 2, 3)) -> Iterator[Finding]:
    """Each mutant of the standing machine, seen through the contexts that are kept with it."""
    for name, definition in mutants(standing.DEFINITION):
        with _on(standing, StepMachine(definition)):
            yield Finding(name, _first_caught(World, ladders))


def probe_findings() -> Iterator[Finding]:
    """Each mutant of the probe machine, with each budget of retries until it is caught."""
    for name, definition in mutants(probe.DEFINITION):
        yield Finding(name, _first_caught_probing(StepMachine(definition)))


def health_findings() -> Iterator[Finding]:
    """Each mutant of the health machine."""
    for name, definition in mutants(health.DEFINITION):
        with _on(health, StepMachine(definition)):
            yield Finding(name, health_world.walked().violated)


def selection_findings() -> Iterator[Finding]:
    """The rules of a choice, changed in every way, where all of them are at work."""
    for name, filters in _other_filters(selection.FILTERS):
        own, selection.FILTERS = selection.FILTERS, filters  # type: ignore[misc]
        try:
            yield Finding(
                f"selection: {name}", _first_caught(_with_limits, (1, 2, 3), walk=sessions_by_effect)
            )
        finally:
            selection.FILTERS = own  # type: ignore[misc]


def _with_limits(size: int) -> World:
    return World(size, sizes=(50, 101), windows=(60, 100), cools=True, interrupted=False)


def _other_filters(filters: tuple[Filter, ...]) -> Iterator[tuple[str, tuple[Filter, ...]]]:
    for place, rule in enumerate(filters):
        yield f"{rule.why} removed", (*filters[:place], *filters[place + 1 :])
        if place + 1 < len(filters):
            swapped = (filters[place + 1], rule)
            yield f"{rule.why} after the next", (*filters[:place], *swapped, *filters[place + 2 :])
        for other in filters:
            if other is not rule:
                instead = rule._replace(survivor=other.survivor)
                yield (
                    f"{rule.why}, last resort of {other.why}",
                    (*filters[:place], instead, *filters[place + 1 :]),
                )


def policy_findings(size: int = 2) -> Iterator[Finding]:
    """Each entry of the default policy changed to each other action."""
    for case, action in DEFAULT.items():
        for instead in Action:
            if instead is not action:
                name = f"policy: {case} {action} -> {instead}"
                try:
                    policy = Policy.of_table({**DEFAULT, case: instead})
                except ConfigurationError as refused:
                    yield Finding(name, (str(refused),))
                    continue
                found = {
                    *one_turn(World(size, EVERY_KIND, policy=policy)).violated,
                    *sessions(World(size, policy=policy)).violated,
                }
                caught_by = tuple(rule for rule in Property if rule in found)
                yield Finding(name, caught_by)


def _first_caught(
    world: Callable[[int], World],
    ladders: Iterable[int],
    walk: Callable[[World], Figures] = sessions,
) -> tuple[str, ...]:
    for size in ladders:
        if violated := walk(world(size)).violated:
            return violated
    return ()


def _first_caught_probing(machine: StepMachine) -> tuple[str, ...]:
    for budget in (0, 1):
        if found := {rule for ending in probe_world.probes(machine, (budget,)) for rule in ending.violated}:
            return tuple(rule for rule in probe_world.Property if rule in found)
    return ()


@contextmanager
def _on(module: ModuleType, machine: StepMachine) -> Iterator[None]:
    """Have all that steps a machine step another one."""
    own, module.MACHINE = module.MACHINE, machine
    try:
        yield
    finally:
        module.MACHINE = own
