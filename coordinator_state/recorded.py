"""What the recording of another coordinator says besides requests: whom it elected, what a group was, where it is not known.

A replay that follows these does what that coordinator did, where ours would have decided otherwise or cannot know.
"""

from __future__ import annotations

from coordinator_state import states, timers
from coordinator_state.group import Group, Member
from coordinator_state.offsets import CommittedOffset
from coordinator_state.outputs import RecordedEvent
from coordinator_state.rebalance import await_sync, subscribed_topics_of
from coordinator_state.requests.join_group import first_subscription
from coordinator_state.retention import note_commits
from coordinator_state.turn import Turn
from schemas import history
from schemas.recorded import RecordedGroup, RecordedLeader, RecordedMember, RecordedOffset
from schemas.records import NO_TIMESTAMP, encode_offset_commit, encode_offset_commit_key


def follow_recording(turn: Turn, event: RecordedEvent) -> None:
    """One turn: handle what a recording says."""
    said = event.said
    if type(said) is RecordedLeader:
        if turn.group is not None:
            turn.begin_recorded(event)
            put_first(turn.group, said.member_ids)
    elif type(said) is RecordedGroup:
        turn.group = None
        turn.begin_recorded(event)
        _take_over(turn, said)
    else:
        turn.begin_recorded(event)
        turn.tell(history.RecordingGap, reason=said.reason)
        if turn.group is not None:
            turn.forget_group()


def put_first(group: Group, member_ids: tuple[str, ...]) -> None:
    """These stand before the other members: where a leader is missing, the first who has joined is elected."""
    first = {member_id: group.members[member_id] for member_id in member_ids if member_id in group.members}
    group.members = first | group.members


def _take_over(turn: Turn, said: RecordedGroup) -> None:
    """The group right after a join phase: all wait for the leader's SyncGroup."""
    group = turn.create_group()
    group.state, group.previous_state = states.COMPLETING_REBALANCE, states.PREPARING_REBALANCE
    group.generation_id, group.protocol_name = said.generation_id, said.protocol_name
    for each in said.members:
        group.add_member(_member(each), said.protocol_type)
    group.leader_id = group.elected_leader_id = said.leader_id
    group.subscribed_topics = subscribed_topics_of(group)
    group.is_logged = True
    for member in group.members.values():
        await_sync(turn, member)
    turn.arm(timers.SYNC, group.rebalance_timeout_ms)
    for offset in said.offsets:
        _put_offset(turn, group, offset)
    group.offsets_bytes = None
    turn.tell(
        history.GroupRecorded,
        leader_id=said.leader_id,
        protocol_name=said.protocol_name,
        members=tuple(_told(member, said.protocol_type) for member in group.members.values()),
    )


def _put_offset(turn: Turn, group: Group, offset: RecordedOffset) -> None:
    """The offsets log has it too: while the group was not known, nobody wrote there."""
    is_new = group.offsets.get(offset.topic, offset.partition) is None
    committed = CommittedOffset(
        offset.offset, offset.leader_epoch, offset.metadata, turn.timestamp_ms, turn.now_ms, topic_id=offset.topic_id
    )
    group.offsets.put(offset.topic, offset.partition, committed)
    value = encode_offset_commit(
        turn.config.offset_commit_value_version, offset.offset, offset.leader_epoch, offset.metadata, turn.timestamp_ms, NO_TIMESTAMP,
        offset.topic_id,
    )  # fmt: skip
    turn.record(encode_offset_commit_key(turn.group_id, offset.topic, offset.partition), value)
    note_commits(turn, offset.topic, int(is_new), None)


def _member(recorded: RecordedMember) -> Member:
    return Member(
        member_id=recorded.member_id,
        group_instance_id=recorded.group_instance_id,
        client_id=recorded.client_id,
        client_host=recorded.client_host,
        session_timeout_ms=recorded.session_timeout_ms,
        rebalance_timeout_ms=recorded.rebalance_timeout_ms,
        protocols=tuple((protocol.name, protocol.metadata) for protocol in recorded.protocols),
    )


def _told(member: Member, protocol_type: str) -> history.MemberRecorded:
    return history.MemberRecorded(
        member=member.identity,
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        protocols=tuple(name for name, _ in member.protocols),
        subscribed_topics=first_subscription(protocol_type, member.protocols),
    )
