"""What a status says where nothing else does: only a prior, since providers send most kinds under most."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from turnout.engine.classify.case import Case, Decided
from turnout.engine.classify.verdict import UNRECOGNISED
from turnout.machines.vocabulary import ErrorKind as Kind

DECIDING: Final[Mapping[int, Kind]] = {
    401: Kind.AUTH,
    402: Kind.QUOTA_OR_BILLING,
    415: Kind.CALLER_ERROR,
    429: Kind.UNAVAILABLE,
}
"""Statuses that veto an overflow or a capability, whatever the words."""

PRIOR: Final[Mapping[int, Kind]] = {
    **DECIDING,
    403: Kind.AUTH,
    408: Kind.UNAVAILABLE,
    413: Kind.CONTEXT_WINDOW,
    425: Kind.UNAVAILABLE,
    499: Kind.UNAVAILABLE,
}

NAMED: Final[Mapping[str, int]] = {
    "invalidrequesterror": 400,
    "badrequesterror": 400,
    "invalidargument": 400,
    "validationerror": 400,
    "permissionerror": 403,
    "permissiondenied": 403,
    "notfounderror": 404,
    "notfound": 404,
    "servererror": 500,
    "internalservererror": 500,
    "apierror": 500,
}
"""Codes and types that say no more than a status does, for errors that came without one."""

_WORD: Final = re.compile(r"\w+")
BARE_404: Final = frozenset(
    {
        "404",
        "error",
        "http",
        "page",
        "resource",
        "path",
        "url",
        "route",
        "server",
        "endpoint",
        "method",
        "post",
    }
    | {"matched", "with", "those", "values", "default", "backend"}
    | {"the", "this", "requested", "was", "on", "no", "such", "not", "found", "v1", "chat", "completions"}
)
"""A 404 of such words alone names nothing: at the path of its own format the target answers no request."""


def deciding(case: Case) -> Decided | None:
    """What a status says whatever the words."""
    kind = DECIDING.get(case.status)
    return Decided(kind, f"status_{case.status}", case.stated_in) if kind else None


def prior(case: Case, http_status: int) -> Decided:
    """What the status says where nothing else does.

    Args:
        case: the reply.
        http_status: the status that it came with.
    """
    status, place = (case.status, case.stated_in) if case.status else _named(case)
    if status == 404 and (rule := _not_found(case)):
        return Decided(Kind.MODEL_NOT_FOUND, rule, place)
    if not status and http_status < 300:
        return Decided(Kind.UNAVAILABLE, UNRECOGNISED, place)
    status = status or http_status
    kind = PRIOR.get(status) or (Kind.CALLER_ERROR if 400 <= status < 500 else Kind.UNAVAILABLE)
    return Decided(kind, UNRECOGNISED if kind is Kind.CALLER_ERROR else f"status_{status}", place)


def _named(case: Case) -> tuple[int, str]:
    """The status that a name says no more than, and where it stands."""
    for finding, field, _, code in case.codes:
        if status := NAMED.get(code):
            return status, finding.at(field)
    return 0, "status"


def _not_found(case: Case) -> str:
    """What makes a 404 one of the model: its name, or that it names nothing at all."""
    said = [said for finding in case.findings for said in finding.sentences]
    spoken = [frozenset(_WORD.findall(sentence.lower())) for sentence in said]
    if any(words & {"model", "models"} for words in spoken):
        return "model_404"
    bare = [words for words in spoken if words <= BARE_404]
    named_so = any({"not", "found"} <= words for words in bare)
    return "bare_404" if named_so or len(bare) == len(spoken) else ""
