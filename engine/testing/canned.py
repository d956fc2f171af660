"""What an upstream says in each wire format: answers, whole and streamed, and errors of each kind.

Field names are those of the public API references.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from turnout.engine.classify.verdict import Feature
from turnout.engine.targets import Format
from turnout.machines.vocabulary import ErrorKind as Kind

Event = Mapping[str, Any]
"""An event as `doubles.Events` takes it."""

_DONE: Final[Event] = {"event": "", "data": "[DONE]"}


def answer(format: Format, text: str, usage: Mapping[str, Any] | None) -> dict[str, Any]:
    """The body of a complete answer."""
    reported = {} if usage is None else {"usage": usage}
    if format == "openai_chat":
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": text},
            "finish_reason": "stop",
        }
        return {"object": "chat.completion", "choices": [choice], **reported}
    if format == "openai_responses":
        return {"object": "response", "status": "completed", "output": [_spoken(text)], **reported}
    return {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        **reported,
    }


def streamed(format: Format, text: str, usage: Mapping[str, Any] | None) -> tuple[Event, ...]:
    """The same answer as the events of a stream, the text as one of them, an empty one as none."""
    if format == "openai_chat":
        return tuple(_chat(text, usage))
    if format == "openai_responses":
        return tuple(_responses(text, usage))
    return tuple(_messages(text, usage))


def finish(format: Format, events: Sequence[Event]) -> Iterator[Event]:
    """The finish marker of a stream of these events, as far as they have none."""
    types = {event.get("type") for event in events}
    if format == "openai_chat":
        if not any(_has_reason(event) for event in events):
            yield _chunk({}, "stop")
        yield _DONE
    elif format == "openai_responses":
        if not types & {"response.completed", "response.incomplete"}:
            yield _completed([], None)
    else:
        if not any(event.get("type") == "message_delta" and _stops(event) for event in events):
            yield _stopped(None)
        if "message_stop" not in types:
            yield {"type": "message_stop"}


def encoded(format: Format, event: Event) -> bytes:
    """An event as its lines. One of a format that names its events gets an `event:` line from its `type`."""
    if event.keys() == {"comment"}:
        return b"".join(f": {line}\n".encode() for line in str(event["comment"]).split("\n")) + b"\n"
    if event.keys() == {"event", "data"}:
        name, data = str(event["event"]), event["data"]
    else:
        name, data = "" if format == "openai_chat" else str(event.get("type", "")), event
    text = data if isinstance(data, str) else msgspec.json.encode(data).decode()
    lines = [f"event: {name}"] if name else []
    return "\n".join([*lines, *(f"data: {line}" for line in text.split("\n")), "", ""]).encode()


def refusal(format: Format, kind: Kind, feature: Feature) -> tuple[int, dict[str, Any]]:
    """Status and body of a canned reply of this kind; the feature is what a capability reject refuses."""
    status, error = (400, _FEATURE_REFUSED[feature]) if kind is Kind.CAPABILITY else _REFUSED[kind]
    if format == "anthropic_messages":
        named = {"type": _ANTHROPIC_TYPES.get(kind, "invalid_request_error")}
        return status, {"type": "error", "error": {**named, "message": error["message"]}}
    return status, {"error": {"type": "invalid_request_error", **error}}


# -- chat completions


def _chat(text: str, usage: Mapping[str, Any] | None) -> Iterator[Event]:
    yield _chunk({"role": "assistant", "content": ""})
    if text:
        yield _chunk({"content": text})
    yield _chunk({}, "stop")
    if usage is not None:
        yield {"object": "chat.completion.chunk", "choices": [], "usage": usage}


def _chunk(delta: Mapping[str, Any], finish_reason: str | None = None) -> Event:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return {"object": "chat.completion.chunk", "choices": [choice]}


def _has_reason(event: Event) -> bool:
    choices = event.get("choices")
    listed = choices if isinstance(choices, list) else []
    return any(isinstance(choice, Mapping) and choice.get("finish_reason") for choice in listed)


# -- responses


def _responses(text: str, usage: Mapping[str, Any] | None) -> Iterator[Event]:
    begun = {"object": "response", "status": "in_progress", "output": []}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    item = {"type": "message", "role": "assistant", "status": "in_progress", "content": []}
    yield {"type": "response.output_item.added", "output_index": 0, "item": item}
    if text:
        place = {"output_index": 0, "content_index": 0}
        part = {"type": "output_text", "text": ""}
        yield {"type": "response.content_part.added", **place, "part": part}
        yield {"type": "response.output_text.delta", **place, "delta": text}
        yield {"type": "response.output_text.done", **place, "text": text}
    yield {"type": "response.output_item.done", "output_index": 0, "item": _spoken(text)}
    yield _completed([_spoken(text)], usage)


def _spoken(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text}]
    return {"type": "message", "role": "assistant", "status": "completed", "content": content}


def _completed(output: Sequence[Any], usage: Mapping[str, Any] | None) -> Event:
    reported = {} if usage is None else {"usage": usage}
    response = {"object": "response", "status": "completed", "output": output, **reported}
    return {"type": "response.completed", "response": response}


# -- messages


def _messages(text: str, usage: Mapping[str, Any] | None) -> Iterator[Event]:
    begun = {"type": "message", "role": "assistant", "content": (), "stop_reason": None}
    yield {"type": "message_start", "message": begun}
    yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    if text:
        delta = {"type": "text_delta", "text": text}
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    yield _stopped(usage)


def _stopped(usage: Mapping[str, Any] | None) -> Event:
    reported = {} if usage is None else {"usage": usage}
    return {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, **reported}


def _stops(event: Event) -> bool:
    delta = event.get("delta")
    return isinstance(delta, Mapping) and bool(delta.get("stop_reason"))


# -- errors

_ANTHROPIC_TYPES: Final[Mapping[Kind, str]] = {
    Kind.UNAVAILABLE: "overloaded_error",
    Kind.QUOTA_OR_BILLING: "billing_error",
    Kind.AUTH: "authentication_error",
    Kind.MODEL_NOT_FOUND: "not_found_error",
}

_REFUSED: Final[Mapping[Kind, tuple[int, Mapping[str, str]]]] = {
    Kind.CONTEXT_WINDOW: (
        400,
        {"code": "context_length_exceeded", "message": "The prompt exceeds the maximum context length."},
    ),
    Kind.UNAVAILABLE: (
        503,
        {"type": "server_error", "message": "The server is overloaded, please try again later."},
    ),
    Kind.QUOTA_OR_BILLING: (
        429,
        {"type": "insufficient_quota", "code": "insufficient_quota", "message": "You exceeded your quota."},
    ),
    Kind.AUTH: (401, {"code": "invalid_api_key", "message": "Incorrect API key provided."}),
    Kind.MODEL_NOT_FOUND: (404, {"code": "model_not_found", "message": "The model does not exist."}),
    Kind.CONTENT_POLICY: (
        400,
        {"code": "content_policy_violation", "message": "The request was rejected by the safety system."},
    ),
    Kind.PARAMETER_REJECT: (
        400,
        {"code": "unsupported_parameter", "param": "temperature", "message": "temperature is not supported."},
    ),
    Kind.CALLER_ERROR: (
        400,
        {"code": "missing_required_parameter", "message": "A required parameter is missing."},
    ),
}

_FEATURE_REFUSED: Final[Mapping[Feature, Mapping[str, str]]] = {
    Feature.IMAGE: {"message": "Image input is not supported by this model."},
    Feature.AUDIO: {"message": "Audio input is not supported by this model."},
    Feature.VIDEO: {"message": "Video input is not supported by this model."},
    Feature.FILE: {"message": "File input is not supported by this model."},
    Feature.TOOLS: {"message": "Tool use is not supported by this model."},
    Feature.TOOL_CHOICE: {"message": "tool_choice is not supported by this model."},
    Feature.TOOL_SCHEMA: {
        "code": "invalid_function_parameters",
        "message": "The tool's input schema is invalid.",
    },
    Feature.STRUCTURED_OUTPUT: {"message": "response_format is not supported by this model."},
    Feature.STREAMING: {"message": "Streaming is not supported by this model."},
    Feature.REASONING: {"message": "Reasoning is not supported by this model."},
    Feature.ROLE: {
        "code": "unsupported_value",
        "param": "messages[0].role",
        "message": "This role is not supported.",
    },
    Feature.ENDPOINT: {
        "code": "OperationNotSupported",
        "message": "This model does not support this endpoint.",
    },
    Feature.OTHER: {"message": "This type of content part is not supported by this model."},
}
