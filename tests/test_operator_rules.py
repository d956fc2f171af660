"""Rules of an operator: a server words its errors in its own way, and the deployment says what they mean."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnout import ConfigurationError, ErrorKind, ErrorRule, Feature, Target
from turnout.engine.classify import Reply, Verdict, classify
from turnout.engine.classify.operator import Condition, conditions, covers
from turnout.engine.classify.unwrap import findings

NO_PICTURES = {"error": {"message": "E-77: no  pictures\nhere", "code": "E-77", "type": "RefusedInput"}}
WRAPPED = {
    "error": {
        "message": "Provider returned error",
        "code": 502,
        "metadata": {"raw": json.dumps({"error": "no pictures here"})},
    }
}
LISTED = {"errors": [{"msg": "something else"}, {"msg": "no pictures here"}]}


def read(body: Any, *rules: ErrorRule, status: int = 400, headers: dict[str, str] | None = None) -> Verdict:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return classify(Reply(status=status, body=raw, headers=headers or {}), now=0, rules=rules)


def rule(kind: str = "capability", **given: Any) -> ErrorRule:
    return ErrorRule(kind=kind, name="mine", **given)


def holds(body: Any, came_with: int = 400, /, **given: Any) -> bool:
    return read(body, rule(**given), status=came_with).evidence.rule == "mine"


def test_a_rule_decides_what_nobody_recognised() -> None:
    assert read(NO_PICTURES).evidence.rule == "unrecognised"
    verdict = read(
        NO_PICTURES, rule(status=400, code="e77", contains="No pictures", features=("image", "file"))
    )
    assert verdict.kind is ErrorKind.CAPABILITY
    assert verdict.features == ("file", "image")
    assert verdict.evidence.rule == "mine"
    assert verdict.evidence.field == "error.message"
    assert verdict.evidence.matched == ("status: 400", "code: e77", "contains: No pictures")
    assert (verdict.status, verdict.code, verdict.message) == (400, "E-77", "E-77: no  pictures\nhere")


def test_a_rule_is_asked_before_every_rule_of_ours() -> None:
    limited = {"error": {"message": "Rate limit reached", "code": "rate_limit_exceeded"}}
    assert read(limited, status=429).kind is ErrorKind.UNAVAILABLE
    assert read(limited, rule("context_window", contains="rate"), status=429).kind is ErrorKind.CONTEXT_WINDOW


def test_the_first_rule_that_holds_decides() -> None:
    rules = (
        ErrorRule(kind="auth", status=401, name="first"),
        ErrorRule(kind="quota_or_billing", status=400, name="second"),
        ErrorRule(kind="caller_error", contains="pictures", name="third"),
    )
    verdict = read(NO_PICTURES, *rules)
    assert (verdict.kind, verdict.evidence.rule) == (ErrorKind.QUOTA_OR_BILLING, "second")


def test_where_no_rule_holds_the_reply_is_read_as_ever() -> None:
    assert read(NO_PICTURES, rule(status=422), rule(contains="movies"), rule(code="E-78")) == read(
        NO_PICTURES
    )


def test_all_that_a_rule_gives_has_to_hold() -> None:
    assert holds(NO_PICTURES, status=400, code="E-77", contains="pictures")
    assert not holds(NO_PICTURES, 422, status=400, code="E-77", contains="pictures")
    assert not holds(NO_PICTURES, status=400, code="E-78", contains="pictures")
    assert not holds(NO_PICTURES, status=400, code="E-77", contains="movies")


@pytest.mark.parametrize("kind", list(ErrorKind))
def test_whether_waiting_helps_follows_from_the_kind(kind: ErrorKind) -> None:
    verdict = read(NO_PICTURES, rule(kind, contains="no pictures"), headers={"retry-after": "7"})
    assert verdict.kind is kind
    assert verdict.retryable is (kind is ErrorKind.UNAVAILABLE)
    assert verdict.retry_after == 7


def test_waiting_never_helps_a_request_that_will_never_fit() -> None:
    said = {"message": "The request is too large for your lane"}
    assert not read(said, rule("unavailable", contains="lane")).retryable


def test_a_capability_that_names_no_feature_refused_something_else() -> None:
    assert read(NO_PICTURES, rule(code="E-77")).features == ("other",)
    assert read(NO_PICTURES, rule("caller_error", code="E-77")).features == ()


class TestStatus:
    def test_is_that_of_the_reply(self) -> None:
        assert read(b"", rule(status=418), status=418).evidence.field == "status"
        assert not holds(b"", 419, status=418)

    def test_or_the_innermost_that_the_body_states(self) -> None:
        body = {"error": {"message": "upstream said", "code": 502, "metadata": {"raw": '{"code": 422}'}}}
        assert read(body, rule(status=422), status=500).evidence.field == "error.metadata.raw.code"
        assert holds(body, 500, status=500)
        assert not holds(body, 500, status=502), "a proxy's own, neither sent nor innermost"

    def test_is_read_in_an_error_inside_a_200_too(self) -> None:
        body = {"error": {"message": "out of lanes", "code": 529}}
        assert holds(body, 200, status=200)
        assert holds(body, 200, status=529)


class TestCode:
    @pytest.mark.parametrize("code", ["E-77", "e77", "E_77", " E77."])
    def test_is_compared_without_case_and_punctuation(self, code: str) -> None:
        assert read(NO_PICTURES, rule(code=code)).evidence.field == "error.code"

    def test_is_a_type_or_a_reason_as_well(self) -> None:
        assert read(NO_PICTURES, rule(code="refused_input")).evidence.field == "error.type"
        assert holds({"error": {"status": "LANE_CLOSED"}}, code="LaneClosed")

    def test_is_never_a_part_of_one(self) -> None:
        assert not holds(NO_PICTURES, code="E-7")
        assert not holds(NO_PICTURES, code="Refused")

    def test_is_looked_for_at_its_field_where_that_is_given(self) -> None:
        body = {"code": "E-77", "error": {"code": "E-1"}}
        assert holds(body, code="E-77", field="code")
        assert not holds(body, code="E-77", field="error.code")
        assert holds(body, code="E-1", field="error.code")


class TestContains:
    @pytest.mark.parametrize("text", ["no pictures", "NO PICTURES", "no\n pictures   here", "E-77: no p"])
    def test_counts_neither_case_nor_how_much_white_space(self, text: str) -> None:
        assert holds(NO_PICTURES, contains=text)

    def test_is_looked_for_as_deep_as_proxies_wrap(self) -> None:
        assert read(WRAPPED, rule(contains="no pictures")).evidence.field == "error.metadata.raw.error"

    @pytest.mark.parametrize(
        ("body", "place"),
        [
            (b"no pictures here", "body"),
            (b'"no pictures here"', "body"),
            (b"<html><title>no pictures here</title></html>", "title"),
            ({"detail": "no pictures here"}, "detail"),
            ({"message": "no pictures here"}, "message"),
            ({"error": {"msg": "no pictures here"}}, "error.msg"),
            ({"choices": [{"error": {"message": "no pictures here"}}]}, "choices.error.message"),
            (LISTED, "errors[1].msg"),
        ],
    )
    def test_evidence_says_where_it_stood_and_the_rule_may_ask_for_that(self, body: Any, place: str) -> None:
        assert read(body, rule(contains="no pictures")).evidence.field == place
        assert holds(body, contains="no pictures", field=place)
        assert not holds(body, contains="no pictures", field="elsewhere")

    @pytest.mark.parametrize(
        "field", ["errors[1].msg", "errors.msg", "errors", "errors[1]"], ids=lambda field: field
    )
    def test_a_field_may_leave_out_places_in_lists_and_may_be_what_holds_it(self, field: str) -> None:
        assert holds(LISTED, contains="no pictures", field=field)

    @pytest.mark.parametrize("field", ["errors[0].msg", "error", "errors.m", "msg", "errors.msg.text"])
    def test_any_other_field_is_another(self, field: str) -> None:
        assert not holds(LISTED, contains="no pictures", field=field)

    def test_a_list_on_top_has_no_name_to_leave_out(self) -> None:
        assert holds([{"error": {"message": "no pictures"}}], contains="no pictures", field="error.message")

    def test_a_field_narrows_the_words_and_not_the_code_beside_them(self) -> None:
        assert holds(NO_PICTURES, code="E-77", contains="pictures", field="error.message")

    @pytest.mark.parametrize(
        "body",
        [
            {"error": {"message": "bad request: messages = [{'content': 'no pictures here'}]"}},
            {"error": {"message": "value error", "input": "no pictures here"}},
            {"error": {"message": "tool failed", "failed_generation": "no pictures here"}},
            {"error": {"message": "x"}, "prompt": "no pictures here"},
            b'{"error": {"message": "x", "input": "no pictures here',
        ],
        ids=["quoted in the message", "an input", "a generation", "a prompt", "cut JSON"],
    )
    def test_is_never_found_in_what_echoes_the_request(self, body: Any) -> None:
        assert not holds(body, contains="no pictures")

    def test_is_found_in_a_message_that_was_cut_off(self) -> None:
        assert holds(b'{"error": {"message": "no pictures here', contains="no pictures")

    def test_is_found_before_a_message_begins_to_quote_and_not_beyond(self) -> None:
        body = {"message": "No pictures! Received: {'content': 'my kittens'}"}
        assert holds(body, contains="no pictures")
        assert not holds(body, contains="kittens")


# -- mistakes

KINDS = (
    "context_window, capability, unavailable, quota_or_billing, auth, model_not_found, content_policy,"
    " parameter_reject, caller_error"
)

MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "kind-typo": ({"kind": "capabilty", "status": 400}, "kind: is 'capabilty'; did you mean capability?"),
    "kind-unknown": ({"kind": "zzz", "status": 400}, f"kind: is 'zzz'; choose from {KINDS}"),
    "kind-none": ({"kind": None, "status": 400}, f"kind: is 'None'; choose from {KINDS}"),
    "no-condition": (
        {"kind": "auth"},
        "holds for every reply; give at least one of status, code, contains",
    ),
    "status-low": ({"kind": "auth", "status": 99}, "status: is 99; give 100 to 599"),
    "status-high": ({"kind": "auth", "status": 600}, "status: is 600; give 100 to 599"),
    "status-word": ({"kind": "auth", "status": "400"}, "status: is '400'; give 100 to 599"),
    "status-bool": ({"kind": "auth", "status": True}, "status: is a value; give 100 to 599"),
    "code-empty": (
        {"kind": "auth", "code": ""},
        "code: holds no letter a to z and no digit; give the code as the upstream sends it",
    ),
    "code-punctuation": (
        {"kind": "auth", "code": "--"},
        "code: holds no letter a to z and no digit; give the code as the upstream sends it",
    ),
    "contains-blank": (
        {"kind": "auth", "contains": " \n"},
        "contains: is empty; give words of the upstream's message",
    ),
    "contains-bytes": (
        {"kind": "auth", "contains": b"no"},
        "contains: is no text; give words of the upstream's message",
    ),
    "field-empty": (
        {"kind": "auth", "contains": "x", "field": ""},
        "field: is empty; give a path as the evidence shows it, such as error.message",
    ),
    **{
        f"field-{name}": (
            {"kind": "auth", "contains": "x", "field": field},
            "field: is no path; give a path as the evidence shows it, such as error.message",
        )
        for name, field in {
            "dollar": "$.error.message",
            "pointer": "/error/message",
            "words": "the message",
            "dot-first": ".error",
            "dot-last": "error.",
            "dots": "error..message",
            "any-place": "errors[].msg",
            "newline": "error\n",
        }.items()
    },
    "field-alone": (
        {"kind": "auth", "status": 400, "field": "error.message"},
        "field: says where, but not what: give contains or code too",
    ),
    "feature-typo": (
        {"kind": "capability", "status": 400, "features": ("imge",)},
        "features: holds 'imge'; did you mean image?",
    ),
    "feature-text": (
        {"kind": "capability", "status": 400, "features": "image"},
        'features: is no list of features; give one like ["image"]',
    ),
    "features-elsewhere": (
        {"kind": "auth", "status": 401, "features": ("image",)},
        'features: goes with kind = "capability" only',
    ),
}


@pytest.mark.parametrize(("given", "what"), MISTAKES.values(), ids=MISTAKES)
def test_a_rule_that_cannot_be_is_refused_where_it_is_made(given: dict[str, Any], what: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        ErrorRule(**given)
    assert str(refused.value) == f"error rule: {what}"


def test_every_mistake_of_a_rule_is_told_at_once() -> None:
    with pytest.raises(ConfigurationError, match=r"^error rule: kind: .*; status: .*; contains: is empty"):
        ErrorRule(kind="nothing", status=0, contains="")


@pytest.mark.parametrize("status", [100, 599])
def test_the_bounds_of_a_status_are_within(status: int) -> None:
    assert ErrorRule(kind=ErrorKind.AUTH, status=status).status == status


def test_words_may_be_given_as_the_enums_have_them() -> None:
    by_name = ErrorRule(kind="capability", status=400, features=("image",))
    assert by_name == ErrorRule(kind=ErrorKind.CAPABILITY, status=400, features=(Feature.IMAGE,))


@pytest.mark.parametrize(
    "field",
    ["errors[0].msg", "[1].error", "[1]", "a[0][1]", "x-amzn-errortype", "errors.msg", "body", "error_msg"],
)
def test_a_path_is_any_that_evidence_may_show(field: str) -> None:
    assert rule(contains="x", field=field).field == field


# -- why a rule does not hold


def asked(body: Any, came_with: int = 400, /, **given: Any) -> dict[str, Condition]:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    found = findings(Reply(status=came_with, body=raw))
    return {condition.key: condition for condition in conditions(rule(**given), came_with, found)}


def test_each_condition_tells_where_it_holds() -> None:
    told = asked(NO_PICTURES, status=400, code="E-77", contains="pictures")
    assert {key: condition.place for key, condition in told.items()} == {
        "status": "status",
        "code": "error.code",
        "contains": "error.message",
    }


def test_one_that_does_not_hold_hides_no_other() -> None:
    told = asked(NO_PICTURES, 422, status=400, code="E-78", contains="no pictures")
    assert [condition.place for condition in told.values()] == [None, None, "error.message"]


def test_a_code_within_a_message_is_none_and_is_found_there() -> None:
    code = asked({"error": {"message": "E-77: no pictures"}}, code="e-77")["code"]
    assert (code.place, code.in_message, code.looked_at) == (None, "error.message", ())


def test_what_stands_outside_its_field_is_told_with_its_place() -> None:
    told = asked(NO_PICTURES, contains="no pictures", field="detail")["contains"]
    assert (told.place, told.elsewhere) == (None, "error.message")
    told = asked(NO_PICTURES, code="E-77", field="detail")["code"]
    assert (told.place, told.elsewhere, told.looked_at) == (None, "error.code", ("error.code", "error.type"))


# -- what a target has


def test_a_rule_is_named_by_its_target_and_place_unless_it_has_a_name() -> None:
    rules = (ErrorRule(kind="auth", status=401), ErrorRule(kind="auth", status=403, name="llm_clients.x"))
    assert [rule.name for rule in Target("y", errors=rules).rules] == ["targets.y.errors[0]", "llm_clients.x"]


@pytest.mark.parametrize(
    "errors", [ErrorRule(kind="auth", status=401), ({"kind": "auth"},), None], ids=["bare", "dict", "none"]
)
def test_what_is_no_list_of_rules_is_refused(errors: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"target 'a': errors .*give errors=\(ErrorRule\(…\),\)"):
        Target("a", errors=errors)


def test_a_target_is_the_same_one_however_its_errors_are_read() -> None:
    rules = (ErrorRule(kind="auth", status=401),)
    assert Target("a", errors=rules).fingerprint == Target("a").fingerprint


# -- rules that hide others

COVERED: dict[str, tuple[dict[str, Any], dict[str, Any], bool]] = {
    "same": ({"status": 400}, {"status": 400}, True),
    "other-status": ({"status": 400}, {"status": 401}, False),
    "narrower": ({"status": 400}, {"status": 400, "contains": "x"}, True),
    "wider": ({"status": 400, "contains": "x"}, {"status": 400}, False),
    "same-code": ({"code": "E-77"}, {"code": "e77", "status": 400}, True),
    "other-code": ({"code": "E-77"}, {"code": "E-78"}, False),
    "fewer-words": ({"contains": "no  Pictures"}, {"contains": "sorry, no pictures"}, True),
    "more-words": ({"contains": "sorry, no pictures"}, {"contains": "no pictures"}, False),
    "any-field": ({"contains": "x"}, {"contains": "x", "field": "error.message"}, True),
    "one-field": ({"contains": "x", "field": "error.message"}, {"contains": "x"}, False),
    "field-within": (
        {"contains": "x", "field": "errors"},
        {"contains": "x", "field": "errors[0].msg"},
        True,
    ),
    "other-field": (
        {"contains": "x", "field": "detail"},
        {"contains": "x", "field": "error"},
        False,
    ),
    "code-at-a-field": ({"code": "e", "field": "error.code"}, {"code": "e", "field": "error.code"}, True),
    "field-of-the-words": (
        {"code": "e", "field": "error"},
        {"code": "e", "contains": "x", "field": "error"},
        False,
    ),
    "code-anywhere": ({"code": "e"}, {"code": "e", "field": "error.code"}, True),
}


@pytest.mark.parametrize(("earlier", "later", "covered"), COVERED.values(), ids=COVERED)
def test_a_rule_covers_another_that_holds_only_where_it_does(
    earlier: dict[str, Any], later: dict[str, Any], covered: bool
) -> None:
    assert covers(rule(**earlier), rule(**later)) is covered


TEXTS = st.sampled_from(["no", "No pictures", "pictures", "E-77", "here"])
FIELDS = st.sampled_from([None, "error", "error.message", "error.code", "errors.msg", "errors[1].msg"])
BODIES = st.sampled_from([NO_PICTURES, WRAPPED, LISTED, {"error": "no pictures"}, b"no pictures"])


@st.composite
def rules(draw: st.DrawFn) -> ErrorRule:
    status = draw(st.none() | st.sampled_from([400, 502]))
    code = draw(st.none() | st.sampled_from(["e77", "E_77", "refusedinput"]))
    contains = draw(st.none() | TEXTS)
    if status is code is contains is None:
        status = 400
    field = draw(FIELDS) if code or contains else None
    return rule(status=status, code=code, contains=contains, field=field)


@given(rules(), rules(), BODIES, st.sampled_from([200, 400, 502]))
def test_a_covered_rule_is_never_the_first_to_hold(
    earlier: ErrorRule, later: ErrorRule, body: Any, status: int
) -> None:
    alone = read(body, earlier, status=status).evidence.rule == "mine"
    if covers(earlier, later) and read(body, later, status=status).evidence.rule == "mine":
        assert alone


@given(rules(), BODIES, st.sampled_from([200, 400, 502]))
def test_a_rule_holds_if_all_of_its_conditions_do(rule: ErrorRule, body: Any, status: int) -> None:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    told = conditions(rule, status, findings(Reply(status=status, body=raw)))
    if status != 200 or b"error" in raw:
        held = read(body, rule, status=status).evidence.rule == "mine"
        assert held is all(condition.place is not None for condition in told)
    assert not any(condition.elsewhere for condition in told if condition.place is not None)


@given(rules(), st.binary(max_size=200), st.integers(100, 999))
def test_with_rules_too_every_reply_has_a_verdict(rule: ErrorRule, body: bytes, status: int) -> None:
    assert read(body, rule, status=status).kind in ErrorKind
