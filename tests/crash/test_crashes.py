"""A handful of real crashes in each run of the tests; `make crash-test KILLS=20` does more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.processes import WORKER_DAEMONS
from tests.crash.runner import CrashRun

SEED = 4


@pytest.mark.end_to_end
@pytest.mark.kafka
@pytest.mark.spark
def test_crashes_leave_no_trace(tmp_path: Path) -> None:
    report = CrashRun(tmp_path, kills=5, seed=SEED).run()
    assert set(report.kills) >= {"driver", "worker", "broker", "responder"}, report.killed
    assert report.kills.total() == 5
    commands = {kill.kind: kill.command for kill in report.killed}
    assert "SparkSubmit" in commands["driver"]
    assert any(daemon in commands["worker"] for daemon in WORKER_DAEMONS)
    assert "kafka.Kafka" in commands["broker"]
    assert "group_coordinator.coordinating.responder" in commands["responder"]
    assert report.by_responder
    assert report.handed_over
    assert report.starts >= 2
    print(report)
