"""Evictions and identities as keys, fields and values of Redis.

All keys of a namespace hold the same hash tag, so in a cluster they are in one slot and one
script can reach them:

    turnout:{n:NAMESPACE}:i:IDENTITY      hash: `use`, the last one; `habits`; else an eviction for each field
    turnout:{n:NAMESPACE}:identities      sorted set, all of score 0: who is there, in order
    turnout:{n:NAMESPACE}:uses            sorted set: identities by last use
    turnout:{n:NAMESPACE}:sessions        sorted set: sessions by last use
    turnout:{n:NAMESPACE}:epochs          hash: of each target that was restored everywhere `EPOCH SINCE`
    turnout:{n:NAMESPACE}:l:TARGET        string: the keys that a target has refused
    turnout:{n:NAMESPACE}:h:TARGET        string: how a target's health is

A namespace that is not plain ASCII is there by its digest: `{h:…}`. A session is `LENGTH:ID:`, and
its identities are that and the agent. An eviction's field is its reason and, as JSON, its target and
fingerprint; its value, `SCHEMA EPOCH JSON`. Habits have that form too, and no epoch.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import sha256
from typing import Final, NamedTuple

from turnout.engine.context import Eviction, Identity
from turnout.engine.habits import Habits
from turnout.engine.memory.ids import kept_id, shown_id
from turnout.engine.memory.values import eviction_in, habits_in, json_of

SCHEMA: Final = 1
"""Of an eviction."""
HABITS_SCHEMA: Final = 2
"""Of habits: a version that does not know them takes them for an eviction of a newer one."""
USE: Final = b"use"
HABITS: Final = b"habits"

_HEAD: Final = re.compile(rb"(\d{1,9}) (\d{1,19}) ")
_PLAIN: Final = re.compile(r"[A-Za-z0-9._/:-]{0,64}")


class Keys:
    """The keys of one namespace."""

    def __init__(self, namespace: str) -> None:
        if _PLAIN.fullmatch(namespace):
            tag = f"n:{namespace}"
        else:
            tag = f"h:{sha256(namespace.encode('utf-8', 'surrogatepass')).hexdigest()}"
        self._prefix = f"turnout:{{{tag}}}:".encode()
        self.identities = self._prefix + b"identities"
        self.uses = self._prefix + b"uses"
        self.sessions = self._prefix + b"sessions"
        self.epochs = self._prefix + b"epochs"

    def identity(self, member: bytes) -> bytes:
        return self._prefix + b"i:" + member

    def learnt(self, target: str, fingerprint: str) -> bytes:
        return self._prefix + b"l:" + target_of(target, fingerprint)

    def health(self, target: str, fingerprint: str) -> bytes:
        return self._prefix + b"h:" + target_of(target, fingerprint)


keys_of: Final = lru_cache(maxsize=1024)(Keys)


class Row(NamedTuple):
    """A field of an identity's hash."""

    field: bytes
    value: bytes
    eviction: Eviction | None
    """None: nobody here can say what it is."""
    standing: bool
    """Whether no new epoch of its target has overtaken it."""
    newer: bool = False
    """Whether a newer version has written it, which may have said more than is understood here."""
    damage: str = ""
    """Why it cannot be understood, if no newer version has written it."""
    habits: Habits | None = None
    """What it is, if it is no eviction."""


class Stored(NamedTuple):
    """What is stored of one identity."""

    member: bytes
    use: bytes
    """The last one; empty if it is not there."""
    rows: tuple[Row, ...]

    @property
    def last_use(self) -> float:
        """In seconds since 1970; long ago, if that cannot be read."""
        try:
            return float(self.use)
        except ValueError:
            return float("-inf")


def session_of(session: str) -> bytes:
    """A session as it stands in an index."""
    kept = _bytes_of(session)
    return b"%d:%b:" % (len(kept), kept)


def member_of(identity: Identity) -> tuple[bytes, bytes]:
    """An identity, and its session, as they stand in an index."""
    session = session_of(identity.session)
    return session + _bytes_of(identity.agent), session


def session_in(member: bytes) -> bytes:
    """The session of an identity, as it stands in an index.

    Raises:
        ValueError: that is no identity.
    """
    length, colon, _ = member.partition(b":")
    end = len(length) + 1 + int(length) + 1
    if not colon or member[end - 1 : end] != b":":
        raise ValueError(f"{member!r} is no identity")
    return member[:end]


def identity_in(namespace: str, member: bytes) -> Identity:
    """Whom a member of an index means."""
    session = session_in(member)
    return Identity(
        namespace, _text_of(session[session.index(b":") + 1 : -1]), _text_of(member[len(session) :])
    )


def past(session: bytes) -> bytes:
    """What comes behind the last identity of a session, in their order."""
    return session[:-1] + b";"


def target_of(target: str, fingerprint: str) -> bytes:
    return json_of((target, fingerprint))


def field_of(eviction: Eviction) -> bytes:
    return f"{eviction.reason} ".encode() + target_of(eviction.target, eviction.fingerprint)


def row_of(field: bytes, value: bytes, epochs: dict[bytes, bytes] | None = None) -> Row:
    """What a field and its value say.

    Args:
        epochs: of the targets; None if the value is known to stand.
    """
    if (head := _HEAD.match(value)) is None:
        return Row(field, value, None, standing=True, damage="it does not begin as it should")
    epoch, _, since = (epochs or {}).get(field.partition(b" ")[2], b"0").partition(b" ")
    standing = epochs is None or epoch == head[2]
    newer = int(head[1]) > (HABITS_SCHEMA if field == HABITS else SCHEMA)
    try:
        if field == HABITS:
            return Row(field, value, None, True, newer, habits=habits_in(value[head.end() :]))
        eviction = eviction_in(value[head.end() :])
        if field_of(eviction) != field:
            raise ValueError("it stands in the place of another one")
    except ValueError as why:
        return Row(field, value, None, standing, newer, "" if newer else str(why))
    return Row(field, value, eviction, standing or eviction.latest_at > _time(since), newer)


def _time(text: bytes) -> float:
    """When it was; never, if that cannot be read."""
    try:
        return float(text)
    except ValueError:
        return float("inf")


def _bytes_of(text: str) -> bytes:
    kept = kept_id(text)
    return kept if isinstance(kept, bytes) else kept.encode()


def _text_of(kept: bytes) -> str:
    try:
        return kept.decode()
    except UnicodeDecodeError:
        return shown_id(kept)
