"""Before a change of a deployment is merged: what it changes in routing, in words and as a picture."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from syrupy.assertion import SnapshotAssertion

from turnout.engine.cli import main

OLD = """
[llm_clients.house]
base_url = "https://llm.example/v1"
api_key_env = "HOUSE_KEY"
[llm_clients.house.extra_headers]
x-title = "ours"
[targets.small]
llm_client = "house"
[targets.tiny]
llm_client = "house"
[targets.large]
llm_client = "house"
[routes.chat]
ladder = ["tiny", "small", "large"]
[routes.old]
ladder = ["small"]
"""
NEW = """
[llm_clients.house]
base_url = "https://llm.example/v1"
api_key_env = "HOUSE_KEY"
breaker = { failures = 2 }
[llm_clients.house.extra_headers]
x-title = "theirs"
[targets.small]
llm_client = "house"
context_window = 16000
[targets.medium]
llm_client = "house"
[targets.large]
id = "large-2"
llm_client = "house"
[routes.chat]
ladder = ["small", "medium", "large"]
affinity = "home"
deadline_secs = 60
[routes.chat.on]
capability = "skip"
[routes.fresh]
ladder = ["large"]
"""


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOUSE_KEY", raising=False)
    Path("old.toml").write_text(OLD)
    Path("new.toml").write_text(NEW)


def diff(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["diff", *arguments])


def test_every_change_of_routing_is_a_line(snapshot: SnapshotAssertion) -> None:
    told = diff("old.toml", "new.toml")
    assert told.exit_code == 1
    assert told.stdout == snapshot
    lines = told.stdout.splitlines()
    assert "route chat  ladder: tiny, small, large -> small, medium, large" in lines
    assert "route chat  on.capability: evict -> skip" in lines
    assert "route chat  affinity: none -> home" in lines
    assert "target small  context_window: none -> 16000; evictions of before no longer count" in lines
    assert "route old is gone: small" in lines
    assert "route fresh is new: large" in lines
    assert "theirs" not in told.stdout


def test_the_picture_marks_what_is_new_and_what_is_gone(snapshot: SnapshotAssertion) -> None:
    told = diff("old.toml", "new.toml", "--mermaid")
    assert told.exit_code == 1
    assert told.stdout == snapshot
    assert "[tiny #40;gone#41;]:::removed" in told.stdout
    assert "[medium #40;new#41;]:::added" in told.stdout
    assert "[small]\n" in told.stdout


def test_the_same_routing_is_exit_status_0() -> None:
    told = diff("old.toml", "old.toml")
    assert (told.exit_code, told.stdout) == (0, "")
    assert told.stderr == "every turn would be routed as before\n"


def test_what_tokens_cost_routes_nobody() -> None:
    priced = OLD.replace("[targets.tiny]", "[targets.tiny]\nprice = { input = 1, output = 2 }")
    Path("priced.toml").write_text(priced)
    Path("dearer.toml").write_text(priced.replace("output = 2", "output = 3"))
    for old, new in (("old.toml", "priced.toml"), ("priced.toml", "dearer.toml")):
        told = diff(old, new)
        assert (told.exit_code, told.stdout) == (0, "")
        assert told.stderr == "every turn would be routed as before\n"


def test_in_json_each_change_is_an_object() -> None:
    found = [json.loads(line) for line in diff("old.toml", "new.toml", "--json").stdout.splitlines()]
    deadline = {"where": "route chat", "what": "deadline_secs", "before": "none", "after": "60", "note": ""}
    assert deadline in found


def test_values_that_may_be_anything_are_not_shown() -> None:
    body = "[llm_clients.house.extra_body]\nprompt = '%s'\n[targets.small]"
    for name, value in (("old", "hush"), ("new", "psst")):
        Path(f"{name}.toml").write_text(OLD.replace("[targets.small]", body % value, 1))
    told = diff("old.toml", "new.toml").stdout
    assert "target tiny  extra_body: prompt -> prompt; its values differ, and are not shown" in told
    assert "hush" not in told
    assert "psst" not in told


def test_a_file_that_cannot_be_used_is_exit_status_2() -> None:
    Path("new.toml").write_text(NEW.replace('affinity = "home"', 'affinity = "hime"'))
    told = diff("old.toml", "new.toml")
    assert told.exit_code == 2
    assert "affinity: is 'hime'; give home" in told.stderr
    assert diff("old.toml", "nowhere.toml").exit_code == 2
