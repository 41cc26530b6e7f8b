"""Class archives: found by what they belong to, given to each JVM, and really used by it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyspark
import pytest

from group_coordinator.coordinating.jars.class_archives import class_archive, class_archive_options
from group_coordinator.coordinating.jars.resolving import jars_directory
from group_coordinator.proving.embedded_kafka import write_class_archives
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from streaming.config import StreamingConfig
from streaming.session import jars_settings, java_options

FROM_THE_ARCHIVE = "source: shared objects file (top)"


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory of resolved jars, as far as the name of an archive depends on it."""
    monkeypatch.setenv("GROUP_COORDINATOR_CACHE", str(tmp_path / "cache"))
    (jars_directory() / "spark").mkdir(parents=True)


@pytest.fixture
def archive(jars: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """That of Spark in an environment of its own, which has a space in its path."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "an environment"))
    path = class_archive("spark")
    path.parent.mkdir(parents=True)
    path.touch()
    return path


def options_of(user_options: str) -> list[str]:
    return shlex.split(java_options(StreamingConfig(spark={"spark.driver.extraJavaOptions": user_options})))


def written_by(options: Sequence[str]) -> Path:
    return Path(options[0].removeprefix("-XX:ArchiveClassesAtExit="))


def test_the_driver_gets_the_archive(archive: Path) -> None:
    assert f"-XX:SharedArchiveFile={archive}" in options_of("")
    assert f"-XX:SharedArchiveFile={archive}" in options_of("-Xss2m")


def test_one_that_was_named_stays(archive: Path) -> None:
    assert [option for option in options_of("-XX:SharedArchiveFile=mine.jsa") if "SharedArchiveFile" in option] == [
        "-XX:SharedArchiveFile=mine.jsa"
    ]


def test_without_an_archive_nothing_is_said_of_it(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive.unlink()
    assert class_archive_options("spark") == []
    monkeypatch.setenv("JAVA_HOME", str(archive.parent / "no java"))
    assert class_archive_options("spark") == []


@pytest.fixture
def other_java(jars: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    return java


def test_another_java_has_another_archive(archive: Path, other_java: Path) -> None:
    assert class_archive("spark") != archive


def test_it_is_found_where_fractions_of_a_second_were_lost(other_java: Path) -> None:
    """As the layers of an image lose them on their way to another machine."""
    os.utime(other_java, ns=(0, 1_700_000_000_123_456_789))
    before = class_archive("spark")
    os.utime(other_java, ns=(0, 1_700_000_000_000_000_000))
    assert class_archive("spark") == before


def test_one_that_cannot_be_written_is_done_without(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(java_options: Sequence[str], directory: Path) -> None:
        written_by(java_options).write_bytes(b"half of it")
        raise RuntimeError("the JVM ended with exit code 1")

    archive.unlink()
    monkeypatch.setattr(write_class_archives, "LIVES", {"spark": fail})
    messages: list[str] = []
    write_class_archives.write_class_archives(messages.append)
    assert "The class archive of spark was not written (RuntimeError: the JVM ended with exit code 1)" in messages[-1]
    assert list(archive.parent.iterdir()) == []


def test_a_new_one_takes_the_place_of_older_ones(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive.rename(archive.with_name("classes-spark-older.jsa"))
    monkeypatch.setattr(
        write_class_archives, "LIVES", {"spark": lambda options, _: written_by(options).write_bytes(b"")}
    )
    write_class_archives.write_class_archives(lambda _: None)
    assert list(archive.parent.iterdir()) == [archive]


@pytest.mark.spark
def test_spark_loads_its_classes_from_it(tmp_path: Path) -> None:
    options = class_archive_options("spark")
    if not options:
        pytest.skip("no archive was written: make jars")
    loaded = tmp_path / "loaded"
    submit_options = [*options, f"-Xlog:class+load:file={loaded}"]
    class_path = jars_settings("local[2]")["spark.driver.extraClassPath"]
    command = [
        str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--driver-class-path", class_path,
        "--class", "org.apache.kafka.clients.producer.ProducerConfig", "spark-internal",  # it prints its documentation
    ]  # fmt: skip
    subprocess.run(
        command, env={**os.environ, "SPARK_SUBMIT_OPTS": shlex.join(submit_options)}, check=True, capture_output=True,
        timeout=120,
    )  # fmt: skip
    for name in ("org.apache.spark.deploy.SparkSubmit", "org.apache.kafka.clients.producer.ProducerConfig"):
        (line,) = [line for line in loaded.read_text().splitlines() if f" {name} source:" in line]
        assert line.endswith(FROM_THE_ARCHIVE), line


@pytest.mark.kafka
def test_the_broker_loads_its_classes_from_it(tmp_path: Path, kafka_jars: Path) -> None:
    if not class_archive_options("kafka"):
        pytest.skip("no archive was written: make jars")
    loaded = tmp_path / "loaded"
    with EmbeddedKafka(java_options=[f"-Xlog:class+load:file={loaded}"]):
        (server,) = [line for line in loaded.read_text().splitlines() if "kafka.server.KafkaRaftServer source:" in line]
    assert server.endswith(FROM_THE_ARCHIVE)
