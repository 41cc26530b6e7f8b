"""Outputs in the form in which the core's are held against the model's: sorted where their order has no meaning."""

from __future__ import annotations

from itertools import groupby

from msgspec.structs import replace

from schemas.consumer_group_messages import (
    ConsumerGroupAssignment,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatResponse,
)
from schemas.wire import INT16
from simulation.decided import TARGET_TYPE, decode_target
from simulation.model_consumer_records import GroupRecord
from simulation.model_group import Answered, Logged, ModelOutput

_UNORDERED_TYPES = (5, 7, 8, 16)
"""Records of members and expressions: neighbours of one type may come in any order."""


def comparable(outputs: list[ModelOutput]) -> list[ModelOutput]:
    """Return outputs with everything sorted that has no order."""
    sorted_outputs: list[ModelOutput] = []
    for (kind, _), run in groupby(map(_plain, outputs), key=_run_of):
        of_run = list(run)
        sorted_outputs += sorted(of_run, key=_key) if kind in _UNORDERED_TYPES else of_run
    return sorted_outputs


def _run_of(output: ModelOutput) -> tuple[int, int]:
    if isinstance(output, Answered):
        return -1, output.time_ms
    return INT16.unpack_from(output.key)[0], output.time_ms


def _key(output: ModelOutput) -> bytes:
    return output.key if isinstance(output, Logged) else b""


def _plain(output: ModelOutput) -> ModelOutput:
    """Sort what is in an answer, and leave out what is written for people."""
    if isinstance(output, Logged):
        if output.value is None or INT16.unpack_from(output.key)[0] != TARGET_TYPE:
            return output
        return output._replace(value=_sorted_target(output.key, output.value))
    response = output.response
    if isinstance(response, ConsumerGroupHeartbeatResponse):
        assignment = response.assignment
        if assignment is not None:
            assignment = ConsumerGroupAssignment(
                topic_partitions=tuple(sorted(assignment.topic_partitions, key=lambda topic: topic.topic_id))
            )
        return output._replace(response=replace(response, error_message=None, assignment=assignment))
    if isinstance(response, ConsumerGroupDescribeResponse):
        groups = tuple(replace(group, error_message=None) for group in response.groups)
        return output._replace(response=ConsumerGroupDescribeResponse(groups=groups))
    return output


def _sorted_target(key: bytes, value: bytes) -> bytes:
    """A target lists topics and partitions in the order of Kafka's tables."""
    member_id, target = decode_target(key, value)
    _, in_order = GroupRecord(TARGET_TYPE, member_id, target).encode("")
    assert in_order is not None
    return in_order
