"""The broker's real cleaner compacts our topic, and whoever reads what is left finds every group and offset."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, ResourceType
from typer.testing import CliRunner

from group_coordinator.command_line.main import app
from group_coordinator.coordinating.commands.groups import read_offsets
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from schemas.output_records import OutputRecord
from schemas.records import GroupMetadataKey
from streaming.config import StreamingConfig
from tests.encoded_records import encode_key
from tests.making_topics import alter
from tests.offsets_log.live_topic import Pairs, every_kind_of_record, make_topics, outputs_of, read, write
from tests.offsets_log.readers import LoggedGroups, read_groups, require_the_log_tells_the_groups
from tests.streaming.mixed_groups import SETTINGS
from tests.streaming.random_log import make_log
from tests.waiting import wait_until

SEGMENT_MS = 100
TIMEOUT_S = 90.0
LAST_KEY = encode_key(GroupMetadataKey("the last record, which stays in the active segment"))


@pytest.fixture
def eager_cleaner(admin: AdminClient) -> Iterator[None]:
    """A cleaner that looks for work all the time, not every 15 s."""
    alter(admin, ResourceType.BROKER, "1", {"log.cleaner.backoff.ms": "100"})
    yield
    alter(admin, ResourceType.BROKER, "1", {"log.cleaner.backoff.ms": None})


def write_in_segments(config: StreamingConfig, records: list[OutputRecord]) -> None:
    """Write in pieces, each into a segment of its own."""
    size = len(records) // 6 + 1
    for start in range(0, len(records), size):
        write(config, records[start : start + size])
        time.sleep(2 * SEGMENT_MS / 1_000)  # a segment ends by the broker's clock


def close_segments(config: StreamingConfig) -> None:
    """One more record in each partition: the segment before it is no longer the active one, which is never cleaned."""
    topic = config.topics.offsets
    write(
        config, [OutputRecord(topic, partition, LAST_KEY, None, {}) for partition in range(config.offsets_partitions)]
    )


def wait_for_compaction(config: StreamingConfig, topic: str, tombstones: set[bytes]) -> Pairs:
    """What is left when every key is there once, and those that were deleted not at all."""
    pairs_left: Pairs = []

    def is_compacted() -> bool:
        close_segments(
            config
        )  # each time: a tombstone goes with the second cleaning, and there must be something to clean
        pairs_left[:] = [(key, value) for key, value in read(config, topic) if key != LAST_KEY]
        counts = Counter(key for key, _ in pairs_left)
        return max(counts.values()) == 1 and not counts.keys() & tombstones

    def otherwise() -> str:
        return f"not compacted within {TIMEOUT_S:g} s: {Counter(key for key, _ in pairs_left).most_common(5)}"

    wait_until(is_compacted, TIMEOUT_S, otherwise, interval_s=5 * SEGMENT_MS / 1_000)
    return pairs_left


def require_the_command_shows(config: StreamingConfig, groups: LoggedGroups) -> None:
    """`group-coordinator groups` says the same of these groups as was rebuilt from the log,
    in its list and of each one."""
    arguments = [
        "groups", "--json", "--bootstrap-servers", config.bootstrap_servers, "--topic-prefix", config.topic_prefix,
    ]  # fmt: skip
    listed = [json.loads(line) for line in CliRunner().invoke(app, arguments).stdout.splitlines()]
    assert {group["group_id"] for group in listed} >= groups.classic.keys() | with_members(groups).keys()
    assert {group["group_id"] for group in listed} <= groups.classic.keys() | groups.consumer.keys()
    for group in listed:
        group_id = group["group_id"]
        description = json.loads(CliRunner().invoke(app, [*arguments, "--group", group_id]).stdout)
        assert in_short(description) == in_short(group)
        stored_consumer = groups.consumer.get(group_id)
        if stored_consumer is not None:
            expected, (state, epoch, member_ids) = stored_consumer.as_published({}), in_short(description)
            assert (state, epoch, {*member_ids}) == (expected["state"], expected["epochs"][0], {*expected["members"]})
        elif group["state"] in ("Stable", "Empty"):  # of the others the log has what they last were
            stored = groups.classic[group_id]
            assert in_short(description) == (stored.state.value, stored.generation_id, list(stored.members))
        committed = {
            (offset["topic"], offset["partition"]): (offset["current_offset"], offset["metadata"])
            for offset in description["offsets"]
        }
        assert {
            place: offset_and_metadata
            for place, offset_and_metadata in committed.items()
            if offset_and_metadata[0] is not None
        } == {place: (value.offset, value.metadata) for place, value in read_offsets(config, group_id).items()}


def with_members(groups: LoggedGroups) -> dict[str, object]:
    """The consumer groups with members, and their records. Others may be gone: as in Kafka, a join that is refused ends
    an empty group without tombstones."""
    return {group_id: group.records for group_id, group in groups.consumer.items() if group.has_members}


def in_short(description: dict[str, Any]) -> tuple[str, int, list[str]]:
    return (
        description["state"],
        description["generation_id"],
        [member["member_id"] for member in description["members"]],
    )


@pytest.mark.usefixtures("eager_cleaner")
def test_after_compaction_every_group_and_offset_is_there(
    kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str
) -> None:
    config = make_topics(kafka.bootstrap_servers, topic_prefix)
    topics = config.topics
    small = {"segment.ms": str(SEGMENT_MS), "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "0"}
    alter(admin, ResourceType.TOPIC, topics.offsets, dict(small))
    config = config.changed(**SETTINGS)
    log = make_log(11, groups=8, mixed_groups=6, requests=900, poisons=False, renewals=False)
    outputs = list(outputs_of(log, config))
    records = [output for output in outputs if output.topic == topics.offsets] + every_kind_of_record(config)
    write_in_segments(config, records)
    write(config, (output for output in outputs if output.topic == topics.assignments))

    latest = {record.key: record.value for record in records}
    tombstones = {key for key, value in latest.items() if key is not None and value is None}
    compacted = wait_for_compaction(config, topics.offsets, tombstones)
    assert tombstones
    assert len(compacted) < len(records) / 2

    groups = require_the_log_tells_the_groups(config, log)
    before = read_groups((record.key or b"", record.value, int(record.headers.get("epoch", 0))) for record in records)
    assert groups.classic == before.classic
    assert with_members(groups) == with_members(before)
    assert {group.state.value for group in groups.classic.values()} == {"Stable", "Empty"}
    assert with_members(groups)
    require_the_command_shows(config, groups)
