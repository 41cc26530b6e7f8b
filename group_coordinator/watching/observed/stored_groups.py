"""What a record of a classic group says: who was in a generation, and who got what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from group_coordinator.watching.history.stored_generations import GENERATIONS, StoredGenerations, next_generation
from group_coordinator.watching.observed.offsets_log import LogRecord, is_of_classic_group
from schemas.consumer_protocol import assigned_partitions, says_that_it_owns, subscribed_topics
from schemas.history import AssignedTopic, MemberAssignment, MemberIdentity, MemberRecorded
from schemas.records import NO_TIMESTAMP, MemberMetadata, group_metadata
from schemas.wire import DecodeError, Reader

_LAST_VERSION = 2
_INCREMENTAL = 1
"""The first version in which workers keep what they run."""
_CONNECTOR_SIZE_MIN = 6
"""An empty name and no tasks."""

Tasks = dict[str, list[int]]
"""Connector -> tasks."""


def connect_tasks(subscription: bytes, assignment: bytes) -> tuple[AssignedTopic, ...]:
    """Return the connectors and tasks that a worker runs once it has its assignment. Raises `DecodeError`."""
    version, given, taken = _assignment(assignment)
    running = _running(subscription) if version >= _INCREMENTAL else {}
    for connector, tasks in given.items():
        running[connector] = sorted({*running.get(connector, ()), *tasks})
    for connector, tasks in taken.items():
        running[connector] = [task for task in running.get(connector, ()) if task not in tasks]
    return tuple(
        AssignedTopic(topic=connector, partitions=tuple(tasks)) for connector, tasks in running.items() if tasks
    )


def _assignment(data: bytes) -> tuple[int, Tasks, Tasks]:
    """Return the version, the tasks that are given, and those that must be given up."""
    reader = Reader(data)
    version = reader.int16()
    if not 0 <= version <= _LAST_VERSION:
        raise DecodeError(f"version {version} of Connect's protocol", reader.position)
    reader.int16()  # an error, 0 for none
    reader.string()  # the leader's member id
    reader.string()  # the leader's address
    reader.int64()  # how far its configuration has been read
    return version, _tasks(reader), _tasks(reader) if version >= _INCREMENTAL else {}


def _running(subscription: bytes) -> Tasks:
    """Return the tasks that a worker runs while it joins."""
    reader = Reader(subscription)
    if reader.int16() < _INCREMENTAL:
        return {}
    reader.string()  # the worker's address
    reader.int64()  # how far its configuration has been read
    running = reader.nullable_blob()
    return _assignment(running)[1] if running else {}


def _tasks(reader: Reader) -> Tasks:
    tasks_by_connector: Tasks = {}
    items = reader.nullable_array(lambda: (reader.string(), reader.int32_array()), _CONNECTOR_SIZE_MIN)
    for connector, tasks in items or ():
        tasks_by_connector.setdefault(connector, []).extend(tasks)
    return tasks_by_connector


CONSUMER, CONNECT = "consumer", "connect"


class StoredMember(Struct, frozen=True, kw_only=True):
    """A member of a stored generation."""

    identity: MemberIdentity
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    subscribed_topics: tuple[str, ...] | None = None
    owned_before: bool | None = None
    """Whether it had partitions when it joined: an eager member has given up all by then. None: it does not say."""
    topics: tuple[AssignedTopic, ...] | None = None
    """What it got; None: it is not known, or the bytes are of a protocol that is not understood."""

    @property
    def assignment(self) -> MemberAssignment:
        return MemberAssignment(member_id=self.identity.member_id, topics=self.topics)

    def recorded(self, protocol_name: str | None) -> MemberRecorded:
        """Return the member in the form of a recording."""
        return MemberRecorded(
            member=self.identity,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            protocols=(protocol_name,) if protocol_name else (),
            subscribed_topics=self.subscribed_topics,
        )


WRITTEN_AT_ONCE_MS = 1_000
"""So soon after its join phase a generation is stored: its leader only has to assign."""


class StoredGeneration(Struct, frozen=True, kw_only=True):
    """A generation as its record has it."""

    generation_id: int
    protocol_type: str = ""
    protocol_name: str | None = None
    leader_id: str | None = None
    state_since_ms: int | None = None
    """When its join phase ended, as the coordinator wrote it; None: the record does not say."""
    stored_ms: int
    members: dict[str, StoredMember]
    is_written_again: bool = False
    """It was stable long before, and a static member's return wrote it."""

    @property
    def join_ended_ms(self) -> int:
        """The end of its join phase; at the latest the time when it was stored."""
        since_ms = self.state_since_ms
        return self.stored_ms if since_ms is None else min(since_ms, self.stored_ms)


def stored_generation(record: LogRecord) -> StoredGeneration | None:
    """Return what the record of a classic group tells; None for a tombstone."""
    if record.value is None:
        return None
    stored = group_metadata(record.value)
    return StoredGeneration(
        generation_id=stored.generation,
        protocol_type=stored.protocol_type,
        protocol_name=stored.protocol or None,
        leader_id=stored.leader or None,
        state_since_ms=stored.state_since_ms,
        stored_ms=record.timestamp_ms,
        members={member.member_id: _member(member, stored.protocol_type) for member in stored.members},
        is_written_again=is_written_again(record),
    )


def is_written_again(record: LogRecord) -> bool:
    """Return whether a static member's return wrote a generation again. A leader as slow as that looks the same."""
    value = record.value or {}
    members, since_ms = value.get("members"), value.get("current_state_timestamp")
    if not isinstance(members, tuple) or not isinstance(since_ms, int) or since_ms == NO_TIMESTAMP:
        return False
    is_static = any(member.get("group_instance_id") is not None for member in members)
    return is_static and record.timestamp_ms - since_ms > WRITTEN_AT_ONCE_MS


def unrecorded_generation(
    generation_id: int, leader_id: str | None, members: Mapping[str, MemberIdentity], stored_ms: int
) -> StoredGeneration:
    """Return a generation of which lines tell alone: what its members asked for and got is not known."""
    return StoredGeneration(
        generation_id=generation_id,
        leader_id=leader_id,
        stored_ms=stored_ms,
        members={member_id: StoredMember(identity=identity) for member_id, identity in members.items()},
    )


def stored_generations(
    records: Iterable[object], known: StoredGenerations | None = None, after: int = -1
) -> StoredGenerations | None:
    """Return what records of a classic group say of its generations. `known`: what those up to the offset `after`
    say; None: there is no classic group any more."""
    new = [record for record in records if is_of_classic_group(record) and record.offset > after]
    for record in new[-GENERATIONS:]:
        known = next_generation(known, group_metadata(record.value), record.timestamp_ms) if record.value else None
    return known


def session_timeouts(records: Iterable[object]) -> dict[str, int]:
    """Return the session timeouts of all members that records of classic groups tell of, in milliseconds."""
    return {
        member.member_id: member.session_timeout_ms
        for record in records
        if is_of_classic_group(record) and record.value
        for member in group_metadata(record.value).members
    }


def _member(stored: MemberMetadata, protocol_type: str) -> StoredMember:
    is_consumer = protocol_type == CONSUMER
    return StoredMember(
        identity=MemberIdentity(
            member_id=stored.member_id,
            group_instance_id=stored.group_instance_id,
            client_id=stored.client_id,
            client_host=stored.client_host,
        ),
        session_timeout_ms=stored.session_timeout_ms,
        rebalance_timeout_ms=stored.loaded_rebalance_timeout_ms,
        subscribed_topics=subscribed_topics(stored.subscription) if is_consumer else None,
        owned_before=says_that_it_owns(stored.subscription) if is_consumer else None,
        topics=_topics(stored.subscription, stored.assignment, protocol_type),
    )


def _topics(subscription: bytes, assignment: bytes, protocol_type: str) -> tuple[AssignedTopic, ...] | None:
    if not assignment:
        return ()
    try:
        if protocol_type == CONSUMER:
            pairs = assigned_partitions(assignment).items()
            return tuple(AssignedTopic(topic=topic, partitions=tuple(partitions)) for topic, partitions in pairs)
        if protocol_type == CONNECT:
            return connect_tasks(subscription, assignment)
    except DecodeError:
        return None
    return None
