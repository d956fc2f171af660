"""A target that keeps failing is left alone by all sessions, for a while, and one turn tries it again."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from house import BODY, House
from hypothesis import given
from hypothesis import strategies as st
from streams import END, ROLE, Played, chunk, with_stream

from turnout import (
    AuditRecord,
    Breaker,
    ConfigurationError,
    InMemory,
    MemoryTrouble,
    Router,
    SqliteMemory,
    Target,
    TurnFailed,
)
from turnout.engine.classify.verdict import Evidence
from turnout.engine.clock import VirtualClock
from turnout.engine.context import Cause
from turnout.engine.health import LONGEST, WELL, Health, answered, cooling, failed, needs_trial, tried
from turnout.engine.testing import Hang, ScriptedTransport, in_json, ok, refusal
from turnout.machines.catalog import DIGESTS
from turnout.machines.health import DEFINITION
from turnout.machines.vocabulary import ErrorKind, HealthState

NOW = 1_767_225_600.0
CAUSE = Cause("t1", NOW, ErrorKind.UNAVAILABLE, Evidence("told"), 503, message="its own words")


def ladder(**breaker: Any) -> list[Target]:
    patience = Breaker(**{"failures": 1, "cool_secs": 30.0, **breaker})
    return [
        Target(name, base_url="http://upstream.example", max_retries=0, breaker=patience)
        for name in ("a", "b")
    ]


def passed_over(record: AuditRecord) -> dict[str, str]:
    return {over.target: str(over.why) for over in record.passed_over}


def path_of(records: list[AuditRecord], target: str = "a") -> list[tuple[str, str, str]]:
    return [tuple(one.step) for record in records for one in record.health if one.target == target]


# -- what it is made of


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"failures": 0}, "failures is 0; give 1 to 1000"),
        ({"failures": True}, "failures is True; give 1 to 1000"),
        ({"failures": 1.5}, "failures is 1.5; give"),
        ({"cool_secs": 0}, "cool_secs is 0; give seconds above 0"),
        ({"cool_secs": float("inf")}, "cool_secs is inf; give"),
        ({"max_cool_secs": float("nan")}, "max_cool_secs is nan; give"),
        ({"cool_secs": "30"}, "cool_secs is '30'; give seconds"),
        ({"max_cool_secs": 86_401}, "at most 86400"),
        ({"cool_secs": 400}, r"cool_secs is 400, more than max_cool_secs \(300\)"),
        ({"max_cool_secs": 10}, r"cool_secs is 30, more than max_cool_secs \(10\); give less"),
        ({"failures": 10**5000}, "failures is too large"),
        ({"cool_secs": "sk-abcdefghijklmnop"}, "cool_secs is a value; give"),
    ],
)
def test_a_breaker_that_cannot_work_is_refused(values: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        Breaker(**values)


def test_a_target_takes_a_breaker_and_nothing_else_for_one() -> None:
    with pytest.raises(ConfigurationError, match=r"breaker is of type dict; give Breaker\("):
        Target("a", breaker={"failures": 1})  # type: ignore[arg-type]
    assert Target("a", breaker=Breaker()).fingerprint == Target("a").fingerprint


def test_what_is_kept_of_a_failure_holds_no_other_sessions_words() -> None:
    health = failed(WELL, Breaker(failures=1), CAUSE, wait=None, now=NOW).health
    assert health.cause is not None
    assert (health.cause.turn, health.cause.status, health.cause.message) == ("t1", 503, "")


@given(st.floats(0, 1e300) | st.just(float("inf")), st.floats(0.001, 1e4))
def test_nobody_cools_for_longer_than_a_day(wait: float, cool: float) -> None:
    breaker = Breaker(failures=1, cool_secs=cool, max_cool_secs=1e4)
    health = failed(WELL, breaker, CAUSE, wait=wait, now=NOW).health
    assert NOW < health.until <= NOW + LONGEST
    assert cooling("a", health, "t", now=NOW) is not None
    assert cooling("a", health, "t", now=health.until) is None


def test_a_time_that_no_clock_could_have_meant_counts_for_nothing() -> None:
    wrong = Health(HealthState.OPEN, 1, 1, until=NOW + 10 * LONGEST)
    assert cooling("a", wrong, "t", now=NOW) is None
    assert needs_trial(wrong, "t")
    trial = tried(wrong, Breaker(), "t", now=NOW).health
    assert (trial.trial, trial.until) == ("t", NOW + 300)


def test_pauses_double_up_to_the_longest_and_no_number_of_them_is_too_many() -> None:
    breaker, health, pauses = Breaker(failures=1, cool_secs=10, max_cool_secs=70), WELL, []
    now = NOW
    for _ in range(2000):
        cause = msgspec.structs.replace(CAUSE, at=now)
        health = failed(health, breaker, cause, wait=None, now=now).health
        pauses.append(health.until - now)
        now = health.until
        health = tried(health, breaker, CAUSE.turn, now=now).health
    assert pauses[:6] == [10, 20, 40, 70, 70, 70]
    assert answered(health, now=now).health == Health(at=now)


# -- turns


def test_one_session_pays_for_all() -> None:
    house = House({"a": [refusal("unavailable")]}, ladder=ladder())

    async def story(router: Router) -> None:
        for session in ("s1", "s2", None, "s3"):
            await router.turn(BODY, session=session)

    house.play(story)
    assert house.asked == [["a", "b"], ["b"], ["b"], ["b"]]
    assert [passed_over(record) for record in house.records[1:]] == [{"a": "cooling"}] * 3
    (over,) = house.records[1].passed_over
    assert over.cooling is not None
    assert over.cooling.until == house.records[0].started + 30
    assert over.cooling.cause is not None
    assert over.cooling.cause.turn == house.records[0].turn
    assert house.records[1].cooling == (over.cooling,)


def test_the_path_of_the_health_is_in_the_records_and_in_the_picture() -> None:
    house = House({"a": [refusal("unavailable"), refusal("unavailable"), ok()]}, ladder=ladder())

    async def story(router: Router) -> None:
        for wait in (0, 1, 28, 30, 0, 60, 0):
            await house.clock.sleep(wait)
            await router.turn(BODY, session="s1")

    house.play(story)
    assert house.asked == [["a", "b"], ["b"], ["b"], ["a", "b"], ["b"], ["a"], ["a"]]
    taken = path_of(house.records)
    assert taken == [
        ("failed", "closed", "open"),
        ("cooled", "open", "half_open"),
        ("failed", "half_open", "open"),
        ("cooled", "open", "half_open"),
        ("answered", "half_open", "closed"),
    ]
    assert set(taken) <= {arc[:3] for arc in DEFINITION.arcs}
    assert [probe.trial for record in house.records for probe in record.probes if probe.target == "a"] == [
        *(False, True, True, False),
    ]
    assert {record.machines["health"] for record in house.records[:4]} == {DIGESTS["health"]}


def test_without_a_breaker_no_record_speaks_of_health() -> None:
    house = House({"a": [refusal("unavailable")]})
    house.turn()
    house.turn()
    assert house.asked == [["a", "b"], ["a", "b"]]
    assert {("health" in record.machines, record.cooling, record.health) for record in house.records} == {
        (False, (), ())
    }


@pytest.mark.parametrize("kind", ErrorKind)
def test_only_outages_and_empty_accounts_count(kind: ErrorKind) -> None:
    house = House(
        {"a": [refusal(kind)]}, ladder=ladder(), on={"context_window": "skip", "capability": "skip"}
    )

    async def story(router: Router) -> None:
        for _ in range(2):
            with suppress(TurnFailed):
                await router.turn(BODY, session="s1")

    house.play(story)
    cools = house.records[1].passed_over != ()
    assert cools is (kind in (ErrorKind.UNAVAILABLE, ErrorKind.QUOTA_OR_BILLING))


def test_failures_count_in_a_row_and_with_all_their_retries() -> None:
    script = [refusal("unavailable")] * 3 + [ok()] + [refusal("unavailable")] * 99
    targets = [
        Target(name, base_url="http://u.example", max_retries=2, breaker=Breaker(failures=2)) for name in "ab"
    ]
    house = House({"a": script}, ladder=targets)

    async def story(router: Router) -> None:
        for _ in range(5):
            await router.turn(BODY, session="s1")

    house.play(story)
    # three attempts are one failure; the answer starts the count anew
    assert house.asked == [["a", "b"], ["a"], ["a", "b"], ["a", "b"], ["b"]]
    assert [len(record.probes[0].attempts) for record in house.records] == [3, 1, 3, 3, 1]


def test_a_caller_who_leaves_and_a_deadline_return_the_trial() -> None:
    house = House({"a": [refusal("unavailable"), Hang(), Hang(), ok()]}, ladder=ladder(), deadline_secs=5)

    async def story(router: Router) -> None:
        await router.turn(BODY, session="s1")
        await house.clock.sleep(30)
        gone = asyncio.ensure_future(router.turn(BODY, session="s1"))
        await house.clock.sleep(1)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        await house.clock.sleep(0.1)
        with pytest.raises(TurnFailed, match="deadline"):
            await router.turn(BODY, session="s1")
        await router.turn(BODY, session="s1")

    house.play(story)
    assert house.asked == [["a", "b"], ["a"], ["a"], ["a"]]
    assert ("returned", "half_open", "open") in path_of(house.records)


def test_a_hundred_turns_that_come_at_once_try_it_once() -> None:
    house = House({"a": [refusal("unavailable"), ok(after=9), ok()]}, ladder=ladder())

    async def story(router: Router) -> None:
        await router.turn(BODY, session="s0")
        await house.clock.sleep(31)
        await asyncio.gather(*[router.turn(BODY, session=f"s{number}") for number in range(100)])
        await router.turn(BODY, session="s0")

    house.play(story)
    asked = house.asked[1:-1]
    assert (asked.count(["a"]), asked.count(["b"])) == (1, 99)
    assert house.asked[-1] == ["a"]


def test_when_a_trial_is_gone_to_another_the_choice_is_made_again() -> None:
    """What this process knows is a second old: the store says that another turn has the trial."""
    memory = InMemory()
    one, other = (
        House({"a": [refusal("unavailable"), Hang()]}, ladder=ladder(), memory=memory) for _ in "12"
    )
    other.clock = one.clock
    other.transport = one.transport

    async def story() -> None:
        async with one.router() as first, other.router() as second:
            await first.turn(BODY, session="s1")
            await one.clock.sleep(29.5)
            await second.turn(BODY, session="s2")  # it knows that the target cools
            await one.clock.sleep(0.6)
            trying = asyncio.ensure_future(first.turn(BODY, session="s1"))
            await one.clock.sleep(0.1)
            await second.turn(BODY, session="s2")
            trying.cancel()
            await asyncio.gather(trying, return_exceptions=True)

    one.clock.run(story())
    assert other.asked == [["b"], ["b"]]
    assert passed_over(other.records[1]) == {"a": "cooling"}
    (cools,) = other.records[1].cooling
    assert cools.trial == one.records[1].turn


class Counted(InMemory):
    """Counts how often health is read, and may be away."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.changes = 0
        self.away = False
        self.takes = 0.0
        self.clock: VirtualClock | None = None

    async def health(self, namespace: str, targets: Any) -> Any:
        self.reads += 1
        self._see()
        return await super().health(namespace, targets)

    async def change_health(self, *which: Any) -> Any:
        self.changes += 1
        self._see()
        if self.clock is not None:
            await self.clock.sleep(self.takes)
        return await super().change_health(*which)

    def _see(self) -> None:
        if self.away:
            raise MemoryTrouble("memory: nobody is there")


def test_a_process_looks_once_a_second_at_most() -> None:
    memory = Counted()
    house = House(ladder=ladder(), memory=memory)

    async def story(router: Router) -> None:
        for _ in range(50):
            await router.turn(BODY, session="s1")
            await house.clock.sleep(0.1)

    house.play(story)
    assert memory.reads <= 6


@pytest.mark.parametrize("on_memory_error", ["serve", "raise"])
def test_without_its_store_a_process_goes_by_what_it_knows(on_memory_error: str) -> None:
    memory = Counted()
    house = House({"a": [refusal("unavailable")] * 2 + [ok()]}, ladder=ladder(), memory=memory)
    house.arguments["on_memory_error"] = on_memory_error

    async def story(router: Router) -> None:
        memory.away = True
        for wait in (0, 1, 30):
            await house.clock.sleep(wait)
            await router.turn(BODY, session="s1")
        memory.away = False
        await house.clock.sleep(6)
        await router.turn(BODY, session="s1")
        assert router.memory.health.queued == 0

    house.play(story)
    assert house.asked == [["a", "b"], ["b"], ["a", "b"], ["b"]]
    assert any("nobody is there" in note for note in house.records[0].notes)


def test_what_a_process_learnt_alone_is_told_when_the_store_is_back() -> None:
    memory = Counted()
    house = House({"a": [refusal("unavailable"), ok()]}, ladder=ladder(), memory=memory)

    async def story(router: Router) -> None:
        memory.away = True
        await router.turn(BODY, session="s1")
        memory.away = False
        await house.clock.sleep(31)
        await router.turn(BODY, session="s1")
        await house.clock.sleep(1)
        (stored,) = await memory.health("", [("a", ladder()[0].fingerprint)])
        assert (stored.state, stored.at > 0) == ("closed", True)

    house.play(story)
    assert house.asked == [["a", "b"], ["a"]]


def test_two_routers_on_one_file_share_it_also_after_a_restart(tmp_path: Path) -> None:
    house = House({"a": [refusal("unavailable")]}, ladder=ladder(cool_secs=200.0))

    async def story() -> None:
        for _ in range(3):
            house.memory = SqliteMemory(tmp_path / "turnout.db")
            async with house.router() as router:
                await router.turn(BODY, session="s1")

    house.clock.run(story())
    assert house.asked == [["a", "b"], ["b"], ["b"]]


def test_another_namespace_and_another_model_are_another_health() -> None:
    memory = InMemory()
    script = {"a": [refusal("unavailable")], "other": [ok()]}
    houses = [House(script, ladder=ladder(), memory=memory, namespace=name) for name in ("", "acme", "")]
    changed = [Target("a", model="other", base_url="http://upstream.example", breaker=Breaker())]
    houses.append(House(script, ladder=changed, memory=memory))
    for house in houses:
        house.clock = houses[0].clock
        house.turn()
    assert [house.asked for house in houses] == [[["a", "b"]], [["a", "b"]], [["b"]], [["a"]]]


def test_a_preview_tells_who_cools_and_takes_no_trial() -> None:
    house = House({"a": [refusal("unavailable"), ok()]}, ladder=ladder())

    async def story(router: Router) -> list[Any]:
        await router.turn(BODY, session="s1")
        cools = await router.preview(BODY, session="s2")
        await house.clock.sleep(31)
        cooled = [await router.preview(BODY, session="s2") for _ in range(3)]
        await router.turn(BODY, session="s2")
        return [cools, *cooled]

    previews = house.play(story)
    assert [preview.target for preview in previews] == ["b", "a", "a", "a"]
    assert [over.why for over in previews[0].passed_over] == ["cooling"]
    assert house.asked[-1] == ["a"]


# -- what attacks have found


def simultaneous(memory: Counted, failures: int) -> tuple[House, list[int]]:
    """A hundred turns whose first target fails at the same moment; how often the store was told."""
    told: list[int] = []
    house = House({"a": [refusal("unavailable", after=1)]}, ladder=ladder(failures=failures), memory=memory)

    async def story(router: Router) -> None:
        before = memory.changes
        await asyncio.gather(*[router.turn(BODY, session=f"s{number}") for number in range(100)])
        await house.clock.sleep(0.1)
        told.append(memory.changes - before)

    house.play(story)
    return house, told


def test_a_hundred_failures_at_once_are_a_few_writes_and_all_of_them_count() -> None:
    memory = Counted()
    house, told = simultaneous(memory, 100)
    assert told[0] <= 3
    house.play(lambda router: router.turn(BODY, session="s"))
    assert house.asked[-1] == ["b"]


def test_a_cold_start_of_a_hundred_turns_looks_once() -> None:
    memory = Counted()
    simultaneous(memory, 1000)
    assert memory.reads <= 2


def test_answers_are_not_told_where_nothing_speaks_against_a_target() -> None:
    memory = Counted()
    house = House({"a": [refusal("unavailable"), ok()]}, ladder=ladder(), memory=memory)

    async def story(router: Router) -> None:
        for wait in (0, 31):
            await house.clock.sleep(wait)
            await router.turn(BODY, session="s1")
        await house.clock.sleep(0.1)
        memory.changes = 0
        for _ in range(50):
            await router.turn(BODY, session="s1")
            await house.clock.sleep(0.3)

    house.play(story)
    assert memory.changes == 0


class Hanging(Counted):
    """Never says what became of a health."""

    async def change_health(self, *which: Any) -> Any:
        self.changes += 1
        await asyncio.get_running_loop().create_future()


@pytest.mark.parametrize("on_memory_error", ["serve", "raise"])
def test_a_store_that_hangs_at_health_breaks_and_delays_nothing_else(on_memory_error: str) -> None:
    house = House({"a": [refusal("unavailable")]}, ladder=ladder(), memory=Hanging())
    house.arguments["on_memory_error"] = on_memory_error

    async def story(router: Router) -> None:
        for _ in range(3):
            await router.turn(BODY, session="s1")
        assert router.memory.health.state == "well"

    house.play(story)
    assert house.asked == [["a", "b"], ["b"], ["b"]]
    assert [record.took for record in house.records] == [0, 0, 0]


def test_of_many_turns_one_has_the_trial_also_while_the_store_hangs() -> None:
    memory = Hanging()
    house = House({"a": [refusal("unavailable"), ok(after=9)]}, ladder=ladder(), memory=memory)

    async def story(router: Router) -> None:
        await router.turn(BODY, session="s1")
        await house.clock.sleep(31)
        await asyncio.gather(*[router.turn(BODY, session=f"s{number}") for number in range(100)])

    house.play(story)
    assert house.asked[1:].count(["a"]) == 1
    assert max(record.took for record in house.records[1:]) < 9.2


def test_who_leaves_while_his_failure_is_told_takes_neither_it_nor_the_trial_along() -> None:
    memory = Counted()
    memory.takes = 0.05
    script = {"a": [refusal("unavailable")], "b": [Hang()]}
    house = House(script, ladder=ladder(max_cool_secs=3600.0), memory=memory)
    house.arguments["ladder"][1:] = [Target("b", base_url="http://upstream.example", max_retries=0)]
    memory.clock = house.clock

    async def story(router: Router) -> None:
        for secs in (0, 31):
            await house.clock.sleep(secs)
            gone = asyncio.ensure_future(router.turn(BODY, session="s1"))
            await house.clock.sleep(0.06)
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)
        await house.clock.sleep(1)
        (stored,) = await memory.health("", [("a", ladder()[0].fingerprint)])
        assert (stored.state, stored.failures, stored.openings) == ("open", 2, 2)

    house.play(story)


def test_an_answer_that_comes_when_others_have_opened_it_closes_it() -> None:
    memory = InMemory()
    slow, quick = (House(ladder=ladder(cool_secs=200.0), memory=memory) for _ in "12")
    quick.clock = slow.clock
    slow.transport = ScriptedTransport({"a": [ok(after=60)]}, clock=slow.clock)
    quick.transport = ScriptedTransport({"a": [refusal("unavailable"), ok()]}, clock=slow.clock)

    async def story() -> None:
        async with slow.router() as one, quick.router() as other:
            waits = asyncio.ensure_future(one.turn(BODY, session="s1"))
            await slow.clock.sleep(30)
            await other.turn(BODY, session="s2")
            await waits
            await slow.clock.sleep(2)
            await other.turn(BODY, session="s2")

    slow.clock.run(story())
    assert quick.asked == [["a", "b"], ["a"]]


def test_a_clock_that_was_ahead_when_it_failed_keeps_nobody_out() -> None:
    ahead = failed(WELL, Breaker(failures=1), CAUSE, wait=None, now=NOW + 72_000).health
    assert cooling("a", ahead, "t", now=NOW) is None
    a_little = failed(WELL, Breaker(failures=1), CAUSE, wait=None, now=NOW + 5).health
    assert cooling("a", a_little, "t", now=NOW) is not None


def test_what_is_told_late_or_twice_decides_nothing() -> None:
    breaker = Breaker(failures=3)
    opened = failed(WELL, Breaker(failures=1), CAUSE, wait=None, now=NOW).health
    assert failed(opened, breaker, CAUSE, wait=None, now=NOW).health is opened
    assert answered(opened, now=NOW - 600).health is opened
    closed = answered(opened, now=NOW + 100).health
    older = msgspec.structs.replace(CAUSE, turn="t0", at=NOW - 600)
    assert failed(closed, breaker, older, wait=None, now=NOW - 600).health is closed
    assert answered(opened, now=NOW - 5).health.state == "closed", "clocks are a little apart"


def test_a_loop_that_ends_with_a_write_under_way_ends() -> None:
    async def story() -> None:
        router = Router(
            ladder=ladder(), memory=Hanging(), transport=ScriptedTransport({"a": [refusal("unavailable")]})
        )
        await router.turn(BODY, session="s1")

    asyncio.run(asyncio.wait_for(story(), 30))


def test_what_could_not_be_told_is_told_when_the_router_closes_if_the_store_is_back() -> None:
    memory = Counted()
    house = House({"a": [refusal("unavailable")]}, ladder=ladder(), memory=memory)

    async def story(router: Router) -> None:
        memory.away = True
        await router.turn(BODY, session="s1")
        await house.clock.sleep(20)
        memory.away = False

    house.play(story)
    other = House(ladder=ladder(), memory=memory)
    other.clock = house.clock
    other.turn()
    assert other.asked == [["b"]]


def test_an_answer_that_was_told_while_the_store_failed_closes_nothing_an_hour_later() -> None:
    memory = Counted()
    one, two = (House(ladder=ladder(cool_secs=200.0), memory=memory) for _ in "12")
    two.clock = one.clock
    two.transport = ScriptedTransport({"a": [refusal("unavailable")]}, clock=one.clock)

    async def story() -> None:
        async with one.router() as first, two.router() as second:
            await first.turn(BODY, session="s1")
            await one.clock.sleep(5)
            memory.away = True
            await first.turn(BODY, session="s1")
            memory.away = False
            await one.clock.sleep(3600)
            await second.turn(BODY, session="s2")
            await first.preview(BODY, session="s1")
            await one.clock.sleep(2)
            await first.turn(BODY, session="s1")

    one.clock.run(story())
    assert one.asked[-1] == ["b"]


def test_what_was_sent_before_a_trial_decides_nothing_of_it() -> None:
    breaker = Breaker(failures=1)
    trial = tried(failed(WELL, breaker, CAUSE, wait=None, now=NOW).health, breaker, "t9", now=NOW + 30).health
    late = failed(trial, breaker, CAUSE, wait=500, now=NOW + 31).health
    assert (late.state, late.trial, late.until) == ("half_open", "t9", trial.until)


@pytest.mark.parametrize(
    "stored",
    [Health(openings=5000), Health(openings=-5000), Health(failures=10**30), Health(until=1e300, at=-1e300)],
)
def test_no_stored_value_breaks_a_turn(stored: Health) -> None:
    memory = InMemory()
    house = House({"a": [refusal("unavailable")]}, ladder=ladder(), memory=memory)

    async def story(router: Router) -> None:
        await memory.change_health("", "a", ladder()[0].fingerprint, lambda _: stored)
        await router.turn(BODY, session="s1")
        await router.turn(BODY, session="s1")

    house.play(story)
    assert house.asked == [["a", "b"], ["b"]]


@pytest.mark.parametrize("raised", [asyncio.CancelledError(), RecursionError("deep"), KeyError()])
@pytest.mark.parametrize("on_memory_error", ["serve", "raise"])
def test_whatever_a_store_raises_for_health_turns_go_on(raised: BaseException, on_memory_error: str) -> None:
    class Raising(InMemory):
        async def health(self, namespace: str, targets: Any) -> Any:
            raise raised

        async def change_health(self, *which: Any) -> Any:
            raise raised

    house = House({"a": [refusal("unavailable")]}, ladder=ladder(), memory=Raising())
    house.arguments["on_memory_error"] = on_memory_error

    async def story(router: Router) -> None:
        for wait in (0, 1, 31, 1):
            await house.clock.sleep(wait)
            await router.turn(BODY, session="s1")

    house.play(story)
    assert house.asked == [["a", "b"], ["b"], ["a", "b"], ["b"]]


def test_a_store_that_grants_no_trial_and_denies_none_holds_nobody_up() -> None:
    class Deaf(InMemory):
        async def change_health(self, *which: Any) -> Health:
            return Health(HealthState.OPEN, 1, 1, until=0.0)

    house = House({"a": [ok()]}, ladder=ladder(), memory=Deaf())

    async def story(router: Router) -> None:
        await InMemory.change_health(
            house.memory,
            "",
            "a",
            ladder()[0].fingerprint,
            lambda _: Health(HealthState.OPEN, 1, 1, until=1.0),
        )
        await router.turn(BODY, session="s1")

    house.play(story)
    assert house.records[0].state == "served"


@pytest.mark.parametrize("given", [None, [], [None, None], "xy", [WELL]])
def test_a_store_that_gives_something_else_leaves_a_note(given: Any) -> None:
    class Odd(InMemory):
        async def health(self, namespace: str, targets: Any) -> Any:
            return given

    house = House({"a": [refusal("unavailable")]}, ladder=ladder(), memory=Odd())
    house.turn()
    assert house.asked == [["a", "b"]]
    assert "could not read health" in house.records[0].notes[0]


def test_what_is_shared_of_a_failure_quotes_nobody() -> None:
    told = in_json(503, {"error": {"code": "my secret diagnosis", "message": "overloaded"}})
    house = House({"a": [told]}, ladder=ladder())
    house.turn()
    house.turn(session="s2")
    assert "secret" not in repr(house.records[1].passed_over)


def test_a_caller_who_leaves_leaves_the_return_of_his_trial_in_the_record() -> None:
    house = House({"a": [refusal("unavailable"), Hang()]}, ladder=ladder())

    async def story(router: Router) -> None:
        await router.turn(BODY, session="s1")
        await house.clock.sleep(31)
        gone = asyncio.ensure_future(router.turn(BODY, session="s1"))
        await house.clock.sleep(1)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)

    house.play(story)
    assert path_of(house.records[1:]) == [("cooled", "open", "half_open"), ("returned", "half_open", "open")]
    assert [probe.trial for probe in house.records[1].probes] == [True]


def test_turns_without_a_name_have_their_trials_too() -> None:
    house = House({"a": [refusal("unavailable"), ok()]}, ladder=ladder(), new_id=lambda: "")

    async def story(router: Router) -> None:
        await router.turn(BODY, session="s1")
        await house.clock.sleep(31)
        await router.turn(BODY, session="s1")

    house.play(story)
    assert house.asked == [["a", "b"], ["a"]]


# -- streams


def test_a_stream_that_begins_ends_the_trial_and_one_that_breaks_off_counts() -> None:
    down = Played([b"{}"], 503, {"content-type": "application/json"})
    begun = Played([ROLE, chunk("a "), 20, chunk("cat"), *END])
    broken = Played([ROLE, chunk("a "), 20, chunk("cat"), ConnectionResetError()])
    fine = Played([ROLE, chunk("x"), *END])
    breaker = Breaker(failures=1, cool_secs=30)

    async def reading(router: Router, clock: Any) -> None:
        async with router.stream(BODY, session="s") as stream:
            assert [event async for event in stream]
        await clock.sleep(31)
        async with router.stream(BODY, session="s") as stream:
            assert stream.served_by == "a"
            await clock.sleep(0.1)
            async with router.stream(BODY, session="s") as meanwhile:  # the trial has begun to answer
                assert meanwhile.served_by == "a"
                with pytest.raises(TurnFailed):
                    [event async for event in meanwhile]
            assert [event async for event in stream]
        async with router.stream(BODY, session="s") as stream:
            assert stream.served_by == "a"  # an answer came after that failure

    script = {"a": [down, begun, broken, fine], "b": [fine]}
    records, _ = with_stream(script, reading, breaker=breaker, max_retries=0)
    taken = path_of(records)
    assert ("answered", "half_open", "closed") in taken
    assert ("failed", "closed", "open") in taken[1:]
