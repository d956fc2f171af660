"""One attempt over HTTP: what goes out, what comes back, and within which bounds.

httpx's transport is called directly with a prepared request: redirects, cookies and the
auth flow of a client have no place in a router. The bounds are kept on the injected clock,
never on the HTTP library's timers.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Iterator, Mapping
from typing import Any, Final

import httpx
import msgspec

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
from turnout.engine.errors import ConfigurationError
from turnout.engine.probe import Answer, Request, own_bound
from turnout.engine.redaction import SHORTEST_SECRET, Redactor
from turnout.engine.targets import Target
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
"""What httpcore tells its `trace` extension once a connection stands."""

_NO_TIMERS: Final = {"connect": None, "read": None, "write": None, "pool": None}


class HttpUpstream:
    """Makes attempts over HTTP. Keeps connections, and nothing else, between them.

    Args:
        clock: keeps every bound.
        transport: what carries a request; httpx's own pool by default.

    Raises:
        ConfigurationError: the certificates that the environment names cannot be read.
    """

    def __init__(self, clock: Clock, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._clock = clock
        self._transport = transport if transport is not None else _pool()

    async def close(self) -> None:
        """Let go of every connection."""
        await self._transport.aclose()

    async def __call__(
        self, target: Target, request: Request, *, without: frozenset[str], left: float | None
    ) -> Answer | Verdict:
        """Ask once: the complete answer, or how what came instead is read.

        Raises:
            ConfigurationError: the target's credential is not to be had.
        """
        headers, secrets = await _headers(target, request)
        body = openai_chat.outgoing(request.body, target, without)
        outgoing = httpx.Request("POST", url(target), headers=headers, content=msgspec.json.encode(body))
        outcome = await self._send(target, outgoing, left)
        if isinstance(outcome, Verdict):
            return Redactor(secrets, request.body).verdict(outcome)
        return outcome

    async def _send(self, target: Target, request: httpx.Request, left: float | None) -> Answer | Verdict:
        whole = own_bound(target.timeout_secs, left)
        connect = own_bound(target.connect_timeout_secs, left)
        connecting = connect is not None and (whole is None or connect < whole)
        sent = asyncio.get_running_loop().time()
        scope = self._clock.timeout(connect if connecting else whole)

        async def trace(event: str, info: Mapping[str, Any]) -> None:
            nonlocal connecting
            if connecting and event in SENDING:
                connecting = False
                scope.reschedule(None if whole is None else sent + whole)

        request.extensions = {"timeout": _NO_TIMERS, "trace": trace}
        try:
            async with scope:
                return await self._exchange(target, request)
        except Exception as error:
            if scope.expired() and isinstance(error, TimeoutError):
                return no_connection(connect) if connecting else too_slow(whole)
            if (verdict := transport_failure(error)) is None:
                raise
            return verdict

    async def _exchange(self, target: Target, request: httpx.Request) -> Answer | Verdict:
        response = await self._transport.handle_async_request(request)
        try:
            success = response.is_success
            most = target.max_body_bytes if success else ERROR_BODY
            body, whole = await _read(response, most)
        finally:
            await response.aclose()
        request_id = next((response.headers[name] for name in REQUEST_IDS if name in response.headers), "")
        if success and not whole:
            verdict = unreadable(response.status_code, f"the answer is longer than {most} bytes")
        elif (answer := _answer(body)) is not None and success:
            return Answer(answer, response.status_code, openai_chat.usage(answer), request_id)
        else:
            verdict = self._classified(target, response, body)
        return msgspec.structs.replace(verdict, request_id=request_id)

    def _classified(self, target: Target, response: httpx.Response, body: bytes) -> Verdict:
        if response.is_success and not carries_error(body):
            return unreadable(response.status_code, "this is no complete answer")
        reply = Reply(
            status=response.status_code,
            body=body[:ERROR_BODY],
            headers=dict(response.headers),
            format=target.format,
        )
        return classify(reply, now=self._clock.now())


def _pool() -> httpx.AsyncBaseTransport:
    try:
        # no cap on connections: how many calls run at once is the caller's to bound
        return httpx.AsyncHTTPTransport(limits=httpx.Limits(max_connections=None))
    except OSError as error:
        raise ConfigurationError(
            f"the certificates that SSL_CERT_FILE or SSL_CERT_DIR names cannot be read: {error}"
        ) from None


def url(target: Target) -> httpx.URL:
    """Where a target is asked: its base URL and the format's path, not doubled, with `extra_query`."""
    base = httpx.URL(target.base_url)
    path = base.path.rstrip("/")
    whole = base.copy_with(path=path if path.endswith(openai_chat.PATH) else path + openai_chat.PATH)
    return whole.copy_merge_params(dict(target.extra_query)) if target.extra_query else whole


async def _headers(target: Target, request: Request) -> tuple[dict[str, str], list[str]]:
    """What goes out beside the body, and all of it that must never be told again."""
    headers = dict(ALWAYS_SENT)
    for name in target.forward_headers:
        value = request.headers.get(name.lower(), "")
        if value and _sendable(value) and name.lower() not in NEVER_FORWARDED:
            headers[name.lower()] = value
    headers.update({name.lower(): value for name, value in target.extra_headers.items()})
    secrets = [*target.extra_headers.values(), *target.extra_query.values(), *_in_url(target)]
    name = target.auth_header.lower()
    if target.forward_auth:
        credential = request.headers.get(name, "").strip()
        credential = credential if _sendable(credential) else ""
        secrets += [credential, credential.partition(" ")[2]]
    else:
        key = await credential_of(target)
        secrets.append(key)
        credential = f"Bearer {key}" if key and name == "authorization" else key
    if credential:
        headers[name] = credential
    return headers, secrets


async def credential_of(target: Target) -> str:
    """The target's credential as it is now; empty if it has none.

    Raises:
        ConfigurationError: the variable is not set, or the credential is too short to be one.
    """
    if target.api_key is None:
        return credential_from_environment(target)
    given = target.api_key()
    return _usable(target, await given if inspect.isawaitable(given) else given, "its api_key callable")


def credential_from_environment(target: Target) -> str:
    """The credential that the target's `api_key_env` names; empty if it names none.

    Raises:
        ConfigurationError: the variable is not set, or holds none that can be sent.
    """
    if target.api_key_env is None:
        return ""
    key = os.environ.get(target.api_key_env, "")
    return _usable(target, key, f"the environment variable {target.api_key_env}")


def _usable(target: Target, key: object, origin: str) -> str:
    # a file or a shell often leaves a line's end
    key = key.strip() if isinstance(key, str) else ""
    if len(key) < SHORTEST_SECRET or not _sendable(key):
        raise ConfigurationError(
            f"target {target.name!r}: {origin} gives no credential;"
            f" one has at least {SHORTEST_SECRET} printable ASCII characters"
        )
    return key


def _sendable(value: str) -> bool:
    """Whether a header can carry this."""
    return value.isascii() and value.isprintable()


def _in_url(target: Target) -> Iterator[str]:
    base = httpx.URL(target.base_url)
    yield from base.params.values()


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
    try:
        decoded = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None
    return decoded if openai_chat.is_answer(decoded) and not carries_error(body) else None
