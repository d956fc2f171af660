"""Anthropic Messages: what a request needs, how large it is, what counts as an answer, how a stream runs."""

from typing import Any

import pytest
from anything import Event, read, told

from turnout.engine.wire import anthropic_messages as anthropic
from turnout.engine.wire import sizes
from turnout.engine.wire.sign import Sign

NOTHING, CONTENT, LAST, ERROR = Sign.NOTHING, Sign.CONTENT, Sign.LAST, Sign.ERROR
ALWAYS = {"endpoint", "role"}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 40_000}}


def tokens(body: dict[str, Any]) -> int:
    return anthropic.read(body).tokens()


def said(*content: Any, role: str = "user") -> dict[str, Any]:
    only = content[0] if len(content) == 1 and isinstance(content[0], str) else list(content)
    return {"messages": [{"role": role, "content": only}]}


@pytest.mark.parametrize(
    ("body", "needs"),
    [
        (said("hello"), set()),
        ({"system": "be brief", **said("hello")}, set()),
        (said({"type": "text", "text": "what is this?"}, IMAGE), {"image"}),
        ({"messages": [*said(IMAGE)["messages"], *said("and now?")["messages"]]}, {"image"}),
        (said({"type": "tool_result", "tool_use_id": "t", "content": [IMAGE]}), {"image", "tools"}),
        (said({"type": "document", "source": {"type": "file", "file_id": "f"}}), {"file"}),
        (said({"type": "document", "source": {"type": "content", "content": [IMAGE]}}), {"file", "image"}),
        (said({"type": "document", "source": "heron"}), {"file"}),
        (said({"type": "tool_use", "id": "t", "name": "look", "input": {}}, role="assistant"), {"tools"}),
        (said({"type": "web_search_tool_result", "content": []}, role="assistant"), {"tools"}),
        (said({"type": "thinking", "thinking": "hm", "signature": "s"}, role="assistant"), {"reasoning"}),
        (said({"type": "redacted_thinking", "data": "A"}, role="assistant"), {"reasoning"}),
        ({"tools": [{"name": "look", "input_schema": {}}]}, {"tools", "tool_schema"}),
        ({"tools": [], "tool_choice": {"type": "auto"}}, {"tool_choice"}),
        ({"mcp_servers": [{"type": "url", "name": "s"}]}, {"tools"}),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, {"reasoning"}),
        ({"thinking": {"type": "adaptive"}}, {"reasoning"}),
        ({"thinking": {"type": "disabled"}}, set()),
        ({"output_config": {"format": {"type": "json_schema", "schema": {}}}}, {"structured_output"}),
        ({"output_config": {"effort": "low"}}, set()),
        ({"output_format": {"type": "json_schema", "schema": {}}}, {"structured_output"}),
        ({"stream": True}, {"streaming"}),
        ({"stream": False, "tools": None, "thinking": None, "output_config": None}, set()),
    ],
    ids=lambda value: str(sorted(value)) if isinstance(value, set) else "",
)
def test_a_turn_needs_what_its_body_uses_history_included(body: dict[str, Any], needs: set[str]) -> None:
    assert anthropic.read(body).needs == needs | ALWAYS


WORDS = "The heron waits. " * 20
"""About 80 tokens."""


def test_the_size_is_that_of_all_texts() -> None:
    alone = tokens(said(WORDS)) - sizes.MESSAGE
    assert 76 < alone < 92
    assert tokens({"system": WORDS}) == alone
    assert tokens({"system": [{"type": "text", "text": WORDS}]}) == alone
    plain = {"type": "text", "media_type": "text/plain", "data": WORDS}
    blocks = [
        {"type": "text", "text": WORDS, "cache_control": {"type": "ephemeral"}},
        {"type": "thinking", "thinking": WORDS, "signature": "A" * 4000},
        {"type": "tool_use", "id": "t", "name": "look", "input": {"at": WORDS}},
        {"type": "tool_result", "tool_use_id": "t", "content": WORDS},
        {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": WORDS}]},
        {"type": "document", "source": plain},
        {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": WORDS}]}},
    ]
    for block in blocks:
        assert tokens(said(block)) == pytest.approx(alone + sizes.MESSAGE, abs=8), block
    assert tokens(said({"type": "redacted_thinking", "data": "A" * 4000})) == sizes.MESSAGE
    form = {"type": "json_schema", "schema": {"title": WORDS}}
    assert tokens({"output_config": {"format": form}}) == tokens({"output_format": form}) > alone
    assert tokens({}) == 0


def test_tools_cost_their_json_and_once_the_prompt_that_comes_with_them() -> None:
    tool = {"name": "look", "description": WORDS, "input_schema": {"type": "object"}}
    one, two = (tokens({"tools": [tool] * number}) for number in (1, 2))
    assert one > anthropic.TOOL_PROMPT + 80
    assert two == pytest.approx(anthropic.TOOL_PROMPT + 2 * (one - anthropic.TOOL_PROMPT), abs=3)


@pytest.mark.parametrize(
    ("block", "cost"),
    [
        (IMAGE, 1_600),
        ({"type": "image", "source": {"type": "url", "url": "https://pictures.example/heron.jpg"}}, 1_600),
        ({"type": "tool_result", "tool_use_id": "t", "content": [IMAGE]}, 1_600),
        ({"type": "document", "source": {"type": "base64", "data": "A" * 4000}}, 4_500),
        ({"type": "document", "source": {"type": "file", "file_id": "f"}}, 4_500),
        ({"type": "document", "source": {"type": "content", "content": [IMAGE]}}, 1_600),
    ],
    ids=str,
)
def test_a_part_costs_what_such_a_part_does_and_never_its_bytes(block: dict[str, Any], cost: int) -> None:
    assert tokens(said(block)) == cost + sizes.MESSAGE


@pytest.mark.parametrize(
    ("body", "is_answer"),
    [
        ({"type": "message", "role": "assistant", "content": [{"type": "text", "text": "hi"}]}, True),
        ({"type": "message", "content": [], "stop_reason": "end_turn"}, True),
        ({"content": []}, True),
        ({"type": "error", "error": {"type": "overloaded_error"}, "content": []}, False),
        ({"type": "message", "content": "hi"}, False),
        ({"type": "message"}, False),
        ({"choices": [{"message": {}}]}, False),
        ([], False),
        (None, False),
    ],
    ids=str,
)
def test_an_answer_is_a_message_with_a_list_of_content(body: object, is_answer: bool) -> None:
    assert anthropic.is_answer(body) is is_answer


def test_usage_is_numbers_by_the_format_s_own_names() -> None:
    reported = {
        "input_tokens": 3,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 90,
        "output_tokens": 12,
        "output_tokens_details": {"thinking_tokens": 7},
        "service_tier": "standard",
    }
    assert anthropic.usage({"usage": reported}) == {
        "input_tokens": 3,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 90,
        "output_tokens": 12,
        "reasoning_tokens": 7,
    }
    assert anthropic.usage({"usage": {"input_tokens": None, "output_tokens": True}}) is None
    assert anthropic.usage({}) is None


def event(type: str, **fields: Any) -> Event:
    """As it is sent: its type stands in its name and in its data."""
    return (type, {"type": type, **fields})


def begins(**block: Any) -> Event:
    return event("content_block_start", index=0, content_block=block)


def piece(**delta: Any) -> Event:
    return event("content_block_delta", index=0, delta=delta)


STARTED = event("message_start", message={"type": "message", "content": [], "usage": {"input_tokens": 25}})
BLOCK_ENDED = event("content_block_stop", index=0)
ENDED = event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 15})
STOPPED = event("message_stop")

STREAMS: dict[str, list[tuple[Event, Sign, bool]]] = {
    "text": [
        (STARTED, NOTHING, False),
        (begins(type="text", text=""), NOTHING, False),
        (event("ping"), NOTHING, False),
        (piece(type="text_delta", text=""), NOTHING, False),
        (piece(type="text_delta", text="Hello"), CONTENT, False),
        (piece(type="citations_delta", citation={"cited_text": "x"}), NOTHING, False),
        (BLOCK_ENDED, NOTHING, False),
        (ENDED, NOTHING, True),
        (STOPPED, LAST, True),
    ],
    "thinking, then a tool call": [
        (STARTED, NOTHING, False),
        (begins(type="thinking", thinking="", signature=""), NOTHING, False),
        (piece(type="thinking_delta", thinking="Hm"), CONTENT, False),
        (piece(type="signature_delta", signature="EqQB"), NOTHING, False),
        (BLOCK_ENDED, NOTHING, False),
        (begins(type="tool_use", id="toolu_1", name="look", input={}), CONTENT, False),
        (piece(type="input_json_delta", partial_json=""), NOTHING, False),
        (piece(type="input_json_delta", partial_json="{}"), CONTENT, False),
        (BLOCK_ENDED, NOTHING, False),
        (event("message_delta", delta={"stop_reason": "tool_use"}), NOTHING, True),
        (STOPPED, LAST, True),
    ],
    "nothing to say": [(STARTED, NOTHING, False), (ENDED, NOTHING, True), (STOPPED, LAST, True)],
    "no reason why it stopped": [
        (STARTED, NOTHING, False),
        (event("message_delta", delta={"stop_reason": None}, usage={"output_tokens": 1}), NOTHING, False),
        (STOPPED, LAST, True),
    ],
    "a tool of the server": [(begins(type="server_tool_use", id="srvtoolu_1"), CONTENT, False)],
    "a tool of another server": [(begins(type="mcp_tool_use", name="look"), CONTENT, False)],
    "a call that does not say of what": [(begins(type="tool_use", id="", name=""), NOTHING, False)],
    "the result of a tool": [(begins(type="web_search_tool_result", tool_use_id="x"), NOTHING, False)],
    "all of it at once": [
        (begins(type="text", text="Hello"), CONTENT, False),
        (begins(type="thinking", thinking="Hm"), CONTENT, False),
    ],
    "thoughts that are not shown": [
        (begins(type="redacted_thinking", data=""), NOTHING, False),
        (begins(type="redacted_thinking", data="EmwK"), CONTENT, False),
    ],
    "no names": [
        (("", {"type": "content_block_delta", "delta": {"text": "Hi"}}), CONTENT, False),
        (("", {"type": "message_stop"}), LAST, True),
    ],
    "no types": [
        (("content_block_delta", {"delta": {"text": "Hi"}}), CONTENT, False),
        (("message_stop", {}), LAST, True),
    ],
    "an error": [
        (STARTED, NOTHING, False),
        (event("error", error={"type": "overloaded_error", "message": "Overloaded"}), ERROR, False),
    ],
    "an error after some text": [
        (piece(type="text_delta", text="Hel"), CONTENT, False),
        (event("error", error={"type": "api_error", "message": "gone"}), ERROR, False),
        (ENDED, NOTHING, False),
        (STOPPED, LAST, False),
    ],
    "an error after the reason": [(ENDED, NOTHING, True), (event("error"), ERROR, False)],
    "the end of another format": [(piece(text="Hel"), CONTENT, False), (("", "[DONE]"), NOTHING, False)],
}


@pytest.mark.parametrize("story", STREAMS)
def test_a_stream_is_told_event_by_event_and_complete_only_at_its_end(story: str) -> None:
    events = STREAMS[story]
    assert told(anthropic.Stream(), [e for e, _, _ in events]) == [(sign, ended) for _, sign, ended in events]


def test_the_usage_of_a_stream_is_told_at_both_its_ends_and_the_later_one_wins() -> None:
    stream = anthropic.Stream()
    began = {"input_tokens": 25, "cache_read_input_tokens": 90, "output_tokens": 1}
    read(stream, event("message_start", message={"usage": began}))
    assert stream.usage == began
    counted = {"output_tokens": 15, "input_tokens": None, "cache_read_input_tokens": 80}
    read(stream, event("message_delta", delta={}, usage=counted))
    assert stream.usage == {"input_tokens": 25, "cache_read_input_tokens": 80, "output_tokens": 15}
