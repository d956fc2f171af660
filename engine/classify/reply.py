"""What a failed attempt brought back, as classification reads it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field


class Reply(Struct, frozen=True, kw_only=True):
    """A reply that is no complete answer: an error status, an error inside a 200, an unreadable body."""

    status: int
    body: bytes = b""
    """At most the first 64 KiB."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Names in lower case."""
    format: str = "openai_chat"
    event: str | None = None
    """Of an error within a stream: the event's name, empty where it has none. `body` is its data."""
    provider: str = ""
    """Who answered, where the address tells (`openrouter`, `zai`): some codes are one provider's own."""
