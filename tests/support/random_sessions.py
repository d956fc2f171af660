"""Sessions made up by chance, played through a real router: all reasons, all options, every way to end."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import Any

from house import House

from turnout import AuditRecord, Breaker, Options, Router, Target, TurnFailed
from turnout.engine.testing import Hang, Reset, Scripted, in_json, ok, refusal

TEXT: dict[str, Any] = {
    "messages": [{"role": "user", "content": "The heron waits at the edge of the water. " * 40}]
}
IMAGE: dict[str, Any] = {
    "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x/y"}}]}]
}
TOOLS: dict[str, Any] = {**TEXT, "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]}
POLICIES: tuple[dict[str, str], ...] = (
    {},
    {"capability": "skip"},
    {"model_not_found": "evict"},
    {"auth": "skip"},
)


def answer(chance: random.Random) -> Scripted:
    """What an upstream may do: mostly answer."""
    usage = {"prompt_tokens": chance.choice([330, 420, 560]), "completion_tokens": 5}
    return chance.choices(
        [
            ok(usage=usage),
            refusal("context_window"),
            refusal("capability", chance.choice(["image", "tools", "other"])),
            refusal("unavailable"),
            in_json(429, {"error": {"message": "rate limited"}}, headers={"retry-after": "40"}),
            refusal(chance.choice(["auth", "model_not_found", "content_policy", "caller_error"])),
            refusal("quota_or_billing"),
            Reset(),
            Hang(),
        ],
        [30, 3, 4, 4, 2, 1, 1, 1, 0.3],
    )[0]


def session(seed: int) -> list[AuditRecord]:
    """The records of one session of 3 to 60 turns."""
    chance = random.Random(seed)
    ladder = [
        Target(
            name,
            base_url="http://upstream.example/v1",
            max_retries=chance.choice([0, 1]),
            timeout_secs=30,
            context_window=chance.choice([None, None, 500, 2000]),
            input=chance.choice([None, None, ()]),
            breaker=chance.choice([None, Breaker(failures=2, cool_secs=20)]),
        )
        for name in "abcd"[: chance.randint(1, 4)]
    ]
    options = Options(
        capability_scope=chance.choice(["target", "feature"]),
        readmit_below=chance.choice([None, 0.8]),
        affinity=chance.choice([None, "home"]),
    )
    house = House(
        {target.name: [answer(chance) for _ in range(400)] for target in ladder},
        ladder=ladder,
        options=options,
        on=chance.choice(POLICIES),
        deadline_secs=chance.choice([None, 20]),
    )
    turns = chance.randint(3, 60)

    async def story(router: Router) -> None:
        for number in range(turns):
            await _turn(router, house, chance, ladder, final=number == turns - 1 and chance.random() < 0.3)
            if chance.random() < 0.05:
                await router.restore("s", target=chance.choice(ladder).name)
            await house.clock.sleep(chance.choice([0, 1, 30]))

    house.play(story)
    return house.records


async def _turn(
    router: Router, house: House, chance: random.Random, ladder: list[Target], *, final: bool
) -> None:
    turn = asyncio.ensure_future(
        router.turn(
            chance.choice([TEXT, TEXT, IMAGE, TOOLS]),
            session="s",
            agent=chance.choice([None, None, None, "helper"]),
            pin=chance.choice([None, None, None, chance.choice(ladder).name]),
            size=chance.choice([None, 100, 600, 1500, 2500]),
            final=final,
        )
    )
    if chance.random() < 0.05:
        await house.clock.sleep(chance.choice([0, 0.1, 5]))
        turn.cancel()
    with suppress(TurnFailed, asyncio.CancelledError):
        await turn
