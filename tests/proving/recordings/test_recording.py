"""Real brokers' request logs against the core: every answer, record and rebalance; and what must not pass."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from group_coordinator.proving.recordings.recording import RecordingReport, verify_recording

FIXTURES = Path(__file__).parents[2] / "fixtures" / "recordings"
NAMES = sorted(path.name.removesuffix(".request.log.gz") for path in FIXTURES.glob("*.request.log.gz"))
MARK = "Completed request:"


def verify(name: str, **options: Any) -> RecordingReport:
    return verify_recording(
        FIXTURES / f"{name}.request.log.gz",
        offsets=FIXTURES / f"{name}.offsets.jsonl.gz",
        broker_logs=[FIXTURES / f"{name}.coordinator.log.gz"],
        **options,
    )


def lines_of(name: str) -> list[str]:
    return gzip.decompress((FIXTURES / f"{name}.request.log.gz").read_bytes()).decode().splitlines(keepends=True)


def verify_lines(tmp_path: Path, lines: list[str], **options: Any) -> RecordingReport:
    path = tmp_path / "changed.request.log"
    path.write_text("".join(lines))
    return verify_recording(path, **options)


def changed(line: str, change: Callable[[dict[str, Any]], None]) -> str:
    """The line with its request changed."""
    start, end = line.index(MARK) + len(MARK), line.rindex("}") + 1
    content = json.loads(line[start:end])
    change(content)
    return line[:start] + json.dumps(content) + line[end:]


def places(lines: list[str], api: str, fragment: str = "") -> list[int]:
    return [number for number, line in enumerate(lines) if f'"requestApiKeyName":"{api}"' in line and fragment in line]


@pytest.mark.parametrize("name", NAMES)
def test_agrees_with_the_broker(name: str) -> None:
    report = verify(name)
    assert not report.differences, "\n".join(report.lines())
    assert report.requests.equal == report.requests.total > 80
    assert report.records is not None
    assert report.records.equal == report.records.total > 20
    assert report.log_entries is not None
    assert report.log_entries.equal == report.log_entries.total > 10


@pytest.mark.parametrize("name", NAMES)
def test_agrees_by_its_answers_alone(name: str) -> None:
    report = verify_recording(FIXTURES / f"{name}.request.log.gz")
    assert not report.differences, "\n".join(report.lines())
    assert report.records is None
    assert report.log_entries is None


def test_the_last_line_counts() -> None:
    *_, last = verify("crash").lines()
    assert last == "137 requests, 137 equal, 0 differ, 0 cannot be compared"


def test_says_what_it_had_to_decide() -> None:
    text = "\n".join(verify("deploy").lines())
    assert "group.initial.rebalance.delay.ms = 3000" in text
    assert "within a millisecond of a neighbour" in text
    assert "taken from the recording" in text
    assert "was written late" in text


@pytest.mark.parametrize("name", ["chaos-a", "chaos-b", "chaos-c"])
def test_the_initial_delay_shows_in_the_log(name: str) -> None:
    assert any("group.initial.rebalance.delay.ms = 1500" in setting for setting in verify(name).settings)


def test_requests_that_never_reached_the_group_are_set_aside() -> None:
    report = verify("chaos-a")
    assert sum(report.not_compared.values()) == 3
    assert any("NOT_COORDINATOR" in reason for reason in report.not_compared)


# ---------------------------------------------------------------------------------------------- what must be noticed


@pytest.mark.parametrize("place", [0, 10, -1])
def test_a_record_that_is_missing_differs_and_is_counted(place: int, tmp_path: Path) -> None:
    records = gzip.decompress((FIXTURES / "crash.offsets.jsonl.gz").read_bytes()).splitlines(keepends=True)
    del records[place]
    offsets = tmp_path / "offsets.jsonl"
    offsets.write_bytes(b"".join(records))
    report = verify_recording(FIXTURES / "crash.request.log.gz", offsets=offsets)
    assert report.records is not None
    assert report.differences
    assert report.records.total == len(records) + 1
    assert 0 <= report.records.equal < report.records.total


@pytest.mark.parametrize(
    ("api", "change"),
    [
        ("HEARTBEAT", lambda request: request["response"].update(errorCode=25)),
        ("JOIN_GROUP", lambda request: request["response"].update(generationId=77)),
        ("JOIN_GROUP", lambda request: request["response"].update(errorCode=81)),
        ("SYNC_GROUP", lambda request: request["response"].update(assignment="AAAA")),
        (
            "OFFSET_FETCH",
            lambda request: request["response"]["groups"][0]["topics"][0]["partitions"][0].update(committedOffset=4),
        ),
        ("OFFSET_COMMIT", lambda request: request["response"]["topics"][0]["partitions"][0].update(errorCode=22)),
        ("LEAVE_GROUP", lambda request: request["response"].update(errorCode=25)),
    ],
)
def test_another_answer_is_a_difference(tmp_path: Path, api: str, change: Callable[[dict[str, Any]], None]) -> None:
    lines = lines_of("crash")
    place = places(lines, api, '"errorCode":0')[-1]
    lines[place] = changed(lines[place], change)
    report = verify_lines(tmp_path, lines)
    assert not report.agrees
    assert report.requests.differ >= 1
    text = "\n".join(report.lines())
    assert "broker: " in text
    assert "here:   " in text


def test_another_record_is_a_difference(tmp_path: Path) -> None:
    records = gzip.decompress((FIXTURES / "crash.offsets.jsonl.gz").read_bytes()).decode().splitlines()
    changed_record = json.loads(records[5])
    changed_record["value"] = json.loads(records[9])["value"]
    records[5] = json.dumps(changed_record)
    path = tmp_path / "offsets.jsonl"
    path.write_text("\n".join(records))
    report = verify_recording(FIXTURES / "crash.request.log.gz", offsets=path)
    assert {difference.what for difference in report.differences} == {"offsets log"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("on heartbeat expiration", "for another reason"),
        ("generation 3 with 3 members", "generation 3 with 2 members"),
        ("2026-11-21 12:47:36,171] INFO", "2026-11-21 12:47:33,171] INFO"),
    ],
)
def test_another_entry_of_the_coordinator_log_is_a_difference(tmp_path: Path, old: str, new: str) -> None:
    log = gzip.decompress((FIXTURES / "crash.coordinator.log.gz").read_bytes()).decode()
    assert old in log
    path = tmp_path / "coordinator.log"
    path.write_text(log.replace(old, new))
    report = verify_recording(FIXTURES / "crash.request.log.gz", broker_logs=[path])
    assert {difference.what for difference in report.differences} == {"coordinator log"}


def test_another_initial_delay_is_a_difference() -> None:
    report = verify("mixed", config={"group.initial.rebalance.delay.ms": "0"})
    assert not report.agrees
    assert "group.initial.rebalance.delay.ms = 0 (as given)" in report.settings


def test_the_partition_is_compared_where_its_count_is_given() -> None:
    assert verify("crash", config={"offsets.topic.num.partitions": "8"}).agrees
    report = verify("crash", config={"offsets.topic.num.partitions": "7"})
    assert {difference.what for difference in report.differences} == {"FindCoordinator"}


# ------------------------------------------------------------------------------------------ what a log does not have


def test_a_join_that_is_in_no_line_is_inferred_and_said(tmp_path: Path) -> None:
    """Members whose client was killed while its JoinGroup was parked: the leader's answer lists them."""
    for client in ("c8", "c9"):
        lines = lines_of("chaos-a")
        joins = places(lines, "JOIN_GROUP", f'"clientId":"{client}"')
        place = next(place for place in joins if '"generationId":2' in lines[place])
        del lines[place]
        report = verify_lines(tmp_path, lines)
        assert report.agrees, "\n".join(report.lines())
        assert any(
            f"is not in the log is inferred, as nothing else explains what follows: JoinGroup of {client}-" in note
            for note in report.notes
        )


def test_a_log_in_another_time_zone(tmp_path: Path) -> None:
    from zoneinfo import ZoneInfo

    zone = ZoneInfo("Asia/Kolkata")
    report = verify_recording(FIXTURES / "static.request.log.gz", time_zone=zone)
    assert report.agrees
    report = verify_recording(FIXTURES / "static.request.log.gz", FIXTURES / "static.offsets.jsonl.gz", time_zone=zone)
    assert report.records is not None
    assert report.records.total == 0


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"group.max.sise": "3"}, "group.max.sise is no setting"),
        ({"group.max.size": "many"}, "group.max.size must be a whole number"),
        ({"group.max.size": "0"}, "must be at least 1"),
    ],
)
def test_wrong_settings_are_refused(config: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        verify("crash", config=config)


@pytest.mark.parametrize(
    "name", ["churn-0", "churn-1", "coop", "deploy", "manual", "static", "chaos-a", "chaos-b", "chaos-c"]
)
def test_a_log_that_begins_in_the_middle_of_a_group_s_life(name: str, tmp_path: Path) -> None:
    lines = lines_of(name)
    sides = {
        "offsets": FIXTURES / f"{name}.offsets.jsonl.gz",
        "broker_logs": [FIXTURES / f"{name}.coordinator.log.gz"],
    }
    for options in ({}, sides):
        report = verify_lines(tmp_path, lines[len(lines) * 2 // 5 :], **options)
        assert report.agrees, "\n".join(report.lines())
        assert any("lived before the log began; replayed from generation" in note for note in report.notes)
        assert any("lived before the log began" in reason for reason in report.not_compared)
        assert report.requests.equal > 10


@pytest.mark.parametrize("which", [-2, 15])
def test_a_commit_that_is_in_no_line_is_inferred_and_said(tmp_path: Path, which: int) -> None:
    """A broker that stops writes no line of the commit that it took last: the offsets log has it."""
    lines = lines_of("coop")
    del lines[places(lines, "OFFSET_COMMIT", '"errorCode":0')[which]]
    report = verify_lines(tmp_path, lines, offsets=FIXTURES / "coop.offsets.jsonl.gz")
    assert not report.differences, "\n".join(report.lines())
    assert any("is not in the log is inferred" in line and "OffsetCommit of" in line for line in report.lines())
