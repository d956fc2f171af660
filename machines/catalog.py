"""Every machine by name: diagrams, tests, records and documents list them from here."""

from typing import Final

from turnout.machines import probe, standing, turn
from turnout.machines.stepping import StepMachine

MACHINES: Final[dict[str, StepMachine]] = {
    machine.definition.name: machine for machine in (turn.MACHINE, standing.MACHINE, probe.MACHINE)
}

DIGESTS: Final[dict[str, str]] = {name: machine.definition.digest for name, machine in MACHINES.items()}
