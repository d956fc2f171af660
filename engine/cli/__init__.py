"""The command line. Each command is a module of this package and is imported when it is called."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

import click

from turnout.engine.printable import printable

COMMANDS: Final = (
    *("demo", "simulate", "check", "classify", "preview", "evictions"),
    *("sessions", "explain", "replay", "whatif", "diff", "diagram"),
)
"""In the order in which a newcomer meets them."""

FAILED: Final = 1


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"turnout.engine.cli.{cmd_name}").command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            # it may quote an argument as it came
            raise click.UsageError(printable(error.format_message()), error.ctx) from error

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """As ever; but what the system refuses is told in one line."""
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            with suppress(OSError):
                click.echo(f"Error: {printable(_told(error))}", err=True)
            _let_go_of_output()
            sys.exit(FAILED)


def _told(error: OSError) -> str:
    why = error.strerror or str(error)
    return why if error.filename is None else f"{os.fsdecode(error.filename)}: {why}"


def _let_go_of_output() -> None:
    """If standard output still takes nothing, close it, lest what it holds fail once more at the end."""
    try:
        sys.stdout.flush()
    except OSError:
        with suppress(OSError):
            sys.stdout.close()


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="turnout", prog_name="turnout")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Route each turn of an LLM session over a ladder of targets, and say why.

    New here? Run: turnout demo

    Colours are left out where NO_COLOR is set or TERM is dumb.
    """
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        ctx.color = False
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a name may hold what its encoding has not
