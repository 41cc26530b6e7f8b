"""Spark's classes as the JVM has them once they are loaded, in a file for all the JVMs that the tests start.

A Spark that starts and runs its first query spends some 20 CPU seconds, half of them on loading classes, and the tests start
some thirty. `python -m tests.spark_classes` writes the file once (about a minute, 190 MB); without it, or with one of another Java or
another Spark, which the JVM notices by itself, all is as before but slower.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from streaming.jars import jars_directory
from streaming.java import JavaError, find_java

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For JVMs that live for seconds, too short for the optimising compiler and a collector with threads of its own to pay."""
DUMP_TIMEOUT_S = 300.0


def archive() -> Path:
    """Where the file is, or would be: one for each Java and each place and version of Spark. Raises JavaError."""
    java = find_java().resolve()
    about = f"{java} {java.stat().st_mtime_ns} {sys.prefix} {version('pyspark')} {SHORT_LIVED}"
    return jars_directory().parent / f"spark-classes-{hashlib.sha256(about.encode()).hexdigest()[:12]}.jsa"


def java_options() -> str:
    """What to give to each JVM of Spark's. It is to say nothing of a file that does not fit: tests look at what is printed."""
    try:
        file = archive()
    except JavaError:  # who runs only what needs no Java
        return SHORT_LIVED
    return f"{SHORT_LIVED} -XX:SharedArchiveFile={file} -Xlog:disable" if file.exists() else SHORT_LIVED


def write(file: Path) -> None:
    """Run a small stream in a Spark of its own, whose JVM writes down at its end which classes it had."""
    from schemas.records_file import encode_record
    from streaming.config import StreamingConfig
    from streaming.event_log import records_of_files
    from streaming.replay import replay_streaming
    from streaming.session import open_session
    from tests.streaming.log_story import story

    unfinished = file.with_name(f"{file.name}.{os.getpid()}")
    os.environ["SPARK_SUBMIT_OPTS"] = f"{SHORT_LIVED} -XX:ArchiveClassesAtExit={unfinished} -Xlog:disable"
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    config = StreamingConfig(shuffle_partitions=1, spark={"spark.driver.memory": "512m"})
    spark = open_session(config)
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory) / "events.jsonl"
        log.write_bytes(b"".join(encode_record(record) + b"\n" for record in story(seed=1, groups=2, requests=20)))
        replay_streaming(records_of_files(spark, [log]), config, Path(directory) / "work").collect()
    jvm = spark.sparkContext._gateway.proc
    spark.stop()
    jvm.stdin.close()  # which ends it
    jvm.wait(DUMP_TIMEOUT_S)
    if unfinished.exists():  # some Java may not know how
        unfinished.replace(file)


if __name__ == "__main__":
    if not archive().exists():
        write(archive())
