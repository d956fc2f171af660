"""What becomes of a turn whose first target fails in some way, over real sockets.

Each fault is played to a buffered and to a streaming turn, in each wire format and over each library
that carries requests, with a healthy second target behind it and without. No time is measured: what has
to pass is a small bound, and one generous guard is around everything. A test fails if it leaves a socket
or a task behind, or if a connection is not closed as soon as its turn is over.
"""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
import trustme
from faulty import GUARD, Door, Faulty, Frames, Framing, Impatient, Line, Play

from turnout import InMemory, Router, Target, TurnFailed
from turnout.engine.audit import AuditRecord, ProbeRecord
from turnout.engine.errors import StreamInterrupted
from turnout.engine.route import Route

FORMATS = ("openai_chat", "openai_responses", "anthropic_messages")
LIBRARIES = {"aiohttp": FORMATS, "httpx": FORMATS[:1]}
"""What carries requests, and the formats that are played over it: the second knows nothing of formats."""
MODES = ("buffered", "streaming")
BODY = {"messages": [{"role": "user", "content": "Good morning"}], "input": "Good morning", "max_tokens": 9}
KIB = 1024
LAST_CHUNK = b"0\r\n\r\n"
SHORT = 0.2
"""Seconds of a bound that is to pass."""


@pytest.fixture(autouse=True, scope="module")
def surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No proxy, one authority that is trusted, and nothing for a collection to look at but a test's own."""
    authority = tmp_path_factory.mktemp("trusted") / "authority.pem"
    trustme.CA().cert_pem.write_to_path(str(authority))
    gc.collect()
    gc.freeze()
    with pytest.MonkeyPatch.context() as environment:
        for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
            environment.delenv(name, raising=False)
            environment.delenv(name.upper(), raising=False)
        environment.setenv("SSL_CERT_FILE", str(authority))
        yield
    gc.unfreeze()


# -- how far a server comes before something goes wrong, and what goes wrong then

Stage = Callable[[Line], Awaitable[None]]


async def at_once(line: Line) -> None:
    """Without reading the request."""


async def before_headers(line: Line) -> None:
    await line.request()


async def mid_headers(line: Line) -> None:
    await line.request()
    await line.send(b"HTTP/1.1 200 OK\r\ncontent-type: application/js")


async def after_headers(line: Line) -> None:
    await line.request()
    await line.send(line.head())


async def mid_body(line: Line) -> None:
    await line.request()
    await line.send(line.head(), line.framed(line.part))


async def after_opening(line: Line) -> None:
    await line.request()
    await line.send(line.head(), line.framed(line.frames.opening))


async def after_content(line: Line) -> None:
    await line.request()
    await line.send(line.head(), line.framed(line.frames.opening + b"".join(line.frames.content)))
    await line.heard()


async def mid_event(line: Line) -> None:
    """Within the event after the content that the caller has got."""
    await after_content(line)
    await line.send(line.framed(line.frames.content[0][:-10]))


Ending = Callable[[Line], Awaitable[None]]


async def reset(line: Line) -> None:
    line.reset()
    await line.gone()


async def half_close(line: Line) -> None:
    """It says no more, and listens on."""
    line.end()
    await line.gone()


async def hang(line: Line) -> None:
    await line.gone()


def sending(what: bytes, then: Ending = hang) -> Ending:
    async def ending(line: Line) -> None:
        await line.send(what)
        await then(line)

    return ending


def endless(what: bytes) -> Ending:
    async def ending(line: Line) -> None:
        await line.endless(what)

    return ending


async def drip(line: Line) -> None:
    """A little now and then, for ever."""
    while True:
        await line.send(line.framed(b":"))
        await asyncio.sleep(SHORT / 20)


async def drip_headers(line: Line) -> None:
    await mid_headers(line)
    while True:
        await line.send(b"x")
        await asyncio.sleep(SHORT / 20)


def at(stage: Stage, ending: Ending, framing: Framing = "chunked") -> Play:
    async def play(line: Line) -> None:
        line.framing = framing
        await stage(line)
        await ending(line)

    return play


async def healthy(line: Line) -> None:
    await line.request()
    await line.send(line.head(), line.framed(line.whole), LAST_CHUNK)


# -- whole replies of some kind


def replying(status: str, *headers: str, body: bytes = b"") -> Play:
    """A complete reply with that body, whatever was asked for."""

    async def play(line: Line) -> None:
        await line.request()
        line.framing = "length"
        await line.send(line.head(status, *headers, length=len(body)), body)

    return play


def preceded(by: bytes) -> Play:
    """An answer that is right, after something that is none yet."""

    async def play(line: Line) -> None:
        await line.request()
        await line.send(by)
        await line.send(line.head(), line.framed(line.whole), LAST_CHUNK)

    return play


async def too_long(line: Line) -> None:
    """An answer that is complete, and yet not as long as its headers say."""
    await line.request()
    line.framing = "length"
    await line.send(line.head(length=len(line.whole) + 100), line.whole)
    await half_close(line)


async def too_short(line: Line) -> None:
    """All of an answer, of which the headers claim a part only."""
    await line.request()
    line.framing = "length"
    await line.send(line.head(length=len(line.part)), line.whole)
    line.end()  # httpx's own would take what is left for the next reply of the connection


async def byte_by_byte(line: Line) -> None:
    await line.request()
    for byte in line.head() + b"".join(line.framed(bytes([byte])) for byte in line.whole) + LAST_CHUNK:
        await line.send(bytes([byte]))
        await asyncio.sleep(0)


def bomb(status: str) -> Play:
    """Some 8 KiB that unpack to 8 MiB."""

    async def play(line: Line) -> None:
        await line.request()
        begun = line.frames.opening + b": " if line.streams else b'{"filler": "'
        packed = gzip.compress(begun + b"x" * 8192 * KIB)
        await line.send(line.head(status, "content-encoding: gzip"), line.framed(packed), LAST_CHUNK)

    return play


async def endless_headers(line: Line) -> None:
    await line.request()
    await line.send(b"HTTP/1.1 200 OK\r\n")
    await line.endless(b"".join(b"x-filler-%d: %b\r\n" % (n, b"x" * 100) for n in range(100)))


async def endless_hints(line: Line) -> None:
    await line.request()
    await line.endless(HINTS)


async def endless_refusal(line: Line) -> None:
    await line.request()
    await line.send(line.head("400 Bad Request"))
    await line.endless(line.framed(b"x" * 8 * KIB))


async def endless_body(line: Line) -> None:
    await line.endless(line.framed(b"x" * 64 * KIB))


async def endless_comments(line: Line) -> None:
    await line.endless(line.framed(COMMENT * 99))


async def endless_empty(line: Line) -> None:
    await line.endless(line.framed(line.frames.empty * 99))


# -- what becomes of it


class Left(NamedTuple):
    """The turn leaves the target as `unavailable` and asks the next; the caller sees nothing of it."""

    rule: str
    status: int
    """What the caller is told where there is no other target."""
    attempts: int
    billed: bool | None
    """Whether it may have been billed, or None where it is a matter of chance what has gone out."""


class Interrupted(NamedTuple):
    """The caller got the events up to there, and an error after them; no other target is asked."""

    rule: str
    status: int


class Served(NamedTuple):
    """The target's answer reaches the caller whole."""


class Refused(NamedTuple):
    """The upstream's error goes to the caller, and no other target is asked."""

    status: int


Outcome = Left | Interrupted | Served | Refused


@dataclass(frozen=True)
class Fault:
    name: str
    play: Play
    buffered: Outcome | None
    streaming: Outcome | None
    client: Mapping[str, Any] = field(default_factory=dict)
    """Bounds of the target."""
    door: Door = "http"
    libraries: tuple[str, ...] = tuple(LIBRARIES)
    """For which that is so."""


WHOLE = {"timeout_secs": SHORT}
CONNECT = {"connect_timeout_secs": SHORT}
OUTPUT = {"first_output_timeout_secs": SHORT}
IDLE = {"idle_timeout_secs": SHORT}
NOT_IDLE = {"idle_timeout_secs": GUARD}
AMPLE = {"timeout_secs": 0.5, **NOT_IDLE}
"""What has to be enough for the first content and has to pass after it."""
SMALL = {"max_body_bytes": 64 * KIB}

BROKEN = Left("transport", 502, attempts=2, billed=True)
RACED = Left("transport", 502, attempts=2, billed=None)
UNSENT = Left("transport", 502, attempts=2, billed=False)
UNTRUSTED = Left("transport", 502, attempts=1, billed=False)
NO_CONNECTION = Left("connect_timeout", 502, attempts=2, billed=False)
UNFINISHED = Left("unfinished", 502, attempts=2, billed=True)
SLOW = Left("timeout", 504, attempts=1, billed=True)
NO_OUTPUT = Left("first_output_timeout", 504, attempts=1, billed=True)
SILENT = Left("idle_timeout", 504, attempts=1, billed=True)
UNREADABLE = Left("unreadable", 502, attempts=1, billed=False)
FAILING = Left("status_503", 503, attempts=2, billed=False)


def redirected(status: int) -> Left:
    return Left(f"status_{status}", 503, attempts=1, billed=False)


CUT = Interrupted("transport", 502)
ENDED = Interrupted("unfinished", 502)
FELL_SILENT = Interrupted("idle_timeout", 504)
TOO_LONG = Interrupted("timeout", 504)
SERVED = Served()

TLS_ALERT = b"\x15\x03\x01\x00\x02\x02\x50"
SSH = b"SSH-2.0-OpenSSH_9.6\r\n"
NO_SSH = SSH + b"Invalid SSH identification string.\r\n"
SWITCHING = b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"
HERE = "location: /v1/b"
NOWHERE = "location: http://127.0.0.1:1/"
HINTS = b"HTTP/1.1 103 Early Hints\r\nlink: </a>; rel=preload\r\n\r\n"
COMMENT = b": still here\n\n"

# name, what the server does, what becomes of a buffered turn and of a streaming one, bounds, door
FAULTS = [
    Fault("refused", healthy, UNSENT, UNSENT, door="refusing"),
    Fault("no room for a connection", healthy, NO_CONNECTION, NO_CONNECTION, CONNECT, "full"),
    Fault("never accepted", healthy, SLOW, SLOW, WHOLE, "not accepting"),
    # TLS
    Fault("untrusted certificate", healthy, UNTRUSTED, UNTRUSTED, door="untrusted"),
    Fault("no TLS where it is expected", at(at_once, sending(SSH)), UNSENT, UNSENT, door="no tls"),
    Fault("reset within the TLS handshake", at(at_once, reset), UNSENT, UNSENT, door="no tls"),
    Fault("end within the TLS handshake", at(at_once, half_close), UNSENT, UNSENT, door="no tls"),
    Fault(
        "hang within the TLS handshake", at(at_once, hang), NO_CONNECTION, NO_CONNECTION, CONNECT, "no tls"
    ),
    # reset
    Fault("reset at once", at(at_once, reset), RACED, RACED),
    Fault("reset before headers", at(before_headers, reset), BROKEN, BROKEN),
    Fault("reset within headers", at(mid_headers, reset), BROKEN, BROKEN),
    Fault("reset after headers", at(after_headers, reset), BROKEN, BROKEN),
    Fault("reset within the body", at(mid_body, reset), BROKEN, BROKEN),
    Fault("reset within a body of some length", at(mid_body, reset, "length"), BROKEN, BROKEN),
    Fault("reset within a body of unknown length", at(mid_body, reset, "close"), BROKEN, BROKEN),
    Fault("reset after content", at(after_content, reset), None, CUT),
    Fault("reset within an event", at(mid_event, reset), None, CUT),
    Fault("reset within an event of unknown length", at(mid_event, reset, "close"), None, CUT),
    # half-close: the server says no more, and listens on
    Fault("half-close at once", at(at_once, half_close), RACED, RACED),
    Fault("half-close before headers", at(before_headers, half_close), BROKEN, BROKEN),
    Fault("half-close within headers", at(mid_headers, half_close), BROKEN, BROKEN),
    Fault("half-close after headers", at(after_headers, half_close), BROKEN, BROKEN),
    Fault("half-close within the body", at(mid_body, half_close), BROKEN, BROKEN),
    Fault("half-close within a body of some length", at(mid_body, half_close, "length"), BROKEN, BROKEN),
    Fault(
        "half-close within a body of unknown length",
        at(mid_body, half_close, "close"),
        UNREADABLE,  # such a body is complete: what is wrong is that it is no answer
        UNFINISHED,
    ),
    Fault("half-close after content", at(after_content, half_close), None, CUT),
    Fault("end after content", at(after_content, half_close, "close"), None, ENDED),
    Fault("end within an event", at(mid_event, half_close, "close"), None, ENDED),
    # lengths
    Fault("content-length too long", too_long, BROKEN, SERVED),  # a stream has said that it is complete
    Fault("content-length too long, and a hang", at(mid_body, hang, "length"), SLOW, SLOW, WHOLE),
    # what is left of it is no HTTP: one library reads on and sees that, the other does not
    Fault("content-length too short", too_short, BROKEN, BROKEN, libraries=("aiohttp",)),
    Fault("content-length too short", too_short, UNREADABLE, UNFINISHED, libraries=("httpx",)),
    Fault("no body", replying("200 OK"), UNREADABLE, UNFINISHED),
    # what is no HTTP
    Fault("another protocol", at(before_headers, sending(NO_SSH, half_close)), BROKEN, BROKEN),
    Fault("another protocol at once", at(at_once, sending(NO_SSH, half_close)), RACED, RACED),
    Fault(
        "another protocol, and a hang",
        at(before_headers, sending(SSH)),
        BROKEN,
        BROKEN,
        libraries=("aiohttp",),
    ),
    Fault(  # waits for more of what may still become a head
        "another protocol, and a hang",
        at(before_headers, sending(SSH)),
        SLOW,
        SLOW,
        WHOLE,
        libraries=("httpx",),
    ),
    Fault("binary", at(before_headers, sending(TLS_ALERT * 9 + b"\r\n\r\n")), BROKEN, BROKEN),
    Fault("no chunk where one is due", at(mid_body, sending(b"zz\r\n\r\n")), BROKEN, BROKEN),
    Fault("no chunk after content", at(after_content, sending(b"zz\r\n\r\n")), None, CUT),
    # hanging and dripping
    Fault("hang before headers", at(before_headers, hang), SLOW, SLOW, WHOLE),
    Fault("hang within headers", at(mid_headers, hang), SLOW, SLOW, WHOLE),
    Fault("hang after headers", at(after_headers, hang), SLOW, SLOW, WHOLE),
    Fault("hang within the body", at(mid_body, hang), SLOW, SLOW, WHOLE),
    Fault("no output, nor headers", at(before_headers, hang), None, NO_OUTPUT, OUTPUT),
    Fault("no output after the opening", at(after_opening, hang), None, NO_OUTPUT, OUTPUT),
    Fault("silence after the opening", at(after_opening, hang), None, SILENT, IDLE),
    Fault("hang after content", at(after_content, hang), None, FELL_SILENT, IDLE),
    Fault("hang within an event", at(mid_event, hang), None, FELL_SILENT, IDLE),
    Fault("slow drip of headers", drip_headers, SLOW, SLOW, WHOLE),
    Fault("slow drip of the body", at(mid_body, drip), SLOW, SLOW, {**WHOLE, **NOT_IDLE}),
    Fault("slow drip without output", at(after_opening, drip), None, NO_OUTPUT, {**OUTPUT, **NOT_IDLE}),
    Fault("slow drip after content", at(after_content, drip), None, TOO_LONG, AMPLE),
    Fault("all of it byte by byte", byte_by_byte, SERVED, SERVED),
    # statuses that are no answer
    Fault("redirect", replying("307 Temporary Redirect", HERE), redirected(307), redirected(307)),
    Fault("redirect to nowhere", replying("302 Found", NOWHERE), redirected(302), redirected(302)),
    Fault("not modified", replying("304 Not Modified"), redirected(304), redirected(304)),
    Fault("100 before the answer", preceded(b"HTTP/1.1 100 Continue\r\n\r\n"), SERVED, SERVED),
    Fault("103 before the answer", preceded(HINTS * 3), SERVED, SERVED),
    Fault("101 unasked", at(before_headers, sending(SWITCHING)), BROKEN, BROKEN),
    # more than anybody wants
    Fault("a bomb", bomb("200 OK"), UNREADABLE, UNREADABLE, SMALL),
    Fault("a bomb that says it fails", bomb("503 Service Unavailable"), FAILING, FAILING),
    Fault("endless 1xx", endless_hints, SLOW, SLOW, WHOLE),
    Fault("endless headers", endless_headers, BROKEN, BROKEN),
    Fault("an endless header", at(mid_headers, endless(b"x" * 8 * KIB)), BROKEN, BROKEN),
    Fault("an endless body", at(mid_body, endless_body), UNREADABLE, UNREADABLE, SMALL),
    Fault("an endless refusal", endless_refusal, Refused(400), Refused(400)),
    Fault("an endless event", at(mid_event, endless_body), None, Interrupted("unreadable", 502)),
    Fault("endless comments", at(after_opening, endless_comments), None, UNREADABLE),
    Fault("endless comments after content", at(after_content, endless_comments), None, TOO_LONG, AMPLE),
    Fault("flood of empty deltas", at(after_opening, endless_empty), None, UNREADABLE),
]


ROWS = [
    pytest.param(fault, mode, spoken, library, id=f"{fault.name}-{mode}-{spoken}-{library}")
    for fault in FAULTS
    for mode in MODES
    if getattr(fault, mode) is not None
    for library in fault.libraries
    for spoken in LIBRARIES[library]
]


@pytest.mark.parametrize(("fault", "mode", "format", "library"), ROWS)
def test_a_fault_has_its_outcome(fault: Fault, mode: str, format: str, library: str) -> None:
    outcome: Outcome = getattr(fault, mode)
    streaming = mode == "streaming"

    async def story(caller: Caller, a: Faulty, b: Faulty) -> None:
        for route in ("both", "alone"):
            told = await caller.asks(route, streaming=streaming)
            await a.let_go()
            match outcome:
                case Left():
                    check_left(outcome, told, b.frames, streaming=streaming)
                case Interrupted():
                    check_interrupted(outcome, told, a.frames)
                case Served():
                    assert told.failure is None
                    assert told.record.served_by == "a"
                    assert told.seen == expected(a.frames, streaming=streaming)
                case Refused():
                    check_refused(outcome, told)
            assert [probe.target for probe in told.record.probes][1:] == (
                ["b"] if isinstance(outcome, Left) and route == "both" else []
            )
        assert len(b.asked) == isinstance(outcome, Left)

    play(fault.play, story, format, library, client={"max_retries": 1, **fault.client}, door=fault.door)


def check_left(outcome: Left, told: Told, healthy: Frames, *, streaming: bool) -> None:
    first, *others = told.record.probes
    billed = [attempt.possibly_billed for attempt in first.attempts]
    assert (first.reason, rule(first), len(billed)) == ("unavailable", outcome.rule, outcome.attempts)
    if outcome.billed is not None:
        assert billed == [outcome.billed] * len(billed)
    if others:
        assert told.failure is None
        assert told.record.served_by == "b"
        assert told.seen == expected(healthy, streaming=streaming)
        return
    assert told.failure is not None
    assert not isinstance(told.failure.error, StreamInterrupted)
    assert (told.failure.surface.status, told.seen) == (outcome.status, b"")


def check_interrupted(outcome: Interrupted, told: Told, failing: Frames) -> None:
    (probe,) = told.record.probes
    (attempt,) = probe.attempts
    assert told.failure is not None
    assert isinstance(told.failure.error, StreamInterrupted)
    assert told.failure.surface.status == outcome.status
    assert (probe.reason, rule(probe)) == (None, outcome.rule)
    assert attempt.stream is not None
    assert attempt.stream.interrupted == outcome.rule
    assert attempt.stream.content_events == len(failing.content)
    assert attempt.possibly_billed
    events = failing.opening + b"".join(failing.content)
    assert told.seen.startswith(events)
    assert not told.seen.removeprefix(events).replace(COMMENT, b""), "no half an event"


def check_refused(outcome: Refused, told: Told) -> None:
    (probe,) = told.record.probes
    assert (probe.reason, len(probe.attempts)) == (None, 1)
    assert told.failure is not None
    assert (told.failure.surface.status, told.seen) == (outcome.status, b"")


def expected(frames: Frames, *, streaming: bool) -> bytes:
    return frames.stream if streaming else frames.answer


def rule(probe: ProbeRecord) -> str:
    evidence = probe.attempts[-1].evidence
    return evidence.rule if evidence else ""


# -- cookies

COOKIE = "set-cookie: session=s3cret; Path=/"


async def baking(line: Line) -> None:
    await line.request()
    await line.send(line.head("200 OK", COOKIE), line.framed(line.whole), LAST_CHUNK)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    ("plays", "requests"),
    [
        pytest.param(baking, 1, id="answer"),
        pytest.param(replying("503 Service Unavailable", COOKIE), 2, id="failure"),
        pytest.param(replying("307 Temporary Redirect", HERE, COOKIE), 1, id="redirect"),
    ],
)
def test_no_cookie_crosses_requests(plays: Play, requests: int, library: str) -> None:
    """Neither to the same connection, nor to another target on the same host."""

    async def story(caller: Caller, a: Faulty, b: Faulty) -> None:
        for streaming in (False, True, False):
            await caller.asks(streaming=streaming)
        assert len(a.asked) == 3 * requests
        assert not any(b"\r\ncookie:" in head.lower() for head in a.asked + b.asked)

    play(plays, story, FORMATS[0], library, client={"max_retries": 1})


# -- one story, and what its caller has seen


class Told(NamedTuple):
    """What came of one turn."""

    seen: bytes
    """The body, or the events, that the caller got."""
    failure: TurnFailed | None
    record: AuditRecord


class Caller:
    """Asks a router, and sees to it that each turn leaves one record."""

    def __init__(self, router: Router, records: list[AuditRecord], a: Faulty) -> None:
        self.router = router
        self.records = records
        self._a = a

    async def asks(self, route: str = "both", *, streaming: bool) -> Told:
        before = len(self.records)
        seen = bytearray()
        failure: TurnFailed | None = None
        try:
            await (self._streams(route, seen) if streaming else self._gets(route, seen))
        except TurnFailed as failed:
            failure = failed
        (record,) = self.records[before:]
        return Told(bytes(seen), failure, record)

    async def _gets(self, route: str, seen: bytearray) -> None:
        reply = await self.router.turn(BODY, route=route)
        seen += json.dumps(reply.body).encode()

    async def _streams(self, route: str, seen: bytearray) -> None:
        self._a.heard.clear()
        left = len(self._a.frames.content)
        async with self.router.stream(BODY, route=route) as stream:
            async for event in stream:
                seen += event.raw
                left -= event.content
                if not left:
                    self._a.heard.set()


Story = Callable[[Caller, Faulty, Faulty], Awaitable[None]]


def play(
    plays: Play,
    story: Story,
    format: str,
    library: str,
    *,
    client: Mapping[str, Any] | None = None,
    door: Door = "http",
) -> None:
    """A story with a target `a` that does as told and a healthy `b`, after which nothing is left behind."""
    unheard: list[Mapping[str, Any]] = []

    async def all_of_it() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, what: unheard.append(what))
        async with (
            asyncio.timeout(GUARD),
            Faulty(format, healthy, text="from b") as b,
            Faulty(format, plays, text="from a", door=door) as a,
        ):
            first = Target("a", base_url=a.url, format=format, **(client or {}))  # type: ignore[arg-type]
            second = Target("b", base_url=b.url, format=format)  # type: ignore[arg-type]
            records: list[AuditRecord] = []
            router = Router(
                routes=[Route(id="both", ladder=(first, second)), Route(id="alone", ladder=(first,))],
                memory=InMemory(),
                transport=library,  # type: ignore[arg-type]
                clock=Impatient(),
                jitter=lambda: 0.0,
                on_record=records.append,
            )
            async with router:
                await story(Caller(router, records, a), a, b)
        # the servers have waited until each of their connections was closed
        assert asyncio.all_tasks() == {asyncio.current_task()}, "a task was left behind"

    asyncio.run(all_of_it())
    gc.collect()  # what was left open warns now
    assert unheard == []
