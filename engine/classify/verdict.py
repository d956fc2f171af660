"""What a failed attempt was read as."""

from enum import StrEnum
from typing import Final

from msgspec import Struct

from turnout.machines.vocabulary import ErrorKind

UNRECOGNISED = "unrecognised"
"""The evidence of a 4xx that no rule knows: a `caller_error` that a policy may treat on its own."""

UNREADABLE = "unreadable"
"""The evidence of an answer that is none: not complete, not readable or too large."""


class Feature(StrEnum):
    """What a capability reject refused, and what a turn may need."""

    IMAGE = "image"
    AUDIO = "audio"
    VIDEO = "video"
    FILE = "file"
    TOOLS = "tools"
    TOOL_CHOICE = "tool_choice"
    TOOL_SCHEMA = "tool_schema"
    STRUCTURED_OUTPUT = "structured_output"
    STREAMING = "streaming"
    REASONING = "reasoning"
    ROLE = "role"
    ENDPOINT = "endpoint"
    OTHER = "other"
    """The reply does not tell what it refused."""


ALWAYS: Final = frozenset({Feature.ENDPOINT.value, Feature.ROLE.value})
"""What every request needs: each goes to an endpoint, and has somebody speak."""


class Evidence(Struct, frozen=True, omit_defaults=True):
    """Why a reply was read as it was, so that a wrong reading can be argued with."""

    rule: str
    """The name of the rule that decided."""
    field: str = ""
    """Where it looked: `status`, `transport`, or the path of a field in the reply's body."""
    matched: tuple[str, ...] = ()
    """The entries of the tables that matched, each `table: entry`; never text of the reply."""


class Verdict(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The reading of one failed attempt. Holds no credential and no text of the request."""

    kind: ErrorKind
    evidence: Evidence
    status: int | None = None
    """The HTTP status, where the upstream sent one."""
    code: str = ""
    """The provider's own error code, as sent."""
    features: tuple[str, ...] = ()
    """Of a capability reject: what was refused, sorted (`Feature` values)."""
    param: str = ""
    """The request field that the reply names."""
    message: str = ""
    """The upstream's diagnostic message; once it leaves the upstream's module, redacted and cut."""
    retryable: bool = False
    """Whether asking the same target again within this turn can help."""
    retry_after: float | None = None
    """Seconds that the upstream asks to wait."""
    timed_out: bool = False
    """The attempt ran into one of its bounds."""
    stale: bool = False
    """A connection that was kept broke before any byte of a reply: a fresh one deserves another try."""
    request_id: str = ""
    """The upstream's own id of the request."""

    @property
    def unreadable(self) -> bool:
        """Whether what came as an answer was none."""
        return self.evidence.rule == UNREADABLE

    @property
    def error_status(self) -> int | None:
        """The HTTP status; where that is none of an error (a 200), the error's own numeric code."""
        if self.status is None or 400 <= self.status <= 599:
            return self.status
        stated = (
            int(self.code) if self.code.isascii() and self.code.isdecimal() and len(self.code) == 3 else 0
        )
        return stated if 400 <= stated <= 599 else self.status
