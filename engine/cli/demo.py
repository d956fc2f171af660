"""`turnout demo`: one session against real upstreams on this machine, and what its memory saves."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import click

from turnout.engine.audit import AuditRecord, ProbeRecord, decode
from turnout.engine.cli import story
from turnout.engine.diagram import mermaid
from turnout.engine.picture import session as session_picture
from turnout.engine.policy import DEFAULT_POLICY, Action
from turnout.engine.printable import printable
from turnout.machines import turn as turn_machine
from turnout.machines.vocabulary import ErrorKind, RoutingFallbackReason, TurnoutError

PICTURE: Final = "picture.md"

OPENING: Final = """\
One chat about a photo, routed over four models behind real local HTTP servers:
text-only takes no images, small has a small window, flaky is down at first.
What can never serve this chat is asked once; what is down is asked again.
"""
REOPENED: Final = "-- the router is dropped; another one opens on the same SQLite file --"
NEXT: Final = """\
next     turnout explain photo --records FILE tells each turn of it, and why;
         turnout simulate FILE plays a story of your own, without a network;
         the README shows how to put a Router into your service"""

WRONG: Final[Mapping[str, str]] = {ErrorKind.CAPABILITY: Action.SKIP}
"""The mapping that no single turn shows to be wrong: a refusal for good, taken for an outage."""


class Marks(NamedTuple):
    """What stands before a cell's word."""

    served: str
    left: str
    passed_over: str


PLAIN: Final = Marks("+", "x", "-")
NICE: Final = Marks("✓", "✗", "·")

LABEL: Final = 16
WIDTHS: Final = (14, 18, 15, 8)
"""Of the first column and of one for each target, in characters."""


def marks() -> Marks:
    """The marks that standard output can show."""
    try:
        "".join(NICE).encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except UnicodeEncodeError:
        return PLAIN
    return NICE


def line(label: str, cells: Iterable[tuple[str, str | None]]) -> str:
    """One line of the grid: a label, then a cell and its colour for each target."""
    padded = [
        (click.style(text, fg=colour) if colour else text) + " " * (width - len(text))
        for (text, colour), width in zip(cells, WIDTHS, strict=True)
    ]
    return (label.ljust(LABEL) + "".join(padded)).rstrip()


def path(record: AuditRecord, using: Marks) -> Iterator[tuple[str, str | None]]:
    """What one turn did with each target of the ladder."""
    asked = {probe.target: probe for probe in record.probes}
    passed_over = {passed.target: passed for passed in record.passed_over}
    for rung in record.ladder:
        if rung.target in asked:
            yield _outcome(asked[rung.target], using)
        elif rung.target in passed_over:
            yield f"{using.passed_over} {passed_over[rung.target].why}", "bright_black"
        else:
            yield "", None


def _outcome(probe: ProbeRecord, using: Marks) -> tuple[str, str]:
    if probe.answered:
        return f"{using.served} served", "green"
    brief = probe.reason is RoutingFallbackReason.UNAVAILABLE
    return f"{using.left} {probe.reason}", "yellow" if brief else "red"


@click.command()
@click.option(
    "--dir",
    "folder",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="An empty or new folder for the files. Default: a new temporary one, which is kept.",
)
def command(folder: Path | None) -> None:
    """See it work: one session against real HTTP servers on this machine.

    Needs no network, no key and no configuration, and takes a second. Each line is a turn,
    each column a model; the last lines say where audit records and a picture lie.

    \b
    Examples:
      turnout demo
      turnout demo --dir here

    \b
    Exit status:
      0  the session was played
      1  it could not be
      2  DIR cannot be used
    """  # noqa: D301 - click has to see the backspace
    using = marks()
    place = _place(folder)
    try:
        _show(place, using)
    except TurnoutError as error:
        stopped = printable(f"the demo stopped: {error}; its files are in {place}")
        raise click.ClickException(stopped) from error


def _show(folder: Path, using: Marks) -> None:
    click.echo(OPENING)
    left, passed_over, served = using.left, using.passed_over, using.served
    click.echo(f"{left} asked in vain   {passed_over} evicted earlier, not asked   {served} served\n")
    click.echo(line("", ((name, None) for name in story.upstreams())))
    turns = 0

    def turned(record: AuditRecord) -> None:
        nonlocal turns
        turns += 1
        click.echo(line(f"turn {turns}", path(record, using)))

    arrived = asyncio.run(story.play(folder, turned=turned, reopened=lambda: click.echo(REOPENED)))
    with tempfile.TemporaryDirectory(prefix="turnout-demo-") as elsewhere:
        if_skipped = asyncio.run(story.play(Path(elsewhere), on=WRONG))
    more = if_skipped[story.TEXT_ONLY] - arrived[story.TEXT_ONLY]
    click.echo("\nRequests that reached each server, as the servers counted them:")
    click.echo(line("Turnout", _counts(arrived)))
    click.echo(line("skip instead", _counts(if_skipped)))
    click.echo(f"""The second line is the same session, played again with capability mapped to
"skip", as if it were an outage: {more} certain rejections more in these {turns} turns.
""")
    _draw(folder)
    for label, name in (("records", story.RECORDS), ("memory", story.MEMORY), ("picture", PICTURE)):
        click.echo(f"{label:<9}{printable(str(folder / name))}")
    click.echo(NEXT)


def _counts(arrived: Mapping[str, int]) -> Iterator[tuple[str, str | None]]:
    return ((str(count), None) for count in arrived.values())


def _draw(folder: Path) -> None:
    """The session as its records tell it, and the machine that routed it, in one Markdown file."""
    records = [decode(row) for row in (folder / story.RECORDS).read_bytes().splitlines()]
    text = (
        "# The session\n\n"
        f"```mermaid\n{session_picture(records)}```\n\n"
        "# The machine that routed each turn, and its policy\n\n"
        f"```mermaid\n{mermaid(turn_machine.DEFINITION, DEFAULT_POLICY).rstrip()}\n```\n"
    )
    with story.naming(folder / PICTURE):
        (folder / PICTURE).touch(mode=0o600)
        (folder / PICTURE).write_text(text, encoding="utf-8")


def _place(folder: Path | None) -> Path:
    """The folder for the files, readable by nobody else where it is made here."""
    if folder is None:
        return Path(tempfile.mkdtemp(prefix="turnout-demo-"))
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        wrong = "it is not empty" if any(folder.iterdir()) else ""
        if not wrong:
            (folder / story.RECORDS).touch(mode=0o600)  # told now that it takes no files, not after a turn
    except OSError as error:
        wrong = str(error.strerror)
    if wrong:
        raise click.BadParameter(f"{folder}: {wrong}; give an empty or new folder", param_hint="--dir")
    return folder
