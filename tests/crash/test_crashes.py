"""A handful of real crashes in each run of the tests; `make crash-test KILLS=20` does more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.runner import CrashRun

SEED = 3


@pytest.mark.end_to_end
@pytest.mark.kafka
@pytest.mark.spark
def test_crashes_leave_no_trace(tmp_path: Path) -> None:
    report = CrashRun(tmp_path, kills=3, seed=SEED).run()
    assert set(report.kills) == {"driver", "worker", "broker"}
    assert report.starts >= 2
    print(report)
