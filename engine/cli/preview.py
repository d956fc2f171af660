"""`turnout preview`: which target a request would be sent to first, and why not to another."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import click
import msgspec

from turnout.engine.errors import ConfigurationError, RequestRefused
from turnout.engine.preview import Preview
from turnout.engine.printable import printable
from turnout.engine.router import Router
from turnout.engine.telling import why_passed_over


@click.command()
@click.argument("body", type=click.File("rb"))
@click.option(
    "--deployment", "file", required=True, type=click.Path(path_type=Path), help="The deployment file."
)
@click.option("--route", help="The route; needless where there is only one.")
@click.option("--session", help="Whose evictions count.")
@click.option("--agent", help="A sub-agent of the session.")
@click.option("--pin", help="The target that goes first.")
@click.option("--size", type=int, help="The size in tokens, instead of the estimate.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    body: IO[bytes],
    file: Path,
    route: str | None,
    session: str | None,
    agent: str | None,
    pin: str | None,
    size: int | None,
    *,
    as_json: bool,
) -> None:
    """Tell which target the request in the file BODY would be sent to first, and which would be passed over.

    BODY holds the request as JSON; - is standard input. No upstream is asked, and nothing is written.

    \b
    Example:
      turnout preview request.json --deployment deployment.toml --session session-42
    """  # noqa: D301 - click has to see the backspace

    async def ask() -> Preview:
        try:
            request = msgspec.json.decode(body.read())
        except (msgspec.DecodeError, UnicodeError) as error:
            raise click.ClickException(f"the body is no JSON: {error}") from error
        async with Router.from_toml(file, call=_nobody) as router:
            return await router.preview(
                request, route=route, session=session, agent=agent, pin=pin, size=size
            )

    try:
        preview = asyncio.run(ask())
    except (ConfigurationError, RequestRefused) as error:
        raise click.ClickException(printable(str(error))) from error
    if as_json:
        click.echo(msgspec.json.encode(preview))
        return
    for line in _lines(preview):
        click.echo(printable(line))


async def _nobody(*_: object, **__: object) -> dict[str, object]:
    raise AssertionError("a preview asks nobody")


def _lines(preview: Preview) -> Iterator[str]:
    last = " (last resort: every target is ruled out)" if preview.last_resort else ""
    yield f"{preview.target} would be asked first{last}"
    for over in preview.passed_over:
        yield f"  {why_passed_over(over, str, now=time.time())}"
    if (home := preview.home) is not None:
        last = "" if home.last.target == home.home.target else f"; {home.last.target} served it last"
        yield f"  the session is at home with {home.home.target}{last}"
    for eviction in preview.lifted:
        yield f"  {eviction.target} {eviction.reason} of turn {eviction.first.turn} does not apply"
    told = ", ".join(preview.needs)
    output = "" if preview.output is None else f", and {preview.output} of output"
    counted = "" if preview.calibrated is None else f", {preview.calibrated} by what was reported"
    yield f"  needs {told}; about {preview.size} tokens{counted}{output}"
    for note in preview.notes:
        yield f"  {note}"
