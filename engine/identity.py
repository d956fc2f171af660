"""Who asks: session, agent and request id, from arguments or from HTTP headers.

The header names are those that agents and gateways send today; each list is in the order
of precedence and the first value that is not empty wins. Arguments win over headers. The
namespace is the embedder's and is never read from a header.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import Struct

from turnout.engine.audit import Caller
from turnout.engine.context import Identity

CODEX: Final = "x-codex-turn-metadata"
"""A header that holds a JSON object: `name/key` below is that key of it."""

SESSION: Final = (
    "x-turnout-session-id",
    "x-switchyard-session-id",
    "x-claude-code-session-id",
    "x-nemo-relay-session-id",
    "x-session-id",
    f"{CODEX}/session_id",
    "session-id",
)
AGENT: Final = (
    "x-turnout-agent-id",
    "x-switchyard-agent-id",
    "x-claude-code-agent-id",
    "x-nemo-relay-subagent-id",
    "x-dynamo-session-id",
    f"{CODEX}/thread_id",
    "thread-id",
)
IS_SUBAGENT: Final = ("x-turnout-is-subagent", "x-switchyard-is-subagent")
"""Decide either way."""
SUBAGENT_SIGNS: Final = ("x-claude-code-agent-id", "x-openai-subagent", f"{CODEX}/subagent_kind")
"""Where none of the former decides, any of these makes the request a sub-agent's."""
FINAL: Final = ("x-turnout-session-final", "x-switchyard-session-final", "x-dynamo-session-final")
REQUEST: Final = (
    "x-turnout-request-id",
    "x-switchyard-request-id",
    "x-request-id",
    "x-client-request-id",
)

_TRUE: Final = ("1", "true", "yes", "on")
_FALSE: Final = ("0", "false", "no", "off")


class Asking(Struct, frozen=True):
    """Who asks, and whose memory that is: none without a session, or for a sub-agent without an agent id."""

    caller: Caller
    identity: Identity | None
    request_id: str


def identify(
    headers: Mapping[str, str],
    *,
    namespace: object = "",
    session: object = None,
    agent: object = None,
    subagent: bool | None = None,
    final: bool = False,
    request_id: object = None,
) -> Asking:
    """Read who asks. Ids are taken as `as_id` writes them.

    Args:
        headers: the caller's, names in lower case.
        agent: makes the turn a sub-agent's, unless `subagent` says otherwise.
    """
    whose = as_id(session) or as_id(_first(headers, SESSION))
    if subagent is None:
        subagent = bool(as_id(agent)) or _is_subagent(headers)
    which = (as_id(agent) or as_id(_first(headers, AGENT))) if subagent else ""
    owner = Identity(as_id(namespace), whose, which)
    remembered = bool(whose) and (bool(which) or not subagent)
    last = final or _truth(_first(headers, FINAL)) is True
    return Asking(
        Caller(*owner, subagent, last, remembered),
        owner if remembered else None,
        as_id(request_id) or as_id(_first(headers, REQUEST)),
    )


def _is_subagent(headers: Mapping[str, str]) -> bool:
    decided = _truth(_first(headers, IS_SUBAGENT))
    return bool(_first(headers, SUBAGENT_SIGNS)) if decided is None else decided


def _first(headers: Mapping[str, str], names: tuple[str, ...]) -> str:
    for name in names if headers else ():
        if value := _value(headers, name).strip():
            return value
    return ""


def _value(headers: Mapping[str, str], name: str) -> str:
    header, _, key = name.partition("/")
    value = headers.get(header, "")
    if not key or not value:
        return value
    try:
        metadata = msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return ""
    inner = metadata.get(key) if isinstance(metadata, dict) else None
    return inner if isinstance(inner, str) else ""


def as_id(given: object) -> str:
    """An id as memories and records keep it: UUIDs and numbers as text, what is no Unicode as its digest."""
    text = "" if given is None else str(given)
    if text.isascii() or is_unicode(text):
        return text
    # halves of characters, which nothing can write: named as every long id is
    return f"sha256:{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def is_unicode(text: str) -> bool:
    """Whether a text can be written: it holds no half of a character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _truth(value: str) -> bool | None:
    value = value.lower()
    return True if value in _TRUE else False if value in _FALSE else None
