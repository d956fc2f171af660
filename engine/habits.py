"""What a session keeps beside its evictions: where it is at home, and how its texts count in tokens.

A home is kept for each route, since each route has a ladder of its own. Merging is
commutative, associative and idempotent, as it is for evictions: turns that overlap need no lock.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Final

from msgspec import Struct, structs


class Place(Struct, frozen=True):
    """A target as it was when it served."""

    target: str
    fingerprint: str
    at: float
    """When, in seconds since 1970."""


class Home(Struct, frozen=True, omit_defaults=True):
    """Where a session's conversation stays on one route, so that its prompt cache stays warm."""

    home: Place
    """The first target that served; another one only since that was evicted."""
    last: Place
    """Who served last: it goes first while the home cannot."""
    moves: int = 0
    """How often the home has changed."""

    def merge(self, other: Home) -> Home:
        """The union of two: the home that was moved to last, the earlier one of two first ones."""
        ahead = min(self, other, key=lambda h: (-h.moves, h.home.at, h.home.target, h.home.fingerprint))
        last = max(self.last, other.last, key=lambda p: (p.at, p.target, p.fingerprint))
        return Home(ahead.home, last, ahead.moves)


def settled(home: Home | None, served: Place, *, out: bool) -> Home | None:
    """What a home becomes once a target has served; None if it stays as it is.

    Args:
        out: whether the home is evicted, or is no longer what it was.
    """
    if home is None:
        return Home(served, served)
    if out and not _same(served, home.home):
        return Home(served, served, home.moves + 1)
    return None if _same(served, home.last) else structs.replace(home, last=served)


def served_last(place: Place) -> Home:
    """What is told of a turn that moved no home: one that was forgotten meanwhile does not come back."""
    return Home(place, place, -1)


def _same(one: Place, other: Place) -> bool:
    return (one.target, one.fingerprint) == (other.target, other.fingerprint)


class Scale(Struct, frozen=True):
    """How the tokens of a session's texts compare with their estimate."""

    factor: float
    at: float
    """When an upstream reported it, in seconds since 1970."""

    @property
    def believable(self) -> bool:
        """Whether it can be so."""
        return FACTORS[0] <= self.factor <= FACTORS[1]


class Habits(Struct, frozen=True, omit_defaults=True):
    """All of that for one identity."""

    homes: Mapping[str, Home] = {}
    """By the route's id."""
    scale: Scale | None = None

    def __bool__(self) -> bool:
        return bool(self.homes) or self.scale is not None

    @property
    def latest_at(self) -> float:
        """When it was added to last; long ago, if never."""
        times = [home.last.at for home in self.homes.values()]
        return max([*times, self.scale.at] if self.scale is not None else times, default=-inf)

    def merge(self, other: Habits) -> Habits:
        """The union of two."""
        homes = dict(self.homes)
        for route, home in other.homes.items():
            homes[route] = home.merge(homes[route]) if route in homes else home
        scales = [habits.scale for habits in (self, other) if habits.scale is not None]
        return Habits(homes, max(scales, key=lambda scale: (scale.at, scale.factor), default=None))

    def since(self, at: float) -> Habits:
        """What is left of them if those of until then are forgotten: all, if anything is of a later time."""
        return self if self.latest_at > at else NO_HABITS


NO_HABITS: Final = Habits()


# -- tokens

MOST_TOKENS: Final = 10**12
"""The most that a size, or a report of tokens, is believed to be."""


# -- calibration

LEAST: Final = 200
"""Estimated tokens of text below which what an upstream reports says little: what frames a request weighs
too much in it."""
FACTORS: Final = 0.5, 2.0
"""The least and the largest factor that is believed. Beyond them something else was counted, such as
a prompt of the upstream's own, or an image."""
NOTABLE: Final = 0.05
"""A change of the factor by a smaller share is not kept: each costs a write."""


def calibrated(scale: Scale | None, *, text: float, other: int, reported: int, at: float) -> Scale | None:
    """The scale by what an upstream has reported of a request; None if nothing is learnt from it.

    Args:
        text: the estimate of the request's texts, in tokens, not scaled.
        other: the estimate of everything else in it, in tokens.
        reported: the tokens of the whole request, those of a prompt cache included.
    """
    if text < LEAST or other > text:  # what a request holds beside its texts is a guess
        return None
    factor = (reported - other) / text
    before = scale.factor if scale is not None and scale.believable else 1.0
    if not FACTORS[0] <= factor <= FACTORS[1] or abs(factor / before - 1) < NOTABLE:
        return None
    return Scale(round(factor, 3), at)
