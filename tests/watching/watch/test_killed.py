"""A few kills in each run of the tests; `python -m tests.watching.watch.killed --kills 20` does more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.watching.watch.killed import KillRun


@pytest.mark.end_to_end
@pytest.mark.kafka
def test_kills_leave_no_trace(kafka_jars: Path, tmp_path: Path) -> None:
    report = KillRun(tmp_path, kills=3, seed=2).run()
    assert report.kills == 3
    assert report.compactions == 1
    print(report)
