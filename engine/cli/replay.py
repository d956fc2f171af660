"""`turnout replay`: recorded turns, played again on today's machines."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Final

import click
import msgspec

from turnout.engine.cli.records import UNUSABLE
from turnout.engine.errors import ConfigurationError
from turnout.engine.printable import printable, printable_json
from turnout.engine.recordings import Line, lines_of
from turnout.engine.replay import Difference, replay

THE_SAME: Final = 0
DIFFERENT: Final = 1

TELL_EVERY: Final = 10_000
"""Records between two words to whoever watches."""


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="RECORDS...", type=click.Path(path_type=Path))
@click.option(
    "--intended",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Digests of differences that are meant to be, one a line; what follows a # is a remark.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a difference.")
@click.pass_context
def command(ctx: click.Context, paths: tuple[Path, ...], intended: Path | None, *, as_json: bool) -> None:
    """Play recorded turns again on today's machines, without a network, and tell which go another way.

    RECORDS are files of records, of JSON lines or of SQLite, or folders of such. Of
    each turn that differs the first step that does is told, with a digest of what differs there: the same
    for all turns that differ so.

    \b
    Examples:
      turnout replay records.jsonl
      turnout replay records/ --intended intended.txt

    \b
    Exit status:
      0  every turn goes the way that it went, or differs as intended
      1  some do not
      2  a file cannot be read, a line of one holds no record, or there is none; all others were played
    """  # noqa: D301 - click has to see the backspace
    meant = _digests(intended)
    seen = _Seen()
    for line in lines_of(paths):
        if (difference := _played(line, seen)) is None:
            continue
        if difference.digest in meant:
            seen.intended += 1
            continue
        seen.different[difference.digest] += 1
        click.echo(_in_json(line, difference) if as_json else _in_words(line, difference))
    if not (seen.records or seen.unusable):
        click.echo("no record was found", err=True)
        ctx.exit(UNUSABLE)
    seen.tell_the_end()
    ctx.exit(UNUSABLE if seen.unusable else DIFFERENT if seen.different else THE_SAME)


class _Seen:
    """What has come so far."""

    def __init__(self) -> None:
        self.records = 0
        self.unusable = 0
        self.intended = 0
        self.different: Counter[str] = Counter()

    def tell(self) -> None:
        if sys.stderr.isatty() and self.records % TELL_EVERY == 0:
            click.echo(f"\r{self.records} turns played", nl=False, err=True)

    def tell_the_end(self) -> None:
        if sys.stderr.isatty() and self.records >= TELL_EVERY:
            click.echo("\r", nl=False, err=True)
        same = self.records - self.different.total() - self.intended
        turns = "turn" if self.records == 1 else "turns"
        told = f"{self.records} {turns}: {same} go the way they went, {self.different.total()} differ"
        told += f", {self.intended} differ as intended" if self.intended else ""
        told += f"; {self.unusable} lines cannot be used" if self.unusable else ""
        click.echo(told, err=True)
        for digest, number in self.different.most_common():
            click.echo(f"  {digest}  {number}", err=True)


def _played(line: Line, seen: _Seen) -> Difference | None:
    if line.torn:
        click.echo(printable(f"{line.place}: was not written to its end; it is left out"), err=True)
    elif line.wrong:
        seen.unusable += 1
        click.echo(printable(f"{line.place}: {line.wrong}; it is left out"), err=True)
    if line.record is None:
        return None
    try:
        difference = replay(line.record)
    except (ConfigurationError, RecursionError) as error:
        seen.unusable += 1
        click.echo(printable(f"{line.place}: cannot be played: {error}"), err=True)
        return None
    seen.records += 1
    seen.tell()
    return difference


def _digests(file: Path | None) -> frozenset[str]:
    if file is None:
        return frozenset()
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeError) as error:
        raise click.BadParameter(printable(f"{file}: cannot be read: {error}")) from error
    return frozenset(digest for line in lines if (digest := line.partition("#")[0].strip()))


def _in_words(line: Line, difference: Difference) -> str:
    session = f" of session {difference.session}" if difference.session else ""
    return printable(
        f"{line.place}: turn {difference.turn}{session}, step {difference.step}:"
        f" {difference.recorded}; today: {difference.today}  [{difference.digest}]"
    )


def _in_json(line: Line, difference: Difference) -> str:
    told = {
        "file": printable(str(line.file)),
        "line": line.number,
        **msgspec.to_builtins(difference),
        "digest": difference.digest,
    }
    return printable_json(msgspec.json.encode(told).decode())
