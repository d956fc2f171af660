"""Where a session's evictions are kept: one protocol, several stores."""

from __future__ import annotations

from turnout.engine.errors import ConfigurationError
from turnout.engine.memory.inmemory import InMemory
from turnout.engine.memory.protocol import Memory
from turnout.engine.memory.sqlite import Durability, SqliteMemory


def from_url(url: str, *, ttl_secs: float, max_sessions: int, durability: Durability) -> Memory:
    """The memory that a deployment file names: `sqlite:PATH` or `memory:`.

    Raises:
        ConfigurationError: another scheme.
    """
    scheme, _, rest = url.partition(":")
    if scheme == "sqlite" and rest:
        return SqliteMemory(rest, ttl_secs=ttl_secs, durability=durability)
    if url == "memory:":
        return InMemory(ttl_secs=ttl_secs, max_sessions=max_sessions)
    raise ConfigurationError(f"memory url {url!r} names no store; give sqlite:PATH or memory:")
