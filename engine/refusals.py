"""What a target has refused in one conversation, and which other turns of it that concerns.

A target that has refused a set of features is taken to refuse every turn that needs all of them, one that a
size did not fit into to refuse every turn of at least that size. Nothing else is assumed of anyone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar

from turnout.engine.classify.verdict import Feature, Verdict
from turnout.engine.context import Cause, Eviction
from turnout.engine.policy import EVICTED_AS
from turnout.machines.vocabulary import RoutingFallbackReason

T = TypeVar("T")


class Refuser(NamedTuple):
    """Who refuses: a target as it was, since another model or address is another one."""

    target: str
    fingerprint: str


class Refusal(NamedTuple):
    """A set of features that was refused or, where that is empty, a size."""

    by: Refuser
    features: tuple[str, ...] = ()
    size: int = 0
    """In tokens."""

    def concerns(self, needs: frozenset[str], size: int | None) -> bool:
        """Whether a turn that needs this, of this size, asks for what was refused."""
        if self.features:
            return Feature.OTHER in self.features or needs.issuperset(self.features)
        return size is not None and size >= self.size


class Refusals(Generic[T]):
    """All refusals of one conversation, each with what is known of it."""

    def __init__(self) -> None:
        self._sizes: dict[Refuser, tuple[Refusal, T]] = {}
        """Of each the smallest."""
        self._features: dict[Refuser, dict[Refusal, T]] = {}

    def add(self, refusal: Refusal, known: T) -> None:
        """Take one in. What is known of one that was there already is replaced."""
        if refusal.features:
            self._features.setdefault(refusal.by, {})[refusal] = known
        elif refusal.by not in self._sizes or refusal.size <= self._sizes[refusal.by][0].size:
            self._sizes[refusal.by] = refusal, known

    def find(self, by: Refuser, needs: frozenset[str], size: int | None) -> T | None:
        """What is known of a refusal that concerns a turn: of several an overflow, looked for first."""
        if (overflow := self._sizes.get(by)) is not None and overflow[0].concerns(needs, size):
            return overflow[1]
        for refusal, known in self._features.get(by, {}).items():
            if refusal.concerns(needs, size):
                return known
        return None


def refusal(by: Refuser, verdict: Verdict, needs: frozenset[str], size: int | None) -> Refusal | None:
    """What a verdict on a turn says of later ones; None if it says nothing of them."""
    reason = EVICTED_AS.get(verdict.kind)
    if reason is None or (reason is RoutingFallbackReason.CONTEXT_WINDOW and size is None):
        return None
    if reason is RoutingFallbackReason.CONTEXT_WINDOW:
        return Refusal(by, size=size or 0)
    told = verdict.features
    # told of what the request does not use, it may have meant anything
    known = told if told and needs.issuperset(told) else {*told, str(Feature.OTHER)}
    return Refusal(by, tuple(sorted(known)))


def refusals_of(eviction: Eviction) -> Iterator[Refusal]:
    """The same of an eviction, whose turn may not be among the records."""
    by = Refuser(eviction.target, eviction.fingerprint)
    if eviction.reason is RoutingFallbackReason.CONTEXT_WINDOW:
        if eviction.size is not None:
            yield Refusal(by, size=eviction.size)
        return
    for refused in sorted(eviction.refused) or [()]:
        yield Refusal(by, refused or (str(Feature.OTHER),))


def verdict_of(cause: Cause) -> Verdict:
    """The verdict that a cause was, as far as it was kept."""
    return Verdict(
        kind=cause.kind,
        evidence=cause.evidence,
        status=cause.status,
        code=cause.code,
        message=cause.message,
        features=cause.features,
    )
