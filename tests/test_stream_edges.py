"""Streams at their edges: who gets what when reader, upstream and clock disagree about the end."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from streams import (
    BODY,
    DONE,
    END,
    HANG,
    RESET,
    ROLE,
    STOP,
    Played,
    Step,
    chunk,
    data,
    streamed,
    with_stream,
)

from turnout import InMemory, Router, RouterMisused, Target, TurnFailed
from turnout.engine.clock import VirtualClock
from turnout.engine.wire import FORMATS, Sign, of

OK = Played([ROLE, chunk("a cat"), *END])
PING = b": x\n\n"


# -- a stream that was left is no success


def test_a_read_that_was_cancelled_ends_the_stream_and_reading_on_says_so() -> None:
    async def reading(router: Router, clock: VirtualClock) -> None:
        async with router.stream(BODY) as stream:
            await anext(stream)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await anext(stream)
            for _ in range(2):
                with pytest.raises(RouterMisused, match="left before its end"):
                    await anext(stream)

    records, _ = with_stream({"a": [Played([chunk("half "), 5.0, chunk("a cat"), *END])]}, reading)
    assert records[0].ended_by == "cancelled"


def test_reading_after_closing_is_no_end_either() -> None:
    async def reading(router: Router, clock: VirtualClock) -> None:
        async with router.stream(BODY) as stream:
            await anext(stream)
            await stream.close()
            with pytest.raises(RouterMisused, match="left before its end"):
                await anext(stream)

    with_stream({"a": [OK]}, reading)


def test_a_caller_who_leaves_events_unread_was_not_served_them() -> None:
    at_once = Played([b"".join((chunk("one"), chunk("two"), chunk("three"), *END))])

    async def reading(router: Router, clock: VirtualClock) -> None:
        async with router.stream(BODY) as stream:
            async for event in stream:
                if event.content:
                    break

    records, _ = with_stream({"a": [at_once]}, reading)
    (attempt,) = records[0].probes[0].attempts
    assert records[0].ended_by == "cancelled"
    assert attempt.stream is not None
    assert (attempt.stream.events, attempt.stream.content_events) == (1, 1)


def test_an_error_that_the_caller_never_came_to_did_not_fail_his_turn() -> None:
    at_once = Played([chunk("one") + data({"error": {"message": "The server is overloaded."}})])

    async def reading(router: Router, clock: VirtualClock) -> None:
        async with router.stream(BODY) as stream:
            await anext(stream)

    records, _ = with_stream({"a": [at_once]}, reading)
    assert records[0].ended_by == "cancelled"


def test_who_has_got_all_of_it_was_served_however_slowly_he_reads() -> None:
    async def reading(router: Router, clock: VirtualClock) -> None:
        async with router.stream(BODY) as stream:
            async for _ in stream:
                await clock.sleep(20)

    at_once = Played([b"".join((chunk("x"), *END))])
    records, transport = with_stream({"a": [at_once]}, reading, route={"deadline_secs": 30})
    assert records[0].state == "served"
    assert transport.open == 0


AT_ONCE = Played([b"".join((ROLE, chunk("a cat"), *END))])


def test_an_answer_that_came_in_time_waits_for_its_reader_past_the_deadline() -> None:
    async def reading(router: Router, clock: VirtualClock) -> None:
        async with router.stream(BODY) as stream:
            await clock.sleep(60)
            assert b"".join([event.raw async for event in stream]) == AT_ONCE.steps[0]  # type: ignore[index]

    records, _ = with_stream({"a": [AT_ONCE]}, reading, route={"deadline_secs": 30})
    (attempt,) = records[0].probes[0].attempts
    assert records[0].state == "served"
    assert attempt.stream is not None
    assert attempt.stream.events == 4


def test_an_answer_that_nobody_read_was_served_to_nobody() -> None:
    async def reading(router: Router, clock: VirtualClock) -> None:
        async with router.stream(BODY):
            pass

    records, _ = with_stream({"a": [AT_ONCE]}, reading)
    assert records[0].ended_by == "cancelled"


# -- silence is what was waited for in vain


def test_a_byte_moves_the_bound_on_silence_within_an_event_too() -> None:
    event = chunk("a long event")
    pieces: list[Step] = []
    for at in range(0, len(event), 10):
        pieces += [event[at : at + 10], 2.0]
    told = streamed({"a": [Played([chunk("x"), *pieces, *END])]}, idle_timeout_secs=3)
    assert told.record.state == "served"


def test_a_reader_who_was_away_finds_what_came_meanwhile() -> None:
    async def reading(router: Router, clock: VirtualClock) -> None:
        async with router.stream(BODY) as stream:
            async for _ in stream:
                await clock.sleep(10)

    steps = [chunk("x"), chunk("y")[:20], 1.0, chunk("y")[20:], *END]
    records, _ = with_stream({"a": [Played(steps)]}, reading, idle_timeout_secs=3)
    assert records[0].state == "served"


# -- an answer that told why it ended is whole


@pytest.mark.parametrize("end", [RESET, HANG], ids=["reset", "silence"])
def test_what_breaks_after_the_finish_reason_takes_nothing_away(end: Step) -> None:
    told = streamed({"a": [Played([chunk("x"), STOP, end])]}, idle_timeout_secs=3)
    assert told.record.state == "served"
    assert told.failure is None


# -- errors as servers and proxies put them into a stream


TEXT = {
    "openai_chat": chunk("Good"),
    "openai_responses": data({"type": "response.output_text.delta", "delta": "Good"}),
    "anthropic_messages": data(
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Good"}}
    ),
}
LAST = {
    "openai_chat": b"".join(END),
    "openai_responses": data({"type": "response.completed", "response": {"status": "completed"}}),
    "anthropic_messages": data({"type": "message_delta", "delta": {"stop_reason": "end_turn"}})
    + data({"type": "message_stop"}),
}
OVERFLOW = {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"}
ERRORS = {
    "named, with a type of its own": b"event: error\ndata: " + json.dumps(OVERFLOW).encode() + b"\n\n",
    "behind white space": b'data:   {"error": {"type": "overloaded_error", "message": "Overloaded"}}\n\n',
    "in a list": data([{"error": {"code": 503, "message": "The service is overloaded."}}]),
    "as a service's exception": data({"internalServerException": {"message": "boom"}}),
    "as a framework's detail": data({"detail": "boom"}),
    "in words": b"data: [ERROR] upstream died\n\n",
}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)
def test_an_error_after_content_is_never_a_success(error: bytes, format: str) -> None:
    script = {"a": [Played([TEXT[format], error, LAST[format]])], "b": [Played([TEXT[format], LAST[format]])]}
    told = streamed(script, format=format)
    assert told.raw == TEXT[format]
    assert told.failure is not None
    assert told.record.state == "failed"
    assert told.attempts == ["a"]
    (attempt,) = told.record.probes[0].attempts
    assert attempt.possibly_billed, "some of the answer came"


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)
def test_before_content_it_leads_on(error: bytes, format: str) -> None:
    script = {"a": [Played([PING, error, LAST[format]])], "b": [Played([TEXT[format], LAST[format]])]}
    told = streamed(script, format=format, max_retries=0)
    assert told.record.served_by == "b"
    evicted = [probe.target for probe in told.record.probes if probe.reason == "context_window"]
    assert evicted == (["a"] if b"too long" in error else [])


@pytest.mark.parametrize(
    ("format", "end"),
    [
        (
            "openai_responses",
            {"type": "response.completed", "response": {"status": "failed", "error": {"code": "x"}}},
        ),
        ("anthropic_messages", {"type": "message_stop", "error": {"type": "api_error", "message": "died"}}),
    ],
    ids=["completed, and failed", "stopped by an error"],
)
def test_an_end_that_tells_an_error_is_none(format: str, end: dict[str, Any]) -> None:
    told = streamed({"a": [Played([TEXT[format], data(end)])]}, format=format)
    assert told.failure is not None


def test_an_empty_refusal_is_read_as_it_is_in_a_whole_answer() -> None:
    refusal = data({"type": "message_delta", "delta": {"stop_reason": "refusal"}})
    told = streamed({"a": [Played([refusal, data({"type": "message_stop"})])]}, format="anthropic_messages")
    (attempt,) = told.record.probes[0].attempts
    assert attempt.kind == "content_policy"


def test_other_events_are_let_through() -> None:
    """What formats grow, and what servers add, is no error."""
    for named, odd in (
        ("openai_chat", {"id": "x", "usage": {"prompt_tokens": 1}}),
        ("openai_chat", {"choices": [], "prompt_filter_results": [{"error": {}}]}),
        ("openai_chat", {"type": "ping"}),
        ("openai_responses", {"type": "keepalive"}),
        ("anthropic_messages", {"type": "ping"}),
        ("anthropic_messages", {"type": "vendor_metrics", "firstByteLatency": 3}),
        ("anthropic_messages", {"type": "status", "message": "still thinking"}),
        ("openai_chat", {"status": "queued", "message": "Queued, position 3"}),
        ("openai_responses", {"type": "note", "message": "m"}),
    ):
        reading = of(named).Stream()
        assert reading.read("", json.dumps(odd), odd) is Sign.NOTHING, odd
    for words in ("Error-free so far", "errors: none", "no error"):
        assert of("openai_chat").Stream().read("", words, None) is Sign.NOTHING, words


# -- what is held back


def test_the_bound_on_what_is_held_back_does_not_depend_on_how_the_bytes_come() -> None:
    echo = data({"choices": [{"index": 0, "delta": {"role": "assistant"}}], "echo": "x" * 140_000})
    for steps in (
        [echo, echo, chunk("x"), *END],
        [echo + echo + chunk("x"), *END],
        [echo, 1.0, echo + chunk("x")],
    ):
        told = streamed({"a": [Played(steps)], "b": [OK]})
        assert told.record.served_by == "b"
        assert told.record.probes[0].attempts[-1].evidence.rule == "unreadable"  # type: ignore[union-attr]


def test_the_time_to_the_first_content_counts_from_the_sending() -> None:
    class Late(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            await asyncio.sleep(2)
            content = chunk("x") + STOP + DONE
            return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=content)

    async def story(records: list[Any], clock: VirtualClock) -> None:
        target = Target("a", base_url="http://a.test")
        memory, transport = InMemory(), Late()
        async with (
            Router(
                ladder=[target], memory=memory, clock=clock, transport=transport, on_record=records.append
            ) as router,
            router.stream(BODY) as stream,
        ):
            async for _ in stream:
                pass

    records: list[Any] = []
    clock = VirtualClock()
    clock.run(story(records, clock))
    assert records[0].probes[0].attempts[0].stream.committed == 2


def test_a_stream_by_the_name_of_json_is_read_as_the_stream_that_it_is() -> None:
    named = Played([ROLE, chunk("x"), *END], headers={"content-type": "application/json"})
    assert streamed({"a": [named], "b": [OK]}).record.served_by == "a"


# -- nobody waits for what is over


def test_closing_the_router_does_not_wait_for_a_stream_whose_turn_has_ended() -> None:
    async def reading(router: Router, clock: VirtualClock) -> None:
        async with router.stream(BODY) as stream:
            await clock.sleep(10)
            async with asyncio.timeout(1):
                await router.close()
            with pytest.raises(TurnFailed, match="deadline"):
                async for _ in stream:
                    pass

    records, _ = with_stream({"a": [Played([chunk("x"), HANG])]}, reading, route={"deadline_secs": 5})
    assert records[0].ended_by == "expired"


def test_a_stream_that_could_not_begin_holds_up_nothing() -> None:
    def no_id() -> str:
        raise ZeroDivisionError

    async def story() -> None:
        target = Target("a", base_url="http://a.test")
        async with asyncio.timeout(10), Router(ladder=[target], memory=InMemory(), new_id=no_id) as router:
            with pytest.raises(ZeroDivisionError):
                async with router.stream(BODY):
                    pass

    asyncio.run(story())


def test_what_cancels_itself_beside_a_turn_does_not_cancel_the_turn() -> None:
    class Odd(InMemory):
        async def forget(self, *args: Any, **named: Any) -> Any:
            raise asyncio.CancelledError

    def odd(record: Any) -> None:
        raise asyncio.CancelledError

    async def story() -> None:
        content = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "x"}}]}
        transport = httpx.MockTransport(lambda request: httpx.Response(200, json=content))
        target = Target("a", base_url="http://a.test")
        async with Router(ladder=[target], memory=Odd(), transport=transport, on_record=odd) as router:
            reply = await router.turn(BODY, session="s1", final=True)
            assert "CancelledError" in reply.record.notes[0]

    asyncio.run(story())
