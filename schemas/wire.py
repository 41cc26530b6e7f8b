"""Kafka's wire primitives: what records and the consumer protocol are made of, read and written.

Big-endian throughout. Strings and byte strings exist in a classic form (fixed length prefix) and, in flexible versions,
in a compact one (unsigned varint of length + 1); `compact` chooses. Source: Kafka's protocol guide, KIP-482.

Text is handled as Java does it: bytes that are no UTF-8 read as U+FFFD, a lone surrogate is written as `?`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from struct import Struct
from typing import Any, TypeVar

BOOL = Struct(">?")
INT8 = Struct(">b")
INT16 = Struct(">h")
INT32 = Struct(">i")
INT64 = Struct(">q")
UINT16 = Struct(">H")
UINT32 = Struct(">I")
FLOAT64 = Struct(">d")

NO_TOPIC_ID = bytes(16)
STRING_SIZE_MAX = 32_767
"""Longest string in bytes of UTF-8, in either form."""
_VARINT_BITS = 32
_ONE_BYTE = tuple(bytes([value]) for value in range(0x80))
_UUID_SIZE = 16
_TAG_SIZE_MIN = 2

Item = TypeVar("Item")


class DecodeError(ValueError):
    """The bytes are not what they should be: `reason`, and the `position` of the byte at which it showed."""

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(reason, position)
        self.reason = reason
        self.position = position

    def __str__(self) -> str:
        return f"{self.reason} at byte {self.position}"


class EncodeError(ValueError):
    """The value has no form on the wire: a string that is too long, a number that does not fit."""


class Reader:
    """Reads primitives one after the other; every method raises `DecodeError` and nothing else.

    A length or count is checked against the bytes that are left before anything is allocated for it, so memory is
    linear in the input.
    """

    __slots__ = ("_data", "position")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    @property
    def remaining(self) -> int:
        """Bytes not read yet."""
        return len(self._data) - self.position

    def end(self) -> None:
        """Raise `DecodeError` unless everything has been read."""
        if self.remaining:
            raise DecodeError(f"{self.remaining} bytes too many", self.position)

    def numbers(self, layout: Struct) -> tuple[Any, ...]:
        """Read several numbers at once."""
        try:
            values = layout.unpack_from(self._data, self.position)
        except struct.error:
            self._insist(layout.size)
            raise
        self.position += layout.size
        return values

    def int8(self) -> int:
        return self._fixed(INT8)

    def int16(self) -> int:
        return self._fixed(INT16)

    def int32(self) -> int:
        return self._fixed(INT32)

    def int64(self) -> int:
        return self._fixed(INT64)

    def uint16(self) -> int:
        return self._fixed(UINT16)

    def uint32(self) -> int:
        return self._fixed(UINT32)

    def float64(self) -> float:
        return self._fixed(FLOAT64)

    def unsigned_varint(self) -> int:
        """Read up to 32 bits, seven to a byte, the lowest first."""
        position = self.position
        if position < len(self._data) and (value := self._data[position]) < 0x80:  # nearly always
            self.position = position + 1
            return value
        value = 0
        for shift in range(0, _VARINT_BITS, 7):
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >> _VARINT_BITS:
                    break
                return value
        raise DecodeError("varint longer than 32 bits", self.position)

    def fixed(self, size: int) -> bytes:
        """Read so many bytes."""
        return self._take(size)

    def uuid(self) -> str:
        """Read a uuid as text: lower case, with hyphens."""
        return uuid_text(self._take(_UUID_SIZE))

    def string(self, compact: bool = False) -> str:
        text = self.nullable_string(compact)
        if text is None:
            raise DecodeError("null string", self.position)
        return text

    def compact_string(self) -> str:
        text = self.nullable_string(True)
        if text is None:
            raise DecodeError("null string", self.position)
        return text

    def nullable_string(self, compact: bool = False) -> str | None:
        size = self.unsigned_varint() - 1 if compact else self._fixed(INT16)
        if size < 0:
            return None
        if size > STRING_SIZE_MAX:
            raise DecodeError(f"string of {size} bytes, longer than {STRING_SIZE_MAX}", self.position)
        start = self.position
        end = start + size
        if end > len(self._data):
            self._insist(size)
        self.position = end
        return self._data[start:end].decode("utf-8", "replace")

    def compact_nullable_string(self) -> str | None:
        return self.nullable_string(compact=True)

    def blob(self, compact: bool = False) -> bytes:
        """Read a value of Kafka's type `bytes`."""
        return self._present(self.nullable_blob(compact), "byte string")

    def nullable_blob(self, compact: bool = False) -> bytes | None:
        size = self._size(compact)
        return None if size < 0 else self._take(size)

    def array(self, item: Callable[[], Item], item_size_min: int, compact: bool = False) -> list[Item]:
        """Read an array. `item` reads an item, which takes at least `item_size_min` bytes (1 or more)."""
        return [item() for _ in range(self._count(item_size_min, compact))]

    def nullable_array(self, item: Callable[[], Item], item_size_min: int, compact: bool = False) -> list[Item] | None:
        """Read an array as `array`, or None for null."""
        count = self._size(compact)
        if count < 0:
            return None
        self._insist(count * item_size_min)
        return [item() for _ in range(count)]

    def int32_array(self) -> tuple[int, ...]:
        layout = Struct(f">{self._count(INT32.size, compact=False)}i")
        values: tuple[int, ...] = layout.unpack(self._take(layout.size))
        return values

    def tagged_fields(self) -> dict[int, bytes]:
        """Read the tag section that ends every struct of a flexible version."""
        count = self.unsigned_varint()
        if not count:  # nearly always
            return {}
        self._insist(count * _TAG_SIZE_MIN)
        fields = {}
        for _ in range(count):
            tag = self.unsigned_varint()
            fields[tag] = self._take(self.unsigned_varint())
        return fields

    def known_tagged_fields(self, readers: Mapping[int, Callable[[Reader], Item]]) -> dict[int, Item]:
        """Read tagged fields, each by the reader of its tag; tags without a reader are skipped."""
        count = self.unsigned_varint()
        self._insist(count * _TAG_SIZE_MIN)
        fields = {}
        for _ in range(count):
            tag, size = self.unsigned_varint(), self.unsigned_varint()
            self._insist(size)
            end = self.position + size
            if tag in readers:
                fields[tag] = readers[tag](self)
                if self.position != end:
                    raise DecodeError(f"tagged field {tag} does not end where it should", self.position)
            self.position = end
        return fields

    def _size(self, compact: bool) -> int:
        """Length of a byte string or count of an array; negative for null."""
        return self.unsigned_varint() - 1 if compact else self.int32()

    def _count(self, item_size_min: int, compact: bool) -> int:
        count = self._size(compact)
        if count < 0:
            raise DecodeError("null array", self.position)
        self._insist(count * item_size_min)
        return count

    def _fixed(self, layout: Struct) -> int:
        try:
            value: int = layout.unpack_from(self._data, self.position)[0]
        except struct.error:
            self._insist(layout.size)
            raise
        self.position += layout.size
        return value

    def _take(self, size: int) -> bytes:
        self._insist(size)
        start = self.position
        self.position = start + size
        return self._data[start : self.position]

    def _insist(self, size: int) -> None:
        if size > len(self._data) - self.position:
            raise DecodeError(f"{size} bytes needed, {self.remaining} left", self.position)

    def _present(self, value: Item | None, kind: str) -> Item:
        if value is None:
            raise DecodeError(f"null {kind}", self.position)
        return value


class BoundedReader(Reader):
    """A reader that takes only so many items of arrays: each costs far more than its bytes."""

    __slots__ = ("_items_left", "_items_max")

    def __init__(self, data: bytes, items_max: int) -> None:
        super().__init__(data)
        self._items_max = self._items_left = items_max

    def array(self, item: Callable[[], Item], item_size_min: int, compact: bool = False) -> list[Item]:
        return [self._counted(item) for _ in range(self._count(item_size_min, compact))]

    def nullable_array(self, item: Callable[[], Item], item_size_min: int, compact: bool = False) -> list[Item] | None:
        return super().nullable_array(lambda: self._counted(item), item_size_min, compact)

    def _counted(self, item: Callable[[], Item]) -> Item:
        self._items_left -= 1
        if self._items_left < 0:
            raise DecodeError(f"more than {self._items_max} items", self.position)
        return item()


def pack(layout: Struct, *values: int) -> bytes:
    """Pack numbers in a fixed layout. Raises `EncodeError` if a number has more bits than its place."""
    try:
        return layout.pack(*values)
    except struct.error as error:
        raise EncodeError(str(error)) from None


def encode_unsigned_varint(value: int) -> bytes:
    if 0 <= value < 0x80:
        return _ONE_BYTE[value]
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def uuid_text(encoded: bytes) -> str:
    """Return the 16 bytes of a uuid as text: lower case, with hyphens."""
    digits = encoded.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def topic_id_text(encoded: bytes) -> str | None:
    """Return a topic's id as text; None for the zero uuid, with which Kafka says that there is no id."""
    return None if encoded == NO_TOPIC_ID else uuid_text(encoded)


def encode_uuid(text: str) -> bytes:
    """Return the 16 bytes of a uuid in hexadecimal, with or without hyphens. Raises `EncodeError` for other text."""
    try:
        encoded = bytes.fromhex(text.replace("-", ""))
    except ValueError:
        encoded = b""
    if len(encoded) != _UUID_SIZE:
        raise EncodeError(f"not a uuid: {text!r}")
    return encoded


def encode_string(text: str, compact: bool = False) -> bytes:
    """Encode a string of at most `STRING_SIZE_MAX` bytes. Raises `EncodeError` if it is longer."""
    encoded = text.encode("utf-8", "replace")
    size = len(encoded)
    if size > STRING_SIZE_MAX:
        raise EncodeError(f"string of {size} bytes, longer than {STRING_SIZE_MAX}")
    return (encode_unsigned_varint(size + 1) if compact else INT16.pack(size)) + encoded


def encode_nullable_string(text: str | None, compact: bool = False) -> bytes:
    if text is None:
        return b"\x00" if compact else b"\xff\xff"
    return encode_string(text, compact)


def encode_blob(data: bytes, compact: bool = False) -> bytes:
    """Encode a value of Kafka's type `bytes`."""
    size = len(data)
    return (encode_unsigned_varint(size + 1) if compact else INT32.pack(size)) + data


def encode_nullable_blob(data: bytes | None, compact: bool = False) -> bytes:
    if data is None:
        return b"\x00" if compact else b"\xff\xff\xff\xff"
    return encode_blob(data, compact)


def encode_count(count: int, compact: bool = False) -> bytes:
    """Encode the prefix of an array of `count` items, or of a byte string of `count` bytes."""
    return encode_unsigned_varint(count + 1) if compact else INT32.pack(count)


def encode_int32_array(values: Sequence[int]) -> bytes:
    return pack(Struct(f">i{len(values)}i"), len(values), *values)
