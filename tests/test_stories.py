"""Whole sessions, one story each: who was asked in every turn, and what came of it.

The snapshot pins the sequence and reads as prose. Beside it stands what the story is about,
in code, so that no update of a snapshot can bless a sequence which breaks it.
"""

from collections import Counter
from pathlib import Path

from syrupy.assertion import SnapshotAssertion

from turnout.engine.audit import AuditRecord
from turnout.engine.scenario import load
from turnout.engine.simulation import play
from turnout.engine.telling import tell, who

SCENARIOS = Path(__file__).parent / "scenarios"


class Story:
    """A scenario that was played."""

    def __init__(self, file: str) -> None:
        scenario = load(SCENARIOS / f"{file}.toml")
        self.name = scenario.name
        self.records: list[AuditRecord] = [turn.record for turn in play(scenario)]

    def __str__(self) -> str:
        lines = [
            f"{number}. {who(record)}: {tell(record, turn_name=lambda turn: str(int(turn)))}"
            for number, record in enumerate(self.records, 1)
        ]
        return "\n".join([self.name, *lines])

    @property
    def asked(self) -> list[list[str]]:
        """The targets that each turn asked."""
        return [[probe.target for probe in record.probes] for record in self.records]

    def times(self, target: str) -> int:
        """How often a target was asked in the whole story."""
        return Counter(name for turn in self.asked for name in turn)[target]


def test_a_capability_reject_is_probed_exactly_once_in_three_turns(snapshot: SnapshotAssertion) -> None:
    story = Story("capability-is-probed-once")
    assert len(story.records) == 3
    assert story.times("small") == 1
    assert all(record.served_by == "large" for record in story.records)
    assert str(story) == snapshot


def test_an_overflow_is_probed_once(snapshot: SnapshotAssertion) -> None:
    story = Story("overflow-is-probed-once")
    assert [
        ("small" in asked) for asked, r in zip(story.asked, story.records, strict=True) if who(r) == "s1"
    ] == [
        True,
        False,
    ]
    assert str(story) == snapshot


def test_an_unavailable_target_is_probed_every_turn(snapshot: SnapshotAssertion) -> None:
    story = Story("unavailable-is-probed-every-turn")
    assert story.times("small") == len(story.records)
    assert all(record.standings_after == () for record in story.records)
    assert str(story) == snapshot


def test_a_childs_eviction_does_not_touch_its_parent_or_sibling(snapshot: SnapshotAssertion) -> None:
    story = Story("agents-keep-their-own-memory")
    told = {e.first.turn: who(record) for record in story.records for e in record.standings_after}
    for record in story.records:
        assert all(told[e.first.turn] == who(record) for over in record.passed_over for e in over.evictions)
    assert story.records[-1].caller.agent == ""
    assert story.asked[-1] == ["small"]
    assert str(story) == snapshot


def test_eight_requests_of_a_session_and_its_children(snapshot: SnapshotAssertion) -> None:
    story = Story("sub-agents-in-eight-requests")
    assert story.asked == [
        ["weak", "strong"],  # child-a overflows
        ["strong"],  # child-a fits
        ["weak"],  # the root
        ["weak"],  # child-b
        ["weak"],  # the root's final request
        ["weak"],  # child-a: forgotten with the session
        ["weak", "strong"],  # a child without an id overflows
        ["weak", "strong"],  # and again: it has no memory
    ]
    assert str(story) == snapshot


def test_all_evicted_means_one_call_to_the_survivor_that_is_restored_when_it_serves(
    snapshot: SnapshotAssertion,
) -> None:
    story = Story("all-evicted-asks-the-survivor")
    evicted_all = story.records[1:3]
    assert [len(record.probes) for record in evicted_all] == [1, 1]
    assert {record.probes[0].target for record in evicted_all} == {"narrow"}
    assert [[e.target for e in record.restored] for record in story.records] == [[], [], ["narrow"], []]
    assert str(story) == snapshot


def test_exhaustion_surfaces_the_last_concrete_error_with_all_probes(snapshot: SnapshotAssertion) -> None:
    story = Story("exhaustion-lists-every-cause")
    (record,) = story.records
    assert [probe.target for probe in record.probes] == [rung.target for rung in record.ladder]
    last = record.probes[-1]
    assert last.verdict is not None
    assert record.error.startswith(f"target {last.target!r}: {last.verdict.kind}")
    assert str(story) == snapshot


def test_a_refused_key_leaves_the_second_target_untouched(snapshot: SnapshotAssertion) -> None:
    story = Story("refused-credentials")
    statuses = [record.probes[0].attempts[0].status for record in story.records]
    assert statuses == [401, 403]
    assert story.asked == [["small"], ["small", "large"]]
    assert str(story) == snapshot


def test_a_session_that_comes_back_after_a_restart_is_remembered(snapshot: SnapshotAssertion) -> None:
    story = Story("another-router-on-the-same-store")
    assert story.asked[:3] == [["small", "large"], ["large"], ["large"]]
    assert str(story) == snapshot


def test_two_overlapping_turns_lose_nothing(snapshot: SnapshotAssertion) -> None:
    story = Story("overlapping-turns-of-one-session")
    first, second = story.records[:2]
    assert second.started < first.started + first.took
    assert {e.target for e in story.records[-1].standings_before} == {"small", "medium"}
    assert str(story) == snapshot


def test_in_every_scenario_a_turn_keeps_what_it_promises() -> None:
    """What holds of every turn, whatever its story: stated over what was asked and answered."""
    for path in sorted(SCENARIOS.glob("*.toml")):
        for record in Story(path.stem).records:
            asked = [probe.target for probe in record.probes]
            assert len(asked) == len(set(asked)), path.name
            assert record.state in ("served", "failed")
            assert asked or record.ended_by in ("expired", "cancelled", "broken")
            told = [t.target for t in (*record.probes, *record.passed_over, *record.not_tried)]
            assert sorted(told) == sorted(rung.target for rung in record.ladder), path.name
