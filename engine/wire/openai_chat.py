"""OpenAI Chat Completions, buffered: what goes out, what counts as an answer, what a request needs.

Field names are those of the public API reference of `POST /chat/completions`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from turnout.engine.classify.verdict import Feature
from turnout.engine.targets import Target

PATH: Final = "/chat/completions"

PARTS: Final[Mapping[str, Feature]] = {
    "image_url": Feature.IMAGE,
    "input_audio": Feature.AUDIO,
    "video_url": Feature.VIDEO,
    "file": Feature.FILE,
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

ALWAYS: Final = (Feature.ENDPOINT, Feature.ROLE)
"""What every request needs."""

CHARS_PER_TOKEN: Final = 4
"""A plain rule of thumb for text of a request, in characters a token."""

USAGE: Final = ("prompt_tokens", "completion_tokens", "total_tokens")


def injected(body: Mapping[str, Any], target: Target) -> frozenset[str]:
    """The keys of the client's `extra_body` that this request omits."""
    return frozenset(target.extra_body) - body.keys() if target.extra_body else frozenset()


def outgoing(body: Mapping[str, Any], target: Target, without: frozenset[str]) -> dict[str, Any]:
    """The caller's body as the target gets it: its model id, and what the client adds."""
    added = {key: target.extra_body[key] for key in injected(body, target) - without}
    return {**body, **added, "model": target.model_id}


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
    """The token counts that the upstream reports, and `cached_tokens` of the prompt."""
    reported = body.get("usage")
    if not isinstance(reported, Mapping):
        return None
    counts = {key: reported.get(key) for key in USAGE}
    details = reported.get("prompt_tokens_details")
    if isinstance(details, Mapping):
        counts["cached_tokens"] = details.get("cached_tokens")
    return {key: count for key, count in counts.items() if type(count) is int} or None


def needs(body: Mapping[str, Any]) -> frozenset[str]:
    """The features that the request uses, its history included."""
    found: set[str] = {*ALWAYS, *(need for key, needed in KEYS.items() if body.get(key) for need in needed)}
    for part in _parts(body):
        if (feature := PARTS.get(str(part.get("type")))) is not None:
            found.add(feature)
    response_format = body.get("response_format")
    if isinstance(response_format, Mapping) and response_format.get("type") not in (None, "text"):
        found.add(Feature.STRUCTURED_OUTPUT)
    if any(message.get("tool_calls") or message.get("role") == "tool" for message in _messages(body)):
        found.add(Feature.TOOLS)
    return frozenset(str(feature) for feature in found)


def size(body: Mapping[str, Any]) -> int:
    """The request's estimated size in tokens: its text alone, never the bytes of an image."""
    characters = sum(len(text) for text in _texts(body))
    for key in ("tools", "functions", "response_format"):
        if body.get(key):
            characters += len(msgspec.json.encode(body[key]))
    return -(-characters // CHARS_PER_TOKEN)


def _messages(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    return _objects(body.get("messages"))


def _parts(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for message in _messages(body):
        yield from _objects(message.get("content"))


def _objects(value: object) -> Iterator[Mapping[str, Any]]:
    """The objects of a list; of anything else, since callers send anything, none."""
    for item in value if isinstance(value, list | tuple) else ():
        if isinstance(item, Mapping):
            yield item


def _texts(body: Mapping[str, Any]) -> Iterator[str]:
    for message in _messages(body):
        if isinstance(content := message.get("content"), str):
            yield content
        for call in _objects(message.get("tool_calls")):
            function = call.get("function")
            arguments = function.get("arguments") if isinstance(function, Mapping) else None
            if isinstance(arguments, str):
                yield arguments
    for part in _parts(body):
        if isinstance(text := part.get("text"), str):
            yield text
