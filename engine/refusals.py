"""What a target has refused in one conversation: all that may be assumed of it where nothing was recorded.

A target that has refused a set of features is taken to refuse every turn that needs all of them, one that a
size did not fit into to refuse every turn of at least that size. Nothing else is assumed of anyone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from turnout.engine.classify.verdict import Feature, Verdict
from turnout.engine.context import Cause, Eviction
from turnout.engine.policy import EVICTED_AS
from turnout.machines.vocabulary import RoutingFallbackReason


class Refusal(NamedTuple):
    """That a target has refused a set of features or, where that is empty, a size."""

    target: str
    features: tuple[str, ...] = ()
    size: int = 0
    """In tokens."""

    def concerns(self, needs: frozenset[str], size: int | None) -> bool:
        """Whether a turn that needs this, of this size, asks for what was refused."""
        if self.features:
            return Feature.OTHER in self.features or needs.issuperset(self.features)
        return size is not None and size >= self.size


def known_to_refuse(
    target: str, refusals: Iterable[Refusal], needs: frozenset[str], size: int | None
) -> Refusal | None:
    """The refusal of a target that concerns a turn: of several an overflow, which is looked for first."""
    found = None
    for refusal in refusals:
        if refusal.target == target and refusal.concerns(needs, size):
            if not refusal.features:
                return refusal
            found = found or refusal
    return found


def refusal(target: str, verdict: Verdict, needs: frozenset[str], size: int | None) -> Refusal | None:
    """What a verdict on a turn says of later ones; None if it says nothing of them."""
    reason = EVICTED_AS.get(verdict.kind)
    if reason is None or (reason is RoutingFallbackReason.CONTEXT_WINDOW and size is None):
        return None
    if reason is RoutingFallbackReason.CONTEXT_WINDOW:
        return Refusal(target, size=size or 0)
    told = verdict.features
    # told of what the request does not use, it may have meant anything
    known = told if told and needs.issuperset(told) else {*told, str(Feature.OTHER)}
    return Refusal(target, tuple(sorted(known)))


def refusals_of(eviction: Eviction) -> Iterator[Refusal]:
    """The same of an eviction, whose turn may not be among the records."""
    if eviction.reason is RoutingFallbackReason.CONTEXT_WINDOW:
        if eviction.size is not None:
            yield Refusal(eviction.target, size=eviction.size)
        return
    for refused in sorted(eviction.refused) or [()]:
        yield Refusal(eviction.target, refused or (str(Feature.OTHER),))


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
