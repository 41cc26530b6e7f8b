"""Write the class archives (`group_coordinator.coordinating.jars.class_archives`): `python -m
group_coordinator.proving.embedded_kafka.write_class_archives`, once, half a minute.

Spark lives through a batch of the streaming query, Kafka through the start of a broker; at its end each JVM
writes down the classes that it had loaded.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from group_coordinator.coordinating.jars.class_archives import Kind, class_archive
from group_coordinator.coordinating.jars.java import SHORT_LIVED, JavaError, find_java
from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from schemas.events import encode_request_event, encode_tick
from schemas.messages import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from streaming.config import StreamingConfig
from streaming.job import coordinate_stream
from streaming.rows import RECORD_SCHEMA
from streaming.session import open_session
from streaming.source import with_clock
from streaming.topics import TopicSettings, ensure_topics

_EXIT_TIMEOUT_S = 300.0


def write_class_archives(tell: Callable[[str], None] = print) -> None:
    """Write those that are absent. One that cannot be written is told of, and done without. Raises JavaError."""
    find_java()
    for kind, live in LIVES.items():
        try:
            archive = class_archive(kind)
            if archive.exists():
                continue
            tell(f"Writing the class archive of {kind}: it will start in half of the CPU time.")
            archive.parent.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(dir=archive.parent) as directory:
                written = Path(directory) / archive.name
                live([f"-XX:ArchiveClassesAtExit={written}", "-Xlog:disable"], Path(directory) / "work")
                for older in archive.parent.glob(f"classes-{kind}-*.jsa"):
                    older.unlink()
                written.replace(archive)  # whole, or not at all: a JVM does not survive half of one
        except Exception as problem:  # whatever it is, nobody is to be kept from working by it
            tell(
                f"The class archive of {kind} was not written ({type(problem).__name__}: {problem}); all works "
                "without it."
            )


def _spark(java_options: Sequence[str], directory: Path) -> None:
    options = shlex.join((*SHORT_LIVED, *java_options))
    config = StreamingConfig(
        shuffle_partitions=1, spark={"spark.driver.memory": "512m", "spark.driver.extraJavaOptions": options}
    )
    spark = open_session(config)
    spark.sparkContext.setLogLevel("ERROR")
    _query(spark, config, directory).awaitTermination()
    jvm = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
    spark.stop()
    jvm.stdin.close()  # it ends with its input
    if (code := jvm.wait(_EXIT_TIMEOUT_S)) != 0:
        raise OSError(f"the JVM ended with exit code {code}")


def _query(spark: SparkSession, config: StreamingConfig, directory: Path) -> StreamingQuery:
    """Begin the query of the job, from files and to files."""
    spark.createDataFrame(_log(), RECORD_SCHEMA).coalesce(1).write.parquet(str(directory / "events"))
    records = spark.readStream.schema(RECORD_SCHEMA).parquet(str(directory / "events"))
    events = with_clock(records.select("key", "offset", "value", "timestamp_ms"), config.group.tick_ahead_bound_ms)
    outputs = coordinate_stream(events, config.operator_config()).writeStream.format("parquet")
    checkpoint = outputs.option("checkpointLocation", str(directory / "checkpoint"))
    return checkpoint.trigger(availableNow=True).start(str(directory / "outputs"))


def _log() -> list[tuple[int, int, int, bytes | None, bytes]]:
    """Rows of `RECORD_SCHEMA`."""
    topic = OffsetCommitRequestTopic(
        name="t", partitions=(OffsetCommitRequestPartition(partition_index=0, committed_offset=7),)
    )
    commit = encode_request_event(
        "OffsetCommit",
        9,
        OffsetCommitRequest(group_id="g", topics=(topic,)),
        request_id="r",
        reply_partition=0,
        client_id="c",
    )
    values = ((None, encode_tick(1_000)), (b"g", commit), (None, encode_tick(2_000)))
    return [(0, offset, 1_000 + offset, key, value) for offset, (key, value) in enumerate(values)]


def _kafka(java_options: Sequence[str], directory: Path) -> None:
    with EmbeddedKafka(directory, java_options=java_options) as kafka:
        ensure_topics(new_admin_client({"bootstrap.servers": kafka.bootstrap_servers}), TopicSettings())
        if not kafka.stop(_EXIT_TIMEOUT_S):  # killed while it writes, it leaves half an archive
            raise TimeoutError(f"the broker had not ended after {_EXIT_TIMEOUT_S:.0f} s")


LIVES: Mapping[Kind, Callable[[Sequence[str], Path], None]] = {"spark": _spark, "kafka": _kafka}


if __name__ == "__main__":
    try:
        write_class_archives(lambda line: print(line, file=sys.stderr, flush=True))
    except JavaError as problem:
        sys.exit(str(problem))
