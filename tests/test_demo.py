"""`turnout demo`, told as what a newcomer sees, what the servers counted and what is left behind."""

import asyncio
import os
import re
import resource
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from syrupy.assertion import SnapshotAssertion

from turnout import AuditRecord, RoutingFallbackReason
from turnout.engine import loopback
from turnout.engine.audit import decode
from turnout.engine.cli import main, story
from turnout.engine.cli.demo import WRONG

TURNS = 6


def demo(*arguments: str, color: bool = False, charset: str = "utf-8") -> Result:
    wanted = {"NO_COLOR": None, "TERM": "xterm"}
    return CliRunner(charset=charset, env=wanted).invoke(main, ["demo", *arguments], color=color)


def play(folder: Path, on: Mapping[str, str] | None = None) -> tuple[Mapping[str, int], list[AuditRecord]]:
    """The demo's session: what the servers counted, and its records as they lie in the file."""
    arrived = asyncio.run(story.play(folder, on=on))
    return arrived, [decode(line) for line in (folder / story.RECORDS).read_bytes().splitlines()]


def test_what_a_newcomer_sees(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    shown = demo("--dir", str(tmp_path))
    assert shown.exit_code == 0
    assert shown.output.replace(str(tmp_path), "DIR") == snapshot
    assert max(map(len, shown.output.replace(str(tmp_path), "DIR").splitlines())) <= 80


def test_the_refusing_target_is_asked_once_over_both_routers(tmp_path: Path) -> None:
    arrived, records = play(tmp_path)
    assert arrived == {"text-only": 1, "small": 3, "flaky": 4, "large": 2}
    assert len(records) == TURNS
    assert [record.state for record in records] == ["served"] * TURNS


def test_the_wrong_mapping_asks_it_in_every_turn_and_nothing_else_changes(tmp_path: Path) -> None:
    arrived, records = play(tmp_path, on=WRONG)
    assert arrived == {"text-only": TURNS, "small": 3, "flaky": 4, "large": 2}
    assert [record.state for record in records] == ["served"] * TURNS


def test_what_skipping_would_have_cost_is_told_from_the_records_as_the_servers_count_it(
    tmp_path: Path,
) -> None:
    """By these figures the documentation answers whether to evict or to skip a capability reject."""
    (tmp_path / "evict").mkdir()
    (tmp_path / "skip").mkdir()
    counted, _ = play(tmp_path / "evict")
    wrong, _ = play(tmp_path / "skip", on=WRONG)
    records = str(tmp_path / "evict" / story.RECORDS)
    told = CliRunner().invoke(main, ["whatif", records, "--policy", "capability=skip"]).output
    paid = {line[:25].strip(): line.split() for line in told.splitlines()}["certain rejections"]
    assert paid[2:4] == ["0", str(sum(wrong.values()) - sum(counted.values()))]
    page = (Path(__file__).parent.parent / "docs" / "records.md").read_text()
    table = page.split("turns of `turnout demo`:\n\n```\n")[1].split("```")[0]
    assert [line for line in table.splitlines() if line not in told.splitlines()] == []


def test_the_picture_in_the_documentation_is_of_the_demo(tmp_path: Path) -> None:
    play(tmp_path)
    drawn = CliRunner().invoke(main, ["explain", "photo", "--records", str(tmp_path), "--svg"]).output
    assert drawn == (Path(__file__).parent.parent / "docs" / "session.svg").read_text()


def test_the_records_tell_what_the_servers_counted(tmp_path: Path) -> None:
    arrived, records = play(tmp_path)
    asked = [probe.target for record in records for probe in record.probes for _ in probe.attempts]
    assert arrived == {target: asked.count(target) for target in arrived}


def test_what_is_down_is_asked_in_every_turn_that_comes_to_it_until_it_serves(tmp_path: Path) -> None:
    _, records = play(tmp_path)
    reasons = [
        (number, probe.reason)
        for number, record in enumerate(records, 1)
        for probe in record.probes
        if probe.target == "flaky"
    ]
    down = RoutingFallbackReason.UNAVAILABLE
    assert reasons == [(3, down), (4, down), (5, None), (6, None)]
    assert records[4].served_by == "flaky"
    remembered = {eviction.target for record in records for eviction in record.standings_after}
    assert remembered == {"text-only", "small"}


def test_the_second_router_knows_from_the_file_what_the_first_has_learnt(tmp_path: Path) -> None:
    _, records = play(tmp_path)
    first, last = len(story.QUESTIONS[0]), records[-1]
    learnt_in = {eviction.first.turn for eviction in records[first].standings_before}
    assert learnt_in == {records[0].turn, records[2].turn}
    assert [passed.target for passed in last.passed_over] == ["text-only", "small"]


def test_what_is_left_behind_is_nobody_elses_to_read(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    assert demo("--dir", str(folder)).exit_code == 0
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    left = {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}
    assert left == {"records.jsonl": 0o600, "evictions.db": 0o600, "picture.md": 0o600}


def test_without_a_folder_one_temporary_folder_is_kept_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    shown = demo()
    (folder,) = tmp_path.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for name in ("records.jsonl", "evictions.db", "picture.md"):
        assert str(folder / name) in shown.output
        assert (folder / name).is_file()


def test_the_picture_shows_the_session_and_the_machine(tmp_path: Path) -> None:
    demo("--dir", str(tmp_path))
    session, machine = re.findall(
        r"^```mermaid\n(.*?)^```$", (tmp_path / "picture.md").read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    assert session.count("capability HTTP 400, evicted") == 1
    assert session.count("unavailable HTTP 503, skipped") == 2
    assert session.count(": served") == TURNS
    for state in ("probing", "classified", "evicted", "skipped", "served", "failed"):
        assert state in machine


def test_no_prompt_and_no_answer_is_left_behind(tmp_path: Path) -> None:
    demo("--dir", str(tmp_path))
    left = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    for text in (story.REPLY, story.PHOTO, *story.QUESTIONS[0], *story.QUESTIONS[1]):
        assert text[:24].encode() not in left


def test_a_terminal_that_knows_no_marks_gets_letters(tmp_path: Path) -> None:
    shown = demo("--dir", str(tmp_path), charset="ascii")
    assert shown.exit_code == 0
    assert "x capability  + served" in shown.stdout_bytes.decode("ascii")


def test_colours_tell_for_good_from_for_now(tmp_path: Path) -> None:
    shown = demo("--dir", str(tmp_path), color=True).output
    red, yellow = "\x1b[31m", "\x1b[33m"
    assert [shown.count(f"{red}✗ {reason}") for reason in ("capability", "context_window")] == [1, 1]
    assert shown.count(f"{yellow}✗ unavailable") == 2


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "records.jsonl").write_text("mine")
    refused = demo("--dir", str(tmp_path))
    assert refused.exit_code == 2
    assert "it is not empty; give an empty or new folder" in " ".join(refused.output.split())
    assert [file.read_text() for file in tmp_path.iterdir()] == ["mine"]


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused = demo("--dir", str(tmp_path / "file" / "folder"))
    assert refused.exit_code == 2
    assert "give an empty or new folder" in " ".join(refused.output.split())


def test_a_demo_that_cannot_go_on_says_why_and_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Turn 3 comes down to the last target, and that one refuses the key."""
    refusal = {"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}}
    monkeypatch.setattr(story, "large", lambda _: (401, refusal))
    shown = demo("--dir", str(tmp_path))
    assert shown.exit_code == 1
    assert "turn 2 " in shown.output
    assert "turn 3 " not in shown.output
    assert "the demo stopped: target 'large': auth (HTTP 401): Incorrect API key provided" in shown.output


def test_a_folder_that_takes_no_file_is_told_before_anything_is_played(tmp_path: Path) -> None:
    longest = os.pathconf("/", "PC_PATH_MAX")
    folder = tmp_path
    while (
        left := longest - len(str(folder)) - 3
    ) > 0:  # a folder may be there whose files could not be named
        folder /= "f" * min(left, 200)
    refused = demo("--dir", str(folder))
    assert refused.exit_code == 2
    assert "File name too long; give an empty or new folder" in " ".join(refused.output.split())
    assert "turn 1" not in refused.output


def test_a_disk_that_fills_up_is_one_line_that_names_the_file(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, before[1]))
    try:
        shown = demo("--dir", str(tmp_path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert shown.exit_code == 1
    assert shown.stderr == f"Error: {tmp_path / 'records.jsonl'}: File too large\n"


def test_without_a_port_the_demo_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loopback, "HOST", "192.0.2.1")  # nobody's address
    shown = demo("--dir", str(tmp_path))
    assert shown.exit_code == 1
    (line,) = shown.stderr.splitlines()
    assert line.startswith("Error: ")
    assert "192.0.2.1" in line


def test_without_a_temporary_folder_the_demo_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    shown = demo()
    assert shown.exit_code == 1
    (line,) = shown.stderr.splitlines()
    assert re.fullmatch(rf"Error: {tmp_path}/missing/turnout-demo-\w+: No such file or directory", line)


def test_help_has_an_example() -> None:
    assert "turnout demo --dir here" in demo("--help").output
