"""Making a diagnostic message safe to match, and matching it.

A message may quote the request, link to documentation and name models and functions. None
of that is a diagnosis, and each of it can spell one.
"""

from __future__ import annotations

import re
from typing import Final

HEAD: Final = 2048
TAIL: Final = 1024
"""Of a long message the first and last characters are matched: servers put the diagnosis at an end."""

_URL: Final = re.compile(r"(?:https?|wss?)://\S+")
_ECHO: Final = re.compile(
    r"""\b(?:messages|prompt|contents)['"]?\s?[=:]\s?[\[{'"]   # messages = [ ...
      | ['"]input['"]\s?: | \binput_value\s?=                   # a validator's copy of what it refused
      | \bfailed_generation['"]?\s?: | \breceived:\s?['"{\[]""",
    re.VERBOSE | re.IGNORECASE,
)
"""Where a message begins to quote the request: nothing after it is read."""

_NAMED: Final = re.compile(
    r"\b(function|tool|model|deployment|schema|tool_call_id) (['\"`])[^'\"`\n]{1,200}\2"
)
_SCHEMA_PATH: Final = re.compile(r"context=\([^)]{0,300}\)")
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+|\n|。")
_APOSTROPHE: Final = "\u2019"


def sentences(message: str) -> tuple[str, ...]:
    """The sentences of a message that may be matched: lower case, without URLs, names and quotations."""
    text = message if len(message) <= HEAD + TAIL else f"{message[:HEAD]}\n{message[-TAIL:]}"
    text = unquoted(_URL.sub(" ", text.lower().replace(_APOSTROPHE, "'")))
    text = _SCHEMA_PATH.sub(" ", _NAMED.sub(r"\1", text))
    return tuple(part for part in map(str.strip, _SENTENCE_END.split(text)) if part)


def unquoted(message: str) -> str:
    """The message up to where it begins to quote the request."""
    echo = _ECHO.search(message)
    return message[: echo.start()] if echo else message


def folded(text: str) -> str:
    """The text in one case, with one space for every run of white space."""
    return re.sub(r"\s+", " ", text.casefold())


def words(listed: str) -> re.Pattern[str]:
    """Matches any of these phrases, separated by `|`, as whole words and not as a part of a name.

    The words of a phrase may be joined by a space, an underscore or a hyphen.
    """
    phrases = [phrase.strip() for phrase in listed.split("|")]
    literal = "|".join(re.escape(phrase).replace(r"\ ", r"[ _\-]") for phrase in phrases)
    return re.compile(rf"(?<![\w./\-])(?:{literal})(?![\w/])(?![.\-]\w)", re.ASCII)


def either(*patterns: re.Pattern[str] | str) -> re.Pattern[str]:
    """Matches what any of these matches."""
    sources = [pattern if isinstance(pattern, str) else pattern.pattern for pattern in patterns]
    return re.compile("|".join(sources), re.ASCII)
