"""Which versions of Kafka's messages have which fields, and how a field of ours is called and typed there.

A field that is not listed exists in every version. Source: Kafka's message definitions (4.3).
"""

from __future__ import annotations

from functools import cache
from typing import Any, get_args

import msgspec
from msgspec import Struct

from schemas import messages

_LAST_VERSION = 2**15 - 1


def _since(first: int) -> range:
    return range(first, _LAST_VERSION + 1)


_EVERY_VERSION = _since(0)
_NAMED_TOPICS: dict[str, range] = {"name": range(10), "topic_id": _since(10)}

_VERSIONS: dict[type[Struct], dict[str, range]] = {
    messages.FindCoordinatorRequest: {"key_type": _since(1)},
    messages.Coordinator: {"error_message": _since(1)},
    messages.JoinGroupRequest: {"rebalance_timeout_ms": _since(1), "group_instance_id": _since(5), "reason": _since(8)},
    messages.JoinGroupResponse: {"protocol_type": _since(7), "skip_assignment": _since(9)},
    messages.JoinGroupResponseMember: {"group_instance_id": _since(5)},
    messages.HeartbeatRequest: {"group_instance_id": _since(3)},
    messages.LeaveGroupMember: {"group_instance_id": _since(3), "reason": _since(5)},
    messages.LeaveGroupResponse: {"members": _since(3)},
    messages.SyncGroupRequest: {"group_instance_id": _since(3), "protocol_type": _since(5), "protocol_name": _since(5)},
    messages.SyncGroupResponse: {"protocol_type": _since(5), "protocol_name": _since(5)},
    messages.OffsetCommitRequest: {"group_instance_id": _since(7), "retention_time_ms": range(2, 5)},
    messages.OffsetCommitRequestTopic: _NAMED_TOPICS,
    messages.OffsetCommitRequestPartition: {"committed_leader_epoch": _since(6)},
    messages.OffsetCommitResponseTopic: _NAMED_TOPICS,
    messages.OffsetFetchRequest: {"require_stable": _since(7)},
    messages.OffsetFetchRequestGroup: {"member_id": _since(9), "member_epoch": _since(9)},
    messages.OffsetFetchRequestTopic: _NAMED_TOPICS,
    messages.OffsetFetchResponseGroup: {"error_code": _since(2)},
    messages.OffsetFetchResponseTopic: _NAMED_TOPICS,
    messages.OffsetFetchResponsePartition: {"committed_leader_epoch": _since(5)},
    messages.DescribeGroupsRequest: {"include_authorized_operations": _since(3)},
    messages.DescribedGroup: {"error_message": _since(6), "authorized_operations": _since(3)},
    messages.DescribedGroupMember: {"group_instance_id": _since(4)},
    messages.ListGroupsRequest: {"states_filter": _since(4), "types_filter": _since(5)},
    messages.ListedGroup: {"group_state": _since(4), "group_type": _since(5)},
}


class Field(Struct, frozen=True, kw_only=True):
    """One field of a message: our name and Kafka's, and where it exists."""

    name: str
    kafka_name: str
    versions: range
    item: type[Struct] | None
    """The struct of which the field holds a list; None for plain values."""
    is_topic_id: bool


@cache
def fields_of(message: type[Struct]) -> tuple[Field, ...]:
    """The fields of a message in Kafka's order."""
    versions = _VERSIONS.get(message, {})
    return tuple(
        Field(
            name=field.name,
            kafka_name=_camel_case(field.name),
            versions=versions.get(field.name, _EVERY_VERSION),
            item=_struct_inside(field.type),
            is_topic_id=field.name == "topic_id",
        )
        for field in msgspec.structs.fields(message)
    )


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def _struct_inside(annotation: Any) -> type[Struct] | None:
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return annotation
    return next(filter(None, map(_struct_inside, get_args(annotation))), None)
