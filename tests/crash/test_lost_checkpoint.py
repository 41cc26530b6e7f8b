"""A checkpoint that is gone: nothing is decided anew unawares, and a rebuild writes the same bytes once more."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer, TopicPartition

from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from schemas.events import encode_tick
from schemas.query_progress import WRITER_HEADER
from schemas.records_file import Record
from streaming.application import Application
from streaming.checkpoints import CheckpointError, require_checkpoints
from streaming.config import StreamingConfig
from streaming.session import prepare_session
from tests.crash.coordinators import TIMEOUT_S, append, make_topics, running
from tests.crash.outputs import count, events_of, expected_of, has_written, require_same, written_of
from tests.streaming.mixed_groups import SETTINGS
from tests.streaming.random_log import START_MS, make_log
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def config(kafka: EmbeddedKafka, topic_prefix: str, tmp_path: Path) -> StreamingConfig:
    return StreamingConfig(
        bootstrap_servers=kafka.bootstrap_servers, topic_prefix=topic_prefix, responses_partitions=8,
        offsets_partitions=2,
        checkpoint=str(tmp_path / "checkpoint"), ticker=False, shuffle_partitions=1, max_events_per_batch=100,
        **SETTINGS,
    )  # fmt: skip


def refusal(config: StreamingConfig, spark: SparkSession, **options: Any) -> str:
    """Why the app does not start."""
    with pytest.raises(CheckpointError) as caught:
        Application(config, spark=spark, **options).run(threading.Event())
    return str(caught.value)


def write_all(config: StreamingConfig, spark: SparkSession, *, rebuild: bool) -> None:
    """Run the app until the outputs of the whole log are written, as of an undisturbed run."""
    expected = expected_of(config, events_of(config))
    with running(config, spark, rebuild=rebuild) as failures:
        wait_until(lambda: bool(failures) or has_written(config, count(expected)), TIMEOUT_S)
    require_same(written_of(config).outputs, expected)


def test_a_rebuild_writes_the_same_and_goes_on(spark: SparkSession, config: StreamingConfig, tmp_path: Path) -> None:
    make_topics(config)
    log = make_log(11, groups=2, mixed_groups=2, requests=160)
    append(config, log[: len(log) // 2])
    first = count(expected_of(config, events_of(config)))
    with running(config, spark) as failures:
        wait_until(lambda: bool(failures) or has_written(config, first), TIMEOUT_S)
    before = written_of(config)
    assert (count(before.outputs), before.repeated) == (first, 0)

    without_checkpoint = config.changed(checkpoint=str(tmp_path / "another"))
    message = refusal(without_checkpoint, spark)
    assert f"no checkpoint in {tmp_path}/another/shard-0" in message
    assert "--rebuild" in message
    assert written_of(config) == before

    append(config, log[len(log) // 2 :])
    write_all(without_checkpoint, spark, rebuild=True)
    assert written_of(config).repeated == first

    # A second --rebuild finds the checkpoint and goes on from it.
    append(config, [Record(partition=0, key=None, value=encode_tick(START_MS + 10_000_000))])
    write_all(without_checkpoint, spark, rebuild=True)
    assert written_of(config).repeated == first

    # The events that made the groups are gone: no rebuild can bring them back, and none is tried.
    delete_events(config, before=50)
    empty_checkpoint = config.changed(checkpoint=str(tmp_path / "nothing"))
    message = refusal(empty_checkpoint, spark, rebuild=True)
    assert "begins at offset 50" in message
    assert "offsets export" in message


def test_groups_move_into_buckets_and_back(spark: SparkSession, config: StreamingConfig, tmp_path: Path) -> None:
    """Each move is a rebuild in a new directory: the same bytes are written once more, and the log goes on."""

    def kept_in(number: int, group_buckets: int) -> StreamingConfig:
        directory = str(tmp_path / f"checkpoint-{number}")
        return config.changed(group_buckets=group_buckets, checkpoint=directory)

    make_topics(config)
    log = make_log(13, groups=2, mixed_groups=3, requests=150)
    third = len(log) // 3
    repeated = 0
    for number, buckets in enumerate((0, 64, 0)):
        append(config, log[number * third : (number + 1) * third])
        write_all(kept_in(number, buckets), spark, rebuild=number > 0)
        written = written_of(config)
        assert written.repeated == repeated
        repeated += count(written.outputs)

    for number, buckets_before, buckets_after in ((1, 64, 0), (2, 0, 64)):
        for rebuild in (False, True):
            message = refusal(kept_in(number, buckets_after), spark, rebuild=rebuild)
            assert (
                f"group_buckets is {buckets_after}, but the checkpoint {tmp_path}/checkpoint-{number}/shard-0"
                in message
            )
            assert f"was made with {buckets_before}. Set it to {buckets_before}" in message
            assert "name a new directory by --checkpoint and start once with --rebuild" in message

    # Without the beginning of the log a rebuild would lose committed offsets: it is neither tried nor recommended.
    delete_events(config, before=50)
    message = refusal(kept_in(2, 64), spark)
    assert "Set it to 0. The groups of shard 0 cannot be rebuilt" in message
    assert "begins at offset 50" in message
    assert "start once with --rebuild" not in message
    assert "cannot be rebuilt" in refusal(kept_in(3, 64), spark, rebuild=True)


def delete_events(config: StreamingConfig, before: int) -> None:
    """As retention does."""
    admin = new_admin_client(config.client_properties)
    for future in admin.delete_records([TopicPartition(config.topics.events, 0, before)]).values():
        future.result(30)


def test_a_rebuild_without_outputs_needs_the_whole_log_too(spark: SparkSession, config: StreamingConfig) -> None:
    """Whether the output topics are there does not matter: the groups are in the deleted events."""
    make_topics(config)
    append(config, make_log(11, groups=3, requests=60))
    delete_events(config, before=20)
    assert "begins at offset 20" in refusal(config, spark, rebuild=True)


def test_a_new_coordinator_needs_no_checkpoint(spark: SparkSession, config: StreamingConfig) -> None:
    prepare_session(spark, config)
    require_checkpoints(spark, config, make_topics(config), rebuild=False)


def test_answers_of_a_responder_are_no_sign_of_a_lost_checkpoint(spark: SparkSession, config: StreamingConfig) -> None:
    """A responder may answer before the query has begun its first batch, and the query may be killed then."""
    make_topics(config)
    topics = config.topics
    producer = Producer({"log_level": 0, **config.client_properties})
    producer.produce(topics.responses, key=b"request", value=b"{}", headers={WRITER_HEADER: "responder-0"})
    assert producer.flush(30) == 0
    require_checkpoints(spark, config, make_topics(config), rebuild=False)
    producer.produce(topics.history, key=b"g", value=b"{}")
    assert producer.flush(30) == 0
    with pytest.raises(CheckpointError, match="shard-0, but"):
        require_checkpoints(spark, config, make_topics(config), rebuild=False)


def test_a_shard_that_never_ran_is_not_taken_for_a_lost_one(spark: SparkSession, config: StreamingConfig) -> None:
    of_two_shards = config.changed(shards=2)
    make_topics(of_two_shards)
    append(
        of_two_shards,
        [Record(partition=0, key=None, value=encode_tick(START_MS)), Record(partition=1, key=b"g", value=b"{}")],
    )
    producer = Producer({"log_level": 0, **config.client_properties})
    producer.produce(of_two_shards.topics.history, key=b"g", value=b"{}")
    assert producer.flush(30) == 0
    report = make_topics(of_two_shards)
    new, lost = (of_two_shards.changed(shard=shard) for shard in (1, 0))
    require_checkpoints(spark, new, report, rebuild=False)
    with pytest.raises(CheckpointError, match="shard-0, but"):
        require_checkpoints(spark, lost, report, rebuild=False)


def test_a_checkpoint_that_cannot_be_written_is_told_before_the_start(
    spark: SparkSession, config: StreamingConfig, tmp_path: Path
) -> None:
    report = make_topics(config)
    (tmp_path / "file").write_text("in the way")
    unwritable = config.changed(checkpoint=str(tmp_path / "file" / "checkpoint"))
    with pytest.raises(CheckpointError, match=r"file/checkpoint/shard-0 cannot be written: \S+"):
        require_checkpoints(spark, unwritable, report, rebuild=False)
    unknown = config.changed(checkpoint="nowhere://bucket/checkpoint")
    with pytest.raises(CheckpointError, match=r"cannot be reached: .*nowhere"):
        require_checkpoints(spark, unknown, report, rebuild=False)
