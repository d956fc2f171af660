"""The world around a target's health, and what must hold whatever happens in it.

Everything that can happen to a target is tried in every state that it can come to: probes of any turn
fail or are answered, whenever they began; turns ask for it; a trial is returned, or nothing is heard of it; a
second passes. Beside the real functions of `engine/health.py` walks a witness that counts on its fingers
and never asks the rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from functools import partial
from itertools import product
from time import perf_counter
from typing import Final, NamedTuple

from msgspec.structs import replace

from turnout.engine.classify.verdict import Evidence
from turnout.engine.context import Cause
from turnout.engine.health import (
    WELL,
    Breaker,
    Health,
    answered,
    cooling,
    failed,
    needs_trial,
    returned,
    tried,
)
from turnout.machines.vocabulary import ErrorKind

NOW: Final = 1000.0
FAILURES: Final = (1, 3)
"""How many failures in a row open it, for one process and another."""
MOST_FAILURES: Final = max(FAILURES)
PAUSES: Final = (1.0, 2.0, 4.0, 4.0)
"""How long it cools the first time, the second time in a row and so on."""
WAITS: Final = (None, 3.0)
"""What a target that fails may ask for."""
CAUSE: Final = Cause("t", NOW, ErrorKind.UNAVAILABLE, Evidence("told"))


class Property(StrEnum):
    """What must hold on every path."""

    OPENS = "so many failed probes in a row open it, and nothing else does"
    LONGEST = "it cools for the longest that was asked for, or twice as long as before"
    PASSED_OVER = "who cools is passed over until its time is up, and no longer"
    ONE_TRIAL = "of all who ask, one at a time has the trial, and only its holder decides it by failing"
    CLOSES = "any answer closes it, and the next pause is the first one again"
    RETURNED = "a trial that came to nothing goes to the next who asks, and only its holder returns it"
    LAPSES = "a trial of which nothing is heard lapses"
    STEPS = "no transition is refused"


class Witness(NamedTuple):
    """What the rules say, in seconds from now."""

    cools: bool = False
    left: float = 0.0
    """Until its time is up, or the lease of its trial is; of one that does not cool, what it asked for."""
    on_trial: bool = False
    failures: int = 0
    pauses: int = 0

    def failed(self, wait: float | None, breaker: Breaker, turn: str) -> Witness:
        failures = min(self.failures + 1, MOST_FAILURES)
        if self.on_trial and turn != "holder":  # it was sent before the trial
            return self._replace(failures=failures)
        left = max(wait or 0.0, 0.0 if self.on_trial else self.left)
        if self.on_trial or (not self.cools and failures >= breaker.failures):
            pauses = min(self.pauses + 1, len(PAUSES) - 1)
            return Witness(True, max(left, PAUSES[self.pauses]), False, failures, pauses)
        return self._replace(left=left, failures=failures)

    @property
    def asked(self) -> Witness:
        """A turn asks for it."""
        if self.cools and self.left == 0:
            return self._replace(left=PAUSES[-1], on_trial=True)
        return self


class State(NamedTuple):
    health: Health
    witness: Witness


class Ending(NamedTuple):
    """One thing that happened in one state."""

    violated: tuple[Property, ...]
    events: tuple[str, ...]

    def __str__(self) -> str:
        return f"{'; '.join(self.violated) or 'all holds'}: {' > '.join(self.events)}"


class Figures(NamedTuple):
    """What a walk has seen."""

    states: int
    endings: tuple[Ending, ...]
    secs: float

    @property
    def violations(self) -> tuple[Ending, ...]:
        return tuple(ending for ending in self.endings if ending.violated)

    @property
    def violated(self) -> tuple[Property, ...]:
        found = {rule for ending in self.endings for rule in ending.violated}
        return tuple(rule for rule in Property if rule in found)


Event = tuple[str, Property, Callable[[Health], Health], Callable[[Witness], Witness]]
"""Its name, the property that it is about, what it makes of the health, and what it should."""


def events(state: State, breakers: Sequence[Breaker]) -> Iterator[Event]:
    """All that can happen."""
    for wait, breaker, turn in product(WAITS, breakers, ("holder", "another")):
        cause = replace(CAUSE, turn=turn)
        yield (
            f"failed for {turn}, asks for {wait}, {breaker.failures} are enough",
            Property.ONE_TRIAL
            if state.witness.on_trial
            else Property.LONGEST
            if state.witness.cools
            else Property.OPENS,
            partial(_after_failing, breaker=breaker, cause=cause, wait=wait),
            partial(Witness.failed, wait=wait, breaker=breaker, turn=turn),
        )
    yield ("answered", Property.CLOSES, lambda h: answered(h, now=NOW).health, lambda _: Witness())
    yield (
        "a turn asks for it",
        Property.LAPSES if state.witness.on_trial else Property.ONE_TRIAL,
        lambda h: tried(h, breakers[0], "new", now=NOW).health,
        lambda witness: witness.asked,
    )
    yield (
        "its trial is returned",
        Property.RETURNED,
        lambda h: returned(h, "holder", now=NOW).health,
        lambda w: w._replace(left=0.0, on_trial=False) if w.on_trial else w,
    )
    yield ("another returns", Property.RETURNED, lambda h: returned(h, "other", now=NOW).health, lambda w: w)
    yield (
        "a second passes",
        Property.PASSED_OVER,
        lambda health: replace(health, until=max(health.until - 1, NOW)),
        lambda witness: witness._replace(left=max(witness.left - 1, 0.0)),
    )


def _after_failing(health: Health, breaker: Breaker, cause: Cause, wait: float | None) -> Health:
    return failed(health, breaker, cause, wait=wait, now=NOW).health


def walked(failures: Sequence[int] = FAILURES) -> Figures:
    """Every event in every state that can be come to, with processes that set their breakers differently."""
    breakers = [Breaker(failures=some, cool_secs=PAUSES[0], max_cool_secs=PAUSES[-1]) for some in failures]
    began = perf_counter()
    first = State(replace(WELL, until=NOW), Witness())
    seen: dict[State, tuple[str, ...]] = {first: ()}
    queue, endings = deque([first]), []
    while queue:
        state = queue.popleft()
        for name, rule, happens, should in events(state, breakers):
            path = (*seen[state], name)
            try:
                after = State(_seen_from_now(happens(state.health)), should(state.witness))
            except Exception as error:  # noqa: BLE001  # what a changed machine does is told, not raised
                endings.append(Ending((Property.STEPS,), (*path, repr(error))))
                continue
            violated = () if _agree(after) else (rule,)
            endings.append(Ending(violated, path))
            if not violated and after not in seen:
                seen[after] = path
                queue.append(after)
    return Figures(len(seen), tuple(endings), perf_counter() - began)


def _seen_from_now(health: Health) -> Health:
    """The same without what makes no difference any more, so that the states come to an end."""
    return replace(
        health,
        failures=min(health.failures, MOST_FAILURES),
        openings=min(health.openings, len(PAUSES) - 1),
        until=max(health.until, NOW),
        trial="holder" if health.trial in ("new", "holder") else health.trial,
        cause=None,
        at=0.0,
    )


def _passed_over(health: Health, turn: str) -> bool:
    return cooling("t", health, turn, now=NOW) is not None


def _agree(state: State) -> bool:
    """Whether turns are told what the witness would tell them."""
    health, witness = state
    out = witness.cools and witness.left > 0
    return (
        _passed_over(health, "new") == out
        and needs_trial(health, "new") == witness.cools
        and (health.trial == "holder") == witness.on_trial
        and (not witness.on_trial or not _passed_over(health, "holder"))
        and health.until - NOW == witness.left
    )
