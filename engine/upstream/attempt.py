"""One attempt over HTTP: what goes out, what comes back, and within which bounds.

httpx's transport is called directly with a prepared request: redirects, cookies and the
auth flow of a client have no place in a router. The bounds are kept on the injected clock,
never on the HTTP library's timers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final, cast

import httpx
import msgspec

from turnout.engine import wire
from turnout.engine.attempts import Answer, Progress, Request
from turnout.engine.capture import Capture
from turnout.engine.classify import carries_error, classify, transport_failure, unreadable
from turnout.engine.classify.reply import Reply
from turnout.engine.classify.verdict import Verdict
from turnout.engine.clock import Clock
from turnout.engine.errors import TurnBroken, told
from turnout.engine.http import Transports
from turnout.engine.targets import Target
from turnout.engine.upstream.bodies import Body, NotPackedAsSaid, decoded_json
from turnout.engine.upstream.bounds import Bounds
from turnout.engine.upstream.sending import Outgoing, Way, url
from turnout.engine.upstream.streaming import HttpStream

ERROR_BODY: Final = 65_536
"""How much of an error's body is read, in bytes after decompression."""

REQUEST_IDS: Final = ("x-request-id", "request-id", "apim-request-id", "x-amzn-requestid")
"""Where upstreams name the request in their reply."""

CONNECTING: Final = "connection.connect_tcp.started"
SENDING: Final = ("http11.send_request_headers.started", "http2.send_request_headers.started")
SENT: Final = ("http11.send_request_body.complete", "http2.send_request_body.complete")
ANSWERED: Final = ("http11.receive_response_headers.complete", "http2.receive_response_headers.complete")
"""What a transport tells of a request, by httpcore's `trace` extension."""

DRAIN_SECS: Final = 1.0
"""How long the end is waited for of a stream that has said everything, so that its connection can be kept."""

_NO_TIMERS: Final = {"connect": None, "read": None, "write": None, "pool": None}


class HttpUpstream:
    """Makes attempts over HTTP. Keeps connections, and nothing else, between them.

    Args:
        clock: keeps every bound.
        transport: what carries a request.
        capture: keeps the replies that no rule knows.
    """

    def __init__(
        self,
        clock: Clock,
        transport: httpx.AsyncBaseTransport | Transports,
        capture: Capture | None = None,
    ) -> None:
        self._clock = clock
        self._capture = capture
        self._transports = transport
        self._ways: dict[int, Way] = {}
        """By the target's `id`: it holds tables, which have no hash. Their ways keep them alive."""
        self._draining: set[asyncio.Task[None]] = set()

    def check(self, target: Target) -> None:
        """See that a target can be reached as it is configured, before it is asked.

        Raises:
            ConfigurationError: its `ca_file` cannot be used, or the proxy that leads to it.
        """
        self._way(target)
        if isinstance(self._transports, Transports):
            self._transports.of(url(target), ca_file=target.ca_file, fresh=False)

    async def close(self) -> None:
        """Let go of every connection."""
        for task in self._draining:
            task.cancel()
        if self._draining:
            await asyncio.wait(self._draining)
        await self._transports.aclose()

    async def __call__(
        self,
        target: Target,
        request: Request,
        progress: Progress,
        *,
        without: frozenset[str],
        fresh: bool,
        left: float | None,
    ) -> Answer | Verdict | HttpStream:
        """Ask once: the complete answer or the stream of one, or how what came instead is read.

        Raises:
            ConfigurationError: the target's credential is not to be had.
            TurnBroken: what carries the request failed in a way that is no target's.
        """
        outgoing = await self._way(target).prepare(request, without, self._clock, left)
        asking = _Asking(self, target, outgoing, progress, Bounds(target, left, stream=request.stream))
        try:
            return await asking.run(stream=request.stream, fresh=fresh)
        except Exception as error:
            said = outgoing.redactor.clean(told(error))
            raise TurnBroken(f"target {target.name!r} could not be asked: {said}") from error

    # -- what an attempt asks of it

    @property
    def clock(self) -> Clock:
        """Keeps every bound."""
        return self._clock

    def carrier(
        self, target: Target, outgoing: Outgoing, *, fresh: bool
    ) -> tuple[httpx.AsyncBaseTransport, bool]:
        """What carries a request, and whether it may do so on a connection that was kept."""
        if isinstance(self._transports, Transports):
            chosen = self._transports.of(outgoing.request.url, ca_file=target.ca_file, fresh=fresh)
            return chosen, not fresh
        return self._transports, False

    def read(self, target: Target, reply: Reply, outgoing: Outgoing) -> Verdict:
        """How a reply that is no answer is read."""
        verdict = classify(reply, now=self._clock.now(), rules=target.rules)
        if self._capture is not None:
            self._capture.keep(target, reply, verdict, outgoing.redactor)
        return verdict

    def _way(self, target: Target) -> Way:
        if (way := self._ways.get(id(target))) is None:
            secrets = self._transports.secrets if isinstance(self._transports, Transports) else ()
            way = self._ways[id(target)] = Way(target, secrets)
        return way

    async def drain(self, body: Body) -> None:
        """Read the end of a body that has said everything, and close it. Nobody waits for that."""
        if body.ended:
            await body.close()
            return
        task = asyncio.create_task(self._drain(body))
        self._draining.add(task)
        task.add_done_callback(self._draining.discard)

    async def _drain(self, body: Body) -> None:
        try:
            async with self._clock.timeout(DRAIN_SECS):
                await body.read(ERROR_BODY)
        except Exception:  # noqa: BLE001, S110 - the answer is complete, whatever becomes of the connection
            pass
        finally:
            await body.close()


class _Asking:
    """One attempt while it is made."""

    def __init__(
        self,
        upstream: HttpUpstream,
        target: Target,
        outgoing: Outgoing,
        progress: Progress,
        bounds: Bounds,
    ) -> None:
        self._upstream = upstream
        self._target = target
        self._outgoing = outgoing
        self._progress = progress
        self._bounds = bounds
        self._reused = False
        """Whether the connection was kept, and no byte of this reply has come over it yet."""
        self._headers: Mapping[str, str] = {}
        self._began = upstream.clock.monotonic()

    async def run(self, *, stream: bool, fresh: bool) -> Answer | Verdict | HttpStream:
        transport, self._reused = self._upstream.carrier(self._target, self._outgoing, fresh=fresh)
        request = self._outgoing.request
        request.extensions = {"timeout": _NO_TIMERS, "trace": self._trace}
        scope = self._upstream.clock.timeout(self._bounds.left())
        self._bounds.keep_on(scope)
        try:
            async with scope:
                return await self._exchange(transport, request, stream=stream)
        except Exception as error:
            if scope.expired() and isinstance(error, TimeoutError):
                return self._judged(self._bounds.passed())
            if (verdict := transport_failure(error)) is None:
                raise
            stale = self._reused and _brought_nothing(error)
            return self._judged(msgspec.structs.replace(verdict, stale=stale))

    async def _trace(self, event: str, info: Mapping[str, Any]) -> None:
        if event in SENDING:
            self._bounds.connected()
        elif event in SENT:
            self._progress.sent = True
        elif event == CONNECTING:
            self._reused = False
            self._bounds.connecting()
        elif event in ANSWERED:
            self._reused = False

    async def _exchange(
        self, transport: httpx.AsyncBaseTransport, request: httpx.Request, *, stream: bool
    ) -> Answer | Verdict | HttpStream:
        response = await transport.handle_async_request(request)
        self._progress.status = status = response.status_code
        self._progress.sent = True
        self._headers = headers = _headers(response)
        stream_of_bytes = cast("httpx.AsyncByteStream", response.stream)
        kept = False
        body: Body | None = None
        try:
            if status < 200:
                raise httpx.RemoteProtocolError("The server switched to another protocol, unasked.")
            body = Body(stream_of_bytes, headers.get("content-encoding", ""), self._progress)
            if stream and response.is_success and not await _is_json(body, headers):
                opened = self._opened(body)
                refused = await opened.until_committed()
                kept = refused is None
                return opened if refused is None else refused
            return self._judged(await self._whole(body, status, stream=stream))
        except NotPackedAsSaid as error:
            # there is a status, and nothing to read
            if response.is_success:
                return self._judged(unreadable(status, str(error)))
            return self._judged(self._reply(status, b""))
        finally:
            if not kept:
                await (stream_of_bytes.aclose() if body is None else body.close())

    def _opened(self, body: Body) -> HttpStream:
        return HttpStream(
            self._target,
            body,
            self._progress,
            self._bounds,
            self._upstream.clock,
            began=self._began,
            answer=Answer({}, self._progress.status, None, self._request_id()),
            judge=self._verdict,
            let_go=self._upstream.drain,
        )

    async def _whole(self, body: Body, status: int, *, stream: bool) -> Answer | Reply | Verdict:
        success = 200 <= status <= 299
        most = self._target.max_body_bytes if success else ERROR_BODY
        read, whole = await body.read(most)
        if success and not whole:
            return unreadable(status, f"the answer is longer than {most} bytes")
        if success and (answer := self._answer(read)) is not None:
            if stream:
                return unreadable(status, "the answer came at once where a stream was asked for")
            return Answer(answer, status, wire.of(self._target.format).usage(answer), self._request_id())
        return self._reply(status, read[:ERROR_BODY])

    def _answer(self, body: bytes) -> dict[str, Any] | None:
        decoded = decoded_json(body)
        found = wire.of(self._target.format).is_answer(decoded) and not carries_error(body)
        return decoded if found else None

    def _reply(self, status: int, body: bytes) -> Reply:
        return Reply(
            status=status,
            body=body,
            headers=self._headers,
            format=self._target.format,
            provider=self._target.provider,
        )

    def _judged(self, outcome: Answer | Reply | Verdict) -> Answer | Verdict:
        return outcome if isinstance(outcome, Answer) else self._verdict(outcome)

    def _verdict(self, refused: Reply | Verdict) -> Verdict:
        """How what came instead of an answer is read, clean of all that must not be told."""
        if isinstance(refused, Reply):
            refused = self._upstream.read(self._target, refused, self._outgoing)
        named = msgspec.structs.replace(refused, request_id=_named(self._headers))
        return self._outgoing.redactor.verdict(named, self._outgoing.content)

    def _request_id(self) -> str:
        named = _named(self._headers)
        return named and self._outgoing.redactor.name(named, self._outgoing.content)


def _headers(response: httpx.Response) -> Mapping[str, str]:
    """A reply's headers, names in lower case. What httpx makes of them costs ten times as much."""
    raw = response.headers.raw
    headers = {name.lower().decode("ascii", "replace"): value.decode("latin-1") for name, value in raw}
    return headers if len(headers) == len(raw) else dict(response.headers)


async def _is_json(body: Body, headers: Mapping[str, str]) -> bool:
    """Whether a body is JSON as a whole. Some servers send a stream by that name."""
    if "json" not in headers.get("content-type", ""):
        return False
    return (await body.peek()).lstrip()[:1] in (b"{", b"[", b"")


def _named(headers: Mapping[str, str]) -> str:
    """The upstream's own id of the request."""
    return next((headers[name] for name in REQUEST_IDS if name in headers), "")


def _brought_nothing(error: Exception) -> bool:
    """Whether a connection broke without a byte of a reply, as far as httpcore tells: it does not tell
    a reply that was cut within its first line and headers from none.
    """
    return isinstance(error, httpx.NetworkError) or "without sending a response" in str(error)
