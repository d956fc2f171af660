"""What a target has refused of the keys that are injected: per configuration of its client.

Each configuration has its own entry. So learning commutes, and two configurations that are
in use at once, in two routes or while a new one is rolled out, do not drop each other's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct


class Stripped(Struct, frozen=True):
    """The keys that were refused under one configuration."""

    keys: frozenset[str]
    at: float
    """When one of them was refused last, in seconds since 1970."""


Learnt = Mapping[str, Stripped]
"""By the configuration's digest."""

NOTHING: Final[frozenset[str]] = frozenset()


def standing(learnt: Learnt, *, now: float, ttl_secs: float) -> dict[str, Stripped]:
    """What has not expired."""
    return {digest: stripped for digest, stripped in learnt.items() if stripped.at + ttl_secs > now}


def learn(
    learnt: Learnt, configuration: str, keys: frozenset[str], *, now: float, ttl_secs: float
) -> dict[str, Stripped]:
    """What stands, with these keys in it."""
    known = standing(learnt, now=now, ttl_secs=ttl_secs)
    before = known.get(configuration, Stripped(NOTHING, now))
    known[configuration] = Stripped(before.keys | keys, max(before.at, now))
    return known


def keys_of(learnt: Learnt, configuration: str, *, now: float, ttl_secs: float) -> frozenset[str]:
    """What is known to be refused under this configuration."""
    stripped = standing(learnt, now=now, ttl_secs=ttl_secs).get(configuration)
    return NOTHING if stripped is None else stripped.keys
