"""Doubles for tests: upstreams that answer by a script, over which the real HTTP code runs.

    transport = ScriptedTransport({"small": [refusal("capability", "image")], "large": [ok("a cat")]})
    router = Router(ladder=[small, large], memory=InMemory(), transport=transport)

`turnout.engine.clock.VirtualClock` runs such a test in no time. A double is a script of
steps, which `ScriptedTransport` plays on any clock and opens no socket for, and
`ScriptedServer` over real sockets in virtual time.
"""

from turnout.engine.testing.doubles import (
    Events,
    Hang,
    Ok,
    Raises,
    Refusal,
    Reply,
    Reset,
    events,
    in_json,
    ok,
    refusal,
)
from turnout.engine.testing.steps import Break, Data, Fail, Head, Pause, Scripted, Silence, Step
from turnout.engine.testing.transport import Script, ScriptedTransport, model_of, perform

__all__ = [
    "Break",
    "Data",
    "Events",
    "Fail",
    "Hang",
    "Head",
    "Ok",
    "Pause",
    "Raises",
    "Refusal",
    "Reply",
    "Reset",
    "Script",
    "Scripted",
    "ScriptedTransport",
    "Silence",
    "Step",
    "events",
    "in_json",
    "model_of",
    "ok",
    "perform",
    "refusal",
]
