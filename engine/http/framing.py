"""Whether a server has sent more than the reply that it was asked for.

HTTP libraries go on with what they have read and not used, and would take it for the reply to the
next request on that connection, whosever that is. So a connection is kept only if nothing has come
behind a reply.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_END: Final = re.compile(rb"\n\r?\n")
_LONGEST: Final = 131_072
"""Bytes of a head that are followed: no library here reads a longer one."""
_UNKNOWN: Final = -(2**62)

_LAST_CHUNK: Final = b"0\r\n\r\n"


class Framing:
    """Follows one reply as its bytes come from a connection."""

    __slots__ = ("_behind", "_head", "_tail", "reads")

    def __init__(self) -> None:
        self.over()

    def over(self) -> None:
        """The reply is over: what comes from now on is the next one."""
        self.reads = 0
        """How often something has come of it."""
        self._head: bytes | None = b""
        """What has come of its head; None once that is whole."""
        self._behind = 0
        """Bytes that came behind the head."""
        self._tail = b""

    def take(self, data: bytes) -> None:
        """More has come."""
        self.reads += 1
        while self._head is not None:
            so_far = self._head + data
            end = _END.search(so_far, max(0, len(self._head) - 2))
            if end is None:
                self._head = so_far if len(so_far) <= _LONGEST else None
                self._behind = 0 if self._head is not None else _UNKNOWN
                return
            head, data = so_far[: end.start()], so_far[end.end() :]
            interim = head[8:10] == b" 1" and head[8:12] != b" 101"
            self._head = b"" if interim else None
        self._behind += len(data)
        self._tail = data[-5:] if len(data) >= len(_LAST_CHUNK) else (self._tail + data)[-5:]

    def is_clean(self, headers: Mapping[str, str], *, bodiless: bool) -> bool:
        """Whether nothing has come behind the reply, which was read to its end.

        A trailer counts as something: that costs a connection, and no more.
        """
        if self._head is not None or bodiless:
            return self._head is None and not self._behind
        if "transfer-encoding" in headers:
            return self._tail == _LAST_CHUNK
        return str(self._behind) == headers.get("content-length", "0").strip()
