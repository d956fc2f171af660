"""What a value of a deployment file has to be beyond its type. One row or one function for each key."""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from turnout.engine import capture, route, targets
from turnout.engine.credentials import CREDENTIAL, in_url, named_like_a_credential, variable_mistake
from turnout.engine.http import is_usable
from turnout.engine.memory import redis_url
from turnout.engine.printable import named, number
from turnout.engine.targets import FRAMING, HEADER, MAX_SECS, MAX_WINDOW, MODALITIES, OURS, unsendable, usable
from turnout.engine.upstream import NEVER_FORWARDED


class Mistake(NamedTuple):
    """What is wrong with a value."""

    what: str
    within: str = ""
    """The entry of the value that is meant, where the value is a table."""
    stops: bool = True
    """Whether nothing can be made of the value."""


RANGES: Final[Mapping[str, tuple[float, float]]] = {
    "max_retries": (0, 10),
    "max_retry_after_secs": (0, int(MAX_SECS)),
    "max_body_bytes": (1, 2**30),
    "context_window": (1, MAX_WINDOW),
    "ttl_secs": (1, int(MAX_SECS)),
    "max_sessions": (1, 10**9),
    "max_bytes": (1024, 2**26),
    "memory_timeout_ms": (1, 60_000),
}
"""The least and the most that a number may be."""

BOUNDS: Final = (*targets.BOUNDS, *route.BOUNDS)

_HEADER_VALUE: Final = re.compile(r"(?:[!-~]+(?: +[!-~]+)*)?")
_BLANK: Final = re.compile(r"[\x00-\x20\x7f]")


def mistakes(key: str, value: Any) -> Iterator[Mistake]:
    """Everything that is wrong with the value of a key, whose type is right."""
    if key in RANGES:
        least, most = RANGES[key]
        if not least <= value <= most:
            yield Mistake(f"is {number(value)}; give {least} to {most}")
    elif key in BOUNDS:
        if usable(value) is None:
            yield Mistake(
                f"is {number(value)}, which means no bound; give seconds above 0, at most {int(MAX_SECS)}",
                stops=False,
            )
    elif key in _CHECKS:
        yield from _CHECKS[key](value)


AIOHTTP_REMEDY: Final = "pip install 'turnout[aiohttp]'"


def no_aiohttp() -> str:
    """Why requests cannot be carried by aiohttp here; empty where they can."""
    try:
        found = version("aiohttp")
    except PackageNotFoundError:
        return "is not installed"
    return "" if is_usable(found) else f"is there as {found}, which is too old or too new"


def no_certificates(path: str) -> str:
    """Why a file that is there cannot be trusted; empty where it can."""
    if Path(path).is_dir():
        return "is a directory; give a file of certificates in PEM"
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        trust.load_verify_locations(cafile=path)
    except (OSError, ValueError):
        return "holds no certificates in PEM that can be read"
    return "" if trust.cert_store_stats()["x509"] else "holds no certificate"


def over_plain_http(url: str) -> bool:
    """Whether what is sent there can be read on its way: plain http, to a host that is not loopback."""
    return _in_the_open(url, "http")


def _in_the_open(url: str, scheme: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:  # told by the check of the URL itself
        return False
    host = parts.hostname or ""
    try:
        loopback = ip_address(host).is_loopback
    except ValueError:
        loopback = host == "localhost" or host.endswith(".localhost")
    return parts.scheme == scheme and not loopback


def _base_url(url: str) -> Iterator[Mistake]:
    wrong = Mistake("is no URL of an upstream; give one like https://api.example.com/v1")
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna")
        _ = parts.port  # looked at only when it is asked for
    except ValueError:
        yield wrong
        return
    if parts.scheme not in ("http", "https") or not host or _BLANK.search(url):
        yield wrong
    elif in_url(url):
        yield Mistake(CREDENTIAL)
    elif "#" in url:
        yield Mistake("has a fragment, which is never sent; take out the # and what follows it")


def _api_key_env(variable: str) -> Iterator[Mistake]:
    # never shown: many put the key itself here
    if what := variable_mistake(variable):
        yield Mistake(what)


def _auth_header(name: str) -> Iterator[Mistake]:
    if not HEADER.fullmatch(name):
        yield Mistake("is no name of a header; give one like x-api-key")
    elif name.lower() in OURS:
        yield Mistake(f"is '{name}', which cannot carry a credential; give one like x-api-key")


def _forward_headers(names: tuple[str, ...]) -> Iterator[Mistake]:
    for name in names:
        if not HEADER.fullmatch(name):
            yield Mistake("holds what is no name of a header; give names like x-request-id")
        elif named_like_a_credential(name, "forward_headers"):
            yield Mistake(
                f"holds {named(name)}, which is never forwarded from here;"
                " to send the caller's own credential upstream, set forward_auth = true"
            )
        elif name.lower() in NEVER_FORWARDED:
            yield Mistake(f"holds '{name}', which belongs to the caller's connection and is never forwarded")


def _extra_headers(headers: Mapping[str, str]) -> Iterator[Mistake]:
    for name, value in headers.items():
        if not HEADER.fullmatch(name):
            yield Mistake("is no name of a header", within=name)
        elif name.lower() in FRAMING:
            yield Mistake("belongs to the connection and cannot be given", within=name)
        if not _HEADER_VALUE.fullmatch(value):
            yield Mistake(
                "cannot be sent: a header's value is printable ASCII on one line, without blanks at its ends",
                within=name,
            )


def _extra_body(body: Mapping[str, object]) -> Iterator[Mistake]:
    for key, what in unsendable(body):
        yield Mistake(what, within=key)


def memory_url(url: str) -> Iterator[Mistake]:
    """What is wrong with where the evictions are to be kept."""
    scheme, _, path = url.partition(":")
    if redis_url.is_redis(url):
        if what := redis_url.mistake_in_file(url):
            yield Mistake(what)
    elif scheme == "env":
        if what := variable_mistake(path, "REDIS_URL"):
            yield Mistake(what)
    elif scheme == "sqlite":
        if path.strip() in ("", ":memory:") or path.startswith("//") or "\0" in path:
            yield Mistake(
                "names no file that can be used; give a path without // before it,"
                " like sqlite:turnout.db or sqlite:/var/lib/turnout.db,"
                " or memory: to keep nothing"
            )
        else:
            yield from _as_it_stands(path)
    elif url != "memory:":
        yield Mistake("is no memory; give sqlite:PATH, redis://HOST:PORT/DB or memory:")


def memory_in_environment(url: str) -> Iterator[Mistake]:
    """The same for what a variable of the environment holds, where a credential may stand; never shown."""
    if redis_url.is_redis(url):
        if what := redis_url.mistake(url):
            yield Mistake(what)
        elif redis_url.has_credential(url) and _in_the_open(url, "redis"):
            what = "sends a password in the clear, where it can be read on its way; use rediss://"
            yield Mistake(what, stops=False)
    elif url.startswith("env:"):
        yield Mistake("names another variable; put the url itself there")
    else:
        yield from memory_url(url)


def _dir(path: str) -> Iterator[Mistake]:
    if what := capture.mistake(path):
        yield Mistake(what)
    yield from _as_it_stands(path)


def _ca_file(path: str) -> Iterator[Mistake]:
    if not path or "\0" in path:
        yield Mistake("is no path; give that of a file of certificates in PEM")
    yield from _as_it_stands(path)


def _as_it_stands(path: str) -> Iterator[Mistake]:
    """What a shell would put in, and nobody does here: the files would be somewhere else than was meant."""
    if path.startswith("~"):
        yield Mistake("begins with ~, which is taken as it stands; write the whole path")
    elif "$" in path:
        yield Mistake("holds $, which is taken as it stands; write the whole path")


def _input(value: tuple[str, ...]) -> Iterator[Mistake]:
    if strange := [named(what) for what in value if what not in MODALITIES]:
        yield Mistake(f"lists {', '.join(strange)}; give some of {', '.join(MODALITIES)}")


_CHECKS: Final[Mapping[str, Callable[[Any], Iterator[Mistake]]]] = {
    "base_url": _base_url,
    "api_key_env": _api_key_env,
    "auth_header": _auth_header,
    "forward_headers": _forward_headers,
    "extra_headers": _extra_headers,
    "extra_body": _extra_body,
    "url": memory_url,
    "dir": _dir,
    "ca_file": _ca_file,
    "input": _input,
}
