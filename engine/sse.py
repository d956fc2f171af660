"""Server-sent events, read as they come: any split of the bytes gives the same events.

The rules are those of the HTML standard (section 9.2.6, "Interpreting an event stream"):
lines end in CR, LF or both, a comment begins with a colon, several lines of data are one
text, a byte order mark before the first line does not count. What the standard drops, a
last event without an empty line after it, is an event here: servers that close early
leave it so, and it may hold the finish marker.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from msgspec import Struct

from turnout.machines.vocabulary import TurnoutError

LONGEST: Final = 8_388_608
"""Bytes of one event."""

_BOM: Final = b"\xef\xbb\xbf"
_LF: Final = 0x0A


class StreamEvent(Struct, frozen=True):
    """One event of a stream."""

    raw: bytes
    """Its bytes as the upstream sent them, with the empty line that ends it: to pass on unchanged."""
    name: str = ""
    """What its `event:` line says."""
    data: str = ""
    """The text of its `data:` lines; empty for a comment, which keeps a connection alive."""
    body: Any = None
    """The data decoded, where it is JSON."""
    content: bool = False
    """Whether it holds output of the model: text, reasoning, or a tool call."""


class Block(NamedTuple):
    """One event as its lines tell it."""

    raw: bytes
    name: str
    data: str


class EventTooLong(TurnoutError):
    """An event of a stream is longer than `LONGEST`."""


class SseReader:
    """Reads one stream. Holds no more of it than the event that has not ended yet."""

    __slots__ = ("_at", "_begun", "_buffer", "_data", "_lf", "_lone_cr", "_name", "_scanned", "_start")

    def __init__(self) -> None:
        self._buffer = bytearray()
        """What came, from the first byte of the event that had not ended."""
        self._start = 0
        """Where the event begins that has not ended."""
        self._lf: int | None = None
        """Where the next LF stands, -1 for nowhere; None if that is not known."""
        self._at = 0
        """Where its next line begins."""
        self._scanned = 0
        """Up to where no line ends."""
        self._begun = False
        self._lone_cr = False
        """Whether the line before ended in a CR alone."""
        self._name = b""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[Block]:
        """The events that end within this chunk.

        Raises:
            EventTooLong: one that has not ended is longer than `LONGEST`.
        """
        self._buffer += chunk
        self._lf = None
        blocks: list[Block] = []
        if not self._begun and not self._begin():
            return blocks
        while (line := self._next_line()) is not None:
            if line:
                self._field(line)
            else:
                blocks.append(self._block(self._at))
        del self._buffer[: self._start]  # all at once: to move the rest for each event would take for ever
        self._at, self._scanned, self._start = self._at - self._start, self._scanned - self._start, 0
        if len(self._buffer) > LONGEST:
            raise EventTooLong(f"an event of the stream is longer than {LONGEST} bytes")
        return blocks

    def end(self) -> list[Block]:
        """What is left when the stream has ended: an event without an empty line after it."""
        if rest := bytes(self._buffer[self._at :]).rstrip(b"\r"):
            self._field(rest)
        return [self._block(len(self._buffer))] if self._buffer else []

    def _begin(self) -> bool:
        """Pass over a byte order mark. False: what came may be the beginning of one."""
        if len(self._buffer) < len(_BOM) and _BOM.startswith(self._buffer):
            return False
        if self._buffer.startswith(_BOM):
            self._at = self._scanned = len(_BOM)
        self._begun = True
        return True

    def _next_line(self) -> bytes | None:
        """The next line without its end, which is passed over; None if it has not ended yet."""
        buffer = self._buffer
        if self._lone_cr and self._at == self._start and buffer[self._at : self._at + 1] == b"\n":
            self._at = self._scanned = self._at + 1  # the other half of the line end before
        first, length = self._at, len(buffer)
        if self._lf is None or 0 <= self._lf < self._scanned:
            self._lf = buffer.find(b"\n", self._scanned)
        lf = self._lf
        cr = buffer.find(b"\r", self._scanned, lf if lf >= 0 else length)
        if cr < 0:
            if lf < 0:
                self._scanned = length
                return None
            end, after, lone = lf, lf + 1, False
        elif cr == first > self._start and self._lone_cr:
            end, after, lone = cr, cr + 1, True  # this stream ends its lines in CR: no LF is to be waited for
        elif cr + 1 == length:
            self._scanned = cr  # an LF may follow
            return None
        else:
            lone = buffer[cr + 1] != _LF
            end, after = cr, cr + (1 if lone else 2)
        self._at = self._scanned = after
        self._lone_cr = lone
        return bytes(buffer[first:end])

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
        elif name == b"event":
            self._name = value.removeprefix(b" ")

    def _block(self, end: int) -> Block:
        """The event that ends here, and a new beginning."""
        raw = bytes(self._buffer[self._start : end])
        data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        block = Block(raw, self._name.decode("utf-8", "replace"), data.decode("utf-8", "replace"))
        self._at = self._scanned = self._start = end
        self._name, self._data = b"", []
        return block
