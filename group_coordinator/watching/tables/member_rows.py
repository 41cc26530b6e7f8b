"""The rows of a group's members: from the id or the joining to the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from group_coordinator.watching.history.view import JoinedMember
from group_coordinator.watching.tables.causes import silence
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

    def __init__(self, members: dict[str, Member], on_change: Callable[[Member], None], at_ms: int) -> None:
        """`at_ms`: the moment of all that is noted."""
        self.members = members
        self._on_change = on_change
        self._at_ms = at_ms

    def give_id(self, record: MemberIdAssigned) -> None:
        """Begin the row of a client that was given an id and has not joined yet."""
        self._set(replace(self._begin(record, record.member), session_timeout_ms=record.session_timeout_ms))

    def find(self, record: HistoryRecord, found: JoinedMember) -> None:
        """Begin the row of a member that is in the group, unless it has one; since when it is there is not known."""
        member = self.members.get(found.member.member_id) or self._begin(record, found.member)
        self._set(_in_generation(record, replace(member, **_asked(found))))

    def join(self, record: HistoryRecord, joined: JoinedMember) -> None:
        """Note that the member was added to the group."""
        identity = joined.member
        # An id that was given out before keeps the row that it has had since.
        member = self.members.get(identity.member_id) or self._begin(record, identity)
        self._set(
            replace(
                member,
                group_instance_id=identity.group_instance_id,
                client_id=identity.client_id,
                client_host=identity.client_host,
                joined_ms=self._at_ms,
                last_seq=record.seq,
                **_asked(joined),
            )
        )

    def rejoin(self, record: MemberRejoined) -> None:
        """Note that the member joined a rebalance."""
        member, topics = self._known(record, record.member), record.subscribed_topics
        self._set(replace(member, rejoins=member.rejoins + 1, subscribed_topics=topics, last_seq=record.seq))

    def change(self, record: HistoryRecord, updated: JoinedMember) -> None:
        """Note that the member asks for something else. The row keeps the session timeout that it joined with."""
        member = self._known(record, updated.member)
        asked = {**_asked(updated), "session_timeout_ms": member.session_timeout_ms}
        self._set(replace(member, last_seq=record.seq, **asked))

    def follow(self, record: MemberReplaced) -> None:
        """Go on with a static member under a new id. Its row under the old one ends after what it had there."""
        old_member = self.members.get(record.old_member_id)
        asked = {} if old_member is None else _asked(old_member)
        member = self._begin(record, record.member, joined_ms=self._at_ms)
        self._set(replace(member, replaces=record.old_member_id, **asked))

    def end(self, record: HistoryRecord, identity: MemberIdentity, ended_by: MemberEnd, reason: str | None) -> None:
        """End the row of a member that is no longer in the group, or whose id is no longer valid."""
        self._end(self._known(record, identity), ended_by, reason, record.seq)

    def enter_generation(self, record: HistoryRecord, member_ids: Iterable[str]) -> None:
        """Note that these members are in the record's generation."""
        for member_id in member_ids:
            if member_id in self.members:
                self._set(_in_generation(record, self.members[member_id]))

    def end_all(self) -> None:
        """End all rows as unknown: the history goes on with another epoch of the group."""
        for member in list(self.members.values()):
            self._end(member, "unknown", None, member.last_seq + 1)

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

    def _end(self, member: Member, ended_by: MemberEnd, reason: str | None, last_seq: int) -> None:
        self.members.pop(member.member_id, None)
        at_ms, lived_ms = self._at_ms, self._at_ms - member.first_seen_ms
        self._on_change(
            replace(member, ended_ms=at_ms, ended_by=ended_by, reason=reason, lived_ms=lived_ms, last_seq=last_seq)
        )

    def _known(self, record: HistoryRecord, identity: MemberIdentity) -> Member:
        """The member's row; a new one where the history does not go back to its joining."""
        return self.members.get(identity.member_id) or self._begin(record, identity, joined_ms=self._at_ms)

    def _begin(self, record: HistoryRecord, identity: MemberIdentity, *, joined_ms: int | None = None) -> Member:
        return Member(
            group_id=record.group_id,
            epoch=record.epoch,
            seq=record.seq,
            member_id=identity.member_id,
            group_instance_id=identity.group_instance_id,
            client_id=identity.client_id or None,
            client_host=identity.client_host or None,
            first_seen_ms=self._at_ms,
            joined_ms=joined_ms,
            session_timeout_ms=None,
            rebalance_timeout_ms=None,
            last_seq=record.seq,
        )


def departure_text(record: History) -> str | None:
    """Return why a member is gone: the client's own words, or the rule that put it out."""
    match record:
        case MemberExpired():
            broker_id = record.stalled_broker_id
            stalled = "" if broker_id is UNSET else f": broker {broker_id} seems to have stood still"
            return f"not heard for {silence(record)}{stalled}"
        case MemberDropped():
            return record.reason
        case MemberGone():
            return "left or expired, not known which"
        case _:
            return record.cause.reason


def _asked(member: JoinedMember | Member) -> dict[str, Any]:
    """Return the columns that tell what a member asks for."""
    return {
        "session_timeout_ms": member.session_timeout_ms, "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "protocols": member.protocols, "subscribed_topics": member.subscribed_topics,
    }  # fmt: skip


def _in_generation(record: HistoryRecord, member: Member) -> Member:
    generation_id = record.generation_id
    first = generation_id if member.first_generation_id is None else member.first_generation_id
    return replace(member, first_generation_id=first, last_generation_id=generation_id, last_seq=record.seq)
