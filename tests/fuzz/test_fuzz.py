"""Bytes that are wrong in all ways: told by the documented exception or read, at a cost in proportion to their number.

A handful of tries for each decoder in every run; `make fuzz SECONDS=600` goes on for as long as asked.
"""

from __future__ import annotations

import time
import tracemalloc
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.mutations import TOKENS, mutated
from tests.fuzz.targets import TARGETS, Target

TRIES = 150
SMALL, FACTOR = 10_000, 10
TIME_FLOOR_S = 0.05
MEMORY_MAX = 120
"""Bytes of memory for a byte of input: a JSON number of two characters is an object of 32 bytes in a list or dict."""

every_target = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)


@every_target
def test_good_examples_are_read(target: Target) -> None:
    """Otherwise everything below would look at refusals only."""
    read = 0
    for example in target.examples():
        try:
            target.decode(example)
        except target.allowed:
            continue
        read += 1
    assert read > len(target.examples()) / 2


@every_target
@settings(max_examples=TRIES, deadline=None)
@given(st.data())
def test_nothing_but_the_documented_exceptions(target: Target, data: st.DataObject) -> None:
    corpus = target.examples()
    example = data.draw(st.sampled_from(corpus))
    target.try_(mutated(example, corpus, data.draw(st.randoms(use_true_random=False))))


@every_target
@settings(max_examples=TRIES // 2, deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes(target: Target, data: bytes) -> None:
    target.try_(data)


def bombs(target: Target, size: int) -> list[bytes]:
    """Inputs that grow: tokens in a row, and good examples with a token, or a piece of their own, again and again."""
    dice = Random(7)
    all_bombs = [token * (size // len(token)) for token in TOKENS]
    for example in dice.choices(target.examples(), k=2):
        middle = len(example) // 2
        for piece in (b"[", b"{", b'{"a":', b"1,", b"[],", b"{},", b"\x01", b"\x00", example[middle:]):
            all_bombs.append(example[:middle] + piece * (size // max(1, len(piece))) + example[middle:])
    return all_bombs


@every_target
def test_cost_is_in_proportion_to_size(target: Target) -> None:
    small, large = bombs(target, SMALL), bombs(target, SMALL * FACTOR)
    tracemalloc.start()
    try:
        for data in large:
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            target.try_(data)
            used = tracemalloc.get_traced_memory()[1] - before
            assert used < MEMORY_MAX * len(data) + 2_000_000, f"{used} bytes of memory for {data[:80]!r}..."
    finally:
        tracemalloc.stop()
    for small_bomb, large_bomb in zip(small, large, strict=True):
        long_s = seconds(target, large_bomb)
        if long_s > TIME_FLOOR_S:
            assert long_s < 4 * FACTOR * max(seconds(target, small_bomb), TIME_FLOOR_S / FACTOR), (
                f"{long_s:.2f} s for {large_bomb[:80]!r}..."
            )


def seconds(target: Target, data: bytes) -> float:
    begun_s = time.process_time()
    target.try_(data)
    return time.process_time() - begun_s
