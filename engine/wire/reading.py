"""What a request tells of itself before it is sent."""

from __future__ import annotations

from math import ceil
from typing import NamedTuple


class Reading(NamedTuple):
    """What a request needs, and how large it is."""

    needs: frozenset[str]
    """The features that it uses (`Feature` values), its history included."""
    text: float
    """The estimated tokens of all its texts, not rounded."""
    other: int
    """The tokens of what else it has: frames of messages and tools, images and other parts."""

    def tokens(self, scale: float = 1.0) -> int:
        """The estimated size in tokens, rounded up. The scale is that of the texts alone."""
        return ceil(self.text * scale + self.other)
