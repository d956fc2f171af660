"""Scenario files: what one describes, which keys it may have, and how it is read.

`load` reads a file; `simulation.py` plays it.
"""

from turnout.engine.scenario.model import PlannedTurn, Scenario
from turnout.engine.scenario.reading import load, read_document
from turnout.engine.scenario.shared import address

__all__ = ["PlannedTurn", "Scenario", "address", "load", "read_document"]
