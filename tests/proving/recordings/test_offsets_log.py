"""Dumps of `__consumer_offsets`: in any order, with what cannot be compared, and damaged."""

from __future__ import annotations

import gzip
import json
import random
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from group_coordinator.proving.recordings.offsets_log import OffsetsLog, read_offsets_log
from group_coordinator.proving.recordings.recording import verify_recording
from schemas.bounded_lines import LINE_MAX_BYTES

FIXTURES = Path(__file__).parents[2] / "fixtures" / "recordings"
CRASH = FIXTURES / "crash.offsets.jsonl.gz"


def lines() -> list[str]:
    return gzip.decompress(CRASH.read_bytes()).decode().splitlines()


def read(tmp_path: Path, of: list[str], ends: str = "\n") -> OffsetsLog:
    path = tmp_path / "offsets.jsonl"
    path.write_text("".join(line + ends for line in of), newline="")
    return read_offsets_log(path)


def changed(line: str, **fields: Any) -> str:
    return json.dumps(json.loads(line) | fields)


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\n\n"])
def test_in_any_order_and_with_any_ends_of_lines(tmp_path: Path, ends: str) -> None:
    expected, shuffled = read_offsets_log(CRASH), lines()
    random.Random(1).shuffle(shuffled)
    offsets_log = read(tmp_path, shuffled, ends)
    assert offsets_log.by_group == expected.by_group
    assert not list(offsets_log.doubts())


def test_records_that_come_twice_count_once(tmp_path: Path) -> None:
    offsets_log = read(tmp_path, [*lines(), *lines()[:3]])
    assert offsets_log.by_group == read_offsets_log(CRASH).by_group
    assert list(offsets_log.doubts()) == ["3 records of the offsets log come again: they are not compared."]


def test_records_of_another_log_at_the_same_place_are_told(tmp_path: Path) -> None:
    other_line = changed(lines()[3], timestamp_ms=5)
    (doubt,) = read(tmp_path, [*lines(), other_line]).doubts()
    assert "several logs are mixed" in doubt


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (
            {"key": b64encode(bytes((0, 0, 0, 1))).decode(), "value": "AAAAAAAA", "control": "COMMIT"},
            "markers of transactions",
        ),
        ({"key": b64encode(bytes((0, 0, 0, 0))).decode(), "value": "AAAAAAAA"}, "markers of transactions"),
        ({"is_transactional": True}, "written in transactions"),
        ({"key": b64encode(bytes((0, 12, 0, 1, 65))).decode(), "value": None}, "share groups"),
        ({"key": b64encode(bytes((0, 17, 0, 1, 65))).decode(), "value": None}, "streams groups"),
        ({"key": b64encode(bytes((0, 99, 0, 1, 65))).decode(), "value": "AAAA"}, "type 99"),
    ],
)
def test_what_cannot_be_compared_is_counted(tmp_path: Path, fields: dict[str, Any], told: str) -> None:
    more = [changed(line, offset=1_000_000 + number, **fields) for number, line in enumerate(lines()[:4])]
    offsets_log = read(tmp_path, [*more, *lines()])
    assert offsets_log.by_group == read_offsets_log(CRASH).by_group
    (doubt,) = offsets_log.doubts()
    assert doubt.startswith("4 records of the offsets log")
    assert told in doubt


@pytest.mark.parametrize(
    "damaged", ["{", "\x00\x01", "null", "[]", '{"partition":1}', "a" * (LINE_MAX_BYTES + 2)], ids=lambda text: text[:9]
)
def test_damaged_lines_are_counted_and_told(tmp_path: Path, damaged: str) -> None:
    offsets_log = read(tmp_path, [*lines()[:5], damaged, *lines()[5:]])
    assert offsets_log.by_group == read_offsets_log(CRASH).by_group
    (doubt,) = offsets_log.doubts()
    assert doubt.startswith("1 lines of the offsets log cannot be read and are left out: line 6: ")


def test_a_file_that_breaks_off(tmp_path: Path) -> None:
    path = tmp_path / "offsets.jsonl.gz"
    path.write_bytes(CRASH.read_bytes()[:-300])
    with pytest.raises(ValueError, match=r"breaks off after line \d"):
        read_offsets_log(path)


def test_a_verification_says_so_at_its_top(tmp_path: Path) -> None:
    path = tmp_path / "offsets.jsonl"
    path.write_text("\n".join([*lines(), "{"]))
    report = verify_recording(FIXTURES / "crash.request.log.gz", offsets=path)
    assert report.agrees
    first, *_ = report.lines()
    assert first.startswith("doubtful: 1 lines of the offsets log cannot be read")


def test_a_group_of_offsets_alone_leaves_no_record_of_its_end_at_an_old_broker() -> None:
    """Kafka 2.8 wrote the ends of its offsets when it was deleted, and kept the group itself in memory alone."""
    stem = FIXTURES.parent / "deleted_offsets"
    report = verify_recording(
        sorted(stem.parent.glob(f"{stem.name}.*.request.log.gz")), Path(f"{stem}.offsets.jsonl.gz")
    )
    told = "\n".join(report.lines())
    assert "group tool: offsets log" not in told, told
    assert "24 equal" in told
