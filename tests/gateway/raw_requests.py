"""Requests written byte by byte."""

from __future__ import annotations


def produce(body: bytes) -> bytes:
    """Produce v9 with these topics, their number in front."""
    payload = b"\x00\x00\x00\x09\x00\x00\x00\x01\x00\x01a" + b"\x00" + b"\x00" + b"\xff\xff\x00\x00\x00\x01" + body
    return len(payload).to_bytes(4, "big") + payload


def varint(number: int) -> bytes:
    found = b""
    while number > 127:
        found, number = found + bytes([number & 127 | 128]), number >> 7
    return found + bytes([number])
