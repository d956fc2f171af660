"""Every machine by name: diagrams, tests, records and documents list them from here."""

from typing import Final

from turnout.machines import health, probe, standing, turn
from turnout.machines.stepping import StepMachine

MACHINES: Final[dict[str, StepMachine]] = {
    machine.definition.name: machine
    for machine in (turn.MACHINE, standing.MACHINE, probe.MACHINE, health.MACHINE)
}

DIGESTS: Final[dict[str, str]] = {name: machine.definition.digest for name, machine in MACHINES.items()}
EVERY_TURN: Final[dict[str, str]] = {name: DIGESTS[name] for name in ("turn", "standing", "probe")}
"""What every turn runs on. Health is asked only where a client sets a breaker."""
