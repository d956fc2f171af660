"""A memory as one turn uses it: whose it is, and its trouble told or raised.

Under `serve` a store that fails or is slow never stands between a caller and an answer:
the turn goes on with what this process knows, and its record says so. Under `raise` the turn is
broken. Removals, refused keys and bookkeeping come after the turn's final state and only ever leave
a note.
"""

from __future__ import annotations

from typing import Literal

from turnout.engine.clock import Clock
from turnout.engine.context import EMPTY, Eviction, Identity, SessionContext
from turnout.engine.errors import MemoryTrouble
from turnout.engine.habits import NO_HABITS, Habits
from turnout.engine.memory.keeper import Keeper
from turnout.engine.memory.operations import Forget, Operation, Record, Remove, Settle, Strip

OnMemoryError = Literal["serve", "raise"]


class BoundedMemory:
    """The memory of one identity for one turn, and of what its targets have refused.

    Args:
        identity: whose memory; None is nobody's, which is empty and keeps nothing.
        namespace: whose targets' refused keys; they are no identity's.
    """

    def __init__(
        self,
        keeper: Keeper,
        identity: Identity | None,
        clock: Clock,
        *,
        namespace: str,
        on_error: OnMemoryError = "serve",
    ) -> None:
        self._keeper = keeper
        self._identity = identity
        self._clock = clock
        self._namespace = namespace
        self._on_error = on_error
        self._known = EMPTY
        self._used = False
        """Whether the identity's last use is noted: recording does that."""
        self.notes: list[str] = []
        """What went wrong, for the record."""

    async def read(self) -> SessionContext:
        """What is remembered; what this process knows, if it cannot be read under `serve`.

        Raises:
            MemoryTrouble: it cannot be read, under `raise`.
        """
        if (identity := self._identity) is None:
            return EMPTY
        try:
            self._known = await self._keeper.read(identity)
        except MemoryTrouble as trouble:
            self._tell(trouble)
            self._known = self._keeper.known(identity).merge(self._known)
        return self._known

    async def record(self, eviction: Eviction) -> None:
        """Keep an eviction, durably.

        Raises:
            MemoryTrouble: it cannot be kept just now, under `raise`.
        """
        if (identity := self._identity) is None:
            return
        self._known = self._known.record(eviction)
        try:
            await self._keeper.do(Record(identity, eviction))
            self._used = True
        except MemoryTrouble as trouble:
            self._tell(trouble)

    async def keep_books(
        self, restored: tuple[Eviction, ...], habits: Habits = NO_HABITS, *, final: bool
    ) -> None:
        """What follows a turn's final state: remove what it contradicted, keep what the session has got used
        to, forget, or note the use.
        """
        if (identity := self._identity) is None:
            return
        now = self._clock.now()
        if final:
            whom = identity.agent or None  # a root's end is the end of all its agents
            await self._do(Forget(identity.namespace, identity.session, whom, now))
            return
        if restored:
            await self._do(Remove(identity, restored, now, "served"))
        if habits:
            self._used = True
            await self._do(Settle(identity, habits, now))
        if self._known and not self._used:
            try:
                await self._keeper.touch(identity)
            except MemoryTrouble as trouble:
                self.note(trouble)

    async def stripped(self, target: str, fingerprint: str, configuration: str) -> frozenset[str]:
        """The injected keys that a target is known to refuse; what this process knows, if it cannot be
        read under `serve`.

        Raises:
            MemoryTrouble: it cannot be read, under `raise`.
        """
        try:
            return await self._keeper.stripped(self._namespace, target, fingerprint, configuration)
        except MemoryTrouble as trouble:
            self._tell(trouble)
        return self._keeper.known_stripped(self._namespace, target, fingerprint, configuration)

    async def strip(self, target: str, fingerprint: str, configuration: str, keys: frozenset[str]) -> None:
        """Keep what a target has refused of the injected keys. Call it after the turn's final state."""
        now = self._clock.now()
        await self._do(Strip(self._namespace, target, fingerprint, configuration, keys, now))

    async def _do(self, operation: Operation) -> None:
        """Change what follows a final state, which nothing may change any more."""
        try:
            await self._keeper.do(operation)
        except MemoryTrouble as trouble:
            self.note(trouble)

    def note(self, trouble: MemoryTrouble) -> None:
        """Keep for the record what went wrong."""
        self.notes.append(str(trouble).encode("utf-8", "backslashreplace").decode())

    def _tell(self, trouble: MemoryTrouble) -> None:
        if self._on_error == "raise":
            raise trouble
        self.note(trouble)
