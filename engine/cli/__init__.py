"""The command line. Each command is a module of this package and is imported when it is called."""

from __future__ import annotations

from importlib import import_module
from typing import Final

import click

COMMANDS: Final = ("demo", "simulate", "check", "diagram")
"""In the order in which a newcomer meets them."""


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"turnout.engine.cli.{cmd_name}").command
        return command


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="turnout", prog_name="turnout")
def main() -> None:
    """Route each turn of an LLM session over a ladder of targets, and say why.

    New here? Run: turnout demo
    """
