"""Where audit records and changes go, beside the turns that they are of."""

from turnout.engine.sinks.json_lines import JsonLines
from turnout.engine.sinks.logged import Logged
from turnout.engine.sinks.sqlite import SqliteRecords

__all__ = ["JsonLines", "Logged", "SqliteRecords"]
