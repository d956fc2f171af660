"""Records as lines of JSON, in a file that begins anew when it is long or old."""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

from turnout.engine.audit import AuditRecord, encode
from turnout.engine.errors import ConfigurationError
from turnout.engine.memory.protocol import Change

_STAMP: Final = "%Y%m%dT%H%M%SZ"


class JsonLines:
    """Appends each record, or change, to a file, a line of JSON each.

    Pass it as one of a router's `sinks`, or as `on_record`. The file is created with mode 0600 in a folder
    that exists. One write a record, so that several processes may append to the same file. What is long or
    old enough is renamed, `records.jsonl` to `records.jsonl.20261201T101500Z`, and a new file begins. When it
    was begun its first line tells, to any process.

    Args:
        max_bytes: how long a file becomes; without it, it grows.
        max_age_secs: how old it becomes, in seconds since it was begun.
        keep: how many of the renamed files are left; all, where none is given.
        fsync: `always`, so that a line survives a loss of power; that takes milliseconds, so it is for a
            sink beside the turns.

    Raises:
        ConfigurationError: a bound that is none.
        OSError: the file cannot be opened or written.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        max_bytes: int | None = None,
        max_age_secs: float | None = None,
        keep: int | None = None,
        fsync: Literal["never", "always"] = "never",
    ) -> None:
        for name, value in (("max_bytes", max_bytes), ("max_age_secs", max_age_secs), ("keep", keep)):
            if value is not None and not value > 0:
                raise ConfigurationError(f"JsonLines: {name} is {value}; give a number above 0, or none")
        if fsync not in ("never", "always"):
            raise ConfigurationError(f"JsonLines: fsync is {fsync!r}; give never or always")
        self.path = Path(path)
        self._max_bytes = max_bytes
        self._max_age = max_age_secs
        self._keep = keep
        self._fsync = fsync == "always"
        self._torn = False
        os.close(self._open())  # a path that cannot be used is told now, not turn by turn

    def __call__(self, what: AuditRecord | Change) -> None:
        encoded = encode(what)
        file = self._open()
        try:
            if self._is_full(file, len(encoded) + 1):
                os.close(file)
                self._begin_anew()
                file = self._open()
            # what a full disk has cut off must not spoil the line that comes after it
            line = b"\n" * self._torn + encoded + b"\n"
            self._torn = True
            while line:
                line = line[os.write(file, line) :]
            self._torn = False
            if self._fsync:
                os.fsync(file)
        finally:
            os.close(file)

    def _open(self) -> int:
        return os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)

    def _is_full(self, file: int, more: int) -> bool:
        """Whether the file is to begin anew before so many bytes are added."""
        size = os.fstat(file).st_size if self._max_bytes or self._max_age else 0
        if not size:
            return False
        if self._max_bytes and size + more > self._max_bytes:
            return True
        return bool(self._max_age) and time.time() - _begun(file) >= (self._max_age or 0)

    def _begin_anew(self) -> None:
        self._torn = False
        name = f"{self.path.name}.{time.strftime(_STAMP, time.gmtime())}"
        renamed = self._renamed()
        if renamed and (last := renamed[-1].name) >= name:  # of the same second, or the clock went back
            stamp, _, number = last.partition("Z-")
            name = f"{stamp.removesuffix('Z')}Z-{int(number or 0) + 1:06}"
        with suppress(FileNotFoundError):  # another process has renamed it already
            self.path.rename(self.path.with_name(name))
        if self._keep:
            for old in self._renamed()[: -self._keep]:
                with suppress(FileNotFoundError):
                    old.unlink()

    def _renamed(self) -> list[Path]:
        """The files that had the name before, oldest first."""
        mine = re.compile(re.escape(self.path.name) + r"\.\d{8}T\d{6}Z(-\d+)?")
        return sorted(file for file in self.path.parent.iterdir() if mine.fullmatch(file.name))


def _begun(file: int) -> float:
    """When the first line of a file was written, by its own time; now, where it tells none."""
    first = os.pread(file, 65_536, 0).partition(b"\n")[0]
    for key in (b'"started":', b'"at":'):
        _, found, rest = first.partition(key)
        if found:
            with suppress(ValueError):
                return float(rest.partition(b",")[0].rstrip(b"}"))
    return time.time()
