"""The diagrams are drawn from the rows, and the files that show them cannot go stale."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from turnout.engine import diagram
from turnout.engine.cli import main
from turnout.engine.policy import DEFAULT, Policy
from turnout.machines import probe, standing, turn
from turnout.machines.catalog import MACHINES

FOLDER = Path(__file__).parent.parent / "diagrams"

DEPLOYMENT = """
schema_version = 1

[llm_clients.upstream]
format = "openai_chat"
base_url = "https://upstream.example/v1"
api_key_env = "A_KEY_THAT_IS_NOT_SET"

[targets.small]
id = "a-small"
llm_client = "upstream"

[routes.chat]
id = "chat"
ladder = ["small"]
"""
SECOND_ROUTE = """
[routes.images]
id = "images"
ladder = ["small"]
[routes.images.on]
content_policy = "skip"
"""


def turnout(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["diagram", *map(str, arguments)])


def drawn(*arguments: object) -> str:
    result = turnout(*arguments)
    assert result.exit_code == 0, result.output
    return result.output


# -- the files


@pytest.mark.parametrize("name", diagram.gallery())
def test_the_file_shows_what_the_rows_give_today(name: str) -> None:
    shown = (FOLDER / name).read_text(encoding="utf-8")
    assert shown == diagram.gallery()[name], f"diagrams/{name} is stale; run: {diagram.REWRITE}"


def test_the_folder_holds_nothing_else() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(diagram.gallery())


def test_one_command_rewrites_them(tmp_path: Path) -> None:
    command, folder = diagram.REWRITE.removeprefix("turnout diagram ").split()
    written = tmp_path / "new" / folder
    drawn(command, written)
    assert {path.name: path.read_text(encoding="utf-8") for path in written.iterdir()} == diagram.gallery()


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    result = turnout("--write", in_the_way / "below")
    assert result.exit_code == 1
    assert "cannot be written" in result.output


def test_what_was_written_once_is_written_anew(tmp_path: Path) -> None:
    drawn("--write", tmp_path)
    (tmp_path / "turn.mmd").write_text("stateDiagram-v2\n    an --> earlier: version\n")
    (tmp_path / "other.md").write_text("mine")
    drawn("--write", tmp_path)
    assert (tmp_path / "turn.mmd").read_text(encoding="utf-8") == diagram.gallery()["turn.mmd"]
    assert (tmp_path / "other.md").read_text() == "mine"


@pytest.mark.parametrize("name", diagram.gallery())
@pytest.mark.parametrize("content", [b"", b"# Diagrams\n\nMy own.\n", b"\xff\n"])
def test_a_file_of_somebody_else_is_never_overwritten(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    result = turnout("--write", tmp_path)
    assert result.exit_code == 2
    assert f"would overwrite {tmp_path / name}, which it has not written" in " ".join(result.output.split())
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {name: content}


@pytest.mark.parametrize(
    ("beside", "named"),
    [
        (["turn"], "[MACHINE]"),
        (["--format", "mermaid"], "--format"),
        (["--deployment", "d.toml"], "--deployment"),
        (["--route", "chat"], "--route"),
    ],
)
def test_what_chooses_a_drawing_does_not_go_with_writing_all(
    beside: list[str], named: str, tmp_path: Path
) -> None:
    result = turnout(*beside, "--write", tmp_path)
    assert result.exit_code == 2
    assert f"leave '{named}' out" in result.output
    assert list(tmp_path.iterdir()) == []


def test_the_readme_shows_every_diagram_inline() -> None:
    shown = re.findall(r"```mermaid\n(.*?)```", diagram.gallery()["README.md"], re.DOTALL)
    assert shown == [content for name, content in diagram.gallery().items() if name.endswith(".mmd")]


# -- machines


def edges(text: str) -> set[tuple[str, str, str]]:
    """Source, dest and label of every arrow of a Mermaid state diagram, joined labels taken apart."""
    arrows = re.findall(r"^    (\S+) --> (\w+): (.+)$", text, re.MULTILINE)
    return {(source, dest, label) for source, dest, labels in arrows for label in labels.split("<br/>")}


@pytest.mark.parametrize("machine", [turn, standing, probe])
def test_every_arc_is_drawn_and_no_other(machine) -> None:  # type: ignore[no-untyped-def]
    guards = {"": "", "has_next": " [has_next]", "!has_next": " [unless has_next]"}
    guards |= {name: f" [{name}]" for name in ("can_correct", "may_retry")}
    arcs = {(arc.source, arc.dest, arc.trigger + guards[arc.guard]) for arc in machine.DEFINITION.arcs}
    assert edges(diagram.mermaid(machine.DEFINITION)) == arcs


def test_the_turn_is_drawn_like_this() -> None:
    text = diagram.mermaid(turn.DEFINITION)
    assert text.startswith("stateDiagram-v2\n    [*] --> probing\n    probing --> classified: probed\n")
    assert "    classified --> evicted: context_window<br/>capability\n" in text
    assert "    skipped --> failed: advance [unless has_next]<br/>expired<br/>cancelled<br/>broken\n" in text
    assert text.endswith("    served --> [*]\n    failed --> [*]\n")


def test_a_machine_without_an_end_has_no_final_mark() -> None:
    assert diagram.mermaid(standing.DEFINITION).count("[*]") == 1


def test_the_policy_is_drawn_with_the_turn_and_with_no_other() -> None:
    policy = Policy({"capability": "skip"})
    text = diagram.mermaid(turn.DEFINITION, policy)
    assert "        unavailable on capability, unavailable, quota_or_billing, auth_403\n" in text
    assert "        context_window on context_window\n" in text
    for other in (standing, probe):
        assert diagram.mermaid(other.DEFINITION, policy) == diagram.mermaid(other.DEFINITION)
        assert diagram.dot(other.DEFINITION, policy) == diagram.dot(other.DEFINITION)


@pytest.mark.parametrize("name", MACHINES)
def test_graphviz_gets_the_same_arrows(name: str) -> None:
    definition = MACHINES[name].definition
    arrows = re.findall(r'^    (\w+) -> (\w+) \[label="(.+)"\]$', diagram.dot(definition), re.MULTILINE)
    apart = {(source, dest, label) for source, dest, labels in arrows for label in labels.split("\\n")}
    assert apart == edges(diagram.mermaid(definition))
    assert f"    start -> {definition.initial}\n" in diagram.dot(definition)


def test_graphviz_gets_the_policy_beside_the_turn() -> None:
    text = diagram.dot(turn.DEFINITION, Policy())
    assert r"context_window on context_window\lcapability on capability\lunavailable on" in text
    assert "    policy -> classified [style=dashed arrowhead=none]\n" in text


def test_a_table_has_a_line_for_each_row() -> None:
    lines = diagram.table(turn.DEFINITION).splitlines()
    assert len(lines) == 2 + len(turn.ROWS)
    assert lines[8] == "| `advance` | `evicted`, `skipped` | `probing` | has_next |"
    assert lines[9] == "| `advance` | `evicted`, `skipped` | `failed` | unless has_next |"


# -- policies


def test_every_entry_of_a_policy_is_drawn() -> None:
    text = diagram.policy_mermaid(Policy({"model_not_found": "evict", "unavailable": "surface"}))
    entries = re.findall(r"^    kind_(\w+)\[\1\] -- (\w+) --> (\w+)\(\[\3\]\)$", text, re.MULTILINE)
    assert {case for case, _, _ in entries} == set(DEFAULT)
    assert ("model_not_found", "evict", "capability") in entries
    assert ("unavailable", "surface", "rejected") in entries
    assert ("quota_or_billing", "skip", "unavailable") in entries
    assert "    capability --> state_evicted[[evicted]]\n" in text
    assert "    unavailable --> state_skipped[[skipped]]\n" in text
    assert "    rejected --> state_failed[[failed]]\n" in text


def test_a_policy_for_graphviz() -> None:
    text = diagram.policy_dot()
    assert all(f'    {case}_kind [label="{case}"]\n' in text for case in DEFAULT)
    assert '    capability_kind -> capability [label="evict"]\n' in text
    assert "    capability -> evicted\n" in text


def test_a_policy_as_a_table() -> None:
    lines = diagram.policy_table().splitlines()
    assert len(lines) == 2 + len(DEFAULT)
    assert "| `capability` | `evict` | `capability` | `evicted` |" in lines


# -- the command


def test_without_a_name_the_turn_is_drawn() -> None:
    assert drawn() == drawn("turn") == diagram.gallery()["turn.mmd"]


@pytest.mark.parametrize("name", [*MACHINES, "selection", "policy"])
@pytest.mark.parametrize(
    ("format", "opening"),
    [
        ("mermaid", r"stateDiagram-v2|flowchart (LR|TD)"),
        ("dot", r"digraph \w+ \{"),
        ("table", r"\| (trigger|kind|passed over as) \|"),
    ],
)
def test_everything_is_drawn_in_every_format(name: str, format: str, opening: str) -> None:
    assert re.match(opening, drawn(name, "--format", format))


def test_a_machine_that_does_not_exist_is_refused_with_those_that_do() -> None:
    result = turnout("gearbox")
    assert result.exit_code == 2
    assert "'turn', 'standing', 'probe', 'health', 'selection', 'policy'" in result.output


def test_the_help_has_an_example() -> None:
    assert "turnout diagram probe --format dot" in drawn("--help")


@pytest.fixture
def deployment(tmp_path: Path) -> Path:
    path = tmp_path / "deployment.toml"
    path.write_text(DEPLOYMENT + SECOND_ROUTE)
    return path


def test_the_policy_of_a_route_is_drawn_and_needs_no_credential(deployment: Path) -> None:
    text = drawn("policy", "--deployment", deployment, "--route", "images")
    assert "kind_content_policy[content_policy] -- skip --> unavailable" in text
    assert "on context_window" in drawn("turn", "--deployment", deployment, "--route", "chat")


def test_the_only_route_need_not_be_named(deployment: Path) -> None:
    deployment.write_text(DEPLOYMENT)
    assert drawn("policy", "--deployment", deployment) == diagram.policy_mermaid()


@pytest.mark.parametrize(
    ("route", "complaint"),
    [([], "several routes; give --route one of: chat, images"), (["--route", "x"], "no route 'x'; give")],
)
def test_a_route_that_is_not_clear_is_asked_for(deployment: Path, route: list[str], complaint: str) -> None:
    result = turnout("policy", "--deployment", deployment, *route)
    assert result.exit_code == 2
    assert complaint in " ".join(result.output.split())


def test_what_has_no_policy_is_not_drawn_of_a_deployment(deployment: Path) -> None:
    for name in ("health", "selection", "standing"):
        result = turnout(name, "--deployment", deployment, "--route", "chat")
        assert result.exit_code == 2
        assert f"{name} has none" in result.output


def test_a_route_without_a_file_is_a_mistake() -> None:
    result = turnout("policy", "--route", "chat")
    assert result.exit_code == 2
    assert "--deployment" in result.output


def test_a_file_that_cannot_be_used_says_why(tmp_path: Path) -> None:
    result = turnout("policy", "--deployment", tmp_path / "missing.toml")
    assert result.exit_code == 1
    assert "missing.toml: cannot be read" in result.output
