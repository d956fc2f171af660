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
from hypothesis import assume, given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from turnout import ErrorRule
from turnout.engine.classify import Reply
from turnout.engine.classify import classify as read_by_rules
from turnout.engine.classify.answers import carries_error
from turnout.engine.classify.decoding import MAX_BODY
from turnout.engine.cli import classify as command
from turnout.engine.cli import main
from turnout.engine.explaining import MEANINGS
from turnout.engine.policy import DEFAULT
from turnout.engine.replies import MAX_LINE
from turnout.engine.suggesting import suggested

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
    assert (shown.exit_code, shown.output) == (0, f"{command.NO_FAILURE}\n")
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


def ready(shown: Result) -> str:
    """The ready rule that is shown, as a deployment file would hold it."""
    return "\n".join(line.strip() for line in shown.output.splitlines() if re.match(r"  \S", line))


def rule_for(body: str | bytes, status: int = 418) -> Any:
    shown = classify("--status", str(status), body=body)
    assert "report it" in shown.output
    (rule,) = tomllib.loads(ready(shown))["llm_clients"]["NAME"]["errors"]
    return rule


def test_an_unrecognised_reply_comes_with_a_rule_made_from_it() -> None:
    assert rule_for(UNKNOWN) == {"status": 418, "code": "E-77", "kind": "capability"}


@pytest.mark.parametrize(
    ("said", "looked_for"),
    [
        ("E-77: no pictures", "no pictures"),
        ("The lane for pictures is shut (request 7f3a9c).", "The lane for pictures is shut (request"),
        ("Job 12 of lane 7 cannot see the kittens of user 4412", "cannot see the kittens of user"),
        ("It goes on for very much longer, and on, than a rule has any need of.", None),
    ],
    ids=["a code in front", "an id behind", "between numbers", "long"],
)
def test_without_a_code_the_rule_looks_for_words_that_hold_no_number(
    said: str, looked_for: str | None
) -> None:
    rule = rule_for(error(said))
    if looked_for is None:
        assert said.startswith(rule["contains"])
        assert 40 < len(rule["contains"]) <= 60
        looked_for = rule["contains"]
    assert {key: rule[key] for key in ("status", "contains", "kind")} == {
        "status": 418,
        "contains": looked_for,
        "kind": "capability",
    }


def test_quotes_and_what_toml_would_take_for_its_own_are_written_so_that_they_mean_themselves() -> None:
    assert (
        rule_for(error('It is "odd" \\ here in this lane'))["contains"] == 'It is "odd" \\ here in this lane'
    )


def test_the_rule_names_the_feature_that_the_reply_speaks_of() -> None:
    assert rule_for(error("E-77: no pictures", code="E-77"))["features"] == ["image"]


@pytest.mark.parametrize("code", ["invalid_request_error", "bad_request", "error", "api_error", "400", 418])
def test_a_code_that_comes_with_anything_is_not_what_a_rule_looks_for(code: Any) -> None:
    assert rule_for(error("The flux capacitor is not charged", code=code, type="invalid_request_error")) == {
        "status": 418,
        "contains": "The flux capacitor is not charged",
        "kind": "capability",
    }


def test_a_type_tells_more_than_few_words_and_less_than_many() -> None:
    assert rule_for(error("Lane shut.", type="lane_shut"))["code"] == "lane_shut"
    assert rule_for(error("The flux capacitor is not charged", type="lane_shut"))["contains"]


@pytest.mark.parametrize(
    "body",
    [
        "",
        error("sk-abcdefghijklmnop1234567890 odd"),
        error("Bad Request", type="invalid_request_error"),
        error("Error 77", code=418),
        error("Unprocessable Entity"),
        error("I'm a Teapot", code="error"),
    ],
)
def test_no_rule_is_made_of_what_every_reply_of_its_status_says(body: str) -> None:
    shown = classify("--status", "418", body=body)
    assert ready(shown) == ""
    assert "No rule is made ready for it" in " ".join(shown.output.split())
    assert "report it" in shown.output


def test_a_reply_that_a_rule_knows_needs_none() -> None:
    assert "llm_clients" not in classify("--status", "400", body=OVERFLOW).output


def test_the_rule_looks_at_the_innermost_message() -> None:
    inner = {"error": {"message": "The flux capacitor is flat"}}
    wrapped = error(
        "Our provider has refused this and we cannot say why", metadata={"raw": json.dumps(inner)}
    )
    assert rule_for(wrapped)["contains"] == "The flux capacitor is flat"


@given(st.text(max_size=200), st.text(max_size=20), st.text(max_size=20), st.sampled_from([200, 400, 418]))
def test_a_ready_rule_always_knows_its_reply_and_asks_for_more_than_a_status(
    said: str, code: str, type: str, status: int
) -> None:
    reply = Reply(status=status, body=error(said, code=code, type=type).encode())
    assume(status >= 400 or carries_error(reply.body))
    if (rule := suggested(reply, ["image"], "llm_clients.house.errors")) is not None:
        (written,) = tomllib.loads(rule)["llm_clients"]["house"]["errors"]
        assert written.keys() - {"status", "kind", "features"} in ({"code"}, {"contains"})
        rules = (ErrorRule(**written, name="mine"),)
        assert read_by_rules(reply, now=0, rules=rules).evidence.rule == "mine"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("E-77: no pictures", "image: picture, and nothing that is said of it"),
        ("Exceeded", "exceeds: exceed, and nothing that it is said of"),
        ("The flux is charged", "no phrase of what it says"),
        ("First. The picture is odd. Last.", "sentence 2: image: picture, and nothing that is said of it"),
    ],
)
def test_of_an_unrecognised_reply_the_half_that_is_known_is_told(said: str, told: str) -> None:
    knows = words(classify("--status", "418", body=error(said)))["knows"]
    assert knows == f"{told} what is missing goes into engine/classify/concepts.py"


def test_where_both_halves_are_known_the_rule_for_them_is_missing() -> None:
    knows = words(classify("--status", "418", body=error("The turn is too long.")))["knows"]
    assert knows.startswith("turn: turn, and exceeds: too long, but no rule for the two together")
    assert knows.endswith(
        "what is missing goes into engine/classify/rules.py, or engine/classify/concepts.py"
    )


def test_what_is_known_is_told_of_few_sentences_in_few_phrases() -> None:
    said = "The image, audio, video, file, stream, tools and role are odd.\n" * 30
    knows = words(classify("--status", "418", body=error(said)))["knows"]
    assert re.search(r"sentence 4: image: image, audio: audio, video: video, \d more, and nothing", knows)
    assert "sentence 5" not in knows
    assert "and something of 26 more sentences" in knows


@pytest.mark.parametrize("body", ["", "{}", OVERFLOW, "<html><body>E-77: no pictures"])
def test_of_a_reply_without_a_sentence_or_with_a_rule_nothing_is_told(body: str) -> None:
    assert "knows" not in words(classify("--status", "418", body=body))


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
        (["reply.json"], "turnout classify --status 400 < reply.json"),
        (["--status", "422", "reply.json"], "turnout classify --status 422 < reply.json"),
        (["--jsonl", "-", "more.jsonl"], "--jsonl takes one file; leave more.jsonl out."),
        (["--stauts", "400"], "--status"),
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


def test_of_a_body_that_is_too_long_the_beginning_is_read_and_the_rest_is_told_of() -> None:
    begun = json.dumps({"error": {"message": "prompt is too long: 9 > 8", "padding": " " * MAX_BODY}})
    shown = classify("--status", "400", body=begun)
    assert shown.exit_code == 0
    assert "longer than 64 KiB" in shown.stderr
    assert "context_window" in shown.stdout
    assert "longer than" not in classify("--status", "400", body=" " * MAX_BODY).output


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


def unheld(deployment: str, rules: str, body: str, status: int = 418, target: str = "a") -> str:
    """What is told of rules that did not decide a reply."""
    Path(deployment).write_text(DEPLOYMENT + rules)
    shown = classify("--status", str(status), "--deployment", deployment, "--target", target, body=body)
    assert shown.exit_code == 0, shown.output
    return words(shown).get("rules", "")


def own(**given: Any) -> str:
    lines = [f"{key} = {json.dumps(value)}" for key, value in {"kind": "auth", **given}.items()]
    return "\n".join(["[[llm_clients.here.errors]]", *lines, ""])


MINE = "your rule llm_clients.here.errors[0] does not hold: "


@pytest.mark.parametrize(
    ("rule", "body", "told"),
    [
        (
            {"status": 418, "code": "E-77"},
            error("odd"),
            'status 418 yes, code "E-77" no (the reply has no code)',
        ),
        ({"status": 400, "code": "E-77"}, UNKNOWN, 'status 400 no (the reply has 418), code "E-77" yes'),
        ({"status": 400}, error("odd", code=422), "status 400 no (the reply has 418, and states 422)"),
        ({"code": "E-78"}, UNKNOWN, 'code "E-78" no (the reply has another code, at error.code)'),
        (
            {"code": "E-78"},
            OWN,
            'code "E-78" no (it is no code, but part of the message at error.message: use contains)',
        ),
        ({"contains": "no movies"}, "", 'contains "no movies" no (the reply has no message)'),
        (
            {"contains": "no .+res"},
            OWN,
            'contains "no .+res" no (the reply has another message, at error.message)',
        ),
        (
            {"contains": "No Pictures", "field": "detail"},
            OWN,
            'contains "No Pictures" no (it stands at error.message, not at detail)',
        ),
        (
            {"code": "E-77", "field": "error.type"},
            UNKNOWN,
            'code "E-77" no (it stands at error.code, not at error.type)',
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_a_rule_that_does_not_hold_says_which_of_its_conditions_do(
    rule: dict[str, Any], body: str, told: str, deployment: str
) -> None:
    assert unheld(deployment, own(**rule), body) == MINE + told


def test_rules_are_told_of_whoever_decided_but_one_of_them(deployment: str) -> None:
    assert unheld(deployment, own(status=400), REFUSAL) == f"{MINE}status 400 no (the reply has 418)"
    assert unheld(deployment, own(status=400) + own(status=418), REFUSAL) == ""


def test_of_many_rules_a_handful_is_told(deployment: str) -> None:
    told = unheld(deployment, "".join(own(status=500 + n) for n in range(9)), REFUSAL)
    assert told.count("your rule") == 5
    assert told.endswith("and 4 more")


def test_no_rule_is_told_of_where_none_was_asked(deployment: str) -> None:
    assert unheld(deployment, "", REFUSAL) == ""
    assert unheld(deployment, own(status=400), "{}", status=200) == ""


def test_a_rule_that_does_not_hold_steers_no_terminal(deployment: str) -> None:
    Path(deployment).write_text(DEPLOYMENT + own(contains="\u009b2J\u202ex" + "y" * 500))
    shown = classify("--status", "418", "--deployment", deployment, "--target", "a", body=OWN)
    assert all(line.isprintable() for line in shown.output.split("\n"))
    assert "y" * 121 not in shown.output.replace("\n", "").replace(" ", "")


@pytest.mark.parametrize(
    ("target", "errors", "table"),
    [
        ("a", "", "[[llm_clients.here.errors]]"),
        ("a", '[[targets.a.errors]]\nstatus = 400\nkind = "auth"\n', "[[targets.a.errors]]"),
        ("b", '[[targets.a.errors]]\nstatus = 400\nkind = "auth"\n', "[[llm_clients.here.errors]]"),
    ],
    ids=["its client's", "its own", "another's own"],
)
def test_in_a_targets_place_the_ready_rule_goes_where_its_rules_are(
    target: str, errors: str, table: str, deployment: str
) -> None:
    Path(deployment).write_text(DEPLOYMENT + errors)
    place = ["--deployment", deployment, "--target", target, "--route", "chat"]
    shown = classify("--status", "418", *place, body=UNKNOWN)
    assert ready(shown).startswith(f"{table}\nstatus = 418\n")
    assert "NAME" not in shown.output


@pytest.mark.parametrize(
    "body", [UNKNOWN, OWN, error("Only this, which goes on until it is cut at a word, and on."), "odd lanes"]
)
def test_the_ready_rule_knows_the_reply_that_it_was_made_from(body: str, deployment: str) -> None:
    text = ready(classify("--status", "418", body=body))
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
    shown = many('{"status": 503, "body": ""}')
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
    assert one(transport="http_200_body", status=200, body="{}")["evidence"]["rule"] == "unreadable"
    assert one(transport="sse_event", status=200, body="{}")["evidence"]["rule"] != "unreadable"


def test_a_complete_answer_has_no_kind_and_says_so() -> None:
    told = one(transport="http_200_body", status=200, body=ANSWER)
    assert list(told) == KEYS
    assert told == {
        "id": "r-1",
        "kind": None,
        "reason": None,
        "features": [],
        "param": None,
        "retryable": False,
        "retry_after": None,
        "evidence": {"rule": "answer", "field": "body", "matched": []},
    }


def test_the_help_tells_what_is_printed_of_a_line() -> None:
    told = " ".join(classify("--help").output.split())
    assert f"with the keys {', '.join(KEYS[:-1])} and {KEYS[-1]}" in told
    assert "null means that it does not: the caller gets the error" in told


@pytest.mark.parametrize("lines", [(), ("", "  ", "")], ids=["nothing", "empty lines"])
def test_nothing_in_is_nothing_out_and_that_is_said(lines: tuple[str, ...]) -> None:
    shown = many(*lines)
    assert (shown.exit_code, shown.stdout, shown.stderr) == (0, "", "<stdin>: holds no reply\n")


def test_ids_come_back_as_they_were_and_steer_no_terminal() -> None:
    for name in (HOSTILE, "\ud800", 7, "café"):
        shown = many(line(id=name))
        assert json.loads(shown.output)["id"] == name
        assert all(each.isprintable() for each in shown.output.split("\n"))


BROKEN = {
    "no-json": ("{", "is no JSON object; give one reply a line"),
    "list": ("[]", "is no JSON object; give one reply a line"),
    "nested": ("[" * 100_000, "is no JSON object; give one reply a line"),
    "no-text": ("\udcff", "is no JSON object; give one reply a line"),
    "status-missing": ("{}", "status: is missing; give a whole number"),
    "body-missing": ('{"status": 400}', "body: is missing; give the text as it came"),
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
def test_a_line_without_an_end_is_writtenup() -> None:
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
