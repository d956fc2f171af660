"""What an attempt is given and what it gives back, over HTTP or by the embedder's client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from msgspec import Raw, Struct
from msgspec.json import encode

from turnout.engine.audit import StreamRecord
from turnout.engine.classify.verdict import Verdict
from turnout.engine.nonfinite import nonfinite
from turnout.engine.redaction import Quotations
from turnout.engine.sse import StreamEvent
from turnout.engine.targets import Target, usable


class Request:
    """What the caller asked.

    Args:
        body: in the wire format of the ladder.
        headers: the caller's, in lower case.
        size: the request's size in tokens, where the caller knows it.
        stream: whether the answer is to come as a stream.
        pin: the target that the caller wants first.

    Raises:
        TypeError, ValueError, RecursionError: the body is no JSON.
    """

    __slots__ = ("body", "encoded", "headers", "pin", "quotations", "size", "stream")

    def __init__(
        self,
        body: Mapping[str, Any],
        headers: Mapping[str, str],
        size: int | None = None,
        *,
        stream: bool = False,
        pin: str | None = None,
    ) -> None:
        self.body: Mapping[str, Any] = {**body, "stream": True} if stream else body
        self.encoded = {key: Raw(_encoded(key, value)) for key, value in self.body.items()}
        """Its top-level values as they go out: encoded once a turn, however often it is sent."""
        self.headers = headers
        self.size = size
        self.stream = stream
        self.pin = pin
        self.quotations = Quotations(self.encoded)
        """Its text, in which what upstreams say is looked for: folded once a turn, if at all."""


def _encoded(key: str, value: object) -> bytes:
    encoded = encode(value)
    # what JSON has no word for becomes a null, and is looked for only where there is one
    if b"null" in encoded and (where := nonfinite(value, key)):
        raise ValueError(f"{where} is NaN or an infinity, which it cannot say; give a number")
    return encoded


class Answer(Struct, frozen=True):
    """A complete answer. That of a stream has no body: its events were handed on."""

    body: Mapping[str, Any]
    status: int | None = None
    usage: Mapping[str, int] | None = None
    request_id: str = ""


class Progress:
    """How far an attempt has come: kept up to date, so that it is known of one that is cut short as well."""

    __slots__ = ("bytes", "sent", "status")

    def __init__(self) -> None:
        self.sent = False
        """Whether the whole request has gone out."""
        self.status: int | None = None
        """The HTTP status, once a reply has begun."""
        self.bytes = 0
        """Of the reply's body, as they came."""


class OpenStream(Protocol):
    """A stream that has committed: the target's answer has begun, and no other target is asked any more."""

    outcome: Answer | Verdict | None
    """How it ended, once it has: complete, or interrupted."""

    @property
    def record(self) -> StreamRecord:
        """What came of it so far."""
        ...

    async def more(self, left: float | None) -> Sequence[StreamEvent]:
        """The next events, at least one unless it has ended.

        Args:
            left: seconds until the turn's deadline, which is kept by the caller.
        """
        ...

    @property
    def waiting(self) -> bool:
        """Whether it holds events that were not given out."""
        ...

    def unread(self, events: Sequence[StreamEvent]) -> None:
        """These were given out and never reached the caller."""

    async def close(self) -> None:
        """Let go of its connection, at once if it has not ended."""


class Attempt(Protocol):
    """Makes one attempt. Raises only for what is not the target's doing."""

    async def __call__(
        self,
        target: Target,
        request: Request,
        progress: Progress,
        *,
        without: frozenset[str],
        fresh: bool,
        left: float | None,
    ) -> Answer | Verdict | OpenStream:
        """Ask once.

        Args:
            progress: told how far the attempt has come.
            without: the injected keys that have to stay out of the body.
            fresh: use no connection that was kept.
            left: seconds until the turn's deadline, which is kept by the caller.
        """
        ...


def own_bound(bound: float | None, left: float | None) -> float | None:
    """The seconds that an attempt's own bound allows; None where the deadline comes first.

    The deadline is the turn's to keep: it ends the turn without a verdict on the target.
    """
    bound = usable(bound)
    return None if bound is None or (left is not None and left <= bound) else bound
