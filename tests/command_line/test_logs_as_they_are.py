"""Logs that are wrong, strange or empty, as a user meets them: told at the top, or refused in a sentence;
never silently."""

from __future__ import annotations

import gzip
import os
import re
from datetime import timedelta
from pathlib import Path

import pytest

from group_coordinator.command_line import doubts
from tests.command_line.calls import FIXTURES, call
from tests.proving.recordings import disturbances

CHURN = FIXTURES / "recordings" / "churn-0.request.log.gz"
NOTHING: dict[str, bytes] = {
    "empty": b"",
    "an empty gzip": gzip.compress(b""),
    "binary": bytes(range(256)) * 50,
    "a text": b"# Read me\n\nNothing of interest.\n" * 20,
    "another log": b"[2026-11-21 12:45:15,885] INFO Stabilized group g generation 1 (kafka.coordinator)\n" * 5,
    "other times": b"yesterday DEBUG Completed request:{} (kafka.request.logger)\n",
    "nested": b"[2026-11-21 12:45:15,885] DEBUG Completed request:" + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
    "UTF-16": "[2026-11-21 12:45:15,885] DEBUG Completed request:{}\n".encode("utf-16"),
    "Kafka before 2.8": b"[2026-11-21 12:45:15,885] DEBUG Completed request:RequestHeader(apiKey=HEARTBEAT) -- {},"
    b"response:{} (kafka.request.logger)\n",
    "a broken gzip": CHURN.read_bytes()[:30],
    "fetches only": b"".join(
        line for line in gzip.decompress(CHURN.read_bytes()).splitlines(keepends=True) if b'"FETCH"' in line
    ),
}


def story(text: str) -> list[str]:
    """What a replay tells: without times, which are told apart, and without what stands above."""
    start = text.index("GROUP ")
    return [
        re.sub(r"\d\d:\d\d:\d\d", "", line) for line in text[start:].splitlines() if not line.startswith("Replayed")
    ]


@pytest.mark.parametrize("content", NOTHING.values(), ids=NOTHING)
def test_where_there_is_nothing_every_command_says_so(content: bytes, tmp_path: Path) -> None:
    file, out = tmp_path / "request.log", tmp_path / "events.jsonl"
    file.write_bytes(content)
    for arguments in (
        ("verify", "recording", file),
        ("import", "kafka-request-log", file, "--out", out),
        ("replay", file, "--in-process"),
    ):
        result = call(*arguments)
        assert result.exit_code == 1, arguments
        assert re.search(r"no group requests in [\d,]+ lines?", result.stderr), result.stderr
        assert "Traceback" not in result.output
    assert not out.exists()


def test_a_file_of_other_records_is_no_log_of_events(tmp_path: Path) -> None:
    file = tmp_path / "dump.jsonl.gz"
    file.write_bytes(CHURN.with_name("churn-0.offsets.jsonl.gz").read_bytes())
    result = call("replay", file, "--in-process")
    assert result.exit_code == 1
    assert "every record is a dead letter" in result.stderr


@pytest.mark.parametrize("option", ["--offsets", "--coordinator-log"])
def test_a_side_without_anything_to_compare_verifies_nothing(option: str, tmp_path: Path) -> None:
    file = tmp_path / "other"
    file.write_bytes(b"")
    result = call("verify", "recording", CHURN, option, file)
    assert result.exit_code == 1
    assert "Nothing of it was verified" in result.stderr


def test_the_night_when_summer_time_ends_is_told_as_it_was(tmp_path: Path) -> None:
    lines = gzip.decompress(CHURN.read_bytes()).splitlines(keepends=True)
    (content,) = disturbances.from_on(0.5, -timedelta(hours=1))(lines)
    file = tmp_path / "request.log"
    file.write_bytes(content)
    plain, changed = call("replay", CHURN, "--in-process", "--utc"), call("replay", file, "--in-process", "--utc")
    assert changed.exit_code == 0
    headline, doubt, *_ = changed.stdout.splitlines()
    assert headline == doubts.HEADLINE
    assert "was set back at line 365 of request.log" in doubt
    assert "told as 1 h later than they are written" in doubt
    assert story(changed.stdout) == story(plain.stdout)
    verified = call("verify", "recording", file)
    assert verified.exit_code == 0
    assert verified.stdout.startswith("doubtful: The clock of the log was set back")
    assert ", 0 differ, " in verified.stdout.splitlines()[-1]


def test_doubts_go_with_the_events(tmp_path: Path) -> None:
    lines = gzip.decompress(CHURN.read_bytes()).splitlines(keepends=True)
    (content,) = disturbances.random_bytes(3000, in_line=False)(lines)
    file, events, out = tmp_path / "request.log", tmp_path / "events.jsonl.gz", tmp_path / "out"
    file.write_bytes(content)
    imported = call("import", "kafka-request-log", file, "--out", events)
    assert imported.exit_code == 0
    replayed = call("replay", events, "--in-process", "--out", out)
    explained = call("explain", "--from", out, "--group", "churn-12-0")
    for result in (imported, replayed, explained):
        headline, doubt, *_ = result.stdout.splitlines()
        assert headline == doubts.HEADLINE
        assert re.search(r"- \d+ of [\d,]+ lines cannot be read or understood", doubt)
    assert call("import", "kafka-request-log", CHURN, "--out", events).stdout.startswith("Read ")
    assert call("replay", events, "--in-process").stdout.startswith("GROUP")


def test_a_line_of_a_gigabyte_is_one_damaged_line(tmp_path: Path) -> None:
    file = tmp_path / "request.log"
    file.write_bytes(
        gzip.compress(gzip.decompress(CHURN.read_bytes()) + b"x" * (40 * 1024 * 1024) + b"\n", compresslevel=1)
    )
    result = call("replay", file, "--in-process")
    assert result.exit_code == 0
    assert "1 x the line has 41,943,041 bytes" in result.stdout.splitlines()[1]


def test_other_files_with_a_line_that_is_too_long_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "long.jsonl"
    file.write_bytes(b"{" + b" " * (17 * 1024 * 1024) + b"}\n")
    result = call("replay", file, "--in-process")
    assert result.exit_code == 1
    assert "no line may have more than 16,777,216" in result.stderr


def test_members_of_whom_no_join_is_there_are_told_as_not_known(tmp_path: Path) -> None:
    lines = gzip.decompress(CHURN.read_bytes()).splitlines(keepends=True)
    file = tmp_path / "request.log"
    file.write_bytes(b"".join(line for line in lines if b'"JOIN_GROUP"' not in line))
    result = call("replay", file, "--in-process", "--out", tmp_path / "out")
    assert "Traceback" not in result.output
    assert result.exit_code == 0, result.output
    headline, *later_lines = result.stdout.splitlines()
    assert headline == doubts.HEADLINE
    assert any("a generation that the log does not show it to join" in line for line in later_lines)
    assert any("older than the log" in line for line in later_lines)


@pytest.mark.parametrize("option", [None, "--offsets", "--coordinator-log"])
def test_a_pipe_is_told_by_its_name(option: str | None) -> None:
    reader, writer = os.pipe()
    try:
        pipe = f"/dev/fd/{reader}"
        os.close(writer)
        result = call("verify", "recording", *((pipe,) if option is None else (CHURN, option, pipe)))
    finally:
        os.close(reader)
    assert result.exit_code == 1
    assert f"{pipe}: a pipe cannot be read here" in result.stderr
