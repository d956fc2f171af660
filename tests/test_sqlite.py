"""A memory in a file: what survives, what is shared, and what happens when the file is in trouble."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import signal
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from files import asides, child, content, nudge, read_only, says
from memories import LARGE, NOW, SMALL, WHO, everyone, overflow, refusal, strip, stripped, sweep, using

from turnout.engine.clock import VirtualClock
from turnout.engine.context import EMPTY, Eviction, Identity
from turnout.engine.errors import ConfigurationError, MemoryRefusal, MemoryTrouble
from turnout.engine.memory.protocol import Memory
from turnout.engine.memory.sqlite import SqliteMemory
from turnout.engine.memory.sqlite.aside import Opened
from turnout.engine.memory.sqlite.schema import APPLICATION_ID, SCHEMA
from turnout.engine.memory.sqlite.sweep import AT_ONCE


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "turnout.db"


def rows(file: Path) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(file)) as other:
        other.row_factory = sqlite3.Row
        tables = ("eviction", "identity", "target")
        return [dict(row) for table in tables for row in other.execute(f"SELECT * FROM {table}")]


def test_use_by_an_identity_that_holds_nothing_any_more_is_not_written(file: Path) -> None:
    async def story() -> None:
        async with using(SqliteMemory(file)) as memory:
            await memory.record(WHO, overflow(9000))
            await memory.restore_everywhere("", SMALL, "f1", now=NOW)
            before = rows(file)
            await memory.touch(WHO, now=NOW + 7200)
            assert rows(file) == before
            await memory.record(WHO, overflow(9000))
            await memory.touch(WHO, now=NOW + 7200)
            assert rows(file) != before

    asyncio.run(story())


def test_a_file_is_opened_again_with_everything_in_it(file: Path) -> None:
    async def story() -> None:
        async with using(SqliteMemory(file)) as memory:
            await memory.record(WHO, overflow(9000))
            await memory.restore_everywhere("", LARGE, "f1", now=NOW)
            await memory.record(WHO, refusal("image", target=LARGE))
        async with using(SqliteMemory(str(file))) as memory:
            assert len((await memory.read(WHO, now=NOW)).evictions) == 2
            await memory.restore_everywhere("", LARGE, "f1", now=NOW)
            assert (await memory.read(WHO, now=NOW)).evictions == (overflow(9000),)

    asyncio.run(story())


def test_refused_keys_are_known_after_a_restart(file: Path) -> None:
    async def story() -> None:
        async with using(SqliteMemory(file)) as memory:
            await strip(memory, "effort", "é")
            await strip(memory, "verbosity", configuration="c2")
        async with using(SqliteMemory(file)) as memory:
            assert await stripped(memory) == {"effort", "é"}
            assert await stripped(memory, configuration="c2") == {"verbosity"}

    asyncio.run(story())


def test_what_has_expired_is_taken_out_of_the_file_with_the_next_correction(file: Path) -> None:
    async def story() -> None:
        async with using(SqliteMemory(file, ttl_secs=100.0)) as memory:
            await strip(memory, "effort", "verbosity", configuration="c1")
            await strip(memory, "effort", configuration="c2", at=NOW + 100)
            (row,) = rows(file)
            assert msgspec.json.decode(row["stripped"]) == {"c2": {"keys": ["effort"], "at": NOW + 100}}

    asyncio.run(story())


def test_a_memory_is_made_outside_a_loop_and_makes_no_file_before_it_has_something_to_keep(
    file: Path,
) -> None:
    memory, made = SqliteMemory(file), file.exists

    async def story() -> None:
        assert await memory.read(WHO, now=NOW) == EMPTY
        assert await stripped(memory) == set()
        assert not made()
        await memory.record(WHO, overflow(9000))
        await memory.close()

    asyncio.run(story())
    assert made()


def test_a_memory_that_was_never_used_closes_without_a_file(file: Path) -> None:
    asyncio.run(SqliteMemory(file).close())
    assert not file.exists()


def test_a_relative_path_means_the_same_file_wherever_the_process_goes(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    memory = SqliteMemory(file.name)
    monkeypatch.chdir("/")

    async def story() -> None:
        async with using(memory):
            await memory.record(WHO, overflow(9000))

    asyncio.run(story())
    assert file.exists()


def test_two_memories_on_one_file_see_what_the_other_writes(file: Path) -> None:
    async def story() -> None:
        async with using(SqliteMemory(file)) as one, using(SqliteMemory(file)) as other:
            assert await one.read(WHO, now=NOW) == EMPTY
            await asyncio.gather(
                one.record(WHO, refusal("image", turn="t1")), other.record(WHO, refusal("audio", turn="t2"))
            )
            read = await one.read(WHO, now=NOW)
            assert read == await other.read(WHO, now=NOW)
            assert read.evictions[0].refused == {("image",), ("audio",)}
            await other.forget("", "s1", now=NOW)
            assert await one.read(WHO, now=NOW) == EMPTY

    asyncio.run(story())


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["one first", "the other first"])
def test_two_memories_on_one_file_end_with_the_same_refused_keys(file: Path, order: tuple[int, int]) -> None:
    async def story() -> None:
        memories = [SqliteMemory(file, ttl_secs=100.0) for _ in range(2)]
        async with using(memories[0]) as one, using(memories[1]) as other:
            assert await stripped(one) == await stripped(other) == set()
            made = [(one, "effort", NOW), (other, "verbosity", NOW + 50)]
            for whose in order:
                memory, key, at = made[whose]
                await strip(memory, key, at=at)
                await strip(memory, key, at=at, configuration=f"only {key}")
            for memory in memories:
                assert await stripped(memory, now=NOW + 149.5) == {"effort", "verbosity"}
                assert await stripped(memory, now=NOW + 150) == set()
                assert await stripped(memory, configuration="only effort") == {"effort"}
                assert await stripped(memory, configuration="only verbosity") == {"verbosity"}

    asyncio.run(story())


def test_no_clock_goes_on_while_a_file_is_at_work(file: Path) -> None:
    clock = VirtualClock(NOW)

    async def story() -> None:
        async with using(SqliteMemory(file)) as memory, clock.timeout(0.001):
            for number in range(20):
                await memory.record(WHO, overflow(9000 - number, turn=f"t{number}"))
            assert await memory.read(WHO, now=clock.now())

    clock.run(story())
    assert clock.now() == NOW


CHILD = """
import asyncio, sys
import msgspec
from turnout.engine.context import Eviction, Identity
from turnout.engine.memory.sqlite import SqliteMemory

async def main(path, *evictions):
    memory = SqliteMemory(path)
    print("ready", flush=True)
    sys.stdin.readline()
    for line in evictions:
        await memory.record(Identity("", "s1"), msgspec.json.decode(line, type=Eviction))
    print("recorded", flush=True)
    sys.stdin.readline()
    await memory.close()

asyncio.run(main(*sys.argv[1:]))
"""


def recording(path: Path, *evictions: Eviction) -> tuple[object, ...]:
    return (path, *(msgspec.json.encode(eviction).decode() for eviction in evictions))


def test_processes_that_open_a_new_file_at_once_end_with_the_union(file: Path) -> None:
    mine, yours = (
        [refusal(f"{whose}{n}", turn=f"{whose}{n}") for n in range(25)] for whose in ("mine", "yours")
    )

    async def story() -> None:
        async with using(SqliteMemory(file)) as memory:
            with child(*recording(file, *yours), script=CHILD) as process:
                nudge(process)
                for eviction in mine:
                    await memory.record(WHO, eviction)
                assert says(process) == "recorded"
            (merged,) = (await memory.read(WHO, now=NOW)).evictions
            assert merged.refused == {e.first.features for e in mine + yours}

    asyncio.run(story())


STRIPPING = CHILD.replace(
    'memory.record(Identity("", "s1"), msgspec.json.decode(line, type=Eviction))',
    f'memory.strip("", "small", "f1", "c1", frozenset([line]), now={NOW})',
)


def test_processes_that_are_corrected_at_once_end_with_the_union(file: Path) -> None:
    mine, yours = ([f"{whose}{n}" for n in range(25)] for whose in ("mine", "yours"))

    async def story() -> None:
        async with using(SqliteMemory(file)) as memory:
            with child(file, *yours, script=STRIPPING) as process:
                nudge(process)
                for key in mine:
                    await strip(memory, key)
                assert says(process) == "recorded"
            assert await stripped(memory) == {*mine, *yours}

    asyncio.run(story())


def test_a_refused_key_that_was_kept_survives_the_death_of_the_process(file: Path) -> None:
    with child(file, "effort", script=STRIPPING) as process:
        nudge(process)
        assert says(process) == "recorded"
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL

    async def story() -> None:
        async with using(SqliteMemory(file)) as memory:
            assert await stripped(memory) == {"effort"}

    asyncio.run(story())


@pytest.mark.parametrize("durability", ["process", "full"])
def test_what_was_recorded_survives_the_death_of_the_process(file: Path, durability: Any) -> None:
    script = CHILD.replace("SqliteMemory(path)", f"SqliteMemory(path, durability={durability!r})")
    with child(*recording(file, overflow(9000)), script=script) as process:
        nudge(process)
        assert says(process) == "recorded"
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL

    async def story() -> None:
        async with using(SqliteMemory(file)) as memory:
            assert (await memory.read(WHO, now=NOW)).evictions == (overflow(9000),)

    asyncio.run(story())


@pytest.mark.parametrize(("durability", "synchronous"), [("process", 1), ("full", 2)])
def test_a_power_loss_is_survived_where_every_commit_is_synchronised(
    file: Path, durability: Any, synchronous: int
) -> None:
    memory = SqliteMemory(file, durability=durability)

    async def story() -> None:
        async with using(memory):
            await memory.record(WHO, overflow(9000))
            assert memory._writing
            assert memory._writing.execute("PRAGMA synchronous").fetchone() == (synchronous,)

    asyncio.run(story())


def test_a_durability_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="durability is 'fully'; give process or full"):
        SqliteMemory("turnout.db", durability="fully")  # type: ignore[arg-type]


@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_only_the_owner_can_read_the_files(file: Path, umask: int) -> None:
    async def story() -> None:
        async with using(SqliteMemory(file)) as memory:
            await memory.record(WHO, overflow(9000))
            modes = {path.name: oct(path.stat().st_mode & 0o777) for path in file.parent.iterdir()}
            names = ("turnout.db", "turnout.db-shm", "turnout.db-wal")
            assert modes == dict.fromkeys(names, "0o600")

    before = os.umask(umask)
    try:
        asyncio.run(story())
    finally:
        os.umask(before)


def test_a_file_of_long_ids_is_no_larger_than_one_of_ids_of_128_bytes(tmp_path: Path) -> None:
    async def story(name: str, size: int) -> int:
        async with using(SqliteMemory(tmp_path / name)) as memory:
            for number in range(20):
                who = Identity("n" * size, str(number).rjust(size, "s"), "a" * size)
                await memory.record(who, overflow(9000))
                await strip(memory, "effort", namespace=who.namespace)
        return (tmp_path / name).stat().st_size

    assert asyncio.run(story("long", 2**20)) <= asyncio.run(story("short", 128))


# -- a file of an older schema

FIXTURES = Path(__file__).parent / "fixtures"
FIRST_MACHINE = "8632818e3987cd0b"
"""The standing machine's digest in them."""


def older(file: Path, version: int) -> None:
    """Make the file as the code of that schema left it."""
    with closing(sqlite3.connect(file)) as other:
        other.executescript((FIXTURES / f"sqlite_schema_{version}.sql").read_text())


def test_there_is_a_file_of_every_older_schema() -> None:
    assert {path.name for path in FIXTURES.glob("sqlite_schema_*.sql")} >= {
        f"sqlite_schema_{version}.sql" for version in range(1, SCHEMA)
    }


@pytest.mark.parametrize("version", range(1, SCHEMA))
def test_a_file_of_an_older_schema_loads_with_everything_in_it(file: Path, version: int) -> None:
    older(file, version)
    long = Identity("acme", "x" * 200, "y" * 129)
    expected = {
        WHO: {overflow(9000).merge(overflow(7000, turn="t2", at=NOW + 1)), refusal("image", "tools")},
        Identity("", "s1", "a1"): {refusal("audio", target=LARGE)},
        Identity("acme", "s2"): {refusal("image")},  # `large` had been restored for every session
        Identity("acme", "日本語"): {overflow(8000)},
        Identity("acme", "\ud83d"): {overflow(8001)},
        long: {overflow(8002)},
        Identity("z" * 129, "s1"): {overflow(8003)},
    }

    async def story() -> None:
        async with using(SqliteMemory(file)) as memory:
            for who, evictions in expected.items():
                read = (await memory.read(who, now=NOW + 1)).evictions
                assert set(read) == {
                    msgspec.structs.replace(eviction, machine=FIRST_MACHINE) for eviction in evictions
                }
            assert await stripped(memory) == {"effort", "verbosity"}
            assert await stripped(memory, namespace="z" * 129) == {"effort"}
            held = [await everyone(memory, namespace) for namespace in ("", "acme", "z" * 129)]
            assert [len(some) for some in held] == [2, 4, 1]
            assert len(await memory.forget("acme", long.session, now=NOW + 1)) == 1
            await memory.restore_everywhere("acme", SMALL, "f1", now=NOW)
            assert await everyone(memory, "acme") == []
        with closing(sqlite3.connect(file)) as other:
            assert other.execute("PRAGMA user_version").fetchone() == (SCHEMA,)

    asyncio.run(story())


def test_an_older_file_that_two_open_at_once_is_brought_up_to_date_once(file: Path) -> None:
    older(file, 1)

    async def story() -> None:
        async with using(SqliteMemory(file)) as one, using(SqliteMemory(file)) as other:
            read = await asyncio.gather(*[memory.read(WHO, now=NOW) for memory in (one, other)])
            assert [len(context.evictions) for context in read] == [2, 2]

    asyncio.run(story())


# -- a file that is swept and listed


def test_a_step_removes_so_little_that_nobody_waits_for_it(file: Path) -> None:
    async def story() -> None:
        async with using(SqliteMemory(file, ttl_secs=100.0)) as memory:
            many = [Identity("", f"s{number}") for number in range(4 * AT_ONCE)]
            await asyncio.gather(*[memory.record(who, overflow(9000)) for who in many])
            gone, more = 0, True
            while more:
                changes, more = await memory.sweep("", now=NOW + 100)
                assert len(changes) <= AT_ONCE
                gone += len(changes)
            assert gone == len(many)
            assert rows(file) == []

    asyncio.run(story())


def test_a_session_of_many_agents_is_crowded_out_in_many_steps(file: Path) -> None:
    async def story() -> None:
        async with using(SqliteMemory(file, max_sessions=1)) as memory:
            many = [Identity("", "large", f"a{number:03d}") for number in range(3 * AT_ONCE)]
            await asyncio.gather(*[memory.record(who, overflow(9000)) for who in many])
            await memory.record(Identity("", "other"), overflow(9000, at=NOW + 1))
            gone, more = [], True
            while more:
                changes, more = await memory.sweep("", now=NOW)
                assert len(changes) <= AT_ONCE
                gone += [change.identity for change in changes]
            assert gone == many
            assert [held.identity.session for held in await everyone(memory)] == ["other"]

    asyncio.run(story())


def test_a_session_that_is_used_while_it_is_crowded_out_keeps_what_is_left(file: Path) -> None:
    async def story() -> None:
        async with using(SqliteMemory(file, max_sessions=1)) as memory:
            many = [Identity("", "large", f"a{number:03d}") for number in range(3 * AT_ONCE)]
            await asyncio.gather(*[memory.record(who, overflow(9000)) for who in many])
            await memory.record(Identity("", "other"), overflow(9000, at=NOW + 1))
            gone = 0
            while not gone:
                gone = len((await memory.sweep("", now=NOW)).changes)
            await memory.record(many[-1], refusal("image", at=NOW + 2))
            assert await sweep(memory, now=NOW + 2) == []
            assert len(await everyone(memory)) == len(many) - gone + 1

    asyncio.run(story())


def test_a_session_of_many_agents_is_forgotten_in_parts(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnout.engine.memory.sqlite._FORGOTTEN_AT_ONCE", 2)

    async def story() -> None:
        memory = SqliteMemory(file)
        async with using(memory):
            agents = [Identity("", "s1", agent) for agent in ("", "a", "b", "\ud800", "c" * 200)]
            for who in agents:
                await memory.record(who, overflow(9000))
            late = refusal("image", at=NOW + 50)
            await memory.record(agents[2], late)
            parts: list[int] = []
            forget = memory._forget

            def part(*of: Any) -> Any:
                gone, place = forget(*of)
                parts.append(len(gone))
                return gone, place

            monkeypatch.setattr(memory, "_forget", part)
            changes = await memory.forget("", "s1", now=NOW)
            assert [change.identity.agent for change in changes][:4] == ["", "a", "b", "\ud800"]
            assert parts == [2, 2, 1]
            assert [held.evictions for held in await everyone(memory)] == [(late,)]

    asyncio.run(story())


def test_a_sweep_that_meets_a_lock_is_trouble_and_begins_anew_when_it_is_gone(file: Path) -> None:
    async def story() -> None:
        memory = SqliteMemory(file, ttl_secs=100.0, max_sessions=1)
        memory._pragmas["busy_timeout"] = 0
        async with using(memory):
            for number in range(3):
                await memory.record(Identity("", f"s{number}"), overflow(9000, at=NOW + number))
            assert (await memory.sweep("", now=NOW, most=2)).more
            with closing(lock(file)), pytest.raises(MemoryTrouble, match="could not sweep: database is lock"):
                await memory.sweep("", now=NOW, most=2)
            assert [c.identity.session for c in await sweep(memory, now=NOW, most=2)] == ["s0", "s1"]

    asyncio.run(story())


def test_a_list_is_read_while_another_program_writes(file: Path) -> None:
    async def story() -> None:
        async with using(impatient(file)) as memory:
            await memory.record(WHO, overflow(9000))
            with closing(lock(file)):
                assert [held.identity for held in await everyone(memory)] == [WHO]

    asyncio.run(story())


def test_a_damaged_row_is_trouble_to_who_lists_it_and_goes_when_it_has_expired(file: Path) -> None:
    async def story() -> None:
        async with using(SqliteMemory(file, ttl_secs=100.0)) as memory:
            await memory.record(WHO, overflow(9000))
            await memory.record(WHO, refusal("image", target=LARGE))
            change(file, "UPDATE eviction SET first = '{' WHERE target = 'small'")
            told = "could not list: a row of target 'small' in session 's1' is damaged"
            with pytest.raises(MemoryRefusal, match=told):
                await everyone(memory)
            (told,) = await sweep(memory, now=NOW + 100)
            assert told.eviction == refusal("image", target=LARGE)
            assert rows(file) == []

    asyncio.run(story())


NO_IDS = [
    pytest.param("CAST(X'73C3' AS TEXT)", id="no UTF-8"),
    pytest.param("CAST(X'EDA080' AS TEXT)", id="a surrogate as text"),
    pytest.param("X'FE80'", id="bytes that are no id"),
    pytest.param("X'FF80'", id="half a digest"),
]


@pytest.mark.parametrize("most", [1, 1000])
@pytest.mark.parametrize("id_", NO_IDS)
@pytest.mark.parametrize("column", ["session", "agent"])
def test_a_damaged_id_is_passed_over_in_lists_and_goes_with_the_next_sweep(
    file: Path, column: str, id_: str, most: int
) -> None:
    async def story() -> None:
        async with using(SqliteMemory(file, ttl_secs=100.0)) as memory:
            many = [Identity("", f"r{number}") for number in range(3)] + [
                Identity("", f"t{number}") for number in range(3)
            ]
            for who in (*many, Identity("", "s1", "a1")):
                await memory.record(who, overflow(9000))
            change(
                file,
                *(f"UPDATE {t} SET {column} = {id_} WHERE agent = 'a1'" for t in ("identity", "eviction")),
            )
            listed, cursor = [], ""
            while True:
                page = await memory.held("", now=NOW, cursor=cursor, most=most)
                listed += [held.identity for held in page.held]
                if not (cursor := page.cursor):
                    break
            assert listed == many
            assert await sweep(memory, now=NOW, most=most) == []
            assert len(rows(file)) == 2 * len(many)
            assert [gone.identity for gone in await sweep(memory, now=NOW + 100, most=most)] == many
            assert rows(file) == []

    asyncio.run(story())


@pytest.mark.parametrize("id_", NO_IDS)
def test_a_session_with_a_damaged_agent_is_forgotten(file: Path, id_: str) -> None:
    damage = [f"UPDATE {table} SET agent = {id_} WHERE agent = 'a1'" for table in ("identity", "eviction")]

    async def story() -> None:
        async with using(SqliteMemory(file)) as memory:
            for agent in ("a0", "a1", "a2"):
                await memory.record(Identity("", "s1", agent), overflow(9000))
            change(file, *damage)
            assert [gone.identity.agent for gone in await memory.forget("", "s1", now=NOW)] == ["a0", "a2"]
            assert rows(file) == []

    asyncio.run(story())


def test_a_last_use_that_is_no_number_has_expired(file: Path) -> None:
    async def story() -> None:
        async with using(SqliteMemory(file, ttl_secs=100.0)) as memory:
            for session in ("s1", "s2", "s3"):
                await memory.record(Identity("", session), overflow(9000))
            change(file, "UPDATE identity SET last_use = 'x' WHERE session < 's3'")
            assert [held.identity.session for held in await everyone(memory)] == ["s3"]
            assert [gone.why for gone in await memory.forget("", "s1", now=NOW)] == ["expired"]
            assert [gone.identity.session for gone in await sweep(memory, now=NOW)] == ["s2"]
            assert len(rows(file)) == 2

    asyncio.run(story())


# -- a file that is busy


def lock(file: Path) -> sqlite3.Connection:
    """Another program that holds the file's write lock."""
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    return other


async def waiting(memory: SqliteMemory, eviction: Eviction) -> asyncio.Task[None]:
    """A write that the worker has taken up, and that waits for the lock that another program holds."""
    writing = asyncio.create_task(memory.record(WHO, eviction))
    await asyncio.sleep(0)
    while memory._jobs:  # noqa: ASYNC110  # a thread empties it
        await asyncio.sleep(0)
    return writing


def test_while_a_write_waits_for_a_lock_the_loop_goes_on_and_reads_are_served(file: Path) -> None:
    async def story() -> None:
        memory = SqliteMemory(file)
        async with using(memory):
            await memory.record(WHO, overflow(9000))
            with closing(lock(file)) as other:
                writing = await waiting(memory, refusal("image"))
                for _ in range(100):
                    assert (await memory.read(WHO, now=NOW)).evictions == (overflow(9000),)
                    await asyncio.sleep(0)
                assert not writing.done()
                other.execute("COMMIT")
                await writing
            assert len((await memory.read(WHO, now=NOW)).evictions) == 2

    asyncio.run(story())


def test_a_lock_that_is_never_released_is_trouble_and_the_memory_works_when_it_is_gone(file: Path) -> None:
    async def story() -> None:
        async with using(impatient(file)) as memory:
            await memory.record(WHO, overflow(9000))
            with closing(lock(file)):
                with pytest.raises(
                    MemoryTrouble, match="could not record: database is locked; another"
                ) as told:
                    await memory.record(WHO, refusal("image"))
                assert str(file) in str(told.value)
                assert isinstance(told.value.__cause__, sqlite3.OperationalError)
            await memory.record(WHO, refusal("audio"))
            assert set((await memory.read(WHO, now=NOW)).evictions) == {overflow(9000), refusal("audio")}

    asyncio.run(story())


def test_a_file_is_opened_and_read_while_another_program_writes(file: Path) -> None:
    async def story() -> None:
        async with using(SqliteMemory(file)) as memory:
            await memory.record(WHO, overflow(9000))
        with closing(lock(file)):
            async with using(impatient(file)) as memory:
                assert (await memory.read(WHO, now=NOW)).evictions == (overflow(9000),)

    asyncio.run(story())


def test_a_new_file_that_another_process_is_about_to_make_is_waited_for(file: Path) -> None:
    async def story() -> None:
        async with using(SqliteMemory(file)) as memory:
            with closing(lock(file)) as other:
                reads = [asyncio.create_task(memory.read(WHO, now=NOW)) for _ in range(2)]
                for _ in range(1000):
                    await asyncio.sleep(0)
                assert not any(read.done() for read in reads)
                other.execute("COMMIT")
            assert await asyncio.gather(*reads) == [EMPTY, EMPTY]

    asyncio.run(story())


def test_a_new_file_that_another_program_locks_is_trouble_and_works_when_the_lock_is_gone(
    file: Path,
) -> None:
    async def story() -> None:
        async with using(impatient(file)) as memory:
            with (
                closing(lock(file)),
                pytest.raises(MemoryTrouble, match="could not read: database is locked"),
            ):
                await memory.read(WHO, now=NOW)
            assert await memory.read(WHO, now=NOW) == EMPTY

    asyncio.run(story())


def test_all_who_wait_for_a_file_to_be_opened_wait_for_one_attempt(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        memory = impatient(file)
        attempts: list[None] = []
        create = memory._create
        monkeypatch.setattr(memory, "_create", lambda: (attempts.append(None), create()))
        async with using(memory):
            with closing(lock(file)):
                reads = [memory.read(Identity("", f"s{number}"), now=NOW) for number in range(40)]
                told = await asyncio.gather(*reads, return_exceptions=True)
                assert {type(trouble) for trouble in told} == {MemoryTrouble}
                assert len(set(map(id, told))) == 40
                assert len(attempts) == 1
            assert await memory.read(WHO, now=NOW) == EMPTY

    asyncio.run(story())


def impatient(file: Path) -> SqliteMemory:
    memory = SqliteMemory(file)
    memory._pragmas["busy_timeout"] = 0
    return memory


RECOVERING = """
import fcntl, sys
with open(sys.argv[1], "r+b") as index:
    fcntl.lockf(index, fcntl.LOCK_EX, 1, 120)  # the write lock
    fcntl.lockf(index, fcntl.LOCK_EX, 1, 122)  # the recovery lock
    index.write(bytes(96))
    index.flush()
    print("ready", flush=True)
    sys.stdin.readline()
print("recovered", flush=True)
"""


def test_a_read_that_meets_a_lock_waits_for_it_beside_the_loop(file: Path) -> None:
    """Reads wait for no writer; but for a process that recovers the log after a crash they do."""
    memory = SqliteMemory(file)

    async def story() -> None:
        async with using(memory):
            await memory.record(WHO, overflow(9000))
            assert memory._reading
            assert memory._reading.execute("PRAGMA busy_timeout").fetchone() == (0,)
            with child(f"{file}-shm", script=RECOVERING) as process:
                reading = asyncio.create_task(memory.read(WHO, now=NOW))
                for _ in range(100):
                    await asyncio.sleep(0)
                assert not reading.done()
                nudge(process)
                assert says(process) == "recovered"
            assert (await reading).evictions == (overflow(9000),)

    asyncio.run(story())


def test_a_write_that_was_accepted_is_done_although_its_caller_has_gone(file: Path) -> None:
    async def story() -> None:
        memory = SqliteMemory(file)
        async with using(memory):
            await memory.record(WHO, overflow(9000))
            with closing(lock(file)) as other:
                first = await waiting(memory, refusal("image"))
                second = asyncio.create_task(memory.record(WHO, refusal("image", target=LARGE)))
                await asyncio.sleep(0)
                for task in (first, second):
                    task.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await task
                other.execute("COMMIT")
        async with using(SqliteMemory(file)) as again:
            assert len((await again.read(WHO, now=NOW)).evictions) == 3

    asyncio.run(story())


# -- a file that cannot take a write


def change(file: Path, *statements: str) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        for statement in statements:
            other.execute(statement)


def spoil(file: Path, then: str) -> None:
    """Whenever `large` is recorded, SQLite itself does this."""
    change(
        file,
        f"CREATE TRIGGER spoilt AFTER INSERT ON eviction WHEN new.target = 'large' BEGIN {then}; END",
    )


def test_of_writes_that_share_a_commit_one_that_fails_takes_no_other_with_it(file: Path) -> None:
    async def story() -> None:
        async with using(SqliteMemory(file)) as memory:
            await memory.record(WHO, overflow(9000))
            spoil(file, "SELECT RAISE(ABORT, 'spoilt')")
            three = (refusal("image"), refusal("image", target=LARGE), refusal("audio", turn="t2"))
            told = await asyncio.gather(*[memory.record(WHO, e) for e in three], return_exceptions=True)
            assert [type(result) for result in told] == [tuple, MemoryTrouble, tuple]
            assert {e.target for e in (await memory.read(WHO, now=NOW)).evictions} == {SMALL}

    asyncio.run(story())


def test_when_a_commit_fails_every_write_in_it_is_told_so_and_none_is_half_there(file: Path) -> None:
    async def story() -> None:
        memory = SqliteMemory(file)
        async with using(memory):
            await memory.record(WHO, overflow(9000))
            spoil(file, "SELECT RAISE(ROLLBACK, 'spoilt')")
            with closing(lock(file)) as other:
                alone = await waiting(memory, overflow(8000, turn="t2", at=NOW + 1))
                three = (refusal("image"), refusal("image", target=LARGE), refusal("audio"))
                together = [asyncio.create_task(memory.record(WHO, e)) for e in three]
                await asyncio.sleep(0)
                other.execute("COMMIT")
            await alone
            told = await asyncio.gather(*together, return_exceptions=True)
            assert list(map(type, told)) == [MemoryTrouble] * 3
            assert [e.size for e in (await memory.read(WHO, now=NOW)).evictions] == [8000]
            await memory.record(WHO, refusal("video"))
            assert len((await memory.read(WHO, now=NOW)).evictions) == 2

    asyncio.run(story())


def test_a_write_that_fails_half_way_leaves_nothing_of_itself(file: Path) -> None:
    async def story() -> None:
        async with using(SqliteMemory(file, ttl_secs=100.0)) as memory:
            await memory.record(WHO, overflow(9000))
            spoil(file, "SELECT RAISE(ABORT, 'spoilt')")
            before = rows(file)
            with pytest.raises(MemoryTrouble, match="spoilt"):
                await memory.record(WHO, refusal("image", target=LARGE, at=NOW + 100))
            assert rows(file) == before

    asyncio.run(story())


def test_a_commit_that_fails_when_nobody_waits_any_more_is_not_in_the_way_of_the_next(file: Path) -> None:
    memory = SqliteMemory(file)
    memory._pragmas["foreign_keys"] = 1

    async def story() -> None:
        async with using(memory):
            await memory.record(WHO, overflow(9000))
            change(
                file, "CREATE TABLE debt (id PRIMARY KEY, owed REFERENCES debt DEFERRABLE INITIALLY DEFERRED)"
            )
            spoil(file, "INSERT INTO debt VALUES (new.target, 'never paid')")
            with pytest.raises(MemoryTrouble, match="FOREIGN KEY constraint failed"):
                await memory.record(WHO, refusal("image", target=LARGE))
            with closing(lock(file)) as other:
                abandoned = await waiting(memory, refusal("image", target=LARGE))
                abandoned.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await abandoned
                other.execute("COMMIT")
            await memory.record(WHO, refusal("image"))
            assert {e.target for e in (await memory.read(WHO, now=NOW)).evictions} == {SMALL}

    asyncio.run(story())


def test_a_full_disk_is_trouble_and_the_memory_works_when_there_is_room(file: Path) -> None:
    def fat(number: int) -> Eviction:
        return msgspec.structs.replace(overflow(9000, target=f"target{number}"), machine="x" * 2000)

    async def fill(memory: Memory, together: int) -> set[Eviction]:
        """Record until nothing more goes in; what went in."""
        kept: set[Eviction] = set()
        for start in itertools.count(step=together):
            some = [fat(number) for number in range(start, start + together)]
            told = await asyncio.gather(*[memory.record(WHO, e) for e in some], return_exceptions=True)
            kept |= {eviction for eviction, trouble in zip(some, told, strict=True) if not trouble}
            if all(told):
                assert {type(trouble) for trouble in told} == {MemoryTrouble}
                assert "could not record: database or disk is full; make room" in str(told[0])
                return kept
        raise AssertionError

    async def story(together: int) -> None:
        memory = SqliteMemory(file)
        async with using(memory):
            memory._pragmas["max_page_count"] = 20
            kept = await fill(memory, together)
            assert kept
            assert set((await memory.read(WHO, now=NOW)).evictions) == kept
            del memory._pragmas["max_page_count"]
            await memory.record(WHO, refusal("image"))
            assert set((await memory.read(WHO, now=NOW)).evictions) == kept | {refusal("image")}
            await memory.forget("", "s1", now=NOW)

    for together in (1, 5):
        asyncio.run(story(together))


def test_a_file_that_may_not_be_written_is_trouble_until_it_may() -> None:
    async def story(folder: Path) -> None:
        async with using(SqliteMemory(folder / "turnout.db")) as memory:
            await memory.record(WHO, overflow(9000))
        async with using(SqliteMemory(folder / "turnout.db")) as memory:
            with read_only(folder), pytest.raises(MemoryTrouble, match="see that the file and its dir"):
                await memory.record(WHO, refusal("image"))
            await memory.record(WHO, refusal("audio"))
            assert set((await memory.read(WHO, now=NOW)).evictions) == {overflow(9000), refusal("audio")}

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(story(Path(folder)))


def test_text_that_is_no_unicode_and_numbers_beyond_measure_are_trouble_and_nothing_else_is(
    file: Path,
) -> None:
    async def story() -> None:
        async with using(SqliteMemory(file)) as memory:
            for unfit in (overflow(2**63), refusal("\ud800"), overflow(1, target="\ud800")):
                with pytest.raises(MemoryTrouble, match="valid Unicode, and sizes below"):
                    await memory.record(WHO, unfit)
            with pytest.raises(MemoryTrouble, match=r"could not keep what was stripped: .*valid Unicode"):
                await strip(memory, "\ud800")
            await memory.record(WHO, overflow(9000))
            assert (await memory.read(WHO, now=NOW)).evictions == (overflow(9000),)
            assert await stripped(memory) == set()

    asyncio.run(story())


# -- a file that goes while it is open


def logs(file: Path) -> list[Path]:
    return [file.with_name(f"{file.name}{suffix}") for suffix in ("-wal", "-shm")]


def delete(file: Path) -> None:
    for each in (file, *logs(file)):
        each.unlink()


def delete_without_its_log(file: Path) -> None:
    file.unlink()


def rename(file: Path) -> None:
    file.rename(file.with_name("elsewhere.db"))


def replace(file: Path) -> None:
    """By another memory, whose own log is not there any more."""
    other = file.with_name("other.db")

    async def make() -> None:
        async with using(SqliteMemory(other)) as memory:
            await memory.record(Identity("", "sn"), overflow(7000))

    asyncio.run(make())
    other.rename(file)


def delete_its_log(file: Path) -> None:
    logs(file)[0].unlink()


GOING = [delete, delete_without_its_log, rename, replace, delete_its_log]


@pytest.mark.parametrize("goes", GOING[:-1])
def test_what_is_recorded_when_the_file_has_gone_is_in_the_file_that_is_there(
    file: Path, goes: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    """All who had it open come to the same one, and nothing of the log that was left gets into it."""
    late = [Identity("", "late", agent) for agent in ("a", "b", "c")]

    async def story() -> None:
        async with using(SqliteMemory(file)) as one, using(SqliteMemory(file)) as other:
            await fill(one)
            await other.read(WHO, now=NOW)
            await asyncio.to_thread(goes, file)
            await one.record(late[0], overflow(9000))
            await other.record(late[1], overflow(9000))
            async with using(SqliteMemory(file)) as third:
                await third.record(late[2], overflow(9000))
                for memory in (one, other, third):
                    sessions = {held.identity for held in await everyone(memory)}
                    assert sessions - {Identity("", "sn")} == set(late)
                    assert (Identity("", "sn") in sessions) is (goes is replace)
                    assert await memory.read(late[1], now=NOW)
        with closing(sqlite3.connect(file)) as looking:
            assert looking.execute("PRAGMA quick_check").fetchall() == [("ok",)]
        assert {"was deleted, renamed or replaced" in message for message in caplog.messages} == {True}

    asyncio.run(story())


@pytest.mark.parametrize("goes", GOING)
def test_a_file_that_goes_while_it_is_written_to_loses_nothing_that_is_told_to_be_in_it(
    file: Path, goes: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        memory = SqliteMemory(file)
        record, gone = memory._record, False

        def meanwhile(*what: Any) -> Any:
            nonlocal gone
            if not gone:
                gone = True
                goes(file)
            return record(*what)

        async with using(memory):
            await fill(memory)
            monkeypatch.setattr(memory, "_record", meanwhile)
            await memory.record(WHO, refusal("image"))
            async with using(SqliteMemory(file)) as other:
                assert (await other.read(WHO, now=NOW)).evictions == (refusal("image"),)

    asyncio.run(story())


@pytest.mark.parametrize("doing", ["read", "list"])
def test_a_read_finds_the_file_that_took_the_place_of_another(
    file: Path, doing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnout.engine.memory.sqlite._LOOK_EVERY_SECS", 0.0)

    async def story() -> None:
        async with using(SqliteMemory(file)) as memory:
            await memory.record(WHO, overflow(9000))
            assert await memory.read(WHO, now=NOW)
            await asyncio.to_thread(replace, file)
            if doing == "read":
                assert await memory.read(Identity("", "sn"), now=NOW)
                assert await memory.read(WHO, now=NOW) == EMPTY
            else:
                assert [held.identity.session for held in await everyone(memory)] == ["sn"]

    asyncio.run(story())


def test_reads_do_not_look_for_the_file_each_time(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnout.engine.memory.sqlite._LOOK_EVERY_SECS", 1e9)
    looks: list[None] = []

    async def story() -> None:
        async with using(SqliteMemory(file)) as memory:
            await memory.record(WHO, overflow(9000))
            monkeypatch.setattr(Opened, "is_there", lambda _: (looks.append(None), True)[1])
            for _ in range(100):
                assert await memory.read(WHO, now=NOW)
            assert looks == []

    asyncio.run(story())


def test_a_file_is_left_whole_when_the_link_to_it_leads_elsewhere(tmp_path: Path) -> None:
    link, first, second = (tmp_path / name for name in ("link.db", "first.db", "second.db"))
    link.symlink_to(first)

    async def story() -> None:
        async with using(SqliteMemory(first)) as memory:
            await memory.record(WHO, overflow(9000))
        async with using(SqliteMemory(link)) as memory:
            await memory.record(WHO, refusal("image"))  # in the log
            link.unlink()
            link.symlink_to(second)
            await memory.record(WHO, refusal("audio"))
        for file, count in ((first, 2), (second, 1)):
            async with using(SqliteMemory(file)) as memory:
                assert len((await memory.read(WHO, now=NOW)).evictions) == count

    asyncio.run(story())


def test_a_file_that_is_replaced_all_the_time_is_trouble_until_it_is_not(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with using(SqliteMemory(file)) as memory:
            with monkeypatch.context() as patch:
                patch.setattr(Opened, "is_there", lambda _: False)
                with pytest.raises(
                    MemoryTrouble, match="it is replaced again and again; leave it in its place"
                ):
                    await memory.record(WHO, overflow(9000))
            await memory.record(WHO, overflow(9000))

    asyncio.run(story())


# -- a file that is none of ours, or not any more


async def both_ways(memory: Memory, message: str) -> None:
    with pytest.raises(MemoryTrouble, match=f"could not read: {message}"):
        await memory.read(WHO, now=NOW)
    with pytest.raises(MemoryTrouble, match=f"could not record: {message}"):
        await memory.record(WHO, overflow(9000))


def test_a_missing_directory_is_named_and_the_memory_works_once_it_exists(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "there"

    async def story() -> None:
        async with using(SqliteMemory(folder / "turnout.db")) as memory:
            await both_ways(memory, f"there is no directory {folder}; create it")
            folder.mkdir(parents=True)
            await memory.record(WHO, overflow(9000))

    asyncio.run(story())


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    async def story() -> None:
        async with using(SqliteMemory(tmp_path)) as memory:
            await both_ways(memory, "unable to open database file; see that")

    asyncio.run(story())


def test_a_file_that_is_no_database_is_left_as_it_is(file: Path) -> None:
    file.write_bytes(b"a diary, and none of your business\n" * 100)
    before = file.read_bytes()

    async def story() -> None:
        async with using(SqliteMemory(file)) as memory:
            await both_ways(memory, "file is not a database; give another path, or move that file away")

    asyncio.run(story())
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    "made_by",
    [
        pytest.param("CREATE TABLE eviction (landlord TEXT)", id="it has tables"),
        pytest.param("PRAGMA application_id = 1196444487", id="it is marked as another's"),
        pytest.param("PRAGMA user_version = 1", id="it has a version"),
    ],
)
def test_the_database_of_another_application_is_left_as_it_is(file: Path, made_by: str) -> None:
    with closing(sqlite3.connect(file)) as other:
        other.execute(made_by)
    before = file.read_bytes()

    async def story() -> None:
        async with using(SqliteMemory(file)) as memory:
            await both_ways(memory, "it is the database of another application; give another path")

    asyncio.run(story())
    assert file.read_bytes() == before


def test_an_empty_file_becomes_a_memory(file: Path) -> None:
    file.touch()

    async def story() -> None:
        async with using(SqliteMemory(file)) as memory:
            await memory.record(WHO, overflow(9000))

    asyncio.run(story())
    with closing(sqlite3.connect(file)) as other:
        assert other.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        assert other.execute("PRAGMA user_version").fetchone() == (SCHEMA,)


def garble(file: Path) -> None:
    """Leave the file's first page and nothing else."""
    intact = file.read_bytes()
    file.write_bytes(intact[:4096] + b"\x5a" * (len(intact) - 4096))


def overwrite(file: Path) -> None:
    file.write_bytes(b"\x5a" * file.stat().st_size)


def halve(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def behead(file: Path) -> None:
    """Leave so little that nothing says whose it was."""
    os.truncate(file, 50)


async def fill(memory: Memory) -> None:
    many = [Identity("", f"s{number}") for number in range(100)]
    await asyncio.gather(*[memory.record(who, overflow(9000)) for who in many])


async def begins_anew(memory: Memory) -> None:
    assert await memory.read(WHO, now=NOW) == EMPTY
    await memory.record(WHO, overflow(9000))
    assert await memory.read(WHO, now=NOW)


@pytest.mark.parametrize("met_by", ["read", "record"])
@pytest.mark.parametrize("damage", [garble, halve])
def test_a_damaged_file_is_set_aside_and_a_new_one_begins(
    file: Path, damage: Callable[[Path], None], met_by: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with using(SqliteMemory(file)) as memory:
            await fill(memory)
        damage(file)
        damaged = content(file)
        async with using(SqliteMemory(file)) as memory:
            doing = memory.read(WHO, now=NOW) if met_by == "read" else memory.record(WHO, overflow(9000))
            with pytest.raises(MemoryTrouble, match="malformed; it is set aside, and a new one begins"):
                await doing
            (aside,) = asides(file)
            assert re.fullmatch(r"turnout\.db\.corrupt-\d{8}T\d{6}Z", aside.name)
            assert content(aside) == damaged
            (told,) = caplog.messages
            assert f"memory {file}: " in told
            assert f"it is set aside as {aside}, and a new one begins" in told
            await begins_anew(memory)

    asyncio.run(story())


@pytest.mark.parametrize("damage", [overwrite, garble, halve, behead])
def test_a_file_that_is_damaged_while_it_is_in_use_is_set_aside_with_its_log(
    file: Path, damage: Callable[[Path], None]
) -> None:
    async def story() -> None:
        async with using(SqliteMemory(file)) as memory:
            await fill(memory)
        async with using(SqliteMemory(file)) as memory:
            await memory.record(WHO, refusal("image"))
            log = content(f"{file}-wal")
            damage(file)
            damaged = content(file)
            with pytest.raises(MemoryTrouble, match="it is set aside, and a new one begins"):
                await everyone(memory)
            (aside,) = asides(file)
            assert content(aside) == damaged
            assert content(f"{aside}-wal") == log
            await begins_anew(memory)

    asyncio.run(story())


def test_a_file_that_was_emptied_is_set_aside_for_what_its_log_holds(file: Path) -> None:
    with child(*recording(file, overflow(9000)), script=CHILD) as process:
        nudge(process)
        assert says(process) == "recorded"
        process.kill()
        process.wait()
    os.truncate(file, 0)
    log = content(f"{file}-wal")

    async def story() -> None:
        async with using(SqliteMemory(file)) as memory:
            with pytest.raises(MemoryTrouble, match="it is empty, and its log is not; it is set aside"):
                await memory.read(WHO, now=NOW)
            (aside,) = asides(file)
            assert content(f"{aside}-wal") == log
            await begins_anew(memory)

    asyncio.run(story())


def test_what_is_damaged_in_the_log_never_gets_into_the_file(file: Path) -> None:
    """SQLite would write it there when it closes the file."""

    async def story() -> None:
        async with using(SqliteMemory(file)) as memory:
            await fill(memory)
        intact = content(file)
        log = Path(f"{file}-wal")
        async with using(SqliteMemory(file)) as memory:
            await memory.record(WHO, refusal("image"))
            log.write_bytes(b"\x5a" * log.stat().st_size)  # noqa: ASYNC240
            with pytest.raises(MemoryTrouble, match="it is whole again: try again"):
                await memory.read(WHO, now=NOW)
            assert content(file) == intact
            assert len(await everyone(memory)) == 100
        assert asides(file) == []

    asyncio.run(story())


@pytest.mark.parametrize(
    "made_so",
    [
        pytest.param("PRAGMA application_id = 1196444487", id="another application's"),
        pytest.param(f"PRAGMA user_version = {SCHEMA + 1}", id="a newer schema's"),
    ],
)
@pytest.mark.parametrize("damage", [garble, halve])
def test_a_damaged_file_of_another_application_or_a_newer_schema_is_left_as_it_is(
    file: Path, made_so: str, damage: Callable[[Path], None]
) -> None:
    async def story() -> None:
        async with using(SqliteMemory(file)) as memory:
            await fill(memory)
        change(file, made_so)
        damage(file)
        before = content(file)
        async with using(SqliteMemory(file)) as memory:
            for _ in range(2):
                with pytest.raises(MemoryTrouble, match=r"give another path|move the file away"):
                    await memory.record(WHO, overflow(9000))
        assert content(file) == before
        assert asides(file) == []

    asyncio.run(story())


def test_what_took_the_files_place_and_is_no_database_is_left_as_it_is(file: Path) -> None:
    diary = file.with_name("diary")
    diary.write_bytes(b"a diary, and none of your business\n" * 1000)
    before = diary.read_bytes()

    async def story() -> None:
        async with using(SqliteMemory(file)) as memory:
            await memory.record(WHO, overflow(9000))
        async with using(SqliteMemory(file)) as memory:
            assert await memory.read(WHO, now=NOW)
            diary.rename(file)
            with pytest.raises(MemoryTrouble):  # after which the file is opened again
                await memory.record(WHO, refusal("\ud800"))
            await both_ways(memory, "file is not a database; give another path")
        assert content(file) == before

    asyncio.run(story())


def test_a_file_that_another_process_has_open_is_left_to_it(file: Path) -> None:
    async def story() -> None:
        async with using(SqliteMemory(file)) as memory:
            await fill(memory)
        with child(*recording(file, refusal("image")), script=CHILD) as process:
            nudge(process)
            assert says(process) == "recorded"
            garble(file)
            async with using(SqliteMemory(file)) as memory:
                for _ in range(2):
                    with pytest.raises(MemoryTrouble, match="it is set aside as soon as nobody else has it"):
                        await everyone(memory)
                assert asides(file) == []
                process.kill()
                process.wait()
                with pytest.raises(MemoryTrouble, match="it is set aside, and a new one begins"):
                    await everyone(memory)
                assert len(asides(file)) == 1
                await begins_anew(memory)

    asyncio.run(story())


def test_a_file_that_another_memory_of_this_process_has_open_is_left_to_it(file: Path) -> None:
    async def story() -> None:
        async with using(SqliteMemory(file)) as memory:
            await fill(memory)
        async with using(SqliteMemory(file)) as memory:
            async with using(SqliteMemory(file)) as other:
                await other.record(WHO, refusal("image"))
                garble(file)
                with pytest.raises(MemoryTrouble, match="it is set aside as soon as nobody else has it"):
                    await everyone(memory)
                assert asides(file) == []
            with pytest.raises(MemoryTrouble, match="it is set aside, and a new one begins"):
                await everyone(memory)
            await begins_anew(memory)

    asyncio.run(story())


PERSISTENT = CHILD.replace(
    "    for line in evictions:\n        await ",
    """    for line in evictions:
        while True:
            try:
                await record(memory, line)
                break
            except MemoryTrouble:
                await asyncio.sleep(0.001)
"""
    + "    #",
).replace(
    "async def main",
    """from turnout.engine.errors import MemoryTrouble

async def record(memory, line):
    await memory.record(Identity("", "s1"), msgspec.json.decode(line, type=Eviction))

async def main""",
)


def test_of_processes_that_find_the_damage_at_once_one_sets_it_aside_and_the_new_file_is_everybodys(
    file: Path,
) -> None:
    async def make() -> None:
        async with using(SqliteMemory(file)) as memory:
            await fill(memory)

    asyncio.run(make())
    garble(file)
    damaged = content(file)
    theirs = [[refusal(f"{who}{n}", turn=f"{who}{n}") for n in range(10)] for who in "abcd"]
    with ExitStack() as stack:
        processes = [
            stack.enter_context(child(*recording(file, *some), script=PERSISTENT)) for some in theirs
        ]
        for process in processes:
            nudge(process)
        assert [says(process) for process in processes] == ["recorded"] * 4

    async def look() -> None:
        async with using(SqliteMemory(file)) as memory:
            (merged,) = (await memory.read(WHO, now=NOW)).evictions
            assert merged.refused == {e.first.features for some in theirs for e in some}

    asyncio.run(look())
    assert [content(aside) for aside in asides(file)] == [damaged]


def test_files_that_are_set_aside_within_a_second_keep_their_names_apart(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "gmtime", lambda: (2026, 12, 1, 10, 15, 0, 1, 335, 0))

    async def story() -> None:
        for _ in range(3):
            async with using(SqliteMemory(file)) as memory:
                await fill(memory)
            garble(file)
            async with using(SqliteMemory(file)) as memory:
                with pytest.raises(MemoryTrouble, match="it is set aside"):
                    await everyone(memory)
        stem = "turnout.db.corrupt-20261201T101500Z"
        assert [aside.name for aside in asides(file)] == [stem, f"{stem}-2", f"{stem}-3"]

    asyncio.run(story())


def test_a_file_that_was_set_aside_is_not_set_aside_again(file: Path) -> None:
    async def story() -> None:
        async with using(SqliteMemory(file)) as memory:
            await fill(memory)
        garble(file)
        async with using(SqliteMemory(file)) as memory:
            with pytest.raises(MemoryTrouble, match="it is set aside"):
                await everyone(memory)
        (aside,) = asides(file)
        async with using(SqliteMemory(aside)) as memory:
            with pytest.raises(MemoryTrouble, match="malformed; move the file away"):
                await everyone(memory)
        assert asides(file) == [aside]

    asyncio.run(story())


def test_a_file_behind_a_link_is_set_aside_where_it_lies(tmp_path: Path) -> None:
    file, link = tmp_path / "elsewhere" / "real.db", tmp_path / "turnout.db"
    file.parent.mkdir()
    link.symlink_to(file)

    async def story() -> None:
        file.touch()
        async with using(SqliteMemory(link)) as memory:
            await fill(memory)
        garble(file)
        async with using(SqliteMemory(link)) as memory:
            with pytest.raises(MemoryTrouble, match="it is set aside"):
                await everyone(memory)
            assert len(asides(file)) == 1
            await begins_anew(memory)
        assert link.is_symlink()
        assert file.exists()

    asyncio.run(story())


def test_a_file_that_cannot_be_renamed_stays_with_its_log(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename

    def refuse(old: Path, new: Path) -> Path:
        if old == file:
            raise OSError("no")
        return rename(old, new)

    async def story() -> None:
        async with using(SqliteMemory(file)) as memory:
            await fill(memory)
        async with using(SqliteMemory(file)) as memory:
            await memory.record(WHO, refusal("image"))
            log = content(f"{file}-wal")
            garble(file)
            with monkeypatch.context() as patch:
                patch.setattr(Path, "rename", refuse)
                with pytest.raises(MemoryTrouble, match="malformed; move the file away"):
                    await everyone(memory)
            assert asides(file) == []
            assert content(f"{file}-wal") == log
            with pytest.raises(MemoryTrouble, match="it is set aside"):
                await everyone(memory)

    asyncio.run(story())


def test_tables_that_are_gone_are_trouble_until_they_are_back(file: Path) -> None:
    async def story() -> None:
        async with using(SqliteMemory(file)) as memory:
            await memory.record(WHO, overflow(9000))
            assert await memory.read(WHO, now=NOW)
            with closing(sqlite3.connect(file)) as other:
                (view,) = other.execute("SELECT sql FROM sqlite_schema WHERE type = 'view'").fetchone()
            change(file, "DROP VIEW standing")
            await both_ways(memory, "no such table: standing; its tables are not those that Turnout makes")
            change(file, view)
            assert await memory.read(WHO, now=NOW)

    asyncio.run(story())


BROKEN = [
    pytest.param("'{'", "a row of target 'small' in session 's1' is damaged: ", id="no JSON"),
    pytest.param("CAST(X'7B80FF' AS TEXT)", "a row .*is damaged: ", id="no text"),
]


@pytest.mark.parametrize(("first", "told"), BROKEN)
def test_a_damaged_row_is_told_and_goes_with_what_is_recorded_in_its_place(
    file: Path, first: str, told: str
) -> None:
    async def story() -> None:
        async with using(SqliteMemory(file, ttl_secs=100.0)) as memory:
            await memory.record(WHO, overflow(9000))
            await memory.record(WHO, refusal("image"))
            change(file, f"UPDATE eviction SET first = {first} WHERE reason = 'context_window'")
            for doing in (memory.read(WHO, now=NOW), memory.held("", now=NOW)):
                with pytest.raises(
                    MemoryRefusal, match=f"{told}.*; it goes with what is recorded in its"
                ) as why:
                    await doing
                assert "{" not in str(why.value).partition("could not")[2].partition(";")[0]
            assert len(await memory.remove(WHO, [refusal("image")], now=NOW, why="served")) == 1
            await memory.record(WHO, refusal("audio"))
            await memory.record(WHO, overflow(8000))
            assert set((await memory.read(WHO, now=NOW)).evictions) == {overflow(8000), refusal("audio")}

    asyncio.run(story())


@pytest.mark.parametrize(("first", "told"), BROKEN)
def test_a_damaged_row_goes_with_its_session(file: Path, first: str, told: str) -> None:
    async def story() -> None:
        async with using(SqliteMemory(file, ttl_secs=100.0)) as memory:
            for session in ("s1", "s2", "s3"):
                await memory.record(Identity("", session), overflow(9000))
            change(file, f"UPDATE eviction SET first = {first} WHERE session <> 's3'")
            assert await memory.forget("", "s1", now=NOW) == ()
            assert [held.identity.session for held in (await memory.held("", "s1", now=NOW)).held] == []
            assert [change.identity.session for change in await sweep(memory, now=NOW + 100)] == ["s3"]
            assert rows(file) == []

    asyncio.run(story())


OTHER_TYPES = [
    "target = X'80'",
    "fingerprint = X'80'",
    "first = X'7B'",
    "latest_turn = X'80'",
    "latest_at = 'x'",
]
OTHER_TYPES += ["latest_at = X'80'", "size = 'x'", "size = 1.5", "refused = X'5B'", "machine = X'80'"]


@pytest.mark.parametrize("damage", OTHER_TYPES)
def test_a_row_that_holds_what_is_of_another_type_is_damaged_and_goes_with_its_session(
    file: Path, damage: str
) -> None:
    async def story() -> None:
        async with using(SqliteMemory(file)) as memory:
            await memory.record(WHO, overflow(9000))
            await memory.record(WHO, refusal("image"))
            change(file, f"UPDATE eviction SET {damage} WHERE reason = 'context_window'")
            with pytest.raises(MemoryRefusal, match="is damaged: a column is of another type"):
                await memory.read(WHO, now=NOW)
            assert [gone.eviction for gone in await memory.forget("", "s1", now=NOW)] == [refusal("image")]
            assert rows(file) == []

    asyncio.run(story())


DAMAGED = [
    pytest.param("{", id="no JSON"),
    pytest.param('["effort"]', id="other JSON"),
    pytest.param('{"c1": {"keys": [1], "at": 1}}', id="a key that is no text"),
    pytest.param('{"c1": {"keys": ["effort"]}}', id="no time"),
]


@pytest.mark.parametrize("damaged", DAMAGED)
def test_damaged_refused_keys_are_told_and_go_with_what_is_learnt_in_their_place(
    file: Path, damaged: str
) -> None:
    async def story() -> None:
        async with using(SqliteMemory(file)) as memory:
            await strip(memory, "effort")
            await strip(memory, "effort", target=LARGE)
            change(file, f"UPDATE target SET stripped = '{damaged}' WHERE target = 'small'")
            told = "a row of target 'small' is damaged: .*; it goes with what is recorded in its place"
            with pytest.raises(MemoryRefusal, match=f"could not read what was stripped: {told}"):
                await stripped(memory)
            assert await stripped(memory, target=LARGE) == {"effort"}
            await strip(memory, "verbosity")
            assert await stripped(memory) == {"verbosity"}
            await memory.record(WHO, overflow(9000))
            assert await memory.read(WHO, now=NOW)

    asyncio.run(story())


# -- a file of a newer schema

NEWER = (
    f"PRAGMA user_version = {SCHEMA + 1}",
    "ALTER TABLE eviction ADD COLUMN mood TEXT NOT NULL DEFAULT 'sour'",
    "ALTER TABLE identity ADD COLUMN mood TEXT",
)


def test_rows_of_a_newer_schema_are_honoured_and_never_rewritten(file: Path) -> None:
    async def story() -> None:
        async with using(SqliteMemory(file, ttl_secs=100.0)) as memory:
            await memory.record(WHO, overflow(9000))
            change(file, *NEWER, "UPDATE eviction SET mood = 'sweet'")
            before = rows(file)
            # seen by a process that had the file open before
            await memory.record(WHO, overflow(8000, turn="t2", at=NOW + 20))
            await memory.touch(WHO, now=NOW + 20)
            assert rows(file) == before
            await memory.record(WHO, refusal("image", at=NOW + 20))
            assert [row for row in rows(file) if row in before] == before
            await memory.remove(WHO, [refusal("image", at=NOW + 20)], now=NOW + 20, why="served")
            assert rows(file) == before
        async with using(SqliteMemory(file, ttl_secs=100.0)) as memory:
            assert (await memory.read(WHO, now=NOW)).evictions == (overflow(9000),)
            await memory.record(WHO, overflow(8000, turn="t2", at=NOW + 20))
            with pytest.raises(
                MemoryTrouble, match=f"could not restore everywhere: it is of schema {SCHEMA + 1}"
            ):
                await memory.restore_everywhere("", SMALL, "f1", now=NOW)
            assert rows(file) == before
        with closing(sqlite3.connect(file)) as other:
            assert other.execute("PRAGMA user_version").fetchone() == (SCHEMA + 1,)

    asyncio.run(story())


def test_a_file_of_a_newer_schema_is_added_to_and_removed_from(file: Path) -> None:
    async def story() -> None:
        async with using(SqliteMemory(file)) as memory:
            await memory.record(WHO, overflow(9000))
            change(file, *NEWER)
            await memory.record(WHO, refusal("image"))
            assert set((await memory.read(WHO, now=NOW)).evictions) == {overflow(9000), refusal("image")}
            assert len(await memory.remove(WHO, [overflow(9000)], now=NOW, why="served")) == 1
            assert len(await memory.forget("", "s1", now=NOW)) == 1
            assert rows(file) == []

    asyncio.run(story())


def test_a_file_of_a_newer_schema_is_listed_swept_and_forgotten_late(file: Path) -> None:
    async def story() -> None:
        async with using(SqliteMemory(file, ttl_secs=100.0, max_sessions=1)) as memory:
            for number in range(3):
                await memory.record(Identity("", f"s{number}"), overflow(9000, at=NOW + number))
            late = refusal("image", at=NOW + 50)
            await memory.record(Identity("", "s2"), late)
            change(file, *NEWER)
            assert len(await everyone(memory)) == 3
            assert [c.why for c in await sweep(memory, now=NOW + 100.5)] == ["expired", "crowded out"]
            assert len(await memory.forget("", "s2", now=NOW + 49)) == 1
            assert (await memory.read(Identity("", "s2"), now=NOW + 50)).evictions == (late,)

    asyncio.run(story())


def test_a_row_of_a_newer_schema_that_says_what_nobody_here_understands_is_passed_over(file: Path) -> None:
    async def story() -> None:
        async with using(SqliteMemory(file)) as memory:
            await memory.record(WHO, overflow(9000))
            await memory.record(WHO, refusal("image"))
            change(file, *NEWER, "UPDATE eviction SET reason = 'mood' WHERE reason = 'capability'")
        async with using(SqliteMemory(file)) as memory:
            assert (await memory.read(WHO, now=NOW)).evictions == (overflow(9000),)

    asyncio.run(story())


def test_refused_keys_of_a_newer_schema_are_honoured_added_to_and_never_rewritten(file: Path) -> None:
    async def story() -> None:
        async with using(SqliteMemory(file, ttl_secs=100.0)) as memory:
            await strip(memory, "effort")
            await memory.restore_everywhere("", LARGE, "f1", now=NOW)
            change(file, *NEWER, "ALTER TABLE target ADD COLUMN mood TEXT")
            before = rows(file)
            # seen by a process that had the file open before
            for at in (NOW, NOW + 100):
                await strip(memory, "verbosity", at=at)
                await strip(memory, "verbosity", configuration="c2", at=at)
                await strip(memory, "verbosity", target=LARGE, at=at)
            assert rows(file) == before
        async with using(SqliteMemory(file, ttl_secs=100.0)) as memory:
            assert await stripped(memory) == {"effort"}
            assert await stripped(memory, now=NOW + 100) == set()
            await strip(memory, "store", fingerprint="f2")
            assert await stripped(memory, fingerprint="f2") == {"store"}
            assert [row for row in rows(file) if row in before] == before

    asyncio.run(story())


@pytest.mark.parametrize("unheard_of", DAMAGED)
def test_refused_keys_of_a_newer_schema_that_nobody_here_understands_are_passed_over(
    file: Path, unheard_of: str
) -> None:
    async def story() -> None:
        async with using(SqliteMemory(file)) as memory:
            await strip(memory, "effort")
            change(file, *NEWER, f"UPDATE target SET stripped = '{unheard_of}'")
        async with using(SqliteMemory(file)) as memory:
            before = rows(file)
            assert await stripped(memory) == set()
            await strip(memory, "verbosity")
            assert rows(file) == before

    asyncio.run(story())


# -- a memory that was closed


def test_a_memory_that_was_closed_says_so(file: Path) -> None:
    async def story() -> None:
        async with using(SqliteMemory(file)) as memory:
            await memory.read(WHO, now=NOW)
        await both_ways(memory, "it was closed; open another memory on the same file")
        for verb, doing in (("list", memory.held("", now=NOW)), ("sweep", memory.sweep("", now=NOW))):
            with pytest.raises(MemoryTrouble, match=f"could not {verb}: it was closed"):
                await doing

    asyncio.run(story())


def test_closing_finishes_what_was_accepted_and_refuses_what_comes_later(file: Path) -> None:
    async def story() -> None:
        async with using(SqliteMemory(file)) as memory:
            await memory.record(WHO, refusal("image"))
        memory = SqliteMemory(file)
        reading = asyncio.create_task(memory.read(WHO, now=NOW))
        writing = asyncio.create_task(memory.record(WHO, overflow(9000)))
        await asyncio.sleep(0)
        await memory.close()
        await writing
        with pytest.raises(MemoryTrouble, match="could not read: it was closed"):
            await reading
        async with using(SqliteMemory(file)) as again:
            assert set((await again.read(WHO, now=NOW)).evictions) == {overflow(9000), refusal("image")}

    asyncio.run(story())
