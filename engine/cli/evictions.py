"""`turnout evictions`: what a memory holds, told, taken back, and moved to another."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import click
import msgspec

from turnout.engine.cli.store import Store, naming, with_store
from turnout.engine.context import Eviction, Identity
from turnout.engine.errors import MemoryRefusal, MemoryTrouble
from turnout.engine.habits import Home
from turnout.engine.memory.ids import kept_namespace, shown_id
from turnout.engine.memory.protocol import Change, Held, Memory
from turnout.engine.memory.sqlite.salvage import Salvage, namespaces_in
from turnout.engine.memory.values import eviction_json, json_of
from turnout.engine.printable import printable, printable_time

UNUSABLE: Final = 2
TELL_EVERY: Final = 1000
"""Identities between two words of progress."""

_LINE: Final = msgspec.json.Decoder(Held)


@click.group()
@naming
def command() -> None:
    """Tell what a memory holds, take it back, or move it to another one.

    The router may be running: what is changed here holds from its next turn on. Each command is about one
    namespace: the deployment's, or the one without a name. With --memory a session is remembered for a
    day without use; where yours is remembered for longer, give its --deployment.

    \b
    Examples:
      turnout evictions --deployment deployment.toml list
      turnout evictions --memory sqlite:evictions.db show session-42
      turnout evictions --memory sqlite:evictions.db export > evictions.jsonl
      turnout evictions --memory redis://127.0.0.1 import evictions.jsonl
    """  # noqa: D301 - click has to see the backspace


@command.command("list")
@click.option("--target", help="Only evictions of this target.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object an identity.")
@with_store
def list_(store: Store, target: str | None, *, as_json: bool) -> None:
    """Tell who holds evictions: session, agent, target, reason, since when and by which turn."""
    if target is not None:
        store.see_that_a_route_has(target)

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

    if not (told := store.use(tell)) and not as_json:
        click.echo("nothing is evicted", err=True)
    if not (told and store.namespace_given):
        _tell_other_namespaces(store)


@command.command()
@click.argument("session")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object an identity.")
@with_store
def show(store: Store, session: str, *, as_json: bool) -> None:
    """Tell all of a session's evictions, each with its first cause, and where it is at home."""

    async def tell(memory: Memory) -> bool:
        found = False
        async for held in store.all(memory, session):
            found = True
            if as_json:
                click.echo(_json(held, held.evictions))
                continue
            click.echo(f"{_who(held.identity)}  last used {printable_time(held.last_use)}")
            for eviction in held.evictions:
                click.echo("".join(f"  {line}\n" for line in _whole(eviction)), nl=False)
            for route, home in held.habits.homes.items():
                click.echo(f"  {_at_home(route, home)}")
        return found

    if not store.use(tell) and not as_json:
        click.echo(f"session {printable(session)!r} holds nothing", err=True)


@command.command()
@click.argument("session")
@click.argument("target")
@click.option("--agent", default="", help="Of this sub-agent, not of the root.")
@with_store
def restore(store: Store, session: str, target: str, agent: str) -> None:
    """Make TARGET eligible again for SESSION."""
    store.see_that_a_route_has(target)

    async def bring_back(memory: Memory) -> Sequence[Change]:
        identity = Identity(store.settings.namespace, session, agent)
        now = time.time()
        known = await memory.read(identity, now=now)
        chosen = [e for e in known.evictions if e.target == target]
        return await memory.remove(identity, chosen, now=now, why="restored")

    _tell_changes(store.use(bring_back))


@command.command("restore-all")
@click.argument("target")
@with_store
def restore_all(store: Store, target: str) -> None:
    """Make TARGET of the deployment eligible again for every session at once.

    It needs --deployment FILE: what is restored is the target as that file describes it now.
    """
    if not store.fingerprints:
        raise click.ClickException(
            f"no deployment says what {printable(target)!r} is; give --deployment FILE, whose target it is"
        )
    store.see_that_a_route_has(target)
    fingerprints = {fingerprint for name, fingerprint in store.fingerprints if name == target}

    async def bring_back(memory: Memory) -> None:
        for fingerprint in fingerprints:
            await memory.restore_everywhere(store.settings.namespace, target, fingerprint, now=time.time())

    store.use(bring_back)
    click.echo(f"{printable(target)} is eligible again for every session")


@command.command()
@click.argument("session")
@click.option("--agent", help="Only this sub-agent; an empty text is the root.")
@with_store
def forget(store: Store, session: str, agent: str | None) -> None:
    """Forget SESSION with all its agents, or one agent of it."""
    namespace = store.settings.namespace
    _tell_changes(store.use(lambda memory: memory.forget(namespace, session, agent, now=time.time())))


@command.command()
@click.option("--damaged", is_flag=True, help="Print what can still be read of a damaged SQLite file.")
@with_store
def export(store: Store, *, damaged: bool) -> None:
    """Print what the memory holds as JSON, a line an identity, for `import`.

    One namespace is printed; which others a SQLite file holds is told on standard error. The keys of
    extra_body that targets have refused are not printed: they are learnt anew.

    With --damaged the file is only read, and the exit status is 2 if not all of it could be.
    """
    if damaged:
        click.get_current_context().exit(_salvage(store))

    async def write(memory: Memory) -> int:
        number = 0
        async for held in store.all(memory):
            click.echo(_json(held, held.evictions))
            number += 1
            _progress(number, "told")
        _progress(number, "told", last=True)
        return number

    if not (number := store.use(write)):
        click.echo("nothing is evicted", err=True)
    if not (number and store.namespace_given):
        _tell_other_namespaces(store)


def _salvage(store: Store) -> int:
    settings = store.settings
    if store.file is None:
        raise click.UsageError("--damaged is for a SQLite file: give --memory sqlite:PATH")
    salvage = Salvage(store.file, settings.namespace, ttl_secs=settings.ttl_secs, now=time.time())
    number = 0
    try:
        for held in salvage:
            click.echo(_json(held, held.evictions))
            number += 1
            _progress(number, "told")
    except MemoryTrouble as error:
        raise click.ClickException(printable(str(error))) from error
    _progress(number, "told", last=True)
    if salvage.damaged:
        click.echo(f"{number} identities could be read; other parts of the file could not", err=True)
    elif not number:
        click.echo("nothing is evicted", err=True)
    _tell_other_namespaces(store)
    return UNUSABLE if salvage.damaged else 0


def _tell_other_namespaces(store: Store) -> None:
    """Who looks at one namespace would take it for all there is."""
    if store.file is None:
        return
    ours = shown_id(kept_namespace(store.settings.namespace))
    others: list[str] = []
    with suppress(MemoryTrouble):
        others = [_quoted(name) for name in namespaces_in(store.file) if name != ours]
    if others:
        click.echo(
            f"this is namespace {_quoted(ours)} only; the file also holds {', '.join(others)}:"
            " give --namespace NAME for another one",
            err=True,
        )


@command.command("import")
@click.argument("file", type=click.File("rb"))
@with_store
def import_(store: Store, file: Iterable[bytes]) -> None:
    """Add to the memory what `export` has printed, and tell how much that was.

    What is there already is merged, and doing it twice changes nothing. What has expired by now is not
    taken in. A line that is damaged, or of another namespace than the one that is imported into, is
    named and left out, and the exit status is 2. With --namespace NAME every line goes into that
    one, whatever its own.
    """
    intake = _Intake(store)
    made = store.file is not None and not store.file.exists()

    async def read(memory: Memory) -> None:
        for place, line in enumerate(file, start=1):
            if line.strip():
                await intake.take(memory, place, line)
        _progress(intake.taken, "taken in", last=True)

    store.use(read, make=True)
    if made and store.file is not None and store.file.exists():
        click.echo(f"made {printable(str(store.file))}")
    intake.tell()
    click.get_current_context().exit(UNUSABLE if intake.left_out else 0)


@dataclass
class _Intake:
    """What becomes of the lines of an import."""

    store: Store
    now: float = field(default_factory=time.time)
    taken: int = 0
    moved: int = 0
    expired: int = 0
    damaged: int = 0
    elsewhere: Counter[str] = field(default_factory=Counter)
    """Lines of other namespaces, by these."""

    @property
    def left_out(self) -> int:
        return self.damaged + self.elsewhere.total()

    async def take(self, memory: Memory, place: int, line: bytes) -> None:
        ours = self.store.settings.namespace
        try:
            held = _LINE.decode(line)
            theirs = held.identity.namespace
            if theirs != ours and not self.store.namespace_given:
                self.elsewhere[theirs] += 1
                return
            if held.last_use + self.store.settings.ttl_secs <= self.now:
                self.expired += 1
                return
            identity = held.identity._replace(namespace=ours)
            for eviction in held.evictions:
                await memory.record(identity, eviction, used=held.last_use)
            if held.habits:
                await memory.settle(identity, held.habits, now=held.last_use)
        except (msgspec.DecodeError, UnicodeError, MemoryRefusal) as error:
            self.damaged += 1
            click.echo(f"line {place}: {printable(str(error))}; it is left out", err=True)
            return
        self.taken += 1
        self.moved += theirs != ours
        _progress(self.taken, "taken in")

    def tell(self) -> None:
        ours = _quoted(self.store.settings.namespace)
        for theirs, number in self.elsewhere.items():
            click.echo(
                f"namespace {_quoted(theirs)}: {_lines(number)} left out, since this imports into {ours};"
                f" --namespace {ours} takes every line into that one",
                err=True,
            )
        click.echo(
            f"identities taken in: {self.taken}; expired: {self.expired}; lines left out: {self.left_out}"
        )
        if self.moved:
            click.echo(f"moved into namespace {ours}: {_lines(self.moved)}")


# -- words


def _json(held: Held, evictions: Iterable[Eviction]) -> bytes:
    """Every field is written: what is left to its default now may have another one later."""
    whole = [msgspec.Raw(eviction_json(eviction)) for eviction in evictions]
    kept = {"habits": held.habits} if held.habits else {}
    return json_of({"identity": held.identity, "last_use": held.last_use, "evictions": whole, **kept})


def _quoted(namespace: str) -> str:
    return f"'{printable(namespace)}'"


def _lines(number: int) -> str:
    return f"{number} line{'s' * (number != 1)}"


def _who(identity: Identity) -> str:
    return printable(f"{identity.session}  {identity.agent or '(root)'}")


def _line(eviction: Eviction) -> str:
    first = eviction.first
    size = f", {eviction.size} tokens did not fit" if eviction.size is not None else ""
    refused = sorted({feature for features in eviction.refused for feature in features})
    what = f", refused {', '.join(refused)}" if refused else ""
    since = f"since {printable_time(first.at)} by turn {first.turn}"
    return printable(f"{eviction.target}  {eviction.reason}  {since}{size}{what}")


def _whole(eviction: Eviction) -> Iterable[str]:
    first = eviction.first
    yield _line(eviction)
    said = f" {first.code}" if first.code else ""
    yield printable(f"  {first.kind}, status {first.status}{said}: {first.message}")
    yield printable(f"  by {first.evidence.rule} in {first.evidence.field}")
    if eviction.latest_turn != first.turn:
        yield printable(f"  last seen {printable_time(eviction.latest_at)} by turn {eviction.latest_turn}")


def _at_home(route: str, home: Home) -> str:
    last = "" if home.last.target == home.home.target else f"; {home.last.target} served last"
    since = printable_time(home.home.at)
    return printable(f"on route {route} it is at home with {home.home.target} since {since}{last}")


def _tell_changes(changes: Sequence[Change]) -> None:
    for change in changes:
        click.echo(f"{change.why}: {_who(change.identity)}  {_line(change.eviction)}")
    if not changes:
        click.echo("there was no eviction to remove", err=True)


def _progress(number: int, what: str, *, last: bool = False) -> None:
    """A word now and then to whoever watches."""
    if sys.stderr.isatty() and (last or number % TELL_EVERY == 0):
        click.echo(f"\r{number} identities {what}", nl=last, err=True)
