"""The same session played live under two ways of routing, over upstreams that know no more than its turns."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from turnout import AuditRecord, ClientError, InMemory, Options, Router, Target, TurnFailed
from turnout.engine.clock import VirtualClock

NAMES = "abcd"
ANSWER = {
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hi"}}]
}
_USES: Mapping[str, Mapping[str, Any]] = {
    "image": {
        "messages": [
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x/y"}}]}
        ]
    },
    "tools": {"tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]},
}


class Upstreams:
    """What each target does in each turn: a matter of the turn alone, never of who was asked before.

    Args:
        steady: it refuses the same features, or the same sizes, in all turns, and is never down.
        lasting: an image stays in the conversation, as it does in real ones.
    """

    def __init__(self, seed: int, *, steady: bool, lasting: bool = False, turns: int = 12) -> None:
        chance = self._chance = random.Random(seed)
        self._steady = steady
        self._features = {name: self._some_features() for name in NAMES}
        self._windows = {n: 10**6 if self._features[n] else chance.choice([400, 900]) for n in NAMES}
        self.ladder = NAMES[: chance.randint(2, 4)]
        self.turns = [self._turn(number) for number in range(turns)]
        if lasting:
            self._windows = dict.fromkeys(NAMES, 10**6)
            self._features = {name: {"image"} if chance.random() < 0.6 else set() for name in NAMES}
            since = chance.randint(0, 3)
            self.turns = [(n, {"image"} if n >= since else set(), 100) for n, _, _ in self.turns]
        self._outcomes = {(name, number): self._outcome(name) for name in NAMES for number in range(turns)}

    def _some_features(self) -> set[str]:
        return {what for what in ("image", "tools") if self._chance.random() < 0.4}

    def _turn(self, number: int) -> tuple[int, set[str], int]:
        return number, self._some_features(), self._chance.choice([100, 500, 600, 1000])

    def _outcome(self, name: str) -> tuple[set[str], int, str]:
        """In one turn: the features that it refuses, the size that is too much for it; else what it says."""
        if self._steady:
            return self._features[name], self._windows[name], ""
        says = self._chance.choices(["", "unavailable", "caller_error", "other"], [12, 2, 1, 1])[0]
        return self._some_features(), self._chance.choice([400, 900, 10**6]), says

    async def call(
        self, target: Target, request: Mapping[str, Any], /, *, timeout: float | None
    ) -> Mapping[str, Any]:
        number = int(request["user"])
        _, needs, size = self.turns[number]
        features, window, says = self._outcomes[target.name, number]
        if size >= window:
            raise ClientError(kind="context_window", status=400, message="too long")
        if refused := sorted(features & needs):
            raise ClientError(kind="capability", status=400, message="not here", features=tuple(refused[:1]))
        if says == "other":
            raise ClientError(kind="capability", status=400, message="not here")
        if says:
            raise ClientError(kind=says, status=503 if says == "unavailable" else 400, message=says)
        return ANSWER

    def live(
        self,
        *,
        on: Mapping[str, str] | None = None,
        ladder: Sequence[str] | None = None,
        options: Options | None = None,
        windows: Mapping[str, int] | None = None,
    ) -> list[AuditRecord]:
        """The records of the session under a policy, a ladder, options and declared windows."""
        clock, records = VirtualClock(), list[AuditRecord]()

        async def play() -> None:
            async with Router(
                ladder=[
                    Target(name, max_retries=0, context_window=(windows or {}).get(name))
                    for name in ladder or self.ladder
                ],
                on=on or {},
                options=options or Options(),
                memory=InMemory(),
                call=self.call,
                clock=clock,
                on_record=records.append,
            ) as router:
                for number, needs, size in self.turns:
                    with suppress(TurnFailed):
                        body: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}]}
                        for what in sorted(needs):
                            body |= _USES[what]
                        await router.turn({**body, "user": str(number)}, session="s", size=size)
                    await clock.sleep(1)

        clock.run(play())
        return records
