"""What could not be written to a memory: in order, and what of it concerns whom."""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Iterator, Sequence

from turnout.engine.context import Identity
from turnout.engine.memory.operations import Operation
from turnout.engine.memory.protocol import Change


class Kept:
    """An operation that is under way or waits to be written, and who waits for that."""

    __slots__ = ("_waiting", "attempt", "begun", "lost", "number", "operation")

    def __init__(self, operation: Operation, number: int) -> None:
        self.operation = operation
        self.number = number
        """Its place among all."""
        self.attempt: asyncio.Task[Sequence[Change]] | None = None
        """What the store is asked, and may still do: what it removes has to be told."""
        self.begun = 0.0
        self.lost: BaseException | None = None
        """Why it never will be."""
        self._waiting: asyncio.Future[Sequence[Change]] | None = None

    async def written(self) -> Sequence[Change]:
        """Wait until it is."""
        if self._waiting is None:
            self._waiting = asyncio.get_running_loop().create_future()
        return await asyncio.shield(self._waiting)

    def settle(self, changes: Sequence[Change]) -> None:
        """It is written, or lost."""
        if self._waiting is None or self._waiting.done():
            return
        if self.lost is None:
            self._waiting.set_result(changes)
        else:
            self._waiting.set_exception(self.lost)

    def give_up(self) -> None:
        """Wait for the store no longer: it is asked anew, or not at all."""
        if self.attempt is not None:
            self.attempt.cancel()
            self.attempt = None


class Queue:
    """What waits to be written, in order, and what of it concerns whom."""

    def __init__(self) -> None:
        self._kept: deque[Kept] = deque()
        self._of: dict[tuple[str, str] | None, list[Kept]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def first(self) -> Kept:
        return self._kept[0]

    def add(self, kept: Kept) -> None:
        self._kept.append(kept)
        self._of.setdefault(kept.operation.whose, []).append(kept)

    def remove(self, kept: Kept) -> None:
        if kept not in self._of.get(kept.operation.whose, ()):
            return  # it went meanwhile
        self._kept.remove(kept)
        its = self._of[kept.operation.whose]
        its.remove(kept)
        if not its:
            del self._of[kept.operation.whose]

    def oldest_idle(self) -> Kept:
        """The first that the store is not just asked."""
        return next((kept for kept in self._kept if kept.attempt is None), self._kept[0])

    def about(self, identity: Identity) -> Iterator[Kept]:
        """What of it may concern an identity, in order."""
        its, everyones = self._of.get(identity[:2], ()), self._of.get(None, ())
        yield from heapq.merge(its, everyones, key=lambda kept: kept.number)

    def clear(self) -> None:
        for kept in self._kept:
            kept.give_up()
        self._kept.clear()
        self._of.clear()
