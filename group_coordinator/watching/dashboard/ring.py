"""The latest records of a group, compressed, oldest first out."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

CHUNK_BYTES = 8_192
_LENGTH_BYTES = 4


class Chunk(NamedTuple):
    """Some records in one piece."""

    number: int
    size: int
    """How many records."""
    raw_bytes: int
    packed: bytes

    def records(self) -> Iterator[bytes]:
        data, at = zlib.decompress(self.packed), 0
        while at < len(data):
            length = int.from_bytes(data[at : at + _LENGTH_BYTES], "big")
            at += _LENGTH_BYTES
            yield data[at : at + length]
            at += length


class RecordRing:
    """Holds values as they lie on the topic. Values are added one by one; whole chunks are taken away."""

    __slots__ = ("_next", "chunks", "count", "kept_bytes", "raw_bytes", "tail")

    def __init__(self) -> None:
        self.chunks: deque[Chunk] = deque()
        self.tail: list[bytes] = []
        """Not yet compressed."""
        self.count = 0
        self.raw_bytes = 0
        self.kept_bytes = 0
        """What it takes in memory."""
        self._next = 0

    def add(self, value: bytes) -> Chunk | None:
        """Add a value; a chunk that became full by it is returned."""
        self.tail.append(value)
        self.count += 1
        self.raw_bytes += len(value)
        self.kept_bytes += len(value)
        tail_bytes = sum(map(len, self.tail)) if len(self.tail) < 32 else CHUNK_BYTES
        return self._compress() if tail_bytes >= CHUNK_BYTES else None

    def drop_oldest(self) -> Chunk:
        """Take the oldest chunk away; there is one."""
        chunk = self.chunks.popleft()
        self.count -= chunk.size
        self.raw_bytes -= chunk.raw_bytes
        self.kept_bytes -= len(chunk.packed)
        return chunk

    def freeze(self) -> tuple[tuple[Chunk, ...], tuple[bytes, ...]]:
        """Return the present records, for another thread."""
        return tuple(self.chunks), tuple(self.tail)

    def _compress(self) -> Chunk:
        raw = sum(map(len, self.tail))
        framed = b"".join(len(value).to_bytes(_LENGTH_BYTES, "big") + value for value in self.tail)
        chunk = Chunk(self._next, len(self.tail), raw, zlib.compress(framed, 1))
        self._next += 1
        self.chunks.append(chunk)
        self.kept_bytes += len(chunk.packed) - raw
        self.tail = []
        return chunk


def values(frozen: tuple[tuple[Chunk, ...], tuple[bytes, ...]]) -> Iterator[bytes]:
    """Yield the values of what `freeze` gave, the oldest first."""
    chunks, tail = frozen
    for chunk in chunks:
        yield from chunk.records()
    yield from tail
