"""Readers of an offsets topic, for whoever has written one:
Kafka's own formatters, Kafka's dump of the log, and two that rebuild the groups."""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from uuid import UUID

from group_coordinator.coordinating.commands.groups import read_offsets
from group_coordinator.ground.kafka_topics.reader import headers_of, read_topic
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from group_coordinator.watching.commands.published_groups import read_snapshots
from schemas.history import GroupSnapshot
from schemas.kafka import records as kafka_records
from schemas.kafka.json_form import to_json
from schemas.records import (
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    UnknownKey,
    Value,
    decode_record,
)
from schemas.records_file import Record
from streaming.config import StreamingConfig
from tests.offsets_log.kafka_tools import console_consumer, dump_offsets_log
from tests.offsets_log.live_topic import read
from tests.offsets_log.stored_consumer_groups import (
    StoredConsumerGroup,
    StoredConsumerGroups,
    published,
    topic_names_of,
)
from tests.offsets_log.stored_groups import StoredGroup, StoredGroups

Json = dict[str, Any]
FORMATTERS = {1: "OffsetsMessageFormatter", 2: "GroupMetadataMessageFormatter"}
"""Type of key -> what prints it."""
CONSUMER_TYPES = (3, 4, 5, 6, 7, 8, 16)


def require_kafka_reads_as_we_do(kafka: EmbeddedKafka, config: StreamingConfig) -> list[Json]:
    """Kafka's formatters print every record of the topic as we read it; its dump of the log those that they pass over,
    which are those of consumer groups. Returns what was to be printed."""
    topic = config.topics.offsets
    expected = [as_printed(key, value) for key, value in read(config, topic)]
    for key_type, formatter in FORMATTERS.items():
        lines = console_consumer(config.bootstrap_servers, topic, formatter, records=len(expected))
        assert in_order(printed(lines)) == in_order(of_type(expected, key_type))
    dumped = [*of_dump(dump_offsets_log(kafka.data_directory, topic))]
    assert len(dumped) == len(expected)
    for key_type in CONSUMER_TYPES:
        assert in_order(of_type(dumped, key_type)) == in_order(of_type(expected, key_type))
    return expected


class LoggedGroups(NamedTuple):
    """The groups that an offsets topic tells of."""

    classic: dict[str, StoredGroup]
    consumer: dict[str, StoredConsumerGroup]


def read_groups(records: Iterable[tuple[bytes, bytes | None, int]]) -> LoggedGroups:
    """The groups that (key, value, epoch of the group) records leave behind."""
    classic, consumer = StoredGroups(), StoredConsumerGroups()
    for key, value, epoch in records:
        classic.replay(key, value)
        consumer.replay(key, value, epoch)
    found = consumer.groups
    # A commit alone makes a classic group, to whom it does not matter that there is a consumer group.
    return LoggedGroups({name: group for name, group in classic.groups.items() if name not in found}, found)


def require_the_log_tells_the_groups(config: StreamingConfig, log: Iterable[Record]) -> LoggedGroups:
    """Who knows the offsets topic only, knows every group that the assignments topic has, and its offsets.
    Returns them. The events in `log` have the names of topics, of which the offsets topic has ids."""
    topic, names = config.topics.offsets, topic_names_of(log)
    groups = read_groups(
        (message.key() or b"", message.value(), int(headers_of(message).get("epoch", 0)))
        for message in read_topic(config.client_properties, topic)
    )
    snapshots = {snapshot.group_id: snapshot for snapshot in read_snapshots(config)}
    for group_id in groups.consumer.keys() - snapshots.keys():
        # As in Kafka, a join that is refused ends an empty consumer group without tombstones.
        assert not groups.consumer[group_id].has_members, group_id
    assert groups.classic.keys() | groups.consumer.keys() >= snapshots.keys() >= groups.classic.keys()
    for group_id, snapshot in snapshots.items():
        assert snapshot.is_consumer_group == (group_id in groups.consumer), group_id
        if snapshot.is_consumer_group:
            assert groups.consumer[group_id].as_published(names) == published(snapshot, names), group_id
        elif snapshot.state in ("Stable", "Empty"):
            assert agrees(groups.classic[group_id], snapshot), group_id
    assert any(snapshot.state in ("Stable", "Empty") for snapshot in snapshots.values())
    for group_id, stored in groups.classic.items():
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


def of_type(records: list[Json], key_type: int) -> list[Json]:
    return [record for record in records if record["key"]["type"] == key_type]


def of_dump(text: str) -> Iterator[Json]:
    """The records in a dump of a log: before key and payload a line tells where the record lies."""
    decoder = json.JSONDecoder()
    for line in text.splitlines():
        place, is_record, rest = line.partition(" key: ")
        if is_record and place.startswith("| offset: "):
            key, end = decoder.raw_decode(rest)
            payload = rest[end:].removeprefix(" payload: ")
            value = None if payload == "<DELETE>" else json.loads(payload)
            key["type"] = int(key["type"])
            yield {"key": key, "value": value and value | {"version": int(value["version"])}}


def printed(lines: list[str]) -> Iterator[Json]:
    """The formatters print one object after the other, without an end of line."""
    text, decoder, position = "\n".join(lines), json.JSONDecoder(), 0
    while position < len(text):
        document, position = decoder.raw_decode(text, position)
        yield document


def as_printed(key: bytes, value: bytes | None) -> Json:
    """What Kafka should print, by our reading of the record."""
    decoded_key, decoded_value = decode_record(key, value)
    if isinstance(decoded_key, UnknownKey):
        return _consumer_record_as_printed(key, value)
    if isinstance(decoded_key, OffsetCommitKey):
        names = {"group": decoded_key.group_id, "topic": decoded_key.topic, "partition": decoded_key.partition}
    else:
        names = {"group": decoded_key.group_id}
    document = {"key": {"type": int.from_bytes(key[:2]), "data": names}, "value": None}
    if value is not None:
        assert decoded_value is not None
        version = int.from_bytes(value[:2])
        document["value"] = {"version": version, "data": _value_as_printed(decoded_value, version)}
    return document


def _consumer_record_as_printed(key: bytes, value: bytes | None) -> Json:
    record = kafka_records.decode_record(key, value)
    assert not isinstance(record, int), f"record type {record}"
    document = {"key": {"type": int.from_bytes(key[:2]), "data": to_json(f"{record.name}Key", 0, record.key)}}
    if record.value is None or record.version is None:
        return document | {"value": None}
    return document | {
        "value": {"version": record.version, "data": to_json(f"{record.name}Value", record.version, record.value)}
    }


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
