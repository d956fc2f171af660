"""Before a request is sent: who would be asked first, and why not another. Nothing comes of asking."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from house import BODY, House

from turnout import InMemory, Options, Router, RouterMisused, Target, UnknownPin
from turnout.engine.cli import main
from turnout.engine.context import Identity
from turnout.engine.memory.protocol import Swept
from turnout.engine.testing import refusal

LADDER = [
    Target("small", base_url="http://upstream.example", max_retries=0, context_window=1000),
    Target("blind", base_url="http://upstream.example", max_retries=0, input=()),
    Target("large", base_url="http://upstream.example", max_retries=0),
]
PICTURE = {
    "messages": [
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x.example/y.png"}}]}
    ],
    "max_tokens": 500,
}


class Watched(InMemory):
    """Keeps all that is asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        if name in ("read", "record", "touch", "remove", "forget", "sweep", "strip", "restore_everywhere"):
            self.asked.append(name)
        return super().__getattribute__(name)


def test_a_preview_tells_what_the_turn_then_does() -> None:
    house = House({"large": [refusal("capability")]}, ladder=LADDER)

    async def story(router: Router) -> None:
        for arguments in ({}, {"size": 900}, {"pin": "large"}, {"session": None}):
            for body in (BODY, PICTURE):
                wanted: dict[str, Any] = {"session": "s1", **arguments}
                preview = await router.preview(body, **wanted)
                try:
                    record = (await router.turn(body, **wanted)).record
                except Exception as failed:  # noqa: BLE001 - a turn that failed has a record too
                    record = failed.record  # type: ignore[attr-defined]
                assert preview.target == record.probes[0].target
                assert preview.last_resort == record.probes[0].last_resort
                known = {e.first.turn for over in preview.passed_over for e in over.evictions}
                assert record.turn not in known
                assert {over.target for over in preview.passed_over} <= {
                    *(over.target for over in record.passed_over),
                    *(probe.target for probe in record.probes),
                }

    house.play(story)


def test_it_tells_why_others_are_passed_over() -> None:
    house = House({"small": [refusal("context_window")]}, ladder=LADDER)

    async def story(router: Router) -> Any:
        await router.turn(BODY, session="s1")
        return await router.preview(PICTURE, session="s1", size=2000)

    preview = house.play(story)
    assert (preview.target, preview.order, preview.size, preview.output) == (
        "large",
        ("small", "blind", "large"),
        2000,
        500,
    )
    assert [(over.target, over.why, over.limit) for over in preview.passed_over] == [
        ("small", "evicted", ""),
        ("blind", "gated", "takes no image"),
    ]
    assert "image" in preview.needs


def test_it_tells_what_does_not_apply_and_whom_a_pin_puts_first() -> None:
    house = House({"a": [refusal("capability", "image")]}, options=Options(capability_scope="feature"))

    async def story(router: Router) -> Any:
        await router.turn(PICTURE, session="s1")
        return await router.preview(BODY, session="s1", pin="b")

    preview = house.play(story)
    assert (preview.target, preview.order) == ("b", ("b", "a"))
    assert [eviction.target for eviction in preview.lifted] == ["a"]


def test_nothing_is_asked_and_nothing_is_written() -> None:
    memory = Watched()
    house = House(memory=memory)

    async def story(router: Router) -> None:
        memory.asked.clear()
        await router.preview(BODY, session="s1")
        await asyncio.sleep(0)
        assert memory.asked == ["read"]

    house.play(story)
    assert house.records == []


def test_it_is_refused_as_a_turn_is() -> None:
    with pytest.raises(UnknownPin):
        House().play(lambda router: router.preview(BODY, pin="c"))

    async def late() -> None:
        house = House()
        router = house.router()
        await router.close()
        with pytest.raises(RouterMisused):
            await router.preview(BODY)

    House().clock.run(late())


def test_a_memory_that_cannot_be_read_leaves_a_note() -> None:
    class Away(InMemory):
        async def read(self, identity: Identity, *, now: float) -> Any:
            raise ConnectionError("nobody there")

        async def sweep(self, namespace: str, *, now: float, most: int = 1000) -> Swept:
            raise AssertionError("a preview sweeps nothing")

    preview = House(memory=Away()).play(lambda router: router.preview(BODY, session="s1"))
    assert preview.target == "a"
    assert "nobody there" in preview.notes[0]


# -- from a shell

DEPLOYMENT = """
[memory]
url = "sqlite:memory.db"
[llm_clients.c]
base_url = "http://127.0.0.1:1/v1"
[targets.small]
llm_client = "c"
context_window = 10
[targets.large]
llm_client = "c"
[routes.chat]
ladder = ["small", "large"]
"""


def test_from_a_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("deployment.toml").write_text(DEPLOYMENT)
    Path("request.json").write_text(json.dumps(BODY))
    asked = ["preview", "request.json", "--deployment", "deployment.toml", "--session", "s1"]
    told = CliRunner().invoke(main, [*asked, "--size", "11"])
    assert told.exit_code == 0, told.output
    assert told.output.splitlines() == [
        "large would be asked first",
        "  small gated: 11 tokens, window 10",
        "  needs endpoint, role; about 11 tokens",
    ]
    assert json.loads(CliRunner().invoke(main, [*asked, "--json"]).output)["target"] == "small"
    assert {path.name for path in tmp_path.iterdir()} == {"deployment.toml", "request.json"}
    Path("request.json").write_text("{]")
    told = CliRunner().invoke(main, asked)
    assert (told.exit_code, "the body is no JSON" in told.output) == (1, True)
    told = CliRunner().invoke(main, ["preview", "-", "--deployment", "nowhere.toml"], input="{}")
    assert told.exit_code == 1
    assert "nowhere.toml" in told.output
