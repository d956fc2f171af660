"""The wire formats: one module each, and what goes out in any of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from turnout.engine.errors import ConfigurationError
from turnout.engine.targets import Target
from turnout.engine.wire import anthropic_messages, openai_chat, openai_responses
from turnout.engine.wire.reading import Reading
from turnout.engine.wire.sign import Sign


class Stream(Protocol):
    """Reads one stream, an event at a time."""

    finished: bool
    """What came so far is a complete answer."""
    usage: dict[str, int] | None
    """The token counts that were reported so far."""

    def read(self, name: str, data: str, body: Any, /) -> Sign:
        """What an event holds: of its `event:` name or "", its data, and that data's JSON or None."""
        ...


class Wire(Protocol):
    """What an engine must know of a wire format: each module of one is this."""

    @property
    def PATH(self) -> str:  # noqa: N802 - constants of a module
        """Where its requests go, after the base URL."""
        ...

    @property
    def VERSION(self) -> str:  # noqa: N802
        """The end of a base URL that `PATH` already begins with."""
        ...

    @property
    def AUTH_HEADER(self) -> str:  # noqa: N802
        """The header that carries the credential, where a client names none."""
        ...

    @property
    def FORWARDED(self) -> tuple[str, ...]:  # noqa: N802
        """Headers of the caller that go upstream too, in lower case, unless a client says otherwise."""
        ...

    @property
    def HEADERS(self) -> Mapping[str, str]:  # noqa: N802
        """Headers that go out unless something else gives them."""
        ...

    @property
    def PROMPT(self) -> tuple[str, ...]:  # noqa: N802
        """The token counts of a usage that make up the request, those of a prompt cache included."""
        ...

    @property
    def Stream(self) -> Callable[[], Stream]:  # noqa: N802
        """Makes the reader of one stream."""
        ...

    def is_answer(self, body: object, /) -> bool:
        """Whether a body is a complete answer. An empty one is."""
        ...

    def usage(self, body: Mapping[str, Any], /) -> dict[str, int] | None:
        """The token counts of an answer, by the format's own names; None where it reports none."""
        ...

    def read(self, body: Mapping[str, Any], /) -> Reading:
        """What a request needs, and how large it is."""
        ...

    def output(self, body: Mapping[str, Any], /) -> int | None:
        """The most tokens of output that a request asks for; None where it sets no limit."""
        ...


FORMATS: Final[Mapping[str, Wire]] = {
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
    "anthropic_messages": anthropic_messages,
}


def of(format: str) -> Wire:
    """The wire format of that name.

    Raises:
        ConfigurationError: there is none.
    """
    if (wire := FORMATS.get(format)) is None:
        raise ConfigurationError(f"{format!r} is no wire format; give {', '.join(FORMATS)}")
    return wire


def injected(body: Mapping[str, Any], target: Target) -> frozenset[str]:
    """The keys of the client's `extra_body` that this request omits."""
    return frozenset(target.extra_body) - body.keys() if target.extra_body else frozenset()


def outgoing(body: Mapping[str, Any], target: Target, without: frozenset[str]) -> dict[str, Any]:
    """The caller's body as the target gets it: its model id, and what the client adds.

    `without` are keys that the client would add and that are left out.
    """
    added = {key: target.extra_body[key] for key in injected(body, target) - without}
    return {**body, **added, "model": target.model_id}
