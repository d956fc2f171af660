"""What goes out in any wire format; and of OpenAI Chat what a request needs, its size, and its answers."""

from math import ceil
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnout.engine import wire
from turnout.engine.attempts import Request
from turnout.engine.errors import ConfigurationError
from turnout.engine.targets import Target
from turnout.engine.wire import openai_chat as chat
from turnout.engine.wire import sizes

ALWAYS = {"endpoint", "role"}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 40_000}}


def tokens(body: dict[str, Any]) -> int:
    return chat.read(body).tokens()


def said(content: Any, **message: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content, **message}]}


@pytest.mark.parametrize(
    ("body", "needs"),
    [
        (said("hello"), set()),
        (said([{"type": "text", "text": "what is this?"}, IMAGE]), {"image"}),
        (said([{"type": "input_audio", "input_audio": {}}]), {"audio"}),
        (said([{"type": "video_url"}]), {"video"}),
        (said([{"type": "file", "file": {"file_id": "f"}}]), {"file"}),
        ({"messages": [*said([IMAGE])["messages"], *said("and now?")["messages"]]}, {"image"}),
        ({**said("x"), "tools": [{"type": "function"}]}, {"tools", "tool_schema"}),
        ({**said("x"), "tools": []}, set()),
        ({**said("x"), "tools": [{}], "tool_choice": "auto"}, {"tools", "tool_schema", "tool_choice"}),
        (said(None, tool_calls=[{"function": {"arguments": "{}"}}]), {"tools"}),
        ({"messages": [{"role": "tool", "content": "42"}]}, {"tools"}),
        ({**said("x"), "response_format": {"type": "json_schema"}}, {"structured_output"}),
        ({**said("x"), "response_format": {"type": "text"}}, set()),
        ({**said("x"), "reasoning_effort": "high"}, {"reasoning"}),
        ({**said("x"), "reasoning": {"effort": "high"}}, {"reasoning"}),
        ({**said("x"), "reasoning": {"enabled": False}}, set()),
        ({**said("x"), "thinking": {"type": "enabled"}}, {"reasoning"}),
        ({**said("x"), "thinking": {"type": "disabled"}}, set()),
        (said([{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]), {"reasoning"}),
        (said(None, function_call={"name": "look", "arguments": "{}"}), {"tools"}),
        ({"messages": [{"role": "function", "name": "look", "content": "42"}]}, {"tools"}),
        (said(["image_url", None, {"type": ["image_url"]}]), set()),
        (said({"type": "image_url"}), {"image"}),
        (said("x", tool_calls="look"), {"tools"}),
        ({**said("x"), "stream": True}, {"streaming"}),
        ({**said("x"), "stream": False, "reasoning_effort": None}, set()),
    ],
    ids=lambda value: str(sorted(value)) if isinstance(value, set) else "",
)
def test_a_turn_needs_what_its_body_uses_history_included(body: dict[str, Any], needs: set[str]) -> None:
    assert chat.read(body).needs == needs | ALWAYS


WORDS = "The heron waits. " * 100
"""About 400 tokens."""


def text_tokens(body: dict[str, Any]) -> int:
    """What a request of one message costs beside what stands around a message."""
    return tokens(body) - sizes.MESSAGE


def test_the_size_is_that_of_all_texts() -> None:
    words = text_tokens(said(WORDS))
    assert 380 < words < 460
    assert text_tokens(said([{"type": "text", "text": WORDS}])) == words
    assert text_tokens(said(None, tool_calls=[{"function": {"arguments": WORDS}}])) == words
    assert text_tokens(said(None, tool_calls=[{"custom": {"input": WORDS}}])) == words
    assert text_tokens(said(None, function_call={"arguments": WORDS})) == words
    assert text_tokens(said([{"type": "thinking", "thinking": [{"type": "text", "text": WORDS}]}])) == words
    assert text_tokens(said("", reasoning_content=WORDS)) == words
    assert text_tokens(said(None, tool_calls=[{"function": {"arguments": None}}, {"function": None}])) == 0
    assert tokens({}) == 0
    assert tokens({"messages": said("Hi")["messages"] * 10}) == pytest.approx(10 * tokens(said("Hi")), abs=10)


def test_a_scale_is_that_of_the_texts_alone() -> None:
    reading = chat.read(said([{"type": "text", "text": WORDS}, IMAGE]))
    assert reading.other == sizes.MESSAGE + sizes.IMAGE
    assert reading.tokens(0) == reading.other
    assert reading.tokens(1.5) == ceil(1.5 * reading.text + reading.other)
    assert reading.tokens() == ceil(reading.text + reading.other)


def test_tools_and_a_format_cost_what_their_json_does() -> None:
    tools = [{"type": "function", "function": {"name": "look", "description": WORDS}}]
    with_tools = tokens({**said("Hi"), "tools": tools})
    assert with_tools > tokens(said("Hi" + WORDS)) + sizes.TOOL
    assert tokens({**said("Hi"), "tools": tools * 2}) > 2 * with_tools - 30
    assert (
        tokens({**said("Hi"), "response_format": {"type": "json_schema", "json_schema": {"x": WORDS}}}) > 400
    )


@pytest.mark.parametrize(
    ("part", "cost"),
    [
        (IMAGE, 765),
        ({"type": "image_url", "image_url": {"url": "https://pictures.example/heron.jpg"}}, 765),
        (
            {
                "type": "image_url",
                "image_url": {"url": "https://a.example/a.jpg", "detail": "low"},
            },
            85,
        ),
        ({"type": "input_audio", "input_audio": {"data": "A" * 40_000, "format": "wav"}}, 300),
        ({"type": "video_url", "video_url": {"url": "https://films.example/a.mp4"}}, 2_630),
        ({"type": "file", "file": {"file_data": "A" * 40_000}}, 4_500),
        ({"type": "file", "file": {"file_id": "f"}}, 4_500),
    ],
    ids=str,
)
def test_a_part_costs_what_such_a_part_does_and_never_its_bytes(part: dict[str, Any], cost: int) -> None:
    assert text_tokens(said([part])) == cost
    assert text_tokens(said([part, part])) == 2 * cost


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
messages = st.lists(
    st.fixed_dictionaries({}, optional=dict.fromkeys(("role", "content", "tool_calls"), json_values)),
    max_size=3,
)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "messages": messages | json_values,
            "tools": json_values,
            "response_format": json_values,
            "usage": json_values,
            "choices": json_values,
        },
    )
)
def test_whatever_a_caller_or_an_upstream_sends_is_read_without_an_error(body: dict[str, Any]) -> None:
    assert chat.read(body).needs >= ALWAYS
    assert tokens(body) >= 0
    assert chat.is_answer(body) in (True, False)
    chat.usage(body)


@pytest.mark.parametrize(
    ("body", "is_answer"),
    [
        ({"choices": [{"message": {"content": "hi"}}]}, True),
        ({"choices": [{"message": {"content": ""}, "finish_reason": "stop"}]}, True),
        ({"choices": [{"message": {}}, {"message": None}]}, False),
        ({"choices": []}, False),
        ({"choices": None}, False),
        ({}, False),
        ([], False),
        (None, False),
    ],
    ids=str,
)
def test_an_answer_has_choices_that_are_messages(body: object, is_answer: bool) -> None:
    assert chat.is_answer(body) is is_answer


@pytest.mark.parametrize(
    ("reported", "usage"),
    [
        ({"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},) * 2,
        (
            {"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": 2}},
            {"prompt_tokens": 3, "cached_tokens": 2},
        ),
        (
            {"completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 5}},
            {"completion_tokens": 9, "reasoning_tokens": 5},
        ),
        ({"prompt_tokens": "3", "total_tokens": True, "note": "text"}, None),
        ([3], None),
        (None, None),
    ],
    ids=str,
)
def test_usage_is_numbers_and_nothing_else(reported: object, usage: object) -> None:
    assert chat.usage({"usage": reported}) == usage


def test_extra_body_adds_only_what_the_request_omits() -> None:
    target = Target("a", model="m-1", extra_body={"effort": "low", "seed": 1})
    body = {"seed": 2, "model": "x"}
    assert wire.injected(body, target) == {"effort"}
    sent = wire.outgoing(body, target, frozenset())
    assert sent == {"seed": 2, "model": "m-1", "effort": "low"}
    assert wire.outgoing(body, target, frozenset({"effort"})) == {"seed": 2, "model": "m-1"}


def test_a_stream_is_asked_for_whatever_the_body_says() -> None:
    request = Request({"stream": False}, {}, stream=True)
    sent = wire.outgoing(request.body, Target("a", extra_body={"seed": 1}), frozenset())
    assert sent == {"model": "a", "seed": 1, "stream": True}


@pytest.mark.parametrize(
    ("format", "told"),
    [
        ("openai_chat", ("/chat/completions", "", "authorization", (), {})),
        ("openai_responses", ("/responses", "", "authorization", (), {})),
        (
            "anthropic_messages",
            (
                *("/v1/messages", "/v1", "x-api-key", ("anthropic-beta", "anthropic-version")),
                {"anthropic-version": "2023-06-01"},
            ),
        ),
    ],
)
def test_each_format_has_its_path_and_headers(format: str, told: tuple[object, ...]) -> None:
    form = wire.of(format)
    assert told == (form.PATH, form.VERSION, form.AUTH_HEADER, form.FORWARDED, form.HEADERS)


def test_an_unknown_format_is_refused_by_name() -> None:
    with pytest.raises(
        ConfigurationError, match="'grpc' is no wire format; give openai_chat, openai_responses"
    ):
        wire.of("grpc")
