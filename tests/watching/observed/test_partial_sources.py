"""A source that covers a part of the time makes nothing worse: logs are rotated, dumps are taken before the end."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from group_coordinator.command_line.main import app
from tests.watching.observed.recorded import CLUSTERS, truth
from tests.watching.observed.scores import DUMP, LOGS, REQUESTS, scores

Kept = Callable[[str, str, int], bool]
"""Of a line, the moment in its form, and that in milliseconds: whether it is left."""


def rotated(line: str, moment: str, at_ms: int) -> bool:
    """The older file of a broker's log is gone."""
    return line[1:24] >= moment


def taken_earlier(line: str, moment: str, at_ms: int) -> bool:
    return bool(json.loads(line)["timestamp_ms"] < at_ms)


@pytest.mark.parametrize("name", ["lifecycle-3.4", "roll-4.2", "old-3.9", "consumer-protocol", "rack-4.0"])
@pytest.mark.parametrize(
    ("source", "suffix", "kept"),
    [(LOGS, "server.log.gz", rotated), (DUMP, "offsets.jsonl.gz", taken_earlier)],
    ids=["a rotated log", "an earlier dump"],
)
def test_a_source_of_a_part_makes_nothing_worse(
    name: str, source: str, suffix: str, kept: Kept, tmp_path: Path
) -> None:
    for path in CLUSTERS.glob(f"{name}.*"):
        (tmp_path / path.name).symlink_to(path)
    at_ms = (truth(name)[0]["at_ms"] + truth(name)[-1]["at_ms"]) // 2
    moment = f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S,}{at_ms % 1000:03}"
    part = tmp_path / f"{name}.{suffix}"
    lines = gzip.decompress(part.read_bytes()).decode().splitlines()
    left = [line for line in lines if line.startswith(("[2", "{")) and kept(line, moment, at_ms)]
    assert 0 < len(left) < len(lines)
    part.unlink()
    part.write_bytes(gzip.compress("".join(f"{line}\n" for line in left).encode()))
    stem = str(tmp_path / name)
    alone, together = (scores(stem, frozenset(sources)) for sources in ({REQUESTS}, {REQUESTS, source}))
    assert together.polls_wrong <= alone.polls_wrong
    assert together.polls_not_known <= alone.polls_not_known
    assert together.commits_wrong <= alone.commits_wrong
    assert together.missing_ms <= alone.missing_ms


@pytest.mark.parametrize("name", ["old-2.8", "old-3.9", "roll-4.2"])
def test_a_compacted_dump_makes_nothing_worse(name: str, tmp_path: Path) -> None:
    """Of the older half of the records the last of each key is left, and no tombstone."""
    for path in CLUSTERS.glob(f"{name}.*"):
        (tmp_path / path.name).symlink_to(path)
    dump = tmp_path / f"{name}.offsets.jsonl.gz"
    lines = [json.loads(line) for line in gzip.decompress(dump.read_bytes()).splitlines()]
    half_ms = (truth(name)[0]["at_ms"] + truth(name)[-1]["at_ms"]) // 2
    last = {(line["partition"], line["key"]): line["offset"] for line in lines}
    left = [
        line
        for line in lines
        if line["timestamp_ms"] >= half_ms
        or (last[line["partition"], line["key"]] == line["offset"] and line["value"] is not None)
    ]
    assert len(left) < len(lines)
    dump.unlink()
    dump.write_bytes(gzip.compress("".join(f"{json.dumps(line)}\n" for line in left).encode()))
    stem = str(tmp_path / name)
    alone, together = (scores(stem, frozenset(sources)) for sources in ({REQUESTS}, {REQUESTS, DUMP}))
    assert together.polls_wrong <= alone.polls_wrong
    assert together.polls_not_known <= alone.polls_not_known
    assert together.commits_wrong <= alone.commits_wrong
    assert together.invented <= alone.invented
    arguments = ["verify", "recording", str(tmp_path / f"{name}.request.log.gz"), "--offsets", str(dump)]
    assert CliRunner().invoke(app, arguments).exit_code == 0
