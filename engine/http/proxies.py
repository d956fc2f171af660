"""Which proxy a URL is asked through: what the environment says, read as httpx's client reads it.

`HTTP_PROXY`, `HTTPS_PROXY` and `ALL_PROXY` name proxies; `NO_PROXY` names hosts that are asked directly.
The most specific that meets a URL decides: one with a port, then the longer host, then the longer scheme.
"""

from __future__ import annotations

import ipaddress
from typing import NamedTuple
from urllib.request import getproxies

import httpx

from turnout.engine.errors import ConfigurationError


class Rule(NamedTuple):
    """What URLs it is about, and their proxy: None to ask them directly.

    Attributes:
        scheme: "" for every scheme.
        host: "" for every host; `*.a.b` for what is below a.b, `*a.b` for a.b as well.
        port: None for every port.
    """

    scheme: str
    host: str
    port: int | None
    proxy: httpx.Proxy | None

    def meets(self, url: httpx.URL) -> bool:
        return (
            self.scheme in ("", url.scheme) and self.port in (None, url.port) and _covers(self.host, url.host)
        )

    @property
    def specific(self) -> tuple[bool, int, int]:
        return self.port is not None, len(self.host), len(self.scheme)


def _covers(pattern: str, host: str) -> bool:
    if pattern in ("", "*"):
        return True
    if pattern.startswith("*."):
        return host.endswith(pattern[1:]) and host != pattern[1:]
    if pattern.startswith("*"):
        return host == pattern[1:] or host.endswith(f".{pattern[1:]}")
    return host == pattern


def rules() -> tuple[Rule, ...]:
    """The environment's rules, the most specific first.

    Raises:
        ConfigurationError: a variable holds what is no proxy, or no host.
    """
    said = getproxies()
    exempt = [name for part in said.get("no", "").split(",") if (name := part.strip())]
    if "*" in exempt:
        return ()
    proxies: dict[str, httpx.Proxy] = {}
    patterns: dict[str, httpx.Proxy | None] = {}
    for scheme in ("http", "https", "all"):
        if named := said.get(scheme):
            patterns[f"{scheme}://"] = proxies.setdefault(named, _proxy(scheme, named))
    patterns |= dict.fromkeys(map(_pattern, exempt))
    found = [_rule(pattern, proxy) for pattern, proxy in patterns.items()]
    return tuple(sorted(found, key=lambda rule: rule.specific, reverse=True))


def _proxy(scheme: str, named: str) -> httpx.Proxy:
    try:
        return httpx.Proxy(named if "://" in named else f"http://{named}")
    except (ValueError, httpx.InvalidURL):  # what they say may quote a password
        raise ConfigurationError(
            f"the proxy that {scheme.upper()}_PROXY names cannot be used:"
            " it is to be like http://host:port, https://host:port or socks5://host:port"
        ) from None


def _pattern(name: str) -> str:
    """What one name in NO_PROXY covers: a host and all below it, but an address or localhost alone."""
    if "://" in name:
        return name
    if name.lower() == "localhost" or _version(name.partition("/")[0]) == 4:
        return f"all://{name}"
    return f"all://[{name}]" if _version(name.partition("/")[0]) == 6 else f"all://*{name}"


def _version(address: str) -> int | None:
    try:
        return ipaddress.ip_address(address).version
    except ValueError:
        return None


def _rule(pattern: str, proxy: httpx.Proxy | None) -> Rule:
    try:
        url = httpx.URL(pattern)
    except httpx.InvalidURL:
        raise ConfigurationError(f"NO_PROXY holds what is no host: {pattern.partition('://')[2]!r}") from None
    return Rule("" if url.scheme == "all" else url.scheme, url.host, url.port, proxy)
