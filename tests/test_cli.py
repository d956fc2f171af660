"""The command line as a whole."""

import pytest
from click.testing import CliRunner

from turnout.engine.cli import COMMANDS, main


def test_the_commands_are_listed_in_the_order_of_a_newcomers_way() -> None:
    told = CliRunner().invoke(main, ["--help"])
    assert told.exit_code == 0
    assert [told.output.index(f"\n  {command}") for command in COMMANDS] == sorted(
        told.output.index(f"\n  {command}") for command in COMMANDS
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_shows_an_example(command: str) -> None:
    told = CliRunner().invoke(main, [command, "--help"])
    assert told.exit_code == 0
    assert "Example" in told.output
    assert f"turnout {command}" in told.output


def test_an_unknown_command_is_refused() -> None:
    told = CliRunner().invoke(main, ["explian"])
    assert told.exit_code == 2
    assert "explian" in told.output


def test_the_version_is_the_packages() -> None:
    assert CliRunner().invoke(main, ["--version"]).output.startswith("turnout, version 26.")
