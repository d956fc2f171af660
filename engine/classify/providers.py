"""Codes that are one provider's own: they are read where the provider is known.

From the providers' public lists of error codes; a code that covers several kinds is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from turnout.engine.classify.settings import Meaning, capability
from turnout.engine.classify.verdict import Feature as F
from turnout.machines.vocabulary import ErrorKind as Kind


def _table(*rows: tuple[Meaning | Kind, str]) -> Mapping[str, Meaning]:
    meanings = [(row if isinstance(row, Meaning) else Meaning(row), codes) for row, codes in rows]
    return {code: meaning for meaning, codes in meanings for code in codes.split()}


CODES: Final[Mapping[str, Mapping[str, Meaning]]] = {
    "zai": _table(
        (Kind.AUTH, "1000 1001 1002 1003 1004 1112 1220"),
        (Kind.MODEL_NOT_FOUND, "1211"),
        (Kind.QUOTA_OR_BILLING, "1113 1309"),
        (Kind.CONTEXT_WINDOW, "1261"),
        (Kind.CONTENT_POLICY, "1301"),
        (Kind.UNAVAILABLE, "1302 1303 1305 1312"),
    ),
    "minimax": _table(
        (Kind.AUTH, "1004 2049"),
        (Kind.QUOTA_OR_BILLING, "1008"),
        (Kind.CONTENT_POLICY, "1026 1027"),
        (Kind.UNAVAILABLE, "1000 1001 1002 1013 1024 1033 1039 1041"),
    ),
    "mistral": _table(
        (Kind.MODEL_NOT_FOUND, "1500"),
        (Kind.UNAVAILABLE, "1300"),
    ),
    "baidu_qianfan": _table(
        (Kind.AUTH, "13 14 100 110 111"),
        (Kind.QUOTA_OR_BILLING, "19"),
        (Kind.CONTEXT_WINDOW, "336103"),
        (capability(F.ENDPOINT), "3"),
        (Kind.UNAVAILABLE, "4 17 18 336100"),
    ),
    "siliconflow": _table(
        (Kind.MODEL_NOT_FOUND, "20012"),
        (Kind.QUOTA_OR_BILLING, "30001"),
        (capability(F.TOOLS), "20037"),
        (Kind.UNAVAILABLE, "50505 50603"),
    ),
}

HOSTS: Final[Mapping[str, str]] = {
    "z.ai": "zai",
    "bigmodel.cn": "zai",
    "minimax.io": "minimax",
    "minimax.chat": "minimax",
    "minimaxi.com": "minimax",
    "mistral.ai": "mistral",
    "baidubce.com": "baidu_qianfan",
    "siliconflow.cn": "siliconflow",
    "siliconflow.com": "siliconflow",
}
"""The end of a host's name, and whose it is."""


def provider_of(host: str) -> str:
    """Whose host this is, or an empty string."""
    labels = host.lower().rstrip(".").split(".")
    return next(
        (HOSTS[end] for start in range(len(labels)) if (end := ".".join(labels[start:])) in HOSTS), ""
    )
