"""A session goes first where it was served first: home is kept, left only for an eviction, and comes back."""

from __future__ import annotations

import asyncio
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from house import BODY, House
from hypothesis import given
from hypothesis import strategies as st
from memories import CountsSettling

from turnout import Habits, InMemory, Options, Route, Router, SqliteMemory, Target
from turnout.engine.context import EMPTY, Identity
from turnout.engine.habits import NO_HABITS, Home, Place, Scale, settled
from turnout.engine.policy import DEFAULT_POLICY
from turnout.engine.selection import Selection
from turnout.engine.testing import ok, refusal

NAMES = ("a", "b", "c")
LADDER = [Target(name, base_url="http://upstream.example", max_retries=0) for name in NAMES]
HOME = Options(affinity="home")


def house(script: dict[str, list[Any]] | None = None, **arguments: Any) -> House:
    return House(script, **{"ladder": LADDER, "options": HOME, **arguments})


# -- merging

PLACES = st.builds(Place, st.sampled_from(NAMES), st.sampled_from(["f", "g"]), st.sampled_from([1.0, 2.0]))
HOMES = st.builds(Home, PLACES, PLACES, st.integers(0, 2))
HABITS = st.builds(
    Habits,
    st.dictionaries(st.sampled_from(["chat", "code"]), HOMES, max_size=2),
    st.none() | st.builds(Scale, st.sampled_from([0.8, 1.2]), st.sampled_from([1.0, 2.0])),
)


@given(st.lists(HABITS, max_size=4))
def test_habits_come_to_the_same_in_whatever_order_they_are_told(several: list[Habits]) -> None:
    ends = set()
    for order in permutations(several):
        context = EMPTY
        for habits in order:
            context = context.settle(habits).settle(habits)
        ends.add(repr((sorted(context.habits.homes.items()), context.habits.scale)))
    assert len(ends) == 1


@given(HABITS, HABITS, HABITS)
def test_merging_is_associative(one: Habits, two: Habits, three: Habits) -> None:
    assert one.merge(two).merge(three) == one.merge(two.merge(three))


def test_a_move_wins_over_the_first_home_and_the_earlier_one_of_two_first_ones() -> None:
    first, late = Home(Place("a", "f", 1), Place("a", "f", 1)), Home(Place("b", "f", 2), Place("b", "f", 2))
    moved = settled(first, Place("c", "f", 3), out=True)
    assert moved is not None
    assert first.merge(late) == late.merge(first) == Home(Place("a", "f", 1), Place("b", "f", 2))
    assert first.merge(late).merge(moved).home == Place("c", "f", 3)
    assert NO_HABITS.merge(Habits({"r": late})) == Habits({"r": late})


def test_it_changes_only_for_another_server_or_an_eviction() -> None:
    home = Home(Place("a", "f", 1), Place("b", "f", 2))
    assert settled(home, Place("b", "f", 9), out=False) is None
    assert settled(home, Place("a", "f", 9), out=True) == Home(Place("a", "f", 1), Place("a", "f", 9))
    assert settled(home, Place("a", "g", 9), out=True) == Home(Place("a", "g", 9), Place("a", "g", 9), 1)


# -- the order


@pytest.mark.parametrize(
    ("home", "last", "pin", "order"),
    [
        (None, None, None, "abc"),
        ("b", "b", None, "bac"),
        ("a", "c", None, "acb"),
        ("c", "b", None, "cba"),
        ("c", "b", "a", "acb"),
        ("c", "b", "b", "bca"),
    ],
)
def test_a_pin_goes_first_then_home_then_the_last_server_then_the_ladder(
    home: str | None, last: str | None, pin: str | None, order: str
) -> None:
    by_name = {target.name: target for target in LADDER}
    at = None
    if home is not None and last is not None:
        at = Home(*[Place(name, by_name[name].fingerprint, 1.0) for name in (home, last)])
    chosen = Selection(LADDER, DEFAULT_POLICY, options=HOME, pin=pin, home=at)
    assert "".join(target.name for target in chosen.ladder) == order
    indifferent = Selection(LADDER, DEFAULT_POLICY, home=at)
    assert indifferent.ladder == tuple(LADDER)


# -- turns


def test_the_first_that_served_is_asked_first_from_then_on() -> None:
    played = house({"a": [refusal("unavailable"), ok()]})
    for _ in range(3):
        played.turn()
    assert played.asked == [["a", "b"], ["b"], ["b"]]
    first, second, _ = played.records
    assert first.home is None
    assert first.settled is not None
    assert first.settled.home.target == "b"
    assert (second.home, second.settled) == (first.settled, None)
    assert second.options == {"affinity": "home"}


def test_it_is_written_only_when_it_changes_and_only_where_a_route_asks_for_it() -> None:
    memory = CountsSettling()
    played = house(memory=memory)
    for _ in range(5):
        played.turn()
    assert memory.writes == 1
    indifferent = house(memory=memory, options=None)
    indifferent.turn(session="s2")
    assert memory.writes == 1


def test_an_outage_is_bridged_by_the_last_server_and_home_is_asked_first_again() -> None:
    down, up = refusal("unavailable"), ok()
    played = house({"a": [up, down, down, down, up], "b": [down, up]})
    for _ in range(5):
        played.turn()
    # the second time b is not asked: c served last, though b stands before it
    assert played.asked == [["a"], ["a", "b", "c"], ["a", "c"], ["a", "c"], ["a"]]
    assert played.records[-1].settled is not None


def test_an_eviction_moves_it_and_a_restored_one_does_not_bring_it_back() -> None:
    played = house({"a": [ok(), refusal("capability"), ok()]})

    async def story(router: Router) -> None:
        await router.turn(BODY, session="s1")
        await router.turn(BODY, session="s1")
        await router.restore("s1", target="a")
        await router.turn(BODY, session="s1")

    played.play(story)
    assert played.asked == [["a"], ["a", "b"], ["b"]]
    assert played.records[1].settled is not None
    assert (played.records[1].settled.home.target, played.records[1].settled.moves) == ("b", 1)


def test_each_route_and_each_agent_has_its_own() -> None:
    routes = [
        Route(id="fast", ladder=tuple(LADDER), options=HOME),
        Route(id="smart", ladder=tuple(reversed(LADDER)), options=HOME),
    ]
    played = House(routes=routes, ladder=())

    async def story(router: Router) -> None:
        for route in ("fast", "smart", "fast", "smart"):
            await router.turn(BODY, session="s1", route=route)
        await router.turn(BODY, session="s1", agent="x", route="smart", pin="b")
        await router.turn(BODY, session="s1", agent="x", route="smart")
        await router.turn(BODY, session="s1", route="smart")

    played.play(story)
    assert played.asked == [["a"], ["c"], ["a"], ["c"], ["b"], ["b"], ["c"]]


def test_it_goes_with_its_session_and_a_turn_without_one_has_none() -> None:
    played = house({"a": [refusal("unavailable"), ok()]})

    async def story(router: Router) -> None:
        await router.turn(BODY, session="s1")
        await router.turn(BODY)
        await router.turn(BODY, session="s1", final=True)
        await router.turn(BODY, session="s1")
        await router.forget("s1")
        assert await router.memory.read(Identity("", "s1")) == EMPTY

    played.play(story)
    assert played.asked == [["a", "b"], ["a"], ["b"], ["a"]]
    assert [record.settled is None for record in played.records] == [False, True, True, False]


def test_a_home_that_is_another_model_by_now_or_in_no_ladder_is_no_home() -> None:
    memory = InMemory()
    house(memory=memory).turn()
    changed = [LADDER[2], Target("a", model="a-2", base_url="http://upstream.example", max_retries=0)]
    played = house({"a-2": [ok()]}, memory=memory, ladder=changed)
    played.turn()
    assert played.asked == [["c"]]
    assert played.records[0].settled is not None
    assert (played.records[0].settled.home.target, played.records[0].settled.moves) == ("c", 1)
    without = house(memory=memory, ladder=LADDER[1:2])
    without.turn()
    assert without.asked == [["b"]]


def test_it_survives_a_restart_and_expires_with_the_session(tmp_path: Path) -> None:
    played = house({"a": [refusal("unavailable"), ok()]})

    async def story() -> None:
        for wait in (0, 50, 99, 101):
            await played.clock.sleep(wait)
            played.memory = SqliteMemory(tmp_path / "turnout.db", ttl_secs=100.0)
            async with played.router() as router:
                await router.turn(BODY, session="s1")

    played.clock.run(story())
    assert played.asked == [["a", "b"], ["b"], ["b"], ["a"]]


def test_while_the_store_is_away_a_process_knows_where_its_sessions_are_at_home() -> None:
    class Away(InMemory):
        async def read(self, identity: Identity, *, now: float) -> Any:
            raise ConnectionError("nobody there")

        async def settle(self, *whose: Any, **when: Any) -> Any:
            raise ConnectionError("nobody there")

    played = house({"a": [refusal("unavailable"), ok()]}, memory=Away())

    async def story(router: Router) -> None:
        for _ in range(3):
            await router.turn(BODY, session="s1")

    played.play(story)
    assert played.asked == [["a", "b"], ["b"], ["b"]]


def test_a_turn_that_is_under_way_does_not_bring_a_forgotten_home_back() -> None:
    played = house({"a": [ok(), refusal("unavailable", after=5), ok()]})

    async def story(router: Router) -> None:
        await router.turn(BODY, session="s1")
        waits = asyncio.ensure_future(router.turn(BODY, session="s1"))
        await played.clock.sleep(1)
        await router.forget("s1")
        await waits
        await router.turn(BODY, session="s1")

    played.play(story)
    assert played.asked == [["a"], ["a", "b"], ["b"]]


def test_a_preview_tells_where_a_session_is_at_home() -> None:
    played = house({"a": [refusal("unavailable"), ok()]})

    async def story(router: Router) -> Any:
        await router.turn(BODY, session="s1")
        return await router.preview(BODY, session="s1")

    preview = played.play(story)
    assert (preview.target, preview.order) == ("b", ("b", "a", "c"))
    assert preview.home.home.target == "b"
