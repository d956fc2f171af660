"""A stream of each wire format, byte for byte as an upstream sends it, and how others send the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple


class Recording(NamedTuple):
    """One stream, and what is to be read from it."""

    raw: bytes
    body: Mapping[str, Any]
    """What is asked for."""
    content: int
    """How many of its events hold output."""
    cached: str
    """Where its usage has the input that was cached: 4 of 11 tokens, and 7 put out."""


CHAT: Final = r"""
data: {"id":"chatcmpl-C9","object":"chat.completion.chunk","created":1767225600,"model":"a-small","system_fingerprint":"fp_1","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-C9","object":"chat.completion.chunk","created":1767225600,"model":"a-small","choices":[{"index":0,"delta":{"content":"Grüße, 世界 🐈"},"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-C9","object":"chat.completion.chunk","created":1767225600,"model":"a-small","choices":[{"index":0,"delta":{"content":"\n\ndata: \ud83d\ude00"},"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-C9","object":"chat.completion.chunk","created":1767225600,"model":"a-small","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"look","arguments":""}}]},"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-C9","object":"chat.completion.chunk","created":1767225600,"model":"a-small","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}],"usage":null}

data: {"id":"chatcmpl-C9","object":"chat.completion.chunk","created":1767225600,"model":"a-small","choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18,"prompt_tokens_details":{"cached_tokens":4}}}

data: [DONE]

"""  # noqa: E501 - as it is sent

RESPONSES: Final = r"""
event: response.created
data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response","status":"in_progress","model":"a-small","output":[],"error":null,"usage":null}}

event: response.in_progress
data: {"type":"response.in_progress","sequence_number":1,"response":{"id":"resp_1","object":"response","status":"in_progress","output":[],"error":null}}

event: response.output_item.added
data: {"type":"response.output_item.added","sequence_number":2,"output_index":0,"item":{"id":"msg_1","type":"message","status":"in_progress","content":[],"role":"assistant"}}

event: response.content_part.added
data: {"type":"response.content_part.added","sequence_number":3,"item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","annotations":[],"text":""}}

event: response.output_text.delta
data: {"type":"response.output_text.delta","sequence_number":4,"item_id":"msg_1","output_index":0,"content_index":0,"delta":"Grüße, 世界 🐈"}

event: response.output_text.delta
data: {"type":"response.output_text.delta","sequence_number":5,"item_id":"msg_1","output_index":0,"content_index":0,"delta":"\n\ndata: \ud83d\ude00"}

event: response.completed
data: {"type":"response.completed","sequence_number":6,"response":{"id":"resp_1","object":"response","status":"completed","model":"a-small","output":[{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","annotations":[],"text":"Grüße"}]}],"error":null,"usage":{"input_tokens":11,"input_tokens_details":{"cached_tokens":4},"output_tokens":7,"total_tokens":18}}}

"""  # noqa: E501 - as it is sent

MESSAGES: Final = r"""
event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"a-small","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":11,"cache_read_input_tokens":4,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: ping
data: {"type": "ping"}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Grüße, 世界 🐈"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\n\ndata: \ud83d\ude00"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"look","input":{}}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":7}}

event: message_stop
data: {"type":"message_stop"}

"""  # noqa: E501 - as it is sent


def _recorded(text: str) -> bytes:
    return text.removeprefix("\n").encode()


_ASKED: Final = [{"role": "user", "content": "hello"}]
RECORDINGS: Final[Mapping[str, Recording]] = {
    "openai_chat": Recording(_recorded(CHAT), {"messages": _ASKED}, 3, "cached_tokens"),
    "openai_responses": Recording(_recorded(RESPONSES), {"input": "hello"}, 2, "cached_tokens"),
    "anthropic_messages": Recording(
        _recorded(MESSAGES), {"messages": _ASKED, "max_tokens": 9}, 3, "cache_read_input_tokens"
    ),
}


def with_comments(raw: bytes) -> bytes:
    """Keep-alives before every event, of their own and within."""
    events = [event for event in raw.split(b"\n\n") if event]
    return b"".join(b": keep-alive \xe2\x8f\xb3\n\n:\n%b\n: so far\n\n" % event for event in events)


def over_lines(raw: bytes) -> bytes:
    """The data of each event over several lines, where JSON may have white space."""
    return raw.replace(b'{"type"', b'{\ndata: "type"').replace(b',"choices"', b'\ndata:,"choices"')


def without_blanks(raw: bytes) -> bytes:
    """No blank after a field's colon."""
    return raw.replace(b"\ndata: {", b"\ndata:{").replace(b"event: ", b"event:")


def in_crlf(raw: bytes) -> bytes:
    return raw.replace(b"\n", b"\r\n")


def in_cr(raw: bytes) -> bytes:
    return raw.replace(b"\n", b"\r")


def marked(raw: bytes) -> bytes:
    """A byte order mark before it."""
    return b"\xef\xbb\xbf" + raw


VARIANTS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "as it is": bytes,
    "in CRLF": in_crlf,
    "in CR": in_cr,
    "marked": marked,
    "with comments": with_comments,
    "over several lines": over_lines,
    "without blanks": without_blanks,
    "all of it": lambda raw: marked(in_crlf(with_comments(over_lines(raw)))),
}
