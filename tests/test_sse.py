"""Server-sent events: the same ones whatever the split of the bytes, and no more memory than one of them."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnout.engine import sse
from turnout.engine.sse import Block, EventTooLong, SseReader


def read(*chunks: bytes) -> list[Block]:
    reader = SseReader()
    return [*(block for chunk in chunks for block in reader.feed(chunk)), *reader.end()]


@pytest.mark.parametrize(
    ("sent", "events"),
    [
        (b"data: a\n\n", [("", "a")]),
        (b"data:a\n\n", [("", "a")]),
        (b"data:  a\n\n", [("", " a")]),
        (b"data: a\r\n\r\n", [("", "a")]),
        (b"data: a\r\rdata: b\r\r", [("", "a"), ("", "b")]),
        (b"data: a\r\r\ndata: b\n\n", [("", "a"), ("", "b")]),
        (b"data: a\n\rdata: b\n\n", [("", "a"), ("", "b")]),
        (b"data: a\ndata: b\n\n", [("", "a\nb")]),
        (b"data: a\ndata\ndata:\n\n", [("", "a\n\n")]),
        (b"event: done\ndata: {}\nid: 7\nretry: 10\n\n", [("done", "{}")]),
        (b"event: a\n\nevent: b\ndata: x\n\n", [("a", ""), ("b", "x")]),
        (b": keep-alive\n\n", [("", "")]),
        (b": one\n: two\n\ndata: x\n\n", [("", ""), ("", "x")]),
        (b"\n\ndata: x\n\n", [("", ""), ("", ""), ("", "x")]),
        (b"\xef\xbb\xbfdata: x\n\n", [("", "x")]),
        (b"\xef\xbb", [("", "")]),
        (b"data: x\n\ndata: \xef\xbb\xbf\n\n", [("", "x"), ("", "\ufeff")]),
        (b"data: a: b\n\n", [("", "a: b")]),
        (b"data: \xff\n\n", [("", "\ufffd")]),
        (b"datum: a\n\n", [("", "")]),
        (b"data: cut", [("", "cut")]),
        (b"data: cut\r", [("", "cut")]),
        (b"data: a\n\ndata: [DONE]\n", [("", "a"), ("", "[DONE]")]),
        (b"", []),
    ],
    ids=repr,
)
def test_events_are_read_as_the_standard_says(sent: bytes, events: list[tuple[str, str]]) -> None:
    blocks = read(sent)
    assert [(block.name, block.data) for block in blocks] == events
    assert b"".join(block.raw for block in blocks) == sent


@given(
    st.lists(
        st.sampled_from([b"data: x", b"data:", b": c", b"event: e", b"\xef\xbb\xbf", b"\n", b"\r", b"\r\n"])
    ),
    st.data(),
)
def test_any_split_gives_the_same_events_and_every_byte_once(
    pieces: list[bytes], data: st.DataObject
) -> None:
    sent = b"".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=8)))
    chunks = [sent[a:b] for a, b in zip([0, *cuts], [*cuts, len(sent)], strict=True)]
    whole = read(sent)
    assert read(*chunks) == whole
    assert read(*(sent[at : at + 1] for at in range(len(sent)))) == whole
    assert b"".join(block.raw for block in whole) == sent


def test_an_event_is_given_out_as_soon_as_its_empty_line_is_there() -> None:
    for sent in (b"data: a\n\n", b"data: a\r\n\r\n", b"data: a\r\r"):
        reader = SseReader()
        assert [block.data for block in reader.feed(sent)] == ["a"]
        assert [block.data for block in reader.feed(sent)] == ["a"]


def test_an_event_without_an_end_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "LONGEST", 1000)
    reader = SseReader()
    reader.feed(b"data: " + b"x" * 900)
    with pytest.raises(EventTooLong, match="1000"):
        reader.feed(b"x" * 200)


def test_a_long_stream_costs_no_more_memory_than_one_event() -> None:
    reader = SseReader()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(100_000):
            assert len(reader.feed(b'data: {"choices": [{"delta": {"content": "word "}}]}\n\n')) == 1
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - before < 100_000
