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
    assert "target medium is new, id: medium" in lines
    assert "target medium is new, base_url: https://llm.example/v1" in lines
    assert "target small  extra_headers: x-title -> x-title; its values differ, and are not shown" in lines
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


def lines(old: str, new: str) -> list[str]:
    Path("old.toml").write_text(old)
    Path("new.toml").write_text(new)
    return diff("old.toml", "new.toml").stdout.splitlines()


def test_of_a_new_route_is_told_what_is_not_as_by_default() -> None:
    route = (
        "[routes.new]\nladder = ['large']\nreadmit_below = 0.5\non.capability = 'skip'\ndeadline_secs = 0\n"
    )
    assert lines(OLD, OLD + route) == [
        "route new is new: large",
        "route new is new, on.capability: skip",
        "route new is new, readmit_below: 0.5",
    ]


def test_of_a_new_target_is_told_how_it_is_reached() -> None:
    target = """
[targets.far]
id = "far-1"
base_url = "https://far.example/v1?region=somewhere"
format = "anthropic_messages"
context_window = 9000
max_retries = 0
auth_header = "X-Api-Key"
extra_body = { hush = 'psst' }
[routes.far]
ladder = ["far"]
"""
    assert lines(OLD, OLD + target) == [
        "route far is new: far",
        "target far is new, id: far-1",
        "target far is new, format: anthropic_messages",
        "target far is new, base_url: https://far.example/v1",
        "target far is new, extra_body: hush",
        "target far is new, max_retries: 0",
        "target far is new, context_window: 9000",
    ]


def test_a_route_that_seems_renamed_is_compared_with_what_it_was() -> None:
    talk = "[routes.talk]\naffinity = 'home'"
    assert lines(OLD, OLD.replace("[routes.chat]", talk)) == [
        "route talk seems renamed: chat -> talk",
        "route talk  affinity: none -> home",
    ]


def test_of_several_routes_with_one_ladder_none_seems_renamed() -> None:
    two = "[routes.one]\nladder = ['small']\n[routes.two]\nladder = ['small']\n"
    assert lines(OLD, OLD.replace("[routes.old]\nladder = ['small']".replace("'", '"'), two)) == [
        "route old is gone: small",
        "route one is new: small",
        "route two is new: small",
    ]


def test_where_evictions_are_kept_is_told_and_that_those_of_before_no_longer_count() -> None:
    memory = "[memory]\nurl = 'env:A_URL'\nnamespace = 'tenant'\non_memory_error = 'raise'\n"
    assert lines(OLD, OLD + memory + "[http]\nlibrary = 'httpx'\n") == [
        "memory  url: sqlite:turnout.db -> env:A_URL;"
        " evictions of before no longer count, unless it is the same store",
        "memory  namespace: nothing -> tenant; evictions of before no longer count",
        "memory  on_memory_error: serve -> raise",
        "http  library: none -> httpx",
    ]


def test_what_is_kept_of_replies_changes_no_routing() -> None:
    assert lines(OLD, OLD + "[capture]\ndir = 'captured'\n") == []


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("timeout_secs = 1e6", "timeout_secs = 1000001", "timeout_secs: 1000000 -> 1000001"),
        ("timeout_secs = 0.1", "timeout_secs = 0.1000000001", "timeout_secs: 0.1 -> 0.1000000001"),
        ("timeout_secs = 1", "timeout_secs = -1", "timeout_secs: 1 -> none"),
        ("", "max_retry_after_secs = 60.0000001", "max_retry_after_secs: 60 -> 60.0000001"),
    ],
)
def test_numbers_are_told_exactly(before: str, after: str, told: str) -> None:
    old, new = (OLD.replace("[targets.tiny]", f"[targets.tiny]\n{line}") for line in (before, after))
    assert lines(old, new) == [f"target tiny  {told}"]


def test_what_rules_say_is_told_without_their_names() -> None:
    rule = "[[targets.tiny.errors]]\nkind = 'capability'\nstatus = 400\ncontains = 'No  pictures'\n"
    assert lines(OLD, OLD + rule) == [
        "target tiny  errors: nothing -> kind capability, status 400, contains no pictures, features other"
    ]


def test_a_value_that_differs_is_told_of_beside_names_that_do() -> None:
    query = "extra_query = { a = '%s', %s = '2' }\n[llm_clients.house.extra_headers]"
    old, new = (
        OLD.replace("[llm_clients.house.extra_headers]", query % given)
        for given in (("hush", "b"), ("psst", "c"))
    )
    assert lines(old, new)[0] == (
        "target tiny  extra_query: a, b -> a, c; its values differ, and are not shown"
    )


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
