"""What diagnostic sentences say.

A row is a noun together with what is said of it, both in one sentence: each alone is found
in replies of every kind. The rows are tried in order, each on every sentence, the innermost
message first.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from turnout.engine.classify.nouns import ANY_FEATURE, FEATURES, PART, SETTING, TOOLS
from turnout.engine.classify.text import either, words
from turnout.engine.classify.verdict import Feature as F
from turnout.machines.vocabulary import ErrorKind as Kind


class Wording(NamedTuple):
    """One row: a sentence in which `of` and `says` both match, and `unless` does not."""

    rule: str
    kind: Kind
    of: re.Pattern[str]
    says: re.Pattern[str]
    unless: re.Pattern[str] | None = None

    def matches(self, sentence: str) -> bool:
        """Whether the sentence says this."""
        if not (self.of.search(sentence) and self.says.search(sentence)):
            return False
        return not (self.unless and self.unless.search(sentence))


ANYTHING: Final = re.compile("")
"""For words that mean one thing whatever they are said of."""

# -- the vetoes

LONG_CONTEXT: Final = (
    Wording(
        "long_context_surcharge",
        Kind.CONTEXT_WINDOW,
        words("long context"),
        words(
            "extra usage | beta | surcharge | tier | subscription | not available | not enabled | required"
        ),
    ),
)
"""The one mention of money or of a tier that is an overflow: shorter sessions still work."""

VETOES: Final = (
    Wording(
        "content_policy",
        Kind.CONTENT_POLICY,
        words(
            "content filter | content filtering | content filtering policy | content policy"
            " | content management policy | safety system | safety filter | safety policy | moderation"
            " | usage guidelines | usage policy | usage policies | responsible ai"
            " | input | prompt | content | response | output"
        ),
        words(
            "flagged | violates usage | violates our | violates the | violate our | violation of our"
            " | violating our | policy violation | blocked by content | blocked by our | filtered due"
            " | as a result of our safety | inappropriate content | prohibited content | unsafe content"
        ),
    ),
    Wording(
        "sensitive_words",
        Kind.CONTENT_POLICY,
        ANYTHING,
        re.compile(r"\bsensitive words|\bnew_sensitive|\bcontent exists risk|敏感"),
    ),
    Wording(
        "rate_limit",
        Kind.UNAVAILABLE,
        ANYTHING,
        re.compile(
            r"\brate[ -]?limit|\btoo many requests\b|\bconcurren(?:t|cy)\b|\bthrottl"
            r"|\b(?:per|a|each) ?-?(?:min|minute|second|sec|day)\b|\b(?:tpm|rpm|tpd|rpd)\b"
            r"|\bresources? (?:has been |is )?exhausted\b|\btoo many tokens, please"
        ),
    ),
    Wording(
        "resets_soon",
        Kind.UNAVAILABLE,
        ANYTHING,
        re.compile(
            r"\b(?:retry|again|wait)\b.{0,20}?\b\d{1,3}(?:\.\d{1,12})? ?"
            r"(?:ms|s|secs?|seconds?|m|m\d|min|minutes?)\b"
        ),
    ),
    Wording(
        "quota_or_billing",
        Kind.QUOTA_OR_BILLING,
        words(
            "credit | credits | balance | billing | budget | quota | payment | subscription | points | plan"
            " | spending limit | spend limit | usage limit | key limit | monthly limit | weekly limit"
        ),
        words(
            "insufficient | exceed | exceeds | exceeded | too low | depleted | used up | ran out | run out"
            " | out of | exhausted | reached | overdue | not enough | no quota | negative | requires more"
            " | upgrade | purchase | not active | expired"
        ),
        words("thinking | thinking budget | reasoning"),
    ),
    Wording("quota_or_billing", Kind.QUOTA_OR_BILLING, ANYTHING, re.compile("余额不足|欠费|充值|额度不足")),
    Wording(
        "credential",
        Kind.AUTH,
        words(
            "api key | x api key | access key | subscription key | security token | auth token | access token"
            " | api token | credential | credentials | auth credentials | authentication | oauth | ak/sk"
        ),
        words(
            "invalid | incorrect | missing | not valid | expired | revoked | no | denied | failed | wrong"
            " | not allowed | not found | required | disabled | not provided | didn't provide"
        ),
    ),
    Wording(
        "verification",
        Kind.AUTH,
        words("organization | organisation | account | identity"),
        words("must be verified | needs to be verified | not verified | verify"),
    ),
    Wording(
        "account",
        Kind.AUTH,
        words("organization | organisation | account | country | region | ip address | ip"),
        words(
            "not supported | deactivated | suspended | blocked | disabled | not allowed | not authorized"
            " | not permitted"
        ),
        words("model | models"),
    ),
)

# -- the overflow

_EXCEEDS: Final = words(
    "exceed | exceeds | exceeded | exceeding | too long | too large | too big | longer than | larger than"
    " | over the limit | overflow | overflows | overflowed"
)
_LIMIT: Final = either(
    _EXCEEDS,
    r"\b(?:greater than|more than|reduce|not fit|doesn't fit|too many|full)\b",
    r"\b(?:maximum|limit)\b.{0,120}\d|\d.{0,120}\b(?:maximum|limit)\b",
    r"\bmust (?:be|have) (?:<|less|fewer|at most|under)|\bat most\b|\brange of .{0,40}should be\b",
    r"超过|超出|过长",
)
_TOKENS: Final = either(
    words(
        "input tokens | inputs tokens | prompt tokens | total tokens | too many tokens | token count"
        " | input token count | prompt token count | number of tokens | number of input tokens"
        " | number of prompt tokens | tokens in the prompt | tokens in your prompt | input length"
        " | prompt length | inputs must have"
    ),
    r"`inputs` tokens|输入长度|上下文",
)
_OUTPUT_ONLY: Final = re.compile(
    r"^(?!.*\b(?:inputs?|prompt|messages|total)\b).*(?:max_\w{0,16}tokens|(?:output|completion) tokens)"
)
"""A cap on the answer's length alone is a setting, not a conversation that has grown."""
_NOT_OF_SIZE: Final = either(
    PART,
    SETTING,
    r"\b(?:array|time|timeout|timed|deadline|seconds|stop|took|takes?|taking|queued?|waited|response|ur[il]"
    r"|retries|attempts|requests|number of|key|cache)\b",
)
"""What may be too long, too large or exceeded beside the size of the request."""

OVERFLOWS: Final = (
    Wording(
        "context_limit",
        Kind.CONTEXT_WINDOW,
        words(
            "context length | context window | context size | max context | maximum context"
            " | max prompt length | maximum prompt length | max input length | maximum input length"
        ),
        _LIMIT,
    ),
    Wording(
        "context_limit",
        Kind.CONTEXT_WINDOW,
        words("context | context limit | token limit | tokens limit"),
        _EXCEEDS,
        _OUTPUT_ONLY,
    ),
    Wording("token_count_limit", Kind.CONTEXT_WINDOW, _TOKENS, _LIMIT, _OUTPUT_ONLY),
    Wording(
        "input_exceeds",
        Kind.CONTEXT_WINDOW,
        words("prompt | input | request | messages | conversation | message history | payload | body"),
        _EXCEEDS,
        _NOT_OF_SIZE,
    ),
    Wording(
        "shorten_input",
        Kind.CONTEXT_WINDOW,
        words("prompt | input | messages | conversation"),
        words("reduce the length | reduce your prompt | shorten | shorter"),
        PART,
    ),
)

# -- what was refused

_UNSUPPORTED: Final = words(
    "not support | not supported | unsupported | does not support | doesn't support | don't support"
    " | isn't supported | aren't supported | only supported | supported only | that support"
    " | not enabled | not be enabled | not allowed | not permitted | not available | not accept"
    " | doesn't accept | does not work with | only works with | not accessible | incompatible"
    " | not compatible | cannot be used | can't be used | cannot be combined | can't be combined"
    " | cannot be mixed | cannot accept | cannot handle | cannot process | cannot read | cannot use"
    " | disabled | not a multimodal | not multimodal | unable to handle | not capable | not configured"
)

REFUSALS: Final = (
    Wording(
        "broken_part",
        Kind.CALLER_ERROR,
        words("image | images | file | audio | video | pdf | document | base64 | url"),
        words(
            "download | downloading | fetch | fetching | decode | decoded | parse | corrupt | corrupted"
            " | base64 | could not process | unable to process | truncated | unreachable | not a valid"
        ),
        words("not supported | does not support | doesn't support | exceeds | exceed | unsupported"),
    ),
    Wording(
        "unknown_format",
        Kind.CALLER_ERROR,
        ANYTHING,
        re.compile(
            r"\bunsupported (?:image|file|audio|video)(?:[.,]| (?:format|type|extension|media))"
            r"|\b(?:image|file|audio|video) (?:format|type|extension)s?\b.{0,40}"
            r"\b(?:not supported|unsupported)"
        ),
    ),
    Wording(
        "stale_reference",
        Kind.CALLER_ERROR,
        words(
            "cachedcontent | cached content | previous response | item | conversation | assistant | thread"
        ),
        words("not found | does not exist | expired"),
    ),
    Wording(
        "setting_refused",
        Kind.PARAMETER_REJECT,
        SETTING,
        either(
            _UNSUPPORTED,
            r"\b(?:too large|too high|too low|invalid|valid range|must be|may only be|cannot|can't|unknown"
            r"|unrecognized|unexpected|deprecated|exceeds?|maximum allowed|supports (?:up to|at most|only)"
            r"|at most|extra inputs)\b|必须",
        ),
        TOOLS,
    ),
    Wording(
        "reasoning_required",
        Kind.PARAMETER_REJECT,
        FEATURES[F.REASONING],
        words("mandatory | cannot be disabled | can't be disabled | must be enabled | must be disabled"),
        TOOLS,
    ),
    Wording(
        "feature_unsupported",
        Kind.CAPABILITY,
        ANY_FEATURE,
        _UNSUPPORTED,
        words(
            "permission | permissions | authorized | access | api key | method | your role | iam"
            " | image model | vision model | audio model | speech model | video model"
        ),
    ),
    Wording("format_unavailable", Kind.CAPABILITY, FEATURES[F.STRUCTURED_OUTPUT], words("unavailable")),
    Wording(
        "only_supports",
        Kind.CAPABILITY,
        words("text | text input | text inputs | text content | text messages | stream | streaming"),
        words("only supports | only support | only accepts | only accept"),
    ),
    Wording(
        "no_endpoint_supports",
        Kind.CAPABILITY,
        words("no endpoints"),
        words("that support | that can handle | requested parameters"),
    ),
    Wording(
        "feature_limit",
        Kind.CAPABILITY,
        words(
            "image | images | image(s) | image dimensions | pixels | audio | video | pdf | file | pages"
            " | tools"
        ),
        either(_EXCEEDS, r"\b(?:at most \d|too many|maximum number|limited to \d)"),
    ),
    Wording("tool_parser_missing", Kind.CAPABILITY, TOOLS, re.compile(r"\brequires? --")),
    Wording(
        "schema_refused",
        Kind.CAPABILITY,
        FEATURES[F.TOOL_SCHEMA],
        re.compile(r"\b(?:must|missing|required|not permitted|not support|unknown name|invalid)\b"),
    ),
    Wording(
        "tool_name_refused",
        Kind.CAPABILITY,
        re.compile(r"\b(?:tools|functions)[\[.\w\]]{0,40}name\b"),
        words("match pattern | match the pattern"),
    ),
    Wording(
        "unknown_part",
        Kind.CAPABILITY,
        re.compile(
            r"\b(?:unknown variant|unknown part type|invalid value"
            r"|(?:invalid|unknown|unsupported) content type)"
            r":? [`'\"]?(?:image|input_image|audio|input_audio|video|file|input_file)"
            r"|\bany variant of .{0,80}content"
        ),
        ANYTHING,
    ),
    Wording(
        "role_order",
        Kind.CAPABILITY,
        words("role | roles | conversation | system message | user message"),
        words(
            "alternate | after role | must start with | must end with | must begin with"
            " | must be at the beginning"
        ),
    ),
    Wording(
        "foreign_history",
        Kind.CAPABILITY,
        words("signature | thought signature | encrypted content"),
        words("invalid | could not be verified | missing | mismatch"),
        words("webhook | credential | aws | request signature"),
    ),
    Wording(
        "combination",
        Kind.CAPABILITY,
        words("features | modes | capabilities"),
        words(
            "cannot be combined | can't be combined | cannot be used together | can't be used together"
            " | not supported together"
        ),
    ),
)

# -- the model, and load

MODELS: Final = (
    Wording(
        "model_unknown",
        Kind.MODEL_NOT_FOUND,
        re.compile(r"\b(?:models?|deployment|inference profile|engine|on-demand throughput)\b"),
        words(
            "not found | does not exist | doesn't exist | not exist | unknown model | no longer available"
            " | deprecated | retired | decommissioned | not deployed | not available | not supported"
            " | isn't supported | unsupported model | not accessible | do not have access | no access"
            " | invalid model | not a valid model | not loaded | end of life | shut down"
        ),
    ),
    Wording("no_endpoints", Kind.MODEL_NOT_FOUND, words("no endpoints"), words("found | available")),
)

LOAD: Final = (
    Wording(
        "load",
        Kind.UNAVAILABLE,
        ANYTHING,
        words(
            "overloaded | server busy | at capacity | no capacity | temporarily unavailable | try again later"
            " | currently loading | loading model | timed out | no available channel | service unavailable"
            " | bad gateway"
        ),
    ),
)
"""Weak, and so asked last: a refusal may end in "please try again later" too."""

# -- sentences that name a parameter

UNSUPPORTED_NAME: Final = re.compile(
    r"\b(?:(?:unsupported|unknown|unrecognized) (?:request )?(?:parameter|value|field|argument)s?"
    r"(?: supplied)?|argument not supported on this model|unexpected keyword argument)"
    r"(?:: ?| ?(?=['\"`]))['\"`]?([a-z_][\w.\[\]]{0,127})"
)
TOO_LONG_NAME: Final = re.compile(r"['\"`]([a-z_][\w.\[\]]{0,127})['\"`] ?: (?:string|array) too long")
RENAMED: Final = re.compile(r"\bmoved to\b|\b(?:use|renamed? to) ['\"`]?[\w.]{1,64}['\"`]? instead")
"""Said of a parameter: the target has the feature, under another name."""
