"""What the tests of responders share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient

from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from streaming.config import StreamingConfig
from tests.coordinating.responder.running_world import Configure, World
from tests.coordinating.responder.shard_without_query import Shard, shard_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def shard(kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str) -> Iterator[Shard]:
    """A shard whose query is away."""
    with ExitStack() as stack:
        yield shard_of(kafka, admin, topic_prefix, stack)


@pytest.fixture
def configure(kafka: EmbeddedKafka, topic_prefix: str, tmp_path: Path) -> Configure:
    def configuration(**settings: object) -> StreamingConfig:
        values: dict[str, object] = {
            "bootstrap_servers": kafka.bootstrap_servers,
            "topic_prefix": topic_prefix,
            "responses_partitions": 2,
            "offsets_partitions": 4,
            "checkpoint": str(tmp_path / "checkpoint"),
            "group_initial_rebalance_delay_ms": 0,
            "responders": True,
        }
        return StreamingConfig(**(values | settings))  # type: ignore[arg-type]

    return configuration


@pytest.fixture
def world(configure: Configure, spark: SparkSession) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(configure(), spark, stack)
