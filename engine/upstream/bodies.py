"""A reply's body as it comes: unpacked where it is packed, never more of it than asked for."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import httpx
import msgspec

from turnout.engine.attempts import Progress
from turnout.machines.vocabulary import TurnoutError

PIECE: Final = 65_536
"""Bytes that are unpacked at once: what a small body may swell to is never in memory as a whole."""

BARREN: Final = 1_048_576
"""Packed bytes that may bring nothing, one behind the other."""

_GZIP_OR_ZLIB: Final = 32 + zlib.MAX_WBITS
_RAW_DEFLATE: Final = -zlib.MAX_WBITS
_A_NAME: Final = re.compile(r"[a-z]{1,10}")


class NotPackedAsSaid(TurnoutError):
    """A body is not packed in the way that its headers say, or in one that was not asked for."""


class Body:
    """The body of one response, a piece at a time.

    Args:
        stream: it, as a transport gives it.
        encoding: its `content-encoding`.
        progress: told of every byte as it came.
    """

    def __init__(self, stream: httpx.AsyncByteStream, encoding: str, progress: Progress) -> None:
        self._stream = stream
        self._chunks: AsyncIterator[bytes] = stream.__aiter__()
        self._progress = progress
        self._unpacker = _unpacker(encoding)
        self._pieces: Iterator[bytes] = iter(())
        self._barren = 0
        self._seen: bytes | None = None
        self.ended = False
        """Whether all of it has come."""

    async def next(self) -> bytes | None:
        """The next piece; None at the end.

        Raises:
            NotPackedAsSaid: it cannot be unpacked.
        """
        if self._seen is not None:
            seen, self._seen = self._seen, None
            return seen
        while True:
            if self._unpacker is not None and (piece := next(self._pieces, None)) is not None:
                self._barren = 0
                return piece
            try:
                chunk = await anext(self._chunks)
            except StopAsyncIteration:
                self.ended = True
                return None
            self._progress.bytes += len(chunk)
            if self._unpacker is None:
                return chunk
            self._pieces = self._unpacker.pieces(chunk)
            self._barren += len(chunk)
            if self._barren > BARREN:
                raise NotPackedAsSaid(f"{BARREN} bytes of it hold nothing")

    async def peek(self) -> bytes:
        """Its first piece, which `next` gives once more; empty if there is none.

        Raises:
            NotPackedAsSaid: it cannot be unpacked.
        """
        self._seen = await self.next()
        return self._seen or b""

    async def read(self, most: int) -> tuple[bytes, bool]:
        """At most that many bytes, and whether that is all of it.

        Raises:
            NotPackedAsSaid: it cannot be unpacked.
        """
        pieces: list[bytes] = []
        length = 0
        while (piece := await self.next()) is not None:
            pieces.append(piece)
            length += len(piece)
            if length > most:
                return b"".join(pieces)[:most], False
        return b"".join(pieces), True

    async def close(self) -> None:
        """Let go of the connection: kept if all of the body has come, closed at once if not."""
        try:
            if not self.ended and (close := getattr(self._chunks, "aclose", None)) is not None:
                await close()
        finally:
            await self._stream.aclose()


class _Unpacker:
    """Unpacks gzip, zlib and bare deflate, which some servers mean by `deflate`."""

    def __init__(self) -> None:
        self._unpacking = zlib.decompressobj(_GZIP_OR_ZLIB)
        self._begun = False

    def pieces(self, packed: bytes) -> Iterator[bytes]:
        while packed:
            try:
                piece = self._unpacking.decompress(packed, PIECE)
            except zlib.error as error:
                if self._begun:
                    raise NotPackedAsSaid(str(error)) from error
                self._unpacking, self._begun = zlib.decompressobj(_RAW_DEFLATE), True
                continue
            self._begun = True
            packed = self._unpacking.unconsumed_tail
            if self._unpacking.eof and self._unpacking.unused_data:
                packed = self._unpacking.unused_data  # another member follows
                self._unpacking = zlib.decompressobj(_GZIP_OR_ZLIB)
            if piece:
                yield piece


def _unpacker(encoding: str) -> _Unpacker | None:
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return None
    if encoding in ("gzip", "x-gzip", "deflate"):
        return _Unpacker()
    named = encoding if _A_NAME.fullmatch(encoding) else "a way"
    raise NotPackedAsSaid(f"it is packed in {named}, which was not asked for")


def decoded_json(body: bytes | str) -> Any:
    """A body's JSON, also with what some servers put into it against the standard: NaN, a BOM; else None."""
    for decode in (msgspec.json.decode, json.loads):
        try:
            return decode(body)
        except (msgspec.DecodeError, ValueError, RecursionError):
            continue
    return None
