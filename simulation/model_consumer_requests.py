"""The model's requests of members with the consumer protocol: the heartbeat, which does everything, and leaving."""

from __future__ import annotations

from uuid import uuid5

from coordinator_state.outputs import MetadataEvent, RequestEvent
from schemas.consumer_group_messages import (
    ConsumerGroupAssignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    DescribedAssignment,
    DescribedConsumerGroup,
    DescribedConsumerGroupMember,
    NamedTopicPartitions,
    TopicPartitions,
)
from schemas.error_codes import ErrorCode
from schemas.group_metadata_events import GroupConfiguration, RegexesResolved, TopicMetadata
from simulation.model_classic_members import ClassicMembers
from simulation.model_consumer_group import ConsumerModelGroup, is_native
from simulation.model_consumer_procedures import NEVER_MS, Change
from simulation.model_consumer_records import (
    ConsumerMember,
    EpochRecord,
    GroupRecord,
    Holding,
    Partition,
    Resolved,
    Wishes,
    by_topic,
)
from simulation.model_group import ModelError
from simulation.model_requests import MEMBER_ID_NAMESPACE


class ConsumerRequests(ClassicMembers):
    """The consumer protocol, and the events that tell a group of topics, expressions and settings."""

    # ------------------------------------------------------------------------------------------------------- heartbeats

    def consumer_heartbeat(
        self, event: RequestEvent, request: ConsumerGroupHeartbeatRequest
    ) -> ConsumerGroupHeartbeatResponse:
        self.check_heartbeat(event.envelope.api_version, request)
        if request.member_epoch < 0:
            return self.leave_consumer_group(request)
        opening = self.open_consumer_group(event, request.member_epoch == 0)
        group = opening.group
        member_id = request.member_id
        if len(group.members) >= self.config.group_consumer_max_size and member_id not in group.members:
            raise ModelError(ErrorCode.GROUP_MAX_SIZE_REACHED)
        if not member_id:
            envelope = event.envelope
            member_id = envelope.new_member_id or str(uuid5(MEMBER_ID_NAMESPACE, envelope.request_id))
        change = self.wished_change(group, member_id, request, event)
        outcome = self.reconcile(group, change, self.change(group, change, group.now_ms))
        self.open(opening)
        self.settle(group, change, outcome)
        self.end_opening(opening)
        member = outcome.member
        self.arm(group, "session", self.session_ms, member.member_id)
        is_whole = request.topic_partitions is not None and request.rebalance_timeout_ms != -1
        names_something = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        told = (
            request.member_epoch == 0
            or (is_whole and names_something)
            or member.holding.assigned != change.before.holding.assigned
        )
        return ConsumerGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.holding.epoch,
            heartbeat_interval_ms=self.heartbeat_ms,
            assignment=assignment_of(member) if told else None,
        )

    def check_heartbeat(self, version: int, request: ConsumerGroupHeartbeatRequest) -> None:
        epoch = request.member_epoch
        invalid = [
            (version >= 1 or epoch > 0 or epoch == -1) and _is_blank(request.member_id),
            _is_blank(request.group_id),
            request.instance_id is not None and _is_blank(request.instance_id),
            request.rack_id is not None and _is_blank(request.rack_id),
            epoch == 0 and request.rebalance_timeout_ms == -1,
            epoch == 0 and request.topic_partitions != (),
            epoch == 0 and request.subscribed_topic_names is None and request.subscribed_topic_regex is None,
            epoch == -2 and request.instance_id is None,
            epoch < -2,
        ]
        if any(invalid):
            raise ModelError(ErrorCode.INVALID_REQUEST)
        if request.server_assignor is not None and request.server_assignor not in self.config.consumer_assignors:
            raise ModelError(ErrorCode.UNSUPPORTED_ASSIGNOR)

    def wished_change(
        self, group: ConsumerModelGroup, member_id: str, request: ConsumerGroupHeartbeatRequest, event: RequestEvent
    ) -> Change:
        """Find the member, check its epoch, and return what it says."""
        owned = None
        if request.topic_partitions is not None:
            owned = frozenset(
                (topic.topic_id, number) for topic in request.topic_partitions for number in topic.partitions
            )
        member, opening, replaced_id = self.speaker(group, member_id, request, owned)
        before = member.wishes
        names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
        wishes = Wishes(
            instance_id=before.instance_id if request.instance_id is None else request.instance_id,
            rack_id=before.rack_id if request.rack_id is None else request.rack_id,
            client_id=event.envelope.client_id,
            client_host=event.envelope.client_host,
            names=before.names if names is None else frozenset(names),
            regex=before.regex if regex is None else regex,
            rebalance_ms=before.rebalance_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms,
            assignor=before.assignor if request.server_assignor is None else request.server_assignor,
        )
        return Change(member, wishes, owned, tuple(opening), replaced_id)

    def speaker(
        self,
        group: ConsumerModelGroup,
        member_id: str,
        request: ConsumerGroupHeartbeatRequest,
        owned: frozenset[Partition] | None,
    ) -> tuple[ConsumerMember, list[GroupRecord], str | None]:
        """Return the member that sends a heartbeat; with it, if it takes an instance's place, the records of that, and
        whose place it was."""
        known = group.members.get(member_id)
        holder = group.holder(request.instance_id)
        epoch = request.member_epoch
        if group.is_left_behind(request.instance_id):
            raise ModelError(ErrorCode.UNKNOWN_MEMBER_ID)
        if request.instance_id is not None and epoch == 0:
            if holder is None:
                return known or ConsumerMember(member_id), [], None
            if is_native(holder) and holder.holding.epoch != -2:
                raise ModelError(ErrorCode.UNRELEASED_INSTANCE_ID)
            return self.take_place(group, holder, member_id)
        if request.instance_id is not None:
            if holder is None:
                raise ModelError(ErrorCode.UNKNOWN_MEMBER_ID)
            if holder.member_id != member_id:
                raise ModelError(ErrorCode.FENCED_INSTANCE_ID)
        elif known is None and epoch == 0:
            return ConsumerMember(member_id), [], None
        if known is None:
            raise ModelError(ErrorCode.UNKNOWN_MEMBER_ID)
        if not _is_current(known.holding, epoch, owned):
            raise ModelError(ErrorCode.FENCED_MEMBER_EPOCH)
        return known, [], None

    def leave_consumer_group(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        group = self.consumer
        if group is None or group.is_removed:
            raise ModelError(ErrorCode.GROUP_ID_NOT_FOUND)
        member = group.members.get(request.member_id)
        if request.instance_id is not None:
            member = group.holder(request.instance_id)
            if member is not None and member.member_id != request.member_id:
                raise ModelError(ErrorCode.FENCED_INSTANCE_ID)
        if member is None:
            raise ModelError(ErrorCode.UNKNOWN_MEMBER_ID)
        if request.member_epoch == -2:
            self.write(group, [GroupRecord(8, member.member_id, self.holding_left(member))])
        else:
            self.fence(group, [member])
        return ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)

    # ----------------------------------------------------------------------------------------------------------- events

    def learn(self, event: MetadataEvent) -> None:
        """Take in what a group is told of topics, expressions and settings."""
        fact = event.fact
        if isinstance(fact, GroupConfiguration):
            self.own_settings = fact
        elif isinstance(fact, TopicMetadata):
            if self.life is not None:
                self.learn_topics(fact)
        elif self.life is not None:
            self.life.resolving_ms = None
            if self.consumer is not None and not self.consumer.is_removed:
                self.learn_matches(self.consumer, fact)

    def learn_topics(self, told: TopicMetadata) -> None:
        life = self.life
        known = self.first_topics if life is None else life.known
        changed = known.learn(told)
        if changed is None:
            return
        if self.group is not None:
            known.forget_all_but(told)
        if self.consumer is not None and changed & self.consumer.subscribed():
            self.consumer.looks_again = (0, 0)

    def learn_matches(self, group: ConsumerModelGroup, told: RegexesResolved) -> None:
        records: list[GroupRecord] = []
        bump = False
        for regex in sorted(set(told.resolved) & group.regexes()):
            topics = frozenset(told.resolved[regex])
            known = group.resolved.get(regex)
            bump |= topics != (known.topics if known is not None else frozenset())
            records.append(GroupRecord(16, regex, Resolved(topics, told.version, told.began_ms)))
        self.write(group, records)
        metadata_hash = group.hash_of()
        if bump or metadata_hash != group.metadata_hash:
            self.write(group, [GroupRecord(3, "", EpochRecord(group.epoch + 1, metadata_hash))])
            group.looks_again = (group.now_ms + NEVER_MS, group.epoch)

    # ------------------------------------------------------------------------------------------------------ describing

    def describe_consumer_group(
        self, event: RequestEvent, request: ConsumerGroupDescribeRequest
    ) -> ConsumerGroupDescribeResponse:
        if not self.group_id:
            raise ModelError(ErrorCode.INVALID_GROUP_ID)
        group = self.consumer
        if group is None:
            raise ModelError(ErrorCode.GROUP_ID_NOT_FOUND)
        members = tuple(self.described(group, member) for member in group.members.values())
        described = DescribedConsumerGroup(
            group_id=self.group_id,
            group_state=group.state,
            group_epoch=group.epoch,
            assignment_epoch=group.target_epoch,
            assignor_name=self.assignor(list(group.members.values())),
            members=members,
        )
        return ConsumerGroupDescribeResponse(groups=(described,))

    def described(self, group: ConsumerModelGroup, member: ConsumerMember) -> DescribedConsumerGroupMember:
        wishes = member.wishes
        return DescribedConsumerGroupMember(
            member_id=member.member_id,
            instance_id=wishes.instance_id,
            rack_id=wishes.rack_id,
            member_epoch=member.holding.epoch,
            client_id=wishes.client_id,
            client_host=wishes.client_host,
            subscribed_topic_names=tuple(sorted(wishes.names)),
            subscribed_topic_regex=wishes.regex,
            assignment=_named(group, member.holding.partitions),
            target_assignment=_named(group, group.targets.get(member.member_id, frozenset())),
            member_type=1 if is_native(member) else 0,
        )


def _is_current(holding: Holding, epoch: int, owned: frozenset[Partition] | None) -> bool:
    """Return whether a member may speak with this epoch: its own, none, or the one before where the member has
    nothing in hand but what it was given."""
    if epoch in (0, holding.epoch):
        return True
    if epoch > holding.epoch or epoch != holding.previous or owned is None:
        return False
    return owned <= holding.assigned.keys()


def _is_blank(text: str) -> bool:
    return not text.strip("".join(map(chr, range(0x21))))


def assignment_of(member: ConsumerMember) -> ConsumerGroupAssignment:
    topics = (
        TopicPartitions(topic_id=topic_id, partitions=tuple(numbers))
        for topic_id, numbers in by_topic(member.holding.assigned)
    )
    return ConsumerGroupAssignment(topic_partitions=tuple(topics))


def _named(group: ConsumerModelGroup, partitions: set[Partition] | frozenset[Partition]) -> DescribedAssignment:
    topics = (
        NamedTopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=tuple(numbers))
        for topic_id, numbers in by_topic(partitions)
        if (topic := group.known.named(topic_id)) is not None
    )
    return DescribedAssignment(topic_partitions=tuple(topics))
