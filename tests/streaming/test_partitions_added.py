"""Partitions that are added while the coordinator runs: to the responses, they are served;
to the events, it stops and says why."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql import SparkSession

from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from schemas.error_codes import ErrorCode
from schemas.events import decode_response_event, encode_request_event
from schemas.messages import HeartbeatResponse
from streaming.config import StreamingConfig
from streaming.topics import TopicError
from tests.streaming.running_app import GROUP, HEARTBEAT, TIMEOUT_S, Client, RunningApp
from tests.waiting import wait_until

ANSWER = HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)


def test_partitions_added(
    spark: SparkSession, kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str, tmp_path: Path
) -> None:
    config = StreamingConfig(
        bootstrap_servers=kafka.bootstrap_servers, topic_prefix=topic_prefix, checkpoint=str(tmp_path),
        offsets_partitions=1, responses_partitions=2,
    )  # fmt: skip
    topics = config.topics
    with RunningApp(config, spark) as app:
        client = Client(config)
        admin.create_partitions([NewPartitions(topics.responses, 6)])[topics.responses].result(20)
        wait_until(lambda: len(admin.list_topics(timeout=10).topics[topics.responses].partitions) == 6, TIMEOUT_S)
        assert _is_answered(config, client, topics.responses, 5)
        assert not _is_answered(config, client, topics.dead_letters, 6), "which there is not"
        assert client.answer(client.send("Heartbeat", 4, HEARTBEAT)) == ANSWER
        wait_until(lambda: app.failure is None, TIMEOUT_S)
        admin.create_partitions([NewPartitions(topics.events, 2)])[topics.events].result(20)
        app.join()
    assert isinstance(app.failure, TopicError)
    (sentence,) = app.failure.mistakes
    assert sentence.startswith(f"{topics.events} had 1 partition and has 2 partitions now")
    assert "offsets export" in sentence


def _is_answered(config: StreamingConfig, client: Client, topic: str, partition: int) -> bool:
    """Ask for an answer on a partition, wait until the answer lies in the topic, and tell whether it is an answer."""
    reader = Consumer({**config.client_properties, "group.id": "test"})
    place = TopicPartition(topic, partition if topic == config.topics.responses else 0, 0)
    reader.assign([place])
    value = encode_request_event(
        "Heartbeat", 4, HEARTBEAT, request_id=f"to-{partition}", reply_partition=partition, client_id="test"
    )
    client.write(GROUP.encode(), value)
    message = reader.poll(60)
    assert message is not None
    reader.close()
    assert message.key() == f"to-{partition}".encode()
    _, response = decode_response_event(message.value() or b"")
    assert response == ANSWER
    return "reason" not in dict(message.headers() or [])
