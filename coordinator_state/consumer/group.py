"""The data of a consumer group, and its part of the interface that all kinds of group have.

Source: `ConsumerGroup`, `ModernGroup` (Kafka 4.3). Members iterate in the order in which they were added, and that
order is part of the state. The methods that change a group are those that Kafka calls when it replays its records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from typing import ClassVar, final

from msgspec import Struct, field

from coordinator_state.classic.member import Rebalance
from coordinator_state.consumer import timers
from coordinator_state.consumer.assignors.contract import SubscriptionType
from coordinator_state.consumer.member import ConsumerMember, PartitionsWithEpochs, TargetAssignment
from coordinator_state.consumer.member_epochs import validate_offset_fetch
from coordinator_state.consumer.sizes import instance_bytes, member_bytes, resolved_bytes, target_bytes
from coordinator_state.errors import Refusal
from coordinator_state.group import Group
from coordinator_state.kafka_versions import KafkaVersion
from coordinator_state.offsets import OffsetExpirationCondition
from coordinator_state.timers import TimerCause
from schemas.consumer_group_records import (
    METADATA_TYPE,
    PARTITION_METADATA_TYPE,
    REGULAR_EXPRESSION_TYPE,
    TARGET_METADATA_TYPE,
    group_key,
    named_key,
)
from schemas.error_codes import ErrorCode
from schemas.group_states import ASSIGNING, RECONCILING
from schemas.messages import DescribedGroup

EMPTY, STABLE = "Empty", "Stable"
FIRST_EPOCH = 1
EXPIRED_DEADLINE = (0, 0)


class ResolvedRegex(Struct, array_like=True, frozen=True, gc=False):
    """The topics that match a regular expression."""

    topics: tuple[str, ...]
    """A set, sorted."""
    version: int
    """Of the cluster's topics in which they were looked up."""
    timestamp_ms: int


@final
class ConsumerGroup(Struct, array_like=True, tag="consumer", dict=True):
    """The members, what each shall own, and what each owns."""

    type_name: ClassVar[str] = "consumer"
    protocol_type: ClassVar[str | None] = "consumer"
    is_small: ClassVar[bool] = False

    group_epoch: int = FIRST_EPOCH
    metadata_hash: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    """Instance id -> member id."""
    assignment_epoch: int = FIRST_EPOCH
    """Of the target assignment."""
    assignment_timestamp_ms: int = 0
    """When the target assignment was computed; 0: none was since the group began or was converted."""
    targets: dict[str, TargetAssignment] = field(default_factory=dict)
    """Member id -> target assignment."""
    resolved_regexes: dict[str, ResolvedRegex] = field(default_factory=dict)
    subscription_type: SubscriptionType = SubscriptionType.HOMOGENEOUS
    metadata_deadline: tuple[int, int] = EXPIRED_DEADLINE
    """The next heartbeat looks at the topics again once this time is past, or while the group epoch is below this."""
    regex_refresh_began_ms: int | None = None
    """The expressions are being resolved since then."""
    state_since_ms: int = 0
    last_state: str = EMPTY
    """The state since then, as history and retention know it."""
    ongoing: int | None = None
    """The history record of the last change of the epoch, until all members have reconciled."""
    rebalance: Rebalance | None = None
    """What history will need of the rebalance that goes on, likewise."""
    most_members: int = 0
    """How many members there were at most: a table that Kafka's assignors go by grows with them, and never shrinks."""
    is_removed: bool = False
    """A JoinGroup has removed the group, which was empty, and was then refused. As in Kafka only those who read what is
    committed still see it, for no tombstone was written, and its offsets stay. It goes at the next retention check
    at which it has none."""

    # --------------------------------------------------------------------------------------------- what follows from it

    @property
    def member_table_size(self) -> int:
        """For how many members Kafka's table of them has room: one more than there ever were, since each record of a
        member that is there asks for room as if it were new (`BaseHashTable.baseAddOrReplace`)."""
        return max(self.most_members, len(self.members)) + 1

    @cached_property
    def owners(self) -> dict[str, dict[int, str]]:
        """Topic id -> partition -> the member that owns it, or is to give it up."""
        owners: dict[str, dict[int, str]] = {}
        for member in self.members.values():
            _own(owners, member, member.assigned)
            _own(owners, member, member.pending_revocation)
        return owners

    @cached_property
    def name_counts(self) -> Counter[str]:
        """Topic -> number of members that subscribe to it by name."""
        return Counter(name for member in self.members.values() for name in member.subscribed_topic_names)

    @cached_property
    def regex_counts(self) -> Counter[str]:
        """Expression -> number of members that subscribe by it."""
        return Counter(
            member.subscribed_topic_regex for member in self.members.values() if member.subscribed_topic_regex
        )

    @cached_property
    def assignor_votes(self) -> Counter[str]:
        """Server-side assignor -> number of members that ask for it."""
        return Counter(
            member.server_assignor for member in self.members.values() if member.server_assignor is not None
        )

    @cached_property
    def regex_topic_counts(self) -> Counter[str]:
        """Topic -> number of resolved expressions that have it."""
        return Counter(topic for resolved in self.resolved_regexes.values() for topic in resolved.topics)

    @cached_property
    def classic_protocol_counts(self) -> Counter[str]:
        """Protocol -> number of members of the classic protocol that list it."""
        return Counter(
            name
            for member in self.members.values()
            if member.classic is not None
            for name, _ in member.classic.supported_protocols
        )

    @cached_property
    def members_bytes(self) -> int:
        """What `group_max_bytes` bounds: the members, their instance ids, former ones too, what they own and shall own,
        and what their expressions match."""
        resolved = sum([resolved_bytes(resolved.topics) for resolved in self.resolved_regexes.values()])
        instances = sum([instance_bytes(instance_id, owner) for instance_id, owner in self.static_members.items()])
        members = sum(map(member_bytes, self.members.values()))
        return resolved + instances + members + sum(map(target_bytes, self.targets.values()))

    @property
    def classic_member_count(self) -> int:
        return sum([member.classic is not None for member in self.members.values()])

    def is_free(self, topic_id: str, partition: int) -> bool:
        """Return whether nobody owns the partition, or has yet to give it up."""
        return partition not in self.owners.get(topic_id, ())

    def owner(self, topic_id: str, partition: int) -> str | None:
        return self.owners.get(topic_id, {}).get(partition)

    @property
    def subscribed_topics(self) -> set[str]:
        """All topics that a member subscribes to, by name or by an expression that is resolved."""
        return set(self.name_counts) | set(self.regex_topic_counts)

    def target_of(self, member_id: str, instance_id: str | None) -> TargetAssignment:
        """Return the stored target of a member; that of a static one belongs to its instance."""
        owner = member_id if instance_id is None else self.static_members.get(instance_id, member_id)
        return self.targets.get(owner, ())

    def growth_of_instance(self, instance_id: str, member_id: str) -> int:
        """Return by how many bytes the group grows when an instance id becomes this member's."""
        owner = self.static_members.get(instance_id)
        before = 0 if owner is None else instance_bytes(instance_id, owner)
        return instance_bytes(instance_id, member_id) - before

    # -------------------------------------------------------------------------- changes, each that of a record's replay

    def put_member(self, member: ConsumerMember) -> None:
        """Add a member at the end, or put another in the place of one with its id."""
        before = self.members.get(member.member_id)
        self._forget(before)
        self.members[member.member_id] = member
        self.most_members = max(self.most_members, len(self.members))
        if member.instance_id is not None:
            self._grow(self.growth_of_instance(member.instance_id, member.member_id))
            self.static_members[member.instance_id] = member.member_id
        self.name_counts.update(member.subscribed_topic_names)
        if member.subscribed_topic_regex:
            self.regex_counts[member.subscribed_topic_regex] += 1
        if member.server_assignor is not None:
            self.assignor_votes[member.server_assignor] += 1
        if member.classic is not None:
            self.classic_protocol_counts.update([name for name, _ in member.classic.supported_protocols])
        _own(self.owners, member, member.assigned)
        _own(self.owners, member, member.pending_revocation)
        self._grow(member_bytes(member))
        self._note_subscription_type()

    def put_target(self, member_id: str, target: TargetAssignment) -> None:
        """Note what a member shall own."""
        self._grow(target_bytes(target) - target_bytes(self.targets.get(member_id, ())))
        self.targets[member_id] = target

    def remove_target(self, member_id: str) -> None:
        """Forget what a member shall own."""
        self._grow(-target_bytes(self.targets.pop(member_id, ())))

    def remove_member(self, member_id: str) -> None:
        """Take a member out; one that is not there makes no difference."""
        member = self.members.get(member_id)
        if member is None:
            return
        self._forget(member)
        del self.members[member_id]
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
            del self.static_members[member.instance_id]
            self._grow(-instance_bytes(member.instance_id, member_id))
        self._note_subscription_type()

    def put_regex(self, regex: str, resolved: ResolvedRegex | None) -> None:
        """Note the topics of an expression; None: nobody has it any more."""
        counts = self.regex_topic_counts  # made before anything changes
        before = self.resolved_regexes.pop(regex, None)
        if before is not None:
            self._grow(-resolved_bytes(before.topics))
            counts.subtract(before.topics)
            _drop_zeros(counts, before.topics)
        if resolved is not None:
            self._grow(resolved_bytes(resolved.topics))
            self.resolved_regexes[regex] = resolved
            counts.update(resolved.topics)

    def _forget(self, member: ConsumerMember | None) -> None:
        """Take a member out of all that follows from members."""
        # made before the member is gone
        counts = self.name_counts, self.regex_counts, self.assignor_votes, self.classic_protocol_counts
        owners = self.owners
        if member is None:
            return
        self._grow(-member_bytes(member))
        names: tuple[list[str], ...] = (
            list(member.subscribed_topic_names),
            [member.subscribed_topic_regex] if member.subscribed_topic_regex else [],
            [] if member.server_assignor is None else [member.server_assignor],
            [] if member.classic is None else [name for name, _ in member.classic.supported_protocols],
        )
        for counter, counted in zip(counts, names, strict=True):
            counter.subtract(counted)
            _drop_zeros(counter, counted)
        for partitions in (member.assigned, member.pending_revocation):
            for topic_id, epochs in partitions.items():
                owned = owners.get(topic_id, {})
                for partition in epochs:
                    if owned.get(partition) == member.member_id:
                        del owned[partition]
                if not owned:  # as in owners that are made anew
                    owners.pop(topic_id, None)

    def _grow(self, by_bytes: int) -> None:
        if "members_bytes" in self.__dict__:
            self.__dict__["members_bytes"] += by_bytes

    def _note_subscription_type(self) -> None:
        self.subscription_type = subscription_type(
            self.name_counts, self.regex_topic_counts, self.regex_counts, len(self.members)
        )

    # ------------------------------------------------------------------------------ the interface of all kinds of group

    @property
    def generation_id(self) -> int:
        return self.group_epoch

    @property
    def state_name(self) -> str:
        if not self.members:
            return EMPTY
        if self.group_epoch > self.assignment_epoch:
            return ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return STABLE
        return RECONCILING

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def ongoing_seq(self) -> int | None:
        return self.ongoing

    def instance_owner(self, group_instance_id: str) -> str | None:
        return self.static_members.get(group_instance_id)

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Members only, at their epoch; or whoever names neither member nor epoch."""
        validate_offset_fetch(self.members, member_id, member_epoch)

    def validate_offset_delete(self) -> None:
        """Offsets may be deleted in every state."""
        self._require_not_removed()

    def validate_delete_group(self) -> None:
        """Refuse unless the group is empty."""
        self._require_not_removed()
        if self.members:
            raise Refusal(ErrorCode.NON_EMPTY_GROUP, "group_is_not_empty", f"the group has {len(self.members)} members")

    def _require_not_removed(self) -> None:
        if self.is_removed:
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, "unknown_group", "there is no such group")

    def is_subscribed_to_topic(self, topic: str) -> bool:
        return topic in self.name_counts or topic in self.regex_topic_counts

    def offset_expiration_condition(self) -> OffsetExpirationCondition | None:
        """Retention counts from each commit, in every state."""
        return OffsetExpirationCondition(None)

    def describe(self, group_id: str) -> DescribedGroup | None:
        """DescribeGroups knows classic groups only."""
        return None

    def tombstone_keys(self, group_id: str) -> tuple[bytes, ...]:
        return () if self.is_removed else consumer_tombstone_keys(group_id, self.resolved_regexes)

    def timer_cause(self, name: str) -> TimerCause:
        timer = timers.timer_of(name)
        return TimerCause(timer.kind, timer.member_id)

    def move_time(self, by_ms: int) -> None:
        self.state_since_ms += by_ms
        if self.assignment_timestamp_ms:
            self.assignment_timestamp_ms += by_ms
        if self.metadata_deadline != EXPIRED_DEADLINE:
            self.metadata_deadline = self.metadata_deadline[0] + by_ms, self.metadata_deadline[1]
        if self.regex_refresh_began_ms is not None:
            self.regex_refresh_began_ms += by_ms


def new_group(version: KafkaVersion, now_ms: int = 0) -> ConsumerGroup:
    """Return a group that nobody has joined yet."""
    first_epoch = version.first_epoch
    return ConsumerGroup(group_epoch=first_epoch, assignment_epoch=first_epoch, state_since_ms=now_ms)


def consumer_tombstone_keys(group_id: str, regexes: Iterable[str]) -> tuple[bytes, ...]:
    """Return the keys of a consumer group's own records, and of these expressions."""
    return (
        group_key(TARGET_METADATA_TYPE, group_id),
        *[named_key(REGULAR_EXPRESSION_TYPE, group_id, regex) for regex in sorted(regexes)],
        group_key(PARTITION_METADATA_TYPE, group_id),
        group_key(METADATA_TYPE, group_id),
    )


def subscription_type(
    name_counts: Counter[str], regex_topic_counts: Counter[str], regex_counts: Counter[str], member_count: int
) -> SubscriptionType:
    """Return how the subscriptions compare. Source: `ModernGroup.subscriptionType` (Kafka 4.3)."""
    topics = name_counts.keys() | regex_topic_counts.keys()
    if not regex_counts:
        same = all(name_counts[topic] == member_count for topic in topics)
    else:
        same = next(iter(regex_counts.values())) == member_count and all(
            regex_topic_counts[topic] == 1 and name_counts[topic] == 0 for topic in topics
        )
    return SubscriptionType.HOMOGENEOUS if same else SubscriptionType.HETEROGENEOUS


def _own(owners: dict[str, dict[int, str]], member: ConsumerMember, partitions: PartitionsWithEpochs) -> None:
    for topic_id, epochs in partitions.items():
        owned = owners.setdefault(topic_id, {})
        for partition in epochs:
            owned[partition] = member.member_id


def _drop_zeros(counter: Counter[str], names: tuple[str, ...] | list[str]) -> None:
    for name in names:
        if counter[name] <= 0:
            del counter[name]


def consumer_group(group: Group) -> ConsumerGroup:
    """Return a group's body as that of a consumer group."""
    body = group.body
    assert type(body) is ConsumerGroup
    return body
