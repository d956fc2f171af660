"""Codes that only one provider uses so: one row, one test, and only from that provider."""

from __future__ import annotations

import json

import pytest

from turnout.engine.classify import Reply, classify
from turnout.engine.classify.providers import CODES, HOSTS, provider_of
from turnout.engine.classify.settings import Meaning
from turnout.engine.targets import Target

ROWS = [(provider, code, meaning) for provider, table in CODES.items() for code, meaning in table.items()]


def read(provider: str, code: str) -> tuple[str, str, tuple[str, ...]]:
    body = json.dumps({"error": {"code": code, "message": "Odd."}}).encode()
    verdict = classify(Reply(status=400, body=body, provider=provider), now=0.0)
    return verdict.kind, verdict.evidence.rule, verdict.features


@pytest.mark.parametrize(
    ("provider", "code", "meaning"), ROWS, ids=[f"{name}-{code}" for name, code, _ in ROWS]
)
def test_a_code_of_one_provider_is_read_from_it_alone(provider: str, code: str, meaning: Meaning) -> None:
    features = tuple(sorted(feature.value for feature in meaning.features))
    assert read(provider, code) == (meaning.kind, "private_code", features)
    assert read("", code)[1] == "unrecognised"
    assert read("another", code)[1] == "unrecognised"


ADDRESSES = {
    "https://api.z.ai/api/paas/v4": "zai",
    "https://open.bigmodel.cn/api/paas/v4": "zai",
    "https://api.minimax.io/v1": "minimax",
    "https://api.siliconflow.cn/v1": "siliconflow",
    "https://API.MISTRAL.AI./v1": "mistral",
    "https://qianfan.baidubce.com/v2": "baidu_qianfan",
    "https://z.ai.example.com/v1": "",
    "https://notz.ai/v1": "",
    "http://127.0.0.1:8000/v1": "",
}


@pytest.mark.parametrize(("address", "provider"), ADDRESSES.items())
def test_the_address_tells_who_answers(address: str, provider: str) -> None:
    assert Target("a", base_url=address).provider == provider


def test_every_host_belongs_to_a_provider_with_codes() -> None:
    assert set(HOSTS.values()) == set(CODES)
    assert all(provider_of(host) == provider for host, provider in HOSTS.items())
