"""What a sentence that speaks of one thing and says another of it means.

Each alone is found in replies of every kind, so a row asks for both in one sentence. The rows
are tried in order, each on every sentence, the innermost message first.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from turnout.engine.classify.concepts import FEATURES
from turnout.engine.classify.verdict import Feature as F
from turnout.machines.vocabulary import ErrorKind as Kind

Tables = tuple[str, ...]
"""Any of these."""


class Rule(NamedTuple):
    """One row: a sentence in which something of each of `says` is found, and nothing of `unless`."""

    name: str
    kind: Kind
    says: tuple[Tables, ...]
    unless: Tables = ()
    after: Tables = ()
    """What must not be spoken of before the first of `says`: it would be what the sentence is about."""
    beside: Tables = ()
    """Any of these, in whatever sentence."""
    features: tuple[F, ...] = ()
    """What a capability reject refused; by default what the sentence names."""
    otherwise: F = F.OTHER
    """What it refused where the reply names nothing."""
    blame: bool = True
    """Whether it holds under a 5xx too: a server that fails while it reads a good image says the same."""
    plain: bool = True
    """Whether it holds under a 5xx and a 403 too: failing services and closed doors use its words as well."""
    failing: Tables = ()
    """What a sentence under a 5xx must not speak of: it would be about the service itself."""


def _any(*features: F) -> Tables:
    return tuple(feature.value for feature in features)


_ANY_FEATURE: Final = _any(*FEATURES)
_MODALITY: Final = _any(F.IMAGE, F.AUDIO, F.VIDEO, F.FILE)
_TOOLS: Final = _any(F.TOOLS, F.TOOL_CHOICE)

_CONCRETE: Final = _any(
    *(F.IMAGE, F.AUDIO, F.VIDEO, F.FILE, F.TOOLS, F.TOOL_CHOICE, F.TOOL_SCHEMA, F.STRUCTURED_OUTPUT),
    *(F.STREAMING, F.REASONING, F.ROLE),
)
_SIZE: Final = ("exceeds", "too_much", "at_most", "reduce", "bounded")

_SERVICE: Final = ("infrastructure", "memory", "load")
_NO_SIZE: Final = ("timing", "credential", "other_sizes")
"""What else may be exceeded, too long or too large."""
_OTHER: Final = ("other_setting",)

LONG_CONTEXT: Final = (
    Rule("message_size", Kind.CONTEXT_WINDOW, (("message_size",),)),
    Rule("long_context_surcharge", Kind.CONTEXT_WINDOW, (("long_context",), ("money_or_tier",))),
)
"""The one mention of money or of a tier that is an overflow: shorter sessions still work."""

POLICY: Final = (
    Rule(
        "content_policy",
        Kind.CONTENT_POLICY,
        (("policy", "spoken"), ("offends",)),
        ("account", "shut_out_by", "money", "money_gone"),
        failing=_SERVICE,
    ),
    Rule("content_policy", Kind.CONTENT_POLICY, (("sensitive",),), failing=(*_SERVICE, "timing")),
)

HARD_LIMITS: Final = (
    Rule("resets_late", Kind.QUOTA_OR_BILLING, (("far",),), ("rate_limited",), beside=("money",)),
    Rule(
        "resets_soon",
        Kind.UNAVAILABLE,
        (("soon",),),
        ("not_soon",),
        beside=("money", "rate_limited", "money_gone"),
    ),
    Rule("billing", Kind.QUOTA_OR_BILLING, (("money_gone",),), failing=_SERVICE),
)
"""Asked before the codes of a rate limit, which providers send with either."""

VETOES: Final = (
    Rule("resets_soon", Kind.UNAVAILABLE, (("soon",), ("seconds",))),
    Rule("rate_limit", Kind.UNAVAILABLE, (("rate_limited",),)),
    Rule("no_channel", Kind.UNAVAILABLE, (("no_channel",),)),
    Rule("permission", Kind.AUTH, (("iam",),)),
    Rule(
        "billing",
        Kind.QUOTA_OR_BILLING,
        (("money",), ("spent",)),
        ("reasoning", "context", "output_cap", "timing"),
        failing=_SERVICE,
    ),
    Rule("credential", Kind.AUTH, (("credential",), ("not_let_in",))),
    Rule("verification", Kind.AUTH, (("account",), ("to_verify",)), ("signature",)),
    Rule("region", Kind.AUTH, (("region",), ("shut_out", "no_permission"))),
    Rule("account", Kind.AUTH, (("account",), ("shut_out",)), ("model", *_ANY_FEATURE)),
)

OVERFLOWS: Final = (
    Rule("cut_short", Kind.PARAMETER_REJECT, (("cut_short",),)),
    Rule("wrong_type", Kind.CALLER_ERROR, (("wrong_type",),), blame=False),
    Rule("no_room", Kind.CONTEXT_WINDOW, (("output_cap",), ("no_room",))),
    Rule(
        "context_limit",
        Kind.CONTEXT_WINDOW,
        (("context",), _SIZE),
        ("output_cap", *_NO_SIZE),
        _OTHER,
        failing=_SERVICE,
    ),
    Rule(
        "context_limit",
        Kind.CONTEXT_WINDOW,
        (("context",), _SIZE, ("input_words", "input_size")),
        _NO_SIZE,
        _OTHER,
        failing=_SERVICE,
    ),
    Rule(
        "output_cap",
        Kind.PARAMETER_REJECT,
        (("output_cap",), ("exceeds", "at_most", "wrong_setting", "refuses")),
        ("input_words", "input_size"),
    ),
    Rule(
        "input_limit",
        Kind.CONTEXT_WINDOW,
        (("input_size",), _SIZE),
        ("small_part", *_NO_SIZE, *_MODALITY),
        _OTHER,
        failing=_SERVICE,
    ),
    Rule(
        "token_limit",
        Kind.CONTEXT_WINDOW,
        (("tokens",), ("exceeds", "too_much", "at_most")),
        (F.REASONING.value, "output_cap", *_NO_SIZE),
        _OTHER,
        failing=_SERVICE,
    ),
    Rule(
        "token_limit",
        Kind.CONTEXT_WINDOW,
        (("tokens",), ("exceeds", "too_much", "at_most"), ("input_words",)),
        _NO_SIZE,
        _OTHER,
        failing=_SERVICE,
    ),
    Rule(
        "input_exceeds",
        Kind.CONTEXT_WINDOW,
        (("input",), ("exceeds",)),
        ("part", "setting", "not_size", *_NO_SIZE, *_MODALITY, *_TOOLS),
        failing=_SERVICE,
    ),
    Rule(
        "shorten_input",
        Kind.CONTEXT_WINDOW,
        (("input",), ("reduce",)),
        ("part", *_NO_SIZE, *_MODALITY),
        failing=_SERVICE,
    ),
)

REFUSALS: Final = (
    Rule("broken_part", Kind.CALLER_ERROR, (("media",), ("broken",)), ("exceeds",)),
    Rule(
        "broken_part",
        Kind.CALLER_ERROR,
        (("media",), ("undecodable",)),
        ("refuses_plainly", "exceeds", "unhosted", "unknown_part", "wrong_part"),
    ),
    Rule("unknown_format", Kind.CALLER_ERROR, (("file_kind",), ("refuses",)), blame=False),
    Rule("stale_reference", Kind.CALLER_ERROR, (("reference",), ("gone",)), blame=False),
    Rule("json_word", Kind.CALLER_ERROR, (("json_word",),), blame=False),
    Rule("missing_field", Kind.CALLER_ERROR, (("setting",), ("field_required",)), _CONCRETE, blame=False),
    Rule("reasoning_value", Kind.PARAMETER_REJECT, (("reasoning_value",), ("refuses", "unknown_part"))),
    Rule(
        "setting_refused",
        Kind.PARAMETER_REJECT,
        (("setting",), ("refuses", "wrong_setting", "mandatory", "together")),
        after=_CONCRETE,
    ),
    Rule(
        "foreign_history",
        Kind.CAPABILITY,
        (("minted_reasoning",),),
        features=(F.REASONING,),
        failing=_SERVICE,
    ),
    Rule("foreign_history", Kind.CAPABILITY, (("minted_elsewhere",),), features=(F.TOOLS,), failing=_SERVICE),
    Rule(
        "foreign_history",
        Kind.CAPABILITY,
        (("signature",), ("not_verified",)),
        features=(F.REASONING,),
        failing=_SERVICE,
    ),
    Rule("tools_absent", Kind.CALLER_ERROR, (_TOOLS, ("tools_absent",)), blame=False),
    Rule("reasoning_required", Kind.PARAMETER_REJECT, ((F.REASONING.value,), ("mandatory",)), _TOOLS),
    Rule("tool_parser_missing", Kind.CAPABILITY, (_TOOLS, ("tool_parser",))),
    Rule("stream_required", Kind.CAPABILITY, ((F.STREAMING.value,), ("required_value",))),
    Rule("role_order", Kind.CAPABILITY, (("turn",), ("wrong_order",)), features=(F.ROLE,), failing=_SERVICE),
    Rule(
        "foreign_history",
        Kind.CAPABILITY,
        (("history_ids",), ("wrong_pattern",)),
        features=(F.TOOLS,),
        failing=_SERVICE,
    ),
    Rule("role_refused", Kind.CAPABILITY, (("unknown_role",),), features=(F.ROLE,)),
    Rule("unpaired_tools", Kind.CALLER_ERROR, (("tool_pairs",), ("unpaired",)), ("refuses",), blame=False),
    Rule("bad_arguments", Kind.CALLER_ERROR, (("arguments",), ("unparsable",)), blame=False),
    Rule("own_output", Kind.UNAVAILABLE, (("own_output",),)),
    Rule(
        "schema_refused",
        Kind.CAPABILITY,
        ((F.TOOL_SCHEMA.value, F.STRUCTURED_OUTPUT.value, "schema"), ("wrong_schema",)),
        failing=_SERVICE,
    ),
    Rule("unknown_part", Kind.CAPABILITY, (("unknown_part", "wrong_part"), ("part_kind",)), ("null_value",)),
    Rule(
        "role_order",
        Kind.CAPABILITY,
        ((F.ROLE.value, "conversation"), ("wrong_order",)),
        features=(F.ROLE,),
        failing=_SERVICE,
    ),
    Rule(
        "role_refused",
        Kind.CAPABILITY,
        ((F.ROLE.value,), ("wrong_value",)),
        ("missing",),
        features=(F.ROLE,),
        plain=False,
    ),
    Rule(
        "chat_template", Kind.CAPABILITY, (("chat_template",),), ("infrastructure", "load"), otherwise=F.ROLE
    ),
    Rule("chat_template", Kind.CAPABILITY, (("template_bug",),), otherwise=F.ROLE, plain=False),
    Rule("missing_field", Kind.CALLER_ERROR, (("missing",),), ("refuses",), blame=False),
    Rule("missing_field", Kind.CALLER_ERROR, (("emptiness",),), blame=False),
    Rule("unparsable", Kind.CALLER_ERROR, (("json",), ("unparsable",)), ("answer_of",), blame=False),
    Rule(
        "feature_unsupported",
        Kind.CAPABILITY,
        ((*_CONCRETE, F.OTHER.value), ("refuses_plainly",)),
        ("no_permission", "credential", "not_named"),
        failing=_SERVICE,
    ),
    Rule(
        "feature_unsupported",
        Kind.CAPABILITY,
        ((*_CONCRETE, F.OTHER.value), ("refuses",)),
        ("no_permission", "credential", "not_named"),
        plain=False,
    ),
    Rule(
        "tool_choice_refused",
        Kind.CAPABILITY,
        ((F.TOOL_CHOICE.value,), ("wrong_value",)),
        ("not_named", "missing"),
        plain=False,
    ),
    Rule("endpoint_unsupported", Kind.CAPABILITY, (("wrong_endpoint",),), features=(F.ENDPOINT,)),
    Rule("no_endpoint_supports", Kind.CAPABILITY, (("no_endpoint",), ("refuses",))),
    Rule(
        "endpoint_unsupported",
        Kind.CAPABILITY,
        ((F.ENDPOINT.value,), ("refuses",)),
        ("no_permission", "credential", "plainly_gone"),
        plain=False,
    ),
    Rule(
        "format_unavailable", Kind.CAPABILITY, ((F.STRUCTURED_OUTPUT.value,), ("unavailable",)), plain=False
    ),
    Rule("only_supports", Kind.CAPABILITY, (("text_only", F.STREAMING.value), ("only",)), plain=False),
    Rule(
        "feature_limit",
        Kind.CAPABILITY,
        ((*_MODALITY, F.TOOLS.value), ("exceeds", "too_much", "at_most")),
        failing=_SERVICE,
    ),
    Rule("tool_name_refused", Kind.CAPABILITY, (_TOOLS, ("wrong_pattern",)), plain=False),
    Rule("unknown_part", Kind.CAPABILITY, (("unknown_part",),), ("null_value",)),
    Rule("combination", Kind.CAPABILITY, (("combined", *_ANY_FEATURE), ("together",)), plain=False),
)

CODED: Final = tuple(rule for rule in REFUSALS if rule.name in ("feature_unsupported", "chat_template"))
"""What the words of a code may refuse: `invalid_value` and its like say nothing by themselves."""

MODELS: Final = (
    Rule("model_unknown", Kind.MODEL_NOT_FOUND, (("model",), ("not_there",)), ("load",)),
    Rule("model_unknown", Kind.MODEL_NOT_FOUND, (("unhosted",),)),
    Rule("model_unknown", Kind.MODEL_NOT_FOUND, (("served_at",), ("plainly_gone",))),
    Rule("no_endpoints", Kind.MODEL_NOT_FOUND, (("no_endpoint",), ("any_left",)), blame=False),
)

LOAD: Final = (Rule("load", Kind.UNAVAILABLE, (("load",),)),)
"""Weak, and so asked last: a refusal may end in "please try again later" too."""

PERMISSION: Final = (Rule("permission", Kind.AUTH, (("no_permission",),)),)
