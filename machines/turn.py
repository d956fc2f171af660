"""The turn: one request of a session, from the first probe to served or failed.

How to read it. A turn is always in one of six states. In `probing` a target is being
asked; whatever comes of it, a success too, leads to `classified`, where the one question
is answered that everything depends on: *how long does this outcome last?*

- The conversation does not fit, or the target cannot serve this kind of request:
  `evicted`. That is a property of the target for this conversation; the session
  remembers it and does not ask again.
- The target could not answer just now: `skipped`. That says nothing about the next turn.
- Anything that another target would refuse as well, or that must not be routed around:
  `rejected`, and the caller gets the upstream's own error.

The three triggers that leave `classified` for another target are the values of
`RoutingFallbackReason`. Sending `capability` to `skipped` would be a change of one word
below. It compiles, no single-turn test sees it, and it pays one certain rejection per turn
for the rest of the session; `tests/test_mutants.py` changes that word, and every other
one in this table, and shows that the properties notice.

`advance` is guarded: `has_next` asks whether a target is left that this turn may still
probe. `expired`, `cancelled` and `broken` can come in any state but the two final ones.

Every arc is in these rows. Pictures, explorer, tests and engine read the same ones.
"""

from typing import Final

from turnout.machines.stepping import Definition, Row, StepMachine, validate
from turnout.machines.vocabulary import RoutingFallbackReason as Reason
from turnout.machines.vocabulary import TurnState as S

UNFINISHED: Final[list[str]] = [S.PROBING, S.CLASSIFIED, S.EVICTED, S.SKIPPED]

ROWS: Final[tuple[Row, ...]] = (
    {"trigger": "probed", "source": S.PROBING, "dest": S.CLASSIFIED},
    {"trigger": "answered", "source": S.CLASSIFIED, "dest": S.SERVED},
    {"trigger": Reason.CONTEXT_WINDOW, "source": S.CLASSIFIED, "dest": S.EVICTED},
    {"trigger": Reason.CAPABILITY, "source": S.CLASSIFIED, "dest": S.EVICTED},
    {"trigger": Reason.UNAVAILABLE, "source": S.CLASSIFIED, "dest": S.SKIPPED},
    {"trigger": "rejected", "source": S.CLASSIFIED, "dest": S.FAILED},
    {"trigger": "advance", "source": [S.EVICTED, S.SKIPPED], "dest": S.PROBING, "conditions": "has_next"},
    {"trigger": "advance", "source": [S.EVICTED, S.SKIPPED], "dest": S.FAILED, "unless": "has_next"},
    {"trigger": "expired", "source": UNFINISHED, "dest": S.FAILED},
    {"trigger": "cancelled", "source": UNFINISHED, "dest": S.FAILED},
    {"trigger": "broken", "source": UNFINISHED, "dest": S.FAILED},
)

DEFINITION: Final = validate(
    Definition("turn", tuple(S), initial=S.PROBING, final=(S.SERVED, S.FAILED), rows=ROWS)
)
MACHINE: Final = StepMachine(DEFINITION)
DIGEST: Final = DEFINITION.digest
