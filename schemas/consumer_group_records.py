"""Records of consumer groups (KIP-848) in the offsets log, as bytes. `schemas.kafka.records` reads them.

Values are of version 0, the only one. Source: Kafka's ConsumerGroup*Key/Value.json (4.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from schemas.java_hash import java_string_order
from schemas.kafka.codec import encode
from schemas.wire import INT16, encode_string, encode_uuid

METADATA_TYPE = 3
PARTITION_METADATA_TYPE = 4
"""Topic metadata of a group, up to Kafka 4.0; since then only its tombstone is written."""
MEMBER_METADATA_TYPE = 5
TARGET_METADATA_TYPE = 6
TARGET_MEMBER_TYPE = 7
CURRENT_MEMBER_TYPE = 8
REGULAR_EXPRESSION_TYPE = 16

_VERSION = 0
_VERSION_BYTES = INT16.pack(_VERSION)


def group_key(record_type: int, group_id: str) -> bytes:
    """Return the key of a record of the group: types 3, 4 and 6. Raises `EncodeError` for a name that is too long."""
    return INT16.pack(record_type) + encode_string(group_id)


def named_key(record_type: int, group_id: str, name: str) -> bytes:
    """Return the key of a record of a member (types 5, 7 and 8) or of a regular expression (16).

    Raises `EncodeError` for a name that is too long.
    """
    return INT16.pack(record_type) + encode_string(group_id) + encode_string(name)


def metadata_value(epoch: int, metadata_hash: int) -> bytes:
    return _value("ConsumerGroupMetadata", {"epoch": epoch, "metadata_hash": metadata_hash})


def member_metadata_value(
    *,
    instance_id: str | None,
    rack_id: str | None,
    client_id: str,
    client_host: str,
    subscribed_topic_names: Iterable[str],
    subscribed_topic_regex: str,
    rebalance_timeout_ms: int,
    server_assignor: str | None,
    classic: tuple[int, Iterable[tuple[str, bytes]]] | None,
) -> bytes:
    """Return what a member asks for. `classic`: session timeout and protocols of one that uses the classic protocol."""
    classic_metadata = classic and {
        "session_timeout_ms": classic[0],
        "supported_protocols": tuple([{"name": name, "metadata": metadata} for name, metadata in classic[1]]),
    }
    values = {
        "instance_id": instance_id,
        "rack_id": rack_id,
        "client_id": client_id,
        "client_host": client_host,
        "subscribed_topic_names": tuple(sorted(subscribed_topic_names, key=java_string_order)),
        "subscribed_topic_regex": subscribed_topic_regex,
        "rebalance_timeout_ms": rebalance_timeout_ms,
        "server_assignor": server_assignor,
        "classic_member_metadata": classic_metadata,
    }
    return _value("ConsumerGroupMemberMetadata", values)


def target_metadata_value(assignment_epoch: int, assignment_timestamp_ms: int) -> bytes:
    return _value(
        "ConsumerGroupTargetAssignmentMetadata",
        {"assignment_epoch": assignment_epoch, "assignment_timestamp": assignment_timestamp_ms},
    )


def target_member_value(target: Iterable[tuple[str, tuple[int, ...]]]) -> bytes:
    """Return a member's target assignment: topics by id and partitions, in the order in which they are given."""
    topics = tuple([{"topic_id": encode_uuid(topic_id), "partitions": numbers} for topic_id, numbers in target])
    return _value("ConsumerGroupTargetAssignmentMember", {"topic_partitions": topics})


def current_member_value(
    member_epoch: int,
    previous_member_epoch: int,
    state: int,
    assigned: Mapping[str, Mapping[int, int]],
    pending_revocation: Mapping[str, Mapping[int, int]],
    *,
    with_epochs: bool = True,
) -> bytes:
    """Return what a member has: topic id -> partition -> the epoch in which it got the partition.

    `with_epochs`: the epochs are written, as from Kafka 4.3 on.
    """
    values = {
        "member_epoch": member_epoch,
        "previous_member_epoch": previous_member_epoch,
        "state": state,
        "assigned_partitions": _owned(assigned, with_epochs),
        "partitions_pending_revocation": _owned(pending_revocation, with_epochs),
    }
    return _value("ConsumerGroupCurrentMemberAssignment", values)


def regular_expression_value(topics: Iterable[str], version: int, timestamp_ms: int) -> bytes:
    """Return the topics that an expression was resolved to, the version of the cluster's image, and when it began."""
    values = {"topics": tuple(sorted(topics, key=java_string_order)), "version": version, "timestamp": timestamp_ms}
    return _value("ConsumerGroupRegularExpression", values)


def _owned(partitions: Mapping[str, Mapping[int, int]], with_epochs: bool) -> tuple[dict[str, Any], ...]:
    return tuple(
        [
            {
                "topic_id": encode_uuid(topic_id),
                "partitions": tuple(numbers := sorted(epochs)),
                "assignment_epochs": tuple([epochs[number] for number in numbers]) if with_epochs else None,
            }
            for topic_id, epochs in sorted(partitions.items(), key=lambda entry: entry[0])
        ]
    )


def _value(name: str, values: dict[str, Any]) -> bytes:
    return _VERSION_BYTES + encode(f"{name}Value", _VERSION, values)
