"""Lines within a bound: what is longer is told with its length, and costs nothing."""

from __future__ import annotations

import gzip
import io
import tracemalloc

import pytest

from schemas.bounded_lines import KEPT_BYTES, LINE_MAX_BYTES, bounded_lines, longest_line_exceeds
from schemas.records_file import RecordsFileError, decode_event_record


class Letters(io.RawIOBase):
    """A stream of so many letters, and then of what follows."""

    def __init__(self, count: int, following: bytes = b"") -> None:
        self._left = count
        self._following = io.BytesIO(following)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if not self._left:
            return self._following.readinto(buffer)
        count = min(len(buffer), self._left)
        buffer[:count] = b"a" * count
        self._left -= count
        return count


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (b"", []),
        (b"a\nb\n", [(b"a\n", 0), (b"b\n", 0)]),
        (b"a\nb", [(b"a\n", 0), (b"b", 0)]),
        (b"12345\n", [(b"12345\n", 0)]),
        (b"123456\nb\n", [(b"123456", 7), (b"b\n", 0)]),
        (b"a\n1234567890", [(b"a\n", 0), (b"123456", 10)]),
        (b"\n\n", [(b"\n", 0), (b"\n", 0)]),
    ],
)
def test_lines(text: bytes, lines: list[tuple[bytes, int]]) -> None:
    assert list(bounded_lines(io.BytesIO(text), 5)) == lines


def test_a_line_of_a_gigabyte_costs_no_memory() -> None:
    stream = io.BufferedReader(Letters(2**30, b"\nlast\n"))
    tracemalloc.start()
    (long, length), last = bounded_lines(stream)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (len(long), length) == (KEPT_BYTES, 2**30 + 1)
    assert last == (b"last\n", 0)
    assert peak < 4 * LINE_MAX_BYTES


BOUND = 1024 * 1024


@pytest.mark.parametrize(
    ("lengths", "number"),
    [
        ([], None),
        ([BOUND] * 5, None),
        ([BOUND, BOUND + 1], 2),
        ([1, 2, BOUND + 1, 3], 3),
        ([BOUND + 1], 1),
        ([5] * 300_000, None),
    ],
)
def test_which_line_is_too_long(lengths: list[int], number: int | None) -> None:
    text = b"\n".join(b"a" * length for length in lengths)
    assert longest_line_exceeds(io.BytesIO(text), BOUND) == number
    assert longest_line_exceeds(io.BytesIO(text + b"\n"), BOUND) == number


def test_over_the_ends_of_pieces() -> None:
    text = b"a" * (3 * 1024 * 1024) + b"\n" + b"b" * 10
    packed = gzip.GzipFile(fileobj=io.BytesIO(gzip.compress(text)))
    assert longest_line_exceeds(packed, 3 * 1024 * 1024 - 1) == 1
    assert longest_line_exceeds(io.BytesIO(text), 3 * 1024 * 1024) is None


def test_a_record_that_is_too_long_is_refused_with_its_length() -> None:
    with pytest.raises(RecordsFileError, match="has 20,000,000 bytes"):
        decode_event_record(b"{", 20_000_000)
