"""Who may be probed in a turn: what orders its ladder, and what rules a target out of it.

    orders     `pin` puts a target first; behind it `affinity` the session's home, and then who served last
    filters    evicted   the session remembers why it would refuse (`capability_scope`, `readmit_below`)
               gated     it declares limits that the request is beyond
               cooling   it has failed in other turns, of whatever session (`breaker`)

The filters are asked in that order, and the first that matches is the reason shown. If all targets
are out and none was probed yet, one is probed all the same: of those that cool the one that has cooled
first, else of those that are gated the one nearest to fitting, else of those that are evicted the oldest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, Literal, NamedTuple, get_args

from msgspec import Struct, structs

from turnout.engine.audit import WhyPassedOver
from turnout.engine.classify.verdict import Feature
from turnout.engine.context import Eviction, SessionContext
from turnout.engine.errors import ConfigurationError
from turnout.engine.habits import Home, Place
from turnout.engine.health import Cooling
from turnout.engine.policy import Policy
from turnout.engine.printable import named
from turnout.engine.targets import LIMITS, Target
from turnout.machines.vocabulary import RoutingFallbackReason as Reason

Scope = Literal["target", "feature"]


class Options(Struct, frozen=True, omit_defaults=True):
    """The options of a route that say who may be probed. Each is off unless it is given.

    Raises:
        ConfigurationError: a value that cannot be used.
    """

    capability_scope: Scope = "target"
    """Which turns a capability eviction rules a target out of: every one, or those that need every
    feature of a set that it refused. What a reply did not tell concerns every turn.
    """
    readmit_below: float | None = None
    """A target that overflowed is asked again by a turn whose estimated size is below this share of the
    smallest size that did not fit. The eviction stays.
    """
    affinity: Literal["home"] | None = None
    """`home`: the first target that serves a session goes first from then on, where its prompt cache is
    warm. Another one becomes its home only if that is evicted; while it is out otherwise, who served last
    goes first.
    """

    def __post_init__(self) -> None:
        if wrong := [f"{key} {what}" for key, what in mistakes(structs.asdict(self))]:
            raise ConfigurationError("; ".join(wrong))


def mistakes(options: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Each option that cannot be used: its key, and what would be right."""
    scope, share = options.get("capability_scope", "target"), options.get("readmit_below")
    if scope not in get_args(Scope):
        yield "capability_scope", f"is {named(scope)}; give {' or '.join(get_args(Scope))}"
    if share is not None and not (type(share) in (int, float) and _is_a_share(share)):
        told = f"{share:g}" if isinstance(share, float) else str(share)[:20]
        yield "readmit_below", f"is {told}; give a share above 0, at most 1"
    if (affinity := options.get("affinity")) not in (None, "home"):
        yield "affinity", f"is {named(affinity)}; give home, or leave it out"


def _is_a_share(value: object) -> bool:
    return isinstance(value, int | float) and 0 < value <= 1


NO_OPTIONS: Final = Options()


class Wants(NamedTuple):
    """What a turn asks of whoever serves it."""

    needs: frozenset[str] = frozenset()
    """The features that its request uses."""
    size: int | None = None
    """The request's estimated size in tokens."""
    output: int | None = None
    """The most tokens of output that it asks for."""
    calibrated: int | None = None
    """Its size by what upstreams have reported of the session, where they have. Declared windows are held
    against it. Sizes of one session are compared without it, since it changes from turn to turn.
    """


class Ruling(NamedTuple):
    """What rules a target out."""

    why: WhyPassedOver
    evictions: tuple[Eviction, ...] = ()
    limit: str = ""
    """The declared limit that the request is beyond."""
    cooling: Cooling | None = None


Rulings = Mapping[str, Ruling]
"""By the target's name."""

Coolings = Mapping[str, Cooling]
"""Who cools just now, by the target's name."""

_NOBODY: Final[Rulings] = {}
NONE_COOLS: Final[Coolings] = {}


class Selection:
    """The choice of one turn among the targets of its ladder.

    Args:
        pin: the target that goes first.
        home: where the session is at home; it counts only with the option `affinity`.
    """

    __slots__ = (
        "_coolings",
        "_limited",
        "_options",
        "_policy",
        "_too_small",
        "home",
        "ladder",
        "lifted",
        "wants",
    )

    def __init__(
        self,
        ladder: Sequence[Target],
        policy: Policy,
        *,
        wants: Wants = Wants(),  # noqa: B008 - it is immutable
        options: Options = NO_OPTIONS,
        pin: str | None = None,
        home: Home | None = None,
    ) -> None:
        self.home = home if options.affinity == "home" else None
        self.ladder = _ordered(ladder, pin, self.home)
        """In the order of this turn."""
        self.wants = wants
        self.lifted: tuple[Eviction, ...] = ()
        """Evictions that the route honours and that do not apply to this turn."""
        self._policy = policy
        self._options = options
        self._coolings = NONE_COOLS
        self._limited = any(target.limited for target in ladder)
        self._too_small = 0
        """The largest declared window that has overflowed in this turn."""

    def fork(self) -> Selection:
        """Another one that has come to the same so far."""
        other = object.__new__(Selection)
        for name in Selection.__slots__:
            setattr(other, name, getattr(self, name))
        return other

    def overflowed(self, target: Target) -> None:
        """A target's window was too small: those that declare no larger one need not be asked."""
        self._too_small = max(self._too_small, target.context_window or 0)

    def rulings(self, context: SessionContext, coolings: Coolings = NONE_COOLS) -> Rulings:
        """Who is out, and why."""
        self.lifted = ()
        self._coolings = coolings
        if not (context or self._limited or coolings):
            return _NOBODY
        found: dict[str, Ruling] = {}
        for target in self.ladder:
            for rule in FILTERS:
                if ruling := rule.of(self, target, context):
                    found[target.name] = ruling
                    break
        return found

    def last_resort(self, rulings: Rulings) -> Target:
        """The one that is probed although all are out."""
        for rule in reversed(FILTERS):
            if out := [target for target in self.ladder if rulings[target.name].why is rule.why]:
                return rule.survivor(self, out, rulings)
        raise AssertionError("nobody is ruled out")

    def evicted(self, target: Target, context: SessionContext) -> Ruling | None:
        """What the session remembers of a target, as far as the route honours it and it applies."""
        remembered = self._policy.remembered
        known = [e for e in context.of(target.name, target.fingerprint) if e.reason in remembered]
        applying = tuple([e for e in known if applies(e, self._options, self.wants)])
        if len(applying) < len(known):
            self.lifted += tuple([e for e in known if e not in applying])
        return Ruling(WhyPassedOver.EVICTED, applying) if applying else None

    def gated(self, target: Target, _: SessionContext) -> Ruling | None:
        """The first of a target's declared limits that this turn is beyond."""
        if target.limited and (limit := self._beyond(target)):
            return Ruling(WhyPassedOver.GATED, limit=limit)
        return None

    def cooling(self, target: Target, _: SessionContext) -> Ruling | None:
        """Whether a target cools."""
        found = self._coolings.get(target.name)
        return None if found is None else Ruling(WhyPassedOver.COOLING, cooling=found)

    def nearest_to_fitting(self, gated: Sequence[Target], _: Rulings) -> Target:
        """The one that lacks the fewest features, and then has the fewest tokens too little."""
        return min(gated, key=lambda t: (len(lacking(t, self.wants.needs)), excess(t, self.wants)))

    def oldest(self, evicted: Sequence[Target], rulings: Rulings) -> Target:
        """The one that was evicted first.

        One that is out for its window alone comes first, since a conversation can shrink;
        then the oldest first cause; then the order of the ladder, which `min` keeps. One that is
        out for both reasons counts as a capability reject: no shrinking helps it.
        """

        def last_ruled_out(target: Target) -> tuple[bool, float]:
            evictions = rulings[target.name].evictions
            return any(e.reason is Reason.CAPABILITY for e in evictions), min(e.first.at for e in evictions)

        return min(evicted, key=last_ruled_out)

    def first_to_have_cooled(self, cooling: Sequence[Target], _: Rulings) -> Target:
        """The one whose time is up first."""
        return min(cooling, key=lambda target: self._coolings[target.name].until)

    def refused(self, features: tuple[str, ...]) -> tuple[str, ...]:
        """What of a turn's request a target has refused, by what it told.

        Told of a feature that the request does not use, it may have meant anything: where evictions go by
        features, every turn is concerned then, or the target would be asked again just to refuse again.
        """
        if features and (self._options.capability_scope == "target" or self.wants.needs.issuperset(features)):
            return tuple(sorted(features))
        return tuple(sorted({*features, Feature.OTHER.value}))

    def _beyond(self, target: Target) -> str:
        if lacks := lacking(target, self.wants.needs):
            return f"takes no {', '.join(lacks)}"
        window = target.context_window
        if window is None:
            return ""
        if beyond := excess(target, self.wants):
            return f"{window + beyond} tokens, window {window}"
        if window <= self._too_small:
            return f"window {window}, and {self._too_small} overflowed"
        return ""


class Filter(NamedTuple):
    """One rule that may pass a target over."""

    why: WhyPassedOver
    of: Callable[[Selection, Target, SessionContext], Ruling | None]
    keys: tuple[str, ...]
    """What of a deployment file it goes by."""
    survivor: Callable[[Selection, Sequence[Target], Rulings], Target]
    """Of those that it has passed over, the one that is probed as last resort."""


FILTERS: Final = (
    Filter(
        WhyPassedOver.EVICTED,
        Selection.evicted,
        ("on", "capability_scope", "readmit_below"),
        Selection.oldest,
    ),
    Filter(WhyPassedOver.GATED, Selection.gated, LIMITS, Selection.nearest_to_fitting),
    Filter(WhyPassedOver.COOLING, Selection.cooling, ("breaker",), Selection.first_to_have_cooled),
)
"""In the order in which they are asked; the first that matches is the reason shown. If all are out, the last
of them that has passed anyone over names the one that is probed.
"""

ORDERS: Final = ("pin", "home", "last server", "ladder")
"""Who goes first, and next."""


def applies(eviction: Eviction, options: Options, wants: Wants) -> bool:
    """Whether an eviction rules its target out of a turn."""
    size = wants.size
    if eviction.reason is Reason.CAPABILITY:
        return options.capability_scope == "target" or eviction.concerns(wants.needs)
    if options.readmit_below is None or eviction.size is None or size is None:
        return True
    return size >= options.readmit_below * eviction.size


def excess(target: Target, wants: Wants) -> int:
    """How many tokens the request and the output that it asks for are beyond a declared window."""
    size = wants.size if wants.calibrated is None else wants.calibrated
    if target.context_window is None or size is None:
        return 0
    return max(0, size + (wants.output or 0) - target.context_window)


def lacking(target: Target, needs: frozenset[str]) -> list[str]:
    """The features that a turn needs and that a target declares not to have."""
    return [what for what in target.absent if what in needs]


def _ordered(ladder: Sequence[Target], pin: str | None, home: Home | None) -> tuple[Target, ...]:
    """The ladder, with those first that go first."""
    ordered = tuple(ladder)
    if home is not None:  # the last to be put in front is the first
        for place in (home.last, home.home):
            ordered = tuple(sorted(ordered, key=partial(_is_elsewhere, place)))
    if pin is not None:
        ordered = tuple(sorted(ordered, key=lambda target: target.name != pin))
    return ordered


def _is_elsewhere(place: Place, target: Target) -> bool:
    return not is_at(target, place)


def is_at(target: Target, place: Place) -> bool:
    """Whether a target is what it was when it served."""
    return target.name == place.target and target.fingerprint == place.fingerprint
