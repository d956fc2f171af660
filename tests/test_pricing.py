"""What did it cost? A target's price, the tokens that were reported, and what explain makes of them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from click.testing import CliRunner
from house import BODY, House
from hypothesis import given
from hypothesis import strategies as st

from turnout import AuditRecord, ConfigurationError, JsonLines, Price, Router, Target, TurnFailed
from turnout.engine.account import account
from turnout.engine.account_words import lines
from turnout.engine.audit import decode, encode
from turnout.engine.cli import main
from turnout.engine.pricing import MOST_TOKENS, cost, from_cache, shown, uncached
from turnout.engine.replay import play_again, replay, turn_of
from turnout.engine.targets import Format
from turnout.engine.testing import Hang, Scripted, ok, refusal

CHEAP = Price(input=0.15, output=0.6)
CACHED = Price(input=2.5, output=10, cached_input=1.25)
WRITTEN = Price(input=3, output=15, cached_input=0.3, cache_write=3.75)
MILLION = 1_000_000

UPSTREAM = "http://upstream.example"


# -- a price


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"input": -1}, "input is -1; give money per million tokens, 0 to 1000000000"),
        ({"input": math.nan}, "input is nan; give money"),
        ({"output": math.inf}, "output is inf; give money"),
        ({"output": True}, "output is True; give money"),
        ({"output": "10"}, "output is '10'; give money"),
        ({"output": None}, "output is missing; give money"),
        ({"cached_input": 2 * 10**9}, r"cached_input is 2000000000; give money"),
        ({"cache_write": 10**5000}, "cache_write is too large; give money"),
        ({"cache_write": "sk-abcdefghijklmnop"}, "cache_write is a value; give money"),
        ({"input": -1, "output": -2}, "input is -1; .*; output is -2; "),
    ],
)
def test_a_price_that_cannot_be_one_is_refused(values: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^price: {complaint}"):
        Price(**{"input": 1.0, "output": 1.0, **values})


def test_a_target_takes_a_price_and_nothing_else_for_one() -> None:
    with pytest.raises(ConfigurationError, match=r"^target 'a': price is of type dict; give Price\("):
        Target("a", price={"input": 1, "output": 1})  # type: ignore[arg-type]


def test_a_price_changes_nothing_of_what_is_known_of_a_target() -> None:
    plain, priced = Target("a", base_url=UPSTREAM), Target("a", base_url=UPSTREAM, price=CHEAP)
    assert priced.fingerprint == plain.fingerprint
    assert priced.configuration == plain.configuration
    assert priced.limits == plain.limits


# -- what an answer costs


@pytest.mark.parametrize(
    ("format", "price", "usage", "by_hand"),
    [
        # 1,000,000 * 0.15 + 1,000,000 * 0.6, each for a million
        ("openai_chat", CHEAP, {"prompt_tokens": MILLION, "completion_tokens": MILLION}, 0.75),
        ("openai_chat", CHEAP, {"prompt_tokens": 1200, "completion_tokens": 400}, 0.00042),
        # OpenAI counts cached tokens into the prompt: 200 * 2.5 + 800 * 1.25 + 100 * 10
        (
            "openai_chat",
            CACHED,
            {"prompt_tokens": 1000, "cached_tokens": 800, "completion_tokens": 100, "total_tokens": 1100},
            0.0025,
        ),
        # without a price of their own they cost what others do
        (
            "openai_chat",
            CHEAP,
            {"prompt_tokens": 1200, "cached_tokens": 800, "completion_tokens": 400},
            0.00042,
        ),
        # reasoning is in the output already
        (
            "openai_responses",
            CACHED,
            {"input_tokens": 1000, "cached_tokens": 800, "output_tokens": 100, "reasoning_tokens": 90},
            0.0025,
        ),
        # Anthropic counts them apart: 200 * 3 + 800 * 0.3 + 400 * 3.75 + 100 * 15
        (
            "anthropic_messages",
            WRITTEN,
            {
                "input_tokens": 200,
                "cache_read_input_tokens": 800,
                "cache_creation_input_tokens": 400,
                "output_tokens": 100,
            },
            0.00384,
        ),
        # 200 * 2.5 + 800 * 1.25 + 400 * 2.5 + 100 * 10: nothing said of writing
        (
            "anthropic_messages",
            CACHED,
            {
                "input_tokens": 200,
                "cache_read_input_tokens": 800,
                "cache_creation_input_tokens": 400,
                "output_tokens": 100,
            },
            0.0035,
        ),
        ("anthropic_messages", WRITTEN, {"input_tokens": 200, "output_tokens": 100}, 0.0021),
        ("openai_chat", CHEAP, {"prompt_tokens": 0, "completion_tokens": 0}, 0.0),
        ("openai_chat", Price(input=0, output=0), {"prompt_tokens": 9, "completion_tokens": 9}, 0.0),
    ],
)
def test_each_format_is_counted_as_it_counts(
    format: str, price: Price, usage: dict[str, int], by_hand: float
) -> None:
    assert cost(usage, price, format) == pytest.approx(by_hand, rel=1e-12, abs=0)


@pytest.mark.parametrize(
    ("usage", "why"),
    [
        (None, "nothing was reported"),
        ({}, "nothing was reported"),
        ({"prompt_tokens": 5}, "the output is missing"),
        ({"completion_tokens": 5}, "the request is missing"),
        ({"input_tokens": 5, "output_tokens": 5}, "of another format"),
        ({"prompt_tokens": 5, "completion_tokens": 5, "cached_tokens": 6}, "a part larger than the whole"),
        ({"prompt_tokens": 5, "completion_tokens": 5, "cached_tokens": -6}, "less than none"),
    ],
)
def test_of_tokens_that_are_not_known_no_cost_is_told(usage: dict[str, int] | None, why: str) -> None:
    assert cost(usage, CHEAP, "openai_chat") is None, why


def test_without_a_price_or_of_an_unknown_format_there_is_no_cost() -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 5}
    assert cost(usage, None, "openai_chat") is None
    assert cost(usage, CHEAP, "telegraph") is None
    assert from_cache(usage, "telegraph") == 0


NUMBERS = st.integers() | st.floats() | st.sampled_from([10**400, -(10**400), math.nan, MOST_TOKENS])
STRANGE = st.recursive(
    NUMBERS | st.none() | st.booleans() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=5,
)
NAMES = (
    *("prompt_tokens", "completion_tokens", "cached_tokens", "input_tokens", "output_tokens"),
    *("cache_read_input_tokens", "cache_creation_input_tokens", "total_tokens", ""),
)
MONEY = st.floats(0, 1e9)
PRICES = st.builds(
    Price,
    input=MONEY,
    output=MONEY,
    cached_input=st.none() | MONEY,
    cache_write=st.none() | MONEY,
)


@given(
    st.dictionaries(st.sampled_from(NAMES), STRANGE | st.integers(0, MOST_TOKENS)),
    PRICES,
    st.sampled_from(get_args(Format)),
)
def test_whatever_was_reported_a_cost_is_a_number_or_unknown(
    usage: dict[str, Any], price: Price, format: str
) -> None:
    found = cost(usage, price, format)
    assert found is None or (0 <= found < math.inf)
    assert 0 <= from_cache(usage, format) <= MOST_TOKENS


@given(st.integers(0, MOST_TOKENS), st.integers(0, MOST_TOKENS), st.integers(0, MOST_TOKENS), PRICES)
def test_the_same_tokens_cost_the_same_in_every_format(
    fresh: int, cached: int, output: int, price: Price
) -> None:
    whole = min(fresh + cached, MOST_TOKENS)
    fresh = whole - (cached := min(cached, whole))
    told: dict[str, dict[str, int]] = {
        "openai_chat": {"prompt_tokens": whole, "cached_tokens": cached, "completion_tokens": output},
        "openai_responses": {"input_tokens": whole, "cached_tokens": cached, "output_tokens": output},
        "anthropic_messages": {
            "input_tokens": fresh,
            "cache_read_input_tokens": cached,
            "output_tokens": output,
        },
    }
    assert told.keys() == set(get_args(Format)), "each wire format has its costs"
    assert len({cost(usage, price, name) for name, usage in told.items()}) == 1


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (0.00042, "0.00042"),
        (4.2e-7, "0.00000042"),
        (1.23456e-9, "0.00000000123"),
        (0.1 + 0.2, "0.3"),
        (0.9999999, "1"),
        (12.3456789, "12.345679"),
        (100.0, "100"),
        (1234567.89, "1234567.89"),
        (4e15, "4000000000000000"),
    ],
)
def test_a_cost_is_shown_with_digits_that_tell_it_and_no_exponent(amount: float, text: str) -> None:
    assert shown(amount) == text


@given(st.floats(0, 1e16))
def test_whatever_it_is_it_is_shown_as_a_number(amount: float) -> None:
    text = shown(amount)
    assert set(text) <= set("0123456789.")
    assert float(text) == pytest.approx(amount, rel=1e-2, abs=0)


# -- the record


def played(
    ladder: list[Target],
    script: Mapping[str, list[Scripted]],
    *pins: str,
    body: Any = BODY,
    **arguments: Any,
) -> list[AuditRecord]:
    """The records of a session, a turn for each pin."""
    house = House(dict(script), ladder=ladder, **arguments)

    async def story(router: Router) -> None:
        for pin in pins:
            try:
                await router.turn(body, session="s1", pin=pin)
            except TurnFailed:
                await house.clock.sleep(1)

    house.play(story)
    return house.records


def told(records: list[AuditRecord]) -> list[str]:
    """Every line of a session."""
    return [line.strip() for turn in account("s1", records).turns for line in lines(turn)]


def target(name: str, price: Price | None = None, **more: Any) -> Target:
    return Target(name, base_url=UPSTREAM, **{"max_retries": 0, **more}, price=price)


def used(prompt: int, output: int, cached: int = 0) -> Scripted:
    details = {"prompt_tokens_details": {"cached_tokens": cached}}
    return ok(usage={"prompt_tokens": prompt, "completion_tokens": output, **details})


def test_a_record_keeps_the_price_of_its_time() -> None:
    (record,) = played([target("a", CACHED), target("b")], {"a": [used(1000, 100, 800)]}, "a")
    line = encode(record)
    priced, plain = json.loads(line)["ladder"]
    assert priced["price"] == {"input": 2.5, "output": 10, "cached_input": 1.25}
    assert "price" not in plain
    assert decode(line) == record
    assert decode(line).ladder[0].price == CACHED
    assert "cost 0.0025" in told([decode(line)])


def test_a_turn_with_prices_is_played_again_like_any_other() -> None:
    (record,) = played([target("a", CACHED), target("b", CHEAP)], {"a": [refusal("unavailable")]}, "a")
    read = decode(encode(record))
    assert replay(read) is None
    again = turn_of(read)
    play_again(read, again)
    assert again.record().ladder == record.ladder


@pytest.mark.parametrize(
    "price",
    [
        *({"input": -1, "output": 1}, {"input": 1}, {"input": "1", "output": 1}, {"input": 1, "output": 2e9}),
        *({"input": 10**400, "output": 1}, {"input": True, "output": 1}, 5),
    ],
    ids=str,
)
def test_a_line_whose_price_cannot_be_one_is_no_record_and_breaks_nothing(
    price: object, tmp_path: Path
) -> None:
    (record,) = played([target("a", CACHED)], {}, "a")
    broken = json.loads(encode(record))
    broken["ladder"][0]["price"] = price
    with pytest.raises(msgspec.DecodeError):
        decode(json.dumps(broken))
    (tmp_path / "records.jsonl").write_text(json.dumps(broken) + "\n" + encode(record).decode() + "\n")
    shown = CliRunner().invoke(main, ["explain", "s1", "--records", str(tmp_path)])
    assert shown.exit_code == 2
    assert "records.jsonl:1: is no record: " in shown.stderr
    assert "turn 1  by a" in shown.stdout


# -- explain


def test_each_wire_format_is_priced_by_what_its_upstream_reports() -> None:
    reported: dict[str, dict[str, Any]] = {
        "openai_chat": {
            "prompt_tokens": 1000,
            "completion_tokens": 100,
            "prompt_tokens_details": {"cached_tokens": 800},
        },
        "openai_responses": {
            "input_tokens": 1000,
            "output_tokens": 100,
            "input_tokens_details": {"cached_tokens": 800},
        },
        "anthropic_messages": {"input_tokens": 200, "output_tokens": 100, "cache_read_input_tokens": 800},
    }
    for name, usage in reported.items():
        body = {"input": "Hi"} if name == "openai_responses" else {**BODY, "max_tokens": 10}
        records = played(
            [target("a", CACHED, format=name)],
            {"a": [ok(usage=usage)]},
            "a",
            body=body,
        )
        assert "cost 0.0025" in told(records), name


def test_a_served_turn_without_usable_counts_is_of_unknown_cost() -> None:
    records = played(
        [target("a", CHEAP), target("free")],
        {"a": [ok(), used(10, 5, cached=11), used(1200, 400), refusal("caller_error")], "free": [ok()]},
        *("a", "a", "a", "a", "free"),
    )
    turns = account("s1", records).turns
    assert [(turn.cost, turn.cost_unknown) for turn in turns] == [
        (None, True),
        (None, True),
        (pytest.approx(0.00042), False),
        (None, False),  # it failed
        (None, False),  # no price was declared
    ]
    unknown = "cost unknown: the tokens were not reported, or not so that they can be believed"
    assert [line for line in told(records) if line.startswith("cost")] == [unknown, unknown, "cost 0.00042"]
    assert account("s1", records).spent == "cost 0.00042 and 2 turns of unknown cost"


@pytest.mark.parametrize(
    ("costs", "spent"),
    [([], ""), ([1200], "cost 0.00042"), ([0], "1 turn of unknown cost"), ([1200, 1200], "cost 0.00084")],
)
def test_what_a_session_cost_is_what_is_known_of_it(costs: list[int], spent: str) -> None:
    answers = [used(tokens, 400) if tokens else ok() for tokens in costs]
    records = played([target("a", CHEAP)], {"a": answers}, *["a"] * len(costs))
    assert account("s1", records).spent == spent


def test_a_lost_cache_costs_what_the_new_target_charges_more() -> None:
    ladder = [target("warm"), target("cold", CACHED), target("plain", CHEAP), target("dear")]
    for now, words in (
        ("cold", "; 800 cached tokens are lost, which costs about 0.001 more"),  # 800 * (2.5 - 1.25)
        ("plain", "; 800 cached tokens are lost"),  # that has no price of a cache
        ("dear", "; 800 cached tokens are lost"),  # that has none at all
    ):
        records = played(ladder, {"warm": [used(900, 10, 800)], now: [used(950, 10)]}, "warm", now)
        assert f"switched from warm to {now}{words}" in told(records)


def test_what_comes_from_the_new_targets_own_cache_is_not_lost() -> None:
    ladder = [target("warm"), target("known", CACHED)]
    for cached, words in (
        (600, "; 200 cached tokens are lost, which costs about 0.00025 more"),
        (900, ""),
    ):
        script = {"warm": [used(900, 10, 800)], "known": [used(950, 10, cached)]}
        assert f"switched from warm to known{words}" in told(played(ladder, script, "warm", "known"))


def test_a_cache_that_is_dearer_than_none_loses_no_money() -> None:
    assert uncached(1000, Price(input=1, output=1, cached_input=2)) == 0


def test_attempts_that_may_be_billed_are_told_with_whoever_was_asked() -> None:
    ladder = [target("slow", max_retries=1, retry_timeouts=True, timeout_secs=5), target("b", CHEAP)]
    (record,) = played(ladder, {"slow": [Hang()], "b": [used(1200, 400)]}, "slow")
    assert [attempt.possibly_billed for attempt in record.probes[0].attempts] == [True, True]
    (line,) = [line for line in told([record]) if line.startswith("slow: ")]
    assert ", 2 attempts may be billed all the same, skipped: " in line
    assert "cost 0.00042" in told([record]), "and are in no sum"
    (record,) = played([target("slow", timeout_secs=5)], {"slow": [Hang()]}, "slow")
    assert "asked, an attempt may be billed all the same, skipped: " in "\n".join(told([record]))
    (record,) = played([target("a")], {"a": [refusal("unavailable")]}, "a")
    assert "billed" not in "\n".join(told([record])), "it has said that it did not serve"


HOSTILE: tuple[object, ...] = (
    *(10**400, -1, 1.5, True, "many", [1], {"a": {"b": 1}}, None, {}, [], ""),
    *("\x1b[2J", 10**12 + 1),
)


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: str(value)[:12])
@pytest.mark.parametrize("format", get_args(Format))
def test_no_usage_in_a_record_breaks_what_is_told_of_it(
    format: Format, value: object, tmp_path: Path
) -> None:
    body = {"input": "Hi"} if format == "openai_responses" else {**BODY, "max_tokens": 10}
    ladder = [target("a", WRITTEN, format=format), target("b", WRITTEN, format=format)]
    records = [json.loads(encode(record)) for record in played(ladder, {}, "a", "b", "a", body=body)]
    for record in records:
        record["usage"] = dict.fromkeys(NAMES, value)
    path = tmp_path / "records.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    for command in (["explain", "s1"], ["sessions"]):
        for form in ([], ["--json"]):
            shown = CliRunner().invoke(main, [*command, *form, "--records", str(path)])
            assert shown.exception is None or isinstance(shown.exception, SystemExit), command
            assert shown.exit_code == 0, shown.output
            assert "\x1b" not in shown.output
            assert "-0." not in shown.output
    told_in_words = CliRunner().invoke(main, ["explain", "s1", "--records", str(path)]).output
    assert told_in_words.splitlines()[0].endswith("; 3 turns of unknown cost")


def test_numbers_that_no_json_can_say_break_nothing_either() -> None:
    records = played([target("a", CHEAP), target("b", CHEAP)], {}, "a", "b")
    for value in (math.nan, math.inf, -math.inf):
        strange = [msgspec.structs.replace(r, usage=dict.fromkeys(NAMES, value)) for r in records]
        assert account("s1", strange).spent == "2 turns of unknown cost"


def test_records_of_before_there_were_prices_are_told_without_a_cost() -> None:
    kept = (Path(__file__).parent / "records" / "schema_1.jsonl").read_bytes()
    old = [decode(line) for line in kept.splitlines()]
    assert all(rung.price is None for record in old for rung in record.ladder)
    for session in {record.caller.session for record in old}:
        of_it = account(session, [record for record in old if record.caller.session == session])
        assert of_it.spent == ""
        assert not any("cost" in line for turn in of_it.turns for line in lines(turn))


# -- sessions


def test_sessions_are_listed_with_what_is_known_of_their_cost(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    house = House(
        {"a": [used(1200, 400), ok(), used(1200, 400), ok()], "b": [ok()]},
        ladder=[target("a", CHEAP), target("b")],
        on_record=JsonLines(path),
    )

    async def story(router: Router) -> None:
        for session, pin in (("s1", "a"), ("s1", "a"), ("s1", "a"), ("unknown", "a"), ("free", "b")):
            await router.turn(BODY, session=session, pin=pin)

    house.play(story)
    shown = CliRunner().invoke(main, ["sessions", "--records", str(path)]).output
    by_name = {line.split()[0]: line for line in shown.splitlines()}
    assert "; served by a; cost 0.00084 and 1 turn of unknown cost; last " in by_name["s1"]
    assert "; 1 turn of unknown cost; last " in by_name["unknown"]
    assert "cost" not in by_name["free"]
    in_json = CliRunner().invoke(main, ["sessions", "--json", "--records", str(path)]).output
    listed = map(json.loads, in_json.splitlines())
    found = {one["session"]: (one["cost"], one["cost_unknown"]) for one in listed}
    assert found == {"s1": (pytest.approx(0.00084), 1), "unknown": (None, 1), "free": (None, 0)}
