"""Streams: what each event of OpenAI Chat holds, and what holds for a stream of any format."""

import json
from typing import Any

import pytest
from anything import Event, json_objects, json_values, read, texts, told
from hypothesis import given
from hypothesis import strategies as st

from turnout.engine import wire
from turnout.engine.wire import openai_chat as chat
from turnout.engine.wire.sign import Sign

NOTHING, CONTENT, LAST, ERROR = Sign.NOTHING, Sign.CONTENT, Sign.LAST, Sign.ERROR
DONE = ("", "[DONE]")
FORMATS = ("openai_chat", "openai_responses", "anthropic_messages")


def chunk(delta: Any = None, ended: Any = None, index: int = 0) -> dict[str, Any]:
    choice = {"index": index, "delta": {} if delta is None else delta, "finish_reason": ended}
    return {"id": "c-1", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}


ROLE = chunk({"role": "assistant", "content": ""})

STREAMS: dict[str, list[tuple[Event, Sign, bool]]] = {
    "text": [
        (ROLE, NOTHING, False),
        (chunk({"content": "Hel"}), CONTENT, False),
        (chunk({"content": "lo"}), CONTENT, False),
        (chunk({}, "stop"), NOTHING, True),
        ({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}, NOTHING, True),
        (DONE, LAST, True),
    ],
    "azure begins with what it thinks of the prompt": [
        ({"choices": [], "prompt_filter_results": [{"content_filter_results": {}}]}, NOTHING, False),
        (ROLE, NOTHING, False),
        (chunk({"content": "Hello"}), CONTENT, False),
        (chunk({}, "stop"), NOTHING, True),
        (DONE, LAST, True),
    ],
    "nothing to say": [
        (ROLE, NOTHING, False),
        (chunk({"content": None}, "stop"), NOTHING, True),
        (DONE, LAST, True),
    ],
    "reasoning first": [
        (chunk({"role": "assistant", "content": None, "reasoning_content": ""}), NOTHING, False),
        (chunk({"content": None, "reasoning_content": "Hm"}), CONTENT, False),
        (chunk({"content": "", "reasoning": "so"}), CONTENT, False),
        (chunk({"content": "42"}, "stop"), CONTENT, True),
        (DONE, LAST, True),
    ],
    "a refusal": [
        (chunk({"role": "assistant", "content": None, "refusal": ""}), NOTHING, False),
        (chunk({"refusal": "I cannot"}), CONTENT, False),
        (chunk({}, "stop"), NOTHING, True),
    ],
    "a tool call": [
        (ROLE, NOTHING, False),
        (
            chunk(
                {"tool_calls": [{"index": 0, "id": "call_1", "function": {"name": "look", "arguments": ""}}]}
            ),
            CONTENT,
            False,
        ),
        (chunk({"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}), NOTHING, False),
        (chunk({}, "tool_calls"), NOTHING, True),
        (DONE, LAST, True),
    ],
    "a custom tool": [
        (chunk({"tool_calls": [{"index": 0, "custom": {"name": "shell", "input": ""}}]}), CONTENT, False),
        (chunk({}, "tool_calls"), NOTHING, True),
    ],
    "a function call of old": [
        (chunk({"role": "assistant", "function_call": {"name": "look", "arguments": ""}}), CONTENT, False),
        (chunk({"function_call": {"arguments": "{}"}}), NOTHING, False),
        (chunk({}, "function_call"), NOTHING, True),
    ],
    "sound": [
        (chunk({"role": "assistant", "audio": {"id": "audio_1", "transcript": ""}}), NOTHING, False),
        (chunk({"audio": {"transcript": "Hel"}}), CONTENT, False),
        (chunk({"audio": {"data": "UklGRg=="}}), CONTENT, False),
        (chunk({"audio": {"expires_at": 1}}, "stop"), NOTHING, True),
    ],
    "a picture": [
        (chunk({"content": "", "images": [{"type": "image_url", "image_url": {}}]}), CONTENT, False),
        (chunk({"content": "", "images": []}, "stop"), NOTHING, True),
    ],
    "mistral's content is a list of parts": [
        (
            chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": ""}]}]}),
            NOTHING,
            False,
        ),
        (
            chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}]}),
            CONTENT,
            False,
        ),
        (chunk({"content": [{"type": "reference", "reference_ids": [1]}]}), NOTHING, False),
        (chunk({"content": [{"type": "text", "text": "42"}]}), CONTENT, False),
        (chunk({"content": ""}, "stop"), NOTHING, True),
    ],
    "ollama's reason is empty until there is one": [
        (chunk({"content": "Hel"}, ""), CONTENT, False),
        (chunk({"content": "lo"}, ""), CONTENT, False),
        (chunk({"content": ""}, "stop"), NOTHING, True),
        (DONE, LAST, True),
    ],
    "no [DONE]": [(chunk({"content": "Hi"}), CONTENT, False), (chunk({}, "length"), NOTHING, True)],
    "no reason, but [DONE]": [(chunk({"content": "Hi"}), CONTENT, False), (DONE, LAST, True)],
    "several choices": [
        (chunk({"content": "a"}, index=0), CONTENT, False),
        (chunk({"content": "b"}, index=1), CONTENT, False),
        (chunk({}, "stop", index=1), NOTHING, False),
        (chunk({"content": "a"}, index=0), CONTENT, False),
        (chunk({}, "length", index=0), NOTHING, True),
        (chunk({}, index=0), NOTHING, True),
        (DONE, LAST, True),
    ],
    "a choice that begins after another has ended": [
        (chunk({"content": "a"}, "stop", index=0), CONTENT, True),
        (chunk({"content": "b"}, index=1), CONTENT, False),
        (chunk({}, "stop", index=1), NOTHING, True),
    ],
    "openrouter's error in the middle": [
        (("", ""), NOTHING, False),
        (chunk({"content": "Hel"}), CONTENT, False),
        ({**chunk({"content": ""}, "error"), "error": {"code": 502, "message": "gone"}}, ERROR, False),
        (DONE, LAST, False),
    ],
    "an error within a choice": [
        ({"choices": [{"index": 0, "delta": {}, "error": {"code": 502, "message": "gone"}}]}, ERROR, False),
        (DONE, LAST, False),
    ],
    "an error and no word of it": [
        (chunk({"content": "Hel"}), CONTENT, False),
        (chunk({}, "error"), ERROR, False),
        (chunk({}, "stop"), NOTHING, False),
    ],
    "an error in the place of a chunk": [
        ({"error": {"code": 500, "message": "Context size has been exceeded."}}, ERROR, False),
    ],
    "an error without the key": [
        ({"object": "error", "message": "The model is loading.", "code": 503}, ERROR, False),
    ],
    "an event that is called an error": [
        (("error", {"message": "Model unloaded."}), ERROR, False),
        (("error", "Model unloaded."), ERROR, False),
    ],
    "an error that is none": [
        ({**chunk({"content": "Hi"}, "stop"), "error": {"code": 0, "message": ""}}, CONTENT, True),
    ],
    "an error after the end": [
        (chunk({"content": "Hi"}, "stop"), CONTENT, True),
        ({"error": {"code": 500, "message": "gone"}}, ERROR, False),
    ],
}


@pytest.mark.parametrize("story", STREAMS)
def test_a_stream_of_chat_is_told_event_by_event_and_complete_only_at_its_end(story: str) -> None:
    events = STREAMS[story]
    assert told(chat.Stream(), [event for event, _, _ in events]) == [
        (sign, ended) for _, sign, ended in events
    ]


def test_the_usage_of_a_chat_stream_is_that_of_its_last_report() -> None:
    stream = chat.Stream()
    assert stream.usage is None
    read(stream, {**chunk({"content": "Hi"}), "usage": {"prompt_tokens": 3, "completion_tokens": 1}})
    read(stream, {**chunk({}, "stop"), "usage": None})
    details = {"completion_tokens_details": {"reasoning_tokens": 2}}
    read(stream, {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4, **details}})
    assert stream.usage == {"prompt_tokens": 3, "completion_tokens": 4, "reasoning_tokens": 2}


@pytest.mark.parametrize("format", FORMATS)
def test_comments_and_keep_alives_are_no_output(format: str) -> None:
    stream = wire.of(format).Stream()
    assert told(stream, [("", ""), ("keepalive", ""), ("ping", {}), ("", "null")]) == [(NOTHING, False)] * 4


@pytest.mark.parametrize("format", FORMATS)
def test_an_error_that_a_server_sends_as_no_event_of_the_format_is_one(format: str) -> None:
    for error in (("", {"error": {"message": "overloaded"}}), ("error", "overloaded")):
        assert told(wire.of(format).Stream(), [error]) == [(ERROR, False)]


@given(
    st.sampled_from(FORMATS),
    st.lists(st.tuples(texts, json_values | json_objects), max_size=5),
)
def test_whatever_an_upstream_streams_is_read_without_an_error(
    format: str, events: list[tuple[str, Any]]
) -> None:
    stream = wire.of(format).Stream()
    for name, body in events:
        assert stream.read(name, json.dumps(body), body) in set(Sign)
        assert stream.finished in (True, False)
        assert all(type(count) is int for count in (stream.usage or {}).values())


@given(st.sampled_from(FORMATS), json_values | json_objects)
def test_whatever_a_caller_or_an_upstream_sends_is_read_without_an_error(format: str, value: Any) -> None:
    form = wire.of(format)
    assert form.is_answer(value) in (True, False)
    if isinstance(value, dict):
        assert form.read(value).needs >= {"endpoint", "role"}
        assert form.read(value).tokens() >= 0
        assert all(type(count) is int for count in (form.usage(value) or {}).values())


@pytest.mark.parametrize("format", FORMATS)
def test_a_request_that_no_encoder_takes_has_a_size_all_the_same(format: str) -> None:
    body: dict[str, Any] = {"messages": "x", "input": [], "tools": [{"name": "\ud800"}]}
    for _ in range(5000):
        body = {**body, "messages": [{"content": body["messages"]}], "input": [{"content": body["input"]}]}
    assert wire.of(format).read(body).tokens() >= 0
    assert "tools" in wire.of(format).read(body).needs
