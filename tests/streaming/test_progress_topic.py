"""Before a query goes on: what a responder of another release has answered must be decided by that release."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from schemas.events import encode_tick
from schemas.query_progress import ResponderClaim, decode_progress, encode_progress, key_of
from streaming.answered_ahead import is_settled_by_others
from streaming.checkpoints import CheckpointError
from streaming.events_tail import open_reader
from streaming.stored_group import CommittedBatch
from streaming.topics import TopicSettings, ensure_topics
from tests.streaming.replays import CONFIG


class Log:
    """The topics of a coordinator, with a tick at offset 0 and a request at offset 1."""

    def __init__(self, kafka: EmbeddedKafka, admin: AdminClient, prefix: str) -> None:
        self.properties = {"bootstrap.servers": kafka.bootstrap_servers}
        settings = TopicSettings(topic_prefix=prefix, responders=True, offsets_partitions=1)
        ensure_topics(admin, settings)
        self.topics = settings.topics
        self._producer = Producer(self.properties)
        self._write(self.topics.events, None, encode_tick(1))
        self._write(self.topics.events, b"group", b"{}")

    def claim(self, core_hash: str) -> None:
        self._write(self.topics.progress, key_of(ResponderClaim), encode_progress(ResponderClaim(core_hash=core_hash)))

    def is_settled(self, end_offset: int | None, core_hash: str = "ours", *, is_anew: bool = False) -> bool:
        batch = None if end_offset is None else CommittedBatch(1, 0, end_offset, 0)
        with open_reader(self.properties) as reader:
            return is_settled_by_others(reader, self.topics, 0, batch, core_hash, is_anew=is_anew)

    def _write(self, topic: str, key: bytes | None, value: bytes) -> None:
        self._producer.produce(topic, key=key, value=value, partition=0)
        self._producer.flush()


def test_a_backlog_that_another_hash_has_answered_is_refused(
    kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str
) -> None:
    log = Log(kafka, admin, topic_prefix)
    assert not log.is_settled(None)
    log.claim("theirs")
    for end_offset in (None, 0, 1):
        with pytest.raises(CheckpointError, match=r"event at offset 1 .* Start the former release"):
            log.is_settled(end_offset)
    assert log.is_settled(2)
    assert log.is_settled(None, is_anew=True)
    assert not log.is_settled(0, core_hash="theirs")


@pytest.mark.parametrize("value", [b"", b"{}", b"[]", b"\xff", b'{"type":"of_tomorrow"}'])
def test_what_is_no_record_of_the_topic_is_refused_by_one_error(value: bytes) -> None:
    assert decode_progress(value) is None


def test_every_record_comes_back() -> None:
    claim = ResponderClaim(core_hash="h")
    assert decode_progress(encode_progress(claim)) == claim
    assert key_of(ResponderClaim) == b"responder_claim"
    assert not CONFIG.responders
