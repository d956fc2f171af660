"""What may be kept of an upstream's message: no credential, no URL's secrets, no text of the request."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from turnout.engine.classify.verdict import Verdict
from turnout.engine.targets import safe_url

LONGEST: Final = 512
"""Characters of a message that are kept."""
RUN: Final = 24
"""A run of this many characters that also stands in the request is taken for a quotation of it."""
SHORTEST_SECRET: Final = 8
"""A shorter credential would be found in any text; it is refused at load."""

_BLOCK: Final = RUN // 2
_READ: Final = 3 * 1024
_URL: Final = re.compile(r"\bhttps?://[^\s\"'<>\\]{1,2000}", re.IGNORECASE)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""What a terminal would act on, what reorders text, and halves of characters, which no file can keep."""
_SPACE: Final = re.compile(r"\s+")


class Redactor:
    """Cleans the messages of one upstream.

    Args:
        secrets: the credentials that may be echoed, as they are sent.
        request: the request's body, whose text may be quoted.
    """

    def __init__(self, secrets: Iterable[str], request: Mapping[str, Any]) -> None:
        self._secret = _pattern(tuple(sorted({s for s in secrets if len(s) >= SHORTEST_SECRET})))
        self._request = request
        self._blocks: tuple[str, ...] | None = None

    def clean(self, message: str) -> str:
        """The message without credentials, quotations of the request, control characters; at most 512."""
        if not message:
            return ""
        # before the cut, which could leave half a credential
        text = message if self._secret is None else self._secret.sub("[credential]", message)
        text = text[:_READ]
        text = _URL.sub(lambda found: safe_url(found.group()), text)
        text = _SPACE.sub(" ", _CONTROL.sub("", self._without_quotations(text))).strip()
        return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"

    def verdict(self, verdict: Verdict) -> Verdict:
        """The verdict with every text of the upstream's cleaned."""
        return msgspec.structs.replace(
            verdict,
            message=self.clean(verdict.message),
            code=self.clean(verdict.code),
            param=self.clean(verdict.param),
            request_id=self.clean(verdict.request_id),
        )

    def _without_quotations(self, text: str) -> str:
        """Replace every run of `RUN` characters or more that also stands in the request.

        Such a run covers a whole block of the request, cut every `_BLOCK` characters. So
        one look at each block finds all candidates, whatever the length of the request.
        """
        if len(text) < RUN:
            return text
        grams: dict[str, list[int]] = {}
        for place in range(len(text) - _BLOCK + 1):
            grams.setdefault(text[place : place + _BLOCK], []).append(place)
        quoted = bytearray(len(text))
        for source in self._texts():
            for start in range(0, len(source) - _BLOCK + 1, _BLOCK):
                for place in grams.get(source[start : start + _BLOCK], ()):
                    if not quoted[place]:
                        first, end = _extent(text, place, source, start)
                        if end - first >= RUN:
                            quoted[first:end] = b"\x01" * (end - first)
        return _replaced(text, quoted)

    def _texts(self) -> tuple[str, ...]:
        if self._blocks is None:
            self._blocks = tuple(_quotable(self._request))
        return self._blocks


def _extent(text: str, place: int, source: str, start: int) -> tuple[int, int]:
    """How far text and source agree around a block that they share."""
    first, end = place, place + _BLOCK
    before, after = start - 1, start + _BLOCK
    while first > 0 and before >= 0 and text[first - 1] == source[before]:
        first, before = first - 1, before - 1
    while end < len(text) and after < len(source) and text[end] == source[after]:
        end, after = end + 1, after + 1
    return first, end


def _replaced(text: str, quoted: bytearray) -> str:
    parts, place = [], 0
    while (first := quoted.find(1, place)) >= 0:
        end = quoted.find(0, first)
        end = len(text) if end < 0 else end
        parts += [text[place:first], "[request text]"]
        place = end
    return "".join([*parts, text[place:]])


def _quotable(request: Mapping[str, Any]) -> Iterator[str]:
    """The request's strings as they are, and as an upstream that quotes JSON would send them."""
    for text in _strings(request):
        if len(text) >= RUN:
            yield text
    yield msgspec.json.encode(request).decode()


def _strings(value: object) -> Iterator[str]:
    stack = [value]
    while stack:
        top = stack.pop()
        if isinstance(top, str):
            yield top
        elif isinstance(top, Mapping):
            stack += top.keys()
            stack += top.values()
        elif isinstance(top, list | tuple):
            stack += top


@lru_cache(maxsize=256)
def _pattern(secrets: tuple[str, ...]) -> re.Pattern[str] | None:
    """Any of the secrets: in any case, with any of its characters escaped, or within base64."""
    forms = [form for secret in secrets for form in (_escaped(secret), *_in_base64(secret))]
    return re.compile("|".join(forms), re.IGNORECASE) if forms else None


def _escaped(secret: str) -> str:
    # the encoded forms first: the character itself may be what an encoded form begins with
    return "".join(f"(?:\\\\u{ord(char):04x}|{_percent(char)}|\\\\?{re.escape(char)})" for char in secret)


def _percent(char: str) -> str:
    return "".join(f"%{byte:02x}" for byte in char.encode())


def _in_base64(secret: str) -> Iterator[str]:
    """What a secret looks like inside base64, at each of the three places where it can begin.

    The characters at both ends depend on its neighbours and may be any; those next to them go as well.
    """
    raw = secret.encode()
    for shift in range(3):
        whole = base64.b64encode(b"\x00" * shift + raw).decode().rstrip("=")
        inner = whole[(0, 2, 3)[shift] : len(whole) - (0 if (len(raw) + shift) % 3 == 0 else 1)]
        core = "".join("[+-]" if c == "+" else "[/_]" if c == "/" else re.escape(c) for c in inner)
        yield f"[A-Za-z0-9+/_-]{{0,16}}{core}[A-Za-z0-9+/_=-]{{0,16}}"
