"""Where a session's evictions are kept: one protocol, several stores."""

from __future__ import annotations

import os

from turnout.engine.credentials import presentable, variable_named
from turnout.engine.errors import ConfigurationError
from turnout.engine.memory import redis_url
from turnout.engine.memory.inmemory import InMemory
from turnout.engine.memory.protocol import Memory
from turnout.engine.memory.sqlite import Durability, SqliteMemory


def from_url(url: str, *, ttl_secs: float, max_sessions: int, durability: Durability) -> Memory:
    """The memory that a deployment file names: `sqlite:PATH`, `memory:`, a Redis store by `redis://`,
    `rediss://` or `unix://`, or `env:NAME`, the environment variable that holds one of these.

    Raises:
        ConfigurationError: another scheme, or a library that is missing.
    """
    where, scheme, rest = f"memory url {presentable(url)!r}", *_parts(url)
    if scheme == "env":
        where = f"memory url in {variable_named(rest)}"  # itself it is not told: it may hold a password
        url = resolved(url)
        if not url:
            raise ConfigurationError(f"{where}: that is not set in this environment")
        scheme, rest = _parts(url)
    if scheme == "sqlite" and rest:
        return SqliteMemory(rest, ttl_secs=ttl_secs, max_sessions=max_sessions, durability=durability)
    if url == "memory:":
        return InMemory(ttl_secs=ttl_secs, max_sessions=max_sessions)
    if redis_url.is_redis(url):
        try:
            from turnout.engine.memory.redis import RedisMemory
        except ModuleNotFoundError as missing:
            raise ConfigurationError(
                f"{where}: its library is missing; pip install 'turnout[redis]'"
            ) from missing
        return RedisMemory(url, ttl_secs=ttl_secs, max_sessions=max_sessions, durability=durability)
    raise ConfigurationError(f"{where} names no store; give sqlite:PATH, redis://HOST:PORT/DB or memory:")


def resolved(url: str) -> str:
    """The url itself, where a variable holds it; empty where that is not set."""
    scheme, variable = _parts(url)
    return os.environ.get(variable, "").strip() if scheme == "env" else url


def _parts(url: str) -> tuple[str, str]:
    scheme, _, rest = url.partition(":")
    return scheme, rest
