"""Which field of the request a sentence names, and where it says what it met instead."""

from __future__ import annotations

import re
from typing import Final

from turnout.engine.classify import settings
from turnout.engine.classify.text import words

_MARK: Final = re.compile("['\"`]")
_QUOTED: Final = re.compile(r"['\"`]([A-Za-z_][\w.\[\]-]{0,127})['\"`]")
_IN_FRONT: Final = re.compile(
    r"\W{0,4}(?:At )?(?:(?:body|\w{1,40}Request)\.)?"
    r"([a-z_]\w{0,63}(?:(?:\.|\[|\]\.?)\w{1,63}){0,24}\]?)['\"`]? ?[:=] "
)
_AT: Final = re.compile(r" at ['\"`]?((?:tools|messages|contents|input)[.\[][\w.\[\]]{0,127})")
_POINTER: Final = re.compile(r".{0,40}#/?([\w/]{0,80}): extraneous key \[(\w{1,64})\]")
_CONTENT: Final = re.compile(r"['\"`]((?:tools|messages|contents|input)[.\[][\w.\[\]]{0,127})['\"`]")
_CALLED: Final = re.compile(
    r"\b(?:parameter|param|field|argument|property|key|name|supplied|model|inputs)s?(?: supplied)?"
    r"(?:: ?| )['\"`\[]?([A-Za-z_][\w.\[\]]{0,127})",
    re.IGNORECASE,
)
_SUBJECT: Final = re.compile(
    r"\W{0,4}(?:parameter\W|param\W|the )?\W?([a-z]{1,24}(?:_[a-z]{1,24}){1,4})"
    r"\W{1,2}(?:must|can|should|is|value|has|needs?|may|does|exceed|out|range)"
)
_OBJECT: Final = re.compile(
    r"\bsupport(?:s|ed)?(?: for)?(?: the)?(?: parameter)? ['\"`]?([a-z]{2,24}(?:_[a-z]{1,24}){1,4})\b"
)
_PLAIN_SUBJECT: Final = re.compile(r"(\w{1,24}) must be (?:set|a|an|in|between|one|at|true|false)\b")
_GOT: Final = re.compile(r"\b(?:got|found|received)\b(.{1,60})", re.IGNORECASE)
_UNKNOWN: Final = re.compile(
    r"\b(?:unknown variant|invalid value|input tag|type)\b(.{1,60}?)"
    r"(?:expected|supported|must|should|is not|does not|$)",
    re.IGNORECASE,
)


def quoted(sentence: str) -> tuple[str, int]:
    """The first name that stands in quotation marks, and where; empty if there is none."""
    found = _QUOTED.search(sentence) if _MARK.search(sentence) else None
    return (found[1].rstrip("."), found.start()) if found else ("", 0)


def in_front(sentence: str) -> str:
    """The path of a field in front of what is said of it (`max_tokens: too large`), or an empty string."""
    path = _IN_FRONT.match(sentence)
    return path[1] if path and settings.ends(path[1])[0] in settings.KNOWN else ""


def field(sentence: str) -> str:
    """The field that a sentence names by its path, in quotation marks, or after what it calls it."""
    if path := in_front(sentence):
        return path
    if at := _AT.search(sentence):
        return at[1]
    if pointer := _POINTER.match(sentence):
        return ".".join(filter(None, (*pointer[1].split("/"), pointer[2])))
    if content := _CONTENT.search(sentence):
        return content[1]
    if name := quoted(sentence)[0]:
        return name
    return _called(sentence)


def _called(sentence: str) -> str:
    called = _CALLED.search(sentence)
    if not called:
        return ""
    name = called[1].rstrip(".")
    name = name if "[" in name else name.rstrip("]")
    known = "_" in name or name != name.lower() or settings.ends(name)[0] in settings.KNOWN
    return name if known or ":" in called[0] else ""


def unknown_in_front(sentence: str) -> str:
    """Any path in front of a sentence, known or not: for a field that is refused as unknown."""
    path = _IN_FRONT.match(sentence)
    return path[1] if path else ""


def is_merely_where(sentence: str) -> bool:
    """Whether it names the field as a mere place: `the number of parts at messages.2 exceeds`."""
    return _AT.search(sentence) is not None


def spelt_like_a_field(sentence: str) -> str:
    """What a sentence is about, or says is not supported, if it is spelt as fields are: `top_q must be`."""
    found = _OBJECT.search(sentence) or _SUBJECT.match(sentence)
    return found[1] if found else ""


def spelt_as(name: str, sentence: str) -> str:
    """A setting as the sentence spells it, else as its own API does; empty for what is but a description."""
    if name in settings.DESCRIPTIONS:
        return ""
    spoken = words(name)
    spelt = next((chunk for chunk in _CHUNK.findall(sentence) if spoken and words(chunk) == spoken), "")
    return spelt or name


_CHUNK: Final = re.compile(r"[A-Za-z][\w.-]{0,63}(?<![.-])")


def plain_setting(sentence: str) -> str:
    """The setting that is a word of any sentence, where one begins with it: `Store must be set to false`."""
    plain = _PLAIN_SUBJECT.match(sentence)
    name = plain[1].lower() if plain else ""
    return name if name in settings.QUOTED else ""


def met(sentence: str) -> str:
    """What a sentence says it met in place of what it knows, or an empty string."""
    told = _GOT.search(sentence) or _UNKNOWN.search(sentence)
    return told[1] if told else ""
