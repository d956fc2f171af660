"""What structured codes say.

A code is looked up in lower case and without punctuation, so `RateLimitExceeded`,
`rate_limit_exceeded` and `rate-limit-exceeded` are one row. Only codes that mean one thing
at every provider stand here; `invalid_request_error` and its like mean any.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from turnout.engine.classify.settings import Meaning, capability
from turnout.engine.classify.verdict import Feature as F
from turnout.machines.vocabulary import ErrorKind as Kind


@lru_cache(maxsize=1024)
def normal(code: str) -> str:
    """A code as the tables spell it."""
    return _OTHER.sub("", code[:_LONGEST].lower())


_OTHER: Final = re.compile(r"[^a-z0-9]")
_LONGEST: Final = 128


def _table(*rows: tuple[Meaning | Kind, str]) -> Mapping[str, Meaning]:
    meanings = [(row if isinstance(row, Meaning) else Meaning(row), codes) for row, codes in rows]
    return {code: meaning for meaning, codes in meanings for code in codes.split()}


POLICY: Final = _table(
    (
        Kind.CONTENT_POLICY,
        """contentfilter contentfiltered contentpolicyviolation contentpolicy responsibleaipolicyviolation
        datainspectionfailed sensitivewordsdetected promptblocked prohibitedcontent moderationblocked
        contentmoderation cyberpolicyviolation guardrailintervened refusal safety recitation blocklist spii
        imagesafety contentblocked sensitive invalidprompt promptthreatdetected""",
    ),
)
BILLING: Final = _table(
    (
        Kind.QUOTA_OR_BILLING,
        """insufficientquota insufficientcredits insufficientbalance insufficientuserquota quotaexceeded
        budgetexceeded creditlimit billinghardlimitreached billingnotactive billingerror usagelimitreached
        usagelimitexceeded paymentrequired arrearage accountoverdueerror accountoverdue
        exceededcurrentquotaerror""",
    ),
)
"""Asked before the codes of a rate limit, and before what says that a limit resets soon."""

VETOES: Final = _table(
    (
        Kind.AUTH,
        """invalidapikey incorrectapikey apikeyinvalid apikeyexpired authenticationerror invalidauthentication
        unauthenticated unsupportedcountryregionterritory unsupportedregion accountdeactivated""",
    ),
    (
        Kind.UNAVAILABLE,
        """ratelimitexceeded ratelimiterror ratelimitreached ratelimited toomanyrequests throttlingexception
        throttling resourceexhausted throttlingratequota tooluseformatfailed toolusefailed
        modelnotreadyexception throttlingallocationquota requesttimeout""",
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
        capability(F.IMAGE),
        "imagenotsupported imagesnotsupported imageinputnotsupported visionnotsupported visionunsupported",
    ),
    (capability(F.AUDIO), "audionotsupported audioinputnotsupported"),
    (capability(F.VIDEO), "videonotsupported videoinputnotsupported"),
    (capability(F.FILE), "filenotsupported pdfnotsupported fileinputnotsupported"),
    (
        capability(F.TOOLS),
        """toolsnotsupported toolusenotsupported toolcallingnotsupported functioncallingnotsupported
        functioncallnotsupported""",
    ),
    (capability(F.TOOL_SCHEMA), "invalidfunctionparameters invalidtoolschema"),
    (
        capability(F.STRUCTURED_OUTPUT),
        "responseformatnotsupported structuredoutputnotsupported jsonmodenotsupported jsonschemanotsupported",
    ),
    (capability(F.STREAMING), "streamingnotsupported streamnotsupported"),
    (capability(F.REASONING), "reasoningnotsupported thinkingnotsupported"),
    (capability(F.ENDPOINT), "unsupportedapiformodel operationnotsupported"),
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
        serviceunavailableerror serverbusy modelloading timeout""",
    ),
)

# -- codes that mean something together with the parameter that they name

UNNAMED: Final = _table(
    (Kind.PARAMETER_REJECT, "unsupportedparameter unknownparameter unrecognizedparameter"),
)
"""Where nothing says which one."""

UNSUPPORTED: Final = frozenset(
    {"unsupportedparameter", "unknownparameter", "unrecognizedparameter", "unsupportedvalue"}
    | {"unsupportedargument", "unknownfield", "extraforbidden"}
)
WRONG_PART: Final = frozenset({"stringtype", "listtype", "dicttype", "literalerror", "enum"})
"""A validator's codes: content in a form that this server does not take."""
TOO_LONG: Final = frozenset({"stringabovemaxlength", "arrayabovemaxlength"})
