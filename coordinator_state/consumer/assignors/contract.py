"""A server-side assignor gets the members and topics of a consumer group and answers with a target assignment.

Source: Kafka's `ConsumerGroupPartitionAssignor`, `GroupSpec` and `SubscribedTopicDescriber` (4.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Protocol

from msgspec import Struct

from coordinator_state.consumer.member import TargetAssignment


class SubscriptionType(Enum):
    """How the subscriptions of a group's members compare."""

    HOMOGENEOUS = "Homogeneous"
    """All members subscribe to the same topics."""
    HETEROGENEOUS = "Heterogeneous"


class AssignorMember(Struct, frozen=True, gc=False):
    """One member, as an assignor sees it."""

    member_id: str
    subscribed_topic_ids: tuple[str, ...]
    """Topics that exist, each once, by name or by regular expression; in the order of Java's set of them, which
    `uniform` goes by."""
    target: TargetAssignment = ()
    """Its present target assignment: what assignors are sticky to. May hold topics that are gone."""
    instance_id: str | None = None
    rack_id: str | None = None
    absent_topics: int = 0
    """How many topics it subscribes to that do not exist: Kafka makes its tables large enough for them, too."""


class AssignorTopic(Struct, frozen=True, gc=False):
    """A topic that exists: its partitions are numbered from 0."""

    partition_count: int
    racks: tuple[tuple[str, ...], ...] = ()
    """For each partition the racks of its replicas; empty when no rack is known."""


class AssignorGroup(Struct, frozen=True, gc=False):
    """The members of a group in the order in which the assignor is to see them, and the topics by id."""

    members: tuple[AssignorMember, ...]
    topics: Mapping[str, AssignorTopic]
    subscription_type: SubscriptionType
    saves_extras: bool = True
    """What some members get more is left to those that have it already; of `uniform`, from Kafka 4.1 on."""


GroupAssignment = Mapping[str, TargetAssignment]
"""Member id -> its new target assignment. A member without an entry gets nothing."""


class AssignorError(Exception):
    """No assignment, or one that breaks the contract. Source: `PartitionAssignorException`."""


class ServerAssignor(Protocol):
    """Shares the partitions of the subscribed topics among the members: a pure function under a name.

    It must depend on its argument alone: no clock, no chance, no order of Python's sets of strings.
    """

    @property
    def name(self) -> str:
        """The name by which members ask for it: not empty."""

    def assign(self, group: AssignorGroup) -> GroupAssignment:
        """Give every partition of every subscribed topic to one subscriber. Raises `AssignorError`."""


class CheckedAssignor:
    """An assignor of another package: whatever it does wrong is an `AssignorError` that names it."""

    def __init__(self, assignor: ServerAssignor) -> None:
        self.name = assignor.name
        self._assignor = assignor

    def assign(self, group: AssignorGroup) -> GroupAssignment:
        """Return its assignment. Raises `AssignorError`."""
        try:
            assignment = self._assignor.assign(group)
            check_assignment(group, assignment)
        except Exception as error:  # another package's code
            raise AssignorError(f"assignor {self.name!r}: {type(error).__name__}: {error}") from error
        return assignment


def check_assignment(group: AssignorGroup, assignment: GroupAssignment) -> None:
    """Check that each partition exists, is given once, and goes to a member that subscribes to its topic.

    Kafka does not check: two owners of a partition would show as a broken state long after. Raises `AssignorError`.
    """
    members = {member.member_id: member for member in group.members}
    taken: dict[str, set[int]] = {}
    for member_id, target in assignment.items():
        member = members.get(member_id)
        if member is None:
            raise AssignorError(f"partitions are given to {member_id!r}, which is no member of the group")
        if len({topic_id for topic_id, _ in target}) < len(target):
            raise AssignorError(f"{member_id!r} is given a topic twice")
        for topic_id, partitions in target:
            _check_topic(group, member, topic_id)
            _check_partitions(group, topic_id, partitions, taken.setdefault(topic_id, set()))


def _check_topic(group: AssignorGroup, member: AssignorMember, topic_id: str) -> None:
    if topic_id not in group.topics:
        raise AssignorError(f"{member.member_id!r} is given topic {topic_id!r}, which does not exist")
    if topic_id not in member.subscribed_topic_ids:
        raise AssignorError(f"{member.member_id!r} is given topic {topic_id!r}, to which it does not subscribe")


def _check_partitions(group: AssignorGroup, topic_id: str, partitions: tuple[int, ...], taken: set[int]) -> None:
    if not partitions:
        raise AssignorError(f"topic {topic_id!r} is given without partitions")
    partition_count = group.topics[topic_id].partition_count
    for partition in partitions:
        if not 0 <= partition < partition_count:
            raise AssignorError(f"topic {topic_id!r} has no partition {partition}")
        if partition in taken:
            raise AssignorError(f"partition {partition} of topic {topic_id!r} is given twice")
        taken.add(partition)
