"""A target's credential, and all of a target that must never be told again."""

from __future__ import annotations

import inspect
import os
import re

from turnout.engine.attempts import own_bound
from turnout.engine.clock import Clock
from turnout.engine.credentials import SHORTEST_SECRET, named_like_a_credential, secrets_in, variable_named
from turnout.engine.errors import ConfigurationError
from turnout.engine.printable import mixed
from turnout.engine.targets import Target, sendable


async def credential(target: Target, clock: Clock, left: float | None) -> str:
    """The target's credential as it is now; empty if it has none.

    Args:
        left: seconds until the turn's deadline.

    Raises:
        ConfigurationError: it is not to be had, or its callable does not give it within the bound
            on connecting.
    """
    if target.api_key is None:
        return credential_from_environment(target)
    bound = own_bound(target.connect_timeout_secs, left)
    scope = clock.timeout(bound)
    try:
        async with scope:
            given = target.api_key()
            key = await given if inspect.isawaitable(given) else given
    except Exception as error:
        why = f"gave none within {bound:g} s" if scope.expired() else f"raised {type(error).__name__}"
        raise ConfigurationError(f"target {target.name!r}: its api_key callable {why}") from error
    return _usable(target, key, "its api_key callable")


def credential_from_environment(target: Target) -> str:
    """The credential that the target's `api_key_env` names; empty if it names none.

    Raises:
        ConfigurationError: the variable is not set, or holds none that can be sent.
    """
    if target.api_key_env is None:
        return ""
    shown = variable_named(target.api_key_env)
    variable = f"the environment variable {shown}" if shown == target.api_key_env else "its variable"
    if (key := os.environ.get(target.api_key_env)) is None:
        raise ConfigurationError(f"target {target.name!r}: {variable} is not set; put its credential there")
    return _usable(target, key, variable)


def secrets_of(target: Target) -> list[str]:
    """What a target's configuration and environment hold that must never be told again."""
    given = (("extra_headers", target.extra_headers), ("extra_query", target.extra_query))
    pairs = [(within, name, value) for within, table in given for name, value in table.items()]
    named = [value for within, name, value in pairs if named_like_a_credential(name, within)]
    looking = [word for _, _, value in pairs for word in _words(value) if mixed(word)]
    key = os.environ.get(target.api_key_env, "").strip() if target.api_key_env else ""
    told = (key, *named, *secrets_in(target.base_url))
    return [*looking, *(part for value in told for part in parts(value))]


def parts(value: str) -> list[str]:
    """A credential as a header carries it, and what in it may be the secret alone: behind a scheme, or
    one of several.
    """
    words = _words(value)
    return [value, *words[-1:], *(word for word in words if any(map(str.isdigit, word)))] if value else []


def _words(value: str) -> list[str]:
    return re.split(r"[\s,;=\"]+", value)


def _usable(target: Target, key: object, origin: str) -> str:
    # a file or a shell often leaves a line's end
    key = key.strip() if isinstance(key, str) else ""
    if len(key) < SHORTEST_SECRET or not sendable(key):
        raise ConfigurationError(
            f"target {target.name!r}: {origin} gives no credential;"
            f" one has at least {SHORTEST_SECRET} printable ASCII characters"
        )
    return key
