"""What LiteLLM makes of failed replies: JSON lines of a corpus in, one JSON line of findings out for each.

Runs in an environment of its own, which `benchmarks/classify.py --compare` makes. Each reply
is read in two ways:

- `wire`: a server on loopback gives the reply to LiteLLM's own client of that provider, and the
  class of what is raised is the reading; where it takes the reply for an answer, `content_filter`
  if the answer says that it was filtered, else `none`;
- `mapped`: the reply goes straight to `exception_type`, as the exception that LiteLLM's HTTP layer
  raises, under the provider's own name. The status of an error within a 200 is the one that the
  body states, else 500, which is what LiteLLM assumes.

`moves` tells whether its `Router`, with `fallbacks` and `context_window_fallbacks` set, asks the
next model group.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it would be fetched
os.environ["LITELLM_LOG"] = "CRITICAL"

import httpx
import litellm
from litellm.litellm_core_utils.exception_mapping_utils import exception_type
from litellm.llms.base_llm.chat.transformation import BaseLLMException

Line = dict[str, Any]

PROVIDERS = {
    "together": "together_ai",
    "fireworks": "fireworks_ai",
    "cohere": "cohere_chat",
    "vertex": "vertex_ai",
    "azure_apim": "azure",
    "azure_foundry": "azure_ai",
    "azure_openai_proxy": "azure",
    "github_models": "github",
    "grok_cli": "xai",
    "huggingface_tgi": "huggingface",
    "huggingface_router": "huggingface",
    "huggingface_inference": "huggingface",
    "cloudflare_workers_ai": "cloudflare",
    "tencent_hunyuan": "tencent",
    "vercel": "vercel_ai_gateway",
    "v0_vercel": "v0",
    "vllm": "hosted_vllm",
    "runpod_vllm": "hosted_vllm",
    "llama.cpp": "llamafile",
    "llama_cpp": "llamafile",
    "lmstudio": "lm_studio",
    "ollama": "ollama_chat",
    "ollama_cloud": "ollama_chat",
}
"""Our names that LiteLLM has another one for."""

SPEAKING = {
    "anthropic_messages": "anthropic",
    "gemini": "gemini",
    "bedrock": "bedrock",
    "ollama": "ollama_chat",
}
"""What a provider that it does not know is taken for, by the format of its replies; else for OpenAI."""

WIRED_AS = {
    "vertex_ai": "gemini",
    "github_copilot": "openai",
    "sagemaker": "openai",
    "watsonx": "openai",
    "gigachat": "openai",
}
"""Clients that want a login from elsewhere first, and what speaks in their place."""

OMITTED = {"content-length", "content-encoding", "transfer-encoding", "connection"}

HELLO = [{"role": "user", "content": "hello"}]
ANSWER = {
    "id": "answer",
    "object": "chat.completion",
    "created": 0,
    "model": "next",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hi"}}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}
CHUNK = {
    "id": "answer",
    "object": "chat.completion.chunk",
    "created": 0,
    "model": "next",
    "choices": [{"index": 0, "finish_reason": "stop", "delta": {"role": "assistant", "content": "hi"}}],
}


class Upstream(ThreadingHTTPServer):
    """Gives the reply number N under `/N/…`, and answers under `/next/N/…`."""

    def __init__(self, lines: list[Line]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.lines = lines
        self.moved: set[int] = set()
        """Numbers of the lines after which the next target was asked."""

    def url(self, path: object) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{path}"


class Handler(BaseHTTPRequestHandler):
    server: Upstream

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers.get("content-length", 0)))
        first, second = f"{self.path}/".split("/")[1:3]
        if first == "next":
            self.server.moved.add(int(second))
            self.answer(streamed=bool(json.loads(sent).get("stream")))
        else:
            number = first.partition(":")[0]  # Gemini's method follows it
            self.reply(self.server.lines[int(number)])

    def do_GET(self) -> None:
        self.do_POST()

    def answer(self, *, streamed: bool) -> None:
        if streamed:
            events = f"data: {json.dumps(CHUNK)}\n\ndata: [DONE]\n\n"
            self.send(200, {"content-type": "text/event-stream"}, events)
        else:
            self.send(200, {"content-type": "application/json"}, json.dumps(ANSWER))

    def reply(self, line: Line) -> None:
        if line["transport"] == "sse_event":
            name = f"event: {line['event']}\n" if line.get("event") else ""
            data = "".join(f"data: {part}\n" for part in line["body"].split("\n"))
            self.send(200, {"content-type": "text/event-stream"}, f"{name}{data}\n")
        else:
            sent = {name: value for name, value in line.get("headers", {}).items() if fits(name)}
            self.send(line["status"], {"content-type": "application/json"} | sent, line["body"])

    def send(self, status: int, headers: dict[str, str], body: str) -> None:
        raw = body.encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: object) -> None:
        """Standard error is for what goes wrong."""


def fits(header: str) -> bool:
    """Whether a header of the reply can be sent with its body as we have it."""
    return header.lower() not in OMITTED and not header.startswith(":")


def provider_of(line: Line) -> str:
    """What LiteLLM calls the provider."""
    name = PROVIDERS.get(line["provider"], line["provider"])
    known = {provider.value for provider in litellm.provider_list}
    return name if name in known else SPEAKING.get(line["format"], "openai")


def target(line: Line, url: str) -> dict[str, Any]:
    provider = provider_of(line)
    return {
        "model": f"{WIRED_AS.get(provider, provider)}/some-model",
        "api_base": url,
        "api_key": "some-key",
        "max_retries": 0,
        "timeout": 20,
    }


def caught(error: Exception) -> str:
    """The class of what was raised, with the status of a 4xx that it has no class for.

    A fallback that wraps an error within a stream is that error.
    """
    original = getattr(error, "original_exception", None) or error
    status = getattr(original, "status_code", 500)
    name = type(original).__name__
    return f"{name} {status}" if name == "APIError" and status < 500 else name


def wire(line: Line, url: str) -> str:
    """The class that LiteLLM's client raises on this reply."""
    streamed = line["transport"] == "sse_event"
    ask = litellm.completion
    asked: dict[str, Any] = {"messages": HELLO}
    if line["format"] == "openai_responses" and provider_of(line) in ("openai", "azure"):
        ask, asked = litellm.responses, {"input": "hello"}
    try:
        answer = ask(**target(line, url), **asked, stream=streamed)
        parts = list(answer) if streamed else [answer]
    except Exception as error:  # noqa: BLE001 - whatever it raises is the finding
        return caught(error)
    return "content_filter" if any("content_filter" in str(part) for part in parts) else "none"


def stated(body: str) -> int:
    """The status that an error within a 200 states, else 500."""

    def numbers(value: object) -> Iterator[int]:
        if isinstance(value, dict):
            for name, held in value.items():
                if name in ("code", "status", "status_code", "http_status_code") and str(held).isdecimal():
                    yield int(held)
                yield from numbers(held)
        elif isinstance(value, list):
            for held in value:
                yield from numbers(held)

    try:
        return next((number for number in numbers(json.loads(body)) if 400 <= number <= 599), 500)
    except ValueError:
        return 500


def mapped(line: Line) -> str:
    """The class that `exception_type` gives, asked without a client."""
    provider = provider_of(line)
    status = line["status"] if line["status"] >= 300 else stated(line["body"])
    message, body = line["body"], None
    if provider == "openai" or provider in litellm.openai_compatible_providers:
        try:  # the SDK's exception holds what it decoded, and its message quotes that
            decoded = json.loads(message)
            body = decoded.get("error", decoded) if isinstance(decoded, dict) else decoded
            message = f"Error code: {status} - {decoded}"
        except ValueError:
            pass
    request = httpx.Request("POST", "https://example.com/v1/chat/completions")
    response = httpx.Response(status, text=line["body"], headers=line.get("headers"), request=request)
    raised = BaseLLMException(status, message, response.headers, request, response, body)
    try:
        exception_type("some-model", raised, provider)
    except Exception as error:  # noqa: BLE001 - whatever it raises is the finding
        return caught(error)
    return "none"


def moves(line: Line, number: int, upstream: Upstream) -> bool:
    """Whether the router asks the next target."""
    next_one = {"model": "openai/next", "api_base": upstream.url(f"next/{number}"), "api_key": "some-key"}
    router = litellm.Router(
        model_list=[
            {"model_name": "first", "litellm_params": target(line, upstream.url(number))},
            {"model_name": "next", "litellm_params": next_one},
        ],
        fallbacks=[{"first": ["next"]}],
        context_window_fallbacks=[{"first": ["next"]}],
        num_retries=0,
    )
    streamed = line["transport"] == "sse_event"
    with suppress(Exception):
        answer = router.completion(model="first", messages=HELLO, stream=streamed)
        if answer is None:
            return True  # it mended the request and asked again; what that would lead to is not known
        if streamed:
            for _ in answer:
                pass
    return number in upstream.moved


def findings(lines: list[Line]) -> Iterable[dict[str, Any]]:
    upstream = Upstream(lines)
    Thread(target=upstream.serve_forever, daemon=True).start()
    for number, line in enumerate(lines):
        yield {
            "wire": wire(line, upstream.url(number)),
            "mapped": mapped(line),
            "moves": moves(line, number, upstream),
        }
    upstream.shutdown()


if __name__ == "__main__":
    litellm.suppress_debug_info = True
    found_in, sys.stdout = sys.stdout, sys.stderr  # it prints as it pleases
    for finding in findings([json.loads(line) for line in sys.stdin.buffer]):
        print(json.dumps(finding), file=found_in)
