"""The page on scenario files says what is so: its keys are those that are read, its examples hold."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import get_args

import pytest
from click.testing import CliRunner, Result

from turnout.engine.cli import main
from turnout.engine.cli.simulate import ALL_HOLD, SOME_DO_NOT, UNUSABLE
from turnout.engine.scenario import PlannedTurn, read_document
from turnout.engine.scenario.answers import ANSWERS, COMMENT, NAMED_EVENT
from turnout.engine.scenario.tables import (
    EXPECT,
    RANGES,
    SHARED,
    TOP,
    TURN,
    WORDS,
)
from turnout.engine.simulation import play
from turnout.engine.targets import Client, Format
from turnout.engine.testing import refusal
from turnout.engine.testing.doubles import End
from turnout.machines.vocabulary import ErrorKind

HOUSE = Path(__file__).parent.parent
PAGE = (HOUSE / "docs" / "scenarios.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
CONSOLE = re.findall(r"^```console\n\$ turnout (.+?)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def section(title: str) -> str:
    """What stands between a heading and the next one of its level or above."""
    (found,) = re.findall(rf"^## {re.escape(title)}.*?\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return str(found)


def tables(title: str) -> Iterator[dict[str, list[str]]]:
    """Each table of a section: the cells of a row by the word in its first one."""
    for table in re.findall(r"(?:^\|.*\n)+", section(title), re.MULTILINE):
        _, _, *rows = (
            [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in table.splitlines()
        )
        yield {first.strip("`"): rest for first, *rest in rows}


def table(title: str) -> dict[str, list[str]]:
    (only,) = tables(title)
    return only


def words(cell: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", cell))


def simulate(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["simulate", *arguments])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the files are that the page speaks of."""
    monkeypatch.chdir(tmp_path)
    first = EXAMPLES[0]
    Path("image.toml").write_text(first)
    Path("wrong.toml").write_text(first.replace('probes = ["large"]', 'probes = ["small", "large"]'))
    Path("unusable.toml").write_text(first.replace("repeat", "repaet"))
    return tmp_path


class TestTheKeys:
    """Each key that is read has its row, and no row is about another."""

    def test_of_the_file_and_of_its_turns(self) -> None:
        assert list(table("The file")) == list(TOP)
        assert list(table("`[[turns]]`")) == list(TURN)

    def test_that_have_to_be_there(self) -> None:
        needed = [key for key, (default, _) in table("The file").items() if default == "required"]
        assert needed == ["route", "turns"]
        read_document({"route": {"ladder": ["only"]}, "turns": [{}]}, Path("least.toml"))

    def test_of_a_turn_with_their_defaults(self) -> None:
        told = {
            key: None if default == "none" else tomllib.loads(f"it = {default.strip('`')}")["it"]
            for key, (default, _) in table("`[[turns]]`").items()
        }
        for field in fields(PlannedTurn):
            if field.name in told.keys() - {"reload"}:  # a table in the file, a mark in the plan
                given = field.default_factory() if field.default_factory is not MISSING else field.default
                if given is not MISSING:
                    assert told[field.name] == given, field.name

    def test_that_a_reload_may_change(self) -> None:
        changed = words(table("`[[turns]]`")["reload"][1])
        assert {place.split(".")[2].strip("]") for place in changed} == set(SHARED)

    def test_of_each_answer_and_those_beside_it(self) -> None:
        answers, *_ = tables("`[turns.upstream]`")
        assert {form: {form, *words(beside)} for form, (beside, *_) in answers.items()} == {
            form: set(keys) for form, keys in ANSWERS.items()
        }

    def test_of_an_event_and_the_ends_of_a_stream(self) -> None:
        _, _, events, ends = tables("`[turns.upstream]`")
        _, comment, named = [tomllib.loads(f"it = {event}")["it"] for event in events]
        assert (list(comment), list(named)) == (list(COMMENT), list(NAMED_EVENT))
        for event in events:
            answer = f"upstream.only = [{{ events = [{event}] }}]"
            text = f'route.ladder = ["only"]\n[[turns]]\nstream = true\n{answer}'
            play(read_document(tomllib.loads(text), Path("example.toml")))
        assert [json.loads(end) for end in ends] == list(get_args(End))

    def test_of_the_expectations(self) -> None:
        assert list(table("`[turns.expect]`")) == list(EXPECT)


def test_each_value_that_may_be_chosen_is_named_where_it_may_be() -> None:
    expectations = table("`[turns.expect]`")
    for key in EXPECT.keys() & WORDS.keys():
        assert words(expectations[key][0]) == set(WORDS[key]), key
    _, kinds, *_ = tables("`[turns.upstream]`")
    assert list(kinds) == list(WORDS["kind"])
    assert words(kinds["capability"][0]) - {"feature"} == set(WORDS["feature"])


def test_each_canned_reply_has_the_status_that_the_page_tells() -> None:
    _, kinds, *_ = tables("`[turns.upstream]`")
    for kind in ErrorKind:
        statuses = {str(refusal(kind).reply(spoken).status) for spoken in get_args(Format)}
        assert statuses == {kinds[kind][0][:3]}, kind


def test_every_range_is_told() -> None:
    rows = table("`[[turns]]`") | table("`[turns.expect]`") | next(tables("`[turns.upstream]`"))
    for key, (least, most) in RANGES.items():
        seconds = (least, most) == RANGES["at"]
        told = PAGE.partition("\n## ")[0] if seconds else " ".join(rows[key])
        assert f"{least} to {most}" in told, key


@pytest.mark.parametrize("http", [False, True], ids=["without sockets", "over sockets"])
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda text: tomllib.loads(text)["name"])
def test_every_scenario_of_the_page_holds(example: str, http: bool) -> None:
    played = play(read_document(tomllib.loads(example), Path("example.toml")), http=http)
    assert [(turn.planned.place, miss) for turn in played for miss in turn.misses] == []
    assert all(turn.planned.expect for turn in played)


def test_every_answer_of_the_page_can_be_given() -> None:
    answers, *_ = tables("`[turns.upstream]`")
    for form, (_, example, _) in answers.items():
        stream = "true" if form == "events" else "false"
        text = (
            f'route.ladder = ["only"]\n[[turns]]\nstream = {stream}\nupstream.only = [{example.strip("`")}]'
        )
        (turn,) = read_document(tomllib.loads(text), Path("example.toml")).turns
        assert form in tomllib.loads(f"it = {example.strip('`')}")["it"]
        assert len(turn.upstream["only"]) == 1


def test_evictions_outlive_a_restart_in_memory_too_and_silence_lasts_for_the_default_bound() -> None:
    text = """
        route.ladder = ["small", "large"]
        [[turns]]
        upstream.small = [{ kind = "capability" }]
        [[turns]]
        restart = true
        upstream.large = [{ hang = true }]
        """
    _, after = play(read_document(tomllib.loads(text), Path("example.toml")))
    assert after.outcome.passed_over == ("small",)
    assert after.outcome.took == Client().timeout_secs == 600
    assert "by default `timeout_secs`, 600" in PAGE


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("command", "output"), CONSOLE, ids=[command for command, _ in CONSOLE])
def test_the_output_is_what_the_page_shows(command: str, output: str) -> None:
    assert CliRunner().invoke(main, command.split()).output == output


@pytest.mark.usefixtures("folder")
def test_the_exit_statuses_are_those_of_the_page() -> None:
    told = [table for table in tables("Running it") if "0" in table]
    assert [list(statuses) for statuses in told] == [["0", "1", "2"]]
    assert (ALL_HOLD, SOME_DO_NOT, UNUSABLE) == (0, 1, 2)
    assert simulate("image.toml").exit_code == 0
    assert simulate("image.toml", "wrong.toml").exit_code == 1
    assert simulate("unusable.toml", "image.toml", "wrong.toml").exit_code == 2
    assert simulate("--no-such-option", "image.toml").exit_code == 2


@pytest.mark.usefixtures("folder")
def test_json_has_the_keys_of_the_page_and_misses_go_to_standard_error() -> None:
    result = simulate("--json", "--trace", "wrong.toml")
    told = words(section("Running it").partition("`--json` prints")[2].partition("\n\n")[0])
    first = json.loads(result.stdout.splitlines()[0])
    assert first.keys() - EXPECT.keys() == told - {"--trace", "[trigger, source, dest]"}
    assert ["capability", "classified", "evicted"] in first["transitions"]
    assert result.stderr.count("wrong.toml: turn 2") == 2
    assert "classified -- capability -> evicted" in simulate("--trace", "image.toml").output


@pytest.mark.parametrize("page", ["README.md", "tests/scenarios/README.md"])
def test_whoever_reads_of_scenarios_is_led_here(page: str) -> None:
    path = HOUSE / page
    links = re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text(encoding="utf-8"))
    assert HOUSE / "docs" / "scenarios.md" in [(path.parent / link).resolve() for link in links]


def test_the_help_of_the_command_names_the_page() -> None:
    assert "docs/scenarios.md" in simulate("--help").output
