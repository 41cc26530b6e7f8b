"""The gateway remembers so many answers that clients were given, and says when it reads another one."""

from __future__ import annotations

import pytest

from group_coordinator.coordinating.gateway.answered_requests import AnsweredRequests
from group_coordinator.coordinating.gateway.metrics import GatewayMetrics
from schemas.error_codes import ErrorCode
from tests.coordinating.gateway.answers import in_kafka


def test_so_many_answered_requests_are_remembered(caplog: pytest.LogCaptureFixture) -> None:
    metrics = GatewayMetrics()
    answered = AnsweredRequests(metrics, remembered_max=2)
    for number in range(3):
        answered.note(in_kafka(f"r-{number}"))
    for number in range(3):
        answered.compare(in_kafka(f"r-{number}", ErrorCode.ILLEGAL_GENERATION))
    assert metrics.answers_contradicted == 2
