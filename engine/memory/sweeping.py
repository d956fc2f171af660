"""What sweeps of a store have in common that keeps no order of use: who was used least recently."""

from __future__ import annotations

from heapq import heappush, heappushpop
from typing import Final, Generic, TypeVar

T = TypeVar("T")

MOST_VICTIMS: Final = 4096
"""How many sessions a pass may crowd out. If there are more to go, another pass follows at once."""


class Oldest(Generic[T]):
    """The least recently used of many, of whom only so many are remembered."""

    def __init__(self) -> None:
        self._added = 0
        self._heap: list[tuple[float, int, T]] = []  # the most recently used of them on top

    def add(self, last_use: float, who: T) -> None:
        self._added += 1  # of those used at the same time, the first to be added is the oldest
        entry = (-last_use, -self._added, who)
        if len(self._heap) < MOST_VICTIMS:
            heappush(self._heap, entry)
        elif entry > self._heap[0]:
            heappushpop(self._heap, entry)

    def in_order(self) -> list[tuple[float, T]]:
        """Each with its last use, the oldest first."""
        return [(-negated, who) for negated, _, who in sorted(self._heap, reverse=True)]
