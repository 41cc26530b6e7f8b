"""The metadata hash is Kafka's: recorded ones, and the examples of its record."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

from msgspec import Struct

from coordinator_state.consumer.metadata_hash import NO_TOPICS_HASH, group_metadata_hash, topic_metadata_hash
from tests.coordinator_state.consumer.assignors.vectors import topic_id

FIXTURE = Path(__file__).parents[2] / "fixtures" / "vectors" / "metadata_hash_vectors.jsonl.xz"


class Topic(Struct, frozen=True):
    name: str
    topic_id: str
    racks: tuple[tuple[str, ...], ...]


FOO_ID = "00000000-0000-0001-0000-000000000001"
BAR = Topic("bar", "00000000-0000-0002-0000-000000000002", ((),) * 3)


def test_recorded_hashes() -> None:
    groups = [json.loads(line) for line in lzma.decompress(FIXTURE.read_bytes()).splitlines()]
    assert len(groups) > 50
    for group in groups:
        topics = []
        for topic in group["topics"]:
            racks = tuple(map(tuple, topic["racks"]))
            assert len(racks) == topic["partitions"]
            topics.append(Topic(topic["name"], topic_id(topic["topic_id"]), racks))
            assert topic_metadata_hash(topics[-1].topic_id, topics[-1].name, racks) == topic["hash"]
        assert group_metadata_hash(topics) == group_metadata_hash(topics[::-1]) == group["group_hash"]


def test_topics_without_racks() -> None:
    foo = Topic("foo", FOO_ID, ((),) * 4)
    assert topic_metadata_hash(foo.topic_id, foo.name, foo.racks) == 7536123800093885086
    assert group_metadata_hash([foo]) == 6824679331406299771
    assert group_metadata_hash([foo, BAR]) == 5222798799170171658


def test_racks_in_any_order() -> None:
    assert topic_metadata_hash(FOO_ID, "foo", (("b", "rack-a"),) * 2) == -3973743891556965009
    assert topic_metadata_hash(FOO_ID, "foo", (("rack-a", "b"),) * 2) == -3973743891556965009
    assert group_metadata_hash([Topic("foo", FOO_ID, (("b", "rack-a"),) * 2)]) == 3587260363885426899


def test_no_topic_that_exists() -> None:
    assert group_metadata_hash([]) == NO_TOPICS_HASH == 0
