"""Wrong files, wrong directories, wrong addresses: whatever a user can do is told in a line, with an exit code."""

from __future__ import annotations

import gzip
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.dashboard.sources import ReplaySource, SourceError
from tests.command_line.calls import REQUEST_LOG, call, text_of

CONTENTS = {
    "empty": b"",
    "binary": bytes(range(256)) * 2,
    "text": b"hello\nworld\n",
    "an object": b'{"a":1}\n',
    "null": b"null\n",
    "a number": b"5\n",
    "a list": b"[1,2]\n",
    "deep": b"[" * 100_000,
    "UTF-16": "hé".encode("utf-16"),
    "gzip of nothing": gzip.compress(b""),
    "gzip of bytes": gzip.compress(bytes(range(256))),
    "gzip that is cut": gzip.compress(os.urandom(1_000))[:500],
    "Parquet that is none": b"PAR1" + bytes(20) + b"PAR1",
    "a record": b'{"partition":0,"offset":1,"timestamp_ms":1,"key":"g","value":"x"}\n',
    "a record beyond all numbers": b'{"partition":99999999999999999999,"offset":1e400,"timestamp_ms":1,'
    b'"key":"g","value":"x"}\n',
}
SUFFIXES = (".log", ".jsonl", ".jsonl.gz", ".parquet", ".gz")


def assert_told(*arguments: str | Path) -> None:
    """It ends with 0 or with a sentence; never with an exception that nobody expected."""
    result = call(*arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit), (arguments, result.exception)
    assert result.exit_code in (0, 1, 2)
    assert result.exit_code == 0 or text_of(result).strip(), arguments
    assert "Traceback" not in text_of(result)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("kind", CONTENTS)
def test_a_wrong_file(kind: str, suffix: str, tmp_path: Path) -> None:
    file = tmp_path / f"file{suffix}"
    file.write_bytes(CONTENTS[kind])
    assert_told("replay", file, "--in-process", "--out", tmp_path / "out")
    assert_told("verify", "recording", file)
    assert_told("import", "kafka-request-log", file, "--out", tmp_path / "events.jsonl")
    if suffix == ".log":
        assert_told("run", "--dry-run", "--config-file", file)
        assert_told("verify", "recording", REQUEST_LOG, "--offsets", file)
        assert_told("verify", "recording", REQUEST_LOG, "--coordinator-log", file)


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".log"])
def test_a_replay_of_nothing_is_no_success(suffix: str, tmp_path: Path) -> None:
    file = tmp_path / f"events{suffix}"
    file.write_bytes(gzip.compress(b"") if suffix.endswith(".gz") else b"")
    result = call("replay", file, "--in-process")
    assert result.exit_code == 1
    assert "othing" in text_of(result)


@pytest.mark.parametrize("kind", CONTENTS)
def test_a_directory_that_no_replay_wrote(kind: str, tmp_path: Path) -> None:
    for name in ("history", "offsets", "dead-letters"):
        (tmp_path / f"{name}.jsonl").write_bytes(CONTENTS[kind])
    (tmp_path / "replay.json").write_bytes(CONTENTS[kind])
    assert_told("explain", "--from", tmp_path, "--group", "g")
    assert_told("offsets", "export", "--replayed", tmp_path)
    assert_told("offsets", "export", "--replayed", tmp_path, "--at", "2026-01-01")
    with suppress(SourceError):  # the command would show what is no mistake
        ReplaySource(tmp_path).start(Index(None))


@pytest.fixture
def taken_port() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield str(server.getsockname()[1])


NOWHERE = Path("/proc/there-is-no-such-thing")
NO_KAFKA = ("--bootstrap-servers", "127.0.0.1:1")
EVENT = '{"partition":0,"offset":1,"timestamp_ms":1,"key":"g","value":"x"}\n'


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("replay", "EVENTS", "--in-process", "--out", NOWHERE), str(NOWHERE)),
        (("replay", "EVENTS", "--in-process", "--out", "EVENTS"), "File exists"),
        (("replay", "EVENTS", "--in-process", "--report", NOWHERE / "x.html"), str(NOWHERE)),
        (("replay", "EVENTS", "--in-process", "--tables", NOWHERE), str(NOWHERE)),
        (("replay", "EVENTS", "--in-process", "--tables", "EVENTS"), "Tables cannot be written to"),
        (("import", "kafka-request-log", REQUEST_LOG, "--out", NOWHERE), str(NOWHERE)),
        (("verify", "recording", REQUEST_LOG, "--config", "group.initial.rebalance.delay.ms=abc"), "abc"),
        (("offsets", "export", "--replayed", NOWHERE), str(NOWHERE)),
        (("run", *NO_KAFKA, "--metrics-port", "70000"), "metrics_port is 70000, but must be 0 to 65535"),
        (("run", *NO_KAFKA, "--metrics-port", "TAKEN"), "cannot listen on 127.0.0.1, port"),
        (("run", *NO_KAFKA, "--health-file", NOWHERE / "x"), f"The health file {NOWHERE}/x cannot be written"),
        (("run", "--embedded", "--embedded-data", NOWHERE), "No such file or directory"),
        (("run", "--embedded", "--embedded-port", "70000"), "65535"),
        (("run", "--embedded", "--embedded-port", "TAKEN"), "cannot listen on"),
        (("gateway", *NO_KAFKA, "--metrics-port", "-1"), "metrics_port is -1"),
        (("gateway", *NO_KAFKA, "--metrics-port", "TAKEN"), "cannot listen on 127.0.0.1, port"),
        (("tap", "--upstream", "127.0.0.1:1", "--out", NOWHERE), "cannot be written"),
        (("dashboard", "--from", "HERE", "--port", "70000"), "65535"),
        (("dashboard", "--from", "HERE", "--port", "TAKEN"), "Cannot listen on 127.0.0.1, port"),
    ],
)
def test_a_place_that_cannot_be_used(
    arguments: tuple[str | Path, ...], told: str, tmp_path: Path, taken_port: str
) -> None:
    (tmp_path / "events.jsonl").write_text(EVENT)
    (tmp_path / "history.jsonl").touch()
    substitutes: dict[str, str | Path] = {"EVENTS": tmp_path / "events.jsonl", "HERE": tmp_path, "TAKEN": taken_port}
    call_arguments = [substitutes.get(str(argument), argument) for argument in arguments]
    assert_told(*call_arguments)
    result = call(*call_arguments)
    assert result.exit_code in (1, 2)
    assert told in text_of(result)


@pytest.mark.parametrize(
    "command",
    [("replay", "events.jsonl", "--in-process"), ("replay", "x.offsets.jsonl"), ("watch", *NO_KAFKA)],
)
def test_tables_at_an_address(command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be written is said before anything is read, and nothing is left behind."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "deltalake", None)
    for name in ("events.jsonl", "x.offsets.jsonl"):
        (tmp_path / name).write_text("neither an event nor a record of an offsets topic")
    before = sorted(tmp_path.rglob("*"))
    result = call(*command, "--tables", "s3a://bucket/tables")
    assert result.exit_code == 1
    assert "Tables at s3a://bucket/tables need the extra delta" in text_of(result)
    assert sorted(tmp_path.rglob("*")) == before
