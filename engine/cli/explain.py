"""`turnout explain`: a session, turn by turn, and why."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from turnout.engine import picture, svg
from turnout.engine.account import Account, account, in_order
from turnout.engine.account_words import lines
from turnout.engine.cli.records import Records, records_option
from turnout.engine.memory.ids import kept_id
from turnout.engine.printable import printable, printable_json, printable_time


@click.command()
@click.argument("session")
@records_option
@click.option("--namespace", default="", help="Of this namespace.")
@click.option("--turn", "which", metavar="N", help="Only its Nth turn, or the one with this id.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a turn.")
@click.option(
    "--mermaid",
    is_flag=True,
    help="Draw who was asked, as a Mermaid sequence diagram; of one turn its way through the machine.",
)
@click.option("--svg", "as_svg", is_flag=True, help="Draw who was asked and who was out, as an SVG picture.")
@click.pass_context
def command(
    ctx: click.Context,
    session: str,
    paths: tuple[Path, ...],
    namespace: str,
    which: str | None,
    *,
    as_json: bool,
    mermaid: bool,
    as_svg: bool,
) -> None:
    """Tell a session from its records: who was asked in each turn and what came of it, who was not, which
    earlier turn is the cause of that, and on what evidence.

    \b
    Examples:
      turnout explain session-42 --records records.jsonl
      turnout explain session-42 --records records/ --turn 3
      turnout explain session-42 --records records/ --svg > session-42.svg

    \b
    Exit status:
      0  it was told
      1  there is no such session, or no such turn of it
      2  a file cannot be read, or a line of one holds no record; the rest was told all the same
    """  # noqa: D301 - click has to see the backspace
    if as_json + mermaid + as_svg > 1:
        raise click.UsageError("give one of --json, --mermaid and --svg: each prints something else")
    read, wanted = Records(paths), kept_id(session)
    records = [
        record
        for record in read
        if record.caller.namespace == namespace and kept_id(record.caller.session) == wanted
    ]
    told = account(session, records)
    turns = [turn for turn in told.turns if which in (None, str(turn.number), turn.turn)]
    if not turns:
        missing = f"turn {which} of session {session}" if records else f"session {session}"
        click.echo(printable(f"there is no record of {missing}"), err=True)
        ctx.exit(read.status or 1)
    if mermaid or as_svg:
        ordered = in_order(records)
        numbers = [turn.number for turn in turns]
        shown = [ordered[at - 1] for at in numbers]
        if as_svg:
            drawn = svg.session(session, shown, numbers)
        else:
            drawn = picture.session(shown) if which is None else picture.turn(shown[0])
        click.echo(drawn, nl=False)
        ctx.exit(read.status)
    if not as_json:
        click.echo(printable(_heading(told)))
    for turn in turns:
        if as_json:
            click.echo(printable_json(msgspec.json.encode(turn).decode()))
            continue
        for line in lines(turn):
            click.echo(printable(line))
    ctx.exit(read.status)


def _heading(told: Account) -> str:
    first, last = told.turns[0].at, told.turns[-1].at
    turns = "1 turn" if len(told.turns) == 1 else f"{len(told.turns)} turns"
    cost = f"; {told.spent}" if told.spent else ""
    return f"session {told.session}: {turns}, {printable_time(first)} to {printable_time(last)} UTC{cost}"
