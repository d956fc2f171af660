"""`turnout classify`: what a person reads of one reply, and what a program gets of many."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from syrupy.assertion import SnapshotAssertion

from turnout.engine.cli import classify as command
from turnout.engine.cli import main
from turnout.engine.explaining import MEANINGS
from turnout.engine.policy import DEFAULT
from turnout.engine.replies import MAX_LINE

KEYS = ["id", "kind", "reason", "features", "param", "retryable", "retry_after", "evidence"]


def error(message: str, **fields: Any) -> str:
    return json.dumps({"error": {"message": message, **fields}})


OVERFLOW = error("Too long.", code="context_length_exceeded")
REFUSAL = error("This model does not support image input.")
UNKNOWN = error("E-77: no.", code="E-77")
ANSWER = json.dumps({"choices": [{"message": {"role": "assistant", "content": "Hi"}}]})


def classify(*arguments: str, body: str | bytes = "", **options: Any) -> Result:
    return CliRunner(env={"NO_COLOR": None, "TERM": "xterm"}).invoke(
        main, ["classify", *arguments], input=body, **options
    )


def words(result: Result) -> dict[str, str]:
    """What a person reads, by label; what goes on below itself is joined."""
    told: dict[str, str] = {}
    label = ""
    for line in result.output.partition("\n\n")[0].splitlines():
        label = line[: command.LABEL].strip() or label
        told[label] = f"{told.get(label, '')} {line[command.LABEL :].strip()}".strip()
    return told


# -- one reply, for a person

KINDS = {
    "context_window": (400, OVERFLOW, "evict"),
    "capability": (400, REFUSAL, "evict"),
    "unavailable": (503, error("The model is overloaded."), "skip"),
    "quota_or_billing": (402, error("Out of credits."), "skip"),
    "auth_403": (403, error("Denied."), "skip"),
    "auth": (401, error("Incorrect API key provided."), "surface"),
    "model_not_found": (404, error("The model `m` does not exist."), "surface"),
    "content_policy": (400, error("Filtered.", code="content_filter"), "surface"),
    "parameter_reject": (400, error("Refused.", code="unsupported_parameter", param="top_k"), "surface"),
    "unrecognised": (418, UNKNOWN, "surface"),
    "caller_error": (400, error("Invalid base64 image data."), "surface"),
}


@pytest.mark.parametrize("row", KINDS)
def test_every_row_of_a_policy_has_its_words_and_what_is_done(row: str) -> None:
    status, body, action = KINDS[row]
    shown = classify("--status", str(status), body=body)
    told = words(shown)
    assert shown.exit_code == 0
    assert told["kind"].endswith(f": {MEANINGS[row]}")
    assert told["action"].startswith(f"{action}: ")
    assert told["action"].endswith("by the default policy")


def test_the_words_for_kinds_are_one_table_with_all_rows_of_a_policy() -> None:
    assert list(MEANINGS) == list(DEFAULT) == list(KINDS)


def test_what_a_person_reads_of_each_kind(snapshot: SnapshotAssertion) -> None:
    shown = [classify("--status", str(status), body=body).output for status, body, _ in KINDS.values()]
    assert max(len(line) for output in shown for line in output.splitlines()) <= 80
    # which rule decides is told by the tests of the rules
    assert re.sub(r"(?m)^evidence .*\n( +matched .*\n)*", "evidence   ...\n", "\n".join(shown)) == snapshot


def test_a_refusal_tells_what_was_refused() -> None:
    assert words(classify("--status", "400", body=REFUSAL))["refused"] == "image"


def test_a_parameter_is_named() -> None:
    _, body, _ = KINDS["parameter_reject"]
    assert words(classify("--status", "400", body=body))["parameter"] == "top_k"


@pytest.mark.parametrize(
    ("header", "told"),
    [
        ("x=1", "after about 0.25 s, at most 2 times"),
        ("Retry-After=20", "after 20 s, as it asks, at most 2 times"),
        ("retry-after-ms=1500", "after 1.5 s, as it asks, at most 2 times"),
        ("retry-after=3600", "no: it asks to wait 3600 s; max_retry_after_secs is 60"),
    ],
)
def test_whether_the_target_is_asked_again_and_when(header: str, told: str) -> None:
    shown = classify("--status", "503", "--header", header)
    assert words(shown)["retried"] == told


def test_what_waiting_does_not_help_is_not_asked_again() -> None:
    assert words(classify("--status", "400", body=REFUSAL))["retried"].startswith("no: ")


def test_the_evidence_is_the_rule_and_where_it_looked() -> None:
    shown = classify("--status", "503", body="")
    assert words(shown)["evidence"] == "rule status_503, on status"


def test_an_error_in_the_body_of_a_200_is_an_error() -> None:
    assert words(classify("--status", "200", body=OVERFLOW))["kind"].startswith("context_window: ")


def test_an_error_event_of_a_stream_needs_no_status() -> None:
    body = '{"type":"overloaded_error","message":"Overloaded"}'
    assert words(classify("--event", "error", body=body))["kind"].startswith("unavailable: ")


def test_an_answer_is_called_one() -> None:
    shown = classify("--status", "200", body=ANSWER)
    assert (shown.exit_code, shown.output) == (0, f"{command.ANSWER}\n")
    assert json.loads(classify("--status", "200", "--json", body=ANSWER).output) == {"answer": True}


@pytest.mark.parametrize("body", ["", "<html>", "{}", '{"choices":[]}', "[" * 100_000])
def test_a_200_with_neither_an_error_nor_an_answer_is_unreadable(body: str) -> None:
    shown = classify("--status", "200", body=body)
    assert words(shown)["evidence"] == "rule unreadable, on body"
    assert words(shown)["action"].startswith("skip: ")
    assert shown.output.endswith(f"\n\n{command.NO_ERROR}\n")


def test_an_answer_of_a_format_that_cannot_be_read_is_not_called_one() -> None:
    shown = classify("--status", "200", "--format", "gemini", body=ANSWER)
    assert shown.output.endswith(f"\n\n{command.NO_ERROR}\n")


# -- a reply that no rule knows


def rule_in(shown: Result) -> Any:
    """The ready rule that is shown, as a deployment file would hold it."""
    text = "\n".join(line for line in shown.output.splitlines() if re.match(r"  \S", line))
    return tomllib.loads(text)["llm_clients"]["NAME"]["errors"]


def test_an_unrecognised_reply_comes_with_a_rule_made_from_it() -> None:
    shown = classify("--status", "418", body=UNKNOWN)
    assert rule_in(shown) == [{"status": 418, "code": "E-77", "kind": "capability"}]
    assert "report it" in shown.output


def test_without_a_code_the_rule_looks_for_how_the_message_begins() -> None:
    message = 'It is "odd" \\ here and goes on for much longer than a rule has any need of.'
    (rule,) = rule_in(classify("--status", "418", body=error(message, code=418)))
    assert rule == {"status": 418, "contains": rule["contains"], "kind": "capability"}
    assert len(rule["contains"]) > 40
    assert message.startswith(f"{rule['contains']} ")


@pytest.mark.parametrize("body", ["", error("sk-abcdefghijklmnop1234567890 odd")])
def test_where_a_reply_tells_nothing_that_can_be_shown_the_rule_says_how_wide_it_is(body: str) -> None:
    shown = classify("--status", "418", body=body)
    assert rule_in(shown) == [{"status": 418, "kind": "capability"}]
    assert "takes every reply with its status" in shown.output


def test_a_reply_that_a_rule_knows_needs_none() -> None:
    assert "llm_clients" not in classify("--status", "400", body=OVERFLOW).output


# -- what must not be printed

HOSTILE = "\x1b]0;owned\x07\x1b[31m\u202ered\u2066\r\n\x9b2J\u2028"


@pytest.mark.parametrize("arguments", [["--status", "418"], ["--status", "418", "--json"]], ids=" ".join)
def test_a_reply_steers_no_terminal(arguments: list[str]) -> None:
    shown = classify(*arguments, body=error(HOSTILE, code=HOSTILE, param=HOSTILE))
    assert shown.exit_code == 0
    assert all(line.isprintable() for line in shown.output.split("\n"))
    assert "red" in shown.output
    raw = classify(*arguments, body=HOSTILE.encode() + b"\xff\x00")
    assert all(line.isprintable() for line in raw.output.split("\n"))


@pytest.mark.parametrize("arguments", [["--status", "418"], ["--status", "418", "--json"]], ids=" ".join)
def test_what_looks_like_a_key_is_not_printed(arguments: list[str]) -> None:
    key = "sk-abcdefghijklmnop1234567890"
    shown = classify(*arguments, body=error(f"wrong: {key}", code=key, param=key))
    assert key not in shown.output
    assert "[credential]" in shown.output


def test_colours_are_for_terminals() -> None:
    assert "\x1b[" not in classify("--status", "400", body=REFUSAL).output
    assert "\x1b[31mevict: " in classify("--status", "400", body=REFUSAL, color=True).output


# -- one reply, for a program


def test_one_reply_as_json() -> None:
    shown = classify("--status", "400", "--json", "--header", "retry-after=20", body=REFUSAL)
    told = json.loads(shown.output)
    assert shown.output.count("\n") == 1
    evidence = told.pop("evidence")
    assert set(evidence) == {"rule", "field", "matched"}
    assert told == {
        "answer": False,
        "kind": "capability",
        "reason": "capability",
        "features": ["image"],
        "param": None,
        "retryable": False,
        "retry_after": 20.0,
        "action": "evict",
        "status": 400,
        "code": "",
        "message": "This model does not support image input.",
    }


# -- usage


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "give --status"),
        (["--status", "99"], "--status"),
        (["--status", "400", "--header", "retry-after"], "NAME=VALUE"),
        (["--status", "400", "--header", "=20"], "NAME=VALUE"),
        (["--status", "400", "--target", "a"], "give --deployment"),
        (["--status", "400", "--route", "a"], "give --deployment"),
        (["--jsonl", "-", "--status", "400"], "leave '--status' out"),
        (["--jsonl", "-", "--json"], "leave '--json' out"),
        (["--jsonl", "missing.jsonl"], "missing.jsonl"),
        (["--jsonl", "."], "'.'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_asked_is_refused(arguments: list[str], told: str) -> None:
    shown = classify(*arguments)
    assert shown.exit_code == 2
    assert told in shown.output


def test_a_header_is_refused_without_being_shown() -> None:
    assert "hunter2" not in classify("--status", "400", "--header", "x: hunter2-hunter2").output


def test_a_body_that_is_too_long_is_refused() -> None:
    assert classify("--status", "500", body=" " * MAX_LINE).exit_code == 0
    shown = classify("--status", "500", body=" " * (MAX_LINE + 1))
    assert shown.exit_code == 2
    assert f"longer than {MAX_LINE} bytes" in shown.output


# -- in a target's place

DEPLOYMENT = """
[llm_clients.here]
base_url = "https://llm.example/v1"
api_key_env = "LLM_EXAMPLE_KEY"
max_retries = 0
extra_body = { top_k = 5, seed = 1 }
[targets.a]
llm_client = "here"
[targets.b]
llm_client = "here"
max_retries = 1
[routes.chat]
ladder = ["a", "b"]
[routes.chat.on]
capability = "skip"
[routes.code]
ladder = ["b"]
"""


@pytest.fixture
def deployment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("deployment.toml").write_text(DEPLOYMENT)
    return "deployment.toml"


def test_a_routes_policy_and_a_targets_retries_count(deployment: str) -> None:
    place = ["--deployment", deployment, "--target", "a"]
    told = words(classify("--status", "400", *place, body=REFUSAL))
    assert told["action"].startswith("skip: ")
    assert told["action"].endswith("by the policy of route chat")
    assert words(classify("--status", "503", *place))["retried"] == "no: max_retries is 0"


def test_where_routes_of_a_target_differ_one_is_asked_for(deployment: str) -> None:
    place = ["--status", "400", "--deployment", deployment, "--target", "b"]
    shown = classify(*place, body=REFUSAL)
    assert shown.exit_code == 2
    assert "the routes of target 'b' are chat, code; give --route one of them." in shown.output
    assert words(classify(*place, "--route", "chat", body=REFUSAL))["action"].startswith("skip: ")
    assert words(classify(*place, "--route", "code", body=REFUSAL))["action"].startswith("evict: ")


def test_where_routes_treat_errors_alike_any_will_do(deployment: str) -> None:
    Path(deployment).write_text(DEPLOYMENT.replace('"skip"', '"evict"'))
    shown = classify("--status", "503", "--deployment", deployment, "--target", "b")
    assert words(shown)["retried"] == "after about 0.25 s, at most 1 time"


def test_the_only_target_need_not_be_named(deployment: str) -> None:
    Path(deployment).write_text(DEPLOYMENT.replace('["a", "b"]', '["b"]').replace('"skip"', '"evict"'))
    shown = classify("--status", "503", "--deployment", deployment)
    assert words(shown)["retried"] == "after about 0.25 s, at most 1 time"


def test_our_own_injection_that_is_refused_is_asked_once_without_it(deployment: str) -> None:
    _, body, _ = KINDS["parameter_reject"]
    shown = classify("--status", "400", "--deployment", deployment, "--target", "a", body=body)
    assert words(shown)["retried"] == "once, without what extra_body adds: seed, top_k"
    Path(deployment).write_text(
        DEPLOYMENT.replace("[targets.a]", '[targets.a]\non_parameter_reject = "report"')
    )
    shown = classify("--status", "400", "--deployment", deployment, "--target", "a", body=body)
    assert words(shown)["retried"].startswith("no: it may be what extra_body adds (seed, top_k)")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "give --target one of: a, b."),
        (["--target", "z"], "give --target one of: a, b."),
        (["--target", "a", "--route", "code"], "are chat; give --route one of them."),
        (["--target", "a", "--format", "gemini"], "leave it out with --deployment"),
    ],
    ids=lambda value: " ".join(value) or "none" if isinstance(value, list) else "",
)
def test_a_target_that_is_not_there_is_told_with_those_that_are(
    arguments: list[str], told: str, deployment: str
) -> None:
    shown = classify("--status", "400", "--deployment", deployment, *arguments)
    assert shown.exit_code == 2
    assert told in shown.output


@pytest.mark.parametrize("file", ["missing.toml", "broken.toml"])
def test_a_deployment_that_cannot_be_used_says_why(file: str, deployment: str) -> None:
    Path("broken.toml").write_text("[targets.a]\n")
    shown = classify("--status", "400", "--deployment", file, "--target", "a")
    assert shown.exit_code == 2
    assert f"{file}: " in shown.stderr


RULE = """
[[llm_clients.here.errors]]
status = 418
contains = "no  PICTURES"
kind = "capability"
features = ["image"]
"""
OWN = error("E-78: no pictures")


def test_an_operators_rules_are_asked_first_and_named(deployment: str) -> None:
    Path(deployment).write_text(f"{DEPLOYMENT}{RULE}")
    place = ["--deployment", deployment, "--target", "a"]
    assert words(classify("--status", "418", body=OWN))["kind"].startswith("caller_error, unrecognised: ")
    told = words(classify("--status", "418", *place, body=OWN))
    assert told["kind"].startswith("capability: ")
    assert told["refused"] == "image"
    assert told["evidence"].startswith("rule llm_clients.here.errors[0], on error")
    assert "matched status: 418" in told["evidence"]
    assert "matched contains: no  PICTURES" in told["evidence"]


def test_a_refusal_that_does_not_tell_what_it_refuses_says_so(deployment: str) -> None:
    Path(deployment).write_text(f"{DEPLOYMENT}{RULE}".replace('features = ["image"]', ""))
    told = words(classify("--status", "418", "--deployment", deployment, "--target", "a", body=OWN))
    assert told["refused"] == "other: the reply does not tell what"


@pytest.mark.parametrize(
    "body", [UNKNOWN, OWN, error("Only this, which goes on until it is cut at a word, and on."), "odd"]
)
def test_the_ready_rule_knows_the_reply_that_it_was_made_from(body: str, deployment: str) -> None:
    shown = classify("--status", "418", body=body)
    text = "\n".join(line for line in shown.output.splitlines() if re.match(r"  \S", line))
    Path(deployment).write_text(f"{DEPLOYMENT}\n{text.replace('NAME', 'here')}\n")
    told = words(classify("--status", "418", "--deployment", deployment, "--target", "a", body=body))
    assert told["evidence"].startswith("rule llm_clients.here.errors[0], on ")


def test_many_replies_are_read_as_a_target_would_read_them(deployment: str) -> None:
    Path(deployment).write_text(f"{DEPLOYMENT}{RULE}")
    place = ["--deployment", deployment, "--target", "a"]
    shown = classify("--jsonl", "-", *place, body=line(status=418, body=OWN))
    told = json.loads(shown.output)
    assert (told["kind"], told["features"], told["reason"]) == ("capability", ["image"], "unavailable")
    assert told["evidence"]["rule"] == "llm_clients.here.errors[0]"


# -- many replies, for a program


def line(**fields: Any) -> str:
    return json.dumps({"id": "r-1", "transport": "http", "status": 400, "body": OVERFLOW} | fields)


def many(*lines: str) -> Result:
    return classify("--jsonl", "-", body="".join(f"{each}\n" for each in lines))


def one(**fields: Any) -> Any:
    shown = many(line(**fields))
    assert shown.exit_code == 0, shown.output
    return json.loads(shown.output)


def test_each_line_is_told_in_order_with_exactly_these_keys() -> None:
    shown = many(line(id="b"), line(id="a", body=REFUSAL), line(id="c", status=503, body=""))
    told = [json.loads(each) for each in shown.output.splitlines()]
    assert shown.exit_code == 0
    assert [list(each) for each in told] == [KEYS] * 3
    assert [(each["id"], each["kind"]) for each in told] == [
        ("b", "context_window"),
        ("a", "capability"),
        ("c", "unavailable"),
    ]


def test_what_a_line_is_told_as() -> None:
    told = one(body=REFUSAL, headers={"Retry-After": "20"})
    evidence = told.pop("evidence")
    assert list(evidence) == ["rule", "field", "matched"]
    assert told == {
        "id": "r-1",
        "kind": "capability",
        "reason": "capability",
        "features": ["image"],
        "param": None,
        "retryable": False,
        "retry_after": 20.0,
    }


def test_a_parameter_and_no_reason() -> None:
    told = one(body=KINDS["parameter_reject"][1])
    assert (told["kind"], told["param"], told["reason"]) == ("parameter_reject", "top_k", None)


LABELS: dict[str, Any] = {
    "label": "auth",
    "param": "messages",
    "note": 7,
    "tags": {"not": "a list"},
    "source": None,
    "features": ["audio"],
    "confidence": [],
    "kind": "auth",
    "whatever": {"else": 1},
}


@pytest.mark.parametrize("body", [OVERFLOW, REFUSAL, KINDS["parameter_reject"][1], UNKNOWN, ""])
def test_what_a_line_is_labelled_as_changes_nothing(body: str) -> None:
    bare = one(body=body)
    assert one(body=body, **LABELS) == bare
    for name, value in LABELS.items():
        assert one(body=body, **{name: value}) == bare
    assert one(body=body, param="temperature", label="capability") == bare


def test_what_is_missing_has_its_default() -> None:
    assert one(body=None)["kind"] == "caller_error"
    shown = many('{"status": 503}')
    assert json.loads(shown.output)["id"] is None
    assert json.loads(shown.output)["kind"] == "unavailable"


@pytest.mark.parametrize("transport", ["sse_event", "http_200_body"])
def test_what_came_in_a_200_needs_no_status(transport: str) -> None:
    shown = many(json.dumps({"transport": transport, "body": OVERFLOW}))
    assert json.loads(shown.output)["kind"] == "context_window"


def test_null_is_as_good_as_missing() -> None:
    nothing = dict.fromkeys(["id", "provider", "format", "headers", "event"])
    assert one(**nothing) == one() | {"id": None}


def test_a_body_may_be_json_and_a_format_any() -> None:
    assert one(body=json.loads(OVERFLOW)) == one()
    assert one(format="never heard of", provider="nobody") == one()


def test_a_200_without_an_error_is_unreadable_in_a_body_and_read_in_an_event() -> None:
    assert one(transport="http_200_body", status=200, body=ANSWER)["evidence"]["rule"] == "unreadable"
    assert one(transport="sse_event", status=200, body="{}")["evidence"]["rule"] != "unreadable"


def test_nothing_in_is_nothing_out() -> None:
    assert (many().exit_code, many().output) == (0, "")
    assert many("", "  ", "").output == ""


def test_ids_come_back_as_they_were_and_steer_no_terminal() -> None:
    for given in (HOSTILE, "\ud800", 7, "café"):
        shown = many(line(id=given))
        assert json.loads(shown.output)["id"] == given
        assert all(each.isprintable() for each in shown.output.split("\n"))


BROKEN = {
    "no-json": ("{", "is no JSON object; give one reply a line"),
    "list": ("[]", "is no JSON object; give one reply a line"),
    "nested": ("[" * 100_000, "is no JSON object; give one reply a line"),
    "no-text": ("\udcff", "is no JSON object; give one reply a line"),
    "status-missing": ("{}", "status: is missing; give a whole number"),
    "status-text": (line(status="400"), "status: cannot be used; give a whole number"),
    "status-true": (line(status=True), "status: cannot be used; give a whole number"),
    "headers-list": (line(headers=[]), "headers: cannot be used; give an object of strings"),
    "headers-number": (
        line(headers={"retry-after": 20}),
        "headers: cannot be used; give an object of strings",
    ),
    "transport": (
        line(transport="fax"),
        "transport: cannot be used; give http, http_200_body or sse_event",
    ),
    "event": (line(event=1), "event: cannot be used; give a string"),
    "format": (line(format=1), "format: cannot be used; give a string"),
    "provider": (line(provider={}), "provider: cannot be used; give a string"),
    "id": (line(id=[]), "id: cannot be used; give a string or a whole number"),
    "huge": (line(body="x" * MAX_LINE), f"is longer than {MAX_LINE} bytes"),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_line_that_cannot_be_used_is_named_after_those_before_it(broken: str, tmp_path: Path) -> None:
    given, told = BROKEN[broken]
    file = tmp_path / "replies.jsonl"
    file.write_bytes(f"{line(id='before')}\n\n{given}\n{line(id='after')}\n".encode(errors="surrogateescape"))
    shown = classify("--jsonl", str(file))
    assert shown.exit_code == 2
    assert [json.loads(each)["id"] for each in shown.stdout.splitlines()] == ["before"]
    assert f"{file}: line 3: {told}" in shown.stderr


def test_the_longest_line_is_read_whatever_ends_it() -> None:
    for end in ("", "\n", "\r\n"):
        longest = line().ljust(MAX_LINE - len(end))
        assert classify("--jsonl", "-", body=longest + end).exit_code == 0
        assert classify("--jsonl", "-", body=f"{longest} {end}").exit_code == 2


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="a system without /dev/zero")
def test_a_line_without_an_end_is_given_up() -> None:
    shown = classify("--jsonl", "/dev/zero")
    assert shown.exit_code == 2
    assert f"/dev/zero: line 1: is longer than {MAX_LINE} bytes" in shown.stderr


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="a system without /proc")
def test_a_file_that_opens_and_cannot_be_read_is_no_success() -> None:
    shown = classify("--jsonl", "/proc/self/mem")
    assert shown.exit_code == 2
    assert "/proc/self/mem: cannot be read: Input/output error" in shown.stderr


def test_a_line_is_answered_before_the_next_one_comes() -> None:
    with running() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for name in ("first", "second"):
            process.stdin.write(f"{line(id=name)}\n".encode())
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["id"] == name


def test_a_person_who_waits_for_a_long_file_is_told_how_far_it_is(tmp_path: Path) -> None:
    file = tmp_path / "long.jsonl"
    file.write_text(f"{line()}\n" * (command.PROGRESS + 1))
    assert progress(file) == b"\r1000 replies\r\n"
    file.write_text(f"{line()}\n" * (command.PROGRESS - 1))
    assert progress(file) == b""


def running(*arguments: str, **streams: Any) -> subprocess.Popen[bytes]:
    script = "from turnout.engine.cli import main; main(prog_name='turnout')"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE} | streams
    return subprocess.Popen(
        [sys.executable, "-c", script, "classify", *(arguments or ("--jsonl", "-"))], **pipes
    )


def progress(file: Path) -> bytes:
    """What the command says to a terminal on standard error while it reads a file."""
    ours, theirs = pty.openpty()
    with running("--jsonl", str(file), stdout=subprocess.DEVNULL, stderr=theirs) as process:
        os.close(theirs)
        assert process.wait() == 0
    return b"".join(_all(ours))


def _all(descriptor: int) -> Iterator[bytes]:
    """All that was written to a terminal whose other end is closed."""
    try:
        while part := os.read(descriptor, 4096):
            yield part
    except OSError:  # how a terminal without another end says so
        pass
    finally:
        os.close(descriptor)
