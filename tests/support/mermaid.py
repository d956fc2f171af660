"""The real Mermaid, as it reads what is drawn: `npm ci` in tests/mermaid brings it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from html import unescape
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "mermaid"
HOME = Path(os.environ.get("MERMAID_HOME", FOLDER)).absolute()
"""Where the packages are."""
NODE = shutil.which("node")
THERE = NODE is not None and (HOME / "node_modules" / "mermaid").is_dir()
MISSING = "no Mermaid here: WHAT IS DRAWN IS NOT PARSED (apt-get install nodejs npm; npm ci in tests/mermaid)"


def read(texts: Mapping[str, str]) -> dict[str, Any]:
    """What Mermaid makes of each text: its kind, nodes and arrows, or an `error`. All in one run."""
    assert NODE is not None, MISSING
    different = list(dict.fromkeys(texts.values()))
    ran = subprocess.run(
        [NODE, str(FOLDER / "parse.mjs"), str(HOME)],
        input=json.dumps(different),
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert ran.returncode == 0, ran.stderr
    answers = dict(zip(different, map(_unescaped, json.loads(ran.stdout)), strict=True))
    return {where: answers[text] for where, text in texts.items()}


def _unescaped(value: Any) -> Any:
    """The same as a person sees it: Mermaid keeps texts as HTML."""
    if isinstance(value, dict):
        return {key: _unescaped(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_unescaped(inner) for inner in value]
    return unescape(value)
