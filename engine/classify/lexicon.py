"""Finding phrases among words: each phrase is an entry of a table, and its table is what it speaks of.

A phrase is written as people write it (`exceeds`, `too long`) and matched by its stems. `..`
in it stands for up to four other words, so `not .. support` is found in "is not yet
supported". One walk through the words finds every entry, in time that grows with their number.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Final

from turnout.engine.classify.text import MARKS, words

GAP: Final = ".."
MOST_BETWEEN: Final = 4
"""How many words may stand where a phrase has its gap."""

SEPARATOR: Final = "|"


class _Node:
    """Where a phrase that is half read may go on."""

    __slots__ = ("ends", "gap", "next")

    def __init__(self) -> None:
        self.next: dict[str, _Node] = {}
        self.gap: _Node | None = None
        self.ends: list[tuple[int, str]] = []


class Found:
    """What a sentence speaks of: a bit for each table, and the first entry of each that was found."""

    __slots__ = ("entries", "mask", "starts")

    def __init__(self) -> None:
        self.mask = 0
        self.entries: dict[int, str] = {}
        self.starts: dict[int, int] = {}

    def add(self, bit: int, entry: str, start: int) -> None:
        """Note an entry that begins at this word, unless another of its table came first."""
        if not self.mask & bit:
            self.mask |= bit
            self.entries[bit] = entry
            self.starts[bit] = start

    def first(self, mask: int) -> str:
        """The entry of these tables that comes first, the longest of those that do; or an empty string."""
        found = [(self.starts[bit], -len(entry), entry) for bit, entry in self.entries.items() if bit & mask]
        return min(found)[2] if found else ""

    def start(self, mask: int) -> int:
        """The word at which these tables begin to be spoken of; behind the last where they are not."""
        return min((start for bit, start in self.starts.items() if bit & mask), default=1 << 30)


class Lexicon:
    """The tables, each under a name.

    Args:
        tables: what each speaks of, and its phrases separated by `|`.
        skipped: phrases whose words say nothing by themselves (`reasoning model`).
        without: entries (`table: phrase`) to leave out.
    """

    def __init__(self, tables: Mapping[str, str], skipped: str, without: Container[str] = ()) -> None:
        self.bits = {name: 1 << index for index, name in enumerate(tables)}
        self._root = _Node()
        self._skipped = {tuple(words(phrase)) for phrase in listed(skipped)}
        self._skipping = frozenset(phrase[0] for phrase in self._skipped)
        for name, phrases in tables.items():
            for phrase in listed(phrases):
                if (entry := f"{name}: {phrase}") not in without:
                    self._add(phrase, self.bits[name], entry)

    def mask(self, names: Iterable[str]) -> int:
        """The bits of these tables."""
        return sum({self.bits[name] for name in names})

    def read(self, spoken: Sequence[str]) -> Found:
        """Every table that these words speak of."""
        found = Found()
        first = self._root.next
        start = 0
        while start < len(spoken):
            word = spoken[start]
            if word in self._skipping and (length := self._length_skipped(spoken, start)):
                start += length
                continue
            if node := first.get(word):
                _follow(node, spoken, start + 1, found, start)
            start += 1
        return found

    def _length_skipped(self, spoken: Sequence[str], start: int) -> int:
        return next((n for n in (4, 3, 2) if tuple(spoken[start : start + n]) in self._skipped), 0)

    def _add(self, phrase: str, bit: int, entry: str) -> None:
        node = self._root
        for position, part in enumerate(phrase.split(GAP)):
            if position:
                node.gap = node.gap or _Node()
                node = node.gap
            for spelt in part.split():
                for word in [spelt] if spelt in MARKS else words(spelt):
                    node = node.next.setdefault(word, _Node())
        node.ends.append((bit, entry))


def listed(phrases: str) -> list[str]:
    """The phrases of a table, as it spells them."""
    return [" ".join(phrase.split()) for phrase in phrases.split(SEPARATOR)]


def _follow(node: _Node, spoken: Sequence[str], at: int, found: Found, start: int) -> None:
    """Note what ends here, and follow what goes on. Phrases are a few words long, and so is the walk."""
    if node.ends:
        mask = found.mask
        for bit, entry in node.ends:
            if not mask & bit:
                found.add(bit, entry, start)
    if at >= len(spoken):
        return
    if further := node.next.get(spoken[at]):
        _follow(further, spoken, at + 1, found, start)
    if node.gap:
        follow = node.gap.next
        for skipped in range(at, min(at + MOST_BETWEEN + 1, len(spoken))):
            if further := follow.get(spoken[skipped]):
                _follow(further, spoken, skipped + 1, found, start)
