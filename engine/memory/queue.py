"""What is being written to a memory, and what waits for that: in order, and by whom it concerns."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterator, Sequence
from itertools import chain

from turnout.engine.context import Identity
from turnout.engine.memory.operations import Operation
from turnout.engine.memory.protocol import Change


class Kept:
    """An operation that is under way or waits to be written, and who waits for that."""

    __slots__ = ("_waiting", "attempt", "begun", "lost", "number", "operation", "waits")

    def __init__(self, operation: Operation, number: int) -> None:
        self.operation = operation
        self.number = number
        """Its place among all."""
        self.waits = False
        """Whether nobody sees to it but the queue."""
        self.attempt: asyncio.Task[Sequence[Change]] | None = None
        """What the store is asked, and may still do."""
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
            self._waiting.exception()  # who waited for it may have left

    def give_up(self) -> None:
        """Wait for the store no longer: it is asked anew, or not at all."""
        if self.attempt is not None:
            self.attempt.cancel()
            self.attempt = None


class Queue:
    """Operations by their number, from when they begin until they are written."""

    def __init__(self) -> None:
        self._number = 0
        self._kept: dict[Kept, None] = {}
        self._waiting: dict[Kept, None] = {}
        self._of: dict[tuple[str, str] | None, list[Kept]] = {}

    @property
    def waits(self) -> int:
        """How many nobody sees to but the queue."""
        return len(self._waiting)

    def add(self, operation: Operation) -> Kept:
        """It begins."""
        self._number += 1
        kept = Kept(operation, self._number)
        self._kept[kept] = None
        self._of.setdefault(operation.whose, []).append(kept)
        return kept

    def wait(self, kept: Kept) -> None:
        """It waits from now on."""
        if kept in self._kept and not kept.waits:
            kept.waits = True
            self._waiting[kept] = None
            if len(self._waiting) > 1 and self._last_but(kept) > kept.number:
                self._waiting = dict.fromkeys(sorted(self._waiting, key=lambda one: one.number))

    def _last_but(self, kept: Kept) -> int:
        return next(one.number for one in reversed(self._waiting) if one is not kept)

    def first(self) -> Kept:
        """The first that waits."""
        return next(iter(self._waiting))

    def remove(self, kept: Kept) -> None:
        if self._kept.pop(kept, kept) is kept:
            return  # it went meanwhile
        self._waiting.pop(kept, None)
        its = self._of[kept.operation.whose]
        its.remove(kept)
        if not its:
            del self._of[kept.operation.whose]

    def oldest_idle(self) -> Kept:
        """The first that waits and that the store is not just asked."""
        return next((kept for kept in self._waiting if kept.attempt is None), self.first())

    def before(self, kept: Kept) -> Kept | None:
        """Something that has to be written before it: about the same session, or either about all."""
        whose = kept.operation.whose
        its = self._kept if whose is None else chain(self._of.get(whose, ()), self._of.get(None, ()))
        return next((one for one in its if one.number < kept.number), None)

    def alike(self, operation: Operation) -> bool:
        """Whether the very same waits already, and nothing about its session after it."""
        its = self._of.get(operation.whose, [])
        return bool(its) and its[-1].waits and its[-1].operation == operation

    def about(self, identity: Identity) -> Iterator[Kept]:
        """What of it may concern an identity, in order."""
        its, everyones = self._of.get(identity[:2], ()), self._of.get(None, ())
        yield from heapq.merge(its, everyones, key=lambda kept: kept.number)

    def under_way(self) -> list[Kept]:
        """What somebody else sees to."""
        return [kept for kept in self._kept if not kept.waits]

    def clear(self) -> None:
        for kept in self._kept:
            kept.give_up()
        self._kept.clear()
        self._waiting.clear()
        self._of.clear()
