"""The keys that the tables of a scenario file may have, the type of each, and what its value may be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, get_args

from turnout.engine.audit import WhyNotTried, WhyPassedOver
from turnout.engine.classify.verdict import Feature
from turnout.engine.deployment.tables import Keys, Table
from turnout.engine.targets import MAX_SECS
from turnout.engine.testing.doubles import End
from turnout.machines.vocabulary import ErrorKind, RoutingFallbackReason, TurnState

TOP: Final[Keys] = {
    "name": str,
    "about": str,
    "memory": Table,
    "route": Table,
    "client": Table,
    "targets": Table,
    "turns": object,
}
SHARED: Final[Keys] = {key: TOP[key] for key in ("route", "client", "targets")}
"""The tables that a `reload` may change."""

TURN: Final[Keys] = {
    "session": str,
    "agent": str,
    "final": bool,
    "pin": str,
    "stream": bool,
    "size": int,
    "request": Mapping[str, object],
    "headers": Mapping[str, str],
    "at": float,
    "repeat": int,
    "cancel_at": float,
    "reload": Table,
    "restart": bool,
    "restore": str,
    "forget": str,
    "upstream": Table,
    "expect": Table,
}

EXPECT: Final[Keys] = {
    "probes": tuple[str, ...],
    "attempts": tuple[str, ...],
    "passed_over": tuple[str, ...],
    "state": str,
    "served_by": str,
    "reasons": Mapping[str, str],
    "kinds": Mapping[str, str],
    "status": int,
    "code": str,
    "evicted": tuple[str, ...],
    "slept": float,
    "took": float,
    "not_tried": Mapping[str, str],
    "passed_over_for": Mapping[str, str],
    "content_events": int,
    "interrupted": bool,
    "stripped": Table,
}

_LONGEST: Final = int(MAX_SECS)
RANGES: Final[Mapping[str, tuple[int, int]]] = {
    "repeat": (1, 1000),
    "size": (0, 10**9),
    "content_events": (0, 10**9),
    "at": (0, _LONGEST),
    "cancel_at": (0, _LONGEST),
    "after": (0, _LONGEST),
    "every": (0, _LONGEST),
    "slept": (0, _LONGEST),
    "took": (0, _LONGEST),
    "status": (200, 599),
}

WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "kind": tuple(ErrorKind),
    "feature": tuple(Feature),
    "end": get_args(End),
    "state": (TurnState.SERVED, TurnState.FAILED),
    "reasons": tuple(RoutingFallbackReason),
    "kinds": tuple(ErrorKind),
    "not_tried": tuple(WhyNotTried),
    "passed_over_for": tuple(WhyPassedOver),
}
"""The words that the value of a key, or each value of its table, may be."""

HAVE_TO_BE_TRUE: Final = ("reset", "hang")
