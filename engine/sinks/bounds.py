"""What a sink may be bounded by."""

from __future__ import annotations

from collections.abc import Mapping

from turnout.engine.errors import ConfigurationError


def check(sink: str, *, whole: Mapping[str, float | None], secs: Mapping[str, float | None]) -> None:
    """See that each bound is one; None is no bound.

    Args:
        whole: by their names, those that count something.
        secs: those in seconds.

    Raises:
        ConfigurationError: one is no number of its kind, or not above 0.
    """
    for bounds, kinds, words in ((whole, (int,), "a whole number"), (secs, (int, float), "a number")):
        for name, value in bounds.items():
            if value is None:
                continue
            if not isinstance(value, kinds) or isinstance(value, bool) or not value > 0:
                raise ConfigurationError(f"{sink}: {name} is {value!r}; give {words} above 0, or none")
