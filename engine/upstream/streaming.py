"""A stream from its head to its end: what is held back, when it commits, how it may end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import msgspec

from turnout.engine import wire
from turnout.engine.attempts import Answer, Progress
from turnout.engine.audit import StreamRecord
from turnout.engine.classify import carries_error, transport_failure, unfinished, unreadable
from turnout.engine.classify.reply import Reply
from turnout.engine.classify.verdict import Verdict
from turnout.engine.clock import Clock
from turnout.engine.sse import Block, EventTooLong, SseReader, StreamEvent
from turnout.engine.targets import Target
from turnout.engine.upstream.bodies import Body, NotPackedAsSaid, decoded_json
from turnout.engine.upstream.bounds import Bounds
from turnout.engine.wire.sign import Sign

PREAMBLE: Final = 262_144
"""Bytes of events that are held back before the first content."""


class HttpStream:
    """One stream over HTTP.

    Args:
        began: when the attempt began, as the clock counts.
        answer: what a complete answer is told as, but for its token counts.
        judge: reads and cleans what came instead of one.
        let_go: closes the body, or sees to it that its connection can be used again.
    """

    def __init__(
        self,
        target: Target,
        body: Body,
        progress: Progress,
        bounds: Bounds,
        clock: Clock,
        *,
        began: float,
        answer: Answer,
        judge: Callable[[Reply | Verdict], Verdict],
        let_go: Callable[[Body], Awaitable[None]],
    ) -> None:
        self._target = target
        self._body = body
        self._progress = progress
        self._bounds = bounds
        self._clock = clock
        self._answer = answer
        self._judge = judge
        self._let_go = let_go
        self._began = began
        self._sse = SseReader()
        self._reading = wire.of(target.format).Stream()
        self._ready: list[StreamEvent] = []
        self._held = 0
        self._committed: float | None = None
        self._events = 0
        self._content_events = 0
        self._closed = False
        self.outcome: Answer | Verdict | None = None

    @property
    def record(self) -> StreamRecord:
        """What came of it so far, as the caller has got it."""
        return StreamRecord(self._committed or 0.0, self._events, self._content_events)

    async def until_committed(self) -> Verdict | None:
        """Read up to its first content, or to the end of an answer without any; else what came instead.

        Raises:
            Exception: what carries it has failed.
        """
        while self._committed is None and self.outcome is None:
            await self._read()
        if self._committed is None and isinstance(self.outcome, Verdict):
            return self.outcome
        self._bounds.committed()
        return None

    async def more(self, left: float | None) -> Sequence[StreamEvent]:
        if not self._ready and self.outcome is None:
            self._bounds.received()
            scope = self._clock.timeout(self._bounds.left())
            self._bounds.keep_on(scope)
            try:
                async with scope:
                    while not self._ready and self.outcome is None:
                        await self._read()
            except Exception as error:
                if scope.expired() and isinstance(error, TimeoutError):
                    self._broke_off(self._bounds.passed())
                elif (verdict := transport_failure(error)) is not None:
                    self._broke_off(verdict)
                else:
                    raise
            finally:
                self._bounds.keep_on(None)
        events, self._ready = self._ready, []
        self._events += len(events)
        self._content_events += sum(event.content for event in events)
        return events

    @property
    def waiting(self) -> bool:
        return bool(self._ready)

    def unread(self, events: Sequence[StreamEvent]) -> None:
        self._events -= len(events)
        self._content_events -= sum(event.content for event in events)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if isinstance(self.outcome, Answer):
            await self._let_go(self._body)
        else:
            await self._body.close()

    async def _read(self) -> None:
        """Take the next piece of the body."""
        try:
            piece = await self._body.next()
            if piece is None:
                self._ended()
                return
            self._bounds.received()
            self._take(self._sse.feed(piece))
        except (EventTooLong, NotPackedAsSaid) as error:
            self._refuse(unreadable(self._status, str(error)))

    def _take(self, blocks: list[Block]) -> None:
        for block in blocks:
            body = _decoded(block.data)
            sign = self._reading.read(block.name, block.data, body)
            if sign is Sign.ERROR or (self._committed is None and body and self._withheld(block, body)):
                self._refuse(self._reply(block.data.encode("utf-8", "replace"), block.name))
                return
            content = sign is Sign.CONTENT
            self._ready.append(StreamEvent(block.raw, block.name, block.data, body, content))
            if content and self._committed is None:
                self._committed = self._clock.monotonic() - self._began
            if sign is Sign.LAST:
                self._complete()
                return
            if self._committed is None:
                self._held += len(block.raw)
                if self._held > PREAMBLE:
                    what = f"no output within {PREAMBLE} bytes of the stream"
                    self._refuse(unreadable(self._status, what))
                    return

    def _withheld(self, block: Block, body: Any) -> bool:
        """Whether an event before the first content carries an error, in whatever way a format has for it."""
        return isinstance(body, dict) and carries_error(block.data.encode("utf-8", "replace"))

    def _ended(self) -> None:
        """No byte follows."""
        committed, whole = self._committed, len(self._ready)
        self._take(self._sse.end())
        if self.outcome is not None:
            return
        if self._reading.finished:
            self._complete()
            return
        said = b"".join(event.raw for event in self._ready).lstrip()
        spoken = any(event.data for event in self._ready)
        # what has no end is no event, unless it finished the answer
        del self._ready[whole:]
        self._committed = committed
        if committed is not None:
            self._refuse(unfinished("it ended without its finish marker"))
        elif not spoken and said.startswith((b"{", b"[", b"<")):
            self._refuse(self._reply(said))  # no event at all: what came is something else
        else:
            self._refuse(unfinished("it ended before any output"))

    def _complete(self) -> None:
        self.outcome = msgspec.structs.replace(self._answer, usage=self._reading.usage)
        if self._committed is None:
            self._committed = self._clock.monotonic() - self._began

    def _broke_off(self, verdict: Verdict) -> None:
        """No byte follows, against its will. An answer that told why it ended is whole all the same."""
        if self._reading.finished:
            self._complete()
        else:
            self._refuse(verdict)

    def _refuse(self, what: Reply | Verdict) -> None:
        self.outcome = self._judge(what)

    def _reply(self, body: bytes, event: str | None = None) -> Reply:
        return Reply(
            status=self._status,
            body=body,
            format=self._target.format,
            event=event,
            provider=self._target.provider,
        )

    @property
    def _status(self) -> int:
        return self._progress.status or 200


def _decoded(data: str) -> Any:
    """The JSON of an event's data; None where it is no object and no list."""
    return decoded_json(data) if data.lstrip()[:1] in ("{", "[") else None
