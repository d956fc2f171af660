"""What goes out to an upstream: address, headers, body; and what of it must never be told again."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

import httpx
import msgspec

from turnout.engine import wire
from turnout.engine.attempts import Request
from turnout.engine.clock import Clock
from turnout.engine.credentials import named_like_a_credential
from turnout.engine.redaction import Quotations, Redactor
from turnout.engine.secrets import credential, parts, secrets_of
from turnout.engine.targets import FORWARDED, Target, sendable

ALWAYS_SENT: Final = {"content-type": "application/json", "accept-encoding": "identity"}
ACCEPT: Final = ("application/json", "text/event-stream")
"""What is asked for: an answer at once, or a stream."""

RECENT: Final = 8
"""Credentials of a target that are kept out of messages beside the one in use, where it rotates."""

NEVER_FORWARDED: Final = frozenset(
    {
        "authorization",
        "api-key",
        "x-api-key",
        "x-goog-api-key",
        "cf-access-jwt-assertion",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "cookie",
        "cookie2",
        "expect",
        "host",
        "http2-settings",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "set-cookie",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "x-amzn-oidc-data",
    }
)
"""Credentials, cookies and hop-by-hop headers of the caller: they stay here whatever a client lists."""


def may_be_forwarded(name: str) -> bool:
    """Whether a header of the caller, its name in lower case, may go out at all."""
    return name not in NEVER_FORWARDED and not named_like_a_credential(name, "forward_headers")


def carries(target: Target) -> str:
    """The header that carries a target's credential, in lower case."""
    return (target.auth_header or wire.of(target.format).AUTH_HEADER).lower()


def forwarded(target: Target) -> tuple[str, ...]:
    """The caller's headers that go out to a target, in lower case."""
    names = target.forward_headers
    if names is None:
        names = (*FORWARDED, *wire.of(target.format).FORWARDED)
    return tuple(name for name in map(str.lower, names) if may_be_forwarded(name))


class Outgoing:
    """One request of ours, ready to go."""

    def __init__(
        self, way: Way, request: httpx.Request, content: bytes, carried: list[str], said: Quotations
    ):
        self.request = request
        self.content = content
        self._way = way
        self._carried = carried
        self._said = said

    @property
    def redactor(self) -> Redactor:
        """Cleans what comes back of all that it must not hold."""
        return Redactor(self._way.secrets(self._carried), self._said)


class Way:
    """How one target is reached: all of a request that is the same each time is made once.

    Args:
        secrets: of what carries its requests.
    """

    def __init__(self, target: Target, secrets: Sequence[str] = ()) -> None:
        form = wire.of(target.format)
        self._target = target
        self._over = secrets
        self._url = url(target)
        self._forwarded = forwarded(target)
        self._carries = carries(target)
        host = {"host": self._url.netloc.decode("ascii")}
        self._first = {**host, **ALWAYS_SENT, **form.HEADERS}
        self._last = target.added_headers
        self._alike = [self._headers(stream, {}) for stream in (False, True)]
        self._sent: deque[str] = deque(maxlen=RECENT)
        self._secrets: tuple[tuple[str | None, list[str]], list[str]] | None = None
        """What was found last, and for which value of `api_key_env` and which credentials."""

    async def prepare(
        self, request: Request, without: frozenset[str], clock: Clock, left: float | None
    ) -> Outgoing:
        """The request as it goes to the target.

        Args:
            without: the injected keys that stay out of the body.
            left: seconds until the turn's deadline.

        Raises:
            ConfigurationError: the target's credential is not to be had.
        """
        content = msgspec.json.encode(wire.outgoing(request.encoded, self._target, without))
        callers = self._of_caller(request.headers)
        headers = self._headers(request.stream, callers) if callers else self._alike[request.stream]
        if sent := await self._credential(request, clock, left):
            carries = self._carries.encode()
            headers = [*(pair for pair in headers if pair[0] != carries), (carries, sent.encode())]
        length = (b"content-length", b"%d" % len(content))
        outgoing = httpx.Request(
            "POST", self._url, headers=[*headers, length], stream=httpx.ByteStream(content)
        )
        outgoing.read()  # so that its `content` is there for whoever looks at it
        return Outgoing(self, outgoing, content, [sent, *_credentials(callers)], request.quotations)

    def secrets(self, carried: list[str]) -> list[str]:
        """All that must never be told again of a request that carried these credentials.

        A credential that was in use before may be told of later.
        """
        variable = self._target.api_key_env
        which = (os.environ.get(variable) if variable else None, [*carried, *self._sent])
        if self._secrets is None or self._secrets[0] != which:
            values = (*_credentials(self._last), *which[1])
            self._secrets = (
                which,
                [*self._over, *secrets_of(self._target), *(p for value in values for p in parts(value))],
            )
        return self._secrets[1]

    def _headers(self, stream: bool, callers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
        """All headers but the credential and the length."""
        headers = {**self._first, "accept": ACCEPT[stream], **callers, **self._last}
        return [(name.encode(), value.encode()) for name, value in headers.items()]

    def _of_caller(self, headers: Mapping[str, str]) -> dict[str, str]:
        """The caller's headers that go out."""
        if not headers:
            return {}
        # of this connection, as the caller says
        here = {name.strip().lower() for name in headers.get("connection", "").split(",")}
        given = ((name, headers.get(name, "").strip()) for name in self._forwarded if name not in here)
        return {name: value for name, value in given if value and sendable(value)}

    async def _credential(self, request: Request, clock: Clock, left: float | None) -> str:
        """What the header for it carries; empty if nothing does."""
        if self._target.forward_auth:
            sent = request.headers.get(self._carries, "").strip()
            return sent if sendable(sent) else ""
        key = await credential(self._target, clock, left)
        sent = f"Bearer {key}" if key and self._carries == "authorization" else key
        if sent and sent not in self._sent:
            self._sent.append(sent)
        return sent


def _credentials(headers: Mapping[str, str]) -> list[str]:
    return [value for name, value in headers.items() if named_like_a_credential(name, "forward_headers")]


def url(target: Target) -> httpx.URL:
    """Where a target is asked: its base URL and the format's path, not doubled, with `extra_query`."""
    return _address(target.base_url, target.format, tuple(target.extra_query.items()))


@lru_cache(maxsize=1024)
def _address(base_url: str, format: str, query: tuple[tuple[str, str], ...]) -> httpx.URL:
    """The whole URL. Parsing one costs as much as all the rest of a turn."""
    form = wire.of(format)
    base = httpx.URL(base_url)
    path, mark, given = base.raw_path.decode("ascii").partition("?")  # as it is: decoded it may mean another
    path = path.rstrip("/")
    if not path.endswith(form.PATH):
        path = path.removesuffix(form.VERSION) + form.PATH
    whole = base.copy_with(raw_path=f"{path}{mark}{given}".encode("ascii"))
    return whole.copy_merge_params(dict(query)) if query else whole
