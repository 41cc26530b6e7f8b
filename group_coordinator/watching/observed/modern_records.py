"""What the records of one step say of a consumer, share or streams group: one heartbeat, several records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct, field

from group_coordinator.watching.observed.offsets_log import LogRecord
from schemas.consumer_group_history import ConsumerMember, GroupKind
from schemas.history import AssignedTopic, MemberIdentity
from schemas.kafka.json_form import uuid_to_json

State = Literal["stable", "unrevoked_partitions", "unreleased_partitions", "unknown"]

_PREFIXES: dict[str, GroupKind] = {"ConsumerGroup": "consumer", "ShareGroup": "share", "StreamsGroup": "streams"}
_STATES: dict[int, State] = {0: "stable", 1: "unrevoked_partitions", 2: "unreleased_partitions"}
"""These numbers are those of consumer and share groups; streams groups count from 1."""
AWAY = -2
"""The epoch of a static member that has left for a while."""
_NO_TIMEOUT = -1

TopicNames = Mapping[str, str]
"""Topic id, as hexadecimal digits -> name."""


class Current(Struct, frozen=True, kw_only=True):
    """Where a member is on its way to its target."""

    member_epoch: int
    previous_epoch: int
    state: State
    assigned: tuple[AssignedTopic, ...]
    pending_revocation: tuple[AssignedTopic, ...]


class Step(Struct, kw_only=True):
    """What was written in one step. A member or regex with None was deleted."""

    kind: GroupKind
    members: dict[str, ConsumerMember | None] = field(default_factory=dict)
    epoch: int | None = None
    metadata_hash: int | None = None
    topics: dict[str, tuple[bytes, int]] | None = None
    """The topics that the group subscribes to, by name, with id and number of partitions: up to Kafka 4.0."""
    is_deleted: bool = False
    """The group itself was deleted."""
    is_poll: bool = False
    """It is all that has happened since the poll before, in steps that nobody has seen."""
    targets: dict[str, tuple[AssignedTopic, ...] | None] = field(default_factory=dict)
    target_epoch: int | None = None
    is_timed: bool = False
    """The time of the target assignment is written, as from Kafka 4.3 on."""
    current: dict[str, Current | None] = field(default_factory=dict)
    regexes: dict[str, tuple[str, ...] | None] = field(default_factory=dict)

    @property
    def first_epoch(self) -> int:
        """The epoch of a group whose first member has just joined: groups begin at 0 up to Kafka 4.2, then at 1, and
        streams groups at 1 from 4.2 on."""
        return 2 if self.is_timed or self.kind == "streams" or self.is_poll else 1


def kind_of(name: str) -> GroupKind | None:
    """Return the kind of group that has records of this name; None for a classic group, or commits."""
    return next((kind for prefix, kind in _PREFIXES.items() if name.startswith(prefix)), None)


def read_step(kind: GroupKind, records: Iterable[LogRecord], topic_names: TopicNames) -> Step:
    """Return the records of one step. Of two records for the same thing the last one counts."""
    step = Step(kind=kind)
    for record in records:
        if kind_of(record.name) == kind:
            prefix = next(prefix for prefix in _PREFIXES if record.name.startswith(prefix))
            _take(step, record.name.removeprefix(prefix), record.key, record.value, topic_names)
    return step


def _take(step: Step, name: str, key: dict[str, Any], value: dict[str, Any] | None, topic_names: TopicNames) -> None:
    match name:
        case "MemberMetadata":
            step.members[key["member_id"]] = None if value is None else _member(key["member_id"], value)
        case "Metadata":
            step.is_deleted = value is None
            step.epoch = None if value is None else value["epoch"]
            step.metadata_hash = None if value is None else value.get("metadata_hash")
        case "PartitionMetadata" if value is not None:
            topics = value["topics"]
            step.topics = {topic["topic_name"]: (topic["topic_id"], topic["num_partitions"]) for topic in topics}
        case "TargetAssignmentMember":
            step.targets[key["member_id"]] = None if value is None else _target(value, topic_names)
        case "TargetAssignmentMetadata":
            step.target_epoch = None if value is None else value["assignment_epoch"]
            step.is_timed = value is not None and "assignment_timestamp" in value
        case "CurrentMemberAssignment":
            step.current[key["member_id"]] = None if value is None else _current(value, topic_names)
        case "RegularExpression":
            step.regexes[key["regular_expression"]] = None if value is None else tuple(value["topics"])
        case _:
            pass  # topologies and share state: they say nothing of members and epochs


def changed_topics(before: dict[str, tuple[bytes, int]], now: dict[str, tuple[bytes, int]]) -> Iterator[str]:
    """Yield what became of topics that a group subscribes to."""
    for name in sorted(before.keys() | now.keys()):
        (old_id, old_count), (new_id, new_count) = before.get(name, (b"", 0)), now.get(name, (b"", 0))
        if not new_id:
            yield f"topic {name} was deleted"
        elif not old_id:
            yield f"topic {name} was created"
        elif old_id != new_id:
            yield f"topic {name} was deleted and made again"
        elif old_count != new_count:
            yield f"topic {name} has {new_count} partitions now, and had {old_count}"


def _member(member_id: str, value: dict[str, Any]) -> ConsumerMember:
    timeout_ms, classic = value.get("rebalance_timeout_ms", _NO_TIMEOUT), value.get("classic_member_metadata")
    protocols = () if classic is None else tuple(protocol["name"] for protocol in classic["supported_protocols"])
    names = value.get("subscribed_topic_names")
    return ConsumerMember(
        member=MemberIdentity(
            member_id=member_id,
            group_instance_id=value.get("instance_id"),
            client_id=value["client_id"],
            client_host=value["client_host"],
        ),
        rebalance_timeout_ms=None if timeout_ms == _NO_TIMEOUT else timeout_ms,
        subscribed_topics=None if names is None else tuple(names),
        subscribed_regex=value.get("subscribed_topic_regex") or None,
        server_assignor=value.get("server_assignor") or None,
        rack_id=value.get("rack_id") or None,
        uses_classic_protocol=classic is not None,
        session_timeout_ms=None if classic is None else classic["session_timeout_ms"],
        protocols=protocols,
    )


def _target(value: dict[str, Any], topic_names: TopicNames) -> tuple[AssignedTopic, ...]:
    return _tasks(value["active_tasks"]) if "active_tasks" in value else _topics(value["topic_partitions"], topic_names)


def _current(value: dict[str, Any], topic_names: TopicNames) -> Current:
    if "active_tasks" in value:
        assigned, pending = _tasks(value["active_tasks"]), _tasks(value["active_tasks_pending_revocation"])
    else:
        assigned = _topics(value["assigned_partitions"], topic_names)
        pending = _topics(value.get("partitions_pending_revocation", ()), topic_names)
    return Current(
        member_epoch=value["member_epoch"],
        previous_epoch=value["previous_member_epoch"],
        state=_STATES.get(value["state"] - ("active_tasks" in value), "unknown"),
        assigned=assigned,
        pending_revocation=pending,
    )


def _topics(topics: Iterable[dict[str, Any]], topic_names: TopicNames) -> tuple[AssignedTopic, ...]:
    """Return the topics by name; where no name is known, by the id as Kafka prints it.

    A topic that was deleted and made again has two ids, and a member may have partitions of both.
    """
    partitions: dict[str, tuple[int, ...]] = {}
    for topic in topics:
        name = topic_names.get(topic["topic_id"].hex()) or uuid_to_json(topic["topic_id"])
        of_both = name in partitions
        partitions[name] = partitions.get(name, ()) + tuple(topic["partitions"])
        if of_both:
            partitions[name] = tuple(sorted(set(partitions[name])))
    return tuple(AssignedTopic(topic=name, partitions=partitions[name]) for name in sorted(partitions))


def _tasks(tasks: Iterable[dict[str, Any]]) -> tuple[AssignedTopic, ...]:
    """Return the tasks of a member of a streams group, by subtopology."""
    partitions = {f"subtopology {task['subtopology_id']}": tuple(task["partitions"]) for task in tasks}
    return tuple(AssignedTopic(topic=name, partitions=partitions[name]) for name in sorted(partitions))
