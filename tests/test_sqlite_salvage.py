"""A SQLite file is damaged: what can still be read of it is told, and taken in by a new one."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from files import read_only
from memories import LARGE, NOW, SMALL, overflow, refusal, using

from turnout import SqliteMemory
from turnout.engine.cli import main
from turnout.engine.context import Eviction, Identity
from turnout.engine.errors import MemoryTrouble
from turnout.engine.memory.protocol import Held
from turnout.engine.memory.sqlite.salvage import Salvage, namespaces_in
from turnout.engine.memory.sqlite.schema import SCHEMA

PAGE = 4096
SESSIONS = 600
FIXTURES = Path(__file__).parent / "fixtures"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A memory of many sessions. Of each tenth the target `large` had been restored for all."""

    async def fill() -> None:
        async with using(SqliteMemory(tmp_path / "memory.db")) as memory:
            many = [Identity("", f"s{number:04d}", "") for number in range(SESSIONS)]
            await asyncio.gather(*[memory.record(who, refusal("image", target=LARGE)) for who in many[::10]])
            await memory.restore_everywhere("", LARGE, "f1", now=NOW)
            await asyncio.gather(*[memory.record(who, overflow(9000)) for who in many])

    asyncio.run(fill())
    return tmp_path / "memory.db"


def held(file: Path) -> list[Held]:
    async def listed() -> list[Held]:
        async with using(SqliteMemory(file)) as memory:
            return list((await memory.held("", now=NOW, most=10 * SESSIONS)).held)

    return asyncio.run(listed())


def salvaged(file: Path, namespace: str = "", *, now: float = NOW) -> tuple[list[Held], bool]:
    salvage = Salvage(file, namespace, ttl_secs=86400.0, now=now)
    told = list(salvage)
    return told, salvage.damaged


def evictions(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["evictions", *arguments])


def overwrite(file: Path, *pages: int) -> None:
    with file.open("r+b") as opened:
        for page in pages:
            opened.seek((page - 1) * PAGE)
            opened.write(os.urandom(PAGE))


def leaves(file: Path) -> list[int]:
    """The pages that hold evictions and lead to no others, ten to twenty in each."""
    content = file.read_bytes()
    pages = {page: content[(page - 1) * PAGE : page * PAGE] for page in range(2, len(content) // PAGE + 1)}
    # an index leaf begins with 10, says SQLite's format
    return [page for page, held in pages.items() if held[0] == 10 and b"context_window" in held]


def test_a_whole_file_is_told_as_it_is_listed(file: Path) -> None:
    assert salvaged(file) == (held(file), False)
    assert len(held(file)) == SESSIONS
    assert all(one.evictions == (overflow(9000),) for one in held(file))


@pytest.mark.parametrize("seed", range(5))
def test_what_is_around_the_damage_is_told_and_nothing_that_never_was(file: Path, seed: int) -> None:
    """From both ends one comes to the first and the last damaged leaf; what is between is found by key."""
    known = {one.identity: one for one in held(file)}
    overwrite(file, *random.Random(seed).sample(leaves(file), 3))
    before = file.read_bytes()
    told, damaged = salvaged(file)
    assert damaged
    assert file.read_bytes() == before
    assert len({one.identity for one in told}) == len(told) >= SESSIONS - 3 * 20
    assert all(one.evictions == known[one.identity].evictions for one in told)


def first_session(file: Path, page: int) -> str:
    content = file.read_bytes()[(page - 1) * PAGE : page * PAGE]
    at = int.from_bytes(content[8:10])  # where the first cell begins, says SQLite's format
    cell = content[at : at + 40]
    return cell[cell.index(b"s0") :][:5].decode()


def in_order(file: Path, *, evictions: bool) -> list[int]:
    """The leaves of a table in the order of their keys, and the first session of each."""
    content = file.read_bytes()
    pages = {page: content[(page - 1) * PAGE : page * PAGE] for page in range(2, len(content) // PAGE + 1)}
    found = [page for page, held in pages.items() if held[0] == 10 and b"s0" in held]
    found = [page for page in found if (b"context_window" in pages[page]) is evictions]
    return sorted(found, key=lambda page: first_session(file, page))


def test_what_is_whole_between_damaged_pages_of_both_tables_is_told(file: Path) -> None:
    some, others = in_order(file, evictions=True), in_order(file, evictions=False)
    overwrite(file, some[1], some[len(some) // 2], some[-2], others[0], others[1])
    told, damaged = salvaged(file)
    assert damaged
    assert len({one.identity for one in told}) == len(told) >= SESSIONS - 3 * 20


def test_of_a_table_that_is_out_of_order_nobody_is_told_what_is_anothers(file: Path) -> None:
    """A leaf holds what another does, as after a write that went to the wrong place."""
    known = {one.identity: one for one in held(file)}
    leaves_ = in_order(file, evictions=True)
    content = file.read_bytes()
    for here, there in ((leaves_[3], leaves_[9]), (leaves_[9], leaves_[3]), (leaves_[0], leaves_[-1])):
        wrong = bytearray(content)
        wrong[(here - 1) * PAGE : here * PAGE] = content[(there - 1) * PAGE : there * PAGE]
        file.write_bytes(wrong)
        told, damaged = salvaged(file)
        assert damaged
        assert len(told) >= SESSIONS - 20
        assert all(one == known[one.identity] for one in told)


TYPES = [
    ("identity", "last_use = 'x'", 600),
    ("identity", "last_use = X'00'", 600),
    ("eviction", "target = X'80'", 599),
    ("eviction", "reason = 'none'", 599),
    ("eviction", "latest_at = 'x'", 599),
    ("eviction", "size = 'x'", 599),
    ("eviction", "epoch = 'x'", 600),
    ("eviction", "session = X'FE80'", 599),
    ("eviction", "session = CAST(X'7330FF' AS TEXT)", 599),
    ("identity", "session = CAST(X'7330FF' AS TEXT)", 600),
]


@pytest.mark.parametrize(("table", "damage", "left"), TYPES)
def test_what_is_of_another_type_is_damaged_and_takes_no_other_along(
    file: Path, table: str, damage: str, left: int
) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute(f"UPDATE {table} SET {damage} WHERE session = 's0101'")
    told, damaged = salvaged(file)
    assert damaged
    assert len({one.identity for one in told}) == len(told) == left


@pytest.mark.parametrize("damage", ["restored_at = 'x'", "epoch = 'x'"])
def test_a_restoration_that_cannot_be_read_takes_nothing_along_that_is_not_its_own(
    file: Path, damage: str
) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute(f"UPDATE target SET {damage}")
    told, damaged = salvaged(file)
    assert damaged
    assert all(overflow(9000) in one.evictions for one in told)
    assert len(told) == SESSIONS


def test_damage_that_nothing_told_lies_in_is_said_too(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.seek((leaves(file)[0] - 1) * PAGE + 7)  # how many bytes are in fragments, says SQLite's format
        opened.write(b"\x3b")
    told, damaged = salvaged(file)
    assert len(told) == SESSIONS
    assert damaged


def test_nothing_is_left_beside_a_file_that_was_read(file: Path) -> None:
    before = {path: path.read_bytes() for path in file.parent.iterdir()}
    assert len(salvaged(file)[0]) == SESSIONS
    assert namespaces_in(file) == [""]
    assert {path: path.read_bytes() for path in file.parent.iterdir()} == before


def test_a_file_that_may_only_be_read_is_told(file: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        copied = Path(shutil.copy(file, folder))
        with read_only(Path(folder)):
            assert len(salvaged(copied)[0]) == SESSIONS


def test_the_log_of_a_file_that_was_emptied_is_left_as_it_is(file: Path) -> None:
    aside = file.with_name("memory.db.corrupt-x")

    async def story() -> None:
        async with using(SqliteMemory(file)) as memory:
            await memory.record(Identity("", "late"), overflow(7000))
            shutil.copyfile(f"{file}-wal", f"{aside}-wal")

    asyncio.run(story())
    aside.touch()
    log = Path(f"{aside}-wal").read_bytes()
    with pytest.raises(MemoryTrouble, match="nothing of it can be read: it is empty, and its log is not"):
        salvaged(aside)
    assert Path(f"{aside}-wal").read_bytes() == log


def test_the_namespaces_of_a_file_are_listed_past_its_damage(file: Path) -> None:
    async def more() -> None:
        async with using(SqliteMemory(file)) as memory:
            for namespace in ("acme", "日本語", "\ud800", "z" * 200):
                await memory.record(Identity(namespace, "s1"), overflow(9000))

    asyncio.run(more())
    digest = f"sha256:{sha256(b'z' * 200).hexdigest()}"
    assert namespaces_in(file) == ["", "acme", digest, "日本語", "\ud800"]
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("UPDATE identity SET namespace = X'FE80' WHERE namespace = 'acme'")
    overwrite(file, in_order(file, evictions=True)[3], in_order(file, evictions=False)[1])
    assert namespaces_in(file) == ["", "acme", digest, "日本語", "\ud800"]


def test_a_file_that_was_cut_short_tells_what_is_left(file: Path) -> None:
    known = held(file)
    os.truncate(file, file.stat().st_size * 3 // 4)
    told, damaged = salvaged(file)
    assert damaged
    assert SESSIONS / 3 < len(told) < SESSIONS
    assert {one.identity for one in told} < {one.identity for one in known}


def test_one_damaged_row_takes_no_other_along(file: Path) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("UPDATE eviction SET first = '{' WHERE session = 's0001'")
        other.execute("UPDATE eviction SET refused = CAST(X'FF' AS TEXT) WHERE session = 's0002'")
        other.execute("DELETE FROM identity WHERE session = 's0003'")  # when it was used last, nobody knows
    told, damaged = salvaged(file)
    assert damaged
    assert len(told) == SESSIONS - 2
    assert "s0003" in {one.identity.session for one in told}


def test_what_is_in_the_log_only_is_told_too(file: Path) -> None:
    async def story() -> None:
        memory = SqliteMemory(file)
        async with using(memory):
            await memory.record(Identity("", "late"), overflow(7000))
            for suffix in ("", "-wal"):
                shutil.copyfile(f"{file}{suffix}", f"{file}.corrupt-x{suffix}")
        told, _ = salvaged(file.with_name("memory.db.corrupt-x"))
        assert "late" in {one.identity.session for one in told}

    asyncio.run(story())


def test_who_has_expired_is_not_told(file: Path) -> None:
    assert salvaged(file, now=NOW + 86400) == ([], False)
    assert salvaged(file, "another") == ([], False)


@pytest.mark.parametrize("version", range(1, SCHEMA))
def test_a_damaged_file_of_an_older_schema_is_told(tmp_path: Path, version: int) -> None:
    for name in ("old.db", "loaded.db"):
        with closing(sqlite3.connect(tmp_path / name)) as other:
            other.executescript((FIXTURES / f"sqlite_schema_{version}.sql").read_text())

    async def loaded() -> list[tuple[Identity, tuple[Eviction, ...]]]:
        async with using(SqliteMemory(tmp_path / "loaded.db")) as memory:
            page = await memory.held("acme", now=NOW)
            return [(one.identity, one.evictions) for one in page.held]

    told, damaged = salvaged(tmp_path / "old.db", "acme")
    assert not damaged
    assert {evictions for _, evictions in asyncio.run(loaded())} == {one.evictions for one in told}


def no_database(file: Path) -> None:
    file.write_bytes(b"no database at all, " * 1000)


def another_applications(file: Path) -> None:
    with closing(sqlite3.connect(file)) as other:
        other.execute("PRAGMA application_id = 1")


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (no_database, "nothing of it can be read: file is not a database"),
        (Path.unlink, "nothing of it can be read: unable to open database file"),
        (another_applications, "it is none of Turnout's"),
    ],
)
def test_what_cannot_be_read_at_all_is_said(file: Path, spoil: Callable[[Path], None], says: str) -> None:
    spoil(file)
    with pytest.raises(MemoryTrouble, match=says):
        salvaged(file)
    told = evictions("--memory", f"sqlite:{file}", "export", "--damaged")
    assert told.exit_code == 1
    assert says in told.output


def test_from_the_damaged_file_to_the_one_that_began_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the log tells who runs the service."""
    monkeypatch.chdir(tmp_path)
    now = __import__("time").time()

    async def fill(sessions: range, size: int) -> None:
        async with using(SqliteMemory("memory.db")) as memory:
            for number in sessions:
                await memory.record(Identity("", f"s{number:04d}"), overflow(size, at=now))

    async def meet() -> None:
        async with using(SqliteMemory("memory.db")) as memory:
            for number in range(SESSIONS):
                try:
                    await memory.read(Identity("", f"s{number:04d}"), now=now)
                except MemoryTrouble as trouble:
                    assert "it is set aside" in str(trouble)  # noqa: PT017
                    return

    asyncio.run(fill(range(SESSIONS), 9000))
    overwrite(Path("memory.db"), leaves(Path("memory.db"))[-2])
    asyncio.run(meet())
    asyncio.run(fill(range(10), 8000))
    (aside,) = tmp_path.glob("memory.db.corrupt-*Z")
    told = evictions("--memory", f"sqlite:{aside.name}", "export", "--damaged")
    assert told.exit_code == 2
    assert "identities could be read; other parts of the file could not" in told.stderr
    Path("evictions.jsonl").write_text(told.stdout)
    assert evictions("--memory", "sqlite:memory.db", "import", "evictions.jsonl").exit_code == 0
    listed = evictions("--memory", "sqlite:memory.db", "list").output.splitlines()
    assert SESSIONS - 20 < len(listed) <= SESSIONS
    assert sum("8000 tokens" in line for line in listed) == 10
    assert SMALL in listed[0]


def test_a_store_that_is_no_file_cannot_be_damaged() -> None:
    told = evictions("--memory", "redis://127.0.0.1", "export", "--damaged")
    assert told.exit_code == 2
    assert "--damaged is for a SQLite file" in told.output
