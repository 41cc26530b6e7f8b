"""A watcher says what it reads, how far, and what is therefore not known."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

from group_coordinator.watching.broker_logs.broker_log import FileRead
from group_coordinator.watching.dashboard.watched import WatchedSource
from group_coordinator.watching.observed.clock_skew import Skew
from group_coordinator.watching.watch.cluster_status import (
    NO_LOG,
    NO_REQUESTS,
    NOT_FOLLOWED,
    Cluster,
    not_known,
    of_logs,
)
from group_coordinator.watching.watch.following_logs import FollowedLogs
from tests.watching.watch.broker_lines import line

CLUSTER = Cluster(servers="prod:9092", id="abc", brokers={1: "a:9092", 2: "b:9092"})


def log(broker: int | None, lines: int = 10, last_ms: int | None = 5_000) -> FileRead:
    return FileRead(name=f"server-{broker}.log", broker=broker, lines=lines, last_ms=last_ms)


def test_a_broker_whose_log_is_not_read_is_named() -> None:
    sources = list(of_logs([log(2), log(2, 5, 9_000)], CLUSTER, {}))
    assert [(source.name, source.problem, source.last_ms) for source in sources] == [
        ("log of broker 1", "not read", None),
        ("log of broker 2", "", 9_000),
    ]
    assert sources[1].detail == "server-2.log and server-2.log; 15 lines"
    missing = list(not_known(sources))
    assert missing[0].startswith("The log of broker 1 is not read: ")
    assert missing[1:] == [NO_REQUESTS]


def test_without_logs_no_reason_is_known() -> None:
    assert list(not_known(list(of_logs([], CLUSTER, {})))) == [NO_LOG, NO_REQUESTS]


def test_logs_that_are_not_followed() -> None:
    sources: list[WatchedSource] = list(of_logs([log(1), log(2), log(None)], CLUSTER, {}))
    assert [source.name for source in sources] == ["log of broker 1", "log of broker 2", "log of a broker"]
    assert list(not_known(sources, follow=False)) == [NOT_FOLLOWED, NO_REQUESTS]


def test_a_log_that_does_not_name_its_broker_may_be_of_any() -> None:
    sources = list(of_logs([log(None)], CLUSTER, {}))
    assert [source.name for source in sources] == ["log of a broker"]
    assert list(not_known(sources)) == [NO_REQUESTS]


def test_a_clock_that_differs_is_said() -> None:
    (_, source) = of_logs([log(2)], CLUSTER, {2: Skew(skew_ms=-1_500, pairs=3)})
    assert "its clock is 1.5 s behind its records', which is corrected" in source.detail


def test_how_far_a_log_was_read(tmp_path: Path) -> None:
    file = tmp_path / "server.log"
    file.write_bytes(line(1) + line(2) + b"\tat java.lang.Thread.run\n")
    logs = FollowedLogs([str(file)], UTC)
    assert logs.files() == []
    list(logs.look())
    (read,) = logs.files()
    assert (read.broker, read.lines) == (2, 3)
    assert read.last_ms == 1795371002000
