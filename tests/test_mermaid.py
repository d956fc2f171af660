"""Everything that is drawn as Mermaid is read by the real Mermaid, and as it was meant."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import mermaid
import pytest
from random_sessions import session

from turnout import AuditRecord, ErrorKind, Target, Turn
from turnout.engine import diagram, picture
from turnout.engine.audit import decode, encode
from turnout.engine.classify.verdict import Evidence, Verdict
from turnout.engine.deployment import comparing, examine
from turnout.machines.catalog import MACHINES
from turnout.machines.turn import DEFINITION

HOUSE = Path(__file__).parent.parent
PAGES = [HOUSE / "README.md", *sorted(HOUSE.glob("docs/*.md")), *sorted(HOUSE.glob("diagrams/*.md"))]
SEEDS = range(4)

HOSTILE = [
    "a\n    session ->> t0: forged",
    "a; participant forged",
    "a --> served: forged; served --> probing: forged",
    "a]\n    forged[forged",
    'a"] --> forged["b',
    "a <script>alert(1)</script>",
    "a #59; b",
    "a&lt;b",
    "%%{init: {'theme': 'forest'}}%%",
]
"""Names that would be something else than a name, were they written as they are."""
PLAIN = "plain"
ODD = [
    *HOSTILE,
    "end",
    "end note",
    "1. a",
    "- a",
    "# a",
    "a : b",
    "wrap: a",
    "x --x y",
    "a\u202eb",
    "a\u2028b",
    "漢字",
    "`a`",
]

DEPLOYMENT = """
[llm_clients.house]
base_url = "https://llm.example/v1"
api_key_env = "HOUSE_KEY"
[targets.small]
llm_client = "house"
[targets.large]
llm_client = "house"
[routes.{route}]
ladder = {ladder}
"""


def told(name: str) -> AuditRecord:
    """A turn that a target of this name refused, after one of a name like it had been passed over."""
    ladder = [Target(each, base_url="http://127.0.0.1/v1") for each in ("alpha", "beta")]
    refused = Verdict(kind=ErrorKind.CAPABILITY, evidence=Evidence("test"), status=400)
    before = Turn(ladder[:1], id="0")
    before.probed(refused, at=1.0)
    before.act()
    turn = Turn([*ladder, Target("gamma", base_url="http://127.0.0.1/v1")], id="1", context=before.context)
    turn.probed(refused, at=1.0)
    turn.act()
    turn.advance()
    turn.probed(None, at=2.0)
    turn.act()
    line = encode(turn.record()).replace(b'"beta"', json.dumps(name).encode())
    return decode(line.replace(b'"alpha"', json.dumps(f"{name} 2").encode()))


def compared(name: str, folder: Path) -> str:
    """What is drawn of a deployment with a route of this name instead of one called chat."""
    (folder / "deployment.toml").write_text(DEPLOYMENT.format(route="chat", ladder=["small", "large"]))
    before = examine(str(folder / "deployment.toml")).deployment
    assert before is not None
    return comparing.picture(before, replace(before, routes={name: before.routes["chat"]}))


@pytest.fixture(scope="module")
def sessions() -> dict[int, list[AuditRecord]]:
    return {seed: session(seed) for seed in SEEDS}


@pytest.fixture(scope="module")
def read(sessions: dict[int, list[AuditRecord]], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What Mermaid makes of every text, by where that is from."""
    if not mermaid.THERE:
        if os.environ.get("CI"):
            pytest.fail(mermaid.MISSING)
        pytest.skip(mermaid.MISSING)
    folder = tmp_path_factory.mktemp("deployments")
    texts = {f"diagrams/{name}": text for name, text in diagram.gallery().items() if name.endswith(".mmd")}
    for page in PAGES:
        blocks = re.findall(r"^```mermaid\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
        texts |= {f"{page.relative_to(HOUSE)} {place}": block for place, block in enumerate(blocks)}
    for seed, records in sessions.items():
        texts[f"session {seed}"] = picture.session(records)
        texts |= {f"session {seed} turn {n}": picture.turn(record) for n, record in enumerate(records)}
    texts |= named([PLAIN, *ODD], folder)
    with pytest.MonkeyPatch.context() as patch:
        for module in (picture, comparing):  # what our own words need, and no more
            patch.setattr(module, "label", lambda text: text.replace("(", "#40;").replace(")", "#41;"))
        texts |= {f"as it is, {where}": text for where, text in named([PLAIN, *HOSTILE], folder).items()}
    return mermaid.read(texts)


def named(names: Iterable[str], folder: Path) -> dict[str, str]:
    """Pictures that each of the names stands in."""
    texts = {}
    for name in names:
        texts[f"session {name}"] = picture.session([told(name)])
        texts[f"turn {name}"] = picture.turn(told(name))
        texts[f"route {name}"] = compared(name, folder)
    return texts


def test_every_text_is_a_diagram(read: dict[str, Any]) -> None:
    ours = {where: answer for where, answer in read.items() if not where.startswith("as it is")}
    assert {where: answer["error"] for where, answer in ours.items() if "error" in answer} == {}
    kinds = {where: answer["kind"] for where, answer in ours.items()}
    assert kinds["session 0"] == "sequence"
    assert kinds["session 0 turn 0"] == kinds["README.md 0"] == kinds["diagrams/turn.mmd"] == "stateDiagram"
    assert kinds["route end"] == kinds["diagrams/policy.mmd"] == "flowchart-v2"


@pytest.mark.parametrize("name", MACHINES)
def test_a_machine_has_the_states_and_arrows_of_its_rows(name: str, read: dict[str, Any]) -> None:
    definition = MACHINES[name].definition
    answer = read[f"diagrams/{name}.mmd"]
    assert set(answer["nodes"]) - {"root_start", "root_end"} == set(map(str, definition.states))
    ways = {(arc.source, arc.dest) for arc in definition.arcs}
    assert len(answer["arrows"]) == 1 + len(ways) + len(definition.final)


def test_a_session_has_an_arrow_to_and_from_each_probe(
    read: dict[str, Any], sessions: dict[int, list[AuditRecord]]
) -> None:
    for seed, records in sessions.items():
        answer = read[f"session {seed}"]
        rungs = dict.fromkeys(rung.target for record in records for rung in record.ladder)
        assert answer["nodes"] == ["session", *rungs]
        asked = [f"turn {n}" for n, record in enumerate(records, 1) for _ in record.probes]
        assert answer["arrows"][::2] == asked
        assert len(answer["arrows"]) == 2 * len(asked)
        failed = [f"turn {n} failed" for n, record in enumerate(records, 1) if record.state == "failed"]
        assert answer["notes"] == failed


def test_a_turn_has_each_step_on_its_arrow_and_its_states_marked(
    read: dict[str, Any], sessions: dict[int, list[AuditRecord]]
) -> None:
    for seed, records in sessions.items():
        for place, record in enumerate(records):
            answer = read[f"session {seed} turn {place}"]
            said = [line for arrow in answer["arrows"] for line in arrow.split("<br>") if line]
            steps = {int(line.partition(".")[0]): line.partition(". ")[2] for line in said}
            assert sorted(steps) == list(range(1, len(record.steps) + 1))
            assert len(said) == len(steps)
            for number, step in enumerate(record.steps, 1):
                assert steps[number].startswith(step.trigger)
            asked = [words.split()[-1] for _, words in sorted(steps.items()) if words.startswith("probed ")]
            assert asked == [probe.target for probe in record.probes if probe.at]
            assert set(answer["marked"]) == {str(DEFINITION.initial), *(step.dest for step in record.steps)}


@pytest.mark.parametrize("name", ODD)
def test_a_name_is_nothing_but_a_name(name: str, read: dict[str, Any]) -> None:
    for where in ("session", "turn", "route"):
        assert read[f"{where} {name}"] == meant(name, read[f"{where} {PLAIN}"])


@pytest.mark.parametrize("name", HOSTILE)
def test_written_as_it_is_it_would_be_more(name: str, read: dict[str, Any]) -> None:
    places = ("session", "turn", "route")
    assert any(read[f"as it is, {p} {name}"] != meant(name, read[f"as it is, {p} {PLAIN}"]) for p in places)


def meant(name: str, answer: Any) -> Any:
    """What Mermaid makes of the plain name, with this name in its stead."""
    if isinstance(answer, dict):
        return {key: meant(name, inner) for key, inner in answer.items()}
    if isinstance(answer, list):
        return [meant(name, inner) for inner in answer]
    return answer.replace(PLAIN, name)
