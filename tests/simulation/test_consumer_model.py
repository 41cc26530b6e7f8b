"""The model of consumer groups, itself judged: by what Kafka's own coordinator was recorded to do.

The targets are Kafka's: the model computes none, and says of each whether it is what the assignor promises.
"""

from __future__ import annotations

import gzip
import json
from functools import partial
from pathlib import Path

import pytest

from coordinator_state.consumer.downgrade import protocol_version
from simulation.model_conversions import version_of
from tests.simulation.model_coordinator import GroupView, Json, ModelCoordinator
from tests.verify_history import histories
from tests.verify_history.cluster import HistoryCluster, Resolution
from tests.verify_history.histories import verify_histories

FOLDER = Path(__file__).parents[1] / "fixtures" / "consumer_histories"
FAMILIES = sorted(path.name.split(".")[0] for path in FOLDER.glob("*.jsonl.gz"))
TRANSACTIONS = ("TxnOffsetCommit", "WriteTxnMarkers")
"""The model knows none."""


def note_resolutions(cluster: HistoryCluster, groups: dict[str, GroupView], now_ms: int) -> None:
    """The history's cluster looks into the core's groups; here into the models."""
    for group_id, view in groups.items():
        consumer = view.model.consumer
        began_ms = None if consumer is None else consumer.resolving_ms
        noted = next((noted for noted in cluster.resolutions if noted.group_id == group_id), None)
        if consumer is not None and began_ms == now_ms and noted is None:
            due_ms = now_ms + cluster.background_ms
            cluster.resolutions.append(Resolution(group_id, due_ms, tuple(sorted(consumer.regexes()))))


def histories_of(family: str) -> list[Json]:
    """Return the histories of a family, but for those with transactions."""
    with gzip.open(FOLDER / f"{family}.jsonl.gz", "rt") as file:
        recorded = [json.loads(line) for line in file]
    return [history for history in recorded if not any(step.get("api") in TRANSACTIONS for step in history["steps"])]


def test_most_histories_are_there() -> None:
    assert sum(len(histories_of(family)) for family in FAMILIES) == 339


@pytest.mark.parametrize("family", FAMILIES)
def test_the_model_does_what_kafka_does(family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HistoryCluster, "note_resolutions", note_resolutions)
    monkeypatch.setattr(histories, "group_state", lambda view: view.snapshot)
    path = tmp_path / "one.jsonl"
    lines: list[str] = []
    for recorded in histories_of(family):
        steps = {step["id"]: step for step in recorded["steps"]}
        monkeypatch.setattr(histories, "Coordinator", partial(ModelCoordinator, steps=steps))
        path.write_text(json.dumps(recorded))
        report = verify_histories([path])
        lines += [line for difference in report.differences[:1] for line in difference.lines()]
    assert lines == []


@pytest.mark.parametrize(
    ("metadata", "version"), [(b"", 0), (b"\x00", 0), (b"\xff\xff", 0), (b"\x00\x02", 2), (b"\x00\x09", 3)]
)
def test_any_metadata_has_a_version_in_which_it_is_answered(metadata: bytes, version: int) -> None:
    """A group that migrates back may choose a protocol for which a member sent nothing that can be read."""
    assert version_of(metadata) == protocol_version(metadata) == version
