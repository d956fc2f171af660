"""Where records go: lines in a file, rows, the log, and none of it in a turn's way."""

import asyncio
import json
import logging
import resource
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from house import BODY, House

from turnout import ConfigurationError, JsonLines, Logged, Router, SqliteRecords, Target, Turn
from turnout.engine.audit import AuditRecord, Caller, decode, encode
from turnout.engine.recordings import lines_of
from turnout.engine.replay import replay
from turnout.engine.sinks.sqlite import records_in
from turnout.engine.testing import ok, refusal


def a_record(name: str) -> AuditRecord:
    turn = Turn([Target("a")], id=name)
    turn.probed(None)
    turn.act()
    return turn.record()


def test_each_record_is_a_line_that_reads_back_equal(tmp_path: Path) -> None:
    sink = JsonLines(tmp_path / "records.jsonl")
    records = [a_record(name) for name in ("one", "two")]
    for record in records:
        sink(record)
    assert list(map(decode, sink.path.read_bytes().splitlines())) == records


def test_two_sinks_append_to_one_file(tmp_path: Path) -> None:
    for name in ("one", "two"):
        JsonLines(tmp_path / "records.jsonl")(a_record(name))
    assert len((tmp_path / "records.jsonl").read_bytes().splitlines()) == 2


FULL = """
import resource, signal, sys
from pathlib import Path
from turnout import JsonLines, Target, Turn

def record(name):
    turn = Turn([Target("a")], id=name)
    turn.probed(None)
    turn.act()
    return turn.record()

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
sink = JsonLines(sys.argv[1])
sink(record("before"))
room = Path(sys.argv[1]).stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (room + 100, resource.RLIM_INFINITY))
try:
    sink(record("torn"))
except OSError as error:
    print(error.strerror)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
sink(record("after"))
"""


def test_a_line_that_a_full_disk_has_torn_is_told_and_does_not_spoil_the_next(tmp_path: Path) -> None:
    assert resource.RLIM_INFINITY  # POSIX
    path = tmp_path / "records.jsonl"
    ran = subprocess.run(
        [sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=True, timeout=60
    )
    assert ran.stdout == "File too large\n"
    before, torn, after = path.read_bytes().splitlines()
    assert [decode(line).turn for line in (before, after)] == ["before", "after"]
    assert len(torn) == 100


# -- a file that begins anew


def test_a_file_that_is_long_enough_is_renamed_and_the_last_ones_are_left(tmp_path: Path) -> None:
    one = len(encode(a_record("r00"))) + 1
    sink = JsonLines(tmp_path / "records.jsonl", max_bytes=3 * one, keep=2)
    for number in range(20):
        sink(a_record(f"r{number:02}"))
    files = sorted(tmp_path.iterdir())
    assert len(files) == 3
    assert all(file.stat().st_size <= 3 * one for file in files)
    left = [line.record.turn for line in lines_of([tmp_path]) if line.record]
    assert sorted(left) == [f"r{number}" for number in range(20 - len(left), 20)]
    assert 7 <= len(left) <= 9


def test_a_file_is_as_old_as_its_first_line_says(tmp_path: Path) -> None:
    old, new = (msgspec.structs.replace(a_record("r"), started=time.time() - age) for age in (90, 10))
    for sink in (JsonLines(tmp_path / "records.jsonl", max_age_secs=60) for _ in "12"):
        for record in (old, new, new):
            sink(record)
    names = [file.name for file in sorted(tmp_path.iterdir())]
    assert names[0] == "records.jsonl"
    assert all(name.startswith("records.jsonl.2") for name in names[1:])
    assert len(list(lines_of([tmp_path]))) == 6


@pytest.mark.parametrize(
    "bound", [{"max_bytes": 0}, {"max_age_secs": -1}, {"keep": 0}, {"fsync": "sometimes"}]
)
def test_a_bound_that_is_none_is_refused(tmp_path: Path, bound: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(bound))):
        JsonLines(tmp_path / "records.jsonl", **bound)
    if "max" in next(iter(bound)):
        with pytest.raises(ConfigurationError, match=next(iter(bound))):
            SqliteRecords(tmp_path / "records.db", **bound)


# -- beside the turns


def test_a_sink_that_blocks_keeps_no_turn_and_what_is_dropped_is_counted_and_shows_as_a_gap() -> None:
    begun, go_on, taken = threading.Event(), threading.Event(), list[Any]()

    def slow(what: Any) -> None:
        begun.set()
        assert go_on.wait(30)
        taken.append(what)

    house = House(sinks=[slow])
    most = 10_000

    async def story(router: Router) -> None:
        await router.turn(BODY, session="s1")
        assert await asyncio.to_thread(begun.wait, 30)
        for number in range(most + 5):
            router._keep(house.records[0])
            if number == most:
                go_on.clear()
        assert house.clock.monotonic() == 0
        (health,) = router.sinks
        assert (health.queued, health.dropped, health.taken) == (most, 5, 0)
        go_on.set()

    house.play(story)
    numbers = [record.sequence for record in taken]
    assert numbers == list(range(1, most + 2))
    assert house.records[0].sequence == 0, "what is called within the turn has no number"


def test_a_sink_that_raises_is_given_the_next_one(caplog: pytest.LogCaptureFixture) -> None:
    taken = []

    def odd(what: Any) -> None:
        if what.sequence % 2:
            raise OSError("No space left on device")
        taken.append(what.sequence)

    house = House(sinks=[odd])

    async def story(router: Router) -> Any:
        for _ in range(4):
            await router.turn(BODY, session="s1")
        while (health := router.sinks[0]).taken + health.failed < 4:
            await asyncio.to_thread(time.sleep, 0.001)
        return router.sinks[0]

    health = house.play(story)
    assert taken == [2, 4]
    assert (health.failed, health.taken, health.dropped, health.trouble) == (2, 2, 0, "")
    assert "No space left on device; it is given the next all the same" in caplog.text


def test_changes_go_the_same_way_and_everything_is_numbered(tmp_path: Path) -> None:
    told: list[Any] = []
    house = House(
        {"a": [refusal("capability")]},
        sinks=[JsonLines(tmp_path / "records.jsonl"), SqliteRecords(tmp_path / "records.db")],
        on_change=told.append,
    )

    async def story(router: Router) -> None:
        await router.turn(BODY, session="s1")
        await router.forget("s1")
        await router.turn(BODY, session="s1")

    house.play(story)
    lines = [json.loads(line) for line in (tmp_path / "records.jsonl").read_bytes().splitlines()]
    assert [line["sequence"] for line in lines] == [1, 2, 3]
    assert len({line["writer"] for line in lines}) == 1
    assert [line.get("why") for line in lines] == [None, "forgotten", None]
    assert [change.why for change in told] == ["forgotten"]
    for file in ("records.jsonl", "records.db"):
        kept = [line.record for line in lines_of([tmp_path / file]) if line.record]
        assert [record.turn for record in kept] == [record.turn for record in house.records]
        assert [replay(record) for record in kept] == [None, None]


def test_what_takes_no_records_is_refused() -> None:
    async def later(what: Any) -> None: ...

    for sinks in ([JsonLines], [later], ["records.jsonl"], "records.jsonl", 3):
        with pytest.raises(ConfigurationError, match="sinks "):
            House(sinks=sinks).router()


# -- in SQLite


def test_rows_are_found_by_session_bounded_by_age_and_erased_for_good(tmp_path: Path) -> None:
    path, now = tmp_path / "records.db", time.time()
    sink = SqliteRecords(path, max_age_secs=95)
    for number in range(20):
        record = a_record(f"turn-{number:02}")
        caller = Caller(session=f"session-{number % 2}")
        sink(msgspec.structs.replace(record, started=now - 10 * number, caller=caller))
    sink.prune(now=now)
    assert [record.turn for record in records_in(path)] == [f"turn-{n:02}" for n in range(9, -1, -1)]
    asked = "SELECT turn, state, served_by FROM record WHERE session = 'session-1'"
    with closing(sqlite3.connect(path)) as other:
        rows = other.execute(asked).fetchall()
    assert sorted(rows) == [(f"turn-{n:02}", "served", "a") for n in (1, 3, 5, 7, 9)]
    assert sink.erase("session-1") == 5
    sink.close()
    assert b"session-1" not in path.read_bytes()
    assert b"session-0" in path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_of_rows_does_not_outgrow_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    sink = SqliteRecords(path, max_bytes=200_000)
    for number in range(1000):
        sink(msgspec.structs.replace(a_record(f"turn-{number:04}"), started=float(number)))
    sink.prune()
    kept = [record.turn for record in records_in(path)]
    assert 10 < len(kept) < 1000
    assert kept[-1] == "turn-0999"
    sink.close()
    assert path.stat().st_size < 300_000


def test_another_applications_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE theirs (x)")
        other.commit()
    with pytest.raises(ConfigurationError, match="another application"):
        SqliteRecords(path)


# -- in the log


def test_each_turn_is_a_line_in_the_log_and_a_warning_if_it_is_worth_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "turnout.turns")
    down, wrong = refusal("unavailable"), refusal("auth")
    house = House({"a": [ok(), down, wrong]}, on={"auth": "skip"}, sinks=[Logged()])

    async def story(router: Router) -> None:
        for _ in range(3):
            await router.turn(BODY, session="s1")

    house.play(story)
    lines = [line for line in caplog.records if line.name == "turnout.turns"]
    told = [(line.levelname, line.getMessage().partition(" of ")[2]) for line in lines]
    assert told == [
        ("INFO", "s1: a -> served"),
        ("WARNING", "s1: a unavailable -> skipped, b answered -> served"),
        ("WARNING", "s1: a auth -> skipped, b answered -> served"),
    ]
