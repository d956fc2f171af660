"""The operator rules of a client or a target: `[[llm_clients.NAME.errors]]`, a table for each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from turnout.engine.classify.operator import ErrorRule, covers, mistakes
from turnout.engine.deployment.finding import Findings, Path
from turnout.engine.deployment.tables import Keys, Table, read
from turnout.engine.policy import Action

RULE: Final[Keys] = {
    "kind": str,
    "status": int,
    "code": str,
    "contains": str,
    "field": str,
    "features": tuple[str, ...],
}

_PATTERN: Final = re.compile(r"\.[*+]|\\[dswb]|^\^|\$$")
"""What means something in a regular expression, and hardly stands in a message."""


def rules_of(findings: Findings, path: Path, tables: Sequence[Table]) -> tuple[ErrorRule, ...]:
    """The rules that can be used, each named by its place. All that is wrong becomes findings.

    Args:
        path: the list's own.
    """
    read_so_far: dict[str, ErrorRule] = {}
    for index, table in enumerate(tables):
        place = f"[{index}]"
        if (rule := _rule(findings, (*path, place), table)) is None:
            continue
        if hider := next((other for other, earlier in read_so_far.items() if covers(earlier, rule)), None):
            findings.warning(
                (*path, place),
                "",
                f"never decides, since {path[-1]}{hider} holds whenever it does;"
                " put it before that one, or take it out",
            )
        read_so_far[place] = rule
    return tuple(read_so_far.values())


def _rule(findings: Findings, path: Path, table: Table) -> ErrorRule | None:
    values = read(findings, path, table, RULE)
    given = {key: values.get(key) for key in table if key in RULE}
    for key, what in mistakes(given):
        if key == "kind" and (action := given.get("kind")) in tuple(Action):
            what = f"is '{action}', an action of [routes.NAME.on]; give here what kind of error the reply is"
        findings.error(path, key, what)
    if _PATTERN.search(values.get("contains", "")):
        what = "is no pattern, but taken literally; give words of the upstream's message as they stand there"
        findings.warning(path, "contains", what)
    return None if findings.wrong(path) else ErrorRule(**values, name=".".join(path[:-1]) + path[-1])
