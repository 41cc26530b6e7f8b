"""The records of the model's consumer group. Its state is nothing but what they say: the model writes a record, reads
it, and knows no other way to change a member, an epoch or a target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import NamedTuple

from schemas.kafka.records import Record, encode_record

Partition = tuple[str, int]
"""Topic id and number."""
Target = frozenset[Partition]
Owned = Mapping[Partition, int]
"""Each partition with the epoch of its owner when it got it."""

STABLE, UNREVOKED, UNRELEASED = "STABLE", "UNREVOKED_PARTITIONS", "UNRELEASED_PARTITIONS"
_STATES = (STABLE, UNREVOKED, UNRELEASED)


class ClassicSide(NamedTuple):
    """What a member that uses the classic protocol has besides."""

    session_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class Resolved(NamedTuple):
    """The topics that match an expression."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


@dataclass(frozen=True)
class Wishes:
    """What a member has said of itself: record 5."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    names: frozenset[str] = frozenset()
    regex: str = ""
    rebalance_ms: int = -1
    assignor: str | None = None
    classic: ClassicSide | None = None


@dataclass(frozen=True)
class Holding:
    """Where a member is with its assignment: record 8."""

    epoch: int = 0
    previous: int = -1
    state: str = STABLE
    assigned: Owned = field(default_factory=dict)
    pending: Owned = field(default_factory=dict)

    @property
    def partitions(self) -> set[Partition]:
        return {*self.assigned, *self.pending}


@dataclass(frozen=True)
class ConsumerMember:
    """A member of the model's consumer group."""

    member_id: str
    wishes: Wishes = Wishes()
    holding: Holding = Holding()

    def wanting(self, wishes: Wishes) -> ConsumerMember:
        return replace(self, wishes=wishes)

    def having(self, holding: Holding) -> ConsumerMember:
        return replace(self, holding=holding)


class EpochRecord(NamedTuple):
    epoch: int
    metadata_hash: int


class TargetEpochRecord(NamedTuple):
    epoch: int
    timestamp_ms: int


RecordValue = Wishes | Holding | Target | EpochRecord | TargetEpochRecord | Resolved


class GroupRecord(NamedTuple):
    """One record; without a value, a tombstone."""

    type: int
    name: str
    """The member or the expression; empty where a group has one such record."""
    value: RecordValue | None

    def encode(self, group_id: str) -> tuple[bytes, bytes | None]:
        """Return its bytes as Kafka's definitions have them."""
        type_name, name_field = _TYPES[self.type]
        key = {"group_id": group_id} | ({name_field: self.name} if name_field else {})
        value = None if self.value is None else _content(self.value)
        version = None if value is None else 0
        return encode_record(Record(name=type_name, key=key, version=version, value=value))


_TYPES = {
    3: ("ConsumerGroupMetadata", ""),
    4: ("ConsumerGroupPartitionMetadata", ""),
    5: ("ConsumerGroupMemberMetadata", "member_id"),
    6: ("ConsumerGroupTargetAssignmentMetadata", ""),
    7: ("ConsumerGroupTargetAssignmentMember", "member_id"),
    8: ("ConsumerGroupCurrentMemberAssignment", "member_id"),
    16: ("ConsumerGroupRegularExpression", "regular_expression"),
}


def _content(value: RecordValue) -> dict[str, object]:
    match value:
        case EpochRecord():
            return {"epoch": value.epoch, "metadata_hash": value.metadata_hash}
        case TargetEpochRecord():
            return {"assignment_epoch": value.epoch, "assignment_timestamp": value.timestamp_ms}
        case Resolved():
            return {"topics": _sorted(value.topics), "version": value.version, "timestamp": value.timestamp_ms}
        case Wishes():
            return _wishes_content(value)
        case Holding():
            return {
                "member_epoch": value.epoch,
                "previous_member_epoch": value.previous,
                "state": _STATES.index(value.state),
                "assigned_partitions": _with_epochs(value.assigned),
                "partitions_pending_revocation": _with_epochs(value.pending),
            }
    topics = [{"topic_id": topic_id, "partitions": numbers} for topic_id, numbers in by_topic(value)]
    return {"topic_partitions": topics}


def _wishes_content(wishes: Wishes) -> dict[str, object]:
    classic = wishes.classic
    return {
        "instance_id": wishes.instance_id,
        "rack_id": wishes.rack_id,
        "client_id": wishes.client_id,
        "client_host": wishes.client_host,
        "subscribed_topic_names": _sorted(wishes.names),
        "subscribed_topic_regex": wishes.regex,
        "rebalance_timeout_ms": wishes.rebalance_ms,
        "server_assignor": wishes.assignor,
        "classic_member_metadata": None
        if classic is None
        else {
            "session_timeout_ms": classic.session_ms,
            "supported_protocols": [{"name": name, "metadata": metadata} for name, metadata in classic.protocols],
        },
    }


def _with_epochs(owned: Owned) -> list[dict[str, object]]:
    return [
        {
            "topic_id": topic_id,
            "partitions": numbers,
            "assignment_epochs": [owned[topic_id, number] for number in numbers],
        }
        for topic_id, numbers in by_topic(owned)
    ]


def by_topic(partitions: Iterable[Partition]) -> list[tuple[str, list[int]]]:
    """Return partitions as records have them: topics by id, numbers ascending."""
    return [
        (topic_id, [number for _, number in group])
        for topic_id, group in groupby(sorted(partitions), key=lambda partition: partition[0])
    ]


def _sorted(texts: Iterable[str]) -> list[str]:
    return sorted(texts, key=lambda text: text.encode("utf-16-be", "surrogatepass"))
