"""What changes in routing between two deployments: memory, routes, ladders, policies, options, targets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Final

from msgspec import Struct

from turnout.engine.deployment import Deployment
from turnout.engine.deployment.meaning import Meanings, of_http, of_memory, of_route, of_target, shown
from turnout.engine.picture import label
from turnout.engine.route import Route
from turnout.engine.targets import LIMITS, Target

NEW: Final = "is new"
GONE: Final = "is gone"
RENAMED: Final = "seems renamed"
_HIDDEN: Final = "its values differ, and are not shown"
_OTHER_STORE: Final = "evictions of before no longer count, unless it is the same store"
_NOT_COUNTED: Final = "evictions of before no longer count"
_OF_MEMORY: Final[Mapping[str, str]] = {"url": _OTHER_STORE, "namespace": _NOT_COUNTED}
_OF_TARGET: Final[Mapping[str, str]] = dict.fromkeys(("id", "format", "base_url", *LIMITS), _NOT_COUNTED)
"""What comes of a change of a key: for those of a target that its fingerprint is made of."""
_OF_NOTHING: Final[Mapping[str, str]] = {}


class Changed(Struct, frozen=True):
    """One thing that is not as it was. An empty side: it is new, or gone."""

    where: str
    """`route chat`, `target small`, `memory`, `http`."""
    what: str
    before: str = ""
    after: str = ""
    note: str = ""


def changes(before: Deployment, after: Deployment) -> Iterator[Changed]:
    """Everything that changes what a turn does: the memory, route by route, then target by target.

    What a route or a target that is new has otherwise than by default is told as well. `[capture]` is left
    out, since it changes no routing.
    """
    yield from _between("memory", of_memory(before.memory), of_memory(after.memory), _OF_MEMORY)
    yield from _between("http", of_http(before.http), of_http(after.http))
    renamed = _renamed(before.routes, after.routes)
    for name in dict.fromkeys((*before.routes, *after.routes)):
        if name not in renamed.values():
            now = renamed.get(name, name)
            yield from _of_route(name, now, before.routes.get(name), after.routes.get(now))
    ladders = _targets(before), _targets(after)
    for name, target in ladders[1].items():
        if name in ladders[0]:
            yield from _between(f"target {name}", of_target(ladders[0][name]), of_target(target), _OF_TARGET)
        else:
            yield from _new_target(target)


def _between(
    where: str, before: Meanings, after: Meanings, notes: Mapping[str, str] = _OF_NOTHING
) -> Iterator[Changed]:
    for key, was in before.items():
        now = after[key]
        if was != now:
            told = shown(key, was), shown(key, now)
            note = _HIDDEN if told[0] == told[1] or _differ_within(was, now) else notes.get(key, "")
            yield Changed(where, key, *told, note)


def _differ_within(was: object, now: object) -> bool:
    """Whether two tables have another value under the same name."""
    if not isinstance(was, Mapping) or not isinstance(now, Mapping):
        return False
    return any(was[name] != now[name] for name in was.keys() & now.keys())


def _of_route(was: str, now: str, one: Route | None, other: Route | None) -> Iterator[Changed]:
    where = f"route {now}"
    if other is None:
        yield Changed(where, "route", _ladder(one), "", GONE)
    elif one is None:
        yield Changed(where, "route", "", _ladder(other), NEW)
        yield from _new(where, of_route(other), of_route(Route(id=now, ladder=other.ladder)))
    else:
        if was != now:
            yield Changed(where, "route", was, now, RENAMED)
        yield from _between(where, of_route(one), of_route(other))


def _new_target(target: Target) -> Iterator[Changed]:
    """How a new target is reached: always by what it is known by, and what is not as by default."""
    usual = of_target(Target(target.name, format=target.format))
    always = ("id", "base_url", "format")
    yield from _new(
        f"target {target.name}",
        of_target(target),
        {key: meaning for key, meaning in usual.items() if key not in always},
    )


def _new(where: str, own: Meanings, usual: Meanings) -> Iterator[Changed]:
    for key, meaning in own.items():
        if key not in usual or meaning != usual[key]:
            yield Changed(where, key, "", shown(key, meaning), NEW)


def _renamed(before: Mapping[str, Route], after: Mapping[str, Route]) -> Mapping[str, str]:
    """The routes that are gone whose very ladder one new route has, and no other: the name of that one."""
    gone, new = _by_ladder(before, after), _by_ladder(after, before)
    return {gone[ladder][0]: new[ladder][0] for ladder in gone if len(gone[ladder]) == len(new[ladder]) == 1}


def _by_ladder(
    routes: Mapping[str, Route], others: Mapping[str, Route]
) -> Mapping[tuple[str, ...], list[str]]:
    """The names of those routes that are not among the others."""
    found = defaultdict[tuple[str, ...], list[str]](list)
    for name, route in routes.items():
        if name not in others:
            found[tuple(_names(route))].append(name)
    return found


def picture(before: Deployment, after: Deployment) -> str:
    """The ladders of all routes as a Mermaid flow chart, what is new and what is gone marked."""
    lines = ["flowchart LR"]
    for place, name in enumerate(dict.fromkeys((*before.routes, *after.routes))):
        one, other = before.routes.get(name), after.routes.get(name)
        lines += [f"    subgraph r{place}[{label(f'route {name}')}]", "        direction LR"]
        lines += [f"        {line}" for line in _rungs(f"r{place}", _names(one), _names(other))]
        lines.append("    end")
    lines += ["    classDef added stroke:#2da44e,stroke-width:3px"]
    lines += ["    classDef moved stroke:#9a6700,stroke-width:3px"]
    lines += ["    classDef removed stroke:#cf222e,stroke-width:3px,stroke-dasharray:6 4"]
    return "\n".join(lines) + "\n"


def _rungs(prefix: str, before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    """The rungs of both ladders in one line, in the order of the new one, as far as the two can be one."""
    marked: list[tuple[str, str]] = []
    for tag, low, high, begin, end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            marked += [(name, "") for name in before[low:high]]
        else:
            marked += [(name, "removed") for name in before[low:high] if name not in after]
            marked += [(name, "moved" if name in before else "added") for name in after[begin:end]]
    words = {"": "", "added": " (new)", "moved": " (moved)", "removed": " (gone)"}
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
