"""What the formats share: values that others send, and that may be of any shape."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from turnout.engine.classify.answers import carries_error
from turnout.engine.classify.verdict import Feature
from turnout.engine.habits import MOST_TOKENS

USES_TOOLS: Final = Feature.TOOLS.value
"""Told once: to ask an enumeration for a value is slow."""

EMPTY: Final[Mapping[str, Any]] = {}

_OBJECTS: Final = (dict, Mapping)
"""In this order: to ask for a Mapping is slow."""

_LISTS: Final = (list, tuple)


def mapping(value: object) -> Mapping[str, Any]:
    """The object; of anything else an empty one."""
    if value is None:
        return EMPTY
    return value if isinstance(value, _OBJECTS) else EMPTY


def said(value: object) -> bool:
    """Whether this is a text that is not empty."""
    return isinstance(value, str) and value != ""


def kind(value: Mapping[str, Any]) -> str:
    """The `type` of an object; an empty text where it tells none."""
    told = value.get("type")
    return told if isinstance(told, str) else ""


def objects(value: object) -> list[dict[str, Any]]:
    """The object, or the objects of a list; of anything else none."""
    if isinstance(value, _LISTS):
        return [item for item in value if isinstance(item, dict)]
    return [value] if isinstance(value, dict) else []


def listed(value: object) -> Sequence[Any]:
    """The list, or one of the object; of anything else an empty one."""
    if isinstance(value, _LISTS):
        return value
    return [value] if isinstance(value, dict) else ()


def gather(
    given: Iterable[Any], texts: frozenset[str], within: frozenset[str], keys: frozenset[str]
) -> tuple[list[str], Mapping[str, list[dict[str, Any]]]]:
    """What objects hold, however deep.

    Args:
        given: the objects, and anything else, which is passed by.
        texts: the keys under which an object has text; `content` and `text` are among them.
        within: the keys under which it has further objects; `content` is one.
        keys: all of these.

    Returns:
        All texts, and the objects of each type, but for those that are most of a request: messages that
        have nothing beside a role and content, and parts that have nothing beside a type and a text.
    """
    said: list[str] = []
    kinds: dict[str, list[dict[str, Any]]] = {}
    waiting = [*given]
    for each in waiting:  # it grows meanwhile
        if not isinstance(each, dict):
            continue
        if len(each) == 2:  # most of what there is
            held = each.get("content") if "role" in each else each.get("text")
            if isinstance(held, str):
                said.append(held)
                continue
            if isinstance(held, list):
                waiting += held
                continue
        if isinstance(of := each.get("type"), str):
            if (those := kinds.get(of)) is None:
                kinds[of] = [each]
            else:
                those.append(each)
        _look_into(each, said, waiting, texts, within, keys)
    return said, kinds


def _look_into(
    each: dict[str, Any],
    said: list[str],
    waiting: list[Any],
    texts: frozenset[str],
    within: frozenset[str],
    keys: frozenset[str],
) -> None:
    """Add what an object says, and what is within it."""
    for key in each:
        if key not in keys:  # most are not
            continue
        held = each[key]
        if isinstance(held, str):
            if key in texts:
                said.append(held)
        elif held and key in within:
            waiting += held if isinstance(held, _LISTS) else (held,)


def as_json(value: object) -> str:
    """A value as compact JSON; of an absent or empty one, or one that cannot be sent, nothing."""
    try:
        return msgspec.json.encode(value).decode() if value else ""
    except (TypeError, ValueError, RecursionError):
        return ""


Keys = Mapping[str, tuple[tuple[str, Callable[[Any], bool]], ...]]
"""Of each top-level key what it needs, and whether a value of it does."""


def limit(body: Mapping[str, Any], keys: Iterable[str]) -> int | None:
    """The first whole number above 0 that stands under one of these keys."""
    return next((n for key in keys if type(n := body.get(key)) is int and n > 0), None)


def used(body: Mapping[str, Any], keys: Keys) -> set[str]:
    """What the top-level keys of a request need."""
    found: set[str] = set()
    for key in body:
        if key in keys and (value := body[key]):
            found.update([feature for feature, needs in keys[key] if needs(value)])
    return found


def switched_on(value: object) -> bool:
    """Whether a switch is on: no other value than `true` is one."""
    return value is True


def chosen(value: object) -> bool:
    """Whether a tool's choice is one: a word, or an object that names a tool."""
    return isinstance(value, str) or bool(mapping(value))


def reasons(value: object) -> bool:
    """Whether a setting asks for reasoning. One that is switched off, or all null, does not."""
    if not (setting := mapping(value)):
        return False
    if setting.get("type") == "disabled" or setting.get("effort") == "none":
        return False
    return any(setting.values())


def effort(value: object) -> bool:
    """Whether an effort asks for reasoning."""
    return isinstance(value, str) and value != "none"


def formatted(value: object) -> bool:
    """Whether a format of the answer asks for more than text."""
    return kind(mapping(value)) not in ("", "text")


def speaks(value: object) -> bool:
    """Whether the modalities of the answer are speech as well."""
    return isinstance(value, _LISTS) and "audio" in value


def offered(value: object) -> bool:
    """Whether there are tools in a list."""
    return isinstance(value, _LISTS) and bool(objects(value))


def described(value: object) -> bool:
    """Whether a tool of a list brings a schema: what a provider hosts, or takes free text, brings none."""
    return offered(value) and any(
        "input_schema" in tool or tool.get("type") in (None, "function") for tool in objects(value)
    )


def counts(
    reported: object, own: Iterable[str], details: Mapping[str, tuple[str, str]]
) -> dict[str, int] | None:
    """The token counts of a usage: those of its own keys, and those that stand an object deeper."""
    if not isinstance(reported, _OBJECTS):
        return None
    found = {key: reported.get(key) for key in own}
    for key, (outer, inner) in details.items():
        found[key] = mapping(reported.get(outer)).get(inner)
    return {
        key: count for key, count in found.items() if type(count) is int and 0 <= count <= MOST_TOKENS
    } or None


def merged(earlier: dict[str, int] | None, later: dict[str, int] | None) -> dict[str, int] | None:
    """Both counts; where both tell one, the later."""
    return {**earlier, **later} if earlier and later else later or earlier


def tells_error(data: str) -> bool:
    """Whether an event carries an error, by the rule for a body of a 200."""
    return carries_error(data.encode("utf-8", "replace"))


def is_no_object_but_error(name: str, data: str, body: object) -> bool:
    """Whether an event whose data is no object tells an error: by its name, in a list, or in words."""
    if name == "error":
        return True
    return tells_error(data) if isinstance(body, list) else bool(_ERROR_IN_WORDS.match(data))


def is_foreign_error(data: str, body: Mapping[str, Any]) -> bool:
    """Whether an object that no event of the format is tells an error: what servers and proxies put into a
    stream when something fails.
    """
    if tells_error(data) or any(key.endswith("Exception") for key in body):
        return True
    if kind(body).endswith(("error", "Error")) and said(body.get("message")):
        return True
    return any(body.keys() == {key} and said(body[key]) for key in _ALONE)


_ERROR_IN_WORDS: Final = re.compile(r"\W*(?:internal server error\b|error\s*(?:[:\]]|$))", re.IGNORECASE)
_ALONE: Final = ("detail", "message")
"""What frameworks and gateways say, and nothing else, when something fails."""
