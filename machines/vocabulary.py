"""The words that everything above is keyed on.

Every member is a string and its value never changes: values are written into
audit records, stored contexts, deployment files and diagrams.
"""

from enum import StrEnum


class TurnoutError(Exception):
    """The root of the one error tree; `engine/errors.py` draws all of it."""


class RoutingFallbackReason(StrEnum):
    """Why a turn leaves a target. The values are the triggers that leave `classified` for another."""

    CONTEXT_WINDOW = "context_window"
    """The conversation no longer fits the target. Remembered for the session."""
    CAPABILITY = "capability"
    """The target cannot serve this kind of request at all. Remembered for the session."""
    UNAVAILABLE = "unavailable"
    """The target could not answer now. Says nothing about the next turn, so never remembered."""


class ErrorKind(StrEnum):
    """What a failed attempt says. A route's policy turns a kind into a reason, or into none."""

    CONTEXT_WINDOW = "context_window"
    CAPABILITY = "capability"
    UNAVAILABLE = "unavailable"
    QUOTA_OR_BILLING = "quota_or_billing"
    AUTH = "auth"
    MODEL_NOT_FOUND = "model_not_found"
    CONTENT_POLICY = "content_policy"
    PARAMETER_REJECT = "parameter_reject"
    CALLER_ERROR = "caller_error"


class TurnState(StrEnum):
    """The states of a turn, one request of a session."""

    PROBING = "probing"
    CLASSIFIED = "classified"
    EVICTED = "evicted"
    SKIPPED = "skipped"
    SERVED = "served"
    FAILED = "failed"


class Standing(StrEnum):
    """A target's state for one identity: the part of a machine that outlives the turn."""

    ELIGIBLE = "eligible"
    EVICTED = "evicted"


class ProbeState(StrEnum):
    """The states of a probe, asking one target within a turn."""

    SENDING = "sending"
    WAITING = "waiting"
    CORRECTING = "correcting"
    SETTLED = "settled"


class HealthState(StrEnum):
    """The states of a target's health, which all sessions share."""

    CLOSED = "closed"
    """It is asked as ever."""
    OPEN = "open"
    """It cools: nobody asks it."""
    HALF_OPEN = "half_open"
    """One turn asks it, to see whether it is back."""
