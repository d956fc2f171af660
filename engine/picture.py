"""A session as a picture: who was asked in each turn and what came of it, from its audit records."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from turnout.engine.audit import AuditRecord, ProbeRecord
from turnout.machines.vocabulary import TurnState

HARMLESS: Final = re.compile(r"[^A-Za-z0-9 ,._/-]")
"""Everything else is written as a Mermaid entity, so that no name can end a line or start a statement."""


def session(records: Sequence[AuditRecord], numbers: Sequence[int] = ()) -> str:
    """A Mermaid sequence diagram of one session's turns, in the order of their records.

    Args:
        numbers: the turns' own, where they are not all of the session's.
    """
    rungs = dict.fromkeys(rung.target for record in records for rung in record.ladder)
    names = {target: f"t{place}" for place, target in enumerate(rungs)}
    lines = ["sequenceDiagram", "    participant session"]
    lines += [f"    participant {name} as {label(target)}" for target, name in names.items()]
    for number, record in zip(numbers or range(1, len(records) + 1), records, strict=True):
        for probe, state in _outcomes(record):
            asked, arrow = names[probe.target], "-->>" if probe.answered else "--x"
            lines.append(f"    session ->> {asked}: turn {number}")
            lines.append(f"    {asked} {arrow} session: {label(_said(probe, state))}")
    return "\n".join(lines) + "\n"


def _outcomes(record: AuditRecord) -> Iterator[tuple[ProbeRecord, str]]:
    """Each probe with the state that its outcome led to; one that was interrupted was never classified."""
    left_for = [step.dest for step in record.steps if step.source == TurnState.CLASSIFIED]
    return zip(record.probes, [*left_for, TurnState.FAILED], strict=False)


def _said(probe: ProbeRecord, state: str) -> str:
    if probe.answered:
        return state
    if probe.verdict is None:
        return "no answer before the turn ended"
    status = f" HTTP {probe.verdict.status}" if probe.verdict.status else ""
    return f"{probe.verdict.kind}{status}, {state}"


def label(text: str) -> str:
    """Text as Mermaid shows it, whatever it is."""
    return HARMLESS.sub(lambda found: f"#{ord(found[0])};", text)
