"""Where audit records go."""

from __future__ import annotations

import os
from pathlib import Path

from turnout.engine.audit import AuditRecord, encode


class JsonLines:
    """Appends each record to a file, a line of JSON each. Pass it as `on_record`.

    The file is created with mode 0600 in a folder that exists. One write a record, so that
    several processes may append to the same file.

    Raises:
        OSError: the file cannot be opened or written.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._torn = False
        os.close(self._open())  # a path that cannot be used is told now, not turn by turn

    def __call__(self, record: AuditRecord) -> None:
        # what a full disk has cut off must not spoil the line that comes after it
        line = b"\n" * self._torn + encode(record) + b"\n"
        file = self._open()
        try:
            self._torn = True
            while line:
                line = line[os.write(file, line) :]
            self._torn = False
        finally:
            os.close(file)

    def _open(self) -> int:
        return os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
