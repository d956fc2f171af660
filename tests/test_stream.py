"""Streams: when one commits, what is held back before, and how it may end after."""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recordings import RECORDINGS, VARIANTS
from streams import (
    BODY,
    DONE,
    END,
    HANG,
    RESET,
    ROLE,
    SSE,
    STOP,
    Played,
    Step,
    Told,
    chunk,
    data,
    streamed,
    with_stream,
)

from turnout import ConfigurationError, InMemory, InvalidBody, Router, RouterMisused, Target, TurnFailed
from turnout.engine.audit import AttemptRecord
from turnout.engine.clock import VirtualClock
from turnout.engine.errors import DeadlineExceeded, StreamInterrupted

PING = b": x\n\n"
OK = Played([ROLE, chunk("a "), chunk("cat"), *END])
OVERFLOW = {
    "error": {
        "code": "context_length_exceeded",
        "message": "This model's maximum context length is 8192 tokens.",
    }
}
OVERLOADED = {
    "error": {"type": "server_error", "message": "The server is overloaded, please try again later."}
}
UNKNOWN = {
    "error": {"code": "unsupported_parameter", "param": "seed", "message": "Unsupported parameter: seed"}
}


def refused(status: int, error: object) -> Played:
    return Played([json.dumps(error).encode()], status, {"content-type": "application/json"})


def attempts(record: Any, probe: int = 0) -> tuple[AttemptRecord, ...]:
    found: tuple[AttemptRecord, ...] = record.probes[probe].attempts
    return found


# -- a stream that is served


def test_a_stream_comes_as_it_was_sent_byte_for_byte() -> None:
    sent = [b": hello\n\n", ROLE, chunk("a "), b": still there\r\n\r\n", chunk("cat"), *END]
    told = streamed({"a": [Played(sent)]})
    assert told.raw == b"".join(sent)
    assert [event.content for event in told.events] == [False, False, True, False, True, False, False]
    assert told.failure is None
    assert told.record.state == "served"
    assert told.transport.bodies[0]["stream"] is True


def test_an_event_is_given_with_what_it_says() -> None:
    told = streamed({"a": [OK]})
    event = told.events[1]
    assert event.body["choices"][0]["delta"] == {"content": "a "}
    assert json.loads(event.data) == event.body
    assert told.events[-1].data == "[DONE]"
    assert told.events[-1].body is None


def test_the_record_tells_what_was_streamed() -> None:
    usage = data({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}})
    told = streamed({"a": [Played([2.0, ROLE, 1.0, chunk("hi"), 4.0, STOP, usage, DONE])]})
    (attempt,) = attempts(told.record)
    assert told.record.usage == {"prompt_tokens": 5, "completion_tokens": 2}
    assert attempt.status == 200
    assert attempt.duration == pytest.approx(7)
    assert attempt.bytes == len(told.raw)
    assert attempt.stream is not None
    assert attempt.stream.committed == pytest.approx(3)
    assert (attempt.stream.events, attempt.stream.content_events) == (5, 1)
    assert attempt.stream.interrupted == ""
    assert not attempt.possibly_billed
    assert told.record.probes[0].committed


def test_the_turn_is_served_at_the_finish_marker_whatever_the_upstream_does_then() -> None:
    async def reading(router: Router, clock: VirtualClock) -> None:
        async with router.stream(BODY) as stream:
            async for event in stream:
                if event.data == "[DONE]":
                    break

    for after in ([HANG], [RESET], [b"garbage"], [3600.0]):
        records, _ = with_stream({"a": [Played([chunk("x"), *END, *after])]}, reading)
        assert records[0].state == "served"
        assert records[0].took == 0


def test_a_stream_without_a_done_that_told_its_finish_reason_is_complete() -> None:
    told = streamed({"a": [Played([chunk("x"), STOP])]})
    assert told.record.state == "served"


def test_an_empty_answer_that_ends_is_an_answer_and_nothing_of_it_is_lost() -> None:
    told = streamed({"a": [Played([ROLE, *END])], "b": [OK]})
    assert told.record.served_by == "a"
    assert told.raw == ROLE + STOP + DONE
    assert attempts(told.record)[0].stream is not None


def test_the_target_that_answers_is_known_as_soon_as_the_stream_is_entered() -> None:
    async def reading(router: Router, clock: VirtualClock) -> None:
        stream = router.stream(BODY)
        assert stream.served_by is None
        async with stream:
            assert stream.served_by == "b"
            assert stream.record is None

    with_stream({"a": [refused(503, OVERLOADED)], "b": [OK]}, reading, max_retries=0)


# -- before the first content


@pytest.mark.parametrize(
    ("failing", "reason"),
    [
        (Played([data(OVERFLOW)]), "context_window"),
        (Played([b": hi\n\n", ROLE, data(OVERFLOW)]), "context_window"),
        (Played([b"event: error\n" + data(OVERLOADED)]), "unavailable"),
        (Played([ROLE, RESET]), "unavailable"),
        (Played([ROLE]), "unavailable"),
        (Played([b": keep-alive\n\n", b": keep-alive\n\n"]), "unavailable"),
        (Played([]), "unavailable"),
        (refused(400, OVERFLOW), "context_window"),
        (refused(503, OVERLOADED), "unavailable"),
        (refused(200, OVERFLOW), "context_window"),
        (Played([json.dumps(OVERFLOW).encode()]), "context_window"),
        (Played([b"<html>Bad gateway</html>"]), "unavailable"),
        (
            refused(200, {"choices": [{"message": {"role": "assistant", "content": "at once"}}]}),
            "unavailable",
        ),
        (Played([chunk("x")], 200, {**SSE, "content-encoding": "br"}), "unavailable"),
        (Played([chunk("x")], 200, {**SSE, "content-encoding": "gzip"}), "unavailable"),
    ],
    ids=range(15),
)
def test_whatever_fails_before_content_leads_on_and_one_start_is_seen(failing: Played, reason: str) -> None:
    told = streamed({"a": [failing], "b": [OK]}, max_retries=0)
    assert [probe.reason for probe in told.record.probes] == [reason, None]
    assert told.record.served_by == "b"
    assert told.raw == b"".join(step for step in OK.steps if isinstance(step, bytes))


def test_an_error_in_a_stream_evicts_as_one_with_a_status_does() -> None:
    async def reading(router: Router, clock: VirtualClock) -> None:
        for _ in range(3):
            async with router.stream(BODY, session="s") as stream:
                assert [event.data async for event in stream][-1] == "[DONE]"

    _, transport = with_stream({"a": [Played([ROLE, data(OVERFLOW)])], "b": [OK]}, reading)
    assert [model for model, _ in transport.asked] == ["a", "b", "b", "b"]


def test_a_stream_that_is_cut_before_content_is_retried_like_any_broken_connection() -> None:
    told = streamed({"a": [Played([ROLE, RESET]), Played([ROLE]), OK], "b": [OK]}, max_retries=2)
    assert told.attempts == ["a", "a", "a"]
    assert told.record.served_by == "a"
    assert [a.possibly_billed for a in attempts(told.record)] == [True, True, False]


def test_where_no_target_comes_to_content_entering_raises_and_nothing_was_sent() -> None:
    told = streamed({"a": [refused(503, OVERLOADED)], "b": [Played([ROLE, data(OVERLOADED)])]}, max_retries=0)
    assert told.events == []
    assert told.failure is not None
    assert told.failure.surface.status == 503
    assert not isinstance(told.failure.error, StreamInterrupted)


def test_the_preamble_is_bounded() -> None:
    flood = Played([ROLE] * 5000)
    told = streamed({"a": [flood], "b": [OK]}, max_retries=2)
    assert told.attempts == ["a", "b"]
    assert "no output within 262144 bytes" in told.record.probes[0].attempts[0].message
    endless = Played([b": keep-alive " + b"x" * 10_000 + b"\n\n"] * 5000)
    assert streamed({"a": [endless], "b": [OK]}).attempts == ["a", "b"]


def test_a_large_first_content_is_no_preamble() -> None:
    large = chunk("x" * 400_000)
    pieces: list[Step] = [large[at : at + 10_000] for at in range(0, len(large), 10_000)]
    assert streamed({"a": [Played([*pieces, *END])]}).raw == large + STOP + DONE


def test_an_event_that_never_ends_is_bounded() -> None:
    told = streamed({"a": [Played([b"data: " + b"x" * 1_000_000] * 9)], "b": [OK]})
    assert told.attempts == ["a", "b"]
    told = streamed({"a": [Played([chunk("x"), *[b"data: " + b"x" * 1_000_000] * 9])], "b": [OK]})
    assert told.attempts == ["a"]
    assert told.failure is not None
    assert "8388608 bytes" in str(told.failure)


def test_an_injected_key_is_taken_out_of_a_stream_as_well_and_never_after_content() -> None:
    first = {"a": [refused(400, UNKNOWN), OK]}
    told = streamed(first, extra_body={"seed": 1})
    assert [body.get("seed") for body in told.transport.bodies] == [1, None]
    assert told.record.state == "served"
    told = streamed({"a": [Played([chunk("x"), data(UNKNOWN)])]}, extra_body={"seed": 1})
    assert told.attempts == ["a"]
    assert told.failure is not None


def test_a_packed_stream_is_unpacked_and_a_bomb_is_met_in_pieces() -> None:
    packed = {**SSE, "content-encoding": "gzip"}
    told = streamed({"a": [Played([gzip.compress(ROLE + chunk("x") + STOP + DONE)], 200, packed)]})
    assert told.raw == ROLE + chunk("x") + STOP + DONE
    bomb = gzip.compress(b": " + b"x" * 50_000_000 + b"\n\n")
    told = streamed({"a": [Played([bomb], 200, packed)], "b": [OK]})
    assert told.attempts == ["a", "b"]


# -- after the first content

INTERRUPTIONS: list[tuple[str, list[Step], str]] = [
    ("reset", [RESET], "transport"),
    ("end", [], "unfinished"),
    ("error event", [b"event: error\n" + data(OVERLOADED)], ""),
    ("error", [data(OVERFLOW)], ""),
    ("refusal of an injected key", [data(UNKNOWN)], ""),
]


@pytest.mark.parametrize(
    ("steps", "rule"), [row[1:] for row in INTERRUPTIONS], ids=[r[0] for r in INTERRUPTIONS]
)
def test_after_content_nothing_falls_back_and_a_break_is_never_a_success(
    steps: list[Step], rule: str
) -> None:
    told = streamed({"a": [Played([ROLE, chunk("a "), chunk("cat"), *steps])], "b": [OK]}, max_retries=2)
    assert told.attempts == ["a"]
    assert told.raw == ROLE + chunk("a ") + chunk("cat")
    assert told.failure is not None
    assert isinstance(told.failure.error, StreamInterrupted)
    record = told.record
    assert record.state == "failed"
    assert [step.trigger for step in record.steps] == ["probed", "rejected"]
    assert record.standings_after == ()
    assert {left.target: str(left.why) for left in record.not_tried} == {"b": "surfaced"}
    (attempt,) = attempts(record)
    assert attempt.stream is not None
    assert (attempt.stream.events, attempt.stream.content_events) == (3, 2)
    assert attempt.stream.interrupted
    assert attempt.stream.interrupted == (rule or attempt.stream.interrupted)


def test_an_overflow_after_content_evicts_nothing() -> None:
    async def reading(router: Router, clock: VirtualClock) -> None:
        for _ in range(2):
            with suppress(TurnFailed):
                async with router.stream(BODY, session="s") as stream:
                    async for _event in stream:
                        pass

    _, transport = with_stream({"a": [Played([chunk("x"), data(OVERFLOW)])], "b": [OK]}, reading)
    assert [model for model, _ in transport.asked] == ["a", "a"]


def test_an_error_in_the_same_piece_as_content_comes_after_the_content() -> None:
    told = streamed({"a": [Played([ROLE + chunk("x") + data(OVERLOADED)])], "b": [OK]})
    assert told.raw == ROLE + chunk("x")
    assert told.failure is not None


# -- time


@pytest.mark.parametrize(
    ("steps", "bounds", "took", "rule"),
    [
        ([HANG], {"first_output_timeout_secs": 5}, 5, "first_output_timeout"),
        ([ROLE, HANG], {"first_output_timeout_secs": 5}, 5, "first_output_timeout"),
        (
            [PING, 4.0, PING, 4.0, PING, HANG],
            {"first_output_timeout_secs": 5},
            5,
            "first_output_timeout",
        ),
        ([ROLE, HANG], {"idle_timeout_secs": 3}, 3, "idle_timeout"),
        ([2.0, ROLE, 2.0, PING, 2.0, PING, HANG], {"idle_timeout_secs": 3}, 9, "idle_timeout"),
        ([HANG], {"timeout_secs": 7}, 7, "timeout"),
        ([HANG], {"timeout_secs": 7, "first_output_timeout_secs": 9}, 7, "timeout"),
        ([ROLE, HANG], {"timeout_secs": 7, "idle_timeout_secs": 9}, 7, "timeout"),
        ([HANG], {"idle_timeout_secs": 3, "timeout_secs": 7}, 7, "timeout"),
    ],
    ids=range(9),
)
def test_a_stream_that_is_too_slow_before_content_leads_on(
    steps: list[Step], bounds: dict[str, float], took: float, rule: str
) -> None:
    told = streamed({"a": [Played(steps)], "b": [OK]}, **bounds)
    assert told.attempts == ["a", "b"]
    assert told.took == took
    (attempt,) = attempts(told.record)
    assert attempt.evidence is not None
    assert attempt.evidence.rule == rule
    assert attempt.possibly_billed


@pytest.mark.parametrize(
    ("steps", "bounds", "took", "rule"),
    [
        ([chunk("x"), HANG], {"idle_timeout_secs": 3}, 3, "idle_timeout"),
        ([chunk("x"), 2.0, PING, 2.0, chunk("y"), HANG], {"idle_timeout_secs": 3}, 7, "idle_timeout"),
        ([chunk("x"), 6.0, chunk("y"), HANG], {"timeout_secs": 7}, 7, "timeout"),
        ([4.0, chunk("x"), 100.0, *END], {"first_output_timeout_secs": 5}, 104, None),
    ],
    ids=range(4),
)
def test_a_stream_that_is_too_slow_after_content_is_interrupted(
    steps: list[Step], bounds: dict[str, float], took: float, rule: str | None
) -> None:
    told = streamed({"a": [Played(steps)], "b": [OK]}, **bounds)
    assert told.attempts == ["a"]
    assert told.took == took
    (attempt,) = attempts(told.record)
    assert attempt.stream is not None
    assert attempt.stream.interrupted == (rule or "")
    if told.failure is not None:
        assert told.failure.surface.status == 504


def test_the_callers_own_slowness_is_not_the_upstreams_silence() -> None:
    async def reading(router: Router, clock: VirtualClock) -> None:
        async with router.stream(BODY) as stream:
            async for _ in stream:
                await clock.sleep(60)

    records, _ = with_stream({"a": [OK]}, reading, idle_timeout_secs=3)
    assert records[0].state == "served"


@pytest.mark.parametrize(
    "steps", [[HANG], [ROLE, HANG], [chunk("x"), HANG], [chunk("x"), 4.0, chunk("y"), HANG]], ids=range(4)
)
def test_the_deadline_bounds_a_stream_to_its_last_byte(steps: list[Step]) -> None:
    told = streamed({"a": [Played(steps)], "b": [OK]}, route={"deadline_secs": 5}, idle_timeout_secs=5)
    assert told.took == 5
    assert told.attempts == ["a"]
    assert told.failure is not None
    assert isinstance(told.failure.error, DeadlineExceeded)
    assert told.record.ended_by == "expired"
    assert {left.target: str(left.why) for left in told.record.not_tried} == {"b": "deadline"}
    (probe,) = told.record.probes
    assert probe.verdict is None


def test_the_deadline_ends_a_stream_that_its_caller_does_not_read() -> None:
    seen: list[Any] = []

    async def reading(router: Router, clock: VirtualClock) -> None:
        async with router.stream(BODY) as stream:
            await anext(stream)
            await clock.sleep(100)
            seen.append((stream.record and stream.record.ended_by, stream.record and stream.record.took))
            with pytest.raises(TurnFailed, match="deadline of 5 s"):
                async for _ in stream:
                    pass

    records, _ = with_stream({"a": [Played([chunk("x"), 10.0, *END])]}, reading, route={"deadline_secs": 5})
    assert seen == [("expired", 5.0)]
    assert len(records) == 1


# -- callers who leave


async def _break(router: Router, clock: VirtualClock) -> None:
    async with router.stream(BODY, session="s") as stream:
        async for _ in stream:
            break


async def _raise(router: Router, clock: VirtualClock) -> None:
    with suppress(ZeroDivisionError):
        async with router.stream(BODY, session="s") as stream:
            async for _ in stream:
                raise ZeroDivisionError


async def _never_read(router: Router, clock: VirtualClock) -> None:
    async with router.stream(BODY, session="s"):
        pass


async def _cancelled(router: Router, clock: VirtualClock) -> None:
    async def read() -> None:
        async with router.stream(BODY, session="s") as stream:
            async for _ in stream:
                pass

    task = asyncio.create_task(read())
    await clock.sleep(1)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


async def _dropped(router: Router, clock: VirtualClock) -> None:
    async def read() -> None:
        stream = router.stream(BODY, session="s")
        await stream.__aenter__()
        await anext(stream)

    await read()
    gc.collect()
    await clock.sleep(1)


@pytest.mark.parametrize("leaving", [_break, _raise, _never_read, _cancelled, _dropped])
def test_a_caller_who_stops_reading_cancels_the_turn_and_closes_the_connection(leaving: Any) -> None:
    script = {"a": [Played([ROLE, chunk("x"), HANG])], "b": [OK]}
    records, transport = with_stream(script, leaving)
    (record,) = records
    assert record.ended_by == "cancelled"
    assert [model for model, _ in transport.asked] == ["a"]
    (attempt,) = attempts(record)
    assert attempt.stream is not None
    assert attempt.stream.interrupted == "cancelled"
    assert attempt.possibly_billed
    assert record.standings_after == ()


def test_a_caller_who_leaves_before_content_is_no_outcome_of_a_target() -> None:
    async def reading(router: Router, clock: VirtualClock) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(2), router.stream(BODY, session="s"):
                raise AssertionError("it never commits")

    records, transport = with_stream({"a": [Played([ROLE, HANG])], "b": [OK]}, reading)
    assert records[0].ended_by == "cancelled"
    assert [model for model, _ in transport.asked] == ["a"]
    assert records[0].probes[0].verdict is None
    assert not records[0].probes[0].committed


def test_a_caller_who_has_read_all_of_it_may_leave_as_he_likes() -> None:
    async def reading(router: Router, clock: VirtualClock) -> None:
        stream = router.stream(BODY)
        async with stream:
            async for event in stream:
                if event.data == "[DONE]":
                    break
        await stream.close()
        assert [event async for event in stream] == []

    records, _ = with_stream({"a": [OK]}, reading)
    assert [record.state for record in records] == ["served"]


def test_a_stream_that_was_never_entered_asked_nobody() -> None:
    async def reading(router: Router, clock: VirtualClock) -> None:
        stream = router.stream(BODY)
        with pytest.raises(RouterMisused, match="enter a stream"):
            await anext(stream)
        await stream.close()

    records, transport = with_stream({"a": [OK]}, reading)
    assert (records, transport.asked) == ([], [])


def test_a_stream_is_one_turn_and_has_one_reader() -> None:
    async def reading(router: Router, clock: VirtualClock) -> None:
        async with router.stream(BODY) as stream:
            with pytest.raises(RouterMisused, match="entered before"):
                await stream.__aenter__()
            await anext(stream)
            reader = asyncio.create_task(_next(stream))
            await clock.sleep(0.1)
            with pytest.raises(RouterMisused, match="another task"):
                await anext(stream)
            with pytest.raises(RouterMisused, match="another task"):
                await stream.close()
            await reader

    with_stream({"a": [Played([chunk("x"), 1.0, chunk("y"), *END])]}, reading)


async def _next(stream: AsyncIterator[Any]) -> Any:
    return await anext(stream)


def test_closing_the_router_waits_for_a_stream_in_flight() -> None:
    order: list[str] = []

    async def reading(router: Router, clock: VirtualClock) -> None:
        async with router.stream(BODY) as stream:
            closing = asyncio.create_task(router.close())
            closing.add_done_callback(lambda _: order.append("closed"))
            order.extend(["event" async for _ in stream])
        await closing
        with pytest.raises(RouterMisused, match="closed"):
            async with router.stream(BODY):
                pass

    records, _ = with_stream({"a": [Played([chunk("x"), 1.0, chunk("y"), 1.0, STOP])]}, reading)
    assert sorted(order) == ["closed", "event", "event", "event"]
    assert records[0].state == "served"


def test_an_on_record_that_fails_or_a_bug_below_ends_the_stream_as_broken() -> None:
    told = streamed({"a": [Played([chunk("x"), RuntimeError("a bug")])], "b": [OK]})
    assert told.record.ended_by == "broken"
    assert told.failure is not None
    assert "a bug" in str(told.failure)
    assert told.raw == chunk("x")


# -- what is no request for a stream


def test_turn_sends_a_body_that_asks_for_a_stream_to_stream() -> None:
    async def story() -> None:
        async with Router(ladder=[Target("a", base_url="https://a.test")], memory=InMemory()) as router:
            with pytest.raises(InvalidBody, match=r"use stream\(\)"):
                await router.turn({**BODY, "stream": True})
            with pytest.raises(InvalidBody, match="no JSON"):
                router.stream({"messages": object()})

    asyncio.run(story())


def test_a_service_that_makes_its_own_calls_has_no_stream() -> None:
    async def call(target: Target, request: Any, /, *, timeout: float | None) -> dict[str, Any]:
        return {}

    async def story() -> None:
        async with Router(ladder=[Target("a")], memory=InMemory(), call=call) as router:
            with pytest.raises(ConfigurationError, match=r"use turn\(\)"):
                router.stream(BODY)

    asyncio.run(story())


def test_a_slow_reader_slows_the_upstream() -> None:
    """Over real sockets: a reader who takes nothing keeps the upstream from sending megabytes."""
    written: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n" + chunk("x")
        )
        sent = 0
        with suppress(ConnectionError):
            while sent < 200_000_000:
                writer.write(chunk("y" * 100_000))
                sent += 100_000
                written.append(sent)
                await writer.drain()
        writer.close()

    async def story() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        router = Router(ladder=[Target("a", base_url=url)], memory=InMemory())
        async with server, router, router.stream(BODY) as stream:
            await anext(stream)
            before = -1
            while before != len(written):  # until the upstream can write no more
                before = len(written)
                for _ in range(200):
                    await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(story(), 60))
    assert 0 < written[-1] < 50_000_000


def test_a_request_that_failed_in_the_middle_of_a_head_is_no_stream() -> None:
    told = streamed(
        {"a": [Played([httpx.RemoteProtocolError("peer closed connection")])], "b": [OK]}, max_retries=0
    )
    assert told.record.served_by == "b"


# -- however it is cut


def heard(format: str, *pieces: bytes) -> Told:
    """What is told of a stream that comes in these pieces."""
    steps: list[Step] = [piece for piece in pieces if piece]
    return streamed({"a": [Played(steps)], "b": [OK]}, format=format, body=RECORDINGS[format].body)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("format", RECORDINGS)
def test_a_recorded_stream_is_read_as_it_was_meant_whole_and_byte_by_byte(format: str, variant: str) -> None:
    recording = RECORDINGS[format]
    raw = VARIANTS[variant](recording.raw)
    whole = heard(format, raw)
    assert (whole.record.state, whole.record.served_by) == ("served", "a")
    assert whole.raw == raw
    said = [event for event in whole.events if event.content]
    assert len(said) == recording.content
    assert "Grüße, 世界 🐈" in said[0].data
    assert "\\n\\ndata: \\ud83d\\ude00" in said[1].data
    told = [(event.name, event.body, event.content) for event in whole.events if event.data]
    plain = heard(format, recording.raw).events
    assert told == [(event.name, event.body, event.content) for event in plain]
    usage = whole.record.usage or {}
    assert usage[recording.cached] == 4
    assert {7, 11} <= set(usage.values())
    assert heard(format, *(raw[at : at + 1] for at in range(len(raw)))).events == whole.events


@pytest.mark.parametrize("format", RECORDINGS)
def test_a_recorded_stream_that_is_cut_anywhere_gives_the_same_events(format: str) -> None:
    raw = VARIANTS["all of it"](RECORDINGS[format].raw)
    whole = heard(format, raw).events
    for at in range(1, len(raw)):
        assert heard(format, raw[:at], raw[at:]).events == whole, at


@given(st.sampled_from(sorted(RECORDINGS)), st.sampled_from(sorted(VARIANTS)), st.data())
def test_a_recorded_stream_that_is_cut_wherever_and_as_often_gives_the_same_events(
    format: str, variant: str, drawn: st.DataObject
) -> None:
    raw = VARIANTS[variant](RECORDINGS[format].raw)
    cuts = sorted(drawn.draw(st.lists(st.integers(0, len(raw)), max_size=12)))
    pieces = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    told = heard(format, *pieces)
    assert told.events == heard(format, raw).events
    assert told.raw == raw
    (attempt,) = attempts(told.record)
    assert attempt.bytes == len(raw)


@pytest.mark.slow
def test_a_hundred_thousand_events_take_no_more_memory_than_a_thousand() -> None:
    word = chunk("word ")

    class Long:
        """The steps of a stream of so many events, none of which is kept."""

        def __init__(self, events: int) -> None:
            self._events = events

        def __iter__(self) -> Iterator[Step]:
            yield ROLE
            for _ in range(self._events):
                yield word
                yield 0.0  # one in each turn of the loop, as from a socket
            yield from END

    async def reading(router: Router, clock: VirtualClock) -> None:
        async with router.stream(BODY, session="s") as stream:
            async for _ in stream:
                pass

    def peak(events: int) -> int:
        gc.collect()
        tracemalloc.start()
        try:
            records, _ = with_stream({"a": [Played(Long(events))]}, reading)
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        (attempt,) = attempts(records[0])
        assert attempt.stream is not None
        assert attempt.stream.content_events == events
        return most

    peak(1)  # what is made once is made now
    assert peak(100_000) - peak(1_000) < 2 * 1024 * 1024
