"""Making a diagnostic message safe to match: its sentences, and the words of each.

A message may quote the request, link to documentation and name models and functions. None
of that is a diagnosis, and each of it can spell one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from turnout.engine.classify.settings import KNOWN

HEAD: Final = 2048
TAIL: Final = 1024
"""Of a long message the first and last characters are matched: servers put the diagnosis at an end."""

NUMBER: Final = "#"
NAME: Final = "@"
PATH: Final = "~"
"""Words that stand for any quantity, for any name of a model or the like, and for any path of a URL."""

_URL: Final = re.compile(r"(?:https?|wss?)://\S+", re.IGNORECASE)
_ECHO: Final = re.compile(
    r"""\b(?:messages|prompt|contents|system|instructions)['"]?\s?[=:]\s?[\[{'"]
      | ['"](?:input|system|instructions)['"]\s?:\s?[\[{'"] | \binput_value\s?=   # a validator's copy
      | \bfailed_generation['"]?\s?: | \breceived:\s?['"{\[] | \(string\)\s?['"]
      | \b(?:last\ read:|token\ at)\s?['"]""",
    re.VERBOSE | re.IGNORECASE,
)
"""Where a message begins to quote the request: nothing after it is read."""
_ECHOED: Final = (
    *("messages", "prompt", "contents", "system", "instructions", "input", "failed_generation"),
    *("received:", "(string)", "last read:", "token at"),
)
"""One of these is in whatever that matches: looking for them first is the faster way."""

_NAMED: Final = re.compile(
    r"\b(function|tool|model|deployment|schema|tool_call_id) (['\"`])[^'\"`\n]{1,200}\2", re.IGNORECASE
)
CLASS: Final = re.compile(
    r"(?:[a-z_]{1,32}\.)?([A-Z][A-Za-z]{2,64}(?:Error|Exception)|[A-Z][A-Za-z]{1,48}(?:\.[A-Z][A-Za-z]{1,48}){1,4})\b"
)
"""An exception's class: a code, and no word of the diagnosis."""
_OF_THE_MODEL: Final = "The model returned the following errors: "
"""How Amazon passes on what a model's own server says."""
_ID: Final = re.compile(r"\b(?:call|toolu|tooluse|fc|rs|msg|resp|chatcmpl|item)_\w{1,128}")
"""An id that a model or a client made up."""
_MODEL_NAME: Final = re.compile(r"^model: \S{1,128}", re.IGNORECASE)
_ODD_SPACE: Final = re.compile(r"  |[^\S \n]")
_SPACES: Final = re.compile(r"[^\S\n]+")
_REQUEST_ID: Final = re.compile(r"\(?\brequest[ _-]?id: ?[\w-]{1,128}\)?", re.IGNORECASE)
"""What servers and proxies add to a message that is complete without it."""
_WHERE: Final = re.compile(r" in ['\"`][\w.\[\]]{1,128}['\"`]")
"""Merely the place of what is wrong."""
_VALIDATOR: Final = re.compile(r"\bInput (?=should (?:be|have))")
"""A validator says it of any field."""
_SCHEMA_PATH: Final = re.compile(r"context=\([^)]{0,300}\)")
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s|\n(?=\s{0,40}[^\sa-z0-9('\"`])|\n\s{0,40}\n|[。;]")
"""Where a line breaks before a word in lower case, it is but wrapped."""


_QUOTE: Final = re.compile("['\"`]")


def diagnosis(message: str) -> str:
    """The part of a message that may be matched: no more than is bounded, and nothing that it quotes."""
    text = message if len(message) <= HEAD + TAIL else f"{message[:HEAD]}\n{message[-TAIL:]}"
    if _ODD_SPACE.search(text):
        text = _SPACES.sub(" ", text)
    if "equest" in text or "EQUEST" in text:
        text = _REQUEST_ID.sub(" ", text)
    text = text.replace(" -> ", ".")  # the path of a field, as some validators write it
    if "://" in text:
        text = _URL.sub(" ", text)
    text = unquoted(text)
    text = text.removeprefix(_OF_THE_MODEL)
    if "_" in text:
        text = _ID.sub(NAME, text)
    text = _MODEL_NAME.sub("model", text.lstrip())
    text = _WHERE.sub("", text)
    if "Input should" in text:
        text = _VALIDATOR.sub("", text)
    if "context=(" in text:
        text = _SCHEMA_PATH.sub(" ", text)
    return _NAMED.sub(r"\1", text) if _QUOTE.search(text) else text


_QUOTED_VALUE: Final = re.compile(
    r"""(\b(?:value|string|got|received|found|given|input|text|content|type_string\),|instance\S{0,80})
        (?:[:=]\ ?|\ ))(['"`])(?=[^'"`\s]{0,80}\s).*(?:\2|$)""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
"""A value of several words, quoted as what a server met: prose of the caller's."""


def unquoted(message: str) -> str:
    """The message without what it quotes of the request."""
    if not _QUOTE_OR_BRACKET.search(message):
        return message
    lower = message.lower()
    if any(word in lower for word in _ECHOED):
        echo = _ECHO.search(message)
        message = message[: echo.start()] if echo else message
    return _QUOTED_VALUE.sub(r"\1", message, count=1)


_QUOTE_OR_BRACKET: Final = re.compile("['\"`\\[{]|_value|_generation")


def folded(text: str) -> str:
    """The text in one case, with one space for every run of white space."""
    return re.sub(r"\s+", " ", text.casefold())


def sentences(message: str) -> tuple[str, ...]:
    """The sentences of a message that may be matched."""
    parts = (_beheaded(part.strip()) for part in _SENTENCE_END.split(diagnosis(message)))
    return tuple(part for part in parts if part)


_HEAD_CLASS: Final = re.compile(r"(?:[a-z_]{1,32}\.)?[A-Z][A-Za-z]{2,64}(?:Error|Exception)\b[\s:-]{0,4}")


def _beheaded(sentence: str) -> str:
    """A sentence without the classes of exceptions in front of it: they are codes, and none of its words."""
    while found := _HEAD_CLASS.match(sentence):
        sentence = sentence[found.end() :]
    return sentence


_DEFINITIONS: Final = re.compile(
    r"schema|tool|function|parameters\b|propert|metadata|response_format|context=", re.IGNORECASE
)
_SPELT: Final = re.compile(r"(['\"`])([\w.\[\]-]{1,128})\1", re.ASCII)
_PATH: Final = re.compile(r"\w[\w\[\]]{0,64}(?:\.[\w\[\]]{1,64}){1,24}", re.ASCII)


def bare(sentence: str) -> str:
    """A sentence without the names in it that may be the caller's: of its tools, schemas and their fields."""
    if not _DEFINITIONS.search(sentence):
        return sentence
    return _PATH.sub(" ", _SPELT.sub(_of_the_request, sentence))


def _of_the_request(spelt: re.Match[str]) -> str:
    """A name in quotation marks if it is one of the request's own fields; nothing for any other."""
    return spelt[0] if spelt[2].lower() in KNOWN else " "


# -- words

_CHUNK: Final = re.compile(
    r"[<>]=?|\d{1,3}(?:,\d{3}){1,5}(?![\w,])|[^\s'\"`\u201c\u201d\u2018(){}|,=*<>\u3000-\u303f\uff00-\uffef]+"
)
_PLAIN: Final = re.compile(r"[A-Za-z][a-z]{0,23}")
_CJK: Final = re.compile(r"[\u3040-\u9fff]")
_PIECE: Final = re.compile(
    r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+(?:[.,]\d+)*|[<>]=?|≤|[\u3040-\u9fff]|[^\W\d_A-Za-z]+"
)
_NUMERAL: Final = re.compile(r"\d+(?:[.,]\d+)*[kKmM]?")
_A_NAME: Final = re.compile(
    r"(?=\S*\d)(?=\S*[A-Za-z])[\w.:@/+]*[-/:][\w.:@/+-]*|[\w.]+/\w[\w.]*-[\w.-]*|[a-z]+\d+\.\d+\w*"
)
_APOSTROPHES: Final = str.maketrans({"\u2019": "'", "\u02bc": "'"})
_A_PATH: Final = re.compile(
    r"/?(?:v\d\w{0,8}/|openai/|api/){0,3}"
    r"/?(?:(?:chat/)?completions?|responses|messages|embeddings|invocations|generate)/?"
)
MARKS: Final = frozenset({NUMBER, NAME, PATH})
_MOST_OF_A_CHUNK: Final = 160


def words(sentence: str) -> list[str]:
    """The words of a sentence in their stems: lower case, names and quantities as `@` and `#`.

    What is joined is taken apart (`tool_choice`, `toolChoice`, `tool-choice` are two words), and
    a negation stands alone (`doesn't`: do, not).
    """
    if not sentence.isascii():
        sentence = sentence.translate(_APOSTROPHES)
    if _MAY_NEGATE.search(sentence):
        sentence = _NEGATED.sub(" not", sentence)
    return [word for chunk in _CHUNK.findall(sentence) for word in _words(chunk)]


_MAY_NEGATE: Final = re.compile(r"n't|annot", re.IGNORECASE)
_NEGATED: Final = re.compile(r"(?i:(?<=ca)n't|(?<=can)not|n't)\b")


def _words(chunk: str) -> tuple[str, ...]:
    return _known(chunk) if len(chunk) <= _SHORT else tuple(_taken_apart(chunk))


_SHORT: Final = 24
"""What is longer is no word that comes again."""


@lru_cache(maxsize=4096)
def _known(chunk: str) -> tuple[str, ...]:
    return (stem(chunk.lower()),) if _PLAIN.fullmatch(chunk) else tuple(_taken_apart(chunk))


def _taken_apart(chunk: str) -> Iterator[str]:
    chunk = chunk[:_MOST_OF_A_CHUNK].strip(".:!?[]&")
    if CLASS.fullmatch(chunk):
        return
    elif _NUMERAL.fullmatch(chunk.lstrip("-")):
        if chunk[0] == "-":
            yield "minus"
        yield NUMBER
    elif "/" in chunk and _A_PATH.fullmatch(chunk):
        yield PATH
    elif _A_NAME.fullmatch(chunk) and not chunk[0].isdigit():
        if chunk.startswith("models/"):
            yield "model"
        yield NAME
    else:
        for piece in _PIECE.findall(chunk):
            yield NUMBER if piece[0].isdigit() else stem(piece.lower())


_WHOLE: Final = frozenset(
    {"reasoning", "thinking", "string", "billing", "embedding", "this", "used", "https"}
)
_IRREGULAR: Final = {
    **dict.fromkeys(("is", "are", "was", "were", "been", "being"), "be"),
    **dict.fromkeys(("does", "did", "done", "doing"), "do"),
    **dict.fromkeys(("has", "had", "having"), "have"),
    "used": "use",
    "using": "use",
    "uses": "use",
    "ca": "can",
    "ran": "run",
    "took": "take",
    "taken": "take",
    "sent": "send",
    "≤": "<=",
}


def stem(word: str) -> str:
    """A word without its ending, so that `exceeds`, `exceeded` and `exceeding` are one. Lower case."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) <= 3 or word in _WHOLE or not word.isascii():
        return word
    if word.endswith(("ies", "ied")):
        return word[:-3] + "y"
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        if word.endswith(ending) and not word.endswith("eed") and len(word) >= len(ending) + 3:
            word = word[: -len(ending)]
            if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "sl":
                word = word[:-1]
            break
    return word[:-1] if word.endswith("e") and len(word) > 4 else word
