"""The pictures of a session and of a turn say what the records say, and no name can break out of them."""

import json
import random
import re

import msgspec
import pytest
from random_turns import some_turn

from turnout import AuditRecord, ErrorKind, Target, Turn
from turnout.engine.audit import AttemptRecord, decode, encode
from turnout.engine.classify.verdict import Evidence, Verdict
from turnout.engine.picture import session, turn
from turnout.machines.stepping import Step
from turnout.machines.turn import DEFINITION

LADDER = [Target(name, base_url="http://127.0.0.1/v1") for name in ("small", "large")]
REFUSED = Verdict(kind=ErrorKind.CAPABILITY, evidence=Evidence("test"), status=400)

STATEMENT = re.compile(
    r"sequenceDiagram|    participant session|    participant t\d+ as .*"
    r"|    session ->> t\d+: turn \d+|    t\d+ (?:-->>|--x) session: .*"
)


def refused_then_served() -> AuditRecord:
    stepped = Turn(LADDER, id="1")
    stepped.probed(REFUSED, at=1.0)
    stepped.act()
    stepped.advance()
    stepped.probed(None, at=2.0)
    stepped.act()
    return stepped.record()


def cut_short() -> AuditRecord:
    stepped = Turn(LADDER, id="1")
    stepped.interrupt("cancelled", (AttemptRecord(duration=0.5),))
    return stepped.record()


def test_each_probe_is_asked_and_says_what_came_of_it() -> None:
    assert session([refused_then_served()]).splitlines() == [
        "sequenceDiagram",
        "    participant session",
        "    participant t0 as small",
        "    participant t1 as large",
        "    session ->> t0: turn 1",
        "    t0 --x session: capability HTTP 400, evicted",
        "    session ->> t1: turn 1",
        "    t1 -->> session: served",
    ]


def test_turns_are_numbered_in_the_order_of_their_records() -> None:
    turns = re.findall(r"turn (\d+)", session([refused_then_served(), refused_then_served()]))
    assert turns == ["1", "1", "2", "2"]


def test_a_probe_that_was_cut_short_says_so() -> None:
    assert "t0 --x session: no answer before the turn ended" in session([cut_short()])
    assert "    probing --> failed: 1. cancelled small\n" in turn(cut_short())


def test_a_turn_is_the_machine_with_its_way_marked() -> None:
    drawn = turn(refused_then_served()).splitlines()
    assert drawn[:2] == ["stateDiagram-v2", "    [*] --> probing"]
    assert [line.strip() for line in drawn if ": " in line] == [
        "probing --> classified: 1. probed small<br/>4. probed large",
        "classified --> served: 5. answered",
        "classified --> evicted: 2. capability HTTP 400",
        "evicted --> probing: 3. advance",
    ]
    assert drawn[-1] == "    class probing,classified,evicted,served taken"


@pytest.mark.parametrize("seed", range(40))
def test_every_step_is_on_the_arrow_that_it_took(seed: int) -> None:
    record = some_turn(random.Random(seed))
    drawn = turn(record)
    taken = {}
    for source, dest, words in re.findall(r"^    (\w+) --> (\w+): (.*)$", drawn, re.MULTILINE):
        taken |= {int(said.partition(".")[0]): (source, dest) for said in words.split("<br/>")}
    assert [taken[number] for number in sorted(taken)] == [(step.source, step.dest) for step in record.steps]
    arrows = set(re.findall(r"^    (\w+) --> (\w+)(?:: .*)?$", drawn, re.MULTILINE))
    assert arrows == {(arc.source, arc.dest) for arc in DEFINITION.arcs}
    for number, probe in enumerate((probe for probe in record.probes if probe.at), 1):
        assert drawn.count("probed ") >= number
        assert f"probed {probe.target}" in drawn
    assert drawn.count("passed over") == len(record.passed_over)


def test_a_step_that_the_machine_does_not_know_is_told_beside_it() -> None:
    """Records of before are told by the machine of today; and records are files, which anyone may write."""
    known = refused_then_served()
    strange = Step("a;b", "probing", "b\n    class forged")
    drawn = turn(msgspec.structs.replace(known, steps=(strange, *known.steps[1:])))
    assert len(drawn.splitlines()) == len(turn(known).splitlines()) + 1
    assert (
        "    note right of probing : 1. a#59;b small, probing to b#10;    class forged, which this" in drawn
    )
    assert "    class probing,evicted,classified,served taken\n" in drawn


def test_a_target_that_no_ladder_has_is_drawn_all_the_same() -> None:
    known = refused_then_served()
    assert session([msgspec.structs.replace(known, ladder=())]) == session([known])


@pytest.mark.parametrize(
    "name",
    [
        "a\n    session ->> t0: forged",
        "a; participant forged",
        "a\r\n```\n# out of the fence",
        "a %% the rest is silent",
        "a#59; participant forged",
        "<script>alert(1)</script>",
        "wrap: a",
        "a\u2028b",
    ],
)
def test_no_name_breaks_out_of_the_picture(name: str) -> None:
    """Targets of a router cannot be called so; records are files, and anyone may have written them."""
    line = encode(refused_then_served()).replace(b'"small"', json.dumps(name).encode())
    picture = session([decode(line)])
    drawn = picture.split("\n")
    assert len(drawn) == len(session([refused_then_served()]).split("\n"))
    assert all(STATEMENT.fullmatch(statement) for statement in drawn[:-1])
    label = drawn[2].partition(" as ")[2]
    assert re.fullmatch(r"(?:[A-Za-z0-9 ,._/-]|#\d+;)*", label)
    assert re.sub(r"#(\d+);", lambda entity: chr(int(entity[1])), label) == name
