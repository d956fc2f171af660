"""Why did turn 7 go there? A session is told from its records alone."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest
from click.testing import CliRunner, Result
from house import BODY, House
from syrupy.assertion import SnapshotAssertion

from turnout import (
    Breaker,
    InMemory,
    JsonLines,
    Options,
    Price,
    Route,
    Router,
    SqliteRecords,
    Target,
    TurnFailed,
)
from turnout.engine.account import account
from turnout.engine.audit import PassedOver, WhyPassedOver
from turnout.engine.cli import main
from turnout.engine.testing import Hang, ok, refusal

PICTURE = {
    "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x/y"}}]}]
}


FLAKY = Price(input=1, output=4, cached_input=0.5)
LARGE = Price(input=2.5, output=10, cached_input=1.25)


def ladder() -> list[Target]:
    breaker = Breaker(failures=1, cool_secs=60)
    return [
        Target("text-only", base_url="http://upstream.example", max_retries=0),
        Target("tiny", base_url="http://upstream.example", max_retries=0, context_window=50),
        Target("flaky", base_url="http://upstream.example", max_retries=1, breaker=breaker, price=FLAKY),
        Target("large", base_url="http://upstream.example", max_retries=0, price=LARGE),
    ]


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session in which everything happens, and two others."""
    path = tmp_path_factory.mktemp("records") / "records.jsonl"
    names = iter(range(1, 100))
    counts = {"prompt_tokens": 900, "completion_tokens": 20}
    cached = ok(usage={**counts, "prompt_tokens_details": {"cached_tokens": 800}})
    house = House(
        {
            "text-only": [refusal("capability", "image"), refusal("context_window"), ok()],
            "flaky": [*[refusal("unavailable")] * 2, cached, ok(), refusal("caller_error"), Hang()],
            "large": [ok(), refusal("capability", "tools"), ok(usage=counts)],
        },
        ladder=ladder(),
        options=Options(capability_scope="feature", affinity="home"),
        on_record=JsonLines(path),
        new_id=lambda: f"t{next(names)}",
        deadline_secs=9,
    )

    async def story(router: Router) -> None:
        async def turn(body: Any = BODY, session: str = "s1", **more: Any) -> None:
            with suppress(TurnFailed):
                await router.turn(body, session=session, size=100, **more)

        await turn(PICTURE)
        await turn(PICTURE, session="s2")
        await house.clock.sleep(70)
        await turn(PICTURE)
        await turn(pin="flaky")
        await turn(agent="helper")
        await turn()
        await turn(pin="flaky")
        await turn(pin="flaky")
        await turn(session="other")

    house.play(story)
    return path


def told(*arguments: object) -> Result:
    return CliRunner().invoke(main, [*map(str, arguments)])


def test_a_session_is_told_turn_by_turn(records: Path, snapshot: SnapshotAssertion) -> None:
    shown = told("explain", "s1", "--records", records)
    assert shown.exit_code == 0, shown.output
    assert shown.output == snapshot


def test_whoever_was_passed_over_is_told_with_the_turn_and_the_evidence_of_it(records: Path) -> None:
    kept = [msgspec.json.decode(line) for line in records.read_bytes().splitlines()]
    for number, turn in enumerate((record for record in kept if record["caller"]["session"] == "s1"), 1):
        shown = told("explain", "s1", "--records", records, "--turn", number).output
        for over in turn.get("passed_over", []):
            (line,) = [
                line for line in shown.splitlines() if line.startswith(f"  {over['target']}: passed over")
            ]
            assert over["why"] in line
            for eviction in over["evictions"]:
                assert eviction["first"]["evidence"]["rule"] in line
                place = [r["turn"] for r in kept if r["caller"]["session"] == "s1"].index(
                    eviction["first"]["turn"]
                )
                assert f"in turn {place + 1}: {eviction['reason']}" in line
            assert over.get("limit", "") in line


def test_a_switch_of_targets_tells_what_of_the_prompt_cache_is_lost(records: Path) -> None:
    lines = told("explain", "s1", "--records", records).output
    assert "switched from flaky to" in lines
    # 800 * (2.5 - 1.25) for a million
    assert "800 cached tokens are lost, which costs about 0.001 more" in lines


def test_what_a_served_turn_cost_is_told_where_its_target_declares_a_price(records: Path) -> None:
    kept = [msgspec.json.decode(line) for line in records.read_bytes().splitlines()]
    kept = [record for record in kept if record["caller"]["session"] == "s1"]
    turns = told("explain", "s1", "--records", records, "--json").output.splitlines()
    unknown = 0
    for record, turn in zip(kept, map(json.loads, turns), strict=True):
        prices = {rung["target"]: rung.get("price") for rung in record["ladder"]}
        price, usage = prices.get(record.get("served_by")), record.get("usage")
        assert ("cost" in turn) is (price is not None and usage is not None)
        assert turn.get("cost_unknown", False) is (price is not None and usage is None)
        unknown += turn.get("cost_unknown", False)
        if price and usage:
            cached = usage.get("cached_tokens", 0)
            prompt = (usage["prompt_tokens"] - cached) * price["input"] + cached * price["cached_input"]
            cost = prompt + usage["completion_tokens"] * price["output"]
            assert turn["cost"] == pytest.approx(cost / 1_000_000)
    heading = told("explain", "s1", "--records", records).output.splitlines()[0]
    # turns 2 and 5: 900 * 2.5 + 20 * 10, turn 3: 100 * 1 + 800 * 0.5 + 20 * 4
    assert heading.endswith(f" UTC; cost 0.00548 and {unknown} turns of unknown cost")


# -- what is hard to tell


def told_of(house: House, turns: list[Any], *, apart: float = 1.0, tmp_path: Path) -> list[str]:
    """The account of a session of these turns, each after the one before."""
    house.arguments["on_record"] = JsonLines(tmp_path / "records.jsonl")

    async def story(router: Router) -> None:
        for body, size in turns:
            with suppress(TurnFailed):
                await router.turn(body, session="s", size=size)
            await house.clock.sleep(apart)

    house.play(story)
    return told("explain", "s", "--records", tmp_path).stdout.splitlines()


TOOLS = {**BODY, "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]}


def test_of_several_refusals_the_one_is_told_that_rules_a_target_out_of_this_turn(tmp_path: Path) -> None:
    """An eviction keeps the first cause only, which may have nothing to do with the turn."""
    script = {"a": [refusal("capability", "image"), refusal("capability", "tools")], "b": [ok()] * 3}
    house = House(script, options=Options(capability_scope="feature"))
    lines = told_of(house, [(PICTURE, 9), (TOOLS, 9), (TOOLS, 9)], tmp_path=tmp_path)
    (over,) = [line for line in lines if "passed over" in line]
    assert over.startswith("  a: passed over, evicted in turn 2: capability (tools)")


def test_of_several_overflows_the_one_is_told_that_a_smaller_conversation_does_not_get_under(
    tmp_path: Path,
) -> None:
    script = {"a": [refusal("context_window")] * 2, "b": [ok()] * 3}
    house = House(script, options=Options(readmit_below=0.8))
    lines = told_of(house, [(BODY, 100_000), (BODY, 70_000), (BODY, 60_000)], tmp_path=tmp_path)
    (over,) = [line for line in lines if "passed over" in line]
    assert over.startswith("  a: passed over, evicted in turn 2: context_window")


def test_what_attempts_met_is_told_also_if_the_turn_ended_meanwhile(tmp_path: Path) -> None:
    script = {"a": [refusal("unavailable")] * 2 + [Hang()]}
    ladder = [Target("a", base_url="http://upstream.example")]
    lines = told_of(House(script, ladder=ladder, deadline_secs=20), [(BODY, 9)], tmp_path=tmp_path)
    (line,) = [line for line in lines if line.startswith("  a: ")]
    assert line.startswith("  a: asked 3 times (unavailable HTTP 503, unavailable HTTP 503), waited 0.75 s")
    assert line.endswith("expired")


def test_a_home_that_moves_is_told(tmp_path: Path) -> None:
    script = {"a": [ok(), refusal("context_window")], "b": [ok()]}
    lines = told_of(House(script, options=Options(affinity="home")), [(BODY, 9)] * 2, tmp_path=tmp_path)
    assert [line for line in lines if "at home" in line] == [
        "  the session is at home with a from now on",
        "  the session is at home with b from now on",
    ]


def test_a_target_that_another_turn_tries_is_told_as_that(tmp_path: Path) -> None:
    breaker = Breaker(failures=1, cool_secs=30)
    at = {"base_url": "http://upstream.example", "max_retries": 0}
    ladder = [Target("a", breaker=breaker, timeout_secs=20, **at), Target("b", **at)]
    names = iter(["t1", "t2", "t3"])
    house = House(
        {"a": [refusal("unavailable"), Hang()], "b": [ok()] * 3},
        ladder=ladder,
        new_id=lambda: next(names),
        on_record=JsonLines(tmp_path / "records.jsonl"),
    )

    async def story(router: Router) -> None:
        await router.turn(BODY, session="s")
        await house.clock.sleep(31)
        trying = asyncio.ensure_future(router.turn(BODY, session="s"))
        await house.clock.sleep(1)
        await router.turn(BODY, session="s")
        await trying

    house.play(story)
    lines = told("explain", "s", "--records", tmp_path, "--turn", 3).stdout
    assert "  a: passed over, cooling while turn t2 tries it since turn 1: unavailable" in lines


def test_another_route_is_another_conversation(tmp_path: Path) -> None:
    at = {"base_url": "http://upstream.example", "max_retries": 0}
    house = House({"a": [ok()] * 2, "b": [ok()] * 2}, on_record=JsonLines(tmp_path / "records.jsonl"))
    del house.arguments["ladder"]
    house.arguments["routes"] = [Route(id=name, ladder=[Target(name, **at)]) for name in "ab"]

    async def story(router: Router) -> None:
        for route in ("a", "b", "a", "b"):
            await router.turn(BODY, session="s", route=route)

    house.play(story)
    assert "switched" not in told("explain", "s", "--records", tmp_path).stdout


def test_a_switch_is_from_whoever_had_served_by_then() -> None:
    """The first turn begins first and is served last."""
    house = House({"a": [ok()], "b": [ok()]})
    for pin in "ab":
        house.turn(session="s", pin=pin)
    slow, quick = house.records
    slow = msgspec.structs.replace(slow, took=5.0)
    quick = msgspec.structs.replace(quick, started=slow.started + 1, took=0.5)
    first, second = account("s", [slow, quick]).turns
    assert second.switch is None
    assert first.switch is not None
    assert (first.switch.before, first.switch.now) == ("b", "a")


def test_of_turns_that_overlap_the_refusal_is_told_that_had_come_by_then() -> None:
    """The first turn begins first and is refused last; the third one begins in between."""
    script = {"a": [refusal("capability", "image"), refusal("capability", "image")], "b": [ok()] * 3}
    at = iter(["t1", "t2", "t3"])
    house = House(script, new_id=lambda: next(at), memory=InMemory())
    for body in (PICTURE, PICTURE):
        house.play(lambda router, body=body: router.turn(body, session="s"))
        house.memory = InMemory()
    first, second = house.records
    (refused,) = second.standings_after
    began = first.started
    slow = msgspec.structs.replace(
        first, took=6.0, probes=(msgspec.structs.replace(first.probes[0], at=began + 5), *first.probes[1:])
    )
    quick = msgspec.structs.replace(
        second,
        started=began + 1,
        probes=(msgspec.structs.replace(second.probes[0], at=began + 2), *second.probes[1:]),
    )
    cause = msgspec.structs.replace(refused.first, at=began + 2)
    known = msgspec.structs.replace(refused, first=cause, latest_at=began + 2)
    over = PassedOver("a", WhyPassedOver.EVICTED, (known,))
    third = msgspec.structs.replace(
        second, turn="t3", started=began + 3, took=6.0, probes=second.probes[1:], passed_over=(over,)
    )
    (left_out,) = account("s", [slow, quick, third]).turns[2].not_asked
    assert [reason.number for reason in left_out.reasons] == [2]


def test_a_home_is_where_the_first_of_two_turns_that_overlap_was_served() -> None:
    house = House({"a": [ok()], "b": [ok()]}, options=Options(affinity="home"), memory=InMemory())
    for pin in "ab":
        house.turn(session="s", pin=pin)
        house.clock.run(house.clock.sleep(1))
        house.memory = InMemory()
    first, second = account("s", house.records).turns
    assert (first.home, second.home) == ("a", "")


def test_a_turn_that_several_sinks_have_kept_is_one_turn(tmp_path: Path) -> None:
    house = House({"a": [refusal("context_window")], "b": [ok()] * 3})
    house.arguments["sinks"] = [JsonLines(tmp_path / "records.jsonl"), SqliteRecords(tmp_path / "records.db")]
    house.arguments.pop("on_record")

    async def story(router: Router) -> None:
        for _ in range(3):
            await router.turn(BODY, session="s")
            await house.clock.sleep(1)

    house.play(story)
    shown = told("explain", "s", "--records", tmp_path, "--records", tmp_path / "records.jsonl").stdout
    assert [line.split()[1] for line in shown.splitlines() if line.startswith("turn")] == ["1", "2", "3"]
    assert "evicted in turn 1: context_window" in shown
    assert "3 turns" in told("sessions", "--records", tmp_path).stdout


def test_ids_that_come_again_after_a_restart_are_turns_of_their_own(tmp_path: Path) -> None:
    house = House(
        {"a": [refusal("context_window")], "b": [ok()] * 3},
        new_id=lambda: "same",
        on_record=JsonLines(tmp_path / "records.jsonl"),
    )
    for _ in range(3):
        house.turn(session="s")
        house.clock.run(house.clock.sleep(1))
    shown = told("explain", "s", "--records", tmp_path).stdout
    assert [line.split()[1] for line in shown.splitlines() if line.startswith("turn")] == ["1", "2", "3"]
    assert "evicted in turn 1: context_window" in shown


@pytest.mark.parametrize("since", ["²d", f"{'9' * 400}d", f"{'9' * 5000}s", "9999999999d", "d", "-3d"])
def test_a_time_that_is_none_is_told(records: Path, since: str) -> None:
    shown = told("sessions", "--records", records, f"--since={since}")
    assert (shown.exit_code, "is no time" in " ".join(shown.stderr.split())) == (2, True)


def test_in_json_each_turn_is_an_object(records: Path) -> None:
    turns = [
        json.loads(line) for line in told("explain", "s1", "--records", records, "--json").output.splitlines()
    ]
    assert [turn["number"] for turn in turns] == list(range(1, len(turns) + 1))
    assert turns[0]["asked"][0]["reason"]["features"] == ["image"]


def test_a_session_is_drawn_as_whom_it_asked(records: Path) -> None:
    drawn = told("explain", "s1", "--records", records, "--mermaid").output.splitlines()
    assert drawn[0] == "sequenceDiagram"
    assert [line.strip() for line in drawn if line.endswith(": turn 1")] == [
        f"session ->> t{place}: turn 1" for place in (0, 2, 3)
    ]
    assert "    session ->> t2: turn 3" in drawn
    assert sum("participant" in line for line in drawn) == 5
    assert any("turn 7" in line for line in drawn)


def test_a_turn_is_drawn_as_its_way_through_the_machine(records: Path, snapshot: SnapshotAssertion) -> None:
    drawn = told("explain", "s1", "--records", records, "--mermaid", "--turn", 1).output
    for words in ("1. probed text-only<br/>4. probed flaky<br/>7. probed large", "2. capability HTTP 400"):
        assert words in drawn
    assert "    class probing,classified,evicted,skipped,served taken\n" in drawn
    assert drawn == snapshot


def test_a_session_is_drawn_as_an_svg_picture(records: Path) -> None:
    for arguments, turns in (((), range(1, 8)), (("--turn", 3), [3])):
        shown = told("explain", "s1", "--records", records, "--svg", *arguments)
        assert shown.exit_code == 0
        root = ElementTree.fromstring(shown.stdout)
        marks = [group for group in root.iter() if group.attrib.get("class") == "probe"]
        titles = [str(mark[0].text) for mark in marks]
        assert {title.partition(",")[0] for title in titles} == {f"turn {number}" for number in turns}
    assert root.findtext("{*}title") == "session s1"


@pytest.mark.parametrize("two", [("--json", "--svg"), ("--svg", "--mermaid"), ("--mermaid", "--json")])
def test_only_one_thing_is_printed_at_a_time(two: tuple[str, str], records: Path) -> None:
    shown = told("explain", "s1", "--records", records, *two)
    assert shown.exit_code == 2
    assert "give one of --json, --mermaid and --svg" in shown.stderr


def test_what_is_not_there_is_told(records: Path, tmp_path: Path) -> None:
    missing = told("explain", "s9", "--records", records)
    assert (missing.exit_code, missing.stderr) == (1, "there is no record of session s9\n")
    third = told("explain", "s1", "--records", records, "--turn", 3).stdout
    name = json.loads(told("explain", "s1", "--records", records, "--turn", 3, "--json").stdout)["turn"]
    assert told("explain", "s1", "--records", records, "--turn", name).stdout == third
    missing = told("explain", "s1", "--records", records, "--turn", 99)
    assert (missing.exit_code, missing.stderr) == (1, "there is no record of turn 99 of session s1\n")
    (tmp_path / "bad.jsonl").write_text("nonsense\n")
    spoilt = told("explain", "s1", "--records", tmp_path, "--records", records)
    assert spoilt.exit_code == 2
    assert "bad.jsonl:1: is no record" in spoilt.stderr
    assert "session s1: " in spoilt.stdout


def test_names_and_messages_cannot_steer_a_terminal(tmp_path: Path) -> None:
    house = House(on_record=JsonLines(tmp_path / "records.jsonl"))
    house.turn(session="s\x1b[2J\n1")
    shown = told("explain", "s\x1b[2J\n1", "--records", tmp_path).output
    assert "\x1b" not in shown
    assert "\x1b" not in told("sessions", "--records", tmp_path).output


def test_a_time_that_no_calendar_has_is_told_as_its_number(records: Path, tmp_path: Path) -> None:
    record = json.loads(records.read_bytes().splitlines()[0]) | {"started": 1e300}
    (tmp_path / "records.jsonl").write_text(json.dumps(record) + "\n")
    for command in (("explain", "s1"), ("sessions",)):
        shown = told(*command, "--records", tmp_path)
        assert shown.exit_code == 0, shown.exception
        assert "1e+300" in shown.output


def test_records_in_any_order_come_to_the_same(records: Path) -> None:
    from turnout.engine.recordings import lines_of

    kept = [line.record for line in lines_of([records]) if line.record and line.record.caller.session == "s1"]
    assert account("s1", kept) == account("s1", reversed(kept))


def test_the_sessions_are_listed_and_filtered(records: Path, snapshot: SnapshotAssertion) -> None:
    assert told("sessions", "--records", records).output == snapshot
    for arguments, sessions in (
        (("--failed",), ["s1", "s2"]),
        (("--fell-back",), ["s2", "s1"]),
        (("--reason", "context_window"), ["s2"]),
        (("--target", "large", "--reason", "unavailable"), ["s1"]),
        (("--since", "2100-01-01"), []),
        (("--since", "1990-01-01T10:00+02:00"), ["s2", "s1", "other"]),
    ):
        shown = told("sessions", "--records", records, "--json", *arguments)
        found = [json.loads(line)["session"] for line in shown.stdout.splitlines()]
        assert sorted(found) == sorted(sessions), arguments
    assert told("sessions", "--records", records, "--since", "soon").exit_code == 2
    assert told("sessions", "--records", records, "--since", "3d").exit_code == 0
