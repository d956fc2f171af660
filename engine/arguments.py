"""The arguments of a router that are objects: whether each can do what it is there for."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from turnout.engine.clock import Clock
from turnout.engine.errors import ConfigurationError
from turnout.engine.hints import mistyped
from turnout.engine.http import Library, Transports
from turnout.engine.memory.bounded import OnMemoryError
from turnout.engine.memory.protocol import Memory


class _Needed(NamedTuple):
    methods: tuple[str, ...]
    instead: str
    """What to give."""
    maybe_class: bool = False
    """Whether a class will do, since what is called gives something."""


def _methods(protocol: type) -> tuple[str, ...]:
    return tuple(name for name in vars(protocol) if not name.startswith("_"))


_DESCRIBED: Final = frozenset(vars(Memory)[method] for method in _methods(Memory))

_NEEDED: Final[Mapping[str, _Needed]] = {
    "memory": _Needed(
        _methods(Memory),
        'SqliteMemory("evictions.db"), InMemory(), RedisMemory("redis://HOST:PORT/DB")'
        " (from turnout.engine.memory.redis) or a Memory of your own",
    ),
    "transport": _Needed(
        ("handle_async_request", "aclose"), '"aiohttp", "httpx" or an httpx.AsyncBaseTransport'
    ),
    "size": _Needed(("__call__",), "a function of a request's body that gives its tokens", maybe_class=False),
    "capture": _Needed(("keep",), 'Capture("captured")'),
    "on_record": _Needed(("__call__",), 'a callable, such as JsonLines("records.jsonl")'),
    "on_change": _Needed(("__call__",), 'a callable, such as JsonLines("changes.jsonl")'),
    "clock": _Needed(_methods(Clock), "a Clock"),
    "jitter": _Needed(("__call__",), "a callable that gives a number from 0 to 1", maybe_class=True),
    "new_id": _Needed(("__call__",), "a callable that gives a name", maybe_class=True),
}

_TAKES: Final[Mapping[str, Any]] = {"on_memory_error": OnMemoryError, "memory_timeout_ms": float}


def check(**arguments: Any) -> None:
    """See that a router can work with what it is given.

    Raises:
        ConfigurationError: naming each argument that cannot be used, and what would be right.
    """
    takes = {name: hint for name, hint in _TAKES.items() if name in arguments}
    if isinstance(arguments.get("transport"), str):
        takes["transport"] = Library
    wrong = [*mistyped(arguments, takes)]
    for name, given in arguments.items():
        if given is not None and name not in takes and not isinstance(given, Transports):
            wrong += _mistakes(name, given)
    if wrong:
        raise ConfigurationError("\n".join(wrong))


def _mistakes(name: str, given: object) -> Iterator[str]:
    needed = _NEEDED[name]
    if inspect.isclass(given) and not needed.maybe_class:
        yield f"{name} is a class; give {needed.instead}"
    elif lacking := [method for method in needed.methods if _lacks(given, method)]:
        # a text is no attempt at a memory, though it has a `strip`
        attempt = len(lacking) < len(needed.methods) and not isinstance(given, str)
        without = f" without {', '.join(lacking)}" if attempt else ""
        yield f"{name} is of type {type(given).__name__}{without}; give {needed.instead}"
    elif name in ("on_record", "on_change", "size") and never_runs(given):
        yield f"{name} is async and would never be awaited; give a plain callable"


def _lacks(given: object, method: str) -> bool:
    found = getattr(given, method, None)
    # what is inherited from the protocol does nothing
    return not callable(found) or getattr(found, "__func__", None) in _DESCRIBED


def never_runs(given: object) -> bool:
    """Whether to call it only gives what has to be awaited: an async function, or an object that is called
    like one.
    """
    return any(map(inspect.iscoroutinefunction, (given, getattr(given, "__call__", None))))  # noqa: B004
