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


@pytest.mark.parametrize(
    ("name", "requests", "entries"),
    [
        pytest.param("join_phase", 60, 3, id="a join phase that is prolonged ends 0.5 s late"),
        pytest.param("no_delay", 95, 10, id="without a delay, too, those who came meanwhile are in the join phase"),
        pytest.param("slow_replicas", 90, 15, id="replicas need 3.6 s for an assignment, its thread 4 s"),
        pytest.param("compacted", 222, 6, id="a group of nothing is gone with a load; records since a compaction"),
        pytest.param("twin", 163, 13, id="a static member is fenced while its place is stored"),
        pytest.param("expiries", 548, 48, id="who asks after a standstill is answered behind all expiries"),
        pytest.param("not_stored", 91, 19, id="an assignment is not stored any more before another broker loads"),
        pytest.param("deleted", 81, 11, id="a topic goes seconds after its deletion was answered"),
        pytest.param("sent_again", 45, 6, id="a JoinGroup of no line says what the next one says"),
        pytest.param("unloaded", 249, 13, id="a request that is never answered; no next coordinator"),
        pytest.param("overtaken", 62, 12, id="a member joins while an assignment is stored"),
    ],
)
def test_a_busy_cluster_is_followed(name: str, requests: int, entries: int) -> None:
    offsets = FILES / f"{name}.offsets.jsonl.gz"
    report = verify_recording(
        sorted(FILES.glob(f"{name}.*request.log.gz")),
        offsets=offsets if offsets.exists() else None,
        broker_logs=sorted(FILES.glob(f"{name}.*server.log.gz")),
    )
    assert not report.differences, "\n".join(report.lines())
    assert report.requests.equal == report.requests.total == requests
    assert report.log_entries is not None
    assert report.log_entries.equal == report.log_entries.total == entries


def test_how_late_a_join_phase_ended_is_said() -> None:
    files = {suffix: sorted(FILES.glob(f"join_phase.*{suffix}.log.gz")) for suffix in ("request", "server")}
    report = verify_recording(files["request"], broker_logs=files["server"])
    assert "group calm: the broker fired timers up to 374 ms late" in report.notes


def test_it_is_said_that_an_expression_was_resolved_later() -> None:
    assert any("1 of them later, as answers show" in note for note in report_of("expression").notes)


def report_of(name: str) -> RecordingReport:
    return verify_recording(FILES / f"{name}.request.log.gz")
