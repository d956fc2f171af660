"""A deployment file: TOML to the memory and the routes of a router, every mistake at once.

`examine` tells everything that is wrong with a file; `load` gives the deployment, or an
error that lists what stops it. Each key is checked on its own, and what can be made of
the file despite its mistakes is checked further, so that one mistake does not hide another.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final, Literal, get_type_hints

from turnout.engine import capture, policy, selection
from turnout.engine.credentials import CREDENTIAL, SHORTEST_SECRET, is_credential, variable_named
from turnout.engine.deployment.bounds import Tables, never_acting
from turnout.engine.deployment.breaker import BREAKER, breaker_of
from turnout.engine.deployment.checks import (
    AIOHTTP_REMEDY,
    memory_in_environment,
    no_aiohttp,
    no_certificates,
    over_plain_http,
)
from turnout.engine.deployment.document import read_toml
from turnout.engine.deployment.finding import Finding, Findings, Level, dotted, walk
from turnout.engine.deployment.finding import Path as Place
from turnout.engine.deployment.price import PRICE, price_of
from turnout.engine.deployment.rules import rules_of
from turnout.engine.deployment.tables import Keys, Table, kind_of, read
from turnout.engine.errors import ConfigurationError
from turnout.engine.http import Library
from turnout.engine.memory import redis_url
from turnout.engine.policy import Policy
from turnout.engine.printable import did_you_mean, named
from turnout.engine.route import Route
from turnout.engine.selection import Options
from turnout.engine.targets import LIMITS, NAME, Client, Target, sendable

SCHEMA: Final = 1
"""The version of the file's schema that is read."""


@dataclass(frozen=True, kw_only=True)
class MemorySettings:
    """Where evictions are kept, for how long, and what happens when the store fails."""

    url: str = "sqlite:turnout.db"
    """`sqlite:PATH`, relative to the working directory, `redis://HOST:PORT/DB`, `memory:`, or `env:NAME`,
    the environment variable that holds one of these.
    """
    namespace: str = ""
    ttl_secs: float = 86_400.0
    """Seconds after its last use until an identity's evictions are forgotten."""
    max_sessions: int = 1_000_000
    on_memory_error: Literal["serve", "raise"] = "serve"
    """Route on without memory, or let the turn fail."""
    memory_timeout_ms: float = 100.0
    """Milliseconds that a turn waits for the store."""
    durability: Literal["process", "full"] = "process"
    """Whether an eviction survives the death of the process, or a loss of power as well."""


@dataclass(frozen=True, kw_only=True)
class CaptureSettings:
    """Where the replies that no rule knows are kept, and how many."""

    dir: str
    """Relative to the working directory."""
    max_bytes: int = capture.MAX_BYTES


@dataclass(frozen=True, kw_only=True)
class HttpSettings:
    """What carries requests."""

    library: Library | None = None
    """Whose pool of connections; None: aiohttp's where it is installed, else httpx's."""


@dataclass(frozen=True)
class Deployment:
    """What a deployment file describes."""

    memory: MemorySettings
    http: HttpSettings
    capture: CaptureSettings | None
    """None: no reply is kept."""
    routes: Mapping[str, Route]
    """By the id that callers ask for, in the order of the file."""
    rules_at: Mapping[str, str]
    """The list that holds a target's rules, such as `llm_clients.house.errors`, by the target's name."""
    source: Path


@dataclass(frozen=True)
class Examination:
    """What became of one file."""

    findings: tuple[Finding, ...]
    """In the order of the file."""
    deployment: Deployment | None = None
    """None where an error stops it from being built."""
    readable: bool = True
    """Whether the file could be read as TOML at all."""

    def count(self, level: Level) -> int:
        """How many findings of a level there are."""
        return sum(finding.level is level for finding in self.findings)


_HINTS: Final = get_type_hints(Client)

# a key that `Client` gains is a key of the file from then on
CLIENT: Final[Keys] = {
    **{f.name: _HINTS[f.name] for f in fields(Client) if f.name != "api_key"},
    "errors": tuple[Table, ...],
    "breaker": Table,
}
_LIMITS: Final = get_type_hints(Target)
TARGET: Final[Keys] = {
    "id": str,
    "llm_client": str,
    **CLIENT,
    **{key: _LIMITS[key] for key in LIMITS},
    "price": Table,
}
OPTIONS: Final[Keys] = get_type_hints(Options)
ROUTE: Final[Keys] = {
    "id": str,
    "ladder": tuple[str, ...],
    "on": Mapping[str, str],
    "deadline_secs": float | None,
    **OPTIONS,
}
MEMORY: Final[Keys] = get_type_hints(MemorySettings)
HTTP: Final[Keys] = get_type_hints(HttpSettings)
CAPTURE: Final[Keys] = get_type_hints(CaptureSettings)
FILE: Final[Keys] = {
    "schema_version": int,
    "memory": Table,
    "http": Table,
    "capture": Table,
    "llm_clients": Table,
    "targets": Table,
    "routes": Table,
}

_INNOCENT: Final = frozenset(
    {*CLIENT, *TARGET, *ROUTE, *MEMORY, *HTTP, *CAPTURE, *BREAKER, *PRICE, *policy.ALLOWED}
)
_CREDENTIALS: Final = ("api_key_env", "forward_auth")


def load(path: str | os.PathLike[str]) -> Deployment:
    """Read a deployment file.

    Raises:
        ConfigurationError: listing everything in the file, or missing in the environment, that stops it.
    """
    examination = examine(path)
    stopping = [finding.as_error() for finding in examination.findings if finding.stops]
    if stopping or examination.deployment is None:
        raise ConfigurationError("\n".join(stopping))
    return examination.deployment


def examine(path: str | os.PathLike[str]) -> Examination:
    """Everything that is wrong with a deployment file, and the deployment if it can be built."""
    try:
        document = read_toml(path)
    except ConfigurationError as refused:
        findings = Findings(os.fspath(path))
        findings.error((), "", str(refused))
        return Examination(findings.in_order({}), readable=False)
    return examine_document(document, Path(path), os.environ)


def examine_document(document: Table, source: Path, environ: Mapping[str, str]) -> Examination:
    """The same for a document that was read already.

    Args:
        source: what the findings name as the file.
        environ: where credentials would be read from.
    """
    examiner = _Examiner(Findings(str(source)), document)
    if examiner.is_newer():
        return Examination(examiner.findings.in_order(document))
    built = examiner.examine(environ)
    deployment = None if examiner.findings.wrong(()) else Deployment(*built, source)
    return Examination(examiner.findings.in_order(document), deployment)


class _Examiner:
    """Reads one document from its top to its routes. What it cannot use becomes a finding."""

    def __init__(self, findings: Findings, document: Table) -> None:
        self.findings = findings
        self._document = document
        self._clients: dict[str, Table] = {}
        self._targets: dict[str, Table] = {}
        """What each target has of its own."""
        self._routes: dict[str, Table] = {}
        self._built: dict[str, Target] = {}

    def is_newer(self) -> bool:
        """Whether the file is for a later version: then it would look wrong in every other line."""
        version = self._document.get("schema_version", SCHEMA)
        if type(version) is not int or version == SCHEMA:
            return False
        newer = version > SCHEMA
        what = "upgrade turnout to read this file" if newer else "give that"
        self.findings.error((), "schema_version", f"is not {SCHEMA}, which this version reads; {what}")
        return newer

    def examine(
        self, environ: Mapping[str, str]
    ) -> tuple[MemorySettings, HttpSettings, CaptureSettings | None, dict[str, Route], dict[str, str]]:
        """All that a deployment is made of, as far as it can be built."""
        for path, value in walk(self._document):
            if isinstance(value, str) and is_credential(path, value, _INNOCENT):
                what = redis_url.CREDENTIAL if path == ("memory", "url") else CREDENTIAL
                self.findings.error(path[:-1], path[-1], what)
        top = read(self.findings, (), self._document, FILE)
        memory = read(self.findings, ("memory",), top.get("memory", {}), MEMORY)
        http = read(self.findings, ("http",), top.get("http", {}), HTTP)
        if http.get("library") == "aiohttp" and (what := no_aiohttp()):
            self.findings.missing_here(("http",), "library", f"is 'aiohttp', which {what}", AIOHTTP_REMEDY)
        self._clients = self._tables("llm_clients", top, CLIENT)
        self._targets = self._tables("targets", top, TARGET)
        self._routes = self._tables("routes", top, ROUTE)
        for name, client in self._clients.items():
            self._credential(("llm_clients", name), client, client)
            self._certificates(("llm_clients", name), client, client)
        for name, target in self._targets.items():
            self._target(name, target)
        routes = self._all_routes()
        for path, key, what in never_acting(Tables(self._clients, self._targets, self._routes)):
            if not self.findings.at(path, key):
                self.findings.warning(path, key, what)
        self._unused()
        self._memory(memory, environ)
        self._environment(environ)
        rules_at = {name: _rules_at(name, own) for name, own in self._targets.items()}
        return MemorySettings(**memory), HttpSettings(**http), self._capture(top), routes, rules_at

    def _capture(self, top: Table) -> CaptureSettings | None:
        path = ("capture",)
        if "capture" not in top:
            return None
        values = read(self.findings, path, top["capture"], CAPTURE)
        if self._lacks(path, values, "dir"):
            self.findings.error(path, "dir", "is missing; give the path of a directory")
        elif "dir" in values and not self.findings.at(path, "dir") and not capture.can_be_made(values["dir"]):
            what = "cannot be written to or made here; see that it can be where turnout runs"
            self.findings.warning(path, "dir", what)
        return CaptureSettings(**values) if "dir" in values else None

    def _tables(self, kind: str, top: Table, keys: Keys) -> dict[str, Table]:
        """The tables of one kind by name."""
        tables: dict[str, Table] = {}
        for name, table in top.get(kind, {}).items():
            if not isinstance(table, dict):
                what = f"is {kind_of(table)} where a table is needed; begin one with [{kind}.NAME]"
                self.findings.error((kind,), name, what)
                continue
            if not NAME.fullmatch(name):
                what = "is no name; use 1 to 64 of the characters A-Z a-z 0-9 . _ / : -"
                self.findings.error((kind, name), "", what)
            values = read(self.findings, (kind, name), table, keys)
            if "errors" in values:
                values["errors"] = rules_of(self.findings, (kind, name, "errors"), values["errors"])
            if "breaker" in values:
                values["breaker"] = breaker_of(self.findings, (kind, name, "breaker"), values["breaker"])
            if "price" in values:
                values["price"] = price_of(self.findings, (kind, name, "price"), values["price"])
            tables[name] = values
        return tables

    def _lacks(self, path: Place, values: Table, key: str) -> bool:
        """Whether a key is not there at all: neither right nor wrong."""
        return key not in values and not self.findings.at(path, key)

    # -- targets

    def _target(self, name: str, own: Table) -> None:
        path = ("targets", name)
        client: str = own.get("llm_client", "")
        values = {**self._clients.get(client, {}), **own}
        if "llm_client" in own and client not in self._clients:
            self.findings.error(
                path,
                "llm_client",
                f"names {named(client)}, which is none of [llm_clients]{did_you_mean(client, self._clients)}",
            )
        elif self._lacks(path, values, "base_url"):
            self._unreachable(path, client)
        self._credential(path, own, values)
        self._certificates(path, own, values)
        if not self.findings.wrong(path) and not self.findings.wrong(("llm_clients", client)):
            model = values.pop("id", "")
            values.pop("llm_client", None)
            self._built[name] = Target(name, model=model, **values)

    def _unreachable(self, path: Place, client: str) -> None:
        """Nothing says where the target is. Its client is told where it has one, once for all its targets."""
        if client:
            if not self.findings.at(("llm_clients", client), "base_url"):
                what = "is missing; give one like https://api.example.com/v1"
                self.findings.error(("llm_clients", client), "base_url", what)
        elif not self.findings.at(path, "llm_client"):
            what = "is missing; name one of [llm_clients], or give base_url here"
            self.findings.error(path, "llm_client", what)

    def _credential(self, path: Place, own: Table, values: Table) -> None:
        """Whether the keys that send a credential go together, where a table has one of them of its own."""
        sent = [key for key in _CREDENTIALS if values.get(key)]
        mine = [key for key in _CREDENTIALS if own.get(key)]
        if len(sent) > 1 and mine:
            what = "does not go with api_key_env: one sends the caller's credential, the other ours; keep one"
            self.findings.error(path, "forward_auth", what)
        if sent and (mine or "base_url" in own) and over_plain_http(values.get("base_url", "")):
            key = "base_url" if "base_url" in own else mine[0]
            what = "sends a credential over plain http, where it can be read on its way; use https"
            self.findings.error(path, key, what, stops=False)

    def _certificates(self, path: Place, own: Table, values: Table) -> None:
        """Whether a table's `ca_file` is one, and whether it is ever asked for."""
        if "ca_file" in own and not self.findings.at(path, "ca_file"):
            if not os.access(own["ca_file"], os.R_OK):
                remedy = "give a file of certificates in PEM"
                self.findings.missing_here(path, "ca_file", "cannot be read", remedy)
            elif what := no_certificates(own["ca_file"]):
                self.findings.error(path, "ca_file", what)
        if (
            values.get("ca_file")
            and ("ca_file" in own or "base_url" in own)
            and values.get("base_url", "").startswith("http:")
        ):
            key = "ca_file" if "ca_file" in own else "base_url"
            what = "is never asked for: over plain http there are no certificates; use https, or take it out"
            if key == "base_url":
                what = "is plain http, over which ca_file is never asked for; use https, or set no ca_file"
            self.findings.warning(path, key, what)

    # -- routes

    def _all_routes(self) -> dict[str, Route]:
        routes: dict[str, Route] = {}
        ids: set[str] = set()
        if not self._routes and not self.findings.wrong(("routes",)) and not self.findings.at((), "routes"):
            self.findings.error((), "routes", "is missing: nothing can be asked for; add [routes.NAME]")
        for name, values in self._routes.items():
            path, asked_for = ("routes", name), values.get("id", name)
            if asked_for in ids:
                what = f"is {named(asked_for)}, as another route's is; give each its own"
                self.findings.error(path, "id", what)
            elif not NAME.fullmatch(asked_for):
                what = "is no name; use 1 to 64 of the characters A-Z a-z 0-9 . _ / : -"
                self.findings.error(path, "id", what)
            ids.add(asked_for)
            if route := self._route(path, asked_for, values):
                routes[asked_for] = route
        return routes

    def _route(self, path: Place, id: str, values: Table) -> Route | None:
        on = values.get("on", {})
        for kind, what in policy.mistakes(on):
            self.findings.error((*path, "on"), kind, what)
        for key, what in selection.mistakes(values):
            if not self.findings.at(path, key):
                self.findings.error(path, key, what)
        if self._lacks(path, values, "ladder"):
            self.findings.error(path, "ladder", "is missing; list the targets to try, in order")
        names: Sequence[str] = values.get("ladder", ())
        self._ladder(path, names)
        ladder = tuple(self._built[name] for name in names if name in self._built)
        self._same(path, ladder)
        if "ladder" not in values or self.findings.wrong(path) or len(ladder) < len(names):
            return None
        try:
            return Route(
                id=id,
                ladder=ladder,
                policy=Policy(on),
                deadline_secs=values.get("deadline_secs"),
                options=Options(**{key: values[key] for key in OPTIONS if key in values}),
            )
        except ConfigurationError as refused:
            self.findings.error(path, "ladder", str(refused).removeprefix(f"route {id!r}: "))
            return None

    def _ladder(self, path: Place, names: Sequence[str]) -> None:
        for name in dict.fromkeys(names):
            if name not in self._targets and not self.findings.at(("targets",), name):
                hint = did_you_mean(name, self._targets)
                if name in self._routes:
                    hint = " but a route; a ladder holds targets, never other routes"
                self.findings.error(path, "ladder", f"names {named(name)}, which is none of [targets]{hint}")
            if names.count(name) > 1:
                what = f"names {named(name)} twice; a target is tried once a turn"
                self.findings.error(path, "ladder", what)
        if len(names) == 1:
            self.findings.warning(path, "ladder", "has one target: there is nothing to fall back to")

    def _same(self, path: Place, ladder: Sequence[Target]) -> None:
        """Two names for one thing: what evicts the one evicts the other a probe later."""
        first: dict[tuple[str, str | None], str] = {}
        for target in ladder:
            # with a key of another account it is a ladder's business to try it again
            name = first.setdefault((target.fingerprint, target.api_key_env), target.name)
            if name != target.name:
                what = f"holds {name!r} and {target.name!r}, which are the same model at the same address"
                self.findings.warning(path, "ladder", what)

    # -- the whole

    def _unused(self) -> None:
        clients = {target.get("llm_client") for target in self._targets.values()}
        named = [client for client in self._clients if client in clients]
        unsaid = any(
            "llm_client" not in own and self.findings.at(("targets", name), "llm_client")
            for name, own in self._targets.items()
        )
        for client in () if unsaid else self._clients:
            if client not in clients:
                self.findings.warning(
                    ("llm_clients", client), "", f"is used by no target{_near(client, named)}"
                )
        if any("ladder" not in route for route in self._routes.values()):
            return
        used = self._in_ladders()
        for target in self._targets:
            if target not in used:
                self.findings.warning(("targets", target), "", f"is in no ladder{_near(target, used)}")

    def _in_ladders(self) -> dict[str, None]:
        """The targets that routes name, each once."""
        ladders = (route.get("ladder", ()) for route in self._routes.values())
        return {name: None for ladder in ladders for name in ladder if name in self._targets}

    def _memory(self, values: Table, environ: Mapping[str, str]) -> None:
        """Whether the variable that the memory's url may name is there, and holds the url of one."""
        path, key = ("memory",), "url"
        scheme, _, variable = values.get(key, "").partition(":")
        if scheme != "env" or self.findings.at(path, key):
            return
        names = f"names {variable_named(variable)}, which"
        if not (url := environ.get(variable, "").strip()):
            self.findings.missing_here(path, key, f"{names} is not set", "put the url there")
        for what, _, stops in memory_in_environment(url) if url else ():
            if stops:
                self.findings.error(path, key, f"{names} {what}")
            else:
                self.findings.warning(path, key, f"{names} {what}")

    def _environment(self, environ: Mapping[str, str]) -> None:
        """Whether the credentials that routes need are there."""
        for name in self._in_ladders():
            own = self._targets[name]
            client = own.get("llm_client", "")
            inherits = "api_key_env" not in own
            path = ("llm_clients", client) if inherits else ("targets", name)
            variable = (self._clients.get(client, {}) if inherits else own).get("api_key_env")
            if variable is None or self.findings.at(path, "api_key_env"):
                continue
            shown = variable_named(variable)
            if not (secret := environ.get(variable)):
                what, remedy = f"names {shown}, which is not set", "set it to the credential"
                self.findings.missing_here(path, "api_key_env", what, remedy)
            elif len(secret.strip()) < SHORTEST_SECRET:
                what = f"names {shown}, which holds less than {SHORTEST_SECRET} characters: no credential"
                self.findings.error(path, "api_key_env", what)
            elif not sendable(secret.strip()):
                what = f"names {shown}, which holds what no header can carry; give printable ASCII"
                self.findings.error(path, "api_key_env", what)


def _rules_at(target: str, own: Table) -> str:
    """The list that a rule for a target belongs in: its client's, unless it has one of its own."""
    client: str = own.get("llm_client", "")
    return dotted(
        ("targets", target, "errors") if "errors" in own or not client else ("llm_clients", client, "errors")
    )


def _near(name: str, used: Iterable[str]) -> str:
    """What the name of a thing that nothing uses was probably meant to be."""
    hint = did_you_mean(name, used)
    return hint if hint.endswith("?") else ""
