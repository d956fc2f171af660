"""Targets, clients and routes: what they accept, what names them, what they never tell."""

import math
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import pytest

from turnout import ConfigurationError, InMemory, Route, Router, Target
from turnout.engine.targets import MAX_SECS, Client, safe_url, unusable_bounds, usable

BASE = "https://upstream.example/v1"


@pytest.mark.parametrize("name", ["a", "vendor/model-1.5:free", "A_b", "x" * 64])
def test_a_name_of_the_usual_characters_is_taken(name: str) -> None:
    assert Target(name).model_id == name


@pytest.mark.parametrize("name", ["", "two words", "x" * 65, "é", "a\n", 'a"b'])
def test_any_other_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="1 to 64 of the characters"):
        Target(name)


@pytest.mark.parametrize("retries", [-1, 11])
def test_retries_are_0_to_10(retries: int) -> None:
    with pytest.raises(ConfigurationError, match="give 0 to 10"):
        Target("a", max_retries=retries)


def test_the_callers_credential_and_ours_do_not_go_together() -> None:
    with pytest.raises(ConfigurationError, match="keep one"):
        Target("a", forward_auth=True, api_key_env="A_KEY")
    with pytest.raises(ConfigurationError, match="keep one"):
        Target("a", forward_auth=True, api_key=lambda: "x" * 8)


def test_a_fingerprint_names_format_address_and_model_and_nothing_else() -> None:
    target = Target("a", model="m", base_url=BASE)
    assert Target("b", model="m", base_url=BASE, max_retries=0).fingerprint == target.fingerprint
    assert Target("a", model="m2", base_url=BASE).fingerprint != target.fingerprint
    assert Target("a", model="m", base_url=BASE + "2").fingerprint != target.fingerprint


def test_a_repr_tells_no_credential() -> None:
    target = Target(
        "a",
        base_url=f"{BASE}?key=url-credential",
        extra_headers={"x-token": "header-credential"},
        extra_query={"key": "query-credential"},
        extra_body={"token": "body-credential"},
        api_key=lambda: "callable-credential",
    )
    assert repr(target) == f"Target('a', model='a', base_url='{BASE}')"


@pytest.mark.parametrize(
    ("url", "safe"),
    [
        ("https://me:secret@h.example:8/p/q?key=1#f", "https://h.example:8/p/q"),
        ("http://[::1]:80/v1", "http://[::1]:80/v1"),
        ("https://[not-an-address]/v1", "https://[not-an-address]/v1"),
        ("https://a@b@c/p@q", "https://c/p@q"),
        ("h.example/v1?k", "h.example/v1"),
        ("", ""),
    ],
)
def test_a_url_is_told_without_what_may_hold_a_credential(url: str, safe: str) -> None:
    assert safe_url(url) == safe


@pytest.mark.parametrize("bound", [0, -1, float("nan"), float("inf"), MAX_SECS * 2])
def test_a_bound_that_cannot_be_used_is_none(bound: float) -> None:
    assert usable(bound) is None
    assert [key for key, _ in unusable_bounds(Target("a", timeout_secs=bound))] == ["timeout_secs"]


def test_a_bound_that_can_be_used_is_itself() -> None:
    assert usable(MAX_SECS) == MAX_SECS
    assert usable(None) is None
    assert list(unusable_bounds(Target("a", timeout_secs=None))) == []


def test_a_route_has_a_ladder() -> None:
    with pytest.raises(ConfigurationError, match="its ladder is empty"):
        Route(id="chat", ladder=())


def test_a_ladder_is_of_one_wire_format() -> None:
    other = Target("b", format="openai_responses")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="mixes the wire formats openai_chat, openai_responses"):
        Route(id="chat", ladder=(Target("a"), other))


@pytest.mark.parametrize(
    "url", ["nonsense", "ftp://a.example", "http://", "http://a.example:99999", "http://[", "//a"]
)
def test_a_base_url_that_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="is no address"):
        Target("a", base_url=url)


@pytest.mark.parametrize("value", ["two\nlines", "mü", "\x00"])
def test_an_extra_header_that_cannot_be_sent_is_refused_and_not_told(value: str) -> None:
    with pytest.raises(ConfigurationError, match="x-tag: no header can carry that") as refused:
        Target("a", extra_headers={"x-tag": f"secret{value}"})
    assert "secret" not in str(refused.value)


def test_an_answer_has_room_for_a_byte() -> None:
    with pytest.raises(ConfigurationError, match="max_body_bytes is 0; give 1 or more"):
        Target("a", max_body_bytes=0)


@pytest.mark.parametrize(
    "url",
    ["https://h/v1\n", " https://h/v1", "https://h\t/v1", "https://ho st/v1", "https://h/v1#x", "http://h:0"],
)
def test_a_base_url_with_blanks_a_fragment_or_no_port_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="is no address"):
        Target("a", base_url=url)


@pytest.mark.parametrize(
    "url", ["https://☃.example", "https://exa\u00admple.com", "https://256.256.256.256", "https://xn--/v1"]
)
def test_an_address_that_cannot_be_reached_is_refused_when_the_router_is_made(url: str) -> None:
    with pytest.raises(ConfigurationError, match="is no address"):
        Router(ladder=[Target("a", base_url=url)], memory=InMemory())


@pytest.mark.parametrize(
    "url",
    [
        "http://[::1]:8080/v1",
        "https://bücher.example/v1",
        "https://my_service:8000",
        "HTTPS://A.example.",
        "https://x.openai.azure.com/openai/deployments/d?api-version=2024-02-01",
    ],
)
def test_every_address_that_can_be_asked_is_taken(url: str) -> None:
    Router(ladder=[Target("a", base_url=url)], memory=InMemory())


def test_a_credential_that_is_too_short_to_be_kept_out_of_messages_is_refused() -> None:
    for keys in ({"extra_query": {"key": "short"}}, {"extra_headers": {"x-api-key": "short"}}):
        with pytest.raises(ConfigurationError, match="less than 8 characters") as refused:
            Target("a", **keys)  # type: ignore[arg-type]
        assert "short" not in str(refused.value)


def test_a_client_alone_tells_no_address_either() -> None:
    assert "secret" not in repr(Client(base_url="https://h.example/v1?key=secret-credential"))


@pytest.mark.parametrize(
    ("keys", "what"),
    [
        ({"timeout_secs": "5"}, "timeout_secs is of type str; give a number"),
        ({"timeout_secs": True}, "timeout_secs is of type bool; give a number"),
        ({"max_retries": 2.0}, "max_retries is of type float; give a whole number"),
        ({"retry_timeouts": "no"}, "retry_timeouts is of type str; give True or False"),
        ({"base_url": None}, "base_url is of type NoneType; give a string"),
        ({"model": 5}, "model is of type int; give a string"),
        (
            {"format": "openai"},
            "format is 'openai'; give openai_chat or openai_responses or anthropic_messages",
        ),
        (
            {"on_parameter_reject": True},
            "on_parameter_reject is of type bool; give strip_once or report or off",
        ),
        ({"forward_headers": "x-a"}, "forward_headers is of type str; give a tuple of strings"),
        ({"forward_headers": ("x-a", 1)}, "forward_headers holds something else; give a tuple of strings"),
        ({"extra_headers": {"n": 1}}, "extra_headers holds something else; give a dict of strings"),
        ({"extra_body": []}, "extra_body is of type list; give a dict whose keys are strings"),
        ({"api_key": "sk-0123456789abcdef"}, "api_key takes a callable"),
        ({"api_key_env": "sk-0123456789abcdef"}, "api_key_env is no name of an environment variable"),
        ({"max_retries": 11, "max_body_bytes": 0}, "max_retries is 11.*\n.*max_body_bytes is 0"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_value_that_no_key_takes_is_refused_and_named_and_never_told(keys: Any, what: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^target 'small': {what}") as refused:
        Target("small", **keys)
    assert "0123456789" not in str(refused.value)


def test_a_name_is_a_string() -> None:
    odd: Any = 5
    with pytest.raises(ConfigurationError, match="target of type int: a name is 1 to 64"):
        Target(odd)


def test_what_fits_is_taken_in_whatever_shape() -> None:
    odd: Any = {
        "timeout_secs": 5,
        "forward_headers": ["x-a"],
        "extra_query": MappingProxyType({"a": "b"}),
        "extra_body": {"stop": None, "stream_options": {"include_usage": True}},
        "api_key": lambda: "x" * 8,
    }
    assert Target("small", **odd).timeout_secs == 5


@pytest.mark.parametrize(
    ("key", "value", "what"),
    [
        ("model", "m", "model is the target's model id"),
        ("stream", True, "stream is set by the kind of turn"),
        ("messages", [], "messages is the conversation"),
        ("input", "Hi", "input is the conversation"),
        ("temperature", math.nan, "temperature holds NaN or an infinity, which JSON cannot say"),
        ("options", {"a": [math.inf]}, r"options holds NaN or an infinity at options\.a\[0\]"),
        ("seed", object(), "seed is nothing that JSON can say"),
    ],
)
def test_no_client_adds_what_is_not_its_own_or_cannot_be_sent(key: str, value: object, what: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^target 'small': extra_body: {what}"):
        Target("small", extra_body={key: value})


@pytest.mark.parametrize(
    ("keys", "what"),
    [
        ({"id": 5}, "id is of type int; give a string"),
        ({"ladder": "small"}, "ladder is of type str; give a list of targets"),
        ({"ladder": ("small",)}, "ladder holds str; give targets only"),
        ({"policy": {"unavailable": "skip"}}, r"policy is of type dict; give Policy\("),
        ({"deadline_secs": "5"}, "deadline_secs is of type str; give a number"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_route_names_what_it_cannot_take(keys: Any, what: str) -> None:
    with pytest.raises(ConfigurationError, match=what):
        Route(**{"id": "r", "ladder": (Target("a"),), **keys})


@pytest.mark.parametrize(
    "keys",
    [
        {"extra_headers": {"content-length": "5"}},
        {"extra_headers": {"x y": "5"}},
        {"auth_header": "host"},
        {"auth_header": "cookie"},
    ],
    ids=str,
)
def test_a_header_that_is_not_ours_to_give_is_refused(keys: Any) -> None:
    with pytest.raises(ConfigurationError, match="_header"):
        Target("a", **keys)


class Seconds(float):
    """A number by another name."""


@pytest.mark.parametrize("bound", [Decimal("2.5"), Seconds(2.5)], ids=["Decimal", "a subclass"])
def test_a_bound_may_be_any_number_and_is_a_float_where_it_is_used(bound: Any) -> None:
    in_use = usable(Target("a", timeout_secs=bound).timeout_secs)
    assert in_use == 2.5
    assert isinstance(in_use, float)


def test_a_bound_that_no_float_can_hold_means_no_bound() -> None:
    assert usable(Target("a", timeout_secs=10**400).timeout_secs) is None
