"""Records in a broker's offsets log, compared with ours; and what is special to those of consumer groups.

Kafka keeps members of classic groups, and a member's partitions, in hash maps, whose order means nothing where they are
what the member has; a target assignment's order counts, since Kafka's assignor goes on with it. What no request log
tells is not compared: the version of the cluster's topics at which a regular expression was resolved.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from operator import itemgetter
from typing import Any

from group_coordinator.proving.recordings.offsets_log import LoggedRecord
from schemas.consumer_group_records import (
    CURRENT_MEMBER_TYPE,
    MEMBER_METADATA_TYPE,
    REGULAR_EXPRESSION_TYPE,
    TARGET_MEMBER_TYPE,
)
from schemas.kafka.records import Record, decode_record, encode_record
from schemas.records import OFFSET_COMMIT_TYPE
from schemas.wire import INT16, DecodeError, encode_uuid, topic_id_text

_UNORDERED = frozenset({MEMBER_METADATA_TYPE, TARGET_MEMBER_TYPE, CURRENT_MEMBER_TYPE, REGULAR_EXPRESSION_TYPE})
_TIMES = {
    "OffsetCommit": ("commit_timestamp", "expire_timestamp"),
    "GroupMetadata": ("current_state_timestamp",),
    "ConsumerGroupTargetAssignmentMetadata": ("assignment_timestamp",),
    "ConsumerGroupRegularExpression": ("timestamp",),
}
_NOT_COMPARED = {"ConsumerGroupRegularExpression": ("version",)}
_NO_EPOCH = -1
_OWNED = ("assigned_partitions", "partitions_pending_revocation")


def has_no_order(key: bytes, value: bytes | None) -> bool:
    """Return whether Kafka writes such records in the order of a hash map: of several members or expressions, and of
    several offsets that are dropped."""
    record_type = INT16.unpack_from(key)[0]
    return record_type in _UNORDERED or (record_type == OFFSET_COMMIT_TYPE and value is None)


def same_record(key: bytes, value: bytes | None, recorded: LoggedRecord, tolerance_ms: int) -> bool:
    """Return whether two records are equal to the byte, but for times up to `tolerance_ms` apart and what Kafka leaves
    to the order of a hash map."""
    if key != recorded.key or value is None or recorded.value is None:
        return key == recorded.key and value is recorded.value
    ours, theirs = _decoded(key, value), _decoded(key, recorded.value)
    assert ours.value is not None
    assert theirs.value is not None
    # The recorded value must also be exactly what our encoder makes of it.
    if encode_record(theirs)[1] != recorded.value:
        return False
    times = _TIMES.get(ours.name, ())
    if any(abs(ours.value.get(time, 0) - theirs.value.get(time, 0)) > tolerance_ms for time in times):
        return False
    left_out = (*times, *_NOT_COMPARED.get(ours.name, ()))
    return ours.version == theirs.version and _comparable(ours.value, left_out) == _comparable(theirs.value, left_out)


def _comparable(value: dict[str, Any], left_out: Collection[str]) -> dict[str, Any]:
    comparable = {name: field for name, field in value.items() if name not in left_out}
    if "members" in comparable:
        comparable["members"] = sorted(comparable["members"], key=itemgetter("member_id"))
    for name in _OWNED:
        if name in comparable:
            comparable[name] = sorted(_epochs(topic) for topic in comparable[name])
    return comparable


def _epochs(topic: dict[str, Any]) -> tuple[bytes, list[tuple[int, int]]]:
    """Return partitions with their epochs, which Kafka writes from 4.3 on; without them, with `_NO_EPOCH`."""
    partitions = topic["partitions"]
    epochs = topic.get("assignment_epochs") or (_NO_EPOCH,) * len(partitions)
    return encode_uuid(_text(topic["topic_id"])), sorted(zip(partitions, epochs, strict=True))


def _text(topic_id: bytes) -> str:
    return topic_id_text(topic_id) or ""


def describe_record(key: bytes, value: bytes | None) -> str:
    """Describe a record, with the times in it."""
    record = _decoded(key, value)
    name = record.name.removeprefix("ConsumerGroup")
    fields = ", ".join(f"{field}={_shown(part)}" for field, part in record.key.items())
    if record.value is None:
        return f"{name}({fields}) = tombstone"
    values = ", ".join(f"{field}={_shown(part)}" for field, part in record.value.items())
    return f"{name}({fields}) = v{record.version} {values}"


def _shown(part: object) -> str:
    """A field for people: topic ids as they are written elsewhere."""
    if isinstance(part, dict):
        return "{" + ", ".join(f"{name}: {_shown(value)}" for name, value in part.items()) + "}"
    if isinstance(part, tuple | list):
        return "[" + ", ".join(map(_shown, part)) + "]"
    if isinstance(part, bytes) and len(part) == len(encode_uuid("0" * 8 + "-0000-0000-0000-" + "0" * 12)):
        return _text(part)
    return re.sub(r"\s+", " ", str(part))


def _decoded(key: bytes, value: bytes | None) -> Record:
    record = decode_record(key, value)
    if isinstance(record, int):
        raise DecodeError(f"no record of a consumer group: type {record}", 0)
    return record
