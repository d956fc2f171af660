"""`turnout classify`: how a failed reply is read, and what a router does with it."""

from __future__ import annotations

import json
import sys
import textwrap
import time
from collections.abc import Iterable, Mapping
from typing import BinaryIO, Final, NamedTuple

import click
import msgspec
from click.core import ParameterSource

from turnout.engine.classify import UNREADABLE, UNRECOGNISED, Reply, Verdict, carries_error, classify
from turnout.engine.classify.decoding import MAX_BODY
from turnout.engine.deployment import examine
from turnout.engine.errors import ReplyError
from turnout.engine.explaining import ANSWER, action, explain, told, told_in_full, unheld
from turnout.engine.policy import DEFAULT_POLICY, Action, Policy
from turnout.engine.printable import printable, printable_json, shortened
from turnout.engine.recognising import features, known
from turnout.engine.replies import read
from turnout.engine.route import Route
from turnout.engine.suggesting import suggested
from turnout.engine.targets import Target
from turnout.engine.wire import FORMATS

UNUSABLE: Final = 2

LABEL: Final = 11
WIDTH: Final = 80
PROGRESS: Final = 1000
"""After how many replies a person who waits is told how far it is."""

COLOURS: Final[Mapping[Action, str]] = {Action.EVICT: "red", Action.SKIP: "yellow", Action.SURFACE: "magenta"}

NO_FAILURE: Final = "no error: this is a complete answer, and a turn would be served by it"
NO_ERROR: Final = "The body carries no error, and is no complete answer that this version can read."
NOTHING_TELLING: Final = (
    "It says nothing that tells it from other replies with its status. No rule is made ready for it:"
    " one that gives the status alone would take them all. See whether the server can send a code of"
    " its own, or words."
)
REPORT: Final = "If others may meet it too, report it, so that a later version knows it."


class _Asked(NamedTuple):
    """In whose place a reply is read."""

    target: Target = Target("any")
    policy: Policy = DEFAULT_POLICY
    whose: str = "the default policy"
    rules_at: str = "llm_clients.NAME.errors"
    """The list of a deployment file that a rule for the target belongs in."""


@click.command(context_settings={"allow_extra_args": True})
@click.option("--status", type=click.IntRange(100, 599), help="The reply's HTTP status; 200 with --event.")
@click.option("--header", "headers", multiple=True, metavar="NAME=VALUE", help="One of its headers.")
@click.option("--format", metavar="NAME", help="Its wire format. Default: openai_chat, or the target's.")
@click.option("--provider", metavar="NAME", default="", help="Who answered, such as zai.")
@click.option("--event", metavar="NAME", help="The body is the data of this event of a stream.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--jsonl", "file", metavar="FILE", type=click.File("rb"), help="Read many replies, one a line.")
@click.option("--deployment", metavar="FILE", help="Read it as a target of this deployment file would.")
@click.option("--target", metavar="NAME", help="The target; may be left out if the file has one only.")
@click.option("--route", metavar="ID", help="Whose policy counts, where routes of the target differ.")
@click.pass_context
def command(
    ctx: click.Context,
    status: int | None,
    headers: tuple[str, ...],
    format: str | None,
    provider: str,
    event: str | None,
    *,
    as_json: bool,
    file: BinaryIO | None,
    deployment: str | None,
    target: str | None,
    route: str | None,
) -> None:
    """Tell how a failed reply is read, and what a router does with it.

    Reads the reply's body from standard input. Nothing is sent anywhere, and what looks like
    a credential is not printed.

    With --jsonl, FILE (- is standard input) holds one reply a line, as a JSON object with
    id, provider, format, transport (http, http_200_body or sse_event), status, headers, event
    and body; other fields are not looked at. For each, one JSON object is printed, in order,
    with the keys id, kind, reason, features, param, retryable, retry_after and evidence (rule,
    field, matched). A reason is why the turn leaves the target; null means that it does not:
    the caller gets the error. A complete answer has no kind either, and the rule "answer".

    \b
    Examples:
      turnout classify --status 400 < body
      turnout classify --status 429 --header retry-after=20 < body
      turnout classify --status 400 --deployment mine.toml --target small < body
      turnout classify --jsonl captured/unrecognised.jsonl

    \b
    Exit status:
      0  all was read, whatever it says
      2  the input cannot be used; the lines before it were printed
    """  # noqa: D301 - click has to see the backspace
    if ctx.args:
        raise click.UsageError(_extra(ctx.args[0], status, many=file is not None))
    asked = _asked(deployment, target, route)
    if file is not None:
        _alone(ctx)
        _many(file, asked)
        return
    if deployment is not None and format is not None:
        raise click.UsageError("--format is the target's own; leave it out with --deployment.")
    if status is None and event is None:
        raise click.UsageError("a reply has a status; give --status (or --event, for an event of a stream).")
    reply = Reply(
        status=status or 200,
        body=_body(),
        headers=dict(map(_header, headers)),
        format=format or asked.target.format,
        event=event,
        provider=provider or asked.target.provider,
    )
    verdict = None if _is_answer(reply) else classify(reply, now=time.time(), rules=asked.target.rules)
    if as_json:
        _print({"answer": verdict is None} | ({} if verdict is None else told_in_full(verdict, asked.policy)))
    elif verdict is None:
        click.echo(NO_FAILURE)
    else:
        _in_words(reply, verdict, asked)


def _extra(argument: str, status: int | None, *, many: bool) -> str:
    """What to do instead of naming a file as an argument."""
    name = printable(shortened(argument))
    if many:
        return f"--jsonl takes one file; leave {name} out."
    return f"the body comes from standard input: turnout classify --status {status or 400} < {name}"


# -- one reply, for a person


def _in_words(reply: Reply, verdict: Verdict, asked: _Asked) -> None:
    for label, text in explain(verdict, asked.policy, asked.target):
        _row(label, text, COLOURS[action(verdict, asked.policy)] if label == "action" else None)
        if label == "action":
            _row("", f"by {asked.whose}")
    rule, rules = verdict.evidence.rule, asked.target.rules
    if rule == UNREADABLE:
        click.echo(f"\n{NO_ERROR}")
        return
    if rule not in [own.name for own in rules]:
        _rows("rules", unheld(rules, reply))
    if rule == UNRECOGNISED:
        _rows("knows", known(reply))
        click.echo(f"\n{_advice(reply, asked)}")


def _advice(reply: Reply, asked: _Asked) -> str:
    """What whoever knows better than we do can do about a reply that no rule knows."""
    rule = suggested(reply, features(reply), asked.rules_at)
    if rule is None:
        return f"{textwrap.fill(NOTHING_TELLING, WIDTH)}\n\n{REPORT}"
    named = "" if asked.rules_at != _Asked().rules_at else ", where NAME is the client that got it"
    first = (
        f"If you know what this reply means, say so in the deployment file, with the kind that it is{named}:"
    )
    return f"{textwrap.fill(first, WIDTH)}\n\n{textwrap.indent(rule, '  ')}\n\n{REPORT}"


def _rows(label: str, texts: Iterable[str]) -> None:
    """Several texts under one label."""
    for place, text in enumerate(texts):
        _row(label if not place else "", text)


def _row(label: str, text: str, colour: str | None = None) -> None:
    """A label and a text beside it, which goes on below itself."""
    lines = textwrap.wrap(text, WIDTH - LABEL, break_on_hyphens=False) or [""]
    for place, line in enumerate(lines):
        click.echo((label if not place else "").ljust(LABEL) + click.style(line, fg=colour))


def _is_answer(reply: Reply) -> bool:
    """Whether nothing failed, as far as the formats go that can be read."""
    if not 200 <= reply.status < 300 or reply.event is not None or reply.format not in FORMATS:
        return False
    try:
        body = json.loads(reply.body)
    except (ValueError, RecursionError):
        return False
    return FORMATS[reply.format].is_answer(body) and not carries_error(reply.body)


def _body() -> bytes:
    """As much of standard input as is read of an error; what follows is told and left."""
    body = sys.stdin.buffer.read(MAX_BODY + 1)
    if len(body) > MAX_BODY:
        click.echo("The body is longer than 64 KiB: the rest is not looked at.", err=True)
    return body[:MAX_BODY]


def _header(given: str) -> tuple[str, str]:
    name, mark, value = given.partition("=")
    if not (name and mark):
        raise click.BadParameter("give NAME=VALUE, as in retry-after=20", param_hint="--header")
    return name.strip().lower(), value.strip()


# -- many replies, for a program


def _many(file: BinaryIO, asked: _Asked) -> None:
    told_progress = sys.stderr.isatty() and not sys.stdout.isatty()
    name = getattr(file, "name", "<stdin>")  # what stands in for standard input may have none
    done = 0
    try:
        for done, kept in enumerate(read(file), 1):
            _print({"id": kept.id, **_told(kept.reply, asked)})
            if told_progress and not done % PROGRESS:
                click.echo(f"\r{done} replies", err=True, nl=False)
    except ReplyError as error:
        raise click.UsageError(f"{name}: {error}") from error
    finally:
        if told_progress and done >= PROGRESS:
            click.echo(err=True)
    if not done:
        click.echo(f"{printable(name)}: holds no reply", err=True)


def _told(reply: Reply, asked: _Asked) -> Mapping[str, object]:
    if _is_answer(reply):
        return ANSWER
    return told(classify(reply, now=time.time(), rules=asked.target.rules), asked.policy)


def _print(value: Mapping[str, object]) -> None:
    click.echo(printable_json(json.dumps(msgspec.to_builtins(value))))


def _alone(ctx: click.Context) -> None:
    """Refuse the options that tell of one reply: a line of a file tells of itself."""
    for param in ctx.command.params:
        given = ctx.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE
        if given and param.name not in ("file", "deployment", "target", "route"):
            hint = param.get_error_hint(ctx)
            raise click.UsageError(
                f"--jsonl prints one object for each line, by what it says; leave {hint} out."
            )


# -- the deployment


def _asked(deployment: str | None, target: str | None, route: str | None) -> _Asked:
    if deployment is None:
        if target is not None or route is not None:
            raise click.UsageError(
                "--target and --route are of a deployment file; give --deployment as well."
            )
        return _Asked()
    # examined, not loaded: reading needs no credential in the environment
    examination = examine(deployment)
    if examination.deployment is None:
        for finding in examination.findings:
            click.echo(str(finding), err=True)
        click.get_current_context().exit(UNUSABLE)
    routes = examination.deployment.routes
    ladders = {rung.name: rung for own in routes.values() for rung in own.ladder}
    if target is None and len(ladders) == 1:
        (target,) = ladders
    if target is None or target not in ladders:
        wanted = "several targets" if target is None else f"no target {target!r} in a ladder"
        there_are = ", ".join(sorted(ladders))
        raise click.UsageError(f"{deployment} has {wanted}; give --target one of: {there_are}.")
    chosen = _chosen([own for own in routes.values() if ladders[target] in own.ladder], route, target)
    rules_at = examination.deployment.rules_at[target]
    return _Asked(ladders[target], chosen.policy, f"the policy of route {chosen.id}", rules_at)


def _chosen(routes: list[Route], route: str | None, target: str) -> Route:
    """The route that was named; or the first, if all of the target's treat errors alike."""
    alike = all(own.policy.table == routes[0].policy.table for own in routes)
    fitting = [own for own in routes if own.id == route] if route is not None else routes if alike else []
    if not fitting:
        ids = ", ".join(own.id for own in routes)
        raise click.UsageError(f"the routes of target {target!r} are {ids}; give --route one of them.")
    return fitting[0]
