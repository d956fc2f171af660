"""What a session remembers: the stories that every memory has to pass, and what is of one kind only."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memories import LARGE, NOW, SMALL, WHO, everyone, overflow, strip, stripped, sweep, using

from turnout.engine.classify.verdict import Evidence
from turnout.engine.clock import VirtualClock
from turnout.engine.context import EMPTY, Cause, Eviction, Identity
from turnout.engine.errors import ConfigurationError, MemoryTrouble
from turnout.engine.memory import from_url, inmemory, sweeping
from turnout.engine.memory.bounded import BoundedMemory, OnMemoryError
from turnout.engine.memory.ids import kept_id, kept_namespace, shown_id
from turnout.engine.memory.inmemory import InMemory
from turnout.engine.memory.keeper import Keeper
from turnout.engine.memory.protocol import Memory
from turnout.engine.memory.sqlite import SqliteMemory
from turnout.engine.testing.conformance import HOSTILE, MemoryConformance
from turnout.machines.vocabulary import ErrorKind, RoutingFallbackReason


class TestInMemory(MemoryConformance):
    async def open(self, **options: Any) -> Memory:
        return InMemory(**options)


class TestSqlite(MemoryConformance):
    shared = True

    @pytest.fixture(autouse=True)
    def _fresh(self, tmp_path: Path) -> None:
        self.file = tmp_path / "turnout.db"

    async def open(self, **options: Any) -> Memory:
        return SqliteMemory(self.file, **options)


STORES: dict[str, Callable[..., Memory]] = {
    "in memory": lambda folder, **options: InMemory(**options),
    "sqlite": lambda folder, **options: SqliteMemory(folder / "turnout.db", **options),
}


# -- in whatever order it comes


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


# -- ids as they are kept


def test_an_id_of_up_to_128_bytes_is_kept_as_it_is() -> None:
    for text in ("", "s1", "a\0b", "é" * 64, "x" * 128):
        assert kept_id(text) == kept_namespace(text) == text


def test_an_id_takes_at_most_128_bytes_and_what_is_shown_of_it_is_kept_the_same() -> None:
    for text in (*HOSTILE, "x" * 2**20):
        kept = kept_id(text)
        assert len(kept if isinstance(kept, bytes) else kept.encode()) <= 128
        assert kept_id(shown_id(kept)) == kept
        assert shown_id(kept).isprintable() or shown_id(kept) == text


def test_ids_and_namespaces_that_differ_are_kept_differently() -> None:
    digests = {shown_id(kept_id(text)) for text in HOSTILE}
    assert len({kept_id(text) for text in HOSTILE}) == len(HOSTILE)
    names = {*HOSTILE, *digests}
    assert len({kept_namespace(text) for text in names}) == len(names)


@pytest.mark.parametrize("digits", ["", "0" * 63, "0" * 65, "G" * 64, "A" * 64, "0" * 64 + "\n"])
def test_only_a_digest_is_taken_for_one(digits: str) -> None:
    assert kept_id(f"sha256:{digits}") == f"sha256:{digits}"


# -- in memory


def told(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(story())


def test_a_list_goes_on_where_it_was_however_many_have_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inmemory._Roll, "_BLOCK", 4)

    async def story() -> None:
        memory = InMemory()
        for number in range(50):
            await memory.record(Identity("", f"s{number}"), overflow(number))
        for number in range(50):
            if number % 10:
                await memory.forget("", f"s{number}", now=NOW)
        for most in (1, 2, 100):
            found = await everyone(memory, most=most)
            assert [held.identity.session for held in found] == ["s0", "s10", "s20", "s30", "s40"]

    told(story)


def test_a_namespace_that_holds_nothing_takes_no_room() -> None:
    async def story() -> None:
        memory = InMemory(ttl_secs=100.0)
        for number in range(100):
            await memory.record(Identity(f"n{number}", "s1"), overflow(9000))
            await memory.forget(f"n{number}", "s1", now=NOW)
            await sweep(memory, f"n{number}", now=NOW)
        assert not memory._spaces

    told(story)


def test_a_namespaces_least_recently_used_target_is_asked_with_everything_again() -> None:
    async def story() -> None:
        memory = InMemory(max_sessions=3)
        await strip(memory, "effort", namespace="other", target="t1")
        for target in ("t1", "t2", "t3"):
            await strip(memory, "effort", target=target)
        await strip(memory, "verbosity", target="t1")
        await stripped(memory, target="t2")
        await strip(memory, "effort", target="t4")
        known = {name: await stripped(memory, target=name) for name in ("t1", "t2", "t3", "t4")}
        assert [name for name, keys in known.items() if keys] == ["t1", "t2", "t4"]
        assert await stripped(memory, namespace="other", target="t1") == {"effort"}

    told(story)


# -- more to crowd out than a pass remembers


@pytest.mark.parametrize("kind", STORES)
def test_passes_follow_each_other_until_no_session_is_too_many(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping, "MOST_VICTIMS", 3)

    async def story() -> None:
        async with using(STORES[kind](tmp_path, max_sessions=2)) as memory:
            for number in range(12):
                await memory.record(Identity("", f"s{number}"), overflow(9000, at=NOW + number * 7 % 12))
            changes = await sweep(memory, now=NOW + 20, most=5)
            assert [change.eviction.latest_at for change in changes] == [NOW + age for age in range(10)]

    told(story)


def test_of_those_used_at_the_same_time_the_first_is_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "MOST_VICTIMS", 3)
    oldest: sweeping.Oldest[str] = sweeping.Oldest()
    for last_use, who in ((2.0, "a"), (1.0, "b"), (2.0, "c"), (1.0, "d"), (2.0, "e")):
        oldest.add(last_use, who)
    assert oldest.in_order() == [(1.0, "b"), (1.0, "d"), (2.0, "a")]


def test_a_url_of_another_kind_of_store_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="names no store"):
        from_url("postgres://x", ttl_secs=1, max_sessions=1, durability="process")


def test_a_url_says_how_many_sessions_are_kept(tmp_path: Path) -> None:
    async def story() -> None:
        for url in ("memory:", f"sqlite:{tmp_path}/turnout.db"):
            async with using(from_url(url, ttl_secs=100, max_sessions=1, durability="process")) as memory:
                for session in ("s1", "s2"):
                    await memory.record(Identity("", session), overflow(9000))
                assert len(await sweep(memory, now=NOW)) == 1

    told(story)


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
    keeper = Keeper(memory, clock, timeout_ms=250)
    return BoundedMemory(keeper, None, clock, namespace=namespace, on_error=on_error)


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
