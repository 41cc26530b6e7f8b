"""A dump of the offsets topic that was taken before the brokers' logs end: what it does not have is not known."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from group_coordinator.command_line.main import app
from group_coordinator.watching.observed.cluster import observe
from group_coordinator.watching.observed.evidence import ALL
from group_coordinator.watching.observed.observer import Observer
from group_coordinator.watching.observed.offsets_log import Entry
from group_coordinator.watching.tables.fold import fold
from group_coordinator.watching.tables.rows import Ownership
from schemas.history import History, RecordingGap
from tests.watching.observed.recorded import (
    CLUSTERS,
    NAMES,
    entries,
    files,
    is_within,
    lines,
    observed,
    owners_among,
    owners_not_known,
    quiet_polls,
)

MODERN = ["consumer-protocol", "rack-4.0", "hanging-4.1", "transactions", "migration", "share-streams"]


def cuts_ms(name: str, pieces: int) -> list[int]:
    """Return moments between the records of a recording: between two of them lie equally many."""
    times = sorted(record.timestamp_ms for record in entries(name))
    return [times[number * len(times) // pieces] for number in range(1, pieces)]


@pytest.mark.parametrize("name", [name for name in NAMES if name != "connect"])
def test_no_owner_is_wrong_beyond_the_end_of_a_dump(name: str) -> None:
    """Wherever the dump ends: each poll of later shows the owners that are told, or it is told that none are known."""
    known = beyond = 0
    for cut_ms in cuts_ms(name, 12):
        history = observe([one for one in entries(name) if one.timestamp_ms < cut_ms], lines(name), {}).history
        owned = [row for row in fold(history) if isinstance(row, Ownership)]
        not_known = owners_not_known(history)
        for poll in quiet_polls(name):
            owners = owners_among(owned, poll.group_id, poll.at_ms)
            is_not_known = owners < poll.owners and is_within(poll.at_ms, not_known[poll.group_id])
            assert owners == poll.owners or is_not_known, (cut_ms, poll)
            known += not is_not_known
            beyond += poll.at_ms > cut_ms and not is_not_known
    assert known > 100
    assert beyond > 0


@pytest.mark.parametrize("name", NAMES)
def test_a_dump_of_the_end_loses_sight_of_no_group(name: str) -> None:
    """Neither what a coordinator did that had lost its partition, nor a silence at the end, makes a group unknown."""
    assert observed(name, with_logs=True).history == list(_observer(entries(name), name).whole())


@pytest.mark.parametrize("name", MODERN)
def test_what_is_watched_awaits_its_records(name: str) -> None:
    """Lines come before their records where a cluster is watched: nothing is told to be lost meanwhile, but of a dump
    that has no more."""
    lost = 0
    for cut_ms in cuts_ms(name, 5):
        early = [one for one in entries(name) if one.timestamp_ms < cut_ms]
        watched = [record for update in _observer(early, name).take() for record in update.history]
        whole = gaps(observe(early, lines(name), {}).history)
        assert gaps(watched) <= whole
        lost += len(whole - gaps(watched))
    assert lost > 0


def gaps(history: Sequence[History]) -> set[tuple[str, int]]:
    return {(one.group_id, one.timestamp_ms) for one in history if isinstance(one, RecordingGap)}


def _observer(records: Sequence[Entry], name: str) -> Observer:
    observer = Observer(bounds=ALL)
    observer.add_records(records)
    observer.add_lines(lines(name))
    return observer


def test_it_is_said_of_which_groups(tmp_path: Path) -> None:
    name = "consumer-protocol"
    cut_ms = cuts_ms(name, 2)[0]
    dump = tmp_path / "early.offsets.jsonl"
    with gzip.open(CLUSTERS / f"{name}.offsets.jsonl.gz", "rt") as file:
        dump.write_text("".join(line for line in file if json.loads(line)["timestamp_ms"] < cut_ms))
    logs = [word for path in files(name, "server.log.gz") for word in ("--broker-log", str(path))]
    assert CliRunner().invoke(app, ["replay", str(dump), *logs, "--out", str(tmp_path / "out")]).exit_code == 0
    early = [one for one in entries(name) if one.timestamp_ms < cut_ms]
    lost = {group_id for group_id, _ in gaps(observe(early, lines(name), {}).history)}
    assert lost
    for group_id in {one.group_id for one in observed(name, with_logs=True).history}:
        told = CliRunner().invoke(app, ["explain", "--from", str(tmp_path / "out"), "--group", group_id]).output
        assert ("on nothing is known of it: the dump of the offsets topic ends at" in told) == (group_id in lost)
