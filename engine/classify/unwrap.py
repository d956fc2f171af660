"""Finding the diagnostic fields of a body, as deep as proxies wrap them.

Only the fields that are named here are ever read, so what a server quotes of the request
(`input`, `ctx`, `failed_generation`, a prompt) cannot decide anything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from msgspec import Struct

from turnout.engine.classify.text import sentences

MAX_BODY: Final = 65_536
"""Bytes of a body that are read."""
MAX_STEPS: Final = 8
"""Four wrappers deep, each of them an object and the field that holds the next."""
MAX_FINDINGS: Final = 16

_MESSAGES: Final = ("message", "msg", "error_message", "errorMessage", "status_msg", "description")
_CODES: Final = ("code", "error_code", "errorCode", "status_code", "http_status_code")
_NAMES: Final = ("type", "error_type", "__type", "status", "reason")
_PARAMS: Final = ("param", "loc", "field")
_WRAPPERS: Final = (
    "error",
    "errors",
    "detail",
    "details",
    "innererror",
    "inner_error",
    "metadata",
    "raw",
    "cause",
    "base_resp",
    *_MESSAGES,
)
"""Fields that may hold a further diagnosis: an object, a list, a string, or JSON within a string."""
_ANSWERS: Final = ("choices", "response")
"""Parts of an answer: of these the `error` is read and nothing else."""

_TITLE: Final = re.compile(r"<title[^>]{0,64}>([^<]{0,256})", re.IGNORECASE)
_OPENINGS: Final = re.compile(r'\{"|\{\s|\[\{')
MAX_OPENINGS: Final = 4
"""Places in a message that are tried as the start of JSON."""
_DECODER: Final = json.JSONDecoder()


class Finding(Struct, frozen=True):
    """What one object, or one string, within a body says. Absent fields are empty."""

    path: str
    depth: int
    message: str = ""
    code: str = ""
    names: tuple[str, ...] = ()
    """The values of type, status name and reason."""
    param: str = ""
    status: int | None = None
    """An HTTP status that the body itself states."""
    spoken: str = ""
    """The name of the field that holds the message; empty where the finding is a string itself."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """The message as it may be matched."""
        return sentences(self.message)

    @property
    def message_at(self) -> str:
        """The path of the message."""
        return self.at(self.spoken) if self.spoken else self.path or "body"

    def at(self, name: str) -> str:
        """The path of one of its fields."""
        return f"{self.path}.{name}" if self.path else name


def findings(body: bytes) -> tuple[Finding, ...]:
    """What a body says, the innermost first."""
    text = body[:MAX_BODY].decode("utf-8", "replace").strip()
    found = tuple(islice(_read(text), MAX_FINDINGS))
    return tuple(sorted(found, key=lambda finding: -finding.depth))


def carries_error(body: bytes) -> bool:
    """Whether a 200's body carries an error: a non-empty `error` object or string, on top or in a choice."""
    if b'"error"' not in body:  # most answers: they need not be decoded for this
        return False
    value = _json(body.decode("utf-8", "replace"))
    if not isinstance(value, dict):
        return False
    choices = value.get("choices")
    holders = [value, *(choices if isinstance(choices, list) else [])]
    return any(
        isinstance(holder, dict) and bool(holder.get("error")) and isinstance(holder["error"], dict | str)
        for holder in holders
    )


def _read(text: str) -> Iterator[Finding]:
    if text.startswith("<"):  # a gateway's page: its title is shown, and its prose is no diagnosis
        title = _TITLE.search(text)
        return iter((Finding("title", 0, _clean(title[1])),) if title else ())
    value = _json(text)
    if value is not None:
        return _walk(value, "", 0)
    if text.startswith(("{", "[")):  # cut or broken JSON: what is prose in it cannot be told from an echo
        return iter(())
    return _walk(text, "body", 0)


def _walk(value: Any, path: str, depth: int) -> Iterator[Finding]:
    if depth > MAX_STEPS:
        return
    if isinstance(value, str):
        message, inner = _split(value)
        if message:
            yield Finding(path, depth, message)
        yield from _walk(inner, path, depth + 1)
    elif isinstance(value, list):
        for index, item in enumerate(value[:MAX_FINDINGS]):
            yield from _walk(item, f"{path}[{index}]", depth + 1)
    elif isinstance(value, dict):
        yield from _walk_object(value, path, depth)


def _walk_object(value: Mapping[str, Any], path: str, depth: int) -> Iterator[Finding]:
    spoken = next((key for key in _MESSAGES if isinstance(value.get(key), str)), "")
    message, inner = _split(value[spoken]) if spoken else ("", None)
    code = next((code for key in _CODES if (code := _code(value.get(key)))), "")
    numbers = (code, *(_code(value.get(key)) for key in ("http_status_code", "status")))
    own = Finding(
        path,
        depth,
        message,
        code,
        tuple(name for key in _NAMES if (name := _name(value.get(key)))),
        next((param for key in _PARAMS if (param := _param(value.get(key)))), ""),
        next((status for number in numbers if (status := _status(number))), None),
        spoken,
    )
    yield own
    yield from _walk(inner, own.at(spoken), depth + 1)
    for key in _WRAPPERS:
        if key != spoken:
            yield from _walk(value.get(key), own.at(key), depth + 1)
    for key in _ANSWERS:
        part = value.get(key)
        for holder in part[:MAX_FINDINGS] if isinstance(part, list) else [part]:
            if isinstance(holder, dict):
                yield from _walk(holder.get("error"), own.at(f"{key}.error"), depth + 1)


def _split(text: str) -> tuple[str, Any]:
    """A message and the JSON that a proxy has put into it."""
    text = text[:MAX_BODY]
    for start in islice(_OPENINGS.finditer(text), MAX_OPENINGS):
        try:
            inner, end = _DECODER.raw_decode(text, start.start())
        except (ValueError, RecursionError):
            continue
        return _clean(text[: start.start()] + text[end:]), inner
    return _clean(text), None


def _json(text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None


def _clean(text: str) -> str:
    """Trimmed, and without the lone surrogates that JSON can spell and UTF-8 cannot.

    Nothing is cut: half a credential could not be recognised any more.
    """
    return text.strip().encode("utf-8", "replace").decode()


def _name(value: object) -> str:
    return _clean(value) if isinstance(value, str) else ""


def _code(value: object) -> str:
    return str(value) if type(value) in (int, float) else _name(value)


def _param(value: object) -> str:
    if isinstance(value, list):  # a validator's `loc`: ["body", "messages", 0, "name"]
        return _name(
            ".".join(str(part) for part in value[:16] if isinstance(part, str | int)).removeprefix("body.")
        )
    return _name(value)


def _status(code: str) -> int | None:
    return (
        int(code)
        if len(code) == 3 and code.isascii() and code.isdecimal() and "400" <= code <= "599"
        else None
    )
