"""`turnout sessions`: which sessions there are, in short."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from turnout.engine.account import SessionLine
from turnout.engine.audit import AuditRecord
from turnout.engine.cli.records import Records, records_option
from turnout.engine.printable import printable, printable_json, printable_time
from turnout.machines.vocabulary import RoutingFallbackReason


class _Since(click.ParamType[float]):
    """A time of day in UTC, or how long ago."""

    name = "TIME"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> float:
        units = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
        if re.fullmatch(r"[0-9]{1,9}[smhd]", value):
            return time.time() - int(value[:-1]) * units[value[-1]]
        try:
            at = datetime.fromisoformat(value)
        except ValueError:
            self.fail(
                f"{printable(value)!r} is no time; give 2026-12-01T10:15, or 90m, 2h, 3d for so long ago"
            )
        return at.replace(tzinfo=at.tzinfo or UTC).timestamp()


@click.command()
@records_option
@click.option("--target", metavar="NAME", help="Only those that NAME has served, or was asked in.")
@click.option(
    "--reason",
    type=click.Choice([str(reason) for reason in RoutingFallbackReason]),
    help="Only those in which a target was left for it.",
)
@click.option("--failed", is_flag=True, help="Only those in which a turn has failed.")
@click.option("--fell-back", is_flag=True, help="Only those in which a turn has left a target.")
@click.option(
    "--since", type=_Since(), help="Only turns since then: 2026-12-01T10:15 (UTC), or 90m, 2h, 3d ago."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a session.")
@click.pass_context
def command(
    ctx: click.Context,
    paths: tuple[Path, ...],
    target: str | None,
    reason: str | None,
    since: float | None,
    *,
    failed: bool,
    fell_back: bool,
    as_json: bool,
) -> None:
    """List the sessions that records are of, the latest one last; `turnout explain` tells one of them.

    Turns without a session are left out.

    \b
    Examples:
      turnout sessions --records records.jsonl --fell-back
      turnout sessions --records records/ --reason capability --since 2h
    """  # noqa: D301 - click has to see the backspace
    found: dict[tuple[str, str], SessionLine] = {}
    targets: dict[tuple[str, str], set[str]] = {}
    read = Records(paths)
    for record in read:
        if not record.caller.session or record.started < (since or 0):
            continue
        key = record.caller.namespace, record.caller.session
        found.setdefault(key, SessionLine(key[1], key[0])).add(record)
        targets.setdefault(key, set()).update(_targets(record))
    wanted = [
        told
        for key, told in found.items()
        if (target is None or target in targets[key])
        and (reason is None or reason in told.reasons)
        and (told.failed or not failed)
        and (told.fell_back or not fell_back)
    ]
    for told in sorted(wanted, key=lambda told: told.last):
        click.echo(printable_json(msgspec.json.encode(told).decode()) if as_json else _in_words(told))
    if not wanted:
        click.echo("no session was found", err=True)
    ctx.exit(read.status)


def _targets(record: AuditRecord) -> set[str]:
    return {probe.target for probe in record.probes}


def _in_words(told: SessionLine) -> str:
    parts = [f"{told.turns} turns" if told.turns != 1 else "1 turn"]
    parts += [f"{told.failed} failed"] if told.failed else []
    parts += [f"{told.fell_back} fell back ({', '.join(told.reasons)})"] if told.fell_back else []
    parts += [f"served by {', '.join(told.served_by)}"] if told.served_by else []
    parts += [told.spent] if told.spent else []
    space = f" in namespace {told.namespace}" if told.namespace else ""
    return printable(f"{told.session}{space}  {'; '.join(parts)}; last {printable_time(told.last)}")
