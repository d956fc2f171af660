"""A reply made ready to be asked: its findings, and what each sentence of them speaks of."""

from __future__ import annotations

from collections.abc import Container, Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from msgspec import Struct, structs

from turnout.engine.classify import naming
from turnout.engine.classify.codes import normal
from turnout.engine.classify.lexicon import Found, Lexicon
from turnout.engine.classify.reply import Reply
from turnout.engine.classify.settings import QUOTED, Meaning
from turnout.engine.classify.text import bare, words
from turnout.engine.classify.unwrap import Finding, findings
from turnout.engine.classify.verdict import Feature
from turnout.machines.vocabulary import ErrorKind

MOST_OF_A_CODE: Final = 128
"""Characters of a code that are read as words."""


MOST_KEPT: Final = 256
"""Characters of a sentence whose reading is kept for the next reply that says it."""


class Said(NamedTuple):
    """One sentence, who said it, and what it speaks of."""

    finding: Finding
    field: str
    sentence: str
    found: Found
    bare: Found
    """The same without names that may be the caller's."""


class Case(Struct, frozen=True):
    """A reply, made ready to be asked."""

    status: int
    """The innermost status that is known, 0 for an error in a 200 that states none."""
    stated_in: str
    findings: tuple[Finding, ...]
    """The innermost first."""
    said: tuple[Said, ...]
    """Every sentence, the innermost first; or the words of every code."""
    spoken: int
    """The tables that any of them speaks of."""
    provider: str
    codes: tuple[tuple[Finding, str, str, str], ...]
    """Who said each code, in which field, as it is sent, and as the tables spell it."""

    def first(self, name: str) -> str:
        """The innermost finding's value of a field."""
        return next((value for finding in self.findings if (value := getattr(finding, name))), "")


class Decided(NamedTuple):
    """Evidence that decides."""

    kind: ErrorKind
    rule: str
    field: str
    matched: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    param: str = ""


def meant(meaning: Meaning, rule: str, field: str, entry: str, param: str = "") -> Decided:
    """The decision that a code or a refused field makes."""
    return Decided(meaning.kind, rule, field, (entry,), in_order(meaning.features), param)


def in_order(features: Iterable[Feature]) -> tuple[str, ...]:
    """Features as a verdict lists them."""
    return tuple(sorted(feature.value for feature in features))


class Cases:
    """Makes replies ready.

    Args:
        lexicon: finds what a sentence speaks of.
        without: entries that the lexicon was made without.
    """

    def __init__(self, lexicon: Lexicon, without: Container[str]) -> None:
        self._lexicon = lexicon
        self._without = without
        self._setting = lexicon.bits["setting"]
        self._code = lru_cache(maxsize=1024)(self._read_code)
        self._known_sentence = lru_cache(maxsize=1024)(self._read_sentence)
        """What servers say they say again and again."""

    def of(self, reply: Reply) -> Case:
        """The case that a reply makes, by its sentences."""
        found = findings(reply)
        said = [
            Said(finding, finding.message_at, sentence, read, without_names)
            for finding in found
            for sentence in finding.sentences
            for read, without_names in (self._sentence(sentence),)
        ]
        said += [
            Said(finding, finding.at("retryDelay"), "", read, read)
            for finding in found
            if finding.delay
            for read in (self._code(finding.delay),)
        ]
        status, stated_in = reply.status if 300 <= reply.status <= 599 else 0, "status"
        for finding in found:
            if finding.status is not None:
                status, stated_in = finding.status, finding.at("code")
                break
        coded = tuple((one, field, code, normal(code)) for one in found for field, code in one.codes)
        return Case(status, stated_in, found, tuple(said), _spoken(said), reply.provider, coded)

    def of_codes(self, case: Case) -> Case:
        """The same case by the words of its codes, which are read where no sentence tells."""
        said = tuple(
            Said(finding, finding.at(field), "", read, read)
            for finding in case.findings
            for field, code in finding.weak_codes
            if not code.isdecimal()
            for read in (self._code(code),)
        )
        return structs.replace(case, said=said, spoken=_spoken(said))

    def _read_code(self, code: str) -> Found:
        return self._lexicon.read(words(code[:MOST_OF_A_CODE]))

    def _sentence(self, sentence: str) -> tuple[Found, Found]:
        """What it speaks of; and the same without names that may be the caller's."""
        return (self._known_sentence if len(sentence) <= MOST_KEPT else self._read_sentence)(sentence)

    def _read_sentence(self, sentence: str) -> tuple[Found, Found]:
        found = self._lexicon.read(words(sentence))
        name, at = naming.quoted(sentence)
        if name in QUOTED and (entry := f"setting: {name}") not in self._without:
            found.add(self._setting, entry, len(words(sentence[:at])))
        without = bare(sentence)
        return found, found if without == sentence else self._lexicon.read(words(without))


def _spoken(said: Iterable[Said]) -> int:
    spoken = 0
    for one in said:
        spoken |= one.found.mask
    return spoken
