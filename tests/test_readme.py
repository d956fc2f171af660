"""The README says what is so: its program runs, its picture is today's, its links lead somewhere."""

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from memories import overflow

from turnout import Change, Identity, JsonLines, Memory, Router
from turnout.engine import identity
from turnout.engine.audit import AttemptRecord, AuditRecord, PassedOver, ProbeRecord
from turnout.engine.context import Eviction
from turnout.engine.diagram import mermaid
from turnout.engine.policy import DEFAULT_POLICY
from turnout.machines import turn as turn_machine

HOUSE = Path(__file__).parent.parent
README = (HOUSE / "README.md").read_text()


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", README, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_picture_is_drawn_from_the_rows() -> None:
    assert block("mermaid") == mermaid(turn_machine.DEFINITION, DEFAULT_POLICY)


def test_the_program_that_embeds_a_router_runs_and_tells_an_upstreams_error(tmp_path: Path) -> None:
    program = block("python")
    assert len(program.strip().splitlines()) <= 24
    # no network: both targets are at an address where nothing listens
    program = re.sub(r"https://[ab]\.example", "http://127.0.0.1:9", program)
    program = program.replace("Target(", "partial(Target, max_retries=0)(", 2)
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"from functools import partial\n{program}"],
        cwd=tmp_path,
        env={"A_KEY": "sk-aaaaaaaaaa", "B_KEY": "sk-bbbbbbbbbb"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert ran.stdout.startswith("target 'large': unavailable: ")
    assert ran.stderr == ""
    (record,) = map(json.loads, (tmp_path / "records.jsonl").read_text().splitlines())
    assert [probe["target"] for probe in record["probes"]] == ["small", "large"]
    assert (tmp_path / "evictions.db").exists()


@pytest.mark.parametrize("page", ["README.md", *sorted(p.name for p in (HOUSE / "docs").glob("*.md"))])
def test_every_link_leads_to_a_file(page: str) -> None:
    path = HOUSE / page if page == "README.md" else HOUSE / "docs" / page
    links = re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text())
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_the_grid_is_what_the_demo_prints() -> None:
    snapshot = (HOUSE / "tests" / "__snapshots__" / "test_demo.ambr").read_text()
    grid = [line.strip() for line in block("").strip().splitlines()]
    assert [line for line in grid if line not in snapshot] == []


def test_the_turn_of_the_page_on_embedding_is_stepped_as_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    page = (HOUSE / "docs" / "embedding.md").read_text()
    program = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[-1]
    exec(compile(program, "docs/embedding.md", "exec"), {"__name__": "page"})
    assert capsys.readouterr().out == "['small', 'large'] ['large']\n"


def python_of_the_page_on_embedding(holds: str) -> str:
    page = (HOUSE / "docs" / "embedding.md").read_text()
    (program,) = [p for p in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if holds in p]
    return program


def test_the_memories_of_the_page_on_embedding_are_made_with_the_defaults_that_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    program = python_of_the_page_on_embedding("RedisMemory(")
    made: dict[str, Any] = {}
    exec(compile(program, "docs/embedding.md", "exec"), made)
    for name in ("one_host", "many_hosts", "one_process"):
        defaults = inspect.signature(type(made[name])).parameters
        (call,) = re.findall(rf"^{name} = \w+\((.*)\)$", program, re.MULTILINE)
        for argument, value in re.findall(r"(\w+)=([^,]+)", call):
            assert defaults[argument].default == eval(value), argument
    assert list(tmp_path.iterdir()) == [], "nothing is opened before the first use"


def test_the_test_that_the_page_on_embedding_shows_holds() -> None:
    program = python_of_the_page_on_embedding("ScriptedTransport(")
    exec(compile(program, "docs/embedding.md", "exec"), {})


def test_the_page_on_embedding_tells_every_argument() -> None:
    page = (HOUSE / "docs" / "embedding.md").read_text()
    told = {
        name
        for cell in re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", page, re.MULTILINE)
        for name in re.findall(r"\w+", cell)
    }
    for method in (Router, Router.turn):
        arguments = set(inspect.signature(method).parameters) - {"self", "body"}
        assert arguments <= told, method


def test_the_page_on_embedding_tells_every_method_of_a_memory_with_its_arguments() -> None:
    page = (HOUSE / "docs" / "embedding.md").read_text()
    table = dict(re.findall(r"^\| `(\w+)\((.*?)\)` \|", page, re.MULTILINE))
    methods = {name: method for name, method in vars(Memory).items() if not name.startswith("_")}
    assert table.keys() == methods.keys()
    for name, method in methods.items():
        told = [argument.partition("=")[0].strip() for argument in table[name].split(",") if argument]
        assert [one for one in told if one != "*"] == [*inspect.signature(method).parameters][1:]


def test_a_change_is_told_by_all_its_fields_and_written_as_the_page_on_embedding_shows(
    tmp_path: Path,
) -> None:
    page = (HOUSE / "docs" / "embedding.md").read_text()
    told = page[page.index("## What was removed") :]
    for field in (*Change.__struct_fields__, *Identity._fields, *Eviction.__struct_fields__):
        assert f"`{field}`" in told
    write = JsonLines(tmp_path / "changes.jsonl")
    write(Change(1767225660.0, Identity("", "session-42"), overflow(9000), "forgotten"))
    line = (tmp_path / "changes.jsonl").read_text()
    begin, end = re.findall(r"```json\n(.*?), …(.*?)\n```", told)[0]
    assert line.startswith(begin + ",")
    assert line.strip().endswith(end)


def test_the_page_on_records_tells_every_field() -> None:
    page = (HOUSE / "docs" / "records.md").read_text()
    for record in (AuditRecord, ProbeRecord, AttemptRecord, PassedOver, Eviction):
        for field in record.__struct_fields__:
            assert f"`{field}`" in page


def test_the_page_on_embedding_tells_every_header_in_order() -> None:
    page = (HOUSE / "docs" / "embedding.md").read_text()
    for names in (identity.SESSION, identity.AGENT, identity.IS_SUBAGENT, identity.FINAL, identity.REQUEST):
        assert ", ".join(f"`{name}`" for name in names) in page
