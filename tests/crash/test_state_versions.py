"""State that older versions wrote is read by this one: blobs of every version, and a checkpoint of Spark's of each."""

from __future__ import annotations

import json
import re
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from coordinator_state import ClassicGroup, StateError, classic_group, decode_group, encode_group
from coordinator_state.classic.member import Member, Rebalance
from coordinator_state.group import Group, TopicRetention
from coordinator_state.offsets import CommittedOffset
from coordinator_state.state import STATE_VERSION
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from tests.crash import checkpoint_fixture
from tests.crash.outputs import Outputs, count, events_of, expected_of, written_of
from tests.crash.state_fixtures import STATE, features, in_words

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BLOBS = sorted(STATE.glob("*.bin"))
CHECKPOINTS = sorted(STATE.glob("*-checkpoint.tar.gz"))
NEVER_IN_A_HISTORY = {".offsets[].topic_id", ".pending_join.*.group_instance_id", ".members.*.awaiting_join.reply_partition",
                      ".members.*.awaiting_sync.reply_partition", ".next_publication_ms"}  # fmt: skip
"""Fields that no recorded history fills: reply partitions are 0 there, topic ids are not recorded, groups are small."""


def read(blob: Path) -> Group:
    membership, offsets = msgspec.msgpack.decode(blob.read_bytes(), type=tuple[bytes, bytes])
    return decode_group(membership, offsets)


def contains(actual: Any, stored: Any) -> bool:
    """Whether all that was kept is there; a later version may have more fields."""
    if isinstance(stored, dict):
        return isinstance(actual, dict) and all(
            name in actual and contains(actual[name], stored[name]) for name in stored
        )
    if isinstance(stored, list):
        return isinstance(actual, list) and len(actual) == len(stored) and all(map(contains, actual, stored))
    return bool(actual == stored)


@pytest.mark.parametrize("blob", BLOBS, ids=lambda blob: blob.stem)
def test_a_kept_state_is_read_to_the_last_field(blob: Path) -> None:
    group = read(blob)
    stored = json.loads(blob.with_suffix(".json").read_text())
    if blob.name.startswith("v1-"):
        del stored["members_bytes"]  # not all strings counted then
        body = classic_group(group)
        counted = body.members_bytes
        body.count_members()
        assert body.members_bytes == counted
    assert contains(in_words(group), stored)
    assert in_words(decode_group(*encode_group(group))) == in_words(group)


def test_every_version_that_was_ever_written_is_kept() -> None:
    for files in (BLOBS, CHECKPOINTS):
        versions = {int(re.match(r"v(\d+)-", file.name)[1]) for file in files}  # type: ignore[index]
        assert versions == set(range(1, STATE_VERSION + 1)), (
            "A state version is new: keep what it writes by `python -m tests.crash.state_fixtures`."
        )


def test_every_field_of_the_present_version_is_in_a_kept_state() -> None:
    """A field that was added without a new version shows here: its kept states are of those who did not have it."""
    stored_fields: set[str] = set()
    for blob in BLOBS:
        if blob.name.startswith(f"v{STATE_VERSION}-"):
            stored_fields |= features(json.loads(blob.with_suffix(".json").read_text()))
    expected_fields = {
        f".{name}" for name in (*Group.__struct_fields__, *ClassicGroup.__struct_fields__) if name != "body"
    }
    expected_fields |= {f".members.*.{name}" for name in Member.__struct_fields__}
    expected_fields |= {f".rebalance.{name}" for name in Rebalance.__struct_fields__}
    expected_fields |= {f".retention.*.{name}" for name in TopicRetention.__struct_fields__}
    expected_fields |= {f".offsets[].{name}" for name in CommittedOffset.__struct_fields__}
    assert expected_fields - stored_fields - NEVER_IN_A_HISTORY == set()


def test_a_version_that_is_not_known_is_told() -> None:
    with pytest.raises(StateError, match=f"version \\[{STATE_VERSION + 1}\\]"):
        decode_group(bytes([STATE_VERSION + 1]), bytes([STATE_VERSION]))


@pytest.mark.parametrize("archive", CHECKPOINTS, ids=lambda archive: archive.name.split("-")[0])
def test_a_kept_checkpoint_opens_and_goes_on(
    archive: Path, spark: SparkSession, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    config = checkpoint_fixture.config_of(kafka.bootstrap_servers, tmp_path / "checkpoint")
    report = checkpoint_fixture.make_topics(config)
    checkpoint_fixture.append(config, checkpoint_fixture.log())
    checkpoint_fixture.run_to_the_end(spark, config, report)
    assert list((tmp_path / "checkpoint").rglob("*.changelog")), (
        "a batch has written all of its state, not what changed"
    )

    log = events_of(config)
    assert [message.timestamp_ms for message in log] == [record.timestamp_ms for record in checkpoint_fixture.log()]
    done = names_of(expected_of(config, log[: len(checkpoint_fixture.first_half())]))
    missing: Outputs = {}
    for stream, outputs in expected_of(config, log).items():
        unwritten = [(name, record) for name, record in outputs if (stream, name) not in done]
        if unwritten:
            missing[stream] = unwritten
    assert count(missing) > 100
    written = written_of(config)
    assert {stream: [name for name, _ in outputs] for stream, outputs in written.outputs.items()} == {
        stream: [name for name, _ in outputs] for stream, outputs in missing.items()
    }
    assert bytes_of(written.outputs) == bytes_of(missing)


def names_of(outputs: Outputs) -> set[Any]:
    return {(stream, name) for stream, output in outputs.items() for name, _ in output}


def bytes_of(outputs: Outputs) -> list[Any]:
    return [(stream, name, record.key, record.value) for stream in sorted(outputs) for name, record in outputs[stream]]
