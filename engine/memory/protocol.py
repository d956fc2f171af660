"""What the engine asks of a memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from turnout.engine.context import Eviction, Identity, SessionContext


class Change(Struct, frozen=True):
    """One eviction that was removed: when, which, why."""

    at: float
    identity: Identity
    eviction: Eviction
    why: str
    """`served`, `restored`, `forgotten` or `expired`."""


class Memory(Protocol):
    """Keeps the evictions of every identity, and which injected keys a target has refused.

    Times are in seconds since 1970. Recording, stripping and removing commute with what other
    turns and processes do, so no lock is held between two calls. Each method raises
    MemoryTrouble where the store fails, and has changed nothing then. None of them blocks the
    event loop.
    """

    async def read(self, identity: Identity, *, now: float) -> SessionContext:
        """What is remembered for this identity; nothing after `ttl_secs` without use."""
        ...

    async def record(self, identity: Identity, eviction: Eviction) -> None:
        """Insert the eviction or merge it with its like, and note that the identity was in use.

        It is durable when this returns.
        """
        ...

    async def touch(self, identity: Identity, *, now: float) -> None:
        """The identity was in use. Writes only if it holds evictions, at most once per min(1 h, ttl/10)."""
        ...

    async def remove(
        self, identity: Identity, evictions: Sequence[Eviction], *, now: float, why: str
    ) -> tuple[Change, ...]:
        """Remove these evictions, each unless something was merged into it since it was read."""
        ...

    async def forget(
        self, namespace: str, session: str, agent: str | None = None, *, now: float
    ) -> tuple[Change, ...]:
        """Remove what exists for a session with all its agents, or for one agent of it (`""` is the root)."""
        ...

    async def restore_everywhere(self, namespace: str, target: str, fingerprint: str) -> None:
        """Make a target eligible again for every session at once, in constant time: a new epoch of it.

        What is recorded later stands.
        """
        ...

    async def stripped(
        self, namespace: str, target: str, fingerprint: str, configuration: str, *, now: float
    ) -> frozenset[str]:
        """The keys of `extra_body` that the target has refused; nothing `ttl_secs` after the last refusal.

        Args:
            configuration: a digest of the client's; what was learnt under another one does not count.
        """
        ...

    async def strip(
        self,
        namespace: str,
        target: str,
        fingerprint: str,
        configuration: str,
        keys: frozenset[str],
        *,
        now: float,
    ) -> None:
        """Add to what the target has refused, for every session. It is durable when this returns.

        Neither `forget` nor `restore_everywhere` takes it back.
        """
        ...

    async def close(self) -> None:
        """Finish what was accepted and let go of the store. Calling it again does nothing."""
        ...
