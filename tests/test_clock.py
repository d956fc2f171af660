"""Virtual time: a long story in no time, in the order in which it would have happened."""

from __future__ import annotations

import asyncio
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from turnout.engine.clock import Standstill, SystemClock, VirtualClock


def test_whoever_sleeps_shorter_wakes_first_and_time_is_exact() -> None:
    clock = VirtualClock()
    woken = []

    async def sleeper(secs: float) -> None:
        await clock.sleep(secs)
        woken.append((secs, clock.monotonic()))

    async def story() -> None:
        await asyncio.gather(sleeper(86_400 * 3), sleeper(0.25), sleeper(60))

    clock.run(story())
    assert woken == [(0.25, 0.25), (60, 60), (86_400 * 3, 86_400 * 3)]


@pytest.mark.parametrize("years", [1, 100])
def test_after_years_a_second_is_still_a_second(years: int) -> None:
    clock = VirtualClock()

    async def story() -> float:
        await clock.sleep(years * 31_536_000)
        before = clock.monotonic()
        await clock.sleep(1)
        return clock.monotonic() - before

    assert clock.run(story()) == pytest.approx(1, abs=0.001)


def test_the_time_of_day_goes_on_with_what_was_slept() -> None:
    clock = VirtualClock(epoch=1000.0)
    clock.run(clock.sleep(5))
    assert (clock.now(), clock.monotonic()) == (1005.0, 5.0)
    clock.advance(1)
    assert (clock.now(), clock.monotonic()) == (1006.0, 6.0)


def test_a_bound_passes_when_it_is_due() -> None:
    clock = VirtualClock()

    async def story() -> None:
        async with clock.timeout(30):
            await asyncio.get_running_loop().create_future()

    with pytest.raises(TimeoutError):
        clock.run(story())
    assert clock.monotonic() == pytest.approx(30)


def test_what_is_done_before_its_bound_takes_only_its_own_time() -> None:
    clock = VirtualClock()

    async def story() -> str:
        async with clock.timeout(30):
            await clock.sleep(2)
        async with clock.timeout(None):
            await clock.sleep(100)
        return "done"

    assert clock.run(story()) == "done"
    assert clock.monotonic() == pytest.approx(102)


def test_time_stands_still_while_a_thread_works() -> None:
    clock = VirtualClock()
    may_end = threading.Event()

    async def story() -> float:
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1) as pool:
            working = loop.run_in_executor(pool, may_end.wait)
            timer = asyncio.create_task(clock.sleep(10))
            # only once the timer is all that the loop has left to wait for does the thread end
            threading.Timer(0.02, may_end.set).start()
            async with clock.timeout(5):
                await working
            seen = clock.monotonic()
            await timer
        return seen

    assert clock.run(story()) == 0.0
    assert clock.monotonic() == pytest.approx(10)


def test_time_stands_still_while_something_is_on_its_way_through_a_socket() -> None:
    clock = VirtualClock()
    ours, theirs = socket.socketpair()

    async def story() -> tuple[bytes, float]:
        reader, writer = await asyncio.open_connection(sock=ours)
        on_its_way = True
        with clock.hold(lambda: on_its_way):
            timer = asyncio.create_task(clock.sleep(10))
            # only once the timer is all that the loop has left to wait for does it arrive
            threading.Timer(0.02, theirs.send, [b"at last"]).start()
            async with clock.timeout(5):
                came = await reader.read(100)
            seen, on_its_way = clock.monotonic(), False
            await timer
        writer.close()
        return came, seen

    with theirs:
        assert clock.run(story()) == (b"at last", 0.0)
    assert clock.monotonic() == pytest.approx(10)


def test_what_held_the_time_holds_it_no_longer_once_it_has_ended() -> None:
    clock = VirtualClock()
    with clock.hold(lambda: True):
        assert clock.held
    assert not clock.held
    clock.run(clock.sleep(10))
    assert clock.monotonic() == pytest.approx(10)


def test_a_story_in_which_nothing_can_happen_any_more_says_so() -> None:
    clock = VirtualClock()

    async def story() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Standstill, match="no timer will bring"):
        clock.run(story())
    assert clock.monotonic() == 0.0


def test_the_clock_on_the_wall_keeps_the_same_promises() -> None:
    clock = SystemClock()

    async def story() -> None:
        began = clock.monotonic()
        await clock.sleep(0)
        assert clock.monotonic() >= began
        assert clock.now() > 1_700_000_000
        with pytest.raises(TimeoutError):
            async with clock.timeout(0):
                await asyncio.get_running_loop().create_future()

    asyncio.run(story())
