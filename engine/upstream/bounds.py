"""How long one attempt may take: which of its bounds comes first, and what it means that one has passed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from turnout.engine.classify import idle, no_connection, no_output, too_slow
from turnout.engine.classify.verdict import Verdict
from turnout.engine.targets import Target, usable


class _Bound(NamedTuple):
    at: float
    """When it passes, as the loop counts."""
    secs: float
    passed: Callable[[float], Verdict]
    """How that is read, from the seconds."""


class Bounds:
    """The bounds of one attempt. They begin when this is made.

    Where the turn's deadline comes first, there is none: it ends the turn without a verdict on the target.

    Args:
        left: seconds until the deadline.
        stream: whether the bounds of a stream hold.
    """

    __slots__ = (
        "_connect",
        "_deadline",
        "_first_output",
        "_idle",
        "_idle_secs",
        "_now",
        "_scope",
        "_sent",
        "_to_connect",
        "_whole",
    )

    def __init__(self, target: Target, left: float | None, *, stream: bool) -> None:
        self._now = asyncio.get_running_loop().time
        self._sent = sent = self._now()
        self._deadline = None if left is None else sent + left
        self._whole = _bound(sent, target.timeout_secs, too_slow)
        self._to_connect = usable(target.connect_timeout_secs)
        self._connect: _Bound | None = None
        self._first_output = _bound(sent, target.first_output_timeout_secs, no_output) if stream else None
        self._idle_secs = usable(target.idle_timeout_secs) if stream else None
        self._idle: _Bound | None = None
        self._scope: asyncio.Timeout | None = None

    def left(self) -> float | None:
        """The seconds until the first of them passes."""
        first = self._first()
        return None if first is None else max(first.at - self._now(), 0.0)

    def keep_on(self, scope: asyncio.Timeout | None) -> None:
        """Move this scope whenever another bound comes first; none any more."""
        self._scope = scope

    def connecting(self) -> None:
        """A connection is being made."""
        self._connect = _bound(self._sent, self._to_connect, no_connection)
        self._moved()

    def connected(self) -> None:
        """There is one."""
        if self._connect is not None:
            self._connect = None
            self._moved()

    def received(self) -> None:
        """A piece of a stream has come; or its reader has come back, who did not look for one meanwhile."""
        if self._idle_secs is not None:
            self._idle = _Bound(self._now() + self._idle_secs, self._idle_secs, idle)
            self._moved()

    def committed(self) -> None:
        """A stream has brought its first content."""
        self._first_output = None
        self._scope = None

    def passed(self) -> Verdict:
        """How it is read that the first of them has passed."""
        first = self._first()
        return too_slow(None) if first is None else first.passed(first.secs)

    def _first(self) -> _Bound | None:
        bounds = (self._whole, self._connect, self._first_output, self._idle)
        first = min((bound for bound in bounds if bound is not None), key=_at, default=None)
        late = first is not None and self._deadline is not None and self._deadline <= first.at
        return None if late else first

    def _moved(self) -> None:
        if self._scope is not None:
            first = self._first()
            self._scope.reschedule(None if first is None else first.at)


def _bound(sent: float, secs: float | None, passed: Callable[[float], Verdict]) -> _Bound | None:
    secs = usable(secs)
    return None if secs is None else _Bound(sent + secs, secs, passed)


def _at(bound: _Bound) -> float:
    return bound.at
