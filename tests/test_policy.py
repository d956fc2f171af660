"""A route's policy: what each kind of error does, and what may be changed of it."""

import pytest

from turnout.engine.classify.verdict import Evidence, Verdict
from turnout.engine.errors import ConfigurationError
from turnout.engine.policy import ALLOWED, DEFAULT, DEFAULT_POLICY, Action, Policy, case_of, mistakes
from turnout.machines.vocabulary import ErrorKind as Kind
from turnout.machines.vocabulary import RoutingFallbackReason as Reason

CASES = {
    "context_window": (Kind.CONTEXT_WINDOW, 400, "told"),
    "capability": (Kind.CAPABILITY, 404, "told"),
    "unavailable": (Kind.UNAVAILABLE, 503, "told"),
    "quota_or_billing": (Kind.QUOTA_OR_BILLING, 402, "told"),
    "auth_403": (Kind.AUTH, 403, "told"),
    "auth": (Kind.AUTH, 401, "told"),
    "model_not_found": (Kind.MODEL_NOT_FOUND, 404, "told"),
    "content_policy": (Kind.CONTENT_POLICY, 400, "told"),
    "parameter_reject": (Kind.PARAMETER_REJECT, 400, "told"),
    "unrecognised": (Kind.CALLER_ERROR, 418, "unrecognised"),
    "caller_error": (Kind.CALLER_ERROR, 422, "told"),
}


def verdict(case: str) -> Verdict:
    kind, status, rule = CASES[case]
    return Verdict(kind=kind, evidence=Evidence(rule), status=status)


BY_DEFAULT = {
    "context_window": "context_window",
    "capability": "capability",
    "unavailable": "unavailable",
    "quota_or_billing": "unavailable",
    "auth_403": "unavailable",
    "auth": None,
    "model_not_found": None,
    "content_policy": None,
    "parameter_reject": None,
    "unrecognised": None,
    "caller_error": None,
}

CHANGEABLE = {
    "context_window": {"evict", "skip", "surface"},
    "capability": {"evict", "skip", "surface"},
    "model_not_found": {"evict", "skip", "surface"},
    "unavailable": {"skip", "surface"},
    "quota_or_billing": {"skip", "surface"},
    "auth": {"skip", "surface"},
    "content_policy": {"skip", "surface"},
    "parameter_reject": {"skip", "surface"},
    "unrecognised": {"skip", "surface"},
    "caller_error": {"surface"},
}


@pytest.mark.parametrize("case", CASES)
def test_every_kind_of_error_has_a_reason_or_none(case: str) -> None:
    assert case_of(verdict(case)) == case
    assert DEFAULT_POLICY.reason(verdict(case)) == BY_DEFAULT[case]


def test_the_table_covers_every_kind() -> None:
    assert set(CASES) == set(DEFAULT)
    assert {kind for kind, _, _ in CASES.values()} == set(Kind)


def test_what_may_be_changed() -> None:
    assert {key: set(map(str, actions)) for key, actions in ALLOWED.items()} == CHANGEABLE


@pytest.mark.parametrize(
    ("key", "value"), [(k, v) for k, values in CHANGEABLE.items() for v in sorted(values)]
)
def test_every_change_that_is_allowed_does_what_it_says(key: str, value: str) -> None:
    reason = Policy({key: value}).reason(verdict(key))
    if value == "surface":
        assert reason is None
    elif value == "skip":
        assert reason == "unavailable"
    else:
        assert reason == ("context_window" if key == "context_window" else "capability")


@pytest.mark.parametrize(
    ("key", "value"),
    [(k, v) for k, values in CHANGEABLE.items() for v in ("evict", "skip", "retry") if v not in values],
)
def test_a_change_that_is_not_allowed_is_refused_and_says_what_is(key: str, value: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Policy({key: value})
    assert f"on.{key}: is {value!r}; give one of" in str(refused.value)
    assert all(allowed in str(refused.value) for allowed in CHANGEABLE[key])


def test_a_key_that_is_no_kind_is_refused_and_names_those_that_are() -> None:
    with pytest.raises(ConfigurationError, match=r"on\.timeouts: is no kind .* context_window, capability"):
        Policy({"timeouts": "skip"})


def test_every_mistake_is_told_with_its_key() -> None:
    assert [key for key, _ in mistakes({"auth": "evict", "capability": "skip", "whatever": 3})] == [
        "auth",
        "whatever",
    ]


def test_auth_covers_its_403_as_well() -> None:
    for value, reason in (("skip", "unavailable"), ("surface", None)):
        policy = Policy({"auth": value})
        assert policy.reason(verdict("auth")) == policy.reason(verdict("auth_403")) == reason


def test_a_403_alone_is_not_a_key() -> None:
    with pytest.raises(ConfigurationError, match=r"on\.auth_403"):
        Policy({"auth_403": "surface"})


@pytest.mark.parametrize(
    ("on", "remembered"),
    [
        ({}, {"context_window", "capability"}),
        ({"capability": "skip"}, {"context_window"}),
        ({"context_window": "surface"}, {"capability"}),
        ({"capability": "skip", "model_not_found": "evict"}, {"context_window", "capability"}),
    ],
)
def test_a_policy_knows_what_it_evicts_for(on: dict[str, str], remembered: set[str]) -> None:
    assert Policy(on).remembered == remembered


def test_a_policy_is_rebuilt_from_its_own_table() -> None:
    policy = Policy({"capability": "skip", "auth": "skip"})
    again = Policy.of_table(policy.table)
    assert (again.table, again.remembered) == (policy.table, policy.remembered)


def test_a_policy_shows_what_is_changed() -> None:
    assert repr(Policy({"capability": "skip"})) == "Policy({'capability': 'skip'})"
    assert repr(DEFAULT_POLICY) == "Policy({})"
    assert DEFAULT_POLICY.table["capability"] is Action.EVICT


def test_a_policy_is_made_again_from_what_a_record_holds_of_it() -> None:
    table = {case: str(action) for case, action in Policy({"capability": "skip"}).table.items()}
    assert Policy.of_table(table).table == Policy({"capability": "skip"}).table


def test_a_refused_credential_without_a_status_is_no_403() -> None:
    for status, reason in ((None, None), (401, None), (403, Reason.UNAVAILABLE)):
        told = Verdict(kind=Kind.AUTH, evidence=Evidence("told"), status=status)
        assert Policy().reason(told) is reason


def test_a_table_that_lacks_a_row_is_refused() -> None:
    table = dict(Policy().table)
    del table["auth"]
    with pytest.raises(ConfigurationError, match="no row for auth"):
        Policy.of_table(table)


def test_a_403_that_only_the_body_of_a_200_states_is_a_403() -> None:
    refused = Verdict(kind=Kind.AUTH, evidence=Evidence("told"), status=200, code="403")
    other = Verdict(kind=Kind.AUTH, evidence=Evidence("told"), status=401, code="403")
    assert DEFAULT_POLICY.reason(refused) is Reason.UNAVAILABLE
    assert DEFAULT_POLICY.reason(other) is None
