"""One attempt by the embedder's own client: the `call=` of a router."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from turnout.engine.classify import too_slow, transport_failure
from turnout.engine.classify.verdict import UNRECOGNISED, Evidence, Verdict
from turnout.engine.clock import Clock
from turnout.engine.errors import ClientError, TurnBroken
from turnout.engine.probe import Answer, Request, own_bound
from turnout.engine.redaction import Redactor
from turnout.engine.targets import Target
from turnout.engine.wire import openai_chat
from turnout.machines.vocabulary import ErrorKind


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
        self, target: Target, request: Request, *, without: frozenset[str], left: float | None
    ) -> Answer | Verdict:
        """Ask once. What is neither a ClientError nor a failure of transport is raised on."""
        body = openai_chat.outgoing(request.body, target, without)
        own = own_bound(target.timeout_secs, left)
        scope = self._clock.timeout(own)
        try:
            async with scope:
                answer = await self._call(target, body, timeout=left if own is None else own)
        except ClientError as error:
            verdict = _told(error)
        except Exception as error:
            read = too_slow(own) if scope.expired() else transport_failure(error)
            if read is None:
                raise
            verdict = read
        else:
            if not isinstance(answer, Mapping):
                raise TurnBroken(
                    f"call= returned {type(answer).__name__} for target {target.name!r}, not a body"
                )
            return Answer(answer, usage=openai_chat.usage(answer))
        return Redactor((), request.body).verdict(verdict)


def _told(error: ClientError) -> Verdict:
    """What the client says of its error. A kind that does not exist is an error that nobody recognised."""
    known = error.kind in set(ErrorKind)
    kind = ErrorKind(error.kind) if known else ErrorKind.CALLER_ERROR
    return Verdict(
        kind=kind,
        evidence=Evidence("client_error" if known else UNRECOGNISED, "kind"),
        status=error.status,
        features=tuple(sorted(error.features)),
        message=error.message,
        retryable=kind is ErrorKind.UNAVAILABLE,
        retry_after=error.retry_after,
    )
