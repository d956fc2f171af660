"""One attempt by the embedder's own client: the `call=` of a router."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

import msgspec

from turnout.engine.classify import carries_error, classify, too_slow, transport_failure, unreadable
from turnout.engine.classify.reply import Reply
from turnout.engine.classify.verdict import UNRECOGNISED, Evidence, Feature, Verdict
from turnout.engine.clock import Clock
from turnout.engine.errors import ClientError, TurnBroken
from turnout.engine.probe import Answer, Request, own_bound
from turnout.engine.redaction import Redactor
from turnout.engine.secrets import secrets_of
from turnout.engine.targets import MAX_SECS, Target
from turnout.engine.wire import openai_chat
from turnout.machines.vocabulary import ErrorKind

UNKNOWN_STATUS: Final = 400
"""How an error is read whose client tells no status."""


class Call(Protocol):
    """Asks a target: the body of its answer, or ClientError."""

    async def __call__(
        self, target: Target, request: Mapping[str, Any], /, *, timeout: float | None
    ) -> Mapping[str, Any]: ...


class CallUpstream:
    """Makes attempts by calling the embedder's client, within the target's bound."""

    def __init__(self, call: Call, clock: Clock) -> None:
        self._call = call
        self._clock = clock

    async def close(self) -> None:
        """Nothing is kept: the client is the embedder's."""

    async def __call__(
        self, target: Target, request: Request, *, without: frozenset[str], fresh: bool, left: float | None
    ) -> Answer | Verdict:
        """Ask once. What is neither a ClientError nor a failure of transport is raised on."""
        # a copy: what the client does to it is nobody else's business
        body = msgspec.json.decode(msgspec.json.encode(openai_chat.outgoing(request.body, target, without)))
        own = own_bound(target.timeout_secs, left)
        scope = self._clock.timeout(own)
        try:
            async with scope:
                answering = self._call(target, body, timeout=left if own is None else own)
                if not inspect.isawaitable(answering):
                    raise TurnBroken("call= is no async function; make it one, or wrap it in one")
                answer = await answering
        except Exception as error:
            if scope.expired():
                verdict: Verdict | None = too_slow(own)
            elif isinstance(error, ClientError):
                verdict = self._read(target, error) if error.kind is None else _told(error)
            else:
                verdict = transport_failure(error)
            if verdict is None:
                raise
        else:
            if not isinstance(answer, Mapping):
                raise TurnBroken(
                    f"call= returned {type(answer).__name__} for target {target.name!r}, not a body"
                )
            verdict = too_slow(own) if scope.expired() else self._refusal(target, answer)
            if verdict is None:
                return Answer(answer, usage=openai_chat.usage(answer))
        return Redactor(secrets_of(target), request.quotations).verdict(verdict)

    def _read(self, target: Target, error: ClientError) -> Verdict:
        """What a client met and does not name, read as a reply over HTTP is."""
        body = {"error": {"message": str(error.message or "")}} if error.body is None else error.body
        if isinstance(body, str):
            body = body.encode("utf-8", "replace")
        encoded = body if isinstance(body, bytes) else msgspec.json.encode(body)
        # an error without a status is the caller's, unless it says something else
        status = _status(error.status)
        reply = Reply(status=status or UNKNOWN_STATUS, body=encoded, format=target.format)
        verdict = classify(reply, now=self._clock.now())
        return msgspec.structs.replace(
            verdict,
            status=status,
            retry_after=_seconds(error.retry_after),
        )

    def _refusal(self, target: Target, answer: Mapping[str, Any]) -> Verdict | None:
        """How a body that is no complete answer is read, as over HTTP."""
        body = dict(answer)
        encoded = msgspec.json.encode(body) if body.get("error") or not openai_chat.is_answer(body) else b""
        if carries_error(encoded):
            return classify(Reply(status=200, body=encoded, format=target.format), now=self._clock.now())
        return unreadable(200, "this is no complete answer") if encoded else None


def _told(error: ClientError) -> Verdict:
    """What the client says of its error, as far as it makes sense.

    A kind that does not exist is an error that nobody recognised.
    """
    kind = next((kind for kind in ErrorKind if kind == error.kind), None)
    known = kind is not None
    kind = kind or ErrorKind.CALLER_ERROR
    return Verdict(
        kind=kind,
        evidence=Evidence("client_error" if known else UNRECOGNISED, "kind"),
        status=_status(error.status),
        features=_features(error.features) if kind is ErrorKind.CAPABILITY else (),
        message=str(error.message or ""),
        retryable=kind is ErrorKind.UNAVAILABLE,
        retry_after=_seconds(error.retry_after),
    )


def _features(given: object) -> tuple[str, ...]:
    """What was refused, in words that there are."""
    named = (given,) if isinstance(given, str) else given if isinstance(given, Iterable) else ()
    return tuple(sorted({name if name in set(Feature) else Feature.OTHER.value for name in map(str, named)}))


def _status(value: object) -> int | None:
    return value if type(value) is int and 100 <= value <= 999 else None


def _seconds(value: object) -> float | None:
    if isinstance(value, int | float) and 0 <= value <= MAX_SECS:
        return float(value)
    return None
