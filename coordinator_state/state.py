"""The form in which a group lies in a row of the state: two blobs, led by a version.

The first blob has the shared part and the body of the group's kind, the second has the committed offsets: a heartbeat
need not decode offsets. The body is tagged with its kind, so a new kind adds a body and changes no version.

The second blob has a version of its own where transactions left something to keep: a program that knows of none refuses
such a group, and reads all others.

| version | what it changed |
| --- | --- |
| 1 | (the first) |
| 2 | offsets are counted, and so are all strings of a member |
| 3 | the shared part and the tagged body are apart; an offset names its place in the log |
| 4 | of the second blob only: it also has pending offsets and the last place seen in a log of transactions |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar, Union

import msgspec
from msgspec import Struct

from coordinator_state.group import Group, GroupBody, TopicRetention
from coordinator_state.offsets import Offsets
from coordinator_state.timers import Timers
from coordinator_state.topics_image import TopicsImage
from schemas.group_metadata_events import GroupConfiguration

STATE_VERSION = 3
TRANSACTIONS_VERSION = 4
_VERSION = bytes([STATE_VERSION])
_VERSION_WITH_TRANSACTIONS = bytes([TRANSACTIONS_VERSION])

AnyBody = TypeVar("AnyBody")
OlderReader = Callable[[memoryview, int], Group]
"""Reads the first blob, without its version byte, of an older version."""


class StateError(ValueError):
    """A state blob that this version cannot read."""


class _Stored(Struct, Generic[AnyBody], array_like=True, gc=False):
    """The first blob. Fields are only ever added at the end, each with a default."""

    group_id: str
    epoch: int
    seq: int
    now_ms: int
    timestamp_ms: int
    timers: Timers
    is_logged: bool
    retention: dict[str, TopicRetention]
    offsets_bytes: int | None
    body: AnyBody
    topics: TopicsImage | None = None
    configuration: GroupConfiguration | None = None
    next_publication_ms: int = 0


class StateCodec:
    """Writes and reads the groups of some kinds."""

    def __init__(self, bodies: tuple[type[GroupBody], ...], older: Mapping[int, OlderReader]) -> None:
        union: Any = Union[bodies]  # noqa: UP007 (built when the program runs)
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode: Callable[[memoryview], _Stored[GroupBody]] = msgspec.msgpack.Decoder(_Stored[union]).decode
        self._older = older

    def encode(self, group: Group) -> tuple[bytes, bytes]:
        """Return both blobs: the group and its offsets."""
        stored = _Stored(
            group.group_id, group.epoch, group.seq, group.now_ms, group.timestamp_ms, group.timers, group.is_logged,
            group.retention, group.offsets_bytes, group.body, group.topics, group.configuration,
            group.next_publication_ms,
        )  # fmt: skip
        offsets = group.offsets
        offsets_version = _VERSION_WITH_TRANSACTIONS if offsets.has_transactions else _VERSION
        return _VERSION + self._encode(stored), offsets_version + offsets.pack()

    def decode(self, membership: bytes, offsets: bytes) -> Group:
        """Read both blobs of this version or an older one. Raises `StateError` for another version or damaged bytes."""
        version, offsets_version = membership[0] if membership else 0, offsets[0] if offsets else 0
        readable_versions = (STATE_VERSION, *self._older)
        has_transactions = offsets_version == TRANSACTIONS_VERSION
        if version not in readable_versions or not (has_transactions or offsets_version in readable_versions):
            raise StateError(
                f"the state is of version {list(membership[:1])}/{list(offsets[:1])}, this program reads versions 1 "
                f"to {STATE_VERSION}"
            )
        blob = memoryview(membership)[1:]
        try:
            group = _group(self._decode(blob)) if version == STATE_VERSION else self._older[version](blob, version)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise StateError(f"the state is damaged: {error}") from None
        group.offsets = Offsets(bytes(offsets[1:]), has_transactions=has_transactions)
        return group


def _group(stored: _Stored[GroupBody]) -> Group:
    return Group(
        stored.group_id, stored.epoch, stored.body, stored.seq, stored.now_ms, stored.timestamp_ms, stored.timers,
        stored.is_logged, stored.retention, offsets_bytes=stored.offsets_bytes, topics=stored.topics,
        configuration=stored.configuration, next_publication_ms=stored.next_publication_ms,
    )  # fmt: skip
