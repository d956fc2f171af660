"""Reading one table of a deployment file: which keys it may have, and the type of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from turnout.engine.credentials import CREDENTIAL, named_like_a_credential
from turnout.engine.deployment.checks import Mistake, mistakes
from turnout.engine.deployment.finding import Findings, Path
from turnout.engine.hints import options
from turnout.engine.printable import did_you_mean, named, nearest

Table = Mapping[str, Any]
Keys = Mapping[str, Any]
"""The keys that a table may have, and the type of each."""

_MEANT: Final[Mapping[str, str]] = {
    **dict.fromkeys(("message", "pattern", "text", "match", "regex"), "contains"),
    **dict.fromkeys(("model", "model_id", "model_name"), "id"),
    **dict.fromkeys(("provider", "upstream", "client"), "llm_client"),
    **dict.fromkeys(("api_base", "endpoint", "host", "url"), "base_url"),
    **dict.fromkeys(("verify", "verify_ssl", "ssl_verify", "cafile", "ca_bundle", "cert"), "ca_file"),
    **dict.fromkeys(("models", "targets", "fallbacks"), "ladder"),
    "cache_read": "cached_input",
}
"""What a key is often called, where its own name is not near enough to be guessed."""

_ELSEWHERE: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("affinity", "capability_scope", "deadline_secs", "ladder", "on", "readmit_below"), "[routes.NAME]"
    ),
    **dict.fromkeys(("breaker", "max_retries", "timeout_secs"), "[llm_clients.NAME] or [targets.NAME]"),
    **dict.fromkeys(("context_window", "input", "price", "structured_output", "tools"), "[targets.NAME]"),
    **dict.fromkeys(("cache_write", "cached_input", "output"), "[targets.NAME.price]"),
}
"""Where a key belongs that is often written somewhere else."""

_WORDS: Final[Mapping[Any, str]] = {
    bool: "true or false",
    bool | None: "true or false",
    int: "a whole number",
    int | None: "a whole number",
    float: "a number",
    float | None: "a number",
    str: "a string",
    str | None: "a string",
    tuple[str, ...]: "a list of strings",
    tuple[str, ...] | None: "a list of strings",
    tuple[Table, ...]: "a list of tables, each below its own [[ ]]",
    Mapping[str, str]: "a table of strings",
    Mapping[str, object]: "a table",
    Table: "a table",
}

_ITEMS: Final[Mapping[Any, type]] = {
    tuple[str, ...]: str,
    tuple[str, ...] | None: str,
    tuple[Table, ...]: Mapping,
}

_KINDS: Final[Mapping[type, str]] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a string",
    list: "a list",
    dict: "a table",
}


def read(
    findings: Findings,
    path: Path,
    table: Table,
    keys: Keys,
    *,
    check: Callable[[str, Any], Iterable[Mistake]] = mistakes,
) -> dict[str, Any]:
    """The values of a table, as far as their type is right. All that is wrong becomes findings.

    Args:
        check: what is wrong with the value of a key, whose type is right.
    """
    values = {}
    for key, value in table.items():
        if findings.at(path, key):  # a credential stands there: nothing else matters
            continue
        if key not in keys:
            meant = _meant(key, keys)
            findings.error(path, key, _unknown(key, value, meant, keys), meant=meant)
            continue
        if keys[key] == Mapping[str, str] and isinstance(value, dict):
            value = _strings(findings, (*path, key), value)
        try:
            values[key] = msgspec.convert(value, keys[key])
        except msgspec.ValidationError:
            findings.error(path, key, _mistyped(value, keys[key]))
            continue
        for what, within, stops in check(key, values[key]):
            place = ((*path, key), within) if within else (path, key)
            findings.error(*place, what, stops=stops)
    return values


def _meant(key: str, keys: Keys) -> str:
    """The key that an unknown one was probably meant to be, if any."""
    often = _MEANT.get(key, "")
    return often if often in keys else nearest(key, keys)


def _unknown(key: str, value: object, meant: str, keys: Keys) -> str:
    if named_like_a_credential(key) and not isinstance(value, bool):
        return CREDENTIAL
    if key in _ELSEWHERE:
        return f"is unknown here; it belongs in {_ELSEWHERE[key]}"
    return f"is unknown here{did_you_mean(meant or key, keys)}"


def kind_of(value: object) -> str:
    """What a value of a TOML file is, in words."""
    return _KINDS.get(type(value), "a date or time")


def words(hint: Any) -> str:
    """What a key takes, in words."""
    return " or ".join(options(hint)) or _WORDS[hint]


def _strings(findings: Findings, path: Path, table: Table) -> dict[str, str]:
    """The entries of a table of strings that are strings."""
    for entry, value in table.items():
        if not isinstance(value, str):
            findings.error(path, entry, f"is {kind_of(value)}; give a string")
    return {entry: value for entry, value in table.items() if isinstance(value, str)}


def _mistyped(value: object, hint: Any) -> str:
    if isinstance(value, str) and options(hint):
        return f"is {named(value)}; give {words(hint)}"
    if isinstance(value, list) and hint in _ITEMS:
        other = next(kind_of(inner) for inner in value if not isinstance(inner, _ITEMS[hint]))
        return f"holds {other}; give {words(hint)}"
    if type(value) is int and hint in (float, float | None):
        return f"is too large; give {words(hint)}"
    return f"is {kind_of(value)}; give {words(hint)}"
