"""The doubles: a reply of any kind, a stream, a connection that breaks, silence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

import msgspec

from turnout.engine.classify.verdict import Feature
from turnout.engine.targets import Format
from turnout.engine.testing import canned
from turnout.engine.testing.steps import Break, Data, Fail, Head, Pause, Silence, Step
from turnout.machines.vocabulary import ErrorKind as Kind

End = Literal["done", "eof", "reset", "hang"]

WITHOUT_BODY: Final = (204, 304)
"""What HTTP allows no body after."""


@dataclass(frozen=True)
class Reply:
    """Exactly this reply, `after` so many seconds."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    after: float = 0.0

    def steps(self, format: Format = "openai_chat", stream: bool = False) -> Iterator[Step]:
        body = b"" if self.status in WITHOUT_BODY else self.body
        yield Pause(self.after)
        yield Head(self.status, {**self.headers, "content-length": str(len(body))})
        if body:
            yield Data(body)


@dataclass(frozen=True)
class Ok:
    """A complete answer in the request's wire format, as a stream where the request asks for one."""

    text: str = "ok"
    usage: Mapping[str, Any] | None = None
    after: float = 0.0

    def steps(self, format: Format, stream: bool) -> Iterator[Step]:
        if stream:
            streamed = canned.streamed(format, self.text, self.usage)
            return Events(streamed, after=self.after).steps(format, stream)
        return in_json(200, canned.answer(format, self.text, self.usage), after=self.after).steps()


@dataclass(frozen=True)
class Refusal:
    """A canned reply of an error kind in the request's wire format."""

    kind: Kind
    feature: Feature = Feature.OTHER
    after: float = 0.0

    def reply(self, format: Format = "openai_chat") -> Reply:
        """The whole reply, as a target of this format sends it."""
        status, body = canned.refusal(format, self.kind, self.feature)
        return in_json(status, body, after=self.after)

    def steps(self, format: Format, stream: bool) -> Iterator[Step]:
        return self.reply(format).steps()


@dataclass(frozen=True)
class Events:
    """A stream of these events, the first one `after` so many seconds, and then one `every` so many.

    An event is what a format's own are: a JSON object; or `{"comment": text}`, or
    `{"event": name, "data": object or text}`.
    """

    events: Sequence[Mapping[str, Any]]
    end: End = "done"
    every: float = 0.0
    after: float = 0.0

    def steps(self, format: Format, stream: bool) -> Iterator[Step]:
        yield Pause(self.after)
        yield Head(200, {"content-type": "text/event-stream"})
        for place, event in enumerate(self.events):
            if place and self.every:
                yield Pause(self.every)
            yield Data(canned.encoded(format, event))
        if self.end == "done":
            yield from (Data(canned.encoded(format, event)) for event in canned.finish(format, self.events))
        elif self.end == "reset":
            yield Break()
        elif self.end == "hang":
            yield Silence()


@dataclass(frozen=True)
class Reset:
    """The connection breaks before a byte of the reply."""

    after: float = 0.0

    def steps(self, format: Format, stream: bool) -> Iterator[Step]:
        yield Pause(self.after)
        yield Break()


@dataclass(frozen=True)
class Hang:
    """Silence, for as long as anyone waits."""

    def steps(self, format: Format, stream: bool) -> Iterator[Step]:
        yield Silence()


@dataclass(frozen=True)
class Raises:
    """A RuntimeError with this text: code that fails, where a reset is a connection that does."""

    text: str
    after: float = 0.0

    def steps(self, format: Format, stream: bool) -> Iterator[Step]:
        yield Pause(self.after)
        yield Fail(self.text)


def ok(text: str = "ok", *, usage: Mapping[str, Any] | None = None, after: float = 0.0) -> Ok:
    """A complete answer in the request's wire format; of a stream, the text is one event.

    Args:
        usage: the token counts that it reports, by the names of the format.
        after: seconds until it comes.
    """
    return Ok(text, usage, after)


def events(
    events: Sequence[Mapping[str, Any]], *, end: End = "done", every: float = 0.0, after: float = 0.0
) -> Events:
    """A stream of these events.

    Args:
        events: JSON objects of the request's wire format, which get the `event:` line that the format has;
            `{"comment": text}`; `{"event": name, "data": object or text}`, a text being sent as it is.
        end: `done`, with the format's finish marker if the events have none; `eof`, without; `reset`, the
            connection breaks; `hang`, nothing comes any more.
        every: seconds from one event to the next.
        after: seconds until the first.

    Raises:
        ValueError: there is no such end.
    """
    if end not in get_args(End):
        raise ValueError(f"end is {end!r}; give one of {', '.join(get_args(End))}")
    return Events(tuple(events), end, every, after)


def in_json(
    status: int, body: object, *, headers: Mapping[str, str] | None = None, after: float = 0.0
) -> Reply:
    """A reply whose body is this value as JSON."""
    return Reply(
        status,
        msgspec.json.encode(body),
        {"content-type": "application/json", **(headers or {})},
        after,
    )


def refusal(kind: str, feature: str = Feature.OTHER, *, after: float = 0.0) -> Refusal:
    """A canned reply of an error kind in the request's wire format. A `parameter_reject` names `temperature`.

    Args:
        kind: a value of `ErrorKind`.
        feature: what a `capability` reject refuses, a value of `Feature`.
        after: seconds until it comes.

    Raises:
        ValueError: there is no such kind or feature.
    """
    return Refusal(Kind(kind), Feature(feature), after)
