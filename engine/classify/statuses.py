"""What a status says where nothing else does: only a prior, since providers send most kinds under most."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from turnout.machines.vocabulary import ErrorKind as Kind

DECIDING: Final[Mapping[int, Kind]] = {
    401: Kind.AUTH,
    402: Kind.QUOTA_OR_BILLING,
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
    | {"the", "this", "requested", "was", "on", "no", "such", "not", "found", "v1", "chat", "completions"}
)
"""A 404 of such words alone names nothing: at the path of its own format the target answers no request."""


def prior(status: int) -> Kind:
    """The kind of a status whose reply tells nothing else."""
    if status in PRIOR:
        return PRIOR[status]
    return Kind.CALLER_ERROR if 400 <= status < 500 else Kind.UNAVAILABLE
