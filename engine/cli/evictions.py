"""`turnout evictions`: what a memory holds, told, taken back, and moved to another."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar

import click
import msgspec

from turnout.engine import deployment
from turnout.engine.context import Eviction, Identity
from turnout.engine.errors import ConfigurationError, MemoryTrouble
from turnout.engine.memory import from_url
from turnout.engine.memory.protocol import Change, Held, Memory
from turnout.engine.memory.sqlite.salvage import Salvage
from turnout.engine.memory.values import eviction_json, json_of
from turnout.engine.printable import printable

UNUSABLE: Final = 2
PAGE: Final = 500
TELL_EVERY: Final = 1000
"""Identities between two words of progress."""

T = TypeVar("T")
_LINE: Final = msgspec.json.Decoder(Held)


@dataclass(frozen=True)
class _Store:
    """The memory that a command is about."""

    settings: deployment.MemorySettings
    fingerprints: frozenset[tuple[str, str]]
    """Of the deployment's targets, by name; none where only a memory is named."""

    def use(self, doing: Callable[[Memory], Awaitable[T]], *, make: bool = False) -> T:
        """Do something with it.

        Args:
            make: make its file, if there is none.

        Raises:
            click.ClickException: it is in trouble.
        """
        scheme, _, path = self.settings.url.partition(":")
        if scheme == "sqlite" and not make and not Path(path).exists():
            raise click.ClickException(f"there is no file {printable(path)!r}; give the path of a memory")

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


@click.group()
@click.option(
    "--deployment", "file", type=click.Path(path_type=Path), metavar="FILE", help="Whose [memory] it is."
)
@click.option("--memory", "url", metavar="URL", help="Instead of a deployment: sqlite:PATH or redis://HOST.")
@click.option("--namespace", help="Whose sessions, if not the deployment's.")
@click.pass_context
def command(ctx: click.Context, file: Path | None, url: str | None, namespace: str | None) -> None:
    """Tell what a memory holds, take it back, or move it to another one.

    The router may be running: what is changed here holds from its next turn on.

    \b
    Examples:
      turnout evictions --deployment deployment.toml list
      turnout evictions --memory sqlite:evictions.db show session-42
      turnout evictions --memory sqlite:evictions.db export > evictions.jsonl
      turnout evictions --memory redis://127.0.0.1 import evictions.jsonl
    """  # noqa: D301 - click has to see the backspace
    if (file is None) == (url is None):
        raise click.UsageError("name the memory: give --deployment FILE or --memory URL")
    settings, fingerprints = deployment.MemorySettings(url=url or ""), frozenset[tuple[str, str]]()
    if file is not None:
        try:
            loaded = deployment.load(file)
        except ConfigurationError as error:
            raise click.ClickException(str(error)) from error
        settings = loaded.memory
        targets = (target for route in loaded.routes.values() for target in route.ladder)
        fingerprints = frozenset((target.name, target.fingerprint) for target in targets)
    if settings.url == "memory:":
        raise click.ClickException("memory: is gone with its process; there is nothing to look at from here")
    if namespace is not None:
        settings = replace(settings, namespace=namespace)
    ctx.obj = _Store(settings, fingerprints)


@command.command("list")
@click.option("--target", help="Only evictions of this target.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object an identity.")
@click.pass_obj
def list_(store: _Store, target: str | None, *, as_json: bool) -> None:
    """Tell who holds evictions: session, agent, target, reason, since when and by which turn."""

    async def tell(memory: Memory) -> int:
        told = 0
        async for held in store.all(memory):
            chosen = tuple(e for e in held.evictions if target in (None, e.target))
            if not chosen:
                continue
            told += 1
            if as_json:
                click.echo(_json(held, chosen))
                continue
            for eviction in chosen:
                click.echo(f"{_who(held.identity)}  {_line(eviction)}")
        return told

    if not store.use(tell) and not as_json:
        click.echo("nothing is evicted", err=True)


@command.command()
@click.argument("session")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object an identity.")
@click.pass_obj
def show(store: _Store, session: str, *, as_json: bool) -> None:
    """Tell all of a session's evictions, each with its first cause."""

    async def tell(memory: Memory) -> bool:
        found = False
        async for held in store.all(memory, session):
            found = True
            if as_json:
                click.echo(_json(held, held.evictions))
                continue
            click.echo(f"{_who(held.identity)}  last used {_time(held.last_use)}")
            for eviction in held.evictions:
                click.echo("".join(f"  {line}\n" for line in _whole(eviction)), nl=False)
        return found

    if not store.use(tell) and not as_json:
        click.echo(f"session {printable(session)!r} holds no eviction", err=True)


@command.command()
@click.argument("session")
@click.argument("target")
@click.option("--agent", default="", help="Of this sub-agent, not of the root.")
@click.pass_obj
def restore(store: _Store, session: str, target: str, agent: str) -> None:
    """Make TARGET eligible again for SESSION."""

    async def bring_back(memory: Memory) -> Sequence[Change]:
        identity = Identity(store.settings.namespace, session, agent)
        now = time.time()
        known = await memory.read(identity, now=now)
        chosen = [e for e in known.evictions if e.target == target]
        return await memory.remove(identity, chosen, now=now, why="restored")

    _tell_changes(store.use(bring_back))


@command.command("restore-all")
@click.argument("target")
@click.pass_obj
def restore_all(store: _Store, target: str) -> None:
    """Make TARGET of the deployment eligible again for every session at once."""
    fingerprints = {fingerprint for name, fingerprint in store.fingerprints if name == target}
    if not fingerprints:
        raise click.ClickException(
            f"no route has a target {printable(target)!r}; give --deployment FILE, whose target it is"
        )

    async def bring_back(memory: Memory) -> None:
        for fingerprint in fingerprints:
            await memory.restore_everywhere(store.settings.namespace, target, fingerprint, now=time.time())

    store.use(bring_back)
    click.echo(f"{printable(target)} is eligible again for every session")


@command.command()
@click.argument("session")
@click.option("--agent", help="Only this sub-agent; an empty text is the root.")
@click.pass_obj
def forget(store: _Store, session: str, agent: str | None) -> None:
    """Forget SESSION with all its agents, or one agent of it."""
    namespace = store.settings.namespace
    _tell_changes(store.use(lambda memory: memory.forget(namespace, session, agent, now=time.time())))


@command.command()
@click.option("--damaged", is_flag=True, help="Print what can still be read of a damaged SQLite file.")
@click.pass_context
def export(ctx: click.Context, *, damaged: bool) -> None:
    """Print what the memory holds as JSON, a line an identity, for `import`.

    With --damaged the file is only read, and the exit status is 2 if not all of it could be.
    """
    store: _Store = ctx.obj
    if damaged:
        ctx.exit(_salvage(store.settings))

    async def write(memory: Memory) -> None:
        number = 0
        async for held in store.all(memory):
            click.echo(_json(held, held.evictions))
            number += 1
            _progress(number, "told")
        _progress(number, "told", last=True)

    store.use(write)


def _salvage(settings: deployment.MemorySettings) -> int:
    scheme, _, path = settings.url.partition(":")
    if scheme != "sqlite":
        raise click.UsageError("--damaged is for a SQLite file: give --memory sqlite:PATH")
    salvage = Salvage(Path(path), settings.namespace, ttl_secs=settings.ttl_secs, now=time.time())
    number = 0
    try:
        for held in salvage:
            click.echo(_json(held, held.evictions))
            number += 1
            _progress(number, "told")
    except MemoryTrouble as error:
        raise click.ClickException(printable(str(error))) from error
    _progress(number, "told", last=True)
    if not salvage.damaged:
        return 0
    click.echo(f"{number} identities could be read; other parts of the file could not", err=True)
    return UNUSABLE


@command.command("import")
@click.argument("file", type=click.File("rb"))
@click.pass_context
def import_(ctx: click.Context, file: Iterable[bytes]) -> None:
    """Add to the memory what `export` has printed.

    What is there already is merged, and doing it twice changes nothing. A line that is
    damaged is named and left out, and the exit status is 2.
    """
    store: _Store = ctx.obj
    damaged = 0

    async def read(memory: Memory) -> None:
        nonlocal damaged
        number = 0
        for place, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                held = _LINE.decode(line)
            except (msgspec.DecodeError, UnicodeError) as error:
                damaged += 1
                click.echo(f"line {place}: {printable(str(error))}; it is left out", err=True)
                continue
            identity = held.identity._replace(namespace=store.settings.namespace)
            for eviction in held.evictions:
                await memory.record(identity, eviction)
            await memory.touch(identity, now=held.last_use)
            number += 1
            _progress(number, "taken in")
        _progress(number, "taken in", last=True)

    store.use(read, make=True)
    ctx.exit(UNUSABLE if damaged else 0)


# -- words


def _json(held: Held, evictions: Iterable[Eviction]) -> bytes:
    """Every field is written: what is left to its default now may have another one later."""
    whole = [msgspec.Raw(eviction_json(eviction)) for eviction in evictions]
    return json_of({"identity": held.identity, "last_use": held.last_use, "evictions": whole})


def _who(identity: Identity) -> str:
    return printable(f"{identity.session}  {identity.agent or '(root)'}")


def _line(eviction: Eviction) -> str:
    first = eviction.first
    size = f", {eviction.size} tokens did not fit" if eviction.size is not None else ""
    refused = sorted({feature for features in eviction.refused for feature in features})
    what = f", refused {', '.join(refused)}" if refused else ""
    return printable(
        f"{eviction.target}  {eviction.reason}  since {_time(first.at)} by turn {first.turn}{size}{what}"
    )


def _whole(eviction: Eviction) -> Iterable[str]:
    first = eviction.first
    yield _line(eviction)
    said = f" {first.code}" if first.code else ""
    yield printable(f"  {first.kind}, status {first.status}{said}: {first.message}")
    yield printable(f"  by {first.evidence.rule} in {first.evidence.field}")
    if eviction.latest_turn != first.turn:
        yield printable(f"  last seen {_time(eviction.latest_at)} by turn {eviction.latest_turn}")


def _time(at: float) -> str:
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return f"{at:g}"


def _tell_changes(changes: Sequence[Change]) -> None:
    for change in changes:
        click.echo(f"{change.why}: {_who(change.identity)}  {_line(change.eviction)}")
    if not changes:
        click.echo("there was nothing to remove", err=True)


def _progress(number: int, what: str, *, last: bool = False) -> None:
    """A word now and then to whoever watches."""
    if sys.stderr.isatty() and (last or number % TELL_EVERY == 0):
        click.echo(f"\r{number} identities {what}", nl=last, err=True)
