"""The memory in Redis, told of a real one: what every memory does, and what only this one can get wrong."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from between import pretender, proxy_to
from redis.crc import key_slot
from redis_server import RedisServer, free_port

from turnout.engine.context import EMPTY, Identity
from turnout.engine.errors import ConfigurationError, MemoryTrouble
from turnout.engine.memory import from_url
from turnout.engine.memory.protocol import Memory
from turnout.engine.memory.redis import RedisMemory
from turnout.engine.testing.conformance import (
    LARGE,
    NOW,
    SMALL,
    WHO,
    MemoryConformance,
    evictions_of,
    overflow,
    refusal,
    sessions,
    strip,
    stripped,
    sweep,
)

OTHER = Identity("", "s2")


class TestRedis(MemoryConformance):
    shared = True

    @pytest.fixture(autouse=True)
    def _fresh(self, redis_server: RedisServer) -> None:
        self._url = redis_server.url

    async def open(self, **options: Any) -> Memory:
        return RedisMemory(self._url, **options)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, redis_needed: None) -> Iterator[RedisServer]:
    """A cluster of one node, which refuses a command about keys of more than one slot."""
    bus = {"cluster_enabled": "yes", "cluster_port": str(free_port())}
    with RedisServer(tmp_path_factory.mktemp("cluster"), **bus) as server:
        server.ask("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        for _ in range(400):  # it takes two seconds to believe that it is whole
            if server.ask("CLUSTER INFO")["cluster_state"] == "ok":
                break
            server.ask("WAIT", 1, 50)  # for a replica that never comes, in ms
        yield server


class TestRedisCluster(TestRedis):
    """All of it once more where a namespace has to stay in one slot."""

    @pytest.fixture(autouse=True)
    def _fresh(self, cluster: RedisServer) -> None:
        cluster.ask("FLUSHALL")
        self._url = cluster.url


@asynccontextmanager
async def memory_at(url: str, **options: Any) -> AsyncIterator[RedisMemory]:
    memory = RedisMemory(url, **options)
    try:
        yield memory
    finally:
        await memory.close()


async def trouble_of(doing: Awaitable[object]) -> str:
    with pytest.raises(MemoryTrouble) as trouble:
        await doing
    return str(trouble.value)


def keys_in(server: RedisServer) -> set[str]:
    return {key.decode(errors="backslashreplace") for key in server.ask("KEYS", "*")}


IDENTITY = "turnout:{n:}:i:2:s1:"
OVERFLOW = 'context_window ["small","f1"]'


# -- what is sent


def test_reading_and_a_first_recording_are_one_round_trip_each(redis_server: RedisServer) -> None:
    async def story() -> None:
        async with proxy_to(redis_server.socket) as proxy, memory_at(proxy.url) as memory:
            for eviction in (overflow(9000), refusal("image")):  # the scripts are new to it, once
                await memory.record(WHO, eviction)
                await memory.touch(WHO, now=NOW)
                await memory.read(WHO, now=NOW)
            proxy.asked.clear()
            await memory.record(OTHER, overflow(9000))
            assert len(proxy.asked) == 1
            assert await memory.read(OTHER, now=NOW)
            assert len(proxy.asked) == 2
            await memory.touch(OTHER, now=NOW + 3600)
            assert await stripped(memory) == set()
            assert len(proxy.asked) == 4

    asyncio.run(story())


def test_no_more_connections_are_opened_than_there_may_be(redis_server: RedisServer) -> None:
    async def story() -> None:
        async with memory_at(redis_server.url, connections=3) as memory:
            await asyncio.gather(*[memory.record(who, overflow(9000)) for who in sessions(50)])
        stats = redis_server.ask("INFO", "stats")
        assert stats["total_connections_received"] == 3 + 1  # one asks for it

    asyncio.run(story())


def test_all_keys_of_a_namespace_are_in_one_slot_and_each_namespace_has_its_own(
    redis_server: RedisServer,
) -> None:
    async def story() -> None:
        slots = []
        async with memory_at(redis_server.url) as memory:
            for namespace in ("", "acme", "{a}", "}{", "é", "x" * 65, "\ud83d", "h:acme"):
                redis_server.ask("FLUSHALL")
                await memory.record(Identity(namespace, "{b}", "}c{"), overflow(9000))
                await memory.restore_everywhere(namespace, SMALL, "f1", now=NOW)
                await strip(memory, "effort", namespace=namespace)
                assert len(keys_in(redis_server)) == 6
                slots.append({key_slot(key) for key in redis_server.ask("KEYS", "*")})
        assert {len(of_one) for of_one in slots} == {1}
        assert len(set().union(*slots)) == len(slots)

    asyncio.run(story())


def test_a_call_that_was_given_up_hands_its_reply_to_no_other(redis_server: RedisServer) -> None:
    async def story() -> None:
        async with proxy_to(redis_server.socket) as proxy, memory_at(proxy.url, connections=1) as memory:
            await memory.record(WHO, overflow(9000))
            await memory.record(OTHER, refusal("image"))
            proxy.open.clear()
            proxy.came.clear()
            given_up = asyncio.create_task(memory.read(WHO, now=NOW))
            await proxy.came.wait()
            given_up.cancel()
            with pytest.raises(asyncio.CancelledError):
                await given_up
            proxy.open.set()
            assert await evictions_of(memory, OTHER) == (refusal("image"),)
            assert await evictions_of(memory, WHO) == (overflow(9000),)

    asyncio.run(story())


def test_a_call_may_be_given_up_at_any_moment(redis_server: RedisServer) -> None:
    async def story() -> None:
        async with memory_at(redis_server.url, connections=2) as memory:
            await memory.record(WHO, overflow(9000))
            await memory.record(OTHER, refusal("image"))
            finished = 0
            for steps in itertools.count():
                calls = [
                    asyncio.create_task(doing)
                    for doing in (
                        memory.read(WHO, now=NOW),
                        memory.record(WHO, overflow(9000)),
                        memory.forget("", "nobody", now=NOW),
                    )
                ]
                for _ in range(steps):
                    await asyncio.sleep(0)
                finished += all(call.done() for call in calls)
                for call in calls:
                    call.cancel()
                assert await evictions_of(memory, OTHER) == (refusal("image"),)
                assert await evictions_of(memory, WHO) == (overflow(9000),)
                await asyncio.gather(*calls, return_exceptions=True)
                if finished > 3:
                    break

    asyncio.run(story())


def test_closing_waits_for_what_was_accepted(redis_server: RedisServer) -> None:
    async def story() -> None:
        async with proxy_to(redis_server.socket) as proxy:
            memory = RedisMemory(proxy.url)
            await memory.read(WHO, now=NOW)
            proxy.open.clear()
            recording = asyncio.create_task(memory.record(WHO, overflow(9000)))
            await asyncio.sleep(0)
            closing = asyncio.create_task(memory.close())
            await asyncio.sleep(0)
            assert "could not read: it was closed; open another memory" in await trouble_of(
                memory.read(WHO, now=NOW)
            )
            proxy.open.set()
            await asyncio.gather(recording, closing)
            await memory.close()
        async with memory_at(redis_server.url) as another:
            assert await another.read(WHO, now=NOW)

    asyncio.run(story())


# -- what is stored


def test_a_stored_eviction_says_under_which_machine_and_at_which_epoch_it_was_recorded(
    redis_server: RedisServer,
) -> None:
    async def story() -> None:
        async with memory_at(redis_server.url) as memory:
            await memory.restore_everywhere("", SMALL, "f1", now=NOW)
            await memory.record(WHO, overflow(9000))
        value = redis_server.ask("HGET", IDENTITY, OVERFLOW).decode()
        assert value.startswith("1 1 {")
        assert f'"machine":"{overflow(9000).machine}"' in value

    asyncio.run(story())


def test_what_a_newer_version_has_written_is_honoured_and_never_rewritten(redis_server: RedisServer) -> None:
    async def story() -> None:
        async with memory_at(redis_server.url) as memory:
            await memory.record(WHO, overflow(9000))
            value = redis_server.ask("HGET", IDENTITY, OVERFLOW).decode()
            newer = value.replace("1 0 {", '2 0 {"mood":"bad",')
            redis_server.ask("HSET", IDENTITY, OVERFLOW, newer)
            unknown = 'phase_of_moon ["small","f1"]'
            redis_server.ask("HSET", IDENTITY, unknown, '2 0 {"reason":"phase_of_moon"}')
            assert await evictions_of(memory) == (overflow(9000),)
            await memory.record(WHO, overflow(8000, turn="t2", at=NOW + 1))
            assert redis_server.ask("HGET", IDENTITY, OVERFLOW).decode() == newer
            (change,) = await memory.forget("", "s1", now=NOW)
            assert change.eviction == overflow(9000)
            assert keys_in(redis_server) == set()

    asyncio.run(story())


def test_redis_lets_go_of_what_nobody_sweeps_but_not_before_a_sweep_could_tell_of_it(
    redis_server: RedisServer,
) -> None:
    ttl = 7200.0

    def left(key: str) -> float:
        return float(redis_server.ask("PTTL", key)) / 1000

    async def story() -> None:
        async with memory_at(redis_server.url, ttl_secs=ttl) as memory:
            # whatever the callers' time is, Redis's expiry begins when it is told
            await memory.record(WHO, overflow(9000, at=1.0))
            await strip(memory, "effort", at=1.0)
            indexes = {f"turnout:{{n:}}:{name}" for name in ("identities", "uses", "sessions")}
            learnt = 'turnout:{n:}:l:["small","f1"]'
            assert keys_in(redis_server) == {IDENTITY, learnt} | indexes
            assert all(ttl < left(key) for key in keys_in(redis_server))
            assert all(left(IDENTITY) <= left(key) for key in indexes)
            for name in keys_in(redis_server):
                redis_server.ask("PEXPIRE", name, 1000)
            await memory.touch(WHO, now=1.0 + ttl / 10 - 1)
            assert left(IDENTITY) <= 1
            await memory.touch(WHO, now=1.0 + ttl / 10)
            assert all(ttl < left(key) for key in indexes | {IDENTITY})

    asyncio.run(story())


def test_expiry_is_written_at_most_once_in_a_tenth_of_the_time_to_live(redis_server: RedisServer) -> None:
    async def story() -> None:
        async with memory_at(redis_server.url) as memory:
            for number in range(5):
                await memory.record(WHO, overflow(9000 - number, turn=f"t{number}", at=NOW + number))
        stats = redis_server.ask("INFO", "commandstats")
        assert stats["cmdstat_pexpire"]["calls"] == 4  # one for each key

    asyncio.run(story())


def test_nothing_is_left_of_what_was_forgotten_or_swept_but_the_epochs(redis_server: RedisServer) -> None:
    async def story() -> None:
        async with memory_at(redis_server.url, ttl_secs=100.0) as memory:
            many = [Identity("", f"s{n}", agent) for n in range(30) for agent in ("", "a", "b" * 200)]
            for who in many:
                await memory.record(who, overflow(9000))
            await memory.restore_everywhere("", LARGE, "f1", now=NOW)
            for n in range(15):
                assert len(await memory.forget("", f"s{n}", now=NOW)) == 3
            assert len(await sweep(memory, now=NOW + 100, most=7)) == 45
            assert keys_in(redis_server) == {"turnout:{n:}:epochs"}

    asyncio.run(story())


def test_a_session_with_thousands_of_agents_is_forgotten_whole(redis_server: RedisServer) -> None:
    async def story() -> None:
        async with memory_at(redis_server.url) as memory:
            agents = [Identity("", "s1", f"a{n}") for n in range(2500)]
            await asyncio.gather(*[memory.record(who, overflow(9000)) for who in agents])
            assert len(await memory.forget("", "s1", now=NOW)) == 2500
            assert keys_in(redis_server) == set()

    asyncio.run(story())


def test_two_that_sweep_at_once_tell_each_removal_once_and_leave_as_many_as_one(
    redis_server: RedisServer,
) -> None:
    async def story() -> None:
        async with (
            memory_at(redis_server.url, max_sessions=20) as one,
            memory_at(redis_server.url, max_sessions=20) as other,
        ):
            for number, who in enumerate(sessions(100)):
                await one.record(who, overflow(9000, at=NOW + number))
            told = await asyncio.gather(*[sweep(memory, now=NOW, most=10) for memory in (one, other) * 3])
            gone = [change.identity.session for changes in told for change in changes]
            assert sorted(gone) == sorted(who.session for who in sessions(80))

    asyncio.run(story())


@pytest.mark.parametrize("lost", ["identities", "uses", "sessions"])
def test_an_index_that_was_lost_comes_back_with_use(redis_server: RedisServer, lost: str) -> None:
    async def story() -> None:
        async with memory_at(redis_server.url, ttl_secs=100.0) as memory:
            await memory.record(WHO, overflow(9000))
            redis_server.ask("DEL", f"turnout:{{n:}}:{lost}")
            await memory.record(WHO, refusal("image"))
            assert len((await memory.held("", now=NOW)).held) == 1
            assert len(await sweep(memory, now=NOW + 100)) == 2
            assert keys_in(redis_server) == set()

    asyncio.run(story())


def test_a_sweep_clears_away_those_whose_memory_redis_has_let_go_of(redis_server: RedisServer) -> None:
    async def story() -> None:
        async with memory_at(redis_server.url, ttl_secs=100.0, max_sessions=1) as memory:
            for who in sessions(3):
                await memory.record(who, overflow(9000))
                redis_server.ask("DEL", f"turnout:{{n:}}:i:2:{who.session}:")
            assert await sweep(memory, now=NOW) == []
            assert await sweep(memory, now=NOW + 100) == []
            assert keys_in(redis_server) == set()

    asyncio.run(story())


# -- what goes wrong


def test_what_was_recorded_survives_the_death_of_redis_and_no_restart_is_needed(
    tmp_path: Path, redis_needed: None
) -> None:
    async def story(server: RedisServer) -> None:
        async with memory_at(server.url) as memory:
            await asyncio.gather(*[memory.record(who, overflow(9000)) for who in sessions(200)])
            await memory.restore_everywhere("", LARGE, "f1", now=NOW)
            await strip(memory, "effort")
            server.kill()
            assert "see that it runs" in await trouble_of(memory.read(WHO, now=NOW))
            server.start()
            for who in sessions(200):
                assert await evictions_of(memory, who) == (overflow(9000),)
            assert await stripped(memory) == {"effort"}
            await memory.record(WHO, refusal("image"))
            assert len(await evictions_of(memory)) == 2

    with RedisServer(tmp_path) as server:
        asyncio.run(story(server))


def test_a_connection_that_is_lost_in_the_middle_is_told_and_the_same_can_be_done_again(
    redis_server: RedisServer,
) -> None:
    async def story() -> None:
        async with proxy_to(redis_server.socket) as proxy, memory_at(proxy.url) as memory:
            await memory.record(WHO, overflow(9000))
            proxy.lose_replies = True
            for doing in (memory.record(WHO, refusal("image")), memory.forget("", "s2", now=NOW)):
                assert await trouble_of(doing)
            proxy.lose_replies = False
            await memory.record(WHO, refusal("image"))
            assert set(await evictions_of(memory)) == {overflow(9000), refusal("image")}

    asyncio.run(story())


def test_a_server_that_does_not_answer_is_given_up_at_last(redis_server: RedisServer) -> None:
    async def story() -> None:
        async with proxy_to(redis_server.socket) as proxy, memory_at(proxy.url, timeout_secs=0.05) as memory:
            proxy.open.clear()
            told = await trouble_of(memory.read(WHO, now=NOW))
            assert told.startswith(f"memory {proxy.url}: could not read: ")
            assert told.endswith("see that it runs, can be reached from here and is not too busy")
            proxy.open.set()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("said", "what_to_do"),
    [
        ("LOADING Redis is loading the dataset in memory", "it is reading its data and will answer"),
        ("MASTERDOWN Link with MASTER is down", "its primary is away"),
        ("MOVED 3999 10.0.0.1:6381", "give the address of a proxy of that cluster"),
        ("CLUSTERDOWN The cluster is down", "see to its cluster"),
        ("READONLY You can't write against a read only replica.", "give the address of the primary"),
        ("OOM command not allowed when used memory > 'maxmemory'.", "give it more memory"),
        ("ERR Error running script: @user_script:9: -OOM command not allowed", "give it more memory"),
        ("MISCONF Errors writing to the AOF file: No space left on device", "it cannot write to its disk"),
        ("NOPERM this user has no permissions to run the 'evalsha' command", "let that user run EVALSHA"),
        ("NOAUTH Authentication required.", "in the url"),
        ("NOREPLICAS Not enough good replicas to write.", "it has too few replicas"),
        ("BUSY Redis is busy running a script.", "another script keeps it busy"),
        ("ERR unknown command 'EVALSHA'", "see that it is Redis 6.2"),
    ],
)
def test_what_redis_refuses_is_told_with_what_to_do_and_passes(said: str, what_to_do: str) -> None:
    answers = [f"-{said}\r\n".encode(), b"*0\r\n"]

    def answer(command: list[bytes]) -> bytes | None:
        return answers.pop(0) if command[0] == b"EVALSHA" else None

    async def story() -> None:
        async with pretender(answer) as url, memory_at(url) as memory:
            told = await trouble_of(memory.read(WHO, now=NOW))
            assert told.startswith(f"memory {url}: could not read: ")
            assert what_to_do in told
            assert await memory.read(WHO, now=NOW) == EMPTY

    asyncio.run(story())


def test_what_is_no_redis_is_told() -> None:
    async def story() -> None:
        answer = b"HTTP/1.1 400 Bad Request\r\n\r\n"
        async with pretender(lambda command: answer) as url, memory_at(url) as memory:
            assert await trouble_of(memory.read(WHO, now=NOW))

    asyncio.run(story())


def test_a_full_redis_takes_nothing_more_and_gives_what_it_has(redis_server: RedisServer) -> None:
    async def story() -> None:
        async with memory_at(redis_server.url) as memory:
            await memory.record(WHO, overflow(9000))
            redis_server.ask("CONFIG", "SET", "maxmemory", 1)
            try:
                told = await trouble_of(memory.record(WHO, refusal("image")))
                assert await evictions_of(memory) == (overflow(9000),)
            finally:
                redis_server.ask("CONFIG", "SET", "maxmemory", 0)
            assert (
                "give it more memory (maxmemory) or remove something: nothing needs to be restarted" in told
            )
            await memory.record(WHO, refusal("image"))
            assert len(await evictions_of(memory)) == 2

    asyncio.run(story())


def test_a_replica_is_read_and_refuses_what_writes(redis_server: RedisServer) -> None:
    async def story() -> None:
        async with memory_at(redis_server.url) as memory:
            await memory.record(WHO, overflow(9000))
            redis_server.ask("REPLICAOF", "127.0.0.1", 1)
            try:
                assert await evictions_of(memory) == (overflow(9000),)
                await memory.touch(WHO, now=NOW + 1)  # not due
                told = await trouble_of(memory.record(OTHER, overflow(9000)))
            finally:
                redis_server.ask("REPLICAOF", "NO", "ONE")
            assert "give the address of the primary" in told
            await memory.record(OTHER, overflow(9000))

    asyncio.run(story())


@pytest.mark.parametrize(
    "damage",
    ["", "rubbish", "1 0 ", "1 0 {", "1 0 {}", '1 x {"reason":"no"}', b"\xff\0", "1 0 " + "[" * 5000],
)
def test_a_damaged_eviction_is_told_by_its_place_and_goes_with_what_is_recorded_there_or_its_session(
    redis_server: RedisServer, damage: str | bytes
) -> None:
    async def story() -> None:
        async with memory_at(redis_server.url) as memory:
            await memory.record(WHO, overflow(9000))
            await memory.record(WHO, refusal("image"))
            redis_server.ask("HSET", IDENTITY, OVERFLOW, damage)
            for doing in (memory.read(WHO, now=NOW), memory.held("", now=NOW)):
                told = await trouble_of(doing)
                assert f"{OVERFLOW} of {IDENTITY} is damaged: " in told
                assert "or with its session: forget that" in told
            assert await memory.remove(WHO, [overflow(9000)], now=NOW, why="served") == ()
            await memory.record(WHO, overflow(8000))
            assert set(await evictions_of(memory)) == {overflow(8000), refusal("image")}
            redis_server.ask("HSET", IDENTITY, OVERFLOW, damage)
            (change,) = await memory.forget("", "s1", now=NOW)
            assert change.eviction == refusal("image")
            assert await memory.read(WHO, now=NOW) == EMPTY

    asyncio.run(story())


def test_a_server_that_is_full_can_be_swept(redis_server: RedisServer) -> None:
    """A sweep is what makes room there."""

    async def story() -> None:
        async with memory_at(redis_server.url, ttl_secs=100.0, max_sessions=2) as memory:
            for number in range(9):
                await memory.record(Identity("", f"s{number}"), overflow(9000, at=NOW + 20 * number))
            redis_server.ask("CONFIG", "SET", "maxmemory", 1)
            try:
                told = [change.why for change in await sweep(memory, now=NOW + 170)]
            finally:
                redis_server.ask("CONFIG", "SET", "maxmemory", 0)
            assert told == ["expired"] * 4 + ["crowded out"] * 3

    asyncio.run(story())


def test_what_is_no_identity_in_an_index_holds_up_no_sweep(redis_server: RedisServer) -> None:
    async def story() -> None:
        async with memory_at(redis_server.url, ttl_secs=100.0) as memory:
            await memory.record(WHO, overflow(9000))
            redis_server.ask("ZADD", "turnout:{n:}:uses", 0, "nobody")
            assert [change.why for change in await sweep(memory, now=NOW + 100)] == ["expired"]
            assert keys_in(redis_server) == set()

    asyncio.run(story())


def test_where_an_index_cannot_be_written_nothing_that_has_expired_is_lost_without_a_word(
    redis_server: RedisServer,
) -> None:
    async def story() -> None:
        async with memory_at(redis_server.url, ttl_secs=100.0) as memory:
            await memory.record(WHO, overflow(9000))
            redis_server.ask("RENAME", "turnout:{n:}:sessions", "kept")
            redis_server.ask("SET", "turnout:{n:}:sessions", "x")
            assert "a key of that name holds" in await trouble_of(
                memory.record(WHO, refusal("a", at=NOW + 100))
            )
            redis_server.ask("RENAME", "kept", "turnout:{n:}:sessions")
            (told,) = await memory.record(WHO, refusal("image", at=NOW + 100))
            assert (told.eviction, told.why) == (overflow(9000), "expired")

    asyncio.run(story())


def test_one_eviction_in_the_place_of_another_is_damage(redis_server: RedisServer) -> None:
    async def story() -> None:
        async with memory_at(redis_server.url) as memory:
            await memory.record(WHO, overflow(9000))
            value = redis_server.ask("HGET", IDENTITY, OVERFLOW)
            redis_server.ask("HSET", IDENTITY, 'capability ["small","f1"]', value)
            assert "stands in the place of another" in await trouble_of(memory.read(WHO, now=NOW))
            await memory.record(WHO, overflow(8000))

    asyncio.run(story())


@pytest.mark.parametrize("use", ["", "yesterday"])
def test_a_damaged_last_use_is_told_and_mended_by_the_next_recording(
    redis_server: RedisServer, use: str
) -> None:
    async def story() -> None:
        async with memory_at(redis_server.url) as memory:
            await memory.record(WHO, overflow(9000))
            redis_server.ask("HSET", IDENTITY, "use", use)
            assert f"use of {IDENTITY} is damaged" in await trouble_of(memory.read(WHO, now=NOW))
            await memory.record(WHO, refusal("image"))
            assert len(await evictions_of(memory)) == 2

    asyncio.run(story())


def test_a_damaged_list_of_refused_keys_is_told_and_goes_with_what_is_learnt(
    redis_server: RedisServer,
) -> None:
    async def story() -> None:
        async with memory_at(redis_server.url) as memory:
            redis_server.ask("SET", 'turnout:{n:}:l:["small","f1"]', "{")
            assert 'turnout:{n:}:l:["small","f1"] is damaged' in await trouble_of(stripped(memory))
            await strip(memory, "effort")
            assert await stripped(memory) == {"effort"}

    asyncio.run(story())


@pytest.mark.parametrize(
    "key", [IDENTITY, *(f"turnout:{{n:}}:{name}" for name in ("identities", "uses", "sessions", "epochs"))]
)
def test_a_key_that_holds_something_else_is_told_and_nothing_is_recorded(
    redis_server: RedisServer, key: str
) -> None:
    async def story() -> None:
        async with memory_at(redis_server.url) as memory:
            redis_server.ask("SET", key, "x")
            told = await trouble_of(memory.record(WHO, overflow(9000)))
            assert "a key of that name holds what Turnout has not written" in told
            redis_server.ask("DEL", key)
            assert await memory.read(WHO, now=NOW) == EMPTY

    asyncio.run(story())


@pytest.mark.parametrize("at", [float("nan"), float("inf")])
def test_a_time_that_is_none_is_told(redis_server: RedisServer, at: float) -> None:
    async def story() -> None:
        async with memory_at(redis_server.url) as memory:
            assert "is no time" in await trouble_of(memory.record(WHO, overflow(9000, at=at)))
            assert keys_in(redis_server) == set()

    asyncio.run(story())


# -- durability


def test_full_durability_is_promised_by_a_server_that_syncs_before_each_reply(
    redis_server: RedisServer,
) -> None:
    async def story() -> None:
        async with memory_at(redis_server.url, durability="full") as memory:
            if b"waitaof" not in redis_server.ask("COMMAND LIST"):
                told = await trouble_of(memory.record(WHO, overflow(9000)))
                assert "it does not promise that a write survives a power loss" in told
            redis_server.ask("CONFIG", "SET", "appendfsync", "always")
            try:
                await memory.record(WHO, refusal("image"))
                await strip(memory, "effort")
                assert await memory.remove(WHO, [refusal("image")], now=NOW, why="served")
            finally:
                redis_server.ask("CONFIG", "SET", "appendfsync", "everysec")

    asyncio.run(story())


@pytest.mark.parametrize(
    ("reply", "trouble"),
    [
        (b"*2\r\n:1\r\n:0\r\n", ""),
        (b"*2\r\n:0\r\n:0\r\n", "it has not written to its disk in time; see to its disk"),
        (b"-ERR WAITAOF cannot be used when appendonly is disabled.\r\n", "appendonly is disabled"),
    ],
)
def test_full_durability_waits_for_the_disk_where_redis_can_say_when(reply: bytes, trouble: str) -> None:
    asked = []

    def answer(command: list[bytes]) -> bytes | None:
        asked.append(command[0])
        return {b"EVALSHA": b"*0\r\n", b"WAITAOF": reply}.get(command[0])

    async def story() -> None:
        async with pretender(answer) as url, memory_at(url, durability="full") as memory:
            if trouble:
                assert trouble in await trouble_of(memory.record(WHO, overflow(9000)))
            else:
                await memory.record(WHO, overflow(9000))
        assert asked[-2:] == [b"EVALSHA", b"WAITAOF"]

    asyncio.run(story())


# -- where it is

PASSWORD = "s3same&open%street"
IN_URL = "s3same%26open%25street"


def test_the_credential_of_a_url_opens_the_store_and_is_never_told(
    tmp_path: Path, redis_needed: None
) -> None:
    async def story(server: RedisServer) -> None:
        async with memory_at(f"unix://:{IN_URL}@{server.socket}") as memory:
            await memory.record(WHO, overflow(9000))
            assert await memory.read(WHO, now=NOW)
            server.ask("SET", IDENTITY, "x", password=PASSWORD)
            told = [repr(memory), await trouble_of(memory.read(WHO, now=NOW))]
        async with memory_at(f"unix://bobby:wrong-{IN_URL}@{server.socket}") as memory:
            told.append(await trouble_of(memory.read(WHO, now=NOW)))
            assert "see to the user and the password in the url" in told[-1]
        async with memory_at(server.url) as memory:
            assert "password in the url" in await trouble_of(memory.read(WHO, now=NOW))
        server.kill()
        async with memory_at(f"unix://bobby:{IN_URL}@{server.socket}") as memory:
            told.append(await trouble_of(memory.read(WHO, now=NOW)))
            assert told[-1].startswith(f"memory unix://{server.socket}: could not read: ")
        for line in told:
            assert PASSWORD not in line
            assert IN_URL not in line
            assert "bobby" not in line

    with RedisServer(tmp_path, requirepass=PASSWORD) as server:
        asyncio.run(story(server))


def test_what_an_error_quotes_of_a_credential_is_taken_out() -> None:
    def answer(command: list[bytes]) -> bytes | None:
        return b"-ERR I know that s3same&open%street of bobby\r\n"

    async def story() -> None:
        async with (
            pretender(answer) as url,
            memory_at(url.replace("//", f"//bobby:{IN_URL}@")) as memory,
        ):
            told = await trouble_of(memory.read(WHO, now=NOW))
            assert "I know that [credential] of [credential]" in told

    asyncio.run(story())


@pytest.mark.parametrize(
    "url", ["sqlite:x.db", "redis:", "redis://me:swordfish#1@cache", "redis://me:swordfish@cache?db=x", ""]
)
def test_a_url_that_names_no_store_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^memory url ") as refused:
        RedisMemory(url)
    assert "swordfish" not in str(refused.value)


def test_another_durability_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="durability is 'maybe'; give process or full"):
        RedisMemory("redis://cache", durability="maybe")  # type: ignore[arg-type]


OPTIONS: dict[str, Any] = {"ttl_secs": 60.0, "max_sessions": 10, "durability": "process"}


@pytest.mark.parametrize("url", ["redis://cache:6379/0", "rediss://cache", "unix:///run/redis.sock"])
def test_the_url_of_a_deployment_file_opens_it(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(from_url(url, **OPTIONS), RedisMemory)
    monkeypatch.setenv("STORE", url.replace("//", "//me:swordfish@"))
    assert isinstance(from_url("env:STORE", **OPTIONS), RedisMemory)


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("", "that is not set in this environment"),
        ("swordfish", "names no store"),
        ("env:swordfish", "names no store"),
        ("redis://me:swordfish@", "names no host"),
    ],
)
def test_a_variable_that_holds_no_url_is_told_and_what_it_holds_is_not(
    value: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORE", value)
    with pytest.raises(ConfigurationError) as refused:
        from_url("env:STORE", **OPTIONS)
    assert what in str(refused.value)
    assert "swordfish" not in str(refused.value)


def test_without_its_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "turnout.engine.memory.redis")
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'turnout\[redis\]'"):
        from_url("redis://cache", **OPTIONS)


def test_nothing_of_redis_is_imported_unasked() -> None:
    code = (
        "import sys, turnout; from turnout.engine.memory import from_url; assert 'redis' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
