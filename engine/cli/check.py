"""`turnout check`: everything that is wrong with deployment files."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from turnout.engine.deployment import Examination, examine
from turnout.engine.deployment.finding import Level
from turnout.engine.printable import printable

ALL_WELL: Final = 0
MISTAKES: Final = 1
UNREADABLE: Final = 2


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
@click.pass_context
def command(ctx: click.Context, files: tuple[Path, ...]) -> None:
    """Tell everything that is wrong with deployment files.

    Reads each FILE without asking any upstream, prints one line for each mistake and one
    for the file. Credentials are never printed, and need not be set where this runs.

    \b
    Example:
      turnout check deployment.toml

    \b
    Exit status:
      0  no errors; there may be warnings
      1  a file has errors
      2  a file cannot be read, or is no TOML
    """  # noqa: D301 - click has to see the backspace
    worst = ALL_WELL
    for file in files:
        examination = examine(file)
        for finding in examination.findings:
            click.echo(f"{finding.level}: {finding}")
        click.echo(f"{printable(str(file))}: {_summary(examination)}")
        worst = max(worst, _status(examination))
    ctx.exit(worst)


def _status(examination: Examination) -> int:
    if not examination.readable:
        return UNREADABLE
    return MISTAKES if examination.count(Level.ERROR) else ALL_WELL


def _summary(examination: Examination) -> str:
    errors, warnings = (examination.count(level) for level in (Level.ERROR, Level.WARNING))
    deployment = examination.deployment
    if errors or deployment is None:
        return _counted(("error", errors), ("warning", warnings))
    targets = {target.name for route in deployment.routes.values() for target in route.ladder}
    described = _counted(("route", len(deployment.routes)), ("target", len(targets)))
    return f"{described}: {_counted(('warning', warnings)) or 'ok'}"


def _counted(*counts: tuple[str, int]) -> str:
    """What there is of each, leaving out what there is none of: `2 errors, 1 warning`."""
    return ", ".join(f"{count} {noun}{'s' * (count != 1)}" for noun, count in counts if count)
