"""OpenAI Responses: what counts as an answer, what a request needs, how a stream runs.

Field names and types of events are those of the public API reference of `POST /responses`.
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

PATH: Final = "/responses"
VERSION: Final = ""
AUTH_HEADER: Final = "authorization"
FORWARDED: Final[tuple[str, ...]] = ()
HEADERS: Final[Mapping[str, str]] = {}

PARTS: Final[Mapping[str, str]] = {
    "input_image": Feature.IMAGE.value,
    "computer_screenshot": Feature.IMAGE.value,
    "input_audio": Feature.AUDIO.value,
    "input_video": Feature.VIDEO.value,
    "input_file": Feature.FILE.value,
    "reasoning": Feature.REASONING.value,
}
"""What an item of the input, or a part of one, needs."""

COSTS: Final[Mapping[str, int]] = {
    "input_image": sizes.IMAGE,
    "computer_screenshot": sizes.IMAGE,
    "image_generation_call": sizes.IMAGE,
    "input_audio": sizes.AUDIO,
    "input_video": sizes.VIDEO,
    "input_file": sizes.FILE,
}
"""What an item or a part of this type costs, in tokens."""

KEYS: Final[Keys] = {
    "tools": (
        (Feature.TOOLS.value, offered),
        (Feature.TOOL_SCHEMA.value, described),
    ),
    "tool_choice": ((Feature.TOOL_CHOICE.value, chosen),),
    "stream": ((Feature.STREAMING.value, switched_on),),
    "reasoning": ((Feature.REASONING.value, reasons),),
    "text": ((Feature.STRUCTURED_OUTPUT.value, lambda value: formatted(mapping(value).get("format"))),),
}
"""What a top-level key needs, and which values of it do."""

CALLS: Final = ("_call", "mcp_approval_request")
"""How the types of items end that call a tool, whoever runs it."""

TOOLS: Final = (*CALLS, "_call_output", "mcp_list_tools", "mcp_approval_response", "tool_search_output")
"""How the types of items end that a request without tools has not."""

WITHIN: Final = frozenset({"content", "output", "summary", "operation"})
"""Where an item holds parts."""

TEXTS: Final = frozenset(
    {"content", "text", "refusal", "name", "arguments", "input", "output", "code", "stdout", "stderr", "diff"}
)
"""Where an item or a part holds text."""

HELD: Final = TEXTS | WITHIN
"""Where it holds either."""

FAILED: Final = ("error", "response.failed")
"""Events that end a stream badly."""

ALONE: Final = ("instructions", "input")
"""What of a request may be a text, and is a message then."""

OUTPUT: Final = ("max_output_tokens",)
"""Where a request limits the tokens of its output, the key that counts first."""

USAGE: Final = ("input_tokens", "output_tokens", "total_tokens")
PROMPT: Final = ("input_tokens",)
DETAILS: Final[Mapping[str, tuple[str, str]]] = {
    "cached_tokens": ("input_tokens_details", "cached_tokens"),
    "reasoning_tokens": ("output_tokens_details", "reasoning_tokens"),
}


def is_answer(body: object) -> bool:
    """Whether this is a complete answer. One without output is, and one that was cut at its limit."""
    if (
        not isinstance(body, dict)
        or not isinstance(body.get("output"), list)
        or body.get("error") is not None
    ):
        return False
    status = body.get("status")
    if status in ("queued", "in_progress"):
        # only what runs in the background is sent unfinished: the caller asked for just that, and will
        # fetch the rest; another target would do the same work once more. Unasked, it is no answer
        return body.get("background") is True
    return status in (None, "completed", "incomplete")


def usage(body: Mapping[str, Any]) -> dict[str, int] | None:
    """The token counts that the upstream reports, with `cached_tokens` and `reasoning_tokens`."""
    return counts(body.get("usage"), USAGE, DETAILS)


def read(body: Mapping[str, Any]) -> Reading:
    """What the request needs, its history included as far as it is here, and how large that is."""
    found = used(body, KEYS)
    items = listed(body.get("input"))
    texts, kinds = gather(items, TEXTS, WITHIN, HELD)
    tokens = sizes.MESSAGE * len(items)
    for key in ALONE:
        if isinstance(text := body.get(key), str):
            texts.append(text)
            tokens += sizes.MESSAGE
    if kinds:
        tokens += _others(kinds, found, texts)
    if tools := body.get("tools"):
        texts.append(as_json(tools))
        tokens += sizes.TOOL * len(objects(tools))
    if form := mapping(body.get("text")).get("format"):
        texts.append(as_json(form))
    return Reading(ALWAYS | found, sizes.text("".join(texts)), tokens)


def _others(kinds: Mapping[str, list[dict[str, Any]]], found: set[str], texts: list[str]) -> int:
    """What items and parts cost by their types; what they need and say is added."""
    tokens = 0
    for of, those in kinds.items():
        if (feature := PARTS.get(of)) is not None:
            found.add(feature)
        elif of.endswith(TOOLS):
            found.add(USES_TOOLS)
        if (cost := COSTS.get(of)) is not None:
            low = [each for each in those if each.get("detail") == "low"]
            tokens += cost * (len(those) - len(low)) + sizes.IMAGE_LOW * len(low)
        elif of == "mcp_list_tools":
            texts += [as_json(each.get("tools")) for each in those]
    return tokens


def output(body: Mapping[str, Any]) -> int | None:
    """The most tokens of output that the request asks for; None where it sets no limit."""
    return limit(body, OUTPUT)


class Stream:
    """Reads one stream."""

    def __init__(self) -> None:
        self.finished = False
        """What came so far is a complete answer."""
        self.usage: dict[str, int] | None = None

    def read(self, name: str, data: str, body: Any) -> Sign:
        """What an event holds: of its `event:` name, its data, and that data's JSON or None."""
        if not isinstance(body, dict):
            failed = name == FAILED[1] or is_no_object_but_error(name, data, body)
            return Sign.ERROR if failed else Sign.NOTHING
        event = kind(body) or name
        if event in FAILED or name in FAILED or (body.get("error") and tells_error(data)):
            return Sign.ERROR
        if event.endswith(".delta"):
            return Sign.CONTENT if said(body.get("delta")) else Sign.NOTHING
        if event in ("response.completed", "response.incomplete"):
            response = mapping(body.get("response"))
            if response.get("error") or response.get("status") == "failed":
                return Sign.ERROR
            self.usage = merged(self.usage, usage(response))
            self.finished = True
            return Sign.LAST
        if not event.startswith("response.") and is_foreign_error(data, body):
            return Sign.ERROR
        return Sign.CONTENT if _begins_with_output(event, body) else Sign.NOTHING


def _begins_with_output(event: str, body: dict[str, Any]) -> bool:
    """Whether what begins here holds output from the start: mostly it is empty, and pieces follow."""
    if event == "response.output_item.added":
        item = mapping(body.get("item"))
        if kind(item).endswith(CALLS):
            return any(said(item.get(key)) for key in ("name", "id", "call_id"))
        return any(_speaks(part) for key in ("content", "summary") for part in objects(item.get(key)))
    return event.endswith("_part.added") and _speaks(mapping(body.get("part")))


def _speaks(part: Mapping[str, Any]) -> bool:
    return any(said(part.get(key)) for key in ("text", "refusal", "transcript"))
