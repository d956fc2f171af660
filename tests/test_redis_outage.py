"""Redis is killed and restarted under a steady load. Nobody but the records notices.

A real Redis on its append-only file, a real router, upstreams without a socket. The load goes on from the
first turn to the last: what happens to Redis happens beside it, after so many turns.
"""

from __future__ import annotations

import asyncio
import logging
from itertools import count
from pathlib import Path

import pytest
from redis_server import RedisServer

from turnout import AuditRecord, Router, Target
from turnout.engine.context import Eviction
from turnout.engine.memory.redis import RedisMemory
from turnout.engine.testing import ScriptedTransport, ok, refusal

BODY = {"messages": [{"role": "user", "content": "Good morning"}]}
LADDER = [Target(name, base_url="http://upstream.example", max_retries=0) for name in ("a", "b")]

CALLERS = 11
PAUSE = 0.03
"""Seconds that an upstream takes to answer. So many callers make some 200 turns a second then."""
TURNS = 100
"""How many there are before an outage, during it and after it, at least."""
OUTAGES = 2
GUARD = 120
"""Seconds after which something hangs."""


class Load:
    """Callers of one router who ask for one session after another until they are told to stop.

    Each session is two turns: in the first `a` refuses for good, in the second nobody asks it again. Every
    fifth session is over then.
    """

    def __init__(self, router: Router) -> None:
        self.stopped = False
        self.during: dict[str, list[set[str]]] = {"up": [], "between": [], "down": []}
        """The turns that began and ended while Redis was so, of each time that it was."""
        self._router = router
        self._numbers = count()
        self._ended = 0
        self._news = asyncio.Condition()
        self.redis_is("up")

    def redis_is(self, how: str) -> None:
        self._meanwhile: set[str] = set()
        self.during[how].append(self._meanwhile)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as callers:
            for _ in range(CALLERS):
                callers.create_task(self._call())

    async def more(self, turns: int) -> None:
        """Until so many turns more have ended."""
        enough = self._ended + turns
        async with self._news:
            await self._news.wait_for(lambda: self._ended >= enough)

    async def until_well(self) -> None:
        async with self._news:
            await self._news.wait_for(lambda: self._router.memory.health.state == "well")

    async def _call(self) -> None:
        while not self.stopped:
            number = next(self._numbers)
            await self._turn(f"s{number}")
            await self._turn(f"s{number}", final=number % 5 == 0)

    async def _turn(self, session: str, *, final: bool = False) -> None:
        meanwhile = self._meanwhile
        reply = await self._router.turn(BODY, session=session, final=final)
        if meanwhile is self._meanwhile:
            meanwhile.add(reply.record.turn)
        async with self._news:
            self._ended += 1
            self._news.notify_all()


@pytest.mark.usefixtures("redis_needed")
def test_redis_is_killed_and_comes_back_under_load(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "turnout")
    records: list[AuditRecord] = []
    upstreams = ScriptedTransport({"a": [refusal("context_window", after=PAUSE)], "b": [ok(after=PAUSE)]})

    async def story(redis: RedisServer) -> Load:
        memory = RedisMemory(redis.url)
        async with Router(
            ladder=LADDER,
            memory=memory,
            transport=upstreams,
            memory_timeout_ms=GUARD * 1000,  # nothing is late where only this machine is slow
            on_record=records.append,
        ) as router:
            load = Load(router)
            running = asyncio.create_task(load.run())
            for _ in range(OUTAGES):
                await load.more(TURNS)
                load.redis_is("between")
                await asyncio.to_thread(redis.kill)
                load.redis_is("down")
                await load.more(TURNS)
                assert router.memory.health.state == "away"
                assert router.memory.health.queued > 0
                load.redis_is("between")
                await asyncio.to_thread(redis.start)
                await load.until_well()
                load.redis_is("up")
            await load.more(TURNS)
            load.stopped = True
            await running
            health = router.memory.health
            assert (health.state, health.queued, health.dropped) == ("well", 0, 0)
        return load

    async def bounded(redis: RedisServer) -> tuple[Load, dict[str, set[Eviction]]]:
        async with asyncio.timeout(GUARD):
            return await story(redis), await held_in(redis)

    with RedisServer(tmp_path) as redis:
        load, held = asyncio.run(bounded(redis))

    assert {record.state for record in records} == {"served"}
    noted = {record.turn for record in records if record.notes}
    down, up = (set[str]().union(*load.during[how]) for how in ("down", "up"))
    assert len(down) > TURNS
    assert down <= noted
    assert len(up) > TURNS
    assert up.isdisjoint(noted)

    by_session: dict[str, list[AuditRecord]] = {}
    for record in records:
        by_session.setdefault(record.caller.session, []).append(record)
    for first, second in by_session.values():
        assert [probe.target for probe in (*first.probes, *second.probes)] == ["a", "b", "b"]
    kept = {
        session: {*first.standings_after}
        for session, (first, second) in by_session.items()
        if not second.caller.final
    }
    assert held == kept


async def held_in(redis: RedisServer) -> dict[str, set[Eviction]]:
    """What is in Redis, as somebody else reads it."""
    memory = RedisMemory(redis.url)
    held: dict[str, set[Eviction]] = {}
    cursor = ""
    while True:
        page = await memory.held("", now=0, cursor=cursor)
        held |= {one.identity.session: {*one.evictions} for one in page.held}
        if not (cursor := page.cursor):
            break
    await memory.close()
    return held
