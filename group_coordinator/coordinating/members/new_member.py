"""The settings of a member say which protocol it speaks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from group_coordinator.coordinating.assignors import ASSIGNORS, Assignor
from group_coordinator.coordinating.members.config import MemberConfig
from group_coordinator.coordinating.members.consumer_member import ConsumerGroupMember
from group_coordinator.coordinating.members.member import GroupMember


def new_member(
    config: MemberConfig,
    request_ids: Iterator[str],
    *,
    shard_count: int = 1,
    assignors: Mapping[str, Assignor] = ASSIGNORS,
) -> GroupMember | ConsumerGroupMember:
    """Make a member. Raises ValueError for settings that cannot work."""
    if config.group_protocol == "consumer":
        return ConsumerGroupMember(config, request_ids, shard_count=shard_count)
    return GroupMember(config, request_ids, shard_count=shard_count, assignors=assignors)
