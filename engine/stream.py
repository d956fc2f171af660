"""A streaming turn as the caller reads it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import Self

from turnout.engine.audit import AuditRecord
from turnout.engine.drive import Drive
from turnout.engine.errors import RouterMisused
from turnout.engine.sse import StreamEvent
from turnout.machines.vocabulary import TurnState


class Stream:
    """One turn whose answer comes as a stream; made by `Router.stream`.

        async with router.stream(body, session="s1") as stream:
            async for event in stream:
                send(event.raw)
        print(stream.record)

    Entering it asks until a target has begun to answer, so an error that comes before that is raised there,
    with nothing sent to anybody. The first events are those that the target sent before its first content.
    Leaving it before its end cancels the turn and closes the connection, and so does dropping it.
    """

    def __init__(
        self, start: Callable[[], Drive], let_in: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._start = start
        self._let_in = let_in
        self._drive: Drive | None = None
        self._in_flight = ExitStack()
        self._ready: deque[StreamEvent] = deque()
        self._reading = False
        self._done = False

    @property
    def record(self) -> AuditRecord | None:
        """The turn's record; None until it has ended."""
        return None if self._drive is None else self._drive.record

    @property
    def served_by(self) -> str | None:
        """The name of the target whose answer it is; None until one has begun to answer."""
        return None if self._drive is None else self._drive.served_by

    async def __aenter__(self) -> Self:
        """Ask until a target has begun to answer.

        Raises:
            TurnFailed: with the concrete upstream error and the record.
            RouterMisused: entered twice; or its router is closed, or of another event loop or process.
        """
        if self._drive is not None:
            raise RouterMisused("this stream was entered before; each turn needs one of its own")
        self._in_flight.enter_context(self._let_in())
        try:
            self._drive = self._start()
            self._drive.when_over = self._in_flight.close
            await self._drive.run()
        except BaseException:
            self._leave()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StreamEvent:
        """The next event.

        Raises:
            TurnFailed: the stream broke off, or the turn's deadline passed; with the error and the record.
            RouterMisused: it was not entered, another task is reading it, or it was left before its end.
        """
        if not self._ready:
            await self._read()
        return self._ready.popleft()

    async def _read(self) -> None:
        if (drive := self._drive) is None:
            raise RouterMisused("enter a stream before reading it: async with router.stream(...) as stream")
        if self._reading:
            raise RouterMisused("this stream is being read by another task; one at a time")
        if not self._done:
            self._reading = True
            try:
                self._ready.extend(await drive.more())
            finally:
                self._reading = False
                if drive.record is not None:
                    self._leave()
        if not self._ready:
            if drive.failure is not None:
                raise drive.failed()
            if drive.record is None or drive.record.state != TurnState.SERVED:
                raise RouterMisused("this stream was left before its end, which cancelled its turn")
            raise StopAsyncIteration

    async def close(self) -> None:
        """Read no more. A turn that has not ended is cancelled, and its connection closed.

        Raises:
            RouterMisused: another task is reading it.
        """
        if self._reading:
            raise RouterMisused("this stream is being read by another task; cancel that task to close it")
        unread = [*self._ready]
        self._ready.clear()
        if self._drive is not None and not self._done:
            try:
                await self._drive.leave(unread)
            finally:
                self._leave()

    def _leave(self) -> None:
        """The turn has ended: the router need not wait for it any more."""
        self._done = True
        self._in_flight.close()

    def __del__(self) -> None:
        if self._drive is not None and not self._done:
            self._done = True
            self._drive.abandon([*self._ready])
