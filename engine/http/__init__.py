"""What carries a request: a transport of httpx's kind, by library, proxy and trusted certificates.

- `over_aiohttp`: a transport over aiohttp, where it is installed
- `over_httpx`: httpx's own pool, with what httpcore leaves undone
- `proxies`: which proxy the environment names for a URL
"""

from __future__ import annotations

import ssl
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final, Literal

import httpx

from turnout.engine.errors import ConfigurationError
from turnout.engine.http import proxies
from turnout.engine.http.over_httpx import PoolTransport

if TYPE_CHECKING:
    from turnout.engine.http.over_aiohttp import AiohttpTransport

AIOHTTP: Final = ((3, 12), (4, 0))
"""From which version of aiohttp on, and before which, ours can stand on it."""


Library = Literal["aiohttp", "httpx"]


class Transports:
    """Chooses what carries each request, and keeps it. Knows the proxies of the environment at its making.

    A proxied URL is always carried by httpx's own pool.

    Args:
        library: what carries the rest; None for aiohttp where it is installed, else httpx's own pool.
        proxied: whether the proxies of the environment are used.

    Raises:
        ConfigurationError: aiohttp is asked for and not there, the environment names a proxy that cannot
            be used, or the certificates that it names cannot be read.
    """

    def __init__(self, library: Library | None = None, *, proxied: bool = True) -> None:
        self._over_aiohttp = None if library == "httpx" else _over_aiohttp(needed=library == "aiohttp")
        self._rules = proxies.rules() if proxied else ()
        self._proxies: dict[tuple[str, str, int | None], httpx.Proxy | None] = {}
        self._trusted: dict[str | None, ssl.SSLContext] = {None: _default_trust()}
        self._made: dict[tuple[str | None, httpx.Proxy | None, bool], httpx.AsyncBaseTransport] = {}

    def of(self, url: httpx.URL, *, ca_file: str | None, fresh: bool) -> httpx.AsyncBaseTransport:
        """What carries a request to that URL.

        Args:
            url: where it goes.
            ca_file: a PEM file whose certificates alone are trusted; None for the usual ones.
            fresh: whether it goes over a connection of its own, which is not kept.

        Raises:
            ConfigurationError: the file cannot be read or holds no certificate, or the proxy needs a
                package that is missing.
        """
        key = (ca_file, self._proxy(url) if self._rules else None, fresh)
        transport = self._made.get(key)
        if transport is None:
            transport = self._made[key] = self._make(*key)
        return transport

    @property
    def secrets(self) -> tuple[str, ...]:
        """Credentials of the proxies, which what comes back over them may tell."""
        known = (rule.proxy.auth for rule in self._rules if rule.proxy is not None and rule.proxy.auth)
        return tuple(part for user, password in known for part in (password, f"{user}:{password}"))

    async def aclose(self) -> None:
        """Close every connection."""
        async with AsyncExitStack() as closing:
            for transport in self._made.values():
                closing.push_async_callback(transport.aclose)

    def _proxy(self, url: httpx.URL) -> httpx.Proxy | None:
        origin = (url.scheme, url.host, url.port)
        if origin not in self._proxies:
            self._proxies[origin] = next((rule.proxy for rule in self._rules if rule.meets(url)), None)
        return self._proxies[origin]

    def _make(self, ca_file: str | None, proxy: httpx.Proxy | None, fresh: bool) -> httpx.AsyncBaseTransport:
        if ca_file is not None and ca_file not in self._trusted:
            self._trusted[ca_file] = _trust(ca_file)
        trusted = self._trusted[ca_file]
        if proxy is None and self._over_aiohttp is not None:
            return self._over_aiohttp(trusted, keep=not fresh)
        # no cap on connections: how many calls run at once is the caller's to bound
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0 if fresh else None)
        try:
            return PoolTransport(verify=trusted, limits=limits, proxy=proxy)
        except ImportError:
            raise ConfigurationError(
                "the environment names a SOCKS proxy, which needs a package more: pip install 'httpx[socks]'"
            ) from None


def is_usable(version: str) -> bool:
    """Whether ours can stand on this version of aiohttp."""
    first, last = AIOHTTP
    return first <= tuple(int(part) for part in version.split(".")[:2]) < last


def _over_aiohttp(*, needed: bool) -> type[AiohttpTransport] | None:
    try:
        import aiohttp

        from turnout.engine.http.over_aiohttp import AiohttpTransport
    except ImportError:
        found = "is not installed"
    else:
        if is_usable(aiohttp.__version__):
            return AiohttpTransport
        found = f"is there as {aiohttp.__version__}, which is not from 3.12 up to 4"
    if needed:
        raise ConfigurationError(
            f"requests are to be carried by aiohttp, which {found}: pip install 'turnout[aiohttp]'"
        )
    return None


def _default_trust() -> ssl.SSLContext:
    try:
        context = httpx.create_ssl_context()
    except OSError as error:
        raise ConfigurationError(
            f"the certificates that SSL_CERT_FILE or SSL_CERT_DIR names cannot be read: {error}"
        ) from None
    return _for_http(context)


def _trust(ca_file: str) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise ConfigurationError(f"ca_file {ca_file!r} cannot be read as PEM certificates: {error}") from None
    if not context.cert_store_stats()["x509"]:
        raise ConfigurationError(f"ca_file {ca_file!r} holds no certificate")
    return _for_http(context)


def _for_http(context: ssl.SSLContext) -> ssl.SSLContext:
    context.set_alpn_protocols(["http/1.1"])
    return context
