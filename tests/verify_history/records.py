"""Records of the offsets log as histories compare them: sorted where Kafka keeps things in hash maps."""

from __future__ import annotations

from base64 import b64decode, b64encode
from itertools import groupby
from typing import Any

from msgspec.structs import replace

from coordinator_state import LogRecord, Output
from schemas.consumer_group_records import (
    CURRENT_MEMBER_TYPE,
    MEMBER_METADATA_TYPE,
    REGULAR_EXPRESSION_TYPE,
    TARGET_MEMBER_TYPE,
)
from schemas.kafka.records import decode_record as decode_any_record
from schemas.kafka.records import encode_record
from schemas.records import OFFSET_COMMIT_TYPE, GroupMetadataValue, decode_record
from schemas.wire import INT16, Reader
from tests.encoded_records import encode_group_metadata_value

Json = dict[str, Any]

_TYPE_DIGITS = 3
"""So many digits of base64 tell a record's type: its first two bytes, of which the first is 0."""
_UNORDERED_TYPES = frozenset({MEMBER_METADATA_TYPE, TARGET_MEMBER_TYPE, CURRENT_MEMBER_TYPE, REGULAR_EXPRESSION_TYPE})


def member_number(member_id: str) -> tuple[int, str]:
    digits = member_id[1:]
    return (int(digits), member_id) if member_id[:1] == "m" and digits.isdigit() else (0, member_id)


def recorded_records(records: list[Json]) -> list[Json]:
    """Return the records of a step as they are compared."""
    return _sorted_records(
        [
            {
                "at_ms": record["at_ms"],
                "group": record["key"].get("group") or record["key"].get("groupId") or "",
                "key": record["key_b64"],
                "value": record.get("value_b64"),
            }
            for record in records
        ]
    )


def written_records(outputs: list[Output]) -> list[Json]:
    return _sorted_records(
        [
            {
                "at_ms": output.time_ms,
                "group": output.group_id,
                "key": b64encode(output.key).decode(),
                "value": None
                if output.value is None
                else b64encode(_sorted_value(output.key, output.value)).decode(),
            }
            for output in outputs
            if isinstance(output, LogRecord)
        ]
    )


def _sorted_records(records: list[Json]) -> list[Json]:
    """The order of one group's records counts; that of different groups at one instant does not, nor that of
    neighbours of one type of a consumer group's, and of neighbouring tombstones of offsets."""
    ordered = sorted(records, key=lambda record: (record["at_ms"], record["group"]))
    runs = groupby(ordered, key=lambda record: (record["at_ms"], record["group"], record["key"][:_TYPE_DIGITS]))
    return [record for _, run in runs for record in _sorted_run(list(run))]


def _sorted_target(key: bytes, value: bytes) -> bytes:
    record = decode_any_record(key, value)
    assert not isinstance(record, int)
    assert record.value is not None
    topics = sorted(record.value["topic_partitions"], key=lambda topic: bytes(topic["topic_id"]))
    ordered = tuple([{**topic, "partitions": tuple(sorted(topic["partitions"]))} for topic in topics])
    _, encoded = encode_record(replace(record, value={**record.value, "topic_partitions": ordered}))
    assert encoded is not None
    return encoded


def _sorted_run(records: list[Json]) -> list[Json]:
    record_type = INT16.unpack_from(b64decode(records[0]["key"]))[0]
    if record_type == OFFSET_COMMIT_TYPE:
        runs = groupby(records, key=lambda record: record["value"] is None)
        return [
            record
            for are_tombstones, run in runs
            for record in (sorted(run, key=lambda record: str(record["key"])) if are_tombstones else run)
        ]
    if record_type not in _UNORDERED_TYPES:
        return records
    return sorted(records, key=lambda record: _name_order(b64decode(record["key"])))


def _name_order(key: bytes) -> tuple[bool, int, str]:
    """Member ids that a coordinator made come first, by their number; the others, and expressions, as strings."""
    reader = Reader(key)
    reader.int16()
    reader.string()
    name = reader.string()
    made = name[:1] == "m" and name[1:].isdigit()
    return (not made, int(name[1:]) if made else 0, name)


def _sorted_value(key: bytes, value: bytes) -> bytes:
    """Return a record with everything sorted that Kafka keeps in hash maps."""
    if INT16.unpack_from(key)[0] == TARGET_MEMBER_TYPE:
        return _sorted_target(key, value)
    _, decoded = decode_record(key, value)
    if not isinstance(decoded, GroupMetadataValue):
        return value
    members = tuple(sorted(decoded.members, key=lambda member: member_number(member.member_id)))
    return encode_group_metadata_value(replace(decoded, members=members), 3)
