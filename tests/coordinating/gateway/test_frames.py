"""Frames out of streams, whatever the pieces in which they come."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from group_coordinator.coordinating.gateway.frames import LENGTH, FrameError, FrameSplitter, frame, parse_request_head

_PAYLOADS = st.lists(st.tuples(st.binary(max_size=200), st.booleans()), max_size=12)


def _pieces(stream: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    return [stream[start:end] for start, end in pairwise(edges)]


@given(payloads=_PAYLOADS, cuts=st.lists(st.integers(min_value=0), max_size=30))
def test_whole_or_in_pieces_what_comes_out_is_what_went_in(payloads: list[tuple[bytes, bool]], cuts: list[int]) -> None:
    stream = b"".join(frame(payload) for payload, _ in payloads)
    splitter = FrameSplitter(1_000)
    payloads_taken: list[bytes] = []
    let_through = b""
    choices = iter([takes_whole for _, takes_whole in payloads])
    takes_whole: bool | None = None
    for piece in _pieces(stream, cuts):
        splitter.feed(piece)
        while True:
            is_within = splitter.mid_frame
            if is_within:
                let_through += splitter.piece()
                is_within = splitter.mid_frame
                if is_within:
                    break
                continue
            if takes_whole is None:
                if splitter.peek(1) is None:
                    break
                takes_whole = next(choices)
            if takes_whole:
                payload = splitter.whole()
                if payload is None:
                    break
                payloads_taken.append(payload)
            else:
                let_through += splitter.piece()
            takes_whole = None
    assert payloads_taken == [payload for payload, takes in payloads if takes]
    assert let_through == b"".join(frame(payload) for payload, takes in payloads if not takes)
    assert splitter.buffered == 0


def test_looks_at_a_beginning_without_taking_it() -> None:
    splitter = FrameSplitter(100)
    splitter.feed(frame(b"abcdef")[:7])
    assert (splitter.peek(2), splitter.peek(100), splitter.is_complete, splitter.whole()) == (
        b"ab",
        b"abc",
        False,
        None,
    )
    splitter.feed(b"defnext")
    assert (splitter.peek(100), splitter.is_complete, splitter.size) == (b"abcdef", True, 6)
    assert splitter.whole() == b"abcdef"


@pytest.mark.parametrize("length", [-1, -(2**31), 101, 2**31 - 1])
def test_bounds(length: int) -> None:
    splitter = FrameSplitter(100)
    splitter.feed(LENGTH.pack(length))
    for look in (splitter.whole, splitter.piece, lambda: splitter.peek(1), lambda: splitter.is_complete):
        with pytest.raises(FrameError, match="at most 100"):
            look()


def test_what_was_taken_is_not_kept() -> None:
    splitter = FrameSplitter(1_000)
    for _ in range(1_000):
        splitter.feed(frame(bytes(500)))
        splitter.whole()
    splitter.feed(b"")
    assert splitter.buffered == 0
    assert splitter.kept_bytes == 0


@pytest.mark.parametrize(
    ("payload", "client_id"),
    [(b"\x00\x0c\x00\x04\x00\x00\x00\x07\xff\xff", None), (b"\x00\x0c\x00\x04\x00\x00\x00\x07\x00\x02meXX", "me")],
)
def test_heads(payload: bytes, client_id: str | None) -> None:
    for end in range(10 + len(client_id or "")):
        assert parse_request_head(payload[:end]) is None
    head = parse_request_head(payload)
    assert head is not None
    assert (head.api_key, head.api_version, head.correlation_id, head.client_id, head.size) == (
        12, 4, 7, client_id, 10 + len(client_id or ""),
    )  # fmt: skip


@pytest.mark.parametrize(
    "payload", [b"\x00\x0c\x00\x04\x00\x00\x00\x07\xff\xfe", b"\x00\x0c\x00\x04\x00\x00\x00\x07\x00\x02\xff\xff"]
)
def test_heads_that_are_none(payload: bytes) -> None:
    with pytest.raises(FrameError):
        parse_request_head(payload)
