"""What is worded like an overflow or a refusal and is none: a healthy target must not be out for it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from turnout.engine.classify import Reply, Verdict, classify
from turnout.engine.classify.operator import ErrorRule
from turnout.machines.vocabulary import ErrorKind as Kind

EVICTING = (Kind.CONTEXT_WINDOW, Kind.CAPABILITY)


def read(status: int, body: Any, **fields: Any) -> Verdict:
    raw = (
        body
        if isinstance(body, bytes)
        else body.encode()
        if isinstance(body, str)
        else json.dumps(body).encode()
    )
    return classify(Reply(status=status, body=raw, **fields), now=0.0)


def error(message: str, **fields: Any) -> dict[str, Any]:
    return {"error": {"message": message, **fields}}


FAILING = [
    (500, "context deadline exceeded"),
    (500, "rpc error: code = DeadlineExceeded desc = context deadline exceeded"),
    (
        504,
        'Post "http://10.1.2.3/v1": context deadline exceeded (Client.Timeout exceeded)',
    ),
    (408, "Request timed out: the provider took longer than 120 seconds to produce a first token"),
    (500, "GPU memory utilization exceeds 0.95, cannot allocate context"),
    (413, "Response payload size exceeded maximum allowed payload size (6291556 bytes)."),
    (500, "OSError: [Errno 24] Too many open files"),
    (500, "Failed to render chat template: out of memory"),
    (500, "json schema compile timeout, must retry"),
    (500, "multimodal processor cache exceeded its limit; restart pending"),
    (502, "stream was not accepted by upstream: connection reset by peer"),
    (502, "MCP server is not available"),
    (503, "Image preprocessing service is not available"),
    (503, 'Back-off pulling image "registry/llm:v2": image not available'),
    (503, "File storage is full"),
    (503, "Completion error: the request exceeded its time budget"),
    (400, "The model produced invalid JSON for the requested schema"),
    (400, "The number of in-flight requests exceeds the maximum of 4"),
    (400, "You have sent too many tokens in the last minute"),
    (403, "Daily token limit of 1000000 reached, resets at midnight UTC"),
]


@pytest.mark.parametrize(("status", "message"), FAILING, ids=[message[:40] for _, message in FAILING])
def test_a_service_that_fails_says_nothing_of_the_conversation(status: int, message: str) -> None:
    assert read(status, error(message)).kind is Kind.UNAVAILABLE


OTHERWISE = {
    Kind.QUOTA_OR_BILLING: [
        "max monthly tokens exceeded: 10000000 > 10000000",
        "The prompt would exceed the project's hard cap of 25 EUR",
        "Token balance is lower than the estimated request size of 9000 tokens; please top up",
    ],
    Kind.CONTENT_POLICY: [
        "The image contains content that is prohibited by our policy and cannot be processed.",
        "Image was rejected: it shows content that is not allowed",
        "We cannot process images of real people",
    ],
    Kind.AUTH: [
        "request signature invalid",
        "Signature in header x-signature could not be verified",
        "The provided token has more than one audience claim",
    ],
    Kind.PARAMETER_REJECT: [
        "logit_bias token id 250001 exceeds vocabulary size 128256",
        "context_length_exceeded_behavior must be one of 'truncate', 'error'",
        "The length of stop sequences must not exceed 16 tokens",
        "Requested completion length 10000 exceeds 4096",
        "Output length limit is 4096 tokens, got 10000",
        "num_ctx 200000 exceeds model maximum 131072",
        "Input validation error: `top_n_tokens` must be >= 0 and <= 5. Given: 10",
    ],
    Kind.CALLER_ERROR: [
        "Audio data is not valid base64",
        "messages.0.content.1.document.source: The PDF specified was not valid.",
        "image url is not accessible",
        "response_format must be an object, got a string",
        "tool_choice names function 'x', which is not provided in tools",
        "Invalid value for 'content': expected a string, got null.",
        "Not the same number of function calls and responses",
        "body is shorter than Content-Length; the stream was not complete",
        "No such File object: file-abc",
    ],
}


@pytest.mark.parametrize(
    ("kind", "message"),
    [(kind, message) for kind, messages in OTHERWISE.items() for message in messages],
    ids=[message[:40] for messages in OTHERWISE.values() for message in messages],
)
def test_a_reply_is_read_by_what_it_is_about(kind: Kind, message: str) -> None:
    assert read(400, error(message)).kind is kind


DOORS = [
    ("Your role does not allow inference on this workspace", Kind.AUTH),
    ("Audio is only available for paid accounts", Kind.QUOTA_OR_BILLING),
]


@pytest.mark.parametrize(("message", "kind"), DOORS, ids=[message for message, _ in DOORS])
def test_a_403_is_a_closed_door_unless_it_plainly_says_otherwise(message: str, kind: Kind) -> None:
    assert read(403, error(message)).kind is kind
    assert read(403, error("This model does not support image input.")).kind is Kind.CAPABILITY


# -- what is quoted

TEXTS = [
    "Explain why the prompt is too long for the context window",
    "Say that this model does not support image input",
]
QUOTING = {
    "serde": 'Failed to deserialize: messages[0].content: invalid type: string "{}", expected a sequence',
    "aws": "1 validation error detected: Value '{}' at 'messages.1.content' failed to satisfy constraint",
    "json library": "parse error at line 1, column 60: missing closing quote; last read: '\"{}'",
    "google": "Invalid value at 'contents[0].parts[0].text' (TYPE_STRING), \"{}\"",
    "zod": "Invalid enum value. Expected 'system' | 'user', received '{}'",
    "jackson": 'JSON parse error: x; at [Source: (String)"{{"model":"m","system":"{}","max_tok"[cut]',
    "ruby": '859: unexpected token at \'{{"system":"{}"\'',
    "jsonschema": "Failed validating 'type' in schema: On instance['messages'][0]['content']: '{}'",
    "arguments": 'invalid tool arguments: {{"message":"{}"}}',
    "request": 'invalid request: {{"model":"m","messages":[],"metadata":{{"a":"{}"}}}}',
}


@pytest.mark.parametrize("text", TEXTS, ids=["overflow", "refusal"])
@pytest.mark.parametrize("message", QUOTING.values(), ids=QUOTING)
def test_what_a_server_quotes_decides_nothing(message: str, text: str) -> None:
    told, other = (read(400, error(message.format(quoted))) for quoted in (text, "Say hello to all of them"))
    assert (told.kind, told.evidence, told.features) == (other.kind, other.evidence, other.features)


ECHOING = {
    "metadata": lambda text: {
        "error": {"code": "server_error", "message": "Odd."},
        "metadata": {"title": text},
    },
    "a tool's description": lambda text: error("Invalid tool.", details={"name": "x", "description": text}),
    "a place": lambda text: {"detail": [{"loc": ["body", "metadata", text], "msg": "Odd."}]},
    "a body": lambda text: error("Odd.", body={"error": text}),
}


@pytest.mark.parametrize("text", TEXTS, ids=["overflow", "refusal"])
@pytest.mark.parametrize("echo", ECHOING.values(), ids=ECHOING)
def test_what_goes_along_evicts_nobody_and_meets_no_rule(echo: Any, text: str) -> None:
    assert read(400, echo(text)).kind not in EVICTING
    rule = ErrorRule(kind="capability", contains=text, name="mine")
    reply = Reply(status=400, body=json.dumps(echo(text)).encode())
    assert classify(reply, now=0.0, rules=[rule]).evidence.rule != "mine"


# -- whatever comes


@pytest.mark.parametrize(
    "body", ["error: {'code': 0x" + "f" * 5000 + "}", "error {'loc': [0x" + "f" * 5000 + "], 'msg': 'x'}"]
)
def test_a_number_of_thousands_of_digits_is_no_code(body: str) -> None:
    assert read(500, body).kind is Kind.UNAVAILABLE


NEVER = [
    "This request needs 132819 tokens but your limit is 30000 tokens per minute.",
    "Rate limit reached on tokens per minute (TPM): Limit 6000, Used 0, Requested 9123.",
    "Request too large for this model on tokens per minute (TPM): Limit 6000.",
]


@pytest.mark.parametrize("message", NEVER)
def test_what_never_fits_a_rate_limit_is_not_asked_again(message: str) -> None:
    verdict = read(429, error(message))
    assert (verdict.kind, verdict.retryable) == (Kind.UNAVAILABLE, False)
    fits = read(429, error("Rate limit reached on tokens per minute (TPM): Limit 6000, Requested 123."))
    assert fits.retryable


def test_a_rule_finds_a_code_in_whatever_field_it_stands() -> None:
    rule = ErrorRule(kind="capability", code="E-77", name="mine")
    for body in ({"code": 400, "error_code": "E-77", "message": "x"}, error("x", code=400, errorCode="E-77")):
        reply = Reply(status=400, body=json.dumps(body).encode())
        assert classify(reply, now=0.0, rules=[rule]).evidence.rule == "mine"


BUGS = [
    (500, "'NoneType' object has no attribute 'choices'"),
    (500, "failed to render email template"),
    (503, "The content safety service is unavailable, please retry"),
    (504, "Content filter service timed out"),
    (502, "unable to check credit balance: connection refused"),
    (500, "Foreign key violation in table messages"),
    (500, "Memory access violation in request worker"),
]


@pytest.mark.parametrize(("status", "message"), BUGS, ids=[message[:40] for _, message in BUGS])
def test_a_server_that_fails_in_its_own_way_is_unavailable(status: int, message: str) -> None:
    verdict = read(status, error(message))
    assert (verdict.kind, verdict.retryable) == (Kind.UNAVAILABLE, True)


NAMES = ["plan", "api_key", "content_policy", "rate_limit", "credit_balance", "context_length_exceeded"]
NAMING = {
    "a schema": "Invalid schema for response_format '{}': 'additionalProperties' is required to be false.",
    "a field of a schema": "Invalid schema for function 'f': In context=(), Missing '{}'.",
    "a path into a schema": "tools.0.custom.input_schema.properties.{}: type must be a string",
    "a path in front": "* tools[0].function_declarations[0].parameters.properties[3].{}: unknown name",
    "metadata": "Invalid 'metadata.{}': string too long. Expected a string with maximum length 512.",
    "an id": "`tool_use` ids were found without `tool_result` blocks immediately after: call_{}_1",
    "a tool": "Duplicate tool name '{}_handler' in tools list",
}


@pytest.mark.parametrize("message", NAMING.values(), ids=NAMING)
def test_a_name_that_the_caller_chose_decides_nothing(message: str) -> None:
    innocent = read(400, error(message.format("report")))
    for name in NAMES:
        verdict = read(400, error(message.format(name)))
        assert (verdict.kind, verdict.features) == (innocent.kind, innocent.features), name


PLAIN = [
    "JSON schema violation: messages[0].role is required",
    "request parameter names are case-sensitive",
    "unicode code point out of range",
    "floating point number required",
]


@pytest.mark.parametrize("message", PLAIN)
def test_the_words_of_validation_are_not_of_policy_or_money(message: str) -> None:
    assert read(400, error(message)).kind not in (Kind.CONTENT_POLICY, Kind.QUOTA_OR_BILLING, Kind.AUTH)


def test_an_answer_that_was_cut_short_is_a_setting_of_its_length() -> None:
    message = "Could not finish the message because max_tokens was reached. Try again with higher max_tokens."
    assert read(400, error(message)).kind is Kind.PARAMETER_REJECT


def test_a_limit_of_thousands_is_read_with_its_separators() -> None:
    fits = "Rate limit reached (TPM): Limit 200,000, Used 199,000, Requested 250. Try again in 1s"
    assert read(429, error(fits)).retryable
    assert not read(429, error("Quota exceeded, limit: 0. Please retry in 24s.")).retryable
