"""What single lines of a request log tell of the cluster."""

from __future__ import annotations

import json

from msgspec import Raw

from group_coordinator.proving.recordings.cluster_lines import METADATA, ClusterLine, cluster_line

_BROKER = {"nodeId": 1, "host": "b", "port": 9092, "rack": None}
_ABSENT = {"errorCode": 3, "name": "orders", "topicId": "AAAAAAAAAAAAAAAAAAAAAA", "partitions": []}


def metadata(*brokers: dict[str, object], asked: list[dict[str, str]] | None = None) -> ClusterLine | None:
    answer = {"brokers": brokers, "topics": [_ABSENT]}
    return cluster_line(METADATA, Raw(json.dumps({"topics": asked}).encode()), Raw(json.dumps(answer).encode()), 0, 1)


def test_a_topic_that_a_broker_does_not_know_is_absent() -> None:
    line = metadata(_BROKER)
    assert line is not None
    assert [(seen.kind, seen.name) for seen in line.sightings] == [("absent", "orders")]
    assert line.lists_all


def test_a_broker_that_has_just_started_tells_nothing_of_topics() -> None:
    """Kafka 2.8 answers before it has heard of the cluster: with no brokers, not even itself, and no topics."""
    assert metadata() is None
    assert metadata(asked=[{"name": "orders"}]) is None
