"""The memory that a command of `turnout evictions` is about, and the options that name it."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import click

from turnout.engine import deployment
from turnout.engine.credentials import variable_named
from turnout.engine.deployment.checks import memory_in_environment, memory_url
from turnout.engine.errors import ConfigurationError, MemoryTrouble
from turnout.engine.memory import from_url, redis_url, resolved
from turnout.engine.memory.protocol import Held, Memory
from turnout.engine.printable import did_you_mean, printable

PAGE: Final = 500

T = TypeVar("T")
P = ParamSpec("P")


@dataclass(frozen=True)
class Store:
    """The memory that a command is about."""

    settings: deployment.MemorySettings
    fingerprints: frozenset[tuple[str, str]]
    """Of the deployment's targets, by name; none where only a memory is named."""
    namespace_given: bool
    """Whether the namespace was asked for, and is not just the one that applies where none is."""

    @property
    def file(self) -> Path | None:
        """Its file, if it is a SQLite one."""
        scheme, _, path = resolved(self.settings.url).partition(":")
        return Path(path) if scheme == "sqlite" else None

    def see_that_a_route_has(self, target: str) -> None:
        """A name that was mistyped would find nothing, and seem to need nothing.

        Raises:
            click.ClickException: there is a deployment, and no route of it has this target.
        """
        names = sorted({name for name, _ in self.fingerprints})
        if names and target not in names:
            raise click.ClickException(
                f"no route has a target {printable(target)!r}{did_you_mean(target, names)}"
            )

    def use(self, doing: Callable[[Memory], Awaitable[T]], *, make: bool = False) -> T:
        """Do something with it.

        Args:
            make: make its file, if there is none.

        Raises:
            click.ClickException: it is in trouble.
        """
        if self.file is not None and not make and not self.file.exists():
            raise click.ClickException(
                f"there is no file {printable(str(self.file))!r}; give the path of a memory"
            )

        async def within() -> T:
            settings = self.settings
            memory = from_url(
                settings.url,
                ttl_secs=settings.ttl_secs,
                max_sessions=settings.max_sessions,
                durability=settings.durability,
            )
            try:
                return await doing(memory)
            finally:
                await memory.close()

        try:
            return asyncio.run(within())
        except (MemoryTrouble, ConfigurationError) as error:
            raise click.ClickException(printable(str(error))) from error

    async def all(self, memory: Memory, session: str | None = None) -> AsyncIterator[Held]:
        cursor = ""
        while True:
            page = await memory.held(
                self.settings.namespace, session, now=time.time(), cursor=cursor, most=PAGE
            )
            for held in page.held:
                yield held
            if not (cursor := page.cursor):
                return


@dataclass
class _Named:
    """What the options say, wherever they stand."""

    deployment: Path | None = None
    memory: str | None = None
    namespace: str | None = None

    def store(self) -> Store:
        """The memory that they name.

        Raises:
            click.ClickException: none, or one that cannot be looked at.
        """
        if (self.deployment is None) == (self.memory is None):
            raise click.UsageError("name the memory: give --deployment FILE or --memory URL")
        targets = frozenset[tuple[str, str]]()
        if self.deployment is not None:
            try:
                loaded = deployment.load(self.deployment)
            except ConfigurationError as error:
                raise click.ClickException(str(error)) from error
            settings = loaded.memory
            ladders = (target for route in loaded.routes.values() for target in route.ladder)
            targets = frozenset((target.name, target.fingerprint) for target in ladders)
        else:
            settings = deployment.MemorySettings(url=self.memory or "")
            _see_to(settings.url)
        if resolved(settings.url) == "memory:":
            raise click.ClickException(
                "memory: is gone with its process; there is nothing to look at from here"
            )
        if self.namespace is not None:
            settings = replace(settings, namespace=self.namespace)
        return Store(settings, targets, namespace_given=self.namespace is not None)


def _see_to(url: str) -> None:
    """Refuse what a deployment file refuses, which means one thing and would do another.

    Raises:
        click.ClickException: that url.
    """
    if redis_url.is_redis(url) and redis_url.has_credential(url):
        raise click.UsageError(
            "--memory holds a credential, which anyone here can read in the list of processes: put the whole"
            " url into an environment variable and name that, as in --memory env:REDIS_URL"
        )
    for mistake in memory_url(url):
        raise click.UsageError(f"--memory {mistake.what}")
    scheme, _, variable = url.partition(":")
    if scheme == "env" and (named := resolved(url)):
        for mistake in memory_in_environment(named):
            if mistake.stops:
                raise click.ClickException(f"memory url in {variable_named(variable)} {mistake.what}")


def _take(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    named = ctx.ensure_object(_Named)
    if value is not None and param.name is not None:
        setattr(named, param.name, value)


_OPTIONS: Final = (
    click.option(
        *("--deployment", "deployment"),
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Whose [memory] it is.",
        expose_value=False,
        callback=_take,
    ),
    click.option(
        *("--memory", "memory"),
        metavar="URL",
        help="Instead of a deployment: sqlite:PATH, redis://HOST or env:NAME, the variable that holds one.",
        expose_value=False,
        callback=_take,
    ),
    click.option(
        *("--namespace", "namespace"),
        metavar="NAME",
        help="Whose sessions, if not the deployment's.",
        expose_value=False,
        callback=_take,
    ),
)
"""Before a command or behind it: they come to the same."""


def naming(function: Callable[P, T]) -> Callable[P, T]:
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def with_store(function: Callable[Concatenate[Store, P], T]) -> Callable[P, T]:
    """A command about the memory that the options name. It is looked for when the command is run: its help
    needs none.
    """

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return function(click.get_current_context().ensure_object(_Named).store(), *args, **kwargs)

    return naming(run)
