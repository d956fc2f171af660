"""An object of a reply by the fields that are read, whatever case and joints their names have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

# names in lower case and without underscores
MESSAGES: Final = (
    *("message", "msg", "errormessage", "errormsg", "errmsg", "statusmsg", "errordescription"),
    *("detail", "title"),
)
CODES: Final = ("code", "errorcode", "statuscode", "httpstatuscode", "errcode", "internalcode")
NUMBERS: Final = ("httpstatuscode", "statuscode", "status")
"""Beside the code, these may state an HTTP status."""
NAMES: Final = ("type", "errortype", "status", "reason", "exception", "blockreason", "action")
PARAMS: Final = ("param", "loc", "field", "parameter")
DELAY: Final = "retrydelay"
WRAPPERS: Final = tuple(
    dict.fromkeys(
        (
            *("error", "errors", "detail", "details", "innererror", "raw", "cause", "baseresp"),
            *("header", "fieldviolations", "originalerror", "upstreamerror", "providererror", "exception"),
            *("promptfeedback", *MESSAGES),
        )
    )
)
"""Fields that may hold a further diagnosis: an object, a list, a string, or JSON within a string."""
DESCRIPTION: Final = "description"
"""A message where it stands beside the field that it describes; elsewhere it may be a tool's."""
METADATA: Final = ("metadata",)
"""Of what goes along only `raw` is read, which a proxy fills: the rest may be the caller's own."""
UPSTREAMS: Final = ("provider", "upstream")
BODIES: Final = ("body", "responsebody")
"""What a proxy tells of its upstream, and there the answer, as JSON in a string. A body elsewhere
may as well be the request's.
"""
ANSWERS: Final = ("choices", "response", "candidates", "data", "delta")
"""Parts of an answer: of these the `error` is read, and why it ended, and nothing else."""
ENDS: Final = ("finishreason", "stopreason", "incompletedetails")
"""Why an answer ended."""
ANSWERED: Final = ("content", "output", "text", "result", "completion", "generation")
"""What holds an answer."""

_READ: Final = frozenset(
    {
        *MESSAGES,
        *CODES,
        *NUMBERS,
        *NAMES,
        *PARAMS,
        DELAY,
        *WRAPPERS,
        DESCRIPTION,
        *METADATA,
        *UPSTREAMS,
        *BODIES,
        *ANSWERS,
        *ENDS,
        *ANSWERED,
        "success",
    }
)
TELLING: Final = frozenset({*MESSAGES, *CODES, *NUMBERS, *NAMES, *PARAMS, DELAY, DESCRIPTION})
"""Fields of a diagnosis; an object without them is but a wrapper."""
RARE: Final = frozenset({*METADATA, *UPSTREAMS, *ANSWERS, *ENDS})
"""Fields that most objects have not."""
_LONGEST: Final = 32
_GOOD_ENDS: Final = frozenset(
    {"stop", "length", "end_turn", "tool_calls", "tool_use", "max_tokens", "completed"}
)


class Fields:
    """The fields of an object that are read."""

    __slots__ = ("_fields",)

    def __init__(self, value: Mapping[Any, Any]) -> None:
        self._fields = {
            known: (key, inner)
            for key, inner in value.items()
            if isinstance(key, str) and (known := _known(key))
        }

    def get(self, name: str) -> Any:
        """The value of a field, or None."""
        return self._fields[name][1] if name in self._fields else None

    def spelt(self, name: str) -> str:
        """A field's name as the object has it."""
        return self._fields[name][0]

    def among(self, names: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
        """Those of these fields that there are: the name as it is spelt, and the value."""
        return (self._fields[name] for name in names if name in self._fields)

    def objects(self, names: tuple[str, ...], most: int) -> Iterator[tuple[str, Fields]]:
        """The objects in these fields, or in lists there, each with its field's name as it is spelt."""
        for name, part in self.among(names):
            for holder in part[:most] if isinstance(part, list) else [part]:
                if isinstance(holder, dict):
                    yield name, Fields(holder)

    def has_any(self, names: frozenset[str]) -> bool:
        """Whether any of these fields is there."""
        return not names.isdisjoint(self._fields)

    def messages(self) -> tuple[str, ...]:
        """The fields that may hold its message."""
        return (*MESSAGES, DESCRIPTION) if self._fields.keys() & {"field", "code"} else MESSAGES

    def ended(self) -> tuple[str, str] | None:
        """The field that says why an answer ended badly, and what it says."""
        for name, why in self.among(ENDS):
            said = why.get("reason") if isinstance(why, dict) else why
            if isinstance(said, str) and said and said.lower() not in _GOOD_ENDS:
                return name, said
        return None


@lru_cache(maxsize=1024)
def _known(key: str) -> str:
    """The normal name of a field that is read, an empty string for any other."""
    name = key[:_LONGEST].lower().replace("_", "")
    return name if name in _READ else ""
