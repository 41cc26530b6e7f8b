"""The long-running commands as processes:
they start, they end when asked, they fail with a cause, they leave nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from streaming.event_log import read_records
from tests.command_line.calls import REQUEST_LOG
from tests.command_line.processes import START_TIMEOUT_S, command, session_of

pytestmark = pytest.mark.end_to_end


def test_the_demo_tells_its_story_and_leaves_nothing_behind(tmp_path: Path, kafka_jars: Path) -> None:
    with command(tmp_path, "demo", "--duration", "40s") as process:
        assert process.wait(START_TIMEOUT_S + 60) == 0, (tmp_path / "err").read_text()
    text = (tmp_path / "out").read_text()
    assert re.search(r"payments: generation 1 because payments-\w-[0-9a-f]{8} joined the empty group", text)
    assert ">> payments-b is killed" in text
    assert ">> billing moves to the consumer protocol" in text
    assert "billing: the group goes over to the consumer protocol" in text
    assert re.search(r"invoices: generation 1 because invoices-[\w-]+ joined the empty group", text), (
        "real clients, by the gateway"
    )
    assert re.search(r"^GROUP +STATE ", text, re.MULTILINE)
    history = re.search(r"explain --group payments --from (\S+)$", text, re.MULTILINE)
    assert history is not None
    explained = subprocess.run(
        [sys.executable, "-m", "group_coordinator.command_line.main", "explain", "--group", "payments",
         "--from", history[1]],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "Why: " in explained.stdout
    assert session_of(process) == []


@pytest.fixture
def foreign_modules(tmp_path: Path) -> Path:
    """A directory with modules of a user that are called as ours, or as Python's own."""
    directory = tmp_path / "work"
    for name in (
        "schemas",
        "streaming",
        "tables",
        "gateway",
        "dashboard",
        "members",
        "operations",
        "json",
        "types",
        "signal",
        "pandas",
    ):
        directory.mkdir(exist_ok=True)
        (directory / f"{name}.py").write_text('raise AssertionError("somebody else\'s module")\n')
    for name in ("recordings", "coordinator_state", "pyspark"):
        (directory / name).mkdir()
        (directory / name / "__init__.py").write_text('raise AssertionError("somebody else\'s package")\n')
    return directory


def test_a_replay_on_spark_writes_what_one_without_spark_does(
    tmp_path: Path, foreign_modules: Path, kafka_jars: Path
) -> None:
    """Modules that lie in the working directory do it no harm."""
    for name, flags in (("spark", ()), ("plain", ("--in-process",))):
        arguments = ("replay", str(REQUEST_LOG), *flags, "--out", str(tmp_path / name))
        with command(tmp_path, *arguments, cwd=foreign_modules) as process:
            assert process.wait(START_TIMEOUT_S) == 0, (tmp_path / "err").read_text()
        assert "Replayed " in (tmp_path / "out").read_text()
        assert session_of(process) == []
    for file in (tmp_path / "plain").iterdir():
        assert file.read_bytes() == (tmp_path / "spark" / file.name).read_bytes()


def test_a_topic_is_replayed_as_its_file_is(
    tmp_path: Path, kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str
) -> None:
    topic, file = f"{topic_prefix}.events", tmp_path / "events.jsonl"
    for future in admin.create_topics([NewTopic(topic, num_partitions=1)]).values():
        future.result()
    server = ("--bootstrap-servers", kafka.bootstrap_servers)
    importing = ("import", "kafka-request-log", str(REQUEST_LOG), "--out", str(file), "--shards", "1")
    with command(tmp_path, *importing) as process:
        assert process.wait(START_TIMEOUT_S) == 0, (tmp_path / "err").read_text()
    file.with_name(f"{file.name}.settings.json").unlink()  # a topic has no such note
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
    for record in read_records([file]):
        producer.produce(topic, record.value, key=record.key, timestamp=record.timestamp_ms or 0)
    producer.flush()
    for name, source in (("file", (str(file), "--in-process")), ("topic", (topic,))):
        arguments = ("replay", *source, "--out", str(tmp_path / name), "--shards", "1", *server)
        with command(tmp_path, *arguments) as process:
            assert process.wait(START_TIMEOUT_S) == 0, (tmp_path / "err").read_text()
    history = (tmp_path / "file" / "history.jsonl").read_bytes()
    assert history
    assert (tmp_path / "topic" / "history.jsonl").read_bytes() == history
