"""A session and a turn as Mermaid draws them, from audit records: who was asked and what came of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from turnout.engine import diagram
from turnout.engine.audit import AuditRecord, ProbeRecord
from turnout.machines import turn as turn_machine
from turnout.machines.stepping import Step
from turnout.machines.vocabulary import TurnState

HARMLESS: Final = re.compile(r"[^A-Za-z0-9 ,._/-]")
"""Everything else is written as a Mermaid entity, so that no name can end a line or start a statement."""

_TAKEN: Final = "stroke:#2da44e,stroke-width:3px"
_STATES: Final = frozenset(map(str, turn_machine.DEFINITION.states))
_ARROWS: Final = frozenset((arc.source, arc.dest) for arc in turn_machine.DEFINITION.arcs)


def session(records: Sequence[AuditRecord]) -> str:
    """A Mermaid sequence diagram of one session's turns, in the order of their records."""
    names = {target: f"t{place}" for place, target in enumerate(targets(records))}
    lines = ["sequenceDiagram", "    participant session"]
    lines += [f"    participant {name} as {label(target)}" for target, name in names.items()]
    for number, record in enumerate(records, 1):
        for probe, state in outcomes(record):
            asked, arrow = names[probe.target], "-->>" if probe.answered else "--x"
            lines.append(f"    session ->> {asked}: turn {number}")
            lines.append(f"    {asked} {arrow} session: {label(_said(probe, state))}")
        if record.state == TurnState.FAILED:
            lines.append(f"    Note over session: turn {number} failed")
    return "\n".join(lines) + "\n"


def turn(record: AuditRecord) -> str:
    """A Mermaid state diagram of the turn's machine with the way that one turn took.

    Its steps are numbered on the arrows, the states that it came to are marked, and a note says who was
    passed over. An arrow without words was not taken.
    """
    words: dict[tuple[str, str], list[str]] = {}
    notes = [f"{over.target} passed over, {over.why}" for over in record.passed_over]
    for number, (step, said) in enumerate(_told(record), 1):
        if (step.source, step.dest) in _ARROWS:
            words.setdefault((step.source, step.dest), []).append(label(f"{number}. {said}"))
        else:  # by a table of before, or of somebody who has written the file
            notes.append(f"{number}. {said}, {step.source} to {step.dest}, which this machine does not know")
    been = dict.fromkeys([turn_machine.DEFINITION.initial, *(step.dest for step in record.steps)])
    lines = diagram.states(turn_machine.DEFINITION, words)
    if notes:
        lines.append(f"    note right of {TurnState.PROBING} : {'<br/>'.join(map(label, notes))}")
    lines += [f"    classDef taken {_TAKEN}", f"    class {','.join(s for s in been if s in _STATES)} taken"]
    return "\n".join(lines) + "\n"


def _told(record: AuditRecord) -> Iterator[tuple[Step, str]]:
    """Each step of a turn, with what it was taken for."""
    probes = iter(record.probes)
    probe: ProbeRecord | None = None
    for step in record.steps:
        said = step.trigger
        if step.source == TurnState.PROBING:
            probe = next(probes, None)
            said += f" {probe.target}" if probe is not None else ""
        elif step.source == TurnState.CLASSIFIED and probe is not None and probe.verdict is not None:
            kind = probe.verdict.kind
            said += (f", {kind}" if kind != step.trigger else "") + _status(probe)
        yield step, said


def targets(records: Sequence[AuditRecord]) -> list[str]:
    """Every target of the records: those of the ladders, in their order."""
    ladders = [rung.target for record in records for rung in record.ladder]
    # nobody else is ever asked; but records are files, and anyone may have written them
    return list(dict.fromkeys([*ladders, *(probe.target for record in records for probe in record.probes)]))


def outcomes(record: AuditRecord) -> Iterator[tuple[ProbeRecord, str]]:
    """Each probe with the state that its outcome led to; one that was interrupted was never classified."""
    left_for = [step.dest for step in record.steps if step.source == TurnState.CLASSIFIED]
    return zip(record.probes, [*left_for, TurnState.FAILED], strict=False)


def _said(probe: ProbeRecord, state: str) -> str:
    if probe.answered:
        return state
    if probe.verdict is None:
        return "no answer before the turn ended"
    return f"{probe.verdict.kind}{_status(probe)}, {state}"


def _status(probe: ProbeRecord) -> str:
    return f" HTTP {probe.verdict.status}" if probe.verdict is not None and probe.verdict.status else ""


def label(text: str) -> str:
    """Text as Mermaid shows it, whatever it is."""
    return HARMLESS.sub(lambda found: f"#{ord(found[0])};", text)
