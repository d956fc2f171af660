"""What the formats share: values that others send, and that may be of any shape."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from turnout.engine.classify.answers import carries_error
from turnout.engine.classify.verdict import Feature

ALWAYS: Final = (Feature.ENDPOINT, Feature.ROLE)
"""What every request needs."""

CHARS_PER_TOKEN: Final = 4
"""A plain rule of thumb for text of a request, in characters a token."""

EMPTY: Final[Mapping[str, Any]] = {}

_OBJECTS: Final = (dict, Mapping)
"""In this order: to ask for a Mapping is slow."""


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


def objects(value: object) -> Sequence[Mapping[str, Any]]:
    """The object, or the objects of a list; of anything else none."""
    if value is None or isinstance(value, str):  # most of what there is: no question for a Mapping is cheap
        return ()
    if isinstance(value, list | tuple):
        return [item for item in value if isinstance(item, _OBJECTS)]
    return (value,) if isinstance(value, Mapping) else ()


def walk(value: object, within: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    """The objects of a value, and all that they hold under these keys, however deep."""
    waiting = [*objects(value)]
    while waiting:
        found = waiting.pop()
        yield found
        for key in within:
            if held := objects(found.get(key)):
                waiting += held


def length(found: Iterable[Mapping[str, Any]], keys: Iterable[str]) -> int:
    """The characters of the texts that stand under these keys."""
    return sum(len(text) for each in found for key in keys if isinstance(text := each.get(key), str))


def json_length(value: object) -> int:
    """The characters of a value as JSON; of an absent or empty one none."""
    try:
        return len(msgspec.json.encode(value)) if value else 0
    except (TypeError, ValueError, RecursionError):
        return 0  # what cannot be encoded is never sent


def tokens(characters: int) -> int:
    """The estimate for a text of that length, rounded up."""
    return -(-characters // CHARS_PER_TOKEN)


def limit(body: Mapping[str, Any], keys: Iterable[str]) -> int | None:
    """The first whole number above 0 that stands under one of these keys."""
    return next((n for key in keys if type(n := body.get(key)) is int and n > 0), None)


def used(body: Mapping[str, Any], keys: Mapping[str, tuple[Feature, ...]]) -> set[Feature]:
    """What every request needs, and what its top-level keys do that are not null, false or empty."""
    found = {*ALWAYS, *(need for key, needed in keys.items() if body.get(key) for need in needed)}
    if _reasons(body.get("reasoning")) or _reasons(body.get("thinking")):
        found.add(Feature.REASONING)
    return found


def _reasons(value: object) -> bool:
    """Whether a setting asks for reasoning: one that is switched off, or all null, does not."""
    if not value or not isinstance(value, _OBJECTS):
        return bool(value)
    return value.get("type") != "disabled" and any(value.values())


def formatted(value: object) -> bool:
    """Whether a format of the answer asks for more than text."""
    return mapping(value).get("type") not in (None, "text")


def values(found: Iterable[Feature]) -> frozenset[str]:
    """The features as a turn and its record name them."""
    return frozenset(feature.value for feature in found)


def counts(
    reported: object, own: Iterable[str], details: Mapping[str, tuple[str, str]]
) -> dict[str, int] | None:
    """The token counts of a usage: those of its own keys, and those that stand an object deeper."""
    if not isinstance(reported, _OBJECTS):
        return None
    found = {key: reported.get(key) for key in own}
    for key, (outer, inner) in details.items():
        found[key] = mapping(reported.get(outer)).get(inner)
    return {key: count for key, count in found.items() if type(count) is int} or None


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
