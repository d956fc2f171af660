"""An audit record is enough to play its turn again: no network, no store, no clock."""

import random

import pytest
from random_turns import CALLER, INTERRUPTIONS, some_turn

from turnout.engine.audit import WhyPassedOver, decode, encode
from turnout.engine.replay import play_again, replay, turn_of


@pytest.mark.parametrize("seed", range(20))
def test_the_record_suffices_to_play_the_turn_again(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(50):
        record = decode(encode(some_turn(chance)))
        assert replay(record) is None
        again = turn_of(record)
        play_again(record, again)
        assert again.record(started=10.0, caller=CALLER) == record


def test_the_random_turns_are_of_every_sort() -> None:
    """The test above says nothing of what it never meets."""
    chance = random.Random(1)
    records = [some_turn(chance) for _ in range(1000)]
    assert {record.ended_by for record in records} == {"answered", "rejected", "advance", *INTERRUPTIONS}
    assert any(record.rereads for record in records)
    assert any(record.restored for record in records)
    assert {over.why for record in records for over in record.passed_over} == set(WhyPassedOver)
    assert any(record.lifted for record in records)
    assert any(record.settled for record in records)
    assert any(reread.cooling for record in records for reread in record.rereads)
    assert any(probe.trial for record in records for probe in record.probes)
    assert any(probe.last_resort for record in records for probe in record.probes)
