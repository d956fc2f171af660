"""The world around a turn, and what must hold whatever happens in it.

A play drives the real `Turn` as its docstring tells a caller to, and lets a `choose` of
`machines/explore.py` decide everything that the world decides: what each target answers,
when the deadline passes, when the caller leaves, when something breaks, what another turn
of the session learns meanwhile. Beside it walks a witness that knows the outcomes alone.
It never asks the rows, the policy or the turn's memory what should happen: the rules are
written down here a second time, as a table of kinds and as properties over outcomes.

An outcome counts once the turn acts on it: interrupted before, it is nobody's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import combinations, permutations
from time import perf_counter
from typing import Any, Final, NamedTuple, TypeVar

from turnout.engine.audit import AttemptRecord
from turnout.engine.classify.verdict import Evidence, Verdict
from turnout.engine.context import Cause, Eviction, SessionContext
from turnout.engine.habits import Home, Place
from turnout.engine.health import Cooling
from turnout.engine.policy import DEFAULT_POLICY, Policy
from turnout.engine.selection import NO_OPTIONS, Options
from turnout.engine.targets import Target
from turnout.engine.turn import Turn
from turnout.machines import turn as turn_machine
from turnout.machines.explore import Choose, walk
from turnout.machines.stepping import StepMachine
from turnout.machines.vocabulary import ErrorKind as Kind
from turnout.machines.vocabulary import RoutingFallbackReason as Reason

T = TypeVar("T")

# -- what can happen


class Effect(StrEnum):
    """What an outcome means, as the rules have it."""

    SERVES = "serves"
    REMEMBERED_WINDOW = "context_window"
    REMEMBERED_CAPABILITY = "capability"
    THIS_TURN_ONLY = "this turn only"
    SURFACES = "surfaces"


FALLBACKS: Final = (Effect.REMEMBERED_WINDOW, Effect.REMEMBERED_CAPABILITY, Effect.THIS_TURN_ONLY)
REMEMBERED: Final = (Effect.REMEMBERED_WINDOW, Effect.REMEMBERED_CAPABILITY)


class Outcome(NamedTuple):
    """What a target can answer, and what the rules say of it."""

    name: str
    verdict: Verdict | None
    effect: Effect
    refused: frozenset[tuple[str, ...]] = frozenset()
    committed: bool = False
    """Whether its stream had begun to answer before."""


def _refusal(name: str, kind: Kind, effect: Effect, status: int = 400, rule: str = "told") -> Outcome:
    return Outcome(name, Verdict(kind=kind, evidence=Evidence(rule), status=status), effect)


ANSWERED: Final = Outcome("answered", None, Effect.SERVES)
WINDOW: Final = _refusal("context_window", Kind.CONTEXT_WINDOW, Effect.REMEMBERED_WINDOW)
CAPABILITY: Final = _refusal(
    "capability", Kind.CAPABILITY, Effect.REMEMBERED_CAPABILITY, status=404
)._replace(refused=frozenset({("other",)}))
NO_IMAGES: Final = Outcome(
    "capability (image)",
    Verdict(kind=Kind.CAPABILITY, evidence=Evidence("told"), status=400, features=("image",)),
    Effect.REMEMBERED_CAPABILITY,
    frozenset({("image",)}),
)
UNAVAILABLE: Final = _refusal("unavailable", Kind.UNAVAILABLE, Effect.THIS_TURN_ONLY, 503)
REJECTED: Final = _refusal("caller_error", Kind.CALLER_ERROR, Effect.SURFACES)
BROKE_OFF: Final = tuple(
    Outcome(f"{told.name} after content", told.verdict, Effect.SURFACES, committed=True)
    for told in (WINDOW, CAPABILITY, UNAVAILABLE)
)
"""What would lead on, had it come before the first content of a stream."""

ONE_OF_EACH: Final = (ANSWERED, WINDOW, CAPABILITY, UNAVAILABLE, REJECTED)
"""One outcome for each thing that can come of one."""

EVERY_KIND: Final = (
    ANSWERED,
    WINDOW,
    CAPABILITY,
    UNAVAILABLE,
    _refusal("quota_or_billing", Kind.QUOTA_OR_BILLING, Effect.THIS_TURN_ONLY, 402),
    _refusal("auth (403)", Kind.AUTH, Effect.THIS_TURN_ONLY, 403),
    _refusal("auth", Kind.AUTH, Effect.SURFACES, 401),
    _refusal("model_not_found", Kind.MODEL_NOT_FOUND, Effect.SURFACES, 404),
    _refusal("content_policy", Kind.CONTENT_POLICY, Effect.SURFACES),
    _refusal("parameter_reject", Kind.PARAMETER_REJECT, Effect.SURFACES),
    _refusal("unrecognised", Kind.CALLER_ERROR, Effect.SURFACES, 418, rule="unrecognised"),
    REJECTED,
    *BROKE_OFF,
)
"""Every kind of error, by itself, as the table of section 4 has it by default."""

NOTHING: Final = ""
INTERRUPTIONS: Final = (NOTHING, "expired", "cancelled", "broken")
STARTED: Final = (AttemptRecord(0.1, kind=Kind.UNAVAILABLE),)
WHILE_ASKING: Final = (
    (NOTHING, ()),
    *((name, started) for name in INTERRUPTIONS[1:] for started in ((), STARTED)),
)
"""Interruptions of a probe: before its first attempt was sent, and after."""


# -- what must hold


class Property(StrEnum):
    """What must hold on every path, said of outcomes and of targets, never of rows."""

    ONCE = "a target is probed at most once per turn"
    NOT_AGAIN = "what answered context_window or capability is not probed again while another is eligible"
    LIFTED = "an option lifts what it says: a feature not needed, a size that is small enough again"
    COOLING = "who cools is not probed while another is eligible"
    HOME = (
        "home is who served first, or next since it was evicted; while it is out the last server goes first"
    )
    WHY = "the reason shown is the first rule that matches"
    GATED = "who declares a limit that the turn is beyond is not probed while another is eligible"
    ELIGIBLE = "nothing else rules a target out: one that was unavailable is asked again in its place"
    LAST_RESORT = "if all are out, exactly the one that the rules name is probed"
    FALLBACK = "a fallback with an untried eligible target probes it"
    EXHAUSTED = "a fallback with none left fails the turn"
    ENDING = "answered, rejected, expired, cancelled and broken end the turn"
    SERVED = "answered means served, unless interrupted before; nothing else does"
    ENDS = "every turn ends served or failed"
    CALLED = "a turn that was not interrupted has called at least one target"
    LASTING = "evicted means remembered, skipped means for this turn only"
    UNTOUCHED = "unavailable never changes a standing"
    MEMORY = "the session remembers what was answered, and nothing that serving contradicted"
    TOLD = "the record tells of every target once: probed, passed over or not tried"


class Remembered(NamedTuple):
    """One thing that the session has been told of a target."""

    target: str
    reason: str
    refused: frozenset[tuple[str, ...]]
    size: int | None = None
    """The smallest that overflowed."""


Memory = tuple[Remembered, ...]
"""In the order of the first causes."""


class AtHome(NamedTuple):
    """Where a session is at home, and who served it last."""

    home: str
    last: str


class Node(NamedTuple):
    """Where a session stands between two turns: what the store holds, and what was answered."""

    store: Memory
    answered: Memory
    home: AtHome | None = None


FRESH: Final = Node((), ())


@dataclass(frozen=True)
class World:
    """A ladder, the engine under test, and what may happen to it.

    Args:
        size: the number of targets.
        outcomes: what a target can answer.
        needs: the features that a turn may need.
        sizes: the sizes that a turn may have.
        options: of the route.
        windows: what each target declares, the first ones of the ladder first.
        overlap: whether other turns of the session evict targets meanwhile.
        cools: whether targets cool, which other sessions decide: any of them when a turn begins, and all of
            them or no others when it goes on.
        interrupted: whether turns are interrupted. Where they are is walked without this too, and
            comes to the same in whatever order the ladder is.
    """

    size: int
    outcomes: Sequence[Outcome] = ONE_OF_EACH
    machine: StepMachine = turn_machine.MACHINE
    policy: Policy = DEFAULT_POLICY
    needs: Sequence[frozenset[str]] = (frozenset(),)
    sizes: Sequence[int | None] = (None,)
    options: Options = NO_OPTIONS
    windows: Sequence[int | None] = ()
    overlap: bool = False
    cools: bool = False
    interrupted: bool = True
    ladder: tuple[Target, ...] = field(init=False)

    def __post_init__(self) -> None:
        windows = [*self.windows, *(None for _ in range(self.size))]
        ladder = tuple(Target(f"t{i + 1}", context_window=windows[i]) for i in range(self.size))
        object.__setattr__(self, "ladder", ladder)

    def context(self, memory: Memory) -> SessionContext:
        """What a store would return that has been told this, one thing a second."""
        fingerprints = {target.name: target.fingerprint for target in self.ladder}
        return SessionContext(
            Eviction(
                kept.target,
                Reason(kept.reason),
                fingerprints[kept.target],
                first=Cause(f"before{at}", at, Kind(kept.reason), Evidence("told")),
                latest_turn=f"before{at}",
                latest_at=at,
                size=kept.size,
                refused=kept.refused,
            )
            for at, kept in enumerate(memory)
        )

    def home(self, at: AtHome | None) -> Home | None:
        """What a store would return of a session's home."""
        if at is None:
            return None
        fingerprints = {target.name: target.fingerprint for target in self.ladder}
        places = [Place(name, fingerprints[name], time) for time, name in enumerate(at)]
        return Home(*places)


ALL_OPTIONS: Final = "all options together"
_NEEDS: Final = (frozenset[str](), frozenset({"image"}))
_BY_FEATURE: Final = {"outcomes": (*ONE_OF_EACH, NO_IMAGES), "needs": _NEEDS}
OPTIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "no option": {},
    "evictions by feature": {**_BY_FEATURE, "options": Options(capability_scope="feature")},
    # sizes on both sides of the share, and of a share of the share
    "readmission": {"sizes": (None, 100, 79, 80, 60), "options": Options(readmit_below=0.8)},
    "declared windows": {"sizes": (None, 50, 51, 101), "windows": (50, 100)},
    "affinity": {"options": Options(affinity="home")},
    ALL_OPTIONS: {
        **_BY_FEATURE,
        "sizes": (100, 79),
        "windows": (90,),
        "options": Options(capability_scope="feature", readmit_below=0.8, affinity="home"),
    },
}
"""What a route may set, and what makes that tell."""


def with_option(name: str, size: int) -> World:
    """A world in which targets cool, with one of `OPTIONS`."""
    return World(size, cools=True, interrupted=False, **OPTIONS[name])


def kept_in(context: SessionContext) -> Memory:
    """What a context says, as the witness would put it."""
    return tuple(Remembered(e.target, str(e.reason), e.refused, e.size) for e in context.evictions)


class Ending(NamedTuple):
    """One path of one turn."""

    before: Node
    after: Node | None
    """None if the turn came to no end, so that no session goes on from it."""
    violated: tuple[Property, ...]
    events: tuple[str, ...]
    learnt: tuple[Remembered, ...] = ()
    """What the session was told in it, in order."""
    contradicted: frozenset[tuple[str, str]] = frozenset()
    """Of what it had been told before, the targets and reasons that no longer hold."""

    def __str__(self) -> str:
        told = ", ".join(f"{kept.target} {kept.reason}" for kept in self.before.answered)
        events = " > ".join((f"({told or 'nothing'} remembered)", *self.events))
        return f"{'; '.join(self.violated) or 'all holds'}: {events}"


class _Interrupted(Exception):
    """The turn was interrupted, as the world decided."""


class _Play:
    """One turn, along the path that `choose` takes, with its witness."""

    def __init__(self, choose: Choose, world: World, before: Node, store: SessionContext) -> None:
        self.choose = choose
        self.world = world
        self.before = before
        self.store = store
        self.needs = choose(world.needs)
        self.size = choose(world.sizes)
        self.overflowed = 0
        """The largest declared window that has overflowed in this turn."""
        self.answered = list(before.answered)
        self.learnt: list[Remembered] = []
        self.gone: set[tuple[str, str]] = set()
        self.cooling = choose(tuple(_subsets(self.names))) if world.cools else frozenset[str]()
        first = () if before.home is None else before.home
        self.order = list(dict.fromkeys((*first, *self.names)))
        self.last_resort = not self.eligible(probed=())
        self.probed: list[str] = []
        self.interrupted = False
        self.served = False
        self.events: list[str] = []
        self.violated: dict[Property, None] = {}

    def play(self) -> Ending:
        try:
            self.turn = Turn(
                self.world.ladder,
                policy=self.world.policy,
                context=self.store,
                id="now",
                options=self.world.options,
                needs=self.needs,
                size=self.size,
                home=self.world.home(self.before.home),
                machine=self.world.machine,
            )
            if self.cooling:
                self.turn.consider(None, self.coolings())
            self.run()
            self.end()
        except Exception as error:  # noqa: BLE001  # what a changed machine does is told, not raised
            self.events.append(repr(error))
            return Ending(self.before, None, (*self.violated, Property.ENDS), tuple(self.events))
        after = Node(kept_in(self.store), tuple(self.answered), self.home_after())
        self.check(Property.MEMORY, after.store == after.answered)
        return Ending(
            self.before,
            after,
            tuple(self.violated),
            tuple(self.events),
            tuple(self.learnt),
            frozenset(self.gone),
        )

    @property
    def names(self) -> list[str]:
        return [target.name for target in self.world.ladder]

    def coolings(self) -> dict[str, Cooling]:
        """The last of the ladder has cooled first."""
        return {name: Cooling(name, 100.0 - self.names.index(name)) for name in sorted(self.cooling)}

    def run(self) -> None:
        try:
            for _ in range(self.world.size + 1):
                self.probe()
                if self.turn.ended:
                    return
                self.fall_back()
                if self.turn.ended:
                    return
        except _Interrupted:
            self.check(Property.ENDING, self.turn.ended)

    def probe(self) -> None:
        turn, choose = self.turn, self.choose
        target = turn.target.name
        self.check_choice(target)
        if self.world.interrupted:
            self.interrupt(*choose(WHILE_ASKING))
        outcome = choose(self.world.outcomes)
        self.events.append(f"{target} {outcome.name}")
        self.probed.append(target)
        turn.probed(outcome.verdict, at=self.now(), committed=outcome.committed)
        self.interrupt_between()
        before = turn.context
        turn.act()
        self.note(target, outcome)
        if outcome.effect is Effect.THIS_TURN_ONLY:
            self.check(Property.UNTOUCHED, turn.context == before and turn.eviction is None)
        if turn.eviction is not None:
            self.store = self.store.record(turn.eviction)

    def fall_back(self) -> None:
        self.interrupt_between()
        if self.world.overlap:
            self.other_turn(self.choose((NOTHING, *self.names)))
        if self.world.cools and self.choose((False, True)) and not self.last_resort:
            self.events.append("all others cool")
            self.cooling = frozenset(self.names)
        self.turn.advance(self.store, self.coolings() if self.world.cools else None)
        if self.eligible(self.probed) and not self.last_resort:
            self.check(Property.FALLBACK, not self.turn.ended)
        else:
            self.check(Property.EXHAUSTED, self.turn.state == "failed")

    def interrupt(self, event: str, started: tuple[AttemptRecord, ...] = ()) -> None:
        if event == NOTHING:
            return
        self.events.append(f"{event} in {self.turn.state}")
        self.interrupted = True
        if started:
            self.probed.append(self.turn.target.name)
        self.turn.interrupt(event, started)
        raise _Interrupted

    def interrupt_between(self) -> None:
        if self.world.interrupted:
            self.interrupt(self.choose(INTERRUPTIONS))

    def other_turn(self, target: str) -> None:
        """Another turn of the session is told by `target` that it lacks a capability."""
        if target == NOTHING:
            return
        self.events.append(f"{target} evicted by another turn")
        told = Remembered(target, "capability", CAPABILITY.refused)
        (eviction,) = self.world.context((told,)).evictions
        at = self.now()
        first = Cause("other", at, Kind.CAPABILITY, Evidence("told"))
        self.store = self.store.record(
            Eviction(target, eviction.reason, eviction.fingerprint, first, "other", at, refused=told.refused)
        )
        self.remember(told)

    def now(self) -> float:
        """Later than all before."""
        return 1000.0 + len(self.events)

    # -- the witness

    def check(self, rule: Property, holds: bool) -> None:
        if not holds:
            self.violated[rule] = None

    def eligible(self, probed: Iterable[str]) -> list[str]:
        out = {kept.target for kept in self.answered if self.applies(kept)}.union(probed)
        gated = [target.name for target in self.world.ladder if self.gated(target)]
        out.update(gated, self.cooling)
        return [name for name in self.order if name not in out]

    def applies(self, kept: Remembered) -> bool:
        """Whether what was told counts in this turn."""
        options = self.world.options
        if kept.reason == "capability":
            return options.capability_scope == "target" or self.refused_again(kept)
        if options.readmit_below is None or kept.size is None or self.size is None:
            return True
        return self.size / kept.size >= options.readmit_below

    def refused_again(self, kept: Remembered) -> bool:
        return any("other" in refused or self.needs >= set(refused) for refused in kept.refused)

    def gated(self, target: Target, overflowed: int | None = None) -> bool:
        window, overflowed = target.context_window, self.overflowed if overflowed is None else overflowed
        return window is not None and (window <= overflowed or (self.size or 0) > window)

    def check_choice(self, target: str) -> None:
        self.check(Property.ONCE, target not in self.probed)
        if self.last_resort:
            self.check(Property.LAST_RESORT, not self.probed and target == self.survivor())
        elif eligible := self.eligible(self.probed):
            told = [kept for kept in self.answered if kept.target == target]
            self.check(Property.NOT_AGAIN, not any(map(self.applies, told)))
            self.check(Property.LIFTED, not told or target in eligible)
            self.check(Property.GATED, not self.gated(self.rung(target)))
            self.check(Property.COOLING, target not in self.cooling)
            in_place = self.order.index(target) <= self.order.index(eligible[0])
            self.check(Property.ELIGIBLE if self.before.home is None else Property.HOME, in_place)

    def rung(self, name: str) -> Target:
        return next(target for target in self.world.ladder if target.name == name)

    def survivor(self) -> str:
        """Who has cooled first; else who is nearest to fitting; else a conversation can shrink, a capability
        does not grow; then who was told first.
        """
        told = [kept for kept in self.answered if self.applies(kept)]
        by_first_cause = list(dict.fromkeys(kept.target for kept in told))
        others = [name for name in self.order if name not in by_first_cause]
        if only_cooling := [name for name in others if not self.gated(self.rung(name))]:
            return max(only_cooling, key=self.names.index)
        if others:
            return max(others, key=lambda name: self.rung(name).context_window or 0)
        incapable = {kept.target for kept in told if kept.reason == "capability"}
        return min(by_first_cause, key=lambda target: (target in incapable, by_first_cause.index(target)))

    def note(self, target: str, outcome: Outcome) -> None:
        """The turn has acted on an outcome."""
        turn, effect = self.turn, outcome.effect
        self.served = effect is Effect.SERVES
        if effect in FALLBACKS:
            self.check(Property.LASTING, turn.state == ("evicted" if effect in REMEMBERED else "skipped"))
            if not self.last_resort and self.eligible(self.probed):
                self.check(Property.FALLBACK, not turn.ended)
        else:
            self.check(Property.ENDING, turn.ended)
        if effect in REMEMBERED:
            self.remember(self.told_by(target, outcome))
        if self.served and self.last_resort:
            gone = [kept for kept in self.answered if self.contradicted(target, kept)]
            self.gone = {kept[:2] for kept in gone}
            self.answered = [kept for kept in self.answered if kept not in gone]

    def told_by(self, target: str, outcome: Outcome) -> Remembered:
        if outcome.effect is Effect.REMEMBERED_WINDOW:
            (rung,) = [rung for rung in self.world.ladder if rung.name == target]
            self.overflowed = max(self.overflowed, rung.context_window or 0)
            return Remembered(target, str(outcome.effect), outcome.refused, self.size)
        refused = outcome.refused
        if self.world.options.capability_scope == "feature":
            # what it refuses and the turn does not need is refused whatever the turn needs
            refused = frozenset(
                told if self.needs >= set(told) else tuple(sorted({*told, "other"})) for told in refused
            )
        return Remembered(target, str(outcome.effect), refused)

    def remember(self, told: Remembered) -> None:
        self.learnt.append(told)
        for place, kept in enumerate(self.answered):
            if kept[:2] == told[:2]:
                sizes = [size for size in (kept.size, told.size) if size is not None]
                self.answered[place] = kept._replace(
                    refused=kept.refused | told.refused, size=min(sizes, default=None)
                )
                return
        self.answered.append(told)

    def contradicted(self, target: str, kept: Remembered) -> bool:
        if kept.target != target or not self.applies(kept):
            return False
        return kept.reason == "context_window" or all(
            "other" in refused or self.needs >= set(refused) for refused in kept.refused
        )

    def end(self) -> None:
        turn = self.turn
        self.check(Property.ENDS, turn.ended)
        self.check(Property.SERVED, (turn.state == "served") == self.served)
        self.check(Property.CALLED, bool(self.probed) or self.interrupted)
        for eviction in turn.restored:
            self.store = self.store.remove(eviction)
        if turn.ended:
            record = turn.record()
            told = [told.target for told in (*record.probes, *record.passed_over, *record.not_tried)]
            self.check(Property.TOLD, told[: len(self.probed)] == self.probed)
            self.check(Property.TOLD, sorted(told) == self.names)
            for over in record.passed_over:
                self.check(Property.WHY, over.why == self.why_out(over.target))
            settled = turn.settled
            after = self.before.home if settled is None else AtHome(settled.home.target, settled.last.target)
            self.check(Property.HOME, after == self.home_after())

    def why_out(self, target: str) -> str:
        """Why a target was passed over when the turn chose last, or nothing. A last resort chooses once."""
        answered = self.before.answered if self.last_resort else self.answered
        overflowed = 0 if self.last_resort else self.overflowed
        if any(kept.target == target and self.applies(kept) for kept in answered):
            return "evicted"
        if self.gated(self.rung(target), overflowed):
            return "gated"
        return "cooling" if target in self.cooling else ""

    def home_after(self) -> AtHome | None:
        """Where the session is at home, as the rules have it."""
        home = self.before.home
        if self.world.options.affinity is None or not self.served:
            return home
        server = self.probed[-1]
        if home is None or self.why_out(home.home) == "evicted":
            return AtHome(server, server)
        return AtHome(home.home, server)


def _subsets(names: Sequence[str]) -> Iterator[frozenset[str]]:
    for size in range(len(names) + 1):
        yield from map(frozenset, combinations(names, size))


# -- walking


@dataclass
class Figures:
    """What a walk has seen."""

    size: int
    contexts: int = 0
    paths: int = 0
    secs: float = 0.0
    violations: list[Ending] = field(default_factory=list)
    reached: set[tuple[frozenset[Remembered], AtHome | None]] = field(default_factory=set)
    """What sessions may come to remember, whatever its order."""

    def add(self, ending: Ending) -> None:
        self.paths += 1
        if ending.violated:
            self.violations.append(ending)

    @property
    def violated(self) -> tuple[Property, ...]:
        """Each property that some path violated, in the order of their definition."""
        found = {rule for ending in self.violations for rule in ending.violated}
        return tuple(rule for rule in Property if rule in found)


def turns(world: World, before: Node = FRESH) -> Iterator[Ending]:
    """Every path of one turn."""
    store = world.context(before.store)
    return walk(lambda choose: _Play(choose, world, before, store).play())


def one_turn(world: World, before: Node = FRESH) -> Figures:
    """Every path of one turn, counted."""
    began, figures = perf_counter(), Figures(world.size, contexts=1)
    for ending in turns(world, before):
        figures.add(ending)
    figures.secs = perf_counter() - began
    return figures


def sessions(world: World) -> Figures:
    """Every path of every turn of every session: what one turn leaves is where the next begins."""
    began, figures = perf_counter(), Figures(world.size)
    seen, queue = {FRESH}, deque([FRESH])
    while queue:
        figures.contexts += 1
        for ending in turns(world, queue.popleft()):
            figures.add(ending)
            if ending.after is not None and ending.after not in seen:
                seen.add(ending.after)
                queue.append(ending.after)
    figures.reached = {(frozenset(node.answered), node.home) for node in seen}
    figures.secs = perf_counter() - began
    return figures


def sessions_by_view(world: World) -> Figures:
    """As `sessions`, for ladders that are too long for it, of a world without needs and overlap.

    Two things make it short. A target's evictions come back together here, so of their
    order only the oldest of each target counts. And as long as some target is eligible, the
    order counts for nothing at all: such a turn is walked once for all contexts that hold the
    same, and its additions are put behind each of them. `tests/test_explorer.py` holds it
    against `sessions` where both can be run. It stops at the first violation, since what a
    turn adds is only then the same for the witness and the store.
    """
    began, figures = perf_counter(), Figures(world.size)
    additions: dict[frozenset[Remembered], set[Memory]] = {}
    seen: set[Memory] = {()}
    queue: deque[Memory] = deque([()])
    while queue and not figures.violations:
        memory = queue.popleft()
        figures.contexts += 1
        if len({kept.target for kept in memory}) == world.size:
            following = _walked(world, memory, figures)
        else:
            view = frozenset(memory)
            if view not in additions:
                additions[view] = {after[len(memory) :] for after in _walked(world, memory, figures)}
            following = {memory + added for added in additions[view]}
        for after in map(oldest_first, following):
            if after not in seen:
                seen.add(after)
                queue.append(after)
    figures.secs = perf_counter() - began
    return figures


def _walked(world: World, memory: Memory, figures: Figures) -> set[Memory]:
    after = set()
    for ending in turns(world, Node(memory, memory)):
        figures.add(ending)
        if ending.after is not None:
            after.add(ending.after.answered)
    return after


def oldest_first(memory: Memory) -> Memory:
    """The same memory with the evictions of each target next to the oldest of them."""
    places = list(dict.fromkeys(kept.target for kept in memory))
    return tuple(sorted(memory, key=lambda kept: (places.index(kept.target), kept.reason)))


class _View(NamedTuple):
    """What of a session a turn can depend on."""

    needs: frozenset[str]
    size: int | None
    applying: tuple[tuple[str, str, bool], ...]
    """The evictions that apply to it: target, reason, whether serving contradicts them."""
    home: AtHome | None


_Learnt = tuple[Remembered, ...]
_Effect = tuple[_Learnt, frozenset[tuple[str, str]], AtHome | None]
"""What a turn adds to what was told, what it takes from that, and where home is then."""


def sessions_by_effect(world: World) -> Figures:
    """As `sessions`, for worlds with options: a turn is walked once for all contexts that look alike to it.

    The order of the first causes is no part of a context here. Where it counts, since all are evicted,
    every order is walked, also those that no session comes to. What a turn was told is then merged
    into each context that looks so. `tests/test_explorer.py` holds it against `sessions`. It stops at the
    first violation, as `sessions_by_view` does.
    """
    began, figures = perf_counter(), Figures(world.size)
    effects: dict[_View, frozenset[_Effect]] = {}
    first: tuple[frozenset[Remembered], AtHome | None] = (frozenset(), None)
    seen, queue = {first}, deque([first])
    while queue and not figures.violations:
        told, home = queue.popleft()
        figures.contexts += 1
        for needs in world.needs:
            for size in world.sizes:
                view, all_out = _view(world, told, home, needs, size)
                if view not in effects:
                    effects[view] = frozenset(_effects(world, told, view, figures, every_order=all_out))
                for learnt, gone, at_home in effects[view]:
                    after = (_merged(told, learnt, gone), at_home)
                    if after not in seen:
                        seen.add(after)
                        queue.append(after)
    figures.reached = seen
    figures.secs = perf_counter() - began
    return figures


def _view(
    world: World, told: Iterable[Remembered], home: AtHome | None, needs: frozenset[str], size: int | None
) -> tuple[_View, bool]:
    """How a context looks to a turn, and whether all targets are evicted for it."""
    play = _Play(_the_first, replace(world, needs=(needs,), sizes=(size,)), FRESH, SessionContext())
    applying = sorted(
        (kept.target, kept.reason, play.contradicted(kept.target, kept))
        for kept in told
        if play.applies(kept)
    )
    return _View(needs, size, tuple(applying), home), {name for name, *_ in applying} == set(play.names)


def _the_first(options: Sequence[T]) -> T:
    return options[0]


def _effects(
    world: World, told: Iterable[Remembered], view: _View, figures: Figures, *, every_order: bool
) -> Iterator[_Effect]:
    alone = replace(world, needs=(view.needs,), sizes=(view.size,))
    by_target = {
        target.name: tuple(sorted((k for k in told if k.target == target.name), key=lambda k: k.reason))
        for target in world.ladder
    }
    orders = permutations(by_target) if every_order else [tuple(by_target)]
    for order in orders:
        memory = tuple(kept for name in order for kept in by_target[name])
        for ending in turns(alone, Node(memory, memory, view.home)):
            figures.add(ending)
            if ending.after is not None:
                yield ending.learnt, ending.contradicted, ending.after.home


def _merged(
    told: frozenset[Remembered], learnt: Iterable[Remembered], gone: frozenset[tuple[str, str]]
) -> frozenset[Remembered]:
    if not learnt and not gone:
        return told
    kept = {one[:2]: one for one in told if one[:2] not in gone}
    for one in learnt:
        known = kept.get(one[:2], one)
        sizes = [size for size in (known.size, one.size) if size is not None]
        kept[one[:2]] = known._replace(refused=known.refused | one.refused, size=min(sizes, default=None))
    return frozenset(kept.values())
