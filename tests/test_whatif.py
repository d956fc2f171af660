"""Would the other policy have cost more? Recorded sessions played under it, held against live ones."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from house import BODY, House
from msgspec.structs import replace
from random_sessions import session
from syrupy.assertion import SnapshotAssertion
from two_policies import ANSWER, Upstreams

from turnout import (
    AuditRecord,
    Breaker,
    ClientError,
    InMemory,
    JsonLines,
    Options,
    Price,
    Router,
    Target,
    TurnFailed,
)
from turnout.engine.cli import main
from turnout.engine.clock import VirtualClock
from turnout.engine.errors import ConfigurationError
from turnout.engine.route import Route
from turnout.engine.testing import Hang, ok, refusal
from turnout.engine.whatif import Report, WhatIf
from turnout.engine.whatif import cases as whatif_cases
from turnout.engine.whatif.routing import ChangedPolicy, OtherRoutes, Rules

AS_IT_WAS = ChangedPolicy({})
FORGETFUL = ChangedPolicy({"capability": "skip"})
COMPARED = ("probes", "certain_rejections", "failed", "tokens_sent")
TOOLS = {**BODY, "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]}
IMAGE = {
    "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x/y"}}]}]
}


def asked(rules: Rules, records: Iterable[AuditRecord], **arguments: Any) -> Report:
    whatif = WhatIf(rules, **arguments)
    for record in records:
        whatif.take(record)
    return whatif.report()


def way(record: AuditRecord) -> tuple[Any, ...]:
    return [probe.target for probe in record.probes], record.served_by


def measured(recorded: list[AuditRecord], live: list[AuditRecord]) -> Mapping[str, float]:
    """Every figure of a live session, beside one that was recorded."""
    both = list(zip(recorded, live, strict=True))
    failed = [(one.state == "failed", other.state == "failed") for one, other in both]
    return {
        **{key: asked(AS_IT_WAS, live).recorded[key] for key in (*COMPARED, "seconds")},
        "elsewhere": sum(way(one) != way(other) for one, other in both),
        "newly_failed": failed.count((False, True)),
        "newly_served": failed.count((True, False)),
    }


# -- held against live sessions


@pytest.mark.parametrize("seed", range(40))
def test_the_rules_that_were_in_force_change_nothing(seed: int) -> None:
    whatif = WhatIf(AS_IT_WAS)
    assert [whatif.take(record) for record in session(seed)].count(None) > 2
    report = whatif.report()
    for key, value in report.recorded.items():
        assert report.assumed[key] == report.possible[key] == (value, value), key


@pytest.mark.parametrize("seed", range(10))
def test_a_capability_reject_that_is_skipped_pays_what_a_live_run_pays(seed: int) -> None:
    """The question that the whole of Turnout is about, answered from records alone."""
    upstreams = Upstreams(seed, steady=True, lasting=True)
    recorded, live = (upstreams.live(upstreams.routes(on=on)) for on in ({}, {"capability": "skip"}))
    evictions = sum(step.trigger == "capability" for record in recorded for step in record.steps)
    report, paid = asked(FORGETFUL, recorded), measured(recorded, live)
    for key, value in paid.items():
        assert report.assumed[key] == pytest.approx((value, value)), key
    assert (report.assumed["certain_rejections"][0] > 0) == (evictions > 0)
    back = asked(ChangedPolicy({"capability": "evict"}), live)
    for key in COMPARED:
        assert back.assumed[key] == (report.recorded[key], report.recorded[key]), key


def test_the_ten_seeds_have_something_to_pay() -> None:
    sessions = [Upstreams(seed, steady=True, lasting=True) for seed in range(10)]
    paid = [asked(FORGETFUL, s.live(s.routes())).assumed["certain_rejections"][0] for s in sessions]
    assert sum(one > 0 for one in paid) > 5
    assert len(set(paid)) > 3


@pytest.mark.parametrize("seed", range(100))
def test_what_a_live_run_comes_to_lies_in_the_range(seed: int) -> None:
    """Upstreams that change are within what is thought possible; those that stay as they are within what is
    assumed. Policies, ladders, options and declared windows change."""
    chance = random.Random(seed)
    steady, many = chance.random() < 0.5, chance.random() < 0.4
    upstreams = Upstreams(seed, steady=steady, many=many, turns=chance.choice([4, 8, 14]))
    policies = (
        *({}, {"capability": "skip"}, {"context_window": "skip"}, {"unavailable": "surface"}),
        {"capability": "skip", "model_not_found": "evict"},
    )
    before, after = chance.choice(policies), chance.choice(policies)
    options = some_options(chance)
    ladders = {route: some_ladder(chance, upstreams) for route in upstreams.route_ids}
    recorded = upstreams.live(upstreams.routes(ladders, on=before, options=options))
    if chance.random() < 0.5:
        rules: Rules = ChangedPolicy(after)
        live = upstreams.live(upstreams.routes(ladders, on=before | after, options=options))
    else:
        ladders = {route: some_ladder(chance, upstreams) for route in upstreams.route_ids}
        windows = {name: chance.choice([450, 700, 2000]) for name in "abcd" if chance.random() < 0.3}
        routes = upstreams.routes(ladders, on=after, options=some_options(chance), windows=windows)
        live, rules = upstreams.live(routes), OtherRoutes({route.id: route for route in routes})
    report, came_to = asked(rules, recorded), measured(recorded, live)
    for key, value in came_to.items():
        low, high = report.possible[key]
        assert low - 1e-6 <= value <= high + 1e-6, key
        low, high = report.assumed[key]
        assert low - 1e-6 <= value <= high + 1e-6 or not steady, key


def some_ladder(chance: random.Random, upstreams: Upstreams) -> list[str]:
    return chance.sample(upstreams.names, chance.randint(1, len(upstreams.names)))


def some_options(chance: random.Random) -> Options:
    return Options(
        capability_scope=chance.choice(["target", "feature"]),
        readmit_below=chance.choice([None, 0.8]),
        affinity=chance.choice([None, "home"]),
    )


# -- one thing at a time


def played(script: dict[str, list[Any]], bodies: list[Any], **arguments: Any) -> list[AuditRecord]:
    house = House(script, **arguments)

    async def story(router: Router) -> None:
        for body in bodies:
            with suppress(TurnFailed):
                await router.turn(body, session="s", size=100)

    house.play(story)
    return house.records


def test_a_target_that_nothing_is_known_of_may_do_anything() -> None:
    """An image was refused; what a turn without one would have met there, nobody knows."""
    records = played({"a": [refusal("capability", "image")], "b": [ok()] * 3}, [IMAGE, BODY, IMAGE])
    whatif = WhatIf(FORGETFUL)
    first, second, third = [whatif.take(record) for record in records]
    assert first is None
    assert second is not None
    assert {(w.asked, w.served_by, w.known) for w in second.would} == {
        (("a",), "a", ("unknown",)),
        (("a",), None, ("unknown",)),
        (("a", "b"), "b", ("unknown", "")),
    }
    assert third is not None
    assert (("a", "b"), "b", ("assumed", "")) in [(w.asked, w.served_by, w.known) for w in third.would]
    report = whatif.report()
    assert (report.assumed["certain_rejections"], report.assumed["newly_failed"]) == ((0, 1), (0, 1))
    assert report.assumed["seconds"][1] == float("inf")


def test_an_overflow_is_assumed_from_the_size_that_overflowed_and_not_below() -> None:
    records = played({"a": [refusal("context_window")], "b": [ok()] * 3}, [BODY] * 3)
    smaller = [*records[:2], replace(records[2], size=99)]
    rules = ChangedPolicy({"context_window": "skip"})
    assert asked(rules, records).assumed["certain_rejections"] == (2, 2)
    assert asked(rules, smaller).assumed["certain_rejections"] == (1, 2)


def test_a_declared_limit_saves_the_probes_that_showed_it() -> None:
    records = played({"a": [refusal("capability", "image")], "b": [ok()] * 2}, [IMAGE, IMAGE])
    at = {"base_url": "http://upstream.example"}
    ladder = [Target("a", input=(), **at), Target("b", **at)]
    report = asked(OtherRoutes({"default": Route(id="default", ladder=ladder)}), records)
    assert (report.recorded["probes"], report.assumed["probes"]) == (3, (2, 2))
    assert report.assumed["elsewhere"] == (1, 1)


def test_a_target_is_known_by_its_address_and_model_whatever_it_is_called() -> None:
    records = played({"a": [refusal("capability", "image")], "b": [ok()] * 2}, [IMAGE, IMAGE])
    at = {"base_url": "http://upstream.example"}
    renamed = Route(id="default", ladder=[Target("b", **at), Target("first", model="a", **at)])
    report = asked(OtherRoutes({"default": renamed}), records)
    assert report.assumed["probes"] == report.possible["probes"] == (2, 2)
    other = Route(id="default", ladder=[Target("a", model="another", **at), Target("b", **at)])
    assert asked(OtherRoutes({"default": other}), records).assumed["probes"] == (2, 4)


def test_else_it_is_known_by_its_name_and_model_and_what_is_in_no_record_is_told() -> None:
    """A client of one's own has no address; a file must have one."""
    records = played({"a": [refusal("capability", "image")], "b": [ok()] * 2}, [IMAGE, IMAGE])
    ladder = [Target(name, base_url="http://elsewhere.example") for name in "acb"]
    report = asked(OtherRoutes({"default": Route(id="default", ladder=ladder)}), records)
    assert report.remarks == (
        "known by name and model, at another address than in the records: a, b",
        "in no record, so that nothing is known of it: c",
    )
    assert report.assumed["probes"][0] == 3
    same = OtherRoutes({"default": Route(id="default", ladder=[ladder[0], ladder[2]])})
    assert asked(same, records).assumed["probes"] == (3, 3)


def test_a_target_without_a_price_costs_what_it_did() -> None:
    at = {"base_url": "http://upstream.example", "max_retries": 0}
    usage = {"prompt_tokens": 10, "completion_tokens": 0}
    priced = [Target("a", price=Price(input=1e6, output=0), **at)]
    records = played({"a": [ok(usage=usage)]}, [BODY], ladder=priced)
    report = asked(OtherRoutes({"default": Route(id="default", ladder=[Target("a", **at)])}), records)
    assert (report.recorded["cost"], report.assumed["cost"]) == (10, (10, 10))


def test_a_pin_or_a_route_that_is_gone_is_told_and_counts_for_nothing() -> None:
    house = House({"a": [ok()] * 2})
    house.turn(pin="a")
    house.turn()
    whatif = WhatIf(
        OtherRoutes(
            {"default": Route(id="default", ladder=[Target("b", base_url="http://upstream.example")])}
        )
    )
    with pytest.raises(ConfigurationError, match="pinned to a"):
        whatif.take(house.records[0])
    with pytest.raises(ConfigurationError, match="no route elsewhere"):
        whatif.take(replace(house.records[0], route="elsewhere"))
    assert whatif.take(house.records[1]) is not None
    report = whatif.report()
    assert (report.turns, report.sessions, report.recorded["probes"]) == (1, 1, 1)


def test_what_an_operator_restored_is_restored() -> None:
    house = House({"a": [refusal("capability", "image"), ok()], "b": [ok()]}, on={"capability": "evict"})

    async def story(router: Router) -> None:
        await router.turn(IMAGE, session="s")
        await router.restore("s", target="a")
        await router.turn(IMAGE, session="s")

    house.play(story)
    report = asked(ChangedPolicy({"unavailable": "surface"}), house.records)
    assert report.assumed["probes"] == (3, 3)
    assert report.assumed["elsewhere"] == (0, 0)


def test_a_final_request_ends_what_is_known_of_its_session() -> None:
    house = House({"a": [refusal("capability", "image")] * 2, "b": [ok()] * 2})
    for _ in range(2):
        house.play(lambda router: router.turn(IMAGE, session="s", final=True))
    report = asked(FORGETFUL, house.records)
    assert (report.sessions, report.assumed["certain_rejections"]) == (2, (0, 0))


def test_evictions_of_before_the_first_record_are_known() -> None:
    records = played({"a": [refusal("capability", "image")], "b": [ok()] * 3}, [IMAGE] * 3)
    assert asked(FORGETFUL, records[1:]).assumed["certain_rejections"] == (2, 2)


@pytest.mark.parametrize("leaves_at", [0.5, 1.5])
def test_a_caller_who_left_leaves_where_the_turn_goes_the_same_way(leaves_at: float) -> None:
    """Asked in another way, he may have left at any moment."""

    async def story(router: Router) -> None:
        await router.turn(IMAGE, session="s")
        with suppress(TurnFailed):
            await router.turn(IMAGE, session="s")

    house = House({"a": [refusal("capability", "image")], "b": [ok(), Hang()]}, deadline_secs=leaves_at)
    house.play(story)
    assert house.records[1].ended_by == "expired"
    assert asked(AS_IT_WAS, house.records).possible["elsewhere"] == (0, 0)
    report = asked(FORGETFUL, house.records)
    assert report.assumed["probes"] == (2, 4)
    assert report.assumed["failed"] == (0, 1)


def test_coolings_are_taken_as_they_were_recorded() -> None:
    breaker = Breaker(failures=1, cool_secs=60)
    at = {"base_url": "http://upstream.example", "max_retries": 0}
    ladder = [Target("a", breaker=breaker, **at), Target("b", **at)]
    records = played({"a": [refusal("unavailable")], "b": [ok()] * 2}, [BODY] * 2, ladder=ladder)
    assert asked(FORGETFUL, records).assumed["probes"] == (3, 3)
    without = Route(id="default", ladder=[Target("a", **at), Target("b", **at)])
    assert asked(OtherRoutes({"default": without}), records).assumed["probes"] == (3, 4)


def test_what_answers_cost_is_known_where_they_were_recorded() -> None:
    """Ten tokens of a cost 10 and of b 30 for a million."""
    usage = {"prompt_tokens": 10, "completion_tokens": 0}
    at = {"base_url": "http://upstream.example", "max_retries": 0}
    ladder = [
        Target("a", price=Price(input=1e6, output=0), **at),
        Target("b", price=Price(input=3e6, output=0), **at),
    ]
    script = {"a": [refusal("capability", "image"), ok(usage=usage)], "b": [ok(usage=usage)] * 2}
    records = played(script, [IMAGE, BODY], ladder=ladder)
    report = asked(ChangedPolicy({"unavailable": "surface"}), records)
    assert (report.recorded["cost"], report.assumed["cost"]) == (60, (60, 60))
    report = asked(FORGETFUL, records)
    assert report.assumed["cost"] == (30, float("inf"))
    dearer = [ladder[0], Target("b", price=Price(input=4e6, output=0), **at)]
    report = asked(OtherRoutes({"default": Route(id="default", ladder=dearer)}), records)
    assert (report.recorded["cost"], report.assumed["cost"]) == (60, (80, 80))


def test_turns_that_overlap_change_nothing_under_the_rules_that_were_in_force() -> None:
    """Both are refused; each merges what it has learnt with what the other has."""
    clock, records = VirtualClock(), list[AuditRecord]()

    async def call(target: Target, request: Any, /, *, timeout: float | None) -> Mapping[str, Any]:
        await clock.sleep(float(request["user"]))
        if target.name == "a":
            raise ClientError(kind="capability", status=400, message="no", features=("image",))
        return ANSWER

    async def story() -> None:
        async with Router(
            ladder=[Target("a"), Target("b")],
            memory=InMemory(),
            call=call,
            clock=clock,
            on_record=records.append,
        ) as router:
            await asyncio.gather(*(router.turn({**IMAGE, "user": secs}, session="s") for secs in ("1", "3")))
            await router.turn({**IMAGE, "user": "1"}, session="s")

    clock.run(story())
    assert [len(record.probes) for record in records] == [2, 2, 1]
    report = asked(AS_IT_WAS, records)
    assert report.possible["elsewhere"] == (0, 0)
    assert report.possible["probes"] == (5, 5)
    assert report.overlapping == 1
    skipped = [replace(record, policy={**record.policy, "capability": "skip"}) for record in records]
    assert asked(AS_IT_WAS, skipped).overlapping == 1


def test_a_window_that_is_declared_counts_the_output_that_was_asked_for() -> None:
    house = House({"a": [ok()]}, ladder=[Target("a", base_url="http://upstream.example")])
    house.play(lambda router: router.turn({**BODY, "max_tokens": 900}, session="s", size=200))
    at = {"base_url": "http://upstream.example"}
    ladder = [Target("a", context_window=1000, **at), Target("b", **at)]
    report = asked(OtherRoutes({"default": Route(id="default", ladder=ladder)}), house.records)
    assert report.assumed["elsewhere"] == (1, 1)


def test_another_model_under_the_same_name_refuses_for_itself() -> None:
    records = played({"a": [refusal("capability", "image")], "b": [ok()]}, [IMAGE])
    at = {"base_url": "http://upstream.example", "max_retries": 0}
    other = [Target("a", model="another", **at), Target("b", **at)]
    house = House({"another": [refusal("capability", "image")], "b": [ok()]}, ladder=other)
    house.play(lambda router: router.turn(IMAGE, session="s", size=100))
    assert asked(AS_IT_WAS, [*records, *house.records]).recorded["certain_rejections"] == 0


def test_a_cost_that_is_not_known_is_in_no_sum_and_counted() -> None:
    at = {"base_url": "http://upstream.example", "max_retries": 0}
    ladder = [Target("a", price=Price(input=1e6, output=0), **at)]
    answers = [ok(), ok(usage={"prompt_tokens": 10, "completion_tokens": 0})]
    report = asked(AS_IT_WAS, played({"a": answers}, [BODY] * 2, ladder=ladder))
    assert (report.recorded["cost"], report.possible["cost"], report.cost_unknown) == (10, (10, 10), 1)


def test_an_eviction_of_some_features_on_one_route_counts_on_another_for_those() -> None:
    """What one route tells apart all do, and a target may refuse any of the features that are used."""
    by_feature = Options(capability_scope="feature")
    uses = {**IMAGE, **TOOLS, "response_format": {"type": "json_object"}}
    needs = ({**IMAGE, **TOOLS}, uses)

    def routes(x: str, y: str) -> list[Route]:
        at = {"base_url": "http://upstream.example", "max_retries": 0}
        ladders = {"x": x, "y": y}
        return [
            Route(
                id=id_,
                ladder=[Target(name, **at) for name in names],
                options=by_feature if id_ == "x" else Options(),
            )
            for id_, names in ladders.items()
        ]

    def live(x: str, y: str) -> list[AuditRecord]:
        house = House({"a": [refusal("capability", "image"), ok(), ok(), ok()], "b": [ok()] * 9})
        del house.arguments["ladder"]
        house.arguments["routes"] = routes(x, y)

        async def story(router: Router) -> None:
            for route, body in (("x", needs[1]), ("y", BODY), ("x", BODY), ("x", needs[0])):
                with suppress(TurnFailed):
                    await router.turn(body, session="s", route=route)
                await house.clock.sleep(1)

        house.play(story)
        return house.records

    recorded, lived = live("b", "b"), live("ab", "b")
    report = asked(OtherRoutes({route.id: route for route in routes("ab", "b")}), recorded)
    for key, value in measured(recorded, lived).items():
        assert report.possible[key][0] <= value <= report.possible[key][1], key


# -- bounds


def test_of_too_many_sessions_the_one_heard_of_least_recently_is_closed_and_counts() -> None:
    records = []
    for name in ("s1", "s2", "s1", "s3", "s1"):
        house = House({"a": [refusal("capability", "image")], "b": [ok()]})
        house.play(lambda router, name=name: router.turn(IMAGE, session=name))
        records += house.records
    whole = asked(FORGETFUL, records)
    assert (whole.sessions, whole.closed_early) == (3, 0)
    agents = [replace(r, caller=replace(r.caller, session="s", agent=r.caller.session)) for r in records]
    assert (asked(FORGETFUL, agents).sessions, asked(FORGETFUL, agents).closed_early) == (1, 0)
    assert asked(FORGETFUL, agents, most_sessions=2).closed_early == 1
    few = asked(FORGETFUL, records, most_sessions=2)
    assert (few.sessions, few.closed_early) == (3, 1)
    one = asked(FORGETFUL, records, most_sessions=1)
    assert (one.sessions, one.closed_early) == (5, 4)
    assert whole.recorded["probes"] == few.recorded["probes"] == one.recorded["probes"]


def test_too_many_ways_make_the_range_wide_and_never_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    upstreams = Upstreams(5, steady=False)
    recorded, live = (upstreams.live(upstreams.routes(on=on)) for on in ({}, {"capability": "skip"}))
    exact = asked(FORGETFUL, recorded)
    monkeypatch.setattr("turnout.engine.whatif.MOST_WORLDS", 1)
    given_up = asked(FORGETFUL, recorded)
    assert given_up.too_many_ways == 1
    for key, value in measured(recorded, live).items():
        assert given_up.possible[key][0] <= exact.possible[key][0] <= value
        assert value <= exact.possible[key][1] <= given_up.possible[key][1]
    assert whatif_cases.MOST_WAYS > 10


def test_turns_that_come_too_late_are_counted() -> None:
    upstreams = Upstreams(1, steady=True)
    records = upstreams.live(upstreams.routes())
    assert asked(AS_IT_WAS, records).out_of_order == 0
    assert asked(AS_IT_WAS, [*records[1:], records[0]]).out_of_order == 1


# -- the command


def told(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["whatif", *map(str, arguments)])


@pytest.fixture
def records(tmp_path: Path) -> Path:
    write, names = JsonLines(tmp_path / "records.jsonl"), iter("123")
    for record in played({"a": [refusal("capability", "image")], "b": [ok()] * 3}, [IMAGE, BODY, IMAGE]):
        write(replace(record, turn=f"t{next(names)}"))
    return tmp_path / "records.jsonl"


def test_the_difference_is_told(records: Path, snapshot: SnapshotAssertion) -> None:
    shown = told(records, "--policy", "capability=skip", "--turns")
    assert shown.exit_code == 0, shown.output
    assert shown.output == snapshot
    lines = shown.output.splitlines()
    assert [line.split()[1] for line in lines if line.startswith("turn ")] == ["t2", "t3"]
    assert "would be a (assumed), b serves" in lines[1]
    (certain,) = [line for line in lines if line.startswith("certain rejections")]
    assert certain.split()[2:] == ["0", "0", "to", "1", "0", "to", "1"]


def test_in_json_each_turn_and_the_end_are_an_object_and_no_number_is_infinite(records: Path) -> None:
    shown = told(records, "--policy", "capability=skip", "--turns", "--json").stdout.splitlines()
    *turns, report = map(json.loads, shown)
    assert [turn["turn"] for turn in turns] == ["t2", "t3"]
    assert report["possible"]["seconds"][1] is None
    assert report["recorded"]["probes"] == 4


def test_another_deployment_is_tried(records: Path, tmp_path: Path) -> None:
    file = tmp_path / "new.toml"
    file.write_text(
        'schema_version = 1\n[llm_clients.c]\nformat = "openai_chat"\nbase_url = "http://upstream.example"\n'
        '[targets.a]\nllm_client = "c"\nid = "a"\ninput = []\n[targets.b]\nllm_client = "c"\nid = "b"\n'
        '[routes.r]\nid = "default"\nladder = ["a", "b"]\n'
    )
    shown = told(records, "--deployment", file, "--json")
    assert shown.exit_code == 0, shown.output
    assert json.loads(shown.stdout)["assumed"]["probes"][0] == 3
    file.write_text(file.read_text().replace('"default"', '"chat"'))
    shown = told(records, "--deployment", file)
    assert shown.exit_code == 2
    assert "3 turns left out: there is no route default" in shown.stderr
    assert "no turn was played" in shown.stderr
    file.write_text("[routes]\nx = 3\n")
    assert told(records, "--deployment", file).exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "give one of --policy"),
        (("--policy", "capability=skip", "--deployment", "x.toml"), "give one of --policy"),
        (("--policy", "capability"), "is no change; give one like capability=skip"),
        (("--policy", "capabilty=skip"), "did you mean capability"),
        (("--policy", "capability=ignore"), "give one of evict, skip, surface"),
        (("--policy", "unavailable=evict"), "give one of skip, surface"),
        (("--deployment", "nowhere.toml"), "nowhere.toml"),
        (("--policy", "capability=skip", "--policy", "capability=evict"), "changes capability twice"),
    ],
)
def test_what_cannot_be_asked_is_told(records: Path, arguments: tuple[str, ...], says: str) -> None:
    shown = told(records, *arguments)
    assert shown.exit_code == 2
    assert says in " ".join(shown.stderr.split())


def test_what_holds_no_record_is_told_and_left_out(records: Path) -> None:
    with records.open("a") as file:
        file.write("nonsense\n")
    shown = told(records, "--policy", "capability=skip")
    assert shown.exit_code == 2
    assert "records.jsonl:4: is no record" in shown.stderr
    assert "3 turns of 1 session" in shown.stdout


def test_a_forged_record_is_left_out_and_never_a_crash(records: Path) -> None:
    line = json.loads(records.read_text().splitlines()[0])
    forged = [
        {"ladder": []},
        {"policy": {"capability": "banish"}},
        {"options": {"mood": "bad"}},
        {"steps": []},
        {"size": 10**400},
        {"started": 1e308, "took": 1e308},
        {"probes": []},
        {"pin": "nobody"},
    ]
    with records.open("a") as file:
        file.writelines(json.dumps({**line, **change}) + "\n" for change in forged)
    for policy in ("capability=skip", "capability=surface"):
        shown = told(records, "--policy", policy)
        assert shown.exception is None or isinstance(shown.exception, SystemExit), shown.exception
        assert "3 turns" in shown.stdout or " turns of 1 session" in shown.stdout
