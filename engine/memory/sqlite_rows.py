"""Evictions, identities and refused keys as rows of a SQLite file."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from turnout.engine.context import Cause, Eviction, Identity
from turnout.engine.memory.stripped import Learnt, Stripped
from turnout.machines.vocabulary import RoutingFallbackReason

_ENCODE: Final = msgspec.json.Encoder(order="deterministic").encode
_FIRST: Final = msgspec.json.Decoder(Cause)
_REFUSED: Final = msgspec.json.Decoder(frozenset[tuple[str, ...]])
_LEARNT: Final = msgspec.json.Decoder(dict[str, Stripped])


def row_of(eviction: Eviction) -> tuple[Any, ...]:
    """Its columns as `sqlite_schema.RECORD` takes them after the identity's."""
    return (
        *eviction.key,
        _ENCODE(eviction.first).decode(),
        eviction.latest_turn,
        eviction.latest_at,
        eviction.size,
        _ENCODE(sorted(eviction.refused)).decode(),
        eviction.machine,
    )


def eviction_of(row: tuple[Any, ...]) -> Eviction:
    """What a row of `sqlite_schema.READ` says.

    Raises:
        ValueError: the row is damaged, or says what this version does not know.
    """
    target, reason, fingerprint, first, latest_turn, latest_at, size, refused, machine = row
    return Eviction(
        target,
        RoutingFallbackReason(reason),
        fingerprint,
        first=_FIRST.decode(first),
        latest_turn=latest_turn,
        latest_at=latest_at,
        size=size,
        refused=_REFUSED.decode(refused),
        machine=machine,
    )


def column_of(learnt: Learnt) -> str:
    """Refused keys as the column `stripped` holds them."""
    return _ENCODE(learnt).decode()


def learnt_of(column: str) -> Learnt:
    """What the column `stripped` says.

    Raises:
        ValueError: it is damaged, or says what this version does not know.
    """
    return _LEARNT.decode(column)


def ids_of(identity: Identity) -> tuple[str | bytes, ...]:
    return tuple([id_of(text) for text in identity])


def id_of(text: str) -> str | bytes:
    """An id as SQLite can keep it: one that is no valid Unicode as bytes, which equal no text."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def text_of(kept: str | bytes) -> str:
    return kept if isinstance(kept, str) else kept.decode("utf-8", "surrogatepass")
