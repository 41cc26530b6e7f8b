"""The model's membership requests: JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""

from __future__ import annotations

from uuid import UUID, uuid5

from msgspec.structs import replace

from coordinator_state.outputs import RequestEvent
from schemas.error_codes import ErrorCode
from schemas.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupMember,
    LeaveGroupMemberResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from simulation.model_group import ModelError, ModelGroup, ModelMember
from simulation.model_procedures import Procedures

FIVE_MINUTES_MS = 300_000
MEMBER_ID_NAMESPACE = UUID("6f2c3a0e-3c1b-5d57-9d0a-5d1f6b3f7a11")


class MembershipRequests(Procedures):
    """A request that is not answered at once gives None: its answer comes later, or has been given."""

    # ------------------------------------------------------------------------------------------------------ JoinGroup

    def check_join(self, request: JoinGroupRequest) -> None:
        self.require_group_id()
        least_ms, most_ms = self.config.group_min_session_timeout_ms, self.config.group_max_session_timeout_ms
        if not least_ms <= request.session_timeout_ms <= most_ms:
            raise ModelError(ErrorCode.INVALID_SESSION_TIMEOUT)

    def join_group(self, event: RequestEvent, request: JoinGroupRequest) -> JoinGroupResponse | None:
        self.check_join(request)
        if self.group is None:
            if request.member_id:
                raise ModelError(ErrorCode.UNKNOWN_MEMBER_ID)
            self.group = ModelGroup.begin(event, self.first_topics)
            self.log_group(self.group)
        group = self.group
        protocols = unique_protocols(request)
        self.require_room(group, request.member_id)
        if group.state == "Empty":
            protocols_fit = bool(request.protocol_type) and bool(protocols)
        else:
            protocols_fit = request.protocol_type == group.protocol_type and any(
                group.common(name) for name, _ in protocols
            )
        if not protocols_fit:
            raise ModelError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if not request.member_id:
            return self.join_anonymous(group, event, request, protocols)
        if request.member_id in group.issued_ids:
            if request.group_instance_id is not None:
                raise ModelError(ErrorCode.UNKNOWN_SERVER_ERROR, echo=False)
            self.add(group, event, request, request.member_id, protocols)
            return None
        _, member = self.validate(group, request.member_id, request.group_instance_id)
        same_protocols = member.protocols == protocols
        is_leader = group.leader == member.member_id
        if same_protocols and (group.state == "CompletingRebalance" or (group.state == "Stable" and not is_leader)):
            return self.joined(group, member)
        self.update(member, request, protocols)
        self.park_join(group, member, event)
        self.rebalance_or_complete(group)
        return None

    def require_room(self, group: ModelGroup, member_id: str) -> None:
        member = group.member(member_id)
        waiting = sum(1 for other in group.members if other.join is not None)
        if group.state == "Empty":
            return
        if group.state == "PreparingRebalance":
            fits = (member is not None and member.join is not None) or waiting < self.config.group_max_size
        else:
            fits = member is not None or len(group.members) < self.config.group_max_size
        if fits:
            return
        if member is not None:
            self.answer_removed(group, member)
            self.remove(group, member)
        if member is not None or member_id in group.issued_ids:
            self.disarm(group, "session", member_id)
        group.issued_ids = [other for other in group.issued_ids if other != member_id]
        raise ModelError(ErrorCode.GROUP_MAX_SIZE_REACHED, echo=False)

    def join_anonymous(
        self, group: ModelGroup, event: RequestEvent, request: JoinGroupRequest, protocols: list[tuple[str, bytes]]
    ) -> JoinGroupResponse | None:
        envelope = event.envelope
        prefix = envelope.client_id if request.group_instance_id is None else request.group_instance_id
        member_id = envelope.new_member_id or f"{prefix}-{uuid5(MEMBER_ID_NAMESPACE, envelope.request_id)}"
        if group.member(member_id) is not None or member_id in group.issued_ids:
            raise ModelError(ErrorCode.INVALID_REQUEST)
        old_member = group.holder(request.group_instance_id)
        if old_member is not None:
            return self.replace_static(group, event, request, old_member, member_id, protocols)
        if request.group_instance_id is None and envelope.api_version >= 4:
            group.issued_ids.append(member_id)
            self.arm(group, "session", request.session_timeout_ms, member_id)
            return JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
        self.add(group, event, request, member_id, protocols)
        return None

    def add(
        self,
        group: ModelGroup,
        event: RequestEvent,
        request: JoinGroupRequest,
        member_id: str,
        protocols: list[tuple[str, bytes]],
    ) -> None:
        envelope = event.envelope
        member = ModelMember(member_id, request.group_instance_id, envelope.client_id, envelope.client_host, 0, 0, [])
        self.update(member, request, protocols)
        if group.state == "PreparingRebalance" and group.came_from == "Empty":
            group.extend = True
        if not group.members:
            group.protocol_type = request.protocol_type
        if group.leader is None:
            group.leader = member_id
        group.members.append(member)
        group.issued_ids = [other for other in group.issued_ids if other != member_id]
        self.park_join(group, member, event)
        self.arm(group, "session", FIVE_MINUTES_MS, member_id)
        self.rebalance_or_complete(group)

    def update(self, member: ModelMember, request: JoinGroupRequest, protocols: list[tuple[str, bytes]]) -> None:
        member.session_ms = request.session_timeout_ms
        member.rebalance_ms = request.rebalance_timeout_ms if request.rebalance_timeout_ms >= 0 else member.session_ms
        member.protocols = protocols

    def park_join(self, group: ModelGroup, member: ModelMember, event: RequestEvent) -> None:
        if member.join not in (None, event.envelope.request_id):  # Kafka never answers it.
            superseded = JoinGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id)
            self.answer(member.join, superseded, group.now_ms)
        member.join = event.envelope.request_id

    def replace_static(
        self,
        group: ModelGroup,
        event: RequestEvent,
        request: JoinGroupRequest,
        old_member: ModelMember,
        member_id: str,
        protocols: list[tuple[str, bytes]],
    ) -> JoinGroupResponse | None:
        """Give a static member that comes back a new id."""
        old_id, old_leader = old_member.member_id, group.leader
        fenced = ErrorCode.FENCED_INSTANCE_ID
        if old_member.join not in (None, event.envelope.request_id):
            self.answer(old_member.join, JoinGroupResponse(error_code=fenced, member_id=old_id), group.now_ms)
        if old_member.sync is not None:
            self.answer(old_member.sync, SyncGroupResponse(error_code=fenced), group.now_ms)
        self.disarm(group, "session", old_id)
        group.members.remove(old_member)
        group.members.append(old_member)
        member = old_member
        member.member_id, member.new, member.join, member.sync = member_id, False, None, None
        if group.leader == old_id:
            group.leader = member_id
        self.arm(group, "session", member.session_ms, member_id)
        self.update(member, request, protocols)
        if group.state == "Stable" and self.vote(group) == group.protocol:
            self.log_group(group)
            answer = self.joined(group, member)
            is_leader = group.leader == member_id
            if event.envelope.api_version >= 9:
                return replace(answer, skip_assignment=is_leader)
            return replace(answer, members=(), leader=old_leader or "")
        self.park_join(group, member, event)
        self.rebalance_or_complete(group)
        return None

    # ----------------------------------------------------------------------------------- SyncGroup, Heartbeat,
    # LeaveGroup

    def check_sync(self, event: RequestEvent, request: SyncGroupRequest) -> None:
        if event.envelope.api_version >= 5 and None in (request.protocol_type, request.protocol_name):
            raise ModelError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        self.require_group_id()

    def sync_group(self, event: RequestEvent, request: SyncGroupRequest) -> SyncGroupResponse | None:
        self.check_sync(event, request)
        group, member = self.validate(self.group, request.member_id, request.group_instance_id)
        if request.generation_id != group.generation:
            raise ModelError(ErrorCode.ILLEGAL_GENERATION)
        if request.protocol_type not in (None, group.protocol_type) or request.protocol_name not in (
            None,
            group.protocol,
        ):
            raise ModelError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if group.state == "PreparingRebalance":
            raise ModelError(ErrorCode.REBALANCE_IN_PROGRESS)
        group.must_sync = [member_id for member_id in group.must_sync if member_id != member.member_id]
        if not group.must_sync:
            self.disarm(group, "sync")
        if group.state == "Stable":
            return self.synced(group, member)
        if member.sync not in (None, event.envelope.request_id):  # Kafka never answers it.
            self.answer(member.sync, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), group.now_ms)
        member.sync = event.envelope.request_id
        if member.member_id == group.leader:
            assignments = {assignment.member_id: assignment.assignment for assignment in request.assignments}
            for other in group.members:
                other.assignment = assignments.get(other.member_id, b"")
            self.log_group(group)
            self.transition_to(group, "Stable")
            self.answer_syncs(group, ErrorCode.NONE)
        return None

    def heartbeat(self, event: RequestEvent, request: HeartbeatRequest) -> HeartbeatResponse:
        self.require_group_id()
        group, member = self.validate(self.group, request.member_id, request.group_instance_id)
        if request.generation_id != group.generation:
            raise ModelError(ErrorCode.ILLEGAL_GENERATION)
        self.arm(group, "session", member.session_ms, member.member_id)
        if group.state == "PreparingRebalance":
            raise ModelError(ErrorCode.REBALANCE_IN_PROGRESS)
        return HeartbeatResponse()

    def leave_group(self, event: RequestEvent, request: LeaveGroupRequest) -> LeaveGroupResponse:
        self.require_group_id()
        codes = [self.leave(self.group, entry) for entry in request.members]
        group = self.group
        if group is not None and ErrorCode.NONE in codes:
            if group.state in ("Stable", "CompletingRebalance"):
                self.prepare_rebalance(group)
            else:
                self.maybe_complete_join(group)
        return left(event, request, codes)

    def leave(self, group: ModelGroup | None, entry: LeaveGroupMember) -> ErrorCode:
        if group is not None and entry.member_id in group.issued_ids:
            group.issued_ids.remove(entry.member_id)
            self.disarm(group, "session", entry.member_id)
            return ErrorCode.NONE
        holder = group.holder(entry.group_instance_id) if group is not None and not entry.member_id else None
        try:
            group, member = self.validate(
                group, holder.member_id if holder else entry.member_id, entry.group_instance_id
            )
        except ModelError as error:
            return error.code
        self.disarm(group, "session", member.member_id)
        self.answer_removed(group, member)
        self.remove(group, member)
        return ErrorCode.NONE


def unique_protocols(request: JoinGroupRequest) -> list[tuple[str, bytes]]:
    """Return the protocols of a member; of two with one name the first counts."""
    first: dict[str, bytes] = {}
    for protocol in request.protocols:
        first.setdefault(protocol.name, protocol.metadata)
    return list(first.items())


def left(event: RequestEvent, request: LeaveGroupRequest, codes: list[ErrorCode]) -> LeaveGroupResponse:
    """Return the answer to a LeaveGroup with these results."""
    if event.envelope.api_version < 3 and len(codes) == 1:
        return LeaveGroupResponse(error_code=codes[0])
    members = (
        LeaveGroupMemberResponse(member_id=entry.member_id, group_instance_id=entry.group_instance_id, error_code=code)
        for entry, code in zip(request.members, codes, strict=True)
    )
    return LeaveGroupResponse(members=tuple(members))
