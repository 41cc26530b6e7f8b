"""Where a log says nothing any more, nothing is told: neither after its end, nor before what cannot follow."""

from __future__ import annotations

from pathlib import Path

import pytest

from group_coordinator.proving.recordings.coverage import ENDED, MOVED
from schemas.history import History, MemberExpired, OffsetsCommitted, RecordingGap
from tests.proving.recordings.broker_logs import FIXTURES, followed, lines_of, outputs_of

THREE = sorted((FIXTURES / "clusters").glob("three-brokers.broker-*.request.log.gz"))


def time_of(line: str) -> str:
    return line[1:24] if line.startswith("[") else ""


def told(*paths: Path) -> list[History]:
    outputs = outputs_of(followed(*paths))
    return [output for output in outputs if isinstance(output, History) and not isinstance(output, OffsetsCommitted)]


@pytest.mark.parametrize("ended", THREE, ids=lambda path: path.name)
@pytest.mark.parametrize("part", [0.3, 0.6])
def test_of_groups_whose_log_has_ended_nothing_is_told(ended: Path, part: float, tmp_path: Path) -> None:
    """The log of one broker was taken earlier than those of the others; it lives on."""
    lines = lines_of(ended)
    shortened = tmp_path / ended.name.removesuffix(".gz")
    shortened.write_text("".join(lines[: int(part * len(lines))]))
    whole, cut = (told(*(path for path in THREE if path != ended), last) for last in (ended, shortened))
    expired = {(one.group_id, one.member.member_id) for one in whole if isinstance(one, MemberExpired)}
    assert {(one.group_id, one.member.member_id) for one in cut if isinstance(one, MemberExpired)} <= expired
    if "broker-2" not in ended.name:  # which was killed: other brokers load its groups
        assert [one for one in cut if isinstance(one, RecordingGap) and one.reason == ENDED]


@pytest.mark.parametrize("only", THREE, ids=lambda path: path.name)
def test_by_one_broker_s_log_alone_nothing_is_told_of_what_another_one_coordinates(only: Path) -> None:
    expired = {(one.group_id, one.member.member_id) for one in told(*THREE) if isinstance(one, MemberExpired)}
    alone = told(only)
    assert {(one.group_id, one.member.member_id) for one in alone if isinstance(one, MemberExpired)} <= expired
    if "broker-2" not in only.name:  # leadership of its groups went back to it
        assert [one for one in alone if isinstance(one, RecordingGap) and one.reason == MOVED]


@pytest.mark.parametrize("name", ["migration", "old-3.9"])
@pytest.mark.parametrize("begin", [0.3, 0.5])
def test_nobody_expires_in_a_silence_before_what_cannot_follow(name: str, begin: float, tmp_path: Path) -> None:
    """All lines of some seconds are missing, longer than sessions."""
    path = FIXTURES / "clusters" / f"{name}.request.log.gz"
    lines = lines_of(path)
    from_index = int(begin * len(lines))
    until_index = next(
        index for index in range(from_index, len(lines)) if seconds(lines[index]) >= seconds(lines[from_index]) + 15
    )
    shortened = tmp_path / "shortened.request.log"
    shortened.write_text("".join(lines[:from_index] + lines[until_index:]))
    expired = {(one.group_id, one.member.member_id) for one in told(path) if isinstance(one, MemberExpired)}
    cut = told(shortened)
    for index, one in enumerate(cut):
        if isinstance(one, MemberExpired) and (one.group_id, one.member.member_id) not in expired:
            later = [other for other in cut[index:] if other.group_id == one.group_id]
            assert not any(isinstance(other, RecordingGap) and "cannot follow" in other.reason for other in later)


def seconds(line: str) -> float:
    time = time_of(line)
    hours, minutes, rest = time[11:].split(":")
    return int(hours) * 3600 + int(minutes) * 60 + float(rest.replace(",", "."))
