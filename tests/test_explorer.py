"""Proof, not only examples: every path of a turn, of every session, and of a probe."""

import health_world
import probe_world
import pytest
from world import (
    ALL_OPTIONS,
    CAPABILITY,
    EVERY_KIND,
    FRESH,
    NO_IMAGES,
    ONE_OF_EACH,
    OPTIONS,
    Figures,
    World,
    oldest_first,
    one_turn,
    sessions,
    sessions_by_effect,
    sessions_by_view,
    turns,
    with_option,
)

from turnout.engine.policy import DEFAULT, Policy, case_of
from turnout.engine.selection import Options
from turnout.machines.vocabulary import ErrorKind, RoutingFallbackReason


def all_holds(seen: Figures) -> None:
    assert not seen.violations, "\n".join(map(str, seen.violations[:5]))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_every_outcome_of_a_first_turn_keeps_the_rules(size: int) -> None:
    seen = one_turn(World(size, EVERY_KIND))
    all_holds(seen)
    # per target: 6 interruptions of the probe, 15 outcomes each interrupted in 3 ways, 5 of them
    # fall back, and each of those is interrupted in 3 ways, or goes on; 10 end the turn
    paths = 1
    for _ in range(size):
        paths = 6 + 15 * 3 + 10 + 5 * 3 + 5 * paths
    assert seen.paths == paths


@pytest.mark.parametrize("size", [1, 2, 3])
def test_every_session_keeps_the_rules(size: int) -> None:
    all_holds(sessions(World(size)))


@pytest.mark.parametrize("size", [4, pytest.param(5, marks=pytest.mark.slow)])
def test_every_session_of_a_long_ladder_keeps_the_rules(size: int) -> None:
    all_holds(sessions_by_view(World(size)))


def test_a_feature_that_the_turn_does_not_need_is_not_contradicted() -> None:
    needs = (frozenset[str](), frozenset({"image"}))
    all_holds(sessions(World(2, (*ONE_OF_EACH, NO_IMAGES), needs=needs)))


def test_what_an_overlapping_turn_evicts_is_not_probed() -> None:
    all_holds(one_turn(World(3, overlap=True)))
    all_holds(sessions(World(2, overlap=True)))


NEEDS = (frozenset[str](), frozenset({"image"}))


@pytest.mark.parametrize("size", [1, 2])
def test_every_session_keeps_the_rules_where_evictions_go_by_features(size: int) -> None:
    outcomes = (*ONE_OF_EACH, NO_IMAGES)
    all_holds(sessions(World(size, outcomes, needs=NEEDS, options=Options(capability_scope="feature"))))


@pytest.mark.parametrize("size", [1, 2])
def test_every_session_keeps_the_rules_where_a_conversation_may_shrink(size: int) -> None:
    """Sizes on both sides of the share, and of a share of the share."""
    sizes = (None, 100, 79, 80, 60)
    all_holds(sessions(World(size, sizes=sizes, options=Options(readmit_below=0.8))))


@pytest.mark.parametrize("windows", [(100,), (50, 100), (100, None), (None, 50), (100, 100)])
def test_every_session_keeps_the_rules_where_windows_are_declared(windows: tuple[int | None, ...]) -> None:
    for size in (1, 2):
        all_holds(sessions(World(size, sizes=(None, 50, 51, 101), windows=windows)))


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("option", OPTIONS)
def test_every_session_keeps_the_rules_while_targets_cool(option: str, size: int) -> None:
    """`tests/proof/report.py` walks ladders up to four so."""
    all_holds(sessions_by_effect(with_option(option, size)))


@pytest.mark.parametrize("size", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("option", OPTIONS)
def test_walking_by_effect_misses_no_context(option: str, size: int) -> None:
    """It walks orders that no session comes to as well, so it may reach more."""
    if (option, size) == (ALL_OPTIONS, 2):
        return  # an hour
    world = with_option(option, size)
    plain = sessions(world)
    all_holds(plain)
    assert plain.reached <= sessions_by_effect(world).reached


def test_whatever_happens_to_a_target_its_health_keeps_the_rules() -> None:
    seen = health_world.walked()
    assert not seen.violations, "\n".join(map(str, seen.violations[:5]))
    assert seen.states > 50


@pytest.mark.parametrize("size", [1, 2, 3])
def test_walking_by_view_misses_no_context(size: int) -> None:
    """The short walk reaches just what the plain one does, but for orders that count for nothing."""
    world, reached, queue = World(size), {FRESH}, [FRESH]
    while queue:
        found = {ending.after for ending in turns(world, queue.pop()) if ending.after} - reached
        reached |= found
        queue += found
    assert sessions(world).contexts == len(reached)
    assert sessions_by_view(world).contexts == len({oldest_first(node.answered) for node in reached})


def test_the_witness_knows_every_entry_of_the_policy() -> None:
    verdicts = [outcome.verdict for outcome in EVERY_KIND if outcome.verdict is not None]
    assert {case_of(verdict) for verdict in verdicts} == set(DEFAULT)


def test_a_changed_policy_shows_itself_only_in_the_second_turn() -> None:
    """Capability for this turn only: the session pays a certain rejection a turn, and nothing says so."""
    forgetful = Policy.of_table({**DEFAULT, ErrorKind.CAPABILITY: DEFAULT[ErrorKind.UNAVAILABLE]})
    assert forgetful.reason(CAPABILITY.verdict) is RoutingFallbackReason.UNAVAILABLE  # type: ignore[arg-type]
    seen = sessions(World(2, policy=forgetful))
    again = next(e for e in seen.violations if "NOT_AGAIN" in {rule.name for rule in e.violated})
    assert [(kept.target, kept.reason) for kept in again.before.answered] == [("t1", "capability")]
    assert again.before.store == ()


def test_every_probe_keeps_the_rules() -> None:
    wrong = [ending for ending in probe_world.probes() if ending.violated]
    assert not wrong, "\n".join(map(str, wrong[:5]))
