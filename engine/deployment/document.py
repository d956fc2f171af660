"""A file as TOML, for deployments and scenarios alike."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from turnout.engine.deployment.tables import Table
from turnout.engine.errors import ConfigurationError
from turnout.engine.printable import shortened

DEEPEST: Final = 100
"""How many tables and lists may stand within each other, whatever the interpreter could bear."""


def read_toml(path: str | os.PathLike[str]) -> Table:
    """The top table of a file.

    Raises:
        ConfigurationError: why it cannot be read; the file is left to the caller to name.
    """
    too_deep = f"is nested too deeply to be read; at most {DEEPEST} levels are"
    try:
        document = tomllib.loads(_text(Path(path).read_bytes()))
    except OSError as error:
        raise ConfigurationError(f"cannot be read: {error.strerror}") from error
    except RecursionError:
        raise ConfigurationError(too_deep) from None
    except ValueError as error:
        raise ConfigurationError(f"is no TOML: {_why(error)}") from error
    if _deeper(document, DEEPEST):
        raise ConfigurationError(too_deep)
    return document


def _text(raw: bytes) -> str:
    """The bytes as text, without the mark that some editors put before it.

    Raises:
        ValueError: they are not UTF-8, as TOML has to be.
    """
    wrong = raw.find(b"\0")  # there in UTF-16, marked or not
    try:
        if wrong < 0:
            return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        wrong = error.start
    line = raw.count(b"\n", 0, wrong) + 1
    raise ValueError(f"it is not encoded in UTF-8; save it as that (at line {line})")


def _why(error: ValueError) -> str:
    """What the parser says, which quotes keys in full, and where."""
    what, at, place = str(error).rpartition(" (at ")
    return f"{shortened(what)}{at}{place}" if at else shortened(place)


def _deeper(document: Table, levels: int) -> bool:
    """Whether more than so many tables and lists stand within each other."""
    here: list[object] = [document]
    for _ in range(levels):
        here = [inner for value in here for inner in _inside(value)]
    return any(isinstance(value, Mapping | list) for value in here)


def _inside(value: object) -> Iterable[object]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list) else ()
