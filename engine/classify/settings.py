"""The optional settings of a request, and what it means that a target refuses a field of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from turnout.engine.classify.verdict import Feature as F
from turnout.machines.vocabulary import ErrorKind as Kind


class Meaning(NamedTuple):
    """What a code or a refused field says."""

    kind: Kind
    features: tuple[F, ...] = ()


SETTINGS: Final = """reasoning.summary | top_n_tokens | truncate_prompt_tokens
    | context_length_exceeded_behavior | search_context_size | stop sequences | think value
    | temperature | top_p | top_k | min_p | top_a | typical_p | presence_penalty | frequency_penalty
    | repetition_penalty | length_penalty | no_repeat_ngram_size | logit_bias | top_logprobs
    | logprobs | stop_sequences | max_tokens | max_completion_tokens | max_output_tokens
    | max_new_tokens | reasoning_effort | enable_thinking | thinking_level | thinking_budget
    | reasoning_budget | thinking_config | budget_tokens | parallel_tool_calls
    | parallel_function_calling | service_tier | stream_options | chat_template_kwargs
    | cache_control | prompt_cache_key | prompt_cache_retention | safety_identifier | verbosity
    | anthropic-beta | candidate_count | response_logprobs | num_predict | num_ctx | keep_alive
    | guided_regex | ignore_eos | include_reasoning | reasoning_format | context_management
    | inference_geo | output_config.effort | best_of | web_search_options | include_usage
    | safety_settings | thinking_tokens | max_tool_calls | completion tokens | output tokens
    | effort | beta header | penalty | candidatecount | sampling parameters | random_seed
    | multiple candidates | beta flag | reasoning value | prompt caching | include_thoughts
    | repetition_context"""
"""Written as their own API spells them; the words of each may be joined in any way."""

DESCRIPTIONS: Final = frozenset(
    name for name in map(str.strip, SETTINGS.split("|")) if " " in name or name in ("penalty", "effort")
)
"""Ways to speak of a setting that are no name of one."""

OTHER_SETTINGS: Final = " | ".join(
    name for name in map(str.strip, SETTINGS.split("|")) if "max" not in name and "tokens" not in name.split()
)
"""Those that cap no answer's length: a sentence that begins with one is not of the conversation's."""

QUOTED: Final = frozenset(
    {
        "stop",
        "seed",
        "store",
        "user",
        "metadata",
        "n",
        "suffix",
        "prediction",
        "modalities",
        "echo",
        "truncation",
    }
    | {"include", "background", "container", "speed", "betas", "options", "transforms", "plugins", "provider"}
    | {"route", "models", "usage", "mode", "tier", "k", "p", "caching", "extra_body", "safe_prompt"}
)
"""Settings that are words of any sentence: they count where they stand in quotation marks."""

_OF_TOOLS: Final = frozenset({"tools", "functions", "tool", "toolconfig", "tool_config"})
_OF_MESSAGES: Final = frozenset(
    {"messages", "input", "prompt", "contents", "system", "inputs", "chat_history", "history"}
)
OF_CONTENT: Final = _OF_TOOLS | _OF_MESSAGES | {"tool_call_id", "call_id", "tool_use_id", "tool_calls"}
_FEATURES: Final[Mapping[str, F]] = {
    "tool_choice": F.TOOL_CHOICE,
    "function_call": F.TOOL_CHOICE,
    "response_format": F.STRUCTURED_OUTPUT,
    "text.format": F.STRUCTURED_OUTPUT,
    "output_format": F.STRUCTURED_OUTPUT,
    "responseschema": F.STRUCTURED_OUTPUT,
    "stream": F.STREAMING,
    "reasoning": F.REASONING,
    "thinking": F.REASONING,
    "audio": F.AUDIO,
}
"""Parameters that are features; any other top-level one is an optional setting."""
_WHOLLY: Final = ("response_format", "tool_choice", "function_call")
"""Whatever is refused within these, the feature is."""

KNOWN: Final = frozenset(
    {
        *_OF_TOOLS,
        *_OF_MESSAGES,
        *_FEATURES,
        *QUOTED,
        "model",
        "generation_config",
        "generationconfig",
        "parameters",
    }
    | {name.strip() for name in SETTINGS.split("|")}
)
"""What a path may begin with to be taken for one of a request."""


def capability(*features: F) -> Meaning:
    """A capability reject of these."""
    return Meaning(Kind.CAPABILITY, features)


_CACHE: Final = frozenset({"cache_control", "cachepoint", "cachecontrol"})
"""Marks within a message that are settings all the same."""

PARAMETER: Final = Meaning(Kind.PARAMETER_REJECT)


def refused(param: str) -> Meaning | None:
    """What it says that the target does not take this field, or None where that tells nothing."""
    root, leaf = ends(param)
    if _CACHE.intersection(re.split(r"\W", param.lower())) or not root:
        return Meaning(Kind.PARAMETER_REJECT) if root else None
    if root in _OF_TOOLS:
        return capability(F.TOOL_SCHEMA if _is_schema(param) else F.TOOLS)
    if root in _OF_MESSAGES:
        return _part_refused(leaf) if param.strip(".").lower() != root else None
    if root == "model":
        return None
    whole = param.strip(".").lower()
    feature = _FEATURES.get(whole) or _FEATURES.get(root if root == whole or root in _WHOLLY else "")
    return capability(feature) if feature else Meaning(Kind.PARAMETER_REJECT)


PARTS: Final[Mapping[str, F]] = {
    "role": F.ROLE,
    "image_url": F.IMAGE,
    "image": F.IMAGE,
    "input_audio": F.AUDIO,
    "tool_calls": F.TOOLS,
    "tool_call_id": F.TOOLS,
    "reasoning_content": F.REASONING,
    "reasoning": F.REASONING,
    "reasoning_details": F.REASONING,
    "thinking": F.REASONING,
    "signature": F.REASONING,
    "file": F.FILE,
    "document": F.FILE,
    "id": F.TOOLS,
    "call_id": F.TOOLS,
}


def _part_refused(leaf: str) -> Meaning:
    return capability(PARTS.get(leaf, F.OTHER))


def too_long(param: str) -> Meaning | None:
    """What it says that this field is too long, or None where that tells nothing."""
    root, leaf = ends(param)
    if root not in KNOWN:
        return None
    if root in _OF_TOOLS:
        return capability(F.TOOLS)
    if root in _OF_MESSAGES:
        whole = leaf in ("content", "text", root) and not (root == "messages" == leaf)
        return Meaning(Kind.CONTEXT_WINDOW) if whole else capability(PARTS.get(leaf, F.OTHER))
    return Meaning(Kind.PARAMETER_REJECT) if root else None


def wrong_part(param: str) -> Meaning | None:
    """What it says that this field has the form that it has: content may be a string here and parts there."""
    root, leaf = ends(param)
    if root not in _OF_MESSAGES:
        return None
    feature = PARTS.get(leaf) or (F.OTHER if "content" in param else None)
    return capability(feature) if feature else None


def is_schema_of_tool(param: str) -> bool:
    """Whether a path leads into the schema of a tool."""
    return ends(param)[0] == "tools" and _is_schema(param)


def is_schema_within_tool(param: str) -> bool:
    """Whether a path leads to what a tool's schema itself says, not merely to the schema."""
    return is_schema_of_tool(param) and ".properties" in param


def _is_schema(param: str) -> bool:
    return any(name in param for name in ("parameters", "schema", "strict"))


def is_setting(param: str) -> bool:
    """Whether this is one of the optional settings, at the top of a request."""
    root, leaf = ends(param)
    return (
        bool(root)
        and (root in _SETTING_NAMES or leaf in _SETTING_NAMES)
        and root not in (_OF_TOOLS | _OF_MESSAGES)
    )


_SETTING_NAMES: Final = frozenset({name.strip() for name in SETTINGS.split("|")} | QUOTED)


def ends(param: str) -> tuple[str, str]:
    """The first and the last name of a path such as `messages[3].content`."""
    names = [name for name in re.split(r"[.\[\]]+", param.lower()) if name and not name.isdecimal()]
    return (names[0], names[-1]) if names else ("", "")
