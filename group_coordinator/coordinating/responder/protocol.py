"""What a responder's process and the process that has started it tell each other: a start and the groups over standard
input, in pieces, then statuses over standard output, one JSON object a line. When standard input ends, the responder
ends."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import IO, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from streaming.stored_group import Groups, ShardState

_LENGTH_BYTES = 8


class ResponderStart(Struct, frozen=True, kw_only=True):
    """A responder begins with this."""

    settings: dict[str, Any]
    """Of `StreamingConfig`."""
    partitions: dict[str, int]
    """The partitions that the topics have."""
    shard: int
    state: ShardState
    """Without its groups, which follow."""
    may_tick: bool
    """Whether it writes the clock while the coordinator does not."""


class ResponderStatus(Struct, frozen=True, kw_only=True):
    """How it goes with a responder."""

    answers: int = 0
    """Answers that it has given, since the start."""
    next_offset: int = 0
    """All events before this offset are answered."""
    lead_ms: int | None = None
    """How long before the query's last commit the responder had answered all that it brought; None: not known yet."""
    groups: int = 0
    state_bytes: int = 0
    """What the groups take as they are stored, about."""
    clock_ms: int = 0
    """The shard's clock, up to which all is answered; 0: there was no tick yet."""
    is_ticking: bool = False
    """It writes the clock: the coordinator's ticker is silent."""


class ExitCode(IntEnum):
    """The reason why a responder's process has ended."""

    ASKED = 0
    FAILED = 1
    REFUSED = 10
    """The query has another hash, or an answer has differed."""
    ALONE = 11
    """The query has said nothing for longer than a responder may answer without it."""


_encode = msgspec.msgpack.Encoder().encode
_decode_start = msgspec.msgpack.Decoder(ResponderStart).decode
_decode_groups = msgspec.msgpack.Decoder(Groups).decode
encode_line = msgspec.json.Encoder().encode
decode_status = msgspec.json.Decoder(ResponderStatus).decode


def write_start(stream: IO[bytes], start: ResponderStart, pieces: Iterable[Groups]) -> None:
    """Write a start to a responder's standard input, and the groups as they come."""
    _write(stream, _encode(start))
    for piece in pieces:
        _write(stream, _encode(piece))
    _write(stream, b"")
    stream.flush()


def read_start(stream: IO[bytes]) -> ResponderStart:
    """Read the start, its state with all groups. Raises EOFError if the stream ends before."""
    start = _decode_start(_read(stream))
    groups: Groups = {}
    while piece := _read(stream):
        groups.update(_decode_groups(piece))
    return replace(start, state=replace(start.state, groups=groups))


def _write(stream: IO[bytes], packed: bytes) -> None:
    stream.write(len(packed).to_bytes(_LENGTH_BYTES, "big"))
    stream.write(packed)


def _read(stream: IO[bytes]) -> bytes:
    length = stream.read(_LENGTH_BYTES)
    size = int.from_bytes(length, "big")
    packed = stream.read(size)
    if len(length) < _LENGTH_BYTES or len(packed) < size:
        raise EOFError("no start has come")
    return packed
