"""No credential and no prompt is told again, however an upstream echoes it."""

import asyncio
import base64
import json
import logging
import socket
import traceback
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from turnout import Capture, JsonLines, Router, SqliteMemory, Target, TurnFailed
from turnout.engine import audit
from turnout.engine.loopback import HOST, LoopbackUpstream

KEY = 'sk-live/Zx"81+qqWe=77'
URL_KEY = "urlkey-4f9c2b7d"
HEADER_KEY = "header-credential-1"
PROMPT = 'Dr. Amara Novak asked me: "is the biopsy benign?"\nShe lives at 14 Quince Lane, Ottery.'
BODY = {"messages": [{"role": "user", "content": PROMPT}]}

ECHOES = {
    "as it is": KEY,
    "in another case": KEY.swapcase(),
    "JSON-escaped": json.dumps(KEY),
    "percent-encoded": quote(KEY, safe=""),
    "in base64": base64.b64encode(KEY.encode()).decode(),
    "in base64, as basic auth": base64.b64encode(f"u:{KEY}".encode()).decode(),
    "from the URL": URL_KEY,
    "in a URL": f"https://u:{KEY}@api.example/v1?key={URL_KEY}",
    "from a header": HEADER_KEY,
}
STATUSES = {400: "caller_error", 401: "auth", 403: "auth", 404: "model_not_found", 429: "quota", 503: "down"}


def everything_kept(
    status: int, error: Mapping[str, Any], folder: Path, caplog: pytest.LogCaptureFixture
) -> str:
    """All that a turn leaves anywhere that an upstream refused."""

    async def story() -> TurnFailed:
        async with LoopbackUpstream(lambda _: (status, {"error": error})) as upstream:
            failed = await failure_at(upstream.base_url, folder)
            assert upstream.requests[0].headers["authorization"] == f"Bearer {KEY}"
            return failed

    return left_by(story(), folder, caplog)


async def failure_at(base_url: str, folder: Path) -> TurnFailed:
    """A failed turn of a target there, whose every credential is given."""
    target = Target(
        "a",
        base_url=f"{base_url}?key={URL_KEY}",
        api_key_env="SOME_KEY",
        extra_headers={"x-api-token": HEADER_KEY},
        max_retries=0,
    )
    router = Router(
        ladder=[target],
        memory=SqliteMemory(folder / "evictions.db"),
        on_record=JsonLines(folder / "records.jsonl"),
        capture=Capture(folder),
    )
    async with router:
        with pytest.raises(TurnFailed) as failed:
            await router.turn(BODY, session="s1")
    failed.value.add_note(repr(target) + repr(router))
    return failed.value


def left_by(story: Coroutine[Any, Any, TurnFailed], folder: Path, caplog: pytest.LogCaptureFixture) -> str:
    """All that a failed turn leaves: error, record, log, repr, and the files."""
    failed = asyncio.run(asyncio.wait_for(story, 60))
    kept = [str(failed), repr(failed), repr(failed.error), repr(vars(failed.error)), *failed.__notes__]
    kept += [repr(failed.record), audit.encode(failed.record).decode(), repr(failed.surface), caplog.text]
    kept += ["".join(traceback.format_exception(failed))]
    kept += [path.read_bytes().decode("latin-1") for path in sorted(folder.iterdir())]
    return "\n".join(kept)


Kept = Callable[[int, Mapping[str, Any]], str]


@pytest.fixture
def kept_after(tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Kept:
    """All that a turn leaves that failed with this status and error, the log's least lines included."""
    monkeypatch.setenv("SOME_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    return lambda status, error: everything_kept(status, error, tmp_path, caplog)


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("echo", ECHOES)
def test_a_credential_that_an_upstream_echoes_is_kept_nowhere(
    echo: str, status: int, kept_after: Kept
) -> None:
    error = {
        "message": f"Invalid input near {ECHOES[echo]} in your request",
        "code": f"bad_{ECHOES[echo]}",
        "param": ECHOES[echo],
    }
    kept = kept_after(status, error)
    core = KEY[8:]
    for form in (
        core,
        core.swapcase(),
        json.dumps(core)[1:-1],
        quote(core, safe=""),
        URL_KEY,
        HEADER_KEY,
        *(base64.b64encode(b" " * shift + KEY.encode()).decode()[4:20] for shift in range(3)),
    ):
        assert form not in kept, form
    assert "Invalid input near" in kept
    assert "in your request" in kept


def test_of_a_refused_connection_no_credential_of_its_url_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    with socket.socket() as nobody:  # takes a port, and listens to no one
        nobody.bind((HOST, 0))
        url = f"http://{HOST}:{nobody.getsockname()[1]}/v1"
        kept = left_by(failure_at(url, tmp_path), tmp_path, caplog)
    assert "refused" in kept
    for credential in (KEY, URL_KEY, HEADER_KEY):
        assert credential not in kept


@pytest.mark.parametrize("status", [400, 413, 422, 503])
@pytest.mark.parametrize(
    "message",
    [
        "content: {prompt}",
        "cannot parse: {json}",
        "image input is not supported by this model. You sent: {prompt}",
        "This model's maximum context length is 10 tokens. Prompt: {prompt}",
    ],
)
def test_a_prompt_that_an_upstream_quotes_is_kept_nowhere(
    message: str, status: int, kept_after: Kept
) -> None:
    said = message.format(prompt=PROMPT, json=json.dumps(BODY))
    kept = kept_after(status, {"message": said})
    for words in ("Novak", "biopsy", "benign", "Quince", "Ottery"):
        assert words not in kept
    assert message.partition("{")[0].rstrip() in kept


def test_files_are_for_their_owner_alone(tmp_path: Path, kept_after: Kept) -> None:
    kept_after(400, {"message": "this model does not support image input"})
    files = sorted(tmp_path.iterdir())
    assert {"evictions.db", "records.jsonl"} <= {path.name for path in files}
    assert {path.name: oct(path.stat().st_mode & 0o777) for path in files} == {
        path.name: "0o600" for path in files
    }
