"""What requests need, by the labelled ones of the corpus, and how well their size is estimated."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

from turnout.engine import wire
from turnout.engine.classify import Feature
from turnout.engine.wire import sizes

HOUSE: Final = Path(__file__).parents[1]
REQUESTS: Final = HOUSE / "tests" / "corpus" / "requests"
ALWAYS: Final = {"endpoint", "role"}


def _benchmark() -> ModuleType:
    """The script that measures the estimate, so that there is one way of measuring."""
    spec = importlib.util.spec_from_file_location("sizes_benchmark", HOUSE / "benchmarks" / "sizes.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


benchmark: Final = _benchmark()
MEASURED: Final = benchmark.read()
LABELLED: Final[list[dict[str, Any]]] = [
    json.loads(line) for line in (REQUESTS / "needs.jsonl").read_text("utf-8").splitlines()
]


# -- what a request needs


@pytest.mark.parametrize("line", LABELLED, ids=lambda line: f"{line['format']}: {line['why']}")
def test_a_request_needs_what_it_uses_and_nothing_else(line: dict[str, Any]) -> None:
    form = wire.of(line["format"])
    assert form.read(line["body"]).needs == {*line["needs"]} | ALWAYS
    assert form.read(line["body"]).tokens() >= 0


def test_every_feature_is_needed_by_some_request_of_the_corpus_that_names_it() -> None:
    named = {need for line in LABELLED for need in line["needs"]}
    assert named == {*Feature} - {Feature.OTHER, *ALWAYS}


def test_the_labelled_requests_are_of_every_format_and_none_stands_there_twice() -> None:
    assert {line["format"] for line in LABELLED} == {*wire.FORMATS}
    assert all(line.keys() == {"format", "why", "body", "needs"} and line["why"] for line in LABELLED)
    assert len({json.dumps([line["format"], line["body"]]) for line in LABELLED}) == len(LABELLED)


# -- how large it is


@pytest.mark.parametrize("error", list(benchmark.errors(MEASURED)), ids=lambda e: f"{e.category}, {e.part}")
def test_the_estimate_is_as_good_as_it_is_said_to_be(error: Any) -> None:
    assert not error.beyond, error


def test_four_characters_a_token_would_not_be_as_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "text", lambda text: len(text) / 4)
    beyond = {error.category for error in benchmark.errors(MEASURED) if error.beyond}
    assert {"code", "json_compact", "russian", "chinese", "japanese", "korean"} <= beyond


def test_each_category_has_texts_of_both_parts_counted_by_the_same_tokenizers() -> None:
    for category in {line.category for line in MEASURED}:
        texts = [line for line in MEASURED if line.category == category]
        assert {line.part for line in texts} == {"fit", "check"}
        assert category in benchmark.UNLIMITED or len(texts) >= 6
    assert len({tuple(line.counts) for line in MEASURED}) == 1
    assert len(MEASURED[0].counts) >= 3


def mixed(characters: int) -> str:
    """Texts of every category, one after the other, again and again."""
    kinds = dict.fromkeys(line.category for line in MEASURED)
    texts = [[line.text for line in MEASURED if line.category == kind] for kind in kinds]
    text, time = "", 0
    while len(text) < characters:
        text += "\n".join(kind[time % len(kind)] for kind in texts)
        time += 1
    return text[:characters]


@pytest.mark.parametrize("characters", [5_000, 20_000, 100_000])
def test_a_long_text_that_is_read_in_samples_is_estimated_like_its_parts(characters: int) -> None:
    text = mixed(characters)
    parts = [text[at : at + 1_000] for at in range(0, len(text), 1_000)]
    assert sizes.text(text) == pytest.approx(sum(map(sizes.text, parts)), rel=0.1)


def test_a_text_that_repeats_itself_is_estimated_much_like_one_of_its_lines() -> None:
    for width in range(30, 120):
        line = ("ab,  12.5; " * 12)[: width - 1] + "\n"
        times = 20_000 // width
        assert sizes.text(line * times) == pytest.approx(times * sizes.text(line), rel=0.4), width


def test_a_text_that_no_space_breaks_costs_more_than_words_do() -> None:
    assert sizes.text("a" * 400) > 1.5 * sizes.text("word " * 80)


def test_an_estimate_grows_with_its_text() -> None:
    estimates = [sizes.text(mixed(length)) for length in (0, 1, 10, 100, 1_000, 10_000)]
    assert estimates == sorted(estimates)
    assert estimates[0] == 0


def test_blank_space_in_the_places_that_are_looked_at_makes_no_text_less_than_nothing() -> None:
    blank, word = " " * 600, "x" * 700
    assert sizes.text("\n".join((blank, word, blank, word, blank, word, blank))) > 0
    assert sizes.text("\n" + " " * 5_000) > 0


def test_a_letter_of_vietnamese_weighs_as_others_with_accents_do() -> None:
    assert sizes.text("\u1ebf" * 10) == sizes.text("\u0142" * 10) > sizes.text("\u10d0" * 10)


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\0", "🪿" * 2_000, "\U0010ffff"])
def test_whatever_a_string_can_hold_has_an_estimate(text: str) -> None:
    assert 0 <= sizes.text(text) <= 8 * len(text)
