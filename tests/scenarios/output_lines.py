"""Outputs of a group as the lines of a scenario file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import UNSET, Struct

from coordinator_state import Answer, AssignmentChange, LogRecord, Output
from schemas.consumer_group_history import ConsumerMember
from schemas.consumer_group_messages import ConsumerGroupHeartbeatResponse
from schemas.consumer_protocol import decode_assignment
from schemas.error_codes import ErrorCode
from schemas.history import (
    AssignedTopic,
    GroupSnapshot,
    HistoryRecord,
    MemberAssignment,
    MemberIdentity,
    MemberLeft,
    OffsetChange,
    Waited,
)
from schemas.messages import (
    DeleteGroupsResponse,
    DescribeGroupsResponse,
    FindCoordinatorResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    OffsetCommitResponse,
    OffsetDeleteResponse,
    OffsetFetchResponse,
    Response,
    SyncGroupResponse,
    TxnOffsetCommitResponse,
)
from schemas.records import GroupMetadataValue, OffsetCommitKey, OffsetCommitValue, decode_record
from tests.scenarios.consumer_lines import assigned_text, group_words, heartbeat_words, member_text, record_words
from tests.scenarios.script import duration_text

_HIDDEN = {*HistoryRecord.__struct_fields__, "rebalance", "interrupts", "api", "error_code"}
"""Fields that every record has, and those that the lines around a record say already."""
_MOMENTS = {"deadline_ms", "started_ms", "last_heard_ms"}


class OutputLines:
    """Writes outputs as lines; moments count from the beginning of the scenario."""

    def __init__(self, start_ms: int, topic_names: Mapping[str, str]) -> None:
        """`topic_names`: by their ids."""
        self._start_ms = self._shown_ms = start_ms
        self._topic_names = topic_names

    def lines(self, outputs: list[Output], senders: Mapping[str, str]) -> Iterator[str]:
        """`senders`: which client sent a request, by the request's id. A line says the time where it is another one."""
        for output in outputs:
            time_ms = _time_ms(output)
            if time_ms is not None and time_ms != self._shown_ms:
                self._shown_ms = time_ms
                yield f"at {self._moment(time_ms)}"
            yield self._line(output, senders)

    def _line(self, output: Output, senders: Mapping[str, str]) -> str:
        match output:
            case Answer():
                words = [senders[output.request_id], output.api, _response(output.response)]
                if isinstance(output.response, ConsumerGroupHeartbeatResponse):
                    words += heartbeat_words(output.response, self._topic_names)
                return " ".join(["answer  ", *words])
            case LogRecord():
                return f"offsets  {record_words(output, self._topic_names) or _log_record(output)}"
            case AssignmentChange():
                return f"group    {_group(output.snapshot)}"
            case _:
                return f"history  {self._history(output)}"

    def _history(self, record: HistoryRecord) -> str:
        words = [str(record.__struct_config__.tag)]
        for name in record.__struct_fields__:
            value = getattr(record, name)
            if name not in _HIDDEN and value is not None and value is not False and value not in ("", (), UNSET):
                words.append(f"{name.removesuffix('_ms')}={self._value(name, value)}")
        if isinstance(record, MemberLeft) and record.cause.reason:
            words.append(f'reason="{record.cause.reason}"')
        if record.cause.kind == "timer":
            words.append(
                f"[timer {record.cause.timer}{' of ' + record.cause.member_id if record.cause.member_id else ''}]"
            )
        return " ".join(words)

    def _value(self, name: str, value: Any) -> str:
        match value:
            case bool():
                return "yes"
            case int():
                if name in _MOMENTS:
                    return self._moment(value)
                return duration_text(value) if name.endswith("_ms") else str(value)
            case dict():
                return ",".join(f"{item}:{'+'.join(voters)}" for item, voters in value.items())
            case tuple():
                return ",".join(self._value(name, item) for item in value)
            case Waited():
                return f"{value.member_id}:{'never' if value.joined_ms is None else 'joined@' + self._moment(value.joined_ms)}"
            case Struct():
                return _part(value)
        return f'"{value}"' if " " in value else str(value)

    def _moment(self, time_ms: int) -> str:
        return duration_text(time_ms - self._start_ms)


def _time_ms(output: Output) -> int | None:
    if isinstance(output, AssignmentChange):
        return None if output.snapshot is None else output.snapshot.time_ms
    return output.time_ms


def _part(part: Struct) -> str:
    """A part of a history record."""
    match part:
        case MemberIdentity():
            return part.member_id
        case MemberAssignment():
            return f"{part.member_id}:{assigned_text(part.topics)}"
        case ConsumerMember():
            return member_text(part)
        case AssignedTopic():
            return assigned_text((part,))
        case OffsetChange(offset=None):
            return f"{part.topic}-{part.partition}:none"
        case OffsetChange():
            return f"{part.topic}-{part.partition}:{part.offset}"
    raise AssertionError(f"a scenario has no words for {part!r}")


def _blob(assignment: bytes) -> str:
    partitions = decode_assignment(assignment).partitions if assignment else ()
    return "+".join(f"{partition.topic}-{partition.partition}" for partition in partitions) or "nothing"


def _group(snapshot: GroupSnapshot | None) -> str:
    if snapshot is None:
        return "gone"
    if snapshot.is_consumer_group:
        return " ".join([snapshot.state, *group_words(snapshot)])
    members = [f"{member.member_id}:{assigned_text(member.partitions)}" for member in snapshot.members]
    return " ".join([snapshot.state, f"generation={snapshot.generation_id}", *members])


def _log_record(record: LogRecord) -> str:
    key, value = decode_record(record.key, record.value)
    match value:
        case GroupMetadataValue():
            members = [f"{member.member_id}:{_blob(member.assignment)}" for member in value.members]
            leader = [f"leader={value.leader}"] if value.leader else []
            return " ".join(["group", f"generation={value.generation}", *leader, *members])
        case OffsetCommitValue():
            assert isinstance(key, OffsetCommitKey)
            return f"{key.topic}-{key.partition}={value.offset}"
    return f"tombstone of {key.topic}-{key.partition}" if isinstance(key, OffsetCommitKey) else "tombstone of the group"


# -------------------------------------------------------------------------------------------------------------- answers


def _response(response: Response) -> str:
    """The error, then what the client learns."""
    words = [_error(response)] if hasattr(response, "error_code") else []
    match response:
        case JoinGroupResponse(error_code=ErrorCode.NONE):
            members = [member.member_id for member in response.members]
            words += [
                f"generation={response.generation_id}",
                f"protocol={response.protocol_name}",
                f"leader={response.leader}",
            ]
            words += [f"member_id={response.member_id}"] + [f"members={','.join(members)}"] * bool(members)
            words += ["skip_assignment=yes"] * response.skip_assignment
        case JoinGroupResponse():
            words += [f"member_id={response.member_id}"] * bool(response.member_id)
        case SyncGroupResponse(error_code=ErrorCode.NONE):
            words.append(_blob(response.assignment))
        case LeaveGroupResponse():
            words += [f"{member.group_instance_id or member.member_id}:{_error(member)}" for member in response.members]
        case OffsetCommitResponse() | OffsetDeleteResponse() | TxnOffsetCommitResponse():
            words += [
                f"{topic.name}-{partition.partition_index}:{_error(partition)}"
                for topic in response.topics
                for partition in topic.partitions
            ]
        case OffsetFetchResponse():
            words += [
                f"{topic.name}-{partition.partition_index}"
                + (f":{_error(partition)}" if partition.error_code else f"={partition.committed_offset}")
                for group in response.groups
                for topic in group.topics
                for partition in topic.partitions
            ] or ["no offsets"]
        case DescribeGroupsResponse(groups=(group,)):
            words += [_error(group), group.group_state]
            words += [f"{member.member_id}:{_blob(member.member_assignment)}" for member in group.members]
        case DeleteGroupsResponse(results=(result,)):
            words.append(_error(result))
        case FindCoordinatorResponse(coordinators=(found,)):
            words += [_error(found), f"node={found.node_id}"]
    return " ".join(words)


def _error(part: Any) -> str:
    return ErrorCode(part.error_code).name
