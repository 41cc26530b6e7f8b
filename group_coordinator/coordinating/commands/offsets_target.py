"""A cluster that committed offsets are brought onto: what it has, what stands against it, and the change itself."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import (
    OFFSET_INVALID,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from msgspec import Struct

from group_coordinator.coordinating.commands.committed_offsets import CommittedOffsets, Partition
from group_coordinator.ground.kafka_topics.bounds import Bounds
from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.ground.kafka_topics.log_bounds import log_bounds

TIMEOUT_S = 30.0
_NO_GROUP = (KafkaError.GROUP_ID_NOT_FOUND, KafkaError.INVALID_GROUP_ID)
_IDLE = (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD)


class Change(Struct, frozen=True):
    """One partition of one group, before and after."""

    group_id: str
    topic: str
    partition: int
    before: int | None
    """None: nothing is committed."""
    after: int
    note: str = ""


class Plan(Struct, frozen=True):
    """The effects of an import."""

    changes: list[Change]
    problems: list[str]
    """Why it cannot be done, a sentence each; empty when it can."""


class Target:
    """Methods raise KafkaException when the cluster does not answer or refuses."""

    def __init__(self, client_properties: Mapping[str, str]) -> None:
        self._admin = new_admin_client(client_properties)

    def plan(self, offsets: CommittedOffsets) -> Plan:
        """Look at the cluster; nothing is changed.

        As kafka-consumer-groups does: a group must have no members, and an offset that its log does not reach, or has
        no more, is moved to the end or the start of the log.
        """
        problems = [problem for group_id in offsets if (problem := self._why_not(group_id))]
        partitions = {partition for offset in offsets.values() for partition in offset}
        ranges = log_bounds(self._admin, partitions)
        missing = sorted(partitions - ranges.keys())
        problems += [f"There is no partition {number} of a topic {topic}." for topic, number in missing]
        changes = [
            _change(group_id, partition, before.get(partition), offset, ranges[partition])
            for group_id, by_partition in offsets.items()
            for before in [self.committed(group_id)]
            for partition, offset in by_partition.items()
            if partition in ranges
        ]
        return Plan(changes, problems)

    def committed(self, group_id: str) -> dict[Partition, int]:
        """Return a group's committed offsets; a group that does not exist has none."""
        (future,) = self._admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group_id)], request_timeout=TIMEOUT_S
        ).values()
        try:
            topic_partitions = future.result().topic_partitions or ()
        except KafkaException as problem:
            if problem.args[0].code() in _NO_GROUP:
                return {}
            raise
        return {
            (partition.topic, partition.partition): partition.offset
            for partition in topic_partitions
            if partition.offset != OFFSET_INVALID and partition.error is None
        }

    def apply(self, changes: list[Change]) -> list[str]:
        """Commit the offsets; what was refused, a sentence each."""
        by_group: dict[str, list[TopicPartition]] = {}
        for change in changes:
            by_group.setdefault(change.group_id, []).append(
                TopicPartition(change.topic, change.partition, change.after)
            )
        refusals = []
        for group_id, partitions in by_group.items():
            (future,) = self._admin.alter_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(group_id, partitions)], request_timeout=TIMEOUT_S
            ).values()
            try:
                answers = future.result().topic_partitions or ()
            except KafkaException as problem:
                refusals.append(f"Group '{group_id}': {_text(problem.args[0])}.")
                continue
            refusals += [
                f"Group '{group_id}', {answer.topic}-{answer.partition}: {_text(answer.error)}."
                for answer in answers
                if answer.error is not None
            ]
        return refusals

    def _why_not(self, group_id: str) -> str | None:
        """Return why the offsets of a group cannot be set."""
        (future,) = self._admin.describe_consumer_groups([group_id], request_timeout=TIMEOUT_S).values()
        try:
            description = future.result()
        except KafkaException as problem:
            if problem.args[0].code() in _NO_GROUP:
                return None
            raise
        if description.state in _IDLE:
            return None
        members = len(description.members or ())
        return (
            f"Group '{group_id}' is {description.state.name.lower().replace('_', ' ')} with {members} members: stop "
            "them first."
        )


def _change(
    group_id: str, partition: Partition, before: int | None, asked_offset: int, log: Bounds
) -> Change:
    after = min(max(asked_offset, log.begin), log.end)
    if after < asked_offset:
        note = f"{asked_offset} lies beyond the end of the log"
    elif after > asked_offset:
        note = f"{asked_offset} lies before the start of the log"
    else:
        note = "unchanged" if before == after else ""
    return Change(group_id, *partition, before, after, note)


def _text(error: KafkaError) -> str:
    return error.str().removeprefix("Broker: ").rstrip(".")
