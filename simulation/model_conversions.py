"""The model's conversions: a classic group becomes a consumer group and back, and members are fenced, after which a
group may be left with classic members only."""

from __future__ import annotations

import struct
from collections.abc import Container
from typing import NamedTuple

from coordinator_state.outputs import RequestEvent
from schemas.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartition,
    decode_assignment,
    decode_subscription,
    encode_assignment,
)
from schemas.error_codes import ErrorCode
from schemas.messages import JoinGroupResponse, SyncGroupResponse
from schemas.records import GroupMetadataKey, encode_key
from schemas.wire import DecodeError
from simulation.model_consumer_group import ConsumerModelGroup, is_native, renamed
from simulation.model_consumer_procedures import ConsumerProcedures
from simulation.model_consumer_records import (
    STABLE,
    ClassicSide,
    ConsumerMember,
    EpochRecord,
    GroupRecord,
    Holding,
    Target,
    TargetEpochRecord,
    Wishes,
)
from simulation.model_group import ModelError, ModelGroup, ModelMember, time_of


class Opening(NamedTuple):
    """The consumer group that a heartbeat speaks to. If it is only there because of the heartbeat, nothing of it
    counts until the heartbeat is accepted."""

    group: ConsumerModelGroup
    is_new: bool = False
    is_classic: bool = False
    """It was a classic group."""
    records: tuple[GroupRecord, ...] = ()


class Conversions(ConsumerProcedures):
    """Both ways, and fencing."""

    # ---------------------------------------------------------------------------------------------- to a consumer group

    def open_consumer_group(self, event: RequestEvent, joins: bool) -> Opening:
        """Return the group that a heartbeat is for."""
        if self.consumer is not None and not self.consumer.is_removed:
            return Opening(self.consumer)
        if not joins:
            raise ModelError(ErrorCode.GROUP_ID_NOT_FOUND)
        if self.consumer is not None:
            anew = ConsumerModelGroup(now_ms=self.consumer.now_ms, checked_ms=self.consumer.checked_ms)
            anew.take_over(self.consumer, ())
            return Opening(anew, is_new=True)
        group = self.group
        if group is None:
            now_ms = time_of(event)
            return Opening(ConsumerModelGroup(now_ms=now_ms, checked_ms=now_ms, known=self.first_topics), is_new=True)
        if group.state == "Empty":
            return Opening(_consumer_group(group), is_new=True, is_classic=True)
        if self.policy not in ("bidirectional", "upgrade") or group.protocol_type != "consumer":
            raise ModelError(ErrorCode.GROUP_ID_NOT_FOUND)
        if len(group.members) > self.config.group_consumer_max_size:
            raise ModelError(ErrorCode.GROUP_ID_NOT_FOUND)
        self.send_away(group)
        upgraded = _consumer_group(group)
        records = self.upgrade(group, upgraded)
        for record in records:
            upgraded.read(record)
        for member in group.members:
            self.arm(upgraded, "session", member.session_ms, member.member_id)
        return Opening(upgraded, is_new=True, is_classic=True, records=tuple(records))

    def open(self, opening: Opening) -> None:
        """The heartbeat is accepted, and the group is there."""
        if not opening.is_new:
            return
        group = opening.group
        if opening.is_classic:
            self.log(group, encode_key(GroupMetadataKey(self.group_id)), None)
        for record in opening.records:
            self.log(group, *record.encode(self.group_id))
        self.group, self.consumer = None, group

    def end_opening(self, opening: Opening) -> None:
        if opening.is_new:
            opening.group.looks_again = (0, 0)  # Kafka notes it in an object that it then gives up

    def send_away(self, group: ModelGroup) -> None:
        """Answer all who wait that they must join again, even if the group then stays as it is."""
        code = ErrorCode.REBALANCE_IN_PROGRESS
        for member in group.members:
            if member.join is not None:
                response = JoinGroupResponse(error_code=code, member_id=member.member_id)
                self.answer(member.join, response, group.now_ms)
            if member.sync is not None:
                self.answer(member.sync, SyncGroupResponse(error_code=code), group.now_ms)
            member.join = member.sync = None

    def upgrade(self, group: ModelGroup, upgraded: ConsumerModelGroup) -> list[GroupRecord]:
        """Return the records of a consumer group with the members of a classic one."""
        wishes: dict[str, Wishes] = {}
        targets: dict[str, Target] = {}
        for member in group.members:
            if group.protocol is None or not member.lists(group.protocol):
                raise ModelError(ErrorCode.UNKNOWN_SERVER_ERROR)
            try:
                subscription = decode_subscription(member.metadata(group.protocol))
                assignment = decode_assignment(member.assignment) if member.assignment else Assignment()
            except DecodeError:
                raise ModelError(ErrorCode.GROUP_ID_NOT_FOUND) from None
            if assignment.user_data:
                raise ModelError(ErrorCode.GROUP_ID_NOT_FOUND)
            wishes[member.member_id] = _wishes_of(member, subscription)
            targets[member.member_id] = frozenset(
                (topic.topic_id, partition.partition)
                for partition in assignment.partitions
                if (topic := upgraded.known.get(partition.topic)) is not None
            )
        if len(frozenset().union(*targets.values())) < sum(map(len, targets.values())):
            raise ModelError(ErrorCode.UNKNOWN_SERVER_ERROR)
        generation = group.generation
        names = {name for wish in wishes.values() for name in wish.names}
        return [
            *(GroupRecord(5, member_id, wish) for member_id, wish in wishes.items()),
            GroupRecord(3, "", EpochRecord(generation, upgraded.known.hash_of(names))),
            *(GroupRecord(7, member_id, target) for member_id, target in targets.items()),
            GroupRecord(6, "", TargetEpochRecord(generation, 0)),
            *(
                GroupRecord(
                    8, member_id, Holding(generation, generation, STABLE, dict.fromkeys(target, generation), {})
                )
                for member_id, target in targets.items()
            ),
        ]

    # ---------------------------------------------------------------------------------------------- to a classic group

    def fence(self, group: ConsumerModelGroup, gone: list[ConsumerMember]) -> None:
        """Put members out."""
        if not gone:
            return
        if self.may_become_classic(group.without(gone)):
            self.prepare_rebalance(self.downgrade(group, group.without(gone), group.epoch, sorted(group.resolved)))
            return
        self.write(group, self.departure(group, gone))
        for member in gone:
            self.forget_timers(group, member.member_id)

    def may_become_classic(self, left: list[ConsumerMember]) -> bool:
        return (
            bool(left)
            and not any(is_native(member) for member in left)
            and self.policy in ("bidirectional", "downgrade")
            and len(left) <= self.config.group_max_size
        )

    def downgrade(
        self, group: ConsumerModelGroup, left: list[ConsumerMember], generation: int, expressions: list[str]
    ) -> ModelGroup:
        """Make a classic group of these members. `expressions`: what the group had resolved before the request."""
        targets = dict(group.targets)
        classic = _classic_group(group, [member.member_id for member in left])
        classic.state, classic.protocol_type, classic.generation = "Stable", "consumer", generation
        self.write(group, self.whole_group_tombstones(group, expressions))
        classic.members = [_classic_member(member) for member in left]
        classic.leader = classic.members[0].member_id
        classic.protocol = self.vote(classic)
        for member in classic.members:
            target = targets.get(member.member_id, frozenset())
            partitions = [
                TopicPartition(topic.name, number)
                for topic_id, number in sorted(target)
                if (topic := group.known.named(topic_id)) is not None
            ]
            version = version_of(member.metadata(classic.protocol))
            member.assignment = encode_assignment(Assignment(partitions=tuple(partitions)), version)
        classic.topics = self.topics_of_everybody(classic)
        self.group, self.consumer = classic, None
        self.log_group(classic)
        for member in classic.members:
            self.arm(classic, "session", member.session_ms, member.member_id)
        return classic

    def whole_group_tombstones(self, group: ConsumerModelGroup, expressions: list[str]) -> list[GroupRecord]:
        """Return the tombstones of a group with its members; afterwards nothing is left of it."""
        ids = list(group.members)
        return [
            *(GroupRecord(8, member_id, None) for member_id in ids),
            *(GroupRecord(7, member_id, None) for member_id in ids),
            GroupRecord(6, "", None),
            *(GroupRecord(5, member_id, None) for member_id in ids),
            *(GroupRecord(16, regex, None) for regex in expressions),
            GroupRecord(4, "", None),
            GroupRecord(3, "", None),
        ]

    def become_empty_classic(self, group: ConsumerModelGroup) -> ModelGroup:
        """Make a classic group that has nothing but the offsets."""
        self.write(group, group.empty_tombstones())
        classic = _classic_group(group, ())
        self.group, self.consumer = classic, None
        return classic

    def take_place(
        self, group: ConsumerModelGroup, holder: ConsumerMember, member_id: str
    ) -> tuple[ConsumerMember, list[GroupRecord], str]:
        """Return the copy of a static member under the id with which it comes back, and the records of that."""
        old_id = holder.member_id
        copy = renamed(holder, member_id)
        records = [
            *(GroupRecord(kind, old_id, None) for kind in (8, 7, 5)),
            GroupRecord(5, member_id, copy.wishes),
            GroupRecord(7, member_id, group.targets.get(old_id, frozenset())),
            GroupRecord(8, member_id, copy.holding),
        ]
        return copy, records, old_id


def _consumer_group(group: ModelGroup) -> ConsumerModelGroup:
    """Return a consumer group without members that goes on with what a classic group has."""
    consumer = ConsumerModelGroup(now_ms=group.now_ms, checked_ms=group.checked_ms)
    consumer.take_over(group, [member.member_id for member in group.members])
    return consumer


def _classic_group(group: ConsumerModelGroup, member_ids: Container[str]) -> ModelGroup:
    classic = ModelGroup(now_ms=group.now_ms, checked_ms=group.checked_ms, since_ms=group.now_ms)
    classic.take_over(group, member_ids)
    return classic


def _wishes_of(member: ModelMember, subscription: Subscription) -> Wishes:
    return Wishes(
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        names=frozenset(subscription.topics),
        rebalance_ms=member.rebalance_ms,
        classic=ClassicSide(member.session_ms, tuple(member.protocols)),
    )


def _classic_member(member: ConsumerMember) -> ModelMember:
    wishes = member.wishes
    assert wishes.classic is not None
    return ModelMember(
        member.member_id,
        wishes.instance_id,
        wishes.client_id,
        wishes.client_host,
        wishes.classic.session_ms,
        wishes.rebalance_ms,
        list(wishes.classic.protocols),
        new=False,
    )


def version_of(metadata: bytes) -> int:
    """Return the version of the consumer protocol that a member writes; what is above the last one is read as it, and
    what is no version as the first."""
    if len(metadata) < 2:
        return 0
    (version,) = struct.unpack_from(">h", metadata)
    return int(min(max(version, 0), 3))
