"""`turnout evictions`: what a memory holds is told, taken back, and moved to another memory."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from memories import LARGE, SMALL, overflow, refusal

from turnout import SqliteMemory
from turnout.engine.cli import main
from turnout.engine.context import Identity
from turnout.engine.memory.protocol import Memory

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
    assert "holds no eviction" in evictions("show", "s9").output


def test_a_target_is_restored_for_one_session_or_an_agent_of_it() -> None:
    told = evictions("restore", "s1", SMALL)
    assert told.output.startswith("restored: s1  (root)  small")
    assert held(WHO) == {(LARGE, "capability")}
    assert held(HELPER) == {(SMALL, "capability")}
    evictions("restore", "s1", SMALL, "--agent", "helper")
    assert held(HELPER) == set()
    assert "nothing to remove" in evictions("restore", "s1", "nobody").output


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
    told = CliRunner().invoke(main, ["evictions", "--deployment", "deployment.toml", "restore-all", SMALL])
    assert told.exit_code == 0, told.output
    assert held(Identity("", "a")) == held(Identity("", "b")) == set()
    assert held(OTHER) == {(SMALL, "context_window")}, "of another target by that name"
    told = evictions("restore-all", SMALL)
    assert told.exit_code == 1
    assert "give --deployment FILE" in told.output


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


def test_a_line_that_is_damaged_is_named_and_the_others_are_taken_in() -> None:
    first, *others = evictions("export").output.splitlines()
    Path("evictions.jsonl").write_text("\n".join((first, "{]", *others)))
    told = evictions("import", "evictions.jsonl", path="other.db")
    assert told.exit_code == 2
    assert "line 2" in told.output
    assert held(OTHER, "other.db") == held(OTHER)


def test_another_namespace_sees_nothing_of_it_and_can_take_it_in() -> None:
    assert "nothing is evicted" in evictions("--namespace", "tenant", "list").output
    Path("evictions.jsonl").write_text(evictions("export").output)
    evictions("--namespace", "tenant", "import", "evictions.jsonl")
    assert held(Identity("tenant", "s2")) == held(OTHER)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["list"], "give --deployment FILE or --memory URL"),
        (["--memory", "memory:", "list"], "gone with its process"),
        (["--memory", "postgres://x", "list"], "names no store"),
        (["--deployment", "nowhere.toml", "list"], "nowhere.toml"),
        (["--memory", "sqlite:nowhere/memory.db", "list"], "nowhere"),
    ],
    ids=["none", "of a process", "unknown", "no file", "no directory"],
)
def test_a_memory_that_cannot_be_looked_at_is_told_in_a_line(arguments: list[str], says: str) -> None:
    told = CliRunner().invoke(main, ["evictions", *arguments])
    assert told.exit_code != 0
    assert says in told.output
    assert "Traceback" not in told.output


def test_names_that_would_steer_a_terminal_do_not() -> None:
    async def evict(memory: Memory) -> None:
        await memory.record(Identity("", "\x1b[2Jgone"), overflow(9000, at=NOW))

    of_memory(evict)
    assert "\x1b" not in evictions("list").output
    assert "gone" in evictions("list").output
