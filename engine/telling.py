"""A turn in one line, as a person tells it, from its audit record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from turnout.engine.audit import AuditRecord, PassedOver, ProbeRecord
from turnout.engine.printable import printable, shortened
from turnout.machines.vocabulary import RoutingFallbackReason

_CUT_SHORT: Final = {"expired": "deadline", "cancelled": "cancelled", "broken": "broken"}
"""What ended a turn that no target's answer ended, in the words of `not_tried`."""


def who(record: AuditRecord) -> str:
    """The session, and the agent of it: a dash for an id that there is not."""
    caller = record.caller
    session, agent = (printable(shortened(name)) or "-" for name in (caller.session, caller.agent))
    return f"{session}/{agent}" if caller.subagent else session


def tell(record: AuditRecord, *, turn_name: Callable[[str], str] = str) -> str:
    """What happened in a turn, in the order in which it did; what was passed over comes first.

    Args:
        turn_name: what to call the turn with this id.
    """
    return printable(", ".join(_story(record, turn_name)))


def _story(record: AuditRecord, turn_name: Callable[[str], str]) -> Iterator[str]:
    for over in record.passed_over:
        yield f"({why_passed_over(over, turn_name, now=record.started)})"
    for probe in record.probes:
        last = probe is record.probes[-1]
        yield _probed(probe, first=probe is record.probes[0]) + (_end(record) if last else "")
    if not record.probes:
        yield f"nobody asked{_end(record)}"


def why_passed_over(over: PassedOver, turn_name: Callable[[str], str], *, now: float) -> str:
    """A target that was passed over, and why.

    Args:
        now: when, in seconds since 1970.
    """
    if over.limit:
        return f"{over.target} {over.why}: {over.limit}"
    if (cooling := over.cooling) is not None:
        cause = cooling.cause
        since = "" if cause is None else f" since turn {turn_name(cause.turn)}: {cause.kind}"
        if cooling.trial:
            return f"{over.target} {over.why}{since}, turn {turn_name(cooling.trial)} tries it"
        return f"{over.target} {over.why}{since}, {max(0.0, cooling.until - now):.3g} s left"
    turns = "; ".join(f"in turn {turn_name(e.first.turn)}: {e.reason}" for e in over.evictions)
    return f"{over.target} {over.why} {turns}"


def _probed(probe: ProbeRecord, *, first: bool) -> str:
    """A target and what came of it, without the end that it led to."""
    words = [probe.target]
    if len(probe.attempts) > 1:
        words.append(f"x{len(probe.attempts)}")
    if probe.last_resort:
        words.append("(last resort)")
    if probe.trial:
        words.append("(trial)")
    if interrupted := _interrupted(probe):
        words.append(interrupted)
    if probe.verdict is not None:
        words.append(probe.verdict.kind)
    elif probe.answered and not first:
        words.append("answered")
    if probe.reason is not None:
        words.append("-> skipped" if probe.reason is RoutingFallbackReason.UNAVAILABLE else "-> evicted")
    return " ".join(words)


def _interrupted(probe: ProbeRecord) -> str:
    """That a stream broke off, and how much the caller had got of it."""
    stream = probe.attempts[-1].stream if probe.attempts else None
    if stream is None or not stream.interrupted:
        return ""
    events = "event" if stream.content_events == 1 else "events"
    return f"interrupted after {stream.content_events} {events}" + (":" if probe.verdict is not None else "")


def _end(record: AuditRecord) -> str:
    why = _CUT_SHORT.get(record.ended_by)
    return f" -> {record.state} ({why})" if why else f" -> {record.state}"
