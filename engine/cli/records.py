"""The records that a command tells about: its option, and the way through its files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import click

from turnout.engine.audit import AuditRecord
from turnout.engine.printable import printable
from turnout.engine.recordings import lines_of

UNUSABLE: Final = 2
"""The exit status where a part of the records could not be used."""

records_option: Final = click.option(
    "--records",
    "paths",
    multiple=True,
    required=True,
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="A file of records, of JSON lines or of SQLite, or a folder of such; may be given several times.",
)


class Records:
    """All records of files and folders. What cannot be used is told on standard error, and left out."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._paths = paths
        self.status = 0
        """The exit status that follows from what has been read."""

    def __iter__(self) -> Iterator[AuditRecord]:
        for line in lines_of(self._paths):
            if line.wrong and not line.torn:
                self.status = UNUSABLE
                click.echo(printable(f"{line.place}: {line.wrong}; it is left out"), err=True)
            if line.record is not None:
                yield line.record
