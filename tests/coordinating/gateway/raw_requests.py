"""Requests written byte by byte."""

from __future__ import annotations

import struct


def produce(body: bytes) -> bytes:
    """Produce v9 with these topics, their number in front."""
    payload = b"\x00\x00\x00\x09\x00\x00\x00\x01\x00\x01a" + b"\x00" + b"\x00" + b"\xff\xff\x00\x00\x00\x01" + body
    return len(payload).to_bytes(4, "big") + payload


def varint(number: int) -> bytes:
    encoded = b""
    while number > 127:
        encoded, number = encoded + bytes([number & 127 | 128]), number >> 7
    return encoded + bytes([number])


def find_coordinators(keys: int, correlation_id: int = 1) -> bytes:
    """FindCoordinator v4 over so many groups."""
    count = keys + 1
    varint = b""
    while count > 127:
        varint, count = varint + bytes([count & 127 | 128]), count >> 7
    body = b"\x00" + varint + bytes([count]) + b"".join(b"\x06%05d" % number for number in range(keys)) + b"\x00"
    head = struct.pack(">hhih", 10, 4, correlation_id, 3) + b"adv\x00"
    return struct.pack(">i", len(head + body)) + head + body


def commit_of(partitions: int) -> bytes:
    """OffsetCommit v2 of so many partitions of a topic."""
    head = struct.pack(">hhih", 8, 2, 1, 3) + b"adv"
    body = (
        b"\x00\x01g"
        + struct.pack(">i", -1)
        + b"\x00\x00"
        + struct.pack(">qi", -1, 1)
        + b"\x00\x01t"
        + struct.pack(">i", partitions)
    )
    body += b"".join(struct.pack(">iqh", number, 1, -1) for number in range(partitions))
    return struct.pack(">i", len(head + body)) + head + body
