"""A route's policy: which kinds of error lead to another target, and which are remembered.

The table below is the default of every route and the only place where a kind of error
meets a reason. A route's `on` changes entries of it, within what `ALLOWED` permits. The
policy in force is part of every audit record and is drawn with the machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from turnout.engine.classify.verdict import UNRECOGNISED, Verdict
from turnout.engine.errors import ConfigurationError
from turnout.engine.printable import did_you_mean, named
from turnout.machines.vocabulary import ErrorKind as Kind
from turnout.machines.vocabulary import RoutingFallbackReason as Reason


class Action(StrEnum):
    """What a policy does on a kind of error."""

    EVICT = "evict"
    """Ask the next target, and remember for the session that this one is out."""
    SKIP = "skip"
    """Ask the next target; this one is asked again in the next turn."""
    SURFACE = "surface"
    """Give the caller the upstream's own error at once."""


FORBIDDEN: Final = "auth_403"
"""`auth` with a 403: by default another target is asked, since the account may be fine elsewhere."""

DEFAULT: Final[Mapping[str, Action]] = {
    Kind.CONTEXT_WINDOW: Action.EVICT,
    Kind.CAPABILITY: Action.EVICT,
    Kind.UNAVAILABLE: Action.SKIP,
    Kind.QUOTA_OR_BILLING: Action.SKIP,
    FORBIDDEN: Action.SKIP,
    Kind.AUTH: Action.SURFACE,
    Kind.MODEL_NOT_FOUND: Action.SURFACE,
    Kind.CONTENT_POLICY: Action.SURFACE,
    Kind.PARAMETER_REJECT: Action.SURFACE,
    UNRECOGNISED: Action.SURFACE,
    Kind.CALLER_ERROR: Action.SURFACE,
}

EVICTED_AS: Final[Mapping[str, Reason]] = {
    Kind.CONTEXT_WINDOW: Reason.CONTEXT_WINDOW,
    Kind.CAPABILITY: Reason.CAPABILITY,
    Kind.MODEL_NOT_FOUND: Reason.CAPABILITY,
}
"""Under which reason an evicting kind is remembered. The other kinds cannot evict."""

_NOT_EVICTING: Final[Mapping[Action, Reason | None]] = {
    Action.SKIP: Reason.UNAVAILABLE,
    Action.SURFACE: None,
}

_ANY: Final = (Action.EVICT, Action.SKIP, Action.SURFACE)
_NOT_REMEMBERED: Final = (Action.SKIP, Action.SURFACE)

ALLOWED: Final[Mapping[str, tuple[Action, ...]]] = {
    Kind.CONTEXT_WINDOW: _ANY,
    Kind.CAPABILITY: _ANY,
    Kind.MODEL_NOT_FOUND: _ANY,
    Kind.UNAVAILABLE: _NOT_REMEMBERED,
    Kind.QUOTA_OR_BILLING: _NOT_REMEMBERED,
    Kind.AUTH: _NOT_REMEMBERED,
    Kind.CONTENT_POLICY: _NOT_REMEMBERED,
    Kind.PARAMETER_REJECT: _NOT_REMEMBERED,
    UNRECOGNISED: _NOT_REMEMBERED,
    Kind.CALLER_ERROR: (Action.SURFACE,),
}
"""The keys that `on` may hold, and the values that each may take."""


class Policy:
    """The actions of one route, as a table that is looked up.

    Args:
        on: the entries that differ from `DEFAULT`; `auth` covers its 403 as well.

    Raises:
        ConfigurationError: a key or a value that `ALLOWED` does not have.
    """

    __slots__ = ("_reasons", "remembered", "table")

    def __init__(self, on: Mapping[str, str] | None = None) -> None:
        if on is not None and not isinstance(on, Mapping):
            raise ConfigurationError(f"policy: on is of type {type(on).__name__}; give a dict")
        if wrong := list(mistakes(on or {})):
            raise ConfigurationError("policy: " + "; ".join(f"on.{key}: {what}" for key, what in wrong))
        table = dict(DEFAULT) | {key: Action(value) for key, value in (on or {}).items()}
        if on and Kind.AUTH in on:
            table[FORBIDDEN] = table[Kind.AUTH]
        self._set(table)

    def _set(self, table: Mapping[str, Action]) -> None:
        self.table = {str(case): action for case, action in table.items()}
        self._reasons: Mapping[str, Reason | None] = {
            case: EVICTED_AS[case] if action is Action.EVICT else _NOT_EVICTING[action]
            for case, action in self.table.items()
        }
        self.remembered = frozenset(
            reason for case, reason in EVICTED_AS.items() if self.table[case] is Action.EVICT
        )
        """The reasons that this policy evicts for: a route honours no eviction for another."""

    @classmethod
    def of_table(cls, table: Mapping[str, str]) -> Policy:
        """A policy from a whole table, as records hold one.

        Raises:
            ConfigurationError: an entry that evicts for a kind which says nothing lasting of a target.
        """
        if missing := DEFAULT.keys() - table.keys():
            raise ConfigurationError(f"policy: the table has no row for {', '.join(sorted(missing))}")
        policy = cls.__new__(cls)
        try:
            policy._set({case: Action(action) for case, action in table.items()})
        except KeyError as case:
            raise ConfigurationError(
                f"policy: {case} cannot evict: it says nothing of the next turn"
            ) from None
        return policy

    def reason(self, verdict: Verdict) -> Reason | None:
        """Why the turn leaves the target, or None: the caller gets the upstream's own error."""
        return self._reasons[case_of(verdict)]

    def __repr__(self) -> str:
        changed = {case: str(a) for case, a in self.table.items() if a is not DEFAULT[case]}
        return f"Policy({changed})"


# a member is looked up in its enum each time it is named
_AUTH: Final = Kind.AUTH
_CALLER_ERROR: Final = Kind.CALLER_ERROR


def case_of(verdict: Verdict) -> str:
    """The row of the policy table that a verdict falls under."""
    if verdict.kind is _AUTH and verdict.error_status == 403:
        return FORBIDDEN
    if verdict.kind is _CALLER_ERROR and verdict.evidence.rule == UNRECOGNISED:
        return UNRECOGNISED
    return verdict.kind


def mistakes(on: Mapping[str, object]) -> list[tuple[str, str]]:
    """Every entry of an `on` table that cannot be used: its key, and what would be right."""
    wrong = []
    for key, value in on.items():
        if key not in ALLOWED:
            hint = did_you_mean(str(key), ALLOWED)
            wrong.append((key, f"is no kind of error that a policy can change{hint}"))
        elif value not in ALLOWED[key]:
            wrong.append((key, f"is {named(value)}; give one of {', '.join(ALLOWED[key])}"))
    return wrong


DEFAULT_POLICY: Final = Policy()
