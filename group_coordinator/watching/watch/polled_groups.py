"""The groups of a cluster as the admin API shows them now.

librdkafka asks. It can abort its process where coordinators are away (its issue 4605), so `answer_polls` runs in a
process of its own (`separate_process`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from multiprocessing.connection import Connection
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, ConsumerGroupType, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConsumerGroupDescription, MemberAssignment, MemberDescription
from msgspec import Struct

from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.ground.kafka_topics.described import brokers_of
from group_coordinator.ground.kafka_topics.errors import TIMEOUT_S, TopicReadError, explaining
from group_coordinator.watching.observed.polled import DEAD, PolledGroup
from schemas.history import AssignedTopic, MemberIdentity

_DESCRIBED_AT_ONCE = 200
_STATES = {
    "STABLE": "Stable",
    "EMPTY": "Empty",
    "DEAD": "Dead",
    "PREPARING_REBALANCING": "PreparingRebalance",
    "COMPLETING_REBALANCING": "CompletingRebalance",
}
_log = logging.getLogger(__name__)

CLUSTER, GROUPS = "cluster", "groups"
"""What can be asked: of which cluster these groups are, and all groups."""

Offsets = Mapping[tuple[str, int], int]


class Poll(Struct, frozen=True, kw_only=True):
    """An answer: what can be seen of the cluster, or of its groups."""

    cluster_id: str = ""
    brokers: Mapping[int, str] = {}
    """Host and port by number."""
    groups: tuple[PolledGroup, ...] = ()
    refused: int = 0
    """Groups that this client may not describe."""
    unanswered: tuple[str, ...] = ()
    """Groups of which nothing is said, those among them: they may be there or not."""
    problem: str = ""
    """Why nothing is shown; a sentence."""


def answer_polls(connection: Connection, properties: Mapping[str, str]) -> None:
    """Answer `CLUSTER` and `GROUPS` with a `Poll` each, until the other side is gone: the main function of a process.

    `properties` are librdkafka's.
    """
    poller = GroupPoller(lambda: new_admin_client(properties))
    while True:
        question = connection.recv()
        try:
            with explaining(properties):
                poll = _cluster(new_admin_client(properties)) if question == CLUSTER else poller.groups()
        except (TopicReadError, TimeoutError) as problem:
            poll = Poll(problem=str(problem) or f"Kafka does not answer within {TIMEOUT_S:g} s.")
        connection.send(poll)


def _cluster(admin: AdminClient) -> Poll:
    _group_ids(admin)
    metadata = admin.list_topics(timeout=TIMEOUT_S)
    return Poll(cluster_id=metadata.cluster_id or "", brokers=brokers_of(metadata))


class GroupPoller:
    """Asks for all groups again and again.

    A client that got no answer is not asked again: librdkafka's does not find a coordinator any more that was away.
    """

    def __init__(self, client: Callable[[], AdminClient]) -> None:
        """`client` makes one."""
        self._make_client = client
        self._client: AdminClient | None = None
        self._known: dict[str, None] = {}
        """The groups that were there when they were last asked for."""

    def groups(self) -> Poll:
        """Return all groups. One that is not listed any more is asked for: a coordinator that loads lists none.

        Raises KafkaException, TimeoutError where no broker lists its groups.
        """
        client = self._make_client() if self._client is None else self._client
        self._client = None
        group_ids = dict.fromkeys(_group_ids(client)) | self._known
        refused: list[str] = []
        unanswered: list[str] = []
        groups = tuple(_described(client, list(group_ids), refused, unanswered))
        there = [group.group_id for group in groups if group.state != DEAD]
        self._known = dict.fromkeys([*there, *unanswered])
        self._client = None if unanswered else client
        return Poll(groups=groups, refused=len(refused), unanswered=(*unanswered, *refused))


def _group_ids(admin: AdminClient) -> list[str]:
    """Return the groups of the brokers that answer. Raises KafkaException, TimeoutError where none does."""
    listed = admin.list_consumer_groups(request_timeout=TIMEOUT_S).result(TIMEOUT_S + 1)
    if listed.errors and not listed.valid:
        problem = listed.errors[0]
        raise problem if isinstance(problem, KafkaException) else KafkaException(problem)
    return [group.group_id for group in listed.valid]


def _described(
    admin: AdminClient, group_ids: list[str], refused: list[str], unanswered: list[str]
) -> Iterator[PolledGroup]:
    for begin in range(0, len(group_ids), _DESCRIBED_AT_ONCE):
        asked_ids = group_ids[begin : begin + _DESCRIBED_AT_ONCE]
        descriptions = admin.describe_consumer_groups(asked_ids, request_timeout=TIMEOUT_S)
        offsets = {
            group_id: admin.list_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(group_id)], request_timeout=TIMEOUT_S
            )[group_id]
            for group_id in asked_ids
        }
        for group_id, future in descriptions.items():
            try:
                group = future.result(TIMEOUT_S + 1)
            except (KafkaException, TimeoutError) as problem:
                _log.debug("group %s is not described: %s", group_id, problem)
                if _is(problem, KafkaError.GROUP_AUTHORIZATION_FAILED):
                    refused.append(group_id)
                elif not _is(problem, KafkaError.GROUP_ID_NOT_FOUND):
                    unanswered.append(group_id)
                continue
            yield _polled(group, _offsets(offsets[group_id]))


def _is(problem: Exception, code: int) -> bool:
    error = problem.args[0] if problem.args else None
    return isinstance(error, KafkaError) and error.code() == code


def _polled(group: ConsumerGroupDescription, offsets: Offsets | None) -> PolledGroup:
    is_consumer_group = group.type == ConsumerGroupType.CONSUMER
    return PolledGroup(
        group_id=group.group_id,
        state=_STATES.get(group.state.name, group.state.name.title()),
        protocol_type="consumer",
        assignor=group.partition_assignor or None,
        members={member.member_id: (_identity(member), _topics(member.assignment)) for member in group.members},
        offsets=offsets,
        kind="consumer" if is_consumer_group else "classic",
        targets={
            member.member_id: _topics(member.target_assignment) for member in group.members if member.target_assignment
        },
    )


def _identity(member: MemberDescription) -> MemberIdentity:
    return MemberIdentity(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id or None,
        client_id=member.client_id or "",
        client_host=member.host or "",
    )


def _topics(assignment: MemberAssignment | None) -> tuple[AssignedTopic, ...]:
    numbers: dict[str, list[int]] = {}
    partitions: Iterable[Any] = assignment.topic_partitions if assignment else ()
    for partition in partitions:
        numbers.setdefault(partition.topic, []).append(partition.partition)
    return tuple(AssignedTopic(topic=topic, partitions=tuple(sorted(numbers[topic]))) for topic in sorted(numbers))


def _offsets(future: Any) -> Offsets | None:
    try:
        partitions = future.result(TIMEOUT_S + 1).topic_partitions or ()
    except (KafkaException, TimeoutError):
        return None
    return {
        (partition.topic, partition.partition): partition.offset
        for partition in partitions
        if partition.error is None and partition.offset >= 0
    }
