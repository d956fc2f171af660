"""Replies that no rule knows are kept on request: cleaned, each kind of them once, in a bounded file."""

import asyncio
import base64
import html
import io
import json
import logging
import os
import resource
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnout import Capture, ClientError, ConfigurationError, InMemory, Router, Target, TurnFailed, Verdict
from turnout.engine import replies
from turnout.engine.classify import Reply, classify
from turnout.engine.clock import VirtualClock
from turnout.engine.deployment import CaptureSettings, examine_document
from turnout.engine.loopback import LoopbackUpstream
from turnout.engine.redaction import RUN, Quotations, Redactor

KEY = 'sk-Ab/1"23+xyz=9_Q7'
PROMPT = 'Mr Otis Quill wrote: "the rent is due on the 3rd"\nand I cannot pay it.'
BODY = {"model": "chat", "messages": [{"role": "user", "content": PROMPT}]}
TARGET = Target("small", base_url="https://llm.example:8443/v1")
ODD = {"error": {"message": "the flux capacitor is not charged", "code": "flux_7"}}


def read(body: object, status: int = 400, **fields: Any) -> tuple[Reply, Verdict]:
    """A reply and how it is read."""
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    reply = Reply(status=status, body=text, **fields)
    return reply, classify(reply, now=0.0)


def keep(
    capture: Capture,
    body: object,
    status: int = 400,
    *,
    request: Mapping[str, Any] = BODY,
    target: Target = TARGET,
    **fields: Any,
) -> None:
    capture.keep(target, *read(body, status, **fields), Redactor([KEY], Quotations(request)))


def lines(capture: Capture) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capture.path.read_bytes().splitlines()]


def body_kept(capture: Capture) -> str:
    (line,) = lines(capture)
    return str(line["body"])


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


@pytest.fixture
def capture(tmp_path: Path) -> Capture:
    return Capture(tmp_path / "captured")


# -- what is kept


def test_an_unrecognised_reply_becomes_a_line_with_all_that_reading_it_again_needs(capture: Capture) -> None:
    headers = {
        "content-type": "application/json",
        "retry-after": "7",
        "set-cookie": "session=1",
        "x-request-id": "req_1",
        "authorization": "Bearer x",
    }
    keep(capture, ODD, 422, headers=headers)
    (line,) = lines(capture)
    assert line.pop("id").startswith("unrecognised-")
    assert line == {
        "provider": "llm.example",
        "format": "openai_chat",
        "transport": "http",
        "status": 422,
        "headers": {"content-type": "application/json", "retry-after": "7"},
        "body": json.dumps(ODD),
    }


def test_a_provider_that_is_known_is_named_rather_than_its_host(capture: Capture) -> None:
    keep(capture, ODD, provider="zai")
    assert lines(capture)[0]["provider"] == "zai"


@pytest.mark.parametrize(
    ("status", "fields", "transport", "event"),
    [
        (400, {}, "http", None),
        (200, {}, "http_200_body", None),
        (200, {"event": "error"}, "sse_event", "error"),
        (200, {"event": ""}, "sse_event", ""),
    ],
    ids=["status", "in a 200", "named event", "event without a name"],
)
def test_how_a_reply_came_is_kept(
    capture: Capture, status: int, fields: dict[str, str], transport: str, event: str | None
) -> None:
    keep(capture, {"error": {"message": "the flux capacitor is not charged", "code": 422}}, status, **fields)
    (line,) = lines(capture)
    assert (line["transport"], line.get("event"), line["status"]) == (transport, event, status)


def test_what_is_kept_reads_back_as_the_reply_that_it_was(capture: Capture) -> None:
    keep(capture, ODD, 409, headers={"retry-after": "7"})
    keep(capture, ODD, 200, event="error")
    read_back = list(replies.read(io.BytesIO(capture.path.read_bytes())))
    assert [(r.status, r.event, r.headers, r.body) for _, r in read_back[:1]] == [
        (409, None, {"retry-after": "7"}, json.dumps(ODD).encode())
    ]
    assert all(classify(reply, now=0.0).evidence.rule == "unrecognised" for _, reply in read_back)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"error": {"message": "maximum context length is 8192 tokens"}}, 400),
        ({"error": {"message": "the flux capacitor is not charged"}}, 401),
        ({"error": {"message": "the flux capacitor is not charged"}}, 503),
    ],
    ids=["an overflow", "a key", "a failing server"],
)
def test_a_reply_that_a_rule_knows_is_not_kept(capture: Capture, body: object, status: int) -> None:
    keep(capture, body, status)
    assert not capture.path.exists()


def test_what_is_no_utf8_is_replaced(capture: Capture) -> None:
    keep(capture, b"caf\xe9 is closed")
    assert body_kept(capture) == "caf\ufffd is closed"


def test_the_end_of_a_body_that_was_cut_is_not_kept_since_half_a_key_may_stand_there(
    capture: Capture,
) -> None:
    body = b'{"note": "' + b"flux " * 20_000
    keep(capture, body[: 65_536 - 10] + KEY[:10].encode())
    assert KEY[:10] not in body_kept(capture)
    assert 60_000 < len(body_kept(capture)) < 65_536


def test_a_body_is_kept_to_64_kib(capture: Capture) -> None:
    keep(capture, b"flux " * 100_000)
    assert len(body_kept(capture)) < 65_536


# -- what is not


SECRETS = {
    "as it is": KEY,
    "in another case": KEY.swapcase(),
    "JSON-escaped": json.dumps(KEY),
    "JSON in JSON": json.dumps(json.dumps({"key": KEY})),
    "in base64": base64.b64encode(f"Bearer {KEY}".encode()).decode(),
}


@pytest.mark.parametrize("form", SECRETS)
def test_a_credential_is_not_kept_wherever_in_the_body_it_stands(capture: Capture, form: str) -> None:
    echoed = SECRETS[form]
    body = {
        "error": {
            "message": "flux",
            "metadata": {"raw": json.dumps({"error": {"message": f"bad {echoed}"}})},
        },
        echoed: [echoed, {"seen": f"<{echoed}>"}],
    }
    keep(capture, body)
    text = body_kept(capture)
    assert not any(echoed[at : at + 9].lower() in text.lower() for at in range(len(echoed) - 8)), text
    raw = json.loads(text)["error"]["metadata"]["raw"]
    assert json.loads(raw)["error"]["message"].startswith("bad ")
    assert "[credential]" in raw


def test_a_credential_of_digits_is_not_kept_as_a_number(capture: Capture) -> None:
    reply, verdict = read({"error": {"message": "flux"}, "key": 9182736450})
    capture.keep(TARGET, reply, verdict, Redactor(["9182736450"], Quotations(BODY)))
    assert json.loads(body_kept(capture))["key"] == "[credential]"


def test_a_credential_in_a_body_that_is_no_json_or_in_a_header_is_not_kept(capture: Capture) -> None:
    keep(capture, f'{{"error": "flux {KEY}'.encode(), headers={"retry-after": KEY})
    assert KEY[:8] not in capture.path.read_text()
    assert capture.path.read_text().count("[credential]") == 2


@pytest.mark.parametrize("charset", ["latin-1", "utf-16", "gb18030", "utf-8"])
def test_a_body_is_kept_as_the_text_that_it_is_in_its_own_encoding(capture: Capture, charset: str) -> None:
    prompt = "Überraschung für die Geschäftsführung: Müller wird nächste Woche gekündigt"
    body = {"messages": [{"role": "user", "content": prompt}]}
    reply, verdict = read(
        f"flux: {prompt}".encode(charset), headers={"content-type": f"text/plain; charset={charset}"}
    )
    capture.keep(TARGET, reply, verdict, Redactor([], Quotations(body)))
    (line,) = lines(capture)
    assert line["body"] == "flux: [request text]"
    assert line["headers"] == {"content-type": "text/plain"}


def test_an_error_in_a_200_that_no_rule_knows_is_kept(capture: Capture) -> None:
    keep(capture, {"error": {"message": "flux", "code": "E-77"}}, 200)
    (line,) = lines(capture)
    assert (line["transport"], line["status"]) == ("http_200_body", 200)


@pytest.mark.parametrize(
    "echo",
    [
        {"error": {"message": f"flux: {PROMPT} was sent"}},
        {"error": {"message": f"flux in {json.dumps(BODY)}"}},
        {"error": {"message": "flux", "metadata": {"raw": json.dumps({"error": {"input": PROMPT}})}}},
        {"detail": [{"msg": "flux", "input": BODY["messages"]}]},
        f"flux: {PROMPT}".encode(),
        f"flux: {json.dumps(BODY)}".encode(),
        json.dumps({"error": {"message": "flux", "raw": json.dumps(json.dumps(BODY))}}).encode(),
    ],
    ids=[
        "message",
        "JSON in a message",
        "JSON in JSON",
        "validator",
        "text",
        "JSON in text",
        "JSON three deep",
    ],
)
def test_a_prompt_is_not_kept_and_the_diagnosis_is(capture: Capture, echo: object) -> None:
    keep(capture, echo)
    text = body_kept(capture)
    for word in ("Otis", "Quill", "rent", "3rd", "pay it"):
        assert word not in text
    assert "flux" in text
    assert "[request text]" in text


def test_a_prompt_of_few_words_is_not_kept_where_it_is_echoed_as_a_string(capture: Capture) -> None:
    request = {
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Is it benign?"}]}, {"c": ""}]
    }
    said = {"loc": ["body"], "msg": "flux", "type": "text", "ctx": "", "input": "Is it benign? "}
    keep(capture, {"detail": [said]}, request=request)
    assert json.loads(body_kept(capture)) == {"detail": [{**said, "input": "[request text]"}]}


@given(
    st.text(min_size=RUN, max_size=80),
    st.integers(0, 56),
    st.text(max_size=30),
    st.text(max_size=30),
    st.booleans(),
)
def test_no_run_of_24_characters_of_the_request_is_left_in_json_which_stays_json(
    prompt: str, at: int, before: str, after: str, deeper: bool
) -> None:
    run = prompt[at % (len(prompt) - RUN + 1) :][:RUN]
    body: object = {"error": {"message": before + run + after}, run: [run]}
    cleaned = Redactor([KEY], Quotations({"messages": [{"content": prompt}]})).body(
        json.dumps({"raw": json.dumps(body)} if deeper else body)
    )
    found = json.loads(cleaned)
    found = json.loads(found["raw"]) if deeper else found
    error, echo = found.values()
    assert not any(run in text for text in (*found, error["message"], *echo))


def test_json_stays_json_around_what_was_taken_out(capture: Capture) -> None:
    body = (
        f'{{"error" : {{"message":"flux {KEY[:5]}", "n": 1.50e3, "x": null, "echo": {json.dumps(PROMPT)}}}}}'
    )
    keep(capture, body.encode())
    assert body_kept(capture) == body.replace(json.dumps(PROMPT), '"[request text]"')


def test_many_strings_cost_no_more_than_one(capture: Capture) -> None:
    looked: list[str] = []

    class Counted(Quotations):
        @property
        def text(self) -> str:
            looked.append("once")
            return super().text

    reply, verdict = read(
        {"error": {"message": "f"}, "all": [f"{n} " + "flux capacitor " * 2 for n in range(900)]}
    )
    capture.keep(TARGET, reply, verdict, Redactor([KEY], Counted(BODY)))
    assert len(looked) == 1


# -- each kind once


def test_replies_that_differ_in_numbers_and_ids_only_are_kept_once(capture: Capture) -> None:
    for name in ("req_7f31", "req_0c55"):
        keep(capture, {"error": {"message": f"flux of {name} is off by {len(name)}1"}})
    assert len(lines(capture)) == 1


def test_replies_that_differ_in_what_they_quote_only_are_kept_once(capture: Capture) -> None:
    for prompt in (PROMPT, "Where did Amara Novak leave her umbrella?"):
        request = {"messages": [{"role": "user", "content": prompt}]}
        keep(capture, {"error": {"message": f"flux at {prompt}"}}, request=request)
    assert len(lines(capture)) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"body": {"error": {"message": "the warp core is cold", "code": "flux_7"}}},
        {"body": {"error": {**ODD["error"], "code": "flux_8"}}},
        {"status": 409},
        {"provider": "zai"},
        {"format": "anthropic_messages"},
        {"target": Target("other", base_url="https://other.example")},
    ],
    ids=["message", "code", "status", "provider", "format", "host"],
)
def test_what_tells_replies_apart_makes_another_line(capture: Capture, other: dict[str, Any]) -> None:
    keep(capture, ODD)
    keep(capture, **{"body": ODD, **other})
    assert len({line["id"] for line in lines(capture)}) == 2


def test_what_the_file_holds_already_is_not_kept_again_by_the_next_process(tmp_path: Path) -> None:
    first = Capture(tmp_path)
    keep(first, ODD)
    with first.path.open("ab") as file:
        file.write(
            b'not ours\n\n[1, 2]\n{"id": 7}\n{"id": "'
            + b"x" * 99
            + b'"}\n\xff\xfe\n'
            + b"[" * 9999
            + b'\n{"id": "unr'
        )
    second = Capture(tmp_path)
    keep(second, ODD)
    keep(second, ODD, 409)
    found = second.path.read_bytes().splitlines()
    assert [json.loads(line)["status"] for line in (found[0], found[-1])] == [400, 409]
    assert found[-2] == b'{"id": "unr', "what was torn stays apart from what comes after"
    assert len(found) == 10


def test_two_processes_append_to_one_file(tmp_path: Path) -> None:
    one, other = Capture(tmp_path), Capture(tmp_path)
    keep(one, ODD, 400)
    keep(other, ODD, 409)
    keep(one, ODD, 422)
    assert [line["status"] for line in lines(one)] == [400, 409, 422]


# -- bounds


def test_a_file_that_is_full_stays_below_its_bound_and_that_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    capture = Capture(tmp_path, max_bytes=2000)
    for status in range(405, 450):
        keep(capture, {"error": {"message": "flux " * 40}}, status)
    assert 1500 < capture.path.stat().st_size <= 2000
    assert lines(capture)
    assert warnings(caplog) == [
        f"{capture.path} is full: further unrecognised replies are not kept; move it away"
    ]


def test_once_something_did_not_fit_nothing_is_kept_until_the_file_was_moved_away(tmp_path: Path) -> None:
    capture = Capture(tmp_path, max_bytes=1000)
    keep(capture, ODD, 405)
    keep(capture, {"error": {"message": "flux " * 400}}, 406)
    keep(capture, ODD, 409)
    assert [line["status"] for line in lines(capture)] == [405]
    capture.path.rename(tmp_path / "old.jsonl")
    keep(capture, ODD, 410)
    keep(capture, ODD, 409)
    keep(capture, ODD, 405)
    assert [line["status"] for line in lines(capture)] == [410, 409], "405 was kept by this process"


def test_a_full_file_of_an_earlier_process_is_left_as_it_is(tmp_path: Path) -> None:
    keep(Capture(tmp_path), ODD)
    capture = Capture(tmp_path, max_bytes=200)
    before = capture.path.read_bytes()
    keep(capture, ODD, 409)
    assert capture.path.read_bytes() == before


def test_so_many_replies_are_remembered_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("turnout.engine.capture.REMEMBERED", 3)
    capture = Capture(tmp_path)
    for status in range(405, 412):
        keep(capture, ODD, status)
    assert len(lines(capture)) == 3
    assert len(warnings(caplog)) == 1


# -- the file


def test_file_and_directory_are_for_their_owner_alone(capture: Capture) -> None:
    old = os.umask(0)
    try:
        keep(capture, ODD)
    finally:
        os.umask(old)
    assert stat.S_IMODE(capture.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(capture.path.parent.stat().st_mode) == 0o700


def test_nothing_is_made_until_something_is_kept(capture: Capture) -> None:
    assert not capture.path.parent.exists()


def test_a_directory_that_vanished_is_made_anew(capture: Capture) -> None:
    keep(capture, ODD)
    capture.path.unlink()
    capture.path.parent.rmdir()
    keep(capture, ODD, 409)
    assert [line["status"] for line in lines(capture)] == [409]


def test_a_file_that_cannot_be_written_is_told_once_and_tried_again(
    capture: Capture, caplog: pytest.LogCaptureFixture
) -> None:
    capture.path.parent.write_text("in the way")
    keep(capture, ODD)
    keep(capture, ODD, 409)
    (told,) = warnings(caplog)
    assert told == f"an unrecognised reply could not be kept in {capture.path}: File exists"
    capture.path.parent.unlink()
    keep(capture, ODD)
    assert [line["status"] for line in lines(capture)] == [400]


@pytest.mark.parametrize("directory", ["", "  ", "a\0b"], ids=["empty", "blank", "with a NUL"])
def test_what_is_no_path_is_refused(directory: str) -> None:
    with pytest.raises(ConfigurationError, match="names no directory that can be used"):
        Capture(directory)


def test_a_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "captured").touch()
    with pytest.raises(ConfigurationError, match="captured' is a file; give the path of a directory"):
        Capture(tmp_path / "captured")


def test_a_bound_that_keeps_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="max_bytes is 0; give 1 or more"):
        Capture(tmp_path, max_bytes=0)


FULL_DISK = """
import logging, resource, signal, sys
from turnout import Capture, Target
from turnout.engine.classify import Reply, classify
from turnout.engine.redaction import Quotations, Redactor

def keep(status):
    reply = Reply(status=status, body=b"flux")
    capture.keep(Target("a"), reply, classify(reply, now=0), Redactor([], Quotations({})))

logging.basicConfig(format="%(message)s", stream=sys.stdout)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
capture = Capture(sys.argv[1])
keep(400)
room = capture.path.stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (room + 20, resource.RLIM_INFINITY))
keep(409)
keep(409)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
keep(409)
"""


def test_a_line_that_a_full_disk_has_torn_does_not_spoil_the_next(tmp_path: Path) -> None:
    assert resource.RLIM_INFINITY  # POSIX
    ran = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert ran.stdout.count("could not be kept") == 1
    first, torn, last = (tmp_path / "unrecognised.jsonl").read_bytes().splitlines()
    assert [json.loads(line)["status"] for line in (first, last)] == [400, 409]
    assert len(torn) == 20


# -- a router that captures


def test_a_router_keeps_what_was_not_recognised_once_and_without_key_or_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEY", KEY)
    capture = Capture(tmp_path / "captured")
    answers = [
        (400, {"error": {"message": f"flux 41 {PROMPT}", "seen": f"Bearer {KEY}", "echo": json.dumps(BODY)}}),
        (400, {"error": {"message": f"flux 42 {PROMPT}", "seen": f"Bearer {KEY}"}}),
        (400, {"error": {"message": "this model does not support image input"}}),
        (200, {"choices": [{"message": {"role": "assistant", "content": "a cat"}}]}),
        (422, {"error": {"message": "the warp core is cold"}}),
    ]

    async def story() -> list[str]:
        remaining = iter(answers)
        ended: list[str] = []
        async with LoopbackUpstream(lambda _: next(remaining)) as upstream:
            target = Target("a", base_url=upstream.base_url, api_key_env="SOME_KEY", max_retries=0)
            async with Router(ladder=[target], memory=InMemory(), capture=capture) as router:
                for _ in answers:
                    try:
                        ended.append((await router.turn(BODY)).served_by)
                    except TurnFailed as failed:
                        ended.append(failed.record.probes[0].attempts[0].kind or "")
                    if len(ended) == 4:  # the directory vanishes while the router runs
                        capture.path.rename(tmp_path / "first.jsonl")
                        capture.path.parent.rmdir()
            assert upstream.requests[0].headers["authorization"] == f"Bearer {KEY}"
        return ended

    ended = asyncio.run(asyncio.wait_for(story(), 60))
    assert ended == ["caller_error", "caller_error", "capability", "a", "caller_error"]
    (line,) = (tmp_path / "first.jsonl").read_text().splitlines()
    assert json.loads(line)["provider"] == "127.0.0.1"
    assert "flux 41" in line
    for secret in (KEY, json.dumps(KEY)[1:-1], "Otis", "rent", "3rd"):
        assert secret not in line
    assert [kept["status"] for kept in lines(capture)] == [422]


def test_a_turn_ends_the_same_where_nothing_can_be_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    capture = Capture(tmp_path / "captured")
    (tmp_path / "captured").write_text("in the way")

    async def story() -> str:
        async with LoopbackUpstream(lambda _: (400, ODD)) as upstream:
            target = Target("a", base_url=upstream.base_url, max_retries=0)
            async with Router(ladder=[target], memory=InMemory(), capture=capture) as router:
                with pytest.raises(TurnFailed) as failed:
                    await router.turn(BODY)
                return str(failed.value.error)

    assert "the flux capacitor is not charged" in asyncio.run(asyncio.wait_for(story(), 60))
    assert len(warnings(caplog)) == 1


@pytest.mark.parametrize(
    "met",
    [
        ClientError(status=400, body={"error": {"message": f"flux {PROMPT} {KEY}"}}),
        ClientError(message=f"flux {PROMPT} {KEY}"),
        {"error": {"message": f"flux {PROMPT} {KEY}", "code": 400}},
    ],
    ids=["a client's error", "a message alone", "an error as an answer"],
)
def test_what_a_client_of_ones_own_met_is_kept_as_well(
    met: Any, capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEY", KEY)

    async def call(target: Target, request: Mapping[str, Any], *, timeout: float | None) -> Mapping[str, Any]:
        if isinstance(met, ClientError):
            raise met
        return dict(met)

    async def story() -> None:
        ladder = [Target("a", api_key_env="SOME_KEY", max_retries=0)]
        async with Router(
            ladder=ladder, call=call, memory=InMemory(), clock=clock, capture=capture
        ) as router:
            with pytest.raises(TurnFailed):
                await router.turn(BODY)

    clock = VirtualClock()
    clock.run(story())
    (line,) = lines(capture)
    assert line["provider"] == ""
    assert json.loads(line["body"])["error"]["message"] == "flux [request text] [credential]"


# -- a deployment file


DEPLOYMENT = """
[memory]
url = "memory:"
[capture]
dir = "captured"
max_bytes = 2048
[targets.a]
base_url = "{base_url}"
max_retries = 0
[routes.chat]
ladder = ["a"]
"""


def test_a_deployment_file_turns_it_on_beside_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    async def story() -> None:
        async with LoopbackUpstream(lambda _: (400, ODD)) as upstream:
            (tmp_path / "deployment.toml").write_text(DEPLOYMENT.format(base_url=upstream.base_url))
            async with Router.from_toml(tmp_path / "deployment.toml") as router:
                with pytest.raises(TurnFailed):
                    await router.turn(BODY)

    asyncio.run(asyncio.wait_for(story(), 60))
    kept = tmp_path / "here" / "captured" / "unrecognised.jsonl"
    assert json.loads(kept.read_bytes())["status"] == 400


def findings(tmp_path: Path, **keys: Any) -> list[str]:
    """What a check tells of a file with such a `[capture]`, without the file's name."""
    examination = examine_document(
        {
            "capture": keys,
            "targets": {name: {"base_url": f"https://{name}.example"} for name in "ab"},
            "routes": {"chat": {"ladder": ["a", "b"]}},
        },
        Path("d.toml"),
        {},
    )
    shown = [f"{finding.level}: {finding}".replace("d.toml: ", "") for finding in examination.findings]
    assert (examination.deployment is None) is any(line.startswith("error") for line in shown)
    return [line.replace(str(tmp_path), "") for line in shown]


def test_what_a_deployment_file_leaves_out_has_its_default(tmp_path: Path) -> None:
    assert CaptureSettings(dir="captured").max_bytes == 1_048_576
    assert findings(tmp_path, dir=str(tmp_path / "not" / "yet")) == []


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({}, "error: [capture] dir: is missing; give the path of a directory"),
        ({"dir": ""}, "error: [capture] dir: names no directory that can be used; give a path like captured"),
        ({"dir": 7}, "error: [capture] dir: is a whole number; give a string"),
        ({"dir": "{taken}"}, "error: [capture] dir: is a file; give the path of a directory"),
        (
            {"dir": "~/captured"},
            "error: [capture] dir: begins with ~, which is taken as it stands; write the whole path",
        ),
        (
            {"dir": "$HOME/captured"},
            "error: [capture] dir: holds $, which is taken as it stands; write the whole path",
        ),
        ({"dir": ".", "max_bytes": 10}, "error: [capture] max_bytes: is 10; give 1024 to 67108864"),
        ({"dir": ".", "size": 10}, "error: [capture] size: is unknown here; choose from dir, max_bytes"),
        (
            {"dir": "{taken}/captured"},
            "warning: [capture] dir: cannot be written to or made here;"
            " see that it can be where turnout runs",
        ),
    ],
    ids=[
        "no dir",
        "empty",
        "a number",
        "a file",
        "a tilde",
        "a variable",
        "too small",
        "unknown",
        "not to be made",
    ],
)
def test_a_mistake_in_a_deployment_file(tmp_path: Path, keys: dict[str, Any], line: str) -> None:
    (tmp_path / "taken").touch()
    given = {
        key: value.format(taken=tmp_path / "taken") if isinstance(value, str) else value
        for key, value in keys.items()
    }
    assert findings(tmp_path, **given) == [line]


# -- what stands in the file's place


def test_a_pipe_in_the_files_place_holds_nobody_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "captured"
    folder.mkdir()
    os.mkfifo(folder / "unrecognised.jsonl")
    keep(Capture(folder), ODD)
    assert any("no regular file" in warning for warning in warnings(caplog))


def test_a_link_to_what_is_anothers_is_not_written_to(tmp_path: Path) -> None:
    folder = tmp_path / "captured"
    folder.mkdir()
    other = tmp_path / "other"
    other.write_text("mine")
    (folder / "unrecognised.jsonl").symlink_to(other)
    keep(Capture(folder), ODD)
    assert other.read_text() == "mine"


def test_a_key_that_a_page_spells_in_its_own_way_is_not_kept(capture: Capture) -> None:
    key = "Zm9vYmFy/QUJDREVG+R0hJSktM=="
    reply, verdict = read(
        f"flux {html.escape(key)} {key.replace('/', '&#x2F;').replace('=', '&#61;')}".encode()
    )
    capture.keep(TARGET, reply, verdict, Redactor([key], Quotations(BODY)))
    assert body_kept(capture) == "flux [credential] [credential]"
