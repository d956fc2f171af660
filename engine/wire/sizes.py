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

LEAST: Final = 1_536
"""A text of fewer characters is read in full.

So is one that is not all ASCII of a third: its characters take longer to read and differ less.
"""

STEPS: Final = (1, 3, 3, 3, 5, 5, 7, 11, 23, 47, 97, 193, 389, 787, 1_571, 3_137, *[6_271] * 50)
"""At which distance the characters of a text are read: the first where it is shorter than that, then where
it is once as long, two or three times, four to seven times, and so on.

So of a long one some thousands are, from all over it: whatever it is mixed of is met in the share that it
has. The distances are primes, since few things repeat at a multiple of one.
"""

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
LINE: Final = 80
"""Lines that are longer on average are paragraphs: in these no indentation is looked for."""

REACH: Final = 40
"""So many ASCII letters around it does an accented one show to be of another language than English."""
FOREIGN_LETTER: Final = 0.28
FOREIGN_SPACE: Final = 0.3

LONGEST: Final = 12
"""More ASCII letters and digits than this to each space or mark are no words, but base64 or the like."""
UNBROKEN: Final = 0.35
"""Each that is too many, beside its own weight."""

OTHER: Final = 0.6
"""A character of Greek, Hindi, Thai or any other script that is not told apart below."""
SCRIPTS: Final[tuple[tuple[bytes, float, bool], ...]] = (
    (b"\xe3\xe4\xe5\xe6\xe7\xe8\xe9\xea\xeb\xec\xed\xef", 0.82, False),  # Chinese, kana, Hangul
    (b"\xe2", 0.92, False),  # dashes, quotation marks, symbols
    (b"\xc2\xc3", 0.93, True),  # letters of Latin-1 such as é
    (b"\xd0\xd1\xd2\xd3", 0.26, False),  # Cyrillic
    (b"\xf0\xf1\xf2\xf3\xf4", 3.4, False),  # emoji
    (b"\xc4\xc5\xc6\xc7", 2.0, True),  # Latin letters such as ł, ş and ů
    (b"\xcc\xcd\xce\xcf\xe0", OTHER, False),  # the most frequent of the others
    (b"\xd4\xd5\xd6\xd7\xd8\xd9\xda\xdb\xdc\xdd\xde\xdf", 0.3, False),  # Hebrew, Arabic
    (b"\xc8\xc9\xca\xcb", 2.0, False),  # what is left of Latin
)
"""What a character weighs by the first of its bytes in UTF-8, which tells its script, and whether it is an
accented letter. The scripts that make up most texts come first, for they are looked for in this order.
"""
AMBIGUOUS: Final = 0xE1
"""That byte of Latin letters such as ế, which weigh more, and of scripts such as Georgian."""
VIETNAMESE: Final = 2.0

_LETTERS: Final = b"abcdefghijklmnopqrstuvwxyz"
_LETTERS_AND_LATER: Final = _LETTERS + bytes(range(0x80, 0xC0))
"""In UTF-8 the letters, and all bytes but the first of each character that is not ASCII."""
_CAPITALS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DIGITS: Final = b"0123456789"
_LINE: Final = ord("\n")
_ASCII: Final = bytes(range(0x80))
_FIRST: Final = bytes(range(0xC0, 0x100))
"""The first byte of each character that is not ASCII."""


def text(value: str) -> float:
    """The estimated tokens of a text, not rounded. Of a long text a sample is read."""
    length = len(value)
    step = STEPS[((length if value.isascii() else 3 * length) // LEAST).bit_length()]
    if step == 1:
        return _weight(value, value)
    sample = value[::step]
    return _weight(sample, value) * length / len(sample)


def _weight(sample: str, whole: str) -> float:
    """What a sample weighs; where the whole text is indented, as much less as its share of that."""
    if sample.isascii():
        rest, wide = sample.encode().translate(None, _LETTERS), b""
    else:
        both = sample.encode("utf-8", "surrogatepass").translate(None, _LETTERS_AND_LATER)
        rest, wide = both.translate(None, _FIRST), both.translate(None, _ASCII)
    if not (plain := len(sample) - len(wide)):
        return _wide(wide, sample, 0, 0)
    words = rest.translate(None, b" ")
    marks = words.translate(None, _CAPITALS)
    letters, spaces = plain - len(rest), len(rest) - len(words)
    weight = LETTER * letters + SPACE * spaces + CAPITAL * (len(words) - len(marks)) + MARK * len(marks)
    # the first asks what is quickest to tell; where lines are indented there are more spaces than lines
    if _LINE in marks and spaces > marks.count(b"\n") > len(sample) / LINE:
        weight += INDENT * min(spaces / 2, _indents(whole) * len(sample) / len(whole))
    if LONGEST * (spaces + 1) < plain:
        breaks = spaces + len(marks.translate(None, _DIGITS))
        weight += UNBROKEN * max(0, plain - breaks - LONGEST * (breaks + 1))
    return weight + _wide(wide, sample, letters, spaces) if wide else weight


def _indents(value: str) -> float:
    """How many times two spaces stand in a row, about."""
    pieces, piece = INDENTED
    if (length := len(value)) <= pieces * piece:
        return value.count("  ")
    found = 0
    for at in range(0, length - piece + 1, (length - piece) // (pieces - 1)):
        found += value.count("  ", at, at + piece)
    return found * length / (pieces * piece)


def _wide(left: bytes, sample: str, letters: int, spaces: int) -> float:
    """What the characters weigh that are not ASCII, by their first bytes, and what they add to the others."""
    weight, accents = 0.0, 0
    for script, each, accented in SCRIPTS:
        others = left.translate(None, script)
        found, left = len(left) - len(others), others
        weight += each * found
        if accented:
            accents += found
        if not left:
            break
    weight += OTHER * len(left)
    if AMBIGUOUS in left:
        upper = sample.encode("utf-16-be", "surrogatepass")[::2]
        weight += (VIETNAMESE - OTHER) * upper.count(b"\x1e")
    if accents:
        share = min(1.0, REACH * accents / (letters or 1))
        weight += share * ((FOREIGN_LETTER - LETTER) * letters + (FOREIGN_SPACE - SPACE) * spaces)
    return weight
