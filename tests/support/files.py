"""Files in trouble, and other processes that are at them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def child(*argv: object, script: str) -> Iterator[subprocess.Popen[str]]:
    """Another process, which is ready when it comes out of here and has ended when it goes back."""
    with subprocess.Popen(
        [sys.executable, "-c", script, *map(str, argv)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert says(process) == "ready"
            yield process
        finally:
            process.kill()


def says(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


def nudge(process: subprocess.Popen[str]) -> None:
    assert process.stdin
    process.stdin.write("\n")
    process.stdin.flush()


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """The folder and what is in it may be read and not written, by a user who is not root."""
    modes = {path: path.stat().st_mode for path in (*folder.iterdir(), folder)}
    for path in modes:
        path.chmod(0o555 if path.is_dir() else 0o444)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        for path, mode in modes.items():
            path.chmod(mode)


def asides(file: Path) -> list[Path]:
    """The files that were set aside, without their logs."""
    found = file.parent.glob(f"{file.name}.corrupt-*")
    return sorted(path for path in found if not path.name.endswith(("-wal", "-shm")))


def content(file: str | Path) -> bytes:
    return Path(file).read_bytes()
