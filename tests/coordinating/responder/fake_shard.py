"""A shard on a Kafka in memory whose query has published one batch, for the tests of a responder's loop."""

from __future__ import annotations

import pytest

from group_coordinator.coordinating.responder import loop
from schemas.events import encode_request_event
from schemas.messages import HeartbeatRequest
from schemas.query_progress import QueryProgress, encode_progress, key_of
from streaming import progress_topic
from streaming.config import StreamingConfig
from streaming.stored_group import ShardState
from tests.coordinating.responder.fake_kafka import FakeKafka

CONFIG = StreamingConfig(responders=True)
TOPICS = CONFIG.topics
STATE = ShardState(batch_id=3, start_offset=0, end_offset=0, clock_ms=1_000, groups={})
PROGRESS = QueryProgress(core_hash="ours", batch_id=3, start_offset=0, end_offset=0, clock_ms=1_000)


def heartbeat(request_id: str) -> bytes:
    """An event of the group `g`."""
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    return encode_request_event("Heartbeat", 4, request, request_id=request_id, reply_partition=0, client_id="c")


def kafka_with_progress(monkeypatch: pytest.MonkeyPatch) -> FakeKafka:
    """What a responder reads and writes; it publishes whenever it looks."""
    kafka = FakeKafka()
    monkeypatch.setattr(loop, "TopicReader", kafka.reader)
    monkeypatch.setattr(loop, "new_producer", kafka.producer)
    monkeypatch.setattr(progress_topic, "new_producer", kafka.producer)
    monkeypatch.setattr(loop, "STATUS_INTERVAL_S", 0.0)
    kafka.append(TOPICS.progress, key_of(QueryProgress), encode_progress(PROGRESS))
    return kafka
