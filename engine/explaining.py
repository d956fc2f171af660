"""How one failed reply was read, and what a router does with it, in words for a person."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from turnout.engine.classify import UNRECOGNISED, Reply, Verdict
from turnout.engine.classify.operator import Condition, ErrorRule, conditions
from turnout.engine.classify.unwrap import findings
from turnout.engine.classify.verdict import Feature
from turnout.engine.policy import FORBIDDEN, Action, Policy, case_of
from turnout.engine.printable import printable, printable_json, shortened
from turnout.engine.probe import Probe
from turnout.engine.redaction import Quotations, Redactor
from turnout.engine.targets import Target
from turnout.machines.vocabulary import ErrorKind as Kind
from turnout.machines.vocabulary import ProbeState

MEANINGS: Final[Mapping[str, str]] = {
    Kind.CONTEXT_WINDOW: "the conversation is too long for this target",
    Kind.CAPABILITY: "this target cannot serve this kind of request; another may",
    Kind.UNAVAILABLE: "the target cannot answer now, which says nothing of the next turn",
    Kind.QUOTA_OR_BILLING: "money, credits, the plan or a spending limit",
    FORBIDDEN: "the account or its region is refused with a 403; another target may take it",
    Kind.AUTH: "the credential is refused, for every model behind it",
    Kind.MODEL_NOT_FOUND: "this target can answer no request: unknown, retired or not enabled",
    Kind.CONTENT_POLICY: "what the request says is refused, not how it is asked",
    Kind.PARAMETER_REJECT: "one optional setting of the request is refused",
    UNRECOGNISED: "no rule knows this reply, so it is taken for the caller's error",
    Kind.CALLER_ERROR: "the request is broken, for every target",
}
"""What each row of a policy is about."""

ANSWER: Final[Mapping[str, object]] = {
    "kind": None,
    "reason": None,
    "features": (),
    "param": None,
    "retryable": False,
    "retry_after": None,
    "evidence": {"rule": "answer", "field": "body", "matched": ()},
}
"""What `told` would say of a reply that is a complete answer, and so has no verdict."""

MOST: Final = 5
"""Rules that are gone through, and paths of a reply that are named, before the rest is counted."""

_REDACTOR: Final = Redactor((), Quotations({}))
"""Whoever explains a reply has neither the request nor the credential: what looks like a key is cut out."""


def told(verdict: Verdict, policy: Policy) -> dict[str, object]:
    """A verdict as data: its kind, why the turn leaves the target (None: it fails), and the evidence."""
    evidence = verdict.evidence
    return {
        "kind": verdict.kind,
        "reason": policy.reason(verdict),
        "features": verdict.features,
        "param": _REDACTOR.clean(verdict.param) or None,
        "retryable": verdict.retryable,
        "retry_after": verdict.retry_after,
        "evidence": {"rule": evidence.rule, "field": evidence.field, "matched": evidence.matched},
    }


def told_in_full(verdict: Verdict, policy: Policy) -> dict[str, object]:
    """The same with the action of the policy and with what the reply says itself, redacted."""
    return {
        **told(verdict, policy),
        "action": action(verdict, policy),
        "status": verdict.status,
        "code": _REDACTOR.clean(verdict.code),
        "message": _REDACTOR.clean(verdict.message),
    }


def action(verdict: Verdict, policy: Policy) -> Action:
    """What the policy does on this verdict."""
    return policy.table[case_of(verdict)]


def explain(verdict: Verdict, policy: Policy, target: Target) -> Iterator[tuple[str, str]]:
    """A verdict, point by point: what a point is about, and what there is to say. Each is one line, uncut.

    Args:
        policy: of the route that asks.
        target: whose retries and injected keys count.
    """
    case = case_of(verdict)
    name = f"{verdict.kind}, {case}" if case == UNRECOGNISED else verdict.kind
    yield "kind", f"{name}: {MEANINGS[case]}"
    if verdict.features:
        unknown = ": the reply does not tell what" if verdict.features == (Feature.OTHER,) else ""
        yield "refused", ", ".join(verdict.features) + unknown
    if verdict.param:
        yield "parameter", _shown(verdict.param)
    yield "action", _done(verdict, policy)
    yield "retried", _again(verdict, target)
    if verdict.code:
        yield "code", _shown(verdict.code)
    if verdict.message:
        yield "message", _shown(verdict.message)
    yield "evidence", printable(f"rule {verdict.evidence.rule}, on {verdict.evidence.field}")
    for entry in verdict.evidence.matched:
        yield "", printable(f"matched {entry}")


def unheld(rules: Sequence[ErrorRule], reply: Reply) -> Iterator[str]:
    """Why none of these rules decided a reply: of each, in a line, what of it holds and what does not."""
    found = findings(reply)
    stated = next((str(finding.status) for finding in found if finding.status is not None), "")
    status = f"{reply.status}, and states {stated}" if stated else str(reply.status)
    for rule in rules[:MOST]:
        asked = ", ".join(
            f"{condition.key} {_asked_for(condition.asked)} {_whether(condition, rule.field, status)}"
            for condition in conditions(rule, reply.status, found)
        )
        yield f"your rule {printable(rule.name)} does not hold: {asked}"
    if len(rules) > MOST:
        yield f"and {len(rules) - MOST} more"


def _asked_for(value: str | int) -> str:
    return (
        str(value)
        if isinstance(value, int)
        else printable_json(json.dumps(shortened(value), ensure_ascii=False))
    )


def _whether(condition: Condition, field: str | None, status: str) -> str:
    if condition.place is not None:
        return "yes"
    if condition.key == "status":
        return f"no (the reply has {status})"
    if condition.elsewhere is not None:
        return f"no (it stands at {_path(condition.elsewhere)}, not at {_path(field or '')})"
    if condition.in_message is not None:
        return f"no (it is no code, but part of the message at {_path(condition.in_message)}: use contains)"
    what = "code" if condition.key == "code" else "message"
    if not condition.looked_at:
        return f"no (the reply has no {what})"
    return f"no (the reply has another {what}, at {_paths(condition.looked_at)})"


def _paths(paths: Sequence[str]) -> str:
    different = tuple(dict.fromkeys(paths))
    more = [f"{len(different) - MOST} more"] if len(different) > MOST else []
    return ", ".join([*map(_path, different[:MOST]), *more])


def _path(path: str) -> str:
    return printable(shortened(path))


def _done(verdict: Verdict, policy: Policy) -> str:
    match action(verdict, policy):
        case Action.EVICT:
            reason = policy.reason(verdict)
            return f"evict: the next target is asked; this one is out for the session ({reason})"
        case Action.SKIP:
            return "skip: the next target is asked; this one is out for this turn only"
        case Action.SURFACE:
            return "surface: the caller gets this error; no other target is asked"


def _again(verdict: Verdict, target: Target) -> str:
    """Whether the target is asked once more, and when: as its own probe decides."""
    probe = Probe(target, injected=frozenset(target.extra_body))
    injected = ", ".join(map(printable, sorted(probe.injected)))
    probe.refused(verdict)
    if probe.state == ProbeState.CORRECTING:
        return f"once, without what extra_body adds: {injected}"
    if probe.misconfigured and target.on_parameter_reject == "report":
        return f"no: it may be what extra_body adds ({injected}), which the error tells the caller"
    wait = f"{probe.wait:g} s"
    asked = verdict.retry_after is not None
    if probe.state == ProbeState.WAITING:
        most = f"at most {target.max_retries} time{'s' * (target.max_retries != 1)}"
        return f"after {wait}, as it asks, {most}" if asked else f"after about {wait}, {most}"
    if not verdict.retryable:
        return "no: asking this target again would not help"
    if not target.max_retries:
        return "no: max_retries is 0"
    return f"no: it asks to wait {wait}; max_retry_after_secs is {target.max_retry_after_secs:g}"


def _shown(text: str) -> str:
    return printable(_REDACTOR.clean(text))
