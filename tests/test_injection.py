"""What a client adds to a request and the target refuses: taken out once, remembered, told."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from house import BODY, LADDER, House

from turnout import (
    AuditRecord,
    ErrorRule,
    InjectionRefused,
    InMemory,
    Router,
    SqliteMemory,
    Target,
    TurnFailed,
)
from turnout.engine.audit import decode, encode
from turnout.engine.testing import Hang, Reset, Scripted, events, in_json, ok, refusal

KEY = "reasoning_effort"
ADDED = {KEY: "low"}
MISUSE = {"error": {"message": f"Unknown parameter: '{KEY}'.", "param": KEY, "code": "unknown_parameter"}}
UNKNOWN = in_json(400, MISUSE)
DOWN = refusal("unavailable")
BEGUN = {"choices": [{"index": 0, "delta": {"content": "Good"}}]}


def injecting(extra_body: Mapping[str, Any] = ADDED, **client: Any) -> tuple[Target, ...]:
    """A target that gets keys from us, without retries unless told otherwise, and one that gets none."""
    base: dict[str, Any] = {"base_url": "http://upstream.example", "max_retries": 0}
    return (Target("a", **{**base, "extra_body": extra_body, **client}), LADDER[1])


def an_injecting_house(*script: Scripted, memory: Any = None, **client: Any) -> House:
    return House({"a": [*script]}, ladder=injecting(**client), memory=memory)


def sent(house: House, key: str = KEY) -> list[Any]:
    """What each request had for the key."""
    return [msgspec.json.decode(request.content).get(key) for request in house.transport.requests]


def told(record: AuditRecord) -> list[tuple[str, ...]]:
    """What the record says was stripped from each attempt at the first target."""
    return [attempt.stripped for attempt in record.probes[0].attempts]


def failure(house: House, **arguments: Any) -> TurnFailed:
    with pytest.raises(TurnFailed) as failed:
        house.turn(**arguments)
    return failed.value


async def read(router: Router, **arguments: Any) -> AuditRecord:
    """A streaming turn, read to its end."""
    async with router.stream(BODY, **arguments) as stream:
        async for _ in stream:
            pass
    assert stream.record is not None
    return stream.record


# -- once, and never again


def test_a_refused_key_costs_two_attempts_in_one_turn_and_none_later_whoever_asks() -> None:
    house = an_injecting_house(UNKNOWN, ok())

    async def story(router: Router) -> None:
        for session, agent in (("s1", None), ("s1", None), ("s1", "helper"), ("s2", None), (None, None)):
            await router.turn(BODY, session=session, agent=agent)

    house.play(story)
    assert sent(house) == ["low", None, None, None, None, None]
    assert house.asked == [["a"]] * 5
    first, *later = house.records
    assert told(first) == [(), (KEY,)]
    assert [told(record) for record in later] == [[(KEY,)]] * 4
    assert [decode(encode(record)) for record in house.records] == house.records


def test_another_router_on_the_same_file_knows_it(tmp_path: Path) -> None:
    path = tmp_path / "evictions.db"
    before = an_injecting_house(UNKNOWN, ok(), memory=SqliteMemory(path))
    before.turn()
    after = an_injecting_house(memory=SqliteMemory(path))
    after.turn(session="another")
    assert (sent(before), sent(after)) == (["low", None], [None])


@pytest.mark.parametrize(
    "refused",
    [
        UNKNOWN,
        in_json(200, MISUSE),
        events([MISUSE]),
        events([{"comment": ""}, {"event": "error", "data": MISUSE}]),
    ],
    ids=["a status", "an error in a 200", "an event", "an event named error"],
)
def test_it_is_the_same_in_a_stream_before_its_first_content(refused: Scripted) -> None:
    house = an_injecting_house(refused, ok())

    async def story(router: Router) -> None:
        for _ in range(2):
            await read(router, session="s1")

    house.play(story)
    assert sent(house) == ["low", None, None]
    assert [told(record) for record in house.records] == [[(), (KEY,)], [(KEY,)]]


def test_what_a_stream_was_told_a_turn_knows() -> None:
    house = an_injecting_house(UNKNOWN, ok())

    async def story(router: Router) -> None:
        await read(router)
        await router.turn(BODY)

    house.play(story)
    assert sent(house) == ["low", None, None]


def test_after_its_first_content_nothing_is_asked_again() -> None:
    house = an_injecting_house(events([BEGUN, MISUSE]))

    async def story(router: Router) -> None:
        with pytest.raises(TurnFailed):
            await read(router)

    house.play(story)
    assert sent(house) == ["low"]


REFUSALS: dict[str, tuple[Scripted, dict[str, Any]]] = {
    "openai_chat": (UNKNOWN, {"messages": BODY["messages"]}),
    "openai_responses": (UNKNOWN, {"input": "Good morning"}),
    "anthropic_messages": (
        in_json(
            400,
            {
                "type": "error",
                "error": {
                    "type": "invalid_request_error",
                    "message": f"{KEY}: Extra inputs are not permitted",
                },
            },
        ),
        {"messages": BODY["messages"], "max_tokens": 9},
    ),
}


@pytest.mark.parametrize("format", REFUSALS)
def test_it_is_the_same_in_every_format(format: Any) -> None:
    refused, body = REFUSALS[format]
    house = House({"a": [refused, ok()]}, ladder=injecting(format=format)[:1])

    async def story(router: Router) -> None:
        for _ in range(2):
            await router.turn(body)

    house.play(story)
    assert sent(house) == ["low", None, None]


@pytest.mark.parametrize(
    "script",
    [[DOWN, UNKNOWN, ok()], [UNKNOWN, DOWN, ok()], [UNKNOWN, Reset(), ok()]],
    ids=["before", "after", "after a reset"],
)
def test_a_correction_spends_no_retry_and_an_outage_beside_it_does(script: list[Scripted]) -> None:
    house = an_injecting_house(*script, max_retries=1)
    reply = house.turn()
    assert reply.served_by == "a"
    assert len(sent(house)) == 3
    corrected = script.index(UNKNOWN)
    assert sent(house) == ["low"] * (corrected + 1) + [None] * (2 - corrected)
    waits = [attempt.waited for attempt in reply.record.probes[0].attempts]
    assert waits == ([0, 0.25, 0] if corrected else [0, 0, 0.25])
    house.turn()
    assert sent(house)[3:] == [None]


# -- only what is ours, only where it is refused


@pytest.mark.parametrize("policy", ["strip_once", "report", "off"])
def test_a_key_of_the_callers_own_is_not_ours_to_correct(policy: str) -> None:
    ours = an_injecting_house(UNKNOWN, on_parameter_reject=policy)
    plain = an_injecting_house(UNKNOWN, extra_body={})
    failures = []
    for house in (ours, plain):
        with pytest.raises(TurnFailed) as failed:
            house.play(lambda router: router.turn({**BODY, KEY: "high"}))
        failures.append(failed.value)
    assert sent(ours) == ["high"]
    assert told(failures[0].record) == [()]
    assert [type(failed.error) for failed in failures] == [type(failures[1].error)] * 2
    assert len({(str(failed.error), failed.surface) for failed in failures}) == 1


def test_exactly_our_keys_are_taken_out_and_those_of_the_caller_stay() -> None:
    house = an_injecting_house(UNKNOWN, ok(), extra_body={**ADDED, "verbosity": "low", "seed": 1})
    reply = house.play(lambda router: router.turn({**BODY, "seed": 7, "top_p": 0.5}))
    assert told(reply.record) == [(), (KEY, "verbosity")]
    assert [sent(house, key) for key in (KEY, "verbosity")] == [["low", None]] * 2
    assert [sent(house, key) for key in ("seed", "top_p")] == [[7, 7], [0.5, 0.5]]


def test_a_key_that_the_caller_gave_then_and_omits_now_is_still_ours_to_add() -> None:
    seed = in_json(400, {"error": {"message": "Unknown parameter: 'seed'.", "param": "seed"}})
    house = an_injecting_house(UNKNOWN, ok(), seed, ok(), extra_body={**ADDED, "seed": 1})

    async def story(router: Router) -> None:
        await router.turn({**BODY, "seed": 7})
        for _ in range(2):
            await router.turn(BODY)

    house.play(story)
    assert sent(house) == ["low"] + [None] * 4
    assert sent(house, "seed") == [7, 7, 1, None, None]
    assert [told(record) for record in house.records] == [
        [(), (KEY,)],
        [(KEY,), (KEY, "seed")],
        [(KEY, "seed")],
    ]


def test_a_refusal_that_names_another_key_passes_unchanged() -> None:
    house = an_injecting_house(refusal("parameter_reject"))
    failed = failure(house)
    assert sent(house) == ["low"]
    assert not isinstance(failed.error, InjectionRefused)
    assert failed.surface.status == 400


def test_a_refusal_that_names_no_key_is_taken_for_ours() -> None:
    rule = ErrorRule(kind="parameter_reject", contains="no such setting")
    nameless = in_json(400, {"error": {"message": "There is no such setting."}})
    house = an_injecting_house(nameless, ok(), errors=(rule,))
    assert house.turn().served_by == "a"
    assert sent(house) == ["low", None]


def test_what_one_target_refuses_another_is_given() -> None:
    (a, _) = injecting()
    b = Target("b", base_url="http://upstream.example", extra_body=ADDED)
    house = House({"a": [UNKNOWN, ok(), DOWN]}, ladder=(a, b))
    house.turn()
    house.turn()
    assert house.asked == [["a"], ["a", "b"]]
    assert sent(house) == ["low", None, None, "low"]


@pytest.mark.parametrize(
    "answer",
    [
        in_json(429, {"error": {"message": f"Rate limit reached for requests with {KEY}."}}),
        *(in_json(status, {"error": {"message": f"{KEY} is of no use"}}) for status in (500, 502, 503, 529)),
        Reset(),
    ],
    ids=["429", "500", "502", "503", "529", "reset"],
)
def test_an_outage_strips_nothing(answer: Scripted) -> None:
    house = an_injecting_house(answer, ok(), max_retries=1)
    assert told(house.turn().record) == [(), ()]
    assert sent(house) == ["low", "low"]


# -- where it does not help


def test_a_persistent_refusal_surfaces_after_the_second_attempt() -> None:
    still = in_json(400, {"error": {"message": "Unknown parameter: 'n'.", "param": "n"}})
    house = an_injecting_house(UNKNOWN, still, max_retries=2)
    failed = failure(house)
    assert sent(house) == ["low", None]
    assert "Unknown parameter: 'n'" in str(failed.error)
    assert not isinstance(failed.error, InjectionRefused)
    assert failed.surface == (400, "upstream_error", "upstream_error")
    assert told(failed.record) == [(), (KEY,)]
    assert {left.target: str(left.why) for left in failed.record.not_tried} == {"b": "surfaced"}


@pytest.mark.parametrize(
    "then",
    [UNKNOWN, DOWN, refusal("capability", "image"), refusal("auth"), Reset(), Hang()],
    ids=["refused again", "down", "unable", "unauthorised", "reset", "silent"],
)
def test_nothing_is_remembered_unless_the_corrected_request_was_answered(then: Scripted) -> None:
    house = an_injecting_house(UNKNOWN, then, ok(), timeout_secs=5)

    async def story(router: Router) -> None:
        for session in ("s1", "s2"):
            try:
                await router.turn(BODY, session=session)
            except TurnFailed:
                assert session == "s1"

    house.play(story)
    asked = zip(sent(house, "model"), sent(house), strict=True)
    assert [key for model, key in asked if model == "a"] == ["low", None, "low"]


def test_a_correction_has_helped_as_soon_as_the_answer_has_begun() -> None:
    house = an_injecting_house(UNKNOWN, events([BEGUN], end="hang"), ok())

    async def story(router: Router) -> None:
        async with router.stream(BODY, session="s1") as stream:
            async for event in stream:
                if event.content:
                    break
        await asyncio.sleep(1)  # the books of a turn that was left are kept behind it
        await router.turn(BODY, session="s2")

    house.play(story)
    assert house.records[0].state == "failed"
    assert sent(house) == ["low", None, None], "the caller who stopped reading has learnt it for the next"


def test_a_code_that_names_no_parameter_blames_what_was_injected() -> None:
    unnamed = in_json(400, {"error": {"code": "unsupported_parameter", "message": "Bad request."}})
    house = an_injecting_house(unnamed, ok())
    assert told(house.turn().record) == [(), (KEY,)]


# -- the other policies


def test_under_report_the_configuration_is_blamed_and_the_keys_are_named_every_time() -> None:
    house = an_injecting_house(UNKNOWN, on_parameter_reject="report", max_retries=2)
    for _ in range(2):
        failed = failure(house)
        assert isinstance(failed.error, InjectionRefused)
        assert failed.error.keys == {KEY}
        assert KEY in str(failed)
        assert failed.surface == (502, "upstream_error", "upstream_configuration_error")
        assert told(failed.record) == [()]
    assert sent(house) == ["low", "low"]


def test_under_off_the_error_passes_unchanged() -> None:
    house, plain = (
        an_injecting_house(UNKNOWN, on_parameter_reject=policy) for policy in ("off", "strip_once")
    )
    failed, persistent = failure(house), failure(plain)
    assert sent(house) == ["low"]
    assert (str(failed.error), failed.surface) == (str(persistent.error), persistent.surface)


# -- until it may have changed


QUERY = {"api-version": "2024-02-01"}


@pytest.mark.parametrize(
    "changed",
    [
        {"extra_body": {KEY: "high"}},
        {"extra_body": {**ADDED, "seed": 1}},
        {"model": "a-2026"},
        {"base_url": "http://elsewhere.example"},
        {"format": "openai_responses"},
        {"on_parameter_reject": "report"},
        {"extra_query": {"api-version": "2026-01-01"}},
        {"extra_headers": {"x-beta": "effort"}},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_a_changed_client_is_asked_with_the_keys_again_and_the_former_one_is_not(
    changed: dict[str, Any],
) -> None:
    memory = InMemory()
    an_injecting_house(UNKNOWN, ok(), memory=memory, extra_query=QUERY).turn()
    given = changed.get("extra_body", ADDED)[KEY]
    for client, expected in ((changed, given), ({}, None)):
        ladder = injecting(**{"extra_query": QUERY, **client})[:1]
        house = House(ladder=ladder, memory=memory)
        house.turn()
        assert sent(house) == [expected]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"max_retries": 0}, {"max_retries": 2, "timeout_secs": 5}),
        ({"api_key": lambda: "former-credential"}, {"api_key": lambda: "rotated-credential"}),
        ({"extra_query": {"api-key": "former-1"}}, {"extra_query": {"api-key": "rotated-2"}}),
        ({"extra_headers": {"x-api-key": "former-1"}}, {"extra_headers": {"x-api-key": "rotated-2"}}),
    ],
    ids=["retries and bounds", "key", "key in the query", "key in a header"],
)
def test_what_says_nothing_of_the_request_changes_nothing(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    memory = InMemory()
    an_injecting_house(UNKNOWN, ok(), memory=memory, **before).turn()
    house = House(ladder=injecting(**after), memory=memory)
    house.turn()
    assert sent(house) == [None]


def test_a_refused_key_is_tried_again_when_its_time_to_live_has_passed_since_it_was_refused() -> None:
    house = an_injecting_house(UNKNOWN, ok(), ok(), UNKNOWN, ok(), memory=InMemory(ttl_secs=100))

    async def story(router: Router) -> None:
        for secs in (0, 60, 60, 60):
            await house.clock.sleep(secs)
            await router.turn(BODY, session="s1")

    house.play(story)
    assert sent(house) == ["low", None, None, "low", None, None]
    assert [told(record) for record in house.records] == [[(), (KEY,)], [(KEY,)], [(), (KEY,)], [(KEY,)]]


def test_it_outlives_the_session_that_learnt_it() -> None:
    house = an_injecting_house(UNKNOWN, ok())

    async def story(router: Router) -> None:
        await router.turn(BODY, session="s1", final=True)
        await router.forget("s1")
        await router.restore(target="a")
        await router.turn(BODY, session="s1")

    house.play(story)
    assert sent(house) == ["low", None, None]


def test_a_memory_that_fails_costs_the_correction_and_nothing_more(tmp_path: Path) -> None:
    path = tmp_path / "evictions.db"
    path.write_bytes(b"no database" * 100)
    house = an_injecting_house(UNKNOWN, ok(), UNKNOWN, ok(), memory=SqliteMemory(path))
    for _ in range(2):
        assert house.turn().served_by == "a"
    assert sent(house) == ["low", None, "low", None]
    assert any("keep what was stripped" in note for note in house.records[0].notes)
