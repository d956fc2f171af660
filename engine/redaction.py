"""What may be kept of an upstream's message: no credential, no URL's secrets, no text of the request.

Both are looked for in a folded form, in which white space, escapes and what is unseen do
not count, since whoever echoes a text may have wrapped, escaped or marked it anywhere. A
folded text knows where each of its characters stood, so what is found is cut out of the
message as it was.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from turnout.engine.classify.verdict import Verdict
from turnout.engine.credentials import KEY, SHORTEST_SECRET
from turnout.engine.targets import safe_url

LONGEST: Final = 512
"""Characters of a message that are kept."""
RUN: Final = 24
"""A run of this many characters that also stands in the request is taken for a quotation of it."""

_WHOLE: Final = 65_536
_READ: Final = 3 * 1024
_LONGEST_NAME: Final = 128
_DEEPEST: Final = 4
# A run may lose a third of its characters by folding, and is still found.
_FOLDED_RUN: Final = 16
_BLOCK: Final = _FOLDED_RUN // 2
_BY_CHANCE: Final = 6

_NAME: Final = re.compile(r"[\w.:/+=-]+", re.ASCII)
_LITERAL: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|-?[0-9][0-9.eE+-]*')
_URL: Final = re.compile(r"\bhttps?://[^\s\"'<>\\]{1,2000}", re.IGNORECASE)
_SPACE: Final = re.compile(r"\s+")
_STANDARD_BASE64: Final = str.maketrans("-_", "+/")
_BASE64: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_=")

_UNSEEN: Final = "".join(
    (
        r"\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad",  # controls that are no white space, the soft hyphen
        r"\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f",
        r"\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb",  # fillers, selectors, marks
        r"\ud800-\udfff\U0001d173-\U0001d17a\U000e0000-\U000e0fff",  # halves of characters, tags
    )
)
"""What a terminal would act on, what is not seen or reorders text, and what no file can keep."""
_IS_UNSEEN: Final = re.compile(f"[{_UNSEEN}]")

_ESCAPES: Final = (
    r"(?P<unicode>\\+u[dD][89abAB][0-9a-fA-F]{2}\\+u[dD][c-fC-F][0-9a-fA-F]{2}|\\+u[0-9a-fA-F]{4})"
    r"|(?P<byte>\\+x[0-9a-fA-F]{2})"
    rf"|(?P<blank>(?:\s|\\+[bfnrt])+)|(?P<dropped>\\+|[{_UNSEEN}])"
)
_PERCENT: Final = r"(?P<percent>(?:%(?:25)*[0-9a-fA-F]{2})+)"
_COMMON_ESCAPES: Final = (("\\n", " "), ('\\"', '"'), ("\\t", " "), ("\\r", " "))
_CHAR: Final = r"(?P<char>.)"
_PLAIN: Final = re.compile(r"[ -$&-\[\]-~]*")
"""Printable ASCII in which nothing can be escaped: most messages. There is little to fold."""
_MARKS: Final = re.compile(_ESCAPES)
_TEXT: Final = re.compile(f"{_ESCAPES}|{_CHAR}", re.DOTALL)
_CREDENTIAL: Final = re.compile(f"{_ESCAPES}|{_PERCENT}|{_CHAR}", re.DOTALL)


class Quotations:
    """The text of one request, in which what others say is looked for. Made when it is first needed."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        self._request = request

    @cached_property
    def text(self) -> str:
        """All of the request, folded. Its strings stand in its JSON, whose escapes folding undoes."""
        text = self._json()
        for escape, meant in _COMMON_ESCAPES:  # the most of them at once, at the speed of C
            text = text.replace(escape, meant)
        text = _MARKS.sub(_unmarked, text) if "\\" in text else _IS_UNSEEN.sub("", text)
        return " ".join(text.split())

    @cached_property
    def phrases(self) -> frozenset[str]:
        """The request's strings, each as a whole, without those that could be a name or a code."""
        strings: dict[str, str] = {}
        _each_text(self._json(), lambda text: strings.setdefault(text, text))
        return frozenset(said for text in strings if (said := text.strip()) and not _NAME.fullmatch(said))

    def _json(self) -> str:
        # the model is ours to name, not the caller's
        said = {key: value for key, value in self._request.items() if key != "model"}
        return msgspec.json.encode(said).decode()


class Redactor:
    """Cleans what one upstream has said.

    Args:
        secrets: the credentials that may be echoed, as they are sent.
        quotations: the request, which may be quoted.
    """

    def __init__(self, secrets: Iterable[str], quotations: Quotations) -> None:
        self._secrets = _needles(tuple(sorted({s for s in secrets if len(s) >= SHORTEST_SECRET})))
        self._quotations = quotations

    def clean(self, message: str) -> str:
        """The message without credentials, quotations of the request, control characters; at most 512."""
        if not message:
            return ""
        # credentials go first: half of one, left by a cut, could not be recognised
        text = self._without_credentials(_SPACE.sub(" ", message)[:_WHOLE])
        (text,) = self._without_quotations([_without_urls(_SPACE.sub(" ", text)[:_READ])])
        return _cut(text.strip(), LONGEST)

    def body(self, body: str) -> str:
        """A whole body, cleaned of the same and not cut. JSON remains JSON, within its strings as well.

        Whatever in JSON is a string of the request goes however short it is: it is an echo.
        """
        said: dict[str, str] = {}
        _each_text(body, lambda text: said.setdefault(text, text))
        # all at once: the request is looked through once, however many strings there are
        cleaned = self._without_quotations([_without_urls(self._without_credentials(text)) for text in said])
        instead = dict(zip(said, cleaned, strict=True))
        instead.update((text, "[request text]") for text in said if text.strip() in self._quotations.phrases)
        return _each_text(body, instead.__getitem__)

    def name(self, text: str, sent: bytes) -> str:
        """An identifier of the upstream's, such as its id of the request; empty if it is none, or quotes.

        Args:
            sent: the request as it went out.
        """
        if len(text) > _LONGEST_NAME or not _NAME.fullmatch(text) or KEY.search(text):
            return ""
        # there is nothing in a name that folding would drop: it is on the path of every answer
        if self._in(text.lower()):
            return ""
        blocks = range(0, len(text) - RUN // 2 + 1, RUN // 2) if len(text) >= RUN else ()
        return "" if any(text[at : at + RUN // 2].encode() in sent for at in blocks) else text

    def verdict(self, verdict: Verdict, sent: bytes = b"") -> Verdict:
        """The verdict with every text of the upstream's cleaned."""
        return msgspec.structs.replace(
            verdict,
            message=self.clean(verdict.message),
            code=_cut(self.clean(verdict.code), _LONGEST_NAME),
            param=_cut(self.clean(verdict.param), _LONGEST_NAME),
            request_id=self.name(verdict.request_id, sent),
        )

    def _in(self, lowered: str) -> bool:
        """Whether a secret stands in what needs no more folding than this."""
        folded = lowered.translate(_STANDARD_BASE64)
        return any(needle in folded for needle, _ in self._secrets)

    def _without_credentials(self, text: str) -> str:
        """Without what is known or looks like one, and without what is unseen."""
        return _IS_UNSEEN.sub("", KEY.sub("[credential]", self._without_secrets(text)))

    def _without_secrets(self, text: str) -> str:
        if not self._secrets or (_PLAIN.fullmatch(text) and not self._in(text.replace(" ", "").lower())):
            return text
        folded = _fold(text, _CREDENTIAL, _as_credential)
        spans: list[tuple[int, int]] = []
        for needle, in_base64 in self._secrets:
            at = folded.text.find(needle)
            while at >= 0:
                first, end = folded.starts[at], folded.ends[at + len(needle) - 1]
                spans.append(_widened(text, first, end) if in_base64 else (first, end))
                at = folded.text.find(needle, at + len(needle))
        return _replaced(text, spans, "[credential]")

    def _without_quotations(self, texts: Sequence[str]) -> list[str]:
        """Replace every run of `RUN` characters or more that also stands in the request."""
        folded = [_fold(text if len(text) >= RUN else "", _TEXT, _as_text) for text in texts]
        said = [each.text for each in folded]
        if sum(map(len, said)) <= LONGEST:
            said = [text for text in said if self._may_quote(text)]
        quoted = self._quoted(said)
        return [_unquoted(text, each, quoted) for text, each in zip(texts, folded, strict=True)]

    def _may_quote(self, text: str) -> bool:
        """Whether a short text, as most messages are, may share a run with the request.

        It is looked up there, which is faster by far than to look through the request.

        A run covers one of the text's own blocks; where some stand in the request by chance, no run around
        them does.
        """
        if len(text) < _FOLDED_RUN:
            return False
        source = self._quotations.text
        starts = range(0, len(text) - _BLOCK + 1, _BLOCK)
        known = [at for at in starts if text[at : at + _BLOCK] in source]
        return len(known) > _BY_CHANCE or any(
            text[first : first + _FOLDED_RUN] in source
            for at in known
            for first in range(max(0, at - _BLOCK), min(at, len(text) - _FOLDED_RUN) + 1)
        )

    def _quoted(self, texts: Sequence[str]) -> set[str]:
        """The runs of exactly `_FOLDED_RUN` characters that texts and request share, all folded.

        Each covers a whole block of the request, cut every `_BLOCK` characters. So one look
        at each block finds where to look closer, and the cost grows with the request alone,
        whatever it holds.
        """
        runs = {text[at : at + _FOLDED_RUN] for text in texts for at in range(len(text) - _FOLDED_RUN + 1)}
        if not runs:
            return runs
        blocks = {text[at : at + _BLOCK] for text in texts for at in range(len(text) - _BLOCK + 1)}
        source = self._quotations.text
        around = {
            source[max(0, at - _BLOCK) : at + _FOLDED_RUN]
            for at in range(0, len(source) - _BLOCK + 1, _BLOCK)
            if source[at : at + _BLOCK] in blocks
        }
        return {
            run
            for near in around
            for at in range(len(near) - _FOLDED_RUN + 1)
            if (run := near[at : at + _FOLDED_RUN]) in runs
        }


# -- folding


class _Folded(NamedTuple):
    """A folded text, and where each of its characters began and ended."""

    text: str
    starts: Sequence[int]
    ends: Sequence[int]

    def span(self, first: int, end: int, whole: int) -> tuple[int, int]:
        """Where a piece stood, with what was dropped on both of its sides."""
        return (
            self.ends[first - 1] if first else 0,
            self.starts[end] if end < len(self.starts) else whole,
        )


def _fold(text: str, marks: re.Pattern[str], each: Callable[[str], str]) -> _Folded:
    """The text as it counts.

    Args:
        marks: tells apart what is escaped, blank, dropped and said.
        each: what becomes of a character that is said.
    """
    if each is _as_text and "  " not in text and _PLAIN.fullmatch(text):
        return _Folded(text, range(len(text)), range(1, len(text) + 1))
    folded: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    for found in marks.finditer(text):
        for char in _unmarked(found):
            if (kept := each(char)) and not (kept == " " and folded[-1:] == [" "]):
                folded.append(kept)
                starts.append(found.start())
                ends.append(found.end())
    return _Folded("".join(folded), starts, ends)


def _unmarked(found: re.Match[str]) -> str:
    """What a mark stands for."""
    if found.lastgroup == "unicode":
        units = bytes.fromhex("".join(re.findall(r"u([0-9a-fA-F]{4})", found[0])))
        return _seen(units.decode("utf-16-be", "replace"))
    if found.lastgroup == "byte":
        return _seen(chr(int(found[0][-2:], 16)))
    if found.lastgroup == "percent":
        octets = bytes.fromhex("".join(re.findall(r"%(?:25)*([0-9a-fA-F]{2})", found[0])))
        return _seen(octets.decode("utf-8", "replace"))
    if found.lastgroup == "blank":
        return " "
    return found[0] if found.lastgroup == "char" else ""


def _seen(text: str) -> str:
    return _IS_UNSEEN.sub("", _SPACE.sub(" ", text))


def _as_text(char: str) -> str:
    return char


def _as_credential(char: str) -> str:
    """In any case; without white space; `-` and `_` as base64 for URLs has them for `+` and `/`."""
    if char.isspace() or char == "\\":
        return ""
    char = char.lower()
    return char.translate(_STANDARD_BASE64) if len(char) == 1 else ""


@lru_cache(maxsize=256)
def _needles(secrets: tuple[str, ...]) -> tuple[tuple[str, bool], ...]:
    """What each secret looks like when it is folded: as it is, and (True) in base64."""
    forms: list[tuple[str, bool]] = []
    for secret in secrets:
        # a backslash of its own, once it is escaped, no longer begins an escape
        forms += [(secret, False), (secret.replace("\\", ""), False), (secret.replace(" ", "+"), False)]
        forms += [(form, True) for form in _in_base64(secret)]
    folded = {(_fold(form, _CREDENTIAL, _as_credential).text, in_base64) for form, in_base64 in forms}
    # percent-encoded as a whole, what looks like an escape in it comes back as it is
    folded |= {("".join(map(_as_credential, secret)), False) for secret in secrets}
    return tuple(sorted(needle for needle in folded if len(needle[0]) >= SHORTEST_SECRET // 2))


def _in_base64(secret: str) -> Iterator[str]:
    """What a secret looks like inside base64, at each of the three places where it can begin.

    The characters at both ends depend on its neighbours and may be any.
    """
    raw = secret.encode()
    for shift in range(3):
        whole = base64.b64encode(b"\x00" * shift + raw).decode().rstrip("=")
        yield whole[(0, 2, 3)[shift] : len(whole) - (0 if (len(raw) + shift) % 3 == 0 else 1)]


def _widened(text: str, first: int, end: int) -> tuple[int, int]:
    """A span in base64 with the characters next to it, which hold a part of what it holds."""
    for _ in range(16):
        first -= first > 0 and text[first - 1] in _BASE64
        end += end < len(text) and text[end] in _BASE64
    return first, end


def _unquoted(text: str, folded: _Folded, quoted: set[str]) -> str:
    """The text without what is quoted in it."""
    if not quoted:
        return text
    spans: list[tuple[int, int]] = []
    for at in range(len(folded.text) - _FOLDED_RUN + 1):
        if folded.text[at : at + _FOLDED_RUN] in quoted:
            first, end = folded.span(at, at + _FOLDED_RUN, len(text))
            if spans and first < spans[-1][1]:
                first = spans.pop()[0]
            spans.append((first, end))
    return _replaced(text, [(first, end) for first, end in spans if end - first >= RUN], "[request text]")


def _without_urls(text: str) -> str:
    """Without what in a URL may be a credential."""
    return _URL.sub(lambda found: safe_url(found.group()), text)


def _each_text(text: str, do: Callable[[str], str], deepest: int = _DEEPEST) -> str:
    """The text with something done to each string and number of it if it is JSON, else to itself.

    Args:
        do: from a text to what stands there instead.
        deepest: how many times JSON may stand within a string of JSON.
    """
    if not deepest or not _is_json(text):
        return do(text)

    def literal(found: re.Match[str]) -> str:
        said = json.loads(found[0]) if found[0].startswith('"') else found[0]
        done = _each_text(said, do, deepest - 1)
        return found[0] if done == said else json.dumps(done)

    return _LITERAL.sub(literal, text)


def _is_json(text: str) -> bool:
    """Whether the text is an object or a list in JSON."""
    if not text.lstrip().startswith(("{", "[")):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _replaced(text: str, spans: list[tuple[int, int]], instead: str) -> str:
    parts, place = [], 0
    for first, end in sorted(spans):
        if end > place:
            parts += [text[place : max(first, place)], instead] if first >= place else []
            place = end
    return "".join([*parts, text[place:]])


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
