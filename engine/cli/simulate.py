"""`turnout simulate`: scenario files, played on a virtual clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from turnout.engine.errors import ScenarioError
from turnout.engine.printable import printable, printable_json, shortened
from turnout.engine.scenario import Scenario, load
from turnout.engine.simulation import Miss, Outcome, PlayedTurn, play
from turnout.engine.telling import tell, who

ALL_HOLD: Final = 0
SOME_DO_NOT: Final = 1
UNUSABLE: Final = 2

STORY: Final = 60
"""Characters of a turn's line before the targets that it probed."""


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a turn.")
@click.option("--trace", is_flag=True, help="Tell the transitions of each turn as well.")
@click.option(
    "--http", is_flag=True, help="Play over real sockets on 127.0.0.1, in virtual time all the same."
)
@click.pass_context
def command(ctx: click.Context, files: tuple[Path, ...], *, as_json: bool, trace: bool, http: bool) -> None:
    """Play scenario files and check what the router did.

    Each FILE holds a few turns, what the upstreams answer in each, and what is expected of
    the router. No network, no waiting, no chance: the output is the same every time, over
    sockets as well. What went wrong beside a turn, a store in trouble for one, is a note below its line.

    What a FILE may say, key by key: docs/scenarios.md

    \b
    Example:
      turnout simulate scenarios/*.toml
      turnout simulate --http scenarios/*.toml

    \b
    Exit status:
      0  every expectation holds
      1  some do not; each has a line that says what came instead
      2  a FILE cannot be used or played; the others were played all the same
    """  # noqa: D301 - click has to see the backspace
    worst = ALL_HOLD
    for file in files:
        try:
            scenario = load(file)
            played = play(scenario, http=http)
        except ScenarioError as error:
            click.echo(str(error), err=True)
            worst = UNUSABLE
            continue
        show = _in_json if as_json else _in_words
        show(scenario, played, trace)
        if any(turn.misses for turn in played):
            worst = max(worst, SOME_DO_NOT)
    ctx.exit(worst)


def _in_json(scenario: Scenario, played: tuple[PlayedTurn, ...], trace: bool) -> None:
    for turn in played:
        told: dict[str, Any] = {
            "file": printable(str(scenario.source)),
            "turn": turn.planned.place,
            "repeat": turn.repeat,
            "name": scenario.name,
            **{field.name: getattr(turn.outcome, field.name) for field in fields(Outcome)},
            "notes": turn.notes,
        }
        if trace:
            told["transitions"] = turn.record.steps
        click.echo(printable_json(msgspec.json.encode(told).decode()))
        for miss in turn.misses:
            click.echo(_missed(scenario, turn, miss), err=True)


def _in_words(scenario: Scenario, played: tuple[PlayedTurn, ...], trace: bool) -> None:
    click.echo(printable(shortened(scenario.name)))
    width = max(len(who(turn.record)) for turn in played)
    for turn in played:
        story = tell(turn.record, turn_name=_number)
        probes = " ".join(turn.outcome.probes)
        click.echo(f"{turn.number:3} {who(turn.record):<{width}}  {story:<{STORY}} [{probes}]")
        if trace:
            for step in turn.record.steps:
                click.echo(f"      {step.source} -- {step.trigger} -> {step.dest}")
        for note in turn.notes:
            click.echo(f"    note: {printable(note)}")
        for miss in turn.misses:
            click.echo(f"    {_missed(scenario, turn, miss)}")


def _number(turn: str) -> str:
    """A turn of a simulation is named by its number, with zeros before it."""
    return str(int(turn))


def _missed(scenario: Scenario, turn: PlayedTurn, miss: Miss) -> str:
    """Which file, turn and key, what was expected, what came."""
    place = f"turn {turn.planned.place}"
    if turn.planned.repeat > 1:
        place += f" ({turn.repeat} of {turn.planned.repeat})"
    expected, actual = (msgspec.json.encode(_brief(value)).decode() for value in (miss.expected, miss.actual))
    missed = f"{scenario.source}: {place}: {miss.key}: expected {expected}, got {actual}"
    return printable(missed)


def _brief(value: Any) -> Any:
    """A value of an expectation with each of its texts short enough to be shown."""
    if isinstance(value, str):
        return shortened(value)
    if isinstance(value, tuple):
        return tuple(map(_brief, value))
    if isinstance(value, Mapping):
        return {_brief(key): _brief(inner) for key, inner in value.items()}
    return value
