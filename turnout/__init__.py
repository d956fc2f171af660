"""Turnout routes each turn of an LLM session over a ladder of targets.

What cannot serve the session is evicted and remembered; what cannot answer just now is
skipped for the turn; and every turn leaves a record that says why.
"""

from turnout.engine.audit import AuditRecord
from turnout.engine.capture import Capture
from turnout.engine.classify.operator import ErrorRule
from turnout.engine.classify.verdict import Evidence, Feature, Verdict
from turnout.engine.context import Eviction, Identity, SessionContext
from turnout.engine.errors import (
    ClientError,
    ConfigurationError,
    DeadlineExceeded,
    InjectionRefused,
    InvalidBody,
    MemoryRefusal,
    MemoryTrouble,
    RequestRefused,
    RouterMisused,
    SinkTrouble,
    StreamInterrupted,
    TurnBroken,
    TurnFailed,
    UnknownPin,
    UnknownRoute,
    UpstreamError,
)
from turnout.engine.habits import Habits
from turnout.engine.health import Breaker, Health
from turnout.engine.memory.inmemory import InMemory
from turnout.engine.memory.keeper import MemoryHealth
from turnout.engine.memory.protocol import Change, Held, Memory, Page, Swept
from turnout.engine.memory.sqlite import SqliteMemory
from turnout.engine.policy import Action, Policy
from turnout.engine.preview import Preview
from turnout.engine.pricing import Price
from turnout.engine.route import Route
from turnout.engine.router import Reply, Router
from turnout.engine.selection import Options
from turnout.engine.sinks import JsonLines, Logged, SqliteRecords
from turnout.engine.sinks.beside import SinkHealth
from turnout.engine.sse import StreamEvent
from turnout.engine.stream import Stream
from turnout.engine.targets import Target
from turnout.engine.turn import Turn
from turnout.machines.vocabulary import ErrorKind, RoutingFallbackReason, TurnoutError

__all__ = [
    "Action",
    "AuditRecord",
    "Breaker",
    "Capture",
    "Change",
    "ClientError",
    "ConfigurationError",
    "DeadlineExceeded",
    "ErrorKind",
    "ErrorRule",
    "Eviction",
    "Evidence",
    "Feature",
    "Habits",
    "Health",
    "Held",
    "Identity",
    "InMemory",
    "InjectionRefused",
    "InvalidBody",
    "JsonLines",
    "Logged",
    "Memory",
    "MemoryHealth",
    "MemoryRefusal",
    "MemoryTrouble",
    "Options",
    "Page",
    "Policy",
    "Preview",
    "Price",
    "Reply",
    "RequestRefused",
    "Route",
    "Router",
    "RouterMisused",
    "RoutingFallbackReason",
    "SessionContext",
    "SinkHealth",
    "SinkTrouble",
    "SqliteMemory",
    "SqliteRecords",
    "Stream",
    "StreamEvent",
    "StreamInterrupted",
    "Swept",
    "Target",
    "Turn",
    "TurnBroken",
    "TurnFailed",
    "TurnoutError",
    "UnknownPin",
    "UnknownRoute",
    "UpstreamError",
    "Verdict",
]
