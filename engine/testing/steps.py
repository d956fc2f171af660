"""What a scripted upstream does with one request, step by step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from turnout.engine.targets import Format


@dataclass(frozen=True)
class Head:
    """The reply begins."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Data:
    """A piece of the reply's body, as it arrives."""

    content: bytes


@dataclass(frozen=True)
class Pause:
    """Nothing comes for so many seconds."""

    secs: float


@dataclass(frozen=True)
class Break:
    """The connection breaks, and that is the end."""


@dataclass(frozen=True)
class Silence:
    """Nothing comes any more, for as long as anyone waits."""


@dataclass(frozen=True)
class Fail:
    """A RuntimeError with this text: code that fails, where a `Break` is a connection that does."""

    text: str


Step = Head | Data | Pause | Break | Silence | Fail
"""After the last one the reply is complete. No `Data` comes before the `Head`."""


class Scripted(Protocol):
    """What an upstream does with one request."""

    def steps(self, format: Format, stream: bool) -> Iterator[Step]:
        """The steps, for a request in this wire format.

        Args:
            stream: whether the request asks for a stream.
        """
        ...
