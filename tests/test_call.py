"""A service that makes its own calls: what its client raises, and what the turn makes of it."""

import asyncio
from collections.abc import Mapping
from functools import partial, wraps
from http import HTTPStatus
from typing import Any
from unittest.mock import AsyncMock

import pytest

from turnout import (
    ClientError,
    ConfigurationError,
    ErrorRule,
    InMemory,
    Reply,
    Router,
    Target,
    TurnBroken,
    TurnFailed,
    UpstreamError,
)
from turnout.engine.audit import decode, encode
from turnout.engine.clock import VirtualClock

BODY = {"messages": [{"role": "user", "content": "Good morning"}]}
A, B = Target("a", model="a-1", max_retries=2), Target("b", model="b-1")


class Service:
    """A service with a client of its own, whose outcomes are given by target."""

    def __init__(self, **outcomes: list[Any]) -> None:
        self.outcomes = outcomes
        self.asked: list[str] = []
        self.requests: list[Mapping[str, Any]] = []
        self.timeouts: list[float | None] = []
        self.records: list[Any] = []
        self.clock = VirtualClock()

    async def call(self, target: Target, request: Mapping[str, Any], *, timeout: float | None) -> Any:
        self.asked.append(target.name)
        self.requests.append(request)
        self.timeouts.append(timeout)
        script = self.outcomes.get(target.name, [])
        outcome = script.pop(0) if script else {"choices": [{"message": {"content": "ok"}}]}
        if isinstance(outcome, BaseException):
            raise outcome
        if outcome == "silence":
            await asyncio.get_running_loop().create_future()
        return outcome

    def cancelled_after(self, secs: float) -> bool:
        """Whether a turn whose caller leaves after so many seconds ends as cancelled, to its caller."""

        async def story() -> bool:
            async with Router(
                ladder=(A, B),
                call=self.call,
                memory=InMemory(),
                clock=self.clock,
                on_record=self.records.append,
            ) as router:
                turn = asyncio.create_task(router.turn(BODY))
                await asyncio.sleep(secs)
                turn.cancel()
                await asyncio.wait([turn])
                return turn.cancelled()

        return self.clock.run(story())

    def turns(self, count: int = 1, *, ladder: tuple[Target, ...] = (A, B), **arguments: Any) -> list[Reply]:
        async def story() -> list[Reply]:
            async with Router(
                ladder=ladder,
                call=self.call,
                memory=InMemory(),
                clock=self.clock,
                jitter=lambda: 0.0,
                on_record=self.records.append,
                **arguments,
            ) as router:
                return [await router.turn(BODY, session="s1") for _ in range(count)]

        return self.clock.run(story())


def test_the_answer_is_the_mapping_that_the_client_returned() -> None:
    body = {"choices": [{"message": {"content": "42"}}], "usage": {"prompt_tokens": 7}, "extra": True}
    service = Service(a=[body])
    (reply,) = service.turns()
    assert reply.body == body
    assert reply.served_by == "a"
    assert reply.record.usage == {"prompt_tokens": 7}


def test_the_client_gets_the_body_with_the_targets_model_and_what_the_deployment_adds() -> None:
    service = Service()
    service.turns(ladder=(Target("a", model="a-1", extra_body={"reasoning_effort": "low"}),))
    assert service.requests == [{**BODY, "model": "a-1", "reasoning_effort": "low"}]


def test_a_capability_error_evicts_for_the_session() -> None:
    service = Service(
        a=[ClientError(kind="capability", status=400, message="no images", features=("image",))]
    )
    first, second = service.turns(2)
    assert service.asked == ["a", "b", "b"]
    assert first.record.probes[0].attempts[0].kind == "capability"
    assert [p.target for p in second.record.passed_over] == ["a"]


def test_an_unavailable_error_is_retried_within_the_probe_and_skipped_for_the_turn_only() -> None:
    down = [ClientError(kind="unavailable", status=503) for _ in range(3)]
    service = Service(a=down)
    first, second = service.turns(2)
    assert service.asked == ["a", "a", "a", "b", "a"]
    assert first.served_by == "b"
    assert second.served_by == "a"
    assert [attempt.waited for attempt in first.record.probes[0].attempts] == [0, 0.25, 0.5]


def test_a_wait_that_the_client_was_told_is_kept() -> None:
    service = Service(a=[ClientError(kind="unavailable", retry_after=1.5)])
    service.turns()
    assert service.records[0].probes[0].attempts[1].waited == 1.5


def test_an_error_of_a_kind_that_does_not_exist_is_the_callers_unrecognised() -> None:
    service = Service(a=[ClientError(kind="provider_error", status=418, message="odd")])
    with pytest.raises(TurnFailed) as failed:
        service.turns()
    assert isinstance(failed.value.error, UpstreamError)
    assert failed.value.error.verdict.evidence.rule == "unrecognised"
    assert failed.value.surface == (418, "upstream_error", "upstream_error")
    assert service.asked == ["a"]


def test_a_policy_may_skip_what_nobody_recognised() -> None:
    service = Service(a=[ClientError(kind="provider_error")])
    (reply,) = service.turns(on={"unrecognised": "skip"})
    assert reply.served_by == "b"


def test_a_timeout_deep_in_the_cause_chain_is_unavailable_and_not_retried() -> None:
    error = RuntimeError("generation failed, do not retry")
    error.__cause__ = ValueError("wrapped")
    error.__cause__.__cause__ = TimeoutError()
    service = Service(a=[error])
    (reply,) = service.turns()
    assert service.asked == ["a", "b"]
    assert reply.record.probes[0].reason == "unavailable"


def test_a_broken_connection_is_unavailable_and_retried() -> None:
    service = Service(a=[ConnectionResetError("peer"), ConnectionResetError("peer")])
    (reply,) = service.turns()
    assert service.asked == ["a", "a", "a"]
    assert reply.served_by == "a"


@pytest.mark.parametrize("error", [KeyError("choices"), ValueError("bad"), TypeError("worse")], ids=repr)
def test_any_other_exception_breaks_the_turn_and_nobody_else_is_asked(error: Exception) -> None:
    service = Service(a=[error])
    with pytest.raises(TurnFailed) as failed:
        service.turns()
    assert isinstance(failed.value.error, TurnBroken)
    assert failed.value.error.__cause__ is error
    assert failed.value.surface == (500, "server_error", "server_error")
    assert service.asked == ["a"]
    (record,) = service.records
    assert record.ended_by == "broken"
    assert [(t.target, t.why) for t in record.not_tried] == [("b", "broken")]


@pytest.mark.parametrize("returned", [None, [], "text"], ids=repr)
def test_a_client_that_returns_no_mapping_breaks_the_turn(returned: object) -> None:
    service = Service(a=[returned])
    with pytest.raises(TurnFailed, match="call= returned"):
        service.turns()


def test_a_silent_client_is_left_at_the_targets_bound() -> None:
    service = Service(a=["silence"])
    patient = Target("a", timeout_secs=30)
    (reply,) = service.turns(ladder=(patient, B))
    assert service.asked == ["a", "b"]
    assert service.timeouts[0] == 30
    assert reply.record.took == pytest.approx(30)


def test_the_client_is_told_the_time_that_the_deadline_leaves() -> None:
    service = Service(a=["silence"])
    with pytest.raises(TurnFailed) as failed:
        service.turns(deadline_secs=5)
    assert service.timeouts == [5]
    assert failed.value.surface == (504, "upstream_error", "upstream_timeout")
    assert [(t.target, t.why) for t in failed.value.record.not_tried] == [("b", "deadline")]


def test_what_the_client_quotes_of_the_prompt_is_not_kept() -> None:
    body = "cannot read: Good morning, dear Mrs Whitlock of Elm Street"
    error = ClientError(kind="caller_error", message=body)
    service = Service(a=[error])

    async def story() -> None:
        async with Router(ladder=(A,), call=service.call, memory=InMemory(), clock=service.clock) as router:
            await router.turn({"messages": [{"content": "Good morning, dear Mrs Whitlock of Elm Street"}]})

    with pytest.raises(TurnFailed) as failed:
        service.clock.run(story())
    assert failed.value.record.error == "target 'a': caller_error: cannot read: [request text]"


@pytest.mark.parametrize("status", ["soon", 400.5, None, True, -5, 10**9], ids=repr)
@pytest.mark.parametrize("retry_after", [float("inf"), float("nan"), -1, "5", None], ids=repr)
def test_what_makes_no_sense_in_a_client_error_is_left_out(status: Any, retry_after: Any) -> None:
    odd: Any = {"status": status, "retry_after": retry_after, "message": b"bytes", "features": None}
    service = Service(a=[ClientError(kind="unavailable", **odd)])
    (reply,) = service.turns()
    first = reply.record.probes[0].attempts[0]
    assert (first.status, first.retry_after, first.message) == (None, None, "b'bytes'")
    assert decode(encode(reply.record)) == reply.record


def test_a_single_feature_may_be_given_as_a_word() -> None:
    service = Service(a=[ClientError(kind="capability", features="image")])  # type: ignore[arg-type]
    (reply,) = service.turns()
    assert reply.record.standings_after[0].refused == {("image",)}


def test_an_error_inside_a_returned_body_is_read_as_over_http() -> None:
    body = {"error": {"code": "context_length_exceeded", "message": "the prompt is too long"}}
    service = Service(a=[body])
    first, second = service.turns(2)
    assert first.record.probes[0].reason == "context_window"
    assert service.asked == ["a", "b", "b"]
    assert second.served_by == "b"


@pytest.mark.parametrize("body", [{}, {"choices": []}], ids=str)
def test_a_returned_body_that_is_no_complete_answer_is_unavailable(body: dict[str, Any]) -> None:
    (reply,) = Service(a=[body]).turns()
    assert reply.record.probes[0].reason == "unavailable"
    assert reply.served_by == "b"


def test_what_a_client_does_to_its_request_is_nobody_elses_business() -> None:
    class Careless(Service):
        async def call(self, target: Target, request: Any, *, timeout: float | None) -> Any:
            request["messages"].append({"role": "system", "content": object()})
            return await super().call(target, request, timeout=timeout)

    service = Careless(a=[ClientError(kind="unavailable") for _ in range(3)])
    service.turns()
    assert [len(request["messages"]) for request in service.requests] == [2, 2, 2, 2]
    assert BODY == {"messages": [{"role": "user", "content": "Good morning"}]}


class Deaf(Service):
    """A client that takes a cancellation for a failure of its own."""

    async def call(self, target: Target, request: Any, *, timeout: float | None) -> Any:
        self.asked.append(target.name)
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            raise ConnectionError("the call was cut") from None


def test_a_client_that_swallows_the_deadline_does_not_outlive_it() -> None:
    service = Deaf()
    with pytest.raises(TurnFailed) as failed:
        service.turns(deadline_secs=5)
    assert failed.value.record.ended_by == "expired"
    assert service.asked == ["a"]
    assert service.clock.monotonic() == 5


def test_a_client_that_swallows_a_cancellation_keeps_nobody_waiting() -> None:
    service = Deaf()

    assert service.cancelled_after(5)
    assert service.asked == ["a"]
    assert [record.ended_by for record in service.records] == ["cancelled"]


def test_a_bound_that_a_client_swallows_is_a_timeout_all_the_same() -> None:
    service = Deaf()
    quick = (Target("a", timeout_secs=3), Target("b", timeout_secs=3))
    with pytest.raises(TurnFailed) as failed:
        service.turns(ladder=quick)
    assert [probe.verdict.timed_out for probe in failed.value.record.probes if probe.verdict] == [True, True]
    assert failed.value.surface == (504, "upstream_error", "upstream_timeout")


def test_a_cancellation_that_nobody_asked_for_breaks_the_turn() -> None:
    service = Service(a=[asyncio.CancelledError()])
    with pytest.raises(TurnFailed) as failed:
        service.turns()
    assert failed.value.record.ended_by == "broken"


class Fatal(BaseException):
    pass


def test_what_is_no_exception_passes_and_leaves_its_record() -> None:
    service = Service(a=[Fatal()])
    with pytest.raises(Fatal):
        service.turns()
    assert [record.ended_by for record in service.records] == ["broken"]


def test_a_key_that_the_targets_own_variable_names_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_KEY", "9f8e7d6c5b4a39281706f5e4d3c2b1a0")
    said = ClientError(kind="auth", status=401, message="Incorrect key 9f8e7d6c5b4a39281706f5e4d3c2b1a0.")
    with pytest.raises(TurnFailed) as failed:
        Service(a=[said]).turns(ladder=(Target("a", api_key_env="AZURE_KEY"),))
    assert failed.value.record.error == "target 'a': auth (HTTP 401): Incorrect key [credential]."


@pytest.mark.parametrize("features", [5, ("sk-0123456789abcdef",), ("\udc80",), ("image", "oops")], ids=ascii)
def test_features_are_words_that_there_are(features: Any) -> None:
    service = Service(a=[ClientError(kind="capability", features=features)])
    (reply,) = service.turns()
    verdict = reply.record.probes[0].verdict
    assert verdict is not None
    assert set(verdict.features) <= {"image", "other"}
    assert decode(encode(reply.record)) == reply.record


@pytest.mark.parametrize(
    "odd", [{"kind": ["x"]}, {"kind": "unavailable", "retry_after": 10**400}], ids=["kind", "wait"]
)
def test_a_client_error_never_breaks_its_reading(odd: Any) -> None:
    service = Service(a=[ClientError(**odd)])
    (reply,) = service.turns(on={"unrecognised": "skip"})
    assert reply.record.probes[0].attempts[0].retry_after is None


def test_an_answer_that_comes_after_the_targets_bound_comes_too_late() -> None:
    class Late(Service):
        async def call(self, target: Target, request: Any, *, timeout: float | None) -> Any:
            self.asked.append(target.name)
            if target.name == "a":
                try:
                    await asyncio.sleep(50)
                except asyncio.CancelledError:
                    await asyncio.sleep(50)
            return {"choices": [{"message": {"content": "ok"}}]}

    (reply,) = Late().turns(ladder=(Target("a", timeout_secs=5), B))
    assert reply.served_by == "b"
    assert reply.record.probes[0].reason == "unavailable"


def test_a_group_of_broken_connections_is_unavailable() -> None:
    group = ExceptionGroup("tasks", [ConnectionResetError("peer"), ExceptionGroup("inner", [TimeoutError()])])
    (reply,) = Service(a=[group]).turns(ladder=(Target("a", max_retries=0), B))
    assert reply.served_by == "b"


def test_a_client_that_is_not_async_is_told_so() -> None:
    class Sync(Service):
        call: Any = staticmethod(lambda target, request, *, timeout: {"choices": []})

    with pytest.raises(TurnFailed, match="call= is no async function"):
        Sync().turns()


def plain(target: Target, request: Any, *, timeout: float | None) -> Any:
    return {"choices": []}


def in_pieces(target: Target, request: Any, *, timeout: float | None) -> Any:
    yield {"choices": []}


class Client:
    def __call__(self, target: Target, request: Any, *, timeout: float | None) -> Any:
        return {"choices": []}


async def too_little(target: Target, request: Any) -> Any: ...


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (5, "is 'int', which cannot be called"),
        (plain, "is no async function"),
        (in_pieces, "is no async function"),
        (partial(plain), "is no async function"),
        (Client(), "is no async function"),
        (Client().__call__, "is no async function"),
        (too_little, "takes other arguments"),
    ],
    ids=["no callable", "plain", "generator", "partial", "object", "method", "arguments"],
)
def test_what_cannot_be_called_is_told_when_the_router_is_made(call: Any, what: str) -> None:
    with pytest.raises(ConfigurationError, match=f"call= {what}.*; give async def call"):
        Router(ladder=(A, B), call=call, memory=InMemory())


async def served(target: Target, request: Any, /, *, timeout: float | None) -> Any:
    return {"choices": [{"message": {"content": "ok"}}]}


@wraps(served)
def decorated(*args: Any, **named: Any) -> Any:
    return served(*args, **named)


class AsyncClient:
    async def __call__(self, target: Target, request: Any, *, timeout: float | None) -> Any:
        return await served(target, request, timeout=timeout)


@pytest.mark.parametrize(
    "call",
    [
        served,
        decorated,
        partial(served),
        AsyncClient(),
        partial(AsyncClient()),
        lambda target, request, *, timeout: served(target, request, timeout=timeout),
        AsyncMock(return_value={"choices": [{"message": {"content": "ok"}}]}),
    ],
    ids=["function", "decorated", "partial", "object", "partial of an object", "lambda", "mock"],
)
def test_whatever_gives_what_can_be_awaited_is_a_client(call: Any) -> None:
    service = Service()
    service.call = call  # type: ignore[method-assign]
    assert service.turns()[0].served_by == "a"


def test_the_embedders_own_exception_is_in_the_chain_of_causes() -> None:
    own = KeyError("quota table")
    with pytest.raises(TurnFailed) as failed:
        Service(a=[own]).turns()
    assert failed.value.__cause__ is failed.value.error
    assert failed.value.error.__cause__ is own


def test_the_upstreams_error_is_the_cause_of_the_turns() -> None:
    with pytest.raises(TurnFailed) as failed:
        Service(a=[ClientError("no such key", kind="auth", status=401)]).turns()
    assert isinstance(failed.value.__cause__, UpstreamError)
    assert failed.value.__cause__.verdict.message == "no such key"


def test_a_word_that_there_is_not_is_logged_once_and_replaces_no_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    service = Service(
        a=[ClientError(kind="capability", features=("images",)), ClientError(kind="capabilty")],
        b=[ClientError(kind="capability", features=("images",)), ClientError(kind="auth")],
    )
    service.turns(on={"capability": "skip", "unrecognised": "skip"}, ladder=(A, B, Target("c")), count=1)
    service.turns(on={"capability": "skip", "unrecognised": "skip"}, ladder=(A, Target("c")), count=1)
    assert [record.message for record in caplog.records] == [
        "ClientError: features: 'images' is read as other; did you mean image?",
        "ClientError: kind: 'capabilty' is read as caller_error, unrecognised; did you mean capability?",
    ]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ClientError(status=400, body={"error": {"code": "context_length_exceeded"}}), "context_window"),
        (ClientError(status=404, body=b'{"message": "image input is not supported"}'), "capability"),
        (ClientError(status=400, body="This model does not support tools."), "capability"),
        (ClientError(status=429, body={}), "unavailable"),
        (ClientError(status=401), "auth"),
        (ClientError(message="This model's maximum context length is 10 tokens."), "context_window"),
        (ClientError(message="you said something odd"), "caller_error"),
        (ClientError(), "caller_error"),
    ],
    ids=["a code", "bytes", "a text", "a status", "no body", "a message", "unrecognised", "nothing"],
)
def test_an_error_that_the_client_does_not_name_is_read_as_a_reply_is(error: ClientError, kind: str) -> None:
    service = Service(a=[error], b=[error])
    ladder = (Target("a", max_retries=0), Target("b", max_retries=0))
    with pytest.raises(TurnFailed) as failed:
        service.turns(ladder=ladder)
    verdict = failed.value.record.probes[0].verdict
    assert verdict is not None
    assert (verdict.kind, verdict.status) == (kind, error.status)


class Untidy(Service):
    """A client whose clean-up fails."""

    async def call(self, target: Target, request: Any, *, timeout: float | None) -> Any:
        self.asked.append(target.name)
        try:
            await asyncio.sleep(1000)
        finally:
            raise RuntimeError("session is closed")


def test_a_clean_up_that_fails_hides_no_deadline() -> None:
    service = Untidy()
    with pytest.raises(TurnFailed) as failed:
        service.turns(deadline_secs=5)
    assert failed.value.record.ended_by == "expired"
    assert failed.value.surface == (504, "upstream_error", "upstream_timeout")


def test_a_clean_up_that_fails_hides_no_cancellation() -> None:
    service = Untidy()

    assert service.cancelled_after(5)
    assert [record.ended_by for record in service.records] == ["cancelled"]


def test_an_error_that_cannot_be_told_is_told_by_its_name() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise AttributeError("detail")

    with pytest.raises(TurnFailed, match="Mute") as failed:
        Service(a=[Mute()]).turns()
    assert failed.value.record.ended_by == "broken"


def test_our_own_names_stay_in_the_error_though_the_caller_has_written_them() -> None:
    name = "meta-llama/Llama-3.3-70B-Instruct-Turbo"
    service = Service(**{name: [ClientError(kind="model_not_found", message=f"no model {name}")]})

    async def story() -> None:
        async with Router(
            ladder=[Target(name)], call=service.call, memory=InMemory(), clock=service.clock
        ) as router:
            await router.turn({**BODY, "model": name})

    with pytest.raises(TurnFailed) as failed:
        service.clock.run(story())
    assert failed.value.record.error == f"target '{name}': model_not_found: no model {name}"


@pytest.mark.parametrize("status", ["503", HTTPStatus.SERVICE_UNAVAILABLE], ids=repr)
def test_a_status_may_be_a_word_or_a_constant(status: Any) -> None:
    (reply,) = Service(a=[ClientError(status=status)] * 3).turns()
    assert [attempt.status for attempt in reply.record.probes[0].attempts] == [503] * 3


@pytest.mark.parametrize("body", [{}, "", {"x": object()}, {"error": {"message": "\ud800"}}], ids=range(4))
def test_an_empty_or_odd_body_never_breaks_the_reading(body: Any) -> None:
    told = "This model's maximum context length is 10 tokens"
    error = ClientError(status=503, message=told, body=body)
    service = Service(a=[error] * 3)
    (reply,) = service.turns()
    assert reply.served_by == "b"
    assert decode(encode(reply.record)) == reply.record


def test_a_late_return_of_nothing_is_a_timeout() -> None:
    class Late(Service):
        async def call(self, target: Target, request: Any, *, timeout: float | None) -> Any:
            try:
                await asyncio.sleep(50 if target.name == "a" else 0)
            except asyncio.CancelledError:
                return None
            return {"choices": [{"message": {"content": "ok"}}]}

    (reply,) = Late().turns(ladder=(Target("a", timeout_secs=5), B))
    assert reply.served_by == "b"


def test_no_error_of_the_clients_tells_a_key_not_even_one_that_was_changed_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old, new = "9f8e7d6c5b4a39281706f5e4d3c2b1a0", "000102030405060708090a0b0c0d0e0f"

    class Rotating(Service):
        async def call(self, target: Target, request: Any, *, timeout: float | None) -> Any:
            monkeypatch.setenv("A_KEY", new)
            raise TurnBroken(f"keys {old} and {new}")

    monkeypatch.setenv("A_KEY", old)
    service = Rotating()
    with pytest.raises(TurnFailed) as failed:
        service.turns(ladder=(Target("a", api_key_env="A_KEY"),))
    kept = str(failed.value) + repr(service.records)
    assert old not in kept
    assert new not in kept


NO_PICTURES = ErrorRule(kind="capability", status=422, contains="no pictures", features=("image",))
REFUSED = {"error": {"message": "E-77 no pictures"}}


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (ClientError(status=422, body=REFUSED), "capability"),
        (ClientError(status=422, message="E-77 no pictures"), "capability"),
        ({"error": {**REFUSED["error"], "code": 422}}, "capability"),
        (ClientError(kind="unavailable", status=422, message="E-77 no pictures"), "unavailable"),
        (ConnectionError("no pictures"), "unavailable"),
        (TimeoutError("no pictures"), "unavailable"),
    ],
    ids=["a body", "a message", "a returned body", "a kind", "a connection", "a timeout"],
)
def test_a_rule_reads_what_the_client_met_unless_the_client_says_what_it_was(
    outcome: Any, reason: str
) -> None:
    service = Service(a=[outcome])
    (reply,) = service.turns(ladder=(Target("a", max_retries=0, errors=(NO_PICTURES,)), B))
    (probe, _) = reply.record.probes
    assert probe.reason == reason
    assert probe.verdict is not None
    assert (probe.verdict.evidence.rule == "targets.a.errors[0]") is (reason == "capability")
