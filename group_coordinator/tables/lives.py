"""The lives of a group's members, followed record by record."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from group_coordinator.tables.rows import Member, MemberEnd
from schemas.history import (
    GroupRecorded,
    History,
    JoinPhaseCompleted,
    MemberDropped,
    MemberExpired,
    MemberIdAssigned,
    MemberIdentity,
    MemberJoined,
    MemberLeft,
    MemberRejoined,
    MemberReplaced,
    PendingMemberRemoved,
)

COOPERATIVE_PROTOCOLS = frozenset({"cooperative-sticky", "stream"})
"""Assignors whose clients keep their partitions while they rejoin."""


class Lives:
    """The members that are there, and the ids that were given out. `changed` is called with every row that is new."""

    def __init__(self, members: dict[str, Member], changed: Callable[[Member], None]) -> None:
        self.members = members
        self._changed = changed

    def follow(self, record: History, at_ms: int) -> None:
        """Take a record into account; one that is not about members changes nothing."""
        match record:
            case GroupRecorded():
                self._recorded(record, at_ms)
            case MemberIdAssigned():
                self._set(_begin(record, record.member, at_ms, session_timeout_ms=record.session_timeout_ms))
            case MemberJoined():
                self._joined(record, at_ms)
            case MemberRejoined():
                member = self._known(record, record.member, at_ms)
                topics = record.subscribed_topics
                self._set(replace(member, rejoins=member.rejoins + 1, subscribed_topics=topics, last_seq=record.seq))
            case MemberReplaced():
                self._replaced(record, at_ms)
            case MemberLeft():
                self._end(record, record.member, "left", record.cause.reason, at_ms)
            case MemberExpired():
                reason = f"not heard for {record.session_timeout_ms} ms"
                self._end(record, record.member, "expired", reason, at_ms)
            case MemberDropped():
                self._end(record, record.member, "dropped", record.reason, at_ms)
            case PendingMemberRemoved():
                identity = MemberIdentity(member_id=record.member_id, client_id="", client_host="")
                self._end(record, identity, "never_joined", record.reason, at_ms)
            case JoinPhaseCompleted():
                self._in_generation(record)

    def end_all(self, at_ms: int) -> None:
        """The history goes on with another life of the group and did not say how these ended."""
        for member in list(self.members.values()):
            del self.members[member.member_id]
            lived_ms = at_ms - member.first_seen_ms
            seq = member.last_seq + 1
            self._changed(replace(member, ended_ms=at_ms, ended_by="unknown", lived_ms=lived_ms, last_seq=seq))

    def keeps_partitions(self, member_id: str, protocol_name: str | None) -> bool:
        """Whether the member keeps what it owns when it rejoins. `protocol_name`: the one in force, if it is not known."""
        member = self.members.get(member_id)
        protocols = member.protocols if member is not None and member.protocols is not None else (protocol_name,)
        return bool(protocols) and all(name in COOPERATIVE_PROTOCOLS for name in protocols)

    def _set(self, member: Member) -> None:
        self.members[member.member_id] = member
        self._changed(member)

    def _known(self, record: History, identity: MemberIdentity, at_ms: int) -> Member:
        """The member's row; a new one where the history does not go back to its joining."""
        return self.members.get(identity.member_id) or _begin(record, identity, at_ms, joined_ms=at_ms)

    def _recorded(self, record: GroupRecorded, at_ms: int) -> None:
        for each in record.members:
            member = _begin(record, each.member, at_ms, session_timeout_ms=each.session_timeout_ms)
            self._set(
                replace(
                    member,
                    rebalance_timeout_ms=each.rebalance_timeout_ms,
                    protocols=each.protocols,
                    subscribed_topics=each.subscribed_topics,
                    first_generation_id=record.generation_id,
                    last_generation_id=record.generation_id,
                )
            )

    def _joined(self, record: MemberJoined, at_ms: int) -> None:
        # An id that was given out before keeps the row that it has had since.
        member = self.members.get(record.member.member_id) or _begin(record, record.member, at_ms)
        self._set(
            replace(
                member,
                group_instance_id=record.member.group_instance_id,
                client_id=record.member.client_id,
                client_host=record.member.client_host,
                joined_ms=at_ms,
                session_timeout_ms=record.session_timeout_ms,
                rebalance_timeout_ms=record.rebalance_timeout_ms,
                protocols=record.protocols,
                subscribed_topics=record.subscribed_topics,
                last_seq=record.seq,
            )
        )

    def _replaced(self, record: MemberReplaced, at_ms: int) -> None:
        old = self.members.get(record.old_member_id)
        identity = replace(record.member, member_id=record.old_member_id)
        self._end(record, identity, "replaced", f"by {record.member.member_id}", at_ms)
        member = _begin(record, record.member, at_ms, joined_ms=at_ms)
        if old is not None:
            member = replace(
                member,
                session_timeout_ms=old.session_timeout_ms,
                rebalance_timeout_ms=old.rebalance_timeout_ms,
                protocols=old.protocols,
                subscribed_topics=old.subscribed_topics,
            )
        self._set(replace(member, replaces=record.old_member_id))

    def _end(
        self, record: History, identity: MemberIdentity, ended_by: MemberEnd, reason: str | None, at_ms: int
    ) -> None:
        member = self._known(record, identity, at_ms)
        self.members.pop(member.member_id, None)
        lived_ms = at_ms - member.first_seen_ms
        self._changed(
            replace(member, ended_ms=at_ms, ended_by=ended_by, reason=reason, lived_ms=lived_ms, last_seq=record.seq)
        )

    def _in_generation(self, record: JoinPhaseCompleted) -> None:
        generation_id = record.generation_id
        for member_id in record.members:
            member = self.members.get(member_id)
            if member is not None:
                first = generation_id if member.first_generation_id is None else member.first_generation_id
                self._set(
                    replace(member, first_generation_id=first, last_generation_id=generation_id, last_seq=record.seq)
                )


def _begin(
    record: History,
    identity: MemberIdentity,
    at_ms: int,
    *,
    joined_ms: int | None = None,
    session_timeout_ms: int | None = None,
) -> Member:
    return Member(
        group_id=record.group_id,
        epoch=record.epoch,
        seq=record.seq,
        member_id=identity.member_id,
        group_instance_id=identity.group_instance_id,
        client_id=identity.client_id or None,
        client_host=identity.client_host or None,
        first_seen_ms=at_ms,
        joined_ms=joined_ms,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=None,
        last_seq=record.seq,
    )
