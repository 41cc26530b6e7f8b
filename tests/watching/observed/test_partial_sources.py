"""A source that covers a part of the time makes nothing worse: logs are rotated, dumps are taken before the end."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.watching.observed.recorded import CLUSTERS, truth
from tests.watching.observed.scores import DUMP, LOGS, REQUESTS, scores

Kept = Callable[[str, str, int], bool]
"""Of a line, the moment in its form, and that in milliseconds: whether it is left."""


def rotated(line: str, moment: str, at_ms: int) -> bool:
    """The older file of a broker's log is gone."""
    return line[1:24] >= moment


def taken_earlier(line: str, moment: str, at_ms: int) -> bool:
    return bool(json.loads(line)["timestamp_ms"] < at_ms)


@pytest.mark.parametrize("name", ["lifecycle-3.4", "roll-4.2", "old-3.9"])
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
