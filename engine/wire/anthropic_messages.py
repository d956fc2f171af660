"""Anthropic Messages: what counts as an answer, what a request needs, how a stream runs.

Field names and types of events are those of the public API reference of `POST /v1/messages`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from turnout.engine.classify.verdict import Feature
from turnout.engine.wire.sign import Sign
from turnout.engine.wire.values import (
    counts,
    is_foreign_error,
    is_no_object_but_error,
    json_length,
    kind,
    length,
    limit,
    mapping,
    merged,
    said,
    tells_error,
    tokens,
    used,
    values,
    walk,
)

PATH: Final = "/v1/messages"
VERSION: Final = "/v1"
AUTH_HEADER: Final = "x-api-key"
FORWARDED: Final[tuple[str, ...]] = ("anthropic-beta", "anthropic-version")
HEADERS: Final[Mapping[str, str]] = {"anthropic-version": "2023-06-01"}

PARTS: Final[Mapping[str, Feature]] = {
    "image": Feature.IMAGE,
    "document": Feature.FILE,
    "thinking": Feature.REASONING,
    "redacted_thinking": Feature.REASONING,
}
"""What a content block of this type needs, within the result of a tool too."""

KEYS: Final[Mapping[str, tuple[Feature, ...]]] = {
    "tools": (Feature.TOOLS, Feature.TOOL_SCHEMA),
    "mcp_servers": (Feature.TOOLS,),
    "tool_choice": (Feature.TOOL_CHOICE,),
    "stream": (Feature.STREAMING,),
    "output_format": (Feature.STRUCTURED_OUTPUT,),
}
"""What a top-level key needs that is neither absent nor null, false or empty."""

CALLS: Final = "tool_use"
"""How the types of blocks end that call a tool, whoever runs it."""

TOOLS: Final = (CALLS, "tool_result")
"""How the types of blocks end that a request without tools has not."""

WITHIN: Final = ("content", "source")
"""Where a message or a block holds blocks: a document's source may hold some too."""

TEXTS: Final = ("content", "text", "thinking")
"""Where a message or a block holds text."""

OUTPUT: Final = ("max_tokens",)
"""Where a request limits the tokens of its output, the key that counts first."""

USAGE: Final = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
DETAILS: Final[Mapping[str, tuple[str, str]]] = {
    "reasoning_tokens": ("output_tokens_details", "thinking_tokens"),
}

PIECES: Final = ("text", "thinking", "partial_json")
"""Where a delta holds output; a signature or a citation is none."""

OTHERS: Final = ("content_block_stop", "ping")
"""Events that hold nothing of an answer."""

BEGUN: Final[Mapping[str, str]] = {"text": "text", "thinking": "thinking", "redacted_thinking": "data"}
"""Where a block of this type holds output when it begins: mostly it is empty, and pieces follow."""


def is_answer(body: object) -> bool:
    """Whether this is a complete answer. One without content is."""
    return (
        isinstance(body, dict)
        and body.get("type", "message") == "message"
        and isinstance(body.get("content"), list)
    )


def usage(body: Mapping[str, Any]) -> dict[str, int] | None:
    """The token counts that the upstream reports, by its own names, and `reasoning_tokens`."""
    return counts(body.get("usage"), USAGE, DETAILS)


def needs(body: Mapping[str, Any]) -> frozenset[str]:
    """The features that the request uses, its history included."""
    found = used(body, KEYS)
    for each in _history(body):
        if (feature := PARTS.get(kind(each))) is not None:
            found.add(feature)
        elif kind(each).endswith(TOOLS):
            found.add(Feature.TOOLS)
    if mapping(body.get("output_config")).get("format"):
        found.add(Feature.STRUCTURED_OUTPUT)
    return values(found)


def output(body: Mapping[str, Any]) -> int | None:
    """The most tokens of output that the request asks for; None where it sets no limit."""
    return limit(body, OUTPUT)


def size(body: Mapping[str, Any]) -> int:
    """The request's estimated size in tokens: its text alone, never the bytes of an image."""
    characters = length((body,), ("system",)) + length(walk(body.get("system"), WITHIN), TEXTS)
    for each in _history(body):
        characters += length((each,), TEXTS) + json_length(each.get("input"))
        if kind(each) == "text":  # the source of a document that is plain text
            characters += length((each,), ("data",))
    return tokens(
        characters + sum(json_length(body.get(k)) for k in ("tools", "output_format", "output_config"))
    )


def _history(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    return walk(body.get("messages"), WITHIN)


class Stream:
    """Reads one stream."""

    def __init__(self) -> None:
        self.finished = False
        """What came so far is a complete answer: the message has a reason why it stopped."""
        self.usage: dict[str, int] | None = None
        self._failed = False

    def read(self, name: str, data: str, body: Any) -> Sign:
        """What an event holds: of its `event:` name, its data, and that data's JSON or None."""
        if not isinstance(body, dict):
            return self._error() if is_no_object_but_error(name, data, body) else Sign.NOTHING
        event = kind(body) or name
        if "error" in (event, name) or (body.get("error") and tells_error(data)):
            return self._error()
        if event == "content_block_delta":
            delta = mapping(body.get("delta"))
            return Sign.CONTENT if any(said(delta.get(key)) for key in PIECES) else Sign.NOTHING
        if event == "content_block_start":
            return Sign.CONTENT if _begins_with_output(mapping(body.get("content_block"))) else Sign.NOTHING
        if event == "message_stop":
            self.finished = not self._failed
            return Sign.LAST
        if event == "message_start":
            self.usage = merged(self.usage, usage(mapping(body.get("message"))))
        elif event == "message_delta":
            self.usage = merged(self.usage, usage(body))
            if mapping(body.get("delta")).get("stop_reason"):
                self.finished = not self._failed
        elif event not in OTHERS and is_foreign_error(data, body):
            return self._error()
        return Sign.NOTHING

    def _error(self) -> Sign:
        """After an error no end makes the answer whole."""
        self._failed = True
        self.finished = False
        return Sign.ERROR


def _begins_with_output(block: Mapping[str, Any]) -> bool:
    of = kind(block)
    if of.endswith(CALLS):
        return said(block.get("name")) or said(block.get("id"))
    return of in BEGUN and said(block.get(BEGUN[of]))
