"""A sink beside the turns: a bounded queue, and a thread that empties it.

No turn waits for it. What comes while the queue is full is dropped and counted; numbers in the
records show where.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from turnout.engine.audit import AuditRecord
from turnout.engine.memory.protocol import Change

LOG: Final = logging.getLogger("turnout")

MOST_QUEUED: Final = 10_000
"""Records that wait for one sink; one more is dropped."""
CLOSING_SECS: Final = 10.0
"""How long a sink has to take what waits when its router is closed, in seconds."""

Sink = Callable[[AuditRecord | Change], Any]
"""Takes a record or a change, in a thread of its own. What it raises is counted and logged. One that has a
`close` is closed with its router.
"""


class SinkHealth(Struct, frozen=True):
    """How a sink is, as its router sees it."""

    sink: str
    """What it is, in words."""
    taken: int
    queued: int
    dropped: int
    """Records and changes that came while the queue was full."""
    failed: int
    """Those that the sink raised for."""
    trouble: str = ""
    """What it raised last, until it takes one again."""


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
        self._taken = self._dropped = self._failed = 0
        self._trouble = ""

    @property
    def health(self) -> SinkHealth:
        return SinkHealth(
            self._name, self._taken, len(self._queue), self._dropped, self._failed, self._trouble
        )

    def put(self, what: AuditRecord | Change) -> None:
        """Hand something over. It comes back at once."""
        if len(self._queue) >= self._most:
            if not self._dropped:
                LOG.warning("sink %s: it is too slow, and %d wait; more are dropped", self._name, self._most)
            self._dropped += 1
            return
        self._queue.append(what)
        if self._thread is None:  # not before: a thread does not come along into a forked process
            self._thread = threading.Thread(target=self._work, name=f"turnout-{self._name}", daemon=True)
            self._thread.start()
        self._come.set()

    def close(self) -> None:
        """Wait until it has taken what waits, but no longer than `CLOSING_SECS`. Blocks."""
        self._closing = True
        self._come.set()
        if self._thread is not None:
            self._thread.join(CLOSING_SECS)
        if self._queue:
            LOG.error(
                "sink %s: %d records that waited are lost with the router", self._name, len(self._queue)
            )
        elif (close := getattr(self._sink, "close", None)) is not None:
            close()
        if self._dropped:
            LOG.warning("sink %s: %d records were dropped in all", self._name, self._dropped)

    def _work(self) -> None:
        while True:
            self._come.wait()
            self._come.clear()
            while self._queue:
                self._give(self._queue.popleft())
            if self._closing:
                return

    def _give(self, what: AuditRecord | Change) -> None:
        try:
            self._sink(what)
        except Exception as error:  # noqa: BLE001 - whatever it raises, the next record comes
            if not self._trouble:
                LOG.warning(
                    "sink %s: %s: %s; it is given the next all the same",
                    self._name,
                    type(error).__name__,
                    error,
                )
            self._failed += 1
            self._trouble = f"{type(error).__name__}: {error}"
        else:
            self._taken += 1
            self._trouble = ""
