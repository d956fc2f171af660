"""The answers of a scripted upstream: the keys of each form, and what plays it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from turnout.engine.deployment.tables import Keys
from turnout.engine.testing import Hang, Raises, Reply, Reset, Scripted, events, in_json, ok, refusal

AFTER: Final[Keys] = {"after": float}
ANSWERS: Final[Mapping[str, Keys]] = {
    "ok": {"ok": str, "usage": Mapping[str, object], **AFTER},
    "status": {"status": int, "json": object, "body": str, "headers": Mapping[str, str], **AFTER},
    "kind": {"kind": str, "feature": str, **AFTER},
    "reset": {"reset": bool, **AFTER},
    "hang": {"hang": bool},
    "events": {"events": object, "end": str, "every": float, **AFTER},
    "raises": {"raises": str, **AFTER},
}
"""The forms of an answer, by the key that tells each, and the keys that it may have."""

COMMENT: Final[Keys] = {"comment": str}
NAMED_EVENT: Final[Keys] = {"event": str, "data": object}
"""What an event may be that is no JSON object of the wire format, told by the first key."""


def _status(values: dict[str, Any]) -> Scripted:
    given, body = values.pop("json", None), values.pop("body", "")
    return Reply(body=body.encode(), **values) if given is None else in_json(body=given, **values)


SCRIPTED: Final[Mapping[str, Callable[[dict[str, Any]], Scripted]]] = {
    "ok": lambda values: ok(values.pop("ok"), **values),
    "status": _status,
    "kind": lambda values: refusal(**values),
    "reset": lambda values: Reset(values.get("after", 0.0)),
    "hang": lambda _: Hang(),
    "events": lambda values: events(values.pop("events"), **values),
    "raises": lambda values: Raises(values["raises"], values.get("after", 0.0)),
}
