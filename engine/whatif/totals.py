"""What a way of routing comes to: figures that are added up over turns, each with its least and its most."""

from __future__ import annotations

from math import inf
from operator import add
from typing import Final

FIGURES: Final = (
    *("elsewhere", "probes", "certain_rejections", "failed"),
    *("newly_failed", "newly_served", "seconds", "tokens_sent", "cost"),
)
"""By their places:

    elsewhere           turns that ask others, or end otherwise, than was recorded
    probes              targets asked
    certain_rejections  refusals by a target that had refused the same before in this conversation
    failed              turns that failed
    newly_failed        of them, those that were recorded as served
    newly_served        turns that were recorded as failed and are served
    seconds             that probes took, waits included
    tokens_sent         the estimated size of the request, once for each probe
    cost                of the answers, where targets declare a price
"""

Figures = tuple[float, ...]
"""A number for each of `FIGURES`."""

Range = tuple[Figures, Figures]
"""The least and the most of each. What has no most is infinite."""

ZERO: Final[Figures] = (0,) * len(FIGURES)
NOTHING: Final[Range] = (ZERO, ZERO)


def plus(one: Range, other: Range) -> Range:
    """Both, one after the other."""
    return tuple(map(add, one[0], other[0])), tuple(map(add, one[1], other[1]))


def either(one: Range | None, other: Range | None) -> Range | None:
    """One or the other; None stands for what cannot be."""
    if one is None or other is None:
        return one or other
    return tuple(map(min, one[0], other[0])), tuple(map(max, one[1], other[1]))


def widest(targets: int, size: int, *, served: bool, priced: bool) -> Range:
    """All that a turn on a ladder may come to, where nothing is known of it.

    Args:
        targets: of the ladder.
        size: of the request, in tokens.
        served: whether it was recorded as served.
        priced: whether a target of the ladder declares a price.
    """
    return ZERO, (
        1,
        targets,
        targets,
        1,
        int(served),
        int(not served),
        inf,
        targets * size,
        inf if priced else 0,
    )
