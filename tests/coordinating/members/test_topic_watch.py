"""A topic that is not there is told, once, and looked up again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import cast

import pytest

from group_coordinator.coordinating.members.cluster import Cluster, TopicWatch


class FakeCluster:
    """Answers at once."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def partition_counts(self, topics: Iterable[str], on_counts: Callable[[dict[str, int]], None]) -> None:
        on_counts({topic: self.counts[topic] for topic in topics if topic in self.counts})


def test_a_topic_that_is_missing_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    cluster, later = FakeCluster(), list[Callable[[], None]]()
    watch = TopicWatch(
        cast(Cluster, cluster),
        threading.Condition(),
        lambda: {"there", "missing", "unknown"},
        lambda counts: None,
        lambda _, do: later.append(do),
    )
    cluster.counts = {"there": 3, "missing": 0}  # and `unknown` could not be looked up
    watch.look_up(["there", "missing", "unknown"])
    for _ in range(3):
        later.pop()()
    assert [record.getMessage() for record in caplog.records] == [
        "there is no topic missing (yet): members that want it get no partitions of it"
    ]
    cluster.counts["missing"] = 2
    later.pop()()
    cluster.counts["missing"] = 0
    watch.look_up(["missing"])
    assert len(caplog.records) == 2, "it was there, and is gone"
