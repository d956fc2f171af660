"""`turnout check`: what a user reads, and what a CI job gets."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from turnout.engine.cli import main

GOOD = """
[llm_clients.here]
base_url = "https://llm.example/v1"
api_key_env = "LLM_EXAMPLE_KEY"
[targets.a]
llm_client = "here"
[targets.b]
llm_client = "here"
[targets.c]
llm_client = "here"
[routes.chat]
ladder = ["a", "b", "c"]
[routes.code]
ladder = ["c", "a"]
"""
BAD = """
[targets.a]
base_url = "https://llm.example"
max_retries = 99
api_key = "hunter2-hunter2"
[routes.chat]
ladder = ["a"]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LLM_EXAMPLE_KEY", "hunter2-hunter2")
    Path("good.toml").write_text(GOOD)
    Path("bad.toml").write_text(BAD)
    Path("broken.toml").write_text("[routes\n")
    return tmp_path


def check(*files: str) -> Result:
    return CliRunner().invoke(main, ["check", *files])


def test_a_file_without_a_mistake() -> None:
    result = check("good.toml")
    assert result.output == "good.toml: 2 routes, 3 targets: ok\n"
    assert result.exit_code == 0


def test_where_files_are_checked_credentials_need_not_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LLM_EXAMPLE_KEY")
    result = check("good.toml")
    assert result.output.splitlines() == [
        "warning: good.toml: [llm_clients.here] api_key_env: names LLM_EXAMPLE_KEY,"
        " which is not set here; it has to be where turnout runs",
        "good.toml: 2 routes, 3 targets: 1 warning",
    ]
    assert result.exit_code == 0


def test_mistakes_are_told_one_a_line_and_credentials_never() -> None:
    result = check("bad.toml")
    assert result.output.splitlines() == [
        "error: bad.toml: [targets.a] max_retries: is 99; give 0 to 10",
        "error: bad.toml: [targets.a] api_key: holds a credential, which does not belong in a file:"
        " put it into an environment variable and name that in api_key_env",
        "warning: bad.toml: [routes.chat] ladder: has one target: there is nothing to fall back to",
        "bad.toml: 2 errors, 1 warning",
    ]
    assert result.exit_code == 1


def test_an_error_that_a_router_would_survive_is_an_error_all_the_same() -> None:
    Path("unbounded.toml").write_text(GOOD + "deadline_secs = -1\n")
    result = check("unbounded.toml")
    assert result.output.splitlines()[-1] == "unbounded.toml: 1 error"
    assert result.exit_code == 1


@pytest.mark.parametrize("file", ["broken.toml", "missing.toml", "."])
def test_a_file_that_cannot_be_read_does_not_keep_others_from_being_checked(file: str) -> None:
    result = check(file, "bad.toml", "good.toml")
    lines = result.output.splitlines()
    assert lines[0].startswith(f"error: {file}: ")
    assert lines[1] == f"{file}: 1 error"
    assert lines[-2:] == ["bad.toml: 2 errors, 1 warning", "good.toml: 2 routes, 3 targets: ok"]
    assert result.exit_code == 2


def test_bad_toml_says_where() -> None:
    assert "(at line 1, column 8)" in check("broken.toml").output


def test_a_file_s_name_may_be_anything_and_steers_no_terminal() -> None:
    name = os.fsdecode(b"caf\xff\x1b[31m\n.toml")
    Path(name).write_text(BAD)
    result = check(name, f"no-{name}")
    assert all(line.isprintable() for line in result.output.splitlines())
    shown = r"caf\udcff\x1b[31m\n.toml"
    assert f"error: {shown}: [targets.a] max_retries: is 99; give 0 to 10\n" in result.output
    assert f"{shown}: 2 errors, 1 warning\n" in result.output
    assert f"error: no-{shown}: cannot be read: No such file or directory\n" in result.output


def test_no_file_is_no_check() -> None:
    result = check()
    assert result.exit_code == 2
    assert "Missing argument 'FILE...'" in result.output


def test_the_help_shows_how() -> None:
    result = check("--help")
    assert "  turnout check deployment.toml\n" in result.output
    assert "  2  a file cannot be read, or is no TOML\n" in result.output


def test_a_rule_for_reading_errors_that_cannot_be_is_shown_with_its_place() -> None:
    rules = """
[[llm_clients.here.errors]]
contains = "no pictures"
kind = "capability"
[[llm_clients.here.errors]]
contains = "no movies"
kind = "capabilty"
"""
    Path("rules.toml").write_text(GOOD + rules)
    result = check("rules.toml")
    assert result.output == (
        "error: rules.toml: [llm_clients.here.errors[1]] kind: is 'capabilty'; did you mean capability?\n"
        "rules.toml: 1 error\n"
    )
    assert result.exit_code == 1
