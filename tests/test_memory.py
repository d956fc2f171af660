"""What a session remembers, kept in a dictionary and in a file: the same stories told of both."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memories import LARGE, NOW, SMALL, WHO, overflow, refusal, strip, stripped, using

from turnout.engine.classify.verdict import Evidence
from turnout.engine.clock import VirtualClock
from turnout.engine.context import EMPTY, Cause, Eviction, Identity
from turnout.engine.errors import ConfigurationError, MemoryTrouble
from turnout.engine.memory import from_url
from turnout.engine.memory.bounded import BoundedMemory, OnMemoryError
from turnout.engine.memory.inmemory import InMemory
from turnout.engine.memory.protocol import Change, Memory
from turnout.engine.memory.sqlite import SqliteMemory
from turnout.machines.vocabulary import ErrorKind, RoutingFallbackReason, Standing

STORES: dict[str, Callable[..., Memory]] = {
    "in memory": lambda folder, **options: InMemory(**options),
    "sqlite": lambda folder, **options: SqliteMemory(folder / "turnout.db", **options),
}

Tell = Callable[..., None]


@pytest.fixture(params=STORES)
def tell(request: pytest.FixtureRequest, tmp_path: Path) -> Tell:
    """Tells a story of a fresh memory of each kind."""

    def tell_it(story: Callable[[Memory], Coroutine[Any, Any, None]], **options: Any) -> None:
        async def tale() -> None:
            async with using(STORES[request.param](tmp_path, **options)) as memory:
                await story(memory)

        asyncio.run(tale())

    return tell_it


# -- what every memory does


def test_nothing_is_remembered_of_a_session_that_was_never_seen(tell: Tell) -> None:
    async def story(memory: Memory) -> None:
        assert await memory.read(WHO, now=NOW) == EMPTY

    tell(story)


def test_what_was_recorded_is_read_back_whole(tell: Tell) -> None:
    async def story(memory: Memory) -> None:
        for eviction in (refusal("image", "tools"), overflow(9000), refusal("audio", target=LARGE)):
            await memory.record(WHO, eviction)
        read = await memory.read(WHO, now=NOW)
        assert set(read.evictions) == {
            refusal("image", "tools"),
            overflow(9000),
            refusal("audio", target=LARGE),
        }
        assert read.standing(SMALL, "f1") is Standing.EVICTED

    tell(story)


OVERLAPPING = (
    refusal("image", turn="t1", at=NOW + 1),
    refusal("audio", "tools", turn="t2", at=NOW + 2),
    refusal("image", turn="t3", at=NOW),
)


@pytest.mark.parametrize("order", [*itertools.permutations(OVERLAPPING)])
def test_overlapping_turns_end_as_their_union_in_whatever_order_they_record(
    tell: Tell, order: tuple[Eviction, ...]
) -> None:
    async def story(memory: Memory) -> None:
        for eviction in order:
            await memory.record(WHO, eviction)
        (merged,) = (await memory.read(WHO, now=NOW + 2)).evictions
        assert merged.first == OVERLAPPING[2].first
        assert (merged.latest_turn, merged.latest_at) == ("t2", NOW + 2)
        assert merged.refused == {("image",), ("audio", "tools")}

    tell(story)


@pytest.mark.parametrize("sizes", [*itertools.permutations((9000, 7000, 8000))])
def test_the_smallest_size_that_overflowed_is_kept(tell: Tell, sizes: tuple[int, ...]) -> None:
    async def story(memory: Memory) -> None:
        for number, size in enumerate(sizes):
            await memory.record(WHO, overflow(size, turn=f"t{number}"))
        assert [e.size for e in (await memory.read(WHO, now=NOW)).evictions] == [7000]

    tell(story)


def test_turns_that_record_at_once_lose_nothing(tell: Tell) -> None:
    async def story(memory: Memory) -> None:
        records = [memory.record(WHO, refusal(f"feature{n}", turn=f"t{n}")) for n in range(50)]
        await asyncio.gather(*records)
        (merged,) = (await memory.read(WHO, now=NOW)).evictions
        assert merged.refused == {(f"feature{n}",) for n in range(50)}

    tell(story)


def test_root_agents_siblings_sessions_and_namespaces_share_nothing(tell: Tell) -> None:
    identities = [
        Identity(namespace, session, agent)
        for namespace in ("", "acme")
        for session in ("s1", "s2")
        for agent in ("", "a1", "a2")
    ]

    async def story(memory: Memory) -> None:
        for number, who in enumerate(identities):
            await memory.record(who, overflow(number))
        for number, who in enumerate(identities):
            assert (await memory.read(who, now=NOW)).evictions == (overflow(number),)

    tell(story)


HOSTILE = (
    "'; DROP TABLE eviction; --",
    '"',
    "a\0b",
    "a\0c",
    "a\nb",
    "%",
    "_",
    "é",
    "e\u0301",
    "日本語",
    "🚃",
    "\ud83d",
    "\udc80",
    "1",
    "1.0",
    " 1",
    "NULL",
    "x" * 100_000,
    "x" * 100_001,
)


def test_hostile_ids_are_kept_apart_and_forgotten_one_by_one(tell: Tell) -> None:
    async def story(memory: Memory) -> None:
        identities = [Identity(name, name, name) for name in HOSTILE]
        identities += [Identity("n", "s", name) for name in HOSTILE]
        for number, who in enumerate(identities):
            await memory.record(who, overflow(number))
        for number, who in enumerate(identities):
            assert (await memory.read(who, now=NOW)).evictions == (overflow(number),)
        for number, who in enumerate(identities[: len(HOSTILE)]):
            (change,) = await memory.forget(who.namespace, who.session, who.agent, now=NOW)
            assert change == Change(NOW, who, overflow(number), "forgotten")
        forgotten = await memory.forget("n", "s", now=NOW)
        assert {change.identity.agent for change in forgotten} == set(HOSTILE)

    tell(story)


def test_a_reconfigured_target_is_eligible_and_what_was_learnt_before_stays_beside(tell: Tell) -> None:
    async def story(memory: Memory) -> None:
        await memory.record(WHO, overflow(9000, fingerprint="before"))
        assert (await memory.read(WHO, now=NOW)).standing(SMALL, "after") is Standing.ELIGIBLE
        await memory.record(WHO, overflow(100_000, fingerprint="after"))
        read = await memory.read(WHO, now=NOW)
        assert read.of(SMALL, "before") == (overflow(9000, fingerprint="before"),)
        assert read.of(SMALL, "after") == (overflow(100_000, fingerprint="after"),)

    tell(story)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
times = st.floats(NOW, NOW + 3600)
evictions = st.builds(
    Eviction,
    target=st.sampled_from([SMALL, LARGE]),
    reason=st.sampled_from([RoutingFallbackReason.CONTEXT_WINDOW, RoutingFallbackReason.CAPABILITY]),
    fingerprint=st.sampled_from(["f1", "f2"]),
    first=st.builds(
        Cause,
        turn=texts,
        at=times,
        kind=st.sampled_from(ErrorKind),
        evidence=st.builds(Evidence, texts, texts),
        status=st.none() | st.integers(400, 599),
        code=texts,
        message=texts,
        features=st.lists(texts, max_size=3).map(tuple),
    ),
    latest_turn=texts,
    latest_at=times,
    size=st.none() | st.integers(0, 2**62),
    refused=st.frozensets(st.lists(texts, max_size=3).map(tuple), max_size=3),
    machine=texts,
)


@pytest.mark.parametrize("kind", STORES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_memory_holds_exactly_what_a_context_would(kind: str, data: st.DataObject) -> None:
    recorded = data.draw(st.lists(evictions, max_size=6))
    expected = EMPTY
    for eviction in recorded:
        expected = expected.record(eviction)

    async def story() -> None:
        async with using(STORES[kind](Path(folder))) as memory:
            for eviction in data.draw(st.permutations(recorded)):
                await memory.record(WHO, eviction)
            assert await memory.read(WHO, now=NOW + 3600) == expected

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(story())


# -- time to live


def test_a_session_is_forgotten_when_its_time_to_live_has_passed_without_use(tell: Tell) -> None:
    async def story(memory: Memory) -> None:
        await memory.record(WHO, overflow(9000))
        assert await memory.read(WHO, now=NOW + 99.5)
        assert await memory.read(WHO, now=NOW + 100) == EMPTY

    tell(story, ttl_secs=100.0)


def test_a_session_that_comes_back_after_its_time_starts_afresh(tell: Tell) -> None:
    async def story(memory: Memory) -> None:
        await memory.record(WHO, overflow(9000))
        await memory.record(WHO, refusal("image", target=LARGE))
        late = overflow(12_000, turn="t2", at=NOW + 100)
        await memory.record(WHO, late)
        assert (await memory.read(WHO, now=NOW + 100)).evictions == (late,)

    tell(story, ttl_secs=100.0)


def test_what_an_older_turn_records_late_does_not_shorten_the_time_to_live(tell: Tell) -> None:
    async def story(memory: Memory) -> None:
        await memory.record(WHO, overflow(9000, at=NOW + 50))
        await memory.record(WHO, refusal("image", at=NOW))
        assert len((await memory.read(WHO, now=NOW + 149)).evictions) == 2

    tell(story, ttl_secs=100.0)


@pytest.mark.parametrize(
    ("ttl", "used_after", "lives_until"),
    [
        pytest.param(100.0, 9.0, 100.0, id="within a tenth of it, use is not written"),
        pytest.param(100.0, 10.0, 110.0, id="after a tenth of it, it is"),
        pytest.param(86_400.0, 3599.0, 86_400.0, id="a long one within the hour: not"),
        pytest.param(86_400.0, 3600.0, 90_000.0, id="a long one after an hour: it is"),
        pytest.param(100.0, 100.0, 100.0, id="use after it has passed brings nothing back"),
    ],
)
def test_use_prolongs_the_time_to_live(tell: Tell, ttl: float, used_after: float, lives_until: float) -> None:
    async def story(memory: Memory) -> None:
        await memory.record(WHO, overflow(9000))
        await memory.touch(WHO, now=NOW + used_after)
        assert await memory.read(WHO, now=NOW + lives_until - 0.5)
        assert await memory.read(WHO, now=NOW + lives_until) == EMPTY

    tell(story, ttl_secs=ttl)


def test_use_by_an_identity_that_holds_nothing_leaves_no_trace(tell: Tell) -> None:
    async def story(memory: Memory) -> None:
        await memory.touch(WHO, now=NOW)
        assert await memory.read(WHO, now=NOW) == EMPTY
        assert await memory.forget("", "s1", now=NOW) == ()

    tell(story)


# -- how a target comes back


def test_an_eviction_is_removed_and_the_change_says_who_when_which_and_why(tell: Tell) -> None:
    async def story(memory: Memory) -> None:
        await memory.record(WHO, overflow(9000))
        await memory.record(WHO, refusal("image"))
        changes = await memory.remove(WHO, [overflow(9000)], now=NOW + 5, why="served")
        assert changes == (Change(NOW + 5, WHO, overflow(9000), "served"),)
        assert (await memory.read(WHO, now=NOW + 5)).evictions == (refusal("image"),)

    tell(story)


def test_an_eviction_that_another_turn_has_added_to_since_it_was_read_stays(tell: Tell) -> None:
    async def story(memory: Memory) -> None:
        await memory.record(WHO, overflow(9000))
        read = (await memory.read(WHO, now=NOW)).evictions
        await memory.record(WHO, overflow(8000, turn="t2", at=NOW + 1))
        assert await memory.remove(WHO, read, now=NOW + 2, why="served") == ()
        assert [e.size for e in (await memory.read(WHO, now=NOW + 2)).evictions] == [8000]

    tell(story)


def test_what_is_not_there_is_not_removed(tell: Tell) -> None:
    async def story(memory: Memory) -> None:
        assert await memory.remove(WHO, [overflow(9000)], now=NOW, why="served") == ()
        await memory.record(WHO, overflow(9000))
        assert await memory.remove(WHO, [refusal("image")], now=NOW, why="served") == ()
        assert await memory.remove(WHO, [overflow(9000)], now=NOW + 100, why="served") == ()
        assert await memory.remove(WHO, [], now=NOW, why="served") == ()

    tell(story, ttl_secs=100.0)


def test_forgetting_a_session_forgets_all_its_agents_and_no_other_session(tell: Tell) -> None:
    async def story(memory: Memory) -> None:
        family = [Identity("", "s1", agent) for agent in ("", "a1", "a2")]
        others = [Identity("", "s2"), Identity("acme", "s1", "a1")]
        for who in family + others:
            await memory.record(who, overflow(9000))
        changes = await memory.forget("", "s1", now=NOW)
        assert {(change.identity, change.why) for change in changes} == {(who, "forgotten") for who in family}
        assert [bool(await memory.read(who, now=NOW)) for who in family] == [False] * 3
        assert [bool(await memory.read(who, now=NOW)) for who in others] == [True] * 2

    tell(story)


@pytest.mark.parametrize("agent", ["", "a1"])
def test_forgetting_one_agent_leaves_the_others(tell: Tell, agent: str) -> None:
    async def story(memory: Memory) -> None:
        for name in ("", "a1", "a2"):
            await memory.record(Identity("", "s1", name), overflow(9000))
        (change,) = await memory.forget("", "s1", agent, now=NOW)
        assert change.identity == Identity("", "s1", agent)
        for name in ("", "a1", "a2"):
            assert bool(await memory.read(Identity("", "s1", name), now=NOW)) is (name != agent)

    tell(story)


def test_forgetting_what_is_not_there_changes_nothing(tell: Tell) -> None:
    async def story(memory: Memory) -> None:
        assert await memory.forget("", "s1", now=NOW) == ()
        await memory.record(WHO, overflow(9000))
        assert await memory.forget("", "s1", "a1", now=NOW) == ()
        assert await memory.read(WHO, now=NOW)

    tell(story)


def test_what_had_expired_when_its_session_was_forgotten_is_said_to_have_expired(tell: Tell) -> None:
    async def story(memory: Memory) -> None:
        await memory.record(WHO, overflow(9000))
        (change,) = await memory.forget("", "s1", now=NOW + 100)
        assert change == Change(NOW + 100, WHO, overflow(9000), "expired")
        assert await memory.forget("", "s1", now=NOW + 100) == ()

    tell(story, ttl_secs=100.0)


def test_what_is_recorded_after_a_session_was_forgotten_stands(tell: Tell) -> None:
    async def story(memory: Memory) -> None:
        await memory.record(WHO, overflow(9000))
        await memory.forget("", "s1", now=NOW)
        await memory.record(WHO, overflow(12_000, turn="t2"))
        assert (await memory.read(WHO, now=NOW)).evictions == (overflow(12_000, turn="t2"),)

    tell(story)


def test_a_target_is_restored_for_every_session_at_once(tell: Tell) -> None:
    async def story(memory: Memory) -> None:
        sessions = [Identity("", f"s{n}") for n in range(5)]
        spared = [overflow(9000, target=LARGE), overflow(9000, fingerprint="f2")]
        for who in sessions:
            for eviction in (overflow(9000), refusal("image"), *spared):
                await memory.record(who, eviction)
        await memory.record(Identity("acme", "s1"), overflow(9000))
        await memory.restore_everywhere("", SMALL, "f1")
        for who in sessions:
            assert set((await memory.read(who, now=NOW)).evictions) == set(spared)
        assert await memory.read(Identity("acme", "s1"), now=NOW)

    tell(story)


def test_what_is_recorded_after_a_restoration_stands_and_starts_afresh(tell: Tell) -> None:
    async def story(memory: Memory) -> None:
        for number in (2, 3, 4):
            await memory.record(WHO, overflow(9000, turn="t1"))
            await memory.restore_everywhere("", SMALL, "f1")
            late = overflow(12_000, turn=f"t{number}", at=NOW + number)
            await memory.record(WHO, late)
            assert (await memory.read(WHO, now=NOW + number)).evictions == (late,)

    tell(story)


def test_what_a_restoration_has_overtaken_is_not_there_to_be_removed_or_forgotten(tell: Tell) -> None:
    async def story(memory: Memory) -> None:
        await memory.record(WHO, overflow(9000))
        await memory.restore_everywhere("", SMALL, "f1")
        assert await memory.remove(WHO, [overflow(9000)], now=NOW, why="served") == ()
        assert await memory.forget("", "s1", now=NOW) == ()

    tell(story)


# -- what a target has refused of what is injected


def test_keys_that_a_target_has_refused_are_known_for_that_target_as_it_is_configured(tell: Tell) -> None:
    async def story(memory: Memory) -> None:
        assert await stripped(memory) == set()
        await strip(memory, "effort", "verbosity")
        assert await stripped(memory) == {"effort", "verbosity"}
        for elsewhere in (
            {"namespace": "acme"},
            {"target": LARGE},
            {"fingerprint": "f2"},
            {"configuration": "c2"},
        ):
            assert await stripped(memory, **elsewhere) == set()

    tell(story)


def test_keys_that_are_refused_one_after_another_add_up(tell: Tell) -> None:
    async def story(memory: Memory) -> None:
        await strip(memory, "effort")
        await strip(memory, "verbosity", at=NOW + 1)
        await strip(memory, "effort", at=NOW + 2)
        assert await stripped(memory, now=NOW + 2) == {"effort", "verbosity"}

    tell(story)


def test_turns_that_are_corrected_at_once_lose_nothing(tell: Tell) -> None:
    async def story(memory: Memory) -> None:
        await asyncio.gather(*[strip(memory, f"key{n}") for n in range(50)])
        assert await stripped(memory) == {f"key{n}" for n in range(50)}

    tell(story)


def test_what_was_learnt_under_one_configuration_is_not_dropped_by_another_in_use(tell: Tell) -> None:
    async def story(memory: Memory) -> None:
        await strip(memory, "effort", configuration="c1")
        await strip(memory, "verbosity", configuration="c2", at=NOW + 1)
        assert await stripped(memory, configuration="c1", now=NOW + 1) == {"effort"}
        assert await stripped(memory, configuration="c2", now=NOW + 1) == {"verbosity"}

    tell(story)


def test_a_refused_key_is_tried_again_when_its_time_to_live_has_passed(tell: Tell) -> None:
    async def story(memory: Memory) -> None:
        await strip(memory, "effort")
        assert await stripped(memory, now=NOW + 99.5) == {"effort"}
        assert await stripped(memory, now=NOW + 100) == set()
        await strip(memory, "verbosity", at=NOW + 100)
        assert await stripped(memory, now=NOW + 100) == {"verbosity"}

    tell(story, ttl_secs=100.0)


def test_what_is_learnt_anew_prolongs_the_time_to_live_and_what_comes_late_does_not_shorten_it(
    tell: Tell,
) -> None:
    async def story(memory: Memory) -> None:
        await strip(memory, "effort")
        await strip(memory, "verbosity", at=NOW + 50)
        await strip(memory, "store", at=NOW + 20)
        assert await stripped(memory, now=NOW + 149.5) == {"effort", "verbosity", "store"}
        assert await stripped(memory, now=NOW + 150) == set()

    tell(story, ttl_secs=100.0)


def test_namespaces_share_no_refused_keys_however_they_are_named(tell: Tell) -> None:
    async def story(memory: Memory) -> None:
        for number, name in enumerate(HOSTILE):
            await strip(memory, f"key{number}", namespace=name)
        for number, name in enumerate(HOSTILE):
            assert await stripped(memory, namespace=name) == {f"key{number}"}

    tell(story)


@pytest.mark.parametrize("first", ["restored", "stripped"])
def test_refused_keys_are_no_sessions_and_outlive_its_end_and_a_restoration(tell: Tell, first: str) -> None:
    async def story(memory: Memory) -> None:
        if first == "restored":
            await memory.restore_everywhere("", SMALL, "f1")
        await strip(memory, "effort")
        await memory.record(WHO, overflow(9000))
        assert (await memory.read(WHO, now=NOW)).evictions == (overflow(9000),)
        await memory.restore_everywhere("", SMALL, "f1")
        assert await memory.read(WHO, now=NOW) == EMPTY
        await strip(memory, "verbosity")
        assert await memory.read(WHO, now=NOW) == EMPTY
        await memory.forget("", "s1", now=NOW)
        assert await stripped(memory) == {"effort", "verbosity"}

    tell(story)


corrections = st.tuples(
    st.sampled_from(["c1", "c2", "c3"]),
    st.frozensets(st.sampled_from(["effort", "verbosity", "store", "é\0'"]), min_size=1),
    st.integers(0, 99).map(lambda secs: NOW + secs),
)


@pytest.mark.parametrize("kind", STORES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_corrections_end_as_their_union_in_whatever_order_they_are_kept(
    kind: str, data: st.DataObject
) -> None:
    made = data.draw(st.lists(corrections, max_size=6))

    async def story() -> None:
        async with using(STORES[kind](Path(folder), ttl_secs=100.0)) as memory:
            for configuration, keys, at in data.draw(st.permutations(made)):
                await strip(memory, *keys, configuration=configuration, at=at)
            for mine in ("c1", "c2", "c3"):
                keys = frozenset[str]().union(*[keys for whose, keys, _ in made if whose == mine])
                latest = max((at for whose, _, at in made if whose == mine), default=NOW)
                assert await stripped(memory, configuration=mine, now=latest + 99.5) == keys
                assert await stripped(memory, configuration=mine, now=latest + 100) == set()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(story())


def test_closing_twice_is_closing_once(tell: Tell) -> None:
    async def story(memory: Memory) -> None:
        await memory.record(WHO, overflow(9000))
        await memory.close()
        await memory.close()

    tell(story)


# -- in memory


async def kept(memory: Memory, *sessions: str) -> list[str]:
    return [session for session in sessions if await memory.read(Identity("", session), now=NOW)]


def test_when_a_dictionary_is_full_the_least_recently_used_session_goes() -> None:
    async def story() -> None:
        memory = InMemory(max_sessions=4)
        for session in ("s1", "s2", "s3", "s4"):
            await memory.record(Identity("", session), overflow(9000))
        await memory.record(Identity("", "s4", "a1"), overflow(9000))  # the same session, not a fifth
        await memory.read(Identity("", "s1"), now=NOW)
        await memory.touch(Identity("", "s2"), now=NOW)
        await memory.record(Identity("", "s3"), overflow(8000))
        await memory.record(Identity("", "s5"), overflow(9000))
        assert await memory.read(Identity("", "s4", "a1"), now=NOW) == EMPTY
        assert await kept(memory, "s1", "s2", "s3", "s4", "s5") == ["s1", "s2", "s3", "s5"]

    asyncio.run(story())


def test_a_session_that_was_forgotten_takes_no_room() -> None:
    async def story() -> None:
        memory = InMemory(max_sessions=2)
        await memory.record(Identity("", "s1"), overflow(9000))
        await memory.record(Identity("", "s2"), overflow(9000))
        await memory.forget("", "s2", now=NOW)
        await memory.record(Identity("", "s3"), overflow(9000))
        assert await kept(memory, "s1", "s3") == ["s1", "s3"]

    asyncio.run(story())


def test_when_a_dictionary_is_full_the_least_recently_used_target_is_asked_with_everything_again() -> None:
    async def story() -> None:
        memory = InMemory(max_sessions=3)
        for namespace in ("n1", "n2", "n3"):
            await strip(memory, "effort", namespace=namespace)
        await strip(memory, "verbosity", namespace="n1")
        await stripped(memory, namespace="n2")
        await strip(memory, "effort", namespace="n4")
        known = {name: await stripped(memory, namespace=name) for name in ("n1", "n2", "n3", "n4")}
        assert [name for name, keys in known.items() if keys] == ["n1", "n2", "n4"]

    asyncio.run(story())


def test_a_url_of_another_kind_of_store_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="give sqlite:PATH or memory:"):
        from_url("postgres://x", ttl_secs=1, max_sessions=1, durability="process")


# -- as one turn uses it


class Failing(InMemory):
    """A memory that fails at refused keys: it raises, or first takes an hour."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        self.error = error

    async def _fail(self) -> None:
        if self.error is None:
            await asyncio.sleep(3600)
        else:
            raise self.error

    async def stripped(self, *args: Any, **named: Any) -> frozenset[str]:
        await self._fail()
        return await super().stripped(*args, **named)

    async def strip(self, *args: Any, **named: Any) -> None:
        await self._fail()


def a_turns(
    memory: Memory, clock: VirtualClock, *, namespace: str = "", on_error: OnMemoryError = "serve"
) -> BoundedMemory:
    """The memory of a turn that belongs to no session."""
    return BoundedMemory(memory, None, clock, namespace=namespace, on_error=on_error, timeout_ms=250)


def test_a_turn_without_a_session_knows_and_keeps_what_targets_have_refused() -> None:
    clock, memory = VirtualClock(NOW), InMemory()

    async def story() -> None:
        one, other = (a_turns(memory, clock, namespace=namespace) for namespace in ("", "acme"))
        await one.strip(SMALL, "f1", "c1", frozenset({"effort"}))
        assert await one.stripped(SMALL, "f1", "c1") == {"effort"}
        assert await other.stripped(SMALL, "f1", "c1") == set()
        assert await stripped(memory, now=NOW + 86399) == {"effort"}
        assert await stripped(memory, now=NOW + 86400) == set()
        assert one.notes == other.notes == []

    clock.run(story())


FAILURES = [
    pytest.param(MemoryTrouble("memory: gone"), "memory: gone", id="it says so"),
    pytest.param(OSError("no such store"), "memory: could not {}: OSError: no such store", id="it breaks"),
    pytest.param(None, "memory: could not {}: no answer within 250 ms", id="it is slow"),
]


@pytest.mark.parametrize(("error", "said"), FAILURES)
def test_refused_keys_that_cannot_be_read_are_served_around_or_raised(
    error: Exception | None, said: str
) -> None:
    clock = VirtualClock(NOW)
    said = said.format("read what was stripped")

    async def story() -> None:
        serving, raising = (
            a_turns(Failing(error), clock, on_error=on_error) for on_error in ("serve", "raise")
        )
        assert await serving.stripped(SMALL, "f1", "c1") == set()
        assert serving.notes == [said]
        with pytest.raises(MemoryTrouble) as told:
            await raising.stripped(SMALL, "f1", "c1")
        assert str(told.value) == said

    clock.run(story())


@pytest.mark.parametrize("on_error", ["serve", "raise"])
@pytest.mark.parametrize(("error", "said"), FAILURES)
def test_refused_keys_that_cannot_be_kept_are_a_note_and_nothing_more(
    error: Exception | None, said: str, on_error: OnMemoryError
) -> None:
    clock = VirtualClock(NOW)

    async def story() -> None:
        memory = a_turns(Failing(error), clock, on_error=on_error)
        await memory.strip(SMALL, "f1", "c1", frozenset({"effort"}))
        assert memory.notes == [said.format("keep what was stripped")]

    clock.run(story())
