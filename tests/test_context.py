"""What a session remembers: recording merges, merging commutes, standings are the machine's."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnout.engine.classify.verdict import Evidence
from turnout.engine.context import EMPTY, Cause, Eviction, SessionContext
from turnout.machines import standing as standing_machine
from turnout.machines.stepping import Definition, StepMachine, StepRefused
from turnout.machines.vocabulary import ErrorKind as Kind
from turnout.machines.vocabulary import RoutingFallbackReason as Reason

REMEMBERED = (Reason.CONTEXT_WINDOW, Reason.CAPABILITY)


def eviction(
    target: str = "small",
    reason: Reason = Reason.CONTEXT_WINDOW,
    *,
    at: float = 1.0,
    turn: str = "",
    size: int | None = None,
    refused: frozenset[tuple[str, ...]] = frozenset(),
    fingerprint: str = "f",
    message: str = "",
) -> Eviction:
    turn = turn or f"turn at {at}"
    cause = Cause(turn, at, Kind(reason), Evidence("told"), message=message)
    return Eviction(target, reason, fingerprint, cause, turn, at, size, refused)


FEATURE_SETS = st.frozensets(st.sampled_from([("image",), ("tools",), ("image", "tools"), ("other",)]))
EVICTIONS = st.builds(
    eviction,
    st.sampled_from(["small", "large"]),
    st.sampled_from(REMEMBERED),
    at=st.sampled_from([1.0, 2.0, 3.0]),
    turn=st.sampled_from(["a", "b"]),
    size=st.none() | st.integers(1, 9),
    refused=FEATURE_SETS,
    fingerprint=st.sampled_from(["f", "g"]),
    message=st.sampled_from(["", "too long"]),
)


def recorded(evictions: list[Eviction]) -> SessionContext:
    """A context that was told of these, one after the other."""
    context = EMPTY
    for one in evictions:
        context = context.record(one)
    return context


CONTEXTS = st.lists(EVICTIONS, max_size=5).map(recorded)


# -- merging


@given(CONTEXTS, CONTEXTS)
def test_merging_commutes(one: SessionContext, other: SessionContext) -> None:
    assert one.merge(other) == other.merge(one)


@given(CONTEXTS, CONTEXTS, CONTEXTS)
def test_merging_is_associative(a: SessionContext, b: SessionContext, c: SessionContext) -> None:
    assert a.merge(b).merge(c) == a.merge(b.merge(c))


@given(CONTEXTS)
def test_merging_again_changes_nothing(context: SessionContext) -> None:
    assert context.merge(context) == context
    assert context.merge(EMPTY) == EMPTY.merge(context) == context


@given(st.lists(EVICTIONS, max_size=4))
def test_recording_in_any_order_leaves_the_same(evictions: list[Eviction]) -> None:
    orders = [recorded(list(order)) for order in permutations(evictions)]
    assert all(context == orders[0] for context in orders)


@given(CONTEXTS)
def test_a_target_stands_evicted_just_as_long_as_something_is_held_against_it(
    context: SessionContext,
) -> None:
    for one in context.evictions:
        assert context.standing(one.target, one.fingerprint) == "evicted"
        context = context.remove(one)
    assert context == EMPTY
    assert context.standing("small", "f") == "eligible"


def test_a_merged_eviction_keeps_the_first_cause_the_smallest_size_and_the_latest_use() -> None:
    early, late = eviction(at=1.0, size=900), eviction(at=5.0, size=700)
    for merged in (early.merge(late), late.merge(early)):
        assert merged.first == early.first
        assert (merged.latest_turn, merged.latest_at, merged.size) == (late.latest_turn, 5.0, 700)


def test_a_size_that_is_not_known_does_not_hide_one_that_is() -> None:
    assert eviction(at=1.0).merge(eviction(at=2.0, size=5)).size == 5
    assert eviction(at=1.0).merge(eviction(at=2.0)).size is None


def test_refused_features_add_up() -> None:
    images = eviction(reason=Reason.CAPABILITY, refused=frozenset({("image",)}))
    tools = eviction(reason=Reason.CAPABILITY, at=2.0, refused=frozenset({("tools",)}))
    assert images.merge(tools).refused == {("image",), ("tools",)}


# -- recording and removing


def test_a_context_is_never_changed() -> None:
    before = EMPTY.record(eviction())
    after = before.record(eviction("large")).remove(eviction())
    assert [e.target for e in before.evictions] == ["small"]
    assert [e.target for e in after.evictions] == ["large"]


def test_removing_one_of_two_evictions_changes_no_standing() -> None:
    window, capability = eviction(), eviction(reason=Reason.CAPABILITY)
    context = EMPTY.record(window).record(capability).remove(window)
    assert context.standing("small", "f") == "evicted"
    assert context.remove(capability).standing("small", "f") == "eligible"


def test_what_was_merged_since_it_was_read_is_not_removed() -> None:
    read = eviction(at=1.0)
    context = EMPTY.record(read).record(eviction(at=2.0))
    assert context.remove(read) is context


def test_removing_what_is_not_there_changes_nothing() -> None:
    context = EMPTY.record(eviction())
    assert context.remove(eviction("large")) is context


def test_an_eviction_of_the_model_before_does_not_count_for_the_one_now() -> None:
    context = EMPTY.record(eviction(fingerprint="before"))
    assert context.of("small", "now") == ()
    assert context.standing("small", "now") == "eligible"
    assert context.standing("small", "before") == "evicted"


def test_evictions_are_listed_oldest_first_cause_first() -> None:
    context = EMPTY.record(eviction("late", at=3.0)).record(eviction("early", at=1.0))
    assert [e.target for e in context.evictions] == ["early", "late"]


def test_unavailable_cannot_be_remembered() -> None:
    with pytest.raises(StepRefused, match="unavailable"):
        EMPTY.record(eviction(reason=Reason.UNAVAILABLE))


def test_standings_that_drift_from_the_machine_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = ({"trigger": "capability", "source": "eligible", "dest": "eligible"},)
    broken = Definition("standing", ("eligible", "evicted"), "eligible", (), rows)  # type: ignore[arg-type]
    monkeypatch.setattr(standing_machine, "MACHINE", StepMachine(broken))
    with pytest.raises(AssertionError, match="'small' is evicted, its machine says eligible"):
        EMPTY.record(eviction(reason=Reason.CAPABILITY))


# -- being a value


def test_contexts_with_the_same_evictions_are_equal_and_say_what_they_hold() -> None:
    context = EMPTY.record(eviction("small")).record(eviction("large", Reason.CAPABILITY, at=2.0))
    assert context == SessionContext(reversed(context.evictions))
    assert context != EMPTY
    assert context != "small"
    assert repr(context) == "SessionContext(small context_window, large capability)"
    assert bool(context)
    assert not EMPTY


# -- what serving contradicts


@pytest.mark.parametrize(
    ("refused", "needs", "contradicted"),
    [
        ({("image",)}, {"image", "tools"}, True),
        ({("image",)}, {"tools"}, False),
        ({("image", "tools")}, {"image"}, False),
        ({("image", "tools"), ("image",)}, {"image"}, False),
        ({("image",), ("tools",)}, {"image", "tools"}, True),
        ({("image",), ("other",)}, {"audio"}, False),
        ({("image", "other")}, set(), True),
        (set(), {"image"}, False),
    ],
)
def test_a_capability_is_contradicted_by_a_turn_that_needed_what_was_refused(
    refused: set[tuple[str, ...]], needs: set[str], contradicted: bool
) -> None:
    held = eviction(reason=Reason.CAPABILITY, refused=frozenset(refused))
    assert held.contradicted_by(frozenset(needs)) is contradicted


def test_a_window_is_contradicted_by_any_turn_that_was_served() -> None:
    assert eviction().contradicted_by(frozenset())


def test_what_another_turn_has_merged_in_the_same_instant_is_not_removed() -> None:
    read = eviction(at=1.0, turn="a")
    context = EMPTY.record(read).record(eviction(at=1.0, turn="b", size=9))
    assert context.remove(read) == context
