"""What the engine asks of a memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from msgspec import Struct

from turnout.engine.context import Eviction, Identity, SessionContext
from turnout.engine.habits import NO_HABITS, Habits
from turnout.engine.health import Health


class Change(Struct, frozen=True, omit_defaults=True):
    """One eviction that was removed: when, which, why."""

    at: float
    identity: Identity
    eviction: Eviction
    why: str
    """`served`, `restored`, `forgotten`, `expired`, or `crowded out` by more recently used sessions."""
    writer: str = ""
    """The router that tells it, where it has sinks."""
    sequence: int = 0
    """Its number among all that this router has handed to its sinks, from 1."""


class Held(Struct, frozen=True):
    """What one identity holds."""

    identity: Identity
    last_use: float
    """In seconds since 1970; it may lie up to min(1 h, ttl/10) behind."""
    evictions: tuple[Eviction, ...]
    habits: Habits = NO_HABITS


class Page(NamedTuple):
    """A part of what a memory holds."""

    held: tuple[Held, ...]
    cursor: str
    """Where the next part begins, in the store's own words; empty if this was the last."""


class Swept(NamedTuple):
    """What one step of a sweep has come to."""

    changes: tuple[Change, ...]
    more: bool
    """Whether this pass has not come to its end."""


class Memory(Protocol):
    """Keeps the evictions and habits of every identity, and of each target which injected keys it has
    refused and how its health is.

    Times are in seconds since 1970. Recording, stripping and removing commute with what other
    turns and processes do, so no lock is held between two calls, and each may be done again
    later without harm. Each method raises MemoryTrouble where the store fails, and has changed
    nothing then; MemoryRefusal, where it is only this that cannot be kept or read. None of them
    blocks the event loop.
    """

    async def read(self, identity: Identity, *, now: float) -> SessionContext:
        """What is remembered for this identity; nothing after `ttl_secs` without use."""
        ...

    async def record(
        self, identity: Identity, eviction: Eviction, *, used: float | None = None
    ) -> Sequence[Change]:
        """Insert the eviction or merge it with its like, and note that the identity was in use.

        It is durable when this returns. What the identity held until then and had expired is removed,
        and comes back.

        Args:
            used: when the identity was in use, in seconds since 1970; the eviction's latest time where none
                is given.
        """
        ...

    async def settle(self, identity: Identity, habits: Habits, *, now: float) -> Sequence[Change]:
        """Merge habits into those of the identity, and note that it was in use.

        What the identity held until then and had expired is removed; its evictions come back.
        """
        ...

    async def touch(self, identity: Identity, *, now: float) -> None:
        """The identity was in use. Writes only if it holds anything, at most once per min(1 h, ttl/10)."""
        ...

    async def remove(
        self, identity: Identity, evictions: Sequence[Eviction], *, now: float, why: str
    ) -> tuple[Change, ...]:
        """Remove these evictions, each unless something was merged into it since it was read."""
        ...

    async def forget(
        self, namespace: str, session: str, agent: str | None = None, *, now: float
    ) -> tuple[Change, ...]:
        """Remove what was recorded until now for a session with all its agents, or for one agent of it
        (`""` is the root), habits as well. What is of a later time stands, also when this is done late.
        """
        ...

    async def restore_everywhere(self, namespace: str, target: str, fingerprint: str, *, now: float) -> None:
        """Make a target eligible again for every session at once, in constant time: a new epoch of it.

        What is recorded later stands, and so does what is of a later time, also when this is done late.
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

    async def health(self, namespace: str, targets: Sequence[tuple[str, str]]) -> Sequence[Health]:
        """How targets are, in their order, each given by its name and fingerprint. Of whom nothing is known,
        or nothing can be read, is well.
        """
        ...

    async def change_health(
        self, namespace: str, target: str, fingerprint: str, change: Callable[[Health], Health]
    ) -> Health:
        """Swap a target's health for what `change` makes of it, with nothing between; and give that.

        Args:
            change: pure; it may be called more than once. What it gives back as it was is not written.
        """
        ...

    async def held(
        self,
        namespace: str,
        session: str | None = None,
        *,
        now: float,
        cursor: str = "",
        most: int = 1000,
    ) -> Page:
        """Who holds evictions or habits, and which: a part of all, or of one session.

        What is there from the first part to the last is in one of them; what comes or goes meanwhile may be.

        Args:
            cursor: where the part begins, as the one before says.
            most: about how many identities a part has.
        """
        ...

    async def sweep(self, namespace: str, *, now: float, most: int = 1000) -> Swept:
        """One step of a pass that removes what has expired, and the least recently used sessions beyond
        `max_sessions`. Looks at about `most` identities; the next step goes on from there.
        """
        ...

    async def close(self) -> None:
        """Finish what was accepted and let go of the store. Calling it again does nothing."""
        ...
