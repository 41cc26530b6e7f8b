"""Consumer groups (KIP-848) as an offsets log tells them, held against what the assignments topic has of them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from msgspec import UNSET

from schemas.history import AssignedTopic, GroupSnapshot
from schemas.kafka.records import decode_record
from schemas.records_file import Record

Value = dict[str, Any]
TopicNames = Mapping[str, str]
"""Topic id -> name."""
Partitions = list[tuple[str, int]]
FIRST_EPOCH = 1
"""Of a group, and of its target, without a record that says so (Kafka 4.3)."""
STATES = ("stable", "unrevoked_partitions", "unreleased_partitions")


class StoredConsumerGroup:
    """The values of one group's records, by the kind of record and by member or expression."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        """That of the group itself, not of its members: after its end another group of this id has another one."""
        self.values: dict[str, dict[str, Value]] = defaultdict(dict)

    @property
    def exists(self) -> bool:
        """A group whose members have subscribed to nothing so far has no record of its own."""
        return bool(self.values["Metadata"] or self.has_members)

    @property
    def has_members(self) -> bool:
        return bool(self.values["MemberMetadata"])

    @property
    def records(self) -> dict[str, dict[str, Value]]:
        """All that the log has of it."""
        return {kind: values for kind, values in self.values.items() if values}

    def as_published(self, topic_names: TopicNames) -> dict[str, Any]:
        """What the assignments topic should have of it."""
        group = self._only("Metadata")
        epoch, target_epoch = group.get("epoch", FIRST_EPOCH), self._target_epoch
        members = self.values["MemberMetadata"]
        regexes = {member["subscribed_topic_regex"] for member in members.values()} - {""}
        resolved = {regex: list(value["topics"]) for regex, value in self.values["RegularExpression"].items()}
        return {
            "state": self._state(epoch, target_epoch),
            "epochs": (epoch, target_epoch),
            "metadata_hash": group.get("metadata_hash", 0),
            "topics": sorted({name for member in members.values() for name in member["subscribed_topic_names"]}),
            "regexes": {regex: resolved.get(regex) for regex in regexes},
            "members": {member_id: self._member(member_id, topic_names) for member_id in members},
        }

    @property
    def _target_epoch(self) -> int:
        epoch: int = self._only("TargetAssignmentMetadata").get("assignment_epoch", FIRST_EPOCH)
        return epoch

    def _only(self, kind: str) -> Value:
        return next(iter(self.values[kind].values()), {})

    def _state(self, epoch: int, target_epoch: int) -> str:
        """Source: `ConsumerGroup.maybeUpdateGroupState` (Kafka 4.3)."""
        current = [self._current(member_id) for member_id in self.values["MemberMetadata"]]
        if not current:
            return "Empty"
        if epoch > target_epoch:
            return "Assigning"
        settled = all((member["state"], member["member_epoch"]) == (0, target_epoch) for member in current)
        return "Stable" if settled else "Reconciling"

    def _current(self, member_id: str) -> Value:
        return self.values["CurrentMemberAssignment"][member_id]

    def _member(self, member_id: str, topic_names: TopicNames) -> dict[str, Any]:
        wishes, current = self.values["MemberMetadata"][member_id], self._current(member_id)
        target = self.values["TargetAssignmentMember"].get(member_id, {"topic_partitions": ()})
        pending = _partitions(current["partitions_pending_revocation"], topic_names)
        classic = wishes.get("classic_member_metadata")
        return {
            "client": (wishes["client_id"], wishes["client_host"], wishes["instance_id"], wishes["rack_id"]),
            "timeouts_ms": (-1 if classic is None else classic["session_timeout_ms"], wishes["rebalance_timeout_ms"]),
            "wishes": (wishes["subscribed_topic_regex"] or None, wishes["server_assignor"], classic is not None),
            "topics": sorted(wishes["subscribed_topic_names"]),
            "epochs": (current["member_epoch"], current["previous_member_epoch"]),
            "state": STATES[current["state"]],
            "partitions": sorted(_partitions(current["assigned_partitions"], topic_names) + pending),
            "pending": pending,
            "target": _partitions(target["topic_partitions"], topic_names),
        }


class StoredConsumerGroups:
    """The consumer groups of a log. Feed it all records in the order of each partition."""

    def __init__(self) -> None:
        self._groups: dict[str, StoredConsumerGroup] = {}

    @property
    def groups(self) -> dict[str, StoredConsumerGroup]:
        """Those that the log leaves behind, by id."""
        return {group_id: group for group_id, group in self._groups.items() if group.exists}

    def replay(self, key: bytes, value: bytes | None, epoch: int) -> None:
        """Take in one record; `epoch` is that of the group, from the record's headers."""
        record = decode_record(key, value)
        assert not isinstance(record, int), f"record type {record}"
        names = dict(record.key)
        group_id = names.pop("group_id") if "group_id" in names else names.pop("group")
        group = self._groups.get(group_id)
        if group is None or group.epoch < epoch:
            group = self._groups[group_id] = StoredConsumerGroup(epoch)
        if record.name.startswith("ConsumerGroup"):
            values = group.values[record.name.removeprefix("ConsumerGroup")]
            (name,) = names.values() or ("",)
            if record.value is None:
                values.pop(name, None)
            elif group.epoch == epoch:
                values[name] = record.value


def published(snapshot: GroupSnapshot, topic_names: TopicNames) -> dict[str, Any]:
    """The same of the assignments topic."""
    subscription = snapshot.subscription
    assert subscription is not UNSET
    members = {}
    for member in snapshot.members:
        consumer = member.consumer
        assert consumer is not UNSET
        partitions = _assigned(member.partitions or (), topic_names)
        members[member.member_id] = {
            "client": (member.client_id, member.client_host, member.group_instance_id, consumer.rack_id),
            "timeouts_ms": (member.session_timeout_ms, member.rebalance_timeout_ms),
            "wishes": (consumer.subscribed_regex, consumer.server_assignor, consumer.uses_classic_protocol),
            "topics": sorted(consumer.subscribed_topics),
            "epochs": (consumer.member_epoch, consumer.previous_member_epoch),
            "state": consumer.state,
            "partitions": partitions,
            "pending": _assigned(consumer.pending_revocation, topic_names),
            "target": partitions if consumer.target is None else _assigned(consumer.target, topic_names),
        }
    return {
        "state": snapshot.state,
        "epochs": (snapshot.generation_id, snapshot.assignment_epoch),
        "metadata_hash": subscription.metadata_hash,
        "topics": list(subscription.topics),
        "regexes": {regex: None if topics is None else list(topics) for regex, topics in subscription.regexes.items()},
        "members": members,
    }


def topic_names_of(log: Iterable[Record]) -> dict[str, str]:
    """The topics that the events of a log tell of: an id is that of one topic for ever."""
    names: dict[str, str] = {}
    for record in log:
        if record.key is not None and b"topic_id" in (record.value or b""):
            try:
                event = json.loads(record.value or b"")
            except (ValueError, RecursionError):
                continue
            told = event.get("topic_metadata") or event
            for topic in told.get("topics", ()) if "new_topics_version" in told else ():
                names[topic["topic_id"]] = topic["name"]
    return names


def _partitions(topics: Iterable[Value], topic_names: TopicNames) -> Partitions:
    ids = ((str(UUID(bytes=bytes(topic["topic_id"]))), topic["partitions"]) for topic in topics)
    return sorted((topic_names.get(topic_id, topic_id), number) for topic_id, numbers in ids for number in numbers)


def _assigned(topics: Iterable[AssignedTopic], topic_names: TopicNames) -> Partitions:
    """A topic that is gone goes by its id there."""
    return sorted(
        (topic_names.get(topic.topic, topic.topic), number) for topic in topics for number in topic.partitions
    )
