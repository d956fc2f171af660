"""What a capability reject refused."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from turnout.engine.classify import naming, settings
from turnout.engine.classify.case import Case, Said
from turnout.engine.classify.concepts import FEATURES, VAGUE
from turnout.engine.classify.lexicon import Found, Lexicon
from turnout.engine.classify.rules import Rule
from turnout.engine.classify.text import words
from turnout.engine.classify.verdict import Feature as F

_SCHEMAS: Final = {F.TOOL_SCHEMA, F.STRUCTURED_OUTPUT}


class Features:
    """Names what was refused by what the sentences speak of."""

    def __init__(self, lexicon: Lexicon) -> None:
        self._lexicon = lexicon
        self._bits = {lexicon.bits[feature.value]: feature for feature in FEATURES}
        self._schema = lexicon.bits["schema"]
        self._no_endpoint = lexicon.bits["no_endpoint"]

    def refused(self, rule: Rule, said: Said, case: Case) -> Collection[F]:
        """What a sentence says was refused; what the reply names elsewhere, where it does not."""
        if rule.features:
            return rule.features
        named = self._part(said) if rule.name == "unknown_part" else self._of(said.found)
        if named == {F.STRUCTURED_OUTPUT} and F.TOOL_SCHEMA in self.anywhere(case):
            return {F.TOOL_SCHEMA}  # of tools, too, servers make a grammar
        return named if named != {F.OTHER} else self.anywhere(case, rule.otherwise)

    def anywhere(self, case: Case, otherwise: F = F.OTHER) -> Collection[F]:
        """The features that any sentence names, for a refusal that does not say of what."""
        named = set().union(*(self._of(said.found) for said in case.said)).difference(VAGUE)
        return named.difference({F.ROLE}) or named or {otherwise}

    def _part(self, said: Said) -> set[F]:
        """The sort of part that is not known: what follows in the sentence is what is known instead."""
        path = naming.in_front(said.sentence) or said.finding.param
        if feature := settings.PARTS.get(settings.ends(path)[1]):
            return {feature}
        named = self._of(self._lexicon.read(words(naming.met(said.sentence))))
        return named if named != {F.OTHER} else self._of(said.found)

    def _of(self, found: Found) -> set[F]:
        named = {feature for bit, feature in self._bits.items() if found.mask & bit}
        if found.mask & self._schema and not named & _SCHEMAS:
            named.add(F.TOOL_SCHEMA if F.TOOLS in named else F.STRUCTURED_OUTPUT)
        if found.mask & self._no_endpoint:  # none of a proxy's endpoints: a place, and not what was refused
            named.discard(F.ENDPOINT)
        if F.TOOL_SCHEMA in named:
            named -= {F.TOOLS, F.STRUCTURED_OUTPUT}
        if F.TOOL_CHOICE in named:
            named.discard(F.TOOLS)
        return named.difference(VAGUE) or named.difference({F.OTHER}) or {F.OTHER}
