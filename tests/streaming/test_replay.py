"""The invariant: a group's outputs are a function of its log and the settings, and of nothing else."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from group_coordinator.ground.output_files import write_files
from group_coordinator.proving.recordings.events_import import EventsImport
from schemas.output_records import OutputRecord
from schemas.records_file import Record, decode_record, encode_record
from streaming.event_log import EventLogError, read_records, records_of_files
from streaming.packed_outputs import output_records
from streaming.replay import replay_batch, replay_in_process
from streaming.session import prepare_session
from tests.proving.recordings.broker_logs import FIXTURES, followed_lines, lines_of
from tests.streaming import random_log
from tests.streaming.replays import CONFIG, in_process, output_order, write_log
from tests.streaming.streamed_replay import replay_streaming

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDINGS = FIXTURES / "recordings"
Outputs = dict[bytes | None, list[OutputRecord]]


@pytest.fixture(scope="module")
def log() -> list[Record]:
    return random_log.make_log(seed=1, groups=3, mixed_groups=3, requests=240)


@pytest.fixture(scope="module")
def log_file(log: list[Record], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_log(tmp_path_factory.mktemp("log") / "events.jsonl.gz", log)


@pytest.fixture(scope="module")
def expected(log: list[Record]) -> list[OutputRecord]:
    return in_process(log)


def test_the_log_is_worth_replaying(expected: list[OutputRecord]) -> None:
    history = Counter(
        json.loads(record.value or b"")["type"] for record in expected if record.topic.endswith("history")
    )
    for kind in (
        "group_stable", "member_expired", "member_left", "offsets_committed", "rebalance_completed",
        "consumer_member_joined", "member_reconciled", "members_reconciled", "group_converted", "regex_resolved",
    ):  # fmt: skip
        assert history[kind] > 0, history
    letters = Counter(record.headers["reason"] for record in expected if record.topic.endswith("dead-letters"))
    assert sum(letters.values()) == len(random_log.POISONS) - 1  # a tick that goes back is no dead letter
    assert letters["malformed_tick"] == 3


def test_a_batch_is_the_same_in_the_same_order(
    spark: SparkSession, log: list[Record], log_file: Path, expected: list[OutputRecord]
) -> None:
    prepare_session(spark, CONFIG)
    outputs = list(output_records(replay_batch(records_of_files(spark, [log_file]), CONFIG)))
    assert sorted(outputs, key=output_order) == expected
    assert outputs == [output for _, group_outputs in replay_in_process(log, CONFIG) for output in group_outputs]


def test_a_recording_is_followed_alike(spark: SparkSession, tmp_path: Path) -> None:
    """Of a log that begins late and has lines missing: known groups, gaps and leaders are events like others."""
    lines = lines_of(RECORDINGS / "chaos-b.request.log.gz")
    fifth = len(lines) // 5
    following = followed_lines(tmp_path, [*lines[fifth : 2 * fifth], *lines[3 * fifth :]])
    file = write_log(tmp_path / "events.jsonl", EventsImport(following))
    config = CONFIG.changed(**following.settings.all(), max_events_per_batch=100)
    expected = in_process(read_records([file]), config)
    types = {json.loads(record.value or b"")["type"] for record in expected if record.topic.endswith("history")}
    assert {"group_recorded", "recording_gap", "leader_elected"} <= types
    prepare_session(spark, config)
    records = records_of_files(spark, [file])
    assert sorted(output_records(replay_batch(records, config)), key=output_order) == expected
    assert sorted(output_records(replay_streaming(records, config, tmp_path / "stream")), key=output_order) == expected


@pytest.mark.parametrize(
    ("events_per_batch", "shuffle_partitions", "group_buckets"), [(1_000, 1, 0), (60, 1, 2), (23, 4, 0), (31, 2, 512)]
)
def test_a_stream_is_the_same_in_any_batches(
    spark: SparkSession, log_file: Path, expected: list[OutputRecord], tmp_path: Path,
    events_per_batch: int, shuffle_partitions: int, group_buckets: int,
) -> None:  # fmt: skip
    config = CONFIG.changed(
        max_events_per_batch=events_per_batch, shuffle_partitions=shuffle_partitions, group_buckets=group_buckets
    )
    prepare_session(spark, config)
    outputs = replay_streaming(records_of_files(spark, [log_file]), config, tmp_path)
    assert sorted(output_records(outputs), key=output_order) == expected


def test_hash_seeds_make_no_difference(log_file: Path, tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from tests.streaming.replays import CONFIG;"
        "from streaming.event_log import read_records; from streaming.replay import replay_in_process;"
        "from group_coordinator.ground.output_files import write_files;"
        "found = replay_in_process(read_records([Path(sys.argv[1])]), CONFIG);"
        "write_files((each for _, group in found for each in group), CONFIG.topics, Path(sys.argv[2]))"
    )
    root = Path(__file__).parents[2]
    digests = set()
    for seed in ("1", "2", "3"):
        directory = tmp_path / seed
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)}
        subprocess.run([sys.executable, "-c", program, str(log_file), str(directory)], env=environment, check=True)
        files = sorted(directory.iterdir())
        assert [file.name for file in files] == [
            f"{name}.jsonl" for name in ("assignments", "dead-letters", "history", "offsets", "responses")
        ]
        digests.add(hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest())
    assert len(digests) == 1


def without_origin(output: OutputRecord) -> Any:
    """An output without what says where its log lay."""
    if output.topic.endswith("dead-letters"):
        headers = {name: text for name, text in output.headers.items() if name not in ("partition", "offset")}
        return output.topic, output.key, output.value, headers
    value: Any = output.value
    if value is not None and not output.topic.endswith("offsets"):
        value = json.loads(value)
        for name in ("epoch", "answers_offset"):
            value.pop(name, None)
        for name in ("partition", "offset"):
            value.get("cause", {}).pop(name, None)
    return output.topic, output.partition, output.key, value, output.headers.get("seq")


def test_shards_make_no_difference_but_for_the_origin(log: list[Record], expected: list[OutputRecord]) -> None:
    sharded = in_process(random_log.resharded(log, 3), CONFIG.changed(shards=3))
    assert {output.headers["partition"] for output in sharded if output.topic.endswith("offsets")} > {"0"}

    def by_seq(outputs: list[OutputRecord]) -> list[str]:
        return sorted(json.dumps(without_origin(output), sort_keys=True, default=repr) for output in outputs)

    assert by_seq(sharded) == by_seq(expected)


def test_shards_stream_and_batch_alike(spark: SparkSession, log: list[Record], tmp_path: Path) -> None:
    config = CONFIG.changed(shards=3, max_events_per_batch=150)
    prepare_session(spark, config)
    sharded = random_log.resharded(log, 3)
    records = records_of_files(spark, [write_log(tmp_path / "events.jsonl", sharded)])
    assert sorted(output_records(replay_batch(records, config)), key=output_order) == in_process(sharded, config)
    streamed = replay_streaming(records, config, tmp_path / "work")
    assert sorted(output_records(streamed), key=output_order) == in_process(sharded, config)


def test_until_moves_the_end_of_the_log(spark: SparkSession, log: list[Record], log_file: Path, tmp_path: Path) -> None:
    prepare_session(spark, CONFIG)
    until_ms = log[-1].timestamp_ms + 3_600_000 if log[-1].timestamp_ms else 0
    expected = in_process(log, until_ms=until_ms)
    assert len(expected) > len(in_process(log))
    records = records_of_files(spark, [log_file])
    assert sorted(output_records(replay_batch(records, CONFIG, until_ms=until_ms)), key=output_order) == expected
    streamed = replay_streaming(records, CONFIG, tmp_path, until_ms=until_ms)
    assert sorted(output_records(streamed), key=output_order) == expected


def test_files_hold_the_outputs(expected: list[OutputRecord], tmp_path: Path) -> None:
    records_written: list[OutputRecord] = []
    write_files(expected, CONFIG.topics, tmp_path, on_record=records_written.append)
    assert records_written == expected
    for name in ("responses", "assignments", "offsets", "history", "dead-letters"):
        topic_records = [record for record in expected if record.topic == f"coordinator.{name}"]
        lines = [decode_record(line) for line in (tmp_path / f"{name}.jsonl").read_bytes().splitlines()]
        assert [(line.key, line.value, line.headers) for line in lines] == [
            (record.key, record.value, record.headers) for record in topic_records
        ]


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    file.write_bytes(encode_record(Record(partition=0, offset=0, timestamp_ms=1, key=b"g", value=b"")) + b"\nno json\n")
    with pytest.raises(EventLogError, match=r"events\.jsonl, line 2: "):
        list(read_records([file]))
    with pytest.raises(EventLogError, match="does not exist"):
        list(read_records([tmp_path / "absent.jsonl"]))
    with pytest.raises(EventLogError, match="must end in"):
        list(read_records([Path(__file__)]))
