"""How large a session's requests are is learnt from what its upstreams report, and held against windows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from house import House
from memories import CountsSettling

from turnout import ConfigurationError, InMemory, Options, Router, Target, TurnBroken, TurnFailed
from turnout.engine import wire
from turnout.engine.habits import Scale, calibrated
from turnout.engine.testing import ok, refusal

TEXT = "The heron stands at the edge of the water and waits, an hour if it must. " * 40
CHAT: Mapping[str, Any] = {"messages": [{"role": "user", "content": TEXT}]}
ESTIMATE = wire.of("openai_chat").read(CHAT).tokens()


def ladder(window: int | None = 100_000) -> list[Target]:
    small = Target("a", base_url="http://upstream.example", max_retries=0, context_window=window)
    return [small, Target("b", base_url="http://upstream.example", max_retries=0)]


def told(tokens: int, **others: int) -> Any:
    return ok(usage={"prompt_tokens": tokens, "completion_tokens": 5, "total_tokens": tokens + 5, **others})


def test_the_first_answer_tells_how_the_next_requests_count() -> None:
    house = House({"a": [told(round(ESTIMATE * 1.5))]}, ladder=ladder())
    for _ in range(2):
        house.play(lambda router: router.turn(CHAT, session="s1"))
    first, second = house.records
    assert (first.size, first.calibrated) == (ESTIMATE, None)
    assert second.size == ESTIMATE
    assert second.calibrated == pytest.approx(ESTIMATE * 1.5, rel=0.01)


def test_a_window_is_held_against_what_was_learnt() -> None:
    window = round(ESTIMATE * 1.2)
    house = House({"a": [told(round(ESTIMATE * 1.15))]}, ladder=ladder(window))
    longer = {"messages": [*CHAT["messages"], {"role": "user", "content": TEXT[:400]}]}
    assert wire.of("openai_chat").read(longer).tokens() < window
    house.play(lambda router: router.turn(CHAT, session="s1"))
    for session in ("s1", "s2"):
        house.play(lambda router, session=session: router.turn(longer, session=session))
    assert house.asked == [["a"], ["b"], ["a"]]
    (over,) = house.records[1].passed_over
    assert over.limit == f"{house.records[1].calibrated} tokens, window {window}"


def test_what_was_reported_is_no_floor() -> None:
    """A conversation that was compacted is as small as it is, whatever was reported of it before."""
    house = House({"a": [told(ESTIMATE)]}, ladder=ladder(round(ESTIMATE * 1.1)))
    house.play(lambda router: router.turn(CHAT, session="s1"))
    short = {"messages": [{"role": "user", "content": "Go on."}]}
    house.play(lambda router: router.turn(short, session="s1"))
    assert house.records[1].size is not None
    assert house.records[1].size < 20
    assert (house.records[1].calibrated or 0) < 20


def test_a_share_of_the_size_that_overflowed_is_one_of_the_estimate() -> None:
    """That of the very same conversation does not fall below the share since more is known of it."""
    small = [Target("a", base_url="http://u.example", max_retries=0, context_window=100_000)]
    script = {"a": [refusal("context_window")], "b": [told(round(ESTIMATE * 0.7))]}
    house = House(script, ladder=[*small, ladder()[1]], options=Options(readmit_below=0.8))
    for _ in range(3):
        house.play(lambda router: router.turn(CHAT, session="s1"))
    assert house.asked == [["a", "b"], ["b"], ["b"]]
    assert house.records[1].calibrated == pytest.approx(ESTIMATE * 0.7, rel=0.01)


def test_it_is_written_only_when_it_changes_and_only_where_a_window_is_declared() -> None:
    for window, writes in ((100_000, 2), (None, 0)):
        memory = CountsSettling()
        reported = [told(round(ESTIMATE * share)) for share in (1.3, 1.31, 1.28, 1.5)]
        house = House({"a": reported}, ladder=ladder(window), memory=memory)
        for _ in reported:
            house.play(lambda router: router.turn(CHAT, session="s1"))
        assert memory.writes == writes
        assert [record.calibrated is None for record in house.records[1:]] == [window is None] * 3


@pytest.mark.parametrize("tokens", [10**400, -5, 2**63])
def test_no_reported_number_spoils_an_answer(tokens: int) -> None:
    house = House({"a": [told(tokens)]}, ladder=ladder())
    reply = house.play(lambda router: router.turn(CHAT, session="s1"))
    assert reply.served_by == "a"


@pytest.mark.parametrize(
    ("text", "other", "reported", "factor"),
    [
        (1000.0, 10, 1310, 1.3),
        (1000.0, 10, 810, 0.8),
        (1000.0, 10, 1020, None),  # too little of a change
        (150.0, 10, 310, None),  # too short a text
        (1000.0, 10, 10_000, None),  # something else was counted
        (1000.0, 10, 0, None),
        (1000.0, 5000, 6300, None),  # what else is in it is a guess
    ],
)
def test_only_what_can_be_so_is_learnt(text: float, other: int, reported: int, factor: float | None) -> None:
    found = calibrated(None, text=text, other=other, reported=reported, at=1.0)
    assert (None if found is None else found.factor) == factor


def test_it_goes_back_to_one_when_the_estimate_is_right() -> None:
    scale = Scale(1.3, 1.0)
    assert calibrated(scale, text=1000.0, other=0, reported=1000, at=2.0) == Scale(1.0, 2.0)
    assert calibrated(scale, text=1000.0, other=0, reported=1310, at=2.0) is None


@pytest.mark.parametrize(
    ("format", "usage"),
    [
        ("openai_responses", {"input_tokens": round(ESTIMATE * 1.4), "output_tokens": 3}),
        (
            "anthropic_messages",
            {
                "input_tokens": 10,
                "cache_creation_input_tokens": 90,
                "cache_read_input_tokens": round(ESTIMATE * 1.4) - 100,
                "output_tokens": 3,
            },
        ),
    ],
)
def test_each_formats_own_counts_are_read_with_what_came_from_a_cache(format: str, usage: Any) -> None:
    target = Target(
        "a",
        base_url="http://upstream.example",
        format=format,
        max_retries=0,
        context_window=100_000,  # type: ignore[arg-type]
    )
    body = {"input": TEXT} if format == "openai_responses" else {**CHAT, "max_tokens": 10}
    house = House({"a": [ok(usage=usage)]}, ladder=[target])
    for _ in range(2):
        house.play(lambda router: router.turn(body, session="s1"))
    assert house.records[1].calibrated == pytest.approx(ESTIMATE * 1.4, rel=0.05)


# -- an embedder's own measure


def test_a_function_of_the_embedder_measures_instead_and_is_not_corrected() -> None:
    house = House({"a": [told(2000)]}, ladder=ladder(1000), size=lambda body: len(body["messages"]) * 900)
    for _ in range(2):
        house.play(lambda router: router.turn(CHAT, session="s1"))
    preview = house.play(lambda router: router.preview({"messages": CHAT["messages"] * 2}, session="s1"))
    assert [(record.size, record.calibrated) for record in house.records] == [(900, None)] * 2
    assert (preview.target, preview.size) == ("b", 1800)


def test_what_the_caller_says_wins_over_it_and_none_leaves_the_estimate() -> None:
    house = House(ladder=ladder(), size=lambda _: None)
    house.play(lambda router: router.turn(CHAT, session="s1"))
    house.play(lambda router: router.turn(CHAT, session="s1", size=77))
    assert [record.size for record in house.records] == [ESTIMATE, 77]


@pytest.mark.parametrize("given", [-1, 1.5, "12", True, 10**13])
def test_one_that_gives_no_size_breaks_the_turn_and_says_so(given: object) -> None:
    house = House(ladder=ladder(), size=lambda _: given)
    with pytest.raises(TurnFailed, match="size= gave") as failed:
        house.play(lambda router: router.turn(CHAT, session="s1"))
    assert isinstance(failed.value.error, TurnBroken)
    assert house.records[0].ended_by == "broken"
    with pytest.raises(ConfigurationError, match="size= gave"):
        house.play(lambda router: router.preview(CHAT))


def test_one_that_raises_breaks_the_turn_with_its_own_error() -> None:
    def size(_: Mapping[str, Any]) -> int:
        raise KeyError("messages")

    house = House(ladder=ladder(), size=size)
    with pytest.raises(TurnFailed) as failed:
        house.play(lambda router: router.turn(CHAT, session="s1"))
    assert isinstance(failed.value.error.__cause__, KeyError)
    with pytest.raises(ConfigurationError, match="size is of type int; give a function"):
        Router(ladder=ladder(), memory=InMemory(), size=4)  # type: ignore[arg-type]

    async def later(_: Mapping[str, Any]) -> int:
        return 1

    with pytest.raises(ConfigurationError, match="size is async"):
        Router(ladder=ladder(), memory=InMemory(), size=later)  # type: ignore[arg-type]
