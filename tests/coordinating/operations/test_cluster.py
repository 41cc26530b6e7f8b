"""The wheel on a Spark cluster by `spark-submit`: two workers, and a Kafka that wants TLS and a password."""

from __future__ import annotations

import os
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from group_coordinator.coordinating.jars.resolving import spark_jars
from group_coordinator.ground.kafka_topics.reader import read_topic
from group_coordinator.proving.embedded_kafka.broker import free_port
from schemas.events import decode_response_event, encode_request_event
from schemas.messages import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from streaming.config import StreamingConfig
from tests.coordinating.operations.secure_broker import PASSWORD, Listener, secure_broker
from tests.coordinating.operations.standalone_cluster import (
    ROOT,
    SPARK,
    Cluster,
    build_wheel,
    environment_without_us,
    process,
)
from tests.waiting import wait_until

pytestmark = [pytest.mark.end_to_end, pytest.mark.spark, pytest.mark.kafka]

TIMEOUT_S = 300.0
SHORT_LIVED = os.environ["SPARK_SUBMIT_OPTS"]
"""What the tests give to each JVM of Spark's: see conftest.py."""
GROUPS = [f"group-{number}" for number in range(8)]


@pytest.fixture
def listener(tmp_path: Path, kafka_jars: Path) -> Iterator[Listener]:
    with secure_broker(tmp_path) as listeners:
        yield listeners["SASL_SSL"]


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """The wheel under a name that Spark takes for Python packages."""
    directory = tmp_path / "wheel"
    directory.mkdir()
    try:
        wheel = build_wheel(directory)
    except subprocess.CalledProcessError as problem:
        pytest.skip(f"the wheel cannot be built here: {problem.stderr.decode()[-500:]}")
    return Path(shutil.copy(wheel, directory / "group_coordinator.zip"))


def test_spark_submit_to_two_workers(listener: Listener, packages: Path, tmp_path: Path) -> None:
    config = StreamingConfig(
        bootstrap_servers=listener.bootstrap_servers, kafka=listener.kafka, responses_partitions=1, offsets_partitions=1
    )
    settings = tmp_path / "coordinator.toml"
    settings.write_text(toml(config, tmp_path / "checkpoint"))
    port = free_port()
    environment = environment_without_us(tmp_path) | {
        "SPARK_SUBMIT_OPTS": SHORT_LIVED,
        "SPARK_DAEMON_JAVA_OPTS": SHORT_LIVED,
    }
    with Cluster(tmp_path, environment).running(workers=2) as cluster:
        command = [
            str(SPARK / "bin" / "spark-submit"), "--master", cluster.url,
            "--py-files", str(packages), "--jars", ",".join(map(str, spark_jars())),
            "--driver-memory", "512m", "--executor-memory", "512m", "--conf", "spark.executor.cores=1",
            "--conf", f"spark.executor.extraJavaOptions={SHORT_LIVED}",
            str(ROOT / "deploy" / "spark_submit.py"), "run", "--config-file", str(settings), "--metrics-port",
            str(port),
        ]  # fmt: skip
        with process(tmp_path / "submit.log", command, cluster.environment, tmp_path) as submitted:
            wait_until_ready(port, submitted, tmp_path)
            assert [worker["coresused"] for worker in cluster.state()["workers"]] == [1, 1]
            require_commits_are_answered(config)
    log = (tmp_path / "submit.log").read_text()
    assert "The coordinator runs" in log
    assert " INFO " not in log.partition("Starting Spark")[2], "the log is that of `run`"
    assert PASSWORD.split()[0] not in log


def toml(config: StreamingConfig, checkpoint: Path) -> str:
    kafka = "\n".join(f"{name!r} = '''{value}'''" for name, value in config.kafka.items())
    return (
        f"bootstrap_servers = '{config.bootstrap_servers}'\ncheckpoint = '{checkpoint}'\n"
        f"responses_partitions = 1\noffsets_partitions = 1\nshuffle_partitions = 2\n[kafka]\n{kafka}\n"
    )


def wait_until_ready(port: int, submitted: subprocess.Popen[bytes], tmp_path: Path) -> None:
    def is_ready() -> bool:
        assert submitted.poll() is None, otherwise()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health/ready", timeout=5):
                return True
        except OSError:  # not there yet, or 503
            return False

    def otherwise() -> str:
        return f"not ready; exit code {submitted.poll()}\n{(tmp_path / 'submit.log').read_text()[-6_000:]}"

    wait_until(is_ready, TIMEOUT_S, otherwise, interval_s=0.5)


def require_commits_are_answered(config: StreamingConfig) -> None:
    """Commit offsets of several groups, so that both tasks of a batch have work; each is told of success."""
    topics, properties = config.topics, config.client_properties
    producer = Producer({**properties, "log_level": 0})
    for group_id in GROUPS:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
        request = OffsetCommitRequest(
            group_id=group_id, topics=(OffsetCommitRequestTopic(name="t", partitions=(partition,)),)
        )
        event = encode_request_event(
            "OffsetCommit", 9, request, request_id=f"r-{group_id}", reply_partition=0, client_id="c"
        )
        producer.produce(topics.events, key=group_id.encode(), value=event)
    producer.flush()

    def answered() -> set[str]:
        groups = set[str]()
        for message in read_topic(properties, topics.responses):
            envelope, response = decode_response_event(message.value() or b"")
            assert isinstance(response, OffsetCommitResponse)
            if response.topics[0].partitions[0].error_code == 0:
                groups.add(envelope.group_id)
        return groups

    wait_until(
        lambda: answered() == set(GROUPS), TIMEOUT_S, lambda: f"only {answered()} are answered", interval_s=0.5
    )
