"""What a router changes in a memory, as data: so that it can be kept, and done later, in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from turnout.engine.context import Eviction, Identity, SessionContext
from turnout.engine.habits import Habits
from turnout.engine.memory.protocol import Change, Memory


class Operation(Protocol):
    """One change. Done twice, or late, it changes no more than it would have changed in its time."""

    verb: ClassVar[str]
    """What it does, in the infinitive."""

    @property
    def whose(self) -> tuple[str, str] | None:
        """The namespace and session that it is about; None: it may be anyone's."""
        ...

    async def on(self, memory: Memory) -> Sequence[Change]:
        """Do it. What was removed comes back."""
        ...

    def after(self, identity: Identity, context: SessionContext) -> SessionContext:
        """What an identity's context is once it is done."""
        ...


@dataclass(frozen=True)
class Record:
    """An eviction is remembered."""

    verb: ClassVar[str] = "record"
    identity: Identity
    eviction: Eviction

    @property
    def whose(self) -> tuple[str, str]:
        return self.identity[:2]

    async def on(self, memory: Memory) -> Sequence[Change]:
        return await memory.record(self.identity, self.eviction)

    def after(self, identity: Identity, context: SessionContext) -> SessionContext:
        return context.record(self.eviction) if identity == self.identity else context


@dataclass(frozen=True)
class Settle:
    """What a session has got used to is remembered."""

    verb: ClassVar[str] = "settle"
    identity: Identity
    habits: Habits
    at: float

    @property
    def whose(self) -> tuple[str, str]:
        return self.identity[:2]

    async def on(self, memory: Memory) -> Sequence[Change]:
        return await memory.settle(self.identity, self.habits, now=self.at)

    def after(self, identity: Identity, context: SessionContext) -> SessionContext:
        return context.settle(self.habits) if identity == self.identity else context


@dataclass(frozen=True)
class Remove:
    """Evictions that were read no longer hold."""

    verb: ClassVar[str] = "restore"
    identity: Identity
    evictions: Sequence[Eviction]
    at: float
    why: str

    @property
    def whose(self) -> tuple[str, str]:
        return self.identity[:2]

    async def on(self, memory: Memory) -> Sequence[Change]:
        return await memory.remove(self.identity, self.evictions, now=self.at, why=self.why)

    def after(self, identity: Identity, context: SessionContext) -> SessionContext:
        return _without(context, self.evictions) if identity == self.identity else context


@dataclass(frozen=True)
class BringBack:
    """A target is eligible again for one identity, whatever of it was recorded until then."""

    verb: ClassVar[str] = "restore"
    identity: Identity
    target: str
    at: float

    @property
    def whose(self) -> tuple[str, str]:
        return self.identity[:2]

    async def on(self, memory: Memory) -> Sequence[Change]:
        known = await memory.read(self.identity, now=self.at)
        return await memory.remove(self.identity, self._of(known), now=self.at, why="restored")

    def after(self, identity: Identity, context: SessionContext) -> SessionContext:
        return _without(context, self._of(context)) if identity == self.identity else context

    def _of(self, context: SessionContext) -> list[Eviction]:
        return [e for e in context.evictions if e.target == self.target and e.latest_at <= self.at]


@dataclass(frozen=True)
class Forget:
    """A session ends with all its agents, or one agent of it."""

    verb: ClassVar[str] = "forget"
    namespace: str
    session: str
    agent: str | None
    at: float

    @property
    def whose(self) -> tuple[str, str]:
        return (self.namespace, self.session)

    async def on(self, memory: Memory) -> Sequence[Change]:
        return await memory.forget(self.namespace, self.session, self.agent, now=self.at)

    def after(self, identity: Identity, context: SessionContext) -> SessionContext:
        who = (self.namespace, self.session, identity.agent if self.agent is None else self.agent)
        if identity != who:
            return context
        context = context.unsettle(self.at)
        return _without(context, [e for e in context.evictions if e.latest_at <= self.at])


@dataclass(frozen=True)
class Restore:
    """A target is eligible again for every session."""

    verb: ClassVar[str] = "restore everywhere"
    namespace: str
    target: str
    fingerprint: str
    at: float

    @property
    def whose(self) -> None:
        return None

    async def on(self, memory: Memory) -> Sequence[Change]:
        await memory.restore_everywhere(self.namespace, self.target, self.fingerprint, now=self.at)
        return ()

    def after(self, identity: Identity, context: SessionContext) -> SessionContext:
        if identity.namespace != self.namespace:
            return context
        evictions = context.of(self.target, self.fingerprint)
        return _without(context, [e for e in evictions if e.latest_at <= self.at])


@dataclass(frozen=True)
class Strip:
    """A target has refused keys that were injected."""

    verb: ClassVar[str] = "keep what was stripped"
    namespace: str
    target: str
    fingerprint: str
    configuration: str
    keys: frozenset[str]
    at: float = field(compare=False)

    @property
    def whose(self) -> tuple[str, str]:
        return self.namespace, ""  # which is no session: it is no identity's business

    @property
    def which(self) -> tuple[str, str, str, str]:
        """What names the entry that it is about."""
        return self.namespace, self.target, self.fingerprint, self.configuration

    async def on(self, memory: Memory) -> Sequence[Change]:
        await memory.strip(
            *(self.namespace, self.target, self.fingerprint, self.configuration, self.keys), now=self.at
        )
        return ()

    def after(self, identity: Identity, context: SessionContext) -> SessionContext:
        return context


def _without(context: SessionContext, evictions: Sequence[Eviction]) -> SessionContext:
    for eviction in evictions:
        context = context.remove(eviction)
    return context
