"""A process that is killed: what it had evicted before the next probe started is on disk."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from turnout import SqliteMemory
from turnout.engine.context import Identity
from turnout.engine.loopback import LoopbackUpstream

PROCESS = """
import asyncio, sys
from turnout import Router, SqliteMemory, Target

async def main(path, *urls):
    ladder = [Target(name, base_url=url) for name, url in zip("ab", urls)]
    async with Router(ladder=ladder, memory=SqliteMemory(path), memory_timeout_ms=60_000) as router:
        await router.turn({"messages": []}, session="s1")

asyncio.run(main(*sys.argv[1:]))
"""


def test_an_eviction_is_there_after_a_kill_right_after_the_second_probe_started(tmp_path: Path) -> None:
    path = tmp_path / "evictions.db"
    killed: list[int] = []

    async def story() -> None:
        def refuse(_: object) -> tuple[int, dict[str, object]]:
            return 400, {"error": {"message": "This model does not support image input."}}

        def kill(_: object) -> tuple[int, dict[str, object]]:
            os.kill(process.pid, signal.SIGKILL)
            killed.append(process.pid)
            return 200, {}

        async with LoopbackUpstream(refuse) as a, LoopbackUpstream(kill) as b:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", PROCESS, str(path), a.base_url, b.base_url
            )
            assert await process.wait() == -signal.SIGKILL

        memory = SqliteMemory(path)
        context = await memory.read(Identity("", "s1"), now=0)
        await memory.close()
        (eviction,) = context.evictions
        assert (eviction.target, eviction.reason) == ("a", "capability")
        assert eviction.first.features == ("image",)

    asyncio.run(asyncio.wait_for(story(), 60))
    assert killed
