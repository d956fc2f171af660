"""The standing: what a session remembers of one target.

One per identity and target, and the only machine that outlives a turn: its state is what
a memory keeps. Two reasons lead to `evicted`, from `eligible` and again from `evicted`
(a second cause is merged with the first). `restored` leads back when the target's *last*
eviction goes: because it served as last resort, was restored by hand, was forgotten with
its session, or expired. Removing one of two evictions changes no standing.

There is no row for `unavailable`: it never touches the session. There is no final state
either, since a session can always be continued.
"""

from typing import Final

from turnout.machines.stepping import Definition, Row, StepMachine, validate
from turnout.machines.vocabulary import RoutingFallbackReason as Reason
from turnout.machines.vocabulary import Standing as S

ROWS: Final[tuple[Row, ...]] = (
    {"trigger": Reason.CONTEXT_WINDOW, "source": [S.ELIGIBLE, S.EVICTED], "dest": S.EVICTED},
    {"trigger": Reason.CAPABILITY, "source": [S.ELIGIBLE, S.EVICTED], "dest": S.EVICTED},
    {"trigger": "restored", "source": S.EVICTED, "dest": S.ELIGIBLE},
)

DEFINITION: Final = validate(Definition("standing", tuple(S), initial=S.ELIGIBLE, final=(), rows=ROWS))
MACHINE: Final = StepMachine(DEFINITION)
DIGEST: Final = DEFINITION.digest
