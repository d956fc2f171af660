"""The loopback upstream: what really arrives is counted, and nothing stays open."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from turnout import InMemory, Router, Target
from turnout.engine.loopback import LoopbackUpstream

ANSWER = {"choices": [{"message": {"role": "assistant", "content": "a cat"}}]}


def healthy(body: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
    return 200, ANSWER


def post(body: object, *headers: str) -> bytes:
    content = json.dumps(body).encode()
    lines = ["POST /v1/chat/completions HTTP/1.1", f"Content-Length: {len(content)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


async def connect(upstream: LoopbackUpstream) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    url = httpx.URL(upstream.base_url)
    return await asyncio.open_connection(url.host, url.port)


async def status_of_next_reply(reader: asyncio.StreamReader) -> int:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = next(line for line in head.lower().splitlines() if line.startswith("content-length: "))
    await reader.readexactly(int(length.partition(": ")[2]))
    return int(head.split(" ")[1])


async def all_replies(upstream: LoopbackUpstream, sent: bytes) -> bytes:
    """What comes back on one connection until the upstream closes it."""
    reader, writer = await connect(upstream)
    writer.write(sent)
    replies = await reader.read()
    writer.close()
    await writer.wait_closed()
    return replies


def test_a_router_is_answered_and_its_request_is_kept() -> None:
    async def tell() -> None:
        async with LoopbackUpstream(healthy) as upstream:
            target = Target("small", base_url=upstream.base_url, extra_headers={"x-team": "birds"})
            async with Router(ladder=[target], memory=InMemory()) as router:
                reply = await router.turn({"messages": [{"role": "user", "content": "hi"}]})
            assert reply.body == ANSWER
            (received,) = upstream.requests
            assert (received.method, received.path) == ("POST", "/v1/chat/completions")
            assert received.headers["x-team"] == "birds"
            assert received.body == {"messages": [{"role": "user", "content": "hi"}], "model": "small"}

    asyncio.run(tell())


def test_a_connection_serves_until_the_client_has_had_enough() -> None:
    async def tell() -> None:
        async with LoopbackUpstream(lambda body: (body["status"], {})) as upstream:
            reader, writer = await connect(upstream)
            for status in (200, 503, 599):
                writer.write(post({"status": status}))
                assert await status_of_next_reply(reader) == status
            writer.write(post({"status": 200}, "Connection: close"))
            assert await status_of_next_reply(reader) == 200
            assert await reader.read() == b""
            writer.close()
            await writer.wait_closed()
            assert [received.body["status"] for received in upstream.requests] == [200, 503, 599, 200]

    asyncio.run(tell())


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"good morning\r\n\r\n", id="no HTTP"),
        pytest.param(b"POST / HTTP/1.1\r\ncontent-length: many\r\n\r\n", id="no length"),
        pytest.param(b"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n", id="a negative length"),
        pytest.param(b"POST / HTTP/1.1\r\ncontent-length: 3\r\n\r\n{,}", id="no JSON"),
        pytest.param(post(["a list"]), id="no object"),
    ],
)
def test_a_broken_request_is_refused_uncounted_and_harms_nobody_else(sent: bytes) -> None:
    async def tell() -> None:
        async with LoopbackUpstream(healthy) as upstream:
            assert (await all_replies(upstream, sent)).startswith(b"HTTP/1.1 400 Bad Request\r\n")
            assert upstream.requests == []
            replies = await all_replies(upstream, post({}, "Connection: close"))
            assert replies.startswith(b"HTTP/1.1 200 OK\r\n")
            assert len(upstream.requests) == 1

    asyncio.run(tell())


def test_a_client_who_leaves_in_the_middle_is_not_counted() -> None:
    async def tell() -> None:
        async with LoopbackUpstream(healthy) as upstream:
            _, writer = await connect(upstream)
            writer.write(post({"model": "small"})[:-5])
            await writer.drain()
            writer.close()
            await writer.wait_closed()
        assert upstream.requests == []

    asyncio.run(tell())


def test_nothing_stays_open() -> None:
    async def tell() -> None:
        before = asyncio.all_tasks()
        async with LoopbackUpstream(healthy) as upstream:
            reader, writer = await connect(upstream)
            writer.write(post({}))
            await status_of_next_reply(reader)
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
        assert asyncio.all_tasks() == before
        with pytest.raises(ConnectionRefusedError):
            await connect(upstream)

    asyncio.run(tell())


def test_a_mistake_in_the_answer_breaks_the_connection_and_comes_out_at_the_end() -> None:
    def mistaken(body: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
        raise LookupError("no such line in the script")

    async def tell() -> None:
        async with LoopbackUpstream(mistaken) as upstream:
            assert await all_replies(upstream, post({})) == b""
            assert len(upstream.requests) == 1

    with pytest.raises(LookupError, match="no such line in the script"):
        asyncio.run(tell())
