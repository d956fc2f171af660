"""Every error that Turnout raises, and what a caller of a gateway sees of a failed turn.

    TurnoutError
    ├── TurnFailed              a turn ended as failed: .error says why, .record how it came to it
    ├── UpstreamError           what one target said: .target, .verdict
    │   ├── InjectionRefused    it refused a key of `extra_body`, under `on_parameter_reject = "report"`
    │   └── StreamInterrupted   its stream broke off after its first content
    ├── DeadlineExceeded        the turn's deadline passed
    ├── TurnBroken              the engine, a store under `raise` or the embedder's code failed
    ├── RequestRefused          refused before a machine starts: no turn, no record
    │   ├── InvalidBody
    │   ├── UnknownRoute
    │   └── UnknownPin
    ├── ConfigurationError      a target, ladder, policy or deployment file that cannot be used
    ├── MemoryTrouble           a memory could not be read or written
    │   └── MemoryRefusal       it is well, and one thing cannot be kept in it or read from it
    ├── SinkTrouble             records cannot be kept, or were not erased to the last byte
    ├── RouterMisused           a router that is closed, of another loop, or of another process
    ├── ScenarioError           a scenario file that cannot be used
    ├── ReplyError              a line that should keep a failed reply and cannot be used (`replies.py`)
    ├── ClientError             raised by an embedder's `call=` to say what its client met
    ├── EventTooLong            an event of a stream is longer than is read (`sse.py`)
    ├── NotPackedAsSaid         a body cannot be unpacked (`upstream/bodies.py`)
    ├── StepRefused             a machine has no such way out of its state (`machines/stepping.py`)
    ├── InvalidMachine          a machine definition that could not work (`machines/stepping.py`)
    ├── Standstill              virtual time cannot go on (`clock.py`)
    └── TooManyPaths            a walk that was stopped at its limit (`machines/explore.py`)

`asyncio.CancelledError` passes through a turn as itself: a caller who has gone is no error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from turnout.machines.vocabulary import ErrorKind, TurnoutError

if TYPE_CHECKING:
    from turnout.engine.audit import AuditRecord
    from turnout.engine.classify.verdict import Verdict


class UpstreamError(TurnoutError):
    """What one target answered, or that it did not. The message is redacted.

    Attributes:
        target: the target's name.
        verdict: how the answer was read: its kind, status, code and cleaned message, and on what evidence.
    """

    def __init__(self, target: str, verdict: Verdict) -> None:
        status = f" (HTTP {verdict.status})" if verdict.status else ""
        super().__init__(f"target {target!r}: {verdict.kind}{status}: {verdict.message or 'no message'}")
        self.target = target
        self.verdict = verdict


class InjectionRefused(UpstreamError):
    """A target refused what its client adds by `extra_body`: a mistake of the configuration.

    Attributes:
        keys: what its client adds.
    """

    def __init__(self, target: str, verdict: Verdict, keys: frozenset[str]) -> None:
        super().__init__(target, verdict)
        self.keys = keys
        self.args = (
            f"target {target!r} refuses what extra_body adds ({', '.join(sorted(keys))}):"
            f" {verdict.message or 'no message'}; take it out of the client's extra_body",
        )


class StreamInterrupted(UpstreamError):
    """A stream broke off, or told an error, after its first content had gone to the caller."""

    def __init__(self, target: str, verdict: Verdict) -> None:
        super().__init__(target, verdict)
        self.args = (f"target {target!r}: its stream broke off: {verdict.message or 'no message'}",)


class DeadlineExceeded(TurnoutError):
    """The turn's `deadline_secs` passed before a target had answered."""


class TurnBroken(TurnoutError):
    """Not a target's doing: a memory under `on_memory_error = "raise"`, a bug, the embedder's code."""


class TurnFailed(TurnoutError):
    """A turn that ended as failed.

    Attributes:
        error: the last probe's concrete error, or why there was none. It is the cause of this one; its own
            cause is what the embedder's code, a memory or a transport has raised, just as they raised it.
        record: the audit record, with every probe of the turn, first cause first.
    """

    def __init__(self, error: UpstreamError | DeadlineExceeded | TurnBroken, record: AuditRecord) -> None:
        super().__init__(str(error))
        self.__cause__ = error
        self.error = error
        self.record = record

    @property
    def surface(self) -> Surface:
        """Status, type and code that a server tells the caller."""
        return surface(self.error)


class RequestRefused(TurnoutError):
    """Refused before a machine started: there was no turn and there is no record."""


class InvalidBody(RequestRefused):
    """The request's body is no JSON object, or asks for what this call does not give."""


class UnknownRoute(RequestRefused):
    """The caller asked for a route that this router does not have."""


class UnknownPin(RequestRefused):
    """The caller pinned a target that the route does not have."""


class ConfigurationError(TurnoutError):
    """A target, ladder, policy or deployment that cannot be used: where, and what would be right."""


class MemoryTrouble(TurnoutError):
    """A memory could not be read or written: which one, at what, and why."""


class MemoryRefusal(MemoryTrouble):
    """One thing that a memory cannot keep, or one damaged entry that it cannot read.

    Asking again cannot help, and nothing else in the memory is affected: a router does not try again, and
    holds nothing up for it.
    """


class SinkTrouble(TurnoutError):
    """Records cannot be kept or read, or were not erased to the last byte: in which file, and why."""


class RouterMisused(TurnoutError):
    """A router used after it was closed, from another event loop, or after a fork."""


class ScenarioError(TurnoutError):
    """A scenario file that cannot be used. Names the file, the key and what would be right."""


class ReplyError(TurnoutError):
    """A line that should keep a failed reply and cannot be used. Names the field and what would be right."""


class ClientError(TurnoutError):
    """What a service's own client met; raised by the `call=` of a router.

    Without a `kind`, it is read from status, body and message as a reply over HTTP is.

    Args:
        message: the upstream's diagnostic message. It is redacted before it is kept.
        kind: an `ErrorKind`, or its value; any other word is logged and read as `caller_error`, unrecognised.
        status: the HTTP status, if there was one.
        body: the upstream's whole error body, decoded or as it came.
        features: for `capability`, what was refused; any word but a `Feature` is logged and read as `other`.
        retry_after: seconds that the upstream asks to wait.
    """

    def __init__(
        self,
        message: str = "",
        *,
        kind: ErrorKind | str | None = None,
        status: int | None = None,
        body: Mapping[str, Any] | str | bytes | None = None,
        features: tuple[str, ...] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status
        self.message = message
        self.body = body
        self.features = features
        self.retry_after = retry_after


def told(error: BaseException) -> str:
    """An error by its class and what it says; one that cannot say anything, by its class."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - whatever keeps it from being told
        return type(error).__name__


class Surface(NamedTuple):
    """What a server tells the caller of a failed turn or a refused request."""

    status: int
    type: str
    code: str


OVERFLOW: Final = Surface(400, "invalid_request_error", "context_length_exceeded")
CAPABILITY: Final = Surface(400, "invalid_request_error", "capability_rejected")
MISCONFIGURED: Final = Surface(502, "upstream_error", "upstream_configuration_error")
TIMEOUT: Final = Surface(504, "upstream_error", "upstream_timeout")
NO_ANSWER: Final = Surface(502, "upstream_error", "upstream_error")
ANYTHING_ELSE: Final = Surface(500, "server_error", "server_error")
REFUSED: Final[dict[type[RequestRefused], Surface]] = {
    InvalidBody: Surface(400, "invalid_request_error", "invalid_body"),
    UnknownRoute: Surface(404, "model_not_found", "model_not_found"),
}


def surface(error: TurnoutError) -> Surface:
    """What a server tells the caller of this error."""
    if isinstance(error, InjectionRefused):
        return MISCONFIGURED
    if isinstance(error, UpstreamError):
        return _upstream_surface(error.verdict)
    if isinstance(error, DeadlineExceeded):
        return TIMEOUT
    if isinstance(error, TurnBroken) and isinstance(error.__cause__, ConfigurationError):
        return MISCONFIGURED
    return REFUSED.get(type(error), ANYTHING_ELSE) if isinstance(error, RequestRefused) else ANYTHING_ELSE


def _upstream_surface(verdict: Verdict) -> Surface:
    if verdict.kind is ErrorKind.CONTEXT_WINDOW:
        return OVERFLOW
    if verdict.kind is ErrorKind.CAPABILITY:
        return CAPABILITY
    if verdict.timed_out:
        return TIMEOUT
    if verdict.status is None or verdict.unreadable:
        return NO_ANSWER
    return Surface(_error_status(verdict), "upstream_error", "upstream_error")


def _error_status(verdict: Verdict) -> int:
    """An error in a 200, or a redirect, becomes the error's own numeric code where it has one."""
    status = verdict.error_status or 0
    if 400 <= status <= 599:
        return status
    return 503 if verdict.kind is ErrorKind.UNAVAILABLE else 502
