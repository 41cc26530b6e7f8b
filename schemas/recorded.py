"""What the events of a recording say besides requests, so that a replay does what the recorded coordinator did.

They are events of a group like its requests: the key is the group id. Whoever imports the recording of another
coordinator writes them; a coordinator at work never gets any.
"""

from __future__ import annotations

from typing import Annotated, Literal, final

from msgspec import Meta, Struct

from schemas.message_types import INT32, INT64, UUID_TEXT
from schemas.messages import JoinGroupProtocol
from schemas.records import decode_group_metadata_value

DURATION_MS = Annotated[int, Meta(ge=0, le=2**31 - 1)]


@final
class RecordedLeader(Struct, frozen=True, kw_only=True, gc=False, tag_field="type", tag="recorded_leader"):
    """Whom the recorded coordinator elects where a leader is missing: the first of these that can lead.

    Kafka elects by the order of a hash map. A recording shows the result alone, so the importer of one writes this
    event before the election. It has no answer.
    """

    member_ids: tuple[str, ...]
    """Members, in this order before all others; those that the group does not have are passed over."""
    schema_version: Literal[1] = 1
    """Version of this event."""


class RecordedRequest(Struct, frozen=True, kw_only=True, gc=False):
    """Where a recording has a request."""

    file: str | None = None
    """The name of the file; null: the recording has no such request, it is inferred from what follows."""
    line: int | None = None
    """The number of its line, from 1 on."""


@final
class RecordedSession(Struct, frozen=True, kw_only=True, gc=False, tag_field="type", tag="recorded_session"):
    """The session of a member ends at this moment, unless it is heard again; with null in its place, a join phase.

    Importers write it where a broker's log tells when, or an answer shows that one lasted longer. It has no answer.
    """

    member_id: str | None
    ends_ms: INT64
    schema_version: Literal[1] = 1
    """Version of this event."""


@final
class RecordedDeparture(Struct, frozen=True, kw_only=True, gc=False, tag_field="type", tag="recorded_departure"):
    """The recorded coordinator does not have this member any more: it left or expired, not known which.

    The importer of a recording writes it where answers show that a member is gone, and no request of it tells that it
    left. It has no answer.
    """

    member_id: str
    schema_version: Literal[1] = 1
    """Version of this event."""


class RecordedMember(Struct, frozen=True, kw_only=True, gc=False):
    """One member of a recorded group: what its last JoinGroup said."""

    member_id: str
    group_instance_id: str | None = None
    client_id: str
    client_host: str
    session_timeout_ms: DURATION_MS
    rebalance_timeout_ms: DURATION_MS
    protocols: tuple[JoinGroupProtocol, ...]


class RecordedOffset(Struct, frozen=True, kw_only=True, gc=False):
    """One committed offset of a recorded group."""

    topic: str
    partition: INT32
    offset: INT64
    leader_epoch: INT32 = -1
    metadata: str = ""
    topic_id: UUID_TEXT | None = None


@final
class RecordedGroup(Struct, frozen=True, kw_only=True, gc=False, tag_field="type", tag="recorded_group"):
    """A join phase has just ended like this; what led to it is not known. It replaces what was known of the group.

    The importer of a recording writes it where a recording begins in the middle of a group's life, or where it can be
    followed again after a gap. It has no answer; the JoinGroups that ended the join phase are no events.
    """

    generation_id: INT32
    protocol_type: str
    protocol_name: str
    leader_id: str
    members: tuple[RecordedMember, ...]
    """In the order in which the leader was told of them."""
    offsets: tuple[RecordedOffset, ...] = ()
    """Those that are known to be committed."""
    schema_version: Literal[1] = 1
    """Version of this event."""

    def problem(self) -> str | None:
        """Return what makes this group impossible; None if nothing does."""
        ids = [member.member_id for member in self.members]
        instances = [member.group_instance_id for member in self.members if member.group_instance_id is not None]
        if self.leader_id not in ids:
            return "the leader is none of the members"
        if len(set(ids)) < len(ids) or len(set(instances)) < len(instances):
            return "two members have the same id"
        if not all(
            any(protocol.name == self.protocol_name for protocol in member.protocols) for member in self.members
        ):
            return f"not all members have the protocol {self.protocol_name!r:.100}"
        return None


@final
class RecordedLoad(Struct, frozen=True, kw_only=True, gc=False, tag_field="type", tag="recorded_load"):
    """Another broker coordinates the group from here on, or the same one anew: it loads what the offsets log has.

    What was not stored is forgotten: a rebalance that was going on, ids that were given out, requests that wait (they
    are answered with NOT_COORDINATOR). Each member has its whole session from `loaded_ms` on. The importer of a
    recording writes it where the old coordinator was last heard. It has no answer.
    """

    loaded_ms: INT64
    """When the group was loaded; until then nobody could be heard."""
    group_metadata: bytes | None
    """The value of the group's last record in the offsets log, as Kafka writes it; null: there is none."""
    broker_id: INT32 | None = None
    """The new coordinator, where the recording names it."""
    schema_version: Literal[1] = 1
    """Version of this event."""

    def problem(self) -> str | None:
        """Return what makes this load impossible; None if nothing does."""
        try:
            stored = None if self.group_metadata is None else decode_group_metadata_value(self.group_metadata)
        except ValueError as error:
            return str(error)
        members = () if stored is None else stored.members
        ids = [member.member_id for member in members]
        instances = [member.group_instance_id for member in members if member.group_instance_id is not None]
        if len(set(ids)) < len(ids) or len(set(instances)) < len(instances):
            return "two members have the same id"
        if stored is not None and members and (stored.protocol is None or stored.leader not in (None, *ids)):
            return "the members have no protocol, or the leader is none of them"
        if any(member.session_timeout_ms < 0 for member in members):
            return "a session timeout is negative"
        return None


@final
class RecordingGap(Struct, frozen=True, kw_only=True, gc=False, tag_field="type", tag="recording_gap"):
    """From here on the recording does not tell what becomes of the group: nothing is known until the next event of it.

    The importer of a recording writes it where the recording begins after the group, and where what it says cannot
    follow from what it said before, as when lines are missing. It has no answer.
    """

    reason: str
    """In words, for people."""
    schema_version: Literal[1] = 1
    """Version of this event."""


RecordedFact = RecordedLeader | RecordedGroup | RecordedLoad | RecordedSession | RecordedDeparture | RecordingGap
"""What the events of a recording say besides requests."""
