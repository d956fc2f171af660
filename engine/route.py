"""A route: what a caller asks for by name. Holds a ladder and a policy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from turnout.engine.errors import ConfigurationError
from turnout.engine.policy import DEFAULT_POLICY, Policy
from turnout.engine.targets import Target

BOUNDS: Final = ("deadline_secs",)


@dataclass(frozen=True, kw_only=True)
class Route:
    """An ordered ladder of targets, each tried at most once a turn, and what each kind of error does.

    Raises:
        ConfigurationError: an empty ladder, a name twice, or two wire formats in one ladder.
    """

    id: str
    ladder: tuple[Target, ...]
    policy: Policy = field(default=DEFAULT_POLICY)
    deadline_secs: float | None = None
    """Bounds a whole turn, in seconds: every target, attempt and wait."""

    def __post_init__(self) -> None:
        names = [target.name for target in self.ladder]
        if not names:
            raise ConfigurationError(f"route {self.id!r}: its ladder is empty; give at least one target")
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ConfigurationError(f"route {self.id!r}: {', '.join(twice)} stands in its ladder twice")
        if len(formats := {target.format for target in self.ladder}) > 1:
            raise ConfigurationError(
                f"route {self.id!r}: its ladder mixes the wire formats {', '.join(sorted(formats))};"
                " a caller's body is in one of them"
            )
