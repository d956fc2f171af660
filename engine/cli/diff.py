"""`turnout diff`: what changes in routing between two deployment files."""

from __future__ import annotations

from typing import Final

import click
import msgspec

from turnout.engine.deployment import Deployment, examine
from turnout.engine.deployment.comparing import NEW, Changed, changes, picture
from turnout.engine.printable import printable, printable_json

THE_SAME: Final = 0
DIFFERENT: Final = 1


@click.command()
@click.argument("old", metavar="OLD.toml")
@click.argument("new", metavar="NEW.toml")
@click.option("--mermaid", is_flag=True, help="Draw the ladders, with what is new and what is gone marked.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a change.")
@click.pass_context
def command(ctx: click.Context, old: str, new: str, *, mermaid: bool, as_json: bool) -> None:
    """Tell what changes in routing between two deployment files: the memory, routes, ladders, what each kind
    of error does, options, limits and how targets are reached. What a key means counts, not how it is
    written. [capture] changes no routing, and is left out. No credential has to be there, and none is shown.

    \b
    Examples:
      turnout diff deployment.toml changed.toml
      git show main:deployment.toml > old.toml; turnout diff old.toml deployment.toml --mermaid

    \b
    Exit status:
      0  every turn would be routed as before
      1  something changes
      2  a file cannot be used; `turnout check` says all that is wrong with it
    """  # noqa: D301 - click has to see the backspace
    before, after = _read(old), _read(new)
    found = list(changes(before, after))
    if mermaid:
        click.echo(picture(before, after), nl=False)
    for change in () if mermaid else found:
        told = msgspec.json.encode(change).decode()
        click.echo(printable_json(told) if as_json else printable(_in_words(change)))
    if not found:
        click.echo("every turn would be routed as before", err=True)
    ctx.exit(DIFFERENT if found else THE_SAME)


def _read(file: str) -> Deployment:
    examination = examine(file)
    if examination.deployment is None:
        raise click.UsageError("\n".join(str(finding) for finding in examination.findings))
    return examination.deployment


def _in_words(change: Changed) -> str:
    sides = " -> ".join(side for side in (change.before, change.after) if side)
    if change.what == "route":
        return f"{change.where} {change.note}: {sides}"
    if change.note == NEW:
        return f"{change.where} {NEW}, {change.what}: {sides}"
    note = f"; {change.note}" if change.note else ""
    return f"{change.where}  {change.what}: {sides}{note}"
