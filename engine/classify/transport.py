"""Failures that brought no reply: a connection that could not be made or broke, a bound that passed."""

from __future__ import annotations

import errno
import re
import socket
import ssl
from collections.abc import Iterator
from typing import Final

from turnout.engine.classify.verdict import Evidence, Verdict
from turnout.machines.vocabulary import ErrorKind as Kind

# HTTP libraries have their own classes, which this floor does not import: they are known by name
_NOT_CONNECTED: Final = frozenset(
    {
        "ConnectTimeout",
        "ConnectError",
        "ConnectTimeoutError",
        "ConnectionTimeoutError",
        "NewConnectionError",
        "ClientConnectorError",
    }
)
_TIMED_OUT: Final = frozenset(
    {
        "TimeoutException",
        "ReadTimeout",
        "WriteTimeout",
        "PoolTimeout",
        "ReadTimeoutError",
        "ServerTimeoutError",
        "SocketTimeoutError",
        "APITimeoutError",
    }
)
_BROKEN: Final = frozenset(
    {
        "NetworkError",
        "ReadError",
        "WriteError",
        "CloseError",
        "ProtocolError",
        "RemoteProtocolError",
        "ProxyError",
        "ClientConnectionError",
        "ClientPayloadError",
        "IncompleteRead",
        "IncompleteReadError",
        "BrokenResourceError",
        "APIConnectionError",
    }
)
_BROKEN_TYPES: Final = (ConnectionError, socket.gaierror, socket.herror, ssl.SSLError)
_NEVER: Final = "CERTIFICATE_VERIFY_FAILED"
"""OpenSSL's word for what trying again cannot help. Some libraries hand on its words alone."""
_QUOTATION: Final = re.compile(r"bytearray\(|b?['\"]")
_BROKEN_ERRNOS: Final = frozenset(
    {
        errno.ENETUNREACH,
        errno.EHOSTUNREACH,
        errno.ENETDOWN,
        errno.EHOSTDOWN,
        errno.EADDRNOTAVAIL,
        errno.ENOTCONN,
    }
)

_TRANSPORT: Final = Evidence("transport", "transport")
_TIMEOUT: Final = Evidence("timeout", "transport")


def transport_failure(error: BaseException) -> Verdict | None:
    """The verdict on an exception that a transport raised, or None if it is no transport's failure.

    The innermost link of its causes that tells anything decides, since libraries wrap one
    failure in another. A connect that failed or timed out counts as a broken connection.
    A timeout is marked `timed_out` and not `retryable`: whether to retry it is the client's choice.
    """
    told = [evidence for link in _chain(error) if (evidence := _link(link))]
    if not told:
        return None
    timed_out = told[-1] is _TIMEOUT and not any(_names(link) & _NOT_CONNECTED for link in _chain(error))
    return Verdict(
        kind=Kind.UNAVAILABLE,
        evidence=_TIMEOUT if timed_out else _TRANSPORT,
        message=f"{type(error).__name__}: {_words(error)}".removesuffix(": "),
        retryable=not timed_out and _NEVER not in str(error),
        timed_out=timed_out,
    )


def too_slow(bound: float | None) -> Verdict:
    """The verdict on an attempt that ran past its own bound, in seconds."""
    return Verdict(
        kind=Kind.UNAVAILABLE,
        evidence=_TIMEOUT,
        message=f"no complete answer {_within(bound)}",
        timed_out=True,
    )


def no_output(bound: float | None) -> Verdict:
    """The verdict on a stream that brought no content within its bound."""
    return Verdict(
        kind=Kind.UNAVAILABLE,
        evidence=Evidence("first_output_timeout", "transport"),
        message=f"no output {_within(bound)}",
        timed_out=True,
    )


def idle(bound: float | None) -> Verdict:
    """The verdict on a stream that fell silent for longer than its bound."""
    return Verdict(
        kind=Kind.UNAVAILABLE,
        evidence=Evidence("idle_timeout", "transport"),
        message=f"not a byte {_within(bound)}",
        timed_out=True,
    )


def unfinished(what: str) -> Verdict:
    """The verdict on a stream that ended without its finish marker: it was cut off, wherever that was."""
    return Verdict(
        kind=Kind.UNAVAILABLE, evidence=Evidence("unfinished", "stream"), message=what, retryable=True
    )


def no_connection(bound: float | None) -> Verdict:
    """The verdict on a connection that did not come about within its bound: it counts as transport."""
    return Verdict(
        kind=Kind.UNAVAILABLE,
        evidence=Evidence("connect_timeout", "transport"),
        message=f"no connection {_within(bound)}",
        retryable=True,
    )


def _within(bound: float | None) -> str:
    return "in time" if bound is None else f"within {bound:g} s"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, its causes, and what a group of them holds: each once, the outermost first."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        link = waiting.pop()
        if id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        if isinstance(link, BaseExceptionGroup):
            waiting += reversed(link.exceptions)
        cause = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
        if cause is not None:
            waiting.append(cause)


def _words(error: BaseException) -> str:
    """What it says; where a protocol was broken, without what it quotes, which may be an answer's text."""
    text = str(error)
    if not any("ProtocolError" in name for name in _names(error)):
        return text
    quoted = _QUOTATION.search(text)
    return text if quoted is None else text[: quoted.start()].rstrip(" :(")


def _link(error: BaseException) -> Evidence | None:
    names = _names(error)
    if isinstance(error, TimeoutError) or names & _TIMED_OUT:
        return _TIMEOUT
    if isinstance(error, _BROKEN_TYPES) or names & (_BROKEN | _NOT_CONNECTED):
        return _TRANSPORT
    return _TRANSPORT if isinstance(error, OSError) and error.errno in _BROKEN_ERRNOS else None


def _names(error: BaseException) -> frozenset[str]:
    return frozenset(kind.__name__ for kind in type(error).__mro__)
