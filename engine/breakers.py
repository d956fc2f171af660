"""The health of a ladder's targets, as one turn meets it: who cools, who gets a trial, what it shows.

Nothing of it ever stands between a caller and an answer: a store that is away leaves a note, and
the turn goes by what this process knows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from turnout.engine.audit import HealthStep
from turnout.engine.classify.verdict import Verdict
from turnout.engine.clock import Clock
from turnout.engine.context import Cause
from turnout.engine.errors import MemoryTrouble
from turnout.engine.health import (
    COUNTS,
    Breaker,
    Health,
    Moved,
    cooling,
    failed,
    needs_trial,
    returned,
    tried,
)
from turnout.engine.memory.shared_health import SharedHealth, Which
from turnout.engine.selection import Coolings
from turnout.engine.targets import Target
from turnout.machines.stepping import Step


class _Watched(NamedTuple):
    """A target that has a breaker."""

    which: Which
    breaker: Breaker


class Breakers:
    """Of one turn.

    Args:
        turn: names it; a trial is its own.
        note: told what went wrong.
    """

    def __init__(
        self,
        health: SharedHealth,
        ladder: Sequence[Target],
        turn: str,
        clock: Clock,
        *,
        namespace: str,
        note: Callable[[MemoryTrouble], None],
    ) -> None:
        self._health = health
        self._watched = {
            target.name: _Watched((namespace, target.name, target.fingerprint), target.breaker)
            for target in ladder
            if target.breaker is not None
        }
        self._turn = turn or f"{id(self):x}"
        self._clock = clock
        self._note = note
        self._tried: set[str] = set()
        self._trials: set[str] = set()
        """Those that it still has."""
        self.steps: tuple[HealthStep, ...] = ()
        """What this turn has caused, for the record."""

    async def read(self) -> Coolings:
        """Who cools now."""
        if self._watched:
            try:
                await self._health.look([watched.which for watched in self._watched.values()])
            except MemoryTrouble as trouble:
                self._note(trouble)
        return self.coolings()

    def coolings(self) -> Coolings:
        """Who cools now, as far as this process knows."""
        now = self._clock.now()
        found = {
            name: cooling(name, self._health.of(watched.which), self._turn, now=now)
            for name, watched in self._watched.items()
        }
        return {name: cools for name, cools in found.items() if cools is not None}

    async def may_ask(self, target: Target) -> bool:
        """Whether the turn may ask a target that does not cool.

        One that has cooled is asked by one turn only; this sees to it that it is this one.
        """
        watched = self._watched.get(target.name)
        if watched is None or not needs_trial(self._health.of(watched.which), self._turn):
            return True
        now = self._clock.now()
        seen: list[Step] = []

        def event(health: Health) -> Moved:
            moved = tried(health, watched.breaker, self._turn, now=now)
            seen[:] = moved.steps
            return moved

        self._trials.add(target.name)  # before it is known: who leaves meanwhile returns it
        try:
            await self._health.asked_for(watched.which, event)
        except MemoryTrouble as trouble:
            self._note(trouble)
        health = self._health.of(watched.which)
        if health.trial == self._turn:
            self._tried.add(target.name)
            self._keep(target.name, Moved(health, tuple(seen)))
            return True
        self._trials.discard(target.name)
        return not needs_trial(health, self._turn)

    def on_trial(self, target: str) -> bool:
        """Whether this turn has asked for the target's trial, and got it."""
        return target in self._tried

    def settled(self, target: Target, verdict: Verdict | None) -> None:
        """A probe was settled, by an answer or by an error."""
        if (watched := self._watched.get(target.name)) is None:
            return
        now = self._clock.now()
        if verdict is None:
            self._trials.discard(target.name)
            self._keep(target.name, self._health.answered(watched.which))
        elif verdict.kind in COUNTS:
            self._trials.discard(target.name)
            cause = Cause(self._turn, now, verdict.kind, verdict.evidence, verdict.status)
            event = partial(failed, breaker=watched.breaker, cause=cause, wait=verdict.retry_after, now=now)
            self._keep(target.name, self._health.happened(watched.which, event))

    def give_back(self) -> None:
        """The trials that came to nothing."""
        while self._trials:
            name = self._trials.pop()
            event = partial(returned, turn=self._turn, now=self._clock.now())
            self._keep(name, self._health.happened(self._watched[name].which, event))

    def _keep(self, target: str, moved: Moved) -> None:
        health = moved.health
        self.steps += tuple(
            [HealthStep(target, step, health.at, health.failures, health.until) for step in moved.steps]
        )
