"""Topics are created right when absent and judged when present."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.ground.settings.topic_names import Topics
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka, free_port
from streaming.topics import TopicError, TopicSettings, ensure_topics
from tests.waiting import wait_until


def configs_of(admin: AdminClient, topic: str) -> dict[str, str]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    return {name: entry.value for name, entry in admin.describe_configs([resource])[resource].result().items()}


def make(admin: AdminClient, name: str, partitions: int = 1, **config: str) -> None:
    config = {key.replace("_", "."): value for key, value in config.items()}
    admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result()
    # A broker hears of it some milliseconds later.
    wait_until(lambda: name in admin.list_topics().topics, interval_s=0.01)


def test_names() -> None:
    topics = Topics.of_prefix("coordinator")
    assert topics.events == "coordinator.events"
    assert topics.outputs == (
        "coordinator.responses",
        "coordinator.assignments",
        "coordinator.offsets",
        "coordinator.history",
        "coordinator.dead-letters",
    )


def test_creates_all_of_them_as_designed(admin: AdminClient, topic_prefix: str) -> None:
    report = ensure_topics(admin, TopicSettings(topic_prefix=topic_prefix, shards=3))
    topics = report.topics
    assert report.created == (topics.events, *topics.outputs, topics.topics, topics.progress)
    assert report.warnings == ()
    assert report.partitions == {
        topics.events: 3,
        topics.responses: 8,
        topics.assignments: 1,
        topics.offsets: 50,
        topics.history: 1,
        topics.dead_letters: 1,
        topics.topics: 3,
        topics.progress: 3,
    }
    policies = {name: configs_of(admin, name)["cleanup.policy"] for name in report.partitions}
    assert policies == {
        topics.events: "delete",
        topics.responses: "delete",
        topics.assignments: "compact",
        topics.offsets: "compact",
        topics.history: "delete",
        topics.dead_letters: "delete",
        topics.topics: "compact",
        topics.progress: "compact",
    }
    events = configs_of(admin, topics.events)
    assert events["message.timestamp.type"] == "LogAppendTime"
    assert events["retention.ms"] == "-1"
    assert configs_of(admin, topics.responses)["retention.ms"] == "3600000"
    for name in topics.outputs:
        assert int(configs_of(admin, name)["max.message.bytes"]) > 4 * 1024 * 1024 > int(events["max.message.bytes"])


def test_the_largest_record_fits_with_its_headers(
    kafka: EmbeddedKafka, admin: AdminClient, topic_settings: TopicSettings
) -> None:
    report = ensure_topics(admin, topic_settings)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "message.max.bytes": 8_000_000})
    problems: list[object] = []
    producer.produce(
        report.topics.dead_letters,
        key=b"k" * 249,
        value=b"v" * topic_settings.output_max_bytes,
        headers={"reason": b"r" * 10_000},
        on_delivery=lambda error, _: problems.append(error),
    )
    assert producer.flush(30) == 0
    assert problems == [None]


def test_a_second_time_creates_nothing(admin: AdminClient, topic_settings: TopicSettings) -> None:
    first = ensure_topics(admin, topic_settings)
    second = ensure_topics(admin, topic_settings)
    assert second.created == ()
    assert second.partitions == first.partitions


def test_partition_counts_are_those_found_not_those_wished_for(admin: AdminClient, topic_prefix: str) -> None:
    make(admin, f"{topic_prefix}.responses", 5, max_message_bytes="5000000")
    settings = TopicSettings(topic_prefix=topic_prefix, responses_partitions=2, offsets_partitions=4)
    report = ensure_topics(admin, settings)
    assert report.partitions[report.topics.responses] == 5
    assert report.topics.responses not in report.created


def test_every_mistake_is_told_at_once_and_nothing_is_created(admin: AdminClient, topic_prefix: str) -> None:
    make(admin, f"{topic_prefix}.events", 2, cleanup_policy="compact", message_timestamp_type="CreateTime")
    make(admin, f"{topic_prefix}.offsets", 4, cleanup_policy="delete", max_message_bytes="5000000")
    make(admin, f"{topic_prefix}.assignments", 1, cleanup_policy="compact,delete", max_message_bytes="5000000")
    make(admin, f"{topic_prefix}.history", 1, max_message_bytes="1048588")
    with pytest.raises(TopicError) as raised:
        ensure_topics(admin, TopicSettings(topic_prefix=topic_prefix, shards=4))
    shards, timestamps, events_policy, assignments_policy, offsets_policy, size = raised.value.mistakes
    assert shards.startswith(f"{topic_prefix}.events has 2 partitions but --shards is 4")
    assert timestamps.startswith(f"{topic_prefix}.events has message.timestamp.type=CreateTime")
    assert events_policy.startswith(f"{topic_prefix}.events has cleanup.policy=compact")
    assert assignments_policy.startswith(f"{topic_prefix}.assignments has cleanup.policy=")
    assert assignments_policy.endswith("set it to compact.")
    assert offsets_policy.startswith(f"{topic_prefix}.offsets has cleanup.policy=delete")
    assert size.startswith(f"{topic_prefix}.history has max.message.bytes=1048588")
    assert str(raised.value).count("\n") == 5
    assert f"{topic_prefix}.responses" not in admin.list_topics().topics


def test_an_event_must_fit_into_a_dead_letter(admin: AdminClient, topic_prefix: str) -> None:
    make(
        admin, f"{topic_prefix}.events", 1, max_message_bytes="4194304", message_timestamp_type="LogAppendTime",
        compression_type="uncompressed",
    )  # fmt: skip
    with pytest.raises(TopicError, match="must fit into a dead letter: set it to 4259840 or more"):
        ensure_topics(admin, TopicSettings(topic_prefix=topic_prefix))
    settings = TopicSettings(topic_prefix=topic_prefix, output_max_bytes=4_259_840, offsets_partitions=1)
    report = ensure_topics(admin, settings)
    assert report.warnings == ()


def test_an_events_topic_with_its_senders_times_is_refused(admin: AdminClient, topic_prefix: str) -> None:
    make(admin, f"{topic_prefix}.events", 1, message_timestamp_type="CreateTime")
    with pytest.raises(
        TopicError, match=r"events has message\.timestamp\.type=CreateTime: .* set it to LogAppendTime\.$"
    ):
        ensure_topics(admin, TopicSettings(topic_prefix=topic_prefix))


def test_compression_and_short_retention_are_warnings(admin: AdminClient, topic_prefix: str) -> None:
    make(admin, f"{topic_prefix}.events", 1, message_timestamp_type="LogAppendTime", retention_ms="3600000")
    settings = TopicSettings(topic_prefix=topic_prefix, offsets_partitions=1)
    compression, retention = ensure_topics(admin, settings).warnings
    assert "compression.type=producer" in compression
    assert "retention.ms=3600000" in retention


def test_a_small_batch_is_not_a_large_record(
    kafka: EmbeddedKafka, admin: AdminClient, topic_settings: TopicSettings
) -> None:
    topics = ensure_topics(admin, topic_settings).topics
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "message.max.bytes": 80_000_000, "compression.type": "zstd"}
    )
    problems: list[KafkaError | None] = []
    for size in (1_000_000, 40_000_000):
        producer.produce(
            topics.events, key=b"g", value=b"x" * size, on_delivery=lambda error, _: problems.append(error)
        )
        assert producer.flush(30) == 0
    assert [problem and problem.code() for problem in problems] == [None, KafkaError.MSG_SIZE_TOO_LARGE]


def test_a_refused_creation_says_what_to_create(admin: AdminClient, topic_prefix: str) -> None:
    settings = TopicSettings(topic_prefix=topic_prefix, replication_factor=3, offsets_partitions=1)
    with pytest.raises(TopicError) as raised:
        ensure_topics(admin, settings)
    assert len(raised.value.mistakes) == 8
    assert f"{topic_prefix}.events cannot be created" in raised.value.mistakes[0]
    assert "1 partitions, 3 replicas and cleanup.policy=delete" in raised.value.mistakes[0]


def test_no_broker() -> None:
    with pytest.raises(TopicError, match=r"Kafka at 127\.0\.0\.1:\d+ does not answer within 1 s"):
        ensure_topics(new_admin_client({"bootstrap.servers": f"127.0.0.1:{free_port()}"}), timeout_s=1)


def test_client_properties_reach_the_client() -> None:
    with pytest.raises(Exception, match="protocol"):
        new_admin_client({"bootstrap.servers": "127.0.0.1:1", "security.protocol": "nonsense"})
