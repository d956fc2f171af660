"""The doubles: upstreams that answer by a script, under the real HTTP code."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast, get_args

import httpx
import msgspec
import pytest

from turnout import InMemory, Router, Target, TurnFailed
from turnout.engine.audit import AuditRecord
from turnout.engine.classify import Reply as Received
from turnout.engine.classify import classify
from turnout.engine.classify.verdict import Feature
from turnout.engine.clock import VirtualClock
from turnout.engine.sse import StreamEvent
from turnout.engine.targets import Format
from turnout.engine.testing import (
    Hang,
    Raises,
    Reply,
    Reset,
    Scripted,
    ScriptedTransport,
    canned,
    events,
    in_json,
    ok,
    refusal,
)
from turnout.engine.testing.doubles import End
from turnout.machines.vocabulary import ErrorKind

FORMATS = get_args(Format)

BODY = {"messages": [{"role": "user", "content": "hello"}]}


def ladder(**keys: Any) -> list[Target]:
    return [Target(name, base_url=f"https://{name}.test/v1", **keys) for name in ("small", "large")]


def played(
    script: dict[str, list[Scripted]],
    turns: int = 1,
    body: Mapping[str, Any] = BODY,
    **keys: Any,
) -> tuple[list[AuditRecord], ScriptedTransport]:
    """The records of some turns of one session, in virtual time."""
    clock = VirtualClock()
    transport = ScriptedTransport(script, clock=clock)
    records: list[AuditRecord] = []

    async def story() -> None:
        router = Router(
            ladder=ladder(**keys),
            memory=InMemory(),
            transport=transport,
            clock=clock,
            jitter=lambda: 0.0,
            on_record=records.append,
        )
        async with router:
            for _ in range(turns):
                with suppress(TurnFailed):
                    await router.turn(body, session="s")

    clock.run(story())
    return records, transport


def asked(transport: ScriptedTransport) -> list[str]:
    return [request.url.host for request in transport.requests]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("kind", ErrorKind)
def test_a_canned_refusal_is_read_as_the_kind_that_it_is_of(kind: ErrorKind, format: Format) -> None:
    canned = refusal(kind).reply(format)
    assert classify(Received(status=canned.status, body=canned.body), now=0).kind is kind


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("feature", Feature)
def test_a_canned_capability_reject_names_its_feature(feature: Feature, format: Format) -> None:
    canned = refusal("capability", feature).reply(format)
    verdict = classify(Received(status=canned.status, body=canned.body), now=0)
    assert (verdict.kind, verdict.features) == (ErrorKind.CAPABILITY, (feature,))


def test_a_kind_that_does_not_exist_has_no_refusal() -> None:
    with pytest.raises(ValueError, match="overflow"):
        refusal("overflow")


def test_a_target_that_is_not_in_the_script_answers() -> None:
    records, transport = played({})
    assert records[0].served_by == "small"
    assert asked(transport) == ["small.test"]


def test_replies_come_in_order_and_the_last_one_repeats() -> None:
    script: dict[str, list[Scripted]] = {"small": [Reset(), ok("once"), refusal("context_window")]}
    records, transport = played(script, turns=3, max_retries=1)
    assert [record.served_by for record in records] == ["small", "large", "large"]
    assert asked(transport) == ["small.test", "small.test", "small.test", "large.test", "large.test"]


def test_the_requests_that_were_seen_are_kept_as_they_went_out() -> None:
    _, transport = played({}, extra_headers={"x-team": "birds"})
    (request,) = transport.requests
    assert request.headers["x-team"] == "birds"
    assert msgspec.json.decode(request.content) == {**BODY, "model": "small"}


def test_what_an_answer_reports_of_tokens_is_in_the_record() -> None:
    records, _ = played({"small": [ok(usage={"prompt_tokens": 3, "completion_tokens": 1})]})
    assert records[0].usage == {"prompt_tokens": 3, "completion_tokens": 1}


HELLO: dict[str, dict[str, Any]] = {
    "openai_chat": BODY,
    "openai_responses": {"input": "hello"},
    "anthropic_messages": {**BODY, "max_tokens": 9},
}
USAGE = {
    "openai_chat": {"prompt_tokens": 3, "completion_tokens": 1},
    "openai_responses": {"input_tokens": 3, "output_tokens": 1},
    "anthropic_messages": {"input_tokens": 3, "output_tokens": 1},
}


def streamed(scripted: Scripted, format: Format) -> tuple[list[StreamEvent], AuditRecord]:
    """The events of a stream of one target that the caller received, and the record."""
    clock = VirtualClock()
    records: list[AuditRecord] = []
    received: list[StreamEvent] = []

    async def story() -> None:
        target = Target("small", base_url="https://small.test/v1", format=format, max_retries=0)
        transport = ScriptedTransport({"small": [scripted]}, clock=clock)
        router = Router(
            ladder=[target],
            memory=InMemory(),
            transport=transport,
            clock=clock,
            on_record=records.append,
        )
        async with router:
            with suppress(TurnFailed):
                async with router.stream(HELLO[format]) as stream:
                    async for event in stream:
                        received.append(event)  # noqa: PERF401 - those before a failure count

    clock.run(story())
    return received, records[0]


@pytest.mark.parametrize("format", FORMATS)
class TestInEachWireFormat:
    @pytest.mark.parametrize("text", ["a cat", ""])
    def test_an_answer_is_whole_or_a_stream_as_it_was_asked_for(self, format: Format, text: str) -> None:
        canned = ok(text, usage=USAGE[format])
        (whole,), _ = played({"small": [canned]}, body=HELLO[format], format=format)
        received, record = streamed(canned, format)
        for told in (whole, record):
            assert (told.served_by, told.usage) == ("small", USAGE[format])
        assert [event.content for event in received].count(True) == (1 if text else 0)
        assert any(text in str(event.data) for event in received)

    def test_a_stream_gets_the_finish_marker_that_its_events_do_not_have(self, format: Format) -> None:
        said = canned.streamed(format, "a cat", None)
        complete, _ = streamed(ok("a cat"), format)
        for given in (said, said[:-1], [*said, *canned.finish(format, said)]):
            received, record = streamed(events(given), format)
            assert record.state == "served"
            assert [event.name for event in received] == [event.name for event in complete]

    @pytest.mark.parametrize("end", ["eof", "reset", "hang"])
    def test_a_stream_that_ends_otherwise_is_no_success(self, format: Format, end: End) -> None:
        begun = canned.streamed(format, "a cat", None)[:-1]
        received, record = streamed(events(begun, end=end, every=2, after=1), format)
        assert [event.content for event in received].count(True) == 1
        assert record.probes[0].attempts[0].stream is not None
        assert record.probes[0].attempts[0].stream.interrupted
        spoken = 1 + 2 * (len(begun) - 1)
        assert record.took == pytest.approx(600 if end == "hang" else spoken)

    def test_comments_and_named_events_are_sent_as_they_are(self, format: Format) -> None:
        before = [{"comment": "one moment\nplease"}, {"event": "ping", "data": {"type": "ping"}}]
        received, record = streamed(events([*before, *canned.streamed(format, "a cat", None)]), format)
        assert record.state == "served"
        assert b"".join(event.raw for event in received).startswith(
            b': one moment\n: please\n\nevent: ping\ndata: {"type":"ping"}\n\n'
        )


def test_an_end_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="end is 'stop'; give one of done, eof, reset, hang"):
        events([], end=cast("End", "stop"))


@pytest.mark.parametrize(
    ("scripted", "took"),
    [
        (ok(after=2), 2),
        (Reply(503, b"down", after=3), 3),
        (in_json(503, {"error": "down"}, headers={"x-request-id": "r"}, after=4), 4),
        (refusal("unavailable", after=5), 5),
        (Reset(after=6), 6),
        (Hang(), 600),
    ],
)
def test_a_late_reply_is_late_in_virtual_time(scripted: Scripted, took: float) -> None:
    records, _ = played({"small": [scripted]}, max_retries=0)
    assert records[0].took == pytest.approx(took)
    assert records[0].state == "served"


def test_silence_after_the_connection_stands_is_no_failed_connect() -> None:
    records, _ = played({"small": [Hang()]}, connect_timeout_secs=1, timeout_secs=7)
    verdict = records[0].probes[0].verdict
    assert verdict is not None
    assert verdict.timed_out
    assert records[0].took == pytest.approx(7)


def test_a_reset_is_a_connection_that_broke_and_is_retried() -> None:
    records, _ = played({"small": [Reset(), ok()]}, max_retries=1)
    first, second = records[0].probes[0].attempts
    assert (first.kind, first.status) == (ErrorKind.UNAVAILABLE, None)
    assert second.kind is None


def test_code_that_raises_breaks_the_turn() -> None:
    records, _ = played({"small": [Raises("a bug", after=1)]})
    assert records[0].ended_by == "broken"
    assert "a bug" in records[0].error
    assert records[0].took == pytest.approx(1)


def test_a_double_needs_no_clock_of_its_own() -> None:
    async def story() -> str:
        transport = ScriptedTransport({"small": [ok("hello")]})
        async with Router(ladder=ladder(), memory=InMemory(), transport=transport) as router:
            return str((await router.turn(BODY)).body["choices"][0]["message"]["content"])

    assert asyncio.run(story()) == "hello"


def test_a_plain_httpx_client_may_use_it_too() -> None:
    async def story() -> int:
        async with httpx.AsyncClient(transport=ScriptedTransport({"small": [refusal("auth")]})) as client:
            return (await client.post("https://any.test/v1", json={"model": "small"})).status_code

    assert asyncio.run(story()) == 401
