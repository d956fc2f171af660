"""Scenario files: those of this project hold, and a file that cannot be used says why."""

from __future__ import annotations

import datetime
import re
import tomllib
from collections import Counter
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, get_args

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from turnout.engine import simulation
from turnout.engine.cli import main
from turnout.engine.errors import ScenarioError
from turnout.engine.http import Library, Transports
from turnout.engine.scenario import load, read_document
from turnout.engine.scenario.answers import ANSWERS
from turnout.engine.scenario.tables import EXPECT, TOP, TURN
from turnout.engine.simulation import Outcome, PlayedTurn, play

FOLDER = Path(__file__).parent / "scenarios"
FILES = sorted(FOLDER.glob("*.toml"))
README = (FOLDER / "README.md").read_text()

ROUTE = '[route]\nladder = ["small", "large"]\n'


def played(text: str, *, shared: str = ROUTE) -> tuple[PlayedTurn, ...]:
    return play(read_document(tomllib.loads(shared + text), Path("story.toml")))


def wrong(document: Mapping[str, Any] | str) -> list[str]:
    """What is told of a document that cannot be used, a line each, without the file's name."""
    if isinstance(document, str):
        document = tomllib.loads(document)
    with pytest.raises(ScenarioError) as refused:
        read_document(document, Path("story.toml"))
    lines = str(refused.value).split("\n")
    assert all(line.startswith("story.toml: ") for line in lines)
    return [line.removeprefix("story.toml: ") for line in lines]


# -- the files


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_scenario_of_this_project_holds(file: Path) -> None:
    scenario = load(file)
    turns = play(scenario)
    assert [(turn.planned.place, miss) for turn in turns for miss in turn.misses] == []
    assert all(turn.expect for turn in scenario.turns), "a turn of which nothing is expected shows nothing"
    assert scenario.about
    assert scenario.name != file.stem


def test_the_table_has_every_situation_once_and_every_file_is_in_it() -> None:
    ids = re.findall(r"^\| (D\d+) \|", README, flags=re.MULTILINE)
    assert Counter(ids) == Counter(f"D{number:03}" for number in range(1, 67))
    linked = set(re.findall(r"\]\(([^:)]+)\)", README))
    missing = [name for name in linked if not (FOLDER / name).exists()]
    assert missing == []
    assert {file.name for file in FILES} <= linked


def test_each_situation_is_shown_or_says_what_it_waits_for_and_where_it_was_reported() -> None:
    for line in README.splitlines():
        if line.startswith("| D"):
            _, _, situation, shown, reported, _ = line.split("|")
            assert situation.strip()
            assert "](" in shown or "waits for" in shown, line
            assert re.search(r"\]\(https://github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+\)", reported), line


def test_a_turn_can_be_expected_to_be_everything_that_is_told_of_it() -> None:
    assert list(EXPECT) == [field.name for field in fields(Outcome)]


@pytest.mark.parametrize("library", get_args(Library))
def test_over_sockets_every_scenario_of_this_project_holds_and_is_told_alike(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulation, "Transports", partial(Transports, library))
    without, over = (
        CliRunner().invoke(main, ["simulate", "--trace", *http, *map(str, FILES)])
        for http in ([], ["--http"])
    )
    assert without.exit_code == over.exit_code == 0
    assert over.output == without.output


@pytest.mark.parametrize("http", [False, True], ids=["without sockets", "over sockets"])
def test_a_scenario_is_the_same_every_time(http: bool) -> None:
    for file in FILES:
        scenario = load(file)
        first, second = ([(t.outcome, t.record) for t in play(scenario, http=http)] for _ in range(2))
        assert first == second


# -- what is played


def test_a_scenario_without_a_name_is_called_like_its_file() -> None:
    scenario = read_document(tomllib.loads(f"{ROUTE}[[turns]]"), Path("a/story.toml"))
    assert (scenario.name, scenario.about) == ("story", "")


def test_without_a_time_of_its_own_a_turn_begins_when_the_one_before_has_ended() -> None:
    first, second, third = played(
        """
        [[turns]]
        repeat = 2
        upstream.small = [{ ok = "late", after = 3 }]
        [[turns]]
        at = 10
        """
    )
    assert second.record.started - first.record.started == pytest.approx(3)
    assert third.record.started - first.record.started == pytest.approx(10)
    assert [turn.repeat for turn in (first, second, third)] == [1, 2, 1]


def test_turns_that_are_repeated_at_one_time_overlap() -> None:
    turns = played('[[turns]]\nat = 1\nrepeat = 3\nupstream.small = [{ ok = "late", after = 5 }]')
    first = turns[0].record.started
    assert [turn.record.started - first for turn in turns] == pytest.approx([0, 0, 0], abs=0.0005)
    assert [turn.record.turn for turn in turns] == ["000001", "000002", "000003"]


@pytest.mark.parametrize("at", [0, 10, 1_000_000])
def test_a_thousand_turns_at_one_time_are_all_in_time(at: int) -> None:
    turns = played(f"[[turns]]\nat = {at}\nrepeat = 1000\n[turns.expect]\ntook = 0")
    assert [turn.misses for turn in turns] == [()] * 1000


def test_of_what_happens_at_one_time_the_earlier_turn_s_comes_first_every_time() -> None:
    """The first turn learns at 5 that `small` is out, just as two more begin, on another router."""
    story = """
        [[turns]]
        at = 0
        upstream = { small = [{ kind = "capability", after = 5 }], large = [{ ok = "", after = 5 }] }
        [[turns]]
        at = 5
        reload = {}
        repeat = 2
        upstream.large = [{ ok = "", after = 5 }]
        [[turns]]
        at = 10
        reload.client.max_retries = 0
        """
    runs = [played(story, shared=f'{ROUTE}[memory]\nurl = "sqlite:"\n') for _ in range(20)]
    assert [turn.outcome.probes for turn in runs[0]] == [("small", "large"), *[("large",)] * 3]
    assert all([turn.record for turn in run] == [turn.record for turn in runs[0]] for run in runs)


def test_each_turn_has_its_own_script_also_where_turns_overlap() -> None:
    first, second = played(
        """
        [[turns]]
        at = 0
        session = "one"
        upstream.small = [{ status = 503, after = 2 }, { ok = "one" }]
        [[turns]]
        at = 1
        session = "two"
        upstream.small = [{ ok = "two" }]
        """
    )
    assert first.outcome.attempts == ("small", "small")
    assert second.outcome.attempts == ("small",)


def test_a_time_that_has_passed_already_does_not_hold() -> None:
    turns = played('[[turns]]\nupstream.small = [{ ok = "late", after = 3 }]\n[[turns]]\n[[turns]]\nat = 1')
    assert [tuple(miss) for miss in turns[2].misses] == [("at", 1.0, 3.0)]


def test_times_are_compared_to_the_millisecond() -> None:
    exact, off = played(
        """
        [[turns]]
        upstream.small = [{ ok = "late", after = 0.1234 }]
        expect.took = 0.12341
        [[turns]]
        upstream.small = [{ ok = "late", after = 0.1234 }]
        expect.took = 0.1246
        """
    )
    assert exact.misses == ()
    assert [tuple(miss) for miss in off.misses] == [("took", 0.1246, 0.123)]


def test_a_caller_who_has_gone_is_told_nothing_and_a_final_turn_is_forgotten_all_the_same() -> None:
    first, gone = played(
        """
        [[turns]]
        upstream.small = [{ kind = "capability" }]
        [[turns]]
        final = true
        cancel_at = 0
        upstream.large = [{ hang = true }]
        """
    )
    assert first.outcome.evicted == ("small",)
    assert (gone.outcome.status, gone.outcome.code, gone.outcome.evicted) == (None, None, ())
    assert (gone.outcome.state, gone.outcome.took) == ("failed", 0.0)


def test_a_caller_who_leaves_after_the_answer_has_been_served() -> None:
    (turn,) = played("[[turns]]\ncancel_at = 5\nexpect = { state = 'served', status = 200 }")
    assert turn.misses == ()


def test_who_asks_is_told_by_arguments_or_by_headers() -> None:
    root, child, nobody, header = played(
        """
        [[turns]]
        session = "given"
        headers = { x-session-id = "header" }
        [[turns]]
        agent = "a"
        [[turns]]
        agent = ""
        [[turns]]
        session = ""
        headers = { x-session-id = "header", x-turnout-agent-id = "b", x-turnout-is-subagent = "1" }
        """
    )
    assert (root.record.caller.session, root.record.caller.subagent) == ("given", False)
    assert (child.record.caller.agent, child.record.caller.remembered) == ("a", True)
    assert (nobody.record.caller.subagent, nobody.record.caller.remembered) == (True, False)
    assert (header.record.caller.session, header.record.caller.agent) == ("header", "b")


def test_size_and_request_are_what_the_turn_says() -> None:
    (turn,) = played(
        """
        [[turns]]
        size = 9000
        request = { messages = [{ role = "user", content = "x" }], reasoning_effort = "low" }
        """
    )
    assert turn.record.size == 9000
    assert "reasoning" in turn.record.needs


def test_a_memory_on_disk_outlives_a_restart_and_starts_empty_every_time() -> None:
    text = """
        [memory]
        url = "sqlite:"
        [[turns]]
        upstream.small = [{ kind = "capability" }]
        expect.passed_over = []
        [[turns]]
        restart = true
        expect.passed_over = ["small"]
        """
    for _ in range(2):
        assert [turn.misses for turn in played(text)] == [(), ()]


def test_the_keys_of_the_memory_are_those_of_a_deployment() -> None:
    turns = played(
        """
        [memory]
        ttl_secs = 100
        namespace = "team"
        [[turns]]
        upstream.small = [{ kind = "capability" }]
        expect.evicted = ["small"]
        [[turns]]
        at = 101
        expect.evicted = []
        """
    )
    assert [turn.misses for turn in turns] == [(), ()]
    assert turns[0].record.caller.namespace == "team"


def test_a_restart_ends_the_turns_in_flight_first() -> None:
    first, second = played(
        """
        [[turns]]
        at = 0
        upstream.small = [{ ok = "late", after = 5 }]
        [[turns]]
        at = 1
        restart = true
        """
    )
    assert first.outcome.served_by == "small"
    assert second.record.started - first.record.started == pytest.approx(5)


def test_a_restart_at_the_very_moment_of_a_turn_lets_it_begin() -> None:
    turns = played(
        """
        [[turns]]
        at = 0
        [[turns]]
        at = 0
        repeat = 2
        restart = true
        """
    )
    assert [turn.outcome.state for turn in turns] == ["served", "served", "served"]


def test_a_credential_that_the_client_names_is_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOME_UPSTREAM_KEY", raising=False)
    (turn,) = played('[client]\napi_key_env = "SOME_UPSTREAM_KEY"\n[[turns]]')
    assert turn.outcome.served_by == "small"


def test_a_reply_may_have_a_body_that_is_no_json_headers_and_usage() -> None:
    first, second = played(
        """
        [[turns]]
        upstream.small = [{ status = 400, body = "no", headers = { x-request-id = "r1" } }]
        [[turns]]
        upstream.small = [{ ok = "yes", usage = { prompt_tokens = 3 } }]
        """
    )
    assert first.record.probes[0].attempts[0].request_id == "r1"
    assert second.record.usage == {"prompt_tokens": 3}


class TestTargetsServedByTheEmbeddersCode:
    """A file in which some target `raises`: a `call=` serves all of them."""

    def test_what_the_others_answer_by_script_is_told_by_client_errors(self) -> None:
        first, second, third = played(
            """
            [client]
            max_retries = 0
            timeout_secs = 30
            [[turns]]
            [turns.upstream]
            small = [{ kind = "capability", feature = "image" }]
            large = [{ raises = "a bug" }]
            [[turns]]
            session = "two"
            upstream.small = [{ hang = true }]
            [[turns]]
            session = "three"
            upstream.small = [{ reset = true, after = 1 }]
            """
        )
        assert first.outcome.reasons == {"small": "capability"}
        assert (first.outcome.status, first.record.ended_by) == (500, "broken")
        assert "a bug" in first.record.error
        assert (second.outcome.kinds, second.outcome.took) == ({"small": "unavailable"}, 30)
        assert (third.outcome.kinds, third.outcome.took) == ({"small": "unavailable"}, 1)

    def test_what_was_stripped_stays_out(self) -> None:
        turns = played(
            """
            [client]
            max_retries = 0
            extra_body = { temperature = 9 }
            [[turns]]
            upstream.small = [{ kind = "parameter_reject" }, { ok = "fine" }]
            [[turns]]
            upstream.small = [{ raises = "late", after = 2 }]
            """
        )
        assert turns[0].outcome.attempts == ("small", "small")
        assert turns[0].outcome.stripped == {"small": ("temperature",)}
        assert turns[0].outcome.served_by == "small"
        assert turns[1].outcome.took == 2


def test_a_turn_that_nothing_will_ever_end_is_a_mistake_in_the_file() -> None:
    text = "[client]\ntimeout_secs = 0\nconnect_timeout_secs = 0\n"
    with pytest.raises(ScenarioError, match=r"^story\.toml: a turn hangs for ever; give it cancel_at"):
        played(f"{text}[[turns]]\nupstream.small = [{{ hang = true }}]")


# -- what cannot be used


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "turns: is missing; give a list of at least one table"),
        ("turns = []", "turns: is empty; give a list of at least one table"),
        ("turns = 3", "turns: is a whole number; give a list of at least one table"),
        ('turns = ["x"]', "turns[1]: is a string where a table is needed"),
        ("turns = {}", "turns: is a table; give a list of at least one table"),
        ("turns = [{}]\nnaem = 'x'", "naem: is unknown here; did you mean name?"),
        ("turns = [{}]\nabout = 3", "about: is a whole number; give a string"),
        ("turns = [{ sesion = 's' }]", "turns[1].sesion: is unknown here; did you mean session?"),
        ("turns = [{}, { final = 'yes' }]", "turns[2].final: is a string; give true or false"),
        ("turns = [{ repeat = 0 }]", "turns[1].repeat: is 0; give 1 to 1000"),
        ("turns = [{ at = nan }]", "turns[1].at: is nan; give 0 to 31536000"),
        ("turns = [{ at = inf }]", "turns[1].at: is inf; give 0 to 31536000"),
        ("turns = [{ cancel_at = -1 }]", "turns[1].cancel_at: is -1; give 0 to 31536000"),
        (f"turns = [{{ size = 1{'0' * 30} }}]", "turns[1].size: is too large; give 0 to 1000000000"),
        (
            "turns = [{ request = { stream = true } }]",
            "turns[1].request.stream: is not read here; leave it out, and give the turn itself stream = true",
        ),
        (
            "turns = [{ pin = 'huge' }]",
            "turns[1].pin: names 'huge', which is not in the ladder; choose from small, large",
        ),
        ("turns = [{ stream = 'yes' }]", "turns[1].stream: is a string; give true or false"),
        (
            "turns = [{ stream = true }, { upstream = { small = [{ raises = 'a bug' }] } }]",
            "turns[1].stream: does not go with raises,"
            " for which a client of the service brings whole answers",
        ),
        (
            "turns = [{ restore = 'smal' }]",
            "turns[1].restore: names 'smal', which is not in the ladder; did you mean small?",
        ),
    ],
)
def test_a_mistake_is_named_by_its_place_with_what_would_be_right(text: str, line: str) -> None:
    assert wrong(f"{text}\n{ROUTE}") == [line]


@pytest.mark.parametrize(
    ("answers", "line"),
    [
        ("smal = [{ ok = '' }]", ".smal: names 'smal', which is not in the ladder; did you mean small?"),
        ("small = { ok = '' }", ".small: is a table; give a list of at least one table"),
        ("small = []", ".small: is empty; give a list of at least one table"),
        ("small = ['ok']", '.small[1]: is a string where a table is needed, like { ok = "text" }'),
        (
            "small = [{ ok = '' }, { after = 1 }]",
            ".small[2]: tells no answer; give one of ok, status, kind, reset, hang, events, raises",
        ),
        (
            "small = [{ ok = '', hang = true }]",
            ".small[1]: has ok and hang; give one of ok, status, kind, reset, hang, events, raises",
        ),
        ("small = [{ ok = 3 }]", ".small[1].ok: is a whole number; give a string"),
        ("small = [{ ok = '', status = 400 }]", ".small[1]: has ok and status; give one of ok, status, "),
        ("small = [{ status = 99 }]", ".small[1].status: is 99; give 200 to 599"),
        (
            "small = [{ status = 400, json = 1, body = '' }]",
            ".small[1].body: does not go with json",
        ),
        ("small = [{ status = 400, text = '' }]", ".small[1].text: is unknown here; choose from status, "),
        (
            "small = [{ status = 400, headers = { 'a b' = 'c' } }]",
            '.small[1].headers."a b": is no name of a header',
        ),
        (
            "small = [{ kind = 'capabilty' }]",
            ".small[1].kind: is 'capabilty', which it cannot be; did you mean capability?",
        ),
        (
            "small = [{ kind = 'auth', feature = 'image' }]",
            '.small[1].feature: goes with kind = "capability" only',
        ),
        (
            "small = [{ kind = 'capability', feature = 'images' }]",
            ".small[1].feature: is 'images', which it cannot be; did you mean image?",
        ),
        ("small = [{ reset = false }]", ".small[1].reset: is false; give true, or leave it out"),
        ("small = [{ hang = true, after = 2 }]", ".small[1].after: is unknown here; choose from hang"),
        ("small = [{ ok = '', after = -1 }]", ".small[1].after: is -1; give 0 to 31536000"),
        (
            "small = [{ events = [], end = 'stop' }]",
            ".small[1].end: is 'stop', which it cannot be; choose from",
        ),
        ("small = [{ events = [], every = -1 }]", ".small[1].every: is -1; give 0 to 31536000"),
        ("small = [{ events = 'x' }]", ".small[1].events: is a string; give a list of tables"),
        ("small = [{ ok = '', end = 'eof' }]", ".small[1].end: is unknown here; choose from ok, "),
        ("small = [{ events = ['x'] }]", ".small[1].events[1]: is a string where a table is needed, like"),
        ("small = [{ events = [{}, { comment = 3 }] }]", ".small[1].events[2].comment: is a whole number"),
        ("small = [{ events = [{ comment = '', x = 1 }] }]", ".small[1].events[1].x: is unknown here"),
        (
            "small = [{ events = [{ event = 'error' }] }]",
            ".small[1].events[1].data: is missing; give a table",
        ),
    ],
)
def test_an_answer_that_cannot_be_given_is_named_by_its_place(answers: str, line: str) -> None:
    (told,) = wrong(f"{ROUTE}[[turns]]\n[[turns]]\nstream = true\n[turns.upstream]\n{answers}")
    assert told.startswith(f"turns[2].upstream{line}")


@pytest.mark.parametrize(
    ("expect", "line"),
    [
        ("probe = ['small']", ".probe: is unknown here; did you mean probes?"),
        ("probes = 'small'", ".probes: is a string; give a list of strings"),
        ("probes = ['smal']", ".probes: names 'smal', which is not in the ladder; did you mean small?"),
        (
            "served_by = 'huge'",
            ".served_by: names 'huge', which is not in the ladder; choose from small, large",
        ),
        ("state = 'done'", ".state: is 'done', which it cannot be; choose from served, failed"),
        (
            "reasons = { small = 'auth' }",
            ".reasons.small: is 'auth', which it cannot be; choose",
        ),
        ("kinds = { huge = 'auth' }", ".kinds.huge: names 'huge', which is not in the ladder; choose from"),
        (
            "not_tried = { small = 'late' }",
            ".not_tried.small: is 'late', which it cannot be; choose from served",
        ),
        (
            "passed_over_for = { small = 'cold' }",
            ".passed_over_for.small: is 'cold', which it cannot be; choose from evicted, gated, cooling",
        ),
        ("stripped = { small = 'seed' }", ".stripped.small: is a string; give a list of strings"),
        ("took = '1 s'", ".took: is a string; give a number"),
        ("slept = nan", ".slept: is nan; give 0 to 31536000"),
        ("interrupted = 1", ".interrupted: is a whole number; give true or false"),
        ("content_events = -3", ".content_events: is -3; give 0 to 1000000000"),
    ],
)
def test_an_expectation_that_could_never_hold_is_named_by_its_place(expect: str, line: str) -> None:
    (told,) = wrong(f"{ROUTE}[[turns]]\n[[turns]]\n[turns.expect]\n{expect}")
    assert told.startswith(f"turns[2].expect{line}")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "route.ladder: is missing; list the targets to try, in order"),
        ("route = { ladder = 'small' }", "route.ladder: is a string; give a list of strings"),
        (
            "route = { ladder = ['a'], dedline_secs = 3 }",
            "route.dedline_secs: is unknown here; did you mean deadline_secs?",
        ),
        (
            "route = { ladder = ['a'], on = { unavailable = 'evict' } }",
            "route.on.unavailable: is 'evict'; give one of skip, surface",
        ),
        (
            "route = { ladder = ['a'] }\nclient = { max_retries = 99 }",
            "client.max_retries: is 99; give 0 to 10",
        ),
        (
            "route = { ladder = ['a'] }\nclient = { errors = [{ kind = 'auth', status = 99 }] }",
            "client.errors[0].status: is 99; give 100 to 599",
        ),
        (
            "route = { ladder = ['a b'] }",
            'targets."a b": is no name; use 1 to 64 of the characters A-Z a-z 0-9 . _ / : -',
        ),
        (
            "route = { ladder = ['a'] }\ntargets = { a = { llm_client = 'x' } }",
            "targets.a.llm_client: is unknown here: [client] is the client of every target;"
            " give the keys that differ",
        ),
        (
            "route = { ladder = ['a'] }\ntargets = { a = 3 }",
            "targets.a: is a whole number where a table is needed; begin one with [targets.NAME]",
        ),
        (
            "route = { ladder = ['a'] }\ntargets = { b = {} }",
            "targets.b: is in no ladder; take it out, or name it there",
        ),
        (
            "route = { ladder = ['a', 'b'] }\ntargets = { b = { id = 'a' } }",
            "targets.b: is the same model at the same address as 'a'; give it another id or base_url",
        ),
        (
            "route = { ladder = ['a'] }\nmemory = { url = 'sqlite:turnout.db' }",
            "memory.url: is no memory of a scenario; give sqlite: for a fresh file, or memory:",
        ),
        (
            "route = { ladder = ['a'] }\nmemory = { ttl_secs = 0 }",
            "memory.ttl_secs: is 0; give 1 to 31536000",
        ),
    ],
)
def test_what_a_scenario_shares_with_a_deployment_is_checked_as_there(text: str, line: str) -> None:
    assert wrong(f"turns = [{{}}]\n{text}") == [line]


def test_a_stream_goes_to_a_turn_that_streams() -> None:
    assert wrong(f"{ROUTE}[[turns]]\nupstream.small = [{{ ok = '' }}, {{ events = [] }}]") == [
        "turns[1].upstream.small[2].events: goes with a turn that streams; give the turn stream = true"
    ]


def test_a_reload_is_checked_like_the_tables_that_it_changes() -> None:
    text = f"{ROUTE}[[turns]]\n[turns.reload]\nclient = {{ max_retries = 99 }}\ntargets = {{ small = 3 }}"
    assert wrong(text) == [
        "turns[1].reload.client.max_retries: is 99; give 0 to 10",
        "turns[1].reload.targets.small: is a whole number where a table is needed;"
        " begin one with [targets.NAME]",
    ]
    assert wrong(f"{ROUTE}[[turns]]\nreload.memory.ttl_secs = 3") == [
        "turns[1].reload.memory: is unknown here; choose from route, client, targets"
    ]


def test_a_turn_may_name_the_targets_of_the_ladder_in_force() -> None:
    text = f"""
        {ROUTE}
        [[turns]]
        reload.route.ladder = ["large", "huge"]
        expect.probes = ["large"]
        [[turns]]
        expect.probes = ["small"]
        """
    assert wrong(text) == [
        "turns[2].expect.probes: names 'small', which is not in the ladder; choose from large, huge"
    ]


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file() -> None:
    text = """
        naem = "x"
        [route]
        ladder = ["small"]
        [client]
        max_retries = "two"
        [[turns]]
        final = "yes"
        [turns.expect]
        state = "done"
        [[turns]]
        repeat = 0
        """
    assert [line.partition(": ")[0] for line in wrong(text)] == [
        "client.max_retries",
        "naem",
        "turns[1].final",
        "turns[1].expect.state",
        "turns[2].repeat",
    ]


def test_a_file_that_is_not_there_or_is_no_toml(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"none\.toml: cannot be read: No such file"):
        load(tmp_path / "none.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("[route")
    with pytest.raises(ScenarioError, match=r"broken\.toml: is no TOML: "):
        load(broken)
    broken.write_bytes(b"\xff")
    with pytest.raises(ScenarioError, match=r"broken\.toml: is no TOML: "):
        load(broken)


def test_a_file_that_is_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    deep = tmp_path / "deep.toml"
    deep.write_text(f"{ROUTE}[[turns]]\nrequest.x = {'[' * 5000}{']' * 5000}")
    with pytest.raises(ScenarioError, match=r"deep\.toml: is nested too deeply"):
        load(deep)
    dotted = ".".join(["a"] * 5000)
    deep.write_text(f"{ROUTE}[[turns]]\nrequest.{dotted} = 1")
    with pytest.raises(ScenarioError, match=r"deep\.toml: is nested too deeply"):
        load(deep)


def test_how_deep_a_file_may_nest_does_not_depend_on_the_interpreter(tmp_path: Path) -> None:
    file = tmp_path / "deep.toml"
    # the file, its list of turns, the turn and its request are four levels
    for levels, readable in ((96, True), (97, False)):
        file.write_text(f"{ROUTE}[[turns]]\nrequest.x = {'[' * levels}{']' * levels}")
        with nullcontext() if readable else pytest.raises(ScenarioError, match="at most 100 levels"):
            assert play(load(file))


KEYS = st.sampled_from(
    sorted(
        {*TOP, *TURN, *EXPECT, *ANSWERS}
        | {"ladder", "on", "id", "llm_client", "small", "large", "json", "body", "url", "[1]"}
        | {"end", "every", "comment", "event", "data"}
    )
)
VALUES = st.recursive(
    st.one_of(
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=8),
        st.sampled_from(["small", "large", "memory:", "sqlite:", "served", "capability", "skip"]),
        st.just(datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)),
        st.just(datetime.time(12)),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.text(max_size=8), KEYS), inner, max_size=4),
    ),
    max_leaves=12,
)
TABLES = st.dictionaries(st.one_of(KEYS, st.text(max_size=8)), VALUES, max_size=5)
TURNS = st.lists(
    st.one_of(
        TABLES,
        st.fixed_dictionaries(
            {},
            optional={
                "upstream": st.dictionaries(
                    st.sampled_from(["small", "large", "x"]), st.lists(TABLES, max_size=3), max_size=3
                ),
                "expect": TABLES,
                "reload": st.fixed_dictionaries({}, optional={"route": TABLES, "client": TABLES}),
            },
        ),
    ),
    max_size=3,
)


@settings(max_examples=150, deadline=None)
@given(
    document=st.one_of(
        TABLES,
        st.fixed_dictionaries(
            {"route": st.just({"ladder": ["small", "large"]}), "turns": TURNS},
            optional={"client": TABLES, "targets": TABLES, "memory": TABLES, "name": VALUES},
        ),
    )
)
def test_whatever_a_file_holds_it_is_read_or_refused(document: dict[str, Any]) -> None:
    told = []
    try:
        told = [turn.place for turn in read_document(document, Path("story.toml")).turns]
    except ScenarioError as refused:
        told = str(refused).split("\n")
    assert told
    assert all(isinstance(line, int) or line.startswith("story.toml: ") for line in told)
