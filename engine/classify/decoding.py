"""From the bytes of a body to the values in it, whatever shape they came in.

JSON, several values one after another, the lines of an event stream, JSON that was cut off,
JSON within prose, the `repr` of a Python object within prose.
"""

from __future__ import annotations

import ast
import codecs
import json
import re
from itertools import islice
from typing import Any, Final

MAX_BODY: Final = 65_536
"""Bytes of a body that are read."""

MAX_OPENINGS: Final = 4
"""Places in a message that are tried as the start of a value."""

MAX_VALUES: Final = 8
"""Values of a body that holds several, one after another."""

_DECODER: Final = json.JSONDecoder()
_CHARSET: Final = re.compile(r"charset=[\"']?([\w-]{1,32})", re.IGNORECASE)
_NO_CHARSETS: Final = frozenset(
    {"punycode", "idna", "unicode_escape", "raw_unicode_escape", "unicode-escape"}
)
"""Encodings of Python's own that no server means, and that are slow or say other things."""
_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_EVENT_LINE: Final = re.compile(r"(?:data|event|id|retry)?:", re.ASCII)
TAG: Final = re.compile(r"\[[\w ]{1,24}\][:\s]")
"""Prose may begin with it: `[400]: {...}`."""
_DATA: Final = re.compile(r"^data:[ ]?(.*)$", re.MULTILINE)


def text_of(body: bytes, content_type: str = "") -> str:
    """The body as text, trimmed. What its encoding has not is replaced.

    Args:
        body: at most `MAX_BODY` of it is read.
        content_type: the header, for its charset.
    """
    body = body[:MAX_BODY]
    encoding = next((name for mark, name in _BOMS if body.startswith(mark)), "")
    if not encoding and (named := _CHARSET.search(content_type[:256])):
        encoding = "" if named[1].lower() in _NO_CHARSETS else named[1]
    try:
        text = body.decode(encoding or "utf-8", "replace")
    except (LookupError, UnicodeError, ValueError):  # no such encoding, or none of text
        text = body.decode("utf-8", "replace")
    return text.strip().lstrip("\ufeff")


def decoded(text: str) -> Any:
    """The value of a body, a list where there are several, or None where there is none."""
    if not text:
        return None
    if _EVENT_LINE.match(text):
        values = [
            value for line in islice(_DATA.findall(text), MAX_VALUES) if (value := _json(line)) is not None
        ]
        return values or None
    if text[0] not in '{["' or TAG.match(text):
        return None
    value = _json(text)
    if value is None:
        value = _several(text)
    if value is None and text[0] in "{[":
        value = _json(_closed(text))
    return value


def _json(text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None


def _several(text: str) -> list[Any] | None:
    values: list[Any] = []
    at = 0
    while at < len(text) and len(values) < MAX_VALUES:
        try:
            value, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        values.append(value)
        at += len(text[at:]) - len(text[at:].lstrip())
    return values or None


_TOKENS: Final = re.compile(r"\\.|[\"{}\[\],:]", re.DOTALL)
_HALF_AN_ESCAPE: Final = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?$")
_CLOSERS: Final = {"{": "}", "[": "]"}


def _closed(text: str) -> str:
    """JSON that was cut off, with what is open in it closed: what came is read, the rest is absent."""
    open_: list[str] = []
    within = named = False
    """Inside a string; behind the colon that follows a field's name."""
    good = 0
    """Up to where it would be whole, were everything closed that is open."""
    for token in _TOKENS.finditer(text):
        mark = token[0]
        if within and mark != '"':
            continue
        if mark == '"':
            within = not within
            if not within and (named or open_[-1:] == ["]"]):
                good = token.end()
        elif mark in _CLOSERS:
            open_.append(_CLOSERS[mark])
            good = token.end()
        elif mark in "}]":
            if not open_ or open_.pop() != mark:
                return ""
            good = token.end()
        elif mark == "," and (named or open_[-1:] == ["]"]):
            good = token.start()
        named = named if mark == '"' else mark == ":"
    if within and (named or open_[-1:] == ["]"]):
        return _HALF_AN_ESCAPE.sub("", text) + '"' + "".join(reversed(open_))
    return text[:good] + "".join(reversed(open_))


# -- within prose

_OPENINGS: Final = re.compile(r"\{['\"]|\{\s|\[\{|\{\\\"")


def embedded(text: str) -> tuple[str, Any]:
    """What a text says around the first value in it, and that value: JSON or a `repr` that a proxy quotes."""
    if "{" not in text:
        return text, None
    for start in islice(_OPENINGS.finditer(text), MAX_OPENINGS):
        at = start.start()
        try:
            value, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            if (found := _repr(text, at)) is None:
                continue
            value, end = found
        return text[:at] + text[end:], None if _quoted(text[:at], value) else value
    return text, None


_STRAY: Final = re.compile(r"\\(?![\\'\"abfnrtvxuUN0-7\n])(?:)")
"""A backslash that escapes nothing, of which Python warns."""
_OF_A_REQUEST: Final = frozenset({"model", "messages", "prompt", "tools", "contents", "stream"})
_OF_AN_ERROR: Final = frozenset({"error", "errors", "detail", "code", "status", "type", "reason"})
_QUOTING: Final = re.compile(
    r"\b(?<!bad )(?:arguments?|request|body|payload|input|json|messages?|content|params?|parameters?|value)"
    r"\s?[:=]?\s?$",
    re.IGNORECASE,
)


def _quoted(before: str, value: Any) -> bool:
    """Whether a value within prose is of the request, and not an error that a proxy passes on."""
    if not isinstance(value, dict):
        return False
    if len(_OF_A_REQUEST.intersection(value)) > 1:
        return True
    return not _OF_AN_ERROR.intersection(value) and _QUOTING.search(before[-40:]) is not None


_MARKS: Final = re.compile(r"\\.|['\"{}\[\]()]", re.DOTALL)


def _repr(text: str, start: int) -> tuple[Any, int] | None:
    """The Python literal, or the JSON with escaped quotation marks, that begins here, and its end."""
    if text.startswith('{\\"', start):
        value = decoded(text[start:].replace('\\"', '"').replace("\\n", " ").replace("\\\\", "\\"))
        return None if value is None else (value, len(text))
    end = _end(text, start)
    literal = text[start:end]
    try:
        return (ast.literal_eval(_STRAY.sub(r"\\\\", literal)), end) if end else None
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        value = _json(literal.replace("\\n", " "))
        return None if value is None else (value, end)


def _end(text: str, start: int) -> int:
    """Where the bracket that opens here closes, or 0."""
    depth, within = 0, ""
    for token in _MARKS.finditer(text, start):
        mark = token[0]
        if within or mark in "'\"":
            within = "" if mark == within else within or (mark if mark in "'\"" else "")
        elif mark in "{[(":
            depth += 1
        elif mark in "}])":
            depth -= 1
            if not depth:
                return token.end()
    return 0
