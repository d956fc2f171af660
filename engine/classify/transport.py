"""Failures that brought no reply: a connection that could not be made or broke, a bound that passed."""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Iterator
from typing import Final

from turnout.engine.classify.unwrap import MAX_MESSAGE
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
        message=f"{type(error).__name__}: {error}".removesuffix(": ")[:MAX_MESSAGE],
        retryable=not timed_out,
        timed_out=timed_out,
    )
