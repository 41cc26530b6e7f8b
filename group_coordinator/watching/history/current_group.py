"""A group as it is now, followed record by record: its members, what they ask for, and their way to the target."""

from __future__ import annotations

from msgspec import Struct, UnsetType

from group_coordinator.ground.kafka_topics.bounds import Partition
from group_coordinator.watching.history.fold import GroupFold
from group_coordinator.watching.history.holding import Holder
from group_coordinator.watching.history.reconciliation import Reconciliation, rename
from group_coordinator.watching.history.view import Departure, JoinedMember, Removal, RemovedOffsets
from schemas.consumer_group_history import (
    ConsumerMember,
    ConsumerMemberUpdated,
    GroupConverted,
    GroupEpochBumped,
    MemberReconciled,
    RegexResolved,
    TargetAssignmentComputed,
)
from schemas.group_states import NO_GROUP, UNKNOWN, GroupState
from schemas.history import (
    AssignedTopic,
    GroupRecorded,
    History,
    HistoryRecord,
    JoinPhaseCompleted,
    MemberIdentity,
    MemberRejoined,
    MemberReplaced,
    OffsetsCommitted,
)
from schemas.observed_history import GroupRestored
from schemas.transaction_history import NeverCounted, TransactionalOffsetsPending

CLASSIC, CONSUMER, SHARE = "classic", "consumer", "share"
WITHOUT_MEMBERS = (GroupState.EMPTY.value, GroupState.DEAD.value, UNKNOWN)


class OpenTransaction(Struct):
    """What a producer's transaction wrote, and does not count yet."""

    producer_epoch: int
    transactional_id: str | UnsetType
    since_ms: int
    partitions: dict[Partition, None]


class CurrentGroup(GroupFold):
    """One group as it is now. What shows more of it inherits from this class."""

    __slots__ = (
        "_resolved", "asks", "generation_id", "kind", "leader_id", "members", "protocol_name", "state",
        "state_since_ms", "transactions", "unresolved", "way",
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.kind = CLASSIC
        """The kind of the group; groups that are not classic count epochs."""
        self.state = NO_GROUP
        self.state_since_ms = 0
        self.generation_id = 0
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, MemberIdentity] = {}
        self.asks: dict[str, ConsumerMember] = {}
        """What its members ask for; without those that came with it when it was a classic one."""
        self._resolved: dict[str, tuple[str, ...]] = {}
        """Expression -> the topics that match it."""
        self.unresolved: dict[str, str] = {}
        """The members whose expression is not resolved yet -> the expression."""
        self.way = Reconciliation()
        """It has the target of a group that counts epochs, and how far members have come."""
        self.transactions: dict[int, OpenTransaction] = {}
        """The open transactions that offsets of the group wait for, by producer id. Of a group that the cluster's
        brokers coordinate none: their records do not name transactions, which are told with the doubts."""

    @property
    def classic_members(self) -> list[str]:
        """Return the members of the classic protocol in a consumer group."""
        if self.kind != CONSUMER:
            return []
        asks = self.asks
        return [each for each in self.members if each not in asks or asks[each].uses_classic_protocol]

    @property
    def regexes(self) -> dict[str, tuple[str, ...] | None]:
        """Return the members' expressions, with the topics that match; None: these have not been looked for yet."""
        asked = {asks.subscribed_regex for asks in self.asks.values() if asks.subscribed_regex}
        return {regex: self._resolved.get(regex) for regex in sorted(asked)}

    def holders(self) -> tuple[Holder, ...]:
        """Return who must give up partitions, the one that has known it longest first; in a share group, where several
        members have the same partitions, nobody."""
        return () if self.kind == SHARE else self.way.holders()

    def gives_up_by_ms(self, member_id: str) -> int | None:
        """Return when a member that does not give up what it was told to is dropped; None: not known."""
        record, asks = self.way.progress.get(member_id), self.asks.get(member_id)
        if record is None or asks is None or asks.uses_classic_protocol or asks.rebalance_timeout_ms is None:
            return None
        return record.timestamp_ms + asks.rebalance_timeout_ms if record.state == "unrevoked_partitions" else None

    # ------------------------------------------------------------------------------------------------------ the group

    def life_began(self, record: HistoryRecord) -> None:
        self.forget_members()
        self.transactions = {}
        self.kind = CLASSIC
        self.leader_id = self.protocol_name = None
        self.generation_id = 0
        if self.state in (NO_GROUP, GroupState.DEAD):  # and history does not go back to its creation
            self.state_entered(record, GroupState.EMPTY.value)

    def state_entered(self, record: HistoryRecord, state: str) -> None:
        self.state, self.state_since_ms, self.generation_id = state, record.timestamp_ms, record.generation_id
        if state == GroupState.DEAD:
            self.transactions = {}
        if state in WITHOUT_MEMBERS and not isinstance(record, GroupConverted):  # members go over with their group
            self.forget_members()

    def group_found(self, record: GroupRecorded | GroupRestored) -> None:
        self.members = {joined.member.member_id: joined.member for joined in record.members}
        self.leader_id, self.protocol_name = record.leader_id, record.protocol_name

    def group_converted(self, record: GroupConverted) -> None:
        self.kind = record.to_protocol
        self.forget_epochs()

    def epoch_raised(self, record: GroupEpochBumped) -> None:
        self.kind = record.protocol

    def forget_members(self) -> None:
        """Forget the members, and all that was known of them."""
        self.members = {}
        self.forget_epochs()

    def forget_epochs(self) -> None:
        """Forget what only groups that count epochs have."""
        self.asks, self._resolved, self.unresolved = {}, {}, {}
        self.way.clear()

    # -------------------------------------------------------------------------------------------------------- members

    def member_joined(self, record: HistoryRecord, joined: JoinedMember) -> None:
        self.members[joined.member.member_id] = joined.member
        if isinstance(joined, ConsumerMember):
            self._asks_for(joined)

    def member_rejoined(self, record: MemberRejoined) -> None:
        self.members[record.member.member_id] = record.member

    def member_changed(self, record: ConsumerMemberUpdated) -> None:
        self._asks_for(record.updated)

    def _asks_for(self, asks: ConsumerMember) -> None:
        self.asks[asks.member.member_id] = asks
        if asks.subscribed_regex is None or asks.subscribed_regex in self._resolved:
            self.unresolved.pop(asks.member.member_id, None)
        else:
            self.unresolved[asks.member.member_id] = asks.subscribed_regex

    def member_replaced(self, record: MemberReplaced) -> None:
        old_member_id, member_id = record.old_member_id, record.member.member_id
        self.way.replace(old_member_id, member_id)
        rename(self.asks, old_member_id, member_id)
        rename(self.unresolved, old_member_id, member_id)
        self.members.pop(old_member_id, None)
        self.members[member_id] = record.member
        if self.leader_id == old_member_id:
            self.leader_id = member_id

    def member_departed(self, record: History, member: MemberIdentity, departure: Departure) -> None:
        for of_members in (self.members, self.asks, self.unresolved):
            of_members.pop(member.member_id, None)
        self.way.forget(member.member_id)

    # ----------------------------------------------------------------------------------------------------- rebalances

    def members_settled(self, record: JoinPhaseCompleted) -> None:
        identities = self.members
        self.members = {member_id: identities[member_id] for member_id in record.members if member_id in identities}

    def protocol_chosen(self, record: HistoryRecord, protocol_name: str) -> None:
        self.protocol_name = protocol_name

    def leader_chosen(self, record: HistoryRecord, leader_id: str) -> None:
        self.leader_id = leader_id

    def target_computed(self, record: TargetAssignmentComputed) -> None:
        self.way.aim(record.assignment_epoch, record.assignments)

    def partitions_of_member(self, record: MemberReconciled, topics: tuple[AssignedTopic, ...]) -> None:
        self.way.come(record)

    def regex_resolved(self, record: RegexResolved) -> None:
        self._resolved.pop(record.regex, None)
        if record.topics is not None:
            self._resolved[record.regex] = record.topics
            for member_id in [each for each, regex in self.unresolved.items() if regex == record.regex]:
                del self.unresolved[member_id]

    # -------------------------------------------------------------------------------------------------------- offsets

    def offsets_pending(self, record: TransactionalOffsetsPending) -> None:
        if record.cause.kind == "observed":
            return
        known = self.transactions.get(record.producer_id)
        if known is None or known.producer_epoch != record.producer_epoch:
            known = OpenTransaction(record.producer_epoch, record.transactional_id, record.timestamp_ms, {})
            self.transactions[record.producer_id] = known
        known.partitions.update(dict.fromkeys((change.topic, change.partition) for change in record.offsets))

    def offsets_never_counted(self, record: NeverCounted) -> None:
        self.transactions.pop(record.producer_id, None)

    def offsets_committed(self, record: OffsetsCommitted) -> None:
        if record.cause.producer_id is not None:
            self.transactions.pop(record.cause.producer_id, None)

    def offsets_removed(self, record: RemovedOffsets, removal: Removal) -> None:
        for producer_id, transaction in list(self.transactions.items()):
            for change in record.offsets:
                transaction.partitions.pop((change.topic, change.partition), None)
            if not transaction.partitions:
                del self.transactions[producer_id]
