"""The order in which the evidence is asked. The first that tells decides."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from turnout.engine.classify import codes, naming, operator, providers, statuses
from turnout.engine.classify import rules as tables
from turnout.engine.classify.answers import carries_error
from turnout.engine.classify.case import Case, Cases, Decided, Said, in_order, meant
from turnout.engine.classify.concepts import FEATURES, SAYINGS, SKIPPED, SUBJECTS
from turnout.engine.classify.features import Features
from turnout.engine.classify.fields import Fields
from turnout.engine.classify.lexicon import Found, Lexicon
from turnout.engine.classify.operator import ErrorRule
from turnout.engine.classify.reply import Reply
from turnout.engine.classify.retry_after import retry_after
from turnout.engine.classify.rules import Rule
from turnout.engine.classify.settings import OTHER_SETTINGS, SETTINGS, Meaning
from turnout.engine.classify.verdict import UNREADABLE, Evidence, Feature, Verdict
from turnout.machines.vocabulary import ErrorKind as Kind

TABLES: Final[Mapping[str, str]] = {
    **{feature.value: phrases for feature, phrases in FEATURES.items()},
    **SUBJECTS,
    **SAYINGS,
    "setting": SETTINGS,
    "other_setting": OTHER_SETTINGS,
}
"""Every table of phrases by its name."""

_Stage = Callable[[Case], Decided | None]


class Reader:
    """Reads replies by the tables of this package.

    Args:
        without: entries (`table: entry`, as `Evidence.matched` names them) to read without.
    """

    def __init__(self, without: Container[str] = frozenset()) -> None:
        self._without = without
        self._lexicon = Lexicon(TABLES, SKIPPED, without)
        self._cases = Cases(self._lexicon, without)
        self._features = Features(self._lexicon)
        fields = Fields(self._lexicon, without)
        vetoes: tuple[_Stage, ...] = (
            self._private_code,
            self._rules(tables.LONG_CONTEXT, bare=True),
            self._codes(codes.POLICY),
            self._rules(tables.POLICY, bare=True),
            self._codes(codes.BILLING),
            self._rules(tables.HARD_LIMITS, bare=True),
            self._codes(codes.VETOES),
            self._rules(tables.VETOES, bare=True),
            statuses.deciding,
        )
        overflow: tuple[_Stage, ...] = (
            fields.setting_in_front,
            self._codes(codes.OVERFLOWS),
            self._rules(tables.OVERFLOWS, bare=True),
        )
        refusal: tuple[_Stage, ...] = (
            self._codes(codes.REFUSALS),
            fields.coded,
            fields.named,
            fields.beside,
            self._rules(tables.REFUSALS),
            fields.spelt,
        )
        rest: tuple[_Stage, ...] = (
            self._codes(codes.MODELS),
            self._rules(tables.MODELS),
            self._codes(codes.LOAD),
            self._rules(tables.LOAD),
            self._rules(tables.PERMISSION),
            fields.blamed,
        )
        self._of_sentences = (*vetoes, *overflow, *refusal, *rest)
        self._of_codes = (*vetoes, *overflow, self._rules(tables.CODED), *rest, self._codes(codes.UNNAMED))

    def classify(self, reply: Reply, *, now: float, rules: Sequence[ErrorRule] = ()) -> Verdict:
        """Read a reply that is no complete answer. Total: any status, headers and bytes have a verdict.

        Args:
            reply: what came back.
            now: seconds since 1970, against which a `retry-after` date is read.
            rules: the operator's own, asked before ours.
        """
        if 200 <= reply.status < 300 and reply.event is None and not carries_error(reply.body):
            return unreadable(reply.status, "this is no complete answer")
        case = self._cases.of(reply)
        decided = (
            operator.decided(rules, reply.status, case.findings)
            or self._asked(self._of_sentences, case)
            or self._asked(self._of_codes, self._cases.of_codes(case))
            or statuses.prior(case, reply.status)
        )
        return Verdict(
            kind=decided.kind,
            evidence=Evidence(decided.rule, decided.field, decided.matched),
            status=reply.status,
            code=case.first("code"),
            features=decided.features,
            param=case.first("param") or decided.param,
            message=case.first("message"),
            retryable=decided.kind is Kind.UNAVAILABLE and _waiting_helps(case, reply.status),
            retry_after=retry_after(reply.headers, now=now),
        )

    def _asked(self, stages: Iterable[_Stage], case: Case) -> Decided | None:
        decided = next((decided for stage in stages if (decided := stage(case))), None)
        if decided and decided.features == (Feature.OTHER.value,):
            return decided._replace(features=in_order(self._features.anywhere(case)))
        return decided

    # -- stages: each asks one table

    def _codes(self, table: Mapping[str, Meaning]) -> _Stage:
        kept = {code: meaning for code, meaning in table.items() if f"code: {code}" not in self._without}

        def stage(case: Case) -> Decided | None:
            for finding, field, _, code in case.codes:
                if meaning := kept.get(code):
                    return meant(meaning, "code", finding.at(field), f"code: {code}")
            return None

        return stage

    def _private_code(self, case: Case) -> Decided | None:
        """A code that only this provider uses so."""
        table = providers.CODES.get(case.provider, {})
        for finding, field, code, _ in case.codes if table else ():
            entry = f"code of {case.provider}: {code}"
            if (meaning := table.get(code)) and entry not in self._without:
                return meant(meaning, "private_code", finding.at(field), entry)
        return None

    def _rules(self, table: tuple[Rule, ...], *, bare: bool = False) -> _Stage:
        rows = [_Row.of(rule, self._lexicon) for rule in table]

        def stage(case: Case) -> Decided | None:
            spoken = case.spoken
            for row in rows:
                if spoken & row.first and row.may_hold(spoken, case.status):
                    unless = row.unless | row.failing if case.status >= 500 else row.unless
                    for said in case.said:
                        if row.holds(said.bare if bare else said.found, said.bare.mask, unless):
                            return self._ruled(row, said, case)
            return None

        return stage

    def _ruled(self, row: _Row, said: Said, case: Case) -> Decided:
        rule = row.rule
        matched = tuple(said.found.first(says) for says in row.says)
        if rule.kind is Kind.CAPABILITY:
            features = in_order(self._features.refused(rule, said, case))
            return Decided(rule.kind, rule.name, said.field, matched, features)
        param = ""
        if rule.kind is Kind.PARAMETER_REJECT:
            entry = said.found.entries.get(self._lexicon.bits["setting"], "")
            param = naming.spelt_as(entry.partition(": ")[2], said.sentence)
        return Decided(rule.kind, rule.name, said.field, matched, param=param)


_NOT_IMPLEMENTED: Final = 501
"""The one 5xx that blames the request."""


class _Row(NamedTuple):
    """A rule with its tables as bits."""

    rule: Rule
    first: int
    says: tuple[int, ...]
    unless: int
    after: int
    beside: int
    failing: int

    @classmethod
    def of(cls, rule: Rule, lexicon: Lexicon) -> _Row:
        says = tuple(map(lexicon.mask, rule.says))
        rest = map(lexicon.mask, (rule.unless, rule.after, rule.beside, rule.failing))
        return cls(rule, says[0], says, *rest)

    def may_hold(self, spoken: int, status: int) -> bool:
        """Whether all that it asks for is spoken of, be it in several sentences."""
        failing = status >= 500 and status != _NOT_IMPLEMENTED
        if (failing and not self.rule.blame) or ((failing or status == 403) and not self.rule.plain):
            return False
        if self.beside and not spoken & self.beside:
            return False
        return all(spoken & says for says in self.says)

    def holds(self, found: Found, bare: int, unless: int) -> bool:
        """Whether one sentence says it.

        Args:
            found: what it speaks of.
            bare: the tables that it speaks of outside of names; what is said of a thing is no name.
            unless: the tables that it must not speak of.
        """
        spoken = found.mask
        if spoken & unless or not spoken & self.first or not all(bare & says for says in self.says[1:]):
            return False
        return not spoken & self.after or found.start(self.first) <= found.start(self.after)


_NEVER_FITS: Final = re.compile(
    r"\b(?:request|input|prompt)s? (?:is )?too large\b|\bmust be reduced\b|\blimit: 0\b", re.IGNORECASE
)
_ASKED: Final = (
    re.compile(r"(?i)\blimit(?: of)?:? (\d[\d,]{0,15})\b.{0,80}\brequested:? (?P<asked>\d[\d,]{0,15})\b"),
    re.compile(r"(?i)\bneeds (?P<asked>\d[\d,]{0,15})\b.{0,80}\blimit (?:is|of) (\d[\d,]{0,15})\b"),
)
"""A limit and what was asked, which no wait makes fit if it is more."""


def _waiting_helps(case: Case, http_status: int) -> bool:
    redirected = 300 <= http_status < 400
    return not redirected and not any(_never_fits(said.sentence) for said in case.said)


def _never_fits(sentence: str) -> bool:
    if _NEVER_FITS.search(sentence):
        return True
    found = next((found for asked in _ASKED if (found := asked.search(sentence))), None)
    if found is None:
        return False
    (limit,) = (found[n] for n in (1, 2) if n != found.re.groupindex["asked"])
    return int(found["asked"].replace(",", "")) > int(limit.replace(",", ""))


def unreadable(status: int, why: str) -> Verdict:
    """The verdict on an answer that is not complete, not readable or too large: it says nothing of the turn.

    Args:
        status: its HTTP status.
        why: what is wrong with it, in words of ours.
    """
    return Verdict(
        kind=Kind.UNAVAILABLE,
        evidence=Evidence(UNREADABLE, "body"),
        status=status,
        message=why,
    )


_READER: Final = Reader()


def classify(reply: Reply, *, now: float, rules: Sequence[ErrorRule] = ()) -> Verdict:
    """Read a reply that is no complete answer. Total: any status, headers and bytes have a verdict.

    Args:
        reply: what came back.
        now: seconds since 1970, against which a `retry-after` date is read.
        rules: the operator's own, asked before ours.
    """
    return _READER.classify(reply, now=now, rules=rules)
