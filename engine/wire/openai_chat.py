"""OpenAI Chat Completions: what counts as an answer, what a request needs, how a stream runs.

Field names are those of the public API reference of `POST /chat/completions`, and what
servers that speak it add: `reasoning_content`, `reasoning` and `images` in a delta, lists
of parts as its content, errors in the middle of a stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    effort,
    formatted,
    gather,
    is_foreign_error,
    is_no_object_but_error,
    limit,
    listed,
    mapping,
    merged,
    objects,
    offered,
    reasons,
    said,
    speaks,
    switched_on,
    tells_error,
    used,
)

PATH: Final = "/chat/completions"
VERSION: Final = ""
AUTH_HEADER: Final = "authorization"
FORWARDED: Final[tuple[str, ...]] = ()
HEADERS: Final[Mapping[str, str]] = {}

PARTS: Final[Mapping[str, str]] = {
    "image_url": Feature.IMAGE.value,
    "input_audio": Feature.AUDIO.value,
    "audio_url": Feature.AUDIO.value,
    "video_url": Feature.VIDEO.value,
    "video": Feature.VIDEO.value,
    "file": Feature.FILE.value,
    "document_url": Feature.FILE.value,
    "thinking": Feature.REASONING.value,
}
"""What a content part of this type needs. Those that OpenAI has not are of vLLM, Qwen and Mistral."""

COSTS: Final[Mapping[str, int]] = {
    "image_url": sizes.IMAGE,
    "input_audio": sizes.AUDIO,
    "audio_url": sizes.AUDIO,
    "video_url": sizes.VIDEO,
    "video": sizes.VIDEO,
    "file": sizes.FILE,
    "document_url": sizes.FILE,
}
"""What a content part of this type costs, in tokens."""

KEYS: Final[Keys] = {
    "tools": (
        (Feature.TOOLS.value, offered),
        (Feature.TOOL_SCHEMA.value, described),
    ),
    "functions": (
        (Feature.TOOLS.value, offered),
        (Feature.TOOL_SCHEMA.value, offered),
    ),
    "tool_choice": ((Feature.TOOL_CHOICE.value, chosen),),
    "function_call": ((Feature.TOOL_CHOICE.value, chosen),),
    "stream": ((Feature.STREAMING.value, switched_on),),
    "reasoning_effort": ((Feature.REASONING.value, effort),),
    "reasoning": ((Feature.REASONING.value, reasons),),
    "thinking": ((Feature.REASONING.value, reasons),),
    "response_format": ((Feature.STRUCTURED_OUTPUT.value, formatted),),
    "modalities": ((Feature.AUDIO.value, speaks),),
}
"""What a top-level key needs, and which values of it do."""

FIELDS: Final[Mapping[str, str]] = {
    "tool_calls": Feature.TOOLS.value,
    "function_call": Feature.TOOLS.value,
    "audio": Feature.AUDIO.value,
    "reasoning_content": Feature.REASONING.value,
    "reasoning": Feature.REASONING.value,
    "reasoning_details": Feature.REASONING.value,
}
"""What a message needs whose field of this name is not empty. Servers name their reasoning differently."""

ANSWERS: Final = ("tool", "function")
"""The roles that bring what a tool answered."""

WITHIN: Final = frozenset({"content", "thinking", "tool_calls", "function_call", "function", "custom"})
"""Where a message holds parts and calls, and these hold more."""

TEXTS: Final = frozenset(
    {"content", "text", "thinking", "refusal", "name", "arguments", "input", "reasoning_content", "reasoning"}
)
"""Where a message, a part or a call holds text."""

HELD: Final = TEXTS | WITHIN
"""Where it holds either."""

FURTHER: Final = (WITHIN | TEXTS | FIELDS.keys()) - {"content"}
"""What of a message is looked for beside its role and content."""

OUTPUT: Final = ("max_completion_tokens", "max_tokens")
"""Where a request limits the tokens of its output, the key that counts first."""

JSON: Final = ("tools", "functions", "response_format")
"""What of the request a model gets to read as JSON, or much like it."""

USAGE: Final = ("prompt_tokens", "completion_tokens", "total_tokens")
PROMPT: Final = ("prompt_tokens",)
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


def read(body: Mapping[str, Any]) -> Reading:
    """What the request needs, its history included, and how large it is."""
    found = used(body, KEYS)
    messages = listed(body.get("messages"))
    texts, parts, inner = _messages(messages, found)
    tokens = sizes.MESSAGE * len(messages)
    if parts:
        _parts(parts, found, texts, inner)
    if inner:
        tokens += _inner(inner, texts)
    for key in JSON:
        if value := body.get(key):
            texts.append(as_json(value))
            if key == "tools":
                tokens += sizes.TOOL * len(objects(value))
    return Reading(ALWAYS | found, sizes.text("".join(texts)), tokens)


def _messages(messages: Sequence[Any], found: set[str]) -> tuple[list[str], list[Any], list[Any]]:
    """The texts of messages, their parts, and what else they hold; what they need is added."""
    texts: list[str] = []
    parts: list[Any] = []
    inner: list[Any] = []
    for message in messages:
        if not isinstance(message, dict):
            continue
        content = message.get("content")
        if isinstance(content, str):
            texts.append(content)
        elif isinstance(content, list):
            parts += content
        elif content:
            parts += listed(content)
        if message.get("role") in ANSWERS:
            found.add(USES_TOOLS)
        if len(message) > 2 or content is None:
            _fields(message, found, texts, inner)
    return texts, parts, inner


def _parts(parts: list[Any], found: set[str], texts: list[str], inner: list[Any]) -> None:
    """The texts of parts, and those that are more than a text; what they need is added."""
    for part in parts:
        if not isinstance(part, dict):
            continue
        of = part.get("type")
        if of == "text" and len(part) == 2 and isinstance(text := part.get("text"), str):
            texts.append(text)
        else:
            inner.append(part)
            if isinstance(of, str) and of in PARTS:
                found.add(PARTS[of])


def _fields(message: dict[str, Any], found: set[str], texts: list[str], inner: list[Any]) -> None:
    """The same of what a message has beside its role and content: texts, calls and other parts."""
    for key in message:
        if key not in FURTHER or not (value := message[key]):
            continue
        if key in FIELDS:
            found.add(FIELDS[key])
        if isinstance(value, str):
            if key in TEXTS:
                texts.append(value)
        elif key == "tool_calls":
            _calls_made(listed(value), texts, inner)
        elif key in WITHIN:
            inner += listed(value)


def _calls_made(calls: Sequence[Any], texts: list[str], inner: list[Any]) -> None:
    """The same of calls: most are of a function that has a name and arguments, and tell nothing else."""
    for call in calls:
        if (
            isinstance(call, dict)
            and isinstance(function := call.get("function"), dict)
            and len(function) == 2
            and isinstance(name := function.get("name"), str)
            and isinstance(arguments := function.get("arguments"), str)
        ):
            texts += name, arguments
        else:
            inner.append(call)


def _inner(inner: list[Any], texts: list[str]) -> int:
    """What parts and calls cost that are more than a text; the texts within them are added."""
    said, kinds = gather(inner, TEXTS, WITHIN, HELD)
    texts += said
    tokens = 0
    for of in kinds.keys() & COSTS.keys():
        for part in kinds[of]:
            low = mapping(part.get("image_url")).get("detail") == "low"
            tokens += sizes.IMAGE_LOW if low else COSTS[of]
    return tokens


def output(body: Mapping[str, Any]) -> int | None:
    """The most tokens of output that the request asks for; None where it sets no limit."""
    return limit(body, OUTPUT)


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
