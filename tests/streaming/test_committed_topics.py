"""Which groups have offsets of a topic, by what the core writes on the offsets topic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import pytest
from confluent_kafka import Message

from coordinator_state import LogRecord
from group_coordinator.ground.kafka_topics.bounds import Bounds
from group_coordinator.ground.kafka_topics.reader import TopicReader
from streaming.committed_topics import CommittedTopics
from tests.coordinator_state.consumer.harness import ConsumerHarness
from tests.coordinator_state.harness import of_type, subscription


class Reader:
    """Reads what a group has written so far; all of it, or as far as `end` says."""

    def __init__(self, group: ConsumerHarness) -> None:
        self._group = group
        self.end: int | None = None

    @property
    def _records(self) -> list[LogRecord]:
        return of_type(self._group.outputs, LogRecord)[: self.end]

    def bounds(self, topic: str, partition: int) -> Bounds:
        return Bounds(0, len(self._records))

    def read(self, stretches: Mapping[Any, Bounds], is_wanted: Callable[[], bool]) -> Iterator[Message]:
        (stretch,) = stretches.values()
        for offset in range(stretch.begin, stretch.end):
            record = self._records[offset]
            yield Message(topic="offsets", partition=0, offset=offset, key=record.key, value=record.value)


@pytest.fixture
def group() -> ConsumerHarness:
    """A classic group that has committed."""
    group = ConsumerHarness()
    generation_id = group.stable("m", protocols={"range": subscription("foo")})
    group.commit("m", generation_id, {("foo", 0): 5})
    return group


def groups_with_offsets(committed: CommittedTopics, reader: Reader) -> set[str]:
    return {group_id for found in committed.of(cast(TopicReader, reader), ["foo"]) for group_id in found}


@pytest.mark.parametrize("kept_bytes_max", [33_554_432, 1], ids=["kept", "too much to keep"])
@pytest.mark.parametrize("way", ["online", "offline"])
def test_a_group_that_goes_over_to_the_consumer_protocol_takes_its_offsets_along(
    group: ConsumerHarness, way: str, kept_bytes_max: int
) -> None:
    """Its classic record gets a tombstone, as that of a group that dies. Wherever a question finds the log."""
    committed, reader = CommittedTopics("offsets", 1, lambda group_id: True, kept_bytes_max), Reader(group)
    if way == "offline":
        group.leave("m")
    before = len(of_type(group.outputs, LogRecord))
    assert groups_with_offsets(committed, reader) == {"g"}
    group.joins("native", "foo")
    for reader.end in range(before, len(of_type(group.outputs, LogRecord)) + 1):
        assert groups_with_offsets(committed, reader) == {"g"}
    assert groups_with_offsets(committed, reader) == {"g"}


def test_a_group_that_dies_is_forgotten(group: ConsumerHarness) -> None:
    committed, reader = CommittedTopics("offsets", 1, lambda group_id: True), Reader(group)
    assert groups_with_offsets(committed, reader) == {"g"}
    group.leave("m")
    group.delete()
    groups_with_offsets(committed, reader)
    assert groups_with_offsets(committed, reader) == set()
