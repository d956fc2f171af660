"""How well the labelled replies are read, and that each of them is one that can be learnt from."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, Final

import pytest
from corpus import FILES, REPORTS, SAMPLE, benchmark, read, written

from turnout.engine.classify import Feature, codes, providers, settings
from turnout.engine.classify.lexicon import listed
from turnout.engine.classify.reading import TABLES
from turnout.engine.credentials import hidden
from turnout.engine.replies import kept
from turnout.machines.vocabulary import ErrorKind as Kind

READ_SAMPLE: Final = read(SAMPLE)
READ_REPORTS: Final = read(REPORTS)
READ_ALL: Final = [*READ_SAMPLE, *READ_REPORTS]
MANY: Final = 20
"""From this many labelled replies on, a kind's F1 means something."""


def misread(reads: list[Any]) -> list[str]:
    return [
        f"{line.id}: {line.label} read as {verdict.kind}"
        for line, verdict in reads
        if verdict.kind is not line.label
    ]


def wrong_features(reads: list[Any]) -> dict[str, str]:
    return {
        line.id: f"{' '.join(sorted(line.features))} read as {' '.join(verdict.features) or 'none'}"
        for line, verdict in reads
        if line.label is Kind.CAPABILITY and line.features is not None
        if sorted(line.features) != sorted(verdict.features)
    }


# -- the sample


def test_the_kinds_of_the_sample_are_right() -> None:
    wrong = misread(READ_SAMPLE)
    assert len(wrong) <= 0.02 * len(READ_SAMPLE), wrong


@pytest.mark.parametrize("kind", Kind)
def test_each_kind_of_the_sample_is_told_from_the_others(kind: Kind) -> None:
    score = benchmark.score(benchmark.confusion(READ_SAMPLE), kind)
    wrong = [text for text in misread(READ_SAMPLE) if kind in text]
    if score.n >= MANY:
        assert score.f1 >= 0.95, wrong
    else:
        assert score.n - score.right <= 1, wrong


def test_nothing_of_the_sample_is_remembered_that_should_not_be() -> None:
    assert [read.line.id for read in benchmark.false_evictions(READ_SAMPLE)] == []


def test_the_features_of_the_sample_are_exact() -> None:
    assert wrong_features(READ_SAMPLE) == {}


def test_the_parameters_of_the_sample_are_named() -> None:
    right = benchmark.params_right(READ_SAMPLE)
    assert sum(right) >= 0.8 * len(right)


# -- all lines: floors a little below what is reached


def test_the_kinds_of_all_lines_keep_their_floor() -> None:
    wrong = misread(READ_ALL)
    assert len(wrong) <= 0.1 * len(READ_ALL), wrong


def test_the_decisions_of_all_lines_keep_their_floor() -> None:
    wrong = [line.id for line, _ in (read for read in READ_ALL if not read.decision_right)]
    assert len(wrong) <= 0.07 * len(READ_ALL), wrong


def test_of_all_lines_few_are_remembered_that_should_not_be() -> None:
    false = [read.line.id for read in benchmark.false_evictions(READ_ALL)]
    assert len(false) <= 0.01 * len(READ_ALL), false


def test_the_features_of_the_reports_keep_their_floor() -> None:
    labelled = benchmark.features_right(READ_REPORTS)
    wrong = wrong_features(READ_REPORTS)
    assert len(wrong) <= 0.15 * len(labelled), wrong


# -- the evidence

ENTRIES: Final = frozenset(
    {f"{table}: {phrase}" for table, phrases in TABLES.items() for phrase in listed(phrases)}
    | {f"setting: {name}" for name in settings.QUOTED}
    | {
        f"code: {code}"
        for table in (
            *(codes.POLICY, codes.BILLING, codes.VETOES, codes.OVERFLOWS, codes.REFUSALS, codes.MODELS),
            *(codes.LOAD, codes.UNSUPPORTED, codes.WRONG_PART, codes.TOO_LONG),
        )
        for code in table
    }
    | {f"code of {name}: {code}" for name, table in providers.CODES.items() for code in table}
)


def test_the_evidence_names_a_rule_and_where_it_looked() -> None:
    assert [line.id for line, verdict in READ_ALL if not verdict.evidence.rule] == []
    assert [line.id for line, verdict in READ_ALL if not verdict.evidence.field] == []


def test_what_matched_is_an_entry_of_the_tables() -> None:
    matched = {(line.id, entry) for line, verdict in READ_ALL for entry in verdict.evidence.matched}
    assert {(line, entry) for line, entry in matched if entry not in ENTRIES} == set()


# -- the lines

REQUIRED: Final = frozenset(
    {"id", "label", "provider", "format", "transport", "status", "body", "source", "confidence"}
)
OPTIONAL: Final = frozenset({"features", "param", "headers", "event", "note", "tags"})
FORMATS: Final = frozenset(
    {"openai_chat", "openai_responses", "anthropic_messages", "gemini", "bedrock", "ollama", "other"}
)
TRANSPORTS: Final = frozenset({"http", "http_200_body", "sse_event"})
CONFIDENCES: Final = frozenset({"high", "medium", "low"})
SOURCES: Final = frozenset({"recalled", "public source code", "own server"})
TAGS: Final = frozenset({"hard_negative", "wrapped", "echo", "debatable", "recalled", "easy"})


def is_optional_right(line: dict[str, Any]) -> bool:
    headers, event = line.get("headers", {}), line.get("event")
    return (
        line.keys() <= REQUIRED | OPTIONAL
        and all(isinstance(said, str) and name == name.lower() for name, said in headers.items())
        and (event is None or line["transport"] == "sse_event")
        and set(line.get("tags", ())) <= TAGS
    )


WELL_FORMED: Final = {
    "it has every field that is asked for": lambda line: line.keys() >= REQUIRED,
    "its other fields are known and make sense": is_optional_right,
    "its kind is one of the nine": lambda line: line["label"] in set(Kind),
    "its features are those of a capability": lambda line: (
        "features" not in line
        or (line["label"] == Kind.CAPABILITY and line["features"] and set(line["features"]) <= set(Feature))
    ),
    "its format is known": lambda line: line["format"] in FORMATS,
    "its transport is known": lambda line: line["transport"] in TRANSPORTS,
    "its status is one, and 200 where the error came late": lambda line: (
        type(line["status"]) is int and (400 <= line["status"] <= 599) is (line["transport"] == "http")
    ),
    "its body is text as it was sent": lambda line: isinstance(line["body"], str),
    "its source is an address, or one of the words for there being none": lambda line: (
        line["source"].startswith(("https://", "http://")) or line["source"] in SOURCES
    ),
    "its confidence is one": lambda line: line["confidence"] in CONFIDENCES,
    "it holds nothing that looks like a credential": lambda line: not credential_in(line),
    "it is read as captures are": lambda line: kept(json.dumps(line).encode()).id == line["id"],
}


def credential_in(value: Any) -> bool:
    """Whether any text of a line looks like a credential, of JSON within a string as well."""
    if isinstance(value, dict | list):
        return any(map(credential_in, value.values() if isinstance(value, dict) else value))
    return isinstance(value, str) and hidden(value) != value


@pytest.mark.parametrize("what", list(WELL_FORMED))
@pytest.mark.parametrize("name", FILES)
def test_every_line_is_well_formed(name: str, what: str) -> None:
    assert [line["id"] for line in written(name) if not WELL_FORMED[what](line)] == []


def test_no_two_lines_have_one_id() -> None:
    ids = Counter(line["id"] for name in FILES for line in written(name))
    assert [name for name, count in ids.items() if count > 1] == []


def test_no_reply_stands_there_twice() -> None:
    seen = Counter((line.body, line.status, line.provider, line.event) for line in (*SAMPLE, *REPORTS))
    assert [body for (body, *_), count in seen.items() if count > 1 and body] == []


def test_a_key_in_a_line_would_be_seen() -> None:
    assert credential_in({"body": ["sk-proj-" + "4f" * 20]})
    assert not credential_in({"body": ["sk-example"]})
