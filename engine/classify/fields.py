"""Evidence by the field of the request that a reply names: beside its message, or in it."""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from turnout.engine.classify import codes, naming, settings
from turnout.engine.classify.case import Case, Decided, meant
from turnout.engine.classify.concepts import VAGUE
from turnout.engine.classify.lexicon import Lexicon
from turnout.engine.classify.settings import PARAMETER, Meaning, capability
from turnout.engine.classify.verdict import Feature as F
from turnout.machines.vocabulary import ErrorKind as Kind

_SPEAKS_OF_MORE: Final = tuple(f.value for f in F if f not in (*VAGUE, F.REASONING, F.STREAMING))
"""Beside these a setting may be but a part of what was refused: tools together with an effort."""

_OF_FIELDS: Final = codes.TOO_LONG | codes.WRONG_PART | codes.UNSUPPORTED


class Fields:
    """The stages of this evidence. Each gives what decides, or None."""

    def __init__(self, lexicon: Lexicon, without: Container[str]) -> None:
        mask, bits = lexicon.mask, lexicon.bits
        self._without = without
        self._modality = mask(f.value for f in (F.IMAGE, F.AUDIO, F.VIDEO, F.FILE))
        self._more = mask(_SPEAKS_OF_MORE)
        self._wrong_in_front = mask(("wrong_setting", "refuses", "missing", "exceeds", "at_most"))
        self._wrong_schema = mask(("wrong_schema", "refuses"))
        self._wrong_subject = mask(("wrong_setting", "refuses"))
        self._missing, self._renamed = bits["missing"], bits["renamed"]
        self._unknown, self._exceeds = bits["unknown_field"], bits["exceeds"]

    def setting_in_front(self, case: Case) -> Decided | None:
        """The path of a setting in front of what is wrong with it: `max_tokens: 9 > 8, the maximum`."""
        for said in case.said:
            if said.found.mask & self._wrong_in_front:
                path = naming.in_front(said.sentence)
                if settings.is_setting(path):
                    entry = said.found.first(self._wrong_in_front)
                    return meant(PARAMETER, "setting_in_front", said.field, entry, path)
        return None

    def coded(self, case: Case) -> Decided | None:
        """A code that says what is wrong with the field beside it; of several, all that they refuse."""
        decided = [
            meant(meaning, "coded_field", finding.at("param"), f"code: {code}", finding.param)
            for finding, _, _, code in case.codes
            if code in _OF_FIELDS
            and f"code: {code}" not in self._without
            and (meaning := self._coded(code, finding.param, case))
        ]
        if not decided or decided[0].kind is not Kind.CAPABILITY:
            return decided[0] if decided else None
        features = {feature for one in decided for feature in one.features}
        return decided[0]._replace(features=tuple(sorted(features - {F.OTHER.value} or features)))

    def named(self, case: Case) -> Decided | None:
        """A sentence that names the field and says what is wrong with it."""
        for said in case.said:
            spoken = said.found.mask
            wrong = self._unknown | self._exceeds | self._wrong_schema
            path = naming.field(said.sentence) if spoken & (wrong | self._missing) else ""
            if not path and spoken & self._unknown:
                path = naming.unknown_in_front(said.sentence)
            if not path:
                continue
            of_schema = self._wrong_schema | self._missing
            if spoken & of_schema and settings.is_schema_within_tool(path):
                meaning, wrong = capability(F.TOOL_SCHEMA), of_schema
            elif spoken & self._missing or not spoken & wrong:
                continue
            elif spoken & self._wrong_schema and settings.is_schema_of_tool(path):
                meaning, wrong = capability(F.TOOL_SCHEMA), self._wrong_schema
            elif spoken & self._unknown and (refused := self._refused(path, case)):
                meaning, wrong = refused, self._unknown
            elif (
                spoken & self._exceeds
                and not spoken & self._modality
                and not naming.is_merely_where(said.sentence)
                and (long := settings.too_long(path))
            ):
                meaning, wrong = long, self._exceeds
            else:
                continue
            return meant(meaning, "named_field", said.field, said.found.first(wrong), path)
        return None

    def beside(self, case: Case) -> Decided | None:
        """A setting named beside a message that speaks of no feature."""
        return None if case.spoken & self._more else self.blamed(case)

    def blamed(self, case: Case) -> Decided | None:
        """A setting, or the schema of a tool, named as what is wrong, whatever is said of it."""
        if case.status >= 500:
            return None
        for finding in case.findings:
            place = finding.at("param")
            if settings.is_setting(finding.param):
                return Decided(Kind.PARAMETER_REJECT, "blamed_field", place, param=finding.param)
            if finding.param == "response_format":
                features: tuple[str, ...] = (F.STRUCTURED_OUTPUT.value,)
                return Decided(Kind.CAPABILITY, "blamed_field", place, features=features)
            if settings.is_schema_of_tool(finding.param):
                return Decided(Kind.CAPABILITY, "blamed_field", place, features=(F.TOOL_SCHEMA.value,))
        return None

    def spelt(self, case: Case) -> Decided | None:
        """What a sentence is about is spelt like a field, though no table knows it."""
        for said in case.said:
            if name := naming.plain_setting(said.sentence):
                return meant(PARAMETER, "spelt_field", said.field, f"setting: {name}", name)
            if said.found.mask & self._wrong_subject:
                name = naming.spelt_like_a_field(said.sentence)
                meaning = settings.refused(name)
                if meaning and settings.ends(name)[0] not in settings.OF_CONTENT:
                    entry = said.found.first(self._wrong_subject)
                    return meant(meaning, "spelt_field", said.field, entry, name)
        return None

    def _coded(self, code: str, param: str, case: Case) -> Meaning | None:
        if code in codes.TOO_LONG:
            return settings.too_long(param)
        return settings.wrong_part(param) if code in codes.WRONG_PART else self._refused(param, case)

    def _refused(self, path: str, case: Case) -> Meaning | None:
        if case.spoken & self._renamed:  # the target has it, under another name
            return capability(F.ENDPOINT) if settings.ends(path)[0] in settings.OF_CONTENT else PARAMETER
        return settings.refused(path)
