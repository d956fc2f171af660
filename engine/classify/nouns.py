"""What diagnostic sentences speak of: the features of a request, and its optional settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from turnout.engine.classify.text import either, words
from turnout.engine.classify.verdict import Feature as F

FEATURES: Final[Mapping[F, re.Pattern[str]]] = {
    F.IMAGE: words("image | images | image(s) | image_url | vision | multimodal | multi-modal | pixels"),
    F.AUDIO: words("audio | input_audio | speech"),
    F.VIDEO: words("video | videos | video_url"),
    F.FILE: either(
        words("file | files | file_url | pdf | pdfs | document | documents"), r"(?<!response )\bmime type\b"
    ),
    F.TOOLS: words(
        "tools | tool use | tool calling | tool call | tool calls | function calling | function call"
        " | function calls | function tools | functions"
    ),
    F.TOOL_CHOICE: words("tool choice | toolchoice | toolconfig.toolchoice.any"),
    F.TOOL_SCHEMA: either(
        words("input schema | tool schema | function schema | invalid schema for function"),
        r"\bfunction[_ ]declarations\b",
    ),
    F.STRUCTURED_OUTPUT: words(
        "response format | json schema | json mode | json object | json output | structured output"
        " | structured outputs | guided decoding | grammar | response mime type"
    ),
    F.STREAMING: words("stream | streaming"),
    F.REASONING: words("reasoning | reasoning effort | reasoning content | thinking"),
    F.ROLE: words(
        "role | roles | system message | system messages | system prompt | system instruction"
        " | developer instruction | developer message | prefill | prefilling"
    ),
    F.ENDPOINT: re.compile(
        r"/(?:chat/completions|completions|responses|embeddings|messages)\b"
        r"|\b(?:completions?|responses|chatcompletion|chat) (?:endpoint|operation|api)\b"
    ),
    F.OTHER: words("modality | modalities | content part | content parts"),
}
_VAGUE: Final = (F.OTHER, F.ENDPOINT)
"""Said beside another feature, these tell where or of what sort it is, not what was refused."""

ANY_FEATURE: Final = either(*FEATURES.values())
TOOLS: Final = either(FEATURES[F.TOOLS], FEATURES[F.TOOL_CHOICE])
PART: Final = either(
    *(FEATURES[part] for part in (F.IMAGE, F.AUDIO, F.VIDEO, F.FILE, F.TOOLS)),
    r"\b(?:tool|page|pages|mime|headers?|cookies?|schema|function|name|id)\b",
)
"""A part of a request: what is said of its size says nothing of the whole."""

SETTING: Final = either(
    r"(?<![\w-])(?:temperature|top_p|top_k|min_p|typical_p|presence_?penalty|frequency_?penalty"
    r"|repetition_?penalty|logit_bias|top_logprobs|logprobs|stop sequences|max_tokens|max_completion_tokens"
    r"|max_output_tokens|max_new_tokens|completion tokens|output tokens|reasoning[_.]effort|enable_thinking"
    r"|(?:thinking|reasoning)[ _](?:level|budget|effort)|(?:thinking\.)?budget_tokens|parallel_tool_calls"
    r"|service_tier|stream_options|chat_template_kwargs|cache_control|prompt_cache_key|safety_identifier"
    r"|verbosity|anthropic-beta)(?!\w)",
    r"['\"`](?:stop|seed|store|user|metadata|n|suffix|prediction|modalities)['\"`]",
)


def features(sentence: str) -> tuple[str, ...]:
    """The features that a sentence names, sorted; `other` where it names none."""
    named = {feature for feature, pattern in FEATURES.items() if pattern.search(sentence)}
    named = named.difference(_VAGUE) or named or {F.OTHER}
    return tuple(sorted(feature.value for feature in named))


def setting(sentence: str) -> str:
    """The first optional setting that a sentence names, or an empty string."""
    found = SETTING.search(sentence)
    return found[0].strip("'\"`").replace(" ", "_") if found else ""
