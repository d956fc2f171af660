"""A failed reply as one line of JSON, which is how captures and labelled collections keep it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, Final, Literal, NamedTuple

import msgspec

from turnout.engine.classify.reply import Reply
from turnout.engine.errors import ReplyError

MAX_LINE: Final = 1_048_576
"""Bytes of one line with its end, so that no file can fill the memory."""

_IN_A_200: Final = 200
_FIELD: Final = re.compile(r"\$\.(\w+)")


class _Line(msgspec.Struct):
    """The fields that are read; labels, notes and whatever else stands beside them are not looked at."""

    id: str | int | None = None
    provider: str | None = None
    format: str | None = None
    transport: Literal["http", "http_200_body", "sse_event"] | None = None
    status: int | None = None
    headers: dict[str, str] | None = None
    event: str | None = None
    body: Any = msgspec.UNSET


_WANTED: Final[Mapping[str, str]] = {
    "id": "a string or a whole number",
    "provider": "a string",
    "format": "a string",
    "transport": "http, http_200_body or sse_event",
    "status": "a whole number",
    "headers": "an object of strings",
    "event": "a string",
}


class Kept(NamedTuple):
    """A reply and what its line is called."""

    id: str | int | None
    reply: Reply


def read(lines: BinaryIO) -> Iterator[Kept]:
    """The replies of a file, in order, one line in memory at a time. Empty lines are passed over.

    Raises:
        ReplyError: naming the line and the field that cannot be used; the file is left to the caller to name.
    """
    number = 0
    while line := _next(lines, number := number + 1):
        if line.isspace():
            continue
        try:
            yield kept(line)
        except ReplyError as error:
            raise ReplyError(f"line {number}: {error}") from error


def _next(lines: BinaryIO, number: int) -> bytes:
    try:
        line = lines.readline(MAX_LINE + 1)
    except OSError as error:
        raise ReplyError(f"cannot be read: {error.strerror}") from error
    if len(line) > MAX_LINE:
        raise ReplyError(
            f"line {number}: is longer than {MAX_LINE} bytes; cut its body: of an error 64 KiB are read"
        )
    return line


def kept(line: bytes) -> Kept:
    """The reply of one line. What is missing or null has its default, but for `body`, which has to be there,
    and of a reply over HTTP `status`. A body of null is an empty one. Unknown fields are ignored.

    Raises:
        ReplyError: what is wrong with the line, and what would be right.
    """
    try:
        decoded = json.loads(line)
    except (ValueError, RecursionError):
        decoded = None
    if not isinstance(decoded, dict):
        raise ReplyError("is no JSON object; give one reply a line")
    try:
        given = msgspec.convert(decoded, _Line)
    except msgspec.ValidationError as error:
        found = _FIELD.search(str(error))
        field = found[1] if found else ""
        raise ReplyError(f"{field}: cannot be used; give {_WANTED[field]}") from None
    return Kept(given.id, _reply(given))


def _reply(given: _Line) -> Reply:
    status = given.status
    if status is not None and not 100 <= status <= 599:
        raise ReplyError(f"status: is {status if abs(status) < 10_000 else 'no status'}; give 100 to 599")
    if status is None and given.transport in (None, "http"):
        raise ReplyError(f"status: is missing; give {_WANTED['status']}")
    if given.body is msgspec.UNSET:
        raise ReplyError("body: is missing; give the text as it came, empty if there was none")
    return Reply(
        status=_IN_A_200 if status is None else status,
        body=_encoded(given.body),
        headers={name.lower(): value for name, value in (given.headers or {}).items()},
        format=given.format or "openai_chat",
        event=(given.event or "") if given.transport == "sse_event" else None,
        provider=given.provider or "",
    )


def _encoded(body: object) -> bytes:
    """A body that is text as it is; any other JSON as it would have come."""
    if body is None:
        return b""
    text = body if isinstance(body, str) else json.dumps(body)
    return text.encode("utf-8", "replace")
