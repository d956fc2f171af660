"""A line in the log for each turn."""

from __future__ import annotations

import logging
from typing import Final

from turnout.engine.audit import AuditRecord
from turnout.engine.memory.protocol import Change
from turnout.engine.printable import printable
from turnout.engine.telling import tell, who
from turnout.machines.vocabulary import ErrorKind

MISCONFIGURED: Final = frozenset({ErrorKind.AUTH, ErrorKind.MODEL_NOT_FOUND, ErrorKind.PARAMETER_REJECT})
"""What an upstream says where a deployment is wrong, mostly."""


class Logged:
    """Logs each turn in one line: a WARNING where it fell back, failed or was refused for how it is
    configured, else INFO. Changes of the memory are INFO.

    Args:
        logger: where to, by default that of the name `turnout.turns`.
    """

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self._logger = logger if logger is not None else logging.getLogger("turnout.turns")

    def __call__(self, what: AuditRecord | Change) -> None:
        if isinstance(what, Change):
            session, target = printable(what.identity.session), what.eviction.target
            self._logger.info("session %s: %s is no longer evicted: %s", session, target, what.why)
            return
        level = logging.WARNING if _is_notable(what) else logging.INFO
        if self._logger.isEnabledFor(level):
            self._logger.log(level, "turn %s of %s: %s", printable(what.turn), who(what), tell(what))


def _is_notable(record: AuditRecord) -> bool:
    kinds = {attempt.kind for probe in record.probes for attempt in probe.attempts}
    return (
        record.state == "failed"
        or any(probe.reason is not None for probe in record.probes)
        or not MISCONFIGURED.isdisjoint(kinds)
    )
