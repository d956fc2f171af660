"""What the tests of memories have in common: a session, and evictions as turns would record them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from turnout.engine.classify.verdict import Evidence
from turnout.engine.context import Cause, Eviction, Identity
from turnout.engine.memory.protocol import Memory
from turnout.machines.vocabulary import ErrorKind, RoutingFallbackReason

NOW = 1_767_225_600.0
WHO = Identity("", "s1")
SMALL, LARGE = "small", "large"


def refusal(
    *features: str, turn: str = "t1", at: float = NOW, target: str = SMALL, fingerprint: str = "f1"
) -> Eviction:
    """A target that was evicted because it refused these features."""
    return Eviction(
        target,
        RoutingFallbackReason.CAPABILITY,
        fingerprint,
        first=Cause(
            turn, at, ErrorKind.CAPABILITY, Evidence("says so", "error.message"), 400, features=features
        ),
        latest_turn=turn,
        latest_at=at,
        refused=frozenset({features}),
    )


def overflow(
    size: int, turn: str = "t1", at: float = NOW, target: str = SMALL, fingerprint: str = "f1"
) -> Eviction:
    """A target that was evicted because the conversation did not fit."""
    return Eviction(
        target,
        RoutingFallbackReason.CONTEXT_WINDOW,
        fingerprint,
        first=Cause(turn, at, ErrorKind.CONTEXT_WINDOW, Evidence("code", "error.code"), 400, "too_long"),
        latest_turn=turn,
        latest_at=at,
        size=size,
    )


async def strip(
    memory: Memory,
    *keys: str,
    namespace: str = "",
    target: str = SMALL,
    fingerprint: str = "f1",
    configuration: str = "c1",
    at: float = NOW,
) -> None:
    """Keep that a target has refused these keys."""
    await memory.strip(namespace, target, fingerprint, configuration, frozenset(keys), now=at)


async def stripped(
    memory: Memory,
    *,
    namespace: str = "",
    target: str = SMALL,
    fingerprint: str = "f1",
    configuration: str = "c1",
    now: float = NOW,
) -> frozenset[str]:
    """The keys that a target is known to refuse."""
    return await memory.stripped(namespace, target, fingerprint, configuration, now=now)


@asynccontextmanager
async def using(memory: Memory) -> AsyncIterator[Memory]:
    try:
        yield memory
    finally:
        await memory.close()
