"""A route: what a caller asks for by name. Holds a ladder and a policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from turnout.engine.errors import ConfigurationError
from turnout.engine.hints import mistyped
from turnout.engine.policy import DEFAULT_POLICY, Policy
from turnout.engine.printable import named
from turnout.engine.selection import NO_OPTIONS, Options
from turnout.engine.targets import Target

BOUNDS: Final = ("deadline_secs",)

_TAKES: Final[Mapping[str, Any]] = {"id": str, "deadline_secs": float | None}


@dataclass(frozen=True, kw_only=True)
class Route:
    """An ordered ladder of targets, each tried at most once a turn, and what each kind of error does.

    Raises:
        ConfigurationError: an empty ladder, a name twice, or two wire formats in one ladder; a value of
            another type.
    """

    id: str
    ladder: tuple[Target, ...]
    policy: Policy = field(default=DEFAULT_POLICY)
    deadline_secs: float | None = None
    """Bounds a whole turn, in seconds: every target, attempt and wait."""
    options: Options = NO_OPTIONS
    """Who may be probed."""

    def __post_init__(self) -> None:
        if wrong := [*mistyped(vars(self), _TAKES), *_mistakes(self.ladder, self.policy, self.options)]:
            raise ConfigurationError(f"route {named(self.id)}: {'; '.join(wrong)}")
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

    @cached_property
    def has_windows(self) -> bool:
        """Whether any target declares its window."""
        return any(target.context_window is not None for target in self.ladder)

    @cached_property
    def has_breakers(self) -> bool:
        """Whether the health of any target counts."""
        return any(target.breaker is not None for target in self.ladder)


def _mistakes(ladder: object, policy: object, options: object) -> Iterator[str]:
    if not isinstance(policy, Policy):
        yield f"policy is of type {type(policy).__name__}; give Policy({{…}})"
    if not isinstance(options, Options):
        yield f"options is of type {type(options).__name__}; give Options(…)"
    if not isinstance(ladder, tuple | list):
        yield f"ladder is of type {type(ladder).__name__}; give a list of targets, [Target(…), …]"
    elif others := sorted({type(rung).__name__ for rung in ladder if not isinstance(rung, Target)}):
        yield f"ladder holds {', '.join(others)}; give targets only, Target(…)"
