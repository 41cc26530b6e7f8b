"""Whole request logs: any number of files, sorted by arrival within bounded memory, damage told and survived."""

from __future__ import annotations

import gzip
from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from group_coordinator.proving.recordings.following import follow
from group_coordinator.proving.recordings.kafka_request_log import DeadLetter, RequestLog
from group_coordinator.proving.recordings.request_lines import LoggedRequest

FIXTURES = Path(__file__).parents[2] / "fixtures" / "recordings"
MIXED = FIXTURES / "mixed.request.log.gz"


def read(paths: list[Path], **options: Any) -> tuple[RequestLog, list[LoggedRequest], list[DeadLetter]]:
    letters: list[DeadLetter] = []
    log = RequestLog(paths, dead_letter=letters.append, **options)
    log.read()
    return log, list(log.requests()), letters


def lines_of(path: Path) -> list[bytes]:
    return gzip.decompress(path.read_bytes()).splitlines(keepends=True)


def without_place(requests: list[LoggedRequest]) -> list[tuple[object, ...]]:
    return [(request.arrival_us, request.api, request.correlation_id, request.request) for request in requests]


def test_counts_and_order() -> None:
    log, requests, letters = read([MIXED])
    assert (log.counts.lines, log.counts.group_requests, log.counts.other_requests) == (255, 128, 127)
    assert len(requests) == 128
    assert not letters
    assert [request.arrival_us for request in requests] == sorted(request.arrival_us for request in requests)
    assert {request.line_number for request in requests} <= set(range(1, 256))


def test_every_line_of_a_broker_of_kafka_4_4_is_understood() -> None:
    """Java clients of 4.4.0 commit in transactions, in groups of both protocols, and share; the groups are deleted."""
    log, requests, letters = read([FIXTURES.parent / "kafka_4_4" / "transactions.request.log.gz"])
    assert not letters
    assert log.counts.lines == log.counts.group_requests + log.counts.other_requests == 445
    versions = Counter((request.api, request.api_version) for request in requests)
    assert (versions["TxnOffsetCommit", 6], versions["DeleteGroups", 3]) == (35, 3)
    following = follow(log, {})
    assert following.settings.config.kafka_rules == "4.4"


def test_requests_of_one_connection_keep_their_order() -> None:
    for path in FIXTURES.glob("*.request.log.gz"):
        _, requests, _ = read([path])
        by_connection = sorted(requests, key=lambda request: request.connection)  # a stable sort
        for _, of_connection in groupby(by_connection, key=lambda request: request.connection):
            numbers = [request.correlation_id for request in of_connection]
            assert numbers == sorted(numbers)


def test_little_memory_gives_the_same() -> None:
    _, all_at_once, _ = read([MIXED])
    _, in_runs, _ = read([MIXED], sort_memory_bytes=20_000)
    assert in_runs == all_at_once


def test_rotated_files_in_any_order(tmp_path: Path) -> None:
    lines = lines_of(MIXED)
    newer, older, packed = tmp_path / "request.log", tmp_path / "request.log.2", tmp_path / "request.log.1.gz"
    older.write_bytes(b"".join(lines[:100]))
    packed.write_bytes(gzip.compress(b"".join(lines[100:180])))
    newer.write_bytes(b"".join(lines[180:]))
    log, requests, _ = read([newer, packed, older])
    assert log.paths == (older, packed, newer)
    assert without_place(requests) == without_place(read([MIXED])[1])


def test_damaged_lines_are_told_and_the_rest_is_read(tmp_path: Path) -> None:
    lines = lines_of(MIXED)
    lines[10] = lines[10][:150] + b"\n"
    lines.insert(0, b"INFO something else\n")
    path = tmp_path / "request.log"
    path.write_bytes(b"".join(lines))
    log, _, letters = read([path])
    assert (log.counts.lines, log.counts.other_lines, log.counts.damaged_lines) == (256, 1, 1)
    (letter,) = letters
    assert (letter.file, letter.line_number, str(letter.reason)) == ("request.log", 12, "damaged_log_line")
    assert letter.text == lines[11].decode().rstrip("\n")


def test_a_gzip_file_that_breaks_off(tmp_path: Path) -> None:
    path = tmp_path / "request.log.gz"
    path.write_bytes(MIXED.read_bytes()[:8_000])
    log, requests, letters = read([path])
    assert 10 < len(requests) < 128
    assert "breaks off" in letters[-1].detail
    assert log.counts.damaged_lines == len(letters)


def test_progress_ends_with_all_bytes() -> None:
    progress: list[tuple[int, int]] = []
    log = RequestLog([MIXED], progress=lambda done, total: progress.append((done, total)))
    log.read()
    assert progress[-1] == (MIXED.stat().st_size, MIXED.stat().st_size)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(OSError, match="nowhere"):
        read([Path("nowhere.log")])


def test_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "request.log"
    path.write_bytes(b"")
    log, requests, _ = read([path])
    assert not requests
    assert log.end_us is None


def test_files_of_one_name_have_requests_of_different_names(tmp_path: Path) -> None:
    lines = lines_of(MIXED)
    for folder, content in (("a", lines[:150]), ("b", lines[150:])):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "request.log").write_bytes(b"".join(content))
    log = RequestLog([tmp_path / "b" / "request.log", tmp_path / "a" / "request.log"])
    log.read()
    ids = [request.request_id for request in log.group_requests()]
    assert len(ids) == len(set(ids)) > 100
