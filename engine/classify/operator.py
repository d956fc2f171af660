"""Operator rules: what a deployment says of replies that we would read otherwise.

They are asked before every rule of ours, in their order, and the first that holds decides.
They are matched against what `unwrap` finds, so no text that echoes the request decides here
either.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from msgspec import Struct, structs

from turnout.engine.classify import codes
from turnout.engine.classify.text import folded, unquoted
from turnout.engine.classify.unwrap import Finding
from turnout.engine.classify.verdict import Feature
from turnout.engine.errors import ConfigurationError
from turnout.engine.printable import did_you_mean, named
from turnout.machines.vocabulary import ErrorKind

CONDITIONS: Final = ("status", "code", "contains")
"""What a rule can ask of a reply. All that it gives has to hold."""


class ErrorRule(Struct, frozen=True, kw_only=True):
    """One correction of how failed replies are read.

    Raises:
        ConfigurationError: a word that there is not, or keys that do not go together.
    """

    kind: str
    """An `ErrorKind`, or its value."""
    status: int | None = None
    """The HTTP status, or the innermost one that the body states; 100 to 599."""
    code: str | None = None
    """An error code, type, status name or reason in the body; case and punctuation do not count."""
    contains: str | None = None
    """Stands in a diagnostic message; case does not count, nor how much white space there is."""
    field: str | None = None
    """Where `contains` has to stand, or without it `code`: a path, or the path of what holds it.

    Places in lists may be left out: `errors.msg` is that of any error, `errors[0].msg` the first one's.
    """
    features: tuple[str, ...] | None = None
    """Of a capability: what is refused (`Feature` values); `other` where it is left out."""
    name: str = ""
    """How the evidence names it; without one, by its target and its place there."""

    def __post_init__(self) -> None:
        given = {key: value for key in self.__struct_fields__ if (value := getattr(self, key)) is not None}
        if wrong := list(mistakes({**given, "kind": str(self.kind)})):
            told = (": ".join(filter(None, mistake)) for mistake in wrong)
            raise ConfigurationError(f"error rule: {'; '.join(told)}")


class Decision(NamedTuple):
    """What the rule that holds says, and where it held."""

    kind: ErrorKind
    rule: str
    field: str
    features: tuple[str, ...]
    matched: tuple[str, ...]
    param: str = ""


def decided(rules: Sequence[ErrorRule], http_status: int, findings: Sequence[Finding]) -> Decision | None:
    """What the first rule that holds says of a reply; None where none does.

    Args:
        http_status: the status that the reply came with.
        findings: what its body says, the innermost first.
    """
    if not rules:
        return None
    said = _said(http_status, findings)
    return next((_decision(rule, place) for rule in rules if (place := _where(rule, said))), None)


class Condition(NamedTuple):
    """One thing that a rule asks of a reply, and where the reply has it."""

    key: str
    """One of `CONDITIONS`."""
    asked: str | int
    place: str | None
    """The path where it holds; None where it does not."""
    elsewhere: str | None
    """Where it does not hold: a path where it would, were it not for the rule's `field`."""
    in_message: str | None
    """Where a code does not hold: the path of a message that spells it."""
    looked_at: tuple[str, ...]
    """The paths that hold a status, a code or a message at all."""


def conditions(rule: ErrorRule, http_status: int, findings: Sequence[Finding]) -> tuple[Condition, ...]:
    """Everything that a rule asks of a reply, whether it holds or not.

    Args:
        http_status: the status that the reply came with.
        findings: what its body says, the innermost first.
    """
    return tuple(_conditions(rule, _said(http_status, findings)))


def covers(earlier: ErrorRule, later: ErrorRule) -> bool:
    """Whether the earlier rule holds whenever the later one does, which then never decides."""
    if earlier.status is not None and earlier.status != later.status:
        return False
    if earlier.code is not None:
        if later.code is None or codes.normal(earlier.code) != codes.normal(later.code):
            return False
        if not _at(_field_of_code(earlier), _field_of_code(later)):
            return False
    if earlier.contains is not None:
        if later.contains is None or folded(earlier.contains) not in folded(later.contains):
            return False
        return _at(earlier.field, later.field)
    return True


def normal(rules: Sequence[ErrorRule]) -> tuple[ErrorRule, ...]:
    """The rules as they are matched, without their names and without those that never decide.

    Two lists are equal then if they hold for the same replies and say the same of them.
    """
    deciding = (rule for place, rule in enumerate(rules) if not any(covers(r, rule) for r in rules[:place]))
    return tuple(
        structs.replace(
            rule,
            kind=str(rule.kind),
            code=rule.code and codes.normal(rule.code),
            contains=rule.contains and folded(rule.contains),
            features=_features(rule),
            name="",
        )
        for rule in deciding
    )


def mistakes(given: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Everything that is wrong with a rule: the key, empty for all of it, and what would be right.

    Args:
        given: the keys that it has; a value of None cannot be used and was told already.
    """
    for key, wrong in _WRONG.items():
        if (value := given.get(key)) is not None and (what := wrong(value)):
            yield key, what
    if "kind" not in given:
        yield "kind", f"is missing; give one of {', '.join(ErrorKind)}"
    if not any(key in given for key in CONDITIONS):
        yield "", f"holds for every reply; give at least one of {', '.join(CONDITIONS)}"
    elif "field" in given and "code" not in given and "contains" not in given:
        yield "field", "says where, but not what: give contains or code too"
    if given.get("features") and given.get("kind") in _WITHOUT_FEATURES:
        yield "features", 'goes with kind = "capability" only'


# -- whether a rule holds


class _Said(NamedTuple):
    """All that a rule can ask for, each with its place in the reply."""

    statuses: tuple[tuple[str, int], ...]
    codes: tuple[tuple[str, str], ...]
    messages: tuple[tuple[str, str], ...]


def _said(http_status: int, findings: Sequence[Finding]) -> _Said:
    stated = [(found.at("code"), found.status) for found in findings if found.status is not None]
    coded = [(found.at("code"), found.code) for found in findings if found.code]
    named = [(found.at(field), name) for found in findings for field, name in found.names]
    return _Said(
        (("status", http_status), *stated[:1]),
        tuple((place, codes.normal(code)) for place, code in (*coded, *named)),
        tuple((found.message_at, folded(unquoted(found.message))) for found in findings if found.message),
    )


def _where(rule: ErrorRule, said: _Said) -> str | None:
    """Where the most telling of its conditions holds; None if one of them does not."""
    place = None
    for condition in _conditions(rule, said):
        place = condition.place
        if place is None:
            return None
    return place


def _conditions(rule: ErrorRule, said: _Said) -> Iterator[Condition]:
    """What the rule gives, the most telling last."""
    if rule.status is not None:
        yield _condition("status", rule.status, said.statuses, lambda status: status == rule.status)
    if rule.code is not None:
        code = codes.normal(rule.code)
        held = _condition("code", rule.code, said.codes, lambda said: said == code, _field_of_code(rule))
        if held.place is None:
            spelt = folded(rule.code)
            held = held._replace(in_message=next((at for at, text in said.messages if spelt in text), None))
        yield held
    if rule.contains is not None:
        text = folded(rule.contains)
        yield _condition("contains", rule.contains, said.messages, lambda said: text in said, rule.field)


_Value = TypeVar("_Value")


def _condition(
    key: str,
    asked: str | int,
    said: Sequence[tuple[str, _Value]],
    holds: Callable[[_Value], bool],
    field: str | None = None,
) -> Condition:
    places = [place for place, value in said if holds(value)]
    place = next((place for place in places if _at(field, place)), None)
    elsewhere = places[0] if places and place is None else None
    return Condition(key, asked, place, elsewhere, None, tuple(place for place, _ in said))


def _field_of_code(rule: ErrorRule) -> str | None:
    """Where its code has to stand: `field` is of the words where there are any."""
    return rule.field if rule.contains is None else None


_PLACE_IN_LIST: Final = re.compile(r"^\[\d+\]\.?|\[\d+\]")


def _at(field: str | None, place: str | None) -> bool:
    """Whether a place is the field, or stands within it. No field is everywhere."""
    if field is None or place is None:
        return field is None
    within = (f"{field}.", f"{field}[")
    return any(p == field or p.startswith(within) for p in (place, _PLACE_IN_LIST.sub("", place)))


def _decision(rule: ErrorRule, place: str) -> Decision:
    given = [(key, getattr(rule, key)) for key in CONDITIONS]
    return Decision(
        kind=ErrorKind(rule.kind),
        rule=rule.name,
        field=place,
        features=_features(rule),
        matched=tuple(f"{key}: {value}" for key, value in given if value is not None),
    )


def _features(rule: ErrorRule) -> tuple[str, ...]:
    """What it says is refused."""
    if rule.kind != ErrorKind.CAPABILITY:
        return ()
    return tuple(sorted({str(feature) for feature in rule.features or (Feature.OTHER,)}))


# -- what each key has to be

_WITHOUT_FEATURES: Final = tuple(kind for kind in ErrorKind if kind is not ErrorKind.CAPABILITY)


def _wrong_kind(kind: object) -> str:
    return "" if kind in tuple(ErrorKind) else f"is {named(kind)}{did_you_mean(str(kind), ErrorKind)}"


def _wrong_status(status: object) -> str:
    if type(status) is int and 100 <= status <= 599:
        return ""
    shown = status if type(status) is int and abs(status) < 10_000 else named(status)
    return f"is {shown}; give 100 to 599"


def _wrong_code(code: object) -> str:
    if isinstance(code, str) and codes.normal(code):
        return ""
    return "holds no letter a to z and no digit; give the code as the upstream sends it"


def _wrong_text(what: str) -> Callable[[object], str]:
    def wrong(text: object) -> str:
        if not isinstance(text, str):
            return f"is no text; give {what}"
        return "" if text.strip() else f"is empty; give {what}"

    return wrong


_NAME: Final = re.compile(r"[\w-]+")
_A_PATH: Final = "a path as the evidence shows it, such as error.message"


def _wrong_field(field: object) -> str:
    if wrong := _wrong_text(_A_PATH)(field):
        return wrong
    names = _PLACE_IN_LIST.sub("", str(field))
    right = not names or all(map(_NAME.fullmatch, names.split(".")))
    return "" if right else f"is no path; give {_A_PATH}"


def _wrong_features(features: object) -> str:
    if not isinstance(features, tuple | list):
        return 'is no list of features; give one like ["image"]'
    wrong = next((feature for feature in features if feature not in tuple(Feature)), None)
    return "" if wrong is None else f"holds {named(wrong)}{did_you_mean(str(wrong), Feature)}"


_WRONG: Final[Mapping[str, Callable[[object], str]]] = {
    "kind": _wrong_kind,
    "status": _wrong_status,
    "code": _wrong_code,
    "contains": _wrong_text("words of the upstream's message"),
    "field": _wrong_field,
    "features": _wrong_features,
}
