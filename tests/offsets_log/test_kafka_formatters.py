"""Kafka's own formatters of `__consumer_offsets` read our topic, and read in it what we do."""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from schemas.records import GroupMetadataValue, OffsetCommitKey, OffsetCommitValue, Value, decode_record
from streaming.embedded_kafka import EmbeddedKafka
from tests.offsets_log.kafka_tools import console_consumer
from tests.offsets_log.live_topic import every_kind_of_record, make_topics, outputs_of, read, write
from tests.streaming.log_story import story

Json = dict[str, Any]


def printed(lines: list[str]) -> Iterator[Json]:
    """The formatters print one object after the other, without an end of line."""
    text, decoder, position = "\n".join(lines), json.JSONDecoder(), 0
    while position < len(text):
        found, position = decoder.raw_decode(text, position)
        yield found


def as_printed(key: bytes, value: bytes | None) -> Json:
    """What a formatter should print, by our reading of the record."""
    decoded_key, decoded_value = decode_record(key, value)
    if isinstance(decoded_key, OffsetCommitKey):
        names = {"group": decoded_key.group_id, "topic": decoded_key.topic, "partition": decoded_key.partition}
    else:
        names = {"group": decoded_key.group_id}  # type: ignore[union-attr]
    shown = {"key": {"type": int.from_bytes(key[:2]), "data": names}, "value": None}
    if value is not None:
        assert decoded_value is not None
        version = int.from_bytes(value[:2])
        shown["value"] = {"version": version, "data": _value_as_printed(decoded_value, version)}
    return shown


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
    shown: Json = {"offset": value.offset, "metadata": value.metadata, "commitTimestamp": value.commit_timestamp_ms}
    if version == 1:
        shown["expireTimestamp"] = value.expire_timestamp_ms
    if version >= 3:
        shown["leaderEpoch"] = value.leader_epoch
    if value.topic_id is not None:
        shown["topicId"] = urlsafe_b64encode(UUID(value.topic_id).bytes).decode().rstrip("=")
    return shown


def in_order(records: Iterator[Json] | list[Json]) -> list[str]:
    """Four partitions are read in no order."""
    return sorted(json.dumps(each, sort_keys=True) for each in records)


@pytest.mark.parametrize("value_version", [3, 4])
def test_kafkas_formatters_print_our_topic_as_we_read_it(kafka: EmbeddedKafka, topic_prefix: str, value_version: int) -> None:
    config = make_topics(kafka.bootstrap_servers, topic_prefix)
    config = config.model_copy(update={"offset_commit_value_version": value_version})
    topic = config.topic_settings.topics.offsets
    written = [each for each in outputs_of(story(3, groups=5, requests=250), config) if each.topic == topic]
    written += every_kind_of_record(config)
    write(config, written)
    expected = [as_printed(key, value) for key, value in read(config, topic)]
    assert len(expected) == len(written)
    types = {(each["key"]["type"], each["value"] and each["value"]["version"]) for each in expected}
    assert types == {(1, 1), (1, value_version), (1, None), (2, 3), (2, None)}

    for key_type, formatter in ((1, "OffsetsMessageFormatter"), (2, "GroupMetadataMessageFormatter")):
        lines = console_consumer(kafka.bootstrap_servers, topic, formatter, records=len(written))
        of_this_type = [each for each in expected if each["key"]["type"] == key_type]
        assert in_order(printed(lines)) == in_order(of_this_type)
