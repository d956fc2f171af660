"""Evictions, habits, refused keys and whose they are, as rows of a SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from types import NoneType
from typing import Any, Final

import msgspec

from turnout.engine.context import Cause, Eviction, Identity
from turnout.engine.habits import NO_HABITS, Habits
from turnout.engine.memory.ids import NoText, shown_id
from turnout.engine.memory.stripped import Learnt
from turnout.engine.memory.values import habits_in, json_of, learnt_in
from turnout.machines.vocabulary import RoutingFallbackReason

_FIRST: Final = msgspec.json.Decoder(Cause)
_REFUSED: Final = msgspec.json.Decoder(frozenset[tuple[str, ...]])
_TYPES: Final = {(*[str] * 5, float, size, str, str) for size in (int, NoneType)}
"""Of the columns of `schema.READ`. SQLite keeps values of other types too, if the file is damaged so."""


Kept = str | bytes
"""An id as it is kept."""


def named(namespace: str, session: Kept, agent: Kept) -> Identity | None:
    """Whose a row is; None if its ids are damaged: then it is nobody's."""
    try:
        return Identity(namespace, shown_id(session), shown_id(agent))
    except ValueError:
        return None


def executed(connection: sqlite3.Connection, statement: str, parameters: Sequence[Any]) -> sqlite3.Cursor:
    """Execute what may be about damaged ids: text that is no UTF-8 would as bytes equal no text."""
    first, *others = statement.split("?")
    marks = ["CAST(? AS TEXT)" if isinstance(value, NoText) else "?" for value in parameters]
    return connection.execute(
        first + "".join(mark + other for mark, other in zip(marks, others, strict=True)), parameters
    )


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
    if tuple(map(type, row)) not in _TYPES:
        raise ValueError("a column is of another type")
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


def habits_of(column: object) -> Habits:
    """What the column `habits` says.

    Raises:
        ValueError: it is damaged, or says what this version does not know.
    """
    if column is None:
        return NO_HABITS
    if not isinstance(column, str):
        raise ValueError("a column is of another type")
    return habits_in(column)
