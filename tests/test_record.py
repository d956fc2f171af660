"""An audit record is enough to play its turn again: no network, no store, no clock."""

import random

import pytest
from world import CAPABILITY, EVERY_KIND, World

from turnout.engine.audit import AuditRecord, decode, encode
from turnout.engine.context import SessionContext
from turnout.engine.policy import Action, Policy
from turnout.engine.selection import Options
from turnout.engine.targets import Target
from turnout.engine.turn import Turn

INTERRUPTIONS = ("expired", "cancelled", "broken")


def replayed(record: AuditRecord) -> Turn:
    """The turn of a record, played again from nothing else."""
    turn = Turn(
        [Target(rung.target, model=rung.model, **rung.limits) for rung in record.ladder],
        policy=Policy.of_table({case: Action(action) for case, action in record.policy.items()}),
        context=SessionContext(record.standings_before),
        id=record.turn,
        options=Options(**record.options),
        needs=frozenset(record.needs),
        size=record.size,
        output=record.output,
        pin=record.pin or None,
    )
    rereads = {reread.before_step: SessionContext(reread.evictions) for reread in record.rereads}
    probes = iter(record.probes)
    for place, step in enumerate(record.steps):
        if step.trigger == "probed":
            probe = next(probes)
            turn.probed(probe.verdict, probe.attempts, at=probe.at, committed=probe.committed)
        elif step.trigger == "advance":
            turn.advance(rereads.get(place))
        elif step.trigger in INTERRUPTIONS:
            in_flight = next(probes, None)
            attempts, committed = (in_flight.attempts, in_flight.committed) if in_flight else ((), False)
            turn.interrupt(step.trigger, attempts, committed=committed)
        else:
            turn.act()
    return turn


def some_turn(chance: random.Random) -> AuditRecord:
    """A turn in which anything may happen, out of a session in which anything has."""
    world = World(chance.randint(1, 4), EVERY_KIND)
    context = SessionContext()
    for number in range(chance.randint(0, 3)):
        context = played(world, context, chance, f"earlier {number}", began=float(number)).context
    return played(world, context, chance, "now", began=10.0).record(started=10.0)


def played(world: World, context: SessionContext, chance: random.Random, name: str, *, began: float) -> Turn:
    policy = Policy(chance.choice([{}, {"capability": "skip"}, {"model_not_found": "evict"}]))
    needs = frozenset(chance.choice([(), ("image",)]))
    turn = Turn(
        world.ladder, policy=policy, context=context, id=name, needs=needs, size=chance.choice([None, 9])
    )
    while not turn.ended:
        outcome = chance.choice(world.outcomes)
        turn.probed(outcome.verdict, at=began + len(turn.steps) / 100, committed=outcome.committed)
        if chance.random() < 0.1:
            turn.interrupt(chance.choice(INTERRUPTIONS))
            break
        turn.act()
        if not turn.ended:
            turn.advance(meanwhile(turn, world, chance, began + len(turn.steps) / 100))
        if not turn.ended and chance.random() < 0.1:
            turn.interrupt(chance.choice(INTERRUPTIONS))
    return turn


def meanwhile(turn: Turn, world: World, chance: random.Random, now: float) -> SessionContext | None:
    """The standings as read again: not at all, unchanged, or with what another turn was told."""
    if chance.random() < 0.3:
        return None
    if chance.random() < 0.5:
        return turn.context
    other = Turn([chance.choice(world.ladder)], id="another")
    other.probed(CAPABILITY.verdict, at=now)
    other.act()
    return turn.context.merge(other.context)


@pytest.mark.parametrize("seed", range(20))
def test_the_record_suffices_to_play_the_turn_again(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(50):
        record = decode(encode(some_turn(chance)))
        again = replayed(record)
        assert again.steps == record.steps
        assert again.record(started=10.0) == record


def test_the_random_turns_are_of_every_sort() -> None:
    """The test above says nothing of what it never meets."""
    chance = random.Random(1)
    records = [some_turn(chance) for _ in range(1000)]
    assert {record.ended_by for record in records} == {"answered", "rejected", "advance", *INTERRUPTIONS}
    assert any(record.rereads for record in records)
    assert any(record.restored for record in records)
    assert any(record.passed_over for record in records)
