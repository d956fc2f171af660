"""Finding the diagnostic fields of a body, as deep as proxies wrap them.

Only the fields that `objects` names are ever read, so what a server quotes of the request
(`input`, `ctx`, `failed_generation`, a prompt) cannot decide anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from msgspec import Struct

from turnout.engine.classify import objects
from turnout.engine.classify.decoding import MAX_BODY, TAG, decoded, embedded, text_of
from turnout.engine.classify.objects import Fields
from turnout.engine.classify.reply import Reply
from turnout.engine.classify.text import CLASS, sentences

MAX_STEPS: Final = 12
"""Six wrappers deep, each of them an object and the field that holds the next."""
MAX_FINDINGS: Final = 16
MAX_CLASSES: Final = 4
_NOTHING: Final = ("None", "null", "undefined")
"""How proxies write a field that they do not know."""
_HOUR: Final = 3600
_MOST: Final = 1e12
_LONGEST_DELAY: Final = 9
"""Digits."""

_AMAZON: Final = "x-amzn-errortype"
"""Where Amazon's services name the error when the body holds but its message."""
_STATED: Final = re.compile(
    r"(?:\b(?:error code|status(?: ?code)?|http(?: ?error| status)?)[ :=(]{1,3}|^[<\[])([45]\d\d)\b",
    re.IGNORECASE,
)
_LISTED: Final = re.compile(r"parameters?: ?[\[{]['\"](\w{1,64})['\"]")
"""Where a proxy lists the fields that its upstream does not take: the first."""


class Finding(Struct, frozen=True):
    """What one object, or one string, within a body says. Absent fields are empty."""

    path: str
    depth: int
    message: str = ""
    code: str = ""
    names: tuple[tuple[str, str], ...] = ()
    """What else is a code, with the field that it stands in: type, status name, reason, a second code."""
    classes: tuple[str, ...] = ()
    """The classes of exceptions that the message names: what a proxy made of the status, mostly."""
    param: str = ""
    status: int | None = None
    """An HTTP status that the body itself states."""
    spoken: str = ""
    """The name of the field that holds the message; empty where the finding is a string itself."""
    delay: str = ""
    """When to ask again, in words: from Google's details, which spell it `43s`."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """The message as it may be matched."""
        return sentences(self.message)

    @property
    def codes(self) -> Iterator[tuple[str, str]]:
        """The code and the names, each with the field that it is called after."""
        if self.code:
            yield "code", self.code
        yield from self.names

    @property
    def weak_codes(self) -> Iterator[tuple[str, str]]:
        """The codes, and the classes that the message names."""
        yield from self.codes
        for name in self.classes:
            yield self.spoken or "message", name

    @property
    def message_at(self) -> str:
        """The path of the message."""
        return self.at(self.spoken) if self.spoken else self.path or "body"

    def at(self, name: str) -> str:
        """The path of one of its fields."""
        return f"{self.path}.{name}" if self.path else name


def findings(reply: Reply) -> tuple[Finding, ...]:
    """What a reply says, the innermost first."""
    found = list(islice(_read(reply), MAX_FINDINGS))
    found.sort(key=lambda finding: -finding.depth)
    named = reply.headers.get(_AMAZON, "").partition(":")[0].strip(), (reply.event or "").strip()
    found += [
        Finding("", 0, names=((path, _clean(name)),))
        for path, name in zip((_AMAZON, "event"), named, strict=True)
        if name
    ]
    return tuple(found)


# -- reading


def _read(reply: Reply) -> Iterator[Finding]:
    text = text_of(reply.body, reply.headers.get("content-type", ""))
    if text.startswith("<"):
        return _of_markup(text)
    value = decoded(text)
    if value is not None:
        return _walk(value, "", 0)
    if text.startswith(("{", "[")) and not TAG.match(text):
        return iter(())  # broken JSON: what is prose in it cannot be told from an echo
    return _walk(text, "body", 0)


_TITLE: Final = re.compile(r"<(title|h1)[^>]{0,64}>([^<]{0,256})", re.IGNORECASE)
_XML: Final = re.compile(r"<(code|message|type)>([^<]{0,2048})</", re.IGNORECASE)


def _of_markup(text: str) -> Iterator[Finding]:
    """A gateway's page: its title is shown, and its prose is no diagnosis; or a service's XML."""
    said = {name.lower(): _clean(value) for name, value in islice(_XML.findall(text), MAX_FINDINGS)}
    if "message" in said:
        yield Finding(
            "xml",
            0,
            said["message"],
            said.get("code", ""),
            (("type", said["type"]),) if "type" in said else (),
        )
    elif title := _TITLE.search(text):
        yield Finding("title", 0, _clean(title[2]))


def _walk(value: Any, path: str, depth: int) -> Iterator[Finding]:
    if depth > MAX_STEPS:
        return
    if isinstance(value, str):
        message, inner = embedded(value[:MAX_BODY])
        message = _clean(message)
        if message:
            stated = _STATED.search(message)
            status = int(stated[1]) if stated else None
            yield Finding(path, depth, message, classes=tuple(_classes(message)), status=status)
        yield from _walk(inner, path, depth + 1)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value[:MAX_FINDINGS]):
            yield from _walk(item, f"{path}[{index}]", depth + 1)
    elif isinstance(value, dict):
        yield from _walk_object(value, path, depth)


def _walk_object(value: dict[Any, Any], path: str, depth: int) -> Iterator[Finding]:
    fields = Fields(value)
    own, inner = Finding(path, depth), None
    if fields.has_any(objects.TELLING):
        own, inner = _own(fields, path, depth)
        yield own
    if inner is not None:
        yield from _walk(inner, own.at(own.spoken), depth + 1)
    param = fields.get("param")
    if isinstance(param, str) and " " in param:  # some servers put the whole diagnosis there
        yield Finding(own.at("param"), depth, _clean(param))
    for name, within in fields.among((*objects.WRAPPERS, *fields.messages()[len(objects.MESSAGES) :])):
        if name != own.spoken:
            yield from _walk(within, own.at(name), depth + 1)
    if fields.has_any(objects.RARE):
        yield from _of_upstreams(fields, own, depth)
        yield from _of_answers(fields, own, depth)


def _of_answers(fields: Fields, own: Finding, depth: int) -> Iterator[Finding]:
    """The errors in the parts of an answer, and why it ended badly."""
    for name, part in fields.objects(objects.ANSWERS, MAX_FINDINGS):
        for spelt, error in part.among(("error",)):
            yield from _walk(error, own.at(f"{name}.{spelt}"), depth + 1)
        yield from _ended(part, own.at(name), depth)
    yield from _ended(fields, own.path, depth)


def _of_upstreams(fields: Fields, own: Finding, depth: int) -> Iterator[Finding]:
    """What a proxy tells of its upstream."""
    for name, told in fields.objects(objects.METADATA, MAX_FINDINGS):
        for spelt, raw in told.among(("raw",)):
            yield from _walk(raw, own.at(f"{name}.{spelt}"), depth + 1)
    for name, upstream in fields.objects(objects.UPSTREAMS, MAX_FINDINGS):
        for spelt, body in upstream.among(objects.BODIES):
            answered = decoded(body[:MAX_BODY].strip()) if isinstance(body, str) else None
            if isinstance(answered, dict):
                yield from _walk(answered.get("error"), own.at(f"{name}.{spelt}.error"), depth + 1)


def _own(fields: Fields, path: str, depth: int) -> tuple[Finding, Any]:
    """What an object itself says, and the value within its message."""
    spoken = next((name for name in fields.messages() if isinstance(fields.get(name), str)), "")
    said = fields.get(spoken)[:MAX_BODY] if spoken else ""
    message, inner = embedded(said)
    coded = [(spelt, code) for spelt, value in fields.among(objects.CODES) if (code := _code(value))]
    named = [(spelt, name) for spelt, value in fields.among(objects.NAMES) if (name := _name(value))]
    code = coded[0][1] if coded else ""
    status = _status(code)
    if status is None:
        stated = (_status(_code(value)) for _, value in fields.among(objects.NUMBERS))
        status = next((number for number in stated if number), None)
    param = _param(fields)
    if not param and "parameter" in said and (listed := _LISTED.search(said)):
        param = listed[1]
    return Finding(
        path=path,
        depth=depth,
        message=_clean(message),
        code=code,
        names=(*coded[1:], *named),
        classes=tuple(_classes(message)),
        param="" if " " in param else param,
        status=status,
        spoken=fields.spelt(spoken) if spoken else "",
        delay=_delay(_name(fields.get(objects.DELAY))),
    ), inner


def _ended(fields: Fields, path: str, depth: int) -> Iterator[Finding]:
    if ended := fields.ended():
        name, why = ended
        yield Finding(path, depth + 1, names=((name, _clean(why)),))


def _delay(spelt: str) -> str:
    digits = spelt.partition(".")[0].removesuffix("s")
    if not digits.isdecimal() or len(digits) > _LONGEST_DELAY:
        return ""
    return f"again in {digits} seconds" if int(digits) < _HOUR else f"again in {int(digits) // _HOUR} hours"


def _classes(message: str) -> Iterator[str]:
    """The classes of exceptions that a message names: what a proxy made of the error, as a code would."""
    if "Error" not in message and "Exception" not in message:
        return iter(())
    return (found[1] for found in islice(CLASS.finditer(message), MAX_CLASSES))


def _clean(text: str) -> str:
    """Trimmed, and without the lone surrogates that JSON can spell and UTF-8 cannot.

    Nothing is cut: half a credential could not be recognised any more.
    """
    text = text.strip()
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _name(value: object) -> str:
    return _clean(value) if isinstance(value, str) and value not in _NOTHING else ""


def _code(value: object) -> str:
    return _number(value) or _name(value)


def _number(value: object) -> str:
    """A number in words of its own; empty for what is none, or is too long to be a code."""
    return (
        str(value)
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _MOST
        else ""
    )


def _param(fields: Fields) -> str:
    return next((param for _, value in fields.among(objects.PARAMS) if (param := _of_param(value))), "")


def _of_param(value: object) -> str:
    if isinstance(value, list | tuple):  # a validator's `loc`: ["body", "messages", 0, "name"]
        steps = (part if isinstance(part, str) else _number(part) for part in value[:16])
        return _name(".".join(filter(None, steps)).removeprefix("body."))
    return _name(value).replace(" -> ", ".").removeprefix("body.")


def _status(code: str) -> int | None:
    return (
        int(code)
        if len(code) == 3 and code.isascii() and code.isdecimal() and "400" <= code <= "599"
        else None
    )
