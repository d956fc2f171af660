"""OpenAI Chat Completions: what counts as an answer, what a request needs, how a stream runs.

Field names are those of the public API reference of `POST /chat/completions`, and what
servers that speak it add: `reasoning_content`, `reasoning` and `images` in a delta, lists
of parts as its content, errors in the middle of a stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from turnout.engine.classify.verdict import Feature
from turnout.engine.wire.sign import Sign
from turnout.engine.wire.values import (
    counts,
    formatted,
    is_foreign_error,
    is_no_object_but_error,
    json_length,
    kind,
    length,
    limit,
    mapping,
    merged,
    objects,
    said,
    tells_error,
    tokens,
    used,
    values,
    walk,
)

PATH: Final = "/chat/completions"
VERSION: Final = ""
AUTH_HEADER: Final = "authorization"
FORWARDED: Final[tuple[str, ...]] = ()
HEADERS: Final[Mapping[str, str]] = {}

PARTS: Final[Mapping[str, Feature]] = {
    "image_url": Feature.IMAGE,
    "input_audio": Feature.AUDIO,
    "video_url": Feature.VIDEO,
    "file": Feature.FILE,
    "thinking": Feature.REASONING,
}
"""What a content part of this type needs."""

KEYS: Final[Mapping[str, tuple[Feature, ...]]] = {
    "tools": (Feature.TOOLS, Feature.TOOL_SCHEMA),
    "functions": (Feature.TOOLS, Feature.TOOL_SCHEMA),
    "tool_choice": (Feature.TOOL_CHOICE,),
    "stream": (Feature.STREAMING,),
    "reasoning_effort": (Feature.REASONING,),
}
"""What a top-level key needs that is neither absent nor null, false or empty."""

WITHIN: Final = ("content", "thinking", "tool_calls", "function", "custom", "function_call")
"""Where a message holds parts and calls, and these hold more."""

TEXTS: Final = ("content", "text", "thinking", "arguments", "input")
"""Where a message, a part or a call holds text."""

OUTPUT: Final = ("max_completion_tokens", "max_tokens")
"""Where a request limits the tokens of its output, the key that counts first."""

USAGE: Final = ("prompt_tokens", "completion_tokens", "total_tokens")
DETAILS: Final[Mapping[str, tuple[str, str]]] = {
    "cached_tokens": ("prompt_tokens_details", "cached_tokens"),
    "reasoning_tokens": ("completion_tokens_details", "reasoning_tokens"),
}

SPOKEN: Final = ("reasoning_content", "reasoning", "refusal")
"""Where a delta holds text beside its content."""


def is_answer(body: object) -> bool:
    """Whether this is a complete answer. One with an empty text is."""
    if not isinstance(body, dict):
        return False
    choices = body.get("choices")
    return (
        isinstance(choices, list)
        and bool(choices)
        and all(isinstance(choice, dict) and isinstance(choice.get("message"), dict) for choice in choices)
    )


def usage(body: Mapping[str, Any]) -> dict[str, int] | None:
    """The token counts that the upstream reports, with `cached_tokens` and `reasoning_tokens`."""
    return counts(body.get("usage"), USAGE, DETAILS)


def needs(body: Mapping[str, Any]) -> frozenset[str]:
    """The features that the request uses, its history included."""
    found = used(body, KEYS)
    for each in _history(body):
        if (feature := PARTS.get(kind(each))) is not None:
            found.add(feature)
        if each.get("tool_calls") or each.get("function_call") or each.get("role") in ("tool", "function"):
            found.add(Feature.TOOLS)
    if formatted(body.get("response_format")):
        found.add(Feature.STRUCTURED_OUTPUT)
    return values(found)


def output(body: Mapping[str, Any]) -> int | None:
    """The most tokens of output that the request asks for; None where it sets no limit."""
    return limit(body, OUTPUT)


def size(body: Mapping[str, Any]) -> int:
    """The request's estimated size in tokens: its text alone, never the bytes of an image."""
    characters = length(_history(body), TEXTS)
    return tokens(
        characters + sum(json_length(body.get(key)) for key in ("tools", "functions", "response_format"))
    )


def _history(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    return walk(body.get("messages"), WITHIN)


class Stream:
    """Reads one stream."""

    def __init__(self) -> None:
        self.finished = False
        """What came so far is a complete answer: every choice that was seen has ended, or `[DONE]` came."""
        self.usage: dict[str, int] | None = None
        self._failed = False
        self._open: set[int] = set()
        self._ended: set[int] = set()

    def read(self, name: str, data: str, body: Any) -> Sign:
        """What an event holds: of its `event:` name, its data, and that data's JSON or None."""
        if not isinstance(body, dict):
            return self._without_object(name, data, body)
        choices = body.get("choices")
        if name == "error" or (body.get("error") and tells_error(data)):
            return self._error()
        if not isinstance(choices, list) and is_foreign_error(data, body):
            return self._error()
        if reported := body.get("usage"):
            self.usage = merged(self.usage, counts(reported, USAGE, DETAILS))
        sign = Sign.NOTHING
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict):
                if choice.get("finish_reason") == "error" or (choice.get("error") and tells_error(data)):
                    return self._error()
                self._follow(choice)
                if _speaks(choice.get("delta")):
                    sign = Sign.CONTENT
        return sign

    def _without_object(self, name: str, data: str, body: object) -> Sign:
        if data.strip() == "[DONE]":
            self.finished = not self._failed
            return Sign.LAST
        return self._error() if is_no_object_but_error(name, data, body) else Sign.NOTHING

    def _follow(self, choice: dict[str, Any]) -> None:
        """Note whether a choice has ended. Some servers send an empty reason until it has."""
        index = choice.get("index")
        index = index if isinstance(index, int) else 0
        if choice.get("finish_reason"):
            self._ended.add(index)
            self._open.discard(index)
        elif index not in self._ended:
            self._open.add(index)
        self.finished = not (self._open or self._failed)

    def _error(self) -> Sign:
        """After an error no end makes the answer whole: some servers send `[DONE]` all the same."""
        self._failed = True
        self.finished = False
        return Sign.ERROR


def _speaks(delta: Any) -> bool:
    """Whether a delta holds output."""
    if not isinstance(delta, dict):
        return False
    if (content := delta.get("content")) and (
        isinstance(content, str) or any(map(_part_speaks, objects(content)))
    ):
        return True
    if any(said(delta.get(key)) for key in SPOKEN):
        return True
    if (calls := delta.get("tool_calls")) and any(map(_calls, objects(calls))):
        return True
    if (call := delta.get("function_call")) and said(mapping(call).get("name")):
        return True
    if (audio := delta.get("audio")) and any(said(mapping(audio).get(key)) for key in ("data", "transcript")):
        return True
    return bool(delta.get("images"))


def _part_speaks(part: Mapping[str, Any]) -> bool:
    """Whether a part of a content that is a list holds text; that of its reasoning is a list again."""
    return said(part.get("text")) or any(said(inner.get("text")) for inner in objects(part.get("thinking")))


def _calls(call: Mapping[str, Any]) -> bool:
    """Whether a piece of a tool call names it."""
    return said(call.get("id")) or any(said(mapping(call.get(k)).get("name")) for k in ("function", "custom"))
