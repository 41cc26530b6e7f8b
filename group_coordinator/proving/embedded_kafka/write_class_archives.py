"""Write the class archives (`group_coordinator.coordinating.jars.class_archives`): `python -m
group_coordinator.proving.embedded_kafka.write_class_archives`, once, a minute.

Spark lives through some batches of the coordinator and changes of a Delta table, Kafka through the start of a broker;
at its end each JVM writes down the classes that it had loaded.
"""

from __future__ import annotations

import logging
import shlex
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from group_coordinator.coordinating.jars.class_archives import Kind, class_archive
from group_coordinator.coordinating.jars.java import SHORT_LIVED, JavaError, find_java
from group_coordinator.coordinating.spark_tables.sinks import DELTA_SESSION_SETTINGS
from group_coordinator.ground.kafka_topics.clients import new_admin_client, new_producer
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from schemas.events import encode_request_event
from schemas.messages import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from streaming.application import Application
from streaming.config import StreamingConfig
from streaming.session import JAVA_OPTIONS, open_session
from streaming.topics import TopicReport, TopicSettings, ensure_topics
from streaming.watcher import ShardProgress

_BATCHES = 5
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
    with EmbeddedKafka(directory / "kafka") as kafka:
        config = StreamingConfig(
            bootstrap_servers=kafka.bootstrap_servers,
            checkpoint=str(directory / "checkpoint"),
            shuffle_partitions=1,
            spark={**DELTA_SESSION_SETTINGS, "spark.driver.memory": "512m", JAVA_OPTIONS: options},
        )
        spark = open_session(config)
        spark.sparkContext.setLogLevel("ERROR")
        _coordinate(spark, config)
    _merge(spark, f"delta.`{directory / 'table'}`")
    jvm = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
    spark.stop()
    jvm.stdin.close()  # it ends with its input
    if (code := jvm.wait(_EXIT_TIMEOUT_S)) != 0:
        raise OSError(f"the JVM ended with exit code {code}")


def _coordinate(spark: SparkSession, config: StreamingConfig) -> None:
    """Let the app run until it has answered a request."""
    stop = threading.Event()

    def ask(report: TopicReport) -> None:
        topic = OffsetCommitRequestTopic(
            name="t", partitions=(OffsetCommitRequestPartition(partition_index=0, committed_offset=7),)
        )
        commit = OffsetCommitRequest(group_id="g", topics=(topic,))
        producer = new_producer(config.client_properties, {})
        event = encode_request_event("OffsetCommit", 9, commit, request_id="r", reply_partition=0, client_id="c")
        producer.produce(report.topics.events, event, key=b"g", partition=0)
        producer.flush()

    def look(progress: ShardProgress) -> None:
        if progress.groups and progress.batch_id >= _BATCHES:
            stop.set()

    Application(config, spark=spark, on_start=ask, on_progress=look).run(stop)


def _merge(spark: SparkSession, table: str) -> None:
    """Do with a table of Delta what the tables of history need."""
    spark.sql(f"CREATE TABLE {table} (id bigint, day date) USING delta PARTITIONED BY (day)")
    rows = "(SELECT id, DATE'2026-01-01' AS day FROM range(2))"
    for _ in range(2):
        spark.sql(
            f"MERGE INTO {table} AS old USING {rows} AS new ON old.id = new.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
    spark.sql(f"SELECT day, count(*) FROM {table} GROUP BY day").collect()


def _kafka(java_options: Sequence[str], directory: Path) -> None:
    with EmbeddedKafka(directory, java_options=java_options) as kafka:
        ensure_topics(new_admin_client({"bootstrap.servers": kafka.bootstrap_servers}), TopicSettings())
        if not kafka.stop(_EXIT_TIMEOUT_S):  # killed while it writes, it leaves half an archive
            raise TimeoutError(f"the broker had not ended after {_EXIT_TIMEOUT_S:.0f} s")


LIVES: Mapping[Kind, Callable[[Sequence[str], Path], None]] = {"spark": _spark, "kafka": _kafka}


if __name__ == "__main__":
    logging.disable(logging.WARNING)  # a late clock, say: nobody waits for this coordinator
    try:
        write_class_archives(lambda line: print(line, file=sys.stderr, flush=True))
    except JavaError as problem:
        sys.exit(str(problem))
