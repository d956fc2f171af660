"""What the tests of memories have in common, with the stories that every memory has to pass."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

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
