"""The audit record: what one turn did and why, enough to replay it without a network.

Frozen, with a schema number. New fields have defaults and no field changes its type, so
that old records are read for ever. A record holds no prompt and no answer: of what an
upstream or a client says, what may be kept is decided in `redaction.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec import Struct

from turnout.engine.classify.verdict import Evidence, Verdict
from turnout.engine.context import Eviction
from turnout.engine.habits import Home
from turnout.engine.health import Cooling
from turnout.engine.pricing import Price, cost
from turnout.machines.stepping import Step
from turnout.machines.vocabulary import ErrorKind, RoutingFallbackReason

SCHEMA: Final = 1


class Rung(Struct, frozen=True, omit_defaults=True):
    """A target of the ladder as it was."""

    target: str
    model: str
    format: str
    fingerprint: str
    limits: Mapping[str, Any] = {}
    """What it declares."""
    price: Price | None = None
    """What its tokens cost, if it declares that."""


class Caller(Struct, frozen=True, omit_defaults=True):
    """Who asked. Without a memory, `remembered` is false: the turn was routed all the same."""

    namespace: str = ""
    session: str = ""
    agent: str = ""
    subagent: bool = False
    final: bool = False
    remembered: bool = True


class StreamRecord(Struct, frozen=True, omit_defaults=True):
    """A stream that committed: what of it reached the caller."""

    committed: float
    """Seconds from sending to its first content."""
    events: int = 0
    content_events: int = 0
    interrupted: str = ""
    """What broke it off after its first content: a rule of the evidence, or what ended the turn."""


class AttemptRecord(Struct, frozen=True, omit_defaults=True):
    """One HTTP request, or one call of the embedder's."""

    duration: float
    """Seconds from sending to the end of the answer, or to its failure."""
    waited: float = 0.0
    """Seconds slept before it."""
    status: int | None = None
    kind: ErrorKind | None = None
    """What a failed attempt says; none if it was answered."""
    evidence: Evidence | None = None
    code: str = ""
    message: str = ""
    retry_after: float | None = None
    request_id: str = ""
    """The upstream's own id of the request."""
    stripped: tuple[str, ...] = ()
    """Keys of `extra_body` that were left out, since the target had refused them."""
    bytes: int = 0
    """Of the reply's body, as they came over the wire."""
    possibly_billed: bool = False
    """The whole request had gone out and no answer came, or not all of it: the upstream may charge for it."""
    stream: StreamRecord | None = None
    """None unless it was a stream that committed."""


class ProbeRecord(Struct, frozen=True, omit_defaults=True):
    """One target that was asked."""

    target: str
    attempts: tuple[AttemptRecord, ...] = ()
    verdict: Verdict | None = None
    """What was classified: none if it answered, or if the turn ended before."""
    reason: RoutingFallbackReason | None = None
    """Why the turn left it; none if it served or its error went to the caller."""
    answered: bool = False
    last_resort: bool = False
    """Asked although it was ruled out, since every target was."""
    at: float = 0.0
    """When it was classified, in seconds since 1970; 0 if the turn ended before."""
    committed: bool = False
    """Its stream had begun to answer: from then on no failure leads to another target."""
    trial: bool = False
    """It was the one trial of a target that had cooled."""

    @property
    def secs(self) -> float:
        """How long it took, waits included."""
        return sum(attempt.waited + attempt.duration for attempt in self.attempts)


class WhyPassedOver(StrEnum):
    """Why a target was not probed although the turn's turn might have come to it."""

    EVICTED = "evicted"
    """The session remembers why it would refuse."""
    GATED = "gated"
    """It declares limits that the request is beyond."""
    COOLING = "cooling"
    """It has failed in other turns, of whatever session, and its time is not up."""


class PassedOver(Struct, frozen=True, omit_defaults=True):
    """A target of the ladder that was ruled out, with what ruled it out."""

    target: str
    why: WhyPassedOver
    evictions: tuple[Eviction, ...]
    limit: str = ""
    """The declared limit that the request is beyond."""
    cooling: Cooling | None = None
    """Until when it cools, and for what."""


class WhyNotTried(StrEnum):
    """Why an eligible target was not asked: what ended the turn before it."""

    SERVED = "served"
    SURFACED = "surfaced"
    DEADLINE = "deadline"
    CANCELLED = "cancelled"
    BROKEN = "broken"


class NotTried(Struct, frozen=True):
    target: str
    why: WhyNotTried


class Reread(Struct, frozen=True, omit_defaults=True):
    """What had changed when it was read again, before the step with this index: all of it as it was then."""

    before_step: int
    evictions: tuple[Eviction, ...]
    cooling: tuple[Cooling, ...] = ()


class HealthStep(Struct, frozen=True):
    """A transition of a target's health that this turn has caused."""

    target: str
    step: Step
    at: float
    """In seconds since 1970."""
    failures: int
    """Failed probes in a row, as of then."""
    until: float
    """When it has cooled, or when its trial's lease runs out."""


class AuditRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One turn. Times are in seconds; `started` counts from 1970."""

    schema: int
    turn: str
    route: str
    started: float
    took: float
    caller: Caller
    ladder: tuple[Rung, ...]
    policy: Mapping[str, str]
    machines: Mapping[str, str]
    """The digest of each machine that the turn ran on."""
    state: str
    """`served` or `failed`."""
    ended_by: str
    """The trigger that led there."""
    served_by: str | None = None
    error: str = ""
    """The error that the caller got, redacted."""
    request: str = ""
    """The caller's request id."""
    steps: tuple[Step, ...] = ()
    probes: tuple[ProbeRecord, ...] = ()
    passed_over: tuple[PassedOver, ...] = ()
    not_tried: tuple[NotTried, ...] = ()
    standings_before: tuple[Eviction, ...] = ()
    rereads: tuple[Reread, ...] = ()
    standings_after: tuple[Eviction, ...] = ()
    restored: tuple[Eviction, ...] = ()
    """Evictions that this turn contradicted, by serving as last resort."""
    lifted: tuple[Eviction, ...] = ()
    """Evictions that did not apply to this turn, by an option of the route."""
    options: Mapping[str, Any] = {}
    """The route's options that say who may be probed, where they are not the defaults."""
    pin: str = ""
    """The target that the caller wanted first."""
    home: Home | None = None
    """Where the session was at home, where the route goes by that."""
    settled: Home | None = None
    """What this turn has made of that; None if nothing."""
    cooling: tuple[Cooling, ...] = ()
    """The targets of the ladder that cooled when the turn began."""
    health: tuple[HealthStep, ...] = ()
    """What this turn has shown of its targets' health, for all sessions."""
    needs: tuple[str, ...] = ()
    """The features that the request uses, sorted."""
    size: int | None = None
    """The request's estimated size in tokens."""
    calibrated: int | None = None
    """The same by what upstreams have reported of the session; declared windows are held against it."""
    output: int | None = None
    """The most tokens of output that the request asks for."""
    usage: Mapping[str, Any] | None = None
    """What the upstream reported of tokens."""
    notes: tuple[str, ...] = ()
    """What went wrong beside the turn: a memory that could not be read, a row that could not be written."""
    writer: str = ""
    """The router that left it, where it has sinks."""
    sequence: int = 0
    """Its number among all that this router has handed to its sinks, from 1: a gap shows that one is missing.
    """

    @property
    def server(self) -> Rung | None:
        """The rung of who served, as it was."""
        return next((rung for rung in self.ladder if rung.target == self.served_by), None)

    @property
    def cost(self) -> float | None:
        """What the answer cost, by the price that its target declared; None where that is not known."""
        server = self.server
        return None if server is None else cost(self.usage, server.price, server.format)

    @property
    def cost_unknown(self) -> bool:
        """Whether it is not known although its target declares a price."""
        server = self.server
        return server is not None and server.price is not None and self.cost is None


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(AuditRecord)


def encode(record: Struct) -> bytes:
    """A record, or a change, as one line of JSON, without the line's end."""
    return _ENCODER.encode(record)


def decode(line: bytes | str) -> AuditRecord:
    """A record from its line. Raises msgspec.DecodeError if it is none."""
    return _DECODER.decode(line)
