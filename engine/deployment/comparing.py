"""What changes in routing between two deployments: routes, ladders, policies, options, targets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Any, Final

from msgspec import Struct, structs

from turnout.engine.deployment import Deployment
from turnout.engine.picture import label
from turnout.engine.route import Route
from turnout.engine.targets import Client, Target, safe_url

_OF_A_TARGET: Final = tuple(
    field.name for field in fields(Client) if field.name not in ("api_key", "extra_headers", "extra_query")
)
"""What of a client is compared and shown. Headers and parameters are compared and never shown.

A target's `price` is no part of it: whatever a turn costs, it goes where it went.
"""
_HIDDEN: Final = ("extra_headers", "extra_query")


class Changed(Struct, frozen=True):
    """One thing that is not as it was. An empty side: it is new, or gone."""

    where: str
    """`route chat`, `target small`."""
    what: str
    before: str = ""
    after: str = ""
    note: str = ""


def changes(before: Deployment, after: Deployment) -> Iterator[Changed]:
    """Everything that changes what a turn does, route by route, then target by target."""
    for name in dict.fromkeys((*before.routes, *after.routes)):
        one, other = before.routes.get(name), after.routes.get(name)
        if one is None or other is None:
            note = "is new" if one is None else "is gone"
            yield Changed(f"route {name}", "route", _ladder(one), _ladder(other), note)
        else:
            yield from _of_route(name, one, other)
    ladders = _targets(before), _targets(after)
    for name in dict.fromkeys((*ladders[0], *ladders[1])):
        if name in ladders[0] and name in ladders[1]:
            yield from _of_target(ladders[0][name], ladders[1][name])


def _of_route(name: str, one: Route, other: Route) -> Iterator[Changed]:
    where = f"route {name}"
    if _names(one) != _names(other):
        yield Changed(where, "ladder", _ladder(one), _ladder(other))
    for case, action in one.policy.table.items():
        if action != other.policy.table[case]:
            yield Changed(where, f"on.{case}", str(action), str(other.policy.table[case]))
    options = structs.asdict(one.options), structs.asdict(other.options)
    for key in options[0]:
        if options[0][key] != options[1][key]:
            yield Changed(where, key, _told(options[0][key]), _told(options[1][key]))
    if one.deadline_secs != other.deadline_secs:
        yield Changed(where, "deadline_secs", _told(one.deadline_secs), _told(other.deadline_secs))


def _of_target(one: Target, other: Target) -> Iterator[Changed]:
    where = f"target {one.name}"
    another = "evictions of before no longer count" if one.fingerprint != other.fingerprint else ""
    if one.model_id != other.model_id:
        yield Changed(where, "id", one.model_id, other.model_id, another)
    for key in dict.fromkeys((*one.limits, *other.limits)):
        if one.limits.get(key) != other.limits.get(key):
            yield Changed(where, key, _told(one.limits.get(key)), _told(other.limits.get(key)), another)
    for key in _OF_A_TARGET:
        before, after = getattr(one, key), getattr(other, key)
        if before != after:
            was, now = (safe_url(v) if key == "base_url" else _told(v) for v in (before, after))
            note = another if key in ("base_url", "format") else ""
            if was == now:
                note = "its values differ, and are not shown"
            yield Changed(where, key, was, now, note)
    for key in _HIDDEN:
        if getattr(one, key) != getattr(other, key):
            yield Changed(where, key, "as before", "otherwise", "values are not shown")


def picture(before: Deployment, after: Deployment) -> str:
    """The ladders of all routes as a Mermaid flow chart, what is new and what is gone marked."""
    lines = ["flowchart LR"]
    for place, name in enumerate(dict.fromkeys((*before.routes, *after.routes))):
        one, other = before.routes.get(name), after.routes.get(name)
        lines += [f"    subgraph r{place}[{label(f'route {name}')}]", "        direction LR"]
        lines += [f"        {line}" for line in _rungs(f"r{place}", _names(one), _names(other))]
        lines.append("    end")
    lines += ["    classDef added stroke:#2da44e,stroke-width:3px"]
    lines += ["    classDef removed stroke:#cf222e,stroke-width:3px,stroke-dasharray:6 4"]
    return "\n".join(lines) + "\n"


def _rungs(prefix: str, before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    """The rungs of both ladders in one line, in the order of the new one, as far as the two can be one."""
    marked: list[tuple[str, str]] = []
    for tag, low, high, begin, end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            marked += [(name, "") for name in before[low:high]]
        else:
            marked += [(name, "removed") for name in before[low:high]]
            marked += [(name, "added") for name in after[begin:end]]
    words = {"": "", "added": " (new)", "removed": " (gone)"}
    nodes = [f"{prefix}t{place}" for place in range(len(marked))]
    for node, (name, mark) in zip(nodes, marked, strict=True):
        yield f"{node}[{label(name + words[mark])}]" + (f":::{mark}" if mark else "")
    there = [node for node, (_, mark) in zip(nodes, marked, strict=True) if mark != "removed"]
    yield from (f"{one} --> {other}" for one, other in pairwise(there))


def _targets(deployment: Deployment) -> Mapping[str, Target]:
    return {target.name: target for route in deployment.routes.values() for target in route.ladder}


def _names(route: Route | None) -> list[str]:
    return [] if route is None else [target.name for target in route.ladder]


def _ladder(route: Route | None) -> str:
    return ", ".join(_names(route))


def _told(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Struct):
        return ", ".join(f"{key} {_told(given)}" for key, given in structs.asdict(value).items())
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Mapping):
        return ", ".join(map(str, value)) or "nothing"
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ", ".join(map(_told, value)) or "nothing"
    return str(value)
