"""One attempt by the embedder's own client: the `call=` of a router."""

from __future__ import annotations

import functools
import inspect
import json
import logging
from collections.abc import Iterable, Mapping
from types import FunctionType
from typing import Any, Final, Protocol

import msgspec

from turnout.engine import wire
from turnout.engine.attempts import Answer, Progress, Request, own_bound
from turnout.engine.capture import Capture
from turnout.engine.classify import classify, too_slow, transport_failure
from turnout.engine.classify.reply import Reply
from turnout.engine.classify.verdict import UNRECOGNISED, Evidence, Feature, Verdict
from turnout.engine.clock import Clock
from turnout.engine.errors import ClientError, ConfigurationError, TurnBroken, told
from turnout.engine.printable import did_you_mean, named
from turnout.engine.redaction import Redactor
from turnout.engine.secrets import secrets_of
from turnout.engine.targets import MAX_SECS, Target
from turnout.machines.vocabulary import ErrorKind

LOG: Final = logging.getLogger("turnout")

UNKNOWN_STATUS: Final = 400
"""How an error is read whose client tells no status."""

HINTS: Final = 100
"""How many words of `ClientError` that there are not are logged, each once."""


class Call(Protocol):
    """Asks a target: the body of its answer, or ClientError."""

    async def __call__(
        self, target: Target, request: Mapping[str, Any], /, *, timeout: float | None
    ) -> Mapping[str, Any]: ...


class CallUpstream:
    """Makes attempts by calling the embedder's client, within the target's bound.

    Raises:
        ConfigurationError: the client is none that could be called so.
    """

    def __init__(self, call: Call, clock: Clock, capture: Capture | None = None) -> None:
        if what := _mistake(call):
            raise ConfigurationError(f"call= {what}; give async def call(target, request, /, *, timeout)")
        self._call = call
        self._clock = clock
        self._capture = capture
        self._hinted: set[str] = set()

    async def close(self) -> None:
        """Nothing is kept: the client is the embedder's."""

    async def __call__(
        self,
        target: Target,
        request: Request,
        progress: Progress,
        *,
        without: frozenset[str],
        fresh: bool,
        left: float | None,
    ) -> Answer | Verdict:
        """Ask once: the complete answer, or how what came instead is read.

        Raises:
            TurnBroken: what the client raised or returned is no target's doing.
        """
        # a copy: what the client does to it is nobody else's business
        body = msgspec.json.decode(msgspec.json.encode(wire.outgoing(request.encoded, target, without)))
        own = own_bound(target.timeout_secs, left)
        scope = self._clock.timeout(own)
        before = secrets_of(target)  # a key may be changed while it is in use
        try:
            async with scope:
                answering = self._call(target, body, timeout=left if own is None else own)
                if not inspect.isawaitable(answering):
                    raise TypeError("call= is no async function; make it one, or wrap it in one")
                answer = await answering
        except Exception as error:
            redactor = Redactor((*before, *secrets_of(target)), request.quotations)
            late = too_slow(own) if scope.expired() else None
            if (verdict := self._failure(target, error, late, redactor)) is None:
                said = redactor.clean(told(error))
                raise TurnBroken(f"target {target.name!r} could not be asked: {said}") from error
            return redactor.verdict(verdict)
        outcome = too_slow(own) if scope.expired() else self._refusal(target, answer)
        if outcome is None:
            return Answer(answer, usage=wire.of(target.format).usage(answer))
        redactor = Redactor((*before, *secrets_of(target)), request.quotations)
        verdict = outcome if isinstance(outcome, Verdict) else self._classified(target, outcome, redactor)
        return redactor.verdict(verdict)

    def _failure(
        self, target: Target, error: Exception, late: Verdict | None, redactor: Redactor
    ) -> Verdict | None:
        """How what a client raised is read; None if it is no target's doing."""
        if late is not None:
            return late
        if isinstance(error, ClientError):
            return self._read(target, error, redactor) if error.kind is None else self._told(error)
        return transport_failure(error)

    def _told(self, error: ClientError) -> Verdict:
        """What the client says of its error, as far as it makes sense.

        A kind that does not exist is an error that nobody recognised.
        """
        kind = next((kind for kind in ErrorKind if kind == error.kind), None)
        if kind is None:
            self._hint("kind", error.kind, ErrorKind, "is read as caller_error, unrecognised")
        return Verdict(
            kind=kind or ErrorKind.CALLER_ERROR,
            evidence=Evidence("client_error" if kind else UNRECOGNISED, "kind"),
            status=_status(error.status),
            features=self._features(error.features) if kind is ErrorKind.CAPABILITY else (),
            message=str(error.message or ""),
            retryable=kind is ErrorKind.UNAVAILABLE,
            retry_after=_seconds(error.retry_after),
        )

    def _features(self, given: object) -> tuple[str, ...]:
        """What was refused, in words that there are."""
        words = (given,) if isinstance(given, str) or not isinstance(given, Iterable) else given
        features = set()
        for word in words if given is not None else ():
            feature = next((feature for feature in Feature if feature == word), None)
            if feature is None:
                self._hint("features", word, Feature, "is read as other")
            features.add((feature or Feature.OTHER).value)
        return tuple(sorted(features))

    def _hint(self, key: str, word: object, words: Iterable[str], what: str) -> None:
        """A word that there is not. No error: it would replace the one that the client is telling."""
        known = f"{key}: {named(word)}"
        if known not in self._hinted and len(self._hinted) < HINTS:
            self._hinted.add(known)
            hint = did_you_mean(word if isinstance(word, str) else "", words)
            LOG.warning("ClientError: %s %s%s", known, what, hint)

    def _read(self, target: Target, error: ClientError, redactor: Redactor) -> Verdict:
        """What a client met and does not name, read as a reply over HTTP is."""
        body = error.body or {"error": {"message": str(error.message or "")}}
        # an error without a status is the caller's, unless it says something else
        status = _status(error.status)
        reply = Reply(
            status=status or UNKNOWN_STATUS,
            body=_encoded(body),
            format=target.format,
            provider=target.provider,
        )
        verdict = self._classified(target, reply, redactor)
        return msgspec.structs.replace(
            verdict,
            status=status,
            retry_after=_seconds(error.retry_after),
        )

    def _classified(self, target: Target, reply: Reply, redactor: Redactor) -> Verdict:
        verdict = classify(reply, now=self._clock.now(), rules=target.rules)
        if self._capture is not None:
            self._capture.keep(target, reply, verdict, redactor)
        return verdict

    def _refusal(self, target: Target, answer: object) -> Reply | None:
        """What a body is that is no complete answer: a reply to read, as over HTTP.

        Raises:
            TurnBroken: it is no body at all.
        """
        if not isinstance(answer, Mapping):
            raise TurnBroken(f"call= returned {type(answer).__name__} for target {target.name!r}, not a body")
        body = dict(answer)
        encoded = _encoded(body) if body.get("error") or not wire.of(target.format).is_answer(body) else b""
        if not encoded:
            return None
        return Reply(status=200, body=encoded, format=target.format, provider=target.provider)


def _encoded(body: object) -> bytes:
    """A body as it would have come over HTTP; what cannot be encoded says nothing."""
    if isinstance(body, bytes):
        return body
    if isinstance(body, str):
        return body.encode("utf-8", "replace")
    try:
        return json.dumps(body).encode()
    except (TypeError, ValueError, RecursionError):
        return b"{}"


def _mistake(call: object) -> str:
    """What is surely wrong with a client; empty where nothing is.

    A lambda may well give what can be awaited: that is seen when it is called.
    """
    if not callable(call):
        return f"is {named(type(call).__name__)}, which cannot be called"
    try:
        inspect.signature(call).bind(None, {}, timeout=None)
    except TypeError:
        return "takes other arguments than it is given"
    except ValueError:  # it tells nothing of them
        pass
    if inspect.iscoroutinefunction(call) or inspect.isclass(call):
        return ""
    inner: object = call
    while isinstance(inner, functools.partial):
        inner = inner.func
    inner = inspect.unwrap(inner) if callable(inner) else inner
    if not inspect.isroutine(inner):
        inner = type(inner).__call__
    function = getattr(inner, "__func__", inner)
    plain = isinstance(function, FunctionType) and function.__name__ != "<lambda>"
    return "is no async function" if plain and not inspect.iscoroutinefunction(function) else ""


def _status(value: object) -> int | None:
    if isinstance(value, str) and value.isdecimal():
        value = int(value[:4])
    known = isinstance(value, int) and not isinstance(value, bool) and 100 <= value <= 999
    return int(value) if known and isinstance(value, int) else None


def _seconds(value: object) -> float | None:
    if isinstance(value, int | float) and 0 <= value <= MAX_SECS:
        return float(value)
    return None
