"""The house has floors: imports go down or along one, never up and never in a circle."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

import turnout
from turnout.engine import errors
from turnout.machines.vocabulary import TurnoutError

PACKAGE = Path(turnout.__file__).parent

FLOORS = {
    "machines": 0,
    "engine": 1,  # what is not named below: pure data and the pure turn
    "engine.call": 2,
    "engine.capture": 2,
    "engine.clock": 2,
    "engine.explaining": 2,
    "engine.http": 2,
    "engine.probe": 2,
    "engine.upstream": 2,
    "engine.memory": 2,
    "engine.secrets": 2,
    "engine.recordings": 2,
    "engine.sinks": 2,
    "engine.wire": 2,
    "engine.arguments": 3,
    "engine.breakers": 3,
    "engine.deployment": 3,
    "engine.drive": 3,
    "engine.stream": 3,
    "engine.router": 4,
    "engine.scenario": 5,
    "engine.simulation": 5,
    "engine.testing": 5,
    "engine.loopback": 5,
    "engine.cli": 5,
}

ONLY_IN = {
    "transitions": ("machines",),
    "aiohttp": ("engine.http",),
    "httpx": ("engine.http", "engine.upstream", "engine.router", "engine.testing", "engine.simulation"),
    "sqlite3": ("engine.memory", "engine.sinks", "engine.recordings"),
    "redis": ("engine.memory.redis",),
    "click": ("engine.cli",),
    "tomllib": ("engine.deployment",),
}


def _modules() -> dict[str, Path]:
    found = {}
    for top in ("machines", "engine"):
        for path in sorted((PACKAGE / top).rglob("*.py")):
            parts = path.relative_to(PACKAGE).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = _modules()


def _imports(path: Path) -> list[str]:
    """The modules that a file imports when it runs; what only a type checker reads does not count."""
    found: list[str] = []

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            return
        if isinstance(node, ast.Import):
            found.extend(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: relative import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}".removeprefix("turnout.")
                found.append(f"turnout.{inner}" if inner in MODULES else str(node.module))
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(path.read_text()))
    return found


IMPORTS = {name: _imports(path) for name, path in MODULES.items()}
OWN = {
    name: sorted({i.removeprefix("turnout.") for i in imports if i.startswith("turnout.")})
    for name, imports in IMPORTS.items()
}


def _floor(module: str) -> int:
    while module not in FLOORS:
        module = module.rpartition(".")[0]
    return FLOORS[module]


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_nothing_from_a_floor_above(module: str) -> None:
    above = [other for other in OWN[module] if _floor(other) > _floor(module)]
    assert not above, f"{module} (floor {_floor(module)}) imports {above}"


def test_no_imports_go_in_a_circle() -> None:
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join([*path, module])
        if module not in done:
            for other in OWN.get(module, ()):
                visit(other, (*path, module))
            done.add(module)

    for module in MODULES:
        visit(module, ())


@pytest.mark.parametrize("library", ONLY_IN)
def test_a_library_is_imported_only_where_it_belongs(library: str) -> None:
    users = {m for m, imports in IMPORTS.items() if any(i.split(".")[0] == library for i in imports)}
    strangers = {m for m in users if not m.startswith(ONLY_IN[library])}
    assert users, f"nothing imports {library}"
    assert not strangers


def test_the_floors_name_only_modules_that_exist() -> None:
    assert set(FLOORS) <= set(MODULES)


def test_the_public_names_are_sorted_and_there() -> None:
    assert turnout.__all__ == sorted(turnout.__all__)
    assert all(hasattr(turnout, name) for name in turnout.__all__)


def test_every_error_is_of_the_one_tree_and_drawn_in_it() -> None:
    raised = {
        value
        for name in MODULES
        for value in vars(import_module(f"turnout.{name}")).values()
        if isinstance(value, type)
        and issubclass(value, Exception)
        and value.__module__.startswith("turnout.")
    }
    assert {error.__name__ for error in raised if not issubclass(error, TurnoutError)} == set()
    public = {error.__name__ for error in raised if not error.__name__.startswith("_")}
    assert {name for name in public if name not in str(errors.__doc__)} == set()
