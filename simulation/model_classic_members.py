"""The model's members of the classic protocol inside a consumer group: they join, sync and send heartbeats as ever, and
the coordinator decides as if they were native."""

from __future__ import annotations

from uuid import uuid5

from msgspec.structs import replace

from coordinator_state.outputs import RequestEvent
from schemas.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartition,
    decode_subscription,
    encode_assignment,
)
from schemas.error_codes import ErrorCode
from schemas.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupMember,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from schemas.wire import DecodeError
from simulation.model_consumer_group import ConsumerModelGroup, is_native
from simulation.model_consumer_procedures import Change
from simulation.model_consumer_records import (
    UNRELEASED,
    UNREVOKED,
    ClassicSide,
    ConsumerMember,
    GroupRecord,
    Wishes,
)
from simulation.model_conversions import Conversions, version_of
from simulation.model_group import ModelError, ModelTimer
from simulation.model_requests import MEMBER_ID_NAMESPACE, left, unique_protocols


class ClassicMembers(Conversions):
    """Classic requests, to groups of either kind."""

    # -------------------------------------------------------------------------------------------------------- JoinGroup

    def join_group(self, event: RequestEvent, request: JoinGroupRequest) -> JoinGroupResponse | None:
        group = self.consumer
        if group is None:
            return super().join_group(event, request)
        self.check_join(request)
        if group.members:
            try:
                return self.join_consumer_group(group, event, request)
            except ModelError as error:
                raise ModelError(error.code, echo=False) from None
        if request.member_id:
            group.is_removed = True
            raise ModelError(ErrorCode.UNKNOWN_MEMBER_ID)
        self.log_group(self.become_empty_classic(group))
        return super().join_group(event, request)

    def join_consumer_group(
        self, group: ConsumerModelGroup, event: RequestEvent, request: JoinGroupRequest
    ) -> JoinGroupResponse:
        envelope = event.envelope
        if self.policy == "disabled":
            raise ModelError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        given_id = request.member_id
        member_id = given_id or envelope.new_member_id or str(uuid5(MEMBER_ID_NAMESPACE, envelope.request_id))
        if len(group.members) >= self.config.group_consumer_max_size and member_id not in group.members:
            raise ModelError(ErrorCode.GROUP_MAX_SIZE_REACHED)
        protocols = tuple(unique_protocols(request))
        if envelope.api_version == 0:
            request = replace(request, rebalance_timeout_ms=request.session_timeout_ms)
        if request.protocol_type != "consumer" or not self.fits(group, [name for name, _ in protocols]):
            raise ModelError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if request.group_instance_id is None and not given_id and envelope.api_version >= 4:
            return JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
        change = self.classic_change(group, member_id, event, request, protocols)
        replaced = group.holder(request.group_instance_id)
        becomes_classic = (
            replaced is not None
            and is_native(replaced)
            and self.may_become_classic([change.before.wanting(change.wishes), *group.without([replaced])])
        )
        epoch_before, expressions_before = group.epoch, sorted(group.resolved)
        outcome = self.change(group, change, group.now_ms, computes=not becomes_classic)
        if becomes_classic and replaced is not None and replaced.wishes.instance_id != request.group_instance_id:
            raise ModelError(ErrorCode.UNKNOWN_SERVER_ERROR)  # Kafka takes it for one of those who stay
        if not becomes_classic or outcome.target_epoch >= outcome.epoch:
            outcome = self.reconcile(group, change, outcome)
        self.settle(group, change, outcome)
        member_id = outcome.member.member_id
        if becomes_classic:
            rebalances = group.target_epoch < group.epoch
            classic = self.downgrade(group, list(group.members.values()), epoch_before, expressions_before)
            if rebalances:
                self.prepare_rebalance(classic)
        else:
            self.disarm(group, "join", member_id)
            self.arm(group, "session", request.session_timeout_ms, member_id)
            self.arm(group, "sync", request.rebalance_timeout_ms, member_id)
        return JoinGroupResponse(
            member_id=member_id,
            generation_id=outcome.member.holding.epoch,
            protocol_type="consumer",
            protocol_name=protocols[0][0],
        )

    def fits(self, group: ConsumerModelGroup, names: list[str]) -> bool:
        """Return whether all classic members list one of these protocols."""
        lists = [dict(member.wishes.classic.protocols) for member in group.members.values() if member.wishes.classic]
        return any(all(name in listed for listed in lists) for name in names)

    def classic_change(
        self,
        group: ConsumerModelGroup,
        member_id: str,
        event: RequestEvent,
        request: JoinGroupRequest,
        protocols: tuple[tuple[str, bytes], ...],
    ) -> Change:
        """Find the member, and return what it says."""
        instance_id = request.group_instance_id
        member = group.members.get(member_id, ConsumerMember(member_id))
        opening: list[GroupRecord] = []
        replaced_id: str | None = None
        if instance_id is not None:
            holder = group.holder(instance_id)
            if (request.member_id and holder is None) or group.is_left_behind(instance_id):
                raise ModelError(ErrorCode.UNKNOWN_MEMBER_ID)
            if request.member_id and holder is not None and holder.member_id != request.member_id:
                raise ModelError(ErrorCode.FENCED_INSTANCE_ID)
            if not request.member_id and holder is not None:
                member, opening, replaced_id = self.take_place(group, holder, member_id)
        try:
            subscription = decode_subscription(protocols[0][1])
        except DecodeError:
            raise ModelError(ErrorCode.UNKNOWN_SERVER_ERROR) from None
        wishes = Wishes(
            instance_id=instance_id if instance_id is not None else member.wishes.instance_id,
            rack_id=member.wishes.rack_id if subscription.rack_id is None else subscription.rack_id,
            client_id=event.envelope.client_id,
            client_host=event.envelope.client_host,
            names=frozenset(subscription.topics),
            rebalance_ms=member.wishes.rebalance_ms
            if request.rebalance_timeout_ms == -1
            else request.rebalance_timeout_ms,
            assignor=member.wishes.assignor,
            classic=ClassicSide(request.session_timeout_ms, protocols),
        )
        owned = self.owned_by(group, subscription)
        return Change(member, wishes, owned, tuple(opening), replaced_id, every_regex_counts=True)

    def owned_by(self, group: ConsumerModelGroup, subscription: Subscription) -> frozenset[tuple[str, int]]:
        return frozenset(
            (topic.topic_id, partition.partition)
            for partition in subscription.owned_partitions
            if (topic := group.known.get(partition.topic)) is not None
        )

    # -------------------------------------------------------------------------------------------- SyncGroup, Heartbeat

    def sync_group(self, event: RequestEvent, request: SyncGroupRequest) -> SyncGroupResponse | None:
        group = self.consumer
        if group is None:
            return super().sync_group(event, request)
        self.check_sync(event, request)
        member = self.classic_speaker(group, request.member_id, request.group_instance_id, request.generation_id)
        assert member.wishes.classic is not None
        name, metadata = member.wishes.classic.protocols[0]
        if request.protocol_type not in (None, "consumer") or request.protocol_name not in (None, name):
            raise ModelError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if group.target_epoch > member.holding.epoch and member.holding.state != UNREVOKED:
            self.call_back(group, member)
            raise ModelError(ErrorCode.REBALANCE_IN_PROGRESS)
        self.disarm(group, "sync", member.member_id)
        self.renew(group, member)
        partitions = [
            TopicPartition(topic.name, number)
            for topic_id, number in sorted(member.holding.assigned)
            if (topic := group.known.named(topic_id)) is not None
        ]
        return SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=encode_assignment(Assignment(partitions=tuple(partitions)), version_of(metadata)),
        )

    def heartbeat(self, event: RequestEvent, request: HeartbeatRequest) -> HeartbeatResponse:
        group = self.consumer
        if group is None:
            return super().heartbeat(event, request)
        self.require_group_id()
        member = self.classic_speaker(group, request.member_id, request.group_instance_id, request.generation_id)
        self.renew(group, member)
        holding = member.holding
        missing = group.targets.get(member.member_id, frozenset()) - holding.assigned.keys()
        waits = any(group.is_owned(partition) for partition in missing)
        if (
            holding.epoch < group.target_epoch
            or holding.state == UNREVOKED
            or (holding.state == UNRELEASED and not waits)
        ):
            self.call_back(group, member)
            raise ModelError(ErrorCode.REBALANCE_IN_PROGRESS)
        return HeartbeatResponse()

    def classic_speaker(
        self, group: ConsumerModelGroup, member_id: str, instance_id: str | None, generation: int
    ) -> ConsumerMember:
        """Return the classic member that sends a request, if it may."""
        member = group.members.get(member_id)
        if instance_id is not None:
            member = group.holder(instance_id)
            if member is not None and member.member_id != member_id:
                raise ModelError(ErrorCode.FENCED_INSTANCE_ID)
        if member is None or is_native(member):
            raise ModelError(ErrorCode.UNKNOWN_MEMBER_ID)
        if generation != member.holding.epoch:
            raise ModelError(ErrorCode.ILLEGAL_GENERATION)
        return member

    def call_back(self, group: ConsumerModelGroup, member: ConsumerMember) -> None:
        """Give a member that is told to join again its time for that; a second telling gives it no more."""
        if not any((timer.kind, timer.who) == ("join", member.member_id) for timer in group.timers):
            self.arm(group, "join", member.wishes.rebalance_ms, member.member_id)

    def renew(self, group: ConsumerModelGroup, member: ConsumerMember) -> None:
        assert member.wishes.classic is not None
        self.arm(group, "session", member.wishes.classic.session_ms, member.member_id)

    # ------------------------------------------------------------------------------------------------------- LeaveGroup

    def leave_group(self, event: RequestEvent, request: LeaveGroupRequest) -> LeaveGroupResponse:
        group = self.consumer
        if group is None:
            return super().leave_group(event, request)
        self.require_group_id()
        found = [self.leaver(group, entry) for entry in request.members]
        gone = {member.member_id: member for member in found if isinstance(member, ConsumerMember)}
        self.fence(group, list(gone.values()))
        codes = [member if isinstance(member, ErrorCode) else ErrorCode.NONE for member in found]
        return left(event, request, codes)

    def leaver(self, group: ConsumerModelGroup, entry: LeaveGroupMember) -> ConsumerMember | ErrorCode:
        if entry.group_instance_id is None:
            return group.members.get(entry.member_id, ErrorCode.UNKNOWN_MEMBER_ID)
        holder = group.holder(entry.group_instance_id)
        if holder is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.FENCED_INSTANCE_ID if entry.member_id not in ("", holder.member_id) else holder

    def member_timer_rings(self, group: ConsumerModelGroup, timer: ModelTimer) -> None:
        """A member is silent, or keeps the others waiting."""
        member = group.members.get(timer.who)
        if member is not None and timer.epoch in (None, member.holding.epoch):
            self.fence(group, [member])

    def renew_member_timers(self, group: ConsumerModelGroup) -> None:
        """After the clock stood still each timer has its whole length again; none rings sooner than it would have."""
        for timer in group.timers:
            member = group.members.get(timer.who)
            if member is None:
                continue
            classic = member.wishes.classic
            whole_ms = member.wishes.rebalance_ms
            if timer.kind == "session":
                whole_ms = self.session_ms if classic is None else classic.session_ms
            timer.deadline_ms = max(timer.deadline_ms, group.now_ms + whole_ms)
