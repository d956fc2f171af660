"""A memory as one turn uses it: bounded in time, and its trouble told or raised.

Under `serve` a store that fails or is slow never stands between a caller and an answer:
the turn goes on with what it knows, and its record says so. Under `raise` the turn is
broken. Removals, refused keys and bookkeeping come after the turn's final state and only ever leave
a note.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal, TypeVar

from turnout.engine.clock import Begun, Clock, Wanted
from turnout.engine.context import EMPTY, Eviction, Identity, SessionContext
from turnout.engine.errors import MemoryTrouble
from turnout.engine.memory.protocol import Memory
from turnout.engine.targets import usable

T = TypeVar("T")

OnMemoryError = Literal["serve", "raise"]


class BoundedMemory:
    """The memory of one identity for one turn, and of what its targets have refused.

    Args:
        identity: whose memory; None is nobody's, which is empty and keeps nothing.
        namespace: whose targets' refused keys; they are no identity's.
        timeout_ms: how long each call may take, in milliseconds.
    """

    def __init__(
        self,
        memory: Memory,
        identity: Identity | None,
        clock: Clock,
        *,
        namespace: str,
        on_error: OnMemoryError = "serve",
        timeout_ms: float = 100,
    ) -> None:
        self._memory = memory
        self._identity = identity
        self._clock = clock
        self._namespace = namespace
        self._on_error = on_error
        self._timeout_ms = timeout_ms
        self._known = EMPTY
        self._used = False
        """Whether the identity's last use is noted: recording does that."""
        self.notes: list[str] = []
        """What went wrong, for the record."""

    async def read(self) -> SessionContext:
        """What is remembered; what this turn knew before, if it cannot be read under `serve`.

        Raises:
            MemoryTrouble: it cannot be read, under `raise`.
        """
        if self._identity is None:
            return EMPTY
        try:
            memory, identity, now = self._memory, self._identity, self._clock.now()
            self._known = await self._bounded("read", lambda: memory.read(identity, now=now))
        except MemoryTrouble as trouble:
            self._tell(trouble)
        return self._known

    async def record(self, eviction: Eviction) -> None:
        """Keep an eviction, durably.

        Raises:
            MemoryTrouble: it cannot be kept, under `raise`.
        """
        if (identity := self._identity) is None:
            return
        self._known = self._known.record(eviction)
        try:
            await self._bounded("record", lambda: self._memory.record(identity, eviction))
            self._used = True
        except MemoryTrouble as trouble:
            self._tell(trouble)

    async def keep_books(self, restored: tuple[Eviction, ...], *, final: bool) -> None:
        """What follows a turn's final state: remove what it contradicted, forget, or note the use."""
        if (identity := self._identity) is None:
            return
        memory = self._memory
        try:
            now = self._clock.now()
            if final:
                whom = identity.agent or None  # a root's end is the end of all its agents
                await self._bounded(
                    "forget",
                    lambda: memory.forget(identity.namespace, identity.session, whom, now=now),
                )
                return
            if restored:
                await self._bounded(
                    "restore", lambda: memory.remove(identity, restored, now=now, why="served")
                )
            if self._known and not self._used:
                await self._bounded("touch", lambda: memory.touch(identity, now=now))
        except Exception as trouble:  # noqa: BLE001 - the turn has ended, and nothing may change how
            self._note(trouble)

    async def stripped(self, target: str, fingerprint: str, configuration: str) -> frozenset[str]:
        """The injected keys that a target is known to refuse; none, if it cannot be read under `serve`.

        Raises:
            MemoryTrouble: it cannot be read, under `raise`.
        """
        memory, namespace, now = self._memory, self._namespace, self._clock.now()
        try:
            return await self._bounded(
                "read what was stripped",
                lambda: memory.stripped(namespace, target, fingerprint, configuration, now=now),
            )
        except MemoryTrouble as trouble:
            self._tell(trouble)
        return frozenset()

    async def strip(self, target: str, fingerprint: str, configuration: str, keys: frozenset[str]) -> None:
        """Keep what a target has refused of the injected keys. Call it after the turn's final state."""
        memory, namespace, now = self._memory, self._namespace, self._clock.now()
        try:
            await self._bounded(
                "keep what was stripped",
                lambda: memory.strip(namespace, target, fingerprint, configuration, keys, now=now),
            )
        except MemoryTrouble as trouble:
            self._note(trouble)

    def _note(self, trouble: Exception) -> None:
        self.notes.append(str(trouble).encode("utf-8", "backslashreplace").decode())

    def _tell(self, trouble: MemoryTrouble) -> None:
        if self._on_error == "raise":
            raise trouble
        self._note(trouble)

    async def _bounded(self, verb: str, doing: Callable[[], Awaitable[T]]) -> T:
        scope, wanted = None, Wanted()
        try:
            begun = Begun(doing())
            if begun.returned:
                return begun.result
            scope = self._clock.timeout(usable(self._timeout_ms / 1000))
            async with scope:
                return await begun
        except MemoryTrouble:
            raise
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and not wanted:
                raise
            if scope is not None and scope.expired():
                why = f"no answer within {self._timeout_ms:g} ms"
            else:
                why = f"{type(error).__name__}: {error}"
            raise MemoryTrouble(f"memory: could not {verb}: {why}") from error
