"""What a key or an argument takes, by its type: whether a value fits, and in words what would."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin

import msgspec

from turnout.engine.printable import named

_WORDS: Final[Mapping[Any, str]] = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "a string",
    tuple[str, ...]: "a tuple of strings",
    Mapping[str, str]: "a dict of strings",
    Mapping[str, object]: "a dict whose keys are strings",
}


def mistyped(values: Mapping[str, object], takes: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with each value that is not of its type, in words. A value itself is never quoted.

    Args:
        takes: the type of each; what is not listed may be anything.
    """
    for name, hint in takes.items():
        value = values[name]
        if isinstance(value, float | int) and not isinstance(value, bool) and _takes_numbers(hint):
            continue  # of whatever subclass, and however large: what it means is judged elsewhere
        try:
            msgspec.convert(value, hint)
        except msgspec.ValidationError as error:
            yield f"{name} {_found(value, hint, str(error))}; give {_words(hint)}"


def _takes_numbers(hint: Any) -> bool:
    return hint is float or float in get_args(hint)


def options(hint: Any) -> tuple[str, ...]:
    """The words that a type consists of, if it consists of words only."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    if get_origin(hint) in (Union, UnionType):
        return tuple(word for option in get_args(hint) for word in options(option))
    return ()


def _words(hint: Any) -> str:
    if words := options(hint):
        return " or ".join(words)
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(_words(option) for option in get_args(hint) if option is not NoneType)
    return _WORDS[hint]


def _found(value: object, hint: Any, why: str) -> str:
    if isinstance(value, str) and options(hint):
        return f"is {named(value)}"
    if " at `" in why:  # the path of what is inside a list or a dict
        return "holds something else"
    return "is too large" if "range" in why else f"is of type {type(value).__name__}"
