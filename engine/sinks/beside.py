"""A sink beside the turns: a bounded queue, and a thread that empties it.

No turn waits for it, and none fails for it: a sink is the embedder's code, and so is what the log does.
What comes while the queue is full is dropped and counted; numbers in the records show where. The sink is
called, and closed, in that one thread only.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Sequence
from contextlib import suppress
from typing import Any, Final

from msgspec import Struct

from turnout.engine.audit import AuditRecord
from turnout.engine.errors import told
from turnout.engine.memory.protocol import Change

LOG: Final = logging.getLogger("turnout")

MOST_QUEUED: Final = 10_000
"""Records that wait for one sink; one more is dropped."""
CLOSING_SECS: Final = 10.0
"""How long all sinks of a router have together, when it is closed, to take what waits and to close."""

Sink = Callable[[AuditRecord | Change], Any]
"""Takes a record or a change, in a thread of its own. What it raises is counted and logged. One that has a
`close` is closed with its router.
"""


class SinkHealth(Struct, frozen=True):
    """How a sink is, as its router sees it. The four numbers come to what it was handed."""

    sink: str
    """What it is, in words."""
    taken: int
    queued: int
    """Records and changes that wait, with the one that the sink is at."""
    dropped: int
    """Those that came while the queue was full, or still waited when there was no more time."""
    failed: int
    """Those that the sink raised for."""
    trouble: str = ""
    """What went wrong last, until it takes one again."""


class Beside:
    """Feeds one sink."""

    def __init__(self, sink: Sink, *, most: int = MOST_QUEUED) -> None:
        self._sink = sink
        self._most = most
        self._name = type(sink).__name__ if not hasattr(sink, "__name__") else str(sink.__name__)
        self._queue: deque[AuditRecord | Change] = deque()
        self._come = threading.Event()
        self._closing = False
        self._thread: threading.Thread | None = None
        self._handed = self._taken = self._dropped = self._failed = 0
        self._trouble = ""

    @property
    def health(self) -> SinkHealth:
        taken, dropped, failed = self._taken, self._dropped, self._failed
        queued = self._handed - taken - dropped - failed
        return SinkHealth(self._name, taken, queued, dropped, failed, self._trouble)

    def put(self, what: AuditRecord | Change) -> None:
        """Hand something over. It comes back at once."""
        self._handed += 1
        if len(self._queue) >= self._most:
            self._dropped += 1
            if self._dropped == 1:
                self._tell(logging.WARNING, f"it is too slow, and {self._most} wait; more are dropped")
        else:
            self._queue.append(what)
        if self._thread is None:  # not before: a thread does not come along into a forked process
            self._begin()
        self._come.set()

    def end(self) -> None:
        """Have it take what waits, and then close the sink. Comes back at once."""
        self._closing = True
        if self._thread is None:
            self._begin()
        self._come.set()

    def wait(self, secs: float) -> None:
        """Wait until that has come to its end, but no longer; what waits then is dropped. Blocks."""
        if self._thread is not None:
            self._thread.join(max(secs, 0))
        if self._thread is None or self._thread.is_alive():
            self._tell(logging.ERROR, "it has not come to its end in time, and is not closed")
        lost = 0
        with suppress(IndexError):  # its thread may go on and take one meanwhile
            while True:
                self._queue.popleft()
                lost += 1
        self._dropped += lost
        if lost:
            self._tell(logging.ERROR, f"{lost} records that waited are lost with the router")
        if self._dropped:
            self._tell(logging.WARNING, f"{self._dropped} records were dropped in all")

    def _begin(self) -> None:
        thread = threading.Thread(target=self._work, name=f"turnout-{self._name}", daemon=True)
        try:
            thread.start()
        except Exception as error:  # noqa: BLE001 - no room for a thread: the next record tries again
            self._troubled(error, "it waits for a thread")
        else:
            self._thread = thread

    def _work(self) -> None:
        while True:
            self._come.wait()
            self._come.clear()
            while True:
                try:
                    what = self._queue.popleft()
                except IndexError:  # also where there was no more time for the rest
                    break
                self._give(what)
            if self._closing:
                break
        self._close()

    def _give(self, what: AuditRecord | Change) -> None:
        try:
            _call(self._sink, what)
        except BaseException as error:  # noqa: BLE001 - whatever it raises, the next record comes
            self._failed += 1
            self._troubled(error, "it is given the next all the same")
        else:
            self._taken += 1
            self._trouble = ""

    def _close(self) -> None:
        try:
            if (close := getattr(self._sink, "close", None)) is not None:
                _call(close)
        except BaseException as error:  # noqa: BLE001 - the others are closed all the same
            self._trouble = ""
            self._troubled(error, "so it was not closed")

    def _troubled(self, error: BaseException, then: str) -> None:
        before, self._trouble = self._trouble, type(error).__name__
        with suppress(BaseException):  # what it says is the embedder's code too
            self._trouble = told(error)
        if not before:
            self._tell(logging.WARNING, f"{self._trouble}; {then}")

    def _tell(self, level: int, what: str) -> None:
        with suppress(Exception):  # as are the handlers of the log
            LOG.log(level, "sink %s: %s", self._name, what)


def close_all(sinks: Sequence[Beside]) -> None:
    """Close sinks, within `CLOSING_SECS` for all of them. Raises nothing of theirs; blocks."""
    until = time.monotonic() + CLOSING_SECS
    for sink in sinks:
        sink.end()
    for sink in sinks:
        sink.wait(until - time.monotonic())


def _call(what: Callable[..., object], *given: object) -> None:
    """Call what a sink has.

    Raises:
        TypeError: it only gives something that nobody will run.
    """
    result = what(*given)
    if isinstance(result, Coroutine | Generator):
        result.close()
    if isinstance(result, Coroutine | Generator | AsyncGenerator):
        raise TypeError("it is async, or a generator, and none of it would ever run; give a plain callable")
