"""Whose memory a request counts for, from arguments or from the headers that agents send."""

import json

import pytest

from turnout.engine.context import Identity
from turnout.engine.identity import AGENT, CODEX, FINAL, REQUEST, SESSION, identify


def test_without_a_session_nothing_is_remembered_and_the_turn_is_still_somebodys() -> None:
    asking = identify({})
    assert asking.identity is None
    assert not asking.caller.remembered


def test_a_root_request_counts_for_the_session_alone() -> None:
    asking = identify({"x-turnout-session-id": "s1", "x-turnout-agent-id": "a1"})
    assert asking.identity == Identity("", "s1", "")


def test_an_agent_argument_makes_the_request_a_sub_agents() -> None:
    assert identify({}, session="s1", agent="a1").identity == Identity("", "s1", "a1")
    assert identify({}, session="s1", agent="a1", subagent=False).identity == Identity("", "s1", "")


def test_a_sub_agent_needs_both_ids() -> None:
    assert identify({}, session="s1", subagent=True).identity is None
    assert identify({}, agent="a1").identity is None
    assert identify({"x-turnout-is-subagent": "1", "x-session-id": "s1"}).identity is None


def test_empty_ids_are_absent_ids() -> None:
    headers = {"x-turnout-session-id": " ", "x-switchyard-session-id": "", "x-session-id": "s1"}
    assert identify(headers, session="", agent="").identity == Identity("", "s1", "")


def test_arguments_win_over_headers() -> None:
    headers = {"x-turnout-session-id": "h", "x-turnout-agent-id": "h", "x-turnout-request-id": "h"}
    asking = identify(headers, session="s1", agent="a1", request_id="r1")
    assert asking.identity == Identity("", "s1", "a1")
    assert asking.request_id == "r1"


def test_the_namespace_is_never_read_from_a_header() -> None:
    headers = {"x-turnout-namespace": "other", "namespace": "other", "x-session-id": "s1"}
    assert identify(headers, namespace="mine").identity == Identity("mine", "s1", "")


def _headers(names: tuple[str, ...]) -> dict[str, str]:
    plain = {name: name for name in names if "/" not in name}
    inner = {name.partition("/")[2]: name for name in names if "/" in name}
    return {**plain, CODEX: json.dumps(inner)} if inner else plain


@pytest.mark.parametrize("names", [SESSION, AGENT, REQUEST], ids=["session", "agent", "request"])
def test_of_all_the_headers_that_carry_an_id_the_first_wins(names: tuple[str, ...]) -> None:
    for place, expected in enumerate(names):
        headers = _headers(names[place:])
        if names is SESSION:
            assert identify(headers).caller.session == expected
        elif names is AGENT:
            assert identify(headers, session="s1", subagent=True).caller.agent == expected
        else:
            assert identify(headers).request_id == expected


@pytest.mark.parametrize(
    ("headers", "is_subagent"),
    [
        ({}, False),
        ({"x-turnout-agent-id": "a"}, False),
        ({"x-claude-code-agent-id": "a"}, True),
        ({"x-openai-subagent": "review"}, True),
        ({CODEX: '{"subagent_kind": "review"}'}, True),
        ({CODEX: '{"subagent_kind": ""}'}, False),
        ({"x-switchyard-is-subagent": "YES"}, True),
        ({"x-turnout-is-subagent": "off", "x-claude-code-agent-id": "a"}, False),
        ({"x-turnout-is-subagent": "0", "x-switchyard-is-subagent": "1"}, False),
        ({"x-turnout-is-subagent": "perhaps", "x-openai-subagent": "review"}, True),
    ],
    ids=str,
)
def test_what_makes_a_request_a_sub_agents(headers: dict[str, str], is_subagent: bool) -> None:
    assert identify(headers, session="s1").caller.subagent is is_subagent


@pytest.mark.parametrize("name", FINAL)
def test_a_header_can_say_that_a_request_is_the_last(name: str) -> None:
    assert identify({name: "true"}).caller.final
    assert not identify({name: "false"}).caller.final
    assert not identify({name: "maybe"}).caller.final
    assert identify({name: "false"}, final=True).caller.final


@pytest.mark.parametrize("metadata", ["{", "[]", '"s1"', '{"session_id": 7}', "null", ""])
def test_a_malformed_json_header_is_an_absent_one(metadata: str) -> None:
    headers = {CODEX: metadata, "session-id": "s1"}
    assert identify(headers).identity == Identity("", "s1", "")


@pytest.mark.parametrize(
    "metadata", ["[" * 100_000, '{"session_id": "\udcff"}'], ids=["deep", "half a character"]
)
def test_a_hostile_json_header_is_an_absent_one(metadata: str) -> None:
    assert identify({CODEX: metadata, "session-id": "s1"}).identity == Identity("", "s1", "")


def test_an_id_with_halves_of_characters_is_named_by_its_digest_so_that_every_file_can_keep_it() -> None:
    asking = identify({}, session="s\udcff", agent="\ud800", request_id="\udc00", namespace="\ud801")
    assert asking.identity is not None
    assert all(len(name) == len("sha256:") + 64 for name in (*asking.identity, asking.request_id))
    escaped = identify({}, session=r"s\udcff", agent=r"\ud800", namespace=r"\ud801")
    assert escaped.identity == Identity(r"\ud801", r"s\udcff", r"\ud800")
    assert identify({}, session="größe").caller.session == "größe"
