"""What one event of a stream holds."""

from enum import StrEnum


class Sign(StrEnum):
    """What a router must know of an event: whether it commits the stream, ends it, or breaks it."""

    NOTHING = "nothing"
    """None of the answer: a frame, a role, a comment, a keep-alive, a count of tokens."""
    CONTENT = "content"
    """Output: a non-empty piece of text, reasoning, refusal, sound or picture; a tool call."""
    LAST = "last"
    """The format's own end; nothing follows it."""
    ERROR = "error"
    """An error in the place of what was still to come."""
