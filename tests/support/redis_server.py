"""A real Redis for tests: on a socket of its own, with its append-only file on."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import redis

BINARY = shutil.which("redis-server") or shutil.which("valkey-server")
MISSING = "no redis-server here: THE REDIS STORE IS NOT TESTED (apt-get install redis-server)"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


class RedisServer:
    """A server that lives as long as the `with` around it. Its data outlives its death.

    Args:
        folder: where its append-only file is.
        settings: of redis.conf, with `_` for `-`.
    """

    def __init__(self, folder: Path, **settings: str) -> None:
        self._folder = folder
        self._settings = {"appendonly": "yes", "appendfsync": "everysec", "save": "", "port": "0", **settings}
        self._socket_folder = Path(tempfile.mkdtemp(prefix="redis-"))  # a socket's path has to be short
        self.socket = self._socket_folder / "s"
        self.url = f"unix://{self.socket}"
        self._process: subprocess.Popen[str] | None = None
        self._said: list[str] = []

    def __enter__(self) -> RedisServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        shutil.rmtree(self._socket_folder)

    def start(self) -> None:
        """Start it on what is in its folder, and wait until it answers."""
        assert BINARY is not None, MISSING
        settings = {**self._settings, "dir": str(self._folder), "unixsocket": str(self.socket)}
        given = [part for name, value in settings.items() for part in ("--" + name.replace("_", "-"), value)]
        self._process = subprocess.Popen([BINARY, *given], stdout=subprocess.PIPE, text=True)
        lines = self._lines(self._process)
        assert any("ready to accept connections at" in line for line in lines), "".join(self._said)
        threading.Thread(target=lambda: [*lines], daemon=True).start()

    def _lines(self, process: subprocess.Popen[str]) -> Iterator[str]:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                self._said.append(line)
                yield line

    def kill(self) -> None:
        """End it as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def ask(self, *command: Any, password: str | None = None) -> Any:
        """What it answers to one command."""
        with redis.Redis(unix_socket_path=str(self.socket), password=password) as client:
            return client.execute_command(*command)
