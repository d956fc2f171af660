"""Ids as every store keeps them: callers choose them, so they are bounded.

An id of up to 128 bytes is kept as it is: as text or, where it is no valid Unicode, as bytes,
which equal no text. A longer one is kept as its SHA-256 behind a byte that no text in UTF-8
holds, so no id that is kept as it is can be taken for it.

What a store shows of a hashed session or agent is `sha256:` and 64 hexadecimal digits, and each
may be named so as well: whom a list shows can be forgotten, or moved to another store. Only a
namespace is never named so. It is a wall between those who choose their names, and whoever knows
another's name must not get behind it by naming its digest.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Final

from turnout.engine.context import Identity

LONGEST: Final = 128
"""How many bytes of UTF-8 an id may have to be kept as it is."""

_MARK: Final = b"\xff"
_MARKED_SIZE: Final = len(_MARK) + 32
_SIGN: Final = "sha256:"
_SHOWN: Final = re.compile(_SIGN + "[0-9a-f]{64}")
_SHOWN_SIZE: Final = len(_SIGN) + 64


class NoText(bytes):
    """What a file holds as text, and is no UTF-8: it is damaged, and no id is kept so."""


def kept_id(text: str) -> str | bytes:
    """A session's or an agent's id as it is kept; a hashed one may be given as it is shown."""
    size = len(text)
    if size <= LONGEST and size != _SHOWN_SIZE and text.isascii():
        return text
    if size == _SHOWN_SIZE and _SHOWN.fullmatch(text):
        return _MARK + bytes.fromhex(text[len(_SIGN) :])
    return kept_namespace(text)


def kept_namespace(text: str) -> str | bytes:
    """A namespace as it is kept. Different ones are kept differently, without exception."""
    if len(text) <= LONGEST and text.isascii():
        return text
    encoded = text.encode("utf-8", "surrogatepass")
    if len(encoded) > LONGEST:
        return _MARK + sha256(encoded).digest()
    try:
        text.encode()
    except UnicodeEncodeError:
        return encoded
    return text


def shown_id(kept: str | bytes) -> str:
    """What is shown of an id that is kept so: itself, or its digest. Keeping that comes to the same.

    Raises:
        ValueError: no id is kept so.
    """
    if isinstance(kept, str):
        return kept
    if isinstance(kept, NoText) or (kept.startswith(_MARK) and len(kept) != _MARKED_SIZE):
        raise ValueError("no id is kept so")
    if kept.startswith(_MARK):
        return _SIGN + kept[len(_MARK) :].hex()
    return kept.decode("utf-8", "surrogatepass")


def kept_ids(identity: Identity) -> tuple[str | bytes, str | bytes, str | bytes]:
    """An identity as it is kept: its namespace, session and agent."""
    namespace, session, agent = identity
    return kept_namespace(namespace), kept_id(session), kept_id(agent)


def shown(identity: Identity) -> Identity:
    """An identity as changes and lists show it."""
    namespace, session, agent = identity
    return Identity(namespace, shown_id(kept_id(session)), shown_id(kept_id(agent)))
