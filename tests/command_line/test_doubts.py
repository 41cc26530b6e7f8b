"""What is doubtful about a log stands above everything that is told of it, in whatever form and however late."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import msgspec
import pytest

from group_coordinator.command_line import doubts
from group_coordinator.command_line.errors import CommandError
from group_coordinator.watching.dashboard.documents import Documents
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.dashboard.sources import ReplaySource
from tests.command_line.calls import REQUEST_LOG, call

DOUBT = "The clock of the log goes back by 1 h."


def test_kept_beside_the_events_and_gone_with_them(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl.gz"
    assert doubts.kept([events]) == ()
    doubts.keep(events, [DOUBT])
    assert doubts.kept([events, events]) == (DOUBT,)
    doubts.keep(events, [])
    assert doubts.kept([events]) == ()


def test_a_note_that_is_damaged_is_told(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    doubts.keep(events, [DOUBT])
    (note,) = tmp_path.iterdir()
    note.write_text("{")
    with pytest.raises(CommandError, match="cannot be read"):
        doubts.kept([events])


def test_said_by_replay_explain_report_and_dashboard(tmp_path: Path) -> None:
    events, out, report = tmp_path / "events.jsonl.gz", tmp_path / "out", tmp_path / "report.html"
    call("import", "kafka-request-log", REQUEST_LOG, "--out", events)
    doubts.keep(events, [DOUBT])
    replayed = call("replay", events, "--in-process", "--out", out, "--report", report)
    assert replayed.exit_code == 0, replayed.output
    assert replayed.stdout.splitlines()[:2] == [doubts.HEADLINE, f"  - {DOUBT}"]
    group = next(line for line in replayed.stdout.splitlines() if line.startswith("GROUP"))
    group = replayed.stdout.splitlines()[replayed.stdout.splitlines().index(group) + 1].split()[0]
    explained = call("explain", "--group", group, "--from", out)
    assert explained.stdout.splitlines()[:2] == [doubts.HEADLINE, f"  - {DOUBT}"]
    index = Index()
    ReplaySource(out).start(index)
    assert Documents(index).overview().doubts == (DOUBT,)


def test_a_directory_whose_note_is_damaged_says_so(tmp_path: Path) -> None:
    call("replay", REQUEST_LOG, "--in-process", "--out", tmp_path)
    note = tmp_path / "replay.json"
    noted = msgspec.json.decode(note.read_bytes())
    note.write_text(str(noted))
    index = Index()
    ReplaySource(tmp_path).start(index)
    (doubt,) = index.doubts
    assert "cannot be read" in doubt


def test_said_beside_offsets_that_a_replay_left(tmp_path: Path) -> None:
    events, out = tmp_path / "events.jsonl.gz", tmp_path / "out"
    call("import", "kafka-request-log", REQUEST_LOG, "--out", events)
    doubts.keep(events, [DOUBT])
    call("replay", events, "--in-process", "--out", out)
    for options in ((), ("--at", "2027-01-01"), ("--out", tmp_path / "offsets.csv")):
        exported = call("offsets", "export", "--replayed", out, *options)
        assert exported.exit_code == 0
        assert exported.stderr.splitlines()[:2] == [doubts.HEADLINE, f"  - {DOUBT}"]
        assert DOUBT not in exported.stdout


def test_said_of_a_group_of_which_nothing_is_told(tmp_path: Path) -> None:
    log = gzip.decompress(REQUEST_LOG.read_bytes()).decode()
    group = re.findall(r'"groupId":"([^"]+)"', log)[0]
    file, out = tmp_path / "request.log", tmp_path / "out"
    file.write_text(log.replace(f'"{group}"', '"first\\r\\nERROR forged"'))
    call("replay", file, "--in-process", "--out", out)
    noted = msgspec.json.decode((out / "replay.json").read_bytes())
    (out / "replay.json").write_bytes(msgspec.json.encode(noted | {"doubts": [DOUBT]}))
    explained = call("explain", "--from", out, "--group", "no\nERROR such")
    assert explained.exit_code == 1
    assert explained.stdout.splitlines()[:2] == [doubts.HEADLINE, f"  - {DOUBT}"]
    (sentence,) = explained.stderr.strip().splitlines()
    assert "There is no rebalance of a group 'no\\nERROR such'" in sentence
    assert "first\\r\\nERROR forged" in sentence


def test_explain_tells_the_doubts_of_the_group_that_is_asked_for() -> None:
    of_all = [DOUBT, "group a: old", "group a: b: older", "group c: new"]
    assert doubts.of_group(of_all, "a", ["a: b", "c"]) == [DOUBT, "group a: old"]
    assert doubts.of_group(of_all, "a: b", ["a", "c"]) == [DOUBT, "group a: b: older"]
