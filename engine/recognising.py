"""Which phrases of an unrecognised reply are known, and where those go that are not."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final

from turnout.engine.classify.case import Cases, Said
from turnout.engine.classify.concepts import SAYINGS, SKIPPED
from turnout.engine.classify.features import Features
from turnout.engine.classify.lexicon import Lexicon
from turnout.engine.classify.reading import TABLES
from turnout.engine.classify.reply import Reply
from turnout.engine.classify.verdict import Feature

SENTENCES: Final = 4
"""Sentences that are told of."""
PHRASES: Final = 3
"""Phrases of one sentence that are named, of each sort."""

CONCEPTS: Final = "engine/classify/concepts.py"
RULES: Final = "engine/classify/rules.py"
"""Where a contributor adds a phrase, and where what two phrases mean together."""

_GLUE: Final = ("no", "bad")
"""Of what is said these are half: alone they say it of nothing."""


def known(reply: Reply) -> Iterator[str]:
    """Of each sentence of a reply what it is known to speak of and to say; last, which file knows more.

    Names phrases of ours, never text of the reply. Nothing is told of a reply without a sentence.
    """
    said = [one for one in _cases().of(reply).said if one.sentence]
    if not said:
        return
    halves = [(place, *_halves(one)) for place, one in enumerate(said, 1)]
    telling = [(place, about, says) for place, about, says in halves if about or says]
    for place, about, says in telling[:SENTENCES]:
        where = f"sentence {place}: " if len(said) > 1 else ""
        yield where + _in_words(about, says)
    if len(telling) > SENTENCES:
        yield f"and something of {len(telling) - SENTENCES} more sentences"
    if not telling:
        yield "no phrase of what it says"
    together = any(about and says for _, about, says in telling)
    yield f"what is missing goes into {f'{RULES}, or ' if together else ''}{CONCEPTS}"


def features(reply: Reply) -> tuple[str, ...]:
    """The features of a request that a reply speaks of, sorted, whatever it says of them."""
    named = Features(_lexicon()).anywhere(_cases().of(reply))
    return tuple(sorted(feature.value for feature in named if feature is not Feature.OTHER))


def _in_words(about: list[str], says: list[str]) -> str:
    if not says:
        return f"{_listed(about)}, and nothing that is said of it"
    if not about:
        return f"{_listed(says)}, and nothing that it is said of"
    return f"{_listed(about)}, and {_listed(says)}, but no rule for the two together"


def _halves(said: Said) -> tuple[list[str], list[str]]:
    """The entries for what a sentence speaks of, and for what it says of it."""
    entries = sorted(said.found.entries.items(), key=lambda found: (said.found.starts[found[0]], found[0]))
    halves: tuple[dict[str, str], dict[str, str]] = {}, {}
    for _, entry in entries:
        table, _, phrase = entry.partition(": ")
        if table in SAYINGS and phrase in _GLUE:
            continue
        # one phrase may stand in several tables: the first of them will do
        halves[table in SAYINGS].setdefault(phrase, entry)
    about, says = halves
    return list(about.values()), list(says.values())


def _listed(entries: list[str]) -> str:
    more = [f"{len(entries) - PHRASES} more"] if len(entries) > PHRASES else []
    return ", ".join([*entries[:PHRASES], *more])


# made when first asked for: whoever reads a file of replies needs neither


@cache
def _lexicon() -> Lexicon:
    return Lexicon(TABLES, SKIPPED)


@cache
def _cases() -> Cases:
    return Cases(_lexicon(), frozenset())
