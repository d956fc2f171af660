"""What the tests of memories have in common, with the stories that every memory has to pass."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from turnout import InMemory
from turnout.engine.memory.protocol import Memory
from turnout.engine.testing.conformance import (
    LARGE,
    NOW,
    SMALL,
    WHO,
    everyone,
    overflow,
    refusal,
    strip,
    stripped,
    sweep,
)

__all__ = [
    "LARGE",
    "NOW",
    "SMALL",
    "WHO",
    "CountsSettling",
    "everyone",
    "overflow",
    "refusal",
    "strip",
    "stripped",
    "sweep",
    "using",
]


@asynccontextmanager
async def using(memory: Memory) -> AsyncIterator[Memory]:
    try:
        yield memory
    finally:
        await memory.close()


class CountsSettling(InMemory):
    """Counts how often habits are written."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0

    async def settle(self, *whose: Any, **when: Any) -> Any:
        self.writes += 1
        return await super().settle(*whose, **when)
