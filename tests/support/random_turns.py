"""Turns of every sort, made up by chance, with the records that they leave."""

from __future__ import annotations

import random

from world import CAPABILITY, EVERY_KIND, World

from turnout.engine.audit import AuditRecord, Caller
from turnout.engine.context import SessionContext
from turnout.engine.habits import Home, Place
from turnout.engine.health import Cooling
from turnout.engine.policy import Policy
from turnout.engine.selection import Options
from turnout.engine.turn import Turn

INTERRUPTIONS = ("expired", "cancelled", "broken")
CALLER = Caller(session="s1")


def some_turn(chance: random.Random) -> AuditRecord:
    """A turn in which anything may happen, out of a session in which anything has."""
    windows = [chance.choice([None, None, 5, 20]) for _ in range(4)]
    world = World(chance.randint(1, 4), EVERY_KIND, windows=windows)
    context = SessionContext()
    for number in range(chance.randint(0, 3)):
        context = played(world, context, chance, f"earlier {number}", began=float(number)).context
    return played(world, context, chance, "now", began=10.0).record(started=10.0, caller=CALLER)


def played(world: World, context: SessionContext, chance: random.Random, name: str, *, began: float) -> Turn:
    policy = Policy(chance.choice([{}, {"capability": "skip"}, {"model_not_found": "evict"}]))
    needs = frozenset(chance.choice([(), ("image",)]))
    options = Options(
        capability_scope=chance.choice(["target", "feature"]),
        readmit_below=chance.choice([None, 0.8]),
        affinity=chance.choice([None, "home"]),
    )
    turn = Turn(
        world.ladder,
        policy=policy,
        context=context,
        id=name,
        options=options,
        needs=needs,
        size=chance.choice([None, 9, 4]),
        calibrated=chance.choice([None, 12]),
        pin=chance.choice([None, world.ladder[-1].name]),
        home=chance.choice([None, at_home(world, chance)]),
        coolings=some_cool(world, chance),
    )
    if chance.random() < 0.3:
        turn.consider(None, some_cool(world, chance))
    while not turn.ended:
        outcome = chance.choice(world.outcomes)
        turn.probed(
            outcome.verdict,
            at=began + len(turn.steps) / 100,
            committed=outcome.committed,
            trial=chance.random() < 0.1,
        )
        if chance.random() < 0.1:
            turn.interrupt(chance.choice(INTERRUPTIONS))
            break
        turn.act()
        if not turn.ended and chance.random() < 0.1:
            turn.interrupt(chance.choice(INTERRUPTIONS))
        if not turn.ended:
            coolings = some_cool(world, chance) if chance.random() < 0.5 else None
            turn.advance(meanwhile(turn, world, chance, began + len(turn.steps) / 100), coolings)
        if not turn.ended and chance.random() < 0.1:
            turn.interrupt(chance.choice(INTERRUPTIONS))
    return turn


def at_home(world: World, chance: random.Random) -> Home:
    """A home that may be of this ladder, or no longer."""
    one, other = (chance.choice(world.ladder) for _ in "12")
    fingerprint = chance.choice([one.fingerprint, "another"])
    return Home(Place(one.name, fingerprint, 1.0), Place(other.name, other.fingerprint, 2.0), 1)


def some_cool(world: World, chance: random.Random) -> dict[str, Cooling]:
    cooling = [target.name for target in world.ladder if chance.random() < 0.2]
    return {name: Cooling(name, 100 + chance.random()) for name in cooling}


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
