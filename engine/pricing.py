"""What tokens cost, and what a turn has cost by the counts that its upstream reported.

Money is in one currency, whichever the deployment declares its prices in; none is ever named. What
has been reported is not ours: of counts that cannot be so, no cost is told.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, NamedTuple, TypeGuard

from msgspec import Meta, Struct, structs

from turnout.engine.errors import ConfigurationError
from turnout.engine.habits import MOST_TOKENS
from turnout.engine.printable import numbered

MOST: Final = 10**9
"""The highest price that may be declared, in money per million tokens."""

_MILLION: Final = 1_000_000
_GIVE: Final = f"give money per million tokens, 0 to {MOST}"

# by these bounds msgspec tells a price in a record that cannot be one
_Money = Annotated[float, Meta(ge=0, le=MOST)]


class Price(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a target's tokens cost, in money per million of them.

    Raises:
        ConfigurationError: a value that cannot be used.
    """

    input: _Money
    output: _Money
    """Tokens of reasoning included."""
    cached_input: _Money | None = None
    """Of input that came from a prompt cache; as `input` where none is given."""
    cache_write: _Money | None = None
    """Of input that was written to a prompt cache, where that is reported; as `input` where none is given."""

    def __post_init__(self) -> None:
        if wrong := [f"{key} {what}" for key, what in mistakes(structs.asdict(self))]:
            raise ConfigurationError(f"price: {'; '.join(wrong)}")

    @property
    def of_cached(self) -> float:
        """What a million tokens cost that came from a cache."""
        return self.input if self.cached_input is None else self.cached_input

    @property
    def of_written(self) -> float:
        """What a million tokens cost that were written to one."""
        return self.input if self.cache_write is None else self.cache_write


def mistakes(values: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Each key of a price that is missing or cannot be used, and what would be right."""
    for field in structs.fields(Price):
        value = values.get(field.name)
        if value is None:
            if field.required:
                yield field.name, f"is missing; {_GIVE}"
        elif type(value) not in (int, float) or not 0 <= value <= MOST:  # type: ignore[operator]
            yield field.name, f"is {numbered(value)}; {_GIVE}"


class _Counts(NamedTuple):
    """What the counts of a wire format are called."""

    input: str
    output: str
    cached: str
    """Input that came from a cache."""
    written: str = ""
    """Input that was written to one. Where a format tells that, its `input` counts neither, else both."""


_COUNTS: Final[Mapping[str, _Counts]] = {
    "openai_chat": _Counts("prompt_tokens", "completion_tokens", "cached_tokens"),
    "openai_responses": _Counts("input_tokens", "output_tokens", "cached_tokens"),
    "anthropic_messages": _Counts(
        "input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"
    ),
}


def cost(usage: Mapping[str, Any] | None, price: Price | None, format: str) -> float | None:
    """What an answer has cost. None where no price or no usage is there, or one that cannot be so.

    Args:
        usage: the counts that the upstream reported, by the names that a record has them by.
        format: the wire format.
    """
    names = _COUNTS.get(format)
    if not usage or price is None or names is None:
        return None
    plain, output = usage.get(names.input), usage.get(names.output)
    cached = usage.get(names.cached, 0)
    written = usage.get(names.written, 0) if names.written else 0
    if not (_is_count(plain) and _is_count(output) and _is_count(cached) and _is_count(written)):
        return None
    if not names.written:
        plain -= cached
        if plain < 0:  # a part is larger than the whole
            return None
    prompt = plain * price.input + cached * price.of_cached + written * price.of_written
    return (prompt + output * price.output) / _MILLION


def from_cache(usage: Mapping[str, Any] | None, format: str) -> int:
    """The tokens of a request that came from a cache; 0 where none were reported that can be believed."""
    names = _COUNTS.get(format)
    cached = usage.get(names.cached) if usage and names is not None else None
    return cached if _is_count(cached) else 0


def uncached(tokens: int, price: Price) -> float:
    """How much more tokens cost that do not come from a cache; 0 where no cache makes them cheaper."""
    return max(0.0, tokens * (price.input - price.of_cached) / _MILLION)


def _is_count(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 <= value <= MOST_TOKENS


def shown(cost: float) -> str:
    """A cost as people read it: to a millionth, and of a smaller one three digits; never as `4.2e-07`."""
    if not cost:
        return "0"
    places = max(6, 2 - math.floor(math.log10(cost)))
    return f"{cost:.{places}f}".rstrip("0").rstrip(".")


def spent(cost: float | None, unknown: int) -> str:
    """What several turns cost, in words; empty where nothing is to be told of it.

    Args:
        cost: of those of which it is known; None if of none.
        unknown: how many there are of which it is not.
    """
    parts = [] if cost is None else [f"cost {shown(cost)}"]
    parts += [f"{'1 turn' if unknown == 1 else f'{unknown} turns'} of unknown cost"] if unknown else []
    return " and ".join(parts)
