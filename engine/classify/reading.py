"""The order in which the evidence is asked. The first that tells decides."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from msgspec import Struct, structs

from turnout.engine.classify import codes, operator, providers, settings, statuses
from turnout.engine.classify import rules as tables
from turnout.engine.classify.concepts import FEATURES, SAYINGS, SKIPPED, SUBJECTS, VAGUE
from turnout.engine.classify.lexicon import Found, Lexicon
from turnout.engine.classify.operator import ErrorRule
from turnout.engine.classify.reply import Reply
from turnout.engine.classify.retry_after import retry_after
from turnout.engine.classify.rules import Rule
from turnout.engine.classify.settings import PARAMETER, SETTINGS, Meaning, capability
from turnout.engine.classify.text import words
from turnout.engine.classify.unwrap import Finding, carries_error, findings
from turnout.engine.classify.verdict import UNRECOGNISED, Evidence, Verdict
from turnout.engine.classify.verdict import Feature as F
from turnout.machines.vocabulary import ErrorKind as Kind

TABLES: Final = {
    **{feature.value: said for feature, said in FEATURES.items()},
    **SUBJECTS,
    **SAYINGS,
    "setting": SETTINGS,
}


_NO_SUBJECT: Final = (*VAGUE, F.REASONING, F.STREAMING)
_SCHEMAS: Final = {F.TOOL_SCHEMA, F.STRUCTURED_OUTPUT}


_MOST_OF_A_CODE: Final = 128


class _Said(NamedTuple):
    """One sentence, who said it, and what it speaks of."""

    finding: Finding
    field: str
    sentence: str
    found: Found


class _Case(Struct, frozen=True):
    """A reply, made ready to be asked."""

    status: int
    """The innermost status that is known, 0 for an error in a 200 that states none."""
    stated_in: str
    findings: tuple[Finding, ...]
    """The innermost first."""
    said: tuple[_Said, ...]
    """Every sentence, and then the words of every code."""
    provider: str
    spoken: int
    """The tables that any of the sentences speaks of."""


class _Decided(NamedTuple):
    """Evidence that decides."""

    kind: Kind
    rule: str
    field: str
    matched: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    param: str = ""


_Stage = Callable[[_Case], _Decided | None]


class _Row(NamedTuple):
    """A rule with its tables as bits."""

    rule: Rule
    says: tuple[int, ...]
    unless: int
    after: int
    beside: int

    def may_hold(self, spoken: int) -> bool:
        """Whether all that it asks for is spoken of, be it in several sentences."""
        return all(spoken & says for says in self.says)

    def holds(self, found: Found) -> bool:
        """Whether one sentence says it."""
        spoken = found.mask
        if spoken & self.unless or not self.may_hold(spoken):
            return False
        return not spoken & self.after or found.start(self.says[0]) <= found.start(self.after)


class Reader:
    """Reads replies by the tables of this package.

    Args:
        without: entries (`table: entry`, as `Evidence.matched` names them) to read without.
    """

    def __init__(self, without: Container[str] = frozenset()) -> None:
        self._without = without
        self._lexicon = Lexicon(TABLES, SKIPPED, without)
        self._features = {self._lexicon.bits[feature.value]: feature for feature in FEATURES}
        self._concrete = self._lexicon.mask(
            feature.value for feature in FEATURES if feature not in _NO_SUBJECT
        )
        self._modality = self._lexicon.mask(feature.value for feature in (F.IMAGE, F.AUDIO, F.VIDEO, F.FILE))
        self._setting = self._lexicon.bits["setting"]
        self._read_code = lru_cache(maxsize=1024)(self._code_read)
        before: tuple[_Stage, ...] = (
            self._private_code,
            self._rules(tables.LONG_CONTEXT),
            self._codes(codes.POLICY),
            self._rules(tables.POLICY),
            self._codes(codes.BILLING),
            self._rules(tables.HARD_LIMITS),
            self._codes(codes.VETOES),
            self._rules(tables.VETOES),
            self._status,
            self._setting_in_front,
            self._codes(codes.OVERFLOWS),
            self._rules(tables.OVERFLOWS),
        )
        refusals: tuple[_Stage, ...] = (
            self._codes(codes.REFUSALS),
            self._coded_param,
            self._named_param,
            self._setting_param,
            self._rules(tables.REFUSALS),
            self._subject,
        )
        after: tuple[_Stage, ...] = (
            self._codes(codes.MODELS),
            self._rules(tables.MODELS),
            self._codes(codes.LOAD),
            self._rules(tables.LOAD),
            self._rules(tables.PERMISSION),
            self._setting_named,
        )
        self._stages = (*before, *refusals, *after)
        """Vetoes, then the overflow, then what was refused, then the model, then load."""
        self._stages_of_codes = (*before, self._rules(tables.CODED), *after)
        """The same for the words of codes, which say less."""

    def classify(self, reply: Reply, *, now: float, rules: Sequence[ErrorRule] = ()) -> Verdict:
        """Read a reply that is no complete answer. Total: any status, headers and bytes have a verdict.

        Args:
            reply: what came back.
            now: seconds since 1970, against which a `retry-after` date is read.
            rules: the operator's own, asked before ours.
        """
        if 200 <= reply.status < 300 and reply.event is None and not carries_error(reply.body):
            return unreadable(reply.status, "this is no complete answer")
        case = self._case(reply)
        decided = (
            operator.decided(rules, reply.status, case.findings)
            or self._decide(case, self._stages)
            or self._decide(self._coded(case), self._stages_of_codes)
            or _prior(case, reply.status)
        )
        return Verdict(
            kind=decided.kind,
            evidence=Evidence(decided.rule, decided.field, decided.matched),
            status=reply.status,
            code=_first(case, "code"),
            features=decided.features,
            param=_first(case, "param") or decided.param,
            message=_first(case, "message"),
            retryable=decided.kind is Kind.UNAVAILABLE and self._waiting_helps(case, reply.status),
            retry_after=retry_after(reply.headers, now=now),
        )

    def _decide(self, case: _Case, stages: tuple[_Stage, ...]) -> _Decided | None:
        decided = next((decided for stage in stages if (decided := stage(case))), None)
        if decided and decided.features == (F.OTHER.value,):
            return decided._replace(features=_sorted(self._named_elsewhere(case, F.OTHER)))
        return decided

    # -- preparing

    def _case(self, reply: Reply) -> _Case:
        found = findings(reply)
        said = (
            *(
                _Said(finding, finding.path or "message", sentence, self._read(sentence))
                for finding in found
                for sentence in finding.sentences
            ),
            *(
                _Said(finding, finding.at("retryDelay"), "", self._read_code(f"retry in {finding.delay}"))
                for finding in found
                if finding.delay
            ),
        )
        status, stated_in = reply.status if 300 <= reply.status <= 599 else 0, "status"
        if stated := next((finding for finding in found if finding.status is not None), None):
            status, stated_in = stated.status or 0, stated.at("code")
        return _Case(status, stated_in, found, said, reply.provider, _spoken(said))

    def _coded(self, case: _Case) -> _Case:
        """The same reply, with the words of its codes for sentences: they are read where no sentence tells."""
        said = tuple(
            _Said(finding, finding.at(field), "", self._read_code(code))
            for finding in case.findings
            for field, code in finding.codes
            if not code.isdecimal()
        )
        return structs.replace(case, said=said, spoken=_spoken(said))

    def _code_read(self, code: str) -> Found:
        return self._lexicon.read(words(code[:_MOST_OF_A_CODE]))

    def _read(self, sentence: str) -> Found:
        read = self._lexicon.read(words(sentence))
        name, at = settings.quoted(sentence)
        if name and name in settings.QUOTED and (entry := f"setting: {name}") not in self._without:
            read.add(self._setting, entry, len(words(sentence[:at])))
        return read

    # -- stages: each asks one table

    def _codes(self, table: Mapping[str, Meaning]) -> _Stage:
        kept = {code: meaning for code, meaning in table.items() if f"code: {code}" not in self._without}

        def stage(case: _Case) -> _Decided | None:
            for finding in case.findings:
                for field, code in finding.codes:
                    if meaning := kept.get(normal := codes.normal(code)):
                        return _meant(meaning, "code", finding.at(field), f"code: {normal}")
            return None

        return stage

    def _private_code(self, case: _Case) -> _Decided | None:
        table = providers.CODES.get(case.provider)
        if table is None:
            return None
        for finding in case.findings:
            for field, code in finding.codes:
                entry = f"code of {case.provider}: {code}"
                if (meaning := table.get(code)) and entry not in self._without:
                    return _meant(meaning, "private_code", finding.at(field), entry)
        return None

    def _rules(self, table: tuple[Rule, ...]) -> _Stage:
        mask = self._lexicon.mask
        rows = [
            _Row(rule, tuple(map(mask, rule.says)), mask(rule.unless), mask(rule.after), mask(rule.beside))
            for rule in table
        ]

        def stage(case: _Case) -> _Decided | None:
            for row in rows:
                if not row.may_hold(case.spoken) or (case.status >= 500 and not row.rule.blame):
                    continue
                if row.beside and not row.beside & case.spoken:
                    continue
                for said in case.said:
                    if row.holds(said.found):
                        return self._ruled(row, said, case)
            return None

        return stage

    def _ruled(self, row: _Row, said: _Said, case: _Case) -> _Decided:
        kind = row.rule.kind
        matched = tuple(said.found.first(says) for says in row.says)
        features = self._refused(row.rule, said, case) if kind is Kind.CAPABILITY else ()
        param = self._setting_of(said.found) if kind is Kind.PARAMETER_REJECT else ""
        return _Decided(kind, row.rule.name, said.field, matched, _sorted(features), param)

    def _refused(self, rule: Rule, said: _Said, case: _Case) -> Collection[F]:
        """What a sentence says was refused; what the reply names elsewhere, where it does not."""
        if rule.features:
            return rule.features
        if rule.name == "unknown_part":
            named = self._part(said)
        else:
            named = self._named(said.found)
        return named if named != {F.OTHER} else self._named_elsewhere(case, rule.otherwise)

    def _named_elsewhere(self, case: _Case, otherwise: F) -> set[F]:
        """The features that any sentence names, of a reply that refuses one without saying which."""
        named = set().union(*(self._named(said.found) for said in case.said)) - set(VAGUE)
        return (named - {F.ROLE}) or named or {otherwise}

    def _part(self, said: _Said) -> set[F]:
        """The sort of part that is not known, among those that are."""
        leaf = settings.PARTS.get(settings.ends(_path(said.sentence) or said.finding.param)[1])
        if leaf:
            return {leaf}
        told = _GOT.search(said.sentence) or _UNKNOWN.search(said.sentence)
        named = self._named(self._lexicon.read(words(told[1]))) if told else {F.OTHER}
        return named if named != {F.OTHER} else self._named(said.found)

    def _named(self, found: Found) -> set[F]:
        named = {feature for bit, feature in self._features.items() if found.mask & bit}
        if found.mask & self._lexicon.bits["schema"] and not named & _SCHEMAS:
            named.add(F.TOOL_SCHEMA if F.TOOLS in named else F.STRUCTURED_OUTPUT)
        if F.TOOL_SCHEMA in named:
            named -= {F.TOOLS, F.STRUCTURED_OUTPUT}
        if F.TOOL_CHOICE in named:
            named.discard(F.TOOLS)
        return named.difference(VAGUE) or named.difference({F.OTHER}) or {F.OTHER}

    def _setting_of(self, found: Found) -> str:
        entry = found.entries.get(self._setting, "")
        return entry.partition(": ")[2].replace(" ", "_")

    def _status(self, case: _Case) -> _Decided | None:
        kind = statuses.DECIDING.get(case.status)
        return _Decided(kind, f"status_{case.status}", case.stated_in) if kind else None

    def _coded_param(self, case: _Case) -> _Decided | None:
        """A code that says what is wrong with the parameter beside it."""
        for finding in case.findings:
            for field, code in finding.codes:
                normal = codes.normal(code)
                if f"code: {normal}" in self._without:
                    continue
                meaning = None
                if normal in codes.TOO_LONG:
                    meaning = settings.too_long(finding.param)
                elif normal in codes.WRONG_PART:
                    meaning = settings.wrong_part(finding.param)
                elif normal in codes.UNSUPPORTED:
                    meaning = self._unsupported(case, finding.param)
                if meaning:
                    return _meant(
                        meaning, "coded_param", finding.at("param"), f"code: {normal}", finding.param
                    )
        return None

    def _setting_in_front(self, case: _Case) -> _Decided | None:
        """The path of a setting in front of what is wrong with it: `max_tokens: 9 > 8, the maximum`."""
        wrong = self._lexicon.mask(("wrong_setting", "refuses", "missing", "exceeds", "at_most"))
        for said in case.said:
            if said.found.mask & wrong and settings.is_setting(path := _path(said.sentence)):
                return _meant(PARAMETER, "setting_in_front", said.field, said.found.first(wrong), path)
        return None

    def _named_param(self, case: _Case) -> _Decided | None:
        """A sentence that names the parameter and says what is wrong with it."""
        bits = self._lexicon.bits
        for said in case.said:
            param = _named(said.sentence)
            if not param:
                continue
            mask = said.found.mask
            if mask & bits["missing"]:
                continue
            if settings.ends(param)[0] == "tools" and settings.is_schema(param):
                wrong = self._lexicon.mask(("wrong_schema", "refuses"))
                if mask & wrong:
                    return _meant(
                        capability(F.TOOL_SCHEMA), "named_param", said.field, said.found.first(wrong), param
                    )
            for table, means in (("unknown_field", self._unsupported), ("exceeds", _too_long)):
                if table == "exceeds" and (mask & self._modality or _AT_PATH.search(said.sentence)):
                    continue
                if mask & bits[table] and (meaning := means(case, param)):
                    entry = said.found.entries[bits[table]]
                    return _meant(meaning, "named_param", said.field, entry, param)
        return None

    def _unsupported(self, case: _Case, param: str) -> Meaning | None:
        renamed = self._lexicon.bits["renamed"]
        if any(said.found.mask & renamed for said in case.said):
            return capability(F.ENDPOINT) if settings.ends(param)[0] in settings.OF_CONTENT else PARAMETER
        return settings.refused(param)

    def _setting_param(self, case: _Case) -> _Decided | None:
        """A setting beside the message, where the message speaks of no feature."""
        return None if case.spoken & self._concrete else self._setting_named(case)

    def _setting_named(self, case: _Case) -> _Decided | None:
        """A setting that is named as what is wrong, whatever is said of it."""
        if case.status >= 500:
            return None
        for finding in case.findings:
            if settings.is_setting(finding.param):
                return _Decided(Kind.PARAMETER_REJECT, "param", finding.at("param"), (), (), finding.param)
            if settings.ends(finding.param)[0] == "tools" and settings.is_schema(finding.param):
                return _Decided(Kind.CAPABILITY, "param", finding.at("param"), (), (F.TOOL_SCHEMA.value,))
        return None

    def _subject(self, case: _Case) -> _Decided | None:
        """A sentence whose subject is spelt like a field that no table knows."""
        wrong = self._lexicon.mask(("wrong_setting", "refuses"))
        for said in case.said:
            plain = _QUOTED_SUBJECT.match(said.sentence)
            if plain and plain[1].lower() in settings.QUOTED:
                return _meant(
                    PARAMETER, "subject", said.field, f"setting: {plain[1].lower()}", plain[1].lower()
                )
            if said.found.mask & wrong and (spelt := _OBJECT.search(said.sentence)):
                if meaning := settings.refused(spelt[1]):
                    return _meant(meaning, "subject", said.field, said.found.first(wrong), spelt[1])
            if said.found.mask & wrong and (subject := _SUBJECT.match(said.sentence)):
                if (meaning := settings.refused(subject[1])) and settings.ends(subject[1])[
                    0
                ] not in settings.OF_CONTENT:
                    return _meant(meaning, "subject", said.field, said.found.first(wrong), subject[1])
        return None

    def _waiting_helps(self, case: _Case, http_status: int) -> bool:
        redirected = 300 <= http_status < 400
        return not redirected and not any(_NEVER_FITS.search(said.sentence) for said in case.said)


_NEVER_FITS: Final = re.compile(
    r"\b(?:request|input|prompt)s? (?:is )?too large\b|\bmust be reduced\b", re.IGNORECASE
)

_POINTER: Final = re.compile(r".{0,40}#/?([\w/]{0,80}): extraneous key \[(\w{1,64})\]")
_AT_PATH: Final = re.compile(r" at ['\"`]?((?:tools|messages|contents|input)[.\[][\w.\[\]]{0,127})")
_CONTENT_PATH: Final = re.compile(r"['\"`]((?:tools|messages|contents|input)[.\[][\w.\[\]]{0,127})['\"`]")
_GOT: Final = re.compile(r"\b(?:got|found|received)\b(.{1,60})", re.IGNORECASE)
_UNKNOWN: Final = re.compile(
    r"\b(?:unknown variant|invalid value|input tag|type)\b(.{1,60}?)"
    r"(?:expected|supported|must|should|is not|does not|$)",
    re.IGNORECASE,
)
_PARAM_PATH: Final = re.compile(
    r"\W{0,4}(?:(?:body|\w{1,40}Request)\.)?([a-z_]\w{0,63}(?:(?:\.|\[|\]\.?)\w{1,63}){0,24}\]?)['\"`]? ?[:=] "
)
_OBJECT: Final = re.compile(
    r"\bsupport(?:s|ed)?(?: for)?(?: the)?(?: parameter)? ['\"`]?([a-z]{2,24}(?:_[a-z]{1,24}){1,4})\b"
)
_QUOTED_SUBJECT: Final = re.compile(r"(\w{1,24}) must be (?:set|a|an|in|between|one|at|true|false)\b")
_SUBJECT: Final = re.compile(
    r"\W{0,4}(?:parameter\W|param\W|the )?\W?([a-z]{1,24}(?:_[a-z]{1,24}){1,4})\W{1,2}(?:must|can|should|is|value|has|needs?|may|does|exceed|out|range)"
)
_PARAM_AFTER: Final = re.compile(
    r"\b(?:parameter|param|field|argument|property|key|name|supplied|model|inputs)s?(?: supplied)?(?:: ?| )['\"`\[]?"
    r"([A-Za-z_][\w.\[\]]{0,127})",
    re.IGNORECASE,
)


def _path(sentence: str) -> str:
    """The path of a field in front of a sentence, or an empty string."""
    path = _PARAM_PATH.match(sentence)
    return path[1] if path and settings.ends(path[1])[0] in settings.KNOWN else ""


def _named(sentence: str) -> str:
    """The field of the request that a sentence names: by its path in front, or after what it is called."""
    if path := _path(sentence):
        return path
    if at := _AT_PATH.search(sentence):
        return at[1]
    if pointer := _POINTER.match(sentence):
        return ".".join(filter(None, (*pointer[1].split("/"), pointer[2])))
    if content := _CONTENT_PATH.search(sentence):
        return content[1]
    if name := settings.quoted(sentence)[0]:
        return name
    if after := _PARAM_AFTER.search(sentence):
        name = after[1].rstrip(".")
        if "_" in name or settings.ends(name)[0] in settings.KNOWN or ":" in after[0] or name != name.lower():
            return name
    return ""


def _too_long(case: _Case, param: str) -> Meaning | None:
    return settings.too_long(param) if settings.ends(param)[0] in settings.KNOWN else None


def _sorted(features: Iterable[F]) -> tuple[str, ...]:
    return tuple(sorted(feature.value for feature in features))


def _meant(meaning: Meaning, rule: str, field: str, entry: str, param: str = "") -> _Decided:
    return _Decided(meaning.kind, rule, field, (entry,), _sorted(meaning.features), param)


def _first(case: _Case, name: str) -> str:
    """The innermost finding's value of this field."""
    return next((value for finding in case.findings if (value := getattr(finding, name))), "")


def _prior(case: _Case, http_status: int) -> _Decided:
    """What the status says where nothing else does."""
    status, field = (case.status, case.stated_in) if case.status else _named_status(case)
    if status == 404 and (rule := _not_found(case)):
        return _Decided(Kind.MODEL_NOT_FOUND, rule, field)
    kind = statuses.prior(status or http_status)
    rule = UNRECOGNISED if kind is Kind.CALLER_ERROR else f"status_{status or http_status}"
    return _Decided(kind, rule, field)


def _spoken(said: tuple[_Said, ...]) -> int:
    spoken = 0
    for one in said:
        spoken |= one.found.mask
    return spoken


def _named_status(case: _Case) -> tuple[int, str]:
    for finding in case.findings:
        for field, name in finding.codes:
            if status := statuses.NAMED.get(codes.normal(name)):
                return status, finding.at(field)
    return 0, "status"


def _not_found(case: _Case) -> str:
    """What makes a 404 one of the model: its name, or that it names nothing at all."""
    sentences = [set(re.findall(r"\w+", said.sentence.lower())) for said in case.said]
    if any(spoken & {"model", "models"} for spoken in sentences):
        return "model_404"
    bare = not sentences or any(
        spoken <= statuses.BARE_404 and {"not", "found"} <= spoken for spoken in sentences
    )
    return "bare_404" if bare or all(spoken <= statuses.BARE_404 for spoken in sentences) else ""


def unreadable(status: int, why: str) -> Verdict:
    """The verdict on an answer that is not complete, not readable or too large: it says nothing of the turn.

    Args:
        status: its HTTP status.
        why: what is wrong with it, in words of ours.
    """
    return Verdict(
        kind=Kind.UNAVAILABLE,
        evidence=Evidence("unreadable", "body"),
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
