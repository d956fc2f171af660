"""How large the texts and parts of a request are, in tokens, without a tokenizer.

A text is weighed by what can be counted fast: its letters, spaces and other characters, and the
scripts that they belong to. In English a word is about one token, however long it is; in other
languages that have its letters a token is a few of them, and accents tell that it is one of those;
in Chinese, Japanese and Korean a character is nearly a token.

The weights are fitted on half of the texts of `tests/corpus/requests/sizes.jsonl`, to some five per
cent above the median of six tokenizers, and a few settled with an eye on the other half as well;
`benchmarks/sizes.py` measures them on both. Where a cost comes from that was not measured, its docstring
says.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from math import ceil
from typing import Final

MESSAGE: Final = 4
"""Tokens around each message: three, and one for its role.

OpenAI's cookbook counts so for its chat models ("How to count tokens with tiktoken"); that others
are near it is a guess.
"""

TOOL: Final = 7
"""Tokens around each tool that is offered: what the same cookbook counts for the start of a function."""

IMAGE: Final = 765
"""Tokens of an image for OpenAI: 85, and 170 for each of the four tiles that 1024 x 1024 pixels make in high
detail, by its vision guide. That an image has this size is a guess; newer models reckon otherwise.
"""

IMAGE_LOW: Final = 85
"""Tokens of an image in low detail, whatever its size, by the same guide."""

AUDIO: Final = 300
"""Tokens of a sound: one for each 100 ms, as OpenAI reckons what users say. That it lasts 30 s is a guess."""

VIDEO: Final = 2_630
"""Tokens of a video: 263 a second, by Gemini's documentation. That it lasts ten seconds is a guess."""

FILE: Final = 4_500
"""Tokens of a file whose text is not in the request: 1,500 to 3,000 a page, by Anthropic's guide to PDFs.

That it has two pages is a guess.
"""

LEAST: Final = 2_048
"""A text of no more characters than these is read in full.

Of one that is not all ASCII a quarter: they take longer to read and differ less. To take a sample
costs as much as to read a text that is not much longer.
"""

SHARE: Final = 8
"""Of a longer text one character in so many is read as well, at even distances.

So whatever it is mixed of is met in the share that it has.
"""

MOST: Final = 8_192
"""About as many characters are read of any text."""

STEPS: Final = (1, 3, 5, 7, 11, 13, 17, 19, 23, 29, 37, 47, 59, 73, 97, 127, 163, 211, 307, 503, 997)
"""The distances at which characters are read: primes, since few things repeat at a multiple of one."""

INDENTED: Final = 4, 256
"""Where indentation is looked for in a long text: in so many pieces, of so many characters each."""

LETTER: Final = 0.08
"""A lower-case ASCII letter of English or of code. This and what follows are tokens a character."""
SPACE: Final = 0.82
"""A space of English or of code: a word begins."""
CAPITAL: Final = 0.35
MARK: Final = 0.63
"""Any other ASCII character: a digit, a mark, the end of a line."""
INDENT: Final = -1.09
"""Two spaces in a row, where there are lines, beside what each weighs: one token holds the whole run."""

REACH: Final = 40
"""So many ASCII letters around it does an accented one show to be of another language than English."""
FOREIGN_LETTER: Final = 0.28
FOREIGN_SPACE: Final = 0.3
ACCENTED: Final = 0.93
"""A character of Latin-1 that is not ASCII, such as é."""

LONGEST: Final = 12
"""More ASCII letters and digits than this to each space or mark are no words, but base64 or the like."""
UNBROKEN: Final = 0.35
"""Each that is too many, beside its own weight."""

SCRIPTS: Final[tuple[tuple[bytes, float], ...]] = (
    (bytes((0x30, 0x31, *range(0x34, 0xA0), *range(0xAC, 0xD8), 0xFE, 0xFF)), 0.82),  # Chinese, kana, Hangul
    (b"\x04", 0.26),  # Cyrillic
    (b"\x20", 0.92),  # dashes and quotation marks
    (b"\x01\x02\x1e", 2.0),  # Latin letters such as ł, ş and ů
    (b"\x05\x06\x07", 0.3),  # Hebrew, Arabic
    (bytes(range(0xD8, 0xDC)), 3.4),  # emoji: the first half of each
    (bytes(range(0xDC, 0xE0)), 0.0),  # and the second
)
"""What a character weighs by the first of its two bytes in UTF-16, which tells its script."""
EXTENDED: Final = b"\x01"
"""That byte of accented letters that are not in Latin-1."""
OTHER: Final = 0.6
"""A character of any other script, such as Greek, Hindi or Thai."""

_LETTERS: Final = b"abcdefghijklmnopqrstuvwxyz"
_CAPITALS: Final = _LETTERS.upper()
_WORDS: Final = b" " + _CAPITALS
_DIGITS: Final = b"0123456789"


def text(value: str) -> float:
    """The estimated tokens of a text, not rounded. Of a long text a sample is read."""
    length = len(value)
    least = LEAST if value.isascii() else LEAST // 4
    if length <= least:
        return _weight(value, value)
    wanted = length // min(least + length // SHARE, MOST)
    sample = value[:: STEPS[min(bisect_left(STEPS, wanted), len(STEPS) - 1)]]
    return _weight(sample, value) * length / len(sample)


def total(texts: Iterable[str], costs: int) -> int:
    """The estimated tokens of a request, rounded up: all its texts, and what else it costs."""
    return ceil(text("".join(texts)) + costs)


def _weight(sample: str, whole: str) -> float:
    """What a sample weighs; where the whole text is indented, as much less as its share of that."""
    plain = sample.encode("ascii", "ignore")
    rest = plain.translate(None, _LETTERS)
    marks = rest.translate(None, _WORDS)
    letters = len(plain) - len(rest)
    spaces = rest.count(b" ")
    capitals = len(rest) - len(marks) - spaces
    weight = LETTER * letters + SPACE * spaces + CAPITAL * capitals + MARK * len(marks)
    if b"\n" in marks:
        weight += INDENT * min(spaces / 2, _indents(whole) * len(sample) / len(whole))
    if LONGEST * spaces < len(plain):
        breaks = spaces + len(marks.translate(None, _DIGITS))
        weight += UNBROKEN * max(0, len(plain) - breaks - LONGEST * (breaks + 1))
    if len(plain) < len(sample):
        weight += _wide(sample, plain, letters, spaces)
    return weight


def _indents(value: str) -> float:
    """How many times two spaces stand in a row, about."""
    pieces, piece = INDENTED
    if (length := len(value)) <= pieces * piece:
        return value.count("  ")
    step = (length - piece) // (pieces - 1)
    found = sum([value.count("  ", at, at + piece) for at in range(0, length - piece + 1, step)])
    return found * length / (pieces * piece)


def _wide(value: str, plain: bytes, letters: int, spaces: int) -> float:
    """What the characters that are not ASCII weigh, and what they add to the others."""
    scripts = value.encode("utf-16-le", "surrogatepass")[1::2]
    left = scripts.translate(None, b"\0")
    accents = len(scripts) - len(left) - len(plain)
    weight = ACCENTED * accents
    if accents := accents + left.count(EXTENDED):
        share = min(1.0, REACH * accents / (letters or 1))
        weight += share * ((FOREIGN_LETTER - LETTER) * letters + (FOREIGN_SPACE - SPACE) * spaces)
    for script, each in SCRIPTS:
        if not left:
            break
        others = left.translate(None, script)
        weight += each * (len(left) - len(others))
        left = others
    return weight + OTHER * len(left)
