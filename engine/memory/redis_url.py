"""Where a Redis store is: what its URL may say, and how to speak of it without the credential in it."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

SCHEMES: Final = ("redis", "rediss", "unix")
"""Over TCP, over TLS, over a socket of this machine."""

_TLS: Final = frozenset(
    {"ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname"}
)
_OPTIONS: Final = {
    "redis": frozenset({"db"}),
    "rediss": frozenset({"db"}) | _TLS,
    "unix": frozenset({"db"}),
}
"""What the query of a URL may hold. Anything else could change what the store reads as its own."""

_FORM: Final = "give one like redis://cache:6379/0, rediss://cache:6379/0 or unix:///run/redis.sock?db=0"
CREDENTIAL: Final = (
    "holds a credential, which does not belong in a file:"
    " put the whole url into an environment variable, as in env:REDIS_URL"
)


_PORT: Final = 6379
"""Where a store is, if its URL does not say."""

SHORTEST_USER: Final = 4
"""How many letters a user's name has that is kept out of messages."""


def is_redis(url: str) -> bool:
    """Whether a memory's URL names a Redis store."""
    return url.partition(":")[0] in SCHEMES


def mistake(url: str) -> str | None:
    """What is wrong with the URL of a Redis store, in words that hold none of it that may be secret."""
    if "#" in url or any(c <= " " or c == "\x7f" for c in url):
        return f"holds what has to be percent-encoded, such as # in a password; {_FORM}"
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname
    except ValueError:
        return f"is no address of a Redis store; {_FORM}"
    if parts.scheme == "unix":
        if not parts.path.startswith("/") or host or parts.path.endswith("/"):
            return f"names no socket; {_FORM}"
    elif not host or port == 0:
        return f"names no host; {_FORM}"
    elif parts.path.strip("/") and not _is_number(parts.path[1:]):
        return f"names a database that is no number; {_FORM}"
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in _OPTIONS[parts.scheme]:
            known = " or ".join(sorted(_OPTIONS[parts.scheme]))
            return f"has an option that is unknown here behind its ?; give {known}"
        if name == "db" and not _is_number(value):
            return f"names a database that is no number; {_FORM}"
    return None


def mistake_in_file(url: str) -> str | None:
    """The same for a URL that stands in a deployment file, where no credential may stand."""
    return CREDENTIAL if has_credential(url) else mistake(url)


def has_credential(url: str) -> bool:
    """Whether a user or a password is in the URL."""
    # not by its parts: a password may hold what ends them
    query = url.partition("?")[2].lower()
    return "@" in url or "password" in query or "username" in query


def secrets_in(url: str) -> tuple[str, ...]:
    """The user and the password of a URL, as they are written and as they are meant."""
    parts = urlsplit(url)
    # a name of a letter or two is no secret, and would be cut out of every word
    user = parts.username if len(parts.username or "") >= SHORTEST_USER else None
    given = [text for text in (parts.password, user) if text]
    return tuple(dict.fromkeys(form for text in given for form in (text, unquote(text))))


def place_of(url: str) -> str:
    """The URL without what may be secret in it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def normal(url: str) -> str:
    """Where the URL leads and how, however it is written: with all that goes without saying, and no
    credential.
    """
    parts = urlsplit(url)
    options = dict(reversed(parse_qsl(parts.query)))  # of two the first counts
    if parts.scheme == "unix":
        place, database = quote(unquote(parts.path)), ""
    else:
        host, database = unquote(parts.hostname or ""), parts.path.strip("/")
        place = f"{f'[{host}]' if ':' in host else host}:{parts.port or _PORT}"
    database = options.pop("db", database) or "0"
    said = [("db", int(database)), *sorted(options.items())]
    return f"{parts.scheme}://{place}?{urlencode(said, safe='/')}"


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 6
