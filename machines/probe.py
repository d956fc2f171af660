"""The probe: asking one target, with its own retries and its own correction.

A probe sends attempts until one is answered or none is worth sending. A refusal is first
offered to `can_correct` (something that we injected was refused: take it out and ask
again, once), then to `may_retry` (the refusal may pass, budget and deadline allow the
wait); else the probe is settled and the turn classifies what it says. The order of the
three `refused` rows is the order in which they are tried.
"""

from typing import Final

from turnout.machines.stepping import Definition, Row, StepMachine, validate
from turnout.machines.vocabulary import ProbeState as S

UNSETTLED: Final[list[str]] = [S.SENDING, S.WAITING, S.CORRECTING]

ROWS: Final[tuple[Row, ...]] = (
    {"trigger": "answered", "source": S.SENDING, "dest": S.SETTLED},
    {"trigger": "refused", "source": S.SENDING, "dest": S.CORRECTING, "conditions": "can_correct"},
    {"trigger": "refused", "source": S.SENDING, "dest": S.WAITING, "conditions": "may_retry"},
    {"trigger": "refused", "source": S.SENDING, "dest": S.SETTLED},
    {"trigger": "resend", "source": [S.WAITING, S.CORRECTING], "dest": S.SENDING},
    {"trigger": "expired", "source": UNSETTLED, "dest": S.SETTLED},
    {"trigger": "cancelled", "source": UNSETTLED, "dest": S.SETTLED},
    {"trigger": "broken", "source": UNSETTLED, "dest": S.SETTLED},
)

DEFINITION: Final = validate(Definition("probe", tuple(S), initial=S.SENDING, final=(S.SETTLED,), rows=ROWS))
MACHINE: Final = StepMachine(DEFINITION)
DIGEST: Final = DEFINITION.digest
