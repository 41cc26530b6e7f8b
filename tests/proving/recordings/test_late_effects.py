"""What took effect later than a log lets seem: parts of request logs of real brokers on a busy machine."""

from __future__ import annotations

import pytest

from group_coordinator.proving.recordings.recording import RecordingReport, verify_recording
from tests.proving.recordings.broker_logs import FIXTURES

FILES = FIXTURES / "late_effects"


@pytest.mark.parametrize("name", ["expression", "standstill", "load"])
def test_a_busy_broker_is_followed_by_its_answers_alone(name: str) -> None:
    """A second member joins before the topics of an expression are known; two members wait while the coordinator's
    thread stands still; members of a broker that was started again ask it late."""
    report = report_of(name)
    assert not report.differences, "\n".join(report.lines())
    assert report.requests.equal == report.requests.total > 40
    assert not any("followed" in reason for reason in report.not_compared)


def test_what_one_request_leads_to_may_take_seconds() -> None:
    """The first assignor of a broker is slow: its log tells of the member long before it tells of the assignment."""
    report = verify_recording(FILES / "slow.request.log.gz", broker_logs=[FILES / "slow.server.log.gz"])
    assert not report.differences, "\n".join(report.lines())
    assert report.log_entries is not None
    assert report.log_entries.equal == report.log_entries.total == 7


def test_when_a_target_was_assigned_its_record_tells() -> None:
    """A first heartbeat takes half a second, within which the interval begins before whose end no other target is
    assigned. The record of the target was written sixty milliseconds late."""
    report = verify_recording(FILES / "assignment.request.log.gz", FILES / "assignment.offsets.jsonl.gz")
    assert not report.differences, "\n".join(report.lines())
    assert report.records is not None
    assert report.records.equal == report.records.total == 33


def test_it_is_said_that_an_expression_was_resolved_later() -> None:
    assert any("1 of them later, as answers show" in note for note in report_of("expression").notes)


def report_of(name: str) -> RecordingReport:
    return verify_recording(FILES / f"{name}.request.log.gz")
