"""`turnout simulate`: what a user reads, and what a CI job gets."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import resource
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from syrupy.assertion import SnapshotAssertion

from turnout.engine.cli import main
from turnout.engine.simulation import Outcome

CAT = """
name = "a capability reject is probed once in three turns"

[route]
ladder = ["small", "large"]

[client]
max_retries = 0

[[turns]]
[turns.upstream]
small = [{ status = 400, json = { error = { message = "image input is not supported by this model" } } }]
large = [{ ok = "a cat" }]
[turns.expect]
probes = ["small", "large"]
state = "served"
served_by = "large"
evicted = ["small"]

[[turns]]
repeat = 2
[turns.expect]
probes = ["large"]
passed_over = ["small"]
"""

EVERY_END = """
name = "every way in which a turn can end"

[route]
ladder = ["small", "large"]
deadline_secs = 30

[client]
max_retries = 1

[[turns]]
session = ""
[[turns]]
agent = "child"
upstream.small = [{ reset = true }, { ok = "again" }]
[[turns]]
agent = ""
upstream.small = [{ kind = "context_window" }]
[[turns]]
upstream = { small = [{ kind = "context_window" }], large = [{ kind = "capability", feature = "tools" }] }
[[turns]]
[[turns]]
upstream.small = [{ kind = "auth" }]
[[turns]]
upstream.small = [{ status = 503 }]
[[turns]]
upstream.small = [{ hang = true }]
[[turns]]
cancel_at = 2
upstream.small = [{ hang = true }]
[[turns]]
upstream.small = [{ raises = "a bug" }]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("cat.toml").write_text(CAT)
    Path("wrong.toml").write_text(CAT.replace('probes = ["large"]', 'probes = ["small", "large"]'))
    Path("unusable.toml").write_text(CAT.replace("repeat", "repaet"))
    Path("ends.toml").write_text(EVERY_END)
    return tmp_path


def simulate(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["simulate", *arguments])


def objects(output: str) -> Iterator[dict[str, object]]:
    return map(json.loads, output.splitlines())


def test_a_turn_is_a_line_that_tells_what_happened() -> None:
    result = simulate("cat.toml")
    assert result.exit_code == 0
    assert result.output == (
        "a capability reject is probed once in three turns\n"
        "  1 s1  small capability -> evicted, large answered -> served        [small large]\n"
        "  2 s1  (small evicted in turn 1: capability), large -> served       [large]\n"
        "  3 s1  (small evicted in turn 1: capability), large -> served       [large]\n"
    )


def test_every_end_of_a_turn_has_its_words(snapshot: SnapshotAssertion) -> None:
    result = simulate("ends.toml")
    assert result.exit_code == 0
    assert result.output == snapshot


def test_a_turn_may_end_before_anybody_was_asked() -> None:
    gone = """
        [memory]
        url = "sqlite:"
        [route]
        ladder = ["only"]
        [[turns]]
        upstream.only = [{ kind = "context_window" }]
        [[turns]]
        restart = true  # who opens the file waits for it
        cancel_at = 0
        """
    Path("gone.toml").write_text(gone)
    assert simulate("gone.toml").output.splitlines() == [
        "gone",
        f"  1 s1  {'only context_window -> evicted -> failed':<60} [only]",
        f"  2 s1  {'nobody asked -> failed (cancelled)':<60} []",
    ]


def test_an_expectation_that_does_not_hold_names_file_turn_and_key() -> None:
    result = simulate("wrong.toml")
    assert result.exit_code == 1
    assert [line for line in result.output.splitlines() if "wrong.toml" in line] == [
        '    wrong.toml: turn 2 (1 of 2): probes: expected ["small","large"], got ["large"]',
        '    wrong.toml: turn 2 (2 of 2): probes: expected ["small","large"], got ["large"]',
    ]


@pytest.mark.parametrize(
    ("key", "changed", "line"),
    [
        ('served_by = "large"', 'served_by = "small"', 'served_by: expected "small", got "large"'),
        ('state = "served"', 'state = "failed"', 'state: expected "failed", got "served"'),
        ('evicted = ["small"]', "evicted = []", 'evicted: expected [], got ["small"]'),
        ('state = "served"', "took = 1", "took: expected 1.0, got 0.0"),
        ('state = "served"', "status = 500", "status: expected 500, got 200"),
        ('state = "served"', 'code = "x"', 'code: expected "x", got null'),
        ('state = "served"', "reasons = {}", 'reasons: expected {}, got {"small":"capability"}'),
    ],
)
def test_a_changed_expectation_makes_a_ci_job_fail(key: str, changed: str, line: str) -> None:
    Path("changed.toml").write_text(CAT.replace(key, changed))
    result = simulate("changed.toml")
    assert result.exit_code == 1
    assert f"    changed.toml: turn 1: {line}\n" in result.output


def test_a_file_that_cannot_be_used_names_its_key_and_the_others_still_run() -> None:
    result = simulate("unusable.toml", "none.toml", "wrong.toml", "cat.toml")
    assert result.exit_code == 2
    assert result.stderr == (
        "unusable.toml: turns[2].repaet: is unknown here; did you mean repeat?\n"
        "none.toml: cannot be read: No such file or directory\n"
    )
    assert result.stdout.count("a capability reject is probed once in three turns\n") == 2


def test_trace_tells_each_transition() -> None:
    result = simulate("--trace", "cat.toml")
    assert result.exit_code == 0
    assert result.output.splitlines()[2:7] == [
        "      probing -- probed -> classified",
        "      classified -- capability -> evicted",
        "      evicted -- advance -> probing",
        "      probing -- probed -> classified",
        "      classified -- answered -> served",
    ]


def test_json_is_one_object_a_turn_with_every_key() -> None:
    result = simulate("--json", "cat.toml")
    assert result.exit_code == 0
    first, second, third = objects(result.stdout)
    assert list(first) == [
        "file",
        "turn",
        "repeat",
        "name",
        *(field.name for field in fields(Outcome)),
        "notes",
    ]
    assert first["evicted"] == ["small"]
    assert first["code"] is None
    assert [(told["turn"], told["repeat"]) for told in (first, second, third)] == [(1, 1), (2, 1), (2, 2)]
    assert {told["file"] for told in (first, second, third)} == {"cat.toml"}
    assert {told["name"] for told in (first, second, third)} == {
        "a capability reject is probed once in three turns"
    }


def test_json_stays_json_when_something_does_not_hold() -> None:
    result = simulate("--json", "--trace", "wrong.toml", "unusable.toml")
    assert result.exit_code == 2
    first, *_ = objects(result.stdout)
    assert first["transitions"] == [
        ["probed", "probing", "classified"],
        ["capability", "classified", "evicted"],
        ["advance", "evicted", "probing"],
        ["probed", "probing", "classified"],
        ["answered", "classified", "served"],
    ]
    assert [line.partition(":")[0] for line in result.stderr.splitlines()] == [
        "wrong.toml",
        "wrong.toml",
        "unusable.toml",
    ]


def test_the_output_is_the_same_every_time() -> None:
    arguments = ("--trace", "ends.toml", "cat.toml", "wrong.toml")
    assert simulate(*arguments).output == simulate(*arguments).output


# -- what is not ours to believe


EVIL = "\x1b[31mred\x1b]0;title\x07 \u202e\u009b\nforged line"
ESCAPED = r"\x1b[31mred\x1b]0;title\x07 \u202e\x9b\nforged line"


def test_no_name_and_no_id_steers_the_terminal_or_forges_a_line() -> None:
    turns = [{"session": EVIL, "agent": EVIL}, {"session": "", "headers": {"x-session-id": f"head-{EVIL}"}}]
    text = "".join(
        "[[turns]]\n" + "".join(f"{key} = {in_toml(value)}\n" for key, value in turn.items())
        for turn in turns
    )
    text += '[turns.expect]\ncode = "x\\u202e"\n'
    Path("evil.toml").write_text(f'name = {in_toml(EVIL)}\n[route]\nladder = ["small"]\n{text}')
    result = simulate("--trace", "evil.toml")
    lines = result.output.splitlines()
    assert all(line.isprintable() for line in lines)
    assert lines[0] == ESCAPED
    assert lines[1].startswith(f"  1 {ESCAPED}/{ESCAPED}  small -> served ")
    assert f"  2 head-{ESCAPED} " in lines[4]
    assert lines[-1] == r'    evil.toml: turn 2: code: expected "x\u202e", got null'
    (told, _) = simulate("--json", "evil.toml").stdout.splitlines()
    assert told.isprintable()
    assert json.loads(told)["name"] == EVIL


def in_toml(value: object) -> str:
    """A string, or a table of strings, as TOML writes it."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {in_toml(inner)}" for key, inner in value.items()) + " }"
    return json.dumps(value)


def test_a_name_of_any_length_is_shown_in_brief() -> None:
    long = "n" * 200_000
    Path("long.toml").write_text(
        f'name = "{long}"\n[route]\nladder = ["small"]\n[[turns]]\nsession = "{long}"\nagent = "{long}"\n'
        f'[turns.expect]\ncode = "{long}"\nstripped.small = ["{long}"]'
    )
    assert max(map(len, simulate("long.toml").output.splitlines())) < 400


def test_a_file_s_name_may_be_anything() -> None:
    for content, file in ((CAT, os.fsdecode(b"caf\xff\x1b.toml")), ("[", os.fsdecode(b"bad\xff\x1b.toml"))):
        Path(file).write_text(content)
    files = [os.fsdecode(b"caf\xff\x1b.toml"), os.fsdecode(b"bad\xff\x1b.toml")]
    result = simulate("--json", *files)
    assert {told["file"] for told in objects(result.stdout)} == {r"caf\udcff\x1b.toml"}
    assert result.stderr.startswith(r"bad\udcff\x1b.toml: is no TOML: ")
    assert simulate(files[0]).output.isascii()


# -- what the system refuses


def reloading(at: str) -> str:
    """A story of a hundred turns, each of another session and each on a router of its own."""
    turns = "".join(
        f"""
        [[turns]]
        reload = {{}}
        session = "t{number}"
        {at}
        upstream.small = [{{ kind = "capability", after = 1 }}]
        [turns.expect]
        probes = ["small", "large"]
        evicted = ["small"]
        """
        for number in range(100)
    )
    return f'[route]\nladder = ["small", "large"]\n[memory]\nurl = "sqlite:"\n[[turns]]\n{turns}'


@contextmanager
def limited(what: int, most: int) -> Iterator[None]:
    """At most so much of something that the system gives."""
    before = resource.getrlimit(what)
    resource.setrlimit(what, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(what, before)


def descriptors() -> int:
    """How many are open."""
    return len(list(Path("/dev/fd").iterdir()))


def a_free_one() -> int:
    """The lowest descriptor that is not open."""
    with Path(os.devnull).open() as file:
        return file.fileno()


def test_a_router_that_was_reloaded_gives_back_what_it_held() -> None:
    Path("reloads.toml").write_text(reloading(""))
    before = descriptors()
    with limited(resource.RLIMIT_NOFILE, a_free_one() + 40):
        result = simulate("reloads.toml")
    assert result.exit_code == 0, result.output
    assert "note:" not in result.output
    assert descriptors() == before


def test_turns_that_run_on_a_router_that_was_reloaded_end_there_undisturbed() -> None:
    Path("overlapping.toml").write_text(reloading("at = 0"))
    before = descriptors()
    first, second = (simulate("overlapping.toml") for _ in range(2))
    assert first.exit_code == 0, first.output
    assert "note:" not in first.output
    assert first.output == second.output
    assert descriptors() == before


def test_a_hanging_story_gives_back_what_it_held() -> None:
    hangs = '[route]\nladder = ["small"]\n[client]\ntimeout_secs = 0\n[memory]\nurl = "sqlite:"\n'
    Path("hangs.toml").write_text(f"{hangs}[[turns]]\n[[turns]]\nupstream.small = [{{ hang = true }}]")
    before = descriptors()
    assert "a turn hangs for ever" in simulate("hangs.toml").output
    assert descriptors() == before


def test_a_store_in_trouble_is_told_below_the_turn_and_the_same_every_time() -> None:
    sessions = "".join(
        f'[[turns]]\nsession = "s{n}"\nupstream.small = [{{ kind = "capability" }}]\n' for n in range(40)
    )
    Path("full.toml").write_text(f'[route]\nladder = ["small"]\n[memory]\nurl = "sqlite:"\n{sessions}')
    with limited(resource.RLIMIT_FSIZE, 96 * 1024):
        first, second = (simulate("full.toml").output for _ in range(2))
        told = list(objects(simulate("--json", "full.toml").stdout))
    assert first == second
    notes = [line for line in first.splitlines() if "note" in line]
    assert notes
    assert all(line.startswith("    note: memory turnout.db: could not record: ") for line in notes)
    assert [f"    note: {note}" for turn in told for note in list(turn["notes"])] == notes
    assert told[0]["notes"] == []


def test_a_file_that_there_is_no_room_to_play_is_unusable_and_the_others_still_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("disk.toml").write_text('[route]\nladder = ["small"]\n[memory]\nurl = "sqlite:"\n[[turns]]')
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    result = simulate("disk.toml", "cat.toml")
    assert result.exit_code == 2
    assert result.stderr == "disk.toml: cannot be played: No such file or directory\n"
    assert result.stdout.startswith("a capability reject is probed once")


def test_without_descriptors_a_file_is_unusable_and_nothing_else_is_said() -> None:
    with limited(resource.RLIMIT_NOFILE, a_free_one() + 1):
        result = simulate("cat.toml")
    assert result.exit_code == 2
    assert result.output == "cat.toml: cannot be played: Too many open files\n"


# -- over real sockets


STREAMS = """
name = "streams of every end"

[route]
ladder = ["small", "large"]
deadline_secs = 30

[client]
max_retries = 0

[[turns]]
stream = true
[[turns]]
stream = true
upstream.small = [{ events = [{ comment = "" }, { comment = "" }], every = 3, end = "reset" }]
[[turns]]
stream = true
[turns.upstream]
small = [{ events = [{ choices = [{ delta = { content = "a" } }] }], end = "eof" }]
[[turns]]
stream = true
[turns.upstream]
small = [{ events = [
  { choices = [{ delta = { content = "a" } }] },
  { choices = [{ delta = { content = "b" } }] },
  { error = { message = "the server is overloaded" } },
], every = 2 }]
[[turns]]
stream = true
[turns.upstream]
small = [{ events = [{ choices = [{ delta = { content = "a" } }] }], end = "hang" }]
[[turns]]
stream = true
cancel_at = 1
[turns.upstream]
small = [{ events = [{ choices = [{ delta = { content = "a" } }] }], end = "hang" }]
"""


def test_a_stream_that_was_interrupted_is_told_as_such(snapshot: SnapshotAssertion) -> None:
    Path("streams.toml").write_text(STREAMS)
    assert simulate("streams.toml").output == snapshot


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["in words", "in JSON"])
def test_over_real_sockets_the_output_is_the_same(options: tuple[str, ...]) -> None:
    Path("streams.toml").write_text(STREAMS)
    files = ("cat.toml", "wrong.toml", "ends.toml", "streams.toml")
    without = simulate(*options, *files)
    assert [simulate("--http", *options, *files).output for _ in range(3)] == [without.output] * 3
    assert simulate("--http", *files).exit_code == without.exit_code == 1


def test_over_real_sockets_a_story_gives_back_what_it_held() -> None:
    Path("streams.toml").write_text(STREAMS)
    Path("reloads.toml").write_text(reloading("at = 0"))
    before = descriptors()
    assert simulate("--http", "streams.toml").exit_code == 0
    assert simulate("--http", "reloads.toml").output == simulate("reloads.toml").output
    assert descriptors() == before


def test_over_real_sockets_too_a_story_that_nothing_will_end_is_a_mistake_in_the_file() -> None:
    kept = '[[turns]]\nat = 0\nrepeat = 2\nupstream.small = [{ ok = "", after = 1 }]\n'
    hangs = f'[route]\nladder = ["small"]\n[client]\ntimeout_secs = 0\n{kept}'
    Path("hangs.toml").write_text(f"{hangs}[[turns]]\nupstream.small = [{{ hang = true }}]")
    before = descriptors()
    result = simulate("--http", "hangs.toml", "cat.toml")
    assert result.exit_code == 2
    assert result.stderr.startswith("hangs.toml: a turn hangs for ever; give it cancel_at")
    assert result.stdout == simulate("cat.toml").output
    assert descriptors() == before


def test_over_real_sockets_too_an_idle_year_takes_no_time() -> None:
    two = '[[turns]]\nat = 0\nrepeat = 2\nupstream.small = [{ ok = "", after = 1 }]\n'
    year = "[[turns]]\nat = 31536000\nexpect.took = 0"
    Path("year.toml").write_text(f'[route]\nladder = ["small"]\n{two}{year}')
    assert simulate("--http", "year.toml").exit_code == 0


@pytest.mark.parametrize("more", range(1, 10))
def test_over_real_sockets_too_without_descriptors_a_file_is_unusable(more: int) -> None:
    three = '[[turns]]\nat = 0\nrepeat = 3\nupstream.small = [{ ok = "", after = 1 }]'
    Path("three.toml").write_text(f'[route]\nladder = ["small"]\n{three}')
    assert simulate("--http", "three.toml").exit_code == 0  # and what is opened once for all is open
    with limited(resource.RLIMIT_NOFILE, a_free_one() + more):
        result = simulate("--http", "three.toml")
    assert result.exit_code == 2
    assert result.output.startswith("three.toml: cannot be played: ")
    assert "Too many open files" in result.output


def test_where_nobody_may_connect_a_file_is_unusable_over_real_sockets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def forbidden(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(asyncio.SelectorEventLoop, "sock_connect", forbidden)
    result = simulate("--http", "cat.toml")
    assert result.exit_code == 2
    assert result.output == "cat.toml: cannot be played: Operation not permitted\n"
    assert simulate("cat.toml").exit_code == 0


def test_help_tells_what_it_does_an_example_and_the_exit_status() -> None:
    result = simulate("--help")
    assert result.exit_code == 0
    lines = [line.strip() for line in result.output.splitlines()]
    assert "turnout simulate scenarios/*.toml" in lines
    assert "0  every expectation holds" in lines
    assert "--json" in result.output
    assert "--trace" in result.output
    assert "--http" in result.output
