"""Recordings of whole clusters: brokers of other versions and several brokers against the core."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from group_coordinator.proving.recordings.recording import RecordingReport, verify_recording

CLUSTERS = Path(__file__).parents[2] / "fixtures" / "clusters"
OLD = pytest.mark.parametrize("name", ["old-2.8", "old-3.9"])


def verify(name: str) -> RecordingReport:
    return verify_recording(
        sorted(CLUSTERS.glob(f"{name}.*request.log.gz")),
        offsets=CLUSTERS / f"{name}.offsets.jsonl.gz",
        broker_logs=sorted(CLUSTERS.glob(f"{name}.*server.log.gz")),
    )


def assert_all_agrees(report: RecordingReport) -> None:
    assert not report.differences, "\n".join(report.lines())
    assert report.requests.equal == report.requests.total > 1_000
    assert all("before it asked the group" in reason for reason in report.not_compared)


@OLD
def test_agrees_with_brokers_before_kafka_4(name: str) -> None:
    report = verify(name)
    assert_all_agrees(report)
    assert report.records is not None
    assert report.records.equal == report.records.total > 400
    assert report.log_entries is not None
    assert report.log_entries.equal == report.log_entries.total > 50


@OLD
def test_agrees_by_the_answers_of_brokers_before_kafka_4_alone(name: str) -> None:
    report = verify_recording(CLUSTERS / f"{name}.request.log.gz")
    assert_all_agrees(report)
    assert any("written as version 3" in setting for setting in report.settings)


def test_a_commit_of_an_old_broker_must_be_written_whole(tmp_path: Path) -> None:
    dump = gzip.decompress((CLUSTERS / "old-2.8.offsets.jsonl.gz").read_bytes())
    records = [json.loads(line) for line in dump.splitlines()]
    times = [record["timestamp_ms"] for record in records]
    batch = next(place for place in range(1, len(times)) if times[place - 1] == times[place])
    offsets = tmp_path / "offsets.jsonl"
    offsets.write_text("\n".join(json.dumps(record) for place, record in enumerate(records) if place != batch))
    report = verify_recording(CLUSTERS / "old-2.8.request.log.gz", offsets=offsets)
    assert report.records is not None
    assert report.records.differ > 0


def test_a_coordinator_that_moves_is_followed() -> None:
    report = verify("three-brokers")
    assert_all_agrees(report)
    assert report.records is not None
    assert report.records.equal == report.records.total > 1_300
    assert report.log_entries is not None
    assert report.log_entries.equal == report.log_entries.total > 70
    assert sum("sessions begin anew" in note for note in report.notes) == 10


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 1, 2)])
def test_a_coordinator_that_moves_is_followed_by_the_answers_alone(order: tuple[int, ...]) -> None:
    report = verify_recording([CLUSTERS / f"three-brokers.broker-{number}.request.log.gz" for number in order])
    assert_all_agrees(report)


CONSUMER_GROUPS = pytest.mark.parametrize(
    ("name", "records", "entries"),
    [
        ("consumer-protocol", 960, 43),
        ("migration", 523, 70),
        ("migration-refused", 489, 76),
        ("transactions", 890, 35),
        ("connect", 71, 82),
    ],
)


@CONSUMER_GROUPS
def test_agrees_with_the_coordinator_of_kafka_4(name: str, records: int, entries: int) -> None:
    """Consumer groups, by name and by expression, migrations both ways, transactions: all that the broker did."""
    report = verify(name)
    assert not report.differences, "\n".join(report.lines())
    assert report.requests.equal == report.requests.total > 800
    assert report.records is not None
    assert report.records.equal == report.records.total == records
    assert report.log_entries is not None
    assert report.log_entries.equal == report.log_entries.total == entries
    assert not any("not decided here" in reason for reason in report.not_compared)


@CONSUMER_GROUPS
def test_agrees_by_the_answers_of_kafka_4_alone(name: str, records: int, entries: int) -> None:
    report = verify_recording(CLUSTERS / f"{name}.request.log.gz")
    assert not report.differences, "\n".join(report.lines())
    assert report.requests.equal == report.requests.total > 800


@pytest.mark.parametrize(("name", "records", "entries"), [("hanging-4.1", 316, 31), ("roll-4.2", 1134, 112)])
def test_agrees_with_earlier_coordinators_of_kafka_4(name: str, records: int, entries: int) -> None:
    """Groups begin at other epochs, commits are stored without ids of topics, members' records without epochs."""
    report = verify(name)
    assert_all_agrees_but_coordinators(report)
    assert report.records is not None
    assert report.records.equal == report.records.total == records
    assert report.log_entries is not None
    assert report.log_entries.equal == report.log_entries.total == entries


def test_agrees_with_the_first_coordinator_of_kafka_4() -> None:
    """Racks, expressions, migrations both ways, members that a load gives new sessions, topics that are deleted."""
    report = verify("rack-4.0")
    assert report.requests.equal == report.requests.total > 2_000
    assert report.log_entries is not None
    assert report.log_entries.equal == report.log_entries.total == 78
    assert not report.differences, "\n".join(report.lines())
    assert "kafka.rules = 4.0 (as the broker's log tells: Kafka 4.0)" in report.settings
    assert any("which Kafka 4.0 alone writes: they are not compared" in doubt for doubt in report.doubts)


@pytest.mark.parametrize("name", ["rack-4.0", "hanging-4.1"])
def test_the_answers_of_a_broker_show_its_version(name: str) -> None:
    """Without its log, and without a dump: consumer groups are followed from their first heartbeats on."""
    report = verify_recording(CLUSTERS / f"{name}.request.log.gz")
    version = name.rpartition("-")[2]
    assert f"kafka.rules = {version} (as the answers to ApiVersions show)" in report.settings
    assert report.requests.equal > 800


def assert_all_agrees_but_coordinators(report: RecordingReport) -> None:
    assert not report.differences, "\n".join(report.lines())
    assert report.requests.equal == report.requests.total > 800
    assert not any("followed" in reason for reason in report.not_compared)


def test_a_broker_s_log_tells_its_settings() -> None:
    """What its answers alone do not show: nobody expired."""
    told = "group.consumer.session.timeout.ms = 10000 (as the broker's log tells)"
    assert told in verify("migration-refused").settings
    assert "offsets.topic.num.partitions = 8 (as the broker's log tells)" in verify("migration-refused").settings
    silent = verify_recording(CLUSTERS / "migration-refused.request.log.gz")
    (assumed,) = (setting for setting in silent.settings if "session.timeout" in setting)
    assert "the default; nothing in the log shows it" in assumed


def test_what_is_not_understood_is_counted() -> None:
    report = verify("share-streams")
    assert not report.differences, "\n".join(report.lines())
    assert sum(count for reason, count in report.not_compared.items() if "not decided here" in reason) > 100
