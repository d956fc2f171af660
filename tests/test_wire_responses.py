"""OpenAI Responses: what a request needs, how large it is, what counts as an answer, how a stream runs."""

from typing import Any

import pytest
from anything import Event, read, told

from turnout.engine.wire import openai_responses as responses
from turnout.engine.wire import sizes
from turnout.engine.wire.sign import Sign

NOTHING, CONTENT, LAST, ERROR = Sign.NOTHING, Sign.CONTENT, Sign.LAST, Sign.ERROR
ALWAYS = {"endpoint", "role"}
IMAGE = {"type": "input_image", "image_url": "data:image/png;base64," + "A" * 40_000}


def tokens(body: dict[str, Any]) -> int:
    return responses.read(body).tokens()


def said(content: Any) -> dict[str, Any]:
    return {"input": [{"role": "user", "content": content}]}


@pytest.mark.parametrize(
    ("body", "needs"),
    [
        ({"input": "hello"}, set()),
        (said("hello"), set()),
        (said([{"type": "input_text", "text": "what is this?"}, IMAGE]), {"image"}),
        ({"input": [*said([IMAGE])["input"], *said("and now?")["input"]]}, {"image"}),
        (said([{"type": "input_audio"}]), {"audio"}),
        (said([{"type": "input_video"}]), {"video"}),
        (said([{"type": "input_file", "file_id": "f"}]), {"file"}),
        ({"input": [{"type": "function_call_output", "output": [IMAGE]}]}, {"image", "tools"}),
        (
            {"input": [{"type": "computer_call_output", "output": {"type": "computer_screenshot"}}]},
            {"image", "tools"},
        ),
        ({"input": [{"type": "function_call", "name": "look", "arguments": "{}"}]}, {"tools"}),
        ({"input": [{"type": "mcp_approval_response", "approve": True}]}, {"tools"}),
        ({"input": [{"type": "reasoning", "summary": [], "encrypted_content": "gAAA"}]}, {"reasoning"}),
        ({"tools": [{"type": "web_search"}]}, {"tools"}),
        ({"tools": [], "tool_choice": "auto"}, {"tool_choice"}),
        ({"text": {"format": {"type": "json_schema", "schema": {}}}}, {"structured_output"}),
        ({"text": {"format": {"type": "text"}, "verbosity": "low"}}, set()),
        ({"reasoning": {"effort": "high"}}, {"reasoning"}),
        ({"reasoning": {"effort": None, "summary": None}}, set()),
        ({"stream": True}, {"streaming"}),
        ({"stream": False, "tools": None, "reasoning": None, "text": None}, set()),
    ],
    ids=lambda value: str(sorted(value)) if isinstance(value, set) else "",
)
def test_a_turn_needs_what_its_body_uses_history_included(body: dict[str, Any], needs: set[str]) -> None:
    assert responses.read(body).needs == needs | ALWAYS


WORDS = "The heron waits. " * 20
"""About 80 tokens."""


def test_the_size_is_that_of_all_texts() -> None:
    alone = tokens({"input": WORDS}) - sizes.MESSAGE
    assert 76 < alone < 92
    assert tokens({"instructions": WORDS, "input": "x"}) == pytest.approx(alone + 2 * sizes.MESSAGE, abs=2)
    history = [
        {"type": "function_call", "call_id": "c", "name": "look", "arguments": WORDS},
        {"type": "function_call_output", "call_id": "c", "output": WORDS},
        {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": WORDS}]},
        {"type": "custom_tool_call", "input": WORDS},
        {"type": "reasoning", "summary": [{"text": WORDS}], "encrypted_content": "A" * 4000},
        {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": WORDS}]},
        {"type": "mcp_list_tools", "tools": [{"name": WORDS}]},
        {"role": "user", "content": [{"type": "input_text", "text": WORDS}]},
    ]
    for item in history:
        assert tokens({"input": [item]}) == pytest.approx(alone + sizes.MESSAGE, abs=6), item
    assert tokens({"input": history}) == pytest.approx(8 * (alone + sizes.MESSAGE), rel=0.1)
    assert tokens({"input": WORDS, "tools": [{"type": "custom", "description": WORDS}]}) > 2 * alone
    assert tokens({"input": WORDS, "text": {"format": {"type": "json_schema", "schema": WORDS}}}) > 2 * alone
    assert tokens({"input": "Hi", "text": {"verbosity": "low"}}) == tokens({"input": "Hi"})
    assert tokens({}) == 0


@pytest.mark.parametrize(
    ("item", "cost"),
    [
        (said([IMAGE])["input"][0], 765),
        (
            said([{"type": "input_image", "image_url": "https://a.example/a.png", "detail": "low"}])["input"][
                0
            ],
            85,
        ),
        (said([{"type": "input_audio", "input_audio": {"data": "A" * 4000}}])["input"][0], 300),
        (said([{"type": "input_file", "file_data": "A" * 4000}])["input"][0], 4_500),
        ({"type": "image_generation_call", "result": "A" * 4000}, 765),
        (
            {
                "type": "computer_call_output",
                "output": {"type": "computer_screenshot", "image_url": "A" * 4000},
            },
            765,
        ),
    ],
    ids=str,
)
def test_a_part_costs_what_such_a_part_does_and_never_its_bytes(item: dict[str, Any], cost: int) -> None:
    assert tokens({"input": [item]}) == cost + sizes.MESSAGE


@pytest.mark.parametrize(
    ("body", "is_answer"),
    [
        ({"status": "completed", "output": [{"type": "message"}], "error": None}, True),
        ({"status": "completed", "output": []}, True),
        ({"status": "incomplete", "output": [], "incomplete_details": {"reason": "max_output_tokens"}}, True),
        ({"output": []}, True),
        ({"status": "failed", "output": [], "error": {"code": "server_error"}}, False),
        ({"status": "failed", "output": []}, False),
        ({"status": "cancelled", "output": []}, False),
        ({"status": "completed", "output": [], "error": {"code": "server_error"}}, False),
        ({"status": "completed", "output": None}, False),
        ({"status": ["completed"], "output": []}, False),
        ({"choices": [{"message": {}}]}, False),
        ([], False),
        (None, False),
    ],
    ids=str,
)
def test_an_answer_has_output_and_has_not_failed(body: object, is_answer: bool) -> None:
    assert responses.is_answer(body) is is_answer


@pytest.mark.parametrize("status", ["queued", "in_progress"])
def test_what_is_not_finished_is_an_answer_only_where_it_runs_in_the_background(status: str) -> None:
    assert responses.is_answer({"status": status, "output": [], "background": True})
    assert not responses.is_answer({"status": status, "output": [], "background": False})
    assert not responses.is_answer({"status": status, "output": []})


REPORTED = {
    "input_tokens": 30,
    "input_tokens_details": {"cached_tokens": 20},
    "output_tokens": 9,
    "output_tokens_details": {"reasoning_tokens": 5},
    "total_tokens": 39,
}
COUNTS = {
    "input_tokens": 30,
    "output_tokens": 9,
    "total_tokens": 39,
    "cached_tokens": 20,
    "reasoning_tokens": 5,
}


def test_usage_is_numbers_and_nothing_else() -> None:
    assert responses.usage({"usage": REPORTED}) == COUNTS
    assert responses.usage({"usage": {"input_tokens": "3", "output_tokens": True}}) is None
    assert responses.usage({"usage": None}) is None


def event(type: str, **fields: Any) -> Event:
    """As it is sent: its type stands in its name and in its data."""
    return (type, {"type": type, "sequence_number": 1, **fields})


def added(**item: Any) -> Event:
    return event("response.output_item.added", output_index=0, item=item)


CREATED = event("response.created", response={"status": "in_progress", "output": [], "error": None})
COMPLETED = event("response.completed", response={"status": "completed", "output": [], "usage": REPORTED})

STREAMS: dict[str, list[tuple[Event, Sign, bool]]] = {
    "reasoning, then text": [
        (CREATED, NOTHING, False),
        (event("response.queued", response={"status": "queued"}), NOTHING, False),
        (event("response.in_progress", response={"status": "in_progress"}), NOTHING, False),
        (added(type="reasoning", id="rs_1", summary=[], encrypted_content="gAAA"), NOTHING, False),
        (
            event("response.reasoning_summary_part.added", part={"type": "summary_text", "text": ""}),
            NOTHING,
            False,
        ),
        (event("response.reasoning_summary_text.delta", delta="Hm"), CONTENT, False),
        (event("response.reasoning_summary_text.done", text="Hm"), NOTHING, False),
        (event("response.output_item.done", item={"type": "reasoning"}), NOTHING, False),
        (added(type="message", id="msg_1", status="in_progress", content=[]), NOTHING, False),
        (event("response.content_part.added", part={"type": "output_text", "text": ""}), NOTHING, False),
        (event("response.output_text.delta", delta=""), NOTHING, False),
        (event("response.output_text.delta", delta="Hello"), CONTENT, False),
        (event("response.output_text.done", text="Hello"), NOTHING, False),
        (event("response.content_part.done", part={"type": "output_text", "text": "Hello"}), NOTHING, False),
        (event("response.output_item.done", item={"type": "message"}), NOTHING, False),
        (COMPLETED, LAST, True),
    ],
    "a function call": [
        (CREATED, NOTHING, False),
        (added(type="function_call", id="fc_1", call_id="call_1", name="look", arguments=""), CONTENT, False),
        (event("response.function_call_arguments.delta", delta="{}"), CONTENT, False),
        (event("response.function_call_arguments.done", arguments="{}"), NOTHING, False),
        (COMPLETED, LAST, True),
    ],
    "a custom tool": [(added(type="custom_tool_call", call_id="call_1", input=""), CONTENT, False)],
    "a search": [(added(type="web_search_call", id="ws_1", status="in_progress"), CONTENT, False)],
    "a tool that waits for leave": [(added(type="mcp_approval_request", name="look"), CONTENT, False)],
    "a call that does not say of what": [(added(type="function_call", id="", name=None), NOTHING, False)],
    "the tools of a server are no call": [
        (added(type="mcp_list_tools", id="mcpl_1", tools=[]), NOTHING, False)
    ],
    "a refusal": [
        (event("response.content_part.added", part={"type": "refusal", "refusal": ""}), NOTHING, False),
        (event("response.refusal.delta", delta="I cannot"), CONTENT, False),
    ],
    "all of it at once": [
        (added(type="message", content=[{"type": "output_text", "text": "Hello"}]), CONTENT, False),
        (event("response.content_part.added", part={"type": "output_text", "text": "Hello"}), CONTENT, False),
    ],
    "cut at its limit": [
        (event("response.output_text.delta", delta="Hel"), CONTENT, False),
        (event("response.incomplete", response={"status": "incomplete"}), LAST, True),
    ],
    "no names": [
        (("", {"type": "response.output_text.delta", "delta": "Hello"}), CONTENT, False),
        (("", {"type": "response.completed"}), LAST, True),
    ],
    "no types": [
        (("response.output_text.delta", {"delta": "Hello"}), CONTENT, False),
        (("response.completed", {"response": {}}), LAST, True),
    ],
    "failed": [
        (event("response.output_text.delta", delta="Hel"), CONTENT, False),
        (
            event("response.failed", response={"status": "failed", "error": {"code": "server_error"}}),
            ERROR,
            False,
        ),
    ],
    "an error": [
        (CREATED, NOTHING, False),
        (event("error", code="rate_limit_exceeded", message="x"), ERROR, False),
    ],
    "an error without a name": [(("", {"type": "error", "message": "x"}), ERROR, False)],
    "what failed cannot be read": [(("response.failed", "{"), ERROR, False)],
    "an end that cannot be read is none": [(("response.completed", "{"), NOTHING, False)],
    "the end of another format": [
        (event("response.output_text.delta", delta="Hel"), CONTENT, False),
        (("", "[DONE]"), NOTHING, False),
    ],
}


@pytest.mark.parametrize("story", STREAMS)
def test_a_stream_is_told_event_by_event_and_complete_only_at_its_end(story: str) -> None:
    events = STREAMS[story]
    assert told(responses.Stream(), [e for e, _, _ in events]) == [(sign, ended) for _, sign, ended in events]


def test_the_usage_of_a_stream_stands_in_its_last_event() -> None:
    stream = responses.Stream()
    read(stream, CREATED)
    assert stream.usage is None
    read(stream, COMPLETED)
    assert stream.usage == COUNTS
