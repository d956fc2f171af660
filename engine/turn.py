"""One turn, without a clock and without I/O: see `Turn`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, get_args

import msgspec

from turnout.engine.audit import (
    SCHEMA,
    AttemptRecord,
    AuditRecord,
    Caller,
    HealthStep,
    NotTried,
    PassedOver,
    ProbeRecord,
    Reread,
    WhyNotTried,
    WhyPassedOver,
)
from turnout.engine.classify.verdict import Verdict
from turnout.engine.context import EMPTY, Cause, Eviction, SessionContext
from turnout.engine.errors import ConfigurationError
from turnout.engine.habits import Home, Place, settled
from turnout.engine.policy import DEFAULT_POLICY, Policy
from turnout.engine.preview import Preview
from turnout.engine.selection import (
    NO_OPTIONS,
    NONE_COOLS,
    Coolings,
    Options,
    Selection,
    Wants,
    is_at,
)
from turnout.engine.targets import Target
from turnout.machines import turn as turn_machine
from turnout.machines.catalog import DIGESTS, EVERY_TURN
from turnout.machines.stepping import Step, StepMachine, StepRefused
from turnout.machines.vocabulary import ErrorKind, TurnState
from turnout.machines.vocabulary import RoutingFallbackReason as Reason

# a member is looked up in its enum each time it is named; here that is a third of a step
_PROBING: Final = TurnState.PROBING
_CLASSIFIED: Final = TurnState.CLASSIFIED
_EVICTED: Final = TurnState.EVICTED
_SERVED: Final = TurnState.SERVED
_BETWEEN: Final = (_EVICTED, TurnState.SKIPPED)
_ENDS: Final = (_SERVED, TurnState.FAILED)
_CONTEXT_WINDOW: Final = Reason.CONTEXT_WINDOW
_OVERFLOW: Final = ErrorKind.CONTEXT_WINDOW

_NOBODY: Final = Caller(remembered=False)

Interruption = Literal["expired", "cancelled", "broken"]
"""The triggers that end a turn where it stands."""

_NOT_TRIED: Final[Mapping[str, WhyNotTried]] = {
    "answered": WhyNotTried.SERVED,
    "rejected": WhyNotTried.SURFACED,
    "expired": WhyNotTried.DEADLINE,
    "cancelled": WhyNotTried.CANCELLED,
    "broken": WhyNotTried.BROKEN,
}
"""What the trigger that ended a turn says of the targets that it did not come to."""


class Turn:
    """One turn as its machine steps it. It says whom to ask, is told the outcome, and ends served or failed.

    Who owns the I/O steps it, sync or async; `Router` is who does it over HTTP:

        turn = Turn(ladder, policy=policy, context=read(session), id=new_id())
        while not turn.ended:
            verdict = ask(turn.target)            # yours: a Verdict, or None if it answered
            turn.probed(verdict, at=time.time())  # probing -> classified
            turn.act()                            # classified -> served, evicted, skipped or failed
            if turn.eviction is not None:
                keep(session, turn.eviction)      # durably, before the next target is asked
            if not turn.ended:
                turn.advance(read(session))       # evicted or skipped -> probing or failed
        for eviction in turn.restored:            # what this turn has contradicted
            remove(session, eviction)
        record = turn.record(error=str(verdict.message) if verdict else "")

    `interrupt("expired")`, `"cancelled"` or `"broken"` may come between any two of these calls.

    Args:
        ladder: the targets to try, in order, each once.
        policy: what each kind of error does.
        context: what the session remembers, as read when the turn starts.
        id: names the turn in evictions and records.
        options: the route's options that say who may be probed.
        needs: the features that the request uses.
        size: the request's estimated size in tokens.
        output: the most tokens of output that it asks for.
        calibrated: its size by what upstreams have reported of the session.
        pin: the target that goes first.
        home: where the session is at home, for the option `affinity`.
        coolings: the targets that cool just now, by name.

    Raises:
        ConfigurationError: an empty ladder, one that holds a name twice, or a pin that is none of it.
    """

    __slots__ = (
        "_asked",
        "_before",
        "_considered",
        "_context",
        "_coolings",
        "_coolings_before",
        "_ladder",
        "_last_resort",
        "_machine",
        "_options",
        "_pin",
        "_policy",
        "_probes",
        "_rereads",
        "_ruled_out",
        "_selection",
        "_steps",
        "_target",
        "eviction",
        "id",
        "state",
    )

    def __init__(
        self,
        ladder: Sequence[Target],
        *,
        policy: Policy = DEFAULT_POLICY,
        context: SessionContext = EMPTY,
        id: str = "",
        options: Options = NO_OPTIONS,
        needs: frozenset[str] = frozenset(),
        size: int | None = None,
        output: int | None = None,
        calibrated: int | None = None,
        pin: str | None = None,
        home: Home | None = None,
        coolings: Coolings = NONE_COOLS,
        machine: StepMachine = turn_machine.MACHINE,
    ) -> None:
        if not ladder or len({target.name for target in ladder}) < len(ladder):
            raise ConfigurationError(
                f"ladder {[target.name for target in ladder]}: give at least one target, and each only once"
            )
        if pin is not None and pin not in [target.name for target in ladder]:
            raise ConfigurationError(f"pin {pin!r} is no target of the ladder; give one of it")
        self.id = id
        self.state = str(_PROBING)
        self.eviction: Eviction | None = None
        """What the session has to remember now: set by `act`, to be kept before `advance`."""
        self._ladder = tuple(ladder)
        self._policy = policy
        self._options = options
        self._pin = pin
        self._machine = machine
        self._considered = False
        self._steps: list[Step] = []
        self._probes: list[ProbeRecord] = []
        self._rereads: list[Reread] = []
        self._asked: set[str] = set()
        self._before = self._context = context
        self._coolings_before = self._coolings = coolings
        self._selection = Selection(
            ladder,
            policy,
            wants=Wants(needs, size, output, calibrated),
            options=options,
            pin=pin,
            home=home,
        )
        self._last_resort, self._target = self._first()

    def fork(self) -> Turn:
        """Another turn that stands where this one stands, to see where another outcome leads."""
        other = object.__new__(Turn)
        for name in Turn.__slots__:
            setattr(other, name, getattr(self, name))
        other._steps, other._probes, other._rereads = [*self._steps], [*self._probes], [*self._rereads]
        other._asked = {*self._asked}
        other._selection = self._selection.fork()
        return other

    # -- what the caller asks

    @property
    def target(self) -> Target:
        """The target to probe now.

        Raises:
            StepRefused: the turn is not in `probing`.
        """
        if self.state != _PROBING:
            raise StepRefused(f"turn {self.id!r} probes nothing: it is {self.state}")
        return self._target

    @property
    def ended(self) -> bool:
        """Whether the turn is served or failed."""
        return self.state in _ENDS

    @property
    def steps(self) -> tuple[Step, ...]:
        """Every transition so far."""
        return tuple(self._steps)

    @property
    def may_go_on(self) -> bool:
        """Whether a target is left that was not asked: only then are standings worth reading again."""
        return not self._last_resort and len(self._asked) < len(self._ladder)

    @property
    def context(self) -> SessionContext:
        """The standings as read last, with what this turn has added and restored."""
        return self._context

    @property
    def restored(self) -> tuple[Eviction, ...]:
        """The evictions that this turn contradicted: as last resort, their target has served."""
        if self.state != _SERVED or not self._last_resort:
            return ()
        served = self._ruled_out[self._probes[-1].target]
        return tuple(e for e in served.evictions if e.contradicted_by(self._selection.wants.needs))

    @property
    def home(self) -> Home | None:
        """Where the session was at home, where the route goes by that."""
        return self._selection.home

    @property
    def settled(self) -> Home | None:
        """What this turn has made of the session's home; None if it stays as it is."""
        if self._options.affinity is None or self.state != _SERVED:
            return None
        served = Place(self._target.name, self._target.fingerprint, self._probes[-1].at)
        home = self._selection.home
        return settled(home, served, out=home is not None and self._is_lost(home.home))

    # -- what the caller tells

    def consider(
        self, context: SessionContext | None = None, coolings: Coolings | None = None
    ) -> Target | None:
        """Take in what was read again. It may be called before the first probe, and before `advance`.

        Args:
            context: the standings; None if they were not read.
            coolings: the targets that cool now, by name; None likewise.

        Returns:
            Whom the turn asks next by that; None if nobody is left.

        Raises:
            StepRefused: a target is being asked, or the turn has ended.
        """
        if not self._steps:
            self._before = self._context = self._context if context is None else context
            self._coolings_before = self._coolings = self._coolings if coolings is None else coolings
            self._last_resort, self._target = self._first()
            return self._target
        if self.state not in _BETWEEN:
            raise StepRefused(f"turn {self.id!r} chooses nobody: it is {self.state}")
        self._considered = True
        if context is not None or coolings is not None:
            self._reread(
                self._context if context is None else context,
                self._coolings if coolings is None else coolings,
            )
        if self._last_resort:
            return None
        self._ruled_out = self._selection.rulings(self._context, self._coolings)
        return self._first_eligible()

    def probed(
        self,
        verdict: Verdict | None,
        attempts: tuple[AttemptRecord, ...] = (),
        *,
        at: float = 0.0,
        committed: bool = False,
        trial: bool = False,
    ) -> None:
        """The target has answered (`verdict` is None) or refused. Leads to `classified`.

        Args:
            verdict: how its last attempt was read.
            attempts: every attempt of the probe, for the record.
            at: now, in seconds since 1970; kept with an eviction.
            committed: its stream had begun to answer, so that a failure is the caller's to see.
            trial: it was the one trial of a target that had cooled.
        """
        target = self.target
        reason = None if verdict is None or committed else self._policy.reason(verdict)
        self._step("probed")
        self._asked.add(target.name)
        self._probes.append(
            ProbeRecord(
                target.name,
                attempts,
                verdict,
                reason,
                verdict is None,
                self._last_resort,
                at,
                committed,
                trial,
            )
        )

    def act(self) -> None:
        """Act on what was classified. Leads to `served`, `evicted`, `skipped` or `failed`."""
        if self.state != _CLASSIFIED:
            raise StepRefused(
                f"turn {self.id!r} has nothing to act on: it is {self.state}; call probed() first"
            )
        probe = self._probes[-1]
        self._considered = False
        if probe.verdict is not None and probe.verdict.kind is _OVERFLOW:
            self._selection.overflowed(self._target)
        if probe.reason is not None:
            self._step(probe.reason)
        else:
            self._step("answered" if probe.answered else "rejected")
        if self.state == _EVICTED and probe.reason is not None and probe.verdict is not None:
            self.eviction = self._evicting(probe, probe.reason, probe.verdict)
            self._context = self._context.record(self.eviction)
        elif self._last_resort:
            for eviction in self.restored:
                self._context = self._context.remove(eviction)

    def advance(self, context: SessionContext | None = None, coolings: Coolings | None = None) -> None:
        """Go on to the next target, or to `failed` if none is left.

        Args:
            context: the standings as read again; None if they were not.
            coolings: the targets that cool now; None likewise.
        """
        if self.state not in _BETWEEN:
            raise StepRefused(f"turn {self.id!r} cannot go on to another target: it is {self.state}")
        if context is not None or coolings is not None or not self._considered:
            self.consider(context, coolings)
        self._step("advance")
        self.eviction = None
        if self.state == _PROBING:
            self._target = self._first_eligible() or self._target

    def interrupt(
        self,
        trigger: Interruption,
        attempts: tuple[AttemptRecord, ...] = (),
        *,
        committed: bool = False,
        trial: bool = False,
    ) -> None:
        """End the turn where it stands.

        Args:
            trigger: `expired` (the deadline has passed), `cancelled` (the caller has gone) or
                `broken` (the engine, a store or the embedder's code has failed).
            attempts: what the probe in flight has sent so far.
            committed: its stream had begun to answer.
            trial: it was the one trial of a target that had cooled.

        Raises:
            StepRefused: the turn has ended, or the trigger is none of these.
        """
        if trigger not in get_args(Interruption):
            known = ", ".join(get_args(Interruption))
            raise StepRefused(f"turn {self.id!r}: {trigger!r} interrupts nothing; give one of {known}")
        asking = self._target if self.state == _PROBING and attempts else None
        self._step(trigger)
        if asking is not None:
            self._asked.add(asking.name)
            self._probes.append(
                ProbeRecord(
                    asking.name, attempts, last_resort=self._last_resort, committed=committed, trial=trial
                )
            )

    def has_next(self) -> bool:
        """The guard of `advance`: whether a target is left that this turn may still probe."""
        return not self._last_resort and self._first_eligible() is not None

    def preview(self, route: str = "", notes: tuple[str, ...] = ()) -> Preview:
        """Who is to be probed first, and who is passed over.

        Raises:
            StepRefused: somebody was probed already, or the turn has ended.
        """
        if self._steps:
            raise StepRefused(f"turn {self.id!r} has begun: it is {self.state}")
        wants = self._selection.wants
        last_resort = {self._target.name} if self._last_resort else set[str]()
        return Preview(
            route=route,
            target=self._target.name,
            last_resort=self._last_resort,
            order=tuple([target.name for target in self._selection.ladder]),
            passed_over=tuple([over for over in self._passed_over() if over.target not in last_resort]),
            lifted=self._selection.lifted,
            home=self._selection.home,
            needs=tuple(sorted(wants.needs)),
            size=wants.size,
            calibrated=wants.calibrated,
            output=wants.output,
            notes=notes,
        )

    def record(
        self,
        *,
        route: str = "",
        caller: Caller | None = None,
        started: float = 0.0,
        took: float = 0.0,
        request: str = "",
        error: str = "",
        usage: Mapping[str, int] | None = None,
        health: tuple[HealthStep, ...] = (),
        notes: tuple[str, ...] = (),
    ) -> AuditRecord:
        """The audit record of a turn that has ended.

        Raises:
            StepRefused: it has not.
        """
        if not self.ended:
            raise StepRefused(f"turn {self.id!r} has not ended: it is {self.state}")
        caller, wants = caller or _NOBODY, self._selection.wants
        keeps = caller.remembered and not caller.final
        healthy = not (health or self._coolings_before or self._coolings)
        ended_by = self._steps[-1].trigger
        return AuditRecord(
            schema=SCHEMA,
            turn=self.id,
            route=route,
            started=started,
            took=took,
            caller=caller,
            ladder=tuple([target.rung for target in self._ladder]),
            policy=self._policy.table,
            machines=EVERY_TURN if healthy else DIGESTS,
            state=self.state,
            ended_by=ended_by,
            served_by=self._probes[-1].target if self.state == _SERVED else None,
            error=error,
            request=request,
            steps=tuple(self._steps),
            probes=tuple(self._probes),
            passed_over=self._passed_over(),
            not_tried=self._not_tried(_NOT_TRIED.get(ended_by)),
            standings_before=self._before.evictions if self._before else (),
            rereads=tuple(self._rereads),
            standings_after=self._context.evictions if self._context and not caller.final else (),
            restored=self.restored,
            lifted=self._selection.lifted,
            options=msgspec.to_builtins(self._options),
            pin=self._pin or "",
            home=self._selection.home,
            settled=self.settled if keeps else None,
            cooling=tuple(self._coolings_before.values()) if self._coolings_before else (),
            health=health,
            needs=tuple(sorted(wants.needs)) if wants.needs else (),
            size=wants.size,
            calibrated=wants.calibrated,
            output=wants.output,
            usage=usage,
            notes=notes,
        )

    # -- selection

    def _first(self) -> tuple[bool, Target]:
        """Whom to ask first, and whether only as last resort."""
        self._ruled_out = self._selection.rulings(self._context, self._coolings)
        if (eligible := self._first_eligible()) is not None:
            return False, eligible
        return True, self._selection.last_resort(self._ruled_out)

    def _is_lost(self, place: Place) -> bool:
        """Whether what was there is evicted for this turn, or no longer of the ladder."""
        there = next((target for target in self._ladder if is_at(target, place)), None)
        ruling = None if there is None else self._ruled_out.get(there.name)
        return there is None or (ruling is not None and ruling.why is WhyPassedOver.EVICTED)

    def _first_eligible(self) -> Target | None:
        for target in self._selection.ladder:
            if target.name not in self._ruled_out and target.name not in self._asked:
                return target
        return None

    def _reread(self, context: SessionContext, coolings: Coolings) -> None:
        # what this turn recorded stays in, whether or not the store had it yet
        for eviction in self._context.evictions:
            if eviction.latest_turn == self.id:
                context = context.record(eviction)
        if context.evictions != self._context.evictions or coolings != self._coolings:
            if self._rereads and self._rereads[-1].before_step == len(self._steps):
                self._rereads.pop()  # the choice was made again
            self._rereads.append(Reread(len(self._steps), context.evictions, tuple(coolings.values())))
        self._context, self._coolings = context, coolings

    def _passed_over(self) -> tuple[PassedOver, ...]:
        if not self._ruled_out:
            return ()
        return tuple(
            PassedOver(target.name, *self._ruled_out[target.name])
            for target in self._ladder
            if target.name in self._ruled_out and target.name not in self._asked
        )

    def _not_tried(self, why: WhyNotTried | None) -> tuple[NotTried, ...]:
        if why is None or len(self._asked) == len(self._ladder):
            return ()
        return tuple(
            NotTried(target.name, why)
            for target in self._ladder
            if target.name not in self._ruled_out and target.name not in self._asked
        )

    # -- stepping

    def _step(self, trigger: str) -> None:
        self._steps.append(self._machine.step(self, trigger))

    def _evicting(self, probe: ProbeRecord, reason: Reason, verdict: Verdict) -> Eviction:
        overflowed = reason is _CONTEXT_WINDOW
        refused = self._selection.refused(verdict.features)
        return Eviction(
            probe.target,
            reason,
            self._target.fingerprint,
            first=Cause(
                self.id,
                probe.at,
                verdict.kind,
                verdict.evidence,
                status=verdict.status,
                code=verdict.code,
                message=verdict.message,
                features=verdict.features,
            ),
            latest_turn=self.id,
            latest_at=probe.at,
            size=self._selection.wants.size if overflowed else None,
            refused=frozenset() if overflowed else frozenset({refused}),
        )
