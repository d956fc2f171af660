"""A Router as a service uses it: one record per turn, its memory, its life, and what it refuses."""

import asyncio
import logging
import math
import os
import sqlite3
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from house import BODY, LADDER, House

from turnout import (
    AuditRecord,
    ConfigurationError,
    ErrorRule,
    Evidence,
    InMemory,
    InvalidBody,
    JsonLines,
    Memory,
    MemoryTrouble,
    Reply,
    RequestRefused,
    Route,
    Router,
    RouterMisused,
    SqliteMemory,
    Target,
    TurnBroken,
    TurnFailed,
    UnknownRoute,
)
from turnout.engine.audit import decode, encode
from turnout.engine.context import Eviction, Identity, SessionContext
from turnout.engine.errors import surface
from turnout.engine.memory.protocol import Change
from turnout.engine.testing import Hang, Reset, Scripted, ScriptedTransport, in_json, ok, refusal

CAPABILITY = refusal("capability", "image")
OVERFLOW = refusal("context_window")
DOWN = refusal("unavailable")


class ReadOnly(Memory):
    """On the way to a memory of one's own: what is inherited does nothing."""

    async def read(self, identity: Identity, *, now: float) -> SessionContext:
        return SessionContext()


async def served(target: Target, request: Any, /, *, timeout: float | None) -> Any:
    return {"choices": [{"message": {"content": "ok"}}]}


# -- exactly one record per turn


def test_a_served_turn_leaves_one_record_and_the_reply_holds_it() -> None:
    house = House()
    reply = house.turn()
    assert house.records == [reply.record]
    assert reply.record.ended_by == "answered"


@pytest.mark.parametrize(
    ("script", "ended_by"),
    [
        ({"a": [refusal("caller_error")]}, "rejected"),
        ({"a": [DOWN], "b": [DOWN]}, "advance"),
        ({"a": [Hang()]}, "expired"),
    ],
    ids=["the caller's error", "nothing left", "the deadline"],
)
def test_a_failed_turn_leaves_one_record_and_the_error_holds_it(
    script: dict[str, list[Scripted]], ended_by: str
) -> None:
    house = House(script, deadline_secs=60)
    with pytest.raises(TurnFailed) as failed:
        house.turn()
    assert house.records == [failed.value.record]
    assert failed.value.record.ended_by == ended_by


def test_a_cancelled_turn_leaves_one_record_and_the_cancellation_passes() -> None:
    house = House({"a": [Hang()]})

    async def story(router: Router) -> None:
        turn = asyncio.create_task(router.turn(BODY, session="s1", final=True))
        await asyncio.sleep(1)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn

    house.play(story)
    (record,) = house.records
    assert record.ended_by == "cancelled"
    assert record.took == 1
    assert [(t.target, t.why) for t in record.not_tried] == [("b", "cancelled")]


def test_a_turn_that_is_cancelled_while_it_waits_asks_nobody_further() -> None:
    patient = (Target("a", base_url="http://upstream.example", max_retries=2), LADDER[1])
    house = House({"a": [DOWN]}, ladder=patient)

    async def story(router: Router) -> None:
        turn = asyncio.create_task(router.turn(BODY, session="s1"))
        await asyncio.sleep(0.1)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn

    house.play(story)
    assert len(house.transport.requests) == 1
    assert house.records[0].steps == (("cancelled", "probing", "failed"),)
    assert house.records[0].standings_after == ()


def test_a_sink_that_raises_is_logged_and_never_breaks_the_turn(caplog: pytest.LogCaptureFixture) -> None:
    def sink(record: AuditRecord) -> None:
        raise OSError("disk full")

    assert House(on_record=sink).turn().served_by == "a"
    assert "on_record raised" in caplog.text
    assert "disk full" in caplog.text


def test_without_a_sink_the_record_is_in_the_reply() -> None:
    assert House(on_record=None).turn().record.served_by == "a"


# -- what is refused before a machine starts


@pytest.mark.parametrize(
    "body",
    [None, [], "text", {"x": object()}, {"messages": "\ud800"}, {"stream": True}],
    ids=["nothing", "a list", "a text", "no JSON", "no Unicode", "a stream"],
)
def test_what_is_no_request_is_refused_without_a_turn(body: Any) -> None:
    house = House()
    with pytest.raises(InvalidBody) as refused:
        house.play(lambda router: router.turn(body, session="s1"))
    assert surface(refused.value) == (400, "invalid_request_error", "invalid_body")
    assert house.records == []
    assert house.transport.requests == []


def test_an_unknown_route_is_refused_and_the_routes_are_named() -> None:
    routes = [Route(id=name, ladder=LADDER) for name in ("chat", "code")]
    house = House(ladder=(), routes=routes)
    for asked in ("other", None):
        with pytest.raises(UnknownRoute, match="'chat', 'code'") as refused:
            house.turn(route=asked)
        assert isinstance(refused.value, RequestRefused)
        assert surface(refused.value) == (404, "model_not_found", "model_not_found")
    assert house.turn(route="code").record.route == "code"
    assert len(house.records) == 1


# -- routes


def test_the_routes_of_a_router_share_a_sessions_evictions() -> None:
    routes = [Route(id=name, ladder=LADDER) for name in ("chat", "code")]
    house = House({"a": [CAPABILITY]}, ladder=(), routes=routes)

    async def story(router: Router) -> None:
        await router.turn(BODY, session="s1", route="chat")
        await router.turn(BODY, session="s1", route="code")

    house.play(story)
    assert house.asked == [["a", "b"], ["b"]]


def test_a_deployment_file_gives_a_router_with_its_routes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEY", "sk-some-key")
    file = tmp_path / "deployment.toml"
    file.write_text(f"""
        [memory]
        url = "sqlite:{tmp_path}/evictions.db"
        namespace = "blue"
        memory_timeout_ms = 10000
        [llm_clients.up]
        base_url = "https://upstream.example/v1"
        api_key_env = "SOME_KEY"
        [targets.weak]
        id = "vendor/weak-1"
        llm_client = "up"
        [targets.strong]
        llm_client = "up"
        [routes.chat]
        ladder = ["weak", "strong"]
        [routes.chat.on]
        content_policy = "skip"
    """)
    transport = ScriptedTransport({"vendor/weak-1": [refusal("content_policy")]})

    async def story() -> Any:
        async with Router.from_toml(file, transport=transport) as router:
            return await router.turn(BODY, session="s1")

    record = asyncio.run(story()).record
    assert [p.target for p in record.probes] == ["weak", "strong"]
    assert record.policy["content_policy"] == "skip"
    assert record.caller.namespace == "blue"
    assert transport.requests[0].headers["authorization"] == "Bearer sk-some-key"


def test_a_memory_given_by_hand_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "deployment.toml"
    file.write_text("""
        [llm_clients.up]
        base_url = "https://upstream.example/v1"
        [targets.a]
        llm_client = "up"
        [targets.b]
        llm_client = "up"
        [routes.chat]
        ladder = ["a", "b"]
    """)
    router = Router.from_toml(file, memory=InMemory())
    assert list(router.routes) == ["chat"]


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ({}, "needs a ladder"),
        ({"ladder": [LADDER[0], LADDER[0]]}, "stands in its ladder twice"),
        ({"ladder": [Target("a")]}, "has no base_url"),
        ({"routes": [Route(id="r", ladder=LADDER)] * 2}, "given twice"),
        ({"ladder": LADDER, "on": {"unavailable": "evict"}}, "on.unavailable"),
        ({"ladder": LADDER, "on": {"weather": "skip"}}, "on.weather"),
        ({"ladder": LADDER, "on": {"capabilty": "skip"}}, r"on.capabilty: .*; did you mean capability\?"),
        ({"ladder": LADDER, "on": "skip"}, "on is of type str; give a dict"),
        ({"ladder": "small"}, "ladder holds str; give targets only"),
        ({"ladder": ["small"]}, "ladder holds str; give targets only"),
        ({"ladder": LADDER[0]}, "ladder is of type Target; give a list of targets"),
        ({"ladder": 5}, "ladder is of type int; give a list of targets"),
        ({"ladder": LADDER, "deadline_secs": "5"}, "deadline_secs is of type str; give a number"),
        ({"ladder": LADDER, "routes": [Route(id="r", ladder=LADDER)]}, "give ladder or routes"),
        ({"routes": [Route(id="r", ladder=LADDER)], "deadline_secs": 5}, "go with a ladder"),
        ({"routes": [Route(id="r", ladder=LADDER)], "on": {}}, "go with a ladder"),
        ({"routes": Route(id="r", ladder=LADDER)}, "routes is of type Route; give a list"),
        ({"routes": {"r": LADDER}}, "routes holds str; give routes only"),
        ({"ladder": LADDER, "memory": "evictions.db"}, r'memory is of type str; give SqliteMemory\("evict'),
        (
            {"ladder": LADDER, "memory": "redis://cache:6379/0"},
            r"memory is of type str; .* RedisMemory\(.* \(from turnout.engine.memory.redis\)",
        ),
        ({"ladder": LADDER, "memory": InMemory}, "memory is a class; give SqliteMemory"),
        (
            {"ladder": LADDER, "memory": ReadOnly()},
            "memory is of type ReadOnly without record, settle, touch, .*; ",
        ),
        ({"ladder": LADDER, "transport": "requests"}, "transport is 'requests'; give aiohttp or httpx"),
        ({"ladder": LADDER, "transport": httpx.HTTPTransport()}, "transport is of type HTTPTransport; give"),
        ({"ladder": LADDER, "on_record": "records.jsonl"}, r"on_record is of type str; give .*JsonLines\("),
        ({"ladder": LADDER, "on_record": JsonLines}, "on_record is a class"),
        ({"ladder": LADDER, "on_change": "changes.jsonl"}, r"on_change is of type str; give .*JsonLines\("),
        ({"ladder": LADDER, "on_change": JsonLines}, "on_change is a class"),
        ({"ladder": LADDER, "capture": "captured"}, r'capture is of type str; give Capture\("captured"\)'),
        ({"ladder": LADDER, "on_memory_error": "rise"}, "on_memory_error is 'rise'; give serve or raise"),
        ({"ladder": LADDER, "memory_timeout_ms": "5"}, "memory_timeout_ms is of type str; give a number"),
        ({"ladder": LADDER, "clock": 5}, "clock is of type int; give a Clock"),
        ({"ladder": LADDER, "jitter": 0.5}, "jitter is of type float; give a callable"),
        ({"ladder": LADDER, "call": served, "transport": "httpx"}, "call= makes the calls.*; keep one"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_router_that_could_not_work_is_refused(arguments: dict[str, Any], what: str) -> None:
    with pytest.raises(ConfigurationError, match=what):
        Router(**{"memory": InMemory(), **arguments})


def test_a_client_of_ones_own_takes_the_place_of_what_the_file_carries_requests_by(tmp_path: Path) -> None:
    file = tmp_path / "deployment.toml"
    file.write_text("""
        [http]
        library = "httpx"
        [targets.a]
        base_url = "https://upstream.example/v1"
        [routes.chat]
        ladder = ["a"]
    """)
    router = Router.from_toml(file, memory=InMemory(), call=served)
    assert asyncio.run(router.turn(BODY)).served_by == "a"


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"temperature": math.nan}, "temperature"),
        ({"messages": [{"role": "user", "content": "null"}], "top_p": -math.inf}, "top_p"),
        ({"logit_bias": {"50256": [1, None, (0.5, math.inf)]}}, r"logit_bias\.50256\[2\]\[1\]"),
    ],
    ids=["nan", "infinity", "deep"],
)
def test_a_number_that_json_cannot_say_is_refused_and_its_place_named(body: Any, where: str) -> None:
    house = House()
    with pytest.raises(InvalidBody, match=f"the body is no JSON: {where} is NaN or an infinity"):
        house.play(lambda router: router.turn(body))
    assert house.records == []


def test_nothing_that_reads_like_one_is_refused() -> None:
    body = {**BODY, "stop": None, "tools": [{"default": None, "say": "NaN is null", "n": 1.5}]}
    assert House().play(lambda router: router.turn(body)).served_by == "a"


@pytest.mark.parametrize(
    "variable", ["sk-0123456789abcdef", "a1b2c3d4e5f60718a1b2c3d4", "9f8e7d6c5b4a39281706"]
)
def test_a_key_that_was_put_where_its_variables_name_belongs_is_never_told(variable: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Router(
            ladder=[Target("a", base_url="https://upstream.example/v1", api_key_env=variable)],
            memory=InMemory(),
        )
    assert variable not in str(refused.value)


def test_a_name_of_a_variable_that_could_be_a_key_is_never_told() -> None:
    with pytest.raises(ConfigurationError, match="its variable is not set") as refused:
        Router(
            ladder=[Target("a", base_url="https://upstream.example/v1", api_key_env="a9f8e7d6c5b4a3928")],
            memory=InMemory(),
        )
    assert "a9f8" not in str(refused.value)


def test_a_bound_that_cannot_be_used_means_no_bound_and_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    target = Target(
        "a", base_url="http://upstream.example", timeout_secs=0, connect_timeout_secs=float("nan")
    )
    house = House({"a": [ok(after=10_000)]}, ladder=(target,), deadline_secs=-1.0)
    assert house.play(lambda router: router.turn(BODY)).record.took == 10_000
    told = [record.getMessage() for record in caplog.records]
    assert [message.split(" = ")[0] for message in told] == [
        "target a: connect_timeout_secs",
        "target a: timeout_secs",
        "route default: deadline_secs",
    ]

    caplog.clear()
    Router(routes=[Route(id="one", ladder=(target,)), Route(id="two", ladder=(target,))], memory=InMemory())
    assert len(caplog.records) == 2, "once for a target of two routes"


# -- the session's memory


def test_a_final_root_request_forgets_the_session_with_all_its_agents_also_when_it_failed() -> None:
    house = House({"a": [CAPABILITY], "b": [ok(), ok(), DOWN, ok()]})

    async def story(router: Router) -> None:
        await router.turn(BODY, session="s1")
        await router.turn(BODY, session="s1", agent="child")
        with pytest.raises(TurnFailed):
            await router.turn(BODY, session="s1", final=True)
        await router.turn(BODY, session="s1")
        await router.turn(BODY, session="s1", agent="child")

    house.play(story)
    assert house.asked == [["a", "b"], ["a", "b"], ["b"], ["a", "b"], ["a", "b"]]
    assert house.records[2].standings_before
    assert house.records[2].standings_after == ()


def test_a_final_sub_agent_request_forgets_that_agent_only() -> None:
    house = House({"a": [CAPABILITY]})

    async def story(router: Router) -> None:
        for agent in (None, "x", "y"):
            await router.turn(BODY, session="s1", agent=agent)
        await router.turn(BODY, session="s1", agent="x", final=True)
        for agent in (None, "x", "y"):
            await router.turn(BODY, session="s1", agent=agent)

    house.play(story)
    assert house.asked[4:] == [["b"], ["a", "b"], ["b"]]


def test_a_cancelled_final_request_forgets_the_session_too() -> None:
    house = House({"a": [CAPABILITY], "b": [ok(), Hang(), ok()]})

    async def story(router: Router) -> None:
        await router.turn(BODY, session="s1")
        turn = asyncio.create_task(router.turn(BODY, session="s1", final=True))
        await asyncio.sleep(1)
        turn.cancel()
        await asyncio.wait([turn])
        await asyncio.sleep(1)
        await router.turn(BODY, session="s1")

    house.play(story)
    assert house.asked == [["a", "b"], ["b"], ["a", "b"]]


def test_forget_and_restore_by_hand() -> None:
    house = House({"a": [CAPABILITY]})

    async def story(router: Router) -> list[tuple[Change, ...]]:
        changes = []
        for undo in (
            lambda: router.forget("s1"),
            lambda: router.restore("s1", target="a"),
            lambda: router.restore(target="a"),
        ):
            await router.turn(BODY, session="s1")
            await router.turn(BODY, session="s1")
            changes.append(await undo())
        await router.turn(BODY, session="s1")
        return changes

    forgotten, restored, everywhere = house.play(story)
    assert house.asked == [["a", "b"], ["b"]] * 3 + [["a", "b"]]
    assert [(c.eviction.target, c.why) for c in forgotten] == [("a", "forgotten")]
    assert [(c.eviction.target, c.why) for c in restored] == [("a", "restored")]
    assert everywhere == ()


@pytest.mark.parametrize("session", ["s1", None], ids=["one session", "all"])
def test_a_target_that_is_restored_while_the_memory_is_away_is_restored_when_it_is_back(
    session: str | None,
) -> None:
    """Under two routes it is known by two addresses."""

    class Away(InMemory):
        away = False

        def _answer(self) -> None:
            if self.away:
                raise ConnectionError("nobody there")

        async def read(self, *args: Any, **named: Any) -> Any:
            self._answer()
            return await super().read(*args, **named)

        async def restore_everywhere(self, *args: Any, **named: Any) -> None:
            self._answer()
            await super().restore_everywhere(*args, **named)

    memory = Away()
    others = tuple(Target(target.name, base_url="http://other.example", max_retries=0) for target in LADDER)
    routes = [Route(id="here", ladder=LADDER), Route(id="there", ladder=others)]
    house = House({"a": [CAPABILITY, CAPABILITY, ok()]}, memory=memory, ladder=(), routes=routes)

    async def story(router: Router) -> None:
        for route in ("here", "there"):
            await router.turn(BODY, route=route, session="s1")
        memory.away = True
        with pytest.raises(MemoryTrouble, match="nobody there"):
            await router.restore(session, target="a")
        assert router.memory.health.queued == (1 if session else 2)
        memory.away = False
        await house.clock.sleep(10)
        for route in ("here", "there"):
            await router.turn(BODY, route=route, session="s1")

    house.play(story)
    assert house.asked == [["a", "b"], ["a", "b"], ["a"], ["a"]]


def test_a_namespace_that_cannot_be_written_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="which is no Unicode"):
        House(namespace="\ud800").router()


def test_restoring_a_target_that_no_route_has_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no route has a target 'z'"):
        House().play(lambda router: router.restore(target="z"))


# -- a memory in trouble


class Broken(InMemory):
    """A memory whose named methods fail."""

    def __init__(self, *verbs: str, error: BaseException | None = None) -> None:
        super().__init__()
        self.verbs = verbs
        self.error = error or MemoryTrouble("memory: could not be reached")

    async def _fails(self, verb: str) -> None:
        if verb in self.verbs:
            raise self.error

    async def read(self, identity: Identity, *, now: float) -> SessionContext:
        await self._fails("read")
        return await super().read(identity, now=now)

    async def record(self, identity: Identity, eviction: Eviction) -> None:
        await self._fails("record")
        await super().record(identity, eviction)

    async def touch(self, identity: Identity, *, now: float) -> None:
        await self._fails("touch")

    async def remove(self, *args: Any, **named: Any) -> tuple[Change, ...]:
        await self._fails("remove")
        return await super().remove(*args, **named)

    async def forget(self, *args: Any, **named: Any) -> tuple[Change, ...]:
        await self._fails("forget")
        return await super().forget(*args, **named)


@pytest.mark.parametrize(
    "error", [MemoryTrouble("memory: gone"), ValueError("a bug of the store's")], ids=repr
)
def test_under_serve_a_memory_that_fails_never_stands_between_a_caller_and_an_answer(
    error: Exception,
) -> None:
    house = House({"a": [CAPABILITY]}, memory=Broken("read", "record", error=error))
    reply = house.turn()
    assert reply.served_by == "b"
    assert house.asked == [["a", "b"]]
    assert len(reply.record.notes) == 3
    assert str(error) in reply.record.notes[0]


@pytest.mark.parametrize(("verb", "requests"), [("read", 0), ("record", 1)])
def test_under_raise_a_memory_that_fails_breaks_the_turn(verb: str, requests: int) -> None:
    house = House({"a": [CAPABILITY]}, memory=Broken(verb), on_memory_error="raise")
    with pytest.raises(TurnFailed) as failed:
        house.turn()
    assert isinstance(failed.value.error, TurnBroken)
    assert isinstance(failed.value.error.__cause__, MemoryTrouble)
    assert failed.value.surface == (500, "server_error", "server_error")
    assert failed.value.record.ended_by == "broken"
    assert len(house.transport.requests) == requests


def test_bookkeeping_that_fails_leaves_a_note_and_changes_nothing_under_raise_too() -> None:
    memory = Broken("touch", "remove", "forget")
    house = House({"a": [OVERFLOW, ok()], "b": [ok(), OVERFLOW]}, memory=memory, on_memory_error="raise")
    assert house.turn().served_by == "b"
    assert house.records[0].notes == (), "recording an eviction notes the use as well"
    with pytest.raises(TurnFailed):
        house.turn()
    assert house.turn().served_by == "a"
    assert [e.target for e in house.records[2].restored] == ["a"]
    assert "could not be reached" in house.records[2].notes[0]

    house = House({"a": [OVERFLOW]}, memory=memory, on_memory_error="raise")
    for _ in range(2):
        assert house.turn(session="s2").served_by == "b"
    assert "could not be reached" in house.records[1].notes[0]

    with pytest.raises(TurnFailed):
        House({"a": [refusal("caller_error")]}, memory=memory).turn(final=True)


class Slow(InMemory):
    """A memory that takes an hour to be read."""

    async def read(self, identity: Identity, *, now: float) -> SessionContext:
        await asyncio.sleep(3600)
        return await super().read(identity, now=now)


def test_a_slow_memory_is_left_at_its_bound() -> None:
    reply = House(memory=Slow(), memory_timeout_ms=250).turn()
    assert reply.record.took == 0.25
    assert reply.record.notes == ("memory: could not read: no answer within 250 ms",)


def test_a_corrupt_database_is_served_around_or_told_as_configured(tmp_path: Path) -> None:
    path = tmp_path / "evictions.db"
    path.write_bytes(b"this is no database at all, " * 100)
    reply = House(memory=SqliteMemory(path), memory_timeout_ms=10_000).turn()
    assert reply.served_by == "a"
    assert str(path) in reply.record.notes[0]
    with pytest.raises(TurnFailed, match=r"evictions\.db"):
        House(memory=SqliteMemory(path), memory_timeout_ms=10_000, on_memory_error="raise").turn()


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    memory = SqliteMemory(tmp_path / "nowhere" / "evictions.db")
    with pytest.raises(TurnFailed, match="nowhere"):
        House(memory=memory, memory_timeout_ms=10_000, on_memory_error="raise").turn()


# -- its life


def test_closing_waits_for_the_turns_in_flight_and_then_refuses() -> None:
    house = House({"a": [ok(after=5)]})

    async def story(router: Router) -> Any:
        turn = asyncio.create_task(router.turn(BODY, session="s1"))
        await asyncio.sleep(1)
        await router.close()
        assert turn.done()
        with pytest.raises(RouterMisused, match="closed"):
            await router.turn(BODY)
        await router.close()
        return turn.result()

    assert house.play(story).served_by == "a"
    assert house.clock.monotonic() == 5


def test_use_from_another_event_loop_is_a_clear_error() -> None:
    house = House()
    router = house.router()
    house.clock.run(router.turn(BODY))
    with pytest.raises(RouterMisused, match="another event loop"):
        asyncio.run(router.turn(BODY))


def test_use_after_a_fork_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    router = House().router()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(RouterMisused, match="before the fork"):
        asyncio.run(router.turn(BODY))


def test_closing_from_another_event_loop_or_process_is_a_clear_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def used() -> Router:
        router = Router(ladder=LADDER, memory=InMemory(), transport=ScriptedTransport())
        await router.turn(BODY)
        return router

    with asyncio.Runner() as runner:
        router = runner.run(used())
        with pytest.raises(RouterMisused, match="of another event loop"):
            asyncio.run(router.close())
        monkeypatch.setattr(os, "getpid", lambda: -1)
        with pytest.raises(RouterMisused, match="before the fork"):
            runner.run(router.close())
        monkeypatch.undo()
        runner.run(router.close())


def test_many_tasks_share_a_router_and_each_keeps_its_own_turn() -> None:
    house = House({"a": [CAPABILITY, *([ok(after=1)] * 50)]})

    async def story(router: Router) -> list[str]:
        turns = [router.turn(BODY, session=f"s{number}") for number in range(50)]
        return [reply.served_by for reply in await asyncio.gather(*turns)]

    assert house.play(story) == ["b"] + ["a"] * 49
    assert len({record.turn for record in house.records}) == 50


def test_the_size_that_a_caller_knows_is_kept_with_an_overflow() -> None:
    house = House({"a": [OVERFLOW]})
    assert house.turn(size=12_345).record.standings_after[0].size == 12_345
    assert House({"a": [OVERFLOW]}).turn().record.standings_after[0].size == 6


def test_turn_ids_sort_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    ids = []
    for nanoseconds in (1_700_000_000 * 10**9, 1_800_000_000 * 10**9):
        monkeypatch.setattr(time, "time_ns", lambda at=nanoseconds: at)
        ids.append(House().turn().record.turn)
    assert ids == sorted(ids)
    assert len(set(ids)) == 2


def test_nothing_is_logged_of_a_turn_that_went_well(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    House().turn()
    assert caplog.text == ""


# -- a database in trouble, over real time


def test_a_locked_database_is_left_at_its_bound_and_the_loop_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "evictions.db"
    transport = ScriptedTransport({"a": [CAPABILITY]})
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.001)
            ticks += 1

    async def story() -> Any:
        async with Router(
            ladder=LADDER, memory=SqliteMemory(path), transport=transport, memory_timeout_ms=500
        ) as router:
            await router.turn(BODY, session="s0")
            other = sqlite3.connect(path, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            ticking = asyncio.create_task(tick())
            reply = await router.turn(BODY, session="s1")
            ticking.cancel()
            other.execute("ROLLBACK")
            other.close()
        return reply

    reply = asyncio.run(asyncio.wait_for(story(), 60))
    assert reply.served_by == "b"
    assert reply.record.notes[0] == "memory: could not record: no answer within 500 ms"
    assert ticks > 5


def test_a_full_database_is_served_around_and_remembers_again_when_there_is_room(tmp_path: Path) -> None:
    memory = SqliteMemory(tmp_path / "evictions.db")
    transport = ScriptedTransport({"a": [CAPABILITY]})

    async def story() -> list[Reply]:
        replies = []
        async with Router(
            ladder=LADDER, memory=memory, transport=transport, memory_timeout_ms=10_000
        ) as router:
            memory._pragmas["max_page_count"] = 1
            replies.append(await router.turn(BODY, session="s1"))
            del memory._pragmas["max_page_count"]
            replies += [await router.turn(BODY, session="s1") for _ in range(2)]
        return replies

    full, after, again = asyncio.run(asyncio.wait_for(story(), 60))
    assert full.served_by == "b"
    assert "make room" in full.record.notes[0]
    assert after.record.notes == ()
    assert [probe.target for probe in again.record.probes] == ["b"]


# -- hostile ids, odd arguments, leaving at an awkward moment


@pytest.mark.parametrize(
    "session", ["\ud800", "s\x00\n\x1b[31m", "x" * 100_000, 7], ids=["half", "controls", "long", "7"]
)
def test_any_id_is_remembered_and_every_record_can_be_written(session: Any, tmp_path: Path) -> None:
    house = House({"a": [CAPABILITY]}, memory=SqliteMemory(tmp_path / "e.db"), memory_timeout_ms=10_000)

    async def story(router: Router) -> None:
        for _ in range(2):
            await router.turn(BODY, session=session, request_id=session)

    house.play(story)
    assert house.asked == [["a", "b"], ["b"]]
    assert [decode(encode(record)) for record in house.records] == house.records
    assert house.records[1].notes == ()


def test_headers_that_are_no_text_are_absent() -> None:
    assert House().turn(headers={"x-request-id": None, "X-Session-Id": 7}).record.request == ""


@pytest.mark.parametrize("size", [1.5, -1, "9", True, 2**64], ids=repr)
def test_a_size_is_a_whole_number_of_tokens(size: Any) -> None:
    with pytest.raises(InvalidBody, match="whole number of tokens"):
        House().turn(size=size)


@pytest.mark.parametrize("name", ["on_record", "on_change"])
def test_a_sink_that_would_never_be_awaited_is_refused(name: str) -> None:
    async def sink(told: AuditRecord | Change) -> None: ...

    with pytest.raises(ConfigurationError, match=f"{name} is async"):
        House(**{name: sink}).router()


@pytest.mark.parametrize("bound", [0, -1.0, float("nan")], ids=repr)
def test_a_memory_bound_that_cannot_be_used_means_no_bound(bound: float) -> None:
    reply = House(memory=Slow(), memory_timeout_ms=bound).turn()
    assert reply.record.notes == ()
    assert reply.record.took == 3600


def test_a_memory_that_raises_before_it_can_be_awaited_is_served_around_too() -> None:
    class Rude(InMemory):
        def touch(self, identity: Identity, *, now: float) -> Any:
            raise OSError("no such store")

    class Ruder(Rude):
        def read(self, identity: Identity, *, now: float) -> Any:
            raise OSError("no such store")

    for memory, verb in ((Rude(), "touch"), (Ruder(), "read")):
        house = House({"a": [CAPABILITY]}, memory=memory)
        for _ in range(2):
            assert house.turn().served_by == "b"
        assert house.records[1].notes[-1] == f"memory: could not {verb}: OSError: no such store"


def test_a_caller_who_leaves_during_the_bookkeeping_takes_no_removal_along() -> None:
    class SlowToForget(InMemory):
        async def forget(self, *args: Any, **named: Any) -> tuple[Change, ...]:
            await asyncio.sleep(5)
            return await super().forget(*args, **named)

    house = House({"a": [CAPABILITY]}, memory=SlowToForget(), memory_timeout_ms=60_000)

    async def story(router: Router) -> None:
        await router.turn(BODY, session="s1")
        last = asyncio.create_task(router.turn(BODY, session="s1", final=True))
        await asyncio.sleep(1)
        last.cancel()
        await asyncio.wait([last])
        await asyncio.sleep(10)
        await router.turn(BODY, session="s1")

    house.play(story)
    assert house.asked == [["a", "b"], ["b"], ["a", "b"]]
    assert [record.state for record in house.records] == ["served"] * 3


def test_closing_again_waits_for_the_same_end_and_the_memory_is_closed_whatever_fails() -> None:
    closed: list[str] = []

    class Watched(InMemory):
        async def close(self) -> None:
            closed.append("memory")

    class Failing(ScriptedTransport):
        async def aclose(self) -> None:
            raise OSError("sockets are stuck")

    house = House({"a": [ok(after=5)]}, memory=Watched())
    house.transport = Failing({"a": [ok(after=5)]}, clock=house.clock)

    async def story() -> None:
        router = house.router()
        turn = asyncio.create_task(router.turn(BODY))
        await asyncio.sleep(1)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(router.close(), 1)
        with pytest.raises(OSError, match="stuck"):
            await router.close()
        assert turn.done()

    house.clock.run(story())
    assert closed == ["memory"]


class Odd(Mapping[str, Any]):
    """A mapping that is no dict."""

    def __getitem__(self, key: str) -> Any:
        return BODY[key]

    def __iter__(self) -> Any:
        return iter(BODY)

    def __len__(self) -> int:
        return len(BODY)


def test_any_mapping_is_a_body() -> None:
    long_id = {"x-request-id": "a" * 30}
    house = House({"a": [in_json(400, {"error": {"message": "no such thing " * 9}}, headers=long_id), ok()]})
    with pytest.raises(TurnFailed):
        house.play(lambda router: router.turn(Odd()))
    assert house.play(lambda router: router.turn(Odd())).served_by == "a"
    assert len(house.records) == 2


@pytest.mark.parametrize(
    "session", [42, uuid.UUID(int=7), "a\udc80"], ids=["number", "UUID", "half a character"]
)
@pytest.mark.parametrize("sqlite", [False, True], ids=["in memory", "sqlite"])
def test_an_id_is_the_same_to_turn_forget_and_restore(session: Any, sqlite: bool, tmp_path: Path) -> None:
    memory = SqliteMemory(tmp_path / "e.db") if sqlite else InMemory()
    house = House({"a": [CAPABILITY]}, memory=memory, memory_timeout_ms=10_000)

    async def story(router: Router) -> None:
        for undo in (router.forget, lambda session: router.restore(session, target="a")):
            await router.turn(BODY, session=session)
            assert len(await undo(session)) == 1

    house.play(story)
    assert house.asked == [["a", "b"], ["a", "b"]]


def test_a_transport_that_fails_with_what_it_was_given_tells_no_credential(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("A_KEY", "9f8e7d6c5b4a39281706f5e4d3c2b1a0")

    class Telling(ScriptedTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            raise RuntimeError(f"cannot send {dict(request.headers)}")

    house = House(ladder=[Target("a", base_url="http://upstream.example", api_key_env="A_KEY")])
    house.transport = Telling()
    with pytest.raises(TurnFailed) as failed:
        house.turn()
    assert "9f8e7d6c" not in str(failed.value) + repr(house.records)
    assert "[credential]" in house.records[0].error


# -- rules of the operator

NO_PICTURES = in_json(400, {"error": "E-77 no pictures"})
AS_CAPABILITY = ErrorRule(kind="capability", status=400, contains="no pictures", features=("image",))
WITH_RULE = (Target("a", base_url="http://upstream.example", errors=(AS_CAPABILITY,)), LADDER[1])


def test_a_private_server_s_own_words_reach_the_caller_until_a_rule_says_what_they_mean() -> None:
    without = House({"a": [NO_PICTURES, NO_PICTURES]})
    for _ in range(2):
        with pytest.raises(TurnFailed, match="E-77 no pictures"):
            without.turn()
    assert without.asked == [["a"], ["a"]]

    house = House({"a": [NO_PICTURES]}, ladder=WITH_RULE)
    assert [house.turn().served_by for _ in range(2)] == ["b", "b"]
    assert house.asked == [["a", "b"], ["b"]]
    (eviction,) = house.records[1].standings_before
    assert eviction.refused == {("image",)}
    for evidence in (house.records[0].probes[0].attempts[0].evidence, eviction.first.evidence):
        assert evidence == Evidence("targets.a.errors[0]", "error", ("status: 400", "contains: no pictures"))
    assert [decode(encode(record)) for record in house.records] == house.records


def test_a_rule_makes_no_error_of_an_answer_and_reads_no_broken_connection() -> None:
    rules = (
        ErrorRule(kind="capability", status=200),
        ErrorRule(kind="capability", contains="connection reset"),
        ErrorRule(kind="capability", contains="pictures"),
    )
    target = Target("a", base_url="http://upstream.example", max_retries=0, errors=rules)
    house = House(
        {"a": [ok("no pictures"), in_json(200, {"pictures": []}), Reset()]}, ladder=[target, LADDER[1]]
    )
    assert [house.turn().served_by for _ in range(3)] == ["a", "b", "b"]
    assert [record.probes[0].reason for record in house.records] == [None, "unavailable", "unavailable"]


def test_a_rule_reads_an_error_inside_a_200() -> None:
    house = House({"a": [in_json(200, {"error": {"message": "no pictures", "code": 400}})]}, ladder=WITH_RULE)
    assert house.turn().record.probes[0].reason == "capability"
