"""The upstream of the benchmarks: a process of its own that answers by the path, as fast as Python can.

python benchmarks/serving.py        prints its port and serves until it is stopped
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

EVENTS: Final = 100
"""Events with content of one stream."""

TEXT: Final = "Good morning. " * 20
ANSWER: Final = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": TEXT}, "finish_reason": "stop"},
    ],
    "usage": {"prompt_tokens": 80, "completion_tokens": 80, "total_tokens": 160},
}
BUSY: Final = {
    "error": {"type": "server_error", "message": "The server is overloaded, please try again later."}
}
OVERFLOW: Final = {
    "error": {
        "type": "invalid_request_error",
        "code": "context_length_exceeded",
        "message": "This model's maximum context length is 8192 tokens, your messages have 9012 tokens.",
    }
}


def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    event = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [choice]}
    return b"data: " + json.dumps(event).encode() + b"\n\n"


STREAM: Final = (
    chunk({"role": "assistant", "content": ""}),
    *(chunk({"content": f"word {n} "}) for n in range(EVENTS)),
    chunk({}, "stop"),
    b"data: [DONE]\n\n",
)

HEAD: Final = (
    b"HTTP/1.1 %b\r\ndate: Mon, 05 Oct 2026 10:00:00 GMT\r\nserver: benchmark\r\n"
    b"content-type: %b\r\nx-request-id: req_0123456789abcdef\r\n"
)


def reply(status: bytes, body: object) -> bytes:
    content = json.dumps(body).encode()
    head = HEAD % (status, b"application/json")
    return head + b"content-length: %d\r\n\r\n" % len(content) + content


REPLIES: Final = {
    b"ok": (reply(b"200 OK", ANSWER),),
    b"busy": (reply(b"503 Service Unavailable", BUSY),),
    b"overflow": (reply(b"400 Bad Request", OVERFLOW),),
    b"stream": (
        HEAD % (b"200 OK", b"text/event-stream") + b"transfer-encoding: chunked\r\n\r\n",
        *(b"%x\r\n%b\r\n" % (len(event), event) for event in STREAM),
        b"0\r\n\r\n",
    ),
}
"""What is written for each first word of a path, a write at a time."""

_REQUEST: Final = re.compile(
    rb"POST /(\w+)/.*?\r\n(?:.*\r\n)*?content-length: *(\d+)\r\n(?:.*\r\n)*?\r\n", re.IGNORECASE
)


class Server(asyncio.Protocol):
    """Answers each request as soon as its body is there."""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.received = b""

    def data_received(self, data: bytes) -> None:
        self.received += data
        while (head := _REQUEST.match(self.received)) and len(self.received) >= head.end() + int(head[2]):
            self.received = self.received[head.end() + int(head[2]) :]
            for written in REPLIES[head[1]]:
                self.transport.write(written)


async def serve() -> None:
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def serving() -> Iterator[str]:
    """The upstream's base URL, while it runs."""
    command = [sys.executable, str(Path(__file__))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.terminate()


if __name__ == "__main__":
    asyncio.run(serve())
