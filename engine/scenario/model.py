"""What a scenario is: where it begins, and the turns that it plays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from turnout.engine.deployment import MemorySettings
from turnout.engine.route import Route
from turnout.engine.testing import Raises, Scripted


@dataclass(frozen=True, kw_only=True)
class PlannedTurn:
    """One `[[turns]]` of a file."""

    place: int
    """Which one of the file it is, from 1."""
    session: str = "s1"
    """Empty: none, unless the headers tell one."""
    agent: str | None = None
    """Makes it a sub-agent's; empty, one that sent no id."""
    final: bool = False
    pin: str | None = None
    stream: bool = False
    size: int | None = None
    request: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)
    at: float | None = None
    """Virtual seconds since the scenario began; None: when the turn before has ended."""
    repeat: int = 1
    cancel_at: float | None = None
    """Virtual seconds after its start at which the caller leaves."""
    restart: bool = False
    restore: str | None = None
    """A target that is made eligible for every session before the turn."""
    forget: str | None = None
    """A session that is forgotten before the turn."""
    reload: bool = False
    """Whether the deployment is reloaded before the turn."""
    route: Route
    """The route in force."""
    upstream: Mapping[str, tuple[Scripted, ...]]
    expect: Mapping[str, Any]
    """What is expected of it, by the names of `simulation.Outcome`."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """What a scenario file describes."""

    source: Path
    name: str
    about: str
    memory: MemorySettings
    on_disk: bool
    """Whether the memory is a fresh SQLite file and not in memory."""
    route: Route
    """The route that the first router opens with."""
    turns: tuple[PlannedTurn, ...]

    @property
    def calls(self) -> bool:
        """Whether the targets are served by an embedder's `call=`: some answer `raises`."""
        scripts = (replies for turn in self.turns for replies in turn.upstream.values())
        return any(isinstance(reply, Raises) for replies in scripts for reply in replies)
