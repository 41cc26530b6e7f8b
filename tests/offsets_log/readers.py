"""Two readers of an offsets topic, for whoever has written one:
Kafka's own formatters, and one that rebuilds the groups."""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from coordinator_state.replay import StoredGroup
from group_coordinator.command_line.groups import read_offsets, read_snapshots
from schemas.history import GroupSnapshot
from schemas.records import GroupMetadataValue, OffsetCommitKey, OffsetCommitValue, Value, decode_record
from streaming.config import StreamingConfig
from tests.offsets_log.kafka_tools import console_consumer
from tests.offsets_log.live_topic import read
from tests.offsets_log.stored_groups import replay_offsets_log

Json = dict[str, Any]
FORMATTERS = {1: "OffsetsMessageFormatter", 2: "GroupMetadataMessageFormatter"}
"""Type of key -> what prints it."""


def require_kafka_reads_as_we_do(config: StreamingConfig) -> list[Json]:
    """Kafka's formatters print every record of the topic as we read it. Returns what was to be printed."""
    topic = config.topic_settings.topics.offsets
    expected = [as_printed(key, value) for key, value in read(config, topic)]
    for key_type, formatter in FORMATTERS.items():
        lines = console_consumer(config.bootstrap_servers, topic, formatter, records=len(expected))
        assert in_order(printed(lines)) == in_order(
            [record for record in expected if record["key"]["type"] == key_type]
        )
    return expected


def require_the_log_tells_the_groups(config: StreamingConfig) -> dict[str, StoredGroup]:
    """Who knows the offsets topic only, knows every group that the assignments topic has, and its offsets.
    Returns them."""
    groups = replay_offsets_log(read(config, config.topic_settings.topics.offsets))
    snapshots = {snapshot.group_id: snapshot for snapshot in read_snapshots(config)}
    assert groups.keys() == snapshots.keys()
    steady = [snapshot for snapshot in snapshots.values() if snapshot.state in ("Stable", "Empty")]
    assert steady
    for snapshot in steady:
        assert agrees(groups[snapshot.group_id], snapshot), snapshot.group_id
    for group_id, stored in groups.items():
        assert stored.offsets == read_offsets(config, group_id)
    return groups


def agrees(stored: StoredGroup, snapshot: GroupSnapshot) -> bool:
    """Whether the log tells the same of a group that is not rebalancing as the assignments topic."""
    members = [
        (member.member_id, member.group_instance_id, member.subscription, member.assignment)
        for member in stored.members.values()
    ]
    snapshot_members = [
        (member.member_id, member.group_instance_id, member.metadata, member.assignment) for member in snapshot.members
    ]
    return (stored.state.value, stored.generation_id, stored.leader_id, stored.protocol_name, members) == (
        snapshot.state, snapshot.generation_id, snapshot.leader_id, snapshot.protocol_name, snapshot_members,
    )  # fmt: skip


def printed(lines: list[str]) -> Iterator[Json]:
    """The formatters print one object after the other, without an end of line."""
    text, decoder, position = "\n".join(lines), json.JSONDecoder(), 0
    while position < len(text):
        document, position = decoder.raw_decode(text, position)
        yield document


def as_printed(key: bytes, value: bytes | None) -> Json:
    """What a formatter should print, by our reading of the record."""
    decoded_key, decoded_value = decode_record(key, value)
    if isinstance(decoded_key, OffsetCommitKey):
        names = {"group": decoded_key.group_id, "topic": decoded_key.topic, "partition": decoded_key.partition}
    else:
        names = {"group": decoded_key.group_id}  # type: ignore[union-attr]
    document = {"key": {"type": int.from_bytes(key[:2]), "data": names}, "value": None}
    if value is not None:
        assert decoded_value is not None
        version = int.from_bytes(value[:2])
        document["value"] = {"version": version, "data": _value_as_printed(decoded_value, version)}
    return document


def _value_as_printed(value: Value, version: int) -> Json:
    if isinstance(value, GroupMetadataValue):
        members = [
            {
                "memberId": member.member_id,
                "groupInstanceId": member.group_instance_id,
                "clientId": member.client_id,
                "clientHost": member.client_host,
                "rebalanceTimeout": member.rebalance_timeout_ms,
                "sessionTimeout": member.session_timeout_ms,
                "subscription": b64encode(member.subscription).decode(),
                "assignment": b64encode(member.assignment).decode(),
            }
            for member in value.members
        ]
        return {
            "protocolType": value.protocol_type,
            "generation": value.generation,
            "protocol": value.protocol,
            "leader": value.leader,
            "currentStateTimestamp": value.current_state_timestamp_ms,
            "members": members,
        }
    assert isinstance(value, OffsetCommitValue)
    document: Json = {"offset": value.offset, "metadata": value.metadata, "commitTimestamp": value.commit_timestamp_ms}
    if version == 1:
        document["expireTimestamp"] = value.expire_timestamp_ms
    if version >= 3:
        document["leaderEpoch"] = value.leader_epoch
    if value.topic_id is not None:
        document["topicId"] = urlsafe_b64encode(UUID(value.topic_id).bytes).decode().rstrip("=")
    return document


def in_order(records: Iterator[Json] | list[Json]) -> list[str]:
    """Four partitions are read in no order."""
    return sorted(json.dumps(record, sort_keys=True) for record in records)
