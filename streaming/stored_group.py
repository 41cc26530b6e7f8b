"""A shard as it is stored: its groups as bytes, and the place in its log up to which they are decided. No Spark here:
a responder takes it over in a process without it."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from coordinator_state import RuleChange


class StoredGroup(Struct, frozen=True, array_like=True):
    """A group that rests: its two blobs, and when it has to be woken."""

    next_deadline_ms: int | None
    membership: bytes
    offsets: bytes


class CommittedBatch(NamedTuple):
    """The last batch that the query of a shard has committed, as its checkpoint tells it."""

    batch_id: int
    start_offset: int | None
    """The batch begins at this offset of the events partition; None: at the beginning of the log."""
    end_offset: int
    clock_ms: int
    """The watermark of the batch; 0: there was no tick yet."""


class ShardState(Struct, frozen=True, kw_only=True):
    """The groups of a shard, and the place in its log up to which they are decided."""

    batch_id: int
    """The batch after which it is the state; -1: no batch is committed yet."""
    start_offset: int
    """The batch begins at this offset. Its ticks are to be read again: they are the clock of what follows."""
    end_offset: int
    """All events before this offset are in the state."""
    clock_ms: int
    """The shard's clock at `start_offset`."""
    rule_changes: tuple[RuleChange, ...] = ()
    """Those of the log, up to `end_offset` at least."""
    groups: dict[bytes, StoredGroup]
    """Key of a group's events -> the group. A deadline may be a millisecond too early."""


Groups = dict[bytes, StoredGroup]
PIECE_BYTES = 8 << 20
"""Groups of so many bytes pass from one process to another at a time, or one group that is larger."""


class StateInPieces(NamedTuple):
    """The state of a shard that may be larger than a process has memory for: it is read while it is handed on."""

    state: ShardState
    """Without any group."""
    pieces: Generator[Groups]
    """The groups. Reading them raises what `read_shard_state` raises."""

    def whole(self) -> ShardState:
        """Read all of it into memory."""
        groups = {key: group for piece in self.pieces for key, group in piece.items()}
        return replace(self.state, groups=groups)


def in_pieces(groups: Iterable[tuple[bytes, StoredGroup]]) -> Generator[Groups]:
    """Yield groups in pieces of about `PIECE_BYTES`."""
    piece: Groups = {}
    size = 0
    for key, group in groups:
        piece[key] = group
        size += size_of(key, group)
        if size >= PIECE_BYTES:
            yield piece
            piece, size = {}, 0
    if piece:
        yield piece


def size_of(key: bytes, group: StoredGroup) -> int:
    """Return the bytes of a group and its key."""
    return len(key) + len(group.membership) + len(group.offsets)
