"""What single lines of a request log tell of the cluster."""

from __future__ import annotations

import json

import pytest
from msgspec import Raw

from group_coordinator.proving.recordings.cluster_lines import METADATA, ClusterLine, Kind, Sighting, cluster_line
from group_coordinator.proving.recordings.cluster_topics import ClusterLog, cluster_topics

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


@pytest.mark.parametrize(("id_after", "ids"), [("a", ["a"]), ("b", ["a", None, "b"]), (None, ["a", None])])
def test_a_topic_that_is_there_again_was_never_gone(id_after: str | None, ids: list[str | None]) -> None:
    """A broker that starts knows itself before it knows the topics. An id is never given again."""
    log = ClusterLog()
    seen: list[tuple[Kind, str | None]] = [("there", "a"), ("absent", None)]
    seen += [("there", id_after)] if id_after else []
    for number, (kind, topic_id) in enumerate(seen, 1):
        at_us = number * 10_000_000
        sighting = Sighting(kind=kind, name="t", topic_id=topic_id, partitions=1, replicas=((1,),))
        log.take(ClusterLine(earliest_us=at_us, latest_us=at_us, sightings=(sighting,)), 0, number)
    changes = cluster_topics(log, lambda _file, _line: 0).changes
    assert [change.topic and change.topic.topic_id for change in changes] == ids
