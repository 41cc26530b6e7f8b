"""The model that judges, itself judged: by what Kafka's own coordinator was recorded to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.model_coordinator import ModelCoordinator
from tests.verify_history import histories
from tests.verify_history.histories import verify_histories

FOLDER = Path(__file__).parents[1] / "fixtures" / "histories"
FAMILIES = sorted(FOLDER.glob("*.jsonl.gz"))


@pytest.mark.parametrize("path", FAMILIES, ids=lambda path: path.name.split(".")[0])
def test_the_model_does_what_kafka_does(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(histories, "Coordinator", ModelCoordinator)
    monkeypatch.setattr(histories, "group_state", lambda view: view.snapshot)
    report = verify_histories([path])
    assert report.answers > 50
    assert [line for difference in report.differences[:3] for line in difference.lines()] == []
