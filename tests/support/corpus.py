"""The labelled replies of tests/corpus, and how one reading is told in a failed test."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

from turnout.engine.classify import Reply, classify
from turnout.engine.policy import DEFAULT_POLICY
from turnout.machines.vocabulary import ErrorKind as Kind
from turnout.machines.vocabulary import RoutingFallbackReason as Reason

ROOT: Final = Path(__file__).parents[2]
FILES: Final = {path.stem: path for path in sorted((ROOT / "tests" / "corpus").glob("*.jsonl"))}


def _benchmark() -> ModuleType:
    """The script that counts how well replies are read, so that there is one way of counting."""
    spec = importlib.util.spec_from_file_location("classify_benchmark", ROOT / "benchmarks" / "classify.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # msgspec looks annotations up there
    spec.loader.exec_module(module)
    return module


benchmark: Final = _benchmark()
NOON: Final[float] = benchmark.NOON
Line = benchmark.Line
Read = benchmark.Read

SAMPLE: Final = benchmark.corpus([FILES["sample"]])
REPORTS: Final = benchmark.corpus([FILES["reports"]])


def written(name: str) -> list[dict[str, Any]]:
    """The lines of a file as they are written."""
    return [json.loads(line) for line in FILES[name].read_bytes().splitlines()]


def read(lines: list[Any]) -> list[Any]:
    """The lines, each with its verdict."""
    return [Read(line, benchmark.read_at_noon(line.reply)) for line in lines]


class Decision(NamedTuple):
    """What of a verdict a turn acts on."""

    kind: Kind
    features: tuple[str, ...]
    reason: Reason | None


def decision(reply: Reply) -> Decision:
    verdict = classify(reply, now=NOON)
    return Decision(verdict.kind, verdict.features, DEFAULT_POLICY.reason(verdict))
