"""A memory in Redis or Valkey, shared by every process that reaches it.

Reading and a first recording take one round trip. What is merged is merged here, by the one
rule that every store has: a script puts the result where what was read still stands, else it
gives back what does, and that is merged again. So nothing is ever lost between two clients,
and nothing is locked.

Whether something has expired is told by the caller's clock. Redis's own expiry only sees to it
that nothing stays for ever where nobody sweeps.

A sweep goes by the order of use, which the store keeps: its steps look only at what has to go.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

from redis import exceptions as redis
from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from turnout.engine.context import EMPTY, Eviction, Identity, SessionContext
from turnout.engine.credentials import presentable
from turnout.engine.errors import ConfigurationError, MemoryRefusal, MemoryTrouble
from turnout.engine.habits import NO_HABITS, Habits
from turnout.engine.health import LONGEST, Health
from turnout.engine.memory import redis_url
from turnout.engine.memory.ids import shown
from turnout.engine.memory.protocol import Change, Held, Page, Swept
from turnout.engine.memory.redis import scripts
from turnout.engine.memory.redis.rows import (
    HABITS,
    HABITS_SCHEMA,
    SCHEMA,
    USE,
    Keys,
    Row,
    Stored,
    field_of,
    identity_in,
    keys_of,
    member_of,
    past,
    row_of,
    session_in,
    target_of,
)
from turnout.engine.memory.sqlite import Durability
from turnout.engine.memory.stripped import Learnt, learn
from turnout.engine.memory.stripped import keys_of as refused_keys_of
from turnout.engine.memory.values import eviction_json, health_in, json_of, learnt_in
from turnout.machines.vocabulary import TurnoutError

_SWEPT_AT_ONCE: Final = 100
_FORGOTTEN_AT_ONCE: Final = 1000
"""How many identities one script is about: Redis serves nobody else while it runs."""

_HEALTH_SPAN_MS: Final = round(2 * LONGEST * 1000)
"""How long a target's health is kept at least: no pause is longer."""

_LONGEST: Final = 400
"""How much of what Redis says is told."""

_MAKE_ROOM: Final = "give it more memory (maxmemory) or remove something: nothing needs to be restarted"
_ACCESS: Final = "let that user run EVALSHA, EVAL, HGETALL, GET and the Z commands on the keys turnout:*"
_CLUSTER: Final = (
    "give the address of a proxy of that cluster, or of one server: a node is not asked for another's keys"
)
_WHAT_TO_DO: Final = {
    "NOAUTH": "give a user and a password in the url",
    "WRONGPASS": "see to the user and the password in the url",
    "NOPERM": _ACCESS,
    "LOADING": "it is reading its data and will answer: nothing needs to be restarted",
    "MASTERDOWN": "its primary is away: nothing needs to be restarted",
    "READONLY": "give the address of the primary; where that has just moved, the next call looks for it anew",
    "MOVED": _CLUSTER,
    "ASK": _CLUSTER,
    "CLUSTERDOWN": "see to its cluster: nothing needs to be restarted",
    "CROSSSLOT": _CLUSTER,
    "OOM": _MAKE_ROOM,
    "MISCONF": "it cannot write to its disk: see its log, and make room there",
    "NOREPLICAS": "it has too few replicas (min-replicas-to-write): nothing needs to be restarted",
    "BUSY": "another script keeps it busy: see to that (SCRIPT KILL)",
    "WRONGTYPE": "a key of that name holds what Turnout has not written: delete it, or give another database",
}
"""By what Redis calls it."""

_CODE: Final = re.compile(rf"\b({'|'.join(_WHAT_TO_DO)})\b")

_CODES: Final[tuple[tuple[type[Exception], str], ...]] = (
    (redis.AuthenticationError, "WRONGPASS"),
    (redis.NoPermissionError, "NOPERM"),
    (redis.BusyLoadingError, "LOADING"),
    (redis.MasterDownError, "MASTERDOWN"),
    (redis.ReadOnlyError, "READONLY"),
    (redis.AskError, "MOVED"),
    (redis.ClusterDownError, "CLUSTERDOWN"),
    (redis.OutOfMemoryError, "OOM"),
)
"""What redis-py calls it, where it has taken Redis's word out of the message."""


class _Unusable(TurnoutError):
    """What Redis has no error for."""

    def __init__(self, why: str, what_to_do: str) -> None:
        super().__init__(why)
        self.what_to_do = what_to_do


# ValueError and OverflowError: text that is no Unicode, a number that no JSON reader would take
_TROUBLES: Final = (redis.RedisError, OSError, ValueError, OverflowError, _Unusable)


class _Refusal(_Unusable):
    """What concerns only what was asked for."""


class _Going(NamedTuple):
    """What shall go of an identity."""

    stored: Stored
    rows: tuple[Row, ...]
    unused: bool = False
    """Only if it was not used since it was read."""


class RedisMemory:
    """Evictions, habits, refused keys and targets' health in Redis 6.2 or Valkey, or later ones.

    Nothing is connected before the first use; one event loop uses it.

    Args:
        url: `redis://[USER:PASSWORD@]HOST[:PORT][/DB]`, `rediss://…` for TLS, `unix://PATH[?db=DB]`.
        ttl_secs: how long an identity is remembered after its last use, and a target's refused keys
            after the last refusal, in seconds.
        max_sessions: how many sessions of a namespace a sweep leaves, the most recently used ones.
        durability: what a recorded eviction survives: `process`, the death of this process, and whatever
            the server's own settings make it survive; `full`, a power loss at the server. A server that
            cannot promise that refuses every write.
        timeout_secs: how long a call waits for the server at most, in seconds of the wall clock. It is a last
            resort: a router bounds each call itself.
        connections: how many there may be at once; further calls wait for one.

    Raises:
        ConfigurationError: the url is none of these, or another durability.
    """

    def __init__(
        self,
        url: str,
        *,
        ttl_secs: float = 86400.0,
        max_sessions: int = 1_000_000,
        durability: Durability = "process",
        timeout_secs: float = 5.0,
        connections: int = 64,
    ) -> None:
        if what := redis_url.mistake(url) if redis_url.is_redis(url) else "names no Redis store":
            raise ConfigurationError(f"memory url {what}")
        self._place = redis_url.place_of(url)
        if durability not in ("process", "full"):
            raise ConfigurationError(
                f"memory {self._place}: durability is {durability!r}; give process or full"
            )
        self._secrets = redis_url.secrets_in(url)
        self._ttl = ttl_secs
        self._touch_after = min(3600.0, ttl_secs / 10)
        self._max_sessions = max_sessions
        self._full = durability == "full"
        self._timeout_ms = max(1, round(timeout_secs * 1000))
        # twice the time to live, and an hour: a sweep comes first, and tells what has expired
        self._span_ms = round((2 * ttl_secs + 3600) * 1000)
        self._slack_ms = round(self._touch_after * 1000)
        self._pool = ConnectionPool.from_url(
            url,
            max_connections=connections,
            protocol=2,  # no announcements between the replies
            decode_responses=False,
            socket_timeout=timeout_secs,
            socket_connect_timeout=timeout_secs,
            retry=Retry(NoBackoff(), 0),  # whoever asks knows better whether there is time to ask again
            **({} if url.startswith("unix") else {"socket_keepalive": True}),
        )
        self._redis = Redis(connection_pool=self._pool)
        self._free = asyncio.Semaphore(connections)
        self._asking = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False

    async def read(self, identity: Identity, *, now: float) -> SessionContext:
        async with self._telling("read"):
            keys, (member, _) = keys_of(identity.namespace), member_of(identity)
            stored = await self._standing(keys, member)
            if not stored.rows:
                return EMPTY
            return SessionContext(self._living(keys, stored, now), self._habits(keys, stored, now))

    async def record(
        self, identity: Identity, eviction: Eviction, *, used: float | None = None
    ) -> tuple[Change, ...]:
        now = eviction.latest_at if used is None else used
        async with self._telling("record"):
            keys, (member, session) = keys_of(identity.namespace), member_of(identity)
            use = self._use(now, member, session)
            field, there, merged = field_of(eviction), b"", eviction
            while True:
                put = (field, there, SCHEMA, eviction_json(merged))
                reply = await self._run(scripts.RECORD, self._in_use(keys, member), *use, *put, durable=True)
                if isinstance(reply, list):
                    gone = [row_of(*pair).eviction for pair in _pairs(reply)]
                    return tuple(Change(now, shown(identity), known, "expired") for known in gone if known)
                # alone, if what it was merged with has been removed, or tells nobody anything
                there, merged = reply, eviction
                if there:
                    row = row_of(field, there)
                    if row.newer:
                        return ()  # it is honoured, and what else it says must not be lost
                    merged = row.eviction.merge(eviction) if row.eviction else eviction

    async def settle(self, identity: Identity, habits: Habits, *, now: float) -> tuple[Change, ...]:
        async with self._telling("settle"):
            keys, (member, session) = keys_of(identity.namespace), member_of(identity)
            use = self._use(now, member, session)
            there, merged = b"", habits
            while True:
                put = (HABITS, there, HABITS_SCHEMA, json_of(merged))
                reply = await self._run(scripts.RECORD, self._in_use(keys, member), *use, *put, durable=True)
                if isinstance(reply, list):
                    gone = [row_of(*pair).eviction for pair in _pairs(reply)]
                    return tuple(Change(now, shown(identity), known, "expired") for known in gone if known)
                row = row_of(HABITS, reply)
                if row.newer:
                    return ()
                there, merged = reply, (row.habits or NO_HABITS).merge(habits)

    async def touch(self, identity: Identity, *, now: float) -> None:
        async with self._telling("touch"):
            keys, (member, session) = keys_of(identity.namespace), member_of(identity)
            await self._run(scripts.TOUCH, self._in_use(keys, member), *self._use(now, member, session))

    async def remove(
        self, identity: Identity, evictions: Sequence[Eviction], *, now: float, why: str
    ) -> tuple[Change, ...]:
        read = {(e.key, e.latest_turn) for e in evictions}
        async with self._telling("remove"):
            keys, (member, _) = keys_of(identity.namespace), member_of(identity)
            while True:
                stored = await self._standing(keys, member)
                going = [
                    (row, row.eviction)
                    for row in stored.rows
                    if row.eviction and (row.eviction.key, row.eviction.latest_turn) in read
                ]
                if not going or self._expired(stored, now):
                    return ()
                if not await self._drop(keys, [_Going(stored, tuple(row for row, _ in going))]):
                    return tuple(Change(now, shown(identity), eviction, why) for _, eviction in going)

    async def forget(
        self, namespace: str, session: str, agent: str | None = None, *, now: float
    ) -> tuple[Change, ...]:
        async with self._telling("forget"):
            keys, root = keys_of(namespace), member_of(Identity(namespace, session))[0]
            if agent is None:
                listed = await self._ask("ZRANGEBYLEX", keys.identities, b"[" + root, b"(" + past(root))
                members = list(dict.fromkeys((root, *listed)))
            else:
                members = [member_of(Identity(namespace, session, agent))[0]]
            changes: list[Change] = []
            for begin in range(0, len(members), _FORGOTTEN_AT_ONCE):
                part = members[begin : begin + _FORGOTTEN_AT_ONCE]
                while part:
                    seen = await self._look(keys, part)
                    going = [_Going(stored, _until(stored, now)) for stored in seen]
                    raced = await self._drop(keys, going)
                    changes += self._changes(namespace, going, raced, now, "forgotten")
                    part = [going[number].stored.member for number in sorted(raced)]
            return tuple(changes)

    async def restore_everywhere(self, namespace: str, target: str, fingerprint: str, *, now: float) -> None:
        async with self._telling("restore everywhere"):
            begun = (target_of(target, fingerprint), _time(now))
            await self._run(scripts.RESTORE, [keys_of(namespace).epochs], *begun, durable=True)

    async def stripped(
        self, namespace: str, target: str, fingerprint: str, configuration: str, *, now: float
    ) -> frozenset[str]:
        async with self._telling("read what was stripped"):
            key = keys_of(namespace).learnt(target, fingerprint)
            learnt = self._learnt(key, await self._ask("GET", key) or b"")
        return refused_keys_of(learnt, configuration, now=now, ttl_secs=self._ttl)

    async def strip(
        self,
        namespace: str,
        target: str,
        fingerprint: str,
        configuration: str,
        keys: frozenset[str],
        *,
        now: float,
    ) -> None:
        async with self._telling("keep what was stripped"):
            key, there = keys_of(namespace).learnt(target, fingerprint), b""
            while there is not None:
                try:
                    known = self._learnt(key, there)
                except _Refusal:  # what is learnt now takes the place of what nobody can read
                    known = {}
                learnt = json_of(learn(known, configuration, keys, now=now, ttl_secs=self._ttl))
                there = await self._run(scripts.SWAP, [key], there, learnt, self._span_ms, durable=True)

    async def health(self, namespace: str, targets: Sequence[tuple[str, str]]) -> tuple[Health, ...]:
        async with self._telling("read health"):
            keys = keys_of(namespace)
            found = await self._ask("MGET", *[keys.health(*target) for target in targets])
            return tuple([health_in(value) for value in found])

    async def change_health(
        self, namespace: str, target: str, fingerprint: str, change: Callable[[Health], Health]
    ) -> Health:
        async with self._telling("keep health"):
            key = keys_of(namespace).health(target, fingerprint)
            there = await self._ask("GET", key) or b""
            while True:
                changed = change(known := health_in(there))
                if changed == known:
                    return changed
                span = max(self._span_ms, _HEALTH_SPAN_MS)
                there = await self._run(scripts.SWAP, [key], there, json_of(changed), span)
                if there is None:
                    return changed

    async def held(
        self,
        namespace: str,
        session: str | None = None,
        *,
        now: float,
        cursor: str = "",
        most: int = 1000,
    ) -> Page:
        async with self._telling("list"):
            keys, most = keys_of(namespace), max(most, 1)
            first, behind = b"-", b"+"
            if session is not None:
                root = member_of(Identity(namespace, session))[0]
                first, behind = b"[" + root, b"(" + past(root)
            if cursor:
                first = b"(" + _member(cursor)
            members = await self._ask("ZRANGEBYLEX", keys.identities, first, behind, "LIMIT", 0, most)
            held = []
            for stored in await self._look(keys, members):
                evictions = SessionContext(self._living(keys, stored, now)).evictions
                habits = self._habits(keys, stored, now)
                if evictions or habits:
                    held.append(
                        Held(identity_in(namespace, stored.member), stored.last_use, evictions, habits)
                    )
            return Page(tuple(held), members[-1].hex() if len(members) == most else "")

    async def sweep(self, namespace: str, *, now: float, most: int = 1000) -> Swept:
        async with self._telling("sweep"):
            keys, most = keys_of(namespace), min(max(most, 1), _SWEPT_AT_ONCE)
            # a little late: which are due exactly is reckoned below, as every read does
            due = math.nextafter(now - self._ttl, math.inf)
            # at once, or what another sweep has just removed would be removed again, of others; and by a
            # script, since a server that is full takes no transaction, and a sweep is what makes room there
            members, sessions, oldest = await self._run(
                scripts.DUE, (keys.uses, keys.sessions), repr(due), most, most - 1
            )
            if strange := [member for member in members if not _is_identity(member)]:
                await self._ask("ZREM", keys.uses, *strange)  # nobody can say whose they are
                return Swept((), more=True)
            why = "expired"
            seen = [stored for stored in await self._look(keys, members) if self._expired(stored, now)]
            if not seen and (too_many := sessions - self._max_sessions) > 0:
                why = "crowded out"
                seen = await self._look(keys, await self._agents(keys, oldest[:too_many], most))
            going = [_Going(stored, stored.rows, unused=True) for stored in seen]
            raced = await self._drop(keys, going)
            changes = self._changes(namespace, going, raced, now, why)
            return Swept(tuple(changes), more=len(raced) < len(going))

    async def close(self) -> None:
        self._closed = True
        await self._idle.wait()
        await self._pool.disconnect()

    # -- what is stored

    async def _standing(self, keys: Keys, member: bytes) -> Stored:
        """What stands of an identity."""
        found = await self._run(scripts.READ, (keys.identity(member), keys.epochs))
        pairs = dict(_pairs(found))
        return Stored(member, pairs.pop(USE, b""), tuple([row_of(*pair) for pair in pairs.items()]))

    async def _look(self, keys: Keys, members: Sequence[bytes]) -> list[Stored]:
        """All that is stored of some identities, what does not stand as well."""
        if not members:
            return []
        hashes = [("HGETALL", keys.identity(member)) for member in members]
        # the epochs last: what is overtaken meanwhile is known to be
        *found, epochs = await self._together(*hashes, ("HGETALL", keys.epochs))
        seen = []
        for member, pairs in zip(members, found, strict=True):
            use = pairs.pop(USE, b"")
            seen.append(
                Stored(member, use, tuple([row_of(field, value, epochs) for field, value in pairs.items()]))
            )
        return seen

    async def _agents(self, keys: Keys, sessions: Sequence[bytes], most: int) -> list[bytes]:
        """The identities of some sessions, and of each session one, even if there is none."""
        found = await self._together(
            *[
                ("ZRANGEBYLEX", keys.identities, b"[" + session, b"(" + past(session), "LIMIT", 0, most)
                for session in sessions
            ]
        )
        members = [m for session, agents in zip(sessions, found, strict=True) for m in agents or [session]]
        return members[:most]

    async def _drop(self, keys: Keys, going: Sequence[_Going]) -> frozenset[int]:
        """Remove, and tell by their places of whom nothing was removed, since it has changed."""
        if not going:
            return frozenset()
        arguments: list[bytes | int] = []
        for stored, rows, unused in going:
            use = stored.use if unused else b""
            arguments += (stored.member, session_in(stored.member), use, len(rows))
            arguments += [part for row in rows for part in (row.field, row.value)]
        identities = [keys.identity(stored.member) for stored, _, _ in going]
        raced = await self._run(
            scripts.DROP, (keys.identities, keys.uses, keys.sessions, *identities), *arguments, durable=True
        )
        return frozenset(raced)

    def _expired(self, stored: Stored, now: float) -> bool:
        return stored.last_use + self._ttl <= now

    def _living(self, keys: Keys, stored: Stored, now: float) -> Iterator[Eviction]:
        """What stands and has not expired."""
        key = keys.identity(stored.member)
        if stored.rows and stored.last_use == -math.inf:
            raise _damaged(key, USE, "it is no time")
        if not self._expired(stored, now):
            for row in stored.rows:
                if row.standing and row.eviction is not None:
                    yield row.eviction
                elif row.standing and row.damage:
                    raise _damaged(key, row.field, row.damage)

    def _habits(self, keys: Keys, stored: Stored, now: float) -> Habits:
        """What the identity has got used to, if it has not expired."""
        if self._expired(stored, now):
            return NO_HABITS
        return next((row.habits for row in stored.rows if row.habits is not None), NO_HABITS)

    def _learnt(self, key: bytes, value: bytes) -> Learnt:
        try:
            return learnt_in(value) if value else {}
        except ValueError as why:
            raise _damaged(key, b"", str(why)) from why

    def _changes(
        self, namespace: str, going: Sequence[_Going], raced: Collection[int], now: float, why: str
    ) -> list[Change]:
        """What was removed, as far as it stood and was understood."""
        return [
            Change(
                now,
                identity_in(namespace, stored.member),
                row.eviction,
                "expired" if self._expired(stored, now) else why,
            )
            for number, (stored, rows, _) in enumerate(going)
            if number not in raced
            for row in rows
            if row.standing and row.eviction is not None
        ]

    # -- what is sent

    def _in_use(self, keys: Keys, member: bytes) -> tuple[bytes, ...]:
        return keys.identity(member), keys.epochs, keys.identities, keys.uses, keys.sessions

    def _use(self, at: float, member: bytes, session: bytes) -> tuple[bytes | str | int, ...]:
        times = (repr(float(self._ttl)), repr(self._touch_after))
        return (_time(at), member, session, *times, self._span_ms, self._slack_ms)

    async def _run(
        self,
        script: scripts.Script,
        keys: Sequence[bytes],
        *arguments: bytes | str | int,
        durable: bool = False,
    ) -> Any:
        sent = (len(keys), *keys, *arguments)
        try:
            return await self._ask("EVALSHA", script.sha, *sent, durable=durable)
        except redis.NoScriptError:  # it is new there: Redis forgets its scripts when it ends
            return await self._ask("EVAL", script.text, *sent, durable=durable)

    async def _ask(self, *command: bytes | str | int, durable: bool = False) -> Any:
        """One command. If it writes what has to be durable, it has been kept when this returns."""
        if not (durable and self._full):
            async with self._free:
                return await self._redis.execute_command(*command)  # type: ignore[no-untyped-call]
        wait = ("WAITAOF", 1, 0, self._timeout_ms * 9 // 10)
        reply, kept = await self._together(command, wait, told=False)
        if isinstance(reply, Exception):
            raise reply
        await self._see_that_it_was_kept(kept)
        return reply

    async def _together(self, *commands: Sequence[bytes | str | float], told: bool = True) -> list[Any]:
        """Some commands in one round trip.

        Args:
            told: raise the first error; else each stands among the replies.
        """
        async with self._free, self._redis.pipeline(transaction=False) as pipeline:
            for command in commands:
                pipeline.execute_command(*command)
            return await pipeline.execute(raise_on_error=told)

    async def _see_that_it_was_kept(self, reply: Any) -> None:
        if isinstance(reply, list):
            if reply[0] < 1:
                raise _Unusable("it has not written to its disk in time", "see to its disk, and its load")
            return
        if "unknown command" not in str(reply).lower():
            raise reply
        # before Redis 7.2 there is one setting under which every reply means that
        found = await self._ask("CONFIG", "GET", "append*")
        pairs = [part.decode() if isinstance(part, bytes) else part for part in found]
        settings = dict(zip(pairs[::2], pairs[1::2], strict=True))
        if (settings.get("appendonly"), settings.get("appendfsync")) != ("yes", "always"):
            raise _Unusable(
                "it does not promise that a write survives a power loss",
                "set its appendonly to yes and its appendfsync to always, or run one that knows WAITAOF"
                " (Redis 7.2), or make do with durability process",
            )

    @asynccontextmanager
    async def _telling(self, verb: str) -> AsyncIterator[None]:
        """Around each call: what goes wrong is told as trouble, and `close` waits."""
        self._asking += 1
        self._idle.clear()
        try:
            if self._closed:
                raise _Unusable("it was closed", "open another memory on the same url")
            yield
        except _TROUBLES as why:
            if isinstance(why, (redis.ReadOnlyError, redis.MasterDownError)):
                await self._pool.disconnect(inuse_connections=False)  # the name may mean another one by now
            raise self._trouble(verb, why) from why
        finally:
            self._asking -= 1
            if not self._asking:
                self._idle.set()

    def _trouble(self, verb: str, why: Exception) -> MemoryTrouble:
        told = str(why) or type(why).__name__
        for secret in self._secrets:
            told = told.replace(secret, "[credential]")
        told = presentable(told)[:_LONGEST].rstrip(".")
        refused = isinstance(why, (_Refusal, ValueError, OverflowError)) and not isinstance(why, OSError)
        kind = MemoryRefusal if refused else MemoryTrouble
        return kind(f"memory {self._place}: could not {verb}: {told}; {_what_to_do(why)}")


def _what_to_do(why: Exception) -> str:
    if isinstance(why, _Unusable):
        return why.what_to_do
    # what a new connection meets is within an error that says no more than that there is none
    while isinstance(why, redis.ConnectionError) and isinstance(why.__cause__, redis.RedisError):
        why = why.__cause__
    if isinstance(why, redis.RedisError):
        code = next((code for kind, code in _CODES if isinstance(why, kind)), None)
        if code is None and (found := _CODE.search(str(why))):
            code = found[1]
        if code is not None:
            return _WHAT_TO_DO[code]
        if isinstance(why, redis.ResponseError):
            return "see that it is Redis 6.2, Valkey or a later one"
    elif isinstance(why, (ValueError, OverflowError)) and not isinstance(why, OSError):
        return "give text that is valid Unicode, times that are finite and sizes below 2 ** 63"
    return "see that it runs, can be reached from here and is not too busy"


def _damaged(key: bytes, field: bytes, why: str) -> _Refusal:
    where = f"{field.decode(errors='backslashreplace')} of " if field else ""
    name = key.decode(errors="backslashreplace")
    return _Refusal(
        f"{where}{name} is damaged: {why}",
        "it goes with what is recorded in its place, or with its session: forget that",
    )


def _pairs(listed: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """A hash, as a script gives it."""
    return zip(listed[::2], listed[1::2], strict=True)


def _time(at: float) -> str:
    if not math.isfinite(at):
        raise ValueError(f"{at} is no time")
    return repr(float(at))


def _until(stored: Stored, now: float) -> tuple[Row, ...]:
    """What was recorded until then, and what nobody can say more of."""
    return tuple([row for row in stored.rows if _latest(row) <= now])


def _latest(row: Row) -> float:
    """When a row was recorded last; long ago, if nobody can say."""
    if row.habits is not None:
        return row.habits.latest_at
    return -math.inf if row.eviction is None else row.eviction.latest_at


def _is_identity(member: bytes) -> bool:
    try:
        session_in(member)
    except ValueError:
        return False
    return True


def _member(cursor: str) -> bytes:
    try:
        member = bytes.fromhex(cursor)
        session_in(member)
    except ValueError as why:
        raise _Refusal(f"{cursor[:40]!r} is no cursor of it", "begin without one") from why
    return member
