"""How a failed attempt is read: the kind of error, why, and whether waiting can help."""

from __future__ import annotations

import errno
import json
import socket
from typing import Any

import httpx
import pytest

from turnout.engine.classify import (
    UNRECOGNISED,
    Reply,
    Verdict,
    carries_error,
    classify,
    no_connection,
    too_slow,
    transport_failure,
    unreadable,
)
from turnout.machines.vocabulary import ErrorKind as Kind

NOON = 1_767_268_800.0
"""2026-01-01, 12:00:00 UTC, in seconds since 1970."""


def read(status: int, body: Any = b"", headers: dict[str, str] | None = None) -> Verdict:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return classify(Reply(status=status, body=raw, headers=headers or {}), now=NOON)


def error(message: str, **fields: Any) -> dict[str, Any]:
    return {"error": {"message": message, **fields}}


# -- the overflow

OVERFLOWS = {
    "openai-code": (400, error("Too long.", code="context_length_exceeded", param="messages")),
    "llama-type": (400, error("request exceeds it", type="exceed_context_size_error", code=400)),
    "maximum-is": (400, error("This model's maximum context length is 64 tokens. You sent 80 tokens.")),
    "longer-than": (400, {"object": "error", "message": "The input (80 tokens) is longer than the context"}),
    "string-error": (400, {"error": "the input length exceeds the context length"}),
    "prompt-too-long": (400, {"detail": "prompt is too long: 80 tokens > 64 maximum"}),
    "token-count": (400, error("The input token count (80) exceeds the maximum number of tokens (64).")),
    "range": (400, {"code": "InvalidParameter", "message": "Range of input length should be [1, 64]"}),
    "tgi-sum": (422, {"error": "`inputs` tokens + `max_new_tokens` must be <= 64. Given: 60 and 20"}),
    "shorten": (400, error("Please reduce the length of the messages or completion.")),
    "chinese": (400, error("输入长度超过限制")),
    "one-content-string": (
        400,
        error("Invalid.", code="string_above_max_length", param="messages[3].content"),
    ),
    "content-string-in-words": (400, error("Invalid 'messages[3].content': string too long.")),
    "server-error-status": (500, error("Context size has been exceeded.", type="server_error")),
    "inside-a-200": (200, error("prompt is too long: 80 tokens > 64 maximum", code=400)),
    "in-a-choice-of-a-200": (200, {"choices": [{"error": {"message": "prompt is too long", "code": 400}}]}),
    "too-large-page": (413, b"<html><head><title>413 Request Entity Too Large</title></head></html>"),
    "too-large-empty": (413, b""),
    "long-context-surcharge": (429, error("Extra usage is required for long context requests.")),
}


@pytest.mark.parametrize(("status", "body"), OVERFLOWS.values(), ids=OVERFLOWS)
def test_a_conversation_that_does_not_fit_is_an_overflow(status: int, body: Any) -> None:
    verdict = read(status, body)
    assert verdict.kind is Kind.CONTEXT_WINDOW
    assert not verdict.retryable


NOT_OVERFLOWS = {
    "output-cap": (400, error("max_tokens is too large: 80. This model supports at most 64 tokens.")),
    "output-cap-in-tokens": (400, error("The number of tokens in max_tokens exceeds 64")),
    "took-too-long": (504, error("The request took too long to process")),
    "headers": (400, error("Request header fields too large")),
    "one-image": (400, error("messages.1.content.0: image exceeds 5 MB maximum")),
    "tool-list": (400, error("Invalid 'tools': array too long.", code="array_above_max_length")),
    "cache-key": (400, error("Invalid.", code="string_above_max_length", param="prompt_cache_key")),
    "item-of-a-message": (400, error("Bad.", code="string_above_max_length", param="messages[0].name")),
    "a-function-called-so": (400, error("function 'maximum context length is 8 tokens' has no arguments")),
    "documentation": (400, error("See https://docs.example/errors#prompt-is-too-long")),
    "nothing-named": (400, error("Too long.", code="string_above_max_length")),
}


@pytest.mark.parametrize(("status", "body"), NOT_OVERFLOWS.values(), ids=NOT_OVERFLOWS)
def test_what_is_too_long_elsewhere_is_no_overflow(status: int, body: Any) -> None:
    assert read(status, body).kind is not Kind.CONTEXT_WINDOW


# -- capability

CAPABILITIES = {
    "code": (400, error("No.", code="image_not_supported"), ("image",)),
    "images": (400, error("This model does not support image inputs."), ("image",)),
    "vision": (400, error("Model 'x' doesn\u2019t support vision"), ("image",)),
    "audio-under-404": (404, error("No endpoints found that support audio input", code=404), ("audio",)),
    "video-under-500": (500, error("video input is not supported", type="server_error"), ("video",)),
    "file": (400, error("PDF files are not supported"), ("file",)),
    "unnamed-modality": (400, error("Input modality is not enabled"), ("other",)),
    "unknown-part": (422, b"messages[1]: unknown variant `image_url`, expected `text`", ("image",)),
    "tools": (400, {"error": "gemma does not support tools"}, ("tools",)),
    "unsupported-param-tools": (400, error("No.", code="unsupported_parameter", param="tools"), ("tools",)),
    "tool-count": (400, error("Invalid 'tools': array too long.", param="tools"), ("tools",)),
    "tool-choice": (400, error("tool_choice 'required' is not supported"), ("tool_choice",)),
    "tool-schema": (400, error("Bad.", code="invalid_function_parameters"), ("tool_schema",)),
    "tool-parameters": (
        400,
        error("No.", code="unknown_parameter", param="tools[0].function.parameters.oneOf"),
        ("tool_schema",),
    ),
    "response-format": (400, error("json_schema is not supported with this model"), ("structured_output",)),
    "stream-value": (400, error("No.", code="unsupported_value", param="stream"), ("streaming",)),
    "reasoning": (400, error('"x" does not support thinking'), ("reasoning",)),
    "role": (400, error("No.", code="unsupported_value", param="messages[0].role"), ("role",)),
    "message-field": (
        422,
        {"detail": [{"type": "extra_forbidden", "loc": ["body", "messages", 0, "name"], "msg": "No"}]},
        ("other",),
    ),
    "endpoint": (404, error("This model is only supported in /v1/responses"), ("endpoint",)),
    "combination": (400, error("Streaming and tools cannot be combined"), ("streaming", "tools")),
    "combination-unnamed": (400, error("These features cannot be used together"), ("other",)),
    "endpoint-beside-a-feature": (
        400,
        error("Function tools with reasoning are not supported in /v1/chat/completions"),
        ("reasoning", "tools"),
    ),
    "requested-parameters": (
        404,
        error("No endpoints found that can handle the requested parameters."),
        ("other",),
    ),
}


@pytest.mark.parametrize(("status", "body", "features"), CAPABILITIES.values(), ids=CAPABILITIES)
def test_what_the_target_cannot_serve_is_a_capability_with_its_features(
    status: int, body: Any, features: tuple[str, ...]
) -> None:
    verdict = read(status, body)
    assert (verdict.kind, verdict.features) == (Kind.CAPABILITY, features)
    assert not verdict.retryable


def test_an_oversized_request_comes_before_a_missing_feature() -> None:
    verdict = read(400, error("Images are not supported. Also, the prompt is too long."))
    assert verdict.kind is Kind.CONTEXT_WINDOW


# -- the vetoes

OVERFLOW = "This model's maximum context length is 64 tokens."
REFUSAL = "This model does not support image input."

VETOES = {
    "rate-limit-code": (400, {"code": "rate_limit_exceeded"}, "", Kind.UNAVAILABLE),
    "rate-limit-type": (413, {"type": "rate_limit_error"}, "", Kind.UNAVAILABLE),
    "per-minute": (400, {}, "Limit: 9 tokens per minute.", Kind.UNAVAILABLE),
    "try-again-in": (400, {}, "Please try again in 9.5s.", Kind.UNAVAILABLE),
    "429": (429, {}, "", Kind.UNAVAILABLE),
    "quota-code": (429, {"code": "insufficient_quota"}, "", Kind.QUOTA_OR_BILLING),
    "credits": (400, {}, "Your credit balance is too low.", Kind.QUOTA_OR_BILLING),
    "402": (402, {}, "", Kind.QUOTA_OR_BILLING),
    "policy-code": (400, {"code": "content_filter"}, "", Kind.CONTENT_POLICY),
    "moderation": (403, {}, "Your input was flagged by our moderation.", Kind.CONTENT_POLICY),
    "api-key": (400, {}, "The API key is not valid.", Kind.AUTH),
    "401": (401, {}, "", Kind.AUTH),
}


@pytest.mark.parametrize("said", [OVERFLOW, REFUSAL], ids=["overflow", "capability"])
@pytest.mark.parametrize(("status", "fields", "also", "kind"), VETOES.values(), ids=VETOES)
def test_evidence_of_a_limit_money_policy_or_key_vetoes_overflow_and_capability(
    said: str, status: int, fields: dict[str, Any], also: str, kind: Kind
) -> None:
    assert read(status, error(f"{said} {also}", **fields)).kind is kind


def test_the_overflow_and_the_refusal_of_the_vetoes_are_read_as_such_alone() -> None:
    assert read(400, error(OVERFLOW)).kind is Kind.CONTEXT_WINDOW
    assert read(400, error(REFUSAL)).kind is Kind.CAPABILITY


# -- the other kinds

KINDS = {
    "parameter-code": (
        400,
        error("No.", code="unsupported_parameter", param="temperature"),
        "parameter_reject",
    ),
    "parameter-value": (400, error("No.", code="unsupported_value", param="temperature"), "parameter_reject"),
    "parameter-in-words": (400, error("Unrecognized request argument supplied: foo"), "parameter_reject"),
    "parameter-of-a-validator": (
        422,
        {"detail": [{"type": "extra_forbidden", "loc": ["body", "foo"], "msg": "not permitted"}]},
        "parameter_reject",
    ),
    "parameter-renamed": (
        400,
        error(
            "'response_format' has moved to 'text.format'.",
            code="unsupported_parameter",
            param="response_format",
        ),
        "parameter_reject",
    ),
    "parameter-on-a-tool": (
        400,
        error("No.", code="unknown_parameter", param="tools[0].cache_control"),
        "parameter_reject",
    ),
    "parameters-together": (400, error("temperature and top_p cannot be combined"), "parameter_reject"),
    "stop-list": (400, error("Bad.", code="array_above_max_length", param="stop"), "parameter_reject"),
    "model-code": (404, error("No.", code="model_not_found"), "model_not_found"),
    "model-in-words": (400, error("model 'vision-input' does not exist"), "model_not_found"),
    "model-without-endpoints": (404, error("No endpoints found for x/y:free.", code=404), "model_not_found"),
    "model-404": (404, {"type": "error", "error": {"message": "model: x-opus"}}, "model_not_found"),
    "bare-404": (404, b"404 page not found", "model_not_found"),
    "empty-404": (404, b"", "model_not_found"),
    "forbidden": (403, error("Forbidden"), "auth"),
    "region": (403, error("Country, region, or territory not supported"), "auth"),
    "unverified": (400, error("Your organization must be verified to stream.", param="stream"), "auth"),
    "overloaded": (529, error("Overloaded", type="overloaded_error"), "unavailable"),
    "loading-under-400": (400, error("The model is currently loading"), "unavailable"),
    "engine-code": (400, error("Sorry.", code="engine_overloaded"), "unavailable"),
    "timeout-status": (408, b"", "unavailable"),
    "too-early": (425, b"", "unavailable"),
    "gateway-page": (502, b"<html><title>502 Bad Gateway</title>prompt is too long</html>", "unavailable"),
    "page-without-title": (503, b"<html>maximum context length is 8 tokens</html>", "unavailable"),
    "broken-image": (400, error("could not process image"), "caller_error"),
    "broken-image-under-a-500": (500, error("could not process image"), "caller_error"),
    "missing-field": (400, error("No.", code="missing_required_parameter", param="messages"), "caller_error"),
}


@pytest.mark.parametrize(("status", "body", "kind"), KINDS.values(), ids=KINDS)
def test_every_other_kind(status: int, body: Any, kind: str) -> None:
    verdict = read(status, body)
    assert verdict.kind == kind
    assert verdict.evidence.rule != UNRECOGNISED
    assert verdict.features == ()


UNKNOWN = {
    "odd": (400, error("Computer says no.")),
    "empty": (422, b""),
    "conflict": (409, error("Conflict")),
    "another-thing-not-found": (404, error("Widget w1 not found")),
    "unsupported-model-value": (400, error("No.", code="unsupported_value", param="model")),
    "unsupported-nothing": (400, error("No.", code="unsupported_value")),
    "parameter-of-another-format": (400, error("Unknown parameter: 'input'.")),
    "broken-json-within": (400, error("failed on {input}: {[")),
}


@pytest.mark.parametrize(("status", "body"), UNKNOWN.values(), ids=UNKNOWN)
def test_a_4xx_that_no_rule_knows_is_the_callers_and_says_so(status: int, body: Any) -> None:
    verdict = read(status, body)
    assert (verdict.kind, verdict.evidence.rule) == (Kind.CALLER_ERROR, UNRECOGNISED)


# -- an error in a 200, and other statuses

IN_A_200 = {
    "numeric-code": (error("Provider returned error", code=502), "unavailable", "status_502"),
    "stated-status": (error("Odd.", http_status_code=422), "caller_error", UNRECOGNISED),
    "type-as-status": (error("Odd.", type="invalid_request_error"), "caller_error", UNRECOGNISED),
    "nothing-told": (error("Odd."), "unavailable", UNRECOGNISED),
}


@pytest.mark.parametrize(("body", "kind", "rule"), IN_A_200.values(), ids=IN_A_200)
def test_an_error_in_a_200_is_read_by_what_it_states_itself(body: Any, kind: str, rule: str) -> None:
    verdict = read(200, body)
    assert (verdict.kind, verdict.evidence.rule, verdict.status) == (kind, rule, 200)


def test_a_redirect_is_unavailable_and_waiting_does_not_help() -> None:
    verdict = read(302, b"", {"retry-after": "1"})
    assert (verdict.kind, verdict.retryable) == (Kind.UNAVAILABLE, False)


# -- wrappers and echoes


def test_the_innermost_of_wrapped_errors_decides_and_is_quoted() -> None:
    inner = json.dumps(error("  prompt is too long: 80 tokens > 64 maximum ", code="E17"))
    verdict = read(502, error("Provider returned error", code=502, metadata={"raw": inner}))
    assert verdict.kind is Kind.CONTEXT_WINDOW
    assert verdict.message == "prompt is too long: 80 tokens > 64 maximum"
    assert verdict.code == "E17"
    assert verdict.evidence.field == "error.metadata.raw.error.message"


def test_json_within_a_proxys_sentence_is_unwrapped() -> None:
    inner = json.dumps({"message": "images are not supported"})
    verdict = read(500, error(f"proxy.BadRequest {{x}}: Upstream - {inner}. Fallbacks=None"))
    assert (verdict.kind, verdict.message) == (Kind.CAPABILITY, "images are not supported")


def test_an_inner_rate_limit_wins_over_the_wrappers_status() -> None:
    assert read(400, {"errors": [error("slow down", code=429)]}).kind is Kind.UNAVAILABLE


def test_wrapping_is_followed_only_so_deep() -> None:
    body: Any = error("prompt is too long")
    for _ in range(14):
        body = {"error": body}
    assert read(400, body).evidence.rule == UNRECOGNISED


CUT = {
    "in-the-message": b'{"error": {"message": "prompt is too long',
    "behind-a-comma": b'{"error": {"message": "prompt is too long", ',
    "behind-a-name": b'{"error": {"message": "prompt is too long", "type": ',
    "in-a-value": b'{"error": {"message": "prompt is too long", "code": nu',
    "in-a-name": b'{"error": {"message": "prompt is too long", "ty',
    "in-an-escape": b'{"error": {"message": "prompt is too long \\u8d',
}


@pytest.mark.parametrize("body", CUT.values(), ids=CUT)
def test_json_that_was_cut_off_is_read_as_far_as_it_came(body: bytes) -> None:
    assert read(400, body).kind is Kind.CONTEXT_WINDOW


ECHOED = ["prompt is too long: 80 tokens > 64 maximum", "image input is not supported", "invalid api key"]
ECHOES = {
    "validator": lambda text: {
        "detail": [{"msg": "Odd.", "loc": ["body"], "input": text, "ctx": {"e": text}}]
    },
    "cut-off": lambda text: f'{{"error": {{"message": "Odd.", "input": "{text}'.encode(),
    "failed-generation": lambda text: error("Odd.", failed_generation=text),
    "request": lambda text: error("Odd.", request={"messages": [{"content": text}]}),
    "in-the-message": lambda text: error(f"Odd: messages = [{{'content': '{text}'}}]"),
    "as-a-python-value": lambda text: error(f"[{{'msg': 'Odd', 'input': '{text}'}}]"),
    "tool-name": lambda text: error(f"Odd function '{text}'"),
    "answer": lambda text: {"error": {"message": "Odd."}, "choices": [{"message": {"content": text}}]},
    "middle-of-a-long-message": lambda text: error(f"{'odd ' * 800}{text}{' odd' * 800}"),
}


@pytest.mark.parametrize("text", ECHOED, ids=["overflow", "capability", "auth"])
@pytest.mark.parametrize("echo", ECHOES.values(), ids=ECHOES)
def test_what_the_server_quotes_of_the_request_never_decides(echo: Any, text: str) -> None:
    verdict = read(400, echo(text))
    assert (verdict.kind, verdict.evidence.rule) == (Kind.CALLER_ERROR, UNRECOGNISED)


def test_a_long_message_is_read_at_both_ends_and_kept_whole() -> None:
    filler = "odd " * 2000
    assert read(400, error(f"prompt is too long. {filler}")).kind is Kind.CONTEXT_WINDOW
    verdict = read(400, error(f"{filler} prompt is too long."))
    assert verdict.kind is Kind.CONTEXT_WINDOW
    # cutting is for whoever takes the credentials out: half of one could not be recognised
    assert verdict.message == f"{filler} prompt is too long."


# -- what the verdict keeps


def test_the_code_the_parameter_and_the_message_are_kept_as_sent() -> None:
    verdict = read(400, error(" No temperature. ", code="unsupported_value", param="temperature"))
    assert (verdict.code, verdict.param, verdict.message) == (
        "unsupported_value",
        "temperature",
        "No temperature.",
    )
    assert read(400, error("Odd.", code=4711)).code == "4711"
    assert read(400, error("Unknown parameter: 'foo'")).param == "foo"
    assert read(400, error("Thinking level is not supported")).param == "thinking_level"


def test_waiting_does_not_help_a_request_that_never_fits_the_rate() -> None:
    large = "Request too large for x on tokens per minute (TPM): Limit 6, Requested 9"
    assert not read(429, error(large, code="rate_limit_exceeded")).retryable
    assert read(429, error("Rate limit reached", code="rate_limit_exceeded")).retryable
    assert not read(429, error("No.", code="insufficient_quota")).retryable


WAITS = {
    "seconds": ({"retry-after": "20"}, 20.0),
    "fraction": ({"retry-after": " 1.5 "}, 1.5),
    "milliseconds-win": ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
    "unreadable-milliseconds": ({"retry-after-ms": "soon", "retry-after": "1"}, 1.0),
    "date": ({"retry-after": "Thu, 01 Jan 2026 12:00:30 GMT"}, 30.0),
    "date-without-zone": ({"retry-after": "Thu, 01 Jan 2026 12:00:30 -0000"}, 30.0),
    "past-date": ({"retry-after": "Thu, 01 Jan 2026 11:00:00 GMT"}, None),
    "words": ({"retry-after": "soon"}, None),
    "negative": ({"retry-after": "-1"}, None),
    "nan": ({"retry-after": "nan"}, None),
    "infinite": ({"retry-after": "inf"}, None),
    "impossible-date": ({"retry-after": "Thu, 99 Jan 2026 12:00:30 GMT"}, None),
    "absent": ({}, None),
}


@pytest.mark.parametrize(("headers", "seconds"), WAITS.values(), ids=WAITS)
def test_how_long_the_upstream_asks_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert read(429, b"", headers).retry_after == seconds


# -- an answer, or not

CARRY = {
    "object": (b'{"error": {"message": "no"}}', True),
    "string": (b'{"error": "no"}', True),
    "choice": (b'{"choices": [{"error": {"code": 502}}]}', True),
    "null": (b'{"error": null, "choices": []}', False),
    "number": (b'{"error": 1}', False),
    "spoken-of": (b'{"choices": [{"message": {"content": "\\"error\\""}}]}', False),
    "text-that-mentions-it": (b'{"choices": ["\\"error\\"", {"text": "error"}], "x": "error"}', False),
    "one-choice-without-a-list": (b'{"choices": {"error": "x"}}', True),
    "list-of-one": (b'[{"error": "no"}]', True),
    "no-json": (b'"error": no', False),
    "answer": (b'{"choices": [{"message": {"content": "hi"}}]}', False),
    "answer-with-an-empty-error": (
        b'{"choices": [{"message": {"content": "hi"}}], "error": {"message": "", "code": null}}',
        False,
    ),
    "answer-with-an-error-of-success": (
        b'{"choices": [{"message": {"content": "hi"}}], "error": {"code": 0, "message": "success"}}',
        False,
    ),
    "answer-that-is-a-refusal": (
        b'{"choices": [{"message": {"refusal": "no"}, "finish_reason": "content_filter"}]}',
        False,
    ),
    "answer-beside-an-error-elsewhere": (
        b'{"choices": [{"message": {"content": "hi"}}], "data": {"error": "old"}}',
        False,
    ),
    "withheld": (b'{"choices": [{"message": {"content": null}, "finish_reason": "content_filter"}]}', True),
}


@pytest.mark.parametrize(("body", "carries"), CARRY.values(), ids=CARRY)
def test_whether_a_200_carries_an_error(body: bytes, carries: bool) -> None:
    assert carries_error(body) is carries


def test_an_answer_that_cannot_be_read_is_unavailable_and_not_asked_for_again() -> None:
    verdict = unreadable(200, "cut off")
    assert (verdict.kind, verdict.retryable, verdict.status) == (Kind.UNAVAILABLE, False, 200)
    assert (verdict.evidence.rule, verdict.message) == ("unreadable", "cut off")


# -- no reply at all


class ConnectTimeout(Exception):
    """Named as HTTP libraries name it."""


class RemoteProtocolError(Exception):
    """Named as HTTP libraries name it."""


def caused(error: BaseException, by: BaseException) -> BaseException:
    error.__cause__ = by
    return error


FAILURES = {
    "timeout": (TimeoutError(), "timeout"),
    "reset": (ConnectionResetError("reset"), "transport"),
    "refused": (ConnectionRefusedError(), "transport"),
    "no-such-host": (socket.gaierror(-2, "unknown"), "transport"),
    "no-route": (OSError(errno.EHOSTUNREACH, "no route"), "transport"),
    "by-name": (RemoteProtocolError("gone"), "transport"),
    "failed-connect": (caused(ConnectTimeout(), TimeoutError()), "transport"),
    "wrapped": (caused(RuntimeError("client failed"), TimeoutError("read")), "timeout"),
    "innermost-decides": (caused(TimeoutError(), BrokenPipeError()), "transport"),
}


@pytest.mark.parametrize(("failure", "rule"), FAILURES.values(), ids=FAILURES)
def test_a_broken_connection_may_be_tried_again_and_a_timeout_is_marked(
    failure: Exception, rule: str
) -> None:
    verdict = transport_failure(failure)
    assert verdict is not None
    assert (verdict.kind, verdict.evidence.rule, verdict.status) == (Kind.UNAVAILABLE, rule, None)
    assert verdict.timed_out is (rule == "timeout")
    assert verdict.retryable is not verdict.timed_out
    assert verdict.message.startswith(type(failure).__name__)


def test_what_happened_while_a_failure_was_handled_is_followed_unless_hidden() -> None:
    shown, hidden = RuntimeError(), RuntimeError()
    shown.__context__ = hidden.__context__ = ConnectionResetError()
    hidden.__suppress_context__ = True
    assert transport_failure(shown) is not None
    assert transport_failure(hidden) is None


def test_what_a_broken_protocol_quotes_is_not_told_since_it_may_be_an_answer() -> None:
    verdict = transport_failure(httpx.RemoteProtocolError("illegal chunk header: bytearray(b'private')"))
    assert verdict is not None
    assert verdict.message == "RemoteProtocolError: illegal chunk header"


def test_a_certificate_that_is_refused_is_refused_again() -> None:
    verdict = transport_failure(httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] unable to get issuer"))
    assert verdict is not None
    assert verdict.kind is Kind.UNAVAILABLE
    assert not verdict.retryable


def test_a_bug_or_a_missing_file_is_no_transports_failure() -> None:
    assert transport_failure(ValueError("bug")) is None
    assert transport_failure(FileNotFoundError(errno.ENOENT, "no such file")) is None


def test_causes_that_run_in_a_circle_end() -> None:
    first, second = ValueError(), ValueError()
    first.__cause__, second.__cause__ = second, first
    assert transport_failure(first) is None


def test_bounds_that_passed_are_told_apart() -> None:
    slow, unconnected = too_slow(2.5), no_connection(None)
    assert (slow.timed_out, slow.retryable, slow.message) == (True, False, "no complete answer within 2.5 s")
    assert (unconnected.timed_out, unconnected.retryable) == (False, True)
    assert unconnected.message == "no connection in time"
