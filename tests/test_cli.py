"""The command line as a whole."""

import os
import subprocess
import sys
from pathlib import Path

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


FULL = Path("/dev/full")
SCENARIO = '[route]\nladder = ["small"]\n[[turns]]\n'


def run(*arguments: str, stdout: int) -> tuple[int, str]:
    """A command as a process of its own: its status, and what it says on standard error."""
    script = "from turnout.engine.cli import main; main(prog_name='turnout')"
    run = subprocess.run(
        [sys.executable, "-c", script, *arguments], stdout=stdout, stderr=subprocess.PIPE, check=False
    )
    return run.returncode, run.stderr.decode()


@pytest.mark.skipif(not FULL.exists(), reason="a system without /dev/full")
@pytest.mark.parametrize(
    "arguments", [["demo"], ["simulate", "a.toml"], ["check", "a.toml"], ["diagram"], ["--help"]]
)
def test_output_that_cannot_be_written_is_one_line_and_no_success(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    Path("a.toml").write_text(SCENARIO)
    with FULL.open("wb") as full:
        status, said = run(*arguments, stdout=full.fileno())
    assert (status, said) == (1, "Error: No space left on device\n")


def test_a_reader_who_has_read_enough_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    status, said = run("diagram", stdout=writing)
    os.close(writing)
    assert (status, said) == (1, "")


@pytest.mark.parametrize("command", ["simulate", "check"])
def test_a_name_that_the_output_has_no_letters_for_is_escaped(command: str, tmp_path: Path) -> None:
    file = tmp_path / "caf\u00e9-\u8def.toml"
    file.write_text(f'name = "\u8def"\n{SCENARIO}')
    shown = CliRunner(charset="latin-1").invoke(main, [command, str(file)])
    assert shown.exception is None or isinstance(shown.exception, SystemExit)
    assert rb"\u8def" in shown.stdout_bytes


def test_an_argument_is_quoted_without_what_would_steer_a_terminal() -> None:
    told = CliRunner().invoke(main, ["diagram", "turn", "\x1b[31m\u202e"])
    assert told.exit_code == 2
    assert r"(\x1b[31m\u202e)" in told.output
    assert all(line.isprintable() for line in told.output.splitlines())


@pytest.mark.parametrize(
    ("environment", "colours"),
    [
        ({}, True),
        ({"NO_COLOR": ""}, True),
        ({"NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
    ],
)
def test_colours_are_left_out_where_they_are_not_wanted(
    environment: dict[str, str], colours: bool, tmp_path: Path
) -> None:
    surroundings = {"NO_COLOR": None, "TERM": "xterm", **environment}
    shown = CliRunner(env=surroundings).invoke(main, ["demo", "--dir", str(tmp_path)], color=True)
    assert shown.exit_code == 0
    assert ("\x1b[" in shown.output) is colours
