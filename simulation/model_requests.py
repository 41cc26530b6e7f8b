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
from simulation.model_life import Life, No, Person
from simulation.model_procedures import Procedures

FIVE_MINUTES_MS = 300_000
MEMBER_ID_NAMESPACE = UUID("6f2c3a0e-3c1b-5d57-9d0a-5d1f6b3f7a11")


class MembershipRequests(Procedures):
    """A request that is not answered at once gives None: its answer comes later, or has been given."""

    # ------------------------------------------------------------------------------------------------------ JoinGroup

    def join_group(self, event: RequestEvent, request: JoinGroupRequest) -> JoinGroupResponse | None:
        self.require_group_id()
        least_ms, most_ms = self.config.group_min_session_timeout_ms, self.config.group_max_session_timeout_ms
        if not least_ms <= request.session_timeout_ms <= most_ms:
            raise No(ErrorCode.INVALID_SESSION_TIMEOUT)
        if self.life is None:
            if request.member_id:
                raise No(ErrorCode.UNKNOWN_MEMBER_ID)
            self.life = Life.begin(event)
            self.log_group(self.life)
        life = self.life
        protocols = [(each.name, each.metadata) for each in reversed(request.protocols)]
        protocols = [(name, dict(protocols)[name]) for name in dict.fromkeys(each.name for each in request.protocols)]
        self.require_room(life, request.member_id)
        if life.state == "Empty":
            fits = bool(request.protocol_type) and bool(protocols)
        else:
            fits = request.protocol_type == life.protocol_type and any(life.common(name) for name, _ in protocols)
        if not fits:
            raise No(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if not request.member_id:
            return self.join_anonymous(life, event, request, protocols)
        if request.member_id in life.handed_out:
            if request.group_instance_id is not None:
                raise No(ErrorCode.UNKNOWN_SERVER_ERROR, echo=False)
            self.add(life, event, request, request.member_id, protocols)
            return None
        _, each = self.validate(life, request.member_id, request.group_instance_id)
        same = each.protocols == protocols
        leads = life.leader == each.member_id
        if same and (life.state == "CompletingRebalance" or (life.state == "Stable" and not leads)):
            return self.joined(life, each)
        self.update(each, request, protocols)
        self.park_join(life, each, event)
        self.rebalance_or_complete(life)
        return None

    def require_room(self, life: Life, member_id: str) -> None:
        each = life.person(member_id)
        waiting = sum(1 for other in life.people if other.join is not None)
        if life.state == "Empty":
            return
        if life.state == "PreparingRebalance":
            fits = (each is not None and each.join is not None) or waiting < self.config.group_max_size
        else:
            fits = each is not None or len(life.people) < self.config.group_max_size
        if fits:
            return
        if each is not None:
            self.answer_removed(life, each)
            self.remove(life, each)
        if each is not None or member_id in life.handed_out:
            self.disarm(life, "session", member_id)
        life.handed_out = [other for other in life.handed_out if other != member_id]
        raise No(ErrorCode.GROUP_MAX_SIZE_REACHED, echo=False)

    def join_anonymous(
        self, life: Life, event: RequestEvent, request: JoinGroupRequest, protocols: list[tuple[str, bytes]]
    ) -> JoinGroupResponse | None:
        envelope = event.envelope
        prefix = envelope.client_id if request.group_instance_id is None else request.group_instance_id
        member_id = envelope.new_member_id or f"{prefix}-{uuid5(MEMBER_ID_NAMESPACE, envelope.request_id)}"
        if life.person(member_id) is not None or member_id in life.handed_out:
            raise No(ErrorCode.INVALID_REQUEST)
        old = life.holder(request.group_instance_id)
        if old is not None:
            return self.replace_static(life, event, request, old, member_id, protocols)
        if request.group_instance_id is None and envelope.api_version >= 4:
            life.handed_out.append(member_id)
            self.arm(life, "session", request.session_timeout_ms, member_id)
            return JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
        self.add(life, event, request, member_id, protocols)
        return None

    def add(
        self,
        life: Life,
        event: RequestEvent,
        request: JoinGroupRequest,
        member_id: str,
        protocols: list[tuple[str, bytes]],
    ) -> None:
        envelope = event.envelope
        each = Person(member_id, request.group_instance_id, envelope.client_id, envelope.client_host, 0, 0, [])
        self.update(each, request, protocols)
        if life.state == "PreparingRebalance" and life.came_from == "Empty":
            life.extend = True
        if not life.people:
            life.protocol_type = request.protocol_type
        if life.leader is None:
            life.leader = member_id
        life.people.append(each)
        life.handed_out = [other for other in life.handed_out if other != member_id]
        self.park_join(life, each, event)
        self.arm(life, "session", FIVE_MINUTES_MS, member_id)
        self.rebalance_or_complete(life)

    def update(self, each: Person, request: JoinGroupRequest, protocols: list[tuple[str, bytes]]) -> None:
        each.session_ms = request.session_timeout_ms
        each.rebalance_ms = request.rebalance_timeout_ms if request.rebalance_timeout_ms >= 0 else each.session_ms
        each.protocols = protocols

    def park_join(self, life: Life, each: Person, event: RequestEvent) -> None:
        if each.join not in (None, event.envelope.request_id):  # Kafka never answers it.
            superseded = JoinGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS, member_id=each.member_id)
            self.answer(each.join, superseded, life.now_ms)
        each.join = event.envelope.request_id

    def replace_static(
        self,
        life: Life,
        event: RequestEvent,
        request: JoinGroupRequest,
        old: Person,
        member_id: str,
        protocols: list[tuple[str, bytes]],
    ) -> JoinGroupResponse | None:
        """A static member comes back under a new id."""
        old_id, old_leader = old.member_id, life.leader
        fenced = ErrorCode.FENCED_INSTANCE_ID
        if old.join not in (None, event.envelope.request_id):
            self.answer(old.join, JoinGroupResponse(error_code=fenced, member_id=old_id), life.now_ms)
        if old.sync is not None:
            self.answer(old.sync, SyncGroupResponse(error_code=fenced), life.now_ms)
        self.disarm(life, "session", old_id)
        life.people.remove(old)
        life.people.append(old)
        each = old
        each.member_id, each.new, each.join, each.sync = member_id, False, None, None
        if life.leader == old_id:
            life.leader = member_id
        self.arm(life, "session", each.session_ms, member_id)
        self.update(each, request, protocols)
        if life.state == "Stable" and self.vote(life) == life.protocol:
            self.log_group(life)
            answer = self.joined(life, each)
            leads = life.leader == member_id
            if event.envelope.api_version >= 9:
                return replace(answer, skip_assignment=leads)
            return replace(answer, members=(), leader=old_leader or "")
        self.park_join(life, each, event)
        self.rebalance_or_complete(life)
        return None

    # ----------------------------------------------------------------------------------- SyncGroup, Heartbeat,
    # LeaveGroup

    def sync_group(self, event: RequestEvent, request: SyncGroupRequest) -> SyncGroupResponse | None:
        if event.envelope.api_version >= 5 and None in (request.protocol_type, request.protocol_name):
            raise No(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        self.require_group_id()
        life, each = self.validate(self.life, request.member_id, request.group_instance_id)
        if request.generation_id != life.generation:
            raise No(ErrorCode.ILLEGAL_GENERATION)
        if request.protocol_type not in (None, life.protocol_type) or request.protocol_name not in (
            None,
            life.protocol,
        ):
            raise No(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if life.state == "PreparingRebalance":
            raise No(ErrorCode.REBALANCE_IN_PROGRESS)
        life.must_sync = [member_id for member_id in life.must_sync if member_id != each.member_id]
        if not life.must_sync:
            self.disarm(life, "sync")
        if life.state == "Stable":
            return self.synced(life, each)
        if each.sync not in (None, event.envelope.request_id):  # Kafka never answers it.
            self.answer(each.sync, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), life.now_ms)
        each.sync = event.envelope.request_id
        if each.member_id == life.leader:
            given = {assignment.member_id: assignment.assignment for assignment in request.assignments}
            for other in life.people:
                other.assignment = given.get(other.member_id, b"")
            self.log_group(life)
            self.go(life, "Stable")
            self.answer_syncs(life, ErrorCode.NONE)
        return None

    def heartbeat(self, event: RequestEvent, request: HeartbeatRequest) -> HeartbeatResponse:
        self.require_group_id()
        life, each = self.validate(self.life, request.member_id, request.group_instance_id)
        if request.generation_id != life.generation:
            raise No(ErrorCode.ILLEGAL_GENERATION)
        self.arm(life, "session", each.session_ms, each.member_id)
        if life.state == "PreparingRebalance":
            raise No(ErrorCode.REBALANCE_IN_PROGRESS)
        return HeartbeatResponse()

    def leave_group(self, event: RequestEvent, request: LeaveGroupRequest) -> LeaveGroupResponse:
        self.require_group_id()
        codes = [self.leave(self.life, entry) for entry in request.members]
        life = self.life
        if life is not None and ErrorCode.NONE in codes:
            if life.state in ("Stable", "CompletingRebalance"):
                self.prepare_rebalance(life)
            else:
                self.maybe_complete_join(life)
        if event.envelope.api_version < 3 and len(codes) == 1:
            return LeaveGroupResponse(error_code=codes[0])
        members = (
            LeaveGroupMemberResponse(
                member_id=entry.member_id, group_instance_id=entry.group_instance_id, error_code=code
            )
            for entry, code in zip(request.members, codes, strict=True)
        )
        return LeaveGroupResponse(members=tuple(members))

    def leave(self, life: Life | None, entry: LeaveGroupMember) -> ErrorCode:
        if life is not None and entry.member_id in life.handed_out:
            life.handed_out.remove(entry.member_id)
            self.disarm(life, "session", entry.member_id)
            return ErrorCode.NONE
        holder = life.holder(entry.group_instance_id) if life is not None and not entry.member_id else None
        try:
            life, each = self.validate(life, holder.member_id if holder else entry.member_id, entry.group_instance_id)
        except No as no:
            return no.code
        self.disarm(life, "session", each.member_id)
        self.answer_removed(life, each)
        self.remove(life, each)
        return ErrorCode.NONE
