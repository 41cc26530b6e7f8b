"""JoinGroup: API key 11, versions 0-9 (4: the member id is given out first; 5: group instance id; 8: reason; 9: skipAssignment)."""

from __future__ import annotations

from hashlib import sha1
from typing import Literal
from uuid import UUID

from msgspec.structs import replace

from coordinator_state.causes import Subject
from coordinator_state.classic import states, timers
from coordinator_state.classic.changes import Change, Changes, begin_group
from coordinator_state.classic.checks import require_member
from coordinator_state.classic.group import CONSUMER, ClassicGroup, classic_group
from coordinator_state.classic.member import Member, Protocols, protocols_bytes
from coordinator_state.classic.vote import selected_protocol
from coordinator_state.config import NEW_MEMBER_JOIN_TIMEOUT_MS, GroupConfig
from coordinator_state.errors import Refusal, require_group_id
from coordinator_state.step import Step
from schemas.consumer_protocol import subscribed_topics
from schemas.error_codes import ErrorCode
from schemas.events import RequestEnvelope
from schemas.history import GroupCreated, MemberIdAssigned, MemberIdentity, MemberJoined, MemberRejoined, MemberReplaced
from schemas.messages import JoinGroupRequest, JoinGroupResponse, SyncGroupResponse

MEMBER_ID_NAMESPACE = UUID("6f2c3a0e-3c1b-5d57-9d0a-5d1f6b3f7a11")
"""Member ids are UUIDv5 of the request id in this namespace (docs/architecture.md, rule 11)."""
MEMBER_ID_REQUIRED_VERSION = 4
SKIP_ASSIGNMENT_VERSION = 9


def join_group(step: Step, request: JoinGroupRequest) -> None:
    """Let a member join, or join again. The answer is given at once or when the join phase ends."""
    config, envelope = step.config, step.envelope
    validate_join(config, request)
    if step.group is None:
        if request.member_id:
            raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, "unknown_group", "there is no such group, so no such member")
        changes = begin_group(step)
        changes.write()
        changes.lead(GroupCreated(*changes.fields()))
    else:
        changes = Changes(step, classic_group(step.group))
    if not _has_room(config, changes.group, request):
        _put_out(changes, request.member_id)
        detail = f"the group has as many members as group.max.size allows ({config.group_max_size})"
        raise _no_room("group_is_full", detail)
    member_id = request.member_id or _new_member_id(envelope, request)
    change = _decide(config, changes.group, envelope, request, member_id)
    if not request.member_id:
        step.set_subject(Subject(member_id, request.group_instance_id, request.reason))
    change(changes)


def _decide(
    config: GroupConfig, group: ClassicGroup, envelope: RequestEnvelope, request: JoinGroupRequest, member_id: str
) -> Change:
    """Return what a JoinGroup does to a group that has room. Raises `Refusal`."""
    instance_id, protocols = request.group_instance_id, protocols_of(request)
    if not group.supports_protocols(request.protocol_type, protocols):
        raise _no_common_protocol(group, request, protocols)
    _require_size(config, group, request, protocols)
    if not request.member_id:
        if member_id in group.members or member_id in group.pending_join:
            detail = f"the new member id {member_id!r:.300} is in use already"
            raise Refusal(ErrorCode.INVALID_REQUEST, "member_id_is_taken", detail)
        if instance_id is None and envelope.api_version >= MEMBER_ID_REQUIRED_VERSION:
            identity = MemberIdentity(
                member_id=member_id, client_id=envelope.client_id, client_host=envelope.client_host
            )
            return lambda changes: _hand_out(changes, identity, request.session_timeout_ms)
    asked = Member(
        member_id, instance_id, envelope.client_id, envelope.client_host, request.session_timeout_ms,
        _rebalance_timeout_ms(request), protocols,
    )  # fmt: skip
    if member_id in group.pending_join:
        if instance_id is not None:
            raise Refusal(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                "pending_member_with_instance_id",
                "a handed-out member id cannot be used together with an instance id",
                echo_member_id=False,
            )
    elif request.member_id:
        return _decide_known(group, require_member(group, member_id, instance_id), asked)
    elif instance_id is not None and instance_id in group.static_members:
        present = group.members[group.static_members[instance_id]]
        return lambda changes: _replace_static(changes, present, asked)
    return lambda changes: _join(changes, asked, request.protocol_type)


def _decide_known(group: ClassicGroup, member: Member, asked: Member) -> Change:
    """Return what the JoinGroup of a member does: in a join phase, or with something new, it joins again."""
    leads = member.member_id == group.leader_id
    must_rejoin = group.state is states.PREPARING_REBALANCE or (group.state is states.STABLE and leads)
    if must_rejoin or member.protocols != asked.protocols:
        return lambda changes: _rejoin(changes, member, asked)
    return lambda changes: changes.step.respond(group.join_response(member.member_id))


# ------------------------------------------------------------------------------------------------------------- checks


def validate_join(config: GroupConfig, request: JoinGroupRequest) -> None:
    """Check the request by itself. Raises `Refusal`."""
    require_group_id(request.group_id)
    least, most = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
    if not least <= request.session_timeout_ms <= most:
        raise Refusal(
            ErrorCode.INVALID_SESSION_TIMEOUT,
            "session_timeout_out_of_bounds",
            f"the session timeout of {request.session_timeout_ms} ms is not between {least} and {most} ms",
        )
    # Protocols cost time and memory in every later event of the group, however short their names are.
    most = config.member_max_protocols
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


def _has_room(config: GroupConfig, group: ClassicGroup, request: JoinGroupRequest) -> bool:
    """`group.max.size`: return whether the group takes the member, or keeps it."""
    most, member = config.group_max_size, group.members.get(request.member_id)
    if group.state is states.PREPARING_REBALANCE:
        return group.awaiting_join_count < most or (member is not None and member.awaiting_join is not None)
    return len(group.members) < most or member is not None  # an Empty group has no members


def _put_out(changes: Changes, member_id: str) -> None:
    """Kafka takes a member that finds no room out of the group, without a completion check, before it refuses."""
    member = changes.group.members.get(member_id)
    if member is not None:
        changes.drop(member, "group_full")
    elif member_id in changes.group.pending_join:
        changes.take_back(member_id, "group_full")


def _no_room(rule: str, detail: str) -> Refusal:
    return Refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, rule, detail, echo_member_id=False)


def _no_common_protocol(group: ClassicGroup, request: JoinGroupRequest, protocols: Protocols) -> Refusal:
    return Refusal(
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        "no_common_protocol",
        f"the group is of type {group.protocol_type or ''!r:.100} and its members share "
        f"{[name[:100] for name, count in group.protocol_counts.items() if count == len(group.members)][:10]}; "
        f"the request offers type {request.protocol_type!r:.100} and {[name[:100] for name, _ in protocols][:10]}",
    )


def _require_size(config: GroupConfig, group: ClassicGroup, request: JoinGroupRequest, protocols: Protocols) -> None:
    """`group_max_bytes`: a group whose records would not fit into the topics takes no further member."""
    member = group.members.get(request.member_id)
    if member is None and request.group_instance_id is not None:
        member = group.members.get(group.static_members.get(request.group_instance_id, ""))
    before = 0 if member is None else protocols_bytes(member.protocols)
    if group.members_bytes - before + protocols_bytes(protocols) > config.group_max_bytes:
        most = config.group_max_bytes
        raise _no_room("group_is_too_large", f"the members' metadata would exceed group_max_bytes ({most})")


# ------------------------------------------------------------------------------------------------------ a new member


def _new_member_id(envelope: RequestEnvelope, request: JoinGroupRequest) -> str:
    if envelope.new_member_id:
        return envelope.new_member_id
    prefix = envelope.client_id if request.group_instance_id is None else request.group_instance_id
    return f"{prefix}-{member_uuid(envelope.request_id)}"


def member_uuid(request_id: str) -> str:
    """Return `uuid5(MEMBER_ID_NAMESPACE, request_id)`, faster than Python's function: without its intermediate
    objects."""
    digits = sha1(MEMBER_ID_NAMESPACE.bytes + request_id.encode(), usedforsecurity=False).hexdigest()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-5{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:32]}"


def _hand_out(changes: Changes, identity: MemberIdentity, session_timeout_ms: int) -> None:
    """Give out a member id that the client shall join with."""
    changes.group.add_pending(identity)
    changes.step.arm(timers.session(identity.member_id), session_timeout_ms)
    changes.tell(MemberIdAssigned(*changes.fields(), member=identity, session_timeout_ms=session_timeout_ms))
    changes.step.respond(JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=identity.member_id))


def _join(changes: Changes, member: Member, protocol_type: str) -> None:
    """Take a new member in and park its JoinGroup."""
    group, member_id = changes.group, member.member_id
    changes.lead(
        MemberJoined(
            *changes.fields(),
            member=member.identity,
            session_timeout_ms=member.session_timeout_ms,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            protocols=tuple([name for name, _ in member.protocols]),
            subscribed_topics=first_subscription(protocol_type, member.protocols),
        )
    )
    if group.state is states.PREPARING_REBALANCE:
        extends_when_empty = changes.step.config.kafka_version.extends_when_empty
        if group.previous_state is states.EMPTY if extends_when_empty else group.generation_id == 0:
            group.new_member_added = True
    group.add_member(member, protocol_type)
    group.remove_pending(member_id)
    changes.park_join(member)
    changes.step.arm(timers.session(member_id), NEW_MEMBER_JOIN_TIMEOUT_MS)
    changes.rebalance("member_joined", f"member {member_id} joins", member)


def _rebalance_timeout_ms(request: JoinGroupRequest) -> int:
    """v0 has none; it, and any negative one, means the session timeout."""
    return request.session_timeout_ms if request.rebalance_timeout_ms < 0 else request.rebalance_timeout_ms


def first_subscription(protocol_type: str | None, protocols: Protocols) -> tuple[str, ...] | None:
    """Return the topics of the first protocol's subscription; None if it is no consumer's or cannot be read."""
    return subscribed_topics(protocols[0][1]) if protocol_type == CONSUMER and protocols else None


# ------------------------------------------------------------------------------------- a static member that comes back


def _replace_static(changes: Changes, member: Member, asked: Member) -> None:
    """KIP-345: the instance keeps its place under a new member id; the old id is fenced."""
    group, old_id, old_leader_id = changes.group, member.member_id, changes.group.leader_id
    _fence_parked(changes, member)
    changes.step.cancel(timers.session(old_id))
    group.rename_member(member, asked.member_id)
    changes.step.arm(timers.session(member.member_id), member.session_timeout_ms)
    group.update_member(member, asked)
    stays = group.state is states.STABLE and selected_protocol(group) == group.protocol_name
    changes.lead(
        MemberReplaced(*changes.fields(), member=member.identity, old_member_id=old_id, rebalanced=not stays)
    )
    if group.elected_leader_id == old_id:
        changes.tell_leader(member, old_id, "leader_replaced")
    if stays:
        # The group goes on, and the member takes over what its predecessor held.
        changes.write()
        changes.step.assignment_changed = True
        changes.step.respond(_response_of_old(group, member, old_leader_id, changes.step.envelope))
    else:
        changes.park_join(member)
        reason = f"static member {member.group_instance_id} came back as {member.member_id}"
        changes.rebalance("static_member_replaced", reason, member)


def _fence_parked(changes: Changes, member: Member) -> None:
    """A member that waits under the old id is fenced."""
    if member.awaiting_join is not None:
        if member.awaiting_join.request_id != changes.this_request().request_id:
            changes.refuse_join(member, ErrorCode.FENCED_INSTANCE_ID, member.member_id)
        changes.group.park_join(member, None)
    if member.awaiting_sync is not None:
        changes.answer_sync(member, SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))


def _response_of_old(
    group: ClassicGroup, member: Member, old_leader_id: str | None, envelope: RequestEnvelope
) -> JoinGroupResponse:
    """Return the answer to a member that came back where the vote is the same."""
    response = group.join_response(member.member_id)
    if envelope.api_version >= SKIP_ASSIGNMENT_VERSION:
        return replace(response, skip_assignment=group.leader_id == member.member_id)
    # An older client that read its own id here would compute an assignment that nobody asked for.
    return replace(response, leader=old_leader_id or "", members=())


# -------------------------------------------------------------------------------------------------- a known member


def _rejoin(changes: Changes, member: Member, asked: Member) -> None:
    """Park the JoinGroup of a known member, which may ask for something else than before."""
    group, member_id, same = changes.group, member.member_id, member.protocols == asked.protocols
    changed: list[Literal["protocols", "metadata", "session_timeout", "rebalance_timeout"]] = []
    if not same:
        names = [name for name, _ in member.protocols]
        changed.append("metadata" if names == [name for name, _ in asked.protocols] else "protocols")
    if member.session_timeout_ms != asked.session_timeout_ms:
        changed.append("session_timeout")
    if member.rebalance_timeout_ms != asked.rebalance_timeout_ms:
        changed.append("rebalance_timeout")
    changes.lead(
        MemberRejoined(
            *changes.fields(),
            member=member.identity,
            changed=tuple(changed),
            subscribed_topics=first_subscription(group.protocol_type, asked.protocols),
        )
    )
    group.update_member(member, asked)
    changes.park_join(member)
    if same:
        changes.rebalance("leader_rejoined", f"leader {member_id} rejoins", member)
    else:
        changes.rebalance("member_changed", f"member {member_id} has other protocols or metadata", member)
