"""Who may be probed: what orders the ladder, and what rules a target out of one turn."""

from __future__ import annotations

from typing import Any

import pytest
from house import BODY, LADDER, House

from turnout import Options, Policy, Route, Target, UnknownPin
from turnout.engine.classify.verdict import Evidence
from turnout.engine.context import Cause, Eviction, SessionContext
from turnout.engine.errors import ConfigurationError
from turnout.engine.selection import FILTERS, Selection, Wants
from turnout.engine.testing import refusal
from turnout.machines.vocabulary import ErrorKind, RoutingFallbackReason

PICTURE = {
    "messages": [
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x.example/y.png"}}]}
    ]
}


ANYTHING = Wants()


def evicted(target: Target, reason: str, *refused: str, size: int | None = None, at: float = 0.0) -> Eviction:
    return Eviction(
        target.name,
        RoutingFallbackReason(reason),
        target.fingerprint,
        first=Cause("t1", at, ErrorKind(reason), Evidence("told")),
        latest_turn="t1",
        latest_at=at,
        size=size,
        refused=frozenset({refused}) if refused else frozenset(),
    )


def ruled_out(
    ladder: list[Target], *evictions: Eviction, wants: Wants = ANYTHING, **options: Any
) -> dict[str, str]:
    selection = Selection(ladder, Policy(), wants=wants, options=Options(**options))
    return {
        name: ruling.limit or ruling.why
        for name, ruling in selection.rulings(SessionContext(evictions)).items()
    }


def test_what_a_target_declares_is_told_as_the_limit_that_the_request_is_beyond() -> None:
    ladder = [
        Target("open"),
        Target("text", input=("text",)),
        Target("blind", input=("audio", "file")),
        Target("plain", tools=False, structured_output=False, streaming=False),
        Target("small", context_window=1000),
        Target("able", input=("image",), tools=True, context_window=1001),
    ]
    needs = frozenset({"endpoint", "role", "image", "tools", "tool_choice", "streaming"})
    assert ruled_out(ladder, wants=Wants(needs, 900, 101)) == {
        "text": "takes no image",
        "blind": "takes no image",
        "plain": "takes no tools, tool_choice, streaming",
        "small": "1001 tokens, window 1000",
    }


def test_an_unknown_size_and_an_undeclared_window_gate_nothing() -> None:
    assert ruled_out([Target("small", context_window=1)], wants=Wants(size=None, output=500)) == {}
    assert ruled_out([Target("open")], wants=Wants(size=10**9)) == {}


def test_the_first_rule_that_matches_is_the_reason_shown() -> None:
    assert [rule.why for rule in FILTERS] == ["evicted", "gated", "cooling"]
    small = Target("small", context_window=10)
    assert ruled_out([small], evicted(small, "context_window", size=11), wants=Wants(size=12)) == {
        "small": "evicted"
    }


def test_an_eviction_without_a_size_is_not_lifted_by_one() -> None:
    (small, *_) = LADDER
    known = evicted(small, "context_window")
    assert ruled_out([small], known, wants=Wants(size=1), readmit_below=0.5) == {"a": "evicted"}
    known = evicted(small, "context_window", size=100)
    assert ruled_out([small], known, wants=Wants(size=None), readmit_below=0.5) == {"a": "evicted"}
    assert ruled_out([small], known, wants=Wants(size=50), readmit_below=0.5) == {"a": "evicted"}
    assert ruled_out([small], known, wants=Wants(size=49), readmit_below=0.5) == {}


def test_both_evictions_of_a_target_have_to_be_lifted() -> None:
    (small, *_) = LADDER
    both = evicted(small, "context_window", size=100), evicted(small, "capability", "image")
    options = {"readmit_below": 1.0, "capability_scope": "feature"}
    image = frozenset({"image"})
    assert ruled_out([small], *both, wants=Wants(size=99), **options) == {}
    assert ruled_out([small], *both, wants=Wants(image, 99), **options) == {"a": "evicted"}
    assert ruled_out([small], *both, wants=Wants(size=100), **options) == {"a": "evicted"}


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"capability_scope": "session"}, "capability_scope is 'session'; give target or feature"),
        ({"readmit_below": True}, "readmit_below is True; give"),
        ({"readmit_below": 10**400}, "readmit_below is 1000"),
        ({"readmit_below": 0}, "readmit_below is 0; give a share above 0, at most 1"),
        ({"readmit_below": float("nan")}, "readmit_below is nan; give a share"),
        ({"readmit_below": "0.8"}, "readmit_below is 0.8; give a share"),
    ],
)
def test_an_option_that_cannot_be_used_is_refused(options: dict[str, Any], what: str) -> None:
    with pytest.raises(ConfigurationError, match=what):
        Options(**options)


def test_options_are_options_and_go_with_a_ladder() -> None:
    wrong: Any = {"readmit_below": 0.8}
    with pytest.raises(ConfigurationError, match="options is of type dict; give Options"):
        Route(id="chat", ladder=LADDER, options=wrong)
    with pytest.raises(ConfigurationError, match="options go with a ladder"):
        House(ladder=(), routes=[Route(id="chat", ladder=LADDER)], options=Options()).router()


@pytest.mark.parametrize(
    ("limits", "what"),
    [
        ({"context_window": 0}, "context_window is 0; give 1 to 1000000000 tokens"),
        ({"context_window": 10**12}, "give 1 to 1000000000 tokens"),
        ({"input": ("image", "smell")}, "input lists 'smell'; give some of text, image"),
        ({"tools": "no"}, "tools is of type str; give True or False"),
    ],
)
def test_a_limit_that_cannot_be_used_is_refused(limits: dict[str, Any], what: str) -> None:
    with pytest.raises(ConfigurationError, match=what):
        Target("a", **limits)


def test_what_was_learnt_under_other_limits_counts_no_more() -> None:
    plain = Target("a")
    assert plain.fingerprint == Target("a", context_window=None).fingerprint
    declared = {
        Target("a", **limits).fingerprint
        for limits in ({"context_window": 1}, {"context_window": 2}, {"tools": False}, {"input": ("image",)})
    }
    assert len(declared | {plain.fingerprint}) == 5


def test_the_record_tells_the_options_the_pin_and_what_was_lifted() -> None:
    options = Options(capability_scope="feature", readmit_below=0.5)
    house = House({"a": [refusal("capability", "image")]}, options=options)

    async def story(router: Any) -> None:
        await router.turn(PICTURE, session="s1")
        await router.turn(BODY, session="s1", pin="b")

    house.play(story)
    first, second = house.records
    assert house.asked == [["a", "b"], ["b"]]
    assert dict(second.options) == {"capability_scope": "feature", "readmit_below": 0.5}
    assert (first.pin, second.pin) == ("", "b")
    assert [(e.target, e.refused) for e in second.lifted] == [("a", {("image",)})]
    assert second.passed_over == ()


def test_a_smaller_window_is_not_asked_after_an_overflow_that_the_route_does_not_remember_either() -> None:
    ladder = [
        Target(name, base_url="http://upstream.example", max_retries=0, context_window=window)
        for name, window in (("a", 100_000), ("b", 50_000), ("c", 200_000))
    ]
    house = House({"a": [refusal("context_window")]}, ladder=ladder, on={"context_window": "skip"})
    record = house.turn(size=40_000).record
    assert [probe.target for probe in record.probes] == ["a", "c"]
    assert [(over.target, over.limit) for over in record.passed_over] == [
        ("b", "window 50000, and 100000 overflowed")
    ]


def test_what_was_lifted_is_told_of_the_standings_as_they_were_read_last() -> None:
    (small, *_) = LADDER
    options = Options(capability_scope="feature")
    selection = Selection([small], Policy(), wants=ANYTHING, options=options)
    selection.rulings(SessionContext([evicted(small, "capability", "image")]))
    assert len(selection.lifted) == 1
    selection.rulings(SessionContext())
    assert selection.lifted == ()


def test_a_pin_that_the_route_does_not_have_is_refused_without_a_turn() -> None:
    house = House()
    with pytest.raises(UnknownPin, match="no target 'c'; pin one of a, b"):
        house.turn(pin="c")
    assert house.records == []


def test_a_stream_takes_a_pin_too() -> None:
    house = House()

    async def story(router: Any) -> str | None:
        async with router.stream(BODY, pin="b") as stream:
            async for _ in stream:
                pass
        return stream.record.served_by if stream.record else None

    assert house.play(story) == "b"
