"""Keeps the failed replies that no rule knows, so that their reading can be corrected or reported.

Each is a line of JSON that `replies.py` reads back. It is cleaned as messages are, before
anything is written, and of many replies that say the same one is kept.
"""

from __future__ import annotations

import errno
import hashlib
import html
import json
import logging
import math
import os
import re
import stat
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from turnout.engine.classify.decoding import text_of
from turnout.engine.classify.reply import Reply
from turnout.engine.classify.verdict import UNRECOGNISED, Verdict
from turnout.engine.errors import ConfigurationError
from turnout.engine.redaction import Redactor
from turnout.engine.targets import Target

LOG: Final = logging.getLogger("turnout")

FILE: Final = "unrecognised.jsonl"
MAX_BYTES: Final = 1_048_576
BODY: Final = 65_536
"""Bytes of a body that are read."""
REMEMBERED: Final = 10_000
"""Distinct replies that are remembered; beyond them none is kept."""

HEADERS: Final = (
    "content-type",
    "retry-after",
    "retry-after-ms",
    "server",
    "x-amzn-errortype",
    "x-ms-error-code",
    "x-should-retry",
)
"""The headers that may tell what went wrong. No other is kept: they carry cookies, ids and addresses."""

_CUT: Final = 4_096
"""What a body that was cut loses besides: half a credential at its end could not be recognised."""
_ID: Final = re.compile(r"unrecognised-[0-9a-f]{16}")
_WITH_A_DIGIT: Final = re.compile(r"[\w-]*\d[\w-]*")


class Capture:
    """Keeps unrecognised replies in the file `unrecognised.jsonl` of a directory. Pass it as `capture`.

    The file has mode 0600. The directory is made with mode 0700 when it is first needed, and
    again should it vanish. A reply like one that is in the file already, or that was kept by this
    process, is not kept: one of the same provider, format, status and code, whose message
    differs in nothing but words that hold a digit. Several processes may append to one file.

    Keeping never fails a turn. What goes wrong with the file is logged once, and the next
    reply is tried again. What does not fit is logged once; nothing is kept any more until
    the file is smaller.

    Args:
        directory: where the file is; relative to the working directory.
        max_bytes: how long the file may become. Processes that write at the very same moment may each
            pass it by a line.

    Raises:
        ConfigurationError: the directory is a file or no path at all, or nothing may be kept.
    """

    def __init__(self, directory: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES) -> None:
        self.path = Path(directory) / FILE
        self._max_bytes = max_bytes
        self._full_at = math.inf
        """The file's length at which something did not fit."""
        self._warned: set[str] = set()
        if what := mistake(directory):
            raise ConfigurationError(f"capture: {os.fspath(directory)!r} {what}")
        if max_bytes < 1:
            raise ConfigurationError(f"capture: max_bytes is {max_bytes}; give 1 or more")
        self._kept = self._read_back()

    def keep(self, target: Target, reply: Reply, verdict: Verdict, redactor: Redactor) -> None:
        """Keep a reply if it was not recognised and is unlike those that are kept.

        Args:
            target: who answered.
            verdict: how the reply was read.
            redactor: knows what of the attempt must not be kept.
        """
        if verdict.evidence.rule != UNRECOGNISED:
            return
        verdict = redactor.verdict(verdict)
        line = _described(target, reply, verdict, redactor)
        if line["id"] in self._kept:
            return
        try:
            file = self._open()
            try:
                self._append(file, line, reply, redactor)
            finally:
                os.close(file)
        except OSError as error:
            self._warn("an unrecognised reply could not be kept in %s: %s", self.path, error.strerror)

    def _append(self, file: int, line: dict[str, Any], reply: Reply, redactor: Redactor) -> None:
        size = os.fstat(file).st_size
        if size < self._full_at and len(self._kept) < REMEMBERED:
            line["body"] = _body(reply, redactor)
            # what a full disk has cut off must not spoil the line that comes after it
            torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"
            written = b"\n" * torn + json.dumps(line).encode() + b"\n"
            if size + len(written) <= self._max_bytes:
                if os.write(file, written) < len(written):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                self._kept.add(line["id"])
                self._full_at = math.inf
                return
            self._full_at = size
        self._warn("%s is full: further unrecognised replies are not kept; move it away", self.path)

    def _open(self) -> int:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return _regular(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT)

    def _read_back(self) -> set[str]:
        """What the file holds already. Lines that are none of ours are passed over."""
        try:
            with open(_regular(self.path, os.O_RDONLY), "rb") as file:
                lines = file.read(self._max_bytes).split(b"\n")
        except FileNotFoundError:
            return set()
        except OSError as error:
            self._warn("%s cannot be read: %s", self.path, error.strerror)
            return set()
        return {name for name in map(_id, lines) if _ID.fullmatch(name)}

    def _warn(self, message: str, *arguments: object) -> None:
        if message not in self._warned:
            self._warned.add(message)
            LOG.warning(message, *arguments)


def _regular(path: Path, flags: int) -> int:
    """Open a file that is one: no pipe, which could hold up a turn, and no link to what is another's.

    Raises:
        OSError: it is none, or cannot be opened.
    """
    file = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "it is no regular file", os.fspath(path))
    return file


def mistake(directory: str | os.PathLike[str]) -> str:
    """Why replies cannot be kept there, whatever is done about access; empty if they can."""
    path = os.fspath(directory)
    if not path.strip() or "\0" in path:
        return "names no directory that can be used; give a path like captured"
    try:
        taken = Path(path).exists() and not Path(path).is_dir()
    except OSError:  # whether it can be used is told when it is
        taken = False
    return "is a file; give the path of a directory" if taken else ""


def can_be_made(directory: str | os.PathLike[str]) -> bool:
    """Whether the directory, or what is there of the path to it, can be written to."""
    path = Path(directory)
    nearest = next((place for place in (path, *path.parents) if os.access(place, os.F_OK)), path)
    return nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)


class _Line(msgspec.Struct):
    id: str = ""


def _id(line: bytes) -> str:
    try:
        return msgspec.json.decode(line, type=_Line).id
    except (msgspec.DecodeError, ValueError, RecursionError):
        return ""


def _described(target: Target, reply: Reply, verdict: Verdict, redactor: Redactor) -> dict[str, Any]:
    """The line without its body, which costs most.

    Args:
        verdict: cleaned.
    """
    transport = "http"
    if reply.event is not None:
        transport = "sse_event"
    elif 200 <= reply.status < 300:
        transport = "http_200_body"
    line: dict[str, Any] = {
        "id": "",
        "provider": reply.provider or urlsplit(target.base_url).hostname or "",
        "format": reply.format,
        "transport": transport,
        "status": reply.status,
    }
    shape = [*line.values(), verdict.code, _WITH_A_DIGIT.sub("0", verdict.message)]
    line["id"] = f"unrecognised-{hashlib.sha256(json.dumps(shape).encode()).hexdigest()[:16]}"
    headers = {name: redactor.clean(reply.headers[name]) for name in HEADERS if name in reply.headers}
    if "content-type" in headers:  # the line holds text: no charset but its own is true of it
        headers["content-type"] = headers["content-type"].partition(";")[0].strip()
    if headers:
        line["headers"] = headers
    if reply.event is not None:
        line["event"] = redactor.clean(reply.event)
    return line


def _body(reply: Reply, redactor: Redactor) -> str:
    text = text_of(reply.body[:BODY], reply.headers.get("content-type", ""))
    body = redactor.body(html.unescape(text) if "&" in text else text)  # a page spells a key in its own way
    return body if len(reply.body) < BODY else body[:-_CUT]
