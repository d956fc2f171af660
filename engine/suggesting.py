"""A rule of a deployment file made ready for a reply that no rule knows, for its reader to finish."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Final

from turnout.engine.classify.codes import normal
from turnout.engine.classify.operator import ErrorRule, decided
from turnout.engine.classify.reply import Reply
from turnout.engine.classify.statuses import NAMED
from turnout.engine.classify.unwrap import Finding, findings
from turnout.engine.redaction import Quotations, Redactor
from turnout.machines.vocabulary import ErrorKind

LONGEST: Final = 60
"""Characters of a message, or of a code, that a rule looks for."""
SHORTEST: Final = 8
"""Characters of a message that tell something: fewer may stand in any."""
CERTAIN: Final = 20
"""From so many characters on they tell more than a type does, which a server may send for much else."""

_PHRASES: Final = frozenset(
    {normal(status.phrase) for status in HTTPStatus}
    # some that newer editions of HTTP have renamed, and of which Python knows but one name
    | {"unprocessableentity", "unprocessablecontent", "requestentitytoolarge", "contenttoolarge"}
    | {"requesturitoolong", "uritoolong", "requestedrangenotsatisfiable", "rangenotsatisfiable"}
)
GENERIC: Final = frozenset(
    {"error", "errorcode", "invalidrequest", "exception", "httperror", "httpexception", "clienterror"}
    | {"apistatuserror", "upstreamerror", "providererror", "providerreturnederror", "requestfailed"}
    | {"invalidparameter", "invalidparametererror", "invalidparams", "invalidvalue", "invalidtype"}
    | {"invalidinput", "invalidrequestbody", "invalidpayload", "badresponsestatuscode"}
    | {"requestfailedwithstatuscode", "requesterror", "valueerror", "unknownerror", "unknown", "failed"}
    | NAMED.keys()
    | _PHRASES
    | {f"{phrase}error" for phrase in _PHRASES}
)
"""Codes and messages that a server sends with anything, as `codes.normal` spells them."""

_NO_WORD: Final = re.compile(r"\d|^[!-~]{25,}$|[\[\]…]|[a-z](?:Error|Exception)")
"""A number, an id, what stands for something that was taken out, an exception's class."""
_ENDS: Final = " .,:;!?'\"`(){}<>=-"
_REDACTOR: Final = Redactor((), Quotations({}))


def suggested(reply: Reply, features: Sequence[str], table: str) -> str | None:
    """A rule that knows this reply, as TOML; None where it would know every other one of its status too.

    Args:
        features: what the reply speaks of.
        table: the list that the rule belongs in, such as `llm_clients.house.errors`.
    """
    found = findings(reply)
    for key, value, remark in _candidates(found):
        code, contains = (value, None) if key == "code" else (None, value)
        rule = ErrorRule(kind=ErrorKind.CAPABILITY, status=reply.status, code=code, contains=contains)
        if decided((rule,), reply.status, found):
            lines = [f"[[{table}]]", f"status = {reply.status}", f"{key} = {_toml(value)}{remark}"]
            lines.append(f'kind = "{ErrorKind.CAPABILITY}"  # or what it is')
            if features:
                lines.append(f"features = {_toml(list(features))}  # with that kind only")
            else:
                lines.append('# features = ["image"], or what is refused, with that kind only')
            return "\n".join(lines)
    return None


def _candidates(found: Sequence[Finding]) -> Iterator[tuple[str, str, str]]:
    """What may tell this reply from others, the most certain first: a key of a rule, its value, a remark."""
    coded = [finding.code for finding in found if not _is_status(finding.code)]
    named = [name for finding in found for _, name in finding.names]
    said = [run for finding in found for run in sorted(_runs(finding.message), key=len, reverse=True)]
    yield from (("code", code, "") for code in filter(_tells, coded))
    yield from (("contains", run, "") for run in said if len(run) >= CERTAIN)
    yield from (("code", name, "  # if it sends this with nothing else") for name in filter(_tells, named))
    yield from (("contains", run, "") for run in said)


def _is_status(code: str) -> bool:
    return code.isdecimal() and len(code) == 3 and "1" <= code[0] <= "5"


def _tells(code: str) -> bool:
    known = normal(code)
    return known != "" and len(code) <= LONGEST and known not in GENERIC and _REDACTOR.clean(code) == code


def _runs(message: str) -> Iterator[str]:
    """The runs of words in a message that another one of the sort would have as well."""
    run: list[str] = []
    for word in [*_REDACTOR.clean(message).split(), "0"]:
        if not _NO_WORD.search(word):
            run.append(word)
            continue
        text = " ".join(run).strip(_ENDS)
        if len(text) > LONGEST:
            text = text[:LONGEST].rpartition(" ")[0].strip(_ENDS)
        if len(text) >= SHORTEST and normal(text) not in GENERIC:
            yield text
        run = []


def _toml(value: object) -> str:
    """A string or a list of them; what is not seen is escaped."""
    text = json.dumps(value, ensure_ascii=False)
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in text)
