"""Bytes made a little wrong: what a careless or hostile sender, a torn file or a bad disk makes of good ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random

TOKENS = (
    b"{", b"}", b"[", b"]", b'"', b",", b":", b"null", b"true", b"-1", b"0", b"1e308", b"-1e999",
    b"9223372036854775807",
    b"9223372036854775808", b"-9223372036854775808", b"2147483648", b"99999999999999999999999", b'"\\ud800"', b'"\xff"',
    b'"\\u0000"', b"\xff", b"\x00", b"\xed\xa0\x80", b"\x80\x80\x80\x80\x80\x80", b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00", b"\xdf\xff\xff\xff\xff", b"\xc1", b'"type":"request"', b'"type":"tick"', b"\n", b"NaN",
    b"Infinity",
)  # fmt: skip
_NUMBER = re.compile(rb"-?\d+")
_STRING = re.compile(rb'"[^"\\]{0,60}"')


def mutated(data: bytes, corpus: Sequence[bytes], dice: Random) -> bytes:
    """`data` after one to four accidents. `corpus`: others of its kind, of which pieces may get into it."""
    for _ in range(dice.randint(1, 4)):
        data = dice.choice(_ACCIDENTS)(data, corpus, dice)
    return data


def _flip(data: bytes, corpus: Sequence[bytes], dice: Random) -> bytes:
    if not data:
        return data
    changed = bytearray(data)
    for _ in range(dice.choice((1, 1, 2, 8))):
        changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
    return bytes(changed)


def _cut(data: bytes, corpus: Sequence[bytes], dice: Random) -> bytes:
    return data[: dice.randint(0, len(data))]


def _drop(data: bytes, corpus: Sequence[bytes], dice: Random) -> bytes:
    start = dice.randint(0, len(data))
    return data[:start] + data[start + dice.choice((1, 1, 2, 4, 30)) :]


def _insert(data: bytes, corpus: Sequence[bytes], dice: Random) -> bytes:
    start = dice.randint(0, len(data))
    return data[:start] + dice.choice(TOKENS) * dice.choice((1, 1, 1, 3, 2_000)) + data[start:]


def _repeat(data: bytes, corpus: Sequence[bytes], dice: Random) -> bytes:
    start, size = dice.randint(0, len(data)), dice.choice((1, 4, 20, 100))
    return data[:start] + data[start : start + size] * dice.choice((2, 3, 50)) + data[start + size :]


def _splice(data: bytes, corpus: Sequence[bytes], dice: Random) -> bytes:
    other_data = dice.choice(corpus)
    return data[: dice.randint(0, len(data))] + other_data[dice.randint(0, len(other_data)) :]


def _replace_one(pattern: re.Pattern[bytes], data: bytes, by: bytes, dice: Random) -> bytes:
    matches = list(pattern.finditer(data))
    if not matches:
        return data
    chosen = dice.choice(matches)
    return data[: chosen.start()] + by + data[chosen.end() :]


def _other_number(data: bytes, corpus: Sequence[bytes], dice: Random) -> bytes:
    return _replace_one(_NUMBER, data, dice.choice((b"0", b"-1", b"1e308", b"32768", *TOKENS[9:16])), dice)


def _other_string(data: bytes, corpus: Sequence[bytes], dice: Random) -> bytes:
    other_strings = [match[0] for match in _STRING.finditer(dice.choice(corpus))] or [b'""']
    return _replace_one(
        _STRING, data, dice.choice((*other_strings, b'""', b'"' + b"x" * 40_000 + b'"', b"7", b"null", b'"\xff"')), dice
    )


_ACCIDENTS = (_flip, _cut, _drop, _insert, _repeat, _splice, _other_number, _other_string, _other_string, _other_number)
