"""What a session remembers: the persisted machine context of one identity.

A context holds evictions and answers for standings, and keeps the session's habits beside
them. It never holds `unavailable`.
Recording is insert-or-merge; merging is a union that is commutative, associative and
idempotent, so two turns that overlap need no lock and lose nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from msgspec import Struct

from turnout.engine.classify.verdict import Evidence, Feature
from turnout.engine.habits import NO_HABITS, Habits
from turnout.machines import standing as standing_machine
from turnout.machines.vocabulary import ErrorKind, RoutingFallbackReason, Standing


class Identity(NamedTuple):
    """Whose memory it is. A root agent has the empty agent; a sub-agent's memory is its own."""

    namespace: str
    session: str
    agent: str = ""


class Cause(Struct, frozen=True, omit_defaults=True):
    """The first reject that led to an eviction."""

    turn: str
    at: float
    """When, in seconds since 1970."""
    kind: ErrorKind
    evidence: Evidence
    status: int | None = None
    code: str = ""
    message: str = ""
    """Redacted, at most 512 characters."""
    features: tuple[str, ...] = ()


Key = tuple[str, RoutingFallbackReason, str]
"""What makes two evictions of one identity the same: target, reason and fingerprint."""


class Eviction(Struct, frozen=True, omit_defaults=True):
    """One target that is out for one identity, for one reason: the first cause, merged with later ones."""

    target: str
    reason: RoutingFallbackReason
    fingerprint: str
    """Of the target as it was: learnt about another model or address, an eviction is inert."""
    first: Cause
    latest_turn: str
    latest_at: float
    size: int | None = None
    """The smallest size estimate that overflowed, in tokens."""
    refused: frozenset[tuple[str, ...]] = frozenset()
    """The sets of features that were refused, each sorted."""
    machine: str = standing_machine.DIGEST
    """The standing machine that it was recorded under."""

    @property
    def key(self) -> Key:
        return self.target, self.reason, self.fingerprint

    def merge(self, other: Eviction) -> Eviction:
        """The union of two evictions with the same key."""
        if other == self:
            return self
        first = min(self, other, key=lambda e: (e.first.at, e.first.turn, repr(e.first)))
        latest = max(self, other, key=lambda e: (e.latest_at, e.latest_turn, e.machine))
        sizes = [size for size in (self.size, other.size) if size is not None]
        return Eviction(
            self.target,
            self.reason,
            self.fingerprint,
            first=first.first,
            latest_turn=latest.latest_turn,
            latest_at=latest.latest_at,
            size=min(sizes, default=None),
            refused=self.refused | other.refused,
            machine=latest.machine,
        )

    def concerns(self, needs: frozenset[str]) -> bool:
        """Whether a turn with these needs asks for something that was refused, as far as was told."""
        if self.reason is RoutingFallbackReason.CONTEXT_WINDOW:
            return True
        return any(_asked_for(refused, needs) for refused in self.refused)

    def contradicted_by(self, needs: frozenset[str]) -> bool:
        """Whether serving a turn with these needs shows that nothing of the eviction holds any longer."""
        if self.reason is RoutingFallbackReason.CONTEXT_WINDOW:
            return True
        return bool(self.refused) and all(_asked_for(refused, needs) for refused in self.refused)


def _asked_for(refused: tuple[str, ...], needs: frozenset[str]) -> bool:
    return Feature.OTHER in refused or needs.issuperset(refused)


def _by_first_cause(eviction: Eviction) -> tuple[float, str, Key]:
    return eviction.first.at, eviction.first.turn, eviction.key


_ELIGIBLE: Final = Standing.ELIGIBLE
_EVICTED: Final = Standing.EVICTED


class _Model:
    """What the standing machine steps. No row of it has a guard."""

    __slots__ = ("state",)

    def __init__(self, state: str) -> None:
        self.state = state


class SessionContext:
    """The evictions of one identity. Immutable: recording and removing give another context."""

    __slots__ = ("_evictions", "habits")

    def __init__(self, evictions: Iterable[Eviction] = (), habits: Habits = NO_HABITS) -> None:
        self._evictions = {e.key: e for e in evictions}
        self.habits = habits
        """What the identity keeps beside them."""

    @property
    def evictions(self) -> tuple[Eviction, ...]:
        """All of them, oldest first cause first."""
        if len(self._evictions) < 2:
            return tuple(self._evictions.values())
        return tuple(sorted(self._evictions.values(), key=_by_first_cause))

    @property
    def by_key(self) -> Mapping[Key, Eviction]:
        """The same in whatever order."""
        return self._evictions

    def __bool__(self) -> bool:
        return bool(self._evictions) or bool(self.habits)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, SessionContext)
            and self._evictions == other._evictions
            and self.habits == other.habits
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"SessionContext({', '.join(f'{e.target} {e.reason}' for e in self.evictions)})"

    def of(self, target: str, fingerprint: str) -> tuple[Eviction, ...]:
        """The evictions of a target as it is now."""
        found = [e for e in self._evictions.values() if e.target == target and e.fingerprint == fingerprint]
        if len(found) > 1:  # in whatever order a store keeps them
            found.sort(key=_by_first_cause)
        return tuple(found)

    def standing(self, target: str, fingerprint: str) -> Standing:
        """The state of the standing machine for a target as it is now."""
        for eviction in self._evictions.values():
            if eviction.target == target and eviction.fingerprint == fingerprint:
                return _EVICTED
        return _ELIGIBLE

    def record(self, eviction: Eviction) -> SessionContext:
        """The context with this eviction in it, merged with one that has the same key."""
        key = eviction.key
        known = self._evictions.get(key)
        merged = eviction if known is None else known.merge(eviction)
        return self._stepped(eviction, eviction.reason, {**self._evictions, key: merged})

    def remove(self, eviction: Eviction) -> SessionContext:
        """The context without this eviction, unless something was merged into it since it was read."""
        known = self._evictions.get(eviction.key)
        if known is None or known.latest_turn != eviction.latest_turn:
            return self
        left = {key: e for key, e in self._evictions.items() if key != eviction.key}
        still_out = any(
            e.target == eviction.target and e.fingerprint == eviction.fingerprint for e in left.values()
        )
        return self._stepped(eviction, "" if still_out else "restored", left)

    def _stepped(self, of: Eviction, trigger: str, evictions: dict[Key, Eviction]) -> SessionContext:
        """The context with these evictions, if the standing machine comes to the same by this trigger."""
        model = _Model(self.standing(of.target, of.fingerprint))
        if trigger:
            standing_machine.MACHINE.step(model, trigger)
        changed = SessionContext.__new__(SessionContext)
        changed._evictions = evictions
        changed.habits = self.habits
        if (standing := changed.standing(of.target, of.fingerprint)) != model.state:
            raise AssertionError(f"standing of {of.target!r} is {standing}, its machine says {model.state}")
        return changed

    def merge(self, other: SessionContext) -> SessionContext:
        """The union of two contexts of one identity."""
        context = self.settle(other.habits)
        for eviction in other._evictions.values():
            context = context.record(eviction)
        return context

    def settle(self, habits: Habits) -> SessionContext:
        """The context with these habits merged into its own."""
        return self._with(self.habits.merge(habits)) if habits else self

    def unsettle(self, at: float) -> SessionContext:
        """The context without the habits of until then."""
        return self._with(self.habits.since(at)) if self.habits else self

    def _with(self, habits: Habits) -> SessionContext:
        changed = SessionContext.__new__(SessionContext)
        changed._evictions = self._evictions
        changed.habits = habits
        return changed


EMPTY: Final = SessionContext()
