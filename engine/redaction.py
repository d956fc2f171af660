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

KEY: Final = re.compile(
    r"""(?<![A-Za-z0-9])(?:
          (?:sk|rk|csk|xai|pplx|nvapi|sess) - [A-Za-z0-9_-]{12,}
        | (?:sk|rk) _ (?:live|test) _ [A-Za-z0-9]{8,}
        | (?:gsk|hf|r8|fw|ghp|gho|ghs|github_pat|glpat|tgp_v1) [_-] [A-Za-z0-9_-]{16,}
        | xox[abprs] - [A-Za-z0-9-]{8,}
        | (?:AIza|AKIA|ASIA) [A-Za-z0-9_-]{16,}
        | eyJ [A-Za-z0-9_-]{8,} \. [A-Za-z0-9_-]{8,} \S*
        | -----BEGIN [ ] [A-Z0-9 ]* PRIVATE [ ] KEY [\s\S]*
    )""",
    re.VERBOSE,
)
"""What providers' keys and tokens look like, by the prefixes that they publish."""

_BLOCK: Final = RUN // 2
_READ: Final = 3 * 1024
_LONGEST_NAME: Final = 128
_NAME: Final = re.compile(r"[\w.:/+=-]+", re.ASCII)
_URL: Final = re.compile(r"\bhttps?://[^\s\"'<>\\]{1,2000}", re.IGNORECASE)
_ESCAPED: Final = re.compile(r"\\u([0-9a-fA-F]{4})")
_UNSEEN: Final = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ud800-\udfff\ufeff]"
)
"""What a terminal would act on, what is not seen or reorders text, and halves of characters."""
_SPACE: Final = re.compile(r"\s+")


class Redactor:
    """Cleans what one upstream has said.

    Args:
        secrets: the credentials that may be echoed, as they are sent.
        request: the request's body, whose text may be quoted.
    """

    def __init__(self, secrets: Iterable[str], request: Mapping[str, Any]) -> None:
        self._secret = _pattern(tuple(sorted({s for s in secrets if len(s) >= SHORTEST_SECRET})))
        self._request = request
        self._texts: tuple[str, ...] | None = None

    def clean(self, message: str) -> str:
        """The message without credentials, quotations of the request, control characters; at most 512."""
        if not message:
            return ""
        # what is unseen goes first, since it can part a credential; credentials go before any cut
        text = _UNSEEN.sub("", _ESCAPED.sub(lambda found: chr(int(found[1], 16)), message))
        if self._secret is not None:
            text = self._secret.sub("[credential]", text)
        text = KEY.sub("[credential]", text)
        text = _SPACE.sub(" ", text)[:_READ]
        text = _URL.sub(lambda found: safe_url(found.group()), text)
        return _cut(self._without_quotations(text).strip(), LONGEST)

    def name(self, text: str) -> str:
        """An identifier of the upstream's, such as its id of the request; empty if it is none, or quotes."""
        if len(text) > _LONGEST_NAME or not _NAME.fullmatch(text):
            return ""
        if KEY.search(text) or (self._secret is not None and self._secret.search(text)):
            return ""
        sent = msgspec.json.encode(self._request) if len(text) >= RUN else b""
        quotes = (text[at : at + _BLOCK].encode() in sent for at in range(0, len(text) - _BLOCK + 1, _BLOCK))
        return "" if sent and any(quotes) else text

    def verdict(self, verdict: Verdict) -> Verdict:
        """The verdict with every text of the upstream's cleaned."""
        return msgspec.structs.replace(
            verdict,
            message=self.clean(verdict.message),
            code=_cut(self.clean(verdict.code), _LONGEST_NAME),
            param=_cut(self.clean(verdict.param), _LONGEST_NAME),
            request_id=self.name(verdict.request_id),
        )

    def _without_quotations(self, text: str) -> str:
        """Replace every run of `RUN` characters or more that also stands in the request."""
        quoted = self._quoted(text)
        parts, place, first = [], 0, -1
        for at in range(len(text) - RUN + 1):
            if text[at : at + RUN] not in quoted:
                continue
            if first < 0 or at > place:
                parts += [text[place:at], "[request text]"]
            first, place = at, at + RUN
        return "".join([*parts, text[place:]])

    def _quoted(self, text: str) -> set[str]:
        """The runs of exactly `RUN` characters that text and request share.

        Each covers a whole block of the request, cut every `_BLOCK` characters. So one look
        at each block finds where to look closer, and the cost grows with the request alone,
        whatever it holds.
        """
        if len(text) < RUN:
            return set()
        blocks = {text[at : at + _BLOCK] for at in range(len(text) - _BLOCK + 1)}
        runs = {text[at : at + RUN] for at in range(len(text) - RUN + 1)}
        around: set[str] = set()
        for source in self._sources():
            for at in range(0, len(source) - _BLOCK + 1, _BLOCK):
                if source[at : at + _BLOCK] in blocks:
                    around.add(source[max(0, at - _BLOCK) : at + RUN])
        return {
            run
            for near in around
            for at in range(len(near) - RUN + 1)
            if (run := near[at : at + RUN]) in runs
        }

    def _sources(self) -> tuple[str, ...]:
        if self._texts is None:
            self._texts = tuple(_SPACE.sub(" ", text) for text in _quotable(self._request))
        return self._texts


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


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
    # The encoded form first: the character itself may be what it begins with. A line may have been
    # folded anywhere, and text that was quoted twice has several backslashes.
    return r"\s?".join(rf"(?:{_percent(char)}|\\{{0,4}}{re.escape(char)})" for char in secret)


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
