"""`turnout evictions`: what a memory holds is told, taken back, and moved to another memory."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from memories import LARGE, SMALL, overflow, refusal

from turnout import SqliteMemory
from turnout.engine.cli import main
from turnout.engine.cli.evictions import command as group
from turnout.engine.context import Identity
from turnout.engine.memory.protocol import Memory
from turnout.engine.testing.conformance import home

NOW = time.time()
WHO, HELPER, OTHER = Identity("", "s1"), Identity("", "s1", "helper"), Identity("", "s2")
DEPLOYMENT = """
[memory]
url = "sqlite:memory.db"
[llm_clients.c]
base_url = "http://127.0.0.1:1/v1"
[targets.small]
llm_client = "c"
[routes.chat]
ladder = ["small"]
"""


@pytest.fixture(autouse=True)
def a_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def fill(memory: Memory) -> None:
        await memory.record(WHO, overflow(9000, at=NOW))
        await memory.record(WHO, refusal("image", at=NOW, target=LARGE))
        await memory.record(HELPER, refusal("tools", at=NOW))
        await memory.record(OTHER, overflow(7000, turn="t7", at=NOW))

    of_memory(fill)


def of_memory(doing: Callable[[Memory], Awaitable[Any]], path: str = "memory.db") -> Any:
    async def within() -> Any:
        memory = SqliteMemory(path)
        try:
            return await doing(memory)
        finally:
            await memory.close()

    return asyncio.run(within())


def held(identity: Identity, path: str = "memory.db") -> set[tuple[str, str]]:
    context = of_memory(lambda memory: memory.read(identity, now=NOW + 1), path)
    return {(e.target, e.reason) for e in context.evictions}


def evictions(*arguments: str, path: str = "memory.db", **options: Any) -> Result:
    return CliRunner().invoke(main, ["evictions", "--memory", f"sqlite:{path}", *arguments], **options)


def of_the_deployment(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["evictions", "--deployment", "deployment.toml", *arguments])


def test_a_list_tells_who_holds_what_and_why() -> None:
    told = evictions("list")
    assert told.exit_code == 0
    assert len(told.output.splitlines()) == 4
    assert "s1  (root)  small  context_window" in told.output
    assert "9000 tokens did not fit" in told.output
    assert "s1  helper  small  capability" in told.output
    assert "refused tools" in told.output
    assert len(evictions("list", "--target", LARGE).output.splitlines()) == 1
    lines = [json.loads(line) for line in evictions("list", "--json").output.splitlines()]
    assert [line["identity"][1:] for line in lines] == [["s1", ""], ["s1", "helper"], ["s2", ""]]


def test_a_session_is_shown_with_the_first_cause_of_each_eviction() -> None:
    told = evictions("show", "s1").output
    assert "last used" in told
    assert "capability, status 400" in told
    assert "by says so in error.message" in told
    assert "t7" not in told
    assert "holds nothing" in evictions("show", "s9").output


def test_where_a_session_is_at_home_is_shown_and_moves_with_it() -> None:
    async def settle(memory: Memory) -> None:
        await memory.settle(WHO, home(SMALL, NOW, last=LARGE, route="chat"), now=NOW)
        await memory.settle(Identity("", "s7"), home(LARGE, NOW), now=NOW)

    of_memory(settle)
    shown = evictions("show", "s1").output
    assert f"on route chat it is at home with {SMALL} since" in shown
    assert f"; {LARGE} served last" in shown
    assert "s7" not in evictions("list").output
    Path("moved.jsonl").write_text(evictions("export").output)
    assert "identities taken in: 4" in evictions("import", "moved.jsonl", path="other.db").output
    assert evictions("import", "moved.jsonl", path="other.db").exit_code == 0
    for who in (WHO, Identity("", "s7")):
        moved, there = (
            of_memory(lambda memory, who=who: memory.read(who, now=NOW + 1), path)
            for path in ("memory.db", "other.db")
        )
        assert moved == there


def test_a_target_is_restored_for_one_session_or_an_agent_of_it() -> None:
    told = evictions("restore", "s1", SMALL)
    assert told.output.startswith("restored: s1  (root)  small")
    assert held(WHO) == {(LARGE, "capability")}
    assert held(HELPER) == {(SMALL, "capability")}
    evictions("restore", "s1", SMALL, "--agent", "helper")
    assert held(HELPER) == set()
    assert "no eviction to remove" in evictions("restore", "s1", "nobody").output


def test_a_target_of_a_deployment_is_restored_for_every_session() -> None:
    Path("deployment.toml").write_text(DEPLOYMENT)
    (fingerprint,) = {
        target.fingerprint
        for route in __import__("turnout").Router.from_toml("deployment.toml").routes.values()
        for target in route.ladder
    }

    async def evict(memory: Memory) -> None:
        for session in ("a", "b"):
            await memory.record(Identity("", session), overflow(9000, at=NOW, fingerprint=fingerprint))

    of_memory(evict)
    told = of_the_deployment("restore-all", SMALL)
    assert told.exit_code == 0, told.output
    assert held(Identity("", "a")) == held(Identity("", "b")) == set()
    assert held(OTHER) == {(SMALL, "context_window")}, "of another target by that name"
    told = evictions("restore-all", SMALL)
    assert told.exit_code == 1
    assert "give --deployment FILE" in told.output


@pytest.mark.parametrize(
    "arguments", [("restore", "s1", "smal"), ("restore-all", "smal"), ("list", "--target", "smal")]
)
def test_a_target_that_no_route_has_is_said_to_be_none_and_one_like_it_named(
    arguments: tuple[str, ...],
) -> None:
    Path("deployment.toml").write_text(DEPLOYMENT)
    told = of_the_deployment(*arguments)
    assert told.exit_code == 1
    assert "no route has a target 'smal'; did you mean small?" in told.output
    assert of_the_deployment("list", "--target", SMALL).exit_code == 0


def test_a_session_is_forgotten_with_its_agents_or_one_agent_alone() -> None:
    assert len(evictions("forget", "s1", "--agent", "helper").output.splitlines()) == 1
    assert held(WHO) != set()
    assert len(evictions("forget", "s1").output.splitlines()) == 2
    assert held(WHO) == set()
    assert held(OTHER) != set()


def test_a_memory_is_moved_to_another_and_twice_is_once() -> None:
    exported = evictions("export")
    assert exported.output.count('"machine"') == 4, "an eviction stays under the machine that recorded it"
    Path("evictions.jsonl").write_text(exported.output)
    for _ in range(2):
        assert evictions("import", "evictions.jsonl", path="other.db").exit_code == 0
    for who in (WHO, HELPER, OTHER):
        assert held(who, "other.db") == held(who)
    assert evictions("export", path="other.db").output == exported.output


def test_an_import_says_what_it_has_taken_in_and_what_file_it_has_made() -> None:
    Path("evictions.jsonl").write_text(evictions("export").output)
    told = evictions("import", "evictions.jsonl", path="memroy.db")
    assert told.output.splitlines() == [
        "made memroy.db",
        "identities taken in: 3; expired: 0; lines left out: 0",
    ]
    told = evictions("import", "evictions.jsonl", path="memroy.db")
    assert "made" not in told.output


def test_a_session_that_is_in_use_is_moved_with_evictions_older_than_the_time_to_live() -> None:
    day, old, used = 86_400.0, Identity("", "old"), NOW - 3600

    async def fill(memory: Memory) -> None:
        await memory.record(old, overflow(9000, at=NOW - 3 * day), used=used)
        await memory.record(old, refusal("image", at=NOW - 2 * day, target=LARGE), used=used)
        await memory.record(Identity("", "gone"), overflow(9000, at=NOW - 3 * day))

    of_memory(fill)
    whole = of_memory(lambda memory: memory.held("", now=NOW - 2.5 * day))
    lines = evictions("export").output.splitlines()
    Path("evictions.jsonl").write_text("\n".join(lines))
    assert "expired: 0" in evictions("import", "evictions.jsonl", path="other.db").output
    assert held(old, "other.db") == held(old) == {(SMALL, "context_window"), (LARGE, "capability")}
    (moved,) = of_memory(lambda memory: memory.held("", "old", now=NOW), "other.db").held
    assert moved.last_use == used, "it lives as long as it would have"

    (gone,) = [held for held in whole.held if held.identity.session == "gone"]
    Path("evictions.jsonl").write_bytes(msgspec.json.encode(gone))
    told = evictions("import", "evictions.jsonl", path="other.db")
    assert "identities taken in: 0; expired: 1" in told.output
    assert told.exit_code == 0


def test_a_line_that_is_damaged_is_named_and_the_others_are_taken_in() -> None:
    first, *others = evictions("export").output.splitlines()
    Path("evictions.jsonl").write_text("\n".join((first, "{]", *others)))
    told = evictions("import", "evictions.jsonl", path="other.db")
    assert told.exit_code == 2
    assert "line 2" in told.output
    assert "taken in: 3; expired: 0; lines left out: 1" in told.output
    assert held(OTHER, "other.db") == held(OTHER)


def test_another_namespace_sees_nothing_of_it_and_can_take_it_in() -> None:
    assert "nothing is evicted" in evictions("--namespace", "tenant", "list").output
    Path("evictions.jsonl").write_text(evictions("export").output)
    told = evictions("--namespace", "tenant", "import", "evictions.jsonl")
    assert held(Identity("tenant", "s2")) == held(OTHER)
    assert "moved into namespace 'tenant': 3 lines" in told.output


def test_lines_of_another_namespace_are_left_out_unless_it_is_asked_for() -> None:
    async def fill(memory: Memory) -> None:
        await memory.record(Identity("tenant", "s1"), overflow(5000, at=NOW))

    of_memory(fill)
    lines = evictions("export").stdout + evictions("--namespace", "tenant", "export").stdout
    Path("evictions.jsonl").write_text(lines)
    told = evictions("import", "evictions.jsonl", path="other.db")
    assert told.exit_code == 2
    assert "namespace 'tenant': 1 line left out, since this imports into ''" in told.output
    assert "identities taken in: 3; expired: 0; lines left out: 1" in told.output
    assert held(Identity("tenant", "s1"), "other.db") == set()
    told = evictions("--namespace", "", "import", "evictions.jsonl", path="other.db")
    assert told.exit_code == 0
    assert "moved into namespace '': 1 line" in told.output


@pytest.mark.parametrize("arguments", [["list"], ["export"], ["export", "--damaged"]], ids=" ".join)
def test_who_looks_at_one_namespace_is_told_of_the_others_in_the_file(arguments: list[str]) -> None:
    assert "namespace" not in evictions(*arguments).output

    async def fill(memory: Memory) -> None:
        await memory.record(Identity("ten\x1bant", "s1"), overflow(5000, at=NOW))

    of_memory(fill)
    told = evictions(*arguments)
    others = "this is namespace '' only; the file also holds 'ten\\x1bant': give --namespace NAME"
    assert others in told.stderr
    assert "ant" not in told.stdout
    assert told.exit_code == 0
    told = evictions("--namespace", "nobody", *arguments)
    assert "nothing is evicted" in told.stderr
    assert "the file also holds '', 'ten" in told.stderr


def test_the_memory_is_named_before_the_command_or_behind_it() -> None:
    before = evictions("list")
    behind = CliRunner().invoke(main, ["evictions", "list", "--memory", "sqlite:memory.db"])
    assert (behind.exit_code, behind.output) == (0, before.output)


@pytest.mark.parametrize("command", sorted(group.commands))
def test_the_help_of_a_command_needs_no_memory(command: str) -> None:
    told = CliRunner().invoke(main, ["evictions", command, "--help"])
    assert told.exit_code == 0
    assert "--memory URL" in told.output
    assert ("It needs --deployment FILE" in told.output) == (command == "restore-all")


def test_a_variable_may_hold_the_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHERE", "sqlite:memory.db")
    listed = CliRunner().invoke(main, ["evictions", "--memory", "env:WHERE", "list"])
    assert listed.output == evictions("list").output
    monkeypatch.setenv("WHERE", "sqlite://memory.db")
    told = CliRunner().invoke(main, ["evictions", "--memory", "env:WHERE", "list"])
    assert "without // before it" in told.output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["list"], "give --deployment FILE or --memory URL"),
        (["--memory", "memory:", "list"], "gone with its process"),
        (["--memory", "postgres://x", "list"], "--memory is no memory; give sqlite:PATH"),
        (["--memory", "sqlite:///memory.db", "list"], "give a path without // before it"),
        (["--memory", "redis://u:hunter2@h/0", "list"], "holds a credential, .* --memory env:REDIS_URL"),
        (["--memory", "env:NO_SUCH_VARIABLE", "list"], "not set in this environment"),
        (["--deployment", "nowhere.toml", "list"], "nowhere.toml"),
        (["--memory", "sqlite:nowhere/memory.db", "list"], "nowhere"),
    ],
    ids=["none", "of a process", "unknown", "slashes", "credential", "unset", "no file", "no directory"],
)
def test_a_memory_that_cannot_be_looked_at_is_told_in_a_line(arguments: list[str], says: str) -> None:
    told = CliRunner().invoke(main, ["evictions", *arguments])
    assert told.exit_code != 0
    assert re.search(says, told.output)
    assert "Traceback" not in told.output
    assert "hunter2" not in told.output


def test_names_that_would_steer_a_terminal_do_not() -> None:
    async def evict(memory: Memory) -> None:
        await memory.record(Identity("", "\x1b[2Jgone"), overflow(9000, at=NOW))

    of_memory(evict)
    assert "\x1b" not in evictions("list").output
    assert "gone" in evictions("list").output
