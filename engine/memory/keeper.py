"""A memory as a router uses it: each call bounded, its health known, and nothing lost while it is away.

What could not be written is kept in a bounded queue, in order, and written when the store is
back; nothing has to be restarted for that. Meanwhile reading gives what this process knows.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final, Literal, TypeVar

from msgspec import Struct

from turnout.engine.clock import Begun, Clock, Wanted
from turnout.engine.context import EMPTY, Identity, SessionContext
from turnout.engine.errors import MemoryRefusal, MemoryTrouble
from turnout.engine.memory.operations import Operation, Strip
from turnout.engine.memory.protocol import Change, Memory
from turnout.engine.memory.queue import Kept, Queue
from turnout.engine.targets import usable

LOG: Final = logging.getLogger("turnout")

MOST_QUEUED: Final = 10_000
"""Operations that are kept for a store that is away; one more, and the oldest goes."""
MOST_KNOWN: Final = 10_000
"""Identities that this process knows the evictions of beside the store."""
FIRST_WAIT: Final = 0.25
LONGEST_WAIT: Final = 5.0
"""How long the queue waits before it is tried again, doubling from the first to the longest, in seconds."""
PATIENCE: Final = 5.0
"""Seconds after which a change that the store has not answered is asked for anew."""
CLOSING: Final = 10.0
"""Seconds that the store has to close."""
SHARE: Final = 10
"""A store that was waited for in vain is left alone for so many times the wait: a tenth of the time at most
is lost to it."""
SWEEP_EVERY: Final = 60.0
"""Seconds from the end of one sweep to the next, while there are turns."""
SWEEPING: Final = 60.0
"""Seconds that a step of a sweep has: one that hangs is not the last one."""
STEP: Final = 1000
"""Identities that a step of a sweep looks at."""

_NOT_OURS: Final = (KeyboardInterrupt, SystemExit, GeneratorExit)
_OF_A_VALUE: Final = (ValueError, UnicodeEncodeError, OverflowError, TypeError)
"""What a store raises of a value, not of itself; of others, such as a reply that is no JSON, who knows."""

T = TypeVar("T")


class MemoryHealth(Struct, frozen=True):
    """How a memory is, as its router sees it."""

    state: Literal["well", "away"]
    """`away` since a call failed or took too long, until one succeeds and the queue is written."""
    since: float
    """When it came to be so, in seconds since 1970."""
    queued: int
    """Changes that wait to be written."""
    dropped: int
    """Changes that were lost since the router was made: the queue was full, or no store can hold them."""
    trouble: str = ""
    """What failed last, while it is away."""


class Keeper:
    """Keeps a memory for one router.

    Args:
        timeout_ms: how long each call may take, in milliseconds.
        on_change: told of everything that was removed. One that raises is logged.
    """

    def __init__(
        self,
        memory: Memory,
        clock: Clock,
        *,
        timeout_ms: float = 100,
        on_change: Callable[[Change], Any] | None = None,
    ) -> None:
        self._memory = memory
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._on_change = on_change
        self._queue = Queue()
        self._recovering: asyncio.Task[None] | None = None
        self._nudge: asyncio.Event | None = None
        self._nudged = float("-inf")
        self._known: OrderedDict[Identity, SessionContext] = OrderedDict()
        self._agents: dict[tuple[str, str], set[Identity]] = {}
        """Who of a session is known."""
        self._stripped: OrderedDict[tuple[str, str, str, str], frozenset[str]] = OrderedDict()
        self._reads: list[list[Operation]] = []
        """For each read under way what has been done since it began."""
        self._last: Identity | None = None
        """Who was read last: asked for again, it shows that the store is back."""
        self._trouble = ""
        self._since = clock.now()
        self._ask_again = float("-inf")
        self._dropped = 0
        self._swept = float("-inf")
        self._sweeping: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def health(self) -> MemoryHealth:
        """How the memory is just now."""
        state: Literal["well", "away"] = "away" if self._trouble else "well"
        return MemoryHealth(state, self._since, self._queue.waits, self._dropped, self._trouble)

    @property
    def is_left_alone(self) -> bool:
        """Whether the store is not asked just now, since it did not answer in time."""
        return self._clock.monotonic() < self._ask_again

    # -- reading

    async def read(self, identity: Identity) -> SessionContext:
        """What is remembered, with what waits to be written.

        Raises:
            MemoryTrouble: it cannot be read now; `known` says what this process knows.
        """
        self._sweep_if_due(identity.namespace)
        self._last = identity
        context = await self.peek(identity)
        if context or identity in self._known:
            self._know(identity, context)
        return context

    async def peek(self, identity: Identity) -> SessionContext:
        """What `read` would give. Nothing comes of it: nothing is swept, and nothing is known from it.

        Raises:
            MemoryTrouble: it cannot be read now.
        """
        now = self._clock.now()
        # written meanwhile, it may have been too late for the answer
        done: list[Operation] = [kept.operation for kept in self._queue.about(identity)]
        self._reads.append(done)
        try:
            context = await self._asked("read", lambda: self._memory.read(identity, now=now))
        finally:
            self._reads = [read for read in self._reads if read is not done]
        for operation in done:
            context = operation.after(identity, context)
        return context

    def known(self, identity: Identity) -> SessionContext:
        """What this process has read and done last."""
        return self._known.get(identity, EMPTY)

    async def stripped(
        self, namespace: str, target: str, fingerprint: str, configuration: str
    ) -> frozenset[str]:
        """The injected keys that a target is known to refuse.

        Raises:
            MemoryTrouble: it cannot be read now.
        """
        now, which = self._clock.now(), (namespace, target, fingerprint, configuration)
        keys = await self._asked("read what was stripped", lambda: self._memory.stripped(*which, now=now))
        for kept in self._queue.about(Identity(namespace, "")):
            if isinstance(strip := kept.operation, Strip) and strip.which == which:
                keys |= strip.keys
        self._know_stripped(which, keys)
        return keys

    def known_stripped(
        self, namespace: str, target: str, fingerprint: str, configuration: str
    ) -> frozenset[str]:
        """What of that this process has read and learnt last."""
        return self._stripped.get((namespace, target, fingerprint, configuration), frozenset())

    def _know_stripped(self, which: tuple[str, str, str, str], keys: frozenset[str]) -> None:
        self._stripped[which] = keys
        self._stripped.move_to_end(which)
        if len(self._stripped) > MOST_KNOWN:
            self._stripped.popitem(last=False)

    async def _asked(self, verb: str, doing: Callable[[], Awaitable[T]]) -> T:
        if self.is_left_alone:
            raise MemoryTrouble(f"{self._trouble}; it is asked again in a moment")
        return await self._bounded(verb, doing)

    # -- writing

    async def do(self, operation: Operation) -> Sequence[Change]:
        """Change something. What was removed comes back.

        What is about one session is done in the order in which it was asked for.

        Raises:
            MemoryTrouble: it cannot be written now. It is kept, and written when the store is back.
            MemoryRefusal: it never can be.
        """
        self._learn(operation)
        if self._queue.alike(operation):
            raise MemoryTrouble(f"{self._trouble or 'memory: it is behind'}; the same is kept already")
        kept = self._queue.add(operation)
        if self._queue.waits or self._queue.before(kept) is not None:
            return await self._after_the_others(kept)
        try:
            changes = await self._attempted(kept)
        except MemoryRefusal as refusal:
            self._lose(kept, refusal)
            raise
        except BaseException:  # also a caller who leaves: the store goes on, and what it says is heard
            self._keep(kept)
            raise
        self._queue.remove(kept)
        return changes

    async def _attempted(self, kept: Kept) -> Sequence[Change]:
        """What the store says to it, or trouble. Whoever waits too long leaves the store at it."""
        if kept.attempt is not None and self._clock.monotonic() > kept.begun + PATIENCE:
            kept.give_up()
        if kept.attempt is None:
            kept.begun = self._clock.monotonic()
            # a task of its own: it goes on when its caller does
            kept.attempt = asyncio.get_running_loop().create_task(self._doing(kept.operation))
            kept.attempt.add_done_callback(self._heard)
        attempt = kept.attempt
        try:
            changes = await self._bounded(kept.operation.verb, lambda: asyncio.shield(attempt))
        except MemoryTrouble:
            if attempt.done() and (attempt.cancelled() or attempt.exception() is not None):
                kept.attempt = None
            raise
        kept.attempt = None
        return changes

    async def _doing(self, operation: Operation) -> Sequence[Change]:
        return await operation.on(self._memory)

    def _heard(self, attempt: asyncio.Task[Sequence[Change]]) -> None:
        """Whoever waits for it or not: what was removed is told, once."""
        if attempt.cancelled() or attempt.exception() is not None:
            return
        self._tell(attempt.result())
        if self._nudge is not None:
            self._nudge.set()

    async def _after_the_others(self, kept: Kept) -> Sequence[Change]:
        """In its turn. Who waits for a store that is away waits in vain."""
        self._keep(kept)
        if self._trouble:
            raise MemoryTrouble(f"{self._trouble}; what was to be written is kept until it is back")
        return await self._bounded(kept.operation.verb, kept.written)

    async def touch(self, identity: Identity) -> None:
        """Note that an identity was in use.

        Raises:
            MemoryTrouble: it cannot be written now, and is not kept: the next use notes as much.
        """
        now = self._clock.now()
        await self._asked("touch", lambda: self._memory.touch(identity, now=now))

    def _keep(self, kept: Kept) -> None:
        self._queue.wait(kept)
        if self._queue.waits > MOST_QUEUED:
            self._lose(self._queue.oldest_idle(), None)
        self._recover()

    def _lose(self, kept: Kept, why: MemoryRefusal | None) -> None:
        kept.lost = why or MemoryTrouble(f"more than {MOST_QUEUED} changes wait to be written")
        self._queue.remove(kept)
        kept.settle(())
        self._dropped += 1
        LOG.error("memory: could not %s, and that is lost: %s", kept.operation.verb, kept.lost)

    def _recover(self) -> None:
        """See to it that the store is asked until it is well."""
        if not self._closed and (self._recovering is None or self._recovering.done()):
            self._recovering = asyncio.get_running_loop().create_task(self._until_well())

    async def _until_well(self) -> None:
        """Write what is kept, in order, however long the store is away."""
        wait, failed = FIRST_WAIT, bool(self._trouble)
        while self._queue.waits or self._trouble:
            if failed:
                await self._until_nudged(wait)
                wait = min(wait * 2, LONGEST_WAIT)
            try:
                await (self._write_first() if self._queue.waits else self._ask_anything())
            except MemoryTrouble:
                failed = True
            else:
                wait, failed = FIRST_WAIT, False
                if not self._queue.waits:
                    self._well()
                await self._clock.sleep(0)  # turns go on meanwhile

    async def _ask_anything(self) -> None:
        """So that the store may show itself well: a process without turns would never know.

        Raises:
            MemoryTrouble: it is still away.
        """
        if self._trouble:
            whose, now = self._last or Identity("", ""), self._clock.now()
            with suppress(MemoryRefusal):  # it is there, and refuses this one
                await self._bounded("read", lambda: self._memory.read(whose, now=now))

    async def _until_nudged(self, secs: float) -> None:
        """Wait, but no longer than until another call has shown that the store is back."""
        self._nudge = asyncio.Event()
        with suppress(TimeoutError):
            async with self._clock.timeout(secs):
                await self._nudge.wait()

    async def _write_first(self) -> None:
        kept = self._queue.first()
        earlier = self._queue.before(kept)
        if earlier is not None and earlier.attempt is not None:  # its own caller sees to it
            await self._wait_for([earlier.attempt], usable(self._timeout_ms / 1000))
            return
        try:
            changes = await self._attempted(kept)
        except MemoryRefusal as refusal:
            self._lose(kept, refusal)
            return
        self._queue.remove(kept)
        kept.settle(changes)

    # -- what is known beside the store

    def _learn(self, operation: Operation) -> None:
        for read in self._reads:
            read.append(operation)
        if isinstance(who := getattr(operation, "identity", None), Identity):
            self._know(who, operation.after(who, self.known(who)))
            return
        if isinstance(operation, Strip):
            self._know_stripped(operation.which, self.known_stripped(*operation.which) | operation.keys)
        whose = operation.whose
        for identity in tuple(self._known if whose is None else self._agents.get(whose, ())):
            self._know(identity, operation.after(identity, self._known[identity]))

    def _know(self, identity: Identity, context: SessionContext) -> None:
        if not context:
            self._know_no_more(identity)
            return
        self._known[identity] = context
        self._known.move_to_end(identity)
        self._agents.setdefault(identity[:2], set()).add(identity)
        if len(self._known) > MOST_KNOWN:
            self._know_no_more(next(iter(self._known)))

    def _know_no_more(self, identity: Identity) -> None:
        if self._known.pop(identity, None) is not None:
            self._agents[identity[:2]].discard(identity)
            if not self._agents[identity[:2]]:
                del self._agents[identity[:2]]

    def _tell(self, changes: Sequence[Change]) -> None:
        if self._on_change is None:
            return
        for change in changes:
            try:
                self._on_change(change)
            except (Exception, asyncio.CancelledError):
                LOG.exception("on_change raised; the memory goes on")

    # -- sweeping

    def _sweep_if_due(self, namespace: str) -> None:
        idle = self._sweeping is None or self._sweeping.done()
        if idle and not self._closed and self._clock.monotonic() >= self._swept + SWEEP_EVERY:
            self._sweeping = asyncio.get_running_loop().create_task(self._sweep(namespace))

    async def _sweep(self, namespace: str) -> None:
        """One pass, a step at a time: no turn waits for more than a step."""
        try:
            more = True
            while more and not self._closed:
                async with self._clock.timeout(SWEEPING):
                    changes, more = await self._memory.sweep(namespace, now=self._clock.now(), most=STEP)
                self._tell(changes)
                await self._clock.sleep(0)
        except Exception as error:  # noqa: BLE001 - it is tried again, and nobody waits for it
            LOG.warning("memory: could not be swept: %s", error)
        finally:
            self._swept = self._clock.monotonic()

    # -- bounds and health

    async def _bounded(self, verb: str, doing: Callable[[], Awaitable[T]]) -> T:
        scope, wanted = None, Wanted()
        try:
            begun = Begun(doing())
            if begun.returned:
                result = begun.result
            else:
                scope = self._clock.timeout(usable(self._timeout_ms / 1000))
                async with scope:
                    result = await begun
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and not wanted:
                raise
            late = scope is not None and scope.expired()
            if isinstance(error, MemoryTrouble) and not late:
                self._trouble_of(verb, error)
                raise
            raise self._trouble_of(verb, error, late=late) from error  # in no variable: that would be a cycle
        self._answered()
        return result

    def _trouble_of(self, verb: str, error: BaseException, *, late: bool = False) -> MemoryTrouble:
        """What a store has raised, as trouble. It is well where it only refuses.

        Raises:
            BaseException: what is not for anybody to handle.
        """
        if isinstance(error, _NOT_OURS):
            raise error
        if late:
            trouble = MemoryTrouble(f"memory: could not {verb}: no answer within {self._timeout_ms:g} ms")
        elif isinstance(error, MemoryTrouble):
            trouble = error
        else:
            kind = MemoryRefusal if type(error) in _OF_A_VALUE else MemoryTrouble
            trouble = kind(f"memory: could not {verb}: {type(error).__name__}: {error}")
        if not isinstance(trouble, MemoryRefusal):
            self._ill(trouble, waited=self._timeout_ms / 1000 if late else 0.0)
        return trouble

    def _ill(self, trouble: MemoryTrouble, *, waited: float) -> None:
        if not self._trouble:
            self._since = self._clock.now()
            LOG.warning("%s", trouble)
        self._trouble = str(trouble)
        self._ask_again = self._clock.monotonic() + SHARE * waited
        self._recover()

    def _answered(self) -> None:
        if not self._queue.waits:
            self._well()
            return
        self._recover()
        if self._nudge is not None and self._clock.monotonic() >= self._nudged + FIRST_WAIT:
            self._nudged = self._clock.monotonic()
            self._nudge.set()

    def _well(self) -> None:
        self._ask_again = float("-inf")
        if self._trouble:
            self._trouble, self._since = "", self._clock.now()
            LOG.warning("memory: it is back, and all that was kept is written")

    async def close(self) -> None:
        """Write what is kept if the store lets it, and let go of it."""
        self._closed = True
        if self._sweeping is not None:  # it ends with the step it is at, whose changes are still told
            await self._wait_for([self._sweeping], usable(self._timeout_ms / 1000))
        ending = [task for task in (self._recovering, self._sweeping) if task is not None]
        for task in ending:
            task.cancel()
        await self._wait_for(ending, CLOSING)
        for kept in self._queue.under_way():
            self._queue.wait(kept)
        began = self._clock.monotonic()
        try:
            while self._queue.waits and self._clock.monotonic() < began + CLOSING:
                await self._write_first()
        except MemoryTrouble:
            pass  # told with what is left
        if self._queue.waits:
            told = self._trouble or "memory: it is too slow"
            LOG.error("%s; %d changes that were kept are lost with the router", told, self._queue.waits)
            self._dropped += self._queue.waits
        self._queue.clear()
        try:
            async with self._clock.timeout(CLOSING):
                await self._memory.close()
        except TimeoutError:
            LOG.error("memory: it could not be closed within %g s", CLOSING)

    async def _wait_for(self, tasks: Sequence[asyncio.Task[Any]], secs: float | None) -> None:
        """Until they have ended, but no longer than that."""
        if tasks:
            with suppress(TimeoutError):
                async with self._clock.timeout(secs):
                    await asyncio.wait(tasks)
