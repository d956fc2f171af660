"""What a credential looks like, how what carries one is called, and how to speak of what may be one."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import unquote

from turnout.engine.printable import mixed, printable

CREDENTIAL: Final = (
    "holds a credential, which does not belong in a file:"
    " put it into an environment variable and name that in api_key_env"
)

SHORTEST_SECRET: Final = 8
"""A shorter credential would be found in any text; it is refused at load."""

_RUN: Final = r"(?=[A-Za-z0-9_-]{0,200}?[A-Za-z0-9]{16})(?=[A-Za-z0-9_-]{0,216}?[0-9])[A-Za-z0-9_-]{16,}"
"""What follows a prefix: a long run of letters and digits in it, which names of models do not have."""

KEY: Final = re.compile(
    rf"""(?<![A-Za-z0-9])(?:
          sk - (?=[A-Za-z0-9_-]{{0,200}}?[0-9]) [A-Za-z0-9_-]{{16,}}
        | (?:rk|csk|xai|pplx|nvapi|sess) - {_RUN}
        | (?:sk|rk) _ (?:live|test) _ [A-Za-z0-9]{{8,}}
        | (?:gsk|hf|r8|fw|ghp|gho|ghs|github_pat|glpat|tgp_v1) [_-] {_RUN}
        | xox[abprs] - [A-Za-z0-9-]{{8,}}
        | (?:AIza|AKIA|ASIA) [A-Za-z0-9_-]{{16,}}
        | (?<![_-]) eyJ [A-Za-z0-9_-]{{8,}} \. [A-Za-z0-9_-]{{8,}} \S*   # from where its run begins: linear
        | -----BEGIN [ ] [A-Z0-9 ]* PRIVATE [ ] KEY [\s\S]*
    )""",
    re.VERBOSE,
)
"""What providers' keys and tokens look like, by the prefixes that they publish."""

_LIKE_A_KEY: Final = re.compile(
    rf"{KEY.pattern} | (?i:bearer) \s+ \S{{8,}} | [A-Za-z] [A-Za-z0-9+.-]{{0,30}} :// [^\s/?#]* @ \S*",
    re.VERBOSE,
)
"""Providers' keys, what a header carries behind `Bearer`, and a URL with a user in it."""

_BASIC: Final = re.compile(r"\bbasic\s+([A-Za-z0-9+/]{8,})=*", re.IGNORECASE)

_NAMED: Final = re.compile(
    # what is counted, typed or timed of a credential is none
    r"(?:authorization|token|secret|passw(?:or)?d|passphrase|credentials?|cookies?|signature)[-_.]?[0-9]*$"
    r"|^key$|(?:^|[-_.])(?:auth|sig|pwd|jwt)$|(?:api|access|subscription|functions|auth|master)[-_.]?key(?!.?env)",
    re.IGNORECASE,
)
_NAMED_AS_HEADER: Final = re.compile(r"(?<!idempotency[-_])(?<!cache[-_])key$", re.IGNORECASE)
_NAMED_AS_PARAMETER: Final = re.compile(r"^code$", re.IGNORECASE)
_NAMED_IN: Final[Mapping[str, re.Pattern[str]]] = {
    "extra_headers": _NAMED_AS_HEADER,
    "forward_headers": _NAMED_AS_HEADER,
    "extra_query": _NAMED_AS_PARAMETER,
}
"""What else is a credential's name, by the key that it stands under."""

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEY_ITSELF: Final = re.compile(r"(?=[A-Za-z]*[0-9])[A-Za-z0-9]{24,}")
_PARTS: Final = re.compile(r"[/?&;#]")
_NAMEABLE: Final = re.compile(r"[A-Z_][A-Z0-9_]*|[A-Za-z_]+")
_ONE_RUN: Final = re.compile(r"[A-Za-z0-9]{16,}")


def presentable(text: str) -> str:
    """The text on one line, without anything that looks like a credential or would steer a terminal."""
    return printable(hidden(text))


def hidden(text: str) -> str:
    """The text without anything that looks like a credential."""
    return _BASIC.sub(_without_basic, _LIKE_A_KEY.sub("[looks like a key]", text))


def _without_basic(found: re.Match[str]) -> str:
    """Base64 of a user and password is plain text; any other word, read as base64, is not."""
    word = found[1]
    try:
        decoded = base64.b64decode(word + "=" * (-len(word) % 4))
    except binascii.Error:
        return found[0]
    plain = decoded.isascii() and decoded.decode("ascii").isprintable()
    return "[looks like a key]" if plain else found[0]


def named_like_a_credential(name: str, within: str = "") -> bool:
    """Whether a header, parameter or key of this name carries a credential.

    Args:
        within: the key that it stands under, for names that mean one only there.
    """
    also = _NAMED_IN.get(within)
    return bool(_NAMED.search(name) or (also and also.search(name)))


def is_credential(path: Sequence[str], value: str, innocent: frozenset[str]) -> bool:
    """Whether a string of the file is a credential: it looks like one, or its key is named like one.

    Args:
        path: the string's own.
        innocent: keys that hold none, whatever their names.
    """
    if hidden(value) != value:
        return True
    # what goes into a body has names of its own, `stop_token` for one
    if path[-1] in innocent or "extra_body" in path:
        return False
    return named_like_a_credential(path[-1], path[-2] if len(path) > 1 else "")


def in_url(url: str) -> bool:
    """Whether a part of a URL, of its path, its query or its fragment, is named like a credential."""
    parts = (unquote(part).partition("=") for part in _PARTS.split(url))
    return any(named_like_a_credential(name, "extra_query") for name, given, _ in parts if given)


def variable_mistake(variable: str, example: str = "OPENAI_API_KEY") -> str:
    """What is wrong with the name of an environment variable; empty where nothing is. It is never shown."""
    if _KEY_ITSELF.fullmatch(variable):
        return f"looks like a key itself; {CREDENTIAL}"
    if not _VARIABLE.fullmatch(variable):
        return f"is no name of an environment variable; give one like {example}"
    return ""


def variable_named(variable: str) -> str:
    """How to speak of an environment variable: not by a name that could as well be a key put in its place."""
    a_name = _NAMEABLE.fullmatch(variable) and not _ONE_RUN.fullmatch(variable) and not mixed(variable)
    return variable if a_name else "a variable"


def secrets_in(url: str) -> list[str]:
    """What in a URL may be a credential: in its query by name or by looks, in its path by looks."""
    address, _, query = url.partition("#")[0].partition("?")
    pairs = [
        (unquote(name), unquote(value)) for name, _, value in (p.partition("=") for p in query.split("&"))
    ]
    named = [value for name, value in pairs if value and named_like_a_credential(name, "extra_query")]
    alone = [name for name, value in pairs if name and not value and any(map(str.isdigit, name))]
    looking = [part for part in (*address.split("/")[3:], *(value for _, value in pairs)) if mixed(part)]
    return [*named, *alone, *looking]
