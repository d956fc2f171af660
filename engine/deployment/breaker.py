"""The breaker of a client or a target: `breaker = { failures = 3 }`."""

from __future__ import annotations

from typing import Final, get_type_hints

from turnout.engine.deployment.finding import Findings, Path
from turnout.engine.deployment.tables import Keys, Table, read
from turnout.engine.health import Breaker, mistakes

BREAKER: Final[Keys] = get_type_hints(Breaker)


def breaker_of(findings: Findings, path: Path, table: Table) -> Breaker | None:
    """The breaker, if it can be used. All that is wrong becomes findings.

    Args:
        path: the table's own.
    """
    values = read(findings, path, table, BREAKER)
    for key, what in mistakes(values):
        if not findings.at(path, key):
            findings.error(path, key, what)
    return None if findings.wrong(path) else Breaker(**values)
