"""The workloads of consumer groups are what they say: stable members, and one target assignment."""

from __future__ import annotations

import pytest

from benchmarks.consumer_workloads import member_heartbeats, target_assignment
from benchmarks.workloads import outputs_of
from coordinator_state import Answer, GroupCoordinator
from coordinator_state.outputs import LogRecord
from schemas.consumer_group_history import TargetAssignmentComputed
from schemas.consumer_group_messages import ConsumerGroupHeartbeatResponse
from schemas.error_codes import ErrorCode


def test_heartbeats_of_stable_members_take_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = member_heartbeats(10, 30)
    monkeypatch.setattr(GroupCoordinator, "handle_in_full", lambda self, event: pytest.fail("a step was taken"))
    answers = [output.response for output in outputs_of(workload) if isinstance(output, Answer)]
    errors = [answer.error_code for answer in answers if isinstance(answer, ConsumerGroupHeartbeatResponse)]
    assert errors == 30 * [ErrorCode.NONE]


def test_a_heartbeat_finds_a_topic_grown_and_assigns_anew() -> None:
    outputs = outputs_of(target_assignment(100, 1_000))
    assert len([output for output in outputs if isinstance(output, TargetAssignmentComputed)]) == 1
    assert len([output for output in outputs if isinstance(output, LogRecord)]) >= 90
