"""The price of a target: `price = { input = 0.15, output = 0.6 }`."""

from __future__ import annotations

from typing import Final, get_type_hints

from turnout.engine.deployment.finding import Findings, Path
from turnout.engine.deployment.tables import Keys, Table, read
from turnout.engine.pricing import Price, mistakes

PRICE: Final[Keys] = get_type_hints(Price)


def price_of(findings: Findings, path: Path, table: Table) -> Price | None:
    """The price, if it can be used. All that is wrong becomes findings.

    Args:
        path: the table's own.
    """
    # a target's own `input` is something else, and so checked by other rules
    values = read(findings, path, table, PRICE, check=lambda _key, _value: ())
    for key, what in mistakes(values):
        if not findings.at(path, key):
            findings.error(path, key, what)
    return None if findings.wrong(path) else Price(**values)
