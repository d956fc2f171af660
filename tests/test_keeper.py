"""A memory that comes and goes: nobody waits for it, and nothing is lost."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import ssl
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

import pytest
from house import BODY, House
from hypothesis import given, settings
from hypothesis import strategies as st
from memories import LARGE, NOW, SMALL, WHO, overflow, refusal

from turnout import InMemory, MemoryHealth, MemoryRefusal, MemoryTrouble, Router, TurnFailed
from turnout.engine.clock import VirtualClock
from turnout.engine.context import EMPTY, Eviction, Identity, SessionContext
from turnout.engine.memory import keeper as keeping
from turnout.engine.memory.keeper import Keeper
from turnout.engine.memory.operations import BringBack, Forget, Operation, Record, Remove, Restore, Strip
from turnout.engine.memory.protocol import Change, Swept
from turnout.engine.testing import ok
from turnout.engine.testing import refusal as refused

OTHER = Identity("", "s2")


class Away(InMemory):
    """A memory that can be away: it fails at once, or it does not answer."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.away = False
        self.silent = False
        self.damaged: Identity | None = None
        self.raises: BaseException | None = None
        self.answers_after = 0.0
        """Seconds from what is read to the answer."""
        self.asked = 0

    async def _answer(self) -> None:
        self.asked += 1
        if self.silent:
            await asyncio.sleep(1e6)
        if self.away:
            raise ConnectionError("nobody there")
        if self.raises is not None:
            raise self.raises

    async def read(self, identity: Identity, *, now: float) -> SessionContext:
        await self._answer()
        if identity == self.damaged:
            raise MemoryRefusal("memory: could not read: a row is damaged")
        context = await super().read(identity, now=now)
        await asyncio.sleep(self.answers_after)
        return context

    async def record(self, identity: Identity, eviction: Eviction) -> tuple[Change, ...]:
        await self._answer()
        if eviction.size == 2**70:
            raise OverflowError("too large to keep")
        return await super().record(identity, eviction)

    async def remove(self, *args: Any, **named: Any) -> tuple[Change, ...]:
        await self._answer()
        if args[0] == self.damaged:
            raise MemoryRefusal("memory: could not remove: a row is damaged")
        return await super().remove(*args, **named)

    async def forget(self, *args: Any, **named: Any) -> tuple[Change, ...]:
        await self._answer()
        return await super().forget(*args, **named)

    async def restore_everywhere(self, *args: Any, **named: Any) -> None:
        await self._answer()
        await super().restore_everywhere(*args, **named)

    def really(self, identity: Identity = WHO) -> SessionContext:
        """What the store holds, away or not."""
        return asyncio.run(InMemory.read(self, identity, now=NOW))


Story = Callable[[Keeper, Away, VirtualClock], Coroutine[Any, Any, None]]


def told(story: Story, *, timeout_ms: float = 100, **options: Any) -> tuple[Away, list[Change]]:
    changes: list[Change] = []
    clock, memory = VirtualClock(NOW), Away()

    async def tale() -> None:
        keeper = Keeper(memory, clock, timeout_ms=timeout_ms, on_change=changes.append, **options)
        try:
            await story(keeper, memory, clock)
        finally:
            await keeper.close()

    clock.run(tale())
    return memory, changes


async def vainly(keeper: Keeper, *operations: Operation) -> None:
    for operation in operations:
        with pytest.raises(MemoryTrouble):
            await keeper.do(operation)


def test_what_could_not_be_written_is_written_when_the_store_is_back() -> None:
    async def story(keeper: Keeper, memory: Away, clock: VirtualClock) -> None:
        memory.away = True
        await vainly(keeper, Record(WHO, overflow(9000)), Record(WHO, refusal("image", target=LARGE)))
        assert keeper.health.state == "away"
        assert keeper.health.queued == 2
        assert "nobody there" in keeper.health.trouble
        memory.away = False
        await clock.sleep(10)
        assert keeper.health.queued == 0
        assert keeper.health.state == "well"
        assert keeper.health.since > NOW

    memory, _ = told(story)
    assert {e.target for e in memory.really().evictions} == {SMALL, LARGE}


def test_all_that_was_kept_is_written_at_once_when_the_store_is_back() -> None:
    async def story(keeper: Keeper, memory: Away, clock: VirtualClock) -> None:
        memory.away = True
        whose = [Identity("", f"s{number}") for number in range(200)]
        await vainly(keeper, *[Record(who, overflow(9000)) for who in whose])
        memory.away = False
        await clock.sleep(keeping.LONGEST_WAIT)
        assert keeper.health.queued == 0

    told(story)


def test_while_the_store_is_away_a_process_goes_by_what_it_knows() -> None:
    async def story(keeper: Keeper, memory: Away, clock: VirtualClock) -> None:
        await keeper.do(Record(WHO, overflow(9000)))
        memory.away = True
        await vainly(keeper, Record(WHO, refusal("image", target=LARGE)))
        with pytest.raises(MemoryTrouble):
            await keeper.read(WHO)
        assert {e.target for e in keeper.known(WHO).evictions} == {SMALL, LARGE}
        await vainly(keeper, Forget("", WHO.session, None, NOW + 1))
        assert keeper.known(WHO) == EMPTY

    memory, _ = told(story)
    assert memory.really() != EMPTY, "the router was closed with the store away"


def test_a_session_that_was_forgotten_while_the_store_was_away_does_not_come_back() -> None:
    async def story(keeper: Keeper, memory: Away, clock: VirtualClock) -> None:
        memory.away = True
        await vainly(keeper, Record(WHO, overflow(9000)), Forget("", WHO.session, None, clock.now()))
        await memory_of_another_process(memory, Record(WHO, refusal("image", turn="t9", at=NOW + 5)))
        memory.away = False
        await clock.sleep(10)

    memory, changes = told(story)
    (eviction,) = memory.really().evictions
    assert eviction.latest_turn == "t9", "what another process has recorded since then stands"
    assert [change.why for change in changes] == ["forgotten"]


async def memory_of_another_process(memory: Away, operation: Record) -> None:
    await InMemory.record(memory, operation.identity, operation.eviction)


def test_reading_shows_what_waits_to_be_written() -> None:
    async def story(keeper: Keeper, memory: Away, clock: VirtualClock) -> None:
        memory.away = True
        await vainly(keeper, Record(WHO, overflow(9000)))
        memory.away = False
        assert {e.target for e in (await keeper.read(WHO)).evictions} == {SMALL}

    told(story)


def test_reading_shows_what_is_written_while_the_answer_is_on_its_way() -> None:
    async def story(keeper: Keeper, memory: Away, clock: VirtualClock) -> None:
        memory.away = True
        await vainly(keeper, Record(WHO, overflow(9000)))
        memory.away = False
        memory.answers_after = 1.0
        context = await keeper.read(WHO)
        assert keeper.health.queued == 0
        assert {e.target for e in context.evictions} == {SMALL}
        assert keeper.known(WHO) == context

    told(story, timeout_ms=10_000)


def test_a_store_that_does_not_answer_costs_a_tenth_of_the_time_at_most() -> None:
    async def story(keeper: Keeper, memory: Away, clock: VirtualClock) -> None:
        memory.silent = True
        began, waited = clock.monotonic(), 0.0
        while clock.monotonic() < began + 10:
            asked = clock.monotonic()
            with pytest.raises(MemoryTrouble):
                await keeper.read(WHO)
            waited += clock.monotonic() - asked
            await clock.sleep(0.01)
        assert 0.5 < waited < 1.01
        memory.silent = False
        await clock.sleep(1)
        await keeper.read(WHO)
        assert keeper.health.state == "well"

    told(story)


def test_the_queue_is_bounded_and_says_what_it_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "MOST_QUEUED", 3)

    async def story(keeper: Keeper, memory: Away, clock: VirtualClock) -> None:
        memory.away = True
        await vainly(keeper, *(Record(Identity("", f"s{n}"), overflow(9000)) for n in range(5)))
        assert (keeper.health.queued, keeper.health.dropped) == (3, 2)
        memory.away = False
        await clock.sleep(10)

    memory, _ = told(story)
    assert [bool(memory.really(Identity("", f"s{n}"))) for n in range(5)] == [False, False, True, True, True]


def test_what_no_store_can_hold_is_dropped_and_holds_up_nothing() -> None:
    async def story(keeper: Keeper, memory: Away, clock: VirtualClock) -> None:
        await vainly(keeper, Record(WHO, overflow(2**70)))
        assert keeper.health == MemoryHealth("well", NOW, 0, 1)
        await keeper.do(Record(WHO, refusal("image")))
        memory.away = True
        await vainly(keeper, Record(WHO, overflow(2**70, target=LARGE)), Record(WHO, refusal("audio")))
        memory.away = False
        await clock.sleep(10)
        assert (keeper.health.queued, keeper.health.dropped) == (0, 2)

    memory, _ = told(story)
    (eviction,) = memory.really().evictions
    assert eviction.refused == {("image",), ("audio",)}


def test_one_damaged_entry_is_no_trouble_of_the_whole_store() -> None:
    """Each turn of that session hears of it, and no other one."""

    async def story(keeper: Keeper, memory: Away, clock: VirtualClock) -> None:
        memory.damaged = WHO
        with pytest.raises(MemoryRefusal, match="a row is damaged"):
            await keeper.read(WHO)
        assert keeper.health.state == "well"
        memory.away = True
        await vainly(keeper, Remove(WHO, [overflow(9000)], NOW, "served"), Record(OTHER, overflow(9000)))
        memory.away = False
        await clock.sleep(10)
        assert keeper.health == MemoryHealth("well", NOW + 0.25, 0, 1)
        assert await keeper.read(OTHER)

    told(story)


def test_what_a_store_does_too_late_to_be_waited_for_is_told_all_the_same() -> None:
    """The change was made, and the answer was on its way: asked again, the store would find nothing to do."""

    class Late(InMemory):
        async def forget(self, *args: Any, **named: Any) -> tuple[Change, ...]:
            changes = await super().forget(*args, **named)
            await asyncio.sleep(3)
            return changes

    changes: list[Change] = []
    clock = VirtualClock(NOW)

    async def tale() -> None:
        keeper = Keeper(Late(), clock, on_change=changes.append)
        await keeper.do(Record(WHO, overflow(9000)))
        await vainly(keeper, Forget("", "s1", None, NOW))
        assert (keeper.health.queued, changes) == (1, [])
        await clock.sleep(10)
        assert keeper.health == MemoryHealth("well", pytest.approx(NOW + 3, abs=0.2), 0, 0)
        await keeper.close()

    clock.run(tale())
    assert [change.why for change in changes] == ["forgotten"]


def test_a_store_that_swallows_its_cancellation_is_left_at_its_bound() -> None:
    class Stubborn(InMemory):
        async def record(self, *args: Any, **named: Any) -> tuple[Change, ...]:
            for _ in range(3):
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(1)
            return await super().record(*args, **named)

    clock = VirtualClock(NOW)

    async def tale() -> None:
        keeper = Keeper(Stubborn(), clock)
        await vainly(keeper, Record(WHO, overflow(9000)))
        assert clock.now() == pytest.approx(NOW + 0.1)
        await clock.sleep(10)
        assert (keeper.health.state, keeper.health.queued) == ("well", 0)
        await keeper.close()

    clock.run(tale())


@pytest.mark.parametrize(
    "error", [json.JSONDecodeError("no JSON", "<html>", 0), ssl.SSLCertVerificationError("expired")]
)
def test_what_a_store_raises_of_itself_is_not_taken_for_a_refusal(error: Exception) -> None:
    """Both are ValueErrors as well."""

    async def story(keeper: Keeper, memory: Away, clock: VirtualClock) -> None:
        memory.raises = error
        await vainly(keeper, Record(WHO, overflow(9000)))
        assert (keeper.health.state, keeper.health.queued, keeper.health.dropped) == ("away", 1, 0)
        memory.raises = None
        await clock.sleep(10)

    memory, _ = told(story)
    assert memory.really()


class Panic(BaseException):
    """What a library in another language raises when it fails."""


@pytest.mark.parametrize("error", [Panic("at the store"), asyncio.CancelledError(), StopAsyncIteration()])
def test_whatever_a_store_raises_what_was_to_be_written_is_written_later(error: BaseException) -> None:
    async def story(keeper: Keeper, memory: Away, clock: VirtualClock) -> None:
        memory.raises = error
        await vainly(keeper, Record(WHO, overflow(9000)))
        await clock.sleep(1)
        memory.raises = None
        await clock.sleep(10)
        assert keeper.health.state == "well"

    memory, _ = told(story)
    assert memory.really()


def test_if_all_tasks_are_cancelled_the_next_call_goes_on_with_the_queue() -> None:
    async def story(keeper: Keeper, memory: Away, clock: VirtualClock) -> None:
        memory.away = True
        await vainly(keeper, Record(WHO, overflow(9000)))
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        memory.away = False
        await clock.sleep(10)
        assert keeper.health.queued == 1
        await keeper.read(OTHER)
        await clock.sleep(10)
        assert keeper.health.queued == 0

    told(story)


def test_an_on_change_that_raises_anything_is_logged_and_the_queue_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def raising(change: Change) -> None:
        raise asyncio.CancelledError

    clock, memory = VirtualClock(NOW), Away()

    async def tale() -> None:
        keeper = Keeper(memory, clock, on_change=raising)
        await keeper.do(Record(WHO, overflow(9000)))
        memory.away = True
        await vainly(keeper, Forget("", "s1", None, NOW), Record(OTHER, overflow(9000)))
        memory.away = False
        await clock.sleep(10)
        assert keeper.health.queued == 0
        await keeper.close()

    clock.run(tale())
    assert "on_change raised" in caplog.text


def test_what_is_known_never_goes_back_behind_what_was_done_during_a_read() -> None:
    async def story(keeper: Keeper, memory: Away, clock: VirtualClock) -> None:
        await keeper.do(Record(WHO, refusal("image", target=LARGE)))
        memory.answers_after = 0.05
        reading = asyncio.create_task(keeper.read(WHO))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        await keeper.do(Record(WHO, overflow(9000)))
        assert len((await reading).evictions) == 2
        assert {e.target for e in keeper.known(WHO).evictions} == {SMALL, LARGE}

    told(story)


def test_a_store_with_time_limits_of_its_own_cancels_nobody() -> None:
    """What it does is a task of its own: a limit that it meets there is its own affair."""

    class Limited(InMemory):
        async def record(self, *args: Any, **named: Any) -> tuple[Change, ...]:
            async with asyncio.timeout(0.05 if self.quick else 0.5):
                await asyncio.sleep(3600)
            return ()

        quick = True

    clock, memory = VirtualClock(NOW), Limited()

    async def tale() -> None:
        keeper = Keeper(memory, clock)
        for memory.quick in (True, False):
            await vainly(keeper, Record(WHO, overflow(9000)))
            await clock.sleep(2)  # the work of its caller goes on
        keeper._queue.clear()
        await keeper.close()

    clock.run(tale())


def test_what_is_about_one_session_is_done_in_the_order_in_which_it_was_asked_for() -> None:
    """Whichever of them the store is quicker with, and whether it fails or not."""

    class Slow(Away):
        async def record(self, *args: Any, **named: Any) -> tuple[Change, ...]:
            await asyncio.sleep(0.05)
            return await super().record(*args, **named)

    for away in (False, True):
        clock, memory = VirtualClock(NOW), Slow()

        async def tale(memory: Slow = memory, clock: VirtualClock = clock, away: bool = away) -> None:
            keeper = Keeper(memory, clock)
            memory.away = away
            recording = asyncio.create_task(keeper.do(Record(WHO, overflow(9000))))  # type: ignore[arg-type]
            elsewhere = asyncio.create_task(keeper.do(Forget("", "s9", None, NOW)))  # type: ignore[arg-type]
            await clock.sleep(0.01)
            forgetting = asyncio.create_task(keeper.do(Forget("", "s1", None, NOW + 1)))  # type: ignore[arg-type]
            assert not recording.done()
            assert elsewhere.done(), "another session does not wait"
            await asyncio.wait([recording, forgetting, elsewhere])
            memory.away = False
            await clock.sleep(20)
            assert not await keeper.read(WHO)
            await asyncio.gather(recording, forgetting, elsewhere, return_exceptions=True)
            await keeper.close()

        clock.run(tale())
        assert not memory.really()


def test_a_read_during_a_recording_knows_of_it() -> None:
    class Slow(InMemory):
        async def record(self, *args: Any, **named: Any) -> tuple[Change, ...]:
            await asyncio.sleep(0.05)
            return await super().record(*args, **named)

    clock, memory = VirtualClock(NOW), Slow()

    async def tale() -> None:
        keeper = Keeper(memory, clock)
        recording = asyncio.create_task(keeper.do(Record(WHO, overflow(9000))))  # type: ignore[arg-type]
        await clock.sleep(0.01)
        assert (await keeper.peek(WHO)).evictions == (await keeper.read(WHO)).evictions == (overflow(9000),)
        await recording
        assert keeper.known(WHO).evictions == (overflow(9000),)
        await keeper.close()

    clock.run(tale())


@pytest.mark.parametrize("bound", [0.1, 5.0])
def test_an_answer_that_comes_just_as_its_time_is_up_is_heard_once(bound: float) -> None:
    class Exact(InMemory):
        async def forget(self, *args: Any, **named: Any) -> tuple[Change, ...]:
            changes = await super().forget(*args, **named)
            await asyncio.sleep(bound)
            return changes

    changes: list[Change] = []
    clock = VirtualClock(NOW)

    async def tale() -> None:
        keeper = Keeper(Exact(), clock, on_change=changes.append)
        await keeper.do(Record(WHO, overflow(9000)))
        with suppress(MemoryTrouble):
            await keeper.do(Forget("", "s1", None, NOW))
        await clock.sleep(60)
        assert (keeper.health.state, keeper.health.queued) == ("well", 0)
        await keeper.close()

    clock.run(tale())
    assert [change.why for change in changes] == ["forgotten"]


def test_refused_keys_are_known_while_the_store_is_away_and_take_one_place_in_the_queue() -> None:
    strip = Strip("", SMALL, "f1", "c1", frozenset({"effort"}), NOW)

    async def story(keeper: Keeper, memory: Away, clock: VirtualClock) -> None:
        memory.away = True
        await vainly(keeper, Record(WHO, overflow(9000)), strip)
        for later in range(5):
            await vainly(keeper, dataclasses.replace(strip, at=NOW + later))
        assert keeper.health.queued == 2
        assert keeper.known_stripped(*strip.which) == {"effort"}
        memory.away = False
        assert await keeper.stripped(*strip.which) == {"effort"}
        await clock.sleep(10)
        assert keeper.health.queued == 0
        assert await memory.stripped(*strip.which, now=NOW) == {"effort"}

    told(story)


def test_a_sweep_that_hangs_is_not_the_last_one() -> None:
    class Hanging(InMemory):
        swept = 0

        async def sweep(self, namespace: str, *, now: float, most: int = 1000) -> Swept:
            self.swept += 1
            await asyncio.sleep(1e9)
            raise AssertionError

    clock, memory = VirtualClock(NOW), Hanging()

    async def tale() -> None:
        keeper = Keeper(memory, clock)
        for _ in range(10):
            await keeper.read(WHO)
            await clock.sleep(100)
        await keeper.close()

    clock.run(tale())
    assert memory.swept > 3


def test_a_store_that_is_there_and_refuses_one_entry_is_well() -> None:
    async def story(keeper: Keeper, memory: Away, clock: VirtualClock) -> None:
        memory.damaged = WHO
        memory.away = True
        with pytest.raises(MemoryTrouble):
            await keeper.read(WHO)
        memory.away = False
        await clock.sleep(10)
        assert keeper.health.state == "well"

    told(story)


def test_the_queue_is_written_while_turns_go_on() -> None:
    """A long queue and a store that answers at once: nobody has to wait for all of it."""

    async def story(keeper: Keeper, memory: Away, clock: VirtualClock) -> None:
        memory.away = True
        await vainly(keeper, *(Record(Identity("", f"s{n}"), overflow(9000)) for n in range(300)))
        memory.away = False
        await keeper.read(OTHER)  # which shows that it is back
        left = []
        while keeper.health.queued:
            left.append(keeper.health.queued)
            await asyncio.sleep(0)
        assert len(set(left)) > 100

    told(story)


def test_a_process_without_turns_finds_out_by_itself_that_the_store_is_back() -> None:
    async def story(keeper: Keeper, memory: Away, clock: VirtualClock) -> None:
        memory.away = True
        with pytest.raises(MemoryTrouble):
            await keeper.read(WHO)
        memory.away = False
        await clock.sleep(keeping.LONGEST_WAIT)
        assert keeper.health.state == "well"

    told(story)


def test_reads_that_succeed_do_not_make_every_write_be_tried_again() -> None:
    """A store that is read-only: the queue keeps its pace."""

    class ReadOnly(Away):
        async def record(self, *args: Any, **named: Any) -> tuple[Change, ...]:
            self.asked += 1
            raise ConnectionError("read-only")

    clock, memory = VirtualClock(NOW), ReadOnly()

    async def tale() -> None:
        keeper = Keeper(memory, clock)
        await vainly(keeper, Record(WHO, overflow(9000)))
        for _ in range(200):
            await keeper.read(OTHER)
            await clock.sleep(0.01)
        assert memory.asked - 200 < 12
        keeper._queue.clear()
        await keeper.close()

    clock.run(tale())


def test_a_session_that_is_restored_while_the_store_is_away_is_restored_when_it_is_back() -> None:
    async def story(keeper: Keeper, memory: Away, clock: VirtualClock) -> None:
        await keeper.do(Record(WHO, overflow(9000)))
        await keeper.do(Record(WHO, refusal("image", target=LARGE)))
        memory.away = True
        await vainly(keeper, BringBack(WHO, SMALL, NOW))
        assert {e.target for e in keeper.known(WHO).evictions} == {LARGE}
        memory.away = False
        await clock.sleep(10)

    memory, changes = told(story)
    assert {e.target for e in memory.really().evictions} == {LARGE}
    assert [(change.eviction.target, change.why) for change in changes] == [(SMALL, "restored")]


def test_a_restoration_for_all_that_is_done_late_leaves_what_others_have_recorded_since() -> None:
    async def story(keeper: Keeper, memory: Away, clock: VirtualClock) -> None:
        await keeper.do(Record(WHO, overflow(9000)))
        memory.away = True
        await clock.sleep(1)
        await vainly(keeper, Restore("", SMALL, "f1", clock.now()))
        assert not keeper.known(WHO)
        await clock.sleep(1)
        late = overflow(8000, turn="t2", at=clock.now())
        await InMemory.record(memory, OTHER, late)  # another process, which reaches it
        memory.away = False
        await clock.sleep(10)
        assert await keeper.read(WHO) == EMPTY
        assert (await keeper.read(OTHER)).evictions == (late,)

    told(story)


def test_a_caller_who_leaves_while_an_eviction_is_written_takes_nothing_along() -> None:
    async def story(keeper: Keeper, memory: Away, clock: VirtualClock) -> None:
        memory.silent = True
        recording = asyncio.create_task(keeper.do(Record(WHO, overflow(9000))))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        recording.cancel()
        await asyncio.wait([recording])
        memory.silent = False
        await clock.sleep(10)
        assert keeper.health.queued == 0

    memory, _ = told(story)
    assert {e.target for e in memory.really().evictions} == {SMALL}


def test_closing_writes_what_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    async def back(keeper: Keeper, memory: Away, clock: VirtualClock) -> None:
        memory.away = True
        await vainly(keeper, Record(WHO, overflow(9000)))
        memory.away = False

    memory, _ = told(back)
    assert memory.really() != EMPTY

    async def gone(keeper: Keeper, memory: Away, clock: VirtualClock) -> None:
        memory.away = True
        await vainly(keeper, Record(WHO, overflow(9000)))

    told(gone)
    assert "1 changes that were kept are lost with the router" in caplog.text


def test_sweeps_go_on_beside_the_turns_and_what_they_remove_is_told() -> None:
    steps: list[float] = []

    class Sweeping(Away):
        async def sweep(self, namespace: str, *, now: float, most: int = 1000) -> Swept:
            steps.append(now - NOW)
            gone = (Change(now, WHO, overflow(9000), "expired"),) if len(steps) == 1 else ()
            return Swept(gone, more=len(steps) % 2 == 1)

    changes: list[Change] = []
    clock = VirtualClock(NOW)

    async def tale() -> None:
        keeper = Keeper(Sweeping(), clock, on_change=changes.append)
        for _ in range(3):
            await keeper.read(WHO)
            await clock.sleep(50)
        await keeper.close()

    clock.run(tale())
    assert steps == [0, 0, 100, 100]
    assert [change.why for change in changes] == ["expired"]


def test_the_step_that_a_sweep_is_at_when_the_router_closes_is_told() -> None:
    class Slow(InMemory):
        async def sweep(self, namespace: str, *, now: float, most: int = 1000) -> Swept:
            await asyncio.sleep(takes)
            return Swept((Change(now, WHO, overflow(9000), "expired"),), more=True)

    changes: list[Change] = []
    clock = VirtualClock(NOW)

    async def tale() -> None:
        keeper = Keeper(Slow(), clock, timeout_ms=100, on_change=changes.append)
        await keeper.read(WHO)
        await asyncio.sleep(0)  # it begins
        await keeper.close()

    takes = 0.05
    clock.run(tale())
    assert len(changes) == 1
    takes = 3600  # nobody waits for it longer than for anything else
    clock.run(tale())
    assert (len(changes), clock.monotonic()) == (1, pytest.approx(0.15))


# -- the same, seen from a router


def test_a_turn_is_served_while_the_store_is_away_and_its_record_says_so() -> None:
    memory = Away()
    house = House({"a": [refused("capability", "image"), ok()]}, memory=memory)

    async def story(router: Router) -> None:
        memory.away = True
        for _ in range(3):
            await router.turn(BODY, session="s1")
        assert router.memory.health.state == "away"
        memory.away = False
        await asyncio.sleep(10)
        assert router.memory.health.state == "well"
        await router.turn(BODY, session="s1")

    house.play(story)
    assert house.asked == [["a", "b"], ["b"], ["b"], ["b"]], "probed once, whatever the store did"
    assert [bool(record.notes) for record in house.records] == [True, True, True, False]


def test_under_raise_the_turn_is_broken_and_its_eviction_is_kept_all_the_same() -> None:
    memory = Away()
    house = House({"a": [refused("capability", "image")]}, memory=memory, on_memory_error="raise")

    async def story(router: Router) -> None:
        memory.record_only = True
        memory.away = False
        original, memory._answer = memory._answer, _failing  # type: ignore[method-assign]
        memory.read = lambda identity, now: InMemory.read(memory, identity, now=now)  # type: ignore[method-assign]
        with pytest.raises(TurnFailed, match="nobody there"):
            await router.turn(BODY, session="s1")
        memory._answer = original  # type: ignore[method-assign]
        await asyncio.sleep(10)
        await router.turn(BODY, session="s1")

    house.play(story)
    assert house.asked == [["a"], ["b"]]


async def _failing() -> None:
    raise ConnectionError("nobody there")


# -- whatever happens in whatever order

SESSIONS = st.sampled_from(["s1", "s2"])
AGENTS = st.sampled_from(["", "x"])


@st.composite
def happenings(draw: st.DrawFn) -> list[tuple[str, Any]]:
    """Operations at growing times, and a store that goes and comes back."""
    said: list[tuple[str, Any]] = []
    for step in range(draw(st.integers(1, 25))):
        at = NOW + step
        who = Identity("", draw(SESSIONS), draw(AGENTS))
        kind = draw(
            st.sampled_from(["record", "record", "remove", "forget", "restore", "away", "back", "wait"])
        )
        target = draw(st.sampled_from([SMALL, LARGE]))
        if kind == "record":
            said.append((kind, Record(who, overflow(9000 - step, turn=f"t{step}", at=at, target=target))))
        elif kind == "remove":
            said.append((kind, (who, at)))
        elif kind == "forget":
            said.append((kind, Forget("", who.session, draw(st.sampled_from([None, who.agent])), at)))
        elif kind == "restore":
            said.append((kind, Restore("", target, "f1", at)))
        else:
            said.append((kind, None))
    return said


@settings(deadline=None)
@given(happenings())
def test_outages_change_nothing_of_what_is_remembered_in_the_end(said: Sequence[tuple[str, Any]]) -> None:
    undisturbed = InMemory()

    async def story(keeper: Keeper, memory: Away, clock: VirtualClock) -> None:
        for kind, what in said:
            if kind in ("away", "back"):
                memory.away = kind == "away"
            elif kind == "wait":
                await clock.sleep(3)
            else:
                if kind == "remove":
                    who, at = what
                    what = Remove(who, (await undisturbed.read(who, now=at)).evictions, at, "served")
                with suppress(MemoryTrouble):  # it is kept
                    await keeper.do(what)
                await what.on(undisturbed)
        memory.away = False
        await clock.sleep(60)
        assert keeper.health.state == "well"
        for session in ("s1", "s2"):
            for agent in ("", "x"):
                who = Identity("", session, agent)
                assert await keeper.read(who) == await undisturbed.read(who, now=clock.now())

    told(story)
