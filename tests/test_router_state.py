"""The real Router on each of its stores, against section 3 of the rules written down a second time.

Hypothesis makes up what happens: turns of several sessions and agents on two routes, any number of them
under way at once, what each target answers, callers who leave, deadlines, sessions that end, are forgotten
or expire, targets that are restored or get another model, routers that are replaced while their turns go
on. Upstreams answer only when they are told to, so turns overlap in every way that matters: whoever is
asked next was decided by a memory that others have changed meanwhile. After each step the rules say whom
a turn asks now, or how it has ended and whom it passed over, and what is remembered.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import httpx
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from redis_server import RedisServer

from turnout import AuditRecord, InMemory, Options, Policy, Route, Router, SqliteMemory, Target, TurnFailed
from turnout.engine.clock import VirtualClock
from turnout.engine.memory.protocol import Change, Memory
from turnout.engine.memory.redis import RedisMemory
from turnout.engine.testing import Scripted, in_json, model_of, ok, refusal
from turnout.engine.testing.transport import perform

TTL = 7200.0
SLACK = TTL / 10
"""How much later than it was noted a last use may be."""
DEADLINE = 2000.5
"""Of a turn; no other time of these stories has such a half, so nothing happens at the same instant."""

LADDERS = {"main": ("a", "b", "c"), "tolerant": ("c", "a")}
HONOURED = {"main": {"context_window", "capability"}, "tolerant": {"context_window"}}
"""The reasons that each route evicts for."""
HOMELY = {"tolerant"}
"""The routes on which a session has a home."""

BODIES: dict[str, dict[str, Any]] = {
    "text": {"messages": [{"role": "user", "content": "Good morning"}]},
    "image": {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "i"}}]}]},
    "tools": {"messages": [], "tools": [{"type": "function", "function": {"name": "f"}}]},
}
NEEDED: dict[str, set[str]] = {"text": set(), "image": {"image"}, "tools": {"tools", "tool_schema"}}

SERVES, SURFACES, FOR_THE_TURN = "serves", "surfaces", "for this turn"
OVERFLOWS, REFUSES = "context_window", "capability"
ANSWERS: dict[str, tuple[Scripted, str]] = {
    "ok": (ok(), SERVES),
    "overflow": (refusal("context_window"), OVERFLOWS),
    "no image": (refusal("capability", "image"), REFUSES),
    "no tools": (refusal("capability", "tools"), REFUSES),
    "not that": (refusal("capability"), REFUSES),
    "503": (refusal("unavailable"), FOR_THE_TURN),
    "no quota": (refusal("quota_or_billing"), FOR_THE_TURN),
    "403": (in_json(403, {"error": {"message": "Forbidden", "code": "forbidden"}}), FOR_THE_TURN),
    "no answer": (in_json(200, {"choices": []}), FOR_THE_TURN),
    "401": (refusal("auth"), SURFACES),
    "no model": (refusal("model_not_found"), SURFACES),
    "not allowed": (refusal("content_policy"), SURFACES),
    "no such parameter": (refusal("parameter_reject"), SURFACES),
    "caller's mistake": (refusal("caller_error"), SURFACES),
}
REFUSED = {"no image": "image", "no tools": "tools", "not that": "other"}


# -- the rules

Who = tuple[str, str]
"""A session and an agent of it, or its root."""
Key = tuple[str, str, str]
"""A target, its fingerprint and a reason."""
When = tuple[float, str]
"""A time, and the turn that it is of."""


@dataclass(frozen=True)
class Row:
    """What is remembered of one target for one reason."""

    key: Key
    first: When
    latest: When
    size: int | None = None
    refused: frozenset[str] = frozenset()

    def merged(self, other: Row) -> Row:
        sizes = [size for size in (self.size, other.size) if size is not None]
        return Row(
            self.key,
            min(self.first, other.first),
            max(self.latest, other.latest),
            min(sizes, default=None),
            self.refused | other.refused,
        )


Server = tuple[float, str, str]
"""When it served, its name and its fingerprint."""


@dataclass(frozen=True)
class Lives:
    """Where a session is at home on a route."""

    home: Server
    last: Server
    moves: int = 0

    def merged(self, other: Lives) -> Lives:
        first = min(self, other, key=lambda lives: (-lives.moves, lives.home))
        return Lives(first.home, max(self.last, other.last), first.moves)


@dataclass
class Rules:
    """What is remembered, and what no longer is."""

    rows: dict[Who, dict[Key, Row]] = field(default_factory=dict)
    lives: dict[Who, dict[str, Lives]] = field(default_factory=dict)
    used: dict[Who, float] = field(default_factory=dict)
    removed: Counter[tuple[Who, Key, str]] = field(default_factory=Counter)

    def now_is(self, now: float) -> None:
        for who in [who for who in self.known if self.used[who] + TTL <= now]:
            self._drop(who, list(self.read(who)), "expired")
            self.lives.pop(who, None)

    @property
    def known(self) -> set[Who]:
        """Of whom anything is remembered."""
        return {*self.rows, *self.lives}

    def read(self, who: Who | None) -> dict[Key, Row]:
        return dict(self.rows.get(who, {})) if who else {}

    def record(self, who: Who, row: Row) -> None:
        rows = self.rows.setdefault(who, {})
        rows[row.key] = rows[row.key].merged(row) if row.key in rows else row
        self.used[who] = max(self.used.get(who, 0.0), row.latest[0])

    def settle(self, who: Who, route: str, lives: Lives, now: float) -> None:
        mine = self.lives.setdefault(who, {})
        mine[route] = mine[route].merged(lives) if route in mine else lives
        self.used[who] = max(self.used.get(who, 0.0), now)

    def touch(self, who: Who, now: float) -> None:
        if who in self.known and self.used[who] + SLACK <= now:
            self.used[who] = now

    def remove(self, who: Who, read: Sequence[Row], why: str) -> None:
        standing = self.read(who)
        self._drop(
            who,
            [row.key for row in read if row.key in standing and standing[row.key].latest == row.latest],
            why,
        )

    def forget(self, session: str, agent: str | None) -> None:
        for who in [who for who in self.known if who[0] == session and agent in (None, who[1])]:
            self._drop(who, list(self.read(who)), "forgotten")
            self.lives.pop(who, None)

    def restore_everywhere(self, target: str, fingerprint: str) -> None:
        for who in list(self.rows):
            keys = [key for key in self.rows[who] if key[:2] == (target, fingerprint)]
            self._drop(who, keys, "not listed")

    def _drop(self, who: Who, keys: Sequence[Key], why: str) -> None:
        for key in keys:
            del self.rows[who][key]
            self.removed[who, key, why] += 1
        if who in self.rows and not self.rows[who]:
            del self.rows[who]


@dataclass
class Course:
    """One turn as it has to go."""

    rules: Rules
    id: str
    who: Who | None
    final: bool
    route: str
    ladder: Mapping[str, str]
    """The fingerprint of each target, in order."""
    honours: set[str]
    needs: set[str]
    size: int
    deadline: float
    asked: list[str] = field(default_factory=list)
    known: dict[Key, Row] = field(default_factory=dict)
    noted: bool = False
    last_resort: bool = False
    asks: str = ""
    """Whom it asks just now."""
    ended: str = ""
    """By what."""
    restored: Sequence[Row] = ()
    lives: Lives | None = None
    """Where the session was at home when it began."""
    holds: bool = False
    """Whether anything was remembered when that was read last."""

    def begin(self) -> None:
        self._read()
        if self.who and self.route in HOMELY:
            self.lives = self.rules.lives.get(self.who, {}).get(self.route)
        eligible = self._in_order()
        self.last_resort = not eligible
        self.asks = eligible[0] if eligible else self._survivor()

    def answered(self, answer: str, now: float) -> None:
        does = ANSWERS[answer][1]
        self.asked.append(target := self.asks)
        if does == SERVES:
            if self.last_resort:
                self.restored = [row for row in self.out(target) if self._contradicts(row)]
            self.end("answered", now)
        elif does == SURFACES:
            self.end("rejected", now)
        else:
            if self.who and does in self.honours:
                self._record(Row((target, self.ladder[target], does), (now, self.id), (now, self.id)), answer)
            self._go_on(now)

    def end(self, by: str, now: float) -> None:
        """Come to the end, and keep the books."""
        if by in ("expired", "cancelled"):
            self.asked.append(self.asks)
        self.ended = by
        if self.who and self.final:
            self.rules.forget(self.who[0], self.who[1] or None)
        elif self.who:
            self.rules.remove(self.who, self.restored, "served")
            settled = self._settled(now) if by == "answered" else None
            if settled:
                self.rules.settle(self.who, self.route, settled, now)
            elif self.holds and not self.noted:
                self.rules.touch(self.who, now)

    def _settled(self, now: float) -> Lives | None:
        if self.route not in HOMELY:
            return None
        server = (now, self.asked[-1], self.ladder[self.asked[-1]])
        if self.lives is None:
            return Lives(server, server)
        _, name, fingerprint = self.lives.home
        lost = self.ladder.get(name) != fingerprint or bool(self.out(name))
        if lost and server[1:] != (name, fingerprint):
            return Lives(server, server, self.lives.moves + 1)
        if server[1:] == self.lives.last[1:]:
            return None
        return Lives(server, server, -1)  # no home is moved, and none that was forgotten comes back

    def out(self, target: str) -> list[Row]:
        """What rules a target out."""
        keys = [(target, self.ladder[target], reason) for reason in self.honours]
        return [self.known[key] for key in keys if key in self.known]

    @property
    def passed_over(self) -> list[tuple[str, set[str]]]:
        waiting = [target for target in self.ladder if target not in self.asked]
        return [(target, {row.key[2] for row in self.out(target)}) for target in waiting if self.out(target)]

    @property
    def not_tried(self) -> list[str]:
        return [] if self.ended == "advance" else self._eligible()

    def _read(self) -> None:
        self.known = self.rules.read(self.who)
        self.holds = self.who in self.rules.known

    def _go_on(self, now: float) -> None:
        if not self.last_resort and len(self.asked) < len(self.ladder):
            self._read()
            if eligible := self._in_order():
                self.asks = eligible[0]
                return
        self.end("advance", now)

    def _record(self, row: Row, answer: str) -> None:
        assert self.who
        row = replace(
            row,
            size=self.size if row.key[2] == OVERFLOWS else None,
            refused=frozenset({REFUSED[answer]} if row.key[2] == REFUSES else ()),
        )
        self.rules.record(self.who, row)
        self.known[row.key] = row
        self.noted = True

    def _contradicts(self, row: Row) -> bool:
        return row.key[2] == OVERFLOWS or row.refused <= {*self.needs, "other"}

    def _eligible(self) -> list[str]:
        return [target for target in self.ladder if target not in self.asked and not self.out(target)]

    def _in_order(self) -> list[str]:
        """Those, home first, then who served last."""
        first = [self.lives.home, self.lives.last] if self.lives else []
        here = [name for _, name, fingerprint in first if self.ladder.get(name) == fingerprint]
        eligible = self._eligible()
        return list(dict.fromkeys([name for name in here if name in eligible] + eligible))

    def _survivor(self) -> str:
        def last(target: str) -> tuple[bool, float]:
            rows = self.out(target)
            return any(row.key[2] == REFUSES for row in rows), min(row.first[0] for row in rows)

        first = [self.lives.home, self.lives.last] if self.lives else []
        here = [name for _, name, fingerprint in first if self.ladder.get(name) == fingerprint]
        return min(dict.fromkeys([*here, *self.ladder]), key=last)


# -- the world


class Gate(httpx.AsyncBaseTransport):
    """Upstreams that answer when they are told to."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._waiting: dict[str, tuple[str, asyncio.Future[Scripted]]] = {}
        self._asked = asyncio.Event()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        turn, told = request.headers["x-request-id"], asyncio.get_running_loop().create_future()
        self._waiting[turn] = model_of(request).partition("-")[0], told
        self._asked.set()
        try:
            answer = await told
        finally:
            del self._waiting[turn]
        return await perform(answer.steps("openai_chat", False), request, self._clock)

    def asked_by(self, turn: str) -> str:
        """Whom a turn waits for; nobody, if it waits for none."""
        return self._waiting[turn][0] if turn in self._waiting else ""

    def answer(self, turn: str, answer: Scripted) -> None:
        self._waiting[turn][1].set_result(answer)

    async def asked_or_ended(self, task: asyncio.Task[Any]) -> None:
        """Until a turn asks somebody anew, or has ended."""
        self._asked.clear()
        asked = asyncio.create_task(self._asked.wait())
        await asyncio.wait([asked, task], return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()


class Attended:
    """A memory, and how many of its calls are under way: virtual time stands still for them."""

    calls = 0

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        method = getattr(self._memory, name)

        async def attended(*args: Any, **named: Any) -> Any:
            Attended.calls += 1
            try:
                return await method(*args, **named)
            finally:
                Attended.calls -= 1

        return attended


@dataclass
class Flight:
    """A turn under way, with the router that it is of."""

    course: Course
    router: Router
    task: asyncio.Task[Any]


class Asked(NamedTuple):
    """What a caller asks, and what each target says that comes to be asked."""

    route: str
    body: str
    size: int
    final: bool
    said: tuple[str, ...]


owners = st.sampled_from([("s1", "")] * 6 + [("s1", "x"), ("s1", "y"), ("s2", ""), ("", ""), ("", "x")])
names = st.sampled_from(["a", "b", "c"])
answers = st.sampled_from(
    ["ok", "overflow", "no image", "no tools", "not that"] * 4 + ["503"] * 2 + list(ANSWERS)
)
turns = st.builds(
    Asked,
    st.sampled_from(["main", "main", "tolerant"]),
    st.sampled_from(list(BODIES)),
    st.sampled_from([500, 9000, 20000]),
    st.sampled_from([False] * 14 + [True]),
    st.tuples(answers, answers, answers),
)
conversations = st.lists(st.tuples(st.sampled_from([0, 1]), turns), min_size=1, max_size=6)
"""Turns, and how many seconds pass before each."""
under_way = st.integers(0, 99)
"""One of the turns that are."""


class RouterAndRules(RuleBasedStateMachine):
    """Does the same to both."""

    def __init__(self, memory: Callable[[], Memory]) -> None:
        super().__init__()
        self.open_memory = memory
        self.clock, self.model, self.cleanup = VirtualClock(1_000_000.0), Rules(), ExitStack()
        self.runner = self.cleanup.enter_context(self.clock.runner())
        self.cleanup.enter_context(self.clock.hold(lambda: Attended.calls > 0))
        self.gate = Gate(self.clock)
        self.records: dict[str, AuditRecord] = {}
        self.changes: list[Change] = []
        self.flights: dict[str, Flight] = {}
        self.closing: dict[Router, set[asyncio.Task[Any]]] = {}
        self.begun = 0
        self.open(frozenset())

    def open(self, changed: frozenset[str]) -> None:
        """A router on the store, with another model behind these targets."""
        ladders = {
            route: tuple(
                Target(
                    name,
                    model=f"{name}-new" if name in changed else f"{name}-old",
                    base_url="http://upstream.example",
                    max_retries=0,
                    timeout_secs=2 * DEADLINE,
                )
                for name in names
            )
            for route, names in LADDERS.items()
        }
        policies = {"main": Policy(), "tolerant": Policy({"capability": "skip"})}
        self.prints = {target.name: target.fingerprint for ladder in ladders.values() for target in ladder}
        self.memory: Any = Attended(self.open_memory())
        self.router = Router(
            routes=[
                Route(
                    id=route,
                    ladder=ladders[route],
                    policy=policies[route],
                    deadline_secs=DEADLINE,
                    options=Options(affinity="home" if route in HOMELY else None),
                )
                for route in LADDERS
            ],
            memory=self.memory,
            transport=self.gate,
            clock=self.clock,
            on_record=lambda record: self.records.update({record.request: record}),
            on_change=self.changes.append,
            new_id=lambda: f"t{self.begun:03}",
        )

    # -- what happens

    @rule(owner=owners, asked=conversations)
    def converses(self, owner: Who, asked: list[tuple[int, Asked]]) -> None:
        """Some turns, one after the other."""
        for pause, each in asked:
            self.pass_time(pause)
            self.answer_all(self.begin(owner, each), each)

    @rule(owner=owners, asked=turns, meanwhile=conversations, secs=st.sampled_from([0, 0, 800]))
    def takes_long(self, owner: Who, asked: Asked, meanwhile: list[tuple[int, Asked]], secs: int) -> None:
        """One turn, and others of the same agent while it waits for its first answer."""
        turn = self.begin(owner, asked)
        self.converses(owner, meanwhile)
        self.pass_time(secs)
        self.answer_all(turn, asked)

    @precondition(lambda self: len(self.flights) < 4)
    @rule(owner=owners, asked=st.lists(turns, min_size=1, max_size=4))
    def asks_at_once(self, owner: Who, asked: list[Asked]) -> None:
        for each in asked:
            self.begin(owner, each)

    @precondition(lambda self: self.flights)
    @rule(said=st.lists(st.tuples(under_way, answers), min_size=1, max_size=8))
    def are_answered(self, said: list[tuple[int, str]]) -> None:
        for which, answer in said:
            if self.flights:
                self.answer(self.chosen(which), answer)

    @precondition(lambda self: self.flights)
    @rule(which=under_way)
    def leaves(self, which: int) -> None:
        flight = self.flights[self.chosen(which)]

        async def leave() -> None:
            flight.task.cancel()
            await asyncio.wait([flight.task])

        flight.course.end("cancelled", self.clock.now())
        self.do(leave())

    @rule(secs=st.sampled_from([1, 700, 800, 3000, 6500, 7199]))
    def time_passes(self, secs: int) -> None:
        self.pass_time(secs)

    @rule(
        who=owners.filter(lambda who: who[0] != ""),
        name=names,
        how=st.sampled_from(["forget agent", "forget session", "restore", "restore everywhere"]),
    )
    def is_taken_back(self, who: Who, name: str, how: str) -> None:
        session, agent = who
        if how == "restore everywhere":
            self.model.restore_everywhere(name, self.prints[name])
            self.do(self.router.restore(target=name))
        elif how == "restore":
            found = [row for row in self.model.read(who).values() if row.key[0] == name]
            self.model.remove(who, found, "restored")
            self.do(self.router.restore(session, target=name, agent=agent))
        else:
            whose = agent if how == "forget agent" else None
            self.model.forget(session, whose)
            self.do(self.router.forget(session, agent=whose))

    @rule(changed=st.frozensets(names, max_size=1))
    def router_is_replaced(self, changed: frozenset[str]) -> None:
        """Its turns go on; it is closed when they have ended."""
        old = self.router

        async def close() -> None:
            before = asyncio.all_tasks()
            closing = asyncio.create_task(old.close())
            await asyncio.sleep(0)
            self.closing[old] = {closing, *asyncio.all_tasks()} - before

        self.open(changed)
        self.do(close())

    # -- what has to be

    @invariant()
    def the_same_is_remembered(self) -> None:
        page = self.runner.run(self.memory.held("", now=self.clock.now()))
        held = {(one.identity.session, one.identity.agent): one for one in page.held}
        assert not page.cursor
        assert {who: {_row(e) for e in one.evictions} for who, one in held.items()} == {
            who: {*self.model.read(who).values()} for who in self.model.known
        }
        assert {who: one.last_use for who, one in held.items()} == {
            who: self.model.used[who] for who in self.model.known
        }
        assert {
            who: {route: _lives(home) for route, home in one.habits.homes.items()}
            for who, one in held.items()
            if one.habits
        } == self.model.lives

    @invariant()
    def every_removal_was_told(self) -> None:
        told = Counter(
            ((who.session, who.agent), _row(change.eviction).key, change.why)
            for change in self.changes
            for who in [change.identity]
        )
        listed = Counter({what: n for what, n in self.model.removed.items() if what[2] != "not listed"})
        # what has expired is told when somebody comes by
        late = listed - told
        assert told <= listed
        assert {why for _, _, why in late} <= {"expired"}

    def teardown(self) -> None:
        async def end() -> None:
            for flight in self.flights.values():
                flight.task.cancel()
            await asyncio.gather(*(task for tasks in self.closing.values() for task in tasks))
            await self.router.close()

        try:
            self.runner.run(end())
        finally:
            self.cleanup.close()

    # -- how it is done

    def begin(self, owner: Who, asked: Asked) -> str:
        self.begun += 1
        turn, (session, agent) = f"t{self.begun:03}", owner
        course = Course(
            self.model,
            turn,
            owner if session else None,
            asked.final,
            asked.route,
            {name: self.prints[name] for name in LADDERS[asked.route]},
            HONOURED[asked.route],
            NEEDED[asked.body],
            asked.size,
            self.clock.now() + DEADLINE,
        )
        course.begin()

        async def begin() -> None:
            going = self.router.turn(
                BODIES[asked.body],
                route=asked.route,
                session=session,
                agent=agent,
                final=asked.final,
                size=asked.size,
                headers={"x-request-id": turn},
            )
            self.flights[turn] = Flight(course, self.router, asyncio.create_task(going))
            await self.gate.asked_or_ended(self.flights[turn].task)

        self.do(begin())
        return turn

    def answer_all(self, turn: str, asked: Asked) -> None:
        for answer in asked.said:
            if turn in self.flights:
                self.answer(turn, answer)

    def answer(self, turn: str, said: str) -> None:
        self.flights[turn].course.answered(said, self.clock.now())

        async def answer() -> None:
            self.gate.answer(turn, ANSWERS[said][0])
            await self.gate.asked_or_ended(self.flights[turn].task)

        self.do(answer())

    def chosen(self, which: int) -> str:
        return list(self.flights)[which % len(self.flights)]

    def pass_time(self, secs: float) -> None:
        until = self.clock.now() + secs
        for flight in self.flights.values():
            if (at := flight.course.deadline) < until:
                self.model.now_is(at)
                flight.course.end("expired", at)
        self.do(self.clock.sleep(secs))

    def do(self, doing: Coroutine[Any, Any, Any]) -> None:
        """Let something happen, with all that follows from it; then see where the turns are."""

        async def done() -> None:
            await doing
            under_way = [flight for flight in self.flights.values() if not flight.task.done()]
            routers = {flight.router for flight in under_way}
            waiting = {flight.task for flight in under_way}
            waiting.update(*(self.closing.get(router, ()) for router in routers))
            while rest := asyncio.all_tasks() - {asyncio.current_task()} - waiting:
                await asyncio.wait(rest)

        self.runner.run(done())
        self.model.now_is(self.clock.now())
        for turn, flight in list(self.flights.items()):
            assert self.gate.asked_by(turn) == ("" if flight.course.ended else flight.course.asks)
            if flight.course.ended:
                del self.flights[turn]
                self.check_ended(flight)

    def check_ended(self, flight: Flight) -> None:
        course, record = flight.course, self.records.pop(flight.course.id)
        assert [probe.target for probe in record.probes] == course.asked
        assert [(t.target, {e.reason for e in t.evictions}) for t in record.passed_over] == course.passed_over
        assert [t.target for t in record.not_tried] == course.not_tried
        assert {_row(e) for e in record.restored} == set(course.restored)
        assert (record.ended_by, record.notes) == (course.ended, ())
        if course.ended == "cancelled":
            assert flight.task.cancelled()
        else:
            failed = isinstance(flight.task.exception(), TurnFailed)
            assert failed is (record.state == "failed") is (course.ended != "answered")


def _lives(home: Any) -> Lives:
    home_and_last = [(place.at, place.target, place.fingerprint) for place in (home.home, home.last)]
    return Lives(*home_and_last, home.moves)


def _row(eviction: Any) -> Row:
    return Row(
        (eviction.target, eviction.fingerprint, str(eviction.reason)),
        (eviction.first.at, eviction.first.turn),
        (eviction.latest_at, eviction.latest_turn),
        eviction.size,
        frozenset(feature for features in eviction.refused for feature in features),
    )


# -- the stores


def agree(memory: Callable[[], Callable[[], Memory]], *, examples: int) -> None:
    """Let them live through so many stories.

    Args:
        memory: gives, for each story, what opens its store.
    """

    def story() -> RouterAndRules:
        return RouterAndRules(memory())

    run_state_machine_as_test(
        cast("Any", story),  # whatever makes one will do, though it asks for a class
        settings=settings(
            max_examples=examples, stateful_step_count=30, suppress_health_check=list(HealthCheck)
        ),
    )


def test_a_router_with_its_memory_in_the_process_follows_the_rules() -> None:
    def kept() -> Callable[[], Memory]:
        memory = InMemory(ttl_secs=TTL)
        return lambda: memory

    agree(kept, examples=150)


def test_a_router_on_a_file_follows_the_rules(tmp_path: Path) -> None:
    files = iter(range(10**9))

    def a_file() -> Callable[[], Memory]:
        path = tmp_path / f"{next(files)}.db"
        return lambda: SqliteMemory(path, ttl_secs=TTL)

    agree(a_file, examples=40)


def test_a_router_on_redis_follows_the_rules(redis_server: RedisServer) -> None:
    def emptied() -> Callable[[], Memory]:
        redis_server.ask("FLUSHALL")
        return lambda: RedisMemory(redis_server.url, ttl_secs=TTL)

    agree(emptied, examples=40)
