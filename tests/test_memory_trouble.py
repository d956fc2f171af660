"""A router whose SQLite file is in trouble: turns go on as configured, and it comes back by itself."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from files import asides, child, content, nudge, read_only, says
from house import BODY, LADDER, House

from turnout import MemoryTrouble, Router, SqliteMemory, TurnBroken, TurnFailed
from turnout.engine.context import Identity
from turnout.engine.testing import ScriptedTransport, refusal

REFUSED = [refusal("capability", "image")] * 1000
"""Target `a` refuses each turn that asks it; so each session that is remembered asks it once."""
PATIENT_MS = 10_000


class Trouble:
    """A house on a file that already remembers a hundred sessions."""

    def __init__(self, file: Path, **arguments: Any) -> None:
        self.file = file
        self._arguments = {"memory_timeout_ms": PATIENT_MS, **arguments}
        self.play(self._fill)

    async def _fill(self, router: Router) -> None:
        await asyncio.gather(*[router.turn(BODY, session=f"old{number}") for number in range(100)])

    def play(self, story: Callable[[Router], Coroutine[Any, Any, Any]]) -> None:
        self.memory = SqliteMemory(self.file)
        self.house = House({"a": list(REFUSED)}, memory=self.memory, **self._arguments)
        self.house.play(story)

    async def calm(self) -> None:
        """Whatever was begun in the background has ended."""
        await self.house.clock.sleep(20)

    async def asks(self, router: Router, session: str) -> list[str]:
        """Whom the next turn asks, and that the memory has nothing to complain of."""
        reply = await router.turn(BODY, session=session)
        assert reply.record.notes == ()
        return [probe.target for probe in reply.record.probes]


def is_well(router: Router) -> bool:
    health = router.memory.health
    return (health.state, health.queued, health.dropped, health.trouble) == ("well", 0, 0, "")


async def breaks(router: Router, session: str) -> bool:
    """Whether the next turn ends for the memory's trouble alone."""
    try:
        await router.turn(BODY, session=session)
    except TurnFailed as failed:
        if isinstance(failed.error, TurnBroken) and isinstance(failed.error.__cause__, MemoryTrouble):
            return True
        raise
    return False


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "evictions.db"


# -- damaged


def overwrite(file: Path) -> None:
    file.write_bytes(b"\x5a" * file.stat().st_size)


def halve(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


DAMAGE = pytest.mark.parametrize("damage", [overwrite, halve])


@DAMAGE
def test_a_file_that_is_damaged_while_turns_go_on_is_set_aside_and_the_next_turns_are_remembered(
    file: Path, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    trouble = Trouble(file)

    async def story(router: Router) -> None:
        assert await trouble.asks(router, "old0") == ["b"]
        await trouble.calm()
        damage(file)
        damaged = content(file)
        met = [await router.turn(BODY, session=f"old{number}") for number in range(99, 50, -1)]
        assert {reply.served_by for reply in met} == {"b"}
        (note,) = {note for reply in met for note in reply.record.notes if "it is set aside" in note}
        assert note.endswith("it is set aside, and a new one begins")
        await trouble.calm()
        assert is_well(router)
        (aside,) = asides(file)
        assert content(aside) == damaged
        assert len([line for line in caplog.messages if str(file) in line and str(aside) in line]) == 1
        assert await trouble.asks(router, "new") == ["a", "b"]
        assert await trouble.asks(router, "new") == ["b"]

    trouble.play(story)


@DAMAGE
def test_under_raise_the_turn_that_meets_the_damage_is_broken_and_the_next_is_not(
    file: Path, damage: Callable[[Path], None]
) -> None:
    trouble = Trouble(file, on_memory_error="raise")

    async def story(router: Router) -> None:
        assert await trouble.asks(router, "old0") == ["b"]
        await trouble.calm()
        damage(file)
        ended = [await breaks(router, f"old{number}") for number in range(99, 50, -1)]
        assert ended.count(True) == 1  # which of them meets it is SQLite's affair
        assert len(asides(file)) == 1
        await trouble.calm()
        assert await trouble.asks(router, "new") == ["a", "b"]
        assert await trouble.asks(router, "new") == ["b"]
        assert is_well(router)

    trouble.play(story)


def test_a_file_that_is_none_of_turnouts_is_left_and_every_turn_says_so_until_it_is_gone(file: Path) -> None:
    file.write_bytes(b"a diary, and none of your business\n" * 100)
    before = content(file)
    house = House({"a": list(REFUSED)}, memory=SqliteMemory(file), memory_timeout_ms=PATIENT_MS)

    async def story(router: Router) -> None:
        for session in ("s1", "s2"):
            reply = await router.turn(BODY, session=session)
            assert reply.served_by == "b"
            assert "file is not a database; give another path" in reply.record.notes[0]
        health = router.memory.health
        assert (health.state, health.queued) == ("away", 2)
        assert "not a database" in health.trouble
        assert content(file) == before
        file.rename(file.with_name("diary"))  # noqa: ASYNC240
        await house.clock.sleep(20)
        assert is_well(router)
        for session in ("s1", "s2"):
            await router.turn(BODY, session=session)

    house.play(story)
    assert house.asked == [["a", "b"]] * 2 + [["b"]] * 2


# -- full, or read-only


def test_a_full_file_is_read_on_and_takes_what_was_kept_once_there_is_room(file: Path) -> None:
    trouble = Trouble(file)

    async def story(router: Router) -> None:
        trouble.memory._pragmas["max_page_count"] = 1  # no more than it has
        sessions = []
        while len(sessions) < 900 and router.memory.health.state == "well":
            sessions.append(f"new{len(sessions)}")
            reply = await router.turn(BODY, session=sessions[-1])
            assert reply.served_by == "b"
        assert "database or disk is full; make room" in reply.record.notes[0]
        assert "make room" in router.memory.health.trouble
        assert router.memory.health.queued == 1
        for session in ("old0", "old99", *sessions):  # nothing that was readable is lost
            again = await router.turn(BODY, session=session)
            assert [probe.target for probe in again.record.probes] == ["b"]
        del trouble.memory._pragmas["max_page_count"]
        await trouble.calm()
        assert is_well(router)

    trouble.play(story)

    async def later(router: Router) -> None:
        assert await trouble.asks(router, "old0") == ["b"]
        assert await trouble.asks(router, "new0") == ["b"]

    trouble.play(later)
    assert asides(file) == []


@pytest.mark.parametrize("on_memory_error", ["serve", "raise"])
def test_a_file_that_may_not_be_written_is_trouble_until_it_may(on_memory_error: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "evictions.db"
        trouble = Trouble(file, on_memory_error=on_memory_error)

        async def story(router: Router) -> None:
            with read_only(file.parent):
                if on_memory_error == "raise":
                    assert await breaks(router, "new")
                else:
                    reply = await router.turn(BODY, session="new")
                    assert reply.served_by == "b"
                    assert "see that the file and its directory can be" in reply.record.notes[0]
                assert router.memory.health.state == "away"
            await trouble.calm()
            assert await trouble.asks(router, "old0") == ["b"]
            assert await trouble.asks(router, "new") == (["b"] if on_memory_error == "serve" else ["a", "b"])
            assert is_well(router)
            assert asides(file) == []

        trouble.play(story)


# -- locked, over real time

LOCKING = """
import sqlite3, sys
other = sqlite3.connect(sys.argv[1], isolation_level=None)
other.execute("BEGIN IMMEDIATE")
print("ready", flush=True)
sys.stdin.readline()
other.execute("COMMIT")
print("released", flush=True)
"""
TURNS = 20


@pytest.mark.parametrize("on_memory_error", ["serve", "raise"])
def test_while_another_process_holds_the_lock_turns_go_on_and_what_they_learn_is_written_afterwards(
    file: Path, on_memory_error: Any
) -> None:
    transport = ScriptedTransport({"a": list(REFUSED)})
    sessions = [f"s{number}" for number in range(TURNS)]

    async def turn(router: Router, session: str) -> None:
        if on_memory_error == "raise":
            assert await breaks(router, session)
        else:
            reply = await router.turn(BODY, session=session)
            assert reply.served_by == "b"
            assert "no answer within 100 ms" in reply.record.notes[0]

    async def well_again(router: Router) -> None:
        """Turns go on, and one of them finds that the memory is back."""
        ended = False
        while not (ended and is_well(router)):
            ended = not await breaks(router, "before")
            await asyncio.sleep(0)

    async def story() -> None:
        async with Router(
            ladder=LADDER,
            memory=SqliteMemory(file),
            transport=transport,
            memory_timeout_ms=100,
            on_memory_error=on_memory_error,
        ) as router:
            await well_again(router)
            # it is this loop that has the lock released: were it blocked, nobody would
            with child(file, script=LOCKING) as process:
                for session in sessions:
                    await turn(router, session)
                assert router.memory.health.state == "away"
                assert router.memory.health.queued >= (TURNS if on_memory_error == "serve" else 1)
                nudge(process)
                assert says(process) == "released"
            await well_again(router)
            reply = await router.turn(BODY, session="before")
            assert reply.record.notes == ()

    async def look() -> None:
        memory = SqliteMemory(file)
        for session in sessions if on_memory_error == "serve" else sessions[:1]:
            assert await memory.read(Identity("", session), now=0.0)
        await memory.close()

    asyncio.run(asyncio.wait_for(story(), 60))
    asyncio.run(look())
