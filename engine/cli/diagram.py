"""`turnout diagram`: the machines and the policy, drawn from the rows that the engine steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import click
from click.core import ParameterSource

from turnout.engine import diagram
from turnout.engine.policy import DEFAULT_POLICY, Policy
from turnout.engine.printable import printable
from turnout.machines.catalog import MACHINES
from turnout.machines.stepping import Definition

if TYPE_CHECKING:
    from turnout.engine.route import Route

Format = Literal["mermaid", "dot", "table"]

POLICY: Final = "policy"
SELECTION: Final = "selection"
DEFAULT: Final = "turn"

OPENING: Final = {".md": 3, ".mmd": 1}
"""How many of its first lines tell that a file was written here."""

OF_A_MACHINE: Final[Mapping[Format, Callable[[Definition, Policy], str]]] = {
    "mermaid": diagram.mermaid,
    "dot": diagram.dot,
    "table": lambda definition, _: diagram.table(definition),
}
OF_A_SELECTION: Final[Mapping[Format, Callable[[], str]]] = {
    "mermaid": diagram.selection_mermaid,
    "dot": diagram.selection_dot,
    "table": diagram.selection_table,
}
OF_A_POLICY: Final[Mapping[Format, Callable[[Policy], str]]] = {
    "mermaid": diagram.policy_mermaid,
    "dot": diagram.policy_dot,
    "table": diagram.policy_table,
}


@click.command()
@click.argument(
    "what", default=DEFAULT, metavar="[MACHINE]", type=click.Choice([*MACHINES, SELECTION, POLICY])
)
@click.option("--format", type=click.Choice(list(OF_A_MACHINE)), default="mermaid", show_default=True)
@click.option("--deployment", metavar="FILE", help="Draw the policy of a route of this deployment file.")
@click.option("--route", metavar="ID", help="The route; may be left out if the file has one only.")
@click.option(
    "--write",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write every diagram and a README that shows them into this folder; goes with nothing else."
    " Overwrites nothing that it has not written.",
)
@click.pass_context
def command(
    ctx: click.Context,
    what: str,
    format: Format,
    deployment: str | None,
    route: str | None,
    write: Path | None,
) -> None:
    """Draw a machine: turn (if none is named), standing, probe or health; who may be probed; or the policy.

    \b
    Examples:
      turnout diagram
      turnout diagram probe --format dot | dot -Tsvg > probe.svg
      turnout diagram policy --deployment deployment.toml --route chat
    """  # noqa: D301 - click has to see the backspace
    if write is not None:
        _alone(ctx)
        _write(write)
        return
    if deployment is not None and what not in (DEFAULT, POLICY):
        raise click.UsageError(f"--deployment draws a policy, and {what} has none; leave it out.")
    policy = _policy(deployment, route)
    if what == POLICY:
        drawn = OF_A_POLICY[format](policy)
    elif what == SELECTION:
        drawn = OF_A_SELECTION[format]()
    else:
        drawn = OF_A_MACHINE[format](MACHINES[what].definition, policy)
    click.echo(drawn, nl=False)


def _alone(ctx: click.Context) -> None:
    for param in ctx.command.params:
        given = ctx.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE
        if given and param.name != "write":
            raise click.UsageError(f"--write goes with nothing else; leave {param.get_error_hint(ctx)} out.")


def _write(folder: Path) -> None:
    files = {folder / name: content for name, content in diagram.gallery().items()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if foreign := [file for file, content in files.items() if _is_foreign(file, content)]:
            what = f"would overwrite {', '.join(map(str, foreign))}, which it has not written; move that away"
            raise click.BadParameter(what, param_hint="--write")
        for file, content in files.items():
            file.write_text(content, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(printable(f"{folder} cannot be written: {error.strerror}")) from error
    for file in files:
        click.echo(printable(str(file)))


def _is_foreign(file: Path, content: str) -> bool:
    """Whether a file is there that this command has not written: its first lines are others.

    Args:
        content: what would be written there.
    """
    try:
        there = file.read_bytes().splitlines()
    except FileNotFoundError:
        return False
    opening = OPENING[file.suffix]
    return there[:opening] != content.encode().splitlines()[:opening]


def _policy(deployment: str | None, route: str | None) -> Policy:
    if deployment is None:
        if route is not None:
            raise click.UsageError("--route names a route of a deployment file; give --deployment as well.")
        return DEFAULT_POLICY
    # a deployment is read by many modules, of which a plain diagram needs none
    from turnout.engine.deployment import examine

    # examined, not loaded: a picture needs no credential in the environment
    examination = examine(deployment)
    if examination.deployment is None:
        raise click.ClickException("\n".join(map(str, examination.findings)))
    return _chosen(examination.deployment.routes, route, deployment).policy


def _chosen(routes: Mapping[str, Route], route: str | None, deployment: str) -> Route:
    if route is None and len(routes) == 1:
        return next(iter(routes.values()))
    if route is None or route not in routes:
        there_are = ", ".join(sorted(routes)) or "none"
        wanted = "several routes" if route is None else f"no route {route!r}"
        raise click.UsageError(f"{deployment} has {wanted}; give --route one of: {there_are}.")
    return routes[route]
