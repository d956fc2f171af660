"""How well failed replies are read: labelled ones, those of a provider not met before, and by a peer.

    python benchmarks/classify.py [--corpus FILE ...] [--check] [--compare]

The labelled replies are `tests/corpus/*.jsonl` unless files are named. A *kind* is right if it
is the label; a *decision* is right if the default policy gives the same reason for both. A false
eviction is a reply that is read as `context_window` or `capability` and is neither.

**Leave-provider-out** estimates how the reading carries over to a provider that nobody has seen.
An entry of the tables is supported by the families of the providers whose replies it decides.
When the replies of one family are read, every entry that it alone supports is taken out.

With `--check` the exit status is 1 if a figure is below its floor. Times are printed and never
checked; their ratio to decoding the same bodies holds across machines.

`--compare` makes an environment for LiteLLM in the cache folder and gives it the same replies.
Where its taxonomy is coarser than ours, it gets the benefit of the doubt:

- each of its classes counts as right for every kind of its row in `PEER_KINDS`; a `BadRequestError`
  is right for two kinds, a `RateLimitError` for spent money too, an `APIError` by its status;
- it reads each reply twice, over its own client and by its mapping alone, and the better reading
  counts: right if either is, a false overflow only if both are, missed only if both miss it;
- it has no class for a capability, so there is a second figure without those replies;
- a decision is only whether its router asks the next target; that it remembers nothing is not held
  against it.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import subprocess
import sys
import venv
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from typing import NamedTuple

import msgspec

from turnout.engine.classify import Evidence, Reply, Verdict, classify
from turnout.engine.classify.reading import Reader
from turnout.engine.policy import DEFAULT, DEFAULT_POLICY, Action
from turnout.engine.replies import kept
from turnout.machines.vocabulary import ErrorKind as Kind
from turnout.machines.vocabulary import RoutingFallbackReason as Reason

HERE = Path(__file__).parent
CORPUS = HERE.parent / "tests" / "corpus"
NOON = 1_767_268_800.0
"""2026-01-01, 12:00:00 UTC, in seconds since 1970."""
REPEATS = 20
"""How often each reply is read for its time."""

SAMPLE = "sample.jsonl"
"""The file that no change may read worse: its floors are strict."""
SAMPLE_KINDS_FLOOR = 0.98
F1_FLOOR = 0.95
KINDS_FLOOR = 0.90
DECISIONS_FLOOR = 0.93
FALSE_EVICTIONS_CEILING = 0.01
"""Of all lines: many were taken up because they had been misread, and some of their labels are debatable."""
MANY = 20
"""From this many labelled replies on a kind's F1 means something; of fewer, one may be misread."""
LEFT_OUT_KINDS_FLOOR = 0.80
LEFT_OUT_DECISIONS_FLOOR = 0.88

FAMILIES: Mapping[str, str] = {
    "openai": """openai openai_codex openai_codex_backend chatgpt_backend codex_proxy codex_tools_proxy
        chatgpt2api_proxy""",
    "anthropic": "anthropic anthropic_proxy claude_web claude2api_proxy",
    "google": """gemini vertex gemini_code_assist gemini_openai_compat google_iap google_cloud_lb vertex_proxy
        gemini_cli_proxy gemini_web2api_proxy""",
    "amazon": "bedrock bedrock_gateway sagemaker aws_api_gateway aws_cloudfront",
    "azure": "azure azure_apim azure_apim_gateway azure_foundry azure_openai_proxy",
    "github": "github_copilot github_models copilot_api_proxy",
    "huggingface": "huggingface huggingface_tgi huggingface_router huggingface_inference",
    "cloudflare": "cloudflare cloudflare_workers_ai cloudflare_ai_gateway cloudflare_edge",
    "alibaba": "dashscope qwen_web_proxy",
    "baidu": "baidu_qianfan qianfan",
    "tencent": "tencent_hunyuan tencent_codebuddy",
    "iflytek": "iflytek_spark spark",
    "zai": "zai zai_web_proxy",
    "deepseek": "deepseek deepseek_compatible",
    "xai": "xai grok_cli grok_cli_proxy",
    "databricks": "databricks mlflow_gateway",
    "vercel": "vercel vercel_ai_gateway v0_vercel",
    "cursor": "cursor_backend cursor_web_proxy",
    "vllm": "vllm runpod_vllm",
    "llama.cpp": "llama.cpp llama_cpp",
    "lmstudio": "lmstudio lm_studio",
    "ollama": "ollama ollama_cloud",
    "one_api": "one_api_proxy new_api_proxy",
    "9router": "9router 9router_proxy omniroute_proxy",
    "opengateway": "opengateway gitlawb_opengateway",
    "open_webui": "open_webui open-webui",
    "free_claude_code": "free_claude_code free_claude_code_proxy",
    "kong": "kong kong_gateway",
    "envoy": "envoy_proxy envoy_ai_gateway",
}
"""Providers of one vendor or of one code base, forks and proxies named for one vendor included.

Any other provider is its own family. Azure is not OpenAI here, nor is Bedrock Anthropic: their
gateways word errors of their own, and what they pass on of the model's vendor is what a provider
not met before would pass on as well.
"""
_FAMILY_OF = {provider: family for family, names in FAMILIES.items() for provider in names.split()}

PEER = "litellm==1.110.2"
_FAILED = frozenset({Kind.UNAVAILABLE})
_REFUSED = frozenset({Kind.CALLER_ERROR, Kind.PARAMETER_REJECT})
PEER_KINDS: Mapping[str, frozenset[Kind]] = {
    "ContextWindowExceededError": frozenset({Kind.CONTEXT_WINDOW}),
    "APIError 413": frozenset({Kind.CONTEXT_WINDOW}),
    "ContentPolicyViolationError": frozenset({Kind.CONTENT_POLICY}),
    "content_filter": frozenset({Kind.CONTENT_POLICY}),
    "AuthenticationError": frozenset({Kind.AUTH}),
    "PermissionDeniedError": frozenset({Kind.AUTH}),
    "APIError 403": frozenset({Kind.AUTH}),
    "NotFoundError": frozenset({Kind.MODEL_NOT_FOUND}),
    "PaymentRequiredError": frozenset({Kind.QUOTA_OR_BILLING}),
    "APIError 402": frozenset({Kind.QUOTA_OR_BILLING}),
    "RateLimitError": frozenset({Kind.UNAVAILABLE, Kind.QUOTA_OR_BILLING}),
    "BadRequestError": _REFUSED,
    "UnprocessableEntityError": _REFUSED,
    "UnsupportedParamsError": _REFUSED,
    "APIError 422": _REFUSED,
    "Timeout": _FAILED,
    "ServiceUnavailableError": _FAILED,
    "InternalServerError": _FAILED,
    "BadGatewayError": _FAILED,
    "APIConnectionError": _FAILED,
    "APIError": _FAILED,
}
"""What each class of LiteLLM is right for. An answer that says it was filtered is right as well.

Any other answer that it makes of a failed reply is right for nothing.
"""


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """One labelled reply."""

    id: str
    label: Kind
    provider: str
    format: str
    transport: str
    status: int
    body: str
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    event: str = ""
    features: tuple[str, ...] | None = None
    param: str | None = None

    @property
    def reply(self) -> Reply:
        return kept(msgspec.json.encode(self)).reply

    @property
    def reason(self) -> Reason | None:
        """What a turn should do with it, by the default policy."""
        said = Verdict(kind=self.label, evidence=Evidence("label"), status=self.status)
        return DEFAULT_POLICY.reason(said)


class Read(NamedTuple):
    """A labelled reply and its verdict."""

    line: Line
    verdict: Verdict

    @property
    def kind_right(self) -> bool:
        return self.verdict.kind is self.line.label

    @property
    def decision_right(self) -> bool:
        return DEFAULT_POLICY.reason(self.verdict) is self.line.reason


class Score(NamedTuple):
    """How one kind is read."""

    n: int
    right: int
    read: int
    """How many replies, of whatever label, were read as it."""

    @property
    def precision(self) -> float:
        return self.right / self.read if self.read else 0.0

    @property
    def recall(self) -> float:
        return self.right / self.n if self.n else 0.0

    @property
    def f1(self) -> float:
        return 2 * self.right / (self.n + self.read) if self.right else 0.0


class Finding(msgspec.Struct, frozen=True):
    """What the peer made of one reply: the classes that it raised, and whether its router moved on."""

    wire: str
    mapped: str
    moves: bool

    def says(self, kind: Kind) -> tuple[bool, bool]:
        """Whether each of its two readings is right for this kind."""
        wire, mapped = (kind in PEER_KINDS.get(name, ()) for name in (self.wire, self.mapped))
        return wire, mapped


def read_at_noon(reply: Reply) -> Verdict:
    return classify(reply, now=NOON)


# -- the figures


def share(right: Iterable[bool]) -> float:
    """The share of what is true, 0 of nothing."""
    told = list(right)
    return sum(told) / len(told) if told else 0.0


def confusion(reads: Sequence[Read]) -> Counter[tuple[Kind, Kind]]:
    """How often a label (first) was read as a kind (second)."""
    return Counter((line.label, verdict.kind) for line, verdict in reads)


def score(pairs: Mapping[tuple[Kind, Kind], int], kind: Kind) -> Score:
    return Score(
        n=sum(count for (label, _), count in pairs.items() if label is kind),
        right=pairs.get((kind, kind), 0),
        read=sum(count for (_, read), count in pairs.items() if read is kind),
    )


def evicts(kind: Kind) -> bool:
    return DEFAULT[kind] is Action.EVICT


def false_evictions(reads: Sequence[Read]) -> list[Read]:
    return [read for read in reads if evicts(read.verdict.kind) and not evicts(read.line.label)]


def missed_evictions(reads: Sequence[Read]) -> list[Read]:
    return [read for read in reads if evicts(read.line.label) and not evicts(read.verdict.kind)]


def features_right(reads: Sequence[Read]) -> list[bool]:
    """One for each capability whose features are labelled."""
    return [
        set(line.features) == set(verdict.features)
        for line, verdict in reads
        if line.label is Kind.CAPABILITY and line.features is not None
    ]


def params_right(reads: Sequence[Read]) -> list[bool]:
    """One for each reply whose parameter is labelled; the spelling (camelCase, brackets) is free."""
    return [_letters(line.param) == _letters(verdict.param) for line, verdict in reads if line.param]


def _letters(param: str) -> str:
    return re.sub(r"[^a-z0-9]", "", param.lower())


# -- leave-provider-out


def family(line: Line) -> str:
    return _FAMILY_OF.get(line.provider, line.provider)


def only_support(reads: Sequence[Read]) -> dict[str, frozenset[str]]:
    """For each family, the entries that it alone supports."""
    support: defaultdict[str, set[str]] = defaultdict(set)
    for line, verdict in reads:
        for entry in verdict.evidence.matched:
            support[entry].add(family(line))
    return {
        alone: frozenset(entry for entry, families in support.items() if families == {alone})
        for alone in {family(line) for line, _ in reads}
    }


def left_out(
    reads: Sequence[Read], reader: Callable[[frozenset[str]], Callable[[Reply], Verdict]]
) -> list[Read]:
    """Every reply, read without the entries that only its own family supports.

    Args:
        reads: the readings by all entries.
        reader: what reads without the named entries.
    """
    readers = {alone: reader(entries) for alone, entries in only_support(reads).items()}
    return [Read(line, readers[family(line)](line.reply)) for line, _ in reads]


def reader_without(entries: frozenset[str]) -> Callable[[Reply], Verdict]:
    reader = Reader(without=entries)
    return lambda reply: reader.classify(reply, now=NOON)


# -- the time


class Times(NamedTuple):
    """Of one reading, in microseconds."""

    median: float
    p95: float
    ratio: float
    """The median, in medians of decoding the same body as JSON."""


def measure(replies: Sequence[Reply]) -> Times:
    """Both sides in one run and in turns, so that whatever disturbs one disturbs the other."""
    ours: list[list[int]] = [[] for _ in replies]
    floor: list[list[int]] = [[] for _ in replies]
    gc.disable()
    for _ in range(REPEATS):
        for reply, our_times, floor_times in zip(replies, ours, floor, strict=True):
            our_times.append(spent(read_at_noon, reply))
            floor_times.append(spent(decoded, reply))
    gc.enable()
    each = sorted(median(times) / 1000 for times in ours)
    floors = [median(times) / 1000 for times in floor]
    return Times(median(each), each[len(each) * 95 // 100], median(each) / median(floors))


def spent(work: Callable[[Reply], object], reply: Reply) -> int:
    began = perf_counter_ns()
    work(reply)
    return perf_counter_ns() - began


def decoded(reply: Reply) -> object:
    try:
        return json.loads(reply.body)
    except ValueError:
        return None


# -- the peer


def ask_peer(lines: Sequence[Line]) -> list[Finding]:
    """What LiteLLM makes of the replies, in an environment of its own that is made once."""
    python = peer_python()
    sent = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
    ran = subprocess.run(
        [python, HERE / "peers" / "read_by_litellm.py"], input=sent, capture_output=True, check=False
    )
    if ran.returncode:
        sys.exit(f"{PEER} failed:\n{ran.stderr.decode()}")
    return [msgspec.json.decode(line, type=Finding) for line in ran.stdout.splitlines()]


def peer_python() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = cache / "turnout-benchmarks" / PEER.replace("==", "-")
    python = home / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not python.exists():
        venv.create(home, with_pip=True)
    # where it is installed already this asks no index
    pip = subprocess.run(
        [python, "-m", "pip", "install", "-q", PEER], capture_output=True, text=True, check=False
    )
    if pip.returncode:
        sys.exit(f"{PEER} could not be installed in {home}:\n{pip.stderr}")
    return python


def compared(reads: Sequence[Read], findings: Sequence[Finding]) -> list[tuple[str, str, str]]:
    """Rows of figures: what, ours, the peer's."""
    both = list(zip(reads, findings, strict=True))
    others = [(read, found) for read, found in both if read.line.label is not Kind.CAPABILITY]
    too_long = Kind.CONTEXT_WINDOW
    fits = [(read, found) for read, found in both if read.line.label is not too_long]
    too_large = [(read, found) for read, found in both if read.line.label is too_long]

    def shares(name: str, ours: Iterable[bool], theirs: Iterable[bool]) -> tuple[str, str, str]:
        return name, f"{share(ours):.3f}", f"{share(theirs):.3f}"

    def counts(name: str, ours: Iterable[bool], theirs: Iterable[bool]) -> tuple[str, str, str]:
        return name, str(sum(ours)), str(sum(theirs))

    return [
        shares(
            "kinds right",
            (read.kind_right for read, _ in both),
            (any(found.says(read.line.label)) for read, found in both),
        ),
        shares(
            "  without capability",
            (read.kind_right for read, _ in others),
            (any(found.says(read.line.label)) for read, found in others),
        ),
        counts(
            "false overflows",
            (read.verdict.kind is too_long for read, _ in fits),
            (all(found.says(too_long)) for _, found in fits),
        ),
        counts(
            "missed overflows",
            (read.verdict.kind is not too_long for read, _ in too_large),
            (not any(found.says(too_long)) for _, found in too_large),
        ),
        shares(
            "next asked or not",
            ((DEFAULT_POLICY.reason(read.verdict) is None) is (read.line.reason is None) for read, _ in both),
            (found.moves is (read.line.reason is not None) for read, found in both),
        ),
    ]


# -- the command


def corpus(paths: Sequence[Path]) -> list[Line]:
    """The labelled replies of these files, in order."""
    lines = []
    for path in paths:
        for number, text in enumerate(path.read_bytes().splitlines(), start=1):
            try:
                lines.append(msgspec.json.decode(text, type=Line))
            except msgspec.MsgspecError as wrong:
                sys.exit(f"{path}:{number}: {wrong}")
    return lines


def below_floors(reads: Sequence[Read], out: Sequence[Read], sample: frozenset[str]) -> list[str]:
    """Every figure that is below its floor, in words.

    Args:
        reads: every line, as it is read.
        out: the same, leave-provider-out.
        sample: the ids of the lines whose floors are strict.
    """
    of_sample = [read for read in reads if read.line.id in sample]
    below = [
        f"{name}: {got:.3f}, at least {floor}"
        for name, got, floor in (
            ("kinds right", share(read.kind_right for read in reads), KINDS_FLOOR),
            ("decisions right", share(read.decision_right for read in reads), DECISIONS_FLOOR),
            ("kinds right, leave-provider-out", share(read.kind_right for read in out), LEFT_OUT_KINDS_FLOOR),
            (
                "decisions right, leave-provider-out",
                share(read.decision_right for read in out),
                LEFT_OUT_DECISIONS_FLOOR,
            ),
        )
        if got < floor
    ]
    if len(false_evictions(reads)) > FALSE_EVICTIONS_CEILING * len(reads):
        below.append(f"false evictions: {len(false_evictions(reads))}, at most {FALSE_EVICTIONS_CEILING:.0%}")
    return below + _below_strict_floors(of_sample)


def _below_strict_floors(reads: Sequence[Read]) -> list[str]:
    if not reads:
        return []
    pairs = confusion(reads)
    below = []
    if (got := share(read.kind_right for read in reads)) < SAMPLE_KINDS_FLOOR:
        below.append(f"{SAMPLE}: kinds right: {got:.3f}, at least {SAMPLE_KINDS_FLOOR}")
    for kind in Kind:
        of_kind = score(pairs, kind)
        if of_kind.n >= MANY and of_kind.f1 < F1_FLOOR:
            below.append(f"{SAMPLE}: F1 of {kind}: {of_kind.f1:.3f}, at least {F1_FLOOR}")
        elif of_kind.n < MANY and of_kind.n - of_kind.right > 1:
            below.append(f"{SAMPLE}: {kind}: {of_kind.n - of_kind.right} of {of_kind.n} misread, at most 1")
    if false := false_evictions(reads):
        below.append(f"{SAMPLE}: false evictions: {', '.join(read.line.id for read in false)}, at most none")
    return below


def tell_reading(reads: Sequence[Read]) -> None:
    pairs = confusion(reads)
    print(f"{'':18}{'n':>6}{'precision':>11}{'recall':>8}{'F1':>8}")
    for kind in Kind:
        of_kind = score(pairs, kind)
        print(f"{kind:18}{of_kind.n:6}{of_kind.precision:11.3f}{of_kind.recall:8.3f}{of_kind.f1:8.3f}")
    print(f"\n{'label, read as':18}" + "".join(f"{kind[:8]:>10}" for kind in Kind))
    for label in Kind:
        print(f"{label:18}" + "".join(f"{pairs[label, kind] or '.':>10}" for kind in Kind))
    for line, verdict in reads:
        if verdict.kind is not line.label:
            print(f"  {line.id} ({line.provider}): {line.label} read as {verdict.kind}")
    false = false_evictions(reads)
    print(f"\n{'kinds right':20}{share(read.kind_right for read in reads):8.3f}")
    print(f"{'decisions right':20}{share(read.decision_right for read in reads):8.3f}")
    print(f"{'false evictions':20}{len(false):8}    ({len(false) / len(reads):.1%} of the replies)")
    print(f"{'missed evictions':20}{len(missed_evictions(reads)):8}")
    for name, right in (("features", features_right(reads)), ("params", params_right(reads))):
        print(f"{f'{name} right':20}{sum(right):8}    of {len(right)}")


def tell_left_out(reads: Sequence[Read], out: Sequence[Read]) -> None:
    lost = [
        (before, after)
        for before, after in zip(reads, out, strict=True)
        if before.kind_right and not after.kind_right
    ]
    moved = sum(
        before.decision_right and not after.decision_right for before, after in zip(reads, out, strict=True)
    )
    alone = sum(len(entries) for entries in only_support(reads).values())
    print(f"\nleave-provider-out ({alone} entries have one family only)")
    print(f"{'kinds right':20}{share(read.kind_right for read in out):8.3f}    ({len(lost)} lost)")
    print(f"{'decisions right':20}{share(read.decision_right for read in out):8.3f}    ({moved} lost)")
    for before, after in lost:
        entries = ", ".join(before.verdict.evidence.matched)
        print(f"  {before.line.id} ({before.line.provider}): read as {after.verdict.kind} without {entries}")


def tell_peer(reads: Sequence[Read]) -> None:
    rows = compared(reads, ask_peer([read.line for read in reads]))
    print(f"\n{'the same replies':24}{'turnout':>10}    {PEER}")
    for name, ours, theirs in rows:
        print(f"{name:24}{ours:>10}{theirs:>12}")
    print("its classes, and the kinds that they count as right for:")
    for name, kinds in PEER_KINDS.items():
        print(f"  {name:28}{', '.join(sorted(kinds))}")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="How well failed replies are read, on labelled replies.")
    parser.add_argument(
        "--corpus", nargs="+", type=Path, metavar="FILE", help="labelled replies, a JSON a line"
    )
    parser.add_argument("--check", action="store_true", help="exit with 1 if a figure is below its floor")
    parser.add_argument("--compare", action="store_true", help=f"give the same replies to {PEER}")
    asked = parser.parse_args(arguments)
    paths = asked.corpus or sorted(CORPUS.glob("*.jsonl"))
    lines = corpus(paths)
    sample = frozenset(line.id for line in corpus([path for path in paths if path.name == SAMPLE]))
    if not lines:
        sys.exit(f"no labelled replies in {CORPUS}: name files with --corpus")
    reads = [Read(line, read_at_noon(line.reply)) for line in lines]
    out = left_out(reads, reader_without)
    print(f"{len(lines)} labelled replies of {len({family(line) for line in lines})} families of providers\n")
    tell_reading(reads)
    for name, timed in (("of the sample", [line for line in lines if line.id in sample]), ("of all", lines)):
        if timed:
            times = measure([line.reply for line in timed])
            print(
                f"one reading, {name:14}{times.median:6.1f} us in the median, p95 {times.p95:.1f} us,"
                f" {times.ratio:.1f} times json.loads of the body"
            )
    tell_left_out(reads, out)
    if asked.compare:
        tell_peer(reads)
    below = below_floors(reads, out, sample) if asked.check else []
    for figure in below:
        print(f"below its floor: {figure}")
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
