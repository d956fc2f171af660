"""Recorded turns go the same way again, and what a change of the machine changes is named."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result
from house import BODY, House
from hypothesis import given
from hypothesis import strategies as st
from mutants import mutants
from random_sessions import session
from random_turns import some_turn

from turnout import AuditRecord, Change, Identity, JsonLines, Router, SqliteRecords
from turnout.engine.audit import WhyPassedOver, encode
from turnout.engine.cli import main
from turnout.engine.context import SessionContext
from turnout.engine.recordings import MAX_LINE, Numbers, lines_of
from turnout.engine.replay import replay
from turnout.engine.scenario import load
from turnout.engine.simulation import play
from turnout.engine.testing import ok, refusal
from turnout.engine.testing.conformance import NOW, overflow
from turnout.engine.testing.conformance import refusal as refused
from turnout.machines import turn as turn_machine
from turnout.machines.stepping import StepMachine
from turnout.machines.vocabulary import RoutingFallbackReason

SCENARIOS = sorted((Path(__file__).parent / "scenarios").glob("*.toml"))
(FORGETFUL,) = [
    StepMachine(mutant.definition)
    for mutant in mutants(turn_machine.DEFINITION)
    if mutant.name == "turn: capability in classified to evicted -> skipped"
]


def played() -> Iterator[AuditRecord]:
    """The turns of every scenario."""
    for file in SCENARIOS:
        yield from (turn.record for turn in play(load(file)))


RECORDS = list(played())


def test_every_turn_of_every_scenario_goes_the_same_way_again() -> None:
    assert len(RECORDS) > 200
    assert [replay(record) for record in RECORDS if replay(record) is not None] == []


def test_a_changed_row_is_named_by_the_first_step_that_it_changes() -> None:
    changed = [(record, replay(record, machine=FORGETFUL)) for record in RECORDS]
    concerned = [r for r in RECORDS if any(step.trigger == "capability" for step in r.steps)]
    assert len(concerned) > 5
    assert [record for record, difference in changed if difference] == concerned
    for record, difference in changed:
        if difference is not None:
            place = next(at for at, step in enumerate(record.steps, 1) if step.trigger == "capability")
            assert (difference.step, difference.turn) == (place, record.turn)
            assert difference.recorded == "capability in classified leads to evicted"
            assert difference.today == "capability in classified leads to skipped"


@pytest.mark.parametrize("name", [m.name for m in mutants(turn_machine.DEFINITION) if " removed" in m.name])
def test_a_row_that_is_gone_is_a_difference_and_never_a_crash(name: str) -> None:
    (mutant,) = [m for m in mutants(turn_machine.DEFINITION) if m.name == name]
    machine, chance = StepMachine(mutant.definition), random.Random(7)
    found = [replay(some_turn(chance), machine=machine) for _ in range(1500)]
    assert any(found)


@pytest.mark.parametrize("seed", range(200))
def test_sessions_of_every_sort_go_the_same_way_again_and_a_changed_row_is_named(seed: int) -> None:
    records = session(seed)
    assert [replay(record) for record in records] == [None] * len(records)
    for record in records:
        difference = replay(record, machine=FORGETFUL)
        changed = [at for at, step in enumerate(record.steps, 1) if step.trigger == "capability"]
        assert (difference is not None) == bool(changed)
        assert difference is None or difference.step == changed[0]


def test_the_sessions_are_of_every_sort() -> None:
    records = [record for seed in range(60) for record in session(seed)]
    assert {record.ended_by for record in records} >= {
        "answered",
        "rejected",
        "advance",
        "cancelled",
        "expired",
    }
    assert {over.why for record in records for over in record.passed_over} == set(WhyPassedOver)
    assert {probe.reason for record in records for probe in record.probes} >= set(RoutingFallbackReason)
    for told in ("lifted", "restored", "settled", "health", "calibrated", "pin", "rereads"):
        assert any(getattr(record, told) for record in records), told
    assert any(probe.trial for record in records for probe in record.probes)


def test_records_that_older_versions_left_are_read_and_replayed_for_ever() -> None:
    """Each file is never written anew: a difference here is one for everybody who has kept records."""
    kept = list(lines_of([Path(__file__).parent / "records"]))
    assert len(kept) > 30
    assert [line.wrong for line in kept if line.record is None] == []
    assert [replay(line.record) for line in kept if line.record] == [None] * len(kept)


def test_another_choice_than_was_recorded_is_a_difference() -> None:
    record = next(r for r in RECORDS if r.served_by and len(r.ladder) > 1 and len(r.probes) == 1)
    (probe,) = record.probes
    other = next(rung.target for rung in record.ladder if rung.target != probe.target)
    forged = msgspec.structs.replace(record, probes=(msgspec.structs.replace(probe, target=other),))
    difference = replay(forged)
    assert difference is not None
    assert (difference.recorded, difference.today) == (f"asks {other}", f"asks {probe.target}")
    for what, value in (("served_by", other), ("state", "failed"), ("ended_by", "rejected")):
        difference = replay(msgspec.structs.replace(record, **{what: value}))
        assert difference is not None
        assert difference.recorded == f"{what}: {value}"
    gated = next(r for r in RECORDS if r.passed_over and r.passed_over[0].limit)
    over = msgspec.structs.replace(gated.passed_over[0], why=WhyPassedOver.COOLING, limit="")
    difference = replay(msgspec.structs.replace(gated, passed_over=(over, *gated.passed_over[1:])))
    assert difference is not None
    assert f"{over.target} cooling" in difference.recorded
    assert f"{over.target} gated ({gated.passed_over[0].limit})" in difference.today
    forged = msgspec.structs.replace(record, passed_over=(), not_tried=(), steps=record.steps[:1])
    difference = replay(forged)
    assert difference is not None
    assert difference.today == "goes on from classified"


# -- files


def test_files_are_read_line_by_line_and_what_is_no_record_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "records" / "old"
    folder.mkdir(parents=True)
    lines = [encode(record) for record in RECORDS[:3]]
    (tmp_path / "records" / "b.jsonl").write_bytes(lines[0] + b"\n\n" + lines[1][:50])
    (tmp_path / "records" / "b.jsonl.1").write_bytes(b'{"a": 1}\nnonsense\n' + lines[2] + b"\n")
    (folder / "a.jsonl").write_bytes(b"x" * (MAX_LINE + 5) + b"\n" + lines[1] + b"\n\xff\n")
    (tmp_path / "records" / "notes.txt").write_text("nothing of ours")
    write = JsonLines(folder / "changes.jsonl")
    write(Change(NOW, Identity("", "s"), overflow(9), "expired"))
    told = [
        (line.file.name, line.number, line.record.turn if line.record else line.wrong[:12], line.torn)
        for line in lines_of([tmp_path / "records"])
    ]
    assert told == [
        ("b.jsonl.1", 1, "is no record", False),
        ("b.jsonl.1", 2, "is no record", False),
        ("b.jsonl.1", 3, RECORDS[2].turn, False),
        ("b.jsonl", 1, RECORDS[0].turn, False),
        ("b.jsonl", 3, "is no record", True),
        ("a.jsonl", 1, "is longer th", False),
        ("a.jsonl", 2, RECORDS[1].turn, False),
        ("a.jsonl", 3, "is no record", False),
        ("changes.jsonl", 1, "", False),
    ]


@given(st.lists(st.integers(1, 30)))
def test_numbers_that_have_come_are_known_in_whatever_order(numbers: list[int]) -> None:
    come, known = Numbers(), set[int]()
    for number in numbers:
        assert come.add(number) == (number not in known)
        known.add(number)


def test_a_record_is_read_once_however_many_sinks_have_kept_it(tmp_path: Path) -> None:
    changes: list[Change] = []
    house = House(
        {"a": [refusal("context_window")], "b": [ok()] * 3},
        on_record=JsonLines(tmp_path / "first.jsonl"),
        on_change=changes.append,
        sinks=[JsonLines(tmp_path / "records.jsonl"), SqliteRecords(tmp_path / "records.db")],
    )

    async def story(router: Router) -> None:
        for _ in range(3):
            await router.turn(BODY, session="s")
        await router.restore("s", target="a")

    house.play(story)
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "records.jsonl")
    read = [line.record for line in lines_of([tmp_path, tmp_path / "records.jsonl"]) if line.record]
    assert [record.sequence for record in read] == [1, 2, 3]
    assert len(list(lines_of([tmp_path / "records.jsonl"]))) == 4
    (change,) = changes
    assert (change.writer, change.sequence) == (read[0].writer, 4)


def test_a_file_that_is_renamed_while_the_folder_is_read_is_read_all_the_same(tmp_path: Path) -> None:
    write = JsonLines(tmp_path / "records.jsonl", max_bytes=3000)
    records = [msgspec.structs.replace(RECORDS[0], turn=f"t{number:02}") for number in range(24)]
    for record in records[:12]:
        write(record)
    reading = lines_of([tmp_path])
    read = [next(reading)]
    for record in records[12:]:
        write(record)
    read += reading
    assert {line.record.turn for line in read if line.record} >= {record.turn for record in records[:12]}


# -- the command


def replayed(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["replay", *map(str, arguments)])


@pytest.fixture
def records(tmp_path: Path) -> Path:
    path = tmp_path / "records.jsonl"
    write = JsonLines(path)
    for record in RECORDS[:50]:
        write(record)
    return path


def test_the_same_way_is_exit_status_0(records: Path) -> None:
    told = replayed(records)
    assert (told.exit_code, told.stdout) == (0, "")
    assert told.stderr == "50 turns: 50 go the way they went, 0 differ\n"


def test_a_difference_is_exit_status_1_unless_it_is_meant(
    records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = [r for r in RECORDS[:50] if replay(r, machine=FORGETFUL) is not None]
    assert changed
    monkeypatch.setattr(turn_machine, "MACHINE", FORGETFUL)
    monkeypatch.setattr("turnout.engine.cli.replay.replay", lambda record: replay(record, machine=FORGETFUL))
    told = replayed(records)
    assert told.exit_code == 1
    assert len(told.stdout.splitlines()) == len(changed)
    assert "leads to evicted; today: capability in classified leads to skipped  [" in told.stdout
    digest = told.stdout.splitlines()[0].rpartition("[")[2].rstrip("]")
    in_json = [json.loads(line) for line in replayed(records, "--json").stdout.splitlines()]
    assert {one["digest"] for one in in_json} == {digest}
    assert [one["turn"] for one in in_json] == [record.turn for record in changed]
    intended = records.parent / "intended.txt"
    intended.write_text(f"# what we mean\n{digest}  # capability lasts a turn\n")
    told = replayed(records, "--intended", intended)
    assert (told.exit_code, told.stdout) == (0, "")
    assert f"{len(changed)} differ as intended" in told.stderr


def test_what_cannot_be_read_is_exit_status_2_and_a_torn_end_is_not(records: Path) -> None:
    with records.open("ab") as file:
        file.write(b"{}\n" + encode(RECORDS[0])[:100])
    told = replayed(records)
    assert told.exit_code == 2
    assert "records.jsonl:51: is no record" in told.stderr
    assert "records.jsonl:52: was not written to its end" in told.stderr
    assert "50 turns: 50 go" in told.stderr
    records.write_bytes(encode(RECORDS[0]) + b"\n" + encode(RECORDS[1])[:100])
    assert replayed(records).exit_code == 0
    told = replayed(records.parent / "nowhere.jsonl", records)
    assert (told.exit_code, "1 turn: 1 go" in told.stderr) == (2, True)
    assert "nowhere.jsonl: cannot be read: No such file" in told.stderr
    (records.parent / "empty").mkdir()
    assert "no record was found" in replayed(records.parent / "empty").stderr
    broken = msgspec.structs.replace(RECORDS[0], ladder=())
    records.write_bytes(encode(broken) + b"\n")
    told = replayed(records)
    assert (told.exit_code, "cannot be played: ladder []" in told.stderr) == (2, True)


def rung(limits: dict[str, object]) -> dict[str, object]:
    return {"target": "a", "model": "m", "format": "f", "fingerprint": str(limits)[:30], "limits": limits}


@pytest.mark.parametrize(
    "forged",
    [
        {"policy": {"capability": "banish"}},
        {"options": {"mood": "bad"}},
        {"ladder": [rung({"mood": 1})]},
        {"ladder": [rung({"input": 1})]},
        {"ladder": [rung({"context_window": 10**400})]},
        {"schema": 99},
        {"rereads": [{"before_step": 0, "evictions": [], "cooling": 3}]},
    ],
)
def test_what_no_turn_can_begin_with_is_told_and_left_out(records: Path, forged: dict[str, object]) -> None:
    line = json.dumps({**json.loads(encode(RECORDS[0])), **forged})
    deep = json.dumps({**json.loads(encode(RECORDS[0])), "usage": 0})[:-2] + "[" * 100_000
    records.write_text(f"{line}\n{deep}\n{encode(RECORDS[1]).decode()}\n")
    told = replayed(records)
    assert told.exit_code == 2
    assert told.exception is None or isinstance(told.exception, SystemExit)
    assert "2 lines cannot be used" in told.stderr
    assert "1 turn: 1 go the way they went" in told.stderr


def test_two_evictions_of_a_target_are_told_in_one_order_whatever_a_store_keeps_them_in() -> None:
    first, second = overflow(9, at=NOW), refused("image", at=NOW + 1)
    one, other = SessionContext([first, second]), SessionContext([second, first])
    whose = first.target, first.fingerprint
    assert one.of(*whose) == other.of(*whose) == (first, second)
