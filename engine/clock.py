"""Where time comes from. Every bound, wait and timestamp of a turn is kept on a clock.

`VirtualClock` runs a whole story in no time: its event loop moves on to the next timer
whenever nothing else is left to do, so `asyncio.sleep` and `asyncio.timeout` keep their
meaning to the microsecond and no test ever waits.
"""

from __future__ import annotations

import asyncio
import math
import selectors
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeVar, cast

from turnout.machines.vocabulary import TurnoutError

T = TypeVar("T")


class Clock(Protocol):
    """Time as the engine uses it, in seconds."""

    def now(self) -> float:
        """The time of day, in seconds since 1970."""
        ...

    def monotonic(self) -> float:
        """A time that only differences are taken of."""
        ...

    async def sleep(self, secs: float) -> None:
        """Wait."""

    def timeout(self, secs: float | None) -> asyncio.Timeout:
        """A bound on what is awaited inside; None is no bound. Past it, TimeoutError is raised."""
        ...


class SystemClock:
    """The clock on the wall."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, secs: float) -> None:
        await asyncio.sleep(secs)

    def timeout(self, secs: float | None) -> asyncio.Timeout:
        return asyncio.timeout(secs)


class Begun(Generic[T]):
    """An awaitable that has been let run until it waits for something.

    Mostly a memory answers at once: a timer for that would cost more than the answer. `result` is there if it
    `returned`; else this is to be awaited, within a bound.
    """

    __slots__ = ("_running", "_waits_for", "result", "returned")

    result: T

    def __init__(self, doing: Awaitable[T]) -> None:
        self._running = doing.__await__()
        self.returned = False
        try:
            self._waits_for = next(self._running)
        except StopIteration as done:
            self.result, self.returned = done.value, True

    def __await__(self) -> Generator[Any, Any, T]:
        """Go on from there; what is thrown in, such as a cancellation, reaches it."""
        waits_for = self._waits_for
        try:
            while True:
                try:
                    told = yield waits_for
                except BaseException as error:  # noqa: BLE001 - it is for what is awaited to handle
                    waits_for = self._running.throw(error)
                else:
                    waits_for = self._running.send(told)
        except StopIteration as done:
            return cast("T", done.value)


class Wanted:
    """Whether the running task is still wanted: that it was cancelled since this was made.

    Code of an embedder may swallow a cancellation, or raise one that nobody asked for; the
    task itself knows.
    """

    def __init__(self) -> None:
        self._task = asyncio.current_task()
        self._before = self._task.cancelling() if self._task else 0

    def __bool__(self) -> bool:
        return self._task is None or self._task.cancelling() <= self._before

    def check(self) -> None:
        """Raises asyncio.CancelledError if the task is no longer wanted."""
        if not self:
            raise asyncio.CancelledError


class Standstill(TurnoutError):
    """Virtual time cannot go on: every task waits for something that no timer will bring."""


class VirtualClock(SystemClock):
    """A clock that stands still while anything happens and jumps when nothing can.

    Args:
        epoch: the time of day at which it starts, in seconds since 1970.
    """

    def __init__(self, epoch: float = 1_767_225_600.0) -> None:
        self._epoch = epoch
        self._elapsed = 0.0
        self._holds: list[Callable[[], bool]] = []

    def now(self) -> float:
        return self._epoch + self._elapsed

    def monotonic(self) -> float:
        return self._elapsed

    def advance(self, secs: float) -> None:
        self._elapsed += secs

    @contextmanager
    def hold(self, busy: Callable[[], bool]) -> Iterator[None]:
        """Within this, time stands still whenever something is on its way that the loop cannot see.

        Args:
            busy: whether something is, bytes in a socket for one. They wake the loop when they arrive.
        """
        self._holds.append(busy)
        try:
            yield
        finally:
            self._holds.remove(busy)

    @property
    def held(self) -> bool:
        """Whether something is on its way."""
        return any(busy() for busy in self._holds)

    def run(self, story: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end in virtual time.

        Raises:
            Standstill: every task waits and no timer is set.
        """
        try:
            with self.runner() as runner:
                return runner.run(story)
        finally:
            story.close()  # it never began where there was no loop to be had

    def runner(self) -> asyncio.Runner:
        """Runs coroutines one after another in virtual time; what one has begun goes on within the next."""
        return asyncio.Runner(loop_factory=lambda: _VirtualLoop(self, _JumpingSelector()))


class _VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is a virtual clock's."""

    _clock_resolution: float

    def __init__(self, clock: VirtualClock, selector: _JumpingSelector) -> None:
        self._clock = clock
        self._in_threads = 0
        try:
            super().__init__(selector)
        except OSError:
            asyncio.BaseEventLoop.close(self)  # half made as it is, it could not be closed when it goes
            raise
        selector.jump = self._jump

    def time(self) -> float:
        return self._clock.monotonic()

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """As ever; but while a thread works, time stands still."""
        future = super().run_in_executor(executor, func, *args)
        self._in_threads += 1
        future.add_done_callback(self._left_thread)
        return future

    def _left_thread(self, _: asyncio.Future[Any]) -> None:
        self._in_threads -= 1

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        self._in_threads += 1  # it waits for a thread of its own
        try:
            await super().shutdown_default_executor()
        finally:
            self._in_threads -= 1

    def _jump(self, timeout: float | None) -> bool:
        """Nothing is ready. Move on to the next timer; False: time waits for a thread or for a socket."""
        if self._in_threads or self._clock.held:
            return False
        if timeout is None:
            raise Standstill("virtual time stands still: every task waits for what no timer will bring")
        self._clock.advance(timeout)
        # what asyncio counts as due now: where seconds are many, its nanosecond is lost in them
        self._clock_resolution = max(self._clock_resolution, math.ulp(self.time()))
        return True


class _JumpingSelector(selectors.DefaultSelector):
    jump: Callable[[float | None], bool]

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if self.jump(timeout):
            return []
        # a thread reports through the loop's own socket, which the selector sees as it does any other
        return super().select()
