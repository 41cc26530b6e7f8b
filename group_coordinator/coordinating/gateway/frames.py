"""Kafka's frames: a length in four bytes, then as many bytes. A stream is cut into them; pure, no sockets.

A frame is taken whole, or let through in pieces as they come, so that a large one is never held in memory.
"""

from __future__ import annotations

from struct import Struct

import msgspec

LENGTH = Struct(">i")
CORRELATION = Struct(">i")
_HEAD = Struct(">hhih")
_NULL = -1


class FrameError(ValueError):
    """The stream is no sequence of Kafka frames; the connection cannot go on."""


class RequestHead(msgspec.Struct, frozen=True, gc=False):
    """Every request begins with this header, whatever its API and version (request header v1; tags may follow)."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    size: int
    """Bytes of the head: where the header's tags or the body begin."""


def frame(payload: bytes) -> bytes:
    """Return a payload with its length in front."""
    return LENGTH.pack(len(payload)) + payload


def parse_request_head(payload: bytes) -> RequestHead | None:
    """Parse the head of a request from the beginning of its payload; None if it needs more. Raises FrameError."""
    if len(payload) < _HEAD.size:
        return None
    api_key, api_version, correlation_id, client_id_size = _HEAD.unpack_from(payload)
    if client_id_size == _NULL:
        return RequestHead(api_key, api_version, correlation_id, None, _HEAD.size)
    if client_id_size < 0:
        raise FrameError(f"a client id of {client_id_size} bytes")
    size = _HEAD.size + client_id_size
    if len(payload) < size:
        return None
    try:
        client_id = payload[_HEAD.size : size].decode()
    except UnicodeDecodeError:
        raise FrameError("a client id that is no UTF-8") from None
    return RequestHead(api_key, api_version, correlation_id, client_id, size)


class FrameSplitter:
    """Cuts a stream into frames. Whoever reads looks at a frame's beginning, then takes it whole or in pieces."""

    __slots__ = ("_buffer", "_bytes_left", "_max_bytes", "_passing", "_start", "frames_passed")

    def __init__(self, max_bytes: int) -> None:
        """`max_bytes`: the longest payload that is accepted."""
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        self._start = 0
        self._bytes_left = 0
        """Bytes of the current frame that have not been let through yet."""
        self._passing = 0
        """Length of the current frame."""
        self.frames_passed = 0
        """Of those that were let through, how many were begun."""

    @property
    def mid_frame(self) -> bool:
        """True if a frame is being passed on whose end has not been seen."""
        return self._bytes_left > 0

    @property
    def passing(self) -> int:
        """Length of the frame that is being let through; 0: there is none whose end has not been seen."""
        return self._passing if self._bytes_left else 0

    @property
    def kept_bytes(self) -> int:
        """Bytes in memory, with those that were taken and not yet given back."""
        return len(self._buffer)

    @property
    def buffered(self) -> int:
        """Bytes that wait to be taken."""
        return len(self._buffer) - self._start

    def feed(self, data: bytes) -> None:
        """Take more of the stream."""
        if self._start:
            del self._buffer[: self._start]
            self._start = 0
        self._buffer += data

    def clear(self) -> None:
        """Drop the rest of the stream."""
        self._buffer = bytearray()
        self._start = self._bytes_left = 0

    @property
    def size(self) -> int:
        """Length of the next payload; 0 where it is not known yet. Raises FrameError."""
        return self._size() or 0

    @property
    def is_complete(self) -> bool:
        """True if the whole next frame is here. Raises FrameError for a length that is negative or beyond the bound."""
        size = self._size()
        return size is not None and self.buffered >= LENGTH.size + size

    def peek(self, count: int) -> bytes | None:
        """Return at most `count` bytes of the next payload; None if not even its length is here. Raises FrameError."""
        size = self._size()
        if size is None:
            return None
        begin = self._start + LENGTH.size
        return bytes(self._buffer[begin : begin + min(count, size)])

    def whole(self) -> bytes | None:
        """Take the next frame's payload; None: it is not complete yet. Raises FrameError."""
        size = self._size()
        if size is None:
            return None
        begin = self._start + LENGTH.size
        end = begin + size
        if end > len(self._buffer):
            return None
        self._start = end
        return bytes(self._buffer[begin:end])

    def piece(self, bytes_max: int | None = None) -> bytes:
        """Take what is here of the frame that is let through, its length included, `bytes_max` of it at the most;
        perhaps nothing."""
        if not self._bytes_left:
            size = self._size()
            if size is None:
                return b""
            self._bytes_left = self._passing = LENGTH.size + size
            self.frames_passed += 1
        end = min(
            self._start + (self._bytes_left if bytes_max is None else min(self._bytes_left, bytes_max)),
            len(self._buffer),
        )
        with memoryview(self._buffer) as view, view[self._start : end] as part:
            data = bytes(part)  # a slice of the buffer itself would be copied twice
        self._bytes_left -= len(data)
        self._start = end
        return data

    def _size(self) -> int | None:
        if self.buffered < LENGTH.size:
            return None
        size: int = LENGTH.unpack_from(self._buffer, self._start)[0]
        if not 0 <= size <= self._max_bytes:
            raise FrameError(f"a frame of {size} bytes; at most {self._max_bytes} are taken")
        return size
