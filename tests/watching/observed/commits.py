"""Records of committed offsets, made by hand."""

from __future__ import annotations

import json
from base64 import b64encode

from group_coordinator.watching.observed.offsets_log import Entry, LeftOut, raw_line, read_raw
from schemas.records import OffsetCommitKey, OffsetCommitValue
from tests.encoded_records import encode_key, encode_offset_commit_value


def commit(place: int, offset: int | None, producer: int | None = None, *, group_id: str = "g") -> Entry:
    """Return a record of topic t, partition 0."""
    key = encode_key(OffsetCommitKey(group_id, "t", 0))
    value = (
        None if offset is None else encode_offset_commit_value(OffsetCommitValue(offset=offset, commit_timestamp_ms=0))
    )
    line: dict[str, object] = {"partition": 7, "offset": place, "timestamp_ms": 1_000 + place, "key": text(key)}
    line["value"] = None if value is None else text(value)
    if producer is not None:
        line |= {"producer_id": producer, "producer_epoch": 3, "is_transactional": True}
    return read(line)


def marker(place: int, outcome: str, producer: int) -> Entry:
    line = {"partition": 7, "offset": place, "timestamp_ms": 1_000 + place, "key": "AAAAAQ==", "value": "AAAAAAAA"}
    return read({**line, "producer_id": producer, "producer_epoch": 3, "is_transactional": True, "control": outcome})


def read(line: dict[str, object]) -> Entry:
    read = read_raw(*raw_line(json.dumps(line).encode()))
    assert not isinstance(read, LeftOut)
    return read


def text(data: bytes) -> str:
    return b64encode(data).decode()
