"""How the benchmark counts how well failed replies are read."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from turnout.engine.classify import Evidence, Reply, Verdict
from turnout.machines.vocabulary import ErrorKind as Kind

SCRIPT = Path(__file__).parent.parent / "benchmarks" / "classify.py"


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmark_classify", SCRIPT)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # msgspec looks annotations up there
    spec.loader.exec_module(module)
    return module


def labelled(label: Kind, **fields: Any) -> dict[str, Any]:
    line = {"id": "one", "label": label, "provider": "openai", "format": "openai_chat", "transport": "http"}
    return line | {"status": 400, "body": "{}"} | fields


def verdict(kind: Kind, *matched: str, **fields: Any) -> Verdict:
    return Verdict(kind=kind, evidence=Evidence("told", matched=matched), status=400, **fields)


Make = Callable[..., Any]


@pytest.fixture
def read(benchmark: ModuleType) -> Make:
    """A labelled reply and what it was read as."""

    def make(
        label: Kind, kind: Kind, *matched: str, said: dict[str, Any] | None = None, **fields: Any
    ) -> Any:
        return benchmark.Read(
            benchmark.Line(**labelled(label, **fields)), verdict(kind, *matched, **(said or {}))
        )

    return make


def test_a_kind_is_scored_by_what_it_got_missed_and_took(benchmark: ModuleType, read: Make) -> None:
    reads = [
        *[read(Kind.AUTH, Kind.AUTH)] * 3,
        read(Kind.AUTH, Kind.CALLER_ERROR),
        *[read(Kind.UNAVAILABLE, Kind.AUTH)] * 2,
    ]
    auth = benchmark.score(benchmark.confusion(reads), Kind.AUTH)
    assert auth == (4, 3, 5)
    assert (auth.precision, auth.recall, auth.f1) == (3 / 5, 3 / 4, pytest.approx(2 / 3))


def test_a_kind_that_never_occurs_scores_nothing(benchmark: ModuleType, read: Make) -> None:
    nothing = benchmark.score(benchmark.confusion([read(Kind.AUTH, Kind.AUTH)]), Kind.CAPABILITY)
    assert (nothing.precision, nothing.recall, nothing.f1) == (0.0, 0.0, 0.0)


def test_a_wrong_kind_can_be_a_right_decision(benchmark: ModuleType, read: Make) -> None:
    spent = read(Kind.QUOTA_OR_BILLING, Kind.UNAVAILABLE)
    assert (spent.kind_right, spent.decision_right) == (False, True)
    refused = read(Kind.CALLER_ERROR, Kind.CAPABILITY)
    assert (refused.kind_right, refused.decision_right) == (False, False)


def test_a_refused_key_is_decided_by_its_status(read: Make) -> None:
    assert not read(Kind.AUTH, Kind.CALLER_ERROR, status=403).decision_right
    assert read(Kind.AUTH, Kind.CALLER_ERROR, status=401).decision_right


def test_only_what_is_evicted_for_nothing_is_a_false_eviction(benchmark: ModuleType, read: Make) -> None:
    false = read(Kind.CONTENT_POLICY, Kind.CAPABILITY)
    missed = read(Kind.CONTEXT_WINDOW, Kind.CALLER_ERROR)
    mistaken = read(Kind.CONTEXT_WINDOW, Kind.CAPABILITY)
    reads = [false, missed, mistaken, read(Kind.AUTH, Kind.AUTH)]
    assert benchmark.false_evictions(reads) == [false]
    assert benchmark.missed_evictions(reads) == [missed]


def test_features_count_where_they_are_labelled_and_in_any_order(benchmark: ModuleType, read: Make) -> None:
    image = {"features": ("image",)}
    reads = [
        read(
            Kind.CAPABILITY,
            Kind.CAPABILITY,
            said={"features": ("image", "tools")},
            features=("tools", "image"),
        ),
        read(Kind.CAPABILITY, Kind.CAPABILITY, said=image, features=("audio",)),
        read(Kind.CAPABILITY, Kind.CAPABILITY, said=image),
    ]
    assert benchmark.features_right(reads) == [True, False]


def test_a_parameter_may_be_spelled_otherwise(benchmark: ModuleType, read: Make) -> None:
    def named(label: str | None, param: str) -> Any:
        return read(Kind.PARAMETER_REJECT, Kind.PARAMETER_REJECT, said={"param": param}, param=label)

    reads = [named("presence_penalty", "presencePenalty"), named("tools.3.x", "tools[3].x")]
    assert benchmark.params_right([*reads, named("top_p", "top_k"), named(None, "stop")]) == [
        True,
        True,
        False,
    ]


# -- leave-provider-out


def test_an_entry_that_one_family_supports_is_taken_out_for_that_family(
    benchmark: ModuleType, read: Make
) -> None:
    """Gemini and Vertex are one vendor, so that the one must not teach the reading of the other."""
    reads = [
        read(Kind.AUTH, Kind.AUTH, "codes: shared", provider="openai"),
        read(Kind.AUTH, Kind.AUTH, "codes: shared", "codes: google", provider="gemini"),
        read(Kind.AUTH, Kind.AUTH, "codes: google", provider="vertex"),
        read(Kind.AUTH, Kind.AUTH, "codes: groq", provider="groq"),
    ]
    assert benchmark.only_support(reads) == {
        "openai": frozenset(),
        "google": {"codes: google"},
        "groq": {"codes: groq"},
    }


def test_each_reply_is_read_as_if_its_provider_were_unknown(benchmark: ModuleType, read: Make) -> None:
    reads = [
        read(Kind.AUTH, Kind.AUTH, "codes: shared", provider="openai"),
        read(Kind.AUTH, Kind.AUTH, "codes: shared", provider="groq"),
        read(Kind.AUTH, Kind.AUTH, "codes: own", provider="groq", status=403),
    ]

    def reader(without: frozenset[str]) -> Callable[[Reply], Verdict]:
        """Reads a 403 by the entry of one provider, and the others by the entry that two share."""

        def classify(reply: Reply) -> Verdict:
            entry = "codes: own" if reply.status == 403 else "codes: shared"
            return verdict(Kind.CALLER_ERROR if entry in without else Kind.AUTH)

        return classify

    out = benchmark.left_out(reads, reader)
    assert [read.kind_right for read in out] == [True, True, False]


# -- the peer


def rows(
    benchmark: ModuleType, reads: list[Any], *findings: tuple[str, str, bool]
) -> dict[str, tuple[str, str]]:
    found = [benchmark.Finding(*finding) for finding in findings]
    return {name.strip(): (ours, theirs) for name, ours, theirs in benchmark.compared(reads, found)}


def test_the_peer_is_right_if_either_of_its_readings_is(benchmark: ModuleType, read: Make) -> None:
    reads = [read(Kind.QUOTA_OR_BILLING, Kind.AUTH)] * 3
    told = rows(
        benchmark,
        reads,
        ("none", "RateLimitError", True),
        ("APIError 402", "BadRequestError", True),
        ("BadRequestError", "NotFoundError", True),
    )
    assert told["kinds right"] == ("0.000", "0.667")


def test_the_peer_is_not_asked_for_the_class_that_it_has_not(benchmark: ModuleType, read: Make) -> None:
    reads = [read(Kind.CAPABILITY, Kind.CAPABILITY), read(Kind.AUTH, Kind.AUTH)]
    bad, key = (
        ("BadRequestError", "BadRequestError", True),
        ("AuthenticationError", "AuthenticationError", True),
    )
    told = rows(benchmark, reads, bad, key)
    assert told["kinds right"] == ("1.000", "0.500")
    assert told["without capability"] == ("1.000", "1.000")


def test_an_overflow_of_the_peer_is_false_if_both_readings_say_so(benchmark: ModuleType, read: Make) -> None:
    reads = [
        read(Kind.AUTH, Kind.CONTEXT_WINDOW),
        read(Kind.AUTH, Kind.AUTH),
        read(Kind.CONTEXT_WINDOW, Kind.AUTH),
    ]
    overflow, other = "ContextWindowExceededError", "BadRequestError"
    told = rows(benchmark, reads, (overflow, overflow, True), (overflow, other, True), (other, other, True))
    assert told["false overflows"] == ("1", "1")
    assert told["missed overflows"] == ("1", "1")


def test_a_decision_of_the_peer_is_whether_it_asks_the_next_target(benchmark: ModuleType, read: Make) -> None:
    reads = [read(Kind.CALLER_ERROR, Kind.CALLER_ERROR), read(Kind.UNAVAILABLE, Kind.CALLER_ERROR)]
    told = rows(benchmark, reads, ("BadRequestError", "BadRequestError", True), ("Timeout", "Timeout", True))
    assert told["next asked or not"] == ("0.500", "0.500")


# -- the command


def test_perfect_reading_is_below_no_floor(benchmark: ModuleType, read: Make) -> None:
    reads = [read(kind, kind) for kind in Kind]
    assert benchmark.below_floors(reads, reads, frozenset(one.line.id for one in reads)) == []


def test_a_figure_below_its_floor_is_named(benchmark: ModuleType, read: Make) -> None:
    good = [read(Kind.AUTH, Kind.AUTH)] * 30
    reads = [*good, read(Kind.CONTENT_POLICY, Kind.CAPABILITY), *[read(Kind.UNAVAILABLE, Kind.AUTH)] * 4]
    assert figures(benchmark.below_floors(reads, good, frozenset())) == [
        "kinds right",
        "decisions right",
        "false evictions",
    ]
    lost = [*good, *[read(Kind.UNAVAILABLE, Kind.CALLER_ERROR)] * 8]
    assert figures(benchmark.below_floors(good, lost, frozenset())) == [
        "kinds right, leave-provider-out",
        "decisions right, leave-provider-out",
    ]


def test_the_sample_has_floors_of_its_own(benchmark: ModuleType, read: Make) -> None:
    good = [read(Kind.AUTH, Kind.AUTH)] * 300
    reads = [*good, read(Kind.CONTENT_POLICY, Kind.CAPABILITY), *[read(Kind.UNAVAILABLE, Kind.AUTH)] * 4]
    assert benchmark.below_floors([*reads, *good], good, frozenset()) == []
    sample = frozenset(one.line.id for one in reads)
    assert figures(benchmark.below_floors(reads, good, sample)) == [
        "sample.jsonl: unavailable",
        "sample.jsonl: false evictions",
    ]


def figures(below: list[str]) -> list[str]:
    return [told.rpartition(": ")[0] for told in below]


def test_a_line_that_is_no_labelled_reply_is_named(benchmark: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "corpus.jsonl"
    file.write_text(
        json.dumps(labelled(Kind.AUTH)) + "\n" + json.dumps({"id": "two", "label": "rain"}) + "\n"
    )
    with pytest.raises(SystemExit, match=r"corpus\.jsonl:2: .*rain"):
        benchmark.corpus([file])


def test_the_command_tells_every_figure(
    benchmark: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "corpus.jsonl"
    file.write_text(json.dumps(labelled(Kind.AUTH, status=401)) + "\n")
    assert benchmark.main(["--corpus", str(file)]) == 0
    told = capsys.readouterr().out
    for figure in ("kinds right", "decisions right", "false evictions", "one reading", "leave-provider-out"):
        assert figure in told


def test_one_misread_reply_fails_the_check(benchmark: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "corpus.jsonl"
    file.write_text(json.dumps(labelled(Kind.AUTH, status=200, transport="http_200_body")) + "\n")
    assert benchmark.main(["--corpus", str(file), "--check"]) == 1
