"""A member of a group on this machine, of a coordinator in a container."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka.admin import AdminClient, NewTopic

from group_coordinator.members.kafka_member import Member
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
