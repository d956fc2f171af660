"""What would happen to a request if it came now, as far as it depends on nobody's answer."""

from __future__ import annotations

from msgspec import Struct

from turnout.engine.audit import PassedOver
from turnout.engine.context import Eviction
from turnout.engine.habits import Home


class Preview(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which target of a route would be probed first, and which would be passed over. Nothing was done."""

    route: str
    target: str
    """Who would be probed first."""
    last_resort: bool = False
    """Whether only since every target is ruled out."""
    order: tuple[str, ...]
    """The ladder in the order of this turn."""
    passed_over: tuple[PassedOver, ...] = ()
    lifted: tuple[Eviction, ...] = ()
    """Evictions that do not apply to this request, by an option of the route."""
    home: Home | None = None
    """Where the session is at home, where the route goes by that."""
    needs: tuple[str, ...] = ()
    """The features that the request uses, sorted."""
    size: int | None = None
    """Its estimated size in tokens."""
    calibrated: int | None = None
    """The same by what upstreams have reported of the session; declared windows are held against it."""
    output: int | None = None
    """The most tokens of output that it asks for."""
    notes: tuple[str, ...] = ()
    """What went wrong: a memory that could not be read."""
