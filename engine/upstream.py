"""One attempt over HTTP: what goes out, what comes back, and within which bounds.

httpx's transport is called directly with a prepared request: redirects, cookies and the
auth flow of a client have no place in a router. The bounds are kept on the injected clock,
never on the HTTP library's timers.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import httpx
import msgspec

from turnout.engine.capture import Capture
from turnout.engine.classify import (
    carries_error,
    classify,
    no_connection,
    too_slow,
    transport_failure,
    unreadable,
)
from turnout.engine.classify.reply import Reply
from turnout.engine.classify.verdict import Verdict
from turnout.engine.clock import Clock
from turnout.engine.credentials import named_like_a_credential
from turnout.engine.errors import ConfigurationError, TurnBroken, told
from turnout.engine.probe import Answer, Request, own_bound
from turnout.engine.redaction import Redactor
from turnout.engine.secrets import credential, parts, secrets_of
from turnout.engine.targets import Target, sendable
from turnout.engine.wire import openai_chat

ERROR_BODY: Final = 65_536
"""How much of an error's body is read, in bytes after decompression."""

ALWAYS_SENT: Final = {
    "content-type": "application/json",
    "accept": "application/json",
    "accept-encoding": "identity",
}

NEVER_FORWARDED: Final = frozenset(
    {
        "authorization",
        "api-key",
        "x-api-key",
        "x-goog-api-key",
        "cookie",
        "connection",
        "content-length",
        "content-type",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Credentials, cookies and hop-by-hop headers of the caller: they stay here whatever a client lists."""

REQUEST_IDS: Final = ("x-request-id", "request-id", "apim-request-id", "x-amzn-requestid")
"""Where upstreams name the request in their reply."""

SENDING: Final = ("http11.send_request_headers.started", "http2.send_request_headers.started")
CONNECTING: Final = "connection.connect_tcp.started"
ANSWERED: Final = ("http11.receive_response_headers.complete", "http2.receive_response_headers.complete")
"""What httpcore tells its `trace` extension of a request."""

_NO_TIMERS: Final = {"connect": None, "read": None, "write": None, "pool": None}


class HttpUpstream:
    """Makes attempts over HTTP. Keeps connections, and nothing else, between them.

    Args:
        clock: keeps every bound.
        transport: what carries a request; httpx's own pool by default.
        capture: keeps the replies that no rule knows.

    Raises:
        ConfigurationError: the certificates that the environment names cannot be read.
    """

    def __init__(
        self, clock: Clock, transport: httpx.AsyncBaseTransport | None = None, capture: Capture | None = None
    ) -> None:
        self._clock = clock
        self._capture = capture
        self._pooled, self._fresh = _pools() if transport is None else (transport, transport)

    async def close(self) -> None:
        """Let go of every connection."""
        try:
            await self._pooled.aclose()
        finally:
            await self._fresh.aclose()

    async def __call__(
        self, target: Target, request: Request, *, without: frozenset[str], fresh: bool, left: float | None
    ) -> Answer | Verdict:
        """Ask once: the complete answer, or how what came instead is read.

        Raises:
            ConfigurationError: the target's credential is not to be had.
            TurnBroken: what carries the request failed in a way that is no target's.
        """
        headers, secrets = await self._headers(target, request, left)
        content = msgspec.json.encode(openai_chat.outgoing(request.body, target, without))
        outgoing = httpx.Request("POST", url(target), headers=headers, content=content)
        redactor = Redactor(secrets, request.quotations)
        try:
            outcome = await self._send(target, outgoing, self._fresh if fresh else self._pooled, left)
        except Exception as error:
            said = redactor.clean(told(error))
            raise TurnBroken(f"target {target.name!r} could not be asked: {said}") from error
        if isinstance(outcome, Answer):
            return msgspec.structs.replace(outcome, request_id=redactor.name(outcome.request_id, content))
        verdict = outcome if isinstance(outcome, Verdict) else self._classified(target, outcome, redactor)
        return redactor.verdict(verdict, content)

    async def _send(
        self, target: Target, request: httpx.Request, transport: httpx.AsyncBaseTransport, left: float | None
    ) -> Answer | Reply | Verdict:
        whole = own_bound(target.timeout_secs, left)
        connect = own_bound(target.connect_timeout_secs, left)
        connecting = connect is not None and (whole is None or connect < whole)
        # of a connection that was there before, no reply has come; told by the pool of ours alone
        reused = self._pooled is not self._fresh
        sent = asyncio.get_running_loop().time()
        scope = self._clock.timeout(connect if connecting else whole)

        async def trace(event: str, info: Mapping[str, Any]) -> None:
            nonlocal connecting, reused
            if event == CONNECTING or event in ANSWERED:
                reused = False
            if connecting and event in SENDING:
                connecting = False
                scope.reschedule(None if whole is None else sent + whole)

        request.extensions = {"timeout": _NO_TIMERS, "trace": trace}
        try:
            async with scope:
                return await self._exchange(target, request, transport)
        except Exception as error:
            if scope.expired() and isinstance(error, TimeoutError):
                return no_connection(connect) if connecting else too_slow(whole)
            if (verdict := transport_failure(error)) is None:
                raise
            return msgspec.structs.replace(verdict, stale=reused and _brought_nothing(error))

    async def _exchange(
        self, target: Target, request: httpx.Request, transport: httpx.AsyncBaseTransport
    ) -> Answer | Reply | Verdict:
        response = await transport.handle_async_request(request)
        try:
            success = response.is_success
            most = target.max_body_bytes if success else ERROR_BODY
            body, whole = await _read(response, most)
        finally:
            await response.aclose()
        status, headers = response.status_code, response.headers
        if success and whole and (answer := _answer(body)) is not None:
            return Answer(answer, status, openai_chat.usage(answer), _request_id(headers))
        if success and not whole:
            too_long = unreadable(status, f"the answer is longer than {most} bytes")
            return msgspec.structs.replace(too_long, request_id=_request_id(headers))
        return Reply(
            status=status,
            body=body[:ERROR_BODY],
            headers=dict(headers),
            format=target.format,
            provider=target.provider,
        )

    def _classified(self, target: Target, reply: Reply, redactor: Redactor) -> Verdict:
        verdict = classify(reply, now=self._clock.now(), rules=target.rules)
        if self._capture is not None:
            self._capture.keep(target, reply, verdict, redactor)
        return msgspec.structs.replace(verdict, request_id=_request_id(reply.headers))

    async def _headers(
        self, target: Target, request: Request, left: float | None
    ) -> tuple[dict[str, str], list[str]]:
        """What goes out beside the body, and all of it that must never be told again."""
        headers = dict(ALWAYS_SENT)
        for name in target.forward_headers:
            value = request.headers.get(name.lower(), "")
            if value and sendable(value) and name.lower() not in NEVER_FORWARDED:
                headers[name.lower()] = value
        headers.update({name.lower(): value for name, value in target.extra_headers.items()})
        name = target.auth_header.lower()
        if target.forward_auth:
            sent = request.headers.get(name, "").strip()
            sent = sent if sendable(sent) else ""
        else:
            key = await credential(target, self._clock, left)
            sent = f"Bearer {key}" if key and name == "authorization" else key
        if sent:
            headers[name] = sent
        carried = [
            sent,
            *(v for name, v in headers.items() if named_like_a_credential(name, "forward_headers")),
        ]
        return headers, [*secrets_of(target), *(part for value in carried for part in parts(value))]


def _request_id(headers: Mapping[str, str]) -> str:
    return next((headers[name] for name in REQUEST_IDS if name in headers), "")


def _brought_nothing(error: Exception) -> bool:
    """Whether a connection broke without a byte of a reply, as far as httpcore tells: it does not tell
    a reply that was cut within its first line and headers from none.
    """
    return isinstance(error, httpx.NetworkError) or "without sending a response" in str(error)


def _pools() -> tuple[httpx.AsyncBaseTransport, httpx.AsyncBaseTransport]:
    """A pool that keeps its connections, and one that never does."""
    try:
        certificates = httpx.create_ssl_context()
    except OSError as error:
        raise ConfigurationError(
            f"the certificates that SSL_CERT_FILE or SSL_CERT_DIR names cannot be read: {error}"
        ) from None
    # no cap on connections: how many calls run at once is the caller's to bound
    kept = httpx.Limits(max_connections=None)
    fresh = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    return (
        httpx.AsyncHTTPTransport(verify=certificates, limits=kept),
        httpx.AsyncHTTPTransport(verify=certificates, limits=fresh),
    )


def url(target: Target) -> httpx.URL:
    """Where a target is asked: its base URL and the format's path, not doubled, with `extra_query`."""
    return _address(target.base_url, tuple(target.extra_query.items()))


@lru_cache(maxsize=1024)
def _address(base_url: str, query: tuple[tuple[str, str], ...]) -> httpx.URL:
    """The whole URL. Parsing one costs as much as all the rest of a turn."""
    base = httpx.URL(base_url)
    path = base.path.rstrip("/")
    whole = base.copy_with(path=path if path.endswith(openai_chat.PATH) else path + openai_chat.PATH)
    return whole.copy_merge_params(dict(query)) if query else whole


async def _read(response: httpx.Response, most: int) -> tuple[bytes, bool]:
    """At most that many bytes of the body, and whether that is all of it."""
    parts: list[bytes] = []
    length = 0
    try:
        async for part in response.aiter_bytes():
            parts.append(part)
            length += len(part)
            if length > most:
                return b"".join(parts)[:most], False
    except httpx.DecodingError:
        return b"", True  # it is not packed as its headers say: there is a status and nothing to read
    return b"".join(parts), True


def _answer(body: bytes) -> dict[str, Any] | None:
    decoded = _decoded(body)
    return decoded if openai_chat.is_answer(decoded) and not carries_error(body) else None


def _decoded(body: bytes) -> Any:
    """The body's JSON, also with what some servers put into it against the standard: NaN, a BOM."""
    for decode in (msgspec.json.decode, json.loads):
        try:
            return decode(body)
        except (msgspec.DecodeError, ValueError, RecursionError):
            continue
    return None
