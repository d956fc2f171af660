"""By what recorded turns are routed instead: a changed policy, or the routes of another deployment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

from msgspec import structs

from turnout.engine import policy
from turnout.engine.audit import AuditRecord, Rung
from turnout.engine.context import Eviction
from turnout.engine.errors import ConfigurationError
from turnout.engine.habits import Home, Place
from turnout.engine.health import Cooling
from turnout.engine.policy import FORBIDDEN, Action, Policy
from turnout.engine.refusals import Refuser
from turnout.engine.replay import options_of, policy_of, target_of
from turnout.engine.route import Route
from turnout.engine.selection import Coolings, Options
from turnout.engine.targets import Target
from turnout.machines.vocabulary import ErrorKind


class Routing(NamedTuple):
    """By what one recorded turn is routed."""

    ladder: Sequence[Target]
    policy: Policy
    options: Options
    now: Mapping[str, Target] | None = None
    """What the targets of the record are now, by the names of then. None: what they were."""
    by_size: bool = False
    by_feature: bool = False
    """Whether any route goes by the sizes, or the features, that an eviction is of: then sessions are told
    apart by them."""
    known: Mapping[Refuser, Target] = {}
    """The same of all targets that were in any record so far, by what they were."""

    def name(self, recorded: str) -> str | None:
        """What a recorded target is called; None if it is no longer there."""
        if self.now is None:
            return recorded
        return None if (target := self.now.get(recorded)) is None else target.name

    def refuser(self, recorded: Refuser) -> Refuser:
        """Who a recorded target is now; of one that is no longer there, who it was."""
        target = self.known.get(recorded)
        return recorded if target is None else Refuser(target.name, target.fingerprint)

    def evictions(self, recorded: tuple[Eviction, ...]) -> tuple[Eviction, ...]:
        """Recorded evictions, of the targets as they are now."""
        if self.now is None or not recorded:
            return recorded
        found = []
        for eviction in recorded:
            target, fingerprint = self.refuser(Refuser(eviction.target, eviction.fingerprint))
            found.append(structs.replace(eviction, target=target, fingerprint=fingerprint))
        return tuple(found)

    def coolings(self, recorded: tuple[Cooling, ...]) -> Coolings:
        """Recorded coolings: of targets that cool at all."""
        if self.now is None:
            return {one.target: one for one in recorded}
        return {
            now.name: structs.replace(one, target=now.name)
            for one in recorded
            if (now := self.now.get(one.target)) is not None and now.breaker is not None
        }

    def home(self, recorded: Home | None) -> Home | None:
        """A recorded home, where the route goes by one."""
        if recorded is None or self.now is None:
            return recorded
        return structs.replace(recorded, home=self._place(recorded.home), last=self._place(recorded.last))

    def _place(self, place: Place) -> Place:
        return Place(*self.refuser(Refuser(place.target, place.fingerprint)), place.at)


class Rules(Protocol):
    """Another way to route."""

    def routing(self, record: AuditRecord) -> Routing:
        """By what a recorded turn is routed.

        Raises:
            ConfigurationError: it cannot be: its route is not there, its pin is in no ladder, or the record
                holds what no turn can begin with.
        """
        ...

    def remarks(self) -> Iterator[str]:
        """What is to be known of it, by the records that were routed so far."""
        ...


class ChangedPolicy:
    """The recorded ladders and options, under a policy that differs.

    Args:
        on: what differs, as in a route's `on`.

    Raises:
        ConfigurationError: a key or a value that a policy cannot have.
    """

    def __init__(self, on: Mapping[str, str]) -> None:
        if wrong := policy.mistakes(on):
            raise ConfigurationError("; ".join(f"{key} {what}" for key, what in wrong))
        changes = {key: str(Action(value)) for key, value in on.items()}
        if ErrorKind.AUTH in changes:
            changes[FORBIDDEN] = changes[ErrorKind.AUTH]
        self._changes = tuple(changes.items())
        self._by_size = self._by_feature = False

    def routing(self, record: AuditRecord) -> Routing:
        options = options_of(record.options)
        self._by_size = self._by_size or _by_size(options)
        self._by_feature = self._by_feature or _by_feature(options)
        return Routing(
            [target_of(rung) for rung in record.ladder],
            _changed(tuple(record.policy.items()), self._changes),
            options,
            by_size=self._by_size,
            by_feature=self._by_feature,
        )

    def remarks(self) -> Iterator[str]:
        return iter(())


def _by_size(options: Options) -> bool:
    return options.readmit_below is not None


def _by_feature(options: Options) -> bool:
    return options.capability_scope == "feature"


@lru_cache(maxsize=1024)
def _changed(table: tuple[tuple[str, str], ...], changes: tuple[tuple[str, str], ...]) -> Policy:
    return policy_of(tuple({**dict(table), **dict(changes)}.items()))


class OtherRoutes:
    """The routes of another deployment, by their ids. A target of it is a recorded one if it has the same
    format, address and model id, whatever it is called and declares; else if it has the same name, format and
    model id, and stands at another address.
    """

    def __init__(self, routes: Mapping[str, Route]) -> None:
        self._routes = routes
        self._of: dict[tuple[str, tuple[str, ...]], Routing] = {}
        self._declared = {target.name: target for route in routes.values() for target in route.ladder}
        self._targets = {Refuser(t.name, t.fingerprint): t for t in self._declared.values()}
        """By what they are, and by what they were in the records."""
        self._asked = dict[str, None]()
        """Those of the ladders that were played."""
        self._recorded = set[str]()
        self._moved = dict[str, None]()
        """Those that are known by their names, at another address."""

    def routing(self, record: AuditRecord) -> Routing:
        route = self._routes.get(record.route)
        if route is None:
            raise ConfigurationError(f"there is no route {record.route}")
        key = record.route, tuple(f"{rung.target} {rung.fingerprint}" for rung in record.ladder)
        if (routing := self._of.get(key)) is None:
            if len(self._of) >= _MOST_KNOWN:
                self._of.clear()
            routing = self._of[key] = self._meet(record, route)
        if record.pin and routing.name(record.pin) is None:
            raise ConfigurationError(f"it was pinned to {record.pin}, which its route has no longer")
        return routing

    def remarks(self) -> Iterator[str]:
        if moved := ", ".join(self._moved):
            yield f"known by name and model, at another address than in the records: {moved}"
        if missing := ", ".join(name for name in self._asked if name not in self._recorded):
            yield f"in no record, so that nothing is known of it: {missing}"

    def _meet(self, record: AuditRecord, route: Route) -> Routing:
        """By what turns are routed that were recorded on a ladder."""
        now = _counterparts(record.ladder, route.ladder)
        anywhere = _counterparts(record.ladder, list(self._declared.values())) | now
        for rung in record.ladder:
            if (target := anywhere.get(rung.target)) is not None:
                self._targets[Refuser(rung.target, rung.fingerprint)] = target
                self._recorded.add(target.name)
                if not _is_alike(target, rung):
                    self._moved[target.name] = None
        self._asked |= dict.fromkeys(target.name for target in route.ladder)
        options = [route.options for route in self._routes.values()]
        return Routing(
            route.ladder,
            route.policy,
            route.options,
            now,
            any(map(_by_size, options)),
            any(map(_by_feature, options)),
            self._targets,
        )


_MOST_KNOWN: Final = 1_000


def _counterparts(then: Sequence[Rung], now: Sequence[Target]) -> dict[str, Target]:
    """Each recorded target that is still there, as it is now."""
    left = {target.name: target for target in now}
    found = dict[str, Target]()
    for is_it in (_is_the_same, _is_alike, _has_its_name):
        for rung in then:
            if rung.target not in found:
                for target in [target for target in left.values() if is_it(target, rung)][:1]:
                    found[rung.target] = left.pop(target.name)
    return found


def _is_the_same(target: Target, rung: Rung) -> bool:
    return target.name == rung.target and _is_alike(target, rung)


def _is_alike(target: Target, rung: Rung) -> bool:
    return target.format == rung.format and target.fingerprint_with(rung.limits) == rung.fingerprint


def _has_its_name(target: Target, rung: Rung) -> bool:
    return (target.name, target.format, target.model_id) == (rung.target, rung.format, rung.model)
