"""What a group with many offsets costs: the time of a batch that touches one, by how many bytes its offsets take.

    python -m benchmarks.full_group [--bytes 1000000 2000000 4000000] [--batches 25] [--rounds 2]

The real query, Kafka to Kafka, in the app's session. A batch brings one commit of one partition. Bytes are those that
`group_offsets_max_bytes` counts; they are filled with as many partitions as fit, without metadata and with the longest
that there may be: the more partitions, the more is decoded and encoded anew. The groups take turns. Ratios are to a
group with one offset.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterable
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import SparkSession

from benchmarks.arguments import command_parser
from benchmarks.batches import KEEP_REPORTS, start
from benchmarks.heartbeat_groups import config
from coordinator_state import GroupConfig
from coordinator_state.offsets import OFFSET_OVERHEAD_BYTES
from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from schemas.events import encode_request_event, encode_tick
from schemas.messages import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from streaming.config import StreamingConfig
from streaming.job import coordinate_stream, producer_records
from streaming.session import SMALL_BATCHES, open_session, prepare_session
from streaming.source import events_stream
from streaming.topics import ensure_topics
from streaming.tuning.hadoop import tune_hadoop

START_MS = 1_700_000_000_000
TICK_MS = 500
_COMMIT_BYTES = 500_000
"""Of the commits that fill a group."""


class FullGroup:
    """One group of offsets, in a query of its own."""

    def __init__(
        self, spark: SparkSession, settings: StreamingConfig, partitions: int, metadata: str, checkpoint: Path
    ) -> None:
        self._spark, self._settings, self._checkpoint, self._metadata = spark, settings, checkpoint, metadata
        self._report = ensure_topics(new_admin_client(settings.client_properties), settings.topic_settings)
        self._producer = Producer(
            {**settings.client_properties, "linger.ms": 20, "log_level": 0, "message.max.bytes": 1_200_000}
        )
        self._batches = 0
        self.times_ms: list[float] = []
        step = _COMMIT_BYTES // (OFFSET_OVERHEAD_BYTES + len(metadata))
        commits = [range(first, min(first + step, partitions)) for first in range(0, partitions, step)]
        for commit in commits:
            self._append(commit)
        self._run(2)

    def turn(self, batches: int) -> None:
        for _ in range(batches):
            self._append((0,))
        self.times_ms += self._run(2)[1:]

    def _append(self, partitions: Iterable[int]) -> None:
        """A batch: time goes on, and the group commits."""
        events = self._report.topics.events
        self._batches += 1
        self._producer.produce(events, value=encode_tick(START_MS + self._batches * TICK_MS), partition=0)
        offsets = tuple(
            OffsetCommitRequestPartition(
                partition_index=partition, committed_offset=self._batches, committed_metadata=self._metadata
            )
            for partition in partitions
        )
        request = OffsetCommitRequest(
            group_id="full", topics=(OffsetCommitRequestTopic(name="orders", partitions=offsets),)
        )
        value = encode_request_event(
            "OffsetCommit", 9, request, request_id=f"commit-{self._batches}", reply_partition=0, client_id="benchmark"
        )
        self._producer.produce(events, key="full", value=value, partition=0)
        self._producer.flush()

    def _run(self, size: int) -> list[float]:
        """Take what there is, so many events a batch; milliseconds of each batch."""
        settings = self._settings
        ahead_ms = settings.group.tick_ahead_bound_ms
        events = events_stream(
            self._spark, self._report.topics.events, 0, settings.source_options, size, tick_ahead_max_ms=ahead_ms
        )
        outputs = coordinate_stream(events, self._settings.operator_config(self._report.partitions, 0))
        query = start(producer_records(outputs), self._settings.sink_options, str(self._checkpoint))
        query.awaitTermination()
        return [
            progress["durationMs"]["triggerExecution"]
            for progress in query.recentProgress
            if progress["numInputRows"] == size
        ]


def main() -> None:
    parser = command_parser("full_group", __doc__)
    parser.add_argument(
        "--bytes", type=int, nargs="+", default=[GroupConfig().group_offsets_max_bytes], help="of the full groups"
    )
    parser.add_argument("--batches", type=int, default=25, help="of each group in a round")
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    shapes = [(1, "")]
    for size in arguments.bytes:
        for metadata in ("", "m" * GroupConfig().offset_metadata_max_bytes):
            shapes.append(((size - 1_000) // (OFFSET_OVERHEAD_BYTES + len(metadata)), metadata))
    with EmbeddedKafka() as kafka, tempfile.TemporaryDirectory() as scratch:
        spark = open_session(config(spark=KEEP_REPORTS))
        try:
            tune_hadoop(spark)
            groups = []
            for number, (partitions, metadata) in enumerate(shapes):
                settings = config(
                    bootstrap_servers=kafka.bootstrap_servers,
                    topic_prefix=f"full-{number}",
                    responses_partitions=1,
                    group_offsets_max_bytes=max(arguments.bytes),
                    spark=KEEP_REPORTS,
                )
                prepare_session(spark, settings, SMALL_BATCHES)
                groups.append(FullGroup(spark, settings, partitions, metadata, Path(scratch) / str(number)))
            for _ in range(arguments.rounds):
                for group in groups:
                    group.turn(arguments.batches)
        finally:
            spark.stop()
    print(f"{'partitions':>11} {'metadata':>9} {'bytes':>11} {'median ms':>10} {'ratio':>6} {'worst ms':>9}")
    first = statistics.median(groups[0].times_ms)
    for (partitions, metadata), group in zip(shapes, groups, strict=True):
        median, size = statistics.median(group.times_ms), partitions * (OFFSET_OVERHEAD_BYTES + len(metadata))
        print(
            f"{partitions:11,} {len(metadata):9,} {size:11,} {median:10,.0f} {median / first:6.1f} "
            f"{max(group.times_ms):9,.0f}"
        )


if __name__ == "__main__":
    main()
