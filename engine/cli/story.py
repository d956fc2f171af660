"""The session that `turnout demo` plays: four upstreams, one chat about a photo, two routers on one file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from turnout.engine.audit import AuditRecord
from turnout.engine.classify.verdict import Feature
from turnout.engine.loopback import Answer, LoopbackUpstream
from turnout.engine.memory.sqlite import SqliteMemory
from turnout.engine.router import Router
from turnout.engine.sinks import JsonLines
from turnout.engine.targets import Target
from turnout.engine.wire import openai_chat

RECORDS: Final = "records.jsonl"
MEMORY: Final = "evictions.db"

TEXT_ONLY: Final = "text-only"
"""The target that refuses the chat for good."""

WINDOW: Final = 900
"""What fits into the upstream with the small window, in tokens: the photo, two questions, one answer."""

DOWN: Final = 2
"""How many requests the upstream that is down for a while turns away."""

REPLY: Final = (
    "It is a grey heron: long neck, dagger of a bill, and the black plume behind the eye. They stand like"
    " that for an hour at the edge of shallow water and wait for a fish to come by."
)
PHOTO: Final = (
    "data:image/png;base64,"
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
QUESTIONS: Final = (
    (
        "Which bird is this? I took the photo this morning by the river.",
        "How can I tell it from a crane? There are both around here.",
        "My neighbour says that it nests in the poplars behind the mill. Can that be?",
        "When do the young ones leave the nest?",
    ),
    (
        "What would I need for a better photo next time?",
        "Thank you! Give me a caption for it.",
    ),
)
"""What the user asks through one router, and then through another on the same file. The photo comes first."""


def text_only(body: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
    """Refuses every conversation that has an image in it, and always will."""
    if Feature.IMAGE not in openai_chat.read(body).needs:
        return _answers(body)
    message = "Invalid content type. image_url is only supported by certain models."
    return 400, _error(message, "invalid_request_error", param="messages.[0].content.[1].type")


def small(body: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
    """Refuses a conversation that has outgrown its window."""
    if (tokens := openai_chat.read(body).tokens()) <= WINDOW:
        return _answers(body)
    message = (
        f"This model's maximum context length is {WINDOW} tokens. However, your messages resulted in"
        f" {tokens} tokens. Please reduce the length of the messages."
    )
    return 400, _error(message, "invalid_request_error", param="messages", code="context_length_exceeded")


def flaky() -> Answer:
    """Is down at first, then answers."""
    turned_away = 0

    def answer(body: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
        nonlocal turned_away
        if turned_away == DOWN:
            return _answers(body)
        turned_away += 1
        return 503, _error("The server is currently overloaded. Please try again later.", "server_error")

    return answer


def _answers(body: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
    message = {"role": "assistant", "content": REPLY}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return 200, {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_767_225_600,
        "model": body["model"],
        "choices": [choice],
    }


def _error(
    message: str, type: str, *, param: str | None = None, code: str | None = None
) -> Mapping[str, Any]:
    return {"error": {"message": message, "type": type, "param": param, "code": code}}


def large(body: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
    """Answers whatever it is asked."""
    return _answers(body)


def upstreams() -> dict[str, Answer]:
    """The ladder, cheapest first: new upstreams each time, none of them asked yet."""
    return {TEXT_ONLY: text_only, "small": small, "flaky": flaky(), "large": large}


@contextmanager
def naming(file: Path) -> Iterator[None]:
    """Name the file in what the system refuses within: it does so itself where one cannot be opened only."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(file)) from error


async def play(
    folder: Path,
    *,
    on: Mapping[str, str] | None = None,
    turned: Callable[[AuditRecord], None] = lambda _: None,
    reopened: Callable[[], None] = lambda: None,
) -> Mapping[str, int]:
    """The whole session, through two routers that share nothing but a file.

    Args:
        folder: where memory and records go.
        on: the policy, where it differs from the default.
        turned: is told of each turn when it has ended.
        reopened: is told when the first router is gone.

    Returns:
        How many requests arrived at each target, as its upstream counted them.

    Raises:
        TurnFailed: a turn was not served.
        OSError: no socket is to be had, or no room for a record.
    """
    async with AsyncExitStack() as stack:
        opened = {
            name: await stack.enter_async_context(LoopbackUpstream(answer))
            for name, answer in upstreams().items()
        }
        ladder = [Target(name, base_url=up.base_url, max_retries=0) for name, up in opened.items()]
        messages: list[Mapping[str, Any]] = []
        records: list[AuditRecord] = []
        keep = JsonLines(folder / RECORDS)
        for life, questions in enumerate(QUESTIONS):
            if life:
                reopened()
            async with Router(
                ladder=ladder,
                on=on,
                memory=SqliteMemory(folder / MEMORY),
                on_record=records.append,
                on_memory_error="raise",
                memory_timeout_ms=10_000,
            ) as router:
                for question in questions:
                    messages.append(_asks(question, with_photo=not messages))
                    try:
                        reply = await router.turn({"messages": messages}, session="photo")
                    finally:
                        # a router goes on without a record that cannot be kept; this story does not
                        with naming(keep.path):
                            keep(records.pop())
                    messages.append(reply.body["choices"][0]["message"])
                    turned(reply.record)
        return {name: len(upstream.requests) for name, upstream in opened.items()}


def _asks(question: str, *, with_photo: bool) -> Mapping[str, Any]:
    if not with_photo:
        return {"role": "user", "content": question}
    photo = {"type": "image_url", "image_url": {"url": PHOTO}}
    return {"role": "user", "content": [{"type": "text", "text": question}, photo]}
