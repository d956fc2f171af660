"""Bounds of a deployment file that never act, since another one always comes first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from turnout.engine.deployment.finding import Path
from turnout.engine.deployment.tables import Table
from turnout.engine.printable import number
from turnout.engine.targets import BOUNDS, Client, usable

_WHOLE: Final = "timeout_secs"
"""Bounds a whole attempt: the other bounds of a client are within it."""


@dataclass(frozen=True)
class Tables:
    """The tables of a file that hold bounds, by name."""

    clients: Mapping[str, Table]
    targets: Mapping[str, Table]
    routes: Mapping[str, Table]


def never_acting(tables: Tables) -> Iterator[tuple[Path, str, str]]:
    """Each bound that acts for none of the targets that have it: its table, its key, what comes first."""
    asked = {name for route in tables.routes.values() for name in route.get("ladder", ())}
    targets = [name for name in tables.targets if name in asked]
    for client, values in tables.clients.items():
        heirs = [name for name in targets if tables.targets[name].get("llm_client") == client]
        yield from _of(tables, ("llm_clients", client), values, heirs)
    for name in targets:
        yield from _of(tables, ("targets", name), tables.targets[name], [name])


def _of(tables: Tables, path: Path, values: Table, targets: list[str]) -> Iterator[tuple[Path, str, str]]:
    for key in BOUNDS:
        if (bound := usable(values.get(key))) is None:
            continue
        having = [name for name in targets if path == ("targets", name) or key not in tables.targets[name]]
        before = [_before(tables, name, key, bound) for name in having]
        if before and all(before):
            yield path, key, f"is {number(bound)}, and never acts, since {before[0]} comes first; give less"


def _before(tables: Tables, target: str, key: str, bound: float) -> str:
    """What always comes before a bound of a target, in words; empty where nothing does."""
    whole, deadline = _whole(tables, target), _deadline(tables, target)
    if key != _WHOLE and whole is not None and whole < bound:
        return f"{_WHOLE} = {number(whole)}"
    if deadline is not None and deadline < bound:
        return f"deadline_secs = {number(deadline)} of its route"
    return ""


def _whole(tables: Tables, target: str) -> float | None:
    own = tables.targets[target]
    values: dict[str, Any] = {**tables.clients.get(own.get("llm_client", ""), {}), **own}
    return usable(values.get(_WHOLE, Client.timeout_secs))


def _deadline(tables: Tables, target: str) -> float | None:
    """The longest that a turn may take which asks this target; None where one has no bound."""
    routes = [route for route in tables.routes.values() if target in route.get("ladder", ())]
    deadlines = [usable(route.get("deadline_secs")) for route in routes]
    return max((d for d in deadlines if d is not None), default=None) if None not in deadlines else None
