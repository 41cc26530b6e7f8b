"""Members of groups on this machine, of a coordinator in a container: ours on the event topics, and Kafka's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from group_coordinator.coordinating.members.kafka_member import Member
from tests.waiting import wait_until

GROUP, TOPIC, PARTITIONS = "readers", "orders", 3
_LIMIT_S = 120


def create_topic(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(60)


def new_member(servers: str) -> Member:
    return Member(servers, GROUP, [TOPIC], client_id="reader", client_properties={"log_level": "0"})


def poll_until(member: Member, condition: Callable[[], bool]) -> None:
    """Let a member live until then. A member that nobody polls is expired."""

    def holds() -> bool:
        member.poll(0.2)
        return condition()

    wait_until(holds, _LIMIT_S, interval_s=0)


def owns_all(member: Member) -> bool:
    return len(member.assignment) == PARTITIONS


def generation_of(member: Member) -> int:
    return member.machine.generation_id


@contextmanager
def kafka_client(servers: str) -> Iterator[Consumer]:
    """An unmodified consumer of another group, which bootstraps at a gateway."""
    client = Consumer(
        {"bootstrap.servers": servers, "group.id": "kafka-readers", "enable.auto.commit": False, "log_level": 2}
    )
    client.subscribe([TOPIC])
    try:
        yield client
    finally:
        client.close()


def wait_for_partitions(client: Consumer) -> None:
    def owns_all() -> bool:
        client.poll(0.2)
        return len(client.assignment()) == PARTITIONS

    wait_until(owns_all, _LIMIT_S, interval_s=0)


def commit(client: Consumer, offset: int) -> None:
    """Commit this offset for the first partition, and wait for the answer."""
    (answer,) = client.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False) or []
    assert answer.error is None


def committed(client: Consumer) -> int:
    (answer,) = client.committed([TopicPartition(TOPIC, 0)], _LIMIT_S)
    assert answer.error is None
    return int(answer.offset)
