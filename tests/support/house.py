"""A router on a virtual clock over scripted upstreams, and all that it left behind."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from turnout import AuditRecord, InMemory, Router, Target
from turnout.engine.clock import VirtualClock
from turnout.engine.testing import Scripted, ScriptedTransport

BODY = {"messages": [{"role": "user", "content": "Good morning"}]}
LADDER = tuple(Target(name, base_url="http://upstream.example", max_retries=0) for name in ("a", "b"))


class House:
    """Two targets, `a` and `b`, on one route, unless told otherwise."""

    def __init__(self, script: dict[str, list[Scripted]] | None = None, **arguments: Any) -> None:
        self.clock = VirtualClock()
        self.transport: Any = ScriptedTransport(script, clock=self.clock)
        self.records: list[AuditRecord] = []
        self.memory = arguments.pop("memory", None) or InMemory()
        self.arguments = {
            "ladder": LADDER,
            "on_record": self.records.append,
            "jitter": lambda: 0.0,
            **arguments,
        }

    def router(self) -> Router:
        return Router(memory=self.memory, transport=self.transport, clock=self.clock, **self.arguments)

    def play(self, story: Callable[[Router], Coroutine[Any, Any, Any]]) -> Any:
        async def played() -> Any:
            async with self.router() as router:
                return await story(router)

        return self.clock.run(played())

    def turn(self, **arguments: Any) -> Any:
        return self.play(lambda router: router.turn(BODY, **{"session": "s1", **arguments}))

    @property
    def asked(self) -> list[list[str]]:
        return [[probe.target for probe in record.probes] for record in self.records]
