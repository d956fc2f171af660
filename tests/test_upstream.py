"""One attempt over real sockets: what goes out, what comes back, and what never does either."""

import asyncio
import base64
import gzip
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

import pytest

from turnout import AuditRecord, ConfigurationError, InMemory, Router, Target, TurnFailed
from turnout.engine.loopback import LoopbackUpstream
from turnout.engine.redaction import Quotations, Redactor
from turnout.engine.secrets import secrets_of
from turnout.engine.upstream import url
from turnout.engine.upstream.sending import Way

MESSAGES = {"messages": [{"role": "user", "content": "Good morning"}]}
LIBRARIES = ("aiohttp", "httpx")
ANSWER: Mapping[str, Any] = {"choices": [{"message": {"role": "assistant", "content": "hello"}}]}


def with_upstream(
    story: Callable[[LoopbackUpstream], Awaitable[None]],
    answer: Callable[[Mapping[str, Any]], tuple[int, Mapping[str, Any]]] = lambda _: (200, ANSWER),
) -> LoopbackUpstream:
    async def play() -> LoopbackUpstream:
        async with LoopbackUpstream(answer) as upstream:
            await story(upstream)
        return upstream

    return asyncio.run(asyncio.wait_for(play(), 60))


def routed(
    answer: Callable[[Mapping[str, Any]], tuple[int, Mapping[str, Any]]] = lambda _: (200, ANSWER),
    *,
    body: Mapping[str, Any] = MESSAGES,
    headers: Mapping[str, str] | None = None,
    turns: int = 1,
    **client: Any,
) -> LoopbackUpstream:
    """The upstream, after some turns that had it as their only target."""

    async def story(upstream: LoopbackUpstream) -> None:
        target = Target("a", **{"base_url": upstream.base_url, "max_retries": 0, **client})
        async with Router(ladder=[target], memory=InMemory()) as router:
            for _ in range(turns):
                await router.turn(body, session="s1", headers=headers)

    return with_upstream(story, answer)


# -- what goes out


def test_the_body_goes_out_as_it_came_but_for_the_model() -> None:
    upstream = routed(body={**MESSAGES, "model": "whatever", "temperature": 0.5}, model="vendor/small-1")
    (request,) = upstream.requests
    assert request.body == {**MESSAGES, "model": "vendor/small-1", "temperature": 0.5}
    assert request.method == "POST"
    assert request.path == "/v1/chat/completions"


@pytest.mark.parametrize("path", ["/a%2Fb", "/a%25b", "/v1%3Abeta", "/%2e%2e/x"])
def test_a_path_that_is_encoded_goes_out_as_it_was_given(path: str) -> None:
    assert (
        url(Target("a", base_url=f"http://a.example{path}")).raw_path == f"{path}/chat/completions".encode()
    )


def test_a_blank_around_a_callers_header_does_not_go_out() -> None:
    (request,) = routed(headers={"x-request-id": " abc "}).requests
    assert request.headers["x-request-id"] == "abc"


def test_a_header_that_the_caller_says_is_of_his_connection_stays_here() -> None:
    (request,) = routed(headers={"connection": "close, X-Request-Id", "x-request-id": "abc"}).requests
    assert "x-request-id" not in request.headers


@pytest.mark.parametrize(
    "name", ["x-auth-token", "set-cookie", "expect", "proxy-connection", "content-encoding"]
)
def test_what_is_never_forwarded_is_not_whoever_lists_it(name: str) -> None:
    (request,) = routed(headers={name: "of-the-caller"}, forward_headers=(name,)).requests
    assert "of-the-caller" not in request.headers.values()


def test_the_credentials_of_a_proxy_are_not_told() -> None:
    way = Way(Target("a", base_url="http://a.example"), ("pr0xy-Passw0rd", "user:pr0xy-Passw0rd"))
    redactor = Redactor(way.secrets([]), Quotations({}))
    echoed = base64.b64encode(b"user:pr0xy-Passw0rd").decode()
    assert redactor.clean(f"407: Basic {echoed}") == "407: Basic [credential]"


def test_a_credential_is_read_from_the_environment_for_every_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", "sk-first-key")

    def rotates(_: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
        monkeypatch.setenv("A_KEY", "sk-second-key\n")
        return 200, ANSWER

    upstream = routed(rotates, api_key_env="A_KEY", turns=2)
    sent = [request.headers["authorization"] for request in upstream.requests]
    assert sent == ["Bearer sk-first-key", "Bearer sk-second-key"]


def test_a_callable_gives_a_new_key_for_every_attempt_and_may_be_async() -> None:
    keys = iter(["first-credential", "second-credential"])

    async def next_key() -> str:
        return next(keys)

    upstream = routed(api_key=next_key, auth_header="x-api-key", turns=2)
    assert [r.headers["x-api-key"] for r in upstream.requests] == ["first-credential", "second-credential"]
    assert all("authorization" not in r.headers for r in upstream.requests)


def test_a_key_that_has_been_replaced_is_not_told_either() -> None:
    keys = iter(["first-credential", "second-credential"])

    def revoked(_: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
        return 503, {"error": {"message": "The key first-credential is revoked."}}

    with pytest.raises(TurnFailed) as failed:
        routed(revoked, api_key=lambda: next(keys), max_retries=1)
    assert "first-credential" not in repr(failed.value.record)
    assert "[credential]" in str(failed.value.error)


@pytest.mark.parametrize("key", [None, "short", "", 7, "eight\x00characters", "müsste-ascii-sein"], ids=repr)
def test_a_callable_that_gives_no_credential_breaks_the_turn(key: Any) -> None:
    with pytest.raises(TurnFailed, match="api_key callable gives no credential"):
        routed(api_key=lambda: key)


@pytest.mark.parametrize("value", [None, "short"], ids=["unset", "too short"])
def test_a_variable_without_a_credential_is_refused_when_the_router_is_made(
    value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("A_KEY", raising=False)
    if value:
        monkeypatch.setenv("A_KEY", value)
    with pytest.raises(
        ConfigurationError, match="A_KEY gives no credential" if value else "A_KEY is not set"
    ):
        Router(ladder=[Target("a", base_url="http://localhost", api_key_env="A_KEY")], memory=InMemory())


def test_of_the_callers_headers_only_the_listed_ones_go_out_and_never_a_credential() -> None:
    headers = {
        "X-Request-Id": "r-1",
        "traceparent": "00-ab-cd-01",
        "X-Team": "blue",
        "Cookie": "session=1",
        "Authorization": "Bearer callers-own",
        "Host": "evil.example",
        "X-Split": "a\r\nx-evil: 1",
    }
    listed = ("x-request-id", "X-Team", "cookie", "Authorization", "host", "x-split")
    (request,) = routed(headers=headers, forward_headers=listed).requests
    assert request.headers["x-request-id"] == "r-1"
    assert request.headers["x-team"] == "blue"
    assert request.headers["host"].startswith("127.0.0.1:")
    assert not {"cookie", "authorization", "traceparent", "x-split", "x-evil"} & set(request.headers)


def test_forward_auth_sends_the_callers_own_credential() -> None:
    (request,) = routed(headers={"Authorization": "Bearer callers-own"}, forward_auth=True).requests
    assert request.headers["authorization"] == "Bearer callers-own"


def test_extra_headers_and_query_go_out_with_every_request() -> None:
    (request,) = routed(extra_headers={"X-Org": "blue"}, extra_query={"api-version": "2026-01"}).requests
    assert request.headers["x-org"] == "blue"
    assert request.path == "/v1/chat/completions?api-version=2026-01"


def test_no_cookie_is_kept_between_requests() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await _request(reader))
        writer.write(_response(200, json.dumps(ANSWER).encode(), "set-cookie: who=me"))
        seen.append(await _request(reader))
        writer.write(_response(200, json.dumps(ANSWER).encode()))
        await writer.drain()
        writer.close()

    seen: list[bytes] = []

    async def story(base_url: str) -> None:
        async with Router(ladder=[Target("a", base_url=base_url)], memory=InMemory()) as router:
            await router.turn(MESSAGES)
            await router.turn(MESSAGES)

    raw(serve, story)
    assert len(seen) == 2
    assert b"cookie" not in seen[1].lower()


@pytest.mark.parametrize(
    ("base", "whole"),
    [
        ("https://a.example", "https://a.example/chat/completions"),
        ("https://a.example/v1/", "https://a.example/v1/chat/completions"),
        ("https://a.example/v1/chat/completions", "https://a.example/v1/chat/completions"),
        ("https://a.example/v1?tier=x", "https://a.example/v1/chat/completions?tier=x"),
        ("http://[::1]:8080/v1", "http://[::1]:8080/v1/chat/completions"),
    ],
)
def test_the_formats_path_is_appended_once(base: str, whole: str) -> None:
    assert str(url(Target("a", base_url=base))) == whole


def test_a_credential_in_a_base_url_is_refused_and_not_told() -> None:
    with pytest.raises(ConfigurationError) as refused:
        Target("a", base_url="https://me:hunter2hunter2@a.example/v1")
    assert "hunter2" not in str(refused.value)


# -- what comes back


def outcome(
    answer: Callable[[Mapping[str, Any]], tuple[int, Mapping[str, Any]]], **client: Any
) -> TurnFailed:
    with pytest.raises(TurnFailed) as failed:
        routed(answer, **client)
    return failed.value


def test_usage_and_the_upstreams_request_id_are_in_the_record() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _request(reader)
        body = {**ANSWER, "usage": {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4}}}
        writer.write(_response(200, json.dumps(body).encode(), "x-request-id: up-1"))
        await writer.drain()
        writer.close()

    async def story(base_url: str) -> None:
        async with Router(ladder=[Target("a", base_url=base_url)], memory=InMemory()) as router:
            reply = await router.turn(MESSAGES)
        assert reply.record.usage == {"prompt_tokens": 9, "cached_tokens": 4}
        assert reply.record.probes[0].attempts[0].request_id == "up-1"

    raw(serve, story)


@pytest.mark.parametrize(
    "body",
    [{}, {"choices": []}, {"choices": [{"text": "?"}]}, {"choices": "many"}, {"message": "welcome"}],
    ids=str,
)
def test_a_200_that_is_no_complete_answer_is_unavailable_and_not_retried(body: Mapping[str, Any]) -> None:
    failure = outcome(lambda _: (200, body), max_retries=2)
    (probe,) = failure.record.probes
    assert len(probe.attempts) == 1
    assert probe.reason == "unavailable"
    assert failure.surface == (502, "upstream_error", "upstream_error")


def test_an_error_inside_a_200_is_read_like_any_other() -> None:
    error = {
        "error": {"code": "context_length_exceeded", "message": "too long"},
        "choices": [{"message": {}}],
    }
    failure = outcome(lambda _: (200, error))
    assert failure.record.probes[0].reason == "context_window"
    assert failure.surface == (400, "invalid_request_error", "context_length_exceeded")


def test_a_complete_but_empty_answer_is_an_answer() -> None:
    empty = {"choices": [{"message": {"role": "assistant", "content": ""}, "finish_reason": "stop"}]}
    assert len(routed(lambda _: (200, empty)).requests) == 1


def test_an_answer_above_the_bound_is_not_read_on() -> None:
    huge = {**ANSWER, "filler": "x" * 5000}
    failure = outcome(lambda _: (200, huge), max_body_bytes=4096)
    assert failure.record.probes[0].reason == "unavailable"
    assert "longer than 4096 bytes" in str(failure.error)


def test_a_redirect_is_not_followed() -> None:
    elsewhere: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        elsewhere.append(await _request(reader))
        writer.write(_response(307, b"", "location: /v1/elsewhere"))
        await writer.drain()
        writer.close()

    async def story(base_url: str) -> None:
        with pytest.raises(TurnFailed) as failed:
            async with Router(ladder=[Target("a", base_url=base_url)], memory=InMemory()) as router:
                await router.turn(MESSAGES)
        assert failed.value.record.probes[0].reason == "unavailable"
        assert failed.value.surface.status == 503

    raw(serve, story)
    assert len(elsewhere) == 1


def test_of_an_endless_error_only_the_first_64_kib_are_read() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _request(reader)
        writer.write(b"HTTP/1.1 400 Bad Request\r\ntransfer-encoding: chunked\r\n\r\n")
        try:
            while True:
                writer.write(b"1000\r\n" + b"x" * 4096 + b"\r\n")
                await writer.drain()
        except ConnectionError:
            left.set()

    left = asyncio.Event()

    async def story(base_url: str) -> None:
        with pytest.raises(TurnFailed) as failed:
            async with Router(ladder=[Target("a", base_url=base_url)], memory=InMemory()) as router:
                await router.turn(MESSAGES)
        assert failed.value.surface.status == 400
        await left.wait()

    raw(serve, story)


def test_a_compressed_answer_is_bounded_after_it_is_unpacked() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await _request(reader)
        assert b"accept-encoding: identity" in head.lower()
        bomb = gzip.compress(b'{"filler": "' + b"x" * 2_000_000 + b'"}')
        writer.write(_response(200, bomb, "content-encoding: gzip"))
        await writer.drain()
        writer.close()

    async def story(base_url: str) -> None:
        target = Target("a", base_url=base_url, max_body_bytes=1_000_000)
        with pytest.raises(TurnFailed, match="longer than 1000000 bytes"):
            async with Router(ladder=[target], memory=InMemory()) as router:
                await router.turn(MESSAGES)

    raw(serve, story)


@pytest.mark.parametrize(("status", "reason"), [(200, "unavailable"), (503, "unavailable"), (401, None)])
@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_body_that_is_not_packed_as_its_headers_say_is_not_read(
    encoding: str, status: int, reason: str | None
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _request(reader)
        writer.write(_response(status, b"this is not packed", f"content-encoding: {encoding}"))
        await writer.drain()
        writer.close()

    async def story(base_url: str) -> None:
        target = Target("a", base_url=base_url, max_retries=0)
        with pytest.raises(TurnFailed) as failed:
            async with Router(ladder=[target], memory=InMemory()) as router:
                await router.turn(MESSAGES)
        assert failed.value.record.probes[0].reason == reason
        assert failed.value.record.probes[0].attempts[0].status == status

    raw(serve, story)


def test_a_body_that_is_packed_so_as_to_bring_nothing_ends_too() -> None:
    nothing = gzip.compress(b"")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _request(reader)
        writer.write(b"HTTP/1.1 503 Busy\r\ncontent-encoding: gzip\r\nconnection: close\r\n\r\n")
        with suppress(ConnectionError):
            while not writer.is_closing():
                writer.write(nothing * 1000)
                await writer.drain()

    async def story(base_url: str) -> None:
        target = Target("a", base_url=base_url, max_retries=0)
        async with Router(ladder=[target], memory=InMemory()) as router:
            with pytest.raises(TurnFailed) as failed:
                await router.turn(MESSAGES)
        assert failed.value.record.probes[0].attempts[0].status == 503

    raw(serve, story)


def test_certificates_that_cannot_be_read_are_told_when_the_router_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/certificates.pem")
    with pytest.raises(ConfigurationError, match="SSL_CERT_FILE"):
        Router(ladder=[Target("a", base_url="https://a.example")], memory=InMemory())


def test_a_callers_credential_that_no_header_can_carry_does_not_go_out() -> None:
    (request,) = routed(headers={"authorization": "Bearer \u00fc"}, forward_auth=True).requests
    assert "authorization" not in request.headers


def test_a_refused_connection_is_unavailable_and_the_next_target_serves() -> None:
    async def story(upstream: LoopbackUpstream) -> None:
        closed = Target("a", base_url="http://127.0.0.1:9/v1?key=abc123abc123", max_retries=0)
        b = Target("b", base_url=upstream.base_url)
        async with Router(ladder=[closed, b], memory=InMemory()) as router:
            reply = await router.turn(MESSAGES)
        assert reply.served_by == "b"
        (attempt,) = reply.record.probes[0].attempts
        assert attempt.status is None
        assert attempt.evidence is not None
        assert attempt.evidence.field == "transport"
        assert "abc123" not in repr(reply.record)

    with_upstream(story)


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"HTTP/1.1 200 OK\r\ncontent-le",
        b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{",
        b"SSH-2.0\r\n\r\n",
    ],
    ids=["before a byte", "within the headers", "within the body", "garbage instead of HTTP"],
)
def test_a_connection_that_breaks_is_unavailable(reply: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _request(reader)
        writer.write(reply)
        await writer.drain()
        writer.close()

    async def story(base_url: str) -> None:
        target = Target("a", base_url=base_url, max_retries=0)
        with pytest.raises(TurnFailed) as failed:
            async with Router(ladder=[target], memory=InMemory()) as router:
                await router.turn(MESSAGES)
        assert failed.value.record.probes[0].reason == "unavailable"
        assert failed.value.surface == (502, "upstream_error", "upstream_error")

    raw(serve, story)


def test_a_silent_upstream_is_left_at_its_bound_and_its_connection_closed() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _request(reader)
        assert await reader.read() == b""
        gone.set()
        writer.close()

    gone = asyncio.Event()

    async def story(base_url: str) -> None:
        target = Target("a", base_url=base_url, timeout_secs=0.5)
        with pytest.raises(TurnFailed) as failed:
            async with Router(ladder=[target], memory=InMemory()) as router:
                await router.turn(MESSAGES)
        assert failed.value.surface == (504, "upstream_error", "upstream_timeout")
        assert len(failed.value.record.probes[0].attempts) == 1
        await gone.wait()

    raw(serve, story)


EVENT_STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
CONTENT = b'data: {"choices": [{"index": 0, "delta": {"content": "Good"}}]}\n\n'
BEGUN = {
    "in its head": b"HTTP/1.1 200 OK\r\ncontent-length: 9",
    "in its body": b'HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{"choices',
    "before content": EVENT_STREAM + b": wait\n\n",
    "after content": EVENT_STREAM + CONTENT,
}
"""How much of a reply is there when the caller leaves."""
STAGES = {
    "connecting": ([False, True], False),
    "sending": ([False, True], False),
    "waiting": ([False, True], True),
    "in its head": ([False, True], True),
    "in its body": ([False], True),
    "before content": ([True], True),
    "after content": ([True], True),
}
"""When the caller leaves: of a stream or not, and whether the whole request had gone out by then."""
LEAVING = [
    pytest.param(stage, streaming, sent, id=f"{stage}-{'stream' if streaming else 'turn'}")
    for stage, (modes, sent) in STAGES.items()
    for streaming in modes
]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(("stage", "streaming", "sent"), LEAVING)
def test_a_caller_who_leaves_closes_the_connection_at_once(
    stage: str, streaming: bool, sent: bool, library: Any
) -> None:
    arrived, left, gone = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if stage == "connecting":
            await reader.read(1)  # of a handshake that goes no further
        elif stage == "sending":
            await reader.readuntil(b"\r\n\r\n")
        else:
            await _request(reader)
            writer.write(BEGUN.get(stage, b""))
        if stage != "after content":
            arrived.set()
        await left.wait()
        await _end(reader)
        gone.set()
        writer.close()

    async def asks(router: Router) -> None:
        content = "x" * (32_000_000 if stage == "sending" else 1)
        body = {"messages": [{"role": "user", "content": content}]}
        if not streaming:
            await router.turn(body, session="s1")
            return
        async with router.stream(body, session="s1") as stream:
            async for _ in stream:
                arrived.set()

    async def story(base_url: str) -> None:
        before = asyncio.all_tasks()
        records: list[AuditRecord] = []
        where = base_url.replace("http:", "https:") if stage == "connecting" else base_url
        async with Router(
            ladder=[Target("a", base_url=where), Target("b", base_url=base_url)],
            memory=InMemory(),
            on_record=records.append,
            transport=library,
        ) as router:
            asking = asyncio.create_task(asks(router))
            await arrived.wait()
            await _turns_of_the_loop()
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            left.set()
            await gone.wait()
        assert_is_cancelled(records, sent=sent, committed=stage == "after content")
        await _turns_of_the_loop()
        assert asyncio.all_tasks() <= before, "a task was left behind"

    raw(serve, story)


def assert_is_cancelled(records: list[AuditRecord], *, sent: bool, committed: bool) -> None:
    (record,) = records
    (probe,) = record.probes
    (attempt,) = probe.attempts
    assert record.ended_by == "cancelled"
    assert probe.verdict is None
    assert probe.committed is committed
    assert attempt.possibly_billed is sent
    assert attempt.kind is None
    assert [(passed.target, passed.why) for passed in record.not_tried] == [("b", "cancelled")]
    assert record.standings_after == ()


# -- raw sockets


async def _turns_of_the_loop() -> None:
    """Some of them, in which what is on its way arrives."""
    for _ in range(50):
        await asyncio.sleep(0)


async def _end(reader: asyncio.StreamReader) -> None:
    """Until the client has closed the connection, whatever it sends before."""
    with suppress(ConnectionError):
        while await reader.read(1_000_000):
            pass


async def _request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
    await reader.readexactly(int(length.split(b":")[1]))
    return head


def _response(status: int, body: bytes, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} x", f"content-length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def raw(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
    story: Callable[[str], Awaitable[None]],
) -> None:
    """Run a story against a server that speaks bytes. What goes wrong in the server comes out here."""

    async def play() -> None:
        serving: list[asyncio.Task[None]] = []

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            serving.append(task)
            await serve(reader, writer)

        async with await asyncio.start_server(accept, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            await story(f"http://127.0.0.1:{port}/v1")
            await asyncio.gather(*serving)

    asyncio.run(asyncio.wait_for(play(), 60))


# -- a connection that was kept


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("breaks", [1, 2], ids=["then it serves", "then the fresh one breaks too"])
def test_a_kept_connection_that_breaks_before_a_byte_costs_no_retry_and_is_tried_afresh_once(
    breaks: int, library: Any
) -> None:
    connections: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(0)
        number = len(connections)
        while not reader.at_eof():
            try:
                await _request(reader)
            except asyncio.IncompleteReadError:
                break
            connections[number - 1] += 1
            if (number == 1 and connections[0] == 2) or 1 < number <= breaks:
                break
            writer.write(_response(200, json.dumps(ANSWER).encode()))
            await writer.drain()
        writer.close()

    async def story(base_url: str) -> None:
        target = Target("a", base_url=base_url, max_retries=0)
        async with Router(ladder=[target], memory=InMemory(), transport=library) as router:
            await router.turn(MESSAGES)
            if breaks == 1:
                (probe,) = (await router.turn(MESSAGES)).record.probes
            else:
                with pytest.raises(TurnFailed) as failed:
                    await router.turn(MESSAGES)
                (probe,) = failed.value.record.probes
        assert len(probe.attempts) == 2
        assert [attempt.waited for attempt in probe.attempts] == [0, 0]

    raw(serve, story)
    assert connections == [2, 1]


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_fresh_connection_that_breaks_is_not_tried_for_free(library: Any) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _request(reader)
        writer.close()

    async def story(base_url: str) -> None:
        target = Target("a", base_url=base_url, max_retries=0)
        with pytest.raises(TurnFailed) as failed:
            async with Router(ladder=[target], memory=InMemory(), transport=library) as router:
                await router.turn(MESSAGES)
        assert len(failed.value.record.probes[0].attempts) == 1

    raw(serve, story)


# -- what is not kept


def test_an_upstreams_id_of_an_answered_request_is_kept_only_if_it_tells_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("A_KEY", "sk-some-secret-1")
    ids = iter(["sk-some-secret-1", "Good-morning-dear-Mrs-Whitlock-of-Elm", "req-1"])

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for sent in ids:
            await _request(reader)
            writer.write(_response(200, json.dumps(ANSWER).encode(), f"x-request-id: {sent}"))
            await writer.drain()
        writer.close()

    async def story(base_url: str) -> None:
        body = {"messages": [{"content": "Good-morning-dear-Mrs-Whitlock-of-Elm-Street"}]}
        target = Target("a", base_url=base_url, api_key_env="A_KEY")
        async with Router(ladder=[target], memory=InMemory()) as router:
            replies = [await router.turn(body) for _ in range(3)]
        assert [reply.record.probes[0].attempts[0].request_id for reply in replies] == ["", "", "req-1"]

    raw(serve, story)


@pytest.mark.parametrize(
    "body",
    [b"\xef\xbb\xbf" + json.dumps(ANSWER).encode(), json.dumps({**ANSWER, "logprob": float("nan")}).encode()],
    ids=["a byte order mark", "NaN"],
)
def test_json_that_bends_the_standard_is_read(body: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _request(reader)
        writer.write(_response(200, body))
        await writer.drain()
        writer.close()

    async def story(base_url: str) -> None:
        async with Router(ladder=[Target("a", base_url=base_url)], memory=InMemory()) as router:
            reply = await router.turn(MESSAGES)
        assert reply.body["choices"] == ANSWER["choices"]

    raw(serve, story)


def test_a_key_that_is_in_an_extra_header_behind_a_scheme_is_not_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key = "sk-extra-secret-77"
    error = {"error": {"message": f"no such key: {key}"}}
    failure = outcome(lambda _: (400, error), extra_headers={"x-auth": f"Bearer   {key}"})
    assert str(failure.error) == "target 'a': caller_error (HTTP 400): no such key: [credential]"


# -- configuration


def test_a_credential_that_is_gone_is_the_configurations_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", "sk-some-secret-1")
    router = Router(
        ladder=[Target("a", base_url="http://127.0.0.1:9", api_key_env="A_KEY")], memory=InMemory()
    )
    monkeypatch.delenv("A_KEY")
    with pytest.raises(TurnFailed, match="A_KEY is not set") as failed:
        asyncio.run(router.turn(MESSAGES))
    assert failed.value.surface == (502, "upstream_error", "upstream_configuration_error")
    assert failed.value.record.ended_by == "broken"


def test_a_callable_that_fails_is_told_without_its_text() -> None:
    def fails() -> str:
        raise ValueError("the vault says: sk-secret-of-the-vault")

    with pytest.raises(TurnFailed) as failed:
        routed(api_key=fails)
    assert failed.value.record.error.endswith("its api_key callable raised ValueError")


def test_a_callable_that_hangs_is_left_at_the_bound_on_connecting() -> None:
    async def hangs() -> str:
        await asyncio.get_running_loop().create_future()
        return ""

    with pytest.raises(TurnFailed, match=r"its api_key callable gave none within 0\.05 s"):
        routed(api_key=hangs, connect_timeout_secs=0.05)


def test_what_is_no_credential_may_be_told() -> None:
    innocent = Target(
        "a",
        base_url="https://x.example/v1?region=eu-west-1&api-version=2024-02-01",
        extra_query={"api-version": "2024-02-01"},
        extra_headers={"x-title": "My application", "user-agent": "acme/1.0 streaming"},
    )
    assert secrets_of(innocent) == []


@pytest.mark.parametrize(
    "target",
    [
        Target("a", base_url="https://x.example/v1?key=first-one&key=second-credential"),
        Target("a", base_url="https://x.example/v1?second-credential-1"),
        Target("a", base_url="https://x.example/proxy/second1credential2of3a4path/v1"),
        Target("a", extra_headers={"x-auth": "Digest user=me second-credential"}),
        Target("a", extra_query={"key": "second-credential"}),
        Target("a", extra_query={"code": "second-credential"}),
        Target("a", extra_headers={"x-gateway-key": "second-credential"}),
        Target("a", extra_headers={"x-tag": "second1credential2of3a4path"}),
    ],
    ids=[
        "a value given twice",
        "a bare query",
        "a path",
        "several parts",
        "a query",
        "a code",
        "a gateway",
        "looks",
    ],
)
def test_what_may_be_a_credential_is_known_wherever_it_stands(target: Target) -> None:
    assert any(secret.startswith("second") for secret in secrets_of(target))


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_kept_connection_that_has_told_garbage_is_not_tried_afresh_for_free(library: Any) -> None:
    connections: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(1)
        await _request(reader)
        writer.write(_response(200, json.dumps(ANSWER).encode()))
        await _request(reader)
        writer.write(b"XYZ garbage\r\n\r\n")
        await writer.drain()
        writer.close()

    async def story(base_url: str) -> None:
        target = Target("a", base_url=base_url, max_retries=0)
        async with Router(ladder=[target], memory=InMemory(), transport=library) as router:
            await router.turn(MESSAGES)
            with pytest.raises(TurnFailed) as failed:
                await router.turn(MESSAGES)
        assert len(failed.value.record.probes[0].attempts) == 1

    raw(serve, story)
    assert connections == [1]
