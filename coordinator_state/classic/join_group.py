"""JoinGroup: API key 11, versions 0-9 (4: the member id is given out first; 5: group instance id; 8: reason; 9: skipAssignment)."""

from __future__ import annotations

from hashlib import sha1
from typing import Literal
from uuid import UUID

from msgspec.structs import replace

from coordinator_state.causes import Subject
from coordinator_state.classic import states, timers
from coordinator_state.classic.checks import require_member
from coordinator_state.classic.context import classic, create_classic_group
from coordinator_state.classic.group import CONSUMER, ClassicGroup
from coordinator_state.classic.group_record import append_group_metadata
from coordinator_state.classic.member import Member, Protocols, protocols_bytes
from coordinator_state.classic.rebalance import (
    add_member,
    answer_join_error,
    drop_member,
    join_response,
    join_response_members,
    maybe_complete_join,
    park_join,
    prepare_rebalance,
    still_votes_for_the_same,
)
from coordinator_state.errors import Refusal, require_group_id
from coordinator_state.offsets import utf8_bytes
from coordinator_state.step import Step
from schemas.consumer_protocol import subscribed_topics
from schemas.error_codes import ErrorCode
from schemas.history import (
    GroupCreated,
    LeaderElected,
    MemberIdAssigned,
    MemberIdentity,
    MemberJoined,
    MemberRejoined,
    MemberReplaced,
    PendingMemberRemoved,
)
from schemas.messages import JoinGroupRequest, JoinGroupResponse, SyncGroupResponse

MEMBER_ID_NAMESPACE = UUID("6f2c3a0e-3c1b-5d57-9d0a-5d1f6b3f7a11")
"""Member ids are UUIDv5 of the request id in this namespace (docs/architecture.md, rule 11)."""
MEMBER_ID_REQUIRED_VERSION = 4
SKIP_ASSIGNMENT_VERSION = 9


def join_group(step: Step, request: JoinGroupRequest) -> None:
    """Let a member join, or join again. The answer is given at once or when the join phase ends."""
    validate_join(step, request)
    if step.group is None:
        if request.member_id:
            raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, "unknown_group", "there is no such group, so no such member")
        create_classic_group(step)
        append_group_metadata(step)
        step.cause_seq = step.append_history(GroupCreated(*step.history_fields()))
    group = classic(step)
    protocols = protocols_of(request)
    _require_room(step, group, request)
    if not group.supports_protocols(request.protocol_type, protocols):
        raise Refusal(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            "no_common_protocol",
            f"the group is of type {group.protocol_type or ''!r:.100} and its members share "
            f"{[name[:100] for name, count in group.protocol_counts.items() if count == len(group.members)][:10]}; "
            f"the request offers type {request.protocol_type!r:.100} and {[name[:100] for name, _ in protocols][:10]}",
        )
    _require_size(step, group, request, protocols)
    if not request.member_id:
        _join_anonymous(step, group, request, protocols)
    elif request.member_id in group.pending_join:
        _join_pending(step, group, request, protocols)
    else:
        _rejoin(step, group, request, protocols)


# ------------------------------------------------------------------------------------------------------------- checks


def validate_join(step: Step, request: JoinGroupRequest) -> None:
    """Check the request by itself. Raises `Refusal`."""
    require_group_id(request.group_id)
    _require_session_timeout(step, request)
    _require_few_protocols(step, request)


def _require_session_timeout(step: Step, request: JoinGroupRequest) -> None:
    least, most = step.config.group_min_session_timeout_ms, step.config.group_max_session_timeout_ms
    if not least <= request.session_timeout_ms <= most:
        raise Refusal(
            ErrorCode.INVALID_SESSION_TIMEOUT,
            "session_timeout_out_of_bounds",
            f"the session timeout of {request.session_timeout_ms} ms is not between {least} and {most} ms",
        )


def _require_few_protocols(step: Step, request: JoinGroupRequest) -> None:
    """They cost time and memory in every later event of the group, however short their names are."""
    most = step.config.member_max_protocols
    if len(request.protocols) > most:
        raise Refusal(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            "too_many_protocols",
            f"the request lists {len(request.protocols)} protocols, more than member_max_protocols ({most})",
        )


def protocols_of(request: JoinGroupRequest) -> Protocols:
    """The protocols in order of preference; a name listed twice counts once (in Kafka it wedges the group)."""
    protocols: dict[str, bytes] = {}
    for protocol in request.protocols:
        if protocol.name not in protocols:
            protocols[protocol.name] = protocol.metadata
    return tuple(protocols.items())


def _require_room(step: Step, group: ClassicGroup, request: JoinGroupRequest) -> None:
    """`group.max.size`. Kafka takes a member that finds no room out of the group, without a completion check."""
    most = step.config.group_max_size
    member = group.members.get(request.member_id)
    if group.state is states.PREPARING_REBALANCE:
        has_room = group.awaiting_join_count < most or (member is not None and member.awaiting_join is not None)
    else:  # an Empty group has no members
        has_room = len(group.members) < most or member is not None
    if has_room:
        return
    if member is not None:
        drop_member(step, member, "group_full")
    elif group.remove_pending(request.member_id):
        step.cancel(timers.session(request.member_id))
        step.append_history(
            PendingMemberRemoved(*step.history_fields(), member_id=request.member_id, reason="group_full")
        )
    raise Refusal(
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        "group_is_full",
        f"the group has as many members as group.max.size allows ({most})",
        echo_member_id=False,
    )


def _require_size(step: Step, group: ClassicGroup, request: JoinGroupRequest, protocols: Protocols) -> None:
    """`group_max_bytes`: a group whose records would not fit into the topics takes no further member."""
    member = group.members.get(request.member_id)
    if member is None and request.group_instance_id is not None:
        member = group.members.get(group.static_members.get(request.group_instance_id, ""))
    before = 0 if member is None else protocols_bytes(member.protocols)
    after = group.members_bytes - before + protocols_bytes(protocols)
    if after > step.config.group_max_bytes:
        raise Refusal(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            "group_is_too_large",
            f"the members' metadata would exceed group_max_bytes ({step.config.group_max_bytes})",
            echo_member_id=False,
        )


# ------------------------------------------------------------------------------------------------------ a new member


def _join_anonymous(step: Step, group: ClassicGroup, request: JoinGroupRequest, protocols: Protocols) -> None:
    envelope = step.request_event().envelope
    prefix = envelope.client_id if request.group_instance_id is None else request.group_instance_id
    member_id = envelope.new_member_id or f"{prefix}-{member_uuid(envelope.request_id)}"
    if member_id in group.members or member_id in group.pending_join:
        raise Refusal(
            ErrorCode.INVALID_REQUEST, "member_id_is_taken", f"the new member id {member_id!r:.300} is in use already"
        )
    step.set_subject(Subject(member_id, request.group_instance_id, request.reason))
    if request.group_instance_id is not None and request.group_instance_id in group.static_members:
        _replace_static(step, group, request, protocols, member_id)
    elif request.group_instance_id is None and envelope.api_version >= MEMBER_ID_REQUIRED_VERSION:
        identity = MemberIdentity(member_id=member_id, client_id=envelope.client_id, client_host=envelope.client_host)
        group.add_pending(identity)
        step.arm(timers.session(member_id), request.session_timeout_ms)
        step.append_history(
            MemberIdAssigned(*step.history_fields(), member=identity, session_timeout_ms=request.session_timeout_ms)
        )
        step.respond(JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id))
    else:
        _add(step, group, request, protocols, member_id)


def member_uuid(request_id: str) -> str:
    """Return `uuid5(MEMBER_ID_NAMESPACE, request_id)`, faster than Python's function: without its intermediate
    objects."""
    digits = sha1(MEMBER_ID_NAMESPACE.bytes + request_id.encode(), usedforsecurity=False).hexdigest()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-5{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:32]}"


def _join_pending(step: Step, group: ClassicGroup, request: JoinGroupRequest, protocols: Protocols) -> None:
    if request.group_instance_id is not None:
        raise Refusal(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            "pending_member_with_instance_id",
            "a handed-out member id cannot be used together with an instance id",
            echo_member_id=False,
        )
    _add(step, group, request, protocols, request.member_id)


def _add(step: Step, group: ClassicGroup, request: JoinGroupRequest, protocols: Protocols, member_id: str) -> None:
    envelope = step.request_event().envelope
    member = Member(
        member_id=member_id,
        group_instance_id=request.group_instance_id,
        client_id=envelope.client_id,
        client_host=envelope.client_host,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=_rebalance_timeout_ms(request),
        protocols=protocols,
    )
    step.cause_seq = step.append_history(
        MemberJoined(
            *step.history_fields(),
            member=member.identity,
            session_timeout_ms=member.session_timeout_ms,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            protocols=tuple([name for name, _ in protocols]),
            subscribed_topics=first_subscription(request.protocol_type, protocols),
        )
    )
    add_member(step, group, member, request.protocol_type)
    if group.state is states.PREPARING_REBALANCE:
        maybe_complete_join(step, group)
    else:
        prepare_rebalance(step, "member_joined", f"member {member_id} joins", member)


def _rebalance_timeout_ms(request: JoinGroupRequest) -> int:
    """v0 has none; it, and any negative one, means the session timeout."""
    return request.session_timeout_ms if request.rebalance_timeout_ms < 0 else request.rebalance_timeout_ms


def first_subscription(protocol_type: str | None, protocols: Protocols) -> tuple[str, ...] | None:
    """Return the topics of the first protocol's subscription; None if it is no consumer's or cannot be read."""
    return subscribed_topics(protocols[0][1]) if protocol_type == CONSUMER and protocols else None


# ------------------------------------------------------------------------------------- a static member that comes back


def _replace_static(
    step: Step, group: ClassicGroup, request: JoinGroupRequest, protocols: Protocols, member_id: str
) -> None:
    """KIP-345: the instance keeps its place under a new member id; the old id is fenced."""
    assert request.group_instance_id is not None
    old_id = group.static_members[request.group_instance_id]
    old_leader_id = group.leader_id
    member = group.members.pop(old_id)
    _fence_parked(step, group, member)
    step.cancel(timers.session(old_id))
    group.members_bytes += utf8_bytes(member_id) - utf8_bytes(old_id)
    member.member_id = member_id
    member.is_new = False
    group.members[member_id] = member
    group.static_members[request.group_instance_id] = member_id
    if group.leader_id == old_id:
        group.leader_id = member_id
    if group.rebalance is not None and old_id in group.rebalance.waited:
        group.rebalance.waited[member_id] = group.rebalance.waited.pop(old_id)
    step.arm(timers.session(member_id), member.session_timeout_ms)
    group.update_member(member, protocols, request.session_timeout_ms, _rebalance_timeout_ms(request))
    stays = group.state is states.STABLE and still_votes_for_the_same(group)
    step.cause_seq = step.append_history(
        MemberReplaced(*step.history_fields(), member=member.identity, old_member_id=old_id, rebalanced=not stays)
    )
    if group.elected_leader_id == old_id:
        group.elected_leader_id = member_id
        step.append_history(
            LeaderElected(
                *step.history_fields(), leader=member.identity, previous_leader_id=old_id, reason="leader_replaced"
            )
        )
    if stays:
        _answer_without_rebalance(step, group, member, old_leader_id)
        return
    park_join(step, group, member)
    reason = f"static member {request.group_instance_id} came back as {member_id}"
    if group.state is states.PREPARING_REBALANCE:
        maybe_complete_join(step, group)
    else:
        prepare_rebalance(step, "static_member_replaced", reason, member)


def _fence_parked(step: Step, group: ClassicGroup, member: Member) -> None:
    """A member that waits under the old id is fenced."""
    if member.awaiting_join is not None:
        if not step.is_copy_of(member.awaiting_join):
            answer_join_error(step, member.awaiting_join, ErrorCode.FENCED_INSTANCE_ID, member.member_id)
        group.park_join(member, None)
    if member.awaiting_sync is not None:
        fenced = SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID)
        step.respond_to_parked("SyncGroup", member.awaiting_sync, fenced)
        member.awaiting_sync = None


def _answer_without_rebalance(step: Step, group: ClassicGroup, member: Member, old_leader_id: str | None) -> None:
    """The vote is the same: the group goes on, and the member takes over what its predecessor held."""
    append_group_metadata(step)
    step.note_assignment_change()
    leads = group.leader_id == member.member_id
    if step.request_event().envelope.api_version >= SKIP_ASSIGNMENT_VERSION:
        everybody = join_response_members(group) if leads else ()
        response = join_response(group, member.member_id, everybody)
        if leads:
            response = replace(response, skip_assignment=True)
    else:
        # An older client that read its own id here would compute an assignment that nobody asked for.
        response = replace(join_response(group, member.member_id, ()), leader=old_leader_id or "")
    step.respond(response)


# -------------------------------------------------------------------------------------------------- a known member


def _rejoin(step: Step, group: ClassicGroup, request: JoinGroupRequest, protocols: Protocols) -> None:
    member = require_member(group, request.member_id, request.group_instance_id)
    leads = member.member_id == group.leader_id
    same = member.protocols == protocols
    match group.state:
        case states.PREPARING_REBALANCE:
            _update_and_park(step, group, member, request, protocols)
            maybe_complete_join(step, group)
        case states.COMPLETING_REBALANCE if same:
            step.respond(join_response(group, member.member_id, join_response_members(group) if leads else ()))
        case states.STABLE if same and not leads:
            step.respond(join_response(group, member.member_id, ()))
        case states.COMPLETING_REBALANCE | states.STABLE:
            _update_and_park(step, group, member, request, protocols)
            if same:
                prepare_rebalance(step, "leader_rejoined", f"leader {member.member_id} rejoins", member)
            else:
                prepare_rebalance(
                    step, "member_changed", f"member {member.member_id} has other protocols or metadata", member
                )
        case states.EMPTY | states.DEAD:
            raise AssertionError(f"a group in state {group.state} has a member")


def _update_and_park(
    step: Step, group: ClassicGroup, member: Member, request: JoinGroupRequest, protocols: Protocols
) -> None:
    rebalance_timeout_ms = _rebalance_timeout_ms(request)
    changed: list[Literal["protocols", "metadata", "session_timeout", "rebalance_timeout"]] = []
    if [name for name, _ in member.protocols] != [name for name, _ in protocols]:
        changed.append("protocols")
    elif member.protocols != protocols:
        changed.append("metadata")
    if member.session_timeout_ms != request.session_timeout_ms:
        changed.append("session_timeout")
    if member.rebalance_timeout_ms != rebalance_timeout_ms:
        changed.append("rebalance_timeout")
    step.cause_seq = step.append_history(
        MemberRejoined(
            *step.history_fields(),
            member=member.identity,
            changed=tuple(changed),
            subscribed_topics=first_subscription(group.protocol_type, protocols),
        )
    )
    group.update_member(member, protocols, request.session_timeout_ms, rebalance_timeout_ms)
    park_join(step, group, member)
