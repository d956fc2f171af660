"""Whether a 200 is an answer, or an error in the place of one."""

from __future__ import annotations

from typing import Final

from turnout.engine.classify.codes import POLICY, normal
from turnout.engine.classify.decoding import decoded
from turnout.engine.classify.objects import ANSWERED, ANSWERS, CODES, MESSAGES, Fields

_MARKERS: Final = (
    *(b'"error', b'"Error', b'"base_resp"', b'lockReason"', b'"code"', b'"Code"', b'"detail"'),
    *(b"_filter", b'"finishReason"', b'"refusal"', b"guardrail", b'"sensitive"', b'"header"', b'"success"'),
)
"""What a body that carries an error has in it."""
_SAID: Final = ("content", "tool_calls", "refusal", "audio", "function_call", "reasoning_content")
"""What a message of a model holds."""
_MOST: Final = 16
"""Parts of an answer that are looked at."""
_FINE: Final = (0, "0", 200, "200", "success", "ok", "none", "null")
"""Codes and messages of what went well."""


def carries_error(body: bytes) -> bool:
    """Whether a 200's body carries an error: beside an answer, in a part of it, or in its place."""
    for marker in _MARKERS:
        if marker in body:
            break
    else:
        return False  # most answers: they need not be decoded for this
    value = decoded(body.decode("utf-8", "replace").strip())
    parts = value[:_MOST] if isinstance(value, list) else [value]
    return any(_carries(Fields(part)) for part in parts if isinstance(part, dict))


def _carries(fields: Fields) -> bool:
    choices = [part for _, part in fields.objects(("choices",), _MOST)]
    parts = [part for _, part in fields.objects(ANSWERS, _MOST)]
    if any(_is_error(holder.get("error")) for holder in (fields, *choices)):
        return True
    if _tells(_within(fields, "baseresp", "statuscode")):
        return True
    if any(_says_something(holder) for holder in (fields, *parts)):
        return False
    if any(_is_error(part.get("error")) for part in parts):
        return True
    return any(_withheld(holder) for holder in (fields, *parts)) or _diagnoses(fields)


def _is_error(value: object) -> bool:
    """Whether an `error` tells one: servers send empty ones beside an answer."""
    if isinstance(value, dict):
        return any(_tells(within) for within in value.values())
    return isinstance(value, str | list) and _tells(value)


def _tells(value: object) -> bool:
    said = value.strip().lower() if isinstance(value, str) else value
    return bool(said) and said not in _FINE


def _within(fields: Fields, name: str, inner: str) -> object:
    holder = fields.get(name)
    return Fields(holder).get(inner) if isinstance(holder, dict) else None


def _says_something(fields: Fields) -> bool:
    """Whether a part of an answer holds any of it."""
    message = fields.get("message")
    if isinstance(message, dict):
        return any(message.get(name) for name in _SAID)
    return any(fields.get(name) for name in ANSWERED)


def _withheld(fields: Fields) -> bool:
    """Whether it says that what was to be said was withheld."""
    ended = fields.ended()
    return ended is not None and normal(ended[1]) in POLICY


def _diagnoses(fields: Fields) -> bool:
    """Whether an object that holds no answer holds a diagnosis."""
    if _within(fields, "promptfeedback", "blockreason") or _within(fields, "header", "code"):
        return True
    spoken = any(isinstance(fields.get(name), str) for name in MESSAGES)
    if fields.get("success") is False and spoken:
        return True
    return bool(fields.get("errors")) or (spoken and any(_tells(fields.get(name)) for name in CODES))
