"""How long a turn takes, to the millisecond: waits, bounds and the deadline, on the virtual clock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from email.utils import formatdate
from typing import Any

import httpx
import pytest
from house import LADDER, House
from streams import DONE, HANG, ROLE, STOP, Played, Step, Told, chunk, streamed

from turnout import AuditRecord, Target, TurnFailed
from turnout.engine.clock import VirtualClock
from turnout.engine.targets import BOUNDS
from turnout.engine.testing import (
    Data,
    Hang,
    Head,
    Pause,
    Scripted,
    ScriptedTransport,
    in_json,
    ok,
    refusal,
)
from turnout.engine.testing import Step as Doing
from turnout.engine.upstream import CONNECTING

DOWN = refusal("unavailable")
EPOCH = VirtualClock().now()


def a_house(*script: Scripted, route: Mapping[str, Any] | None = None, **client: Any) -> House:
    """A first target that answers by the script, with these keys, and a second one that is well."""
    first = Target("a", **{"base_url": "http://upstream.example", **client})
    return House({"a": [*script]}, ladder=(first, LADDER[1]), **(route or {}))


def played(house: House) -> AuditRecord:
    """The record of one turn, however it ended."""
    with suppress(TurnFailed):
        house.turn()
    return house.records[-1]


def waits(record: AuditRecord) -> list[float]:
    """What was waited before each attempt at the first target."""
    return [round(attempt.waited, 3) for attempt in record.probes[0].attempts]


def durations(record: AuditRecord) -> list[float]:
    return [round(attempt.duration, 3) for attempt in record.probes[0].attempts]


def slow_down(**headers: str) -> Scripted:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return in_json(429, {"error": {"message": "Slow down."}}, headers=named)


# -- waits


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 529])
def test_back_off_doubles_from_a_quarter_second_to_two_seconds(status: int) -> None:
    house = a_house(in_json(status, {}), max_retries=6)
    record = played(house)
    assert waits(record) == [0, 0.25, 0.5, 1, 2, 2, 2]
    assert record.took == pytest.approx(7.75)
    assert record.served_by == "b"


def test_chance_adds_up_to_a_quarter_to_each_back_off_and_to_nothing_else() -> None:
    chances = iter([1.0, 0.5, 0.0])
    script = [DOWN, DOWN, slow_down(retry_after="1"), DOWN, ok()]
    house = a_house(*script, max_retries=4, route={"jitter": lambda: next(chances)})
    record = played(house)
    waited = [attempt.waited for attempt in record.probes[0].attempts]
    assert waited == [0, 0.25 * 1.25, 0.5 * 1.125, 1, 2]
    assert next(chances, None) is None


DATE = formatdate(EPOCH + 3, usegmt=True)
ASKED = {
    "seconds": ({"retry_after": "7"}, 7),
    "a part of a second": ({"retry_after": "1.5"}, 1.5),
    "none": ({"retry_after": "0"}, 0),
    "milliseconds": ({"retry_after_ms": "1500"}, 1.5),
    "both": ({"retry_after_ms": "1500", "retry_after": "7"}, 1.5),
    "milliseconds that nobody can read": ({"retry_after_ms": "soon", "retry_after": "7"}, 7),
    "a date": ({"retry_after": DATE}, 3),
    "a date that has passed": ({"retry_after": formatdate(EPOCH - 3, usegmt=True)}, 0.25),
    "a word": ({"retry_after": "soon"}, 0.25),
    "less than nothing": ({"retry_after": "-1"}, 0.25),
    "no number": ({"retry_after": "nan"}, 0.25),
    "for ever": ({"retry_after": "inf"}, 0.25),
    "as long as the cap": ({"retry_after": "60"}, 60),
}


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("asked", ASKED)
def test_a_wait_that_is_asked_for_is_kept_and_what_cannot_be_read_is_ignored(asked: str, status: int) -> None:
    headers, wait = ASKED[asked]
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    house = a_house(in_json(status, {}, headers=named), ok(), max_retries=1)
    record = played(house)
    assert record.served_by == "a"
    assert waits(record) == [0, wait]
    assert round(record.took, 3) == wait


def test_a_date_is_read_against_the_clock_as_it_goes() -> None:
    house = a_house(DOWN, slow_down(retry_after=DATE), ok(), max_retries=2)
    assert waits(played(house)) == [0, 0.25, 2.75]


@pytest.mark.parametrize(
    ("headers", "client"),
    [
        ({"retry_after": "60.001"}, {}),
        ({"retry_after_ms": "60001"}, {}),
        ({"retry_after": formatdate(EPOCH + 61, usegmt=True)}, {}),
        ({"retry_after": "3"}, {"max_retry_after_secs": 2.5}),
        ({"retry_after": "0.001"}, {"max_retry_after_secs": 0}),
    ],
    ids=["seconds", "milliseconds", "a date", "a lower cap", "no wait at all"],
)
def test_a_wait_above_the_cap_is_not_slept(headers: dict[str, str], client: dict[str, Any]) -> None:
    record = played(a_house(slow_down(**headers), max_retries=3, **client))
    assert waits(record) == [0]
    assert (record.probes[0].reason, record.served_by, record.took) == ("unavailable", "b", 0)


@pytest.mark.parametrize(("wait", "slept"), [("4.999", True), ("5", False), ("5.001", False), ("59", False)])
def test_no_wait_is_slept_that_the_deadline_cannot_pay_for(wait: str, slept: bool) -> None:
    house = a_house(slow_down(retry_after=wait), ok(), max_retries=3, route={"deadline_secs": 5})
    record = played(house)
    assert record.served_by == ("a" if slept else "b")
    assert round(record.took, 3) == (4.999 if slept else 0)
    assert record.probes[0].reason == (None if slept else "unavailable")


def test_nor_a_back_off() -> None:
    house = a_house(refusal("unavailable", after=4.8), max_retries=3, route={"deadline_secs": 5})
    record = played(house)
    assert (waits(record), record.served_by, round(record.took, 3)) == ([0], "b", 4.8)


def test_an_attempt_after_a_wait_has_what_the_wait_left_it() -> None:
    house = a_house(slow_down(retry_after="4.999"), Hang(), max_retries=3, route={"deadline_secs": 5})
    record = played(house)
    assert (record.ended_by, round(record.took, 3)) == ("expired", 5)
    assert (waits(record), durations(record)) == ([0, 4.999], [0, 0.001])
    assert record.probes[0].verdict is None


# -- bounds of an attempt


class Dripping:
    """A whole answer, each of its parts some seconds after the one before."""

    def __init__(self, secs: float, parts: int) -> None:
        self._secs = secs
        self._parts = parts

    def steps(self, format: Any, stream: bool) -> Iterator[Doing]:
        head, body = (step for step in ok().steps(format, stream) if isinstance(step, Head | Data))
        yield head
        assert isinstance(body, Data)
        size = -(-len(body.content) // self._parts)
        for at in range(0, len(body.content), size):
            yield Pause(self._secs)
            yield Data(body.content[at : at + size])


@pytest.mark.parametrize(
    ("script", "client", "took", "served_by"),
    [
        (ok(after=600), {}, 600, "b"),
        (ok(after=599.999), {}, 599.999, "a"),
        (Hang(), {"timeout_secs": 5}, 5, "b"),
        (ok(after=4.999), {"timeout_secs": 5}, 4.999, "a"),
        (Dripping(2, 2), {"timeout_secs": 5}, 4, "a"),
        (Dripping(2, 3), {"timeout_secs": 5}, 5, "b"),
        (Dripping(2, 3), {"first_output_timeout_secs": 1, "idle_timeout_secs": 1}, 6, "a"),
    ],
    ids=[
        "ten minutes by default",
        "just within them",
        "silent",
        "just in time",
        "to the last byte, in time",
        "to the last byte, late",
        "a stream's bounds are no turn's",
    ],
)
def test_an_attempt_is_left_at_its_bound_and_the_next_target_asked(
    script: Scripted, client: dict[str, Any], took: float, served_by: str
) -> None:
    record = played(a_house(script, max_retries=2, **client))
    assert (round(record.took, 3), record.served_by) == (took, served_by)
    assert waits(record) == [0]


def test_with_retry_timeouts_it_is_tried_again_like_any_other() -> None:
    record = played(a_house(Hang(), timeout_secs=5, max_retries=2, retry_timeouts=True))
    assert (waits(record), durations(record)) == ([0, 0.25, 0.5], [5, 5, 5])
    assert round(record.took, 3) == 15.75
    assert record.served_by == "b"


def a_stream(*steps: Step, route: dict[str, Any] | None = None, **client: Any) -> Told:
    well = Played([ROLE, chunk("hello"), STOP, DONE])
    return streamed({"a": [Played(steps)], "b": [well]}, route=route, **client)


def test_so_is_one_without_output_but_none_that_fell_silent_after_some() -> None:
    told = a_stream(ROLE, HANG, first_output_timeout_secs=5, max_retries=1, retry_timeouts=True)
    assert (told.attempts, told.took) == (["a", "a", "b"], 10.25)
    told = a_stream(ROLE, HANG, idle_timeout_secs=3, max_retries=1, retry_timeouts=True)
    assert (told.attempts, told.took) == (["a", "a", "b"], 6.25)
    told = a_stream(chunk("x"), HANG, idle_timeout_secs=3, max_retries=1, retry_timeouts=True)
    assert (told.attempts, told.took) == (["a"], 3)


@pytest.mark.parametrize(
    "bounds",
    [
        {"timeout_secs": 30},
        {"first_output_timeout_secs": 30},
        {"idle_timeout_secs": 30},
        {"timeout_secs": 4, "idle_timeout_secs": 4, "first_output_timeout_secs": 4},
    ],
    ids=["whole", "first output", "idle", "all at once with it"],
)
def test_where_the_deadline_comes_first_it_ends_the_turn_without_a_verdict(bounds: dict[str, float]) -> None:
    told = a_stream(ROLE, HANG, route={"deadline_secs": 4}, retry_timeouts=True, **bounds)
    assert (told.attempts, told.took, told.record.ended_by) == (["a"], 4, "expired")
    assert told.record.probes[0].verdict is None
    assert [(left.target, str(left.why)) for left in told.record.not_tried] == [("b", "deadline")]


def test_the_deadline_spans_attempts_waits_and_targets() -> None:
    script: dict[str, list[Scripted]] = {"a": [refusal("unavailable", after=2), Hang()], "b": [Hang()]}
    ladder = tuple(
        Target(name, base_url="http://upstream.example", timeout_secs=3, max_retries=1) for name in "abc"
    )
    record = played(House(script, ladder=ladder, deadline_secs=6))
    assert (record.ended_by, round(record.took, 3)) == ("expired", 6)
    assert (waits(record), durations(record)) == ([0, 0.25], [2, 3])
    cut = record.probes[1]
    assert (cut.verdict, [round(attempt.duration, 3) for attempt in cut.attempts]) == (None, [0.75])
    assert [(left.target, str(left.why)) for left in record.not_tried] == [("c", "deadline")]


# -- connections


class SlowToConnect(httpx.AsyncBaseTransport):
    """Answers on connections that take so many seconds to be made, one for each attempt in turn."""

    def __init__(self, clock: VirtualClock, *secs: float) -> None:
        self._clock = clock
        self._secs = iter(secs)
        self._well = ScriptedTransport(clock=clock)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.extensions["trace"](CONNECTING, {})
        await self._clock.sleep(next(self._secs, 0))
        return await self._well.handle_async_request(request)


def connecting(*secs: float, route: Mapping[str, Any] | None = None, **client: Any) -> AuditRecord:
    house = a_house(route=route, **client)
    house.transport = SlowToConnect(house.clock, *secs)
    return played(house)


def test_a_connection_that_does_not_come_about_is_a_broken_one_and_costs_a_retry() -> None:
    record = connecting(99, 9.999, max_retries=1)
    assert record.served_by == "a"
    assert (waits(record), durations(record)) == ([0, 0.25], [10, 9.999])
    assert record.took == pytest.approx(20.249)
    (failed, _) = record.probes[0].attempts
    assert not failed.possibly_billed
    assert (str(failed.kind), failed.status) == ("unavailable", None)


@pytest.mark.parametrize(
    ("bounds", "took"),
    [
        ({}, 10),
        ({"connect_timeout_secs": 2}, 2),
        ({"connect_timeout_secs": None, "timeout_secs": 30}, 30),
        ({"connect_timeout_secs": 7, "timeout_secs": 3}, 3),
    ],
    ids=["ten seconds by default", "less", "none of its own", "the whole attempt has less"],
)
def test_how_long_a_connection_is_waited_for(bounds: dict[str, Any], took: float) -> None:
    record = connecting(99, max_retries=0, **bounds)
    assert (record.served_by, round(record.took, 3)) == ("b", took)


def test_the_deadline_cuts_that_too() -> None:
    record = connecting(99, route={"deadline_secs": 4})
    assert (record.ended_by, record.took, record.probes[0].verdict) == ("expired", 4, None)


# -- what is no bound


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), 1e9], ids=str)
def test_a_bound_that_cannot_be_used_is_none_and_never_raises(
    value: float, caplog: pytest.LogCaptureFixture
) -> None:
    bounds: dict[str, Any] = dict.fromkeys(BOUNDS, value)
    long = 10_000.0
    assert connecting(long, **bounds).took == long
    assert played(a_house(ok(after=long), route={"deadline_secs": value}, **bounds)).took == long
    caplog.clear()
    told = a_stream(long, ROLE, long, chunk("x"), long, STOP, route={"deadline_secs": value}, **bounds)
    assert (told.record.state, told.took) == ("served", 3 * long)
    said = [message for message in caplog.messages if "target a:" in message or "route" in message]
    assert sorted(said) == sorted(set(said))
    assert all(any(name in message for message in said) for name in (*bounds, "deadline_secs"))
