"""`turnout whatif`: recorded sessions, as they would have gone under another policy, ladder or limits."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from math import inf, isinf
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from turnout.engine import pricing
from turnout.engine.cli.records import UNUSABLE, Records
from turnout.engine.deployment import examine
from turnout.engine.errors import ConfigurationError
from turnout.engine.printable import printable, printable_json
from turnout.engine.whatif import Elsewhere, Report, WhatIf
from turnout.engine.whatif import Path as Way
from turnout.engine.whatif.routing import ChangedPolicy, OtherRoutes, Rules

TELL_EVERY: Final = 10_000
"""Records between two words to whoever watches."""
NAMES: Final[Mapping[str, str]] = {
    "elsewhere": "turns that go elsewhere",
    "probes": "probes",
    "certain_rejections": "certain rejections",
    "failed": "turns that fail",
    "newly_failed": "  newly failing",
    "newly_served": "  newly served",
    "seconds": "seconds of probes",
    "tokens_sent": "tokens sent, estimated",
    "cost": "cost of answers",
}
EXPLAINED: Final = (
    "assumed:  what a target has refused in a conversation, it refuses again",
    "possible: whatever targets may have done that is not recorded",
)
SHOWN: Final = 3
"""Ways of one turn that are told in words."""


class _Change(click.ParamType[tuple[str, str]]):
    """An entry of a policy."""

    name = "KIND=ACTION"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        kind, mark, action = str(value).partition("=")
        if not mark:
            self.fail(f"{printable(str(value))!r} is no change; give one like capability=skip", param, ctx)
        return kind.strip(), action.strip()


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="RECORDS...", type=click.Path(path_type=Path))
@click.option(
    "--policy",
    "changes",
    multiple=True,
    type=_Change(),
    help="What a kind of error does instead: evict, skip or surface. May be given several times.",
)
@click.option("--deployment", metavar="FILE", help="Route by the ladders, policies and limits of this file.")
@click.option("--turns", is_flag=True, help="Tell each turn that goes elsewhere, or may.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print JSON: with --turns an object a turn, then one in all."
)
@click.pass_context
def command(
    ctx: click.Context,
    paths: tuple[Path, ...],
    changes: tuple[tuple[str, str], ...],
    deployment: str | None,
    *,
    turns: bool,
    as_json: bool,
) -> None:
    """Tell what would have come of recorded sessions under another policy, or another deployment: turns that
    go elsewhere, probes more or less, rejections that were certain, turns that fail or are served.

    RECORDS are files of records, of JSON lines or of SQLite, or folders of such, in the order of time. Nobody
    is asked. What a target did in a turn is what it does in that turn; a target that has refused something in
    a conversation refuses it again (assumed); everything else is unknown, and the figures are ranges then:
    once if what is assumed holds, and once whatever targets may have done that is not recorded.

    Routes of a deployment file are found by their ids, its targets by format, address and model id, else
    by name and model id.

    \b
    Examples:
      turnout whatif records.jsonl --policy capability=skip
      turnout whatif records/ --deployment changed.toml --turns

    \b
    Exit status:
      0  it was told
      2  a file cannot be read, a line of one holds no record, or a turn cannot be played; all others were
    """  # noqa: D301 - click has to see the backspace
    rules = _rules(changes, deployment)
    whatif, records, left_out = WhatIf(rules), Records(paths), Counter[str]()
    played = 0
    for record in records:
        try:
            elsewhere = whatif.take(record)
        except (ConfigurationError, RecursionError) as error:
            left_out[str(error)] += 1
            continue
        played += 1
        if sys.stderr.isatty() and played % TELL_EVERY == 0:
            click.echo(f"\r{played} turns played", nl=False, err=True)
        if turns and elsewhere is not None:
            click.echo(_in_json(elsewhere) if as_json else printable(_in_words(elsewhere)))
    if sys.stderr.isatty() and played >= TELL_EVERY:
        click.echo("\r", nl=False, err=True)
    for why, number in left_out.most_common():
        click.echo(printable(f"{_counted(number, 'turn')} left out: {why}"), err=True)
    if not played:
        click.echo("no turn was played", err=True)
        ctx.exit(UNUSABLE)
    report = whatif.report()
    if as_json:
        click.echo(_in_json(report))
    else:
        for line in _table(report):
            click.echo(line)
    ctx.exit(UNUSABLE if left_out else records.status)


def _rules(changes: tuple[tuple[str, str], ...], deployment: str | None) -> Rules:
    if bool(changes) == (deployment is not None):
        raise click.UsageError("give one of --policy, as in --policy capability=skip, and --deployment FILE.")
    if twice := [kind for kind, number in Counter(kind for kind, _ in changes).items() if number > 1]:
        raise click.UsageError(printable(f"--policy changes {', '.join(twice)} twice; give each kind once."))
    if deployment is None:
        try:
            return ChangedPolicy(dict(changes))
        except ConfigurationError as error:
            raise click.BadParameter(printable(str(error)), param_hint="--policy") from error
    examination = examine(deployment)
    if examination.deployment is None:
        raise click.UsageError("\n".join(str(finding) for finding in examination.findings))
    return OtherRoutes(examination.deployment.routes)


# -- words


def _table(report: Report) -> Iterator[str]:
    yield f"{_counted(report.turns, 'turn')} of {_counted(report.sessions, 'session')}"
    yield ""
    rows = [("", "recorded", "assumed", "possible")]
    rows += [
        (
            name,
            _number(report.recorded[key], key) if key not in _ONLY_CHANGES else "-",
            _range(report.assumed[key], key),
            _range(report.possible[key], key),
        )
        for key, name in NAMES.items()
        if key != "cost" or report.recorded[key] or report.possible[key][1]  # some price is declared
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "   ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip()
    yield ""
    yield from EXPLAINED
    yield from _remarks(report)


_ONLY_CHANGES: Final = ("elsewhere", "newly_failed", "newly_served")
"""What is nothing by itself in the records."""


def _remarks(report: Report) -> Iterator[str]:
    told = (
        (report.too_many_ways, "session", "may have gone too many ways: anything is possible from there"),
        (report.closed_early, "session", "closed early, as too many were open: what came later begins anew"),
        (report.out_of_order, "turn", "came after a later one of the session: give files in order of time"),
        (
            report.overlapping,
            "turn",
            "overlapped another of its session: what it knew of that is guessed",
        ),
        (report.cost_unknown, "turn", "of unknown cost, as recorded: no sum has it"),
    )
    yield from (f"{_counted(number, noun)} {what}" for number, noun, what in told if number)
    yield from map(printable, report.remarks)


def _range(of: tuple[float, float], key: str) -> str:
    low, high = of
    if isinf(high):
        return f"{_number(low, key)} or more"
    return _number(low, key) if low == high else f"{_number(low, key)} to {_number(high, key)}"


def _number(value: float, key: str) -> str:
    if key == "cost":
        return pricing.shown(value)
    return f"{value:,.1f}" if key == "seconds" else f"{value:,.0f}"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _in_words(told: Elsewhere) -> str:
    session = f" of session {told.session}" if told.session else ""
    ways = [*map(_path, told.would[:SHOWN])] or ["anything"]
    others = len(told.would) - SHOWN
    ways += [_counted(others, "other way")] if others > 0 else []
    would = " or ".join(ways)
    return f"turn {told.turn}{session}: {_path(told.recorded)}; would be {would}"


def _path(way: Way) -> str:
    marks = way.known or ("",) * len(way.asked)
    asked = [f"{name} ({mark})" if mark else name for name, mark in zip(way.asked, marks, strict=True)]
    return f"{', '.join(asked) or 'nobody'} {'serves' if way.served_by else 'fails'}"


def _in_json(told: msgspec.Struct) -> str:
    return printable_json(msgspec.json.encode(_finite(msgspec.to_builtins(told))).decode())


def _finite(value: Any) -> Any:
    """With what has no most as null."""
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return [_finite(one) for one in value]
    return None if value == inf else value
