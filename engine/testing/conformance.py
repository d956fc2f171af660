"""What every memory does, as stories that a store of your own has to pass.

    class TestMine(MemoryConformance):
        shared = True

        @pytest.fixture(autouse=True)
        def _fresh(self, tmp_path):
            self.folder = tmp_path

        async def open(self, **options):
            return MyMemory(self.folder, **options)

pytest collects one test a story, and says more of one that fails if the file that runs first
(`conftest.py`) has `pytest.register_assert_rewrite("turnout.engine.testing.conformance")`. Nothing
here needs pytest: each story is a method that runs a loop of its own.
"""

# ruff: noqa: S101 - to assert is what a story is for

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack
from hashlib import sha256
from typing import Any, Final

from turnout.engine.classify.verdict import Evidence
from turnout.engine.context import EMPTY, Cause, Eviction, Identity, SessionContext
from turnout.engine.errors import MemoryTrouble
from turnout.engine.habits import NO_HABITS, Habits, Home, Place, Scale
from turnout.engine.health import WELL, Breaker, Health, answered, failed, tried
from turnout.engine.memory.protocol import Change, Held, Memory
from turnout.machines.vocabulary import ErrorKind, RoutingFallbackReason, Standing

NOW: Final = 1_767_225_600.0
WHO: Final = Identity("", "s1")
SMALL: Final = "small"
LARGE: Final = "large"


def refusal(
    *features: str, turn: str = "t1", at: float = NOW, target: str = SMALL, fingerprint: str = "f1"
) -> Eviction:
    """A target that was evicted because it refused these features."""
    return Eviction(
        target,
        RoutingFallbackReason.CAPABILITY,
        fingerprint,
        first=Cause(
            turn, at, ErrorKind.CAPABILITY, Evidence("says so", "error.message"), 400, features=features
        ),
        latest_turn=turn,
        latest_at=at,
        refused=frozenset({features}),
    )


def overflow(
    size: int | None, turn: str = "t1", at: float = NOW, target: str = SMALL, fingerprint: str = "f1"
) -> Eviction:
    """A target that was evicted because the conversation did not fit."""
    return Eviction(
        target,
        RoutingFallbackReason.CONTEXT_WINDOW,
        fingerprint,
        first=Cause(turn, at, ErrorKind.CONTEXT_WINDOW, Evidence("code", "error.code"), 400, "too_long"),
        latest_turn=turn,
        latest_at=at,
        size=size,
    )


async def strip(
    memory: Memory,
    *keys: str,
    namespace: str = "",
    target: str = SMALL,
    fingerprint: str = "f1",
    configuration: str = "c1",
    at: float = NOW,
) -> None:
    """Keep that a target has refused these keys."""
    await memory.strip(namespace, target, fingerprint, configuration, frozenset(keys), now=at)


async def stripped(
    memory: Memory,
    *,
    namespace: str = "",
    target: str = SMALL,
    fingerprint: str = "f1",
    configuration: str = "c1",
    now: float = NOW,
) -> frozenset[str]:
    """The keys that a target is known to refuse."""
    return await memory.stripped(namespace, target, fingerprint, configuration, now=now)


async def everyone(
    memory: Memory, namespace: str = "", session: str | None = None, *, now: float = NOW, most: int = 1000
) -> list[Held]:
    """All that a memory lists, page after page."""
    found: list[Held] = []
    cursor = ""
    for _ in range(10_000):
        page, cursor = await memory.held(namespace, session, now=now, cursor=cursor, most=most)
        found += page
        if not cursor:
            return found
    raise AssertionError("the list has no end")


async def sweep(memory: Memory, namespace: str = "", *, now: float, most: int = 1000) -> list[Change]:
    """A whole pass; all that it removed."""
    changes: list[Change] = []
    for _ in range(10_000):
        some, more = await memory.sweep(namespace, now=now, most=most)
        changes += some
        if not more:
            return changes
    raise AssertionError("the pass has no end")


async def kept(memory: Memory, identities: Iterable[Identity], *, now: float = NOW) -> list[str]:
    """The sessions of which something is remembered."""
    return [who.session for who in identities if await memory.read(who, now=now)]


def home(target: str = SMALL, at: float = NOW, *, last: str = "", moves: int = 0, route: str = "r") -> Habits:
    """A session that is at home with a target, and was served by another last."""
    return Habits(
        {route: Home(Place(target, "f1", NOW), Place(last or target, "f1", at), moves)}, Scale(1.25, at)
    )


async def habits_of(memory: Memory, who: Identity = WHO, *, now: float = NOW) -> Habits:
    return (await memory.read(who, now=now)).habits


def failing(at: float, turn: str = "t1") -> Callable[[Health], Health]:
    """A probe that failed, of a target that cools after two."""
    cause = Cause(turn, at, ErrorKind.UNAVAILABLE, Evidence("status", "status"), 503)
    breaker = Breaker(failures=2, cool_secs=10.0)
    return lambda health: failed(health, breaker, cause, wait=None, now=at).health


async def evictions_of(memory: Memory, who: Identity = WHO, *, now: float = NOW) -> tuple[Eviction, ...]:
    return (await memory.read(who, now=now)).evictions


def sessions(count: int, namespace: str = "") -> list[Identity]:
    return [Identity(namespace, f"s{number}") for number in range(1, count + 1)]


HOSTILE: Final = (
    "'; DROP TABLE eviction; --",
    '"',
    "\\",
    "a\0b",
    "a\0c",
    "a\0",
    "a",
    "A",
    "a\nb",
    "a\r\nb",
    "a:b",
    "a:b:",
    "{a}",
    "{a}:b",
    "}{",
    "{}",
    "%",
    "%s",
    "_",
    "*",
    "[a]",
    "?",
    "é",
    "e\u0301",
    "日本語",
    "🚃",
    "\ud83d",
    "\udc80",
    "\ud83d\ude83",
    "\ud83d".encode("utf-8", "backslashreplace").decode(),
    "1",
    "1.0",
    "01",
    " 1",
    "1 ",
    "NULL",
    "None",
    "../../etc/passwd",
    "x" * 127,
    "x" * 128,
    "x" * 129,
    "é" * 64,
    "é" * 65,
    "x" * 100_000,
    "x" * 100_001,
    "y" + "x" * 100_000,
    "\udc80" * 43,
)
"""Ids that callers may choose. No two are the same."""

OVERLAPPING: Final = (
    refusal("image", turn="t1", at=NOW + 1),
    refusal("audio", "tools", turn="t2", at=NOW + 2),
    refusal("image", turn="t3", at=NOW),
)


def story(
    *, handles: int = 1, **options: Any
) -> Callable[[Callable[..., Coroutine[Any, Any, None]]], Callable[[MemoryConformance], None]]:
    """A story as a test: told of a memory with these options, or of so many handles on one store."""

    def told(tale: Callable[..., Coroutine[Any, Any, None]]) -> Callable[[MemoryConformance], None]:
        def test(self: MemoryConformance) -> None:
            async def tell() -> None:
                async with AsyncExitStack() as closing:
                    opened: list[Memory] = []
                    for _ in range(handles if self.shared else 1):
                        opened.append(await self.open(**options))
                        closing.push_async_callback(opened[-1].close)
                    await tale(self, *itertools.islice(itertools.cycle(opened), handles))

            asyncio.run(tell())

        # not functools.wraps: pytest would take the memory for a fixture
        test.__name__, test.__qualname__, test.__doc__ = tale.__name__, tale.__qualname__, tale.__doc__
        return test

    return told


class MemoryConformance:
    """The stories. Say in a subclass how your store is opened."""

    shared: bool = False
    """Whether what is opened again within one story is another handle on the same store."""

    async def open(self, *, ttl_secs: float = 86400.0, max_sessions: int = 1_000_000) -> Memory:
        """Open the store; empty, if it is the first time in this story."""
        raise NotImplementedError

    # -- what is recorded

    @story()
    async def test_nothing_is_remembered_of_a_session_that_was_never_seen(self, memory: Memory) -> None:
        assert await memory.read(WHO, now=NOW) == EMPTY

    @story()
    async def test_what_was_recorded_is_read_back_whole(self, memory: Memory) -> None:
        recorded = {refusal("image", "tools"), overflow(9000), refusal("audio", target=LARGE)}
        for eviction in recorded:
            await memory.record(WHO, eviction)
        read = await memory.read(WHO, now=NOW)
        assert set(read.evictions) == recorded
        assert read.standing(SMALL, "f1") is Standing.EVICTED

    @story()
    async def test_the_words_of_a_provider_are_kept_as_they_are(self, memory: Memory) -> None:
        words = "'; -- \\ \" {} %s \0 \n\t é 日本語 🚃 \u2028"
        eviction = Eviction(
            "a/b:c-d_e.f",
            RoutingFallbackReason.CAPABILITY,
            "f1",
            first=Cause(
                words,
                NOW + 0.1,
                ErrorKind.CAPABILITY,
                Evidence(words, words),
                None,
                words,
                words * 20,
                (words,),
            ),
            latest_turn=words,
            latest_at=NOW + 0.123456,
            size=2**53,
            refused=frozenset({(words,), (), ("image", words)}),
            machine="another machine",
        )
        await memory.record(WHO, eviction)
        assert await evictions_of(memory, now=NOW + 1) == (eviction,)

    @story(handles=2)
    async def test_what_one_handle_records_the_other_reads(self, one: Memory, other: Memory) -> None:
        assert await other.read(WHO, now=NOW) == EMPTY
        await one.record(WHO, overflow(9000))
        assert await evictions_of(other) == (overflow(9000),)
        await other.record(WHO, overflow(8000, turn="t2", at=NOW + 1))
        assert [e.size for e in await evictions_of(one)] == [8000]

    @story(handles=2)
    async def test_overlapping_turns_end_as_their_union_in_whatever_order_they_record(
        self, one: Memory, other: Memory
    ) -> None:
        for number, order in enumerate(itertools.permutations(OVERLAPPING)):
            who = Identity("", f"s{number}")
            for memory, eviction in zip((one, other, one), order, strict=True):
                await memory.record(who, eviction)
            (merged,) = await evictions_of(other, who, now=NOW + 2)
            assert merged.first == OVERLAPPING[2].first
            assert (merged.latest_turn, merged.latest_at) == ("t2", NOW + 2)
            assert merged.refused == {("image",), ("audio", "tools")}

    @story()
    async def test_the_smallest_size_that_overflowed_is_kept(self, memory: Memory) -> None:
        for number, sizes in enumerate(itertools.permutations((9000, 7000, None, 8000))):
            who = Identity("", f"s{number}")
            for turn, size in enumerate(sizes):
                await memory.record(who, overflow(size, turn=f"t{turn}"))
            assert [e.size for e in await evictions_of(memory, who)] == [7000]

    @story()
    async def test_each_set_of_refused_features_is_kept_and_none_twice(self, memory: Memory) -> None:
        for features in (("image",), ("audio", "tools"), ("image",), ("image", "tools")):
            await memory.record(WHO, refusal(*features))
        (merged,) = await evictions_of(memory)
        assert merged.refused == {("image",), ("audio", "tools"), ("image", "tools")}

    @story()
    async def test_the_first_cause_stays_when_the_same_is_recorded_again_later(self, memory: Memory) -> None:
        await memory.record(WHO, overflow(9000))
        await memory.record(WHO, overflow(9500, turn="t2", at=NOW + 60))
        (merged,) = await evictions_of(memory, now=NOW + 60)
        assert merged.first == overflow(9000).first
        assert (merged.size, merged.latest_turn, merged.latest_at) == (9000, "t2", NOW + 60)

    @story()
    async def test_a_target_may_be_out_for_two_reasons(self, memory: Memory) -> None:
        await memory.record(WHO, overflow(9000))
        await memory.record(WHO, refusal("image"))
        assert set(await evictions_of(memory)) == {overflow(9000), refusal("image")}

    @story(handles=2)
    async def test_turns_that_record_at_once_lose_nothing(self, one: Memory, other: Memory) -> None:
        both = itertools.cycle((one, other))
        records = [next(both).record(WHO, refusal(f"feature{n}", turn=f"t{n}")) for n in range(50)]
        await asyncio.gather(*records)
        (merged,) = await evictions_of(one)
        assert merged.refused == {(f"feature{n}",) for n in range(50)}

    @story(handles=2)
    async def test_sessions_that_record_at_once_do_not_mix(self, one: Memory, other: Memory) -> None:
        many, both = sessions(50), itertools.cycle((one, other))
        await asyncio.gather(*[next(both).record(who, overflow(n)) for n, who in enumerate(many)])
        for number, who in enumerate(many):
            assert await evictions_of(one, who) == (overflow(number),)

    @story()
    async def test_the_same_recorded_twice_is_recorded_once(self, memory: Memory) -> None:
        for _ in range(2):
            await memory.record(WHO, refusal("image"))
            await memory.record(WHO, overflow(9000))
        assert set(await evictions_of(memory)) == {refusal("image"), overflow(9000)}

    @story()
    async def test_root_agents_siblings_sessions_and_namespaces_share_nothing(self, memory: Memory) -> None:
        parts = itertools.product(("", "acme"), ("s1", "s2"), ("", "a1", "a2"))
        identities = [Identity(*part) for part in parts]
        for number, who in enumerate(identities):
            await memory.record(who, overflow(number))
        for number, who in enumerate(identities):
            assert await evictions_of(memory, who) == (overflow(number),)

    @story()
    async def test_a_reconfigured_target_is_eligible_and_what_was_learnt_before_stays_beside(
        self, memory: Memory
    ) -> None:
        await memory.record(WHO, overflow(9000, fingerprint="before"))
        assert (await memory.read(WHO, now=NOW)).standing(SMALL, "after") is Standing.ELIGIBLE
        await memory.record(WHO, overflow(100_000, fingerprint="after"))
        read = await memory.read(WHO, now=NOW)
        assert read.of(SMALL, "before") == (overflow(9000, fingerprint="before"),)
        assert read.of(SMALL, "after") == (overflow(100_000, fingerprint="after"),)

    @story()
    async def test_a_session_may_hold_two_hundred_targets(self, memory: Memory) -> None:
        many = {refusal("image", target=f"target/{n}", turn=f"t{n}", at=NOW + n) for n in range(200)}
        for eviction in many:
            await memory.record(WHO, eviction)
        assert set(await evictions_of(memory, now=NOW + 200)) == many
        (held,) = await everyone(memory, now=NOW + 200)
        assert set(held.evictions) == many
        gone = tuple(e for e in many if e.latest_at < NOW + 100)
        assert len(await memory.remove(WHO, gone, now=NOW + 200, why="restored")) == 100
        changes = await memory.forget("", "s1", now=NOW + 200)
        assert {change.eviction for change in changes} == many.difference(gone)

    # -- ids, which callers choose

    async def _kept_apart(self, memory: Memory, identities: Sequence[Identity]) -> None:
        for number, who in enumerate(identities):
            await memory.record(who, overflow(number))
        for number, who in enumerate(identities):
            assert await evictions_of(memory, who) == (overflow(number),)

    @story()
    async def test_sessions_are_kept_apart_whatever_they_are_called(self, memory: Memory) -> None:
        await self._kept_apart(memory, [Identity("", name) for name in HOSTILE])

    @story()
    async def test_agents_are_kept_apart_whatever_they_are_called(self, memory: Memory) -> None:
        await self._kept_apart(memory, [Identity("", "s1", name) for name in ("", *HOSTILE)])

    @story()
    async def test_namespaces_are_kept_apart_whatever_they_are_called(self, memory: Memory) -> None:
        names = ("", *HOSTILE)
        await self._kept_apart(memory, [Identity(name, "s1", "a1") for name in names])
        for number, name in enumerate(names):
            assert [held.evictions for held in await everyone(memory, name)] == [(overflow(number),)]

    @story()
    async def test_no_id_reaches_into_the_next(self, memory: Memory) -> None:
        cuts = [
            Identity(*split)
            for mark in ("\0", ":", "/", "|", "\n", "}", "}:{", "\x1f", '","')
            for split in (
                ("a", "b", f"c{mark}d"),
                ("a", f"b{mark}c", "d"),
                (f"a{mark}b", "c", "d"),
                ("a", f"b{mark}c{mark}d", ""),
            )
        ]
        await self._kept_apart(memory, cuts)
        for who in cuts:
            assert len(await memory.forget(who.namespace, who.session, who.agent, now=NOW)) == 1

    @story()
    async def test_hostile_sessions_are_forgotten_one_by_one(self, memory: Memory) -> None:
        for number, name in enumerate(HOSTILE):
            await memory.record(Identity(name, name, name), overflow(number))
        for number, name in enumerate(HOSTILE):
            (change,) = await memory.forget(name, name, now=NOW)
            assert change.eviction == overflow(number)
            assert change.identity.namespace == name

    @story()
    async def test_hostile_agents_are_forgotten_with_their_session(self, memory: Memory) -> None:
        for name in HOSTILE:
            await memory.record(Identity("", "s1", name), overflow(9000))
        assert len(await memory.forget("", "s1", now=NOW)) == len(HOSTILE)
        assert await everyone(memory) == []

    @story()
    async def test_every_hostile_id_is_listed_once_whatever_the_size_of_a_page(self, memory: Memory) -> None:
        for number, name in enumerate(HOSTILE):
            await memory.record(Identity("", name, name), overflow(number))
        for most in (1, 7, 1000):
            found = [e.size for held in await everyone(memory, most=most) for e in held.evictions]
            assert sorted(map(str, found)) == sorted(map(str, range(len(HOSTILE))))

    @story()
    async def test_an_id_of_a_megabyte_takes_no_more_room_than_one_of_128_bytes(self, memory: Memory) -> None:
        long = "x" * 2**20
        await memory.record(Identity("", long, long), overflow(9000))
        assert await evictions_of(memory, Identity("", long, long)) == (overflow(9000),)
        (held,) = await everyone(memory)
        assert len(held.identity.session.encode()) <= 128
        assert len(held.identity.agent.encode()) <= 128

    @story()
    async def test_a_long_id_is_shown_as_its_digest_and_may_be_named_so(self, memory: Memory) -> None:
        long = "x" * 1000
        shown = Identity("", f"sha256:{sha256(long.encode()).hexdigest()}")
        await memory.record(Identity("", long), overflow(9000))
        (held,) = await everyone(memory)
        assert held.identity == shown
        assert await evictions_of(memory, shown) == (overflow(9000),)
        await memory.record(shown, overflow(8000, turn="t2"))
        assert [e.size for e in await evictions_of(memory, Identity("", long))] == [8000]
        assert [held.identity for held in await everyone(memory, "", long)] == [shown]
        assert [c.identity for c in await memory.forget("", long, now=NOW)] == [shown]
        await memory.record(Identity("", long), overflow(9000))
        (change,) = await memory.remove(Identity("", long), [overflow(9000)], now=NOW, why="served")
        assert change.identity == shown

    @story()
    async def test_no_namespace_is_reached_by_its_digest(self, memory: Memory) -> None:
        long = "x" * 1000
        await memory.record(Identity(long, "s1"), overflow(9000))
        digest = f"sha256:{sha256(long.encode()).hexdigest()}"
        assert await memory.read(Identity(digest, "s1"), now=NOW) == EMPTY
        assert await everyone(memory, digest) == []
        assert await memory.forget(digest, "s1", now=NOW) == ()
        assert await evictions_of(memory, Identity(long, "s1")) == (overflow(9000),)

    # -- time to live

    @story(ttl_secs=100.0)
    async def test_a_session_is_forgotten_when_its_time_to_live_has_passed_without_use(
        self, memory: Memory
    ) -> None:
        await memory.record(WHO, overflow(9000))
        assert await memory.read(WHO, now=NOW + 99.5)
        assert await memory.read(WHO, now=NOW + 100) == EMPTY

    @story(ttl_secs=100.0)
    async def test_a_session_that_comes_back_after_its_time_starts_afresh(self, memory: Memory) -> None:
        await memory.record(WHO, overflow(9000))
        await memory.record(WHO, refusal("image", target=LARGE))
        late = overflow(12_000, turn="t2", at=NOW + 100)
        await memory.record(WHO, late)
        assert await evictions_of(memory, now=NOW + 100) == (late,)

    @story(ttl_secs=100.0)
    async def test_what_an_older_turn_records_late_does_not_shorten_the_time_to_live(
        self, memory: Memory
    ) -> None:
        await memory.record(WHO, overflow(9000, at=NOW + 50))
        await memory.record(WHO, refusal("image", at=NOW))
        assert len(await evictions_of(memory, now=NOW + 149)) == 2
        assert await memory.read(WHO, now=NOW + 150) == EMPTY

    @story(ttl_secs=100.0)
    async def test_another_eviction_prolongs_the_time_to_live_of_all(self, memory: Memory) -> None:
        await memory.record(WHO, overflow(9000))
        await memory.record(WHO, refusal("image", target=LARGE, at=NOW + 50))
        assert len(await evictions_of(memory, now=NOW + 149)) == 2

    @story(ttl_secs=100.0)
    async def test_an_eviction_that_is_older_than_the_last_use_lives_as_long_as_the_session(
        self, memory: Memory
    ) -> None:
        await memory.record(WHO, overflow(9000, at=NOW - 300), used=NOW)
        assert await memory.record(WHO, refusal("image", target=LARGE, at=NOW - 200), used=NOW) == ()
        assert len(await evictions_of(memory, now=NOW + 99.5)) == 2
        assert [held.last_use for held in await everyone(memory)] == [NOW]
        assert await memory.read(WHO, now=NOW + 100) == EMPTY

    @story(ttl_secs=100.0)
    async def test_an_earlier_use_that_is_told_late_does_not_shorten_the_time_to_live(
        self, memory: Memory
    ) -> None:
        await memory.record(WHO, overflow(9000, at=NOW))
        await memory.record(WHO, refusal("image", target=LARGE, at=NOW - 300), used=NOW - 250)
        assert len(await evictions_of(memory, now=NOW + 99.5)) == 2

    @story(ttl_secs=100.0)
    async def test_what_had_expired_by_the_time_of_the_use_that_is_told_goes(self, memory: Memory) -> None:
        await memory.record(WHO, overflow(9000, at=NOW))
        old = refusal("image", target=LARGE, at=NOW - 300)
        gone = await memory.record(WHO, old, used=NOW + 100)
        assert list(gone) == [Change(NOW + 100, WHO, overflow(9000, at=NOW), "expired")]
        assert await evictions_of(memory, now=NOW + 100) == (old,)

    async def _use(self, memory: Memory, used_after: float, lives_for: float) -> None:
        await memory.record(WHO, overflow(9000))
        await memory.touch(WHO, now=NOW + used_after)
        assert await memory.read(WHO, now=NOW + lives_for - 0.5)
        assert await memory.read(WHO, now=NOW + lives_for) == EMPTY

    @story(ttl_secs=100.0)
    async def test_use_within_a_tenth_of_the_time_to_live_is_not_written(self, memory: Memory) -> None:
        await self._use(memory, 9.0, lives_for=100.0)

    @story(ttl_secs=100.0)
    async def test_use_after_a_tenth_of_the_time_to_live_prolongs_it(self, memory: Memory) -> None:
        await self._use(memory, 10.0, lives_for=110.0)

    @story(ttl_secs=86_400.0)
    async def test_use_within_the_hour_is_not_written(self, memory: Memory) -> None:
        await self._use(memory, 3599.0, lives_for=86_400.0)

    @story(ttl_secs=86_400.0)
    async def test_use_after_an_hour_prolongs_a_long_time_to_live(self, memory: Memory) -> None:
        await self._use(memory, 3600.0, lives_for=90_000.0)

    @story(ttl_secs=100.0)
    async def test_use_after_the_time_to_live_brings_nothing_back(self, memory: Memory) -> None:
        await self._use(memory, 100.0, lives_for=100.0)

    @story(ttl_secs=100.0)
    async def test_use_prolongs_nobody_elses_time_to_live(self, memory: Memory) -> None:
        family = [Identity("", "s1", agent) for agent in ("", "a1", "a2")]
        for who in family:
            await memory.record(who, overflow(9000))
        await memory.touch(family[1], now=NOW + 50)
        assert [bool(await memory.read(who, now=NOW + 120)) for who in family] == [False, True, False]

    @story()
    async def test_use_by_an_identity_that_holds_nothing_leaves_no_trace(self, memory: Memory) -> None:
        await memory.touch(WHO, now=NOW)
        assert await memory.read(WHO, now=NOW) == EMPTY
        assert await everyone(memory) == []
        assert await memory.forget("", "s1", now=NOW) == ()

    @story(handles=2, ttl_secs=100.0)
    async def test_use_told_to_one_handle_counts_for_the_other(self, one: Memory, other: Memory) -> None:
        await one.record(WHO, overflow(9000))
        await other.touch(WHO, now=NOW + 60)
        assert await one.read(WHO, now=NOW + 150)

    # -- an eviction is removed

    @story()
    async def test_an_eviction_is_removed_and_the_change_says_who_when_which_and_why(
        self, memory: Memory
    ) -> None:
        who = Identity("acme", "s1", "a1")
        await memory.record(who, overflow(9000))
        await memory.record(who, refusal("image"))
        changes = await memory.remove(who, [overflow(9000)], now=NOW + 5, why="served")
        assert changes == (Change(NOW + 5, who, overflow(9000), "served"),)
        assert await evictions_of(memory, who, now=NOW + 5) == (refusal("image"),)

    @story(handles=2)
    async def test_an_eviction_that_another_turn_has_added_to_since_it_was_read_stays(
        self, one: Memory, other: Memory
    ) -> None:
        await one.record(WHO, overflow(9000))
        read = await evictions_of(one)
        await other.record(WHO, overflow(8000, turn="t2", at=NOW + 1))
        assert await one.remove(WHO, read, now=NOW + 2, why="served") == ()
        assert [e.size for e in await evictions_of(one, now=NOW + 2)] == [8000]

    @story(handles=2)
    async def test_a_new_eviction_stands_whoever_comes_first_it_or_a_removal(
        self, one: Memory, other: Memory
    ) -> None:
        for number, who in enumerate(sessions(20)):
            await one.record(who, overflow(9000))
            racing = [
                one.remove(who, [overflow(9000)], now=NOW + 1, why="restored"),
                other.record(who, overflow(8000, turn="t2", at=NOW + 1)),
            ]
            await asyncio.gather(*(racing if number % 2 else reversed(racing)))
            assert [e.latest_turn for e in await evictions_of(one, who, now=NOW + 1)] == ["t2"]

    @story(ttl_secs=100.0)
    async def test_what_is_not_there_is_not_removed(self, memory: Memory) -> None:
        assert await memory.remove(WHO, [overflow(9000)], now=NOW, why="served") == ()
        await memory.record(WHO, overflow(9000))
        assert await memory.remove(WHO, [refusal("image")], now=NOW, why="served") == ()
        assert await memory.remove(WHO, [overflow(9000)], now=NOW + 100, why="served") == ()
        assert await memory.remove(WHO, [], now=NOW, why="served") == ()

    @story(handles=2)
    async def test_of_two_removals_at_once_one_tells(self, one: Memory, other: Memory) -> None:
        await one.record(WHO, overflow(9000))
        removals = [memory.remove(WHO, [overflow(9000)], now=NOW, why="served") for memory in (one, other)]
        told = await asyncio.gather(*removals)
        assert sorted(map(len, told)) == [0, 1]

    @story()
    async def test_whose_last_eviction_goes_holds_nothing(self, memory: Memory) -> None:
        await memory.record(WHO, overflow(9000))
        await memory.record(WHO, refusal("image"))
        await memory.remove(WHO, [overflow(9000)], now=NOW, why="served")
        assert [held.evictions for held in await everyone(memory)] == [(refusal("image"),)]
        await memory.remove(WHO, [refusal("image")], now=NOW, why="served")
        assert await everyone(memory) == []

    @story()
    async def test_a_target_that_is_restored_as_it_is_stays_out_as_it_was(self, memory: Memory) -> None:
        await memory.record(WHO, overflow(9000, fingerprint="before"))
        await memory.record(WHO, overflow(9000, fingerprint="after"))
        await memory.remove(WHO, [overflow(9000, fingerprint="after")], now=NOW, why="restored")
        assert await evictions_of(memory) == (overflow(9000, fingerprint="before"),)

    # -- a session is forgotten

    @story()
    async def test_forgetting_a_session_forgets_all_its_agents_and_no_other_session(
        self, memory: Memory
    ) -> None:
        family = [Identity("", "s1", agent) for agent in ("", "a1", "a2")]
        others = [Identity("", "s2"), Identity("acme", "s1", "a1")]
        for who in family + others:
            await memory.record(who, overflow(9000))
        changes = await memory.forget("", "s1", now=NOW + 7)
        assert sorted(change.identity for change in changes) == family
        assert {(change.at, change.eviction, change.why) for change in changes} == {
            (NOW + 7, overflow(9000), "forgotten")
        }
        assert [bool(await memory.read(who, now=NOW)) for who in family] == [False] * 3
        assert [bool(await memory.read(who, now=NOW)) for who in others] == [True] * 2

    @story()
    async def test_forgetting_one_agent_leaves_the_others(self, memory: Memory) -> None:
        for session, agent in (("s1", ""), ("s2", "a1")):
            family = [Identity("", session, name) for name in ("", "a1", "a2")]
            for who in family:
                await memory.record(who, overflow(9000))
            (change,) = await memory.forget("", session, agent, now=NOW)
            assert change.identity == Identity("", session, agent)
            for who in family:
                assert bool(await memory.read(who, now=NOW)) is (who.agent != agent)

    @story()
    async def test_forgetting_what_is_not_there_changes_nothing(self, memory: Memory) -> None:
        assert await memory.forget("", "s1", now=NOW) == ()
        await memory.record(WHO, overflow(9000))
        assert await memory.forget("", "s1", "a1", now=NOW) == ()
        assert await memory.forget("acme", "s1", now=NOW) == ()
        assert await memory.read(WHO, now=NOW)

    @story(ttl_secs=100.0)
    async def test_what_had_expired_when_something_new_is_recorded_goes_and_is_told(
        self, memory: Memory
    ) -> None:
        others = Identity("", "s1", "a1"), Identity("", "s2")
        for who in (WHO, *others):
            await memory.record(who, overflow(9000))
            await memory.record(who, refusal("image", target=LARGE))
        await memory.restore_everywhere("", LARGE, "f1", now=NOW)
        late = overflow(12_000, turn="t2", at=NOW + 100)
        assert list(await memory.record(WHO, late)) == [Change(NOW + 100, WHO, overflow(9000), "expired")]
        assert list(await memory.record(WHO, late)) == []
        assert await evictions_of(memory, now=NOW + 100) == (late,)
        told = await sweep(memory, now=NOW + 100)
        assert sorted(change.identity for change in told) == sorted(others)

    @story(ttl_secs=100.0)
    async def test_what_had_expired_when_its_session_was_forgotten_is_said_to_have_expired(
        self, memory: Memory
    ) -> None:
        await memory.record(WHO, overflow(9000))
        (change,) = await memory.forget("", "s1", now=NOW + 100)
        assert change == Change(NOW + 100, WHO, overflow(9000), "expired")
        assert await memory.forget("", "s1", now=NOW + 100) == ()

    @story()
    async def test_what_is_recorded_after_a_session_was_forgotten_stands(self, memory: Memory) -> None:
        await memory.record(WHO, overflow(9000))
        await memory.forget("", "s1", now=NOW)
        await memory.record(WHO, overflow(12_000, turn="t2"))
        assert await evictions_of(memory) == (overflow(12_000, turn="t2"),)

    @story(handles=2)
    async def test_a_turn_whose_session_is_forgotten_meanwhile_records_what_it_learns_and_no_more(
        self, turn: Memory, other: Memory
    ) -> None:
        await turn.record(WHO, overflow(9000))
        assert await turn.read(WHO, now=NOW + 1)
        assert len(await other.forget("", "s1", now=NOW + 2)) == 1
        learnt = refusal("image", turn="t2", at=NOW + 3)
        await turn.record(WHO, learnt)
        assert await evictions_of(turn, now=NOW + 3) == (learnt,)

    @story(handles=2)
    async def test_a_session_that_is_forgotten_late_keeps_what_is_of_a_later_time(
        self, one: Memory, other: Memory
    ) -> None:
        late = refusal("image", turn="t3", at=NOW + 3)
        await one.record(WHO, overflow(9000))
        await one.record(WHO, late)
        changes = await other.forget("", "s1", now=NOW + 2)
        assert changes == (Change(NOW + 2, WHO, overflow(9000), "forgotten"),)
        assert await evictions_of(one, now=NOW + 3) == (late,)
        assert [held.identity for held in await everyone(other, now=NOW + 3)] == [WHO]

    @story()
    async def test_an_eviction_that_was_added_to_later_stands_whole(self, memory: Memory) -> None:
        early, late = overflow(9000), overflow(9500, turn="t3", at=NOW + 3)
        await memory.record(WHO, early)
        await memory.record(WHO, late)
        assert await memory.forget("", "s1", now=NOW + 2) == ()
        assert await evictions_of(memory, now=NOW + 3) == (early.merge(late),)

    @story()
    async def test_of_a_session_that_is_forgotten_late_each_agent_keeps_its_own(self, memory: Memory) -> None:
        early, late = Identity("", "s1", "a1"), Identity("", "s1", "a2")
        await memory.record(early, overflow(9000, at=NOW + 1))
        await memory.record(late, overflow(9000, at=NOW + 3))
        assert [change.identity for change in await memory.forget("", "s1", now=NOW + 2)] == [early]
        assert [held.identity for held in await everyone(memory, now=NOW + 3)] == [late]

    @story()
    async def test_what_was_recorded_at_the_very_time_goes(self, memory: Memory) -> None:
        await memory.record(WHO, overflow(9000, at=NOW + 0.25))
        assert await memory.forget("", "s1", now=NOW + 0.125) == ()
        assert len(await memory.forget("", "s1", now=NOW + 0.25)) == 1

    @story(handles=2)
    async def test_a_session_that_is_forgotten_while_it_records_is_whole_or_gone(
        self, one: Memory, other: Memory
    ) -> None:
        for who in sessions(20):
            await one.record(who, overflow(9000))
            _, changes = await asyncio.gather(
                one.record(who, overflow(8000, turn="t2")), other.forget("", who.session, now=NOW)
            )
            told = [change.eviction for change in changes]
            left = list(await evictions_of(one, who))
            both = overflow(9000).merge(overflow(8000, turn="t2"))
            assert (told, left) in (
                ([both], []),
                ([overflow(9000)], [overflow(8000, turn="t2")]),
            )

    @story(handles=2)
    async def test_of_two_who_forget_a_session_one_tells(self, one: Memory, other: Memory) -> None:
        await one.record(WHO, overflow(9000))
        told = await asyncio.gather(*[memory.forget("", "s1", now=NOW) for memory in (one, other)])
        assert sorted(map(len, told)) == [0, 1]

    # -- a target is restored for everyone

    @story(handles=2)
    async def test_a_target_is_restored_for_every_session_at_once(self, one: Memory, other: Memory) -> None:
        spared = {overflow(9000, target=LARGE), overflow(9000, fingerprint="f2")}
        for who in sessions(5):
            for eviction in (overflow(9000), refusal("image"), *spared):
                await one.record(who, eviction)
        await one.record(Identity("acme", "s1"), overflow(9000))
        await other.restore_everywhere("", SMALL, "f1", now=NOW)
        for who in sessions(5):
            assert set(await evictions_of(one, who)) == spared
        assert await one.read(Identity("acme", "s1"), now=NOW)

    @story()
    async def test_what_is_recorded_after_a_restoration_stands_and_starts_afresh(
        self, memory: Memory
    ) -> None:
        for number in (2, 3, 4):
            await memory.record(WHO, overflow(9000, turn="t1"))
            await memory.restore_everywhere("", SMALL, "f1", now=NOW + number)
            late = overflow(12_000, turn=f"t{number}", at=NOW + number)
            await memory.record(WHO, late)
            assert await evictions_of(memory, now=NOW + number) == (late,)

    @story()
    async def test_a_target_that_nobody_knows_may_be_restored(self, memory: Memory) -> None:
        await memory.restore_everywhere("", SMALL, "f1", now=NOW)
        await memory.record(WHO, overflow(9000))
        assert await evictions_of(memory) == (overflow(9000),)

    @story()
    async def test_what_a_restoration_has_overtaken_is_not_there_any_more(self, memory: Memory) -> None:
        await memory.record(WHO, overflow(9000))
        await memory.restore_everywhere("", SMALL, "f1", now=NOW)
        assert await memory.remove(WHO, [overflow(9000)], now=NOW, why="served") == ()
        assert await everyone(memory) == []
        assert await memory.forget("", "s1", now=NOW) == ()

    @story(ttl_secs=100.0)
    async def test_what_a_restoration_has_overtaken_never_comes_back(self, memory: Memory) -> None:
        await memory.record(WHO, overflow(9000))
        await memory.record(WHO, refusal("image", target=LARGE))
        await memory.restore_everywhere("", SMALL, "f1", now=NOW)
        await memory.touch(WHO, now=NOW + 50)
        assert await sweep(memory, now=NOW + 50) == []
        assert await evictions_of(memory, now=NOW + 50) == (refusal("image", target=LARGE),)
        assert [c.eviction for c in await sweep(memory, now=NOW + 150)] == [refusal("image", target=LARGE)]
        await memory.record(WHO, refusal("audio", at=NOW + 151))
        assert await evictions_of(memory, now=NOW + 151) == (refusal("audio", at=NOW + 151),)

    @story(handles=2)
    async def test_a_restoration_that_is_done_late_leaves_what_is_of_a_later_time(
        self, one: Memory, other: Memory
    ) -> None:
        """Its router could not reach the store, and another one could."""
        early, late = refusal("image", at=NOW + 1), overflow(9000, at=NOW + 3)
        await one.record(WHO, early)
        await other.record(WHO, late)
        for _ in range(2):  # nor does it, done again
            await one.restore_everywhere("", SMALL, "f1", now=NOW + 2)
            assert await evictions_of(other, now=NOW + 3) == (late,)
            assert [held.evictions for held in await everyone(other, now=NOW + 3)] == [(late,)]
        await one.restore_everywhere("", SMALL, "f1", now=NOW + 1)
        smaller = overflow(8000, turn="t2", at=NOW + 2)
        await other.record(WHO, smaller)
        assert await evictions_of(one, now=NOW + 3) == (late.merge(smaller),)
        await one.restore_everywhere("", SMALL, "f1", now=NOW + 3)
        assert await evictions_of(other, now=NOW + 3) == ()
        assert await other.forget("", "s1", now=NOW + 3) == ()

    @story(handles=2)
    async def test_evictions_that_race_a_restoration_stand_or_go_and_the_next_ones_stand(
        self, one: Memory, other: Memory
    ) -> None:
        many = sessions(20)
        await asyncio.gather(
            *[one.record(who, overflow(9000)) for who in many[:10]],
            other.restore_everywhere("", SMALL, "f1", now=NOW),
            *[one.record(who, overflow(9000)) for who in many[10:]],
        )
        for who in many:
            assert await evictions_of(other, who) in ((), (overflow(9000),))
            await one.record(who, overflow(9000))
            assert await evictions_of(other, who) == (overflow(9000),)

    # -- what was kept while the store was away is done late, or again

    async def _queue(self, memory: Memory) -> None:
        """What a router has gathered, in order."""
        await memory.record(WHO, overflow(9000, turn="t1", at=NOW + 1))
        await memory.record(Identity("", "s1", "a1"), refusal("image", turn="t2", at=NOW + 2))
        await memory.forget("", "s1", now=NOW + 3)
        await memory.record(WHO, refusal("audio", turn="t4", at=NOW + 4))
        await memory.restore_everywhere("", LARGE, "f1", now=NOW + 4)
        await memory.record(WHO, refusal("image", turn="t5", at=NOW + 5, target=LARGE))
        await strip(memory, "effort", at=NOW + 5)
        await memory.record(Identity("", "s2"), overflow(9000, turn="t6", at=NOW + 6))
        await memory.remove(
            Identity("", "s2"), [overflow(9000, turn="t6", at=NOW + 6)], now=NOW + 7, why="served"
        )

    async def _written(self, memory: Memory) -> None:
        assert set(await evictions_of(memory, now=NOW + 9)) == {
            refusal("audio", turn="t4", at=NOW + 4),
            refusal("image", turn="t5", at=NOW + 5, target=LARGE),
        }
        assert [held.identity for held in await everyone(memory, now=NOW + 9)] == [WHO]
        assert await stripped(memory, now=NOW + 9) == {"effort"}

    @story()
    async def test_a_queue_with_forgets_in_it_ends_as_it_would_have_ended(self, memory: Memory) -> None:
        await self._queue(memory)
        await self._written(memory)

    @story(handles=2)
    async def test_a_queue_that_is_written_again_ends_the_same(self, one: Memory, other: Memory) -> None:
        for memory in (one, other, one):
            await self._queue(memory)
            await self._written(memory)

    @story(handles=2)
    async def test_a_queue_that_is_written_late_leaves_what_others_have_recorded_since(
        self, late: Memory, other: Memory
    ) -> None:
        since = overflow(7000, turn="t8", at=NOW + 8)
        await other.record(WHO, since)
        await other.record(Identity("", "s1", "a2"), since)
        await self._queue(late)
        read = await late.read(WHO, now=NOW + 9)
        assert {e.reason for e in read.of(SMALL, "f1")} == set(RoutingFallbackReason) - {
            RoutingFallbackReason.UNAVAILABLE
        }
        assert await evictions_of(late, Identity("", "s1", "a2"), now=NOW + 9) == (since,)

    @story()
    async def test_each_operation_done_twice_comes_to_the_same(self, memory: Memory) -> None:
        for _ in range(2):
            await memory.record(WHO, overflow(9000))
        assert await evictions_of(memory) == (overflow(9000),)
        for expected in (1, 0):
            assert len(await memory.remove(WHO, [overflow(9000)], now=NOW, why="served")) == expected
        await memory.record(WHO, overflow(9000))
        for expected in (1, 0):
            assert len(await memory.forget("", "s1", now=NOW)) == expected
        await memory.record(WHO, overflow(9000))
        for _ in range(2):
            await memory.restore_everywhere("", SMALL, "f1", now=NOW)
            await strip(memory, "effort")
            await memory.touch(WHO, now=NOW)
            assert await memory.read(WHO, now=NOW) == EMPTY
            assert await stripped(memory) == {"effort"}

    # -- what a target has refused of what is injected

    @story()
    async def test_keys_that_a_target_has_refused_are_known_for_that_target_as_it_is_configured(
        self, memory: Memory
    ) -> None:
        assert await stripped(memory) == set()
        await strip(memory, "effort", "verbosity")
        assert await stripped(memory) == {"effort", "verbosity"}
        assert await stripped(memory, namespace="acme") == set()
        assert await stripped(memory, target=LARGE) == set()
        assert await stripped(memory, fingerprint="f2") == set()
        assert await stripped(memory, configuration="c2") == set()

    @story(handles=2)
    async def test_keys_that_are_refused_one_after_another_add_up(self, one: Memory, other: Memory) -> None:
        await strip(one, "effort")
        await strip(other, "verbosity", at=NOW + 1)
        await strip(one, "effort", at=NOW + 2)
        assert await stripped(other, now=NOW + 2) == {"effort", "verbosity"}

    @story(handles=2)
    async def test_turns_that_are_corrected_at_once_lose_nothing(self, one: Memory, other: Memory) -> None:
        both = itertools.cycle((one, other))
        await asyncio.gather(*[strip(next(both), f"key{n}") for n in range(50)])
        assert await stripped(one) == {f"key{n}" for n in range(50)}

    @story()
    async def test_what_was_learnt_under_one_configuration_is_not_dropped_by_another_in_use(
        self, memory: Memory
    ) -> None:
        await strip(memory, "effort", configuration="c1")
        await strip(memory, "verbosity", configuration="c2", at=NOW + 1)
        assert await stripped(memory, configuration="c1", now=NOW + 1) == {"effort"}
        assert await stripped(memory, configuration="c2", now=NOW + 1) == {"verbosity"}

    @story(ttl_secs=100.0)
    async def test_a_refused_key_is_tried_again_when_its_time_to_live_has_passed(
        self, memory: Memory
    ) -> None:
        await strip(memory, "effort")
        assert await stripped(memory, now=NOW + 99.5) == {"effort"}
        assert await stripped(memory, now=NOW + 100) == set()
        await strip(memory, "verbosity", at=NOW + 100)
        assert await stripped(memory, now=NOW + 100) == {"verbosity"}

    @story(ttl_secs=100.0)
    async def test_what_is_learnt_anew_prolongs_the_time_to_live_and_what_comes_late_does_not_shorten_it(
        self, memory: Memory
    ) -> None:
        await strip(memory, "effort")
        await strip(memory, "verbosity", at=NOW + 50)
        await strip(memory, "store", at=NOW + 20)
        assert await stripped(memory, now=NOW + 149.5) == {"effort", "verbosity", "store"}
        assert await stripped(memory, now=NOW + 150) == set()

    @story()
    async def test_namespaces_share_no_refused_keys_however_they_are_named(self, memory: Memory) -> None:
        for number, name in enumerate(HOSTILE):
            await strip(memory, f"key{number}", namespace=name)
        for number, name in enumerate(HOSTILE):
            assert await stripped(memory, namespace=name) == {f"key{number}"}

    @story()
    async def test_refused_keys_are_kept_as_they_are(self, memory: Memory) -> None:
        keys = ("é\0'", '{"}', "日本語", " ", "a:b", "1")
        await strip(memory, *keys, configuration="c'\0{")
        assert await stripped(memory, configuration="c'\0{") == set(keys)

    @story()
    async def test_refused_keys_are_no_sessions_and_outlive_its_end_and_a_restoration(
        self, memory: Memory
    ) -> None:
        for target, first in ((SMALL, True), (LARGE, False)):
            if first:
                await memory.restore_everywhere("", target, "f1", now=NOW)
            await strip(memory, "effort", target=target)
            await memory.record(WHO, overflow(9000, target=target))
            assert await evictions_of(memory) == (overflow(9000, target=target),)
            await memory.restore_everywhere("", target, "f1", now=NOW)
            assert await memory.read(WHO, now=NOW) == EMPTY
            await strip(memory, "verbosity", target=target)
            assert await memory.read(WHO, now=NOW) == EMPTY
            await memory.forget("", "s1", now=NOW)
            assert await sweep(memory, now=NOW) == []
            assert await stripped(memory, target=target) == {"effort", "verbosity"}

    # -- what a session gets used to

    @story(handles=2)
    async def test_what_a_session_got_used_to_is_told_to_every_handle(
        self, one: Memory, other: Memory
    ) -> None:
        assert await habits_of(other) == NO_HABITS
        assert list(await one.settle(WHO, home(), now=NOW)) == []
        assert await habits_of(other) == home()
        assert await evictions_of(other) == ()
        assert await habits_of(other, Identity("", "s1", "a")) == NO_HABITS

    @story()
    async def test_habits_are_merged_in_any_order(self, memory: Memory) -> None:
        some = [
            home(at=NOW + 2),
            home(LARGE, NOW + 1, moves=1),
            home("other", NOW + 3, last=SMALL, route="q"),
            home(LARGE, NOW + 4, last=SMALL),
        ]
        for number, order in enumerate(itertools.permutations(some)):
            who = Identity("", f"s{number}")
            for habits in order:
                await memory.settle(who, habits, now=NOW)
            found = await habits_of(memory, who)
            assert {route: (h.home.target, h.last.target) for route, h in found.homes.items()} == {
                "r": (LARGE, SMALL),
                "q": ("other", SMALL),
            }
            assert found.scale == Scale(1.25, NOW + 4)

    @story()
    async def test_habits_and_evictions_come_and_go_by_themselves(self, memory: Memory) -> None:
        await memory.record(WHO, overflow(9000))
        await memory.settle(WHO, home(), now=NOW)
        await memory.record(WHO, refusal("image"))
        context = await memory.read(WHO, now=NOW)
        assert (len(context.evictions), context.habits) == (2, home())
        await memory.remove(WHO, context.evictions, now=NOW, why="served")
        assert await memory.read(WHO, now=NOW) == EMPTY.settle(home())
        await memory.restore_everywhere("", SMALL, "f1", now=NOW)
        assert await habits_of(memory) == home()

    @story()
    async def test_a_session_is_forgotten_with_its_habits(self, memory: Memory) -> None:
        for agent in ("", "a"):
            await memory.settle(Identity("", "s1", agent), home(), now=NOW)
            await memory.settle(Identity("", "s2", agent), home(at=NOW + 9), now=NOW + 9)
        assert list(await memory.forget("", "s1", now=NOW)) == []
        assert list(await memory.forget("", "s2", now=NOW)) == []
        assert [held.identity.session for held in await everyone(memory)] == ["s2", "s2"]
        assert await habits_of(memory) == NO_HABITS
        assert await habits_of(memory, Identity("", "s2")) == home(at=NOW + 9)

    @story(ttl_secs=100.0)
    async def test_habits_last_as_long_as_the_session_is_in_use(self, memory: Memory) -> None:
        await memory.settle(WHO, home(), now=NOW)
        await memory.touch(WHO, now=NOW + 60)
        assert await habits_of(memory, now=NOW + 159) == home()
        assert await habits_of(memory, now=NOW + 160) == NO_HABITS
        assert await everyone(memory, now=NOW + 160) == []
        await memory.record(WHO, overflow(9000), used=NOW + 200)
        assert await habits_of(memory, now=NOW + 200) == NO_HABITS

    @story(ttl_secs=100.0)
    async def test_habits_that_come_after_a_session_expired_are_all_that_it_has(self, memory: Memory) -> None:
        await memory.record(WHO, overflow(9000))
        changes = await memory.settle(WHO, home(at=NOW + 100), now=NOW + 100)
        assert [(change.why, change.eviction) for change in changes] == [("expired", overflow(9000))]
        assert await memory.read(WHO, now=NOW + 100) == EMPTY.settle(home(at=NOW + 100))

    @story(ttl_secs=100.0, max_sessions=2)
    async def test_sessions_that_hold_only_habits_are_swept_like_others(self, memory: Memory) -> None:
        for number, who in enumerate(sessions(5)):
            await memory.settle(who, home(), now=NOW + number)
        assert await sweep(memory, now=NOW + 50) == []
        assert await kept(memory, sessions(5), now=NOW + 50) == ["s4", "s5"]
        assert await sweep(memory, now=NOW + 104) == []
        assert await everyone(memory, now=NOW + 50) == []

    @story()
    async def test_habits_are_listed_with_who_has_them(self, memory: Memory) -> None:
        await memory.settle(WHO, home(), now=NOW)
        await memory.record(WHO, overflow(9000))
        await memory.settle(Identity("", "s2"), home(LARGE), now=NOW + 5)
        assert await everyone(memory) == [
            Held(WHO, NOW, (overflow(9000),), home()),
            Held(Identity("", "s2"), NOW + 5, (), home(LARGE)),
        ]

    # -- how targets are, for all sessions

    @story(handles=2)
    async def test_a_targets_health_is_told_to_every_handle(self, one: Memory, other: Memory) -> None:
        assert list(await other.health("", [(SMALL, "f1"), (LARGE, "f1")])) == [WELL, WELL]
        changed = await one.change_health("", SMALL, "f1", failing(NOW))
        assert changed == failing(NOW)(WELL)
        assert list(await other.health("", [(LARGE, "f1"), (SMALL, "f1"), (SMALL, "f2")])) == [
            WELL,
            changed,
            WELL,
        ]
        assert list(await other.health("n", [(SMALL, "f1")])) == [WELL]
        again = await other.change_health("", SMALL, "f1", failing(NOW + 1))
        assert (again.failures, again.state, again.until) == (2, "open", NOW + 11)
        assert list(await one.health("", [(SMALL, "f1")])) == [again]

    @story(handles=2)
    async def test_no_failure_is_lost_between_two_handles(self, one: Memory, other: Memory) -> None:
        await asyncio.gather(
            *[
                memory.change_health("", SMALL, "f1", failing(NOW, f"t{number}"))
                for number, memory in enumerate((one, other) * 20)
            ]
        )
        assert (await other.health("", [(SMALL, "f1")]))[0].failures == 40

    @story(handles=2)
    async def test_a_trial_goes_to_one_of_many_who_ask_at_once(self, one: Memory, other: Memory) -> None:
        breaker = Breaker(failures=2, cool_secs=10.0)
        for at in (NOW, NOW + 1):
            await one.change_health("", SMALL, "f1", failing(at))
        turns = [f"t{number}" for number in range(20)]

        def asking(turn: str) -> Callable[[Health], Health]:
            return lambda health: tried(health, breaker, turn, now=NOW + 20).health

        told = await asyncio.gather(
            *[
                memory.change_health("", SMALL, "f1", asking(turn))
                for turn, memory in zip(turns, itertools.cycle((one, other)), strict=False)
            ]
        )
        assert len({health.trial for health in told}) == 1
        assert {health.trial for health in told} < set(turns)
        await one.change_health("", SMALL, "f1", lambda health: answered(health, now=NOW + 21).health)
        assert (await other.health("", [(SMALL, "f1")]))[0].state == "closed"

    @story()
    async def test_health_is_nothing_that_sessions_or_restorations_take_along(self, memory: Memory) -> None:
        await memory.record(WHO, overflow(9000))
        cools = await memory.change_health("", SMALL, "f1", failing(NOW))
        await strip(memory, "seed")
        await memory.forget("", "s1", now=NOW)
        await memory.restore_everywhere("", SMALL, "f1", now=NOW)
        await sweep(memory, now=NOW + 10**9)
        assert list(await memory.health("", [(SMALL, "f1")])) == [cools]
        assert await stripped(memory) == {"seed"}

    # -- who holds what

    @story()
    async def test_a_memory_that_holds_nothing_lists_nobody(self, memory: Memory) -> None:
        assert await memory.held("", now=NOW) == ((), "")
        assert await memory.held("", "s1", now=NOW) == ((), "")

    @story(handles=2)
    async def test_a_list_says_who_holds_what_and_since_when_it_was_not_used(
        self, one: Memory, other: Memory
    ) -> None:
        who = Identity("acme", "s1", "a1")
        await one.record(who, refusal("image", at=NOW + 2))
        await one.record(who, overflow(9000, at=NOW + 1))
        assert await everyone(other, "acme") == [
            Held(who, NOW + 2, (overflow(9000, at=NOW + 1), refusal("image", at=NOW + 2)))
        ]

    @story()
    async def test_everyone_is_on_one_of_the_pages_whatever_their_size(self, memory: Memory) -> None:
        family = sorted(Identity("", f"s{n % 7}", f"a{n % 5}") for n in range(35))
        for who in family:
            await memory.record(who, overflow(9000))
        for most in (1, 2, 3, 34, 35, 36, 1000):
            assert sorted(held.identity for held in await everyone(memory, most=most)) == family

    @story()
    async def test_one_session_is_listed_alone_with_all_its_agents(self, memory: Memory) -> None:
        for session, agent in itertools.product(("s", "s1", "s1\0", "s2"), ("", "a1", "a2", "a3")):
            await memory.record(Identity("", session, agent), overflow(9000))
        for most in (1, 2, 1000):
            found = [held.identity for held in await everyone(memory, "", "s1", most=most)]
            assert sorted(found) == [Identity("", "s1", agent) for agent in ("", "a1", "a2", "a3")]
        assert await everyone(memory, "", "s3") == []

    @story(ttl_secs=100.0)
    async def test_who_has_expired_is_not_listed(self, memory: Memory) -> None:
        for number, who in enumerate(sessions(4)):
            await memory.record(who, overflow(9000, at=NOW + number))
        found = [held.identity for held in await everyone(memory, now=NOW + 101.5, most=1)]
        assert sorted(found) == sessions(4)[2:]

    @story()
    async def test_a_namespace_lists_nobody_elses_sessions(self, memory: Memory) -> None:
        for namespace in ("", "a", "b", "ab"):
            await memory.record(Identity(namespace, "s1"), overflow(9000))
        for namespace in ("", "a", "b", "ab"):
            assert [held.identity.namespace for held in await everyone(memory, namespace)] == [namespace]

    @story(handles=2)
    async def test_who_comes_or_goes_between_two_pages_hides_nobody_else(
        self, one: Memory, other: Memory
    ) -> None:
        staying = [Identity("", f"m{n}") for n in range(20)]
        for number, who in enumerate(staying):
            await one.record(who, overflow(9000))
            await one.record(Identity("", f"going{number}"), overflow(9000))
        found: list[Identity] = []
        cursor = ""
        for number in itertools.count():
            page, cursor = await one.held("", now=NOW, cursor=cursor, most=3)
            found += [held.identity for held in page]
            if not cursor:
                break
            assert number < 1000
            await other.forget("", f"going{number}", now=NOW)
            await other.record(Identity("", f"a{number}"), overflow(9000))
            await other.record(Identity("", f"z{number}"), overflow(9000))
        assert set(found) >= set(staying)

    @story()
    async def test_a_list_is_all_it_takes_to_move_what_is_remembered(self, memory: Memory) -> None:
        await self._queue(memory)
        for number, name in enumerate(HOSTILE):
            await memory.record(Identity("", name), overflow(number))
        was_held = await everyone(memory, now=NOW + 9)
        for held in was_held:
            for eviction in held.evictions:
                moved = held.identity._replace(namespace="moved")
                await memory.record(moved, eviction, used=held.last_use)
        now_held = await everyone(memory, "moved", now=NOW + 9)
        assert {held.identity[1:]: held.last_use for held in now_held} == {
            held.identity[1:]: held.last_use for held in was_held
        }
        for name in ("s1", "s2", *HOSTILE):
            was, now_is = [await memory.read(Identity(n, name), now=NOW + 9) for n in ("", "moved")]
            assert was == now_is

    @story()
    async def test_a_list_shows_what_reading_does(self, memory: Memory) -> None:
        for eviction in (*OVERLAPPING, overflow(9000), overflow(8000, target=LARGE)):
            await memory.record(WHO, eviction)
        (held,) = await everyone(memory)
        assert SessionContext(held.evictions) == await memory.read(WHO, now=NOW)

    @story()
    async def test_a_cursor_that_is_none_of_the_stores_is_trouble(self, memory: Memory) -> None:
        await memory.record(WHO, overflow(9000))
        try:
            await memory.held("", now=NOW, cursor="no cursor at all {")
        except MemoryTrouble:
            return
        raise AssertionError("it was taken")

    # -- sweeps

    @story()
    async def test_where_nothing_is_held_a_sweep_has_nothing_to_do(self, memory: Memory) -> None:
        assert await memory.sweep("", now=NOW) == ((), False)

    @story(handles=2, ttl_secs=100.0)
    async def test_a_sweep_removes_what_has_expired_and_tells_each(self, one: Memory, other: Memory) -> None:
        for number, who in enumerate(sessions(4)):
            await one.record(who, overflow(9000, at=NOW + number))
            await one.record(who, refusal("image", at=NOW + number))
        changes = await sweep(other, now=NOW + 101.5)
        assert {(change.at, change.why) for change in changes} == {(NOW + 101.5, "expired")}
        assert sorted((c.identity, c.eviction.reason) for c in changes) == sorted(
            (who, reason)
            for who in sessions(2)
            for reason in (RoutingFallbackReason.CAPABILITY, RoutingFallbackReason.CONTEXT_WINDOW)
        )
        assert await kept(one, sessions(4), now=NOW) == ["s3", "s4"]
        assert await sweep(one, now=NOW + 101.5) == []

    @story(ttl_secs=100.0)
    async def test_a_sweep_in_small_steps_comes_to_the_same(self, memory: Memory) -> None:
        family = [Identity("", f"s{n}", agent) for n in range(10) for agent in ("", "a1")]
        for number, who in enumerate(family):
            await memory.record(who, overflow(9000, at=NOW + number % 3))
        changes = await sweep(memory, now=NOW + 101.5, most=1)
        gone = {who for number, who in enumerate(family) if number % 3 < 2}
        assert {change.identity for change in changes} == gone
        assert len(changes) == len(gone)
        assert {held.identity for held in await everyone(memory)} == set(family) - gone

    @story(ttl_secs=100.0)
    async def test_a_sweep_finds_what_has_expired_in_whatever_order_it_was_used(self, memory: Memory) -> None:
        early, late = sessions(2)
        await memory.record(late, overflow(9000, at=NOW + 50))
        await memory.record(early, overflow(9000, at=NOW))
        assert [change.identity for change in await sweep(memory, now=NOW + 120)] == [early]

    @story(max_sessions=3)
    async def test_beyond_the_most_sessions_the_least_recently_used_go_and_each_is_told(
        self, memory: Memory
    ) -> None:
        for number, who in enumerate(sessions(5)):
            await memory.record(who, overflow(9000, at=NOW + number))
        changes = await sweep(memory, now=NOW + 10)
        assert sorted(changes, key=lambda change: change.identity) == [
            Change(NOW + 10, who, overflow(9000, at=NOW + number), "crowded out")
            for number, who in enumerate(sessions(2))
        ]
        assert await kept(memory, sessions(5)) == ["s3", "s4", "s5"]

    @story(max_sessions=3)
    async def test_as_many_sessions_as_may_be_are_left_alone(self, memory: Memory) -> None:
        for who in sessions(3):
            await memory.record(who, overflow(9000))
            await memory.record(Identity("", who.session, "a1"), overflow(9000))
        assert await sweep(memory, now=NOW) == []
        assert await kept(memory, sessions(3)) == ["s1", "s2", "s3"]

    @story(ttl_secs=1000.0, max_sessions=3)
    async def test_who_was_used_lately_is_not_crowded_out(self, memory: Memory) -> None:
        for number, who in enumerate(sessions(5)):
            await memory.record(who, overflow(9000, at=NOW + number))
        await memory.touch(Identity("", "s1"), now=NOW + 200)
        await memory.record(Identity("", "s2"), refusal("image", at=NOW + 201))
        changes = await sweep(memory, now=NOW + 210)
        assert sorted(change.identity.session for change in changes) == ["s3", "s4"]
        assert await kept(memory, sessions(5), now=NOW + 210) == ["s1", "s2", "s5"]

    @story(max_sessions=2)
    async def test_a_session_goes_whole_and_is_as_young_as_its_youngest_agent(self, memory: Memory) -> None:
        ages = {"s1": {"": 1, "a1": 9, "a2": 0}, "s2": {"": 2, "a1": 4, "a2": 3}, "s3": {"": 5}}
        for session, agents in ages.items():
            for agent, age in agents.items():
                await memory.record(Identity("", session, agent), overflow(9000, at=NOW + age))
        changes = await sweep(memory, now=NOW + 10, most=1)
        assert sorted(change.identity for change in changes) == [
            Identity("", "s2", agent) for agent in ("", "a1", "a2")
        ]
        assert {held.identity.session for held in await everyone(memory)} == {"s1", "s3"}

    @story(max_sessions=5)
    async def test_a_sweep_in_small_steps_leaves_as_many_as_may_be(self, memory: Memory) -> None:
        for number, who in enumerate(sessions(40)):
            await memory.record(who, overflow(9000, at=NOW + number * 7 % 40))
        changes = await sweep(memory, now=NOW + 50, most=3)
        assert len(changes) == 35
        left = [held.last_use for held in await everyone(memory)]
        assert sorted(left) == [NOW + age for age in range(35, 40)]

    @story(max_sessions=2)
    async def test_a_namespace_never_crowds_out_another(self, memory: Memory) -> None:
        for who in sessions(2, "quiet"):
            await memory.record(who, overflow(9000))
        for number, who in enumerate(sessions(20, "loud")):
            await memory.record(who, overflow(9000, at=NOW + 1 + number))
        changes = await sweep(memory, "loud", now=NOW + 50)
        assert {change.identity.namespace for change in changes} == {"loud"}
        assert await sweep(memory, "quiet", now=NOW + 50) == []
        assert await kept(memory, sessions(2, "quiet")) == ["s1", "s2"]
        assert await kept(memory, sessions(20, "loud")) == ["s19", "s20"]

    @story(ttl_secs=100.0, max_sessions=1)
    async def test_a_namespace_is_swept_alone_whatever_the_others_steps(self, memory: Memory) -> None:
        for who in (*sessions(3, "a"), *sessions(3, "b")):
            await memory.record(who, overflow(9000))
        told: dict[str, list[Change]] = {"a": [], "b": []}
        going_on = {"a", "b"}
        for _ in range(1000):
            for namespace in sorted(going_on):
                some, more = await memory.sweep(namespace, now=NOW, most=1)
                told[namespace] += some
                going_on -= set() if more else {namespace}
        assert not going_on
        for namespace, changes in told.items():
            assert len(changes) == 2
            assert {change.identity.namespace for change in changes} == {namespace}

    @story(max_sessions=3)
    async def test_who_is_forgotten_takes_no_room(self, memory: Memory) -> None:
        for number, who in enumerate(sessions(5)):
            await memory.record(who, overflow(9000, at=NOW + number))
        await memory.forget("", "s4", now=NOW + 10)
        await memory.remove(Identity("", "s5"), [overflow(9000, at=NOW + 4)], now=NOW + 10, why="served")
        assert await sweep(memory, now=NOW + 10) == []
        assert await kept(memory, sessions(5)) == ["s1", "s2", "s3"]

    @story(max_sessions=1)
    async def test_a_session_of_many_agents_is_crowded_out_in_steps(self, memory: Memory) -> None:
        agents = [Identity("", "s1", f"a{number}") for number in range(300)]
        for who in agents:
            await memory.record(who, overflow(9000))
        await memory.record(Identity("", "s2"), overflow(9000, at=NOW + 1))
        gone: list[Change] = []
        more, steps = True, 0
        while more:
            changes, more = await memory.sweep("", now=NOW + 1, most=50)
            gone += changes
            steps += 1
            assert len(changes) <= 150
        assert sorted(change.identity for change in gone) == sorted(agents)
        assert steps > 2
        assert [held.identity.session for held in await everyone(memory, now=NOW + 1)] == ["s2"]

    @story(ttl_secs=100.0, max_sessions=2)
    async def test_who_has_expired_takes_no_room(self, memory: Memory) -> None:
        for number, who in enumerate(sessions(4)):
            await memory.record(who, overflow(9000, at=NOW + number))
        changes = await sweep(memory, now=NOW + 101.5)
        assert [change.why for change in changes] == ["expired"] * 2
        assert await kept(memory, sessions(4)) == ["s3", "s4"]

    @story(handles=2, max_sessions=3)
    async def test_a_session_that_is_used_while_a_sweep_goes_on_is_not_crowded_out(
        self, one: Memory, other: Memory
    ) -> None:
        for used_after in range(12):  # so many steps
            many = sessions(8, f"n{used_after}")
            for number, who in enumerate(many):
                await one.record(who, overflow(9000, at=NOW + number))
            used = many[0]
            steps, more = 0, True
            while more:
                if steps == used_after:
                    used = used._replace(session=(await kept(other, many))[0])
                    await other.record(used, overflow(8000, turn="t2", at=NOW + 100))
                more = (await one.sweep(used.namespace, now=NOW + 200, most=1)).more
                steps += 1
                assert steps < 1000
            if steps > used_after:
                assert await other.read(used, now=NOW + 200)
            assert len(await kept(one, many)) in (3, 4)  # the next sweep comes for a fourth

    @story(handles=2, ttl_secs=100.0)
    async def test_turns_go_on_while_a_sweep_does(self, one: Memory, other: Memory) -> None:
        for who in sessions(20):
            await one.record(who, overflow(9000))
        late = [Identity("", f"{letter}{n}") for n in range(20) for letter in "az"]
        for number in range(1000):
            if number < 20:
                for who in late[2 * number : 2 * number + 2]:
                    await other.record(who, overflow(9000, at=NOW + 100))
            if not (await one.sweep("", now=NOW + 100, most=1)).more and number >= 20:
                break
        assert await kept(one, late, now=NOW + 100) == [who.session for who in late]
        assert await kept(one, sessions(20), now=NOW) == []

    @story(handles=2, ttl_secs=100.0, max_sessions=4)
    async def test_two_who_sweep_at_once_remove_no_more_than_one_would(
        self, one: Memory, other: Memory
    ) -> None:
        for number, who in enumerate(sessions(12)):
            await one.record(who, overflow(9000, at=NOW + number))
        told = await asyncio.gather(
            sweep(one, now=NOW + 101.5, most=2), sweep(other, now=NOW + 101.5, most=2)
        )
        assert sorted(change.identity for changes in told for change in changes) == sorted(sessions(8))
        assert await kept(one, sessions(12), now=NOW + 50) == ["s9", "s10", "s11", "s12"]

    # -- closing

    @story()
    async def test_closing_twice_is_closing_once(self, memory: Memory) -> None:
        await memory.record(WHO, overflow(9000))
        await memory.close()
        await memory.close()

    @story(handles=2)
    async def test_what_was_accepted_before_closing_is_there(self, one: Memory, other: Memory) -> None:
        many = sessions(20)
        records = [asyncio.ensure_future(one.record(who, overflow(9000))) for who in many]
        await asyncio.sleep(0)
        await one.close()
        told = await asyncio.gather(*records, return_exceptions=True)
        failed = [isinstance(trouble, MemoryTrouble) for trouble in told]
        assert [isinstance(trouble, BaseException) for trouble in told] == failed
        if self.shared:
            there = [who.session for who, lost in zip(many, failed, strict=True) if not lost]
            assert set(there) <= set(await kept(other, many))
