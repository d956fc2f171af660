"""How one failed reply was read, and what a router does with it, in words for a person."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final

from turnout.engine.classify import (
    UNRECOGNISED,
    Verdict,
    codes,
)
from turnout.engine.classify.text import folded, unquoted
from turnout.engine.classify.verdict import Feature
from turnout.engine.policy import FORBIDDEN, Action, Policy, case_of
from turnout.engine.printable import printable, printable_json
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

_EXAMPLE: Final = 60
"""Characters of a message that an example rule looks for."""

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


def example(verdict: Verdict) -> str:
    """A rule of a deployment file that would know this reply, for its reader to finish."""
    code, said = _REDACTOR.clean(verdict.code), _telling(verdict.message)
    if codes.normal(code) not in ("", str(verdict.status)):
        known_by = f"code = {_toml(code)}"
    elif said:
        known_by = f"contains = {_toml(said)}"
    else:
        known_by = "# this reply says no more, and so the rule takes every reply with its status"
    return "\n".join(
        (
            "[[llm_clients.NAME.errors]]",
            f"status = {verdict.status}",
            known_by,
            f'kind = "{Kind.CAPABILITY}"  # or what it is',
        )
    )


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


def _telling(message: str) -> str:
    """The beginning of a message, up to the end of a word; empty where it is not to be shown as it came."""
    said = _REDACTOR.clean(message)
    said = said if len(said) <= _EXAMPLE else said[:_EXAMPLE].rpartition(" ")[0]
    return said if folded(said) in folded(unquoted(message)) else ""


def _toml(text: str) -> str:
    return printable_json(json.dumps(text, ensure_ascii=False))
