"""The model's procedures: what the requests and the timers of a group have in common, under their names in the
description."""

from __future__ import annotations

from coordinator_state.config import GroupConfig
from schemas.consumer_protocol import subscribed_topics
from schemas.error_codes import ErrorCode
from schemas.java_hash import java_string_hash
from schemas.messages import JoinGroupResponse, JoinGroupResponseMember, Response, SyncGroupResponse
from schemas.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    encode_group_metadata_value,
    encode_key,
)
from simulation.model_consumer_group import ConsumerModelGroup
from simulation.model_group import (
    Answered,
    Logged,
    ModelError,
    ModelGroup,
    ModelLife,
    ModelMember,
    ModelOutput,
    ModelTimer,
    State,
    TimerKind,
)
from simulation.model_topics import KnownTopics


class Procedures:
    """The procedures of one group: `outputs` collects its outputs; `group` is None without a group."""

    def __init__(self, group_id: str, config: GroupConfig, partition: int = 0) -> None:
        self.group_id = group_id
        self.config = config
        self.partition = partition
        self.group: ModelGroup | None = None
        self.consumer: ConsumerModelGroup | None = None
        self.first_topics = KnownTopics()
        """What this request tells of topics, should it begin a group."""
        self.outputs: list[ModelOutput] = []

    @property
    def life(self) -> ModelLife | None:
        """The group of whichever kind; it never is of both."""
        return self.consumer if self.group is None else self.group

    @property
    def is_removed(self) -> bool:
        """Whether only those who read what is committed still see the group."""
        return self.consumer is not None and self.consumer.is_removed

    @property
    def is_in_log(self) -> bool:
        return self.life is not None and self.life.in_log

    # --------------------------------------------------------------------------------------------- saying, and alarms

    def answer(self, request_id: str, response: Response, now_ms: int) -> None:
        self.outputs.append(Answered(request_id, now_ms, response))

    def log(self, group: ModelLife, key: bytes, value: bytes | None) -> None:
        group.in_log = True
        self.outputs.append(Logged(group.now_ms, key, value))

    def log_group(self, group: ModelGroup) -> None:
        members = tuple(
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_ms,
                session_timeout_ms=member.session_ms,
                subscription=member.metadata(group.protocol),
                assignment=member.assignment,
            )
            for member in group.members
        )
        value = GroupMetadataValue(
            protocol_type=group.protocol_type or "",
            generation=group.generation,
            protocol=group.protocol,
            leader=group.leader,
            current_state_timestamp_ms=group.since_ms,
            members=members,
        )
        self.log(group, encode_key(GroupMetadataKey(self.group_id)), encode_group_metadata_value(value, 3))

    def arm(self, group: ModelLife, kind: TimerKind, delay_ms: int, who: str = "", *, epoch: int | None = None) -> None:
        self.disarm(group, kind, who)
        group.timers.append(ModelTimer(kind, who, group.now_ms + delay_ms, group.now_ms, epoch))

    def disarm(self, group: ModelLife, kind: TimerKind, who: str = "") -> None:
        group.timers = [timer for timer in group.timers if (timer.kind, timer.who) != (kind, who)]

    def fire(self, group: ModelGroup, timer: ModelTimer) -> None:
        """A timer rings; one that the group has from its time as a consumer group does nothing."""
        match timer.kind:
            case "join" | "sync" if timer.who:
                return
            case "session":
                self.session_expired(group, timer.who)
            case "join":
                self.join_expired(group)
            case "sync":
                self.sync_expired(group)

    def transition_to(self, group: ModelGroup, state: State) -> None:
        group.came_from, group.state, group.since_ms = group.state, state, group.now_ms

    # ---------------------------------------------------------------------------------------------------- procedures

    def prepare_rebalance(self, group: ModelGroup) -> None:
        if group.state == "CompletingRebalance":
            for member in group.members:
                member.assignment = b""
            self.answer_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS)
        group.must_sync = []
        self.disarm(group, "sync")
        initial = group.state == "Empty"
        if initial:
            delay_ms = self.config.group_initial_rebalance_delay_ms
            group.initial = (delay_ms, max(group.patience_ms() - delay_ms, 0))
            self.arm(group, "join", delay_ms)
        self.transition_to(group, "PreparingRebalance")
        if not initial:
            if group.everybody_joined():
                self.complete_join(group)
            else:
                self.arm(group, "join", group.patience_ms())

    def maybe_complete_join(self, group: ModelGroup) -> None:
        if group.state == "PreparingRebalance" and group.came_from != "Empty" and group.everybody_joined():
            self.complete_join(group)

    def rebalance_or_complete(self, group: ModelGroup) -> None:
        if group.state == "PreparingRebalance":
            self.maybe_complete_join(group)
        else:
            self.prepare_rebalance(group)

    def join_expired(self, group: ModelGroup) -> None:
        if group.initial is not None:
            delay_ms, remaining_ms = group.initial
            if group.extend and remaining_ms:
                group.extend = False
                next_ms = min(self.config.group_initial_rebalance_delay_ms, remaining_ms)
                group.initial = (next_ms, max(remaining_ms - delay_ms, 0))
                self.arm(group, "join", next_ms)
                return
        self.complete_join(group)

    def complete_join(self, group: ModelGroup) -> None:
        self.disarm(group, "join")
        group.initial = None
        for absentee in [member for member in group.members if member.join is None and member.instance_id is None]:
            self.disarm(group, "session", absentee.member_id)
            self.remove(group, absentee)
        leader = group.member(group.leader) if group.leader is not None else None
        if leader is not None and leader.join is None:
            joined_members = [member for member in group.members if member.join is not None]
            if not joined_members:
                self.arm(group, "join", max(group.patience_ms(), 1_000))  # Kafka: even 0, for ever
                return
            group.leader = joined_members[0].member_id
        group.generation = -(2**31) if group.generation == 2**31 - 1 else group.generation + 1
        group.must_sync = []
        group.protocol = self.vote(group) if group.members else None
        group.topics = self.topics_of_everybody(group)
        if not group.members:
            self.transition_to(group, "Empty")
            self.log_group(group)
            return
        self.transition_to(group, "CompletingRebalance")
        for member in group.members:
            if member.join is not None:
                request_id, member.join = member.join, None
                self.answer(request_id, self.joined(group, member), group.now_ms)
            self.arm(group, "session", member.session_ms, member.member_id)
            member.new = False
            group.must_sync.append(member.member_id)
        self.arm(group, "sync", group.patience_ms())

    def sync_expired(self, group: ModelGroup) -> None:
        if not group.must_sync or group.state not in ("CompletingRebalance", "Stable"):
            return
        for member in [member for member in group.members if member.member_id in group.must_sync]:
            self.disarm(group, "session", member.member_id)
            self.answer_removed(group, member)
            self.remove(group, member)
        self.prepare_rebalance(group)

    def session_expired(self, group: ModelGroup, member_id: str) -> None:
        preparing = group.state == "PreparingRebalance"
        if member_id in group.issued_ids:
            group.issued_ids.remove(member_id)
            if preparing and group.everybody_joined():
                self.complete_join(group)
            return
        member = group.member(member_id)
        if member is None or (not member.new and (member.join is not None or member.sync is not None)):
            return
        self.answer_removed(group, member)
        self.remove(group, member)
        if not preparing:
            self.prepare_rebalance(group)
        elif group.everybody_joined():
            self.complete_join(group)

    def remove(self, group: ModelGroup, member: ModelMember) -> None:
        group.members.remove(member)
        group.must_sync = [member_id for member_id in group.must_sync if member_id != member.member_id]
        if group.leader == member.member_id:
            group.leader = group.members[0].member_id if group.members else None

    def answer_removed(self, group: ModelGroup, member: ModelMember) -> None:
        """Answer the parked requests of a member that is removed. (Kafka leaves a SyncGroup unanswered.)"""
        code = ErrorCode.UNKNOWN_MEMBER_ID
        if member.join is not None:
            self.answer(member.join, JoinGroupResponse(error_code=code), group.now_ms)
        if member.sync is not None:
            self.answer(member.sync, SyncGroupResponse(error_code=code), group.now_ms)

    def answer_syncs(self, group: ModelGroup, code: ErrorCode) -> None:
        for member in group.members:
            if member.sync is not None:
                response = SyncGroupResponse(error_code=code) if code else self.synced(group, member)
                self.answer(member.sync, response, group.now_ms)
                member.sync = None
                self.arm(group, "session", member.session_ms, member.member_id)

    def joined(self, group: ModelGroup, member: ModelMember) -> JoinGroupResponse:
        members = tuple(
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata(group.protocol),
            )
            for member in group.members
        )
        return JoinGroupResponse(
            generation_id=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol,
            leader=group.leader or "",
            member_id=member.member_id,
            members=members if member.member_id == group.leader else (),
        )

    def synced(self, group: ModelGroup, member: ModelMember) -> SyncGroupResponse:
        return SyncGroupResponse(
            protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
        )

    def vote(self, group: ModelGroup) -> str:
        """Return the protocol with most votes. Ties are settled by the order of a Java hash map of 16 buckets, which
        doubles when it is three quarters full."""
        votes = [next(name for name, _ in member.protocols if group.common(name)) for member in group.members]
        names = list(dict.fromkeys(votes))
        buckets = 16
        while len(names) * 4 > buckets * 3:
            buckets *= 2
        spread = {name: java_string_hash(name) % 2**32 for name in names}
        names.sort(key=lambda name: (spread[name] ^ spread[name] >> 16) % buckets)
        return max(names, key=votes.count)

    def topics_of_everybody(self, group: ModelGroup) -> tuple[str, ...] | None:
        if group.protocol_type != "consumer":
            return None
        each_topics = [subscribed_topics(member.metadata(group.protocol)) for member in group.members]
        if any(topics is None for topics in each_topics):
            return None
        return tuple(dict.fromkeys(topic for topics in each_topics for topic in topics or ()))

    def validate(
        self, group: ModelGroup | None, member_id: str, instance_id: str | None
    ) -> tuple[ModelGroup, ModelMember]:
        """Check a request. Clients can see the order of these checks."""
        if group is None:
            raise ModelError(ErrorCode.UNKNOWN_MEMBER_ID)
        holder = group.holder(instance_id)
        if instance_id is not None and holder is None:
            raise ModelError(ErrorCode.UNKNOWN_MEMBER_ID)
        if holder is not None and holder.member_id != member_id:
            raise ModelError(ErrorCode.FENCED_INSTANCE_ID)
        member = group.member(member_id)
        if member is None:
            raise ModelError(ErrorCode.UNKNOWN_MEMBER_ID)
        return group, member

    def require_group_id(self) -> None:
        if not self.group_id:
            raise ModelError(ErrorCode.INVALID_GROUP_ID)
