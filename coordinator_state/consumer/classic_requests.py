"""Requests of the classic protocol to a consumer group.

Source: `classicGroupJoinToConsumerGroup` and the like (Kafka 4.3).
"""

from __future__ import annotations

from coordinator_state.errors import Refusal
from coordinator_state.step import Step
from schemas.error_codes import ErrorCode
from schemas.messages import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest


def join_group(step: Step, request: JoinGroupRequest) -> None:
    raise _not_served()


def sync_group(step: Step, request: SyncGroupRequest) -> None:
    raise _not_served()


def heartbeat(step: Step, request: HeartbeatRequest) -> None:
    raise _not_served()


def leave_group(step: Step, request: LeaveGroupRequest) -> None:
    raise _not_served()


def _not_served() -> Refusal:
    return Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "group_is_a_consumer_group", "the group is a consumer group")
