"""Anthropic Messages: what counts as an answer, what a request needs, how a stream runs.

Field names and types of events are those of the public API reference of `POST /v1/messages`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from turnout.engine.classify.verdict import ALWAYS, Feature
from turnout.engine.wire import sizes
from turnout.engine.wire.reading import Reading
from turnout.engine.wire.sign import Sign
from turnout.engine.wire.values import (
    USES_TOOLS,
    Keys,
    as_json,
    chosen,
    counts,
    described,
    formatted,
    gather,
    is_foreign_error,
    is_no_object_but_error,
    kind,
    limit,
    listed,
    mapping,
    merged,
    objects,
    offered,
    reasons,
    said,
    switched_on,
    tells_error,
    used,
)

PATH: Final = "/v1/messages"
VERSION: Final = "/v1"
AUTH_HEADER: Final = "x-api-key"
FORWARDED: Final[tuple[str, ...]] = ("anthropic-beta", "anthropic-version")
HEADERS: Final[Mapping[str, str]] = {"anthropic-version": "2023-06-01"}

PARTS: Final[Mapping[str, str]] = {
    "image": Feature.IMAGE.value,
    "document": Feature.FILE.value,
    "container_upload": Feature.FILE.value,
    "thinking": Feature.REASONING.value,
    "redacted_thinking": Feature.REASONING.value,
}
"""What a content block of this type needs, within the result of a tool too."""

KEYS: Final[Keys] = {
    "tools": (
        (Feature.TOOLS.value, offered),
        (Feature.TOOL_SCHEMA.value, described),
    ),
    "mcp_servers": ((Feature.TOOLS.value, offered),),
    "tool_choice": ((Feature.TOOL_CHOICE.value, chosen),),
    "stream": ((Feature.STREAMING.value, switched_on),),
    "thinking": ((Feature.REASONING.value, reasons),),
    "output_format": ((Feature.STRUCTURED_OUTPUT.value, formatted),),
    "output_config": (
        (Feature.STRUCTURED_OUTPUT.value, lambda value: formatted(mapping(value).get("format"))),
    ),
}
"""What a top-level key needs, and which values of it do."""

IMAGE: Final = 1_600
"""Tokens of an image: its pixels divided by 750 and about 1,600 at the most, by Anthropic's vision guide.

That it is as large is a guess; models that see in higher resolution take up to three times as many.
"""

TOOL_PROMPT: Final = 346
"""Tokens that tools cost together: those of the prompt that Anthropic adds, by its documentation of tool use,
for models of the fourth generation that may choose whether to call one.
"""

CALLS: Final = "tool_use"
"""How the types of blocks end that call a tool, whoever runs it."""

TOOLS: Final = (CALLS, "tool_result")
"""How the types of blocks end that a request without tools has not."""

WITHIN: Final = frozenset({"content", "source"})
"""Where a message or a block holds blocks: a document's source may hold some too."""

TEXTS: Final = frozenset({"content", "text", "thinking", "name", "title", "context"})
"""Where a message or a block holds text."""

HELD: Final = TEXTS | WITHIN
"""Where it holds either."""

OUTPUT: Final = ("max_tokens",)
"""Where a request limits the tokens of its output, the key that counts first."""

USAGE: Final = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
PROMPT: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
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


def read(body: Mapping[str, Any]) -> Reading:
    """What the request needs, its history included, and how large it is."""
    found = used(body, KEYS)
    messages, system = listed(body.get("messages")), body.get("system")
    texts, kinds = gather([*messages, *listed(system)] if system else messages, TEXTS, WITHIN, HELD)
    tokens = sizes.MESSAGE * len(messages)
    if isinstance(system, str):
        texts.append(system)
    if kinds:
        tokens += _others(kinds, found, texts)
    if tools := body.get("tools"):
        texts.append(as_json(tools))
        number = len(objects(tools))
        tokens += sizes.TOOL * number + (TOOL_PROMPT if number else 0)
    if form := body.get("output_format") or mapping(body.get("output_config")).get("format"):
        texts.append(as_json(form))
    return Reading(ALWAYS | found, sizes.text("".join(texts)), tokens)


def _others(kinds: Mapping[str, list[dict[str, Any]]], found: set[str], texts: list[str]) -> int:
    """What blocks cost by their types; what they need and say is added."""
    tokens = 0
    for of, those in kinds.items():
        if (feature := PARTS.get(of)) is not None:
            found.add(feature)
            if of == "image":
                tokens += IMAGE * len(those)
            elif of == "document":
                texted = [each for each in those if kind(mapping(each.get("source"))) in ("text", "content")]
                tokens += sizes.FILE * (len(those) - len(texted))
        elif of == "text":  # the source of a document
            texts += [plain for each in those if isinstance(plain := each.get("data"), str)]
        elif of.endswith(TOOLS):
            found.add(USES_TOOLS)
            if of.endswith(CALLS):  # of all in one, without the brackets
                texts.append(as_json([given for each in those if (given := each.get("input"))])[1:-1])
    return tokens


def output(body: Mapping[str, Any]) -> int | None:
    """The most tokens of output that the request asks for; None where it sets no limit."""
    return limit(body, OUTPUT)


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
