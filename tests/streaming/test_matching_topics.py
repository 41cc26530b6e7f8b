"""What is kept of expressions has a bound, also of those that match nothing."""

from __future__ import annotations

import pytest

from group_coordinator.ground.kafka_topics.cluster_topics import ClusterTopics
from schemas.events import encode_json
from schemas.known_topics import KnownTopic
from streaming import group_news
from streaming.group_news import MatchingTopics

TOPIC_ID = "00000000-0000-0000-0000-000000000001"


@pytest.fixture
def matching(monkeypatch: pytest.MonkeyPatch) -> MatchingTopics:
    monkeypatch.setattr(group_news, "KEPT_NAMES_MAX", 100)
    topics = ClusterTopics()
    topics.take(TOPIC_ID.encode(), encode_json(KnownTopic(name="orders", topic_id=TOPIC_ID, partitions=((),))), 0)
    return MatchingTopics(topics, "coordinator.")


@pytest.mark.parametrize("beginning", ["none-", "orders|none-"])
def test_expressions_beyond_the_bound_are_forgotten(matching: MatchingTopics, beginning: str) -> None:
    """Each job may have one of its own, with its number in it."""
    expressions = [f"{beginning}{number}" for number in range(1_000)]
    for expression in expressions:
        assert matching.of(expression) == ({"orders"} if beginning.startswith("orders") else set())
    kept = [expression for expression in expressions if not matching.may_concern(expression, {"another"})]
    assert 10 < len(kept) <= 100
    assert kept == expressions[-len(kept) :]


def test_no_expression_matches_the_coordinators_own_topics() -> None:
    topics = ClusterTopics()
    for offset, name in enumerate(("orders", "coordinator.history", "coordinators")):
        topic_id = f"{TOPIC_ID[:-1]}{offset}"
        topics.take(topic_id.encode(), encode_json(KnownTopic(name=name, topic_id=topic_id, partitions=((),))), offset)
    assert MatchingTopics(topics, "coordinator.").of(".*") == {"orders", "coordinators"}
