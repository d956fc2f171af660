"""Walks every path of anything that asks for its choices.

A story is a function that plays one path and calls `choose(options)` wherever the world
could go several ways. `walk` plays it again and again, each time along a path that it has
not taken, until none is left: the whole model checker. What must hold on a path is said by
the story itself, over outcomes and never over the rows, since a changed row would satisfy
a property that quotes it.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from turnout.machines.vocabulary import TurnoutError

T = TypeVar("T")
R = TypeVar("R")


class Choose(Protocol):
    """Which of the options this path takes."""

    def __call__(self, options: Sequence[T], /) -> T: ...


class TooManyPaths(TurnoutError):
    """The walk was stopped at its limit: nothing can be concluded from it."""


def walk(story: Callable[[Choose], R], *, limit: int = 10_000_000) -> Iterator[R]:
    """Yield what `story` returns on each of its paths, in the order of the options.

    Raises:
        TooManyPaths: more than `limit` of them.
    """
    path = _Path()
    for _ in range(limit):
        yield story(path.choose)
        if not path.turn_off():
            return
    raise TooManyPaths(f"more than {limit} paths; narrow the story or raise the limit")


class _Path:
    def __init__(self) -> None:
        self._taken: list[int] = []  # the option taken at each choice so far
        self._among: list[int] = []  # of how many
        self._depth = 0

    def choose(self, options: Sequence[T], /) -> T:
        if self._depth == len(self._taken):
            self._taken.append(0)
            self._among.append(len(options))
        taken = self._taken[self._depth]
        self._depth += 1
        return options[taken]

    def turn_off(self) -> bool:
        """Take the next option at the last choice that has one left. False: every path was played."""
        self._depth = 0
        while self._taken and self._taken[-1] + 1 == self._among[-1]:
            self._taken.pop()
            self._among.pop()
        if self._taken:
            self._taken[-1] += 1
        return bool(self._taken)
