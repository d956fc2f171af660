"""The same session played live under two ways of routing, over upstreams that know no more than its turns."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from turnout import AuditRecord, ClientError, InMemory, Options, Router, Target, TurnFailed
from turnout.engine.clock import VirtualClock
from turnout.engine.policy import Policy
from turnout.engine.route import Route

NAMES = "abcd"
ANSWER = {
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hi"}}]
}
HUGE = 10**6
_USES: Mapping[str, Mapping[str, Any]] = {
    "image": {
        "messages": [
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x/y"}}]}
        ]
    },
    "tools": {"tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]},
}


class PlannedTurn(NamedTuple):
    """One turn of the session."""

    needs: set[str]
    size: int
    route: str = "r1"
    agent: str | None = None


class Outcome(NamedTuple):
    """What a target does in one turn."""

    features: set[str]
    """It refuses these."""
    window: int
    """A size of this and more is too much for it."""
    secs: float
    says: str = ""
    """And else this, if anything."""


class Upstreams:
    """What each target does in each turn: a matter of the turn alone, never of who was asked before.

    Args:
        steady: it refuses the same features, or the same sizes, in all turns, and is never down.
        lasting: an image stays in the conversation, as it does in real ones.
        many: the session has a sub-agent and goes over two routes.
    """

    def __init__(
        self, seed: int, *, steady: bool, lasting: bool = False, many: bool = False, turns: int = 12
    ) -> None:
        chance = self._chance = random.Random(seed)
        self.names = NAMES[: chance.randint(2, 4)]
        self.route_ids = ("r1", "r2") if many else ("r1",)
        steadily = {name: self._steadily() for name in NAMES}
        self.turns = [
            PlannedTurn(
                self._some_features(),
                chance.choice([100, 500, 600, 1000]),
                chance.choice(self.route_ids),
                chance.choice([None, None, "helper"]) if many else None,
            )
            for _ in range(turns)
        ]
        if lasting:
            refuse = [{"image"} if chance.random() < 0.6 else set() for _ in NAMES]
            steadily = {n: Outcome(what, HUGE, 0.5) for n, what in zip(NAMES, refuse, strict=True)}
            since = chance.randint(0, 3)
            self.turns = [PlannedTurn({"image"} if n >= since else set(), 100) for n in range(turns)]
        self._outcomes = {
            (name, number): steadily[name] if steady else self._anyhow()
            for name in NAMES
            for number in range(turns)
        }

    def _some_features(self) -> set[str]:
        return {what for what in ("image", "tools") if self._chance.random() < 0.4}

    def _steadily(self) -> Outcome:
        features, window = self._some_features(), self._chance.choice([400, 900])
        return Outcome(features, HUGE if features else window, self._chance.choice([0.1, 0.5, 2]))

    def _anyhow(self) -> Outcome:
        kinds = ["", "unavailable", "caller_error", "model_not_found", "other"]
        says = self._chance.choices(kinds, [12, 2, 1, 1, 1])[0]
        window = self._chance.choice([400, 900, HUGE])
        return Outcome(self._some_features(), window, self._chance.choice([0.1, 0.5, 2]), says)

    def routes(
        self,
        ladders: Mapping[str, Iterable[str]] | None = None,
        *,
        on: Mapping[str, str] | None = None,
        options: Options | None = None,
        windows: Mapping[str, int] | None = None,
    ) -> list[Route]:
        """The routes of a session: by default all targets on each."""
        declared = windows or {}
        return [
            Route(
                id=route,
                ladder=[
                    Target(name, max_retries=0, context_window=declared.get(name))
                    for name in (ladders or {}).get(route, self.names)
                ],
                policy=Policy(on or {}),
                options=options or Options(),
            )
            for route in self.route_ids
        ]

    def live(self, routes: Iterable[Route]) -> list[AuditRecord]:
        """The records of the session on these routes."""
        clock, records = VirtualClock(), list[AuditRecord]()

        async def call(
            target: Target, request: Mapping[str, Any], /, *, timeout: float | None
        ) -> Mapping[str, Any]:
            number = int(request["user"])
            turn, outcome = self.turns[number], self._outcomes[target.name, number]
            await clock.sleep(outcome.secs)
            _refuse(turn, outcome)
            return ANSWER

        async def play() -> None:
            async with Router(
                routes=routes, memory=InMemory(), call=call, clock=clock, on_record=records.append
            ) as router:
                for number, turn in enumerate(self.turns):
                    body: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}]}
                    for what in sorted(turn.needs):
                        body |= _USES[what]
                    with suppress(TurnFailed):
                        await router.turn(
                            {**body, "user": str(number)},
                            session="s",
                            size=turn.size,
                            route=turn.route,
                            agent=turn.agent,
                        )
                    await clock.sleep(1)

        clock.run(play())
        return records


def _refuse(turn: PlannedTurn, outcome: Outcome) -> None:
    """Raises what a target says of a turn, if it does not answer it."""
    if turn.size >= outcome.window:
        raise ClientError(kind="context_window", status=400, message="too long")
    if refused := sorted(outcome.features & turn.needs):
        raise ClientError(kind="capability", status=400, message="not here", features=tuple(refused[:1]))
    if outcome.says == "other":
        raise ClientError(kind="capability", status=400, message="not here")
    if outcome.says:
        status = 503 if outcome.says == "unavailable" else 400
        raise ClientError(kind=outcome.says, status=status, message=outcome.says)
