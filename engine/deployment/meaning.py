"""What the keys of a deployment file mean for a turn, however they are written: what two files differ in.

Each value has one normal form here: values are equal if every turn is the same with either. A key that
another one leaves without effect means what it says all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from pathlib import PurePath
from typing import Any, Final

from msgspec import Struct, structs

from turnout.engine.classify import operator
from turnout.engine.credentials import presentable, variable_named
from turnout.engine.deployment import Deployment, HttpSettings, MemorySettings
from turnout.engine.memory import redis_url
from turnout.engine.printable import number
from turnout.engine.route import BOUNDS as ROUTE_BOUNDS
from turnout.engine.route import Route
from turnout.engine.targets import BOUNDS, LIMITS, Target, as_sent, safe_url, usable
from turnout.engine.upstream import carries, forwarded

Meanings = Mapping[str, object]
"""By key: what each means."""

LEFT_OUT: Final[Mapping[type, frozenset[str]]] = {
    Deployment: frozenset({"capture", "rules_at", "source"}),
    MemorySettings: frozenset(),
    HttpSettings: frozenset(),
    Route: frozenset({"id"}),
    Target: frozenset({"name", "api_key", "price"}),
}
"""What changes no routing, is the name by which two are paired, or stands in no file."""


def of_memory(settings: MemorySettings) -> Meanings:
    """What the keys of `[memory]` mean."""
    return {**_given(settings), "url": _store(settings.url)}


def of_http(settings: HttpSettings) -> Meanings:
    """What the keys of `[http]` mean."""
    return _given(settings)


def of_route(route: Route) -> Meanings:
    """What the keys of a route mean, each kind of error by itself."""
    given = _given(route)
    del given["policy"], given["options"]
    return {
        **given,
        "ladder": tuple(target.name for target in route.ladder),
        **{f"on.{case}": action for case, action in route.policy.table.items()},
        **structs.asdict(route.options),
        **_bounds(route, ROUTE_BOUNDS),
    }


def of_target(target: Target) -> Meanings:
    """What the keys of a target mean, those of its client included."""
    given = _given(target)
    del given["model"]  # the file calls it `id`
    return {
        "id": target.model_id,
        **given,
        **_bounds(target, BOUNDS),
        **{key: target.limits.get(key) for key in LIMITS},
        "auth_header": carries(target),
        "forward_headers": tuple(sorted({*forwarded(target)})),
        "extra_headers": target.added_headers,
        "extra_body": {key: as_sent(value) for key, value in target.extra_body.items()},
        "ca_file": target.ca_file and PurePath(target.ca_file),
        "errors": operator.normal(target.errors),
    }


def shown(key: str, meaning: object) -> str:
    """What a key means, in words: of a table no more than the names in it, and nothing that may be secret."""
    show = _SHOWN.get(key, _told)
    return _told(None) if meaning is None else show(meaning)


def _given(owner: Any) -> dict[str, object]:
    """All that is given, so that a key which is added later is compared from then on."""
    left_out = LEFT_OUT[type(owner)]
    return {field.name: getattr(owner, field.name) for field in fields(owner) if field.name not in left_out}


def _bounds(owner: object, names: Iterable[str]) -> Meanings:
    return {name: usable(getattr(owner, name)) for name in names}


def _store(url: str) -> str:
    """Where a memory's url leads. What a variable holds is not looked at: elsewhere it holds another one."""
    scheme, _, rest = url.partition(":")
    if redis_url.is_redis(url):
        return redis_url.normal(url)
    return f"sqlite:{PurePath(rest)}" if scheme == "sqlite" else url


def _store_shown(url: str) -> str:
    scheme, _, rest = url.partition(":")
    return f"env:{variable_named(rest)}" if scheme == "env" else presentable(url)


def _told(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return number(value)
    if isinstance(value, Struct):
        return ", ".join(f"{key} {_told(given)}" for key, given in structs.asdict(value).items() if given)
    if isinstance(value, Mapping):  # names only: a value may be anything
        return ", ".join(value) or "nothing"
    if isinstance(value, tuple | list):
        return ("; " if any(isinstance(v, Struct) for v in value) else ", ").join(
            map(_told, value)
        ) or "nothing"
    return str(value) or "nothing"


_SHOWN: Final[Mapping[str, Callable[[Any], str]]] = {
    "api_key_env": variable_named,
    "base_url": safe_url,
    "url": _store_shown,
}
"""How those keys are shown that may hold what is secret."""
