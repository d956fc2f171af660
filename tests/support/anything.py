"""Whatever a caller or an upstream may send, and streams as they are read."""

import json
from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st

from turnout.engine import wire
from turnout.engine.wire.sign import Sign

KNOWN = """
    messages input instructions system tools functions tool_choice response_format text format
    output_config output_format reasoning thinking reasoning_effort role content type source data
    tool_calls function_call function custom name id call_id arguments summary output error code
    message usage choices delta finish_reason index refusal audio images transcript status
    prompt_tokens prompt_tokens_details cached_tokens input_tokens output_tokens_details
    item part response content_block stop_reason partial_json background
    image_url input_audio file message_start message_delta message_stop content_block_start
    content_block_delta tool_use tool_result function_call_output web_search_call
    response.completed response.output_item.added response.content_part.added response.x.delta
    response.failed completed queued failed stop disabled
"""
"""Keys and types that mean something in one of the formats: anything else is passed by."""

texts = st.sampled_from(KNOWN.split()) | st.text(max_size=5)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=5),
    max_leaves=30,
)
"""Any JSON value, mostly made of what means something."""

json_objects = st.dictionaries(texts, json_values, max_size=5)

Event = dict[str, Any] | tuple[str, dict[str, Any] | str]
"""An event of a stream: its JSON, or its name and its JSON or text."""


def read(stream: wire.Stream, event: Event) -> Sign:
    """What a stream says of an event that came as a server sends it."""
    name, sent = event if isinstance(event, tuple) else ("", event)
    data = sent if isinstance(sent, str) else json.dumps(sent)
    return stream.read(name, data, None if isinstance(sent, str) else sent)


def told(stream: wire.Stream, events: Iterable[Event]) -> list[tuple[Sign, bool]]:
    """Of each event its sign, and whether the stream would be complete if it were cut after it."""
    return [(read(stream, event), stream.finished) for event in events]
