"""What structured codes say.

A code is looked up in lower case and without punctuation, so `RateLimitExceeded`,
`rate_limit_exceeded` and `rate-limit-exceeded` are one row. Only codes that mean one thing
at every provider stand here; `invalid_request_error` and its like mean any.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from turnout.engine.classify.verdict import Feature as F
from turnout.machines.vocabulary import ErrorKind as Kind


class Meaning(NamedTuple):
    """What a code or a refused parameter says."""

    kind: Kind
    features: tuple[F, ...] = ()


def normal(code: str) -> str:
    """A code as the tables spell it."""
    return re.sub(r"[^a-z0-9]", "", code.lower())


def _table(*rows: tuple[Meaning | Kind, str]) -> Mapping[str, Meaning]:
    meanings = [(row if isinstance(row, Meaning) else Meaning(row), codes) for row, codes in rows]
    return {code: meaning for meaning, codes in meanings for code in codes.split()}


def _capability(feature: F) -> Meaning:
    return Meaning(Kind.CAPABILITY, (feature,))


VETOES: Final = _table(
    (
        Kind.CONTENT_POLICY,
        """contentfilter contentfiltered contentpolicyviolation contentpolicy responsibleaipolicyviolation
        datainspectionfailed sensitivewordsdetected promptblocked prohibitedcontent moderationblocked
        contentmoderation cyberpolicyviolation""",
    ),
    (
        Kind.QUOTA_OR_BILLING,
        """insufficientquota insufficientcredits insufficientbalance insufficientuserquota quotaexceeded
        budgetexceeded creditlimit billinghardlimitreached billingnotactive billingerror usagelimitreached
        usagelimitexceeded paymentrequired arrearage accountoverdueerror accountoverdue""",
    ),
    (
        Kind.AUTH,
        """invalidapikey incorrectapikey apikeyinvalid apikeyexpired authenticationerror invalidauthentication
        unauthenticated unsupportedcountryregionterritory unsupportedregion accountdeactivated""",
    ),
    (
        Kind.UNAVAILABLE,
        """ratelimitexceeded ratelimiterror ratelimitreached ratelimited toomanyrequests throttlingexception
        throttling resourceexhausted throttlingratequota tooluseformatfailed toolusefailed""",
    ),
)
"""Codes that veto an overflow or a capability, whatever the words."""

OVERFLOWS: Final = _table(
    (
        Kind.CONTEXT_WINDOW,
        """contextlengthexceeded contextlengthexceedederror contextwindowexceeded contextwindowexceedederror
        maxcontextlengthexceeded exceedcontextsizeerror contextoverflow contextlimitexceeded
        modelmaxprompttokensexceeded maxprompttokensexceeded prompttoolong inputtoolong requesttoolarge
        tokenlimitexceeded""",
    ),
)

REFUSALS: Final = _table(
    (
        _capability(F.IMAGE),
        "imagenotsupported imagesnotsupported imageinputnotsupported visionnotsupported visionunsupported",
    ),
    (_capability(F.AUDIO), "audionotsupported audioinputnotsupported"),
    (_capability(F.VIDEO), "videonotsupported videoinputnotsupported"),
    (_capability(F.FILE), "filenotsupported pdfnotsupported fileinputnotsupported"),
    (
        _capability(F.TOOLS),
        """toolsnotsupported toolusenotsupported toolcallingnotsupported functioncallingnotsupported
        functioncallnotsupported""",
    ),
    (_capability(F.TOOL_SCHEMA), "invalidfunctionparameters invalidtoolschema"),
    (
        _capability(F.STRUCTURED_OUTPUT),
        "responseformatnotsupported structuredoutputnotsupported jsonmodenotsupported jsonschemanotsupported",
    ),
    (_capability(F.STREAMING), "streamingnotsupported streamnotsupported"),
    (_capability(F.REASONING), "reasoningnotsupported thinkingnotsupported"),
    (_capability(F.ENDPOINT), "unsupportedapiformodel operationnotsupported"),
    (_capability(F.ROLE), "invalidrequestmessageorder"),
    (
        Kind.CALLER_ERROR,
        """missingrequiredparameter invalidimageurl invalidimageformat invalidimage invalidbase64image
        imageparseerror invalidimageurlinvalidformat invalidjson previousresponsenotfound
        decimalabovemaxvalue decimalbelowminvalue integerbelowminvalue""",
    ),
)

MODELS: Final = _table(
    (
        Kind.MODEL_NOT_FOUND,
        """modelnotfound modelnotexist modelnotavailable modelnotdeployed modeldecommissioned modeldeprecated
        deploymentnotfound invalidmodel unknownmodel invalidendpointormodelnotfound""",
    ),
)
"""Asked after what a modality, a tool or an endpoint in the words says: providers use these for both."""

LOAD: Final = _table(
    (
        Kind.UNAVAILABLE,
        """overloadederror overloaded engineoverloaded engineoverloadederror serviceunavailable
        serviceunavailableerror serverbusy modelloading timeout requesttimeout""",
    ),
)

# -- codes that mean something together with the parameter that they name

UNSUPPORTED: Final = frozenset(
    {"unsupportedparameter", "unknownparameter", "unrecognizedparameter", "unsupportedvalue"}
    | {"unsupportedargument", "unknownfield", "extraforbidden"}
)
TOO_LONG: Final = frozenset({"stringabovemaxlength", "arrayabovemaxlength"})

_OF_TOOLS: Final = frozenset({"tools", "functions", "tool"})
_OF_MESSAGES: Final = frozenset({"messages", "input", "prompt", "contents", "system"})
_FEATURES: Final[Mapping[str, F]] = {
    "tool_choice": F.TOOL_CHOICE,
    "function_call": F.TOOL_CHOICE,
    "response_format": F.STRUCTURED_OUTPUT,
    "text.format": F.STRUCTURED_OUTPUT,
    "stream": F.STREAMING,
    "reasoning": F.REASONING,
    "thinking": F.REASONING,
    "audio": F.AUDIO,
}
"""Parameters that are features; any other top-level one is an optional setting."""


def refused(param: str) -> Meaning | None:
    """What it says that the target does not take this parameter, or None where that tells nothing."""
    root, leaf = _ends(param)
    if leaf == "cache_control" or not root:
        return Meaning(Kind.PARAMETER_REJECT) if root else None
    if root in _OF_TOOLS:
        schema = "parameters" in param or "schema" in param
        return _capability(F.TOOL_SCHEMA if schema else F.TOOLS)
    if root in _OF_MESSAGES:
        return _capability(F.ROLE if leaf == "role" else F.OTHER) if leaf != root else None
    if root == "model":
        return None
    feature = _FEATURES.get(param) or _FEATURES.get(root if root == param.strip(".") else "")
    return _capability(feature) if feature else Meaning(Kind.PARAMETER_REJECT)


def too_long(param: str) -> Meaning | None:
    """What it says that this parameter is too long, or None where that tells nothing."""
    root, leaf = _ends(param)
    if root in _OF_TOOLS:
        return _capability(F.TOOLS)
    if root in _OF_MESSAGES:
        whole = leaf in ("content", "text", root) and not (root == "messages" == leaf)
        return Meaning(Kind.CONTEXT_WINDOW) if whole else _capability(F.OTHER)
    return Meaning(Kind.PARAMETER_REJECT) if root else None


def _ends(param: str) -> tuple[str, str]:
    """The first and the last name of a path such as `messages[3].content`."""
    names = [name for name in re.split(r"[.\[\]]+", param.lower()) if name and not name.isdecimal()]
    return (names[0], names[-1]) if names else ("", "")
