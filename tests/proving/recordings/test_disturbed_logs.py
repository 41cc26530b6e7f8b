"""Logs as they are: whatever happened to one on its way, it is told as it was,
or its doubts say at the top why it may not be."""

from __future__ import annotations

import gzip
import re
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from group_coordinator.proving.recordings.kafka_request_log import RequestLog
from group_coordinator.proving.recordings.log_doubts import doubts_of
from tests.proving.recordings import disturbances
from tests.proving.recordings.disturbances import Disturbance, Files

FIXTURES = Path(__file__).parents[2] / "fixtures" / "recordings"
NAMES = ("churn-0", "chaos-b", "static", "deploy")

Story = dict[str, list[tuple[object, ...]]]


def lines_of(name: str) -> list[bytes]:
    log = gzip.decompress((FIXTURES / f"{name}.request.log.gz").read_bytes())
    return disturbances.as_kafka_writes(log.splitlines(keepends=True))


def read(directory: Path, files: Files, time_zone: tzinfo = UTC) -> tuple[Story, RequestLog]:
    """What each group was asked and what it answered, in its order and at its times; and the log."""
    directory.mkdir(exist_ok=True)
    paths = [directory / f"request.log.{number}" for number, _ in enumerate(files)]
    for path, content in zip(paths, files, strict=True):
        path.write_bytes(content)
    log = RequestLog(paths, time_zone=time_zone)
    log.read()
    story: Story = {}
    for request in log.group_requests():
        logged = request.logged
        logged_fields = (
            logged.arrival_us,
            logged.handled_us,
            logged.ready_us,
            logged.client_id,
            logged.request,
            logged.response,
        )
        story.setdefault(request.group_id, []).append(logged_fields)
    return story, log


@pytest.fixture(params=NAMES, scope="module")
def lines(request: pytest.FixtureRequest) -> list[bytes]:
    return lines_of(request.param)


@pytest.fixture(scope="module")
def story(lines: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> Story:
    """What the log tells when nothing has happened to it."""
    return read(tmp_path_factory.mktemp("undisturbed"), disturbances.one(lines))[0]


def test_an_undisturbed_log_has_no_doubts(lines: list[bytes], tmp_path: Path) -> None:
    story, log = read(tmp_path, disturbances.one(lines))
    assert story
    assert doubts_of(log) == ()


@pytest.mark.parametrize("disturbance", disturbances.READ_RIGHT.values(), ids=disturbances.READ_RIGHT)
def test_what_is_all_there_is_told_as_if_nothing_had_happened(
    lines: list[bytes], story: Story, disturbance: Disturbance, tmp_path: Path
) -> None:
    disturbed, log = read(tmp_path / "after", disturbance(lines))
    assert disturbed == story, doubts_of(log)


@pytest.mark.parametrize("disturbance", disturbances.READ_OR_TOLD.values(), ids=disturbances.READ_OR_TOLD)
def test_what_is_not_told_as_it_was_is_doubted(
    lines: list[bytes], story: Story, disturbance: Disturbance, tmp_path: Path
) -> None:
    disturbed, log = read(tmp_path / "after", disturbance(lines))
    assert disturbed == story or any(any(map(str.isdigit, doubt)) for doubt in doubts_of(log))


@pytest.mark.parametrize("disturbance", disturbances.OTHER_GROUPS_TOO.values(), ids=disturbances.OTHER_GROUPS_TOO)
def test_recordings_with_equal_connections_do_not_disturb_each_other(
    lines: list[bytes], story: Story, disturbance: Disturbance, tmp_path: Path
) -> None:
    disturbed, log = read(tmp_path / "after", disturbance(lines))
    assert len(disturbed) > len(story)
    assert {group: disturbed[group] for group in story} == story, doubts_of(log)
    assert doubts_of(log)


@pytest.mark.parametrize("name", ["churn-0", "chaos-b", "deploy"])
def test_members_that_go_on_show_that_lines_are_missing(name: str, tmp_path: Path) -> None:
    _, log = read(tmp_path, disturbances.stretch_missing(lines_of(name)))
    assert any("lines are missing" in doubt for doubt in doubts_of(log))


BERLIN, LORD_HOWE = ZoneInfo("Europe/Berlin"), ZoneInfo("Australia/Lord_Howe")
CHANGES = [
    pytest.param(datetime(2026, 10, 25, 1), BERLIN, id="summer time ends"),
    pytest.param(datetime(2026, 3, 29, 1), BERLIN, id="summer time begins"),
    pytest.param(datetime(2026, 4, 4, 15), LORD_HOWE, id="summer time of half an hour ends"),
]


@pytest.mark.parametrize(("change", "zone"), CHANGES)
def test_a_log_of_a_known_zone_is_read_over_a_change_of_the_clocks(
    lines: list[bytes], change: datetime, zone: ZoneInfo, tmp_path: Path
) -> None:
    in_utc, local = disturbances.at_the_change(lines, change, zone)
    story, _ = read(tmp_path / "utc", disturbances.one(in_utc))
    disturbed, log = read(tmp_path / "local", disturbances.one(local), zone)
    assert disturbed == story
    assert doubts_of(log) == ()
    half = len(local) // 2
    disturbed, _ = read(tmp_path / "halves", [b"".join(local[half:]), b"".join(local[:half])], zone)
    assert disturbed == story


@pytest.mark.parametrize(("change", "zone"), CHANGES)
def test_a_change_of_the_clocks_in_a_zone_that_was_not_named_is_noticed(
    lines: list[bytes], change: datetime, zone: ZoneInfo, tmp_path: Path
) -> None:
    in_utc, local = disturbances.at_the_change(lines, change, zone)
    story, _ = read(tmp_path / "utc", disturbances.one(in_utc))
    disturbed, log = read(tmp_path / "local", disturbances.one(local))
    since = {group: [request[0] - story[group][0][0] for request in of_group] for group, of_group in story.items()}  # type: ignore[operator]
    if not doubts_of(log):
        since_disturbed = {
            group: [request[0] - disturbed[group][0][0] for request in of_group]  # type: ignore[operator]
            for group, of_group in disturbed.items()
        }
        assert since_disturbed == since


def test_a_zone_whose_name_says_nothing_is_doubted(lines: list[bytes], tmp_path: Path) -> None:
    zoned_lines = [line.replace(b"]", b" CET]", 1) for line in lines]
    disturbed, log = read(tmp_path / "unknown", disturbances.one(zoned_lines))
    (doubt,) = doubts_of(log)
    assert doubt.startswith(f"{len(lines):,} lines with a time zone that is known by no such name (CET)")
    disturbed, log = read(tmp_path / "known", disturbances.one(zoned_lines), BERLIN)
    assert doubts_of(log) == ()
    assert disturbed == read(tmp_path / "local", disturbances.one(lines), BERLIN)[0]


@pytest.mark.parametrize("place", [0.5, 0.7])
def test_the_log_of_one_broker_that_ends_before_another_s_is_doubted(
    place: float, lines: list[bytes], tmp_path: Path
) -> None:
    (renamed,) = disturbances.joined(2, timedelta(0), other_groups=True)(lines)
    other_lines = [
        line.replace(b'"connection":"', b'"connection":"other')
        for line in renamed.splitlines(keepends=True)[len(lines) :]
    ]
    own_log = b"".join(lines)
    _, log = read(tmp_path / "both", [own_log, b"".join(other_lines)])
    assert doubts_of(log) == ()
    heartbeats = [number for number, line in enumerate(other_lines, 1) if b'"HEARTBEAT"' in line]
    _, log = read(tmp_path / "ends", [own_log, b"".join(other_lines[: heartbeats[int(len(heartbeats) * place)]])])
    (doubt,) = [doubt for doubt in doubts_of(log) if "go on" in doubt]
    assert re.search(r"request.log.1 ends at .* of \d groups? \(copy-1-", doubt)
    half = len(other_lines) // 2
    _, log = read(tmp_path / "rotated", [own_log, b"".join(other_lines[half:]), b"".join(other_lines[:half])])
    assert doubts_of(log) == ()
