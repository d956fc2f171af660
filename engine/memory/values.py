"""What stores that keep bytes write and read: evictions, habits, refused keys and health as JSON.

Reading raises ValueError where a value is damaged, or says what this version does not know.
"""

from __future__ import annotations

from typing import Final

import msgspec

from turnout.engine.context import Eviction
from turnout.engine.habits import Habits
from turnout.engine.health import WELL, Health
from turnout.engine.memory.stripped import Learnt, Stripped

json_of: Final = msgspec.json.Encoder(order="deterministic").encode
eviction_in: Final = msgspec.json.Decoder(Eviction).decode
habits_in: Final = msgspec.json.Decoder(Habits).decode
_HEALTH: Final = msgspec.json.Decoder(Health).decode
_LEARNT: Final = msgspec.json.Decoder(dict[str, Stripped])


class _Whole(Eviction, frozen=True, omit_defaults=False):
    """With all of its fields: a later version has another standing machine as its default."""


def eviction_json(eviction: Eviction) -> bytes:
    """An eviction as `eviction_in` reads it."""
    return json_of(_Whole(*msgspec.structs.astuple(eviction)))


def learnt_in(value: str | bytes) -> Learnt:
    """The refused keys that `json_of` has made a value of."""
    return _LEARNT.decode(value)


def health_in(value: str | bytes | None) -> Health:
    """A target's health. It does no more than to save probes: what nobody can read is none."""
    if not value:
        return WELL
    try:
        return _HEALTH(value)
    except (ValueError, RecursionError):
        return WELL
