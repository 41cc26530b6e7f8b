"""Logs that grow, are rotated, emptied and packed: each line is read once."""

from __future__ import annotations

import gzip
import os
from datetime import UTC
from io import TextIOWrapper
from pathlib import Path

import pytest

from group_coordinator.watching.broker_logs.broker_lines import MemberAdded, MemberFailed
from group_coordinator.watching.watch.following_logs import FollowedLogs
from tests.watching.watch.broker_lines import line


def members(logs: FollowedLogs) -> list[str]:
    member_ids = []
    for new_line in logs.look():
        assert isinstance(new_line.event, MemberFailed | MemberAdded)
        member_ids.append(new_line.event.member_id)
    return member_ids


def test_a_file_that_grows(tmp_path: Path) -> None:
    file = tmp_path / "server.log"
    file.write_bytes(line(1) + line(2)[:40])
    logs = FollowedLogs([str(file)], UTC)
    assert members(logs) == ["m-1"]
    with file.open("ab") as log:
        log.write(line(2)[40:] + line(3))
    assert members(logs) == ["m-2", "m-3"]
    assert members(logs) == []


def test_rotation(tmp_path: Path) -> None:
    file = tmp_path / "server.log"
    file.write_bytes(line(1))
    logs = FollowedLogs([str(tmp_path / "server.log*")], UTC)
    assert members(logs) == ["m-1"]
    with file.open("ab") as log:
        log.write(line(2))
    file.rename(tmp_path / "server.log.1")
    file.write_bytes(line(3))
    assert members(logs) == ["m-2", "m-3"]
    assert members(logs) == []


def test_a_file_that_is_emptied_is_read_anew(tmp_path: Path) -> None:
    file = tmp_path / "server.log"
    file.write_bytes(line(1) + line(2))
    logs = FollowedLogs([str(file)], UTC)
    members(logs)
    file.write_bytes(line(3))
    assert members(logs) == ["m-3"]


def test_packed_files_and_those_that_come_later(tmp_path: Path) -> None:
    logs = FollowedLogs([str(tmp_path / "**" / "*.log*")], UTC)
    assert members(logs) == []
    (tmp_path / "broker-1").mkdir()
    (tmp_path / "broker-1" / "server.log.2.gz").write_bytes(gzip.compress(line(1) + line(2)))
    assert members(logs) == ["m-1", "m-2"]


def test_a_directory_of_pods_logs(tmp_path: Path) -> None:
    """As Kubernetes lays them out, each line behind its time and its stream; what is no log is left alone."""
    logs = FollowedLogs([str(tmp_path)], UTC)
    for number in (1, 2):
        pod = tmp_path / f"kafka_broker-{number}_uid" / "kafka"
        pod.mkdir(parents=True)
        (pod / "0.log").write_bytes(b"2026-11-22T14:02:10.123456789Z stdout F " + line(number))
        (pod / "notes.txt").write_bytes(line(9))
    assert members(logs) == ["m-1", "m-2"]
    (tmp_path / "kafka_broker-1_uid" / "kafka" / "1.log").write_bytes(line(3))
    assert members(logs) == ["m-3"]


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is there is taken, whole lines alone; nobody waits for more, nor where it has ended."""
    out, into = os.pipe()
    with os.fdopen(out, "rb") as standard_input, os.fdopen(into, "wb", buffering=0) as writer:
        monkeypatch.setattr("sys.stdin", TextIOWrapper(standard_input))
        logs = FollowedLogs(["-"], UTC)
        assert members(logs) == []
        assert logs.are_read
        writer.write(line(1) + line(2)[:40])
        assert members(logs) == ["m-1"]
        writer.write(line(2)[40:] + line(3))
        assert members(logs) == ["m-2", "m-3"]
        writer.close()
        assert members(logs) == []
        (file,) = logs.files()
        assert (file.name, file.lines) == ("standard input", 3)


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "server.log.gz").write_bytes(gzip.compress(line(1) * 1000)[:100])
    logs = FollowedLogs([str(tmp_path / "*.gz")], UTC)
    members(logs)
    members(logs)
    (name,) = logs.problems
    assert name.endswith("server.log.gz")


def test_a_name_for_which_there_is_no_file_is_said_until_there_is_one(tmp_path: Path) -> None:
    pattern = str(tmp_path / "server.log*")
    logs = FollowedLogs([pattern], UTC)
    for _ in range(2):
        assert members(logs) == []
        assert logs.problems == {pattern: "there is no such file"}
    (tmp_path / "server.log").write_bytes(line(1))
    assert members(logs) == ["m-1"]
    (tmp_path / "server.log").unlink()  # between two logs there may be none for a moment
    assert members(logs) == []
    assert logs.problems == {}


@pytest.mark.parametrize(
    "name", ["server.log", "server.log.1", "server.log.12.gz", "server.log.2026-11-22-14", "server.log-20261122.gz"]
)
def test_lines_are_those_of_one_name(tmp_path: Path, name: str) -> None:
    """A watcher that was started after a rotation tells what one tells that saw it."""
    (tmp_path / name).write_bytes(gzip.compress(line(1)) if name.endswith("gz") else line(1))
    (found_line,) = FollowedLogs([str(tmp_path / "*")], UTC).look()
    assert (found_line.file, found_line.number) == ("server.log", 1)


def test_a_log_of_another_cluster_is_so_in_all_its_parts(tmp_path: Path) -> None:
    """A broker names its cluster when it starts, so only the oldest part does."""
    started = b"[2026-11-20 10:00:00,000] INFO Cluster ID = other (org.apache.kafka.server.KafkaServer)\n"
    (tmp_path / "server.log.1").write_bytes(started + line(1))
    (tmp_path / "server.log").write_bytes(line(2))
    logs = FollowedLogs([str(tmp_path / "server.log*")], UTC)
    logs.of_cluster = "watched"
    assert members(logs) == []
    with (tmp_path / "server.log").open("ab") as log:
        log.write(line(3))
    assert members(logs) == []
    assert sorted(Path(file).name for file in logs.foreign) == ["server.log", "server.log.1"]
