"""The tables that a scenario shares with a deployment file: `[memory]`, `[route]`, `[client]`, `[targets.*]`.

They are put together as the deployment that they mean and checked as one, so a key means the
same in both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from turnout.engine.deployment import Deployment, examine_document
from turnout.engine.deployment.finding import Finding, dotted
from turnout.engine.deployment.tables import Table
from turnout.engine.route import Route
from turnout.engine.targets import Target
from turnout.engine.upstream import url

BASE_URL: Final = "https://upstream.test/v1"
"""Where every target is that is given no other address. Nothing is ever sent there."""

_SCENARIO: Final = "scenario"
"""What the one route and the one client are called in the deployment that a scenario means."""

_AS_IN_FILE: Final = (
    (re.compile(rf"^routes\.{_SCENARIO}\b"), "route"),
    (re.compile(rf"^llm_clients\.{_SCENARIO}\b"), "client"),
)
"""From the place of a finding to the words of a scenario file."""

_NO_CREDENTIAL: Final = "scripted-upstreams-need-no-credential"


def deployment_of(
    shared: Mapping[str, Table], memory: Table, source: Path
) -> tuple[Deployment | None, list[tuple[str, str]]]:
    """The deployment that these tables mean, without credentials, and each mistake with its place.

    Returns:
        None for the deployment if there are mistakes.
    """
    ladder = shared["route"].get("ladder")
    named = [name for name in ladder if isinstance(name, str)] if isinstance(ladder, list) else []
    targets: dict[str, object] = {name: {} for name in named} | dict(shared["targets"])
    document = {
        "memory": memory,
        "llm_clients": {_SCENARIO: {"base_url": BASE_URL, **shared["client"]}},
        "targets": {name: _target(name, own) for name, own in targets.items()},
        "routes": {_SCENARIO: shared["route"]},
    }
    examination = examine_document(document, source, _credentials(document))
    wrong = [(place_of(finding), finding.what) for finding in examination.findings if finding.stops]
    wrong += _of_client(targets)
    if (loaded := examination.deployment) is not None:
        wrong += _alike(route_of(loaded).ladder)
    return None if wrong else loaded, wrong


def route_of(loaded: Deployment) -> Route:
    """The only route there is. Its targets need no credential: nothing is sent anywhere."""
    (route,) = loaded.routes.values()
    ladder = tuple(
        replace(target, api_key_env=None, api_key=lambda: _NO_CREDENTIAL) if target.api_key_env else target
        for target in route.ladder
    )
    return replace(route, ladder=ladder)


def _target(name: str, own: object) -> object:
    """A target's entry in the deployment. What is no table is left for the deployment to tell."""
    return {"id": name, **own, "llm_client": _SCENARIO} if isinstance(own, dict) else own


def reloaded(shared: Mapping[str, Table], changed: Mapping[str, Table]) -> Mapping[str, Table]:
    """The tables with these keys changed, those of each target too."""
    merged = {name: {**table, **changed.get(name, {})} for name, table in shared.items()}
    for name, own in changed.get("targets", {}).items():
        former = shared["targets"].get(name, {})
        if isinstance(own, dict) and isinstance(former, dict):
            merged["targets"][name] = {**former, **own}
    return merged


def _credentials(document: Mapping[str, Any]) -> Mapping[str, str]:
    """An environment in which every credential that the document names is there."""
    owners = [*document["llm_clients"].values(), *document["targets"].values()]
    named = [owner.get("api_key_env") for owner in owners if isinstance(owner, dict)]
    return {name: _NO_CREDENTIAL for name in named if isinstance(name, str)}


def _of_client(targets: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for name, own in targets.items():
        if isinstance(own, dict) and "llm_client" in own:
            yield (
                dotted(("targets", name, "llm_client")),
                "is unknown here: [client] is the client of every target; give the keys that differ",
            )


def _alike(ladder: Iterable[Target]) -> Iterator[tuple[str, str]]:
    """Targets whose requests a scripted upstream could not tell apart."""
    first: dict[tuple[str, str], str] = {}
    for target in ladder:
        name = first.setdefault(address(target), target.name)
        if name != target.name:
            yield (
                dotted(("targets", target.name)),
                f"is the same model at the same address as {name!r}; give it another id or base_url",
            )


def address(target: Target) -> tuple[str, str]:
    """By what a request to a target is known: its URL and its model id."""
    return str(url(target)), target.model_id


def place_of(finding: Finding) -> str:
    """Where a finding is: `turns[2].expect.probes`."""
    place = ".".join(filter(None, (finding.table, finding.key)))
    for pattern, words in _AS_IN_FILE:
        place = pattern.sub(words, place)
    return place
