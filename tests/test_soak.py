"""Processes that share a memory, some of them killed: what was recorded is remembered and honoured."""

from __future__ import annotations

from pathlib import Path

from redis_server import RedisServer
from soak import soak

SMALL = {"processes": 3, "sessions": 60, "turns": 400, "kills": 4, "seed": 3}


def test_over_a_file() -> None:
    counts = soak("sqlite", **SMALL)
    assert counts.holds, counts
    assert counts.killed == SMALL["kills"]
    assert counts.recorded > 30


def test_over_redis(redis_server: RedisServer, tmp_path: Path) -> None:
    counts = soak(redis_server.url, **SMALL)
    assert counts.holds, counts
    assert counts.recorded > 30
