"""One turn, told as what its targets said and what came of it. Proof is `test_explorer.py`'s."""

import pytest

from turnout.engine.audit import AttemptRecord, Caller, decode, encode
from turnout.engine.classify.verdict import Evidence, Verdict
from turnout.engine.context import EMPTY, Cause, Eviction, SessionContext
from turnout.engine.errors import ConfigurationError
from turnout.engine.policy import Policy
from turnout.engine.targets import Target
from turnout.engine.turn import Turn
from turnout.machines.stepping import Step, StepRefused
from turnout.machines.vocabulary import ErrorKind as Kind
from turnout.machines.vocabulary import RoutingFallbackReason as Reason

SMALL, MIDDLE, LARGE = LADDER = (Target("small"), Target("middle"), Target("large"))
ATTEMPT = AttemptRecord(0.5, status=503, kind=Kind.UNAVAILABLE)


def verdict(kind: Kind, *features: str, status: int = 400) -> Verdict:
    return Verdict(
        kind=kind,
        evidence=Evidence("told", "error.code"),
        status=status,
        code="said",
        features=features,
        message="no",
    )


WINDOW, CAPABILITY, DOWN, MISTAKE = map(
    verdict, (Kind.CONTEXT_WINDOW, Kind.CAPABILITY, Kind.UNAVAILABLE, Kind.CALLER_ERROR)
)


def evicted(target: Target, reason: Reason, at: float = 0.0, *refused: str) -> Eviction:
    """An eviction that an earlier turn recorded."""
    return Eviction(
        target.name,
        reason,
        target.fingerprint,
        first=Cause(f"turn at {at}", at, Kind(reason), Evidence("told")),
        latest_turn=f"turn at {at}",
        latest_at=at,
        refused=frozenset({refused}) if refused else frozenset(),
    )


def play(turn: Turn, *said: Verdict | None) -> list[str]:
    """Let the targets say this, one after the other: the targets that were probed."""
    probed = []
    for at, outcome in enumerate(said):
        probed.append(turn.target.name)
        turn.probed(outcome, at=100.0 + at)
        turn.act()
        if not turn.ended:
            turn.advance()
    return probed


# -- the way down the ladder


def test_a_first_answer_ends_the_turn() -> None:
    turn = Turn(LADDER)
    assert play(turn, None) == ["small"]
    assert turn.state == "served"
    assert turn.steps == (Step("probed", "probing", "classified"), Step("answered", "classified", "served"))
    assert [(left.target, left.why) for left in turn.record().not_tried] == [
        ("middle", "served"),
        ("large", "served"),
    ]


def test_every_fallback_asks_the_next_target_in_order() -> None:
    turn = Turn(LADDER)
    assert play(turn, WINDOW, DOWN, None) == ["small", "middle", "large"]
    assert turn.record().served_by == "large"


def test_when_none_is_left_the_turn_fails_and_tells_every_probe_first_cause_first() -> None:
    turn = Turn(LADDER)
    play(turn, WINDOW, DOWN, CAPABILITY)
    record = turn.record()
    assert (record.state, record.ended_by, record.served_by) == ("failed", "advance", None)
    assert [(probe.target, probe.reason) for probe in record.probes] == [
        ("small", "context_window"),
        ("middle", "unavailable"),
        ("large", "capability"),
    ]
    assert record.not_tried == ()


def test_a_mistake_of_the_caller_is_not_asked_of_another_target() -> None:
    turn = Turn(LADDER)
    assert play(turn, MISTAKE) == ["small"]
    assert (turn.state, turn.steps[-1].trigger) == ("failed", "rejected")
    assert {left.why for left in turn.record().not_tried} == {"surfaced"}


def test_the_next_turn_asks_what_was_unavailable_and_not_what_was_evicted() -> None:
    first = Turn(LADDER, id="one")
    play(first, CAPABILITY, DOWN, None)
    second = Turn(LADDER, id="two", context=first.context)
    assert play(second, None) == ["middle"]
    assert [(passed.target, passed.why) for passed in second.record().passed_over] == [("small", "evicted")]


@pytest.mark.parametrize("ladder", [(), (SMALL, Target("small", model="another"))])
def test_a_ladder_that_could_not_be_walked_is_refused(ladder: tuple[Target, ...]) -> None:
    with pytest.raises(ConfigurationError, match="at least one target, and each only once"):
        Turn(ladder)


# -- what is remembered


def test_an_eviction_holds_its_first_cause() -> None:
    turn = Turn(LADDER, id="now", size=9000)
    turn.probed(WINDOW, at=50.0)
    turn.act()
    assert turn.eviction == Eviction(
        "small",
        Reason.CONTEXT_WINDOW,
        SMALL.fingerprint,
        first=Cause("now", 50.0, Kind.CONTEXT_WINDOW, Evidence("told", "error.code"), 400, "said", "no"),
        latest_turn="now",
        latest_at=50.0,
        size=9000,
    )
    assert turn.context == SessionContext([turn.eviction])


def test_a_capability_eviction_holds_what_was_refused_and_no_size() -> None:
    turn = Turn(LADDER, size=9000)
    turn.probed(verdict(Kind.CAPABILITY, "tools", "image"))
    turn.act()
    assert turn.eviction is not None
    assert (turn.eviction.refused, turn.eviction.size) == (frozenset({("image", "tools")}), None)


def test_a_capability_reject_that_names_nothing_is_of_other() -> None:
    turn = Turn(LADDER)
    turn.probed(CAPABILITY)
    turn.act()
    assert turn.eviction is not None
    assert turn.eviction.refused == frozenset({("other",)})


@pytest.mark.parametrize("said", [None, DOWN, MISTAKE])
def test_nothing_else_is_remembered(said: Verdict | None) -> None:
    turn = Turn(LADDER)
    turn.probed(said)
    turn.act()
    assert turn.eviction is None
    assert turn.context == EMPTY


def test_an_eviction_is_there_to_be_kept_until_the_turn_goes_on() -> None:
    turn = Turn(LADDER)
    turn.probed(CAPABILITY)
    turn.act()
    assert turn.eviction is not None
    turn.advance()
    assert turn.eviction is None


def test_a_policy_may_remember_a_model_that_is_not_there() -> None:
    turn = Turn(LADDER, policy=Policy({"model_not_found": "evict"}))
    turn.probed(verdict(Kind.MODEL_NOT_FOUND, status=404))
    turn.act()
    assert turn.eviction is not None
    assert turn.eviction.reason is Reason.CAPABILITY
    assert turn.eviction.first.kind is Kind.MODEL_NOT_FOUND


def test_a_route_honours_only_what_its_own_policy_evicts_for() -> None:
    remembered = SessionContext([evicted(SMALL, Reason.CAPABILITY)])
    assert Turn(LADDER, context=remembered).target is MIDDLE
    assert Turn(LADDER, context=remembered, policy=Policy({"capability": "skip"})).target is SMALL


def test_an_eviction_of_the_model_that_was_there_before_is_inert() -> None:
    remembered = SessionContext([evicted(SMALL, Reason.CAPABILITY)])
    assert Turn((Target("small", model="newer"), LARGE), context=remembered).target.name == "small"


# -- standings that are read again


def test_what_another_turn_evicted_meanwhile_is_passed_over() -> None:
    turn = Turn(LADDER, id="now")
    turn.probed(DOWN)
    turn.act()
    told = evicted(MIDDLE, Reason.CONTEXT_WINDOW)
    turn.advance(SessionContext([told]))
    assert turn.target is LARGE
    turn.probed(None)
    turn.act()
    record = turn.record()
    assert [(reread.before_step, reread.evictions) for reread in record.rereads] == [(2, (told,))]
    assert [passed.target for passed in record.passed_over] == ["middle"]


def test_what_another_turn_evicted_may_leave_none() -> None:
    turn = Turn((SMALL, LARGE))
    turn.probed(DOWN)
    turn.act()
    turn.advance(SessionContext([evicted(LARGE, Reason.CAPABILITY)]))
    assert turn.state == "failed"


def test_standings_that_did_not_change_are_no_event() -> None:
    turn = Turn(LADDER)
    turn.probed(DOWN)
    turn.act()
    turn.advance(EMPTY)
    play(turn, None)
    assert turn.record().rereads == ()


def test_what_this_turn_learnt_stays_in_though_the_store_lost_it() -> None:
    turn = Turn(LADDER, id="now")
    turn.probed(CAPABILITY, at=100.0)
    turn.act()
    turn.advance(SessionContext([evicted(LARGE, Reason.CAPABILITY)]))
    play(turn, None)
    assert [e.target for e in turn.record().standings_after] == ["large", "small"]


# -- the last resort

A, B = Reason.CONTEXT_WINDOW, Reason.CAPABILITY


@pytest.mark.parametrize(
    ("remembered", "asked"),
    [
        pytest.param(
            [(SMALL, B, 1), (MIDDLE, B, 2), (LARGE, A, 3)], LARGE, id="a window before a capability"
        ),
        pytest.param([(SMALL, A, 3), (MIDDLE, A, 1), (LARGE, A, 2)], MIDDLE, id="then the oldest cause"),
        pytest.param(
            [(SMALL, B, 2), (MIDDLE, B, 2), (LARGE, B, 2)], SMALL, id="then the order of the ladder"
        ),
        pytest.param(
            [(SMALL, A, 1), (SMALL, B, 2), (MIDDLE, B, 3), (LARGE, A, 4)],
            LARGE,
            id="both count as a capability",
        ),
        pytest.param(
            [(SMALL, B, 3), (MIDDLE, B, 2), (MIDDLE, A, 4), (LARGE, B, 1)],
            LARGE,
            id="the oldest of several causes",
        ),
    ],
)
def test_if_all_are_evicted_the_likeliest_is_asked(
    remembered: list[tuple[Target, Reason, float]], asked: Target
) -> None:
    context = SessionContext(evicted(target, reason, at) for target, reason, at in remembered)
    assert Turn(LADDER, context=context).target is asked


def all_evicted(*of_small: Eviction) -> SessionContext:
    others = (evicted(target, Reason.CAPABILITY, 9.0, "other") for target in (MIDDLE, LARGE))
    return SessionContext([*of_small, *others])


def test_a_last_resort_that_serves_is_restored() -> None:
    window = evicted(SMALL, Reason.CONTEXT_WINDOW)
    turn = Turn(LADDER, context=all_evicted(window))
    assert play(turn, None) == ["small"]
    assert turn.restored == (window,)
    assert {e.target for e in turn.context.evictions} == {"middle", "large"}
    assert turn.record().probes[0].last_resort
    assert turn.record().restored == (window,)


def test_a_last_resort_that_rejects_fails_the_turn_and_no_second_is_asked() -> None:
    turn = Turn(LADDER, context=all_evicted(evicted(SMALL, Reason.CONTEXT_WINDOW)))
    play(turn, CAPABILITY)
    record = turn.record()
    assert (record.state, len(record.probes)) == ("failed", 1)
    assert [(e.target, str(e.reason)) for e in record.standings_after if e.target == "small"] == [
        ("small", "context_window"),
        ("small", "capability"),
    ]
    assert [passed.target for passed in record.passed_over] == ["middle", "large"]


@pytest.mark.parametrize(
    ("refused", "needs", "restored"),
    [
        pytest.param(("image",), {"image"}, True, id="it did what it had refused"),
        pytest.param(("image",), set(), False, id="it was not asked for it"),
        pytest.param(("image", "tools"), {"image"}, False, id="it was asked for a part of it"),
        pytest.param(("other",), set(), True, id="it was not known what it had refused"),
    ],
)
def test_serving_contradicts_a_refused_feature_only_if_the_turn_needs_it(
    refused: tuple[str, ...], needs: set[str], restored: bool
) -> None:
    capability = evicted(SMALL, Reason.CAPABILITY, 1.0, *refused)
    turn = Turn(LADDER, context=all_evicted(capability), needs=frozenset(needs))
    play(turn, None)
    assert turn.restored == ((capability,) if restored else ())
    assert (capability in turn.context.evictions) is not restored


def test_a_target_that_was_never_out_restores_nothing() -> None:
    turn = Turn(LADDER)
    play(turn, None)
    assert turn.restored == ()


# -- when it is worth reading the standings again


def test_standings_are_worth_reading_as_long_as_a_target_was_not_asked() -> None:
    turn = Turn((SMALL, LARGE))
    asked = []
    for _ in range(2):
        turn.probed(DOWN)
        turn.act()
        asked.append(turn.may_go_on)
        turn.advance()
    assert asked == [True, False]


def test_a_last_resort_goes_on_to_nothing() -> None:
    turn = Turn(LADDER, context=all_evicted(evicted(SMALL, Reason.CONTEXT_WINDOW)))
    turn.probed(WINDOW)
    turn.act()
    assert not turn.may_go_on


# -- interruptions


@pytest.mark.parametrize(
    ("trigger", "why"), [("expired", "deadline"), ("cancelled", "cancelled"), ("broken", "broken")]
)
def test_an_interruption_ends_the_turn_without_a_verdict(trigger: str, why: str) -> None:
    turn = Turn(LADDER)
    turn.interrupt(trigger)
    record = turn.record()
    assert (record.state, record.ended_by, record.probes) == ("failed", trigger, ())
    assert [(left.target, left.why) for left in record.not_tried] == [
        ("small", why),
        ("middle", why),
        ("large", why),
    ]


def test_a_probe_in_flight_is_told_with_its_attempts() -> None:
    turn = Turn(LADDER)
    turn.interrupt("expired", (ATTEMPT,))
    record = turn.record()
    (probe,) = record.probes
    assert (probe.target, probe.attempts, probe.verdict, probe.answered) == ("small", (ATTEMPT,), None, False)
    assert [left.target for left in record.not_tried] == ["middle", "large"]


def test_an_answer_that_came_too_late_serves_nobody() -> None:
    turn = Turn(LADDER)
    turn.probed(None, (ATTEMPT,))
    turn.interrupt("cancelled")
    assert turn.state == "failed"
    assert turn.record().served_by is None


def test_an_eviction_outlives_the_interruption_that_follows_it() -> None:
    turn = Turn(LADDER)
    turn.probed(CAPABILITY)
    turn.act()
    turn.interrupt("expired")
    assert [e.target for e in turn.record().standings_after] == ["small"]


# -- what cannot be asked of a turn


def test_what_has_not_ended_has_no_record() -> None:
    with pytest.raises(StepRefused, match="'now' has not ended: it is probing"):
        Turn(LADDER, id="now").record()


def test_what_has_ended_probes_nothing() -> None:
    turn = Turn(LADDER, id="now")
    play(turn, None)
    with pytest.raises(StepRefused, match="'now' probes nothing: it is served"):
        _ = turn.target


def test_nothing_is_acted_on_before_it_was_probed() -> None:
    turn = Turn(LADDER)
    with pytest.raises(StepRefused):
        turn.act()
    with pytest.raises(StepRefused):
        turn.advance()
    assert (turn.state, turn.steps) == ("probing", ())


@pytest.mark.parametrize("trigger", ["expired", "cancelled", "broken"])
def test_an_ended_turn_stays_as_it_ended(trigger: str) -> None:
    turn = Turn(LADDER)
    play(turn, None)
    with pytest.raises(StepRefused):
        turn.interrupt(trigger, (ATTEMPT,))
    assert (turn.state, len(turn.record().probes)) == ("served", 1)


# -- the record


def test_a_record_is_one_line_that_is_read_back_as_it_was() -> None:
    turn = Turn(LADDER, id="now", needs=frozenset({"tools", "image"}), size=12)
    play(turn, WINDOW, DOWN, None)
    record = turn.record(
        route="chat",
        caller=Caller(session="s"),
        started=1.5,
        took=0.25,
        request="r",
        usage={"total_tokens": 3},
    )
    line = encode(record)
    assert b"\n" not in line
    assert decode(line) == record
    assert (record.needs, record.size, record.route) == (("image", "tools"), 12, "chat")


def test_a_turn_without_a_caller_has_no_memory() -> None:
    turn = Turn(LADDER)
    play(turn, None)
    assert not turn.record().caller.remembered


def test_a_final_turn_leaves_no_standings() -> None:
    turn = Turn(LADDER)
    play(turn, CAPABILITY, None)
    assert turn.record(caller=Caller(session="s", final=True)).standings_after == ()


def test_only_an_interruption_interrupts() -> None:
    turn = Turn(LADDER)
    turn.probed(None)
    with pytest.raises(StepRefused, match="'answered' interrupts nothing"):
        turn.interrupt("answered")  # type: ignore[arg-type]
    assert turn.state == "classified"


def test_a_refused_step_changes_nothing() -> None:
    turn = Turn(LADDER)
    other = Turn(LADDER, id="other")
    other.probed(CAPABILITY)
    other.act()
    with pytest.raises(StepRefused, match="cannot go on to another target: it is probing"):
        turn.advance(other.context)
    assert turn.context == EMPTY
    turn.probed(None)
    turn.act()
    with pytest.raises(StepRefused):
        turn.advance(other.context)
    assert turn.record().rereads == ()


def evicted_everywhere(*names: str) -> SessionContext:
    """A context in which an earlier turn was refused by each of these targets."""
    earlier = Turn([target for target in LADDER if target.name in names], id="earlier")
    for place, _ in enumerate(names):
        earlier.probed(WINDOW, at=float(place))
        earlier.act()
        if not earlier.ended:
            earlier.advance()
    return earlier.context


def test_a_target_that_was_restored_meanwhile_is_probed() -> None:
    second = LADDER[1].name
    turn = Turn(LADDER[:2], context=evicted_everywhere(second), id="now")
    turn.probed(DOWN)
    turn.act()
    turn.advance(EMPTY)
    assert (turn.state, turn.target.name) == ("probing", second)


def test_after_a_last_resort_no_second_target_is_probed_whatever_is_read_again() -> None:
    turn = Turn(LADDER[:2], context=evicted_everywhere(LADDER[0].name, LADDER[1].name), id="now")
    turn.probed(WINDOW, at=9.0)
    turn.act()
    turn.advance(EMPTY)
    assert turn.state == "failed"


def test_the_first_cause_holds_what_the_verdict_said() -> None:
    said = verdict(Kind.CAPABILITY, "image", "tools")
    turn = Turn(LADDER, id="now")
    turn.probed(said, at=5.0)
    turn.act()
    assert turn.eviction is not None
    first = turn.eviction.first
    assert (first.turn, first.at, first.kind, first.features) == ("now", 5.0, said.kind, said.features)
    assert (first.evidence, first.status, first.code, first.message) == (
        said.evidence,
        said.status,
        said.code,
        said.message,
    )


def test_a_last_resort_that_is_interrupted_is_told_as_one() -> None:
    turn = Turn(LADDER[:1], context=evicted_everywhere(LADDER[0].name), id="now")
    turn.interrupt("expired", (AttemptRecord(1.0),))
    assert turn.record().probes[0].last_resort
