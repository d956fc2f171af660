"""How phrases are found in a sentence: by their stems, with gaps, in one walk."""

from __future__ import annotations

import pytest

from turnout.engine.classify.concepts import FEATURES, SAYINGS, SUBJECTS
from turnout.engine.classify.lexicon import Lexicon, listed
from turnout.engine.classify.reading import TABLES, Reader
from turnout.engine.classify.text import MARKS, sentences, words

SAME = {
    "exceed": "exceed exceeds exceeded exceeding",
    "support": "support supports supported supporting",
    "require": "require requires required requiring",
    "deny": "deny denies denied",
    "match": "match matches matched matching",
    "truncate": "truncate truncates truncated truncating",
    "be": "is are was were been being",
    "image": "image images",
    "modality": "modality modalities",
    "need": "need needs needed",
    "flag": "flag flags flagged",
}


@pytest.mark.parametrize("forms", SAME.values(), ids=SAME)
def test_the_forms_of_a_word_are_one(forms: str) -> None:
    assert len({tuple(words(form)) for form in forms.split()}) == 1


JOINED = [
    "tool choice",
    "tool_choice",
    "tool-choice",
    "toolChoice",
    "Tool Choice",
    "TOOL CHOICE",
    "`tool_choice`",
]


@pytest.mark.parametrize("spelt", JOINED)
def test_the_words_of_a_name_are_found_however_it_is_joined(spelt: str) -> None:
    assert words(spelt) == words("tool choice")


NEGATIONS = ["does not support", "doesn't support", "doesn\u2019t support", "DOESN'T SUPPORT"]


@pytest.mark.parametrize("spelt", NEGATIONS)
def test_a_negation_stands_alone(spelt: str) -> None:
    assert words(spelt)[-2:] == ["not", "support"]


def test_names_quantities_and_paths_are_no_words() -> None:
    assert words("gpt-4o-vision-preview has 128,000 tokens at /v1/chat/completions") == (
        ["@", "have", "#", "token", "at", "~"]
    )


def test_a_chinese_phrase_is_found_within_a_sentence_without_spaces() -> None:
    assert found("模型不支持图片输入", image="图片", refuses="不支持") == {"image: 图片", "refuses: 不支持"}


def found(
    sentence: str, skipped: str = "nothing at all", without: frozenset[str] = frozenset(), **tables: str
) -> set[str]:
    return set(Lexicon(tables, skipped, without).read(words(sentence)).entries.values())


def test_a_gap_stands_for_up_to_four_words() -> None:
    for between in ("", "yet", "yet been", "yet been made to"):
        assert found(f"images are not {between} supported", refuses="not .. supported")
    assert not found("images are not as of this very day supported", refuses="not .. supported")


def test_the_first_entry_of_a_table_is_told_the_longest_of_those_that_begin_there() -> None:
    tables = {"image": "picture | image", "tools": "tool | tool choice"}
    read = Lexicon(tables, "none at all").read(words("no tool choice, no image, no picture"))
    assert read.first(read.mask) == "tools: tool"
    assert found("image, then picture", **tables) == {"image: image"}


def test_words_that_say_nothing_by_themselves_are_skipped() -> None:
    assert not found("for reasoning models", skipped="reasoning model", reasoning="reasoning")
    assert found("for reasoning", skipped="reasoning model", reasoning="reasoning")


def test_an_entry_can_be_left_out() -> None:
    assert not found("too long", exceeds="too long", without=frozenset({"exceeds: too long"}))


def test_every_phrase_finds_itself() -> None:
    lexicon = Lexicon(TABLES, "no such phrase here at all")
    for name, phrases in TABLES.items():
        for phrase in listed(phrases):
            spelt = phrase.replace("..", " ").split()
            spoken = [word for one in spelt for word in ([one] if one in MARKS else words(one))]
            assert lexicon.read(spoken).mask & lexicon.bits[name], phrase


def test_no_phrase_stands_twice_in_a_table() -> None:
    for phrases in (*FEATURES.values(), *SUBJECTS.values(), *SAYINGS.values()):
        kept = listed(phrases)
        assert len(kept) == len(set(kept))


def test_a_reader_without_an_entry_reads_on_with_the_others() -> None:
    assert Reader(without={"image: image"})


ENDS = {
    "too long. Try again": 2,
    "gpt-3.5 is gone": 1,
    "one line\nAnother line": 2,
    "a wrapped\nline": 1,
    "a paragraph\n\nand another": 2,
    "过长。请缩短": 2,
}


@pytest.mark.parametrize(("message", "count"), ENDS.items())
def test_where_a_sentence_ends(message: str, count: int) -> None:
    assert len(sentences(message)) == count
