"""Targets' health as one process knows it and tells it to the others.

What a turn has shown counts here at once, and is told to the store beside the turns: of one
target one call at a time, with all that has come since the last one. So a hundred probes that
fail together cost one write, and none of them waits. What could not be told is told when the
store is back, the latest of it at least.

Only a trial is waited for, since the store alone knows who has it. None of this is ever
raised, and a store that has trouble with it is not away for that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import msgspec

from turnout.engine.clock import Clock, Wanted
from turnout.engine.errors import MemoryTrouble
from turnout.engine.health import WELL, Health, Moved, answered
from turnout.engine.memory.protocol import Memory
from turnout.engine.targets import usable

LOG: Final = logging.getLogger("turnout")

BELIEVED_SECS: Final = 1.0
"""How long a target's health is believed that was read or written, in seconds."""
PATIENCE: Final = 5.0
"""Seconds that the store has for a call that no turn waits for."""
FIRST_WAIT: Final = 0.25
LONGEST_WAIT: Final = 5.0
"""How long it is left alone after trouble, doubling from the first to the longest, in seconds."""
CLOSING: Final = 1.0
"""Seconds that it has when the router closes."""
MOST_UNTOLD: Final = 1000
"""Of one target; one more, and the oldest goes."""

_RAISED: Final = (Exception, asyncio.CancelledError)
"""What a store may raise: turns go on, whatever it is."""

Which = tuple[str, str, str]
"""A target: its namespace, name and fingerprint."""
Event = Callable[[Health], Moved]
"""What has happened to a target, as what it makes of its health. Pure."""


class _Known:
    """What is known of one target."""

    def __init__(self) -> None:
        self.current: Health = WELL
        """What the store had, with what it has not been told yet."""
        self.read_at = float("-inf")
        """When the store had that, in monotonic time."""
        self.untold: list[Event] = []
        self.writer: asyncio.Task[None] | None = None
        self.writes = 0
        self.trouble = ""
        """Why the store could not be told, until it is."""
        self.waiting: list[tuple[Event, asyncio.Future[None]]] = []

    def is_stored(self, health: Health, at: float) -> None:
        self.current, self.read_at = _made_of(self.untold, health), at


class SharedHealth:
    """The health of targets, for one router.

    Args:
        timeout_ms: how long a turn waits for the store, in milliseconds.
        is_left_alone: whether the store is not to be asked just now, since it did not answer.
    """

    def __init__(
        self,
        memory: Memory,
        clock: Clock,
        *,
        timeout_ms: float = 100,
        is_left_alone: Callable[[], bool] = lambda: False,
    ) -> None:
        self._memory = memory
        self._clock = clock
        self._timeout = usable(timeout_ms / 1000)
        self._is_left_alone = is_left_alone
        self._known: dict[Which, _Known] = {}
        self._reading: dict[Which, asyncio.Task[None]] = {}
        self._read_again = float("-inf")
        self._trouble = ""
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = asyncio.Event()

    def of(self, which: Which) -> Health:
        """How a target is, as far as is known here."""
        known = self._known.get(which)
        return WELL if known is None else known.current

    async def look(self, targets: Sequence[Which]) -> None:
        """See to it that what is known of some targets of one namespace is not older than a second.

        Raises:
            MemoryTrouble: it cannot be read just now.
        """
        old = [which for which in targets if self._is_old(which)]
        if not old:
            return
        if self._may_not_read():
            told = self._trouble or "memory: could not read health"
            raise MemoryTrouble(f"{told}; it is asked again in a moment")
        self._read(old)
        reading = {self._reading[which] for which in old}
        try:
            async with self._clock.timeout(self._timeout):
                for task in reading:
                    await asyncio.shield(task)
        except TimeoutError as late:
            raise self._cannot_read("no answer in time") from late
        if self._trouble:
            raise MemoryTrouble(self._trouble)

    def happened(self, which: Which, event: Event) -> Moved:
        """Something has happened to a target. It counts here at once, and is told to the store."""
        known = self._entry(which)
        moved = event(known.current)
        if moved.health is not known.current:
            known.current = moved.health
            known.untold.append(event)
            del known.untold[:-MOST_UNTOLD]
            if known.writer is None:
                known.writer = self._start(self._tell(which, known))
        return moved

    def answered(self, which: Which) -> Moved:
        """A target has answered. Where nothing is known against it there is nothing to tell; if that was
        known a while ago, it is looked at again, beside the turn.
        """
        if self._entry(which).current.clean and self._is_old(which) and not self._may_not_read():
            self._read([which], after_answer=True)
        return self.happened(which, partial(answered, now=self._clock.now()))

    async def asked_for(self, which: Which, event: Event) -> None:
        """The same as `happened`, until the store has said what it makes of it.

        Raises:
            MemoryTrouble: it does not just now: what is known here counts.
        """
        self.happened(which, event)
        known = self._known[which]
        if event not in known.untold:
            return
        if known.trouble:
            raise MemoryTrouble(known.trouble)
        told = asyncio.get_running_loop().create_future()
        known.waiting.append((event, told))
        try:
            async with self._clock.timeout(self._timeout):
                await told
        except TimeoutError as late:
            raise MemoryTrouble("memory: could not keep health: no answer in time") from late
        if known.trouble:
            raise MemoryTrouble(known.trouble)

    async def close(self) -> None:
        """Tell what is untold, if the store lets it, now or never."""
        self._closing.set()
        for cancel in (False, True):
            if tasks := tuple(self._tasks):
                for task in tasks if cancel else ():
                    task.cancel()
                with suppress(TimeoutError):
                    async with self._clock.timeout(CLOSING):
                        await asyncio.wait(tasks)
        if any(known.untold for known in self._known.values()):
            LOG.warning("memory: what was last known of targets' health could not be kept")

    # -- the store

    def _read(self, targets: Sequence[Which], *, after_answer: bool = False) -> None:
        """Have these read, those that are not just read.

        Args:
            after_answer: they have just answered: whatever speaks against them, they did so after that.
        """
        missing = [which for which in targets if which not in self._reading]
        if missing:
            task = self._start(self._refresh(missing, after_answer=after_answer))
            self._reading.update(dict.fromkeys(missing, task))

    async def _refresh(self, targets: Sequence[Which], *, after_answer: bool) -> None:
        began = self._clock.now()
        at, pairs = self._clock.monotonic(), [which[1:] for which in targets]
        writes = [self._entry(which).writes for which in targets]
        try:
            async with self._clock.timeout(PATIENCE):
                found = [_whole(health) for health in await self._memory.health(targets[0][0], pairs)]
            if len(found) != len(targets):
                raise MemoryTrouble("memory: could not read health: it is of other targets")
        except _RAISED as error:
            if not self._closing.is_set():
                self._cannot_read(_told(error))
            return
        finally:
            for which in targets:
                self._reading.pop(which, None)
        self._trouble = ""
        for which, health, before in zip(targets, found, writes, strict=True):
            known = self._entry(which)
            if known.writes != before:
                continue  # what was written meanwhile is newer
            known.is_stored(health, at)
            if after_answer and not known.untold:
                self.happened(which, partial(answered, now=began))

    def _cannot_read(self, why: str) -> MemoryTrouble:
        trouble = why if why.startswith("memory") else f"memory: could not read health: {why}"
        if not self._trouble:
            LOG.warning("%s", trouble)
        self._trouble = trouble
        self._read_again = self._clock.monotonic() + BELIEVED_SECS
        return MemoryTrouble(trouble)

    async def _tell(self, which: Which, known: _Known) -> None:
        """Tell the store what it does not know, until nothing is left."""
        wait, wanted = FIRST_WAIT, Wanted()
        while known.untold:
            events = tuple(known.untold)
            try:
                async with self._clock.timeout(PATIENCE):
                    stored = _whole(await self._memory.change_health(*which, partial(_made_of, events)))
            except _RAISED as error:
                if not wanted:
                    raise asyncio.CancelledError from error
                if not known.trouble:
                    LOG.warning("memory: could not keep health: %s", _told(error))
                known.trouble = f"memory: could not keep health: {_told(error)}"
                self._release(known, events)
                if self._closing.is_set():
                    break
                await self._until_closing(wait)
                wait = min(2 * wait, LONGEST_WAIT)
                continue
            wait, known.trouble = FIRST_WAIT, ""
            known.writes += 1
            told = set(map(id, events))
            known.untold = [event for event in known.untold if id(event) not in told]
            known.is_stored(stored, self._clock.monotonic())
            self._release(known, events)
        known.writer = None

    async def _until_closing(self, secs: float) -> None:
        with suppress(TimeoutError):
            async with self._clock.timeout(secs):
                await self._closing.wait()

    def _release(self, known: _Known, events: Sequence[Event]) -> None:
        """Whoever waits for one of these waits no longer."""
        these = set(map(id, events))
        for event, told in known.waiting:
            if id(event) in these and not told.done():
                told.set_result(None)
        known.waiting = [(event, told) for event, told in known.waiting if not told.done()]

    def _may_not_read(self) -> bool:
        return self._is_left_alone() or self._clock.monotonic() < self._read_again

    def _is_old(self, which: Which) -> bool:
        known = self._known.get(which)
        return known is None or self._clock.monotonic() >= known.read_at + BELIEVED_SECS

    def _entry(self, which: Which) -> _Known:
        return self._known.setdefault(which, _Known())

    def _start(self, doing: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(doing)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _whole(health: Any) -> Health:
    """A health as a store gave it, if it is one."""
    try:
        return msgspec.convert(msgspec.to_builtins(health), Health)
    except (msgspec.ValidationError, TypeError, ValueError, OverflowError) as error:
        raise MemoryTrouble(f"memory: could not read health: it is none: {error}") from error


def _made_of(events: Sequence[Event], health: Health) -> Health:
    for event in events:
        health = event(health).health
    return health


def _told(error: BaseException) -> str:
    return str(error) or type(error).__name__
