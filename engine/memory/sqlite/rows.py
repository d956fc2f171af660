"""Evictions and refused keys as rows of a SQLite file."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from turnout.engine.context import Cause, Eviction
from turnout.engine.memory.stripped import Learnt
from turnout.engine.memory.values import json_of, learnt_in
from turnout.machines.vocabulary import RoutingFallbackReason

_FIRST: Final = msgspec.json.Decoder(Cause)
_REFUSED: Final = msgspec.json.Decoder(frozenset[tuple[str, ...]])


def row_of(eviction: Eviction) -> tuple[Any, ...]:
    """Its columns as `schema.RECORD` takes them after the identity's."""
    return (
        *eviction.key,
        json_of(eviction.first).decode(),
        eviction.latest_turn,
        eviction.latest_at,
        eviction.size,
        json_of(sorted(eviction.refused)).decode(),
        eviction.machine,
    )


def eviction_of(row: tuple[Any, ...]) -> Eviction:
    """What a row of `schema.READ` says.

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
    return json_of(learnt).decode()


def learnt_of(column: str) -> Learnt:
    """What the column `stripped` says.

    Raises:
        ValueError: it is damaged, or says what this version does not know.
    """
    return learnt_in(column)
