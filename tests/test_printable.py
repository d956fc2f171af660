"""What is not ours is shown on one line, cut, and steers no terminal."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnout.engine.printable import LONGEST, named, printable, printable_json, shortened

ANYTHING = st.text(st.characters(exclude_categories=()))


@pytest.mark.parametrize("text", ["", "two words", "caf\u00e9", "\u6f22\u5b57", "back\\slash", "\U0001f600"])
def test_what_can_be_shown_is_shown_as_it_is(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31m", r"\x1b[31m"),
        ("a\nb\rc\td", r"a\nb\rc\td"),
        ("\x9b\x7f", r"\x9b\x7f"),
        ("\u202eright to left\u2066", r"\u202eright to left\u2066"),
        ("line\u2028end", r"line\u2028end"),
        ("\udcff", r"\udcff"),
        ("\U000e0001", r"\U000e0001"),
    ],
)
def test_what_would_steer_a_terminal_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(ANYTHING)
def test_whatever_a_text_holds_it_is_one_line_that_any_output_takes(text: str) -> None:
    shown = printable(text)
    assert {unicodedata.category(char) for char in shown} & {"Cc", "Cf", "Cs", "Zl", "Zp"} == set()
    shown.encode()


@given(st.text())
def test_json_means_what_it_meant(text: str) -> None:
    shown = printable_json(json.dumps({"text": text}, ensure_ascii=False))
    assert shown.isprintable()
    assert json.loads(shown) == {"text": text}


@given(ANYTHING)
def test_a_text_is_cut_only_if_it_is_too_long(text: str) -> None:
    assert shortened(text) == text or len(text) > LONGEST == len(shortened(text))
    assert shortened("a" * LONGEST + text).startswith("a" * (LONGEST - 1))


@pytest.mark.parametrize("word", ["small", "openai/gpt-4o-mini", "a" * 40, "2024-10-21"])
def test_a_word_that_may_have_been_meant_as_a_name_is_quoted(word: str) -> None:
    assert named(word) == f"'{word}'"


@pytest.mark.parametrize(
    "value",
    ["", "two words", "a" * 41, "caf\u00e9", "x\n", "3f9d8e7a6b5c4d2e", "org-9AbCdEfGhIjKlMnOp", 3, None],
)
def test_what_may_be_a_key_or_is_no_word_is_not(value: object) -> None:
    assert named(value) == "a value"
