"""Finding the diagnostic fields of a body, as deep as proxies wrap them.

Only the fields that are named here are ever read, so what a server quotes of the request
(`input`, `ctx`, `failed_generation`, a prompt) cannot decide anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, Final

from msgspec import Struct

from turnout.engine.classify.codes import POLICY, normal
from turnout.engine.classify.decoding import MAX_BODY, TAG, decoded, embedded, text_of
from turnout.engine.classify.reply import Reply
from turnout.engine.classify.text import CLASS, sentences

MAX_STEPS: Final = 8
"""Four wrappers deep, each of them an object and the field that holds the next."""
MAX_FINDINGS: Final = 16
MAX_CLASSES: Final = 4

# fields are known by their names in lower case, without underscores
_MESSAGES: Final = (
    *("message", "msg", "errormessage", "errormsg", "errmsg", "statusmsg", "description", "errordescription"),
    *("detail", "title"),
)
_CODES: Final = ("code", "errorcode", "statuscode", "httpstatuscode", "errcode", "internalcode")
_NAMES: Final = ("type", "errortype", "status", "reason", "exception", "blockreason", "action")
_PARAMS: Final = ("param", "loc", "field", "parameter")
_WRAPPERS: Final = (
    *("error", "errors", "detail", "details", "innererror", "metadata", "raw", "cause", "baseresp", "header"),
    *("fieldviolations", "originalerror", "upstreamerror", "providererror", "exception", "promptfeedback"),
    *_MESSAGES,
)
"""Fields that may hold a further diagnosis: an object, a list, a string, or JSON within a string."""
_BODIES: Final = ("body", "provider", "responsebody", "upstream")
"""Fields that may hold what an upstream answered; prose in them may as well be the request."""
_ANSWERS: Final = ("choices", "response", "candidates", "data")
"""Parts of an answer: of these the `error` is read, and why it ended, and nothing else."""
_ENDS: Final = ("finishreason", "stopreason", "incompletedetails")
"""Why an answer ended, beside the answer."""
_GOOD_ENDS: Final = frozenset(
    {"stop", "length", "end_turn", "tool_calls", "tool_use", "max_tokens", "completed"}
)

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
    names: tuple[str, ...] = ()
    """The values of type, status name and reason."""
    param: str = ""
    status: int | None = None
    """An HTTP status that the body itself states."""
    spoken: str = ""
    """The name of the field that holds the message; empty where the finding is a string itself."""
    delay: str = ""
    """How long to wait, as Google's details spell it: `43s`."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """The message as it may be matched."""
        return sentences(self.message)

    @property
    def codes(self) -> Iterator[tuple[str, str]]:
        """The code and the names, each with the field that it is called after."""
        if self.code:
            yield "code", self.code
        for name in self.names:
            yield "type", name

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
        Finding(path, 0, names=(_clean(name),))
        for path, name in zip((_AMAZON, "event"), named, strict=True)
        if name
    ]
    return tuple(found)


def carries_error(body: bytes) -> bool:
    """Whether a 200's body carries an error: beside an answer, in a part of it, or in its place."""
    if not any(marker in body for marker in _MARKERS):  # most answers: they need not be decoded for this
        return False
    value = decoded(body.decode("utf-8", "replace").strip())
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, dict):
        return False
    fields = _fields(value)
    parts = [_fields(part) for name in _ANSWERS for part in _parts(_value(fields, name))]
    if any(_is_error(_value(holder, "error")) for holder in (fields, *parts)):
        return True
    base = _value(fields, "baseresp")
    if isinstance(base, dict) and base.get("status_code"):
        return True
    if any(_says_something(holder) for holder in (fields, *parts)):
        return False
    return any(_blocked(holder) for holder in (fields, *parts)) or _instead(fields)


_MARKERS: Final = (
    *(b'"error', b'"Error', b'"base_resp"', b'lockReason"', b'"code"', b'"Code"', b'"detail"'),
    *(b"_filter", b'"finishReason"', b'"refusal"', b"guardrail", b'"sensitive"', b'"header"'),
)


def _parts(value: object) -> list[dict[str, Any]]:
    holders = value if isinstance(value, list) else [value]
    return [holder for holder in holders if isinstance(holder, dict)]


def _says_something(fields: _Fields) -> bool:
    """Whether a part of an answer holds any answer."""
    message = _value(fields, "message")
    if isinstance(message, dict):
        return bool(message.get("content") or message.get("tool_calls"))
    return any(
        _value(fields, name) for name in ("content", "output", "text", "result", "completion", "generation")
    )


def _blocked(fields: _Fields) -> bool:
    """Whether it says that what was to be said was withheld."""
    ended = _ended(fields)
    return ended is not None and normal(ended[1]) in POLICY


def _instead(fields: _Fields) -> bool:
    """Whether an object that holds no answer holds a diagnosis."""
    if any(
        isinstance(within, dict) and within.get(key)
        for within, key in (
            (_value(fields, "promptfeedback"), "blockReason"),
            (_value(fields, "header"), "code"),
        )
    ):
        return True
    spoken = any(isinstance(_value(fields, key), str) for key in _MESSAGES)
    return bool(_value(fields, "errors")) or (
        spoken and any(_value(fields, key) not in (None, 0, "", "0", 200, "200") for key in _CODES)
    )


def _is_error(value: object) -> bool:
    return bool(value) and isinstance(value, dict | str)


# -- reading

_Fields = Mapping[str, tuple[str, Any]]
"""The fields of an object by their normal names, each with the name that it has."""


def _fields(value: Mapping[Any, Any]) -> _Fields:
    return {
        known: (key, inner) for key, inner in value.items() if isinstance(key, str) and (known := _known(key))
    }


@lru_cache(maxsize=1024)
def _known(key: str) -> str:
    """The normal name of a field that is read, an empty string for any other."""
    name = key[:_LONGEST].lower().replace("_", "")
    return name if name in _READ else ""


_LONGEST: Final = 32
_READ: Final = frozenset(
    {
        *_MESSAGES,
        *_CODES,
        *_NAMES,
        *_PARAMS,
        *_WRAPPERS,
        *_ANSWERS,
        *_BODIES,
        *_ENDS,
        "retrydelay",
        "message",
        "content",
    }
    | {"toolcalls", "output", "text", "result", "completion", "generation"}
)


def _value(fields: _Fields, name: str) -> Any:
    return fields[name][1] if name in fields else None


def _read(reply: Reply) -> Iterator[Finding]:
    text = text_of(reply.body, reply.headers.get("content-type", ""))
    if text.startswith("<"):
        return _of_markup(text)
    value = decoded(text)
    if value is not None:
        return _walk(value, "", 0)
    if text.startswith(("{", "[")) and not TAG.match(
        text
    ):  # broken JSON: what is prose in it cannot be told from an echo
        return iter(())
    return _walk(text, "body", 0)


_TITLE: Final = re.compile(r"<(title|h1)[^>]{0,64}>([^<]{0,256})", re.IGNORECASE)
_XML: Final = re.compile(r"<(code|message|type)>([^<]{0,2048})</", re.IGNORECASE)


def _of_markup(text: str) -> Iterator[Finding]:
    """A gateway's page: its title is shown, and its prose is no diagnosis; or a service's XML."""
    said = {name.lower(): _clean(value) for name, value in islice(_XML.findall(text), MAX_FINDINGS)}
    if "message" in said:
        yield Finding(
            "xml", 0, said["message"], said.get("code", ""), tuple(filter(None, (said.get("type"),)))
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
            yield Finding(path, depth, message, names=tuple(_classes(message)), status=status)
        yield from _walk(inner, path, depth + 1)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value[:MAX_FINDINGS]):
            yield from _walk(item, f"{path}[{index}]", depth + 1)
    elif isinstance(value, dict):
        yield from _walk_object(value, path, depth)


def _walk_object(value: Mapping[str, Any], path: str, depth: int) -> Iterator[Finding]:
    fields = _fields(value)
    spoken = next((key for key in _MESSAGES if isinstance(_value(fields, key), str)), "")
    message, inner = embedded(_value(fields, spoken)[:MAX_BODY]) if spoken else ("", None)
    code = next((code for key in _CODES if (code := _code(_value(fields, key)))), "")
    numbers = (code, *(_code(_value(fields, key)) for key in ("httpstatuscode", "statuscode", "status")))
    param = next((param for key in _PARAMS if (param := _param(_value(fields, key)))), "")
    said_of_it = " " in param  # some servers put the whole diagnosis there
    if spoken and not param and "parameter" in _value(fields, spoken):
        listed = _LISTED.search(_value(fields, spoken)[:MAX_BODY])
        param = listed[1] if listed else ""
    own = Finding(
        path,
        depth,
        _clean(message),
        code,
        _names(fields, message),
        "" if said_of_it else param,
        next((status for number in numbers if (status := _status(number))), None),
        fields[spoken][0] if spoken else "",
        _name(_value(fields, "retrydelay")),
    )
    yield own
    if said_of_it:
        yield Finding(own.at("param"), depth, param)
    if spoken:
        yield from _walk(inner, own.at(fields[spoken][0]), depth + 1)
    for key in dict.fromkeys(_WRAPPERS):
        if key in fields and key != spoken:
            name, within = fields[key]
            yield from _walk(within, own.at(name), depth + 1)
    for key in _BODIES:
        if key in fields:
            name, within = fields[key]
            value_of = decoded(within[:MAX_BODY].strip()) if isinstance(within, str) else within
            if isinstance(value_of, dict):
                yield from _walk(value_of.get("error"), own.at(f"{name}.error"), depth + 1)
    for key in _ANSWERS:
        if key in fields:
            yield from _walk_answer(*fields[key], own, depth)
    if ended := _ended(fields):
        yield Finding(own.at(ended[0]), depth + 1, names=(ended[1],))


def _names(fields: _Fields, message: str) -> tuple[str, ...]:
    return (*(name for key in _NAMES if (name := _name(_value(fields, key)))), *_classes(message))


def _classes(message: str) -> Iterator[str]:
    """The classes of exceptions that a message names: what a proxy made of the error, as a code would say it."""
    if "Error" not in message and "Exception" not in message:
        return iter(())
    return (found[1] for found in islice(CLASS.finditer(message[:MAX_BODY]), MAX_CLASSES))


def _walk_answer(name: str, part: Any, own: Finding, depth: int) -> Iterator[Finding]:
    for holder in part[:MAX_FINDINGS] if isinstance(part, list) else [part]:
        if isinstance(holder, dict):
            fields = _fields(holder)
            if "error" in fields:
                named, error = fields["error"]
                yield from _walk(error, own.at(f"{name}.{named}"), depth + 1)
            if ended := _ended(fields):
                yield Finding(own.at(f"{name}.{ended[0]}"), depth + 1, names=(ended[1],))


def _ended(fields: _Fields) -> tuple[str, str] | None:
    """The field that says why an answer ended badly, and what it says."""
    for key in _ENDS:
        if key in fields:
            name, why = fields[key]
            said = _name(why.get("reason") if isinstance(why, dict) else why)
            if said and said.lower() not in _GOOD_ENDS:
                return name, said
    return None


def _clean(text: str) -> str:
    """Trimmed, and without the lone surrogates that JSON can spell and UTF-8 cannot.

    Nothing is cut: half a credential could not be recognised any more.
    """
    text = text.strip()
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _name(value: object) -> str:
    return _clean(value) if isinstance(value, str) else ""


def _code(value: object) -> str:
    return str(value) if type(value) in (int, float) else _name(value)


def _param(value: object) -> str:
    if isinstance(value, list | tuple):  # a validator's `loc`: ["body", "messages", 0, "name"]
        return _name(
            ".".join(str(part) for part in value[:16] if isinstance(part, str | int)).removeprefix("body.")
        )
    return _name(value)


def _status(code: str) -> int | None:
    return (
        int(code)
        if len(code) == 3 and code.isascii() and code.isdecimal() and "400" <= code <= "599"
        else None
    )
