"""What a server tells the caller of a failed turn."""

from typing import Any

import pytest

from turnout.engine.classify import Evidence, Verdict, unreadable
from turnout.engine.errors import (
    ClientError,
    DeadlineExceeded,
    InjectionRefused,
    InvalidBody,
    MemoryTrouble,
    TurnBroken,
    TurnFailed,
    UnknownRoute,
    UpstreamError,
    surface,
)
from turnout.machines.vocabulary import ErrorKind as Kind
from turnout.machines.vocabulary import TurnoutError


def upstream(kind: Kind, **verdict: object) -> UpstreamError:
    return UpstreamError("a", Verdict(kind=kind, evidence=Evidence("told"), **verdict))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            upstream(Kind.CONTEXT_WINDOW, status=413),
            (400, "invalid_request_error", "context_length_exceeded"),
        ),
        (upstream(Kind.CAPABILITY, status=404), (400, "invalid_request_error", "capability_rejected")),
        (upstream(Kind.AUTH, status=401), (401, "upstream_error", "upstream_error")),
        (upstream(Kind.UNAVAILABLE, status=529), (529, "upstream_error", "upstream_error")),
        (upstream(Kind.UNAVAILABLE), (502, "upstream_error", "upstream_error")),
        (upstream(Kind.UNAVAILABLE, timed_out=True), (504, "upstream_error", "upstream_timeout")),
        (upstream(Kind.UNAVAILABLE, status=200), (503, "upstream_error", "upstream_error")),
        (UpstreamError("a", unreadable(200, "cut off")), (502, "upstream_error", "upstream_error")),
        (upstream(Kind.UNAVAILABLE, status=302), (503, "upstream_error", "upstream_error")),
        (upstream(Kind.UNAVAILABLE, status=200, code="529"), (529, "upstream_error", "upstream_error")),
        (upstream(Kind.AUTH, status=200, code="401"), (401, "upstream_error", "upstream_error")),
        (upstream(Kind.AUTH, status=200, code="1301"), (502, "upstream_error", "upstream_error")),
        (upstream(Kind.AUTH, status=200, code="²"), (502, "upstream_error", "upstream_error")),
        (DeadlineExceeded("late"), (504, "upstream_error", "upstream_timeout")),
        (TurnBroken("a bug"), (500, "server_error", "server_error")),
        (MemoryTrouble("gone"), (500, "server_error", "server_error")),
        (InvalidBody("a list"), (400, "invalid_request_error", "invalid_body")),
        (UnknownRoute("x"), (404, "model_not_found", "model_not_found")),
    ],
    ids=lambda value: repr(value) if isinstance(value, TurnoutError) else "",
)
def test_each_case_has_its_status_type_and_code(error: TurnoutError, told: tuple[int, str, str]) -> None:
    assert surface(error) == told


def test_a_refused_injection_is_the_configurations_fault_and_names_the_keys() -> None:
    verdict = Verdict(
        kind=Kind.PARAMETER_REJECT, evidence=Evidence("told"), status=400, message="no such key"
    )
    error = InjectionRefused("a", verdict, frozenset({"effort", "seed"}))
    assert surface(error) == (502, "upstream_error", "upstream_configuration_error")
    assert str(error) == (
        "target 'a' refuses what extra_body adds (effort, seed): no such key;"
        " take it out of the client's extra_body"
    )


def test_a_failed_turn_is_raised_from_its_concrete_error() -> None:
    error = upstream(Kind.AUTH, status=401)
    record: Any = None
    assert TurnFailed(error, record).__cause__ is error


def test_a_client_tells_its_message_by_name_or_by_place() -> None:
    assert str(ClientError("boom", status=400)) == str(ClientError(message="boom")) == "boom"
    assert ClientError("boom").message == "boom"
