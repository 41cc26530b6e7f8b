"""Lines of a stream, none longer than a bound: a line of gigabytes costs no memory, whoever wrote it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

LINE_MAX_BYTES = 16 * 1024 * 1024
"""Far above any line that is honest: a group's answer with all its members is bounded by a fraction of it."""
KEPT_BYTES = 1_000
"""Of a line that is too long, for whoever tells of it."""
_PIECE_BYTES = 1024 * 1024


class ByteStream(Protocol):
    """A file that is open for reading bytes, packed or not."""

    def readline(self, size: int = -1, /) -> bytes: ...

    def read(self, size: int = -1, /) -> bytes: ...


def bounded_lines(stream: ByteStream, max_bytes: int = LINE_MAX_BYTES) -> Iterator[tuple[bytes, int]]:
    """Yield each line with 0. Of a line that is too long, yield the beginning with its full length in bytes."""
    while line := stream.readline(max_bytes + 1):
        if len(line) <= max_bytes or line.endswith(b"\n"):
            yield line, 0
            continue
        beginning, length = line[:KEPT_BYTES], len(line)
        del line
        while piece := stream.readline(_PIECE_BYTES):
            length += len(piece)
            if piece.endswith(b"\n"):
                break
        yield beginning, length


def too_long(length: int) -> str:
    """Return what is wrong with a line of so many bytes, for people."""
    return f"the line has {length:,} bytes; no line may have more than {LINE_MAX_BYTES:,}"


def longest_line_exceeds(stream: ByteStream, max_bytes: int = LINE_MAX_BYTES) -> int | None:
    """Return the number of the first line that is longer than `max_bytes`; None if none is. This is quicker than
    reading every line. `max_bytes` is at least the size of a piece, so that a line that is too long reaches over
    the end of one."""
    since, number = 0, 1
    while piece := stream.read(_PIECE_BYTES):
        first = piece.find(b"\n")
        if since + (len(piece) if first < 0 else first) > max_bytes:
            return number
        number += piece.count(b"\n")
        since = since + len(piece) if first < 0 else len(piece) - piece.rindex(b"\n") - 1
    return None
