"""Where records go: lines in a file, rows, the log, and none of it in a turn's way."""

import asyncio
import errno
import fcntl
import hashlib
import json
import logging
import os
import re
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from house import BODY, House

from turnout import (
    ConfigurationError,
    JsonLines,
    Logged,
    Router,
    SinkTrouble,
    SqliteMemory,
    SqliteRecords,
    Target,
    Turn,
)
from turnout.engine.audit import AuditRecord, Caller, decode, encode
from turnout.engine.recordings import lines_of
from turnout.engine.replay import replay
from turnout.engine.sinks.beside import Beside, close_all
from turnout.engine.testing import ok, refusal


def a_record(name: str) -> AuditRecord:
    turn = Turn([Target("a")], id=name)
    turn.probed(None)
    turn.act()
    return turn.record()


def turns_in(path: Path) -> list[str]:
    """The turns of all records of a file or a folder, as it is read."""
    return [line.record.turn for line in lines_of([path]) if line.record]


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


RECORD = """
import sys
from pathlib import Path
from turnout import JsonLines, SqliteRecords, Target, TurnoutError, Turn

def record(name):
    turn = Turn([Target("a")], id=name)
    turn.probed(None)
    turn.act()
    return turn.record()

"""

FULL = """
import resource, signal
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


def ran(script: str, *arguments: object) -> str:
    """What a process of its own has printed."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refusing(error: BaseException) -> Any:
    """In the place of what cannot be done just now."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise error

    return refuse


def test_a_line_that_a_full_disk_has_torn_is_told_and_does_not_spoil_the_next(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    assert ran(RECORD + FULL, path) == "File too large\n"
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
    "bound",
    [
        {"max_bytes": 0},
        {"max_bytes": "5"},
        {"max_bytes": True},
        {"max_bytes": 1e6},
        {"max_age_secs": -1},
        {"max_age_secs": float("nan")},
        {"max_age_secs": "1d"},
        {"keep": 0},
        {"keep": 2.5},
        {"keep": "3"},
        {"fsync": "sometimes"},
    ],
)
def test_a_bound_that_is_none_is_refused(tmp_path: Path, bound: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(bound))):
        JsonLines(tmp_path / "records.jsonl", **bound)
    if "max" in next(iter(bound)):
        with pytest.raises(ConfigurationError, match=next(iter(bound))):
            SqliteRecords(tmp_path / "records.db", **bound)
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_long_turns_and_of_turns_that_waited_long_is_as_old_as_it_was_begun(tmp_path: Path) -> None:
    long = msgspec.structs.replace(a_record("r"), started=time.time() - 90, took=89.0)
    sink = JsonLines(tmp_path / "long.jsonl", max_age_secs=60)
    for _ in range(5):
        sink(long)
    waited = msgspec.structs.replace(a_record("r"), started=time.time() - 90)
    for sink in (JsonLines(tmp_path / "waited.jsonl", max_age_secs=60) for _ in "12"):
        for _ in range(5):
            sink(waited)
    assert sorted(re.sub(r"2\d{7}T.*", "…", file.name) for file in tmp_path.iterdir()) == [
        "long.jsonl",
        "waited.jsonl",
        "waited.jsonl.…",
    ]


@pytest.mark.parametrize("name", ["records.jsonl", "EZ-x.jsonl"])
def test_files_of_one_second_are_read_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    at = time.gmtime(1_800_000_000)
    monkeypatch.setattr(time, "gmtime", lambda *_: at)
    sink = JsonLines(tmp_path / name, max_bytes=1)
    for number in range(25):
        sink(a_record(f"r{number}"))
    assert len(list(tmp_path.iterdir())) == 25
    assert turns_in(tmp_path) == [f"r{number}" for number in range(25)]


def test_a_name_that_cannot_go_on_is_refused_unless_it_never_has_to(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 240 + ".jsonl")
    with pytest.raises(ConfigurationError, match="too long a name"):
        JsonLines(path, max_bytes=600)
    JsonLines(path)(a_record("one"))
    assert turns_in(path) == ["one"]


def test_a_file_that_cannot_be_renamed_goes_on_and_that_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sink = JsonLines(tmp_path / "records.jsonl", max_bytes=1)
    with monkeypatch.context() as broken:
        for how in ("rename", "replace"):
            broken.setattr(Path, how, refusing(OSError(errno.EPERM, "Operation not permitted")))
        for number in range(3):
            sink(a_record(f"r{number}"))
    assert list(tmp_path.iterdir()) == [sink.path]
    assert turns_in(tmp_path) == ["r0", "r1", "r2"]
    assert caplog.messages == [
        f"records {sink.path}: it cannot be renamed, and goes on: Operation not permitted"
    ]
    sink(a_record("r3"))
    assert len(list(tmp_path.iterdir())) == 2
    assert turns_in(tmp_path) == ["r0", "r1", "r2", "r3"]


def test_a_descriptor_is_closed_once_and_why_a_file_could_not_be_opened_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = JsonLines(tmp_path / "records.jsonl", max_bytes=1)
    sink(a_record("one"))
    closed, close, real_open = list[int](), os.close, os.open

    def opened(path: Any, *given: Any) -> int:
        if Path(path) == sink.path and not sink.path.exists():
            raise OSError(errno.EMFILE, "Too many open files")
        return real_open(path, *given)

    def close_once(file: int) -> None:
        closed.append(file)
        os.fstat(file)  # another thread may have it by the second time
        close(file)

    monkeypatch.setattr(os, "open", opened)
    monkeypatch.setattr(os, "close", close_once)
    with pytest.raises(OSError, match="Too many open files"):
        sink(a_record("two"))
    assert closed
    monkeypatch.undo()
    sink(a_record("three"))
    assert turns_in(tmp_path) == ["one", "three"]


def test_a_line_that_another_process_has_torn_does_not_spoil_the_next(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    sinks = JsonLines(path), JsonLines(path)
    for sink in sinks:
        sink(a_record("whole"))
        with path.open("ab") as file:
            file.write(encode(a_record("torn"))[:50])
    JsonLines(path)(a_record("after a restart"))
    assert turns_in(path) == ["whole", "whole", "after a restart"]
    assert len(path.read_bytes().splitlines()) == 5


def test_a_link_and_a_relative_path_are_resolved_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "target" / "records.jsonl")
    monkeypatch.chdir(tmp_path)
    sink = JsonLines("link.jsonl", max_bytes=1)
    monkeypatch.chdir("/")
    for number in range(3):
        sink(a_record(f"r{number}"))
    assert turns_in(tmp_path / "target") == ["r0", "r1", "r2"]
    assert (tmp_path / "link.jsonl").is_symlink()
    assert turns_in(tmp_path / "link.jsonl") == ["r2"]


def test_what_is_no_file_is_written_to_by_its_own_name(tmp_path: Path) -> None:
    script = RECORD + 'JsonLines("/dev/stdout", max_bytes=1)(record("one"))\n' * 2
    assert [decode(line).turn for line in ran(script).splitlines()] == ["one", "one"]
    JsonLines("/dev/null", max_bytes=1, max_age_secs=1)(a_record("one"))


SEVERAL = """
import os
path, keep, number = sys.argv[1], int(sys.argv[2]) or None, 150
begin, go = os.pipe()
for writer in range(4):
    if not os.fork():
        try:
            sink = JsonLines(path, max_bytes=2500, keep=keep)
            os.close(go)
            os.read(begin, 1)  # until all are there
            for at in range(number):
                sink(record(f"{writer} {at}"))
        except BaseException as error:
            print(repr(error), flush=True)
        os._exit(0)
os.close(go)
for _ in range(4):
    os.wait()
"""


@pytest.mark.parametrize("keep", [0, 3])
def test_several_processes_lose_nothing_and_each_keeps_its_order(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "records.jsonl"
    left = {path.with_name("records.jsonl.20200101T000000Z-1"), path.with_name("records.jsonl.backup")}
    for file in left:
        file.write_text("")
    (folder := path.with_name("records.jsonl.20200101T000000Z")).mkdir()
    assert ran(RECORD + SEVERAL, path, keep) == ""
    files = set(tmp_path.iterdir())
    assert left | {folder, path} <= files
    renamed = files - left - {folder, path}
    assert len(renamed) == keep or (not keep and len(renamed) > 100)
    assert all(0 < file.stat().st_size <= 2500 for file in renamed)
    turns = [tuple(map(int, turn.split())) for turn in turns_in(tmp_path)]
    for writer in range(4):
        numbers = [number for who, number in turns if who == writer]
        assert numbers == list(range(150))[150 - len(numbers) :]
        assert keep or len(numbers) == 150


def test_a_line_waits_for_a_lock_but_not_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = JsonLines(tmp_path / "records.jsonl", max_bytes=1)
    sink(a_record("one"))
    monkeypatch.setattr("turnout.engine.sinks.json_lines._PATIENCE_SECS", 0.0)
    with sink.path.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        sink(a_record("two"))
    assert list(tmp_path.iterdir()) == [sink.path], "who has no lock renames nothing"
    sink(a_record("three"))
    assert turns_in(tmp_path) == ["one", "two", "three"]


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
        assert (health.queued, health.dropped, health.taken) == (most + 1, 5, 0)
        go_on.set()

    house.play(story)
    numbers = [record.sequence for record in taken]
    assert numbers == list(range(1, most + 2))
    assert house.records[0].sequence == 1  # known by it wherever it is kept


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

    class Later:
        async def __call__(self, what: Any) -> None: ...

    for sinks in ([JsonLines], [later], [Later()], ["records.jsonl"], "records.jsonl", 3):
        with pytest.raises(ConfigurationError, match="sinks "):
            House(sinks=sinks).router()


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise SystemExit("not even that")


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), Unspeakable(), MemoryError()]
)
def test_whatever_a_sink_raises_it_is_given_the_next_one(error: BaseException) -> None:
    came, go_on, taken = threading.Event(), threading.Event(), list[int]()

    def odd(what: Any) -> None:
        if what.sequence == 2:
            came.set()
            assert go_on.wait(30)
        taken.append(what.sequence)
        if what.sequence == 1:
            raise error

    house = House(sinks=[odd])

    async def story(router: Router) -> Any:
        await router.turn(BODY)
        await router.turn(BODY)
        assert await asyncio.to_thread(came.wait, 30)
        (health,) = router.sinks
        assert (health.failed, health.queued) == (1, 1)
        assert health.trouble.startswith(type(error).__name__)
        go_on.set()
        return router

    (health,) = house.play(story).sinks
    assert taken == [1, 2]
    assert (health.taken, health.failed, health.queued, health.trouble) == (1, 1, 0, "")


def test_what_only_gives_a_coroutine_has_failed() -> None:
    begun = []

    async def later(what: Any) -> None:
        begun.append(what)

    def in_parts(what: Any) -> Any:
        begun.append(what)
        yield

    async def in_parts_later(what: Any) -> Any:
        begun.append(what)
        yield

    class ClosedLater:
        def __call__(self, what: Any) -> None: ...

        async def close(self) -> None: ...

    house = House(
        sinks=[lambda what: later(what), in_parts, lambda what: in_parts_later(what), ClosedLater()]
    )

    async def story(router: Router) -> Router:
        await router.turn(BODY)
        return router

    *never, closed = house.play(story).sinks
    assert [(health.taken, health.failed) for health in never] == [(0, 1)] * 3
    assert all("none of it would ever run" in health.trouble for health in (*never, closed))
    assert begun == []


class Closable:
    """Tells who closed it, and fails to be closed if it is told to."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error
        self.taken: list[Any] = []
        self.closed_in: list[str] = []

    def __call__(self, what: Any) -> None:
        self.taken.append(what)

    def close(self) -> None:
        self.closed_in.append(threading.current_thread().name)
        if self.error is not None:
            raise self.error


def test_each_sink_is_closed_whatever_becomes_of_the_others(caplog: pytest.LogCaptureFixture) -> None:
    sinks = Closable(OSError("No space left on device")), Closable(SystemExit()), Closable(), Closable()
    house = House(sinks=sinks)
    house.play(lambda router: router.turn(BODY))
    assert [(len(sink.taken), sink.closed_in) for sink in sinks] == [(1, ["turnout-Closable"])] * 4
    assert "OSError: No space left on device; so it was not closed" in caplog.text
    house.play(lambda router: asyncio.sleep(0))  # one that was handed nothing is closed as well
    assert [len(sink.closed_in) for sink in sinks] == [2] * 4


def test_sinks_are_closed_where_the_memory_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    house = House(sinks=[sink := Closable()])
    monkeypatch.setattr(house.memory, "close", refusing(OSError("gone")), raising=False)
    with pytest.raises(OSError, match="gone"):
        house.play(lambda router: router.turn(BODY))
    assert len(sink.closed_in) == 1


@pytest.mark.parametrize("none_for", [("turnout-",), ("turnout-", "asyncio_")])
def test_a_turn_needs_no_thread_and_the_next_record_tries_again(
    monkeypatch: pytest.MonkeyPatch, none_for: tuple[str, ...]
) -> None:
    start = threading.Thread.start

    def exhausted(thread: threading.Thread) -> None:
        if thread.name.startswith(none_for):
            raise RuntimeError("can't start new thread")
        start(thread)

    house = House(sinks=[sink := Closable(), Closable()])

    async def story(router: Router) -> Router:
        with monkeypatch.context() as crowded:
            crowded.setattr(threading.Thread, "start", exhausted)
            await router.turn(BODY)
        for health in router.sinks:
            assert (health.queued, health.failed) == (1, 0)
            assert health.trouble == "RuntimeError: can't start new thread"
        await router.turn(BODY)
        return router

    router = house.play(story)
    assert [(health.taken, health.trouble) for health in router.sinks] == [(2, "")] * 2
    assert [what.sequence for what in sink.taken] == [1, 2]

    async def never(router: Router) -> Router:
        monkeypatch.setattr(threading.Thread, "start", exhausted)
        await router.turn(BODY)
        await router.close()
        monkeypatch.undo()
        return router

    router = house.play(never)
    assert [(health.taken, health.dropped, health.queued) for health in router.sinks] == [(0, 1, 0)] * 2


def test_a_log_that_cannot_be_written_keeps_no_turn() -> None:
    class Broken(logging.Filter):
        def filter(self, record: Any) -> bool:
            raise OSError("No space left on device")

    log, broken = logging.getLogger("turnout"), Broken()
    house = House(sinks=[refusing(OSError("No space left on device"))])

    async def story(router: Router) -> Router:
        for _ in range(3):
            await router.turn(BODY)
        return router

    log.addFilter(broken)
    try:
        (health,) = house.play(story).sinks
        beside = Beside(Closable(), most=0)
        beside.put(house.records[0])
    finally:
        log.removeFilter(broken)
    assert [record.state for record in house.records] == ["served"] * 3
    assert (health.failed, health.queued) == (3, 0)
    assert beside.health.dropped == 1
    close_all([beside])


class Stuck:
    """Never comes back from its first record, or from being closed, until it is let go."""

    def __init__(self, where: str, go: threading.Event) -> None:
        self.where, self.go = where, go
        self.closed = threading.Event()
        self.inside = False

    def __call__(self, what: Any) -> None:
        self.inside = True
        if self.where == "taking":
            assert self.go.wait(60)
        self.inside = False

    def close(self) -> None:
        assert not self.inside, "closed within a call"
        if self.where == "closing":
            assert self.go.wait(60)
        self.closed.set()


def test_sinks_that_do_not_come_back_hold_the_closing_up_for_ten_seconds_in_all(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """On a clock that moves only where a thread is waited for."""
    now, join, waited = [0.0], threading.Thread.join, list[float]()

    def waits(thread: threading.Thread, timeout: float | None = None) -> None:
        if not thread.name.startswith("turnout-Stuck"):
            return join(thread, timeout)
        assert timeout is not None, "waited for without a bound"
        waited.append(timeout)
        now[0] += timeout
        return None

    monkeypatch.setattr(threading.Thread, "join", waits)
    monkeypatch.setattr("turnout.engine.sinks.beside.time", SimpleNamespace(monotonic=lambda: now[0]))
    go = threading.Event()
    sinks = [Stuck("taking", go), Stuck("closing", go), Stuck("taking", go), Closable()]
    house = House(sinks=sinks)

    async def story(router: Router) -> Router:
        for _ in range(3):
            await router.turn(BODY)
        while (health := router.sinks)[1].queued or any(health[at].queued > 3 for at in (0, 2)):
            await asyncio.to_thread(threading.Event().wait, 0.001)
        return router

    router = house.play(story)
    assert waited == [10.0, 0.0, 0.0]
    assert len(sinks[3].closed_in) == 1, "those that come back are closed all the same"
    assert [(it.taken, it.queued, it.dropped, it.failed) for it in router.sinks] == [
        (0, 1, 2, 0),
        (3, 0, 0, 0),
        (0, 1, 2, 0),
        (3, 0, 0, 0),
    ]
    assert "it has not come to its end in time, and is not closed" in caplog.text
    assert "2 records that waited are lost with the router" in caplog.text
    go.set()
    assert all(sink.closed.wait(30) for sink in sinks[:3]), (
        "each is closed, by its own thread, when it can be"
    )


SCRIPT = {"a": [refusal("unavailable"), ok(), refusal("capability")], "b": [ok()]}


def the_turns(sinks: list[Any], **more: Any) -> tuple[Any, Any]:
    """Six turns with the virtual clock's times, and how the sinks are after them."""
    house = House(SCRIPT, sinks=sinks, new_id=iter("123456").__next__, **more)

    async def story(router: Router) -> Any:
        for number in range(6):
            await router.turn(BODY, session=f"s{number % 2}")
            house.clock.advance(0.25)
        at_the_end = house.clock.monotonic(), house.clock.now()
        while any(health.queued for health in router.sinks if health.sink != "Stuck"):
            await asyncio.to_thread(threading.Event().wait, 0.001)
        return at_the_end, router

    at_the_end, router = house.play(story)
    return ([(it.turn, it.started, it.took, it.steps) for it in house.records], at_the_end), router.sinks


FULL_BESIDE = """
import asyncio, json, resource, signal
sys.path.insert(0, sys.argv[2])
from house import BODY, House
from turnout.engine.sinks.beside import Beside, close_all
from turnout.engine.testing import ok, refusal

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
sink = JsonLines(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
script = {"a": [refusal("unavailable"), ok(), refusal("capability")], "b": [ok()]}
house = House(script, sinks=[sink], new_id=iter("123456").__next__)

async def story(router):
    for number in range(6):
        await router.turn(BODY, session=f"s{number % 2}")
        house.clock.advance(0.25)
    return (house.clock.monotonic(), house.clock.now()), router

at_the_end, router = house.play(story)
(it,) = router.sinks
turns = [(r.turn, r.started, r.took, [tuple(step) for step in r.steps]) for r in house.records]
print(json.dumps([[turns, at_the_end], [it.taken, it.queued, it.dropped, it.failed, it.trouble]]))
"""


def test_no_sink_makes_a_turn_later_by_a_tick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that raises, one that never comes back, and real files that are full, as against no sink at all."""
    alone, none = the_turns([])
    assert none == ()
    monkeypatch.setattr("turnout.engine.sinks.beside.CLOSING_SECS", 0.05)
    go, full = threading.Event(), SqliteRecords(tmp_path / "records.db")
    stuck = Stuck("taking", go)
    assert full._connection is not None
    connection = full._connection
    monkeypatch.setattr(full, "_let_go", lambda **_: None)  # with its bound
    connection.execute("PRAGMA max_page_count = 1").fetchall()  # no more than it has
    with_sinks, sinks = the_turns([refusing(OSError("gone")), stuck, full, Closable()])
    go.set()
    connection.close()
    assert with_sinks == alone
    found = [(it.taken, it.queued, it.dropped, it.failed) for it in sinks]
    assert found[0] == (0, 0, 0, 6)
    assert found[1] == (0, 1, 5, 0)
    assert sum(found[2]) == 6
    assert found[2][3] > 0
    assert "full" in sinks[2].trouble
    assert found[3] == (6, 0, 0, 0)
    in_json = json.loads(
        ran(RECORD + FULL_BESIDE, tmp_path / "records.jsonl", Path(__file__).parent / "support")
    )
    assert in_json == json.loads(json.dumps([alone, [0, 0, 0, 6, "OSError: [Errno 27] File too large"]]))


# -- in SQLite


def test_rows_are_found_by_session_bounded_by_age_and_erased_for_good(tmp_path: Path) -> None:
    path, now = tmp_path / "records.db", time.time()
    sink = SqliteRecords(path, max_age_secs=95)
    for number in range(20):
        record = a_record(f"turn-{number:02}")
        caller = Caller(session=f"session-{number % 2}")
        sink(msgspec.structs.replace(record, started=now - 10 * number, caller=caller))
    sink.prune(now=now)
    assert turns_in(path) == [f"turn-{n:02}" for n in range(9, -1, -1)]
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
    kept = turns_in(path)
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


SHARED = """
import threading
sink = SqliteRecords(sys.argv[1])
raised, begun = [], threading.Barrier(5)

def write():
    begun.wait()
    try:
        while True:
            sink(one)
    except BaseException as error:
        raised.append(f"{type(error).__name__}: {error}")

one = record("one")
threads = [threading.Thread(target=write) for _ in range(4)]
for thread in threads:
    thread.start()
begun.wait()
for _ in range(20):
    sink.erase("nobody")
sink.close()
sink.close()
for thread in threads:
    thread.join()
print(*raised, sep="\\n")
"""


def test_a_file_of_rows_may_be_used_and_closed_by_several_threads(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    told = ran(RECORD + SHARED, path).splitlines()
    assert told == [f"SinkTrouble: records {path}: this sink was closed; make another one"] * 4
    assert set(turns_in(path)) == {"one"}


def test_of_two_routers_with_one_sink_the_first_that_is_closed_closes_it(tmp_path: Path) -> None:
    sink = SqliteRecords(tmp_path / "records.db")
    first, second = House(sinks=[sink]), House(sinks=[sink])
    first.play(lambda router: router.turn(BODY))

    async def story(router: Router) -> Router:
        await router.turn(BODY)
        return router

    (health,) = second.play(story).sinks
    assert (health.taken, health.failed) == (0, 1)
    assert "this sink was closed; make another one" in health.trouble
    assert len(turns_in(sink.path)) == 1


AT_ONCE = """
import os
folder, number = sys.argv[1], 8
for at in range(10):
    begin, go = os.pipe()
    for writer in range(number):
        if not os.fork():
            try:
                os.close(go)
                os.read(begin, 1)  # until all are there
                SqliteRecords(f"{folder}/{at}.db")(record(f"{writer}"))
            except BaseException as error:
                print(repr(error), flush=True)
            os._exit(0)
    os.close(go)
    os.close(begin)
    for _ in range(number):
        os.wait()
"""


def test_several_processes_begin_one_file_at_once(tmp_path: Path) -> None:
    assert ran(RECORD + AT_ONCE, tmp_path) == ""
    for number in range(10):
        assert sorted(turns_in(tmp_path / f"{number}.db")) == list("01234567")


FORKED = """
import os
sink = SqliteRecords(sys.argv[1])
sink(record("before"))
if not os.fork():
    for use in (lambda: sink(record("after")), sink.prune, lambda: sink.erase("s"), sink.close):
        try:
            use()
        except TurnoutError as error:
            print(f"{type(error).__name__}: {error}".replace(str(os.getppid()), "N"), flush=True)
    os._exit(0)
os.wait()
sink(record("after"))
"""


def test_a_sink_of_before_a_fork_is_refused_after_it(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    why = "this sink is of process N, before the fork; make one in each process"
    assert ran(RECORD + FORKED, path).splitlines() == [f"SinkTrouble: records {path}: {why}"] * 4
    assert turns_in(path) == ["before", "after"]


def test_a_file_of_rows_that_was_deleted_or_replaced_is_noticed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, moved = tmp_path / "records.db", tmp_path / "moved.db"
    sink = SqliteRecords(path)
    sink(a_record("one"))
    path.rename(moved)  # and its log stays, as it does where one does not know of it
    sink(a_record("two"))
    assert turns_in(path) == ["two"]
    assert f"records {path}: it was deleted, renamed or replaced; what is there now is used" in caplog.text
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("CREATE TABLE theirs (x)")
        other.commit()
    (tmp_path / "other.db").rename(path)
    with pytest.raises(ConfigurationError, match="another application"):
        sink(a_record("three"))
    path.unlink()
    sink(a_record("four"))
    for left in tmp_path.glob("records.db.left-*"):
        left.unlink()
    assert sink.erase("nobody") == 0
    sink.close()
    assert turns_in(path) == ["four"]


def test_a_file_of_rows_is_found_again_wherever_the_process_has_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sink = SqliteRecords("records.db")
    monkeypatch.chdir("/")
    sink(a_record("one"))
    sink.close()
    assert turns_in(tmp_path / "records.db") == ["one"]


LONG = "s" * 200


@pytest.mark.parametrize("session", ["s1", LONG, "\ud800", "s" * 150 + "\udfff", "ü" * 100])
def test_whatever_a_session_is_called_all_of_it_is_erased(tmp_path: Path, session: str) -> None:
    path = tmp_path / "records.db"
    house = House({"a": [refusal("capability")]}, sinks=[SqliteRecords(path)])

    async def story(router: Router) -> None:
        for one in (session, "another"):
            await router.turn(BODY, session=one)
        await router.forget(session)

    house.play(story)
    sink = SqliteRecords(path)
    assert sink.erase(session, namespace="elsewhere") == 0
    assert sink.erase(session) == 2, "its turn, and that it was forgotten"
    assert sink.erase(session) == 0
    sink.close()
    with closing(sqlite3.connect(path)) as left:
        assert left.execute("SELECT session FROM record").fetchall() == [("another",)]
    assert house.records[0].caller.session.encode() not in path.read_bytes()


def test_a_long_session_is_erased_by_its_digest_as_well(tmp_path: Path) -> None:
    sink = SqliteRecords(tmp_path / "records.db")
    sink(msgspec.structs.replace(a_record("one"), caller=Caller(session=LONG)))
    assert sink.erase(f"sha256:{hashlib.sha256(LONG.encode()).hexdigest()}") == 1
    sink.close()


def test_what_may_be_in_the_log_of_a_file_that_was_there_before_is_told(tmp_path: Path) -> None:
    sink = SqliteRecords(tmp_path / "records.db")
    house = House({"a": [ok()] * 3}, on_record=sink)
    house.turn(session="s")
    (tmp_path / "records.db").unlink()
    house.turn(session="other")
    (left,) = tmp_path.glob("records.db.left-*-wal")
    with pytest.raises(SinkTrouble, match=left.name):
        sink.erase("s")
    for file in tmp_path.glob("records.db.left-*"):
        file.unlink()
    assert sink.erase("s") == 0
    sink.close()


def test_closing_waits_for_no_thread_that_the_embedder_has_busy() -> None:
    """The loop's own threads may be at something for long."""
    released, taken = threading.Event(), list[Any]()

    async def story() -> None:
        loop = asyncio.get_running_loop()
        busy = [loop.run_in_executor(None, released.wait) for _ in range(80)]
        house = House({"a": [ok()]}, sinks=[taken.append])
        router = house.router()
        await router.turn(BODY, session="s")
        await router.close()
        assert len(taken) == 1
        released.set()
        await asyncio.gather(*busy)

    try:
        asyncio.run(asyncio.wait_for(story(), 60))
    finally:
        released.set()


def test_what_is_erased_while_somebody_reads_is_said_to_be_in_the_file_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnout.engine.sinks.sqlite.BUSY_SECS", 0.0)
    path, log = tmp_path / "records.db", tmp_path / "records.db-wal"
    sink = SqliteRecords(path)
    sink(msgspec.structs.replace(a_record("one"), caller=Caller(session="session-42")))
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM record").fetchone() == (1,)
        with pytest.raises(SinkTrouble, match=r"are removed \(1 now\), but .* still holds their bytes"):
            sink.erase("session-42")
        assert turns_in(path) == []
        with pytest.raises(SinkTrouble, match=r"\(0 now\)"):
            sink.erase("session-42")
        assert b"session-42" in path.read_bytes() + log.read_bytes()
    assert sink.erase("session-42") == 0
    assert b"session-42" not in path.read_bytes() + log.read_bytes()
    sink.close()


def test_a_small_bound_holds_with_the_log(tmp_path: Path) -> None:
    sink = SqliteRecords(tmp_path / "records.db", max_bytes=300_000)
    for number in range(700):
        sink(msgspec.structs.replace(a_record(f"turn-{number:04}"), started=float(number)))
        if number % 50 == 0:
            sizes = {file.name: file.stat().st_size for file in tmp_path.iterdir()}
            assert sizes["records.db"] + sizes["records.db-wal"] < 1.2 * 300_000
    assert turns_in(sink.path)[-1] == "turn-0699"
    assert len(turns_in(sink.path)) > 100
    sink.close()


def test_however_small_its_bound_is_the_last_record_stays(tmp_path: Path) -> None:
    sink = SqliteRecords(tmp_path / "records.db", max_bytes=1)
    for turn in "abc":
        sink(a_record(turn))
        assert turns_in(sink.path) == [turn]
    sink.close()


def test_a_record_that_is_kept_is_taken_though_an_old_one_cannot_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sink = SqliteRecords(tmp_path / "records.db", max_age_secs=60)
    monkeypatch.setattr(sink, "_prune", refusing(sqlite3.OperationalError("database is locked")))
    sink(a_record("one"))
    sink(a_record("two"))
    assert turns_in(sink.path) == ["one", "two"]
    assert caplog.messages == [
        f"records {sink.path}: what is too old or too much cannot be removed: database is locked"
    ]
    sink.close()


# -- reading them back


def rows_of(*turns: str, path: Path) -> Path:
    sink = SqliteRecords(path)
    for number, turn in enumerate(turns):
        sink(msgspec.structs.replace(a_record(turn), started=float(number)))
    sink.close()
    return path


def test_a_bad_row_hides_none_after_it(tmp_path: Path) -> None:
    path = rows_of(*"abcdef", path=tmp_path / "records.db")
    bodies = {"b": "x'6e6f'", "c": "7", "d": "''", "e": "CAST(x'fffe' AS TEXT)"}
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for turn, body in bodies.items():
            connection.execute(f"UPDATE record SET body = {body} WHERE turn = '{turn}'")
    lines = list(lines_of([path]))
    assert [line.record.turn if line.record else line.wrong[:12] for line in lines] == [
        "a",
        *["is no record"] * 4,
        "f",
    ]
    assert [line.number for line in lines] == [1, 2, 3, 4, 5, 6]


def test_a_row_on_a_damaged_page_hides_none_after_it(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    sink = SqliteRecords(path)
    for number, turn in enumerate("abc"):
        sink(msgspec.structs.replace(a_record(turn), started=float(number), notes=(turn * 20_000,)))
    sink.close()
    held = path.read_bytes()
    page = held.index(b"b" * 4000) // 4096 * 4096  # within the chain of the second row's pages
    path.write_bytes(held[:page] + b"\xff" * 4 + held[page + 4 :])
    lines = list(lines_of([path]))
    assert [line.record.turn if line.record else line.wrong for line in lines] == [
        "a",
        "cannot be read: database disk image is malformed",
        "c",
    ]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that others can reach."""
    with TemporaryDirectory() as folder:
        path = Path(folder)
        path.chmod(0o755)
        yield path
        for inside in path.iterdir():
            if inside.is_dir():
                inside.chmod(0o755)


@contextmanager
def unprivileged() -> Iterator[None]:
    """As somebody for whom modes count."""
    before = os.geteuid()
    if not before:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)


def test_rows_are_read_where_nothing_can_be_written(open_folder: Path) -> None:
    folder = open_folder / "kept"
    folder.mkdir()
    path = rows_of("one", "two", path=folder / "records.db")
    path.chmod(0o644)
    folder.chmod(0o555)
    with unprivileged():
        assert turns_in(path) == ["one", "two"]
    folder.chmod(0o755)
    held = SqliteRecords(path)
    held(a_record("three"))
    log = (folder / "records.db-wal").read_bytes()
    held.close()
    (folder / "records.db-wal").write_bytes(log)
    folder.chmod(0o555)
    with unprivileged():
        (line,) = lines_of([path])
    assert "a part of it is in its log, which needs a folder that can be written" in line.wrong


def test_a_folder_that_may_not_be_searched_is_told_and_the_rest_is_read(open_folder: Path) -> None:
    write = JsonLines(open_folder / "records.jsonl")
    write(a_record("one"))
    write.path.chmod(0o644)
    for name, mode in (("listed", 0o444), ("closed", 0o000)):
        (folder := open_folder / name).mkdir()
        JsonLines(folder / "records.jsonl")(a_record("hidden"))
        folder.chmod(mode)
    with unprivileged():
        lines = list(lines_of([open_folder, open_folder / "closed" / "records.jsonl"]))
    told = [(line.place.removeprefix(f"{open_folder}/"), line.wrong) for line in lines]
    assert told == [
        ("records.jsonl:1", ""),
        ("closed", "cannot be read: Permission denied"),
        ("listed/records.jsonl", "cannot be read: Permission denied"),
        ("closed/records.jsonl", "cannot be read: Permission denied"),
    ]


def test_a_memory_beside_the_records_is_passed_over_and_a_strangers_database_is_told(tmp_path: Path) -> None:
    rows_of("one", path=tmp_path / "records.db")
    house = House({"a": [refusal("capability")]}, memory=SqliteMemory(tmp_path / "turnout.db"))
    house.turn()
    assert [(line.file.name, line.wrong) for line in lines_of([tmp_path])] == [("records.db", "")]
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("CREATE TABLE theirs (x)")
        other.commit()
    (line,) = lines_of([tmp_path / "other.db"])
    assert line.wrong == "cannot be read: it is the database of another application"


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
