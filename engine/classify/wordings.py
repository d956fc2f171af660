"""What diagnostic sentences say.

A row is a noun together with what is said of it, both in one sentence: each alone is found
in replies of every kind. The rows are tried in order, each on every sentence, the innermost
message first.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from turnout.engine.classify.verdict import Feature as F
from turnout.machines.vocabulary import ErrorKind as Kind


def words(listed: str) -> re.Pattern[str]:
    """Matches any of these phrases, separated by `|`, as whole words and not as a part of a name."""
    phrases = [phrase.strip() for phrase in listed.split("|")]
    literal = "|".join(re.escape(phrase).replace(r"\ ", r"[ _\-]") for phrase in phrases)
    return re.compile(rf"(?<![\w./\-])(?:{literal})(?![\w/])(?![.\-]\w)", re.ASCII)


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


ANY: Final = re.compile("")

# -- what can be refused

FEATURES: Final = (
    (
        F.IMAGE,
        words(
            "image | images | image(s) | image_url | vision | multimodal | multi-modal | pixels | modality"
        ),
    ),
    (F.AUDIO, words("audio | input_audio | speech")),
    (F.VIDEO, words("video | videos | video_url")),
    (F.FILE, words("file | files | file_url | pdf | pdfs | document | documents | mime type")),
    (
        F.TOOLS,
        words(
            "tools | tool use | tool calling | tool call | tool calls | function calling | function call"
            " | function calls | function tools | functions"
        ),
    ),
    (F.TOOL_CHOICE, words("tool choice | toolchoice | toolconfig.toolchoice.any")),
    (
        F.TOOL_SCHEMA,
        words(
            "input schema | tool schema | function schema | invalid schema for function | function declarations"
        ),
    ),
    (
        F.STRUCTURED_OUTPUT,
        words(
            "response format | json schema | json mode | json object | json output | structured output"
            " | structured outputs | guided decoding | grammar | response mime type"
        ),
    ),
    (F.STREAMING, words("stream | streaming")),
    (F.REASONING, words("reasoning | reasoning effort | thinking | reasoning content")),
    (
        F.ROLE,
        words(
            "role | roles | system message | system messages | system prompt | system instruction"
            " | developer instruction | developer message | prefill | prefilling"
        ),
    ),
    (
        F.ENDPOINT,
        re.compile(
            r"/(?:chat/completions|completions|responses|embeddings|messages)\b"
            r"|\b(?:completions?|responses|chatcompletion|chat|this) (?:endpoint|operation|api)\b"
        ),
    ),
)
_FEATURE: Final = re.compile("|".join(pattern.pattern for _, pattern in FEATURES))
_OF_TOOLS: Final = re.compile("|".join(p.pattern for f, p in FEATURES if f in (F.TOOLS, F.TOOL_CHOICE)))
_PART: Final = re.compile(
    "|".join(p.pattern for f, p in FEATURES if f in (F.IMAGE, F.AUDIO, F.VIDEO, F.FILE, F.TOOLS))
    + r"|\b(?:tool|page|pages|mime|headers?|cookies?|schema|function|name|id)\b"
)

_SETTING: Final = re.compile(
    r"(?<![\w-])(?:temperature|top_p|top_k|min_p|typical_p|presence_?penalty|frequency_?penalty"
    r"|repetition_?penalty|logit_bias|top_logprobs|logprobs|stop sequences|max_tokens|max_completion_tokens"
    r"|max_output_tokens|max_new_tokens|completion tokens|output tokens|reasoning[_.]effort|enable_thinking"
    r"|(?:thinking|reasoning)[ _](?:level|budget|effort)|(?:thinking\.)?budget_tokens|parallel_tool_calls"
    r"|service_tier|stream_options|chat_template_kwargs|cache_control|prompt_cache_key|safety_identifier"
    r"|verbosity|anthropic-beta)(?!\w)"
    r"|['\"`](?:stop|seed|store|user|metadata|n|suffix|prediction|modalities)['\"`]",
    re.ASCII,
)

# -- what is said of them

_UNSUPPORTED: Final = words(
    "not support | not supported | unsupported | does not support | doesn't support | don't support"
    " | isn't supported | aren't supported | only supported | supported only | that support"
    " | not enabled | not be enabled | not allowed | not permitted | not available | not accept"
    " | doesn't accept | does not work with | only works with | not accessible | incompatible | not compatible"
    " | cannot be used | can't be used | cannot be combined | can't be combined | cannot be mixed"
    " | cannot accept | cannot handle | cannot process | cannot read | cannot use | disabled"
    " | not a multimodal | not multimodal | unable to handle | not capable | not configured"
)
_COMBINED: Final = words(
    "cannot be combined | can't be combined | cannot be used together | can't be used together"
    " | not supported together | cannot be used with | can't be used with | mutually exclusive"
    " | incompatible with | not compatible with | cannot both be"
)
_EXCEEDS: Final = words(
    "exceed | exceeds | exceeded | exceeding | exceeds max | too long | too large | too big | longer than"
    " | larger than | over the limit | overflow | overflows | overflowed"
)
_LIMIT: Final = re.compile(
    _EXCEEDS.pattern
    + r"|\b(?:greater than|more than|maximum|limit|must be (?:<=?|less|at most|under)|cannot exceed"
    r"|range of .{0,40}should be|at most|reduce|not fit|doesn't fit|too many|too small|full)"
    r"|超过|超出|过长"
)

# -- the rows

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

_WITHIN_MINUTES: Final = re.compile(
    r"\b(?:retry|again|wait)\b.{0,20}?\b\d{1,3}(?:\.\d{1,12})? ?(?:ms|s|secs?|seconds?|m\b|m\d|min)"
)

VETOES: Final = (
    Wording(
        "content_policy",
        Kind.CONTENT_POLICY,
        words(
            "content filter | content filtering | content filtering policy | content policy | usage policies"
            " | content management policy | safety system | moderation | usage guidelines | usage policy"
            " | responsible ai | safety filter | safety policy | input | prompt | content | response | output"
        ),
        words(
            "flagged | violates usage | violates our | violates the | violate our | violation of our"
            " | policy violation | blocked by content | filtered due | as a result of our safety"
            " | inappropriate content | prohibited content | blocked by our | sensitive words | unsafe content"
        ),
    ),
    Wording("sensitive_words", Kind.CONTENT_POLICY, ANY, re.compile(r"\bsensitive words|new_sensitive|敏感")),
    Wording(
        "rate_limit",
        Kind.UNAVAILABLE,
        ANY,
        re.compile(
            r"\brate[ -]?limit|\btoo many requests\b|\b(?:per|a|each) ?-?(?:min|minute|second|sec|day)\b"
            r"|\b(?:tpm|rpm|tpd|rpd)\b|\bthrottl|\bresources? (?:has been |is )?exhausted\b|\btoo many tokens, please"
        ),
    ),
    Wording("quota_resets_soon", Kind.UNAVAILABLE, words("quota | limit | usage"), _WITHIN_MINUTES),
    Wording(
        "quota_or_billing",
        Kind.QUOTA_OR_BILLING,
        words(
            "credit | credits | balance | billing | budget | quota | spending limit | spend limit | payment"
            " | usage limit | subscription | points | plan"
        ),
        words(
            "insufficient | exceed | exceeded | too low | depleted | used up | ran out | run out | out of"
            " | exhausted | reached | overdue | not enough | no quota | negative | requires more | upgrade"
            " | purchase | not active | expired"
        ),
    ),
    Wording("billing_zh", Kind.QUOTA_OR_BILLING, ANY, re.compile("余额不足|欠费|充值|额度不足")),
    Wording(
        "credential",
        Kind.AUTH,
        words(
            "api key | x api key | access key | subscription key | security token | auth token | access token"
            " | api token | credential | credentials | auth credentials | authentication | oauth | ak/sk"
        ),
        words(
            "invalid | incorrect | missing | not valid | expired | revoked | no | denied | failed | not allowed"
            " | not found | required | wrong | disabled | not provided | didn't provide"
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
            "not supported | deactivated | suspended | not allowed | blocked | disabled"
            " | not authorized | not permitted"
        ),
        words("model | models"),
    ),
)

_CONTEXT: Final = words(
    "context length | context window | context size | context limit | max context | maximum context"
    " | token limit | max prompt length | maximum prompt length | maximum input length | max input length"
)
_TOKENS: Final = words(
    "input tokens | inputs tokens | input token count | prompt token count | prompt tokens | input length"
    " | prompt length | number of tokens | total tokens | token count | too many tokens | inputs"
    " | number of input tokens | number of prompt tokens | tokens in the prompt | tokens in your prompt"
)
_INPUT_TOKENS: Final = re.compile(_TOKENS.pattern + r"|`inputs` tokens|输入长度|上下文")
_WHOLE: Final = words("prompt | input | request | messages | conversation | message history | payload | body")

OVERFLOWS: Final = (
    Wording("context_limit", Kind.CONTEXT_WINDOW, _CONTEXT, _LIMIT),
    Wording("token_count_limit", Kind.CONTEXT_WINDOW, _INPUT_TOKENS, _LIMIT, _PART),
    Wording(
        "input_exceeds",
        Kind.CONTEXT_WINDOW,
        _WHOLE,
        _EXCEEDS,
        re.compile(
            f"{_PART.pattern}|{_SETTING.pattern}|" + r"\b(?:array|time|timeout|timed|deadline|seconds|stop)\b"
        ),
    ),
    Wording(
        "shorten_input",
        Kind.CONTEXT_WINDOW,
        words("prompt | input | messages | conversation"),
        words("reduce the length | reduce your prompt | shorten | shorter"),
        re.compile(f"{_PART.pattern}"),
    ),
)

REFUSALS: Final = (
    Wording(
        "broken_part",
        Kind.CALLER_ERROR,
        words("image | images | file | audio | video | pdf | document | base64 | url"),
        words(
            "download | downloading | fetch | fetching | decode | decoded | parse | corrupt | corrupted | base64"
            " | could not process | unable to process | truncated | unreachable | not a valid"
        ),
        words("not supported | does not support | doesn't support | exceeds | exceed | unsupported"),
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
        _SETTING,
        re.compile(
            _UNSUPPORTED.pattern
            + r"|\b(?:too large|too high|too low|invalid|valid range|must be|may only be|cannot|can't|unknown"
            r"|unrecognized|unexpected|deprecated|supports (?:up to|at most|only)|at most|extra inputs)|必须"
        ),
        _OF_TOOLS,
    ),
    Wording(
        "reasoning_required",
        Kind.PARAMETER_REJECT,
        words("reasoning | thinking"),
        words("mandatory | cannot be disabled | can't be disabled | must be enabled | must be disabled"),
        _OF_TOOLS,
    ),
    Wording("feature_unsupported", Kind.CAPABILITY, _FEATURE, _UNSUPPORTED),
    Wording(
        "feature_limit",
        Kind.CAPABILITY,
        words(
            "image | images | image(s) | audio | video | pdf | file | pages | tools | array of tools"
            " | image dimensions | pixels"
        ),
        re.compile(
            _EXCEEDS.pattern
            + r"|\b(?:at most|too many|maximum number|maximum of|up to|limited to|more than) ?\d{0,9}|\bexceeds? max"
        ),
    ),
    Wording("tool_parser_missing", Kind.CAPABILITY, _OF_TOOLS, re.compile(r"\brequires? --")),
    Wording(
        "schema_unsupported",
        Kind.CAPABILITY,
        re.compile(
            "|".join(p.pattern for f, p in FEATURES if f is F.TOOL_SCHEMA) + r"|\bfunction_declarations\b"
        ),
        re.compile(r"\b(?:must|missing|required|not permitted|not support|unknown name|invalid)"),
    ),
    Wording(
        "tool_name_refused",
        Kind.CAPABILITY,
        re.compile(r"\b(?:tools|functions)[\[.\w\]]{0,40}name\b"),
        words("not match pattern | match the pattern | match pattern"),
    ),
    Wording(
        "unknown_content_part",
        Kind.CAPABILITY,
        re.compile(
            r"\bunknown variant [`'\"](?:image|input_image|audio|input_audio|video|file|input_file)|\bany variant of"
        ),
        re.compile(r"\bexpected|\buntagged enum\b.{0,80}content"),
    ),
    Wording(
        "role_order",
        Kind.CAPABILITY,
        words("role | roles | conversation | system message | user message"),
        words(
            "alternate | after role | must start with | must end with | must begin with | must be at the beginning"
        ),
    ),
    Wording(
        "foreign_history",
        Kind.CAPABILITY,
        words("signature | encrypted content | thought signature"),
        words("invalid | could not be verified | missing | mismatch"),
        words("webhook | credential | aws | request signature"),
    ),
    Wording("combination", Kind.CAPABILITY, words("features | options | modes"), _COMBINED),
)

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
        ANY,
        words(
            "overloaded | server busy | at capacity | no capacity | temporarily unavailable"
            " | try again later | currently loading | loading model | timed out | no available channel"
            " | service unavailable | bad gateway"
        ),
    ),
)
"""Weak, and so asked last: a refusal may end in "please try again later" too."""

# -- sentences that name a parameter

UNSUPPORTED_NAME: Final = re.compile(
    r"\b(?:unsupported (?:parameter|value|argument)|unrecognized (?:request argument|parameter|field)s?(?: supplied)?"
    r"|unknown (?:parameter|field|argument)|argument not supported on this model"
    r"|unexpected keyword argument)s?:? ?['\"`]?([a-z_][\w.\[\]]{0,127})"
)
TOO_LONG_NAME: Final = re.compile(
    r"\b(?:invalid )?['\"`]([a-z_][\w.\[\]]{0,127})['\"`] ?: (?:string|array) too long"
)
RENAMED: Final = re.compile(r"\bmoved to\b|\b(?:use|rename[d]? to) ['\"`]?[\w.]{1,64}['\"`]? instead")
"""Said of a parameter: the target has the feature, under another name."""


def features(sentence: str) -> tuple[str, ...]:
    """What a sentence names, sorted. An endpoint is where, not what, beside anything else."""
    named = sorted(feature.value for feature, pattern in FEATURES if pattern.search(sentence))
    if len(named) > 1 and F.ENDPOINT in named:
        named.remove(F.ENDPOINT)
    return tuple(named)


def setting(sentence: str) -> str:
    """The first optional setting that a sentence names, or an empty string."""
    found = _SETTING.search(sentence)
    return found[0].strip("'\"`") if found else ""
