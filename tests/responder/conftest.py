"""What the tests of responders share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka.admin import AdminClient

from group_coordinator.embedded_kafka.broker import EmbeddedKafka
from tests.responder.shard_without_query import Shard, shard_of


@pytest.fixture
def shard(kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str) -> Iterator[Shard]:
    """A shard whose query is away."""
    with ExitStack() as stack:
        yield shard_of(kafka, admin, topic_prefix, stack)
