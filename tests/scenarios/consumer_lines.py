"""What a consumer group (KIP-848) puts out, as words of a line of a scenario file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from msgspec import UNSET

from coordinator_state import LogRecord
from schemas.consumer_group_history import ConsumerMember
from schemas.consumer_group_messages import ConsumerGroupHeartbeatResponse
from schemas.history import AssignedTopic, GroupSnapshot, SnapshotMember
from schemas.kafka.records import decode_record


def partitions_text(partitions: Iterable[tuple[str, Iterable[int]]]) -> str:
    """Topics and their partitions as `orders-0+orders-1`."""
    return "+".join(f"{topic}-{number}" for topic, numbers in partitions for number in numbers) or "nothing"


def assigned_text(topics: tuple[AssignedTopic, ...] | None) -> str:
    return partitions_text((topic.topic, topic.partitions) for topic in topics or ())


def member_text(member: ConsumerMember) -> str:
    """A member and what it asks for."""
    asks_for = ",".join(member.subscribed_topics or ()) or member.subscribed_regex or ""
    return f"{member.member.member_id}({asks_for})" + "/classic" * member.uses_classic_protocol


def heartbeat_words(response: ConsumerGroupHeartbeatResponse, names: Mapping[str, str]) -> list[str]:
    """The epoch, and the partitions where the answer has them. `names`: of topics, by their ids."""
    words = [f"epoch={response.member_epoch}"] * (response.member_id is not None)
    if response.assignment is not None:
        given = ((names[topic.topic_id], topic.partitions) for topic in response.assignment.topic_partitions)
        words.append(partitions_text(given))
    return words


def group_words(snapshot: GroupSnapshot) -> list[str]:
    """The epochs of the group and of its target, and each member with its epoch and what it has in hand."""
    return [f"epoch={snapshot.generation_id}", f"target_epoch={snapshot.assignment_epoch}"] + [
        _member(member) for member in snapshot.members
    ]


def _member(member: SnapshotMember) -> str:
    assert member.consumer is not UNSET
    at = member.consumer
    words = f"{member.member_id}@{at.member_epoch}:{assigned_text(member.partitions)}"
    words += f"/gives_up:{assigned_text(at.pending_revocation)}" if at.pending_revocation else ""
    words += f"/target:{assigned_text(at.target)}" if at.target is not None else ""
    return words + "/classic" * at.uses_classic_protocol


def record_words(record: LogRecord, names: Mapping[str, str]) -> str | None:
    """A record of a consumer group in the offsets log; None: it is of another kind."""
    decoded = decode_record(record.key, record.value)
    if isinstance(decoded, int) or not decoded.name.startswith("ConsumerGroup"):
        return None
    name = decoded.name.removeprefix("ConsumerGroup")
    about = decoded.key.get("member_id") or decoded.key.get("regular_expression")
    words = [name, *([str(about)] if about else [])]
    if decoded.value is None:
        return " ".join(["tombstone of", *words])
    return " ".join(words + _value_words(name, decoded.value, names))


def _value_words(name: str, value: Mapping[str, Any], names: Mapping[str, str]) -> list[str]:
    match name:
        case "Metadata":
            return [f"epoch={value['epoch']}"]
        case "TargetAssignmentMetadata":
            return [f"epoch={value['assignment_epoch']}"]
        case "TargetAssignmentMember":
            return [_owned(value["topic_partitions"], names)]
        case "CurrentMemberAssignment":
            pending = value["partitions_pending_revocation"]
            words = [f"epoch={value['member_epoch']}", _owned(value["assigned_partitions"], names)]
            return words + [f"gives_up:{_owned(pending, names)}"] * bool(pending)
        case "MemberMetadata":
            topics = ",".join(value["subscribed_topic_names"])
            regex = value["subscribed_topic_regex"]
            return [f"topics={topics}"] * bool(topics) + [f"regex={regex}"] * bool(regex)
        case "RegularExpression":
            return [f"topics={','.join(value['topics'])}"]
    raise AssertionError(f"a scenario has no words for {name}")


def _owned(topics: Iterable[Mapping[str, Any]], names: Mapping[str, str]) -> str:
    return partitions_text((names[str(UUID(bytes=topic["topic_id"]))], topic["partitions"]) for topic in topics)
