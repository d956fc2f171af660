"""The health of a target: a circuit breaker that all sessions share. Runs where a client sets `breaker`.

In `closed` the target is asked as ever. `failed` is a probe that was settled by an error of the
kind `unavailable` or `quota_or_billing`, and by nothing else; so many of them in a row trip the
breaker, and the target cools: in `open` every turn passes it over. Once its time is up
(`due`), the first turn that would ask it gets the one trial: `cooled` leads to `half_open`,
where all others go on passing it over. Any answer closes, whoever got it. A trial that fails
opens again, for twice as long; one that comes to neither, since the caller left or the
request was at fault, is `returned`, and the next turn that comes may have it. What a turn
that began before the trial learns late decides nothing of it (`on_trial`).

`lapsed` is a trial of which nothing was heard until its lease ran out: its process has died,
or its target hangs.

This is the only memory that `unavailable` ever has. It belongs to the target, not to a
session: no standing is touched by it.
"""

from typing import Final

from turnout.machines.stepping import Definition, Row, StepMachine, validate
from turnout.machines.vocabulary import HealthState as S

ROWS: Final[tuple[Row, ...]] = (
    {"trigger": "failed", "source": S.CLOSED, "dest": S.OPEN, "conditions": "tripped"},
    {"trigger": "failed", "source": S.CLOSED, "dest": S.CLOSED, "unless": "tripped"},
    {"trigger": "failed", "source": S.OPEN, "dest": S.OPEN},
    {"trigger": "failed", "source": S.HALF_OPEN, "dest": S.OPEN, "conditions": "on_trial"},
    {"trigger": "failed", "source": S.HALF_OPEN, "dest": S.HALF_OPEN, "unless": "on_trial"},
    {"trigger": "answered", "source": [S.CLOSED, S.OPEN, S.HALF_OPEN], "dest": S.CLOSED},
    {"trigger": "cooled", "source": S.OPEN, "dest": S.HALF_OPEN, "conditions": "due"},
    {"trigger": "cooled", "source": S.OPEN, "dest": S.OPEN, "unless": "due"},
    {"trigger": "returned", "source": S.HALF_OPEN, "dest": S.OPEN},
    {"trigger": "lapsed", "source": S.HALF_OPEN, "dest": S.OPEN, "conditions": "due"},
    {"trigger": "lapsed", "source": S.HALF_OPEN, "dest": S.HALF_OPEN, "unless": "due"},
)

DEFINITION: Final = validate(Definition("health", tuple(S), initial=S.CLOSED, final=(), rows=ROWS))
MACHINE: Final = StepMachine(DEFINITION)
DIGEST: Final = DEFINITION.digest
