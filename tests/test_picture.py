"""The picture of a session says what its records say, and no name can break out of it."""

import json
import re

import pytest

from turnout import AuditRecord, ErrorKind, Target, Turn
from turnout.engine.audit import AttemptRecord, decode, encode
from turnout.engine.classify.verdict import Evidence, Verdict
from turnout.engine.picture import session

LADDER = [Target(name, base_url="http://127.0.0.1/v1") for name in ("small", "large")]
REFUSED = Verdict(kind=ErrorKind.CAPABILITY, evidence=Evidence("test"), status=400)

STATEMENT = re.compile(
    r"sequenceDiagram|    participant session|    participant t\d+ as .*"
    r"|    session ->> t\d+: turn \d+|    t\d+ (?:-->>|--x) session: .*"
)


def refused_then_served() -> AuditRecord:
    turn = Turn(LADDER, id="1")
    turn.probed(REFUSED, at=1.0)
    turn.act()
    turn.advance()
    turn.probed(None, at=2.0)
    turn.act()
    return turn.record()


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
    turn = Turn(LADDER, id="1")
    turn.interrupt("cancelled", (AttemptRecord(duration=0.5),))
    assert "t0 --x session: no answer before the turn ended" in session([turn.record()])


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
