"""A session as it may stand under other rules."""

from __future__ import annotations

from typing import Any, NamedTuple

from turnout.engine.context import Eviction, Key, SessionContext
from turnout.engine.habits import Home
from turnout.engine.refusals import Refusal, Refuser
from turnout.engine.whatif.routing import Routing


class World(NamedTuple):
    """A session as it may stand under other rules, by how that differs from how it was recorded."""

    gone: frozenset[Key] = frozenset()
    """Evictions that were recorded, and are not there."""
    more: tuple[Eviction, ...] = ()
    """Evictions that were not recorded, or not so."""
    homes: tuple[tuple[str, Home | None], ...] = ()
    """Of the routes where the session is not at home where it was."""
    refused: frozenset[Refusal] = frozenset()
    """What targets have refused in it."""

    def context(self, recorded: tuple[Eviction, ...], at: float) -> tuple[Eviction, ...]:
        """Its evictions at a time, from those that were recorded then."""
        if not (self.gone or self.more):
            return recorded
        known = {e.key: e for e in recorded if e.key not in self.gone}
        return tuple((known | {e.key: e for e in self.more if e.first.at <= at}).values())

    def without(self, keys: frozenset[Key]) -> World:
        """The world after somebody has removed evictions."""
        return self._replace(more=tuple(e for e in self.more if e.key not in keys)) if self.more else self


Alike = tuple[Any, ...]
"""What two worlds have in common that go on alike."""


def alike(world: World, context: SessionContext, routing: Routing) -> Alike:
    """What a world has in common with those that go on alike."""
    sizes, features = routing.by_size, routing.by_feature
    standing, at = [], 0.0
    for eviction in context.evictions:  # the oldest first: of their times only the order counts
        size, refused = eviction.size if sizes else None, eviction.refused if features else None
        standing.append((eviction.key, eviction.first.at == at, size, refused))
        at = eviction.first.at
    return tuple(standing), tuple((route, places(home)) for route, home in world.homes), world.refused


def places(home: Home | None) -> tuple[str, str] | None:
    """Who a home names: where it is, and who served last."""
    return None if home is None else (home.home.target, home.last.target)


def smallest(refused: frozenset[Refusal]) -> frozenset[Refusal]:
    """Without the sizes of targets that have refused a smaller one."""
    least: dict[Refuser, Refusal] = {}
    for one in refused:
        if not one.features and (one.by not in least or one.size < least[one.by].size):
            least[one.by] = one
    return frozenset(one for one in refused if one.features or least[one.by] is one)
