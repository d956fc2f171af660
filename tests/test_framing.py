"""Whether a server has sent more than it was asked for, however its bytes come."""

from __future__ import annotations

import pytest

from turnout.engine.http.framing import Framing

LENGTH = {"content-length": "2"}
CHUNKED = {"transfer-encoding": "chunked"}


def followed(*pieces: bytes) -> Framing:
    framing = Framing()
    for piece in pieces:
        framing.take(piece)
    return framing


@pytest.mark.parametrize(
    ("reply", "headers", "clean"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", LENGTH, True),
        (b"HTTP/1.1 200 OK\ncontent-length: 2\n\n{}", LENGTH, True),
        (b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", LENGTH, True),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}\r\n", LENGTH, False),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}HTTP/1.1 200 OK", LENGTH, False),
        (b"HTTP/1.1 200 OK\r\n\r\n2\r\n{}\r\n0\r\n\r\n", CHUNKED, True),
        (b"HTTP/1.1 200 OK\r\n\r\n2\r\n{}\r\n0\r\n\r\nmore", CHUNKED, False),
    ],
    ids=range(7),
)
def test_a_connection_is_clean_if_nothing_has_come_behind_a_reply(
    reply: bytes, headers: dict[str, str], clean: bool
) -> None:
    pieces = [reply[at : at + 1] for at in range(len(reply))]
    assert followed(reply).is_clean(headers, bodiless=False) is clean
    assert followed(*pieces).is_clean(headers, bodiless=False) is clean


def test_a_reply_without_a_body_has_nothing_behind_its_head() -> None:
    head = b"HTTP/1.1 204 No Content\r\n\r\n"
    assert followed(head).is_clean({}, bodiless=True)
    assert not followed(head + b"x").is_clean({}, bodiless=True)


def test_a_head_that_never_ends_is_not_kept_and_not_clean() -> None:
    framing = followed(*[b"x" * 65_536] * 64)
    assert not framing.is_clean(LENGTH, bodiless=False)
    assert not framing.is_clean({}, bodiless=True)
    assert not framing.is_clean(CHUNKED, bodiless=False)
