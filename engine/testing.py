"""Doubles for tests: upstreams that answer by a script, over which the real HTTP code runs.

    transport = ScriptedTransport({"small": [refusal("capability", "image")], "large": [ok("a cat")]})
    router = Router(ladder=[small, large], memory=InMemory(), transport=transport)

`turnout.engine.clock.VirtualClock` runs such a test in no time. Everything here plays on
any clock, and nothing of it opens a socket.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import httpx
import msgspec

from turnout.engine.classify.verdict import Feature
from turnout.engine.clock import Clock, SystemClock
from turnout.engine.upstream import SENDING
from turnout.machines.vocabulary import ErrorKind as Kind


class Scripted(Protocol):
    """What an upstream does with one request."""

    async def play(self, clock: Clock) -> httpx.Response:
        """Answer, or raise what the transport would raise."""
        ...


@dataclass(frozen=True)
class Reply:
    """Exactly this reply, `after` so many seconds."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    after: float = 0.0

    async def play(self, clock: Clock) -> httpx.Response:
        await clock.sleep(self.after)
        return httpx.Response(self.status, headers=dict(self.headers), content=self.body)


@dataclass(frozen=True)
class Reset:
    """The connection breaks before a byte of the reply."""

    after: float = 0.0

    async def play(self, clock: Clock) -> httpx.Response:
        await clock.sleep(self.after)
        raise httpx.ReadError("connection reset by peer")


@dataclass(frozen=True)
class Hang:
    """Silence, for as long as anyone waits."""

    async def play(self, clock: Clock) -> httpx.Response:
        silence: asyncio.Future[httpx.Response] = asyncio.get_running_loop().create_future()
        return await silence


@dataclass(frozen=True)
class Raises:
    """A RuntimeError with this text: code that fails, where a reset is a connection that does."""

    text: str
    after: float = 0.0

    async def play(self, clock: Clock) -> httpx.Response:
        await clock.sleep(self.after)
        raise RuntimeError(self.text)


def ok(text: str = "ok", *, usage: Mapping[str, Any] | None = None, after: float = 0.0) -> Reply:
    """A complete answer in the format `openai_chat`.

    Args:
        usage: the token counts that it reports.
        after: seconds until it comes.
    """
    message = {"role": "assistant", "content": text}
    body: dict[str, Any] = {
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
    }
    if usage is not None:
        body["usage"] = usage
    return in_json(200, body, after=after)


def in_json(
    status: int, body: object, *, headers: Mapping[str, str] | None = None, after: float = 0.0
) -> Reply:
    """A reply whose body is this value as JSON."""
    return Reply(
        status,
        msgspec.json.encode(body),
        {"content-type": "application/json", **(headers or {})},
        after,
    )


def refusal(kind: str, feature: str = Feature.OTHER, *, after: float = 0.0) -> Reply:
    """A canned reply of an error kind in the format `openai_chat`. A `parameter_reject` names `temperature`.

    Args:
        kind: a value of `ErrorKind`.
        feature: what a `capability` reject refuses, a value of `Feature`.
        after: seconds until it comes.
    """
    if kind == Kind.CAPABILITY:
        status, error = 400, _FEATURE_REFUSED[Feature(feature)]
    else:
        status, error = _REFUSED[Kind(kind)]
    return in_json(status, {"error": {"type": "invalid_request_error", **error}}, after=after)


_REFUSED: Final[Mapping[Kind, tuple[int, Mapping[str, str]]]] = {
    Kind.CONTEXT_WINDOW: (
        400,
        {"code": "context_length_exceeded", "message": "The prompt exceeds the maximum context length."},
    ),
    Kind.UNAVAILABLE: (
        503,
        {"type": "server_error", "message": "The server is overloaded, please try again later."},
    ),
    Kind.QUOTA_OR_BILLING: (
        429,
        {"type": "insufficient_quota", "code": "insufficient_quota", "message": "You exceeded your quota."},
    ),
    Kind.AUTH: (401, {"code": "invalid_api_key", "message": "Incorrect API key provided."}),
    Kind.MODEL_NOT_FOUND: (404, {"code": "model_not_found", "message": "The model does not exist."}),
    Kind.CONTENT_POLICY: (
        400,
        {"code": "content_policy_violation", "message": "The request was rejected by the safety system."},
    ),
    Kind.PARAMETER_REJECT: (
        400,
        {"code": "unsupported_parameter", "param": "temperature", "message": "temperature is not supported."},
    ),
    Kind.CALLER_ERROR: (
        400,
        {"code": "missing_required_parameter", "message": "A required parameter is missing."},
    ),
}

_FEATURE_REFUSED: Final[Mapping[Feature, Mapping[str, str]]] = {
    Feature.IMAGE: {"message": "Image input is not supported by this model."},
    Feature.AUDIO: {"message": "Audio input is not supported by this model."},
    Feature.VIDEO: {"message": "Video input is not supported by this model."},
    Feature.FILE: {"message": "File input is not supported by this model."},
    Feature.TOOLS: {"message": "Tool use is not supported by this model."},
    Feature.TOOL_CHOICE: {"message": "tool_choice is not supported by this model."},
    Feature.TOOL_SCHEMA: {"code": "invalid_function_parameters", "message": "The schema cannot be used."},
    Feature.STRUCTURED_OUTPUT: {"message": "response_format is not supported by this model."},
    Feature.STREAMING: {"message": "Streaming is not supported by this model."},
    Feature.REASONING: {"message": "Reasoning is not supported by this model."},
    Feature.ROLE: {
        "code": "unsupported_value",
        "param": "messages[0].role",
        "message": "This role is not supported.",
    },
    Feature.ENDPOINT: {"code": "OperationNotSupported", "message": "The operation does not work here."},
    Feature.OTHER: {"message": "This type of content part is not supported by this model."},
}


def model_of(request: httpx.Request) -> str:
    """The model id that a request asks for: a target's name, unless it was given another id."""
    return str(msgspec.json.decode(request.content)["model"])


class ScriptedTransport(httpx.AsyncBaseTransport):
    """Answers each target by its script: in order, and the last reply repeats.

    Args:
        script: the replies by the target's name; a target that is not named answers "ok".
        clock: what `after` is kept on.
        name_of: tells the target's name from a request.
    """

    def __init__(
        self,
        script: Mapping[str, Sequence[Scripted]] | None = None,
        *,
        clock: Clock | None = None,
        name_of: Callable[[httpx.Request], str] = model_of,
    ) -> None:
        self._script = {name: list(replies) for name, replies in (script or {}).items()}
        self._clock = clock if clock is not None else SystemClock()
        self._name_of = name_of
        self.requests: list[httpx.Request] = []
        """What was asked, in order."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        scripted = self._next(self._name_of(request))
        # a connection that stands: the bound on connecting ends here
        if (trace := request.extensions.get("trace")) is not None:
            await trace(SENDING[0], {})
        return await scripted.play(self._clock)

    def _next(self, name: str) -> Scripted:
        replies = self._script.get(name) or [ok()]
        return replies.pop(0) if len(replies) > 1 else replies[0]
