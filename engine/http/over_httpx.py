"""httpx's own pool, with what httpcore leaves undone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import httpx

Tell = Callable[[str, Mapping[str, Any]], Awaitable[None]]

CONNECTED: Final = "connection.connect_tcp.complete"
SENDING: Final = "http11.send_request_headers.started"


class PoolTransport(httpx.AsyncHTTPTransport):
    """Carries requests over httpx's pool, and tells of one through a proxy as if there were none.

    httpcore tells of the `CONNECT` that opens a tunnel as of the request itself, which would seem to be sent
    and answered before it is; and it leaves the socket open of whoever goes within a TLS handshake.
    """

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        asking = _Asking(request.extensions.get("trace"))
        request.extensions = {**request.extensions, "trace": asking.told}
        try:
            return await super().handle_async_request(request)
        except BaseException:
            await asking.cut()
            raise


class _Asking:
    """One request until the head of its reply is there."""

    def __init__(self, tell: Tell | None) -> None:
        self._tell = tell
        self._tunnelling = False
        self._opened: Any = None
        """The connection that was made for it, as httpcore's backend has it."""

    async def told(self, event: str, info: Mapping[str, Any]) -> None:
        if event.startswith("socks.connect_tcp."):
            event = event.replace("socks", "connection", 1)
        if event == CONNECTED:
            self._opened = info["return_value"]
        elif event == SENDING:
            self._tunnelling = info["request"].method == b"CONNECT"
        if self._tell is not None and not self._tunnelling:
            await self._tell(event, info)

    async def cut(self) -> None:
        """Close the connection, whatever httpcore has done of it."""
        if self._opened is not None:
            await self._opened.aclose()
