"""Text of a file, a caller or a shell, made fit for a terminal: on one line, cut, and acting on nothing."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

LONGEST: Final = 120
"""Characters of one name, key or value that are shown."""
HUGE: Final = 10**15
"""Numbers beyond this are not shown."""

_WORD: Final = re.compile(r"[A-Za-z0-9._/:-]{1,40}")
_MIXED: Final = re.compile(r"(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[A-Za-z0-9]{16,}")
"""A run of letters and digits as keys have it, and hardly any name."""
_BEGINS_AS_A_KEY: Final = re.compile(r"(?:sk|pk|rk|gsk|xai|ghp|hf)[-_]\w{8}", re.IGNORECASE)
"""What providers begin their keys with, and no word that is looked for here begins with."""


def printable(text: str) -> str:
    """The text with all escaped that ends a line, reorders text, steers a terminal or is no Unicode."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def printable_json(text: str) -> str:
    """The same for JSON on one line, which means what it meant."""
    return "".join(c if c.isprintable() else _in_json(c) for c in text)


def _in_json(char: str) -> str:
    units = char.encode("utf-16-be")
    return "".join(f"\\u{units[place : place + 2].hex()}" for place in range(0, len(units), 2))


def printable_time(at: float) -> str:
    """A time in seconds since 1970 as UTC, to the second; as the number where no calendar has it."""
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return f"{at:g}"


def shortened(text: str) -> str:
    """The text, or its beginning where it is too long to be shown."""
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def mixed(text: str) -> bool:
    """Whether a long run of letters and digits stands in the text."""
    return _MIXED.search(text) is not None


def named(value: object) -> str:
    """How to speak of a value that should have been a name: quoted, unless a key may have been put there."""
    word = isinstance(value, str) and _WORD.fullmatch(value) and not mixed(value)
    return f"'{value}'" if word and not _BEGINS_AS_A_KEY.match(str(value)) else "a value"


def number(value: float) -> str:
    """A number as a mistake quotes it: exactly, and never at length."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if abs(value) > HUGE:  # Python refuses to write very long integers
        return "too large" if value > 0 else "too small"
    return str(int(value)) if value == value // 1 else str(value)


def numbered(value: object) -> str:
    """How to speak of a number that cannot be used, or of what should have been one."""
    if type(value) in (int, float):
        return number(value)  # type: ignore[arg-type]
    return str(value) if isinstance(value, bool) else named(value)


def nearest(name: str, names: Iterable[str]) -> str:
    """Which of the names is most like this one; empty where none is like it."""
    return next(iter(difflib.get_close_matches(name, list(names), n=1)), "")


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The end of a sentence about a name that there is not."""
    names = list(names)
    if near := nearest(name, names):
        return f"; did you mean {shortened(near)}?"
    return f"; choose from {', '.join(map(shortened, names))}" if names else "; there is none"
