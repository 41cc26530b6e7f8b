"""What brokers say of a topic when it is described."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast
from uuid import UUID

import pytest
from confluent_kafka import Uuid
from confluent_kafka.admin import TopicDescription

from group_coordinator.ground.kafka_topics.described import topic_id_of


def described(high: int, low: int) -> TopicDescription:
    """A topic whose id has these two halves, each a signed number."""
    return cast(TopicDescription, SimpleNamespace(topic_id=Uuid(high, low)))


@pytest.mark.parametrize(
    "text",
    [
        "00000000-0000-0000-0000-000000000001",
        "7a58ff1e-4724-4503-ba92-4596969749f7",
        "ffffffff-ffff-ffff-8000-000000000000",
    ],
)
def test_ids_from_two_signed_halves(text: str) -> None:
    high, low = (half - 2**64 if half >= 2**63 else half for half in divmod(UUID(text).int, 2**64))
    assert topic_id_of(described(high, low)) == text


def test_no_id() -> None:
    assert topic_id_of(described(0, 0)) is None
