"""The rows of a group's members: from the id or the joining to the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import UNSET
from msgspec.structs import replace

from group_coordinator.watching.history.view import JoinedMember
from group_coordinator.watching.tables.rows import Member, MemberEnd
from schemas.history import (
    History,
    HistoryRecord,
    MemberDropped,
    MemberExpired,
    MemberIdAssigned,
    MemberIdentity,
    MemberRejoined,
    MemberReplaced,
)
from schemas.observed_history import MemberGone

COOPERATIVE_PROTOCOLS = frozenset({"cooperative-sticky", "stream"})
"""Assignors whose clients keep their partitions while they rejoin."""


class MemberRows:
    """The members that are there, and the ids that were given out. `on_change` gets every new row."""

    def __init__(self, members: dict[str, Member], on_change: Callable[[Member], None]) -> None:
        self.members = members
        self._on_change = on_change

    def give_id(self, record: MemberIdAssigned, at_ms: int) -> None:
        """Begin the row of a client that was given an id and has not joined yet."""
        self._set(_begin(record, record.member, at_ms, session_timeout_ms=record.session_timeout_ms))

    def find(self, record: HistoryRecord, member_found: JoinedMember, at_ms: int) -> None:
        """Begin the row of a member that is in the group, unless it has one; since when it is there is not known."""
        member = self.members.get(member_found.member.member_id) or _begin(record, member_found.member, at_ms)
        first = record.generation_id if member.first_generation_id is None else member.first_generation_id
        self._set(
            replace(
                member,
                session_timeout_ms=member_found.session_timeout_ms,
                rebalance_timeout_ms=member_found.rebalance_timeout_ms,
                protocols=member_found.protocols,
                subscribed_topics=member_found.subscribed_topics,
                first_generation_id=first,
                last_generation_id=record.generation_id,
                last_seq=record.seq,
            )
        )

    def join(self, record: HistoryRecord, joined: JoinedMember, at_ms: int) -> None:
        """Note that the member was added to the group."""
        identity = joined.member
        # An id that was given out before keeps the row that it has had since.
        member = self.members.get(identity.member_id) or _begin(record, identity, at_ms)
        self._set(
            replace(
                member,
                group_instance_id=identity.group_instance_id,
                client_id=identity.client_id,
                client_host=identity.client_host,
                joined_ms=at_ms,
                session_timeout_ms=joined.session_timeout_ms,
                rebalance_timeout_ms=joined.rebalance_timeout_ms,
                protocols=joined.protocols,
                subscribed_topics=joined.subscribed_topics,
                last_seq=record.seq,
            )
        )

    def rejoin(self, record: MemberRejoined, at_ms: int) -> None:
        """Note that the member joined a rebalance."""
        member = self._known(record, record.member, at_ms)
        topics = record.subscribed_topics
        self._set(replace(member, rejoins=member.rejoins + 1, subscribed_topics=topics, last_seq=record.seq))

    def change(self, record: HistoryRecord, updated: JoinedMember, at_ms: int) -> None:
        """Note that the member asks for something else."""
        member = self._known(record, updated.member, at_ms)
        self._set(
            replace(
                member,
                rebalance_timeout_ms=updated.rebalance_timeout_ms,
                protocols=updated.protocols,
                subscribed_topics=updated.subscribed_topics,
                last_seq=record.seq,
            )
        )

    def follow(self, record: MemberReplaced, at_ms: int) -> None:
        """Go on with a static member under a new id. Its row under the old one ends after what it had there."""
        old_member = self.members.get(record.old_member_id)
        member = _begin(record, record.member, at_ms, joined_ms=at_ms)
        if old_member is not None:
            member = replace(
                member,
                session_timeout_ms=old_member.session_timeout_ms,
                rebalance_timeout_ms=old_member.rebalance_timeout_ms,
                protocols=old_member.protocols,
                subscribed_topics=old_member.subscribed_topics,
            )
        self._set(replace(member, replaces=record.old_member_id))

    def end(
        self, record: HistoryRecord, identity: MemberIdentity, ended_by: MemberEnd, reason: str | None, at_ms: int
    ) -> None:
        """End the row of a member that is no longer in the group, or whose id is no longer valid."""
        member = self._known(record, identity, at_ms)
        self.members.pop(member.member_id, None)
        lived_ms = at_ms - member.first_seen_ms
        self._on_change(
            replace(member, ended_ms=at_ms, ended_by=ended_by, reason=reason, lived_ms=lived_ms, last_seq=record.seq)
        )

    def enter_generation(self, record: HistoryRecord, member_ids: Iterable[str]) -> None:
        """Note that these members are in the record's generation."""
        generation_id = record.generation_id
        for member_id in member_ids:
            member = self.members.get(member_id)
            if member is not None:
                first = generation_id if member.first_generation_id is None else member.first_generation_id
                self._set(
                    replace(member, first_generation_id=first, last_generation_id=generation_id, last_seq=record.seq)
                )

    def end_all(self, at_ms: int) -> None:
        """End all rows as unknown: the history goes on with another epoch of the group."""
        for member in list(self.members.values()):
            del self.members[member.member_id]
            lived_ms = at_ms - member.first_seen_ms
            seq = member.last_seq + 1
            self._on_change(replace(member, ended_ms=at_ms, ended_by="unknown", lived_ms=lived_ms, last_seq=seq))

    def keeps_partitions(self, member_id: str, protocol_name: str | None) -> bool:
        """Return whether the member keeps its partitions when it rejoins.

        `protocol_name`: the one in force, if it is not known.
        """
        member = self.members.get(member_id)
        protocols = member.protocols if member is not None and member.protocols is not None else (protocol_name,)
        return bool(protocols) and all(name in COOPERATIVE_PROTOCOLS for name in protocols)

    def _set(self, member: Member) -> None:
        self.members[member.member_id] = member
        self._on_change(member)

    def _known(self, record: HistoryRecord, identity: MemberIdentity, at_ms: int) -> Member:
        """The member's row; a new one where the history does not go back to its joining."""
        return self.members.get(identity.member_id) or _begin(record, identity, at_ms, joined_ms=at_ms)


def departure_text(record: History) -> str | None:
    """Return why a member is gone: the client's own words, or the rule that put it out."""
    match record:
        case MemberExpired():
            timeout_ms, broker_id = record.session_timeout_ms, record.stalled_broker_id
            timeout = "its session timeout" if timeout_ms is None else f"{timeout_ms} ms"
            stalled = "" if broker_id is UNSET else f": broker {broker_id} seems to have stood still"
            return f"not heard for {timeout}{stalled}"
        case MemberDropped():
            return record.reason
        case MemberGone():
            return "left or expired, not known which"
        case _:
            return record.cause.reason


def _begin(
    record: HistoryRecord,
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
