"""The order in which the evidence is asked. The first that tells decides."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from turnout.engine.classify import codes, nouns, operator, statuses, wordings
from turnout.engine.classify.codes import Meaning
from turnout.engine.classify.operator import ErrorRule
from turnout.engine.classify.reply import Reply
from turnout.engine.classify.retry_after import retry_after
from turnout.engine.classify.unwrap import Finding, findings
from turnout.engine.classify.verdict import UNRECOGNISED, Evidence, Verdict
from turnout.engine.classify.wordings import Wording
from turnout.machines.vocabulary import ErrorKind as Kind


class _Case(Struct, frozen=True):
    """A reply, made ready to be asked."""

    status: int
    """The innermost status that is known, 0 for an error in a 200 that states none."""
    stated_in: str
    findings: tuple[Finding, ...]
    """The innermost first."""
    said: tuple[tuple[Finding, str], ...]
    """Every sentence, with what said it."""


class _Found(NamedTuple):
    """Evidence that decides."""

    kind: Kind
    rule: str
    field: str
    features: tuple[str, ...] = ()
    param: str = ""
    matched: tuple[str, ...] = ()


_Stage = Callable[[_Case], _Found | None]


def classify(reply: Reply, *, now: float, rules: Sequence[ErrorRule] = ()) -> Verdict:
    """Read a reply that is no complete answer. Total: any status, headers and bytes have a verdict.

    Args:
        reply: what came back.
        now: seconds since 1970, against which a `retry-after` date is read.
        rules: the operator's own, asked before ours.
    """
    case = _case(reply)
    theirs = operator.decided(rules, reply.status, case.findings)
    ours = (told for stage in _STAGES if (told := stage(case)))
    found = theirs or next(ours, None) or _prior(case, reply.status)
    return Verdict(
        kind=found.kind,
        evidence=Evidence(found.rule, found.field, found.matched),
        status=reply.status,
        code=_first(case, "code"),
        features=found.features,
        param=_first(case, "param") or found.param,
        message=_first(case, "message"),
        retryable=found.kind is Kind.UNAVAILABLE and _waiting_helps(case, reply.status),
        retry_after=retry_after(reply.headers, now=now),
    )


def unreadable(status: int, why: str) -> Verdict:
    """The verdict on an answer that is not complete, not readable or too large: it says nothing of the turn.

    Args:
        status: its HTTP status.
        why: what is wrong with it, in words of ours.
    """
    return Verdict(
        kind=Kind.UNAVAILABLE,
        evidence=Evidence("unreadable", "body"),
        status=status,
        message=why,
    )


def _case(reply: Reply) -> _Case:
    found = findings(reply.body)
    said = tuple((finding, sentence) for finding in found for sentence in finding.sentences)
    for finding in found:
        if finding.status is not None:
            return _Case(finding.status, finding.at("code"), found, said)
    status = reply.status if 300 <= reply.status <= 599 else 0
    return _Case(status, "status", found, said)


def _first(case: _Case, name: str) -> str:
    """The innermost finding's value of this field."""
    return next((value for finding in case.findings if (value := getattr(finding, name))), "")


_NEVER_FITS: Final = re.compile(r"\b(?:request|input|prompt)s? (?:is )?too large\b|\bmust be reduced\b")


def _waiting_helps(case: _Case, http_status: int) -> bool:
    redirected = 300 <= http_status < 400
    return not redirected and not any(_NEVER_FITS.search(sentence) for _, sentence in case.said)


# -- stages: each asks one table


def _by_code(table: Mapping[str, Meaning]) -> _Stage:
    def stage(case: _Case) -> _Found | None:
        for finding in case.findings:
            for field, code in (("code", finding.code), *(("type", name) for name in finding.names)):
                if meaning := table.get(codes.normal(code)):
                    return _found(meaning, codes.normal(code), finding.at(field))
        return None

    return stage


def _by_wording(rows: tuple[Wording, ...]) -> _Stage:
    def stage(case: _Case) -> _Found | None:
        for row in rows:
            if row.kind is Kind.CALLER_ERROR and case.status >= 500:
                continue  # a server that fails while it reads a good image says the same
            for finding, sentence in case.said:
                if row.matches(sentence):
                    return _worded(row, finding, sentence)
        return None

    return stage


def _worded(row: Wording, finding: Finding, sentence: str) -> _Found:
    named = nouns.features(sentence) if row.kind is Kind.CAPABILITY else ()
    param = nouns.setting(sentence) if row.kind is Kind.PARAMETER_REJECT else ""
    return _Found(row.kind, row.rule, finding.path or "message", named, param)


def _by_status(case: _Case) -> _Found | None:
    kind = statuses.DECIDING.get(case.status)
    return _Found(kind, f"status_{case.status}", case.stated_in) if kind else None


def _by_coded_param(case: _Case) -> _Found | None:
    """A code that says what is wrong with the parameter beside it."""
    for finding in case.findings:
        said = {codes.normal(code) for code in (finding.code, *finding.names)}
        if codes.TOO_LONG & said and (meaning := codes.too_long(finding.param)):
            return _found(meaning, "too_long", finding.at("param"), finding.param)
        if codes.UNSUPPORTED & said and (meaning := _unsupported(case, finding.param)):
            return _found(meaning, "unsupported", finding.at("param"), finding.param)
    return None


def _by_named_param(case: _Case) -> _Found | None:
    """A sentence that names the parameter and says what is wrong with it."""
    for finding, sentence in case.said:
        if named := wordings.TOO_LONG_NAME.search(sentence):
            meaning, rule = codes.too_long(named[1]), "too_long"
        elif named := wordings.UNSUPPORTED_NAME.search(sentence):
            meaning, rule = _unsupported(case, named[1].rstrip(".")), "unsupported"
        else:
            continue
        if meaning:
            return _found(meaning, rule, finding.path or "message", named[1])
    return None


def _unsupported(case: _Case, param: str) -> Meaning | None:
    if any(wordings.RENAMED.search(sentence) for _, sentence in case.said):
        return Meaning(Kind.PARAMETER_REJECT)
    return codes.refused(param)


def _found(meaning: Meaning, rule: str, field: str, param: str = "") -> _Found:
    return _Found(meaning.kind, rule, field, tuple(feature.value for feature in meaning.features), param)


_STAGES: Final[tuple[_Stage, ...]] = (
    _by_wording(wordings.LONG_CONTEXT),
    _by_code(codes.VETOES),
    _by_wording(wordings.VETOES),
    _by_status,
    _by_code(codes.OVERFLOWS),
    _by_wording(wordings.OVERFLOWS),
    _by_code(codes.REFUSALS),
    _by_coded_param,
    _by_named_param,
    _by_wording(wordings.REFUSALS),
    _by_code(codes.MODELS),
    _by_wording(wordings.MODELS),
    _by_code(codes.LOAD),
    _by_wording(wordings.LOAD),
)
"""Vetoes, then the overflow, then what was refused, then the model, then load."""


def _prior(case: _Case, http_status: int) -> _Found:
    """What the status says where nothing else does."""
    status, field = (case.status, case.stated_in) if case.status else _named_status(case)
    if status == 404 and (rule := _not_found(case)):
        return _Found(Kind.MODEL_NOT_FOUND, rule, field)
    kind = statuses.prior(status or http_status)
    rule = UNRECOGNISED if kind is Kind.CALLER_ERROR else f"status_{status or http_status}"
    return _Found(kind, rule, field)


def _named_status(case: _Case) -> tuple[int, str]:
    for finding in case.findings:
        for name in (finding.code, *finding.names):
            if status := statuses.NAMED.get(codes.normal(name)):
                return status, finding.at("type")
    return 0, "status"


def _not_found(case: _Case) -> str:
    """What makes a 404 one of the model: its name, or that it names nothing at all."""
    spoken = {word for _, sentence in case.said for word in re.findall(r"\w+", sentence)}
    if "model" in spoken:
        return "model_404"
    return "bare_404" if spoken <= statuses.BARE_404 else ""
