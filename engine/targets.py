"""Targets and the clients that reach them: what a ladder is made of."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal, get_type_hints
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from turnout.engine.audit import Rung
from turnout.engine.classify.operator import ErrorRule
from turnout.engine.classify.providers import provider_of
from turnout.engine.classify.verdict import Feature
from turnout.engine.credentials import SHORTEST_SECRET, named_like_a_credential, variable_mistake
from turnout.engine.errors import ConfigurationError
from turnout.engine.health import Breaker
from turnout.engine.hints import mistyped
from turnout.engine.nonfinite import nonfinite
from turnout.engine.pricing import Price
from turnout.engine.printable import named

NAME: Final = re.compile(r"[A-Za-z0-9._/:-]{1,64}")
"""What a target may be called."""

HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~A-Za-z0-9-]+")
"""What a header may be called."""

FRAMING: Final = frozenset(
    {"connection", "content-length", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)
"""Headers that belong to the connection and are set by what carries it."""

OURS: Final = FRAMING | {"accept", "content-encoding", "content-type", "cookie", "expect", "host"}
"""Headers that cannot carry a credential as well."""

FORWARDED: Final = ("traceparent", "tracestate", "x-request-id")
"""The caller's headers that go upstream unless a client says otherwise, beside those of its format."""

MAX_SECS: Final = 31_536_000.0
"""The longest bound that is taken for one: a year, in seconds."""

BOUNDS: Final = (
    "connect_timeout_secs",
    "first_output_timeout_secs",
    "idle_timeout_secs",
    "timeout_secs",
)

LIMITS: Final = ("context_window", "input", "tools", "structured_output", "streaming")
"""What a target may declare of itself."""

MAX_WINDOW: Final = 10**9
"""The largest window that may be declared, in tokens."""

MODALITIES: Final = ("text", "image", "audio", "video", "file")
"""What `input` may list; text goes without saying."""

_SWITCHES: Final[Mapping[str, tuple[Feature, ...]]] = {
    "tools": (Feature.TOOLS, Feature.TOOL_CHOICE, Feature.TOOL_SCHEMA),
    "structured_output": (Feature.STRUCTURED_OUTPUT,),
    "streaming": (Feature.STREAMING,),
}
"""What a target lacks that declares one of these to be false."""

OWNED: Final[Mapping[str, str]] = {
    "model": "is the target's model id, which is sent with every request",
    "stream": "is set by the kind of turn that a caller asks for",
    **dict.fromkeys(("messages", "input"), "is the conversation, which is the caller's"),
}
"""The keys of a body that no client may add, and whose they are."""

Format = Literal["openai_chat", "openai_responses", "anthropic_messages"]
ApiKey = Callable[[], str | Awaitable[str]]


@dataclass(frozen=True, kw_only=True)
class Client:
    """How to reach an upstream: wire format, address, credentials, bounds, retries.

    Bounds are in seconds. One that cannot be used (zero, negative, not finite, above
    `MAX_SECS`) means no bound; `unusable_bounds` names it.
    """

    format: Format = "openai_chat"
    base_url: str = field(default="", repr=False)
    """Where the format's path is appended, unless the URL already ends with it."""
    api_key_env: str | None = None
    """The environment variable that holds the credential, read for every attempt."""
    api_key: ApiKey | None = field(default=None, repr=False)
    """A callable that returns the credential, asked for every attempt, so that keys can rotate."""
    auth_header: str | None = None
    """The header that carries the credential, by default that of the format; `authorization` carries it as
    a bearer token.
    """
    forward_auth: bool = False
    """Send the caller's own credential upstream; not together with a key of ours."""
    forward_headers: tuple[str, ...] | None = None
    """The caller's headers that go upstream: `FORWARDED` and those of the format where none are given."""
    extra_headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    extra_query: Mapping[str, str] = field(default_factory=dict, repr=False)
    extra_body: Mapping[str, object] = field(default_factory=dict, repr=False)
    """Top-level keys that are added to a request which omits them."""
    on_parameter_reject: Literal["strip_once", "report", "off"] = "strip_once"
    """When the target refuses a key of `extra_body`: ask once more without, say so, or pass it on."""
    max_retries: int = 2
    """How often a probe asks again, 0 to 10."""
    retry_timeouts: bool = False
    """Whether an attempt that timed out is tried again like any other."""
    max_retry_after_secs: float = 60.0
    """A longer wait than this is not slept: the probe ends as unavailable at once."""
    connect_timeout_secs: float | None = 10.0
    first_output_timeout_secs: float | None = None
    """Of a stream: from sending an attempt to its first content."""
    idle_timeout_secs: float | None = None
    """Of a stream: from one byte to the next, comments included."""
    timeout_secs: float | None = 600.0
    """From sending an attempt to the last byte of its answer."""
    max_body_bytes: int = 33_554_432
    """The largest answer that is read, in bytes after decompression."""
    ca_file: str | None = None
    """A file of certificates in PEM: those that sign for the upstream, instead of the system's."""
    errors: tuple[ErrorRule, ...] = ()
    """Corrections of how failed replies are read; the first that holds decides."""
    breaker: Breaker | None = None
    """When a target that keeps failing is left alone for a while, by all sessions; none: never."""


@dataclass(frozen=True, repr=False)
class Target(Client):
    """One model at one upstream endpoint. Takes every key of a client as well.

    Raises:
        ConfigurationError: a value of another type, or one that cannot be used; a pair of keys that do not
            go together.
    """

    name: str = field(kw_only=False)
    model: str = field(default="", kw_only=True)
    """The model id sent upstream; the target's name where none is given."""
    context_window: int | None = field(default=None, kw_only=True)
    """The most tokens of request and output that it takes. What a target declares saves the probe that
    would show it; what is left open rules nothing out.
    """
    input: tuple[str, ...] | None = field(default=None, kw_only=True)
    """The modalities that it takes beside text: `image`, `audio`, `video`, `file`."""
    tools: bool | None = field(default=None, kw_only=True)
    structured_output: bool | None = field(default=None, kw_only=True)
    streaming: bool | None = field(default=None, kw_only=True)
    price: Price | None = field(default=None, kw_only=True)
    """What its tokens cost: for the record, never for routing."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):
            shown = repr(self.name) if isinstance(self.name, str) else f"of type {type(self.name).__name__}"
            raise ConfigurationError(
                f"target {shown}: a name is 1 to 64 of the characters A-Z a-z 0-9 . _ / : -"
            )
        # what is of another type cannot be looked at any further
        wrong = [*mistyped(vars(self), _TAKES)] or [
            *self._mistakes(),
            *self._mistakes_of_headers(),
            *self._mistakes_of_credentials(),
        ]
        if wrong:
            raise ConfigurationError("\n".join(f"target {self.name!r}: {what}" for what in wrong))

    def _mistakes(self) -> Iterator[str]:
        if self.base_url and not _is_address(self.base_url):
            yield "its base_url is no address; give one like https://api.example.com/v1"
        if not 0 <= self.max_retries <= 10:
            yield f"max_retries is {self.max_retries}; give 0 to 10"
        if self.context_window is not None and not 0 < self.context_window <= MAX_WINDOW:
            yield f"context_window is {self.context_window:g}; give 1 to {MAX_WINDOW} tokens, or leave it out"
        if strange := [named(what) for what in self.input or () if what not in MODALITIES]:
            yield f"input lists {', '.join(strange)}; give some of {', '.join(MODALITIES)}"
        if self.max_body_bytes < 1:
            yield f"max_body_bytes is {self.max_body_bytes}; give 1 or more"
        if not isinstance(self.errors, tuple | list) or any(type(r) is not ErrorRule for r in self.errors):
            yield "errors is no tuple of rules; give errors=(ErrorRule(…),)"
        if self.breaker is not None and not isinstance(self.breaker, Breaker):
            yield f"breaker is of type {type(self.breaker).__name__}; give Breaker(…)"
        if self.price is not None and not isinstance(self.price, Price):
            yield f"price is of type {type(self.price).__name__}; give Price(…)"
        for key, what in unsendable(self.extra_body):
            yield f"extra_body: {key} {what}"

    def _mistakes_of_headers(self) -> Iterator[str]:
        given = [("extra_headers", name, FRAMING) for name in self.extra_headers]
        if self.auth_header is not None:
            given.append(("auth_header", self.auth_header, OURS))
        for key, name, taken in given:
            if not HEADER.fullmatch(name):
                yield f"{key}: what it names is no header; give a name like x-api-key"
            elif name.lower() in taken:
                yield f"{key}: {name} belongs to the connection or to what is sent; give another one"
        if refused := [name for name, value in self.extra_headers.items() if not sendable(value)]:
            yield f"extra_headers: {', '.join(refused)}: no header can carry that; give printable ASCII"

    def _mistakes_of_credentials(self) -> Iterator[str]:
        if "@" in re.split(r"[/?#]", self.base_url.partition("://")[2], maxsplit=1)[0]:
            yield "its base_url holds a credential; give it by api_key_env"
        # what was given is never quoted: many put the key itself there
        if self.api_key is not None and not callable(self.api_key):
            yield (
                "api_key takes a callable that gives the credential; put the credential into an environment"
                " variable, and name that in api_key_env"
            )
        if self.api_key_env is not None and (what := variable_mistake(self.api_key_env)):
            yield f"api_key_env {what}"
        if self.forward_auth and (self.api_key or self.api_key_env):
            yield "forward_auth sends the caller's credential, api_key ours; keep one"
        for within, table in (("extra_headers", self.extra_headers), ("extra_query", self.extra_query)):
            for name, value in table.items():
                if named_like_a_credential(name, within) and len(value) < SHORTEST_SECRET:
                    yield (
                        f"{name} holds a credential of less than {SHORTEST_SECRET} characters,"
                        " which could not be kept out of messages; give a longer one"
                    )

    @property
    def model_id(self) -> str:
        """The model id sent upstream."""
        return self.model or self.name

    @cached_property
    def provider(self) -> str:
        """Whose address it is, where the host tells; an empty string where it does not."""
        return provider_of(urlsplit(self.base_url).hostname or "")

    @cached_property
    def limits(self) -> Mapping[str, Any]:
        """What it declares, by the keys of a target."""
        declared = {key: getattr(self, key) for key in LIMITS}
        if self.input is not None:  # in whatever order, and text goes without saying
            declared["input"] = [what for what in MODALITIES[1:] if what in self.input]
        return {key: value for key, value in declared.items() if value is not None}

    @cached_property
    def limited(self) -> bool:
        """Whether it declares anything."""
        return bool(self.limits)

    @cached_property
    def absent(self) -> tuple[str, ...]:
        """The features that it declares not to have."""
        lacks = [] if self.input is None else [what for what in MODALITIES[1:] if what not in self.input]
        for key, features in _SWITCHES.items():
            if getattr(self, key) is False:
                lacks += [str(feature) for feature in features]
        return tuple(lacks)

    @cached_property
    def fingerprint(self) -> str:
        """Names what an eviction was learnt about: another model, address, format or limit is another one."""
        return self.fingerprint_with(self.limits)

    def fingerprint_with(self, limits: Mapping[str, Any]) -> str:
        """What its fingerprint would be if it declared these limits."""
        declared = [json.dumps(limits, sort_keys=True)] if limits else []
        learnt_about = "\n".join((self.format, safe_url(self.base_url), self.model_id, *declared))
        return hashlib.sha256(learnt_about.encode()).hexdigest()[:16]

    @cached_property
    def configuration(self) -> str:
        """Names what a request is made of beside the caller's: with another one, a correction is void."""
        made_of = (
            self.fingerprint,
            self.on_parameter_reject,
            _telling("extra_query", self.extra_query),
            _telling("extra_headers", self.added_headers),
            as_sent(self.extra_body),
        )
        return hashlib.sha256(repr(made_of).encode("utf-8", "surrogatepass")).hexdigest()[:16]

    @cached_property
    def added_headers(self) -> Mapping[str, str]:
        """`extra_headers` by their names in lower case, since in those case does not count."""
        return {name.lower(): value for name, value in self.extra_headers.items()}

    @cached_property
    def rules(self) -> tuple[ErrorRule, ...]:
        """`errors`, each with the name by which evidence speaks of it."""
        return tuple(
            replace(rule, name=rule.name or f"targets.{self.name}.errors[{place}]")
            for place, rule in enumerate(self.errors)
        )

    @cached_property
    def rung(self) -> Rung:
        """The target as audit records list it."""
        return Rung(self.name, self.model_id, self.format, self.fingerprint, self.limits, self.price)

    def __repr__(self) -> str:
        return f"Target({self.name!r}, model={self.model_id!r}, base_url={safe_url(self.base_url)!r})"


_TAKES: Final[Mapping[str, Any]] = {
    key: hint
    for key, hint in get_type_hints(Target).items()
    if key not in ("name", "api_key", "errors", "breaker", "price")
}
"""What the keys of a target take, but for those that are checked by themselves."""


def _telling(within: str, table: Mapping[str, str]) -> list[tuple[str, str]]:
    """What a table says of the request: of a credential no more than that there is one."""
    return sorted((n, "" if named_like_a_credential(n, within) else v) for n, v in table.items())


def as_sent(value: object) -> str:
    """A value as the JSON of a body says it, keys in order: 1 and true are two things there."""
    return json.dumps(json.loads(msgspec.json.encode(value)), sort_keys=True)


def sendable(value: str) -> bool:
    """Whether an HTTP header can carry this value."""
    return value.isascii() and value.isprintable()


def unsendable(extra_body: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Each key of an `extra_body` that cannot be added to a request, and why."""
    for key, value in extra_body.items():
        if key in OWNED:
            yield key, f"{OWNED[key]}; take it out"
            continue
        try:
            msgspec.json.encode(value)
        except (TypeError, ValueError, RecursionError):
            yield key, "is nothing that JSON can say"
        else:
            if where := nonfinite(value, key):
                at = "" if where == key else f" at {where}"
                yield key, f"holds NaN or an infinity{at}, which JSON cannot say; give a number"


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return usable and not parts.fragment and not re.search(r"[\x00-\x20\x7f]", url)


def usable(bound: float | None) -> float | None:
    """The bound in seconds, or None where it means no bound."""
    if bound is None or not 0 < bound <= MAX_SECS:  # which NaN is not either
        return None
    return float(bound)  # an embedder's may be a Decimal, which no float can be added to


def unusable_bounds(owner: object, names: tuple[str, ...] = BOUNDS) -> Iterator[tuple[str, float]]:
    """Each bound of a client or route that is set and yet means no bound: its key and value."""
    for name in names:
        value = getattr(owner, name)
        if value is not None and usable(value) is None:
            yield name, value


def safe_url(url: str) -> str:
    """The URL without what may hold a credential: user info, query and fragment. Takes any text."""
    scheme, mark, rest = re.split(r"[?#]", url, maxsplit=1)[0].rpartition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{mark}{host.rpartition('@')[2]}{slash}{path}"
