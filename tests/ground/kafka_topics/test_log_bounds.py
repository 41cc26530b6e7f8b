"""A record can name a topic as no topic can be called: nobody is asked about it, and nothing ends by it."""

from __future__ import annotations

import pytest

from group_coordinator.ground.kafka_topics.log_bounds import can_be


@pytest.mark.parametrize(
    "topic", ["", "\0nul", "a\0b", "a b", ".", "..", "a" * 250, "\u202egnp.exe", "a/b?c#d&e", "a\n", "\udcff"]
)
def test_names_that_no_topic_can_have(topic: str) -> None:
    assert not can_be((topic, 0))


@pytest.mark.parametrize("topic", ["t", "a" * 249, "__consumer_offsets", "a.b-c_D9", "..."])
def test_names_that_topics_have(topic: str) -> None:
    assert can_be((topic, 0))
    assert not can_be((topic, -1))
    assert not can_be((topic, 2**31))
