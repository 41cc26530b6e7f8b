"""The model that judges, itself judged: by what Kafka's own coordinator was recorded to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator_state import Answer, GroupConfig, LogRecord, RequestEvent
from group_coordinator.recordings import history
from group_coordinator.recordings.history import verify_histories
from schemas.messages import ListedGroup
from simulation.model import Model, Snapshot
from simulation.model_group import Answered, ModelOutput

FOLDER = Path(__file__).parents[1] / "fixtures" / "histories"
FAMILIES = sorted(FOLDER.glob("*.jsonl.gz"))


class GroupView:
    """What the verification looks at in a group."""

    def __init__(self, model: Model) -> None:
        assert model.group is not None
        self.group = model.group
        self.snapshot: Snapshot | None = model.snapshot()


class ModelCoordinator:
    """Many models in the place of the core's `Coordinator`."""

    def __init__(self, config: GroupConfig) -> None:
        self.config = config
        self.models: dict[str, Model] = {}
        self.parked: dict[str, RequestEvent] = {}

    @property
    def groups(self) -> dict[str, GroupView]:
        return {group_id: GroupView(model) for group_id, model in self.models.items() if model.group is not None}

    def advance_to(self, clock_ms: int) -> list[Answer | LogRecord]:
        outputs = []
        for group_id, model in self.models.items():
            outputs += [self._output(group_id, output) for output in model.pass_time(clock_ms)]
        return outputs

    def handle(self, group_id: str, event: RequestEvent) -> list[Answer | LogRecord]:
        model = self.models.setdefault(group_id, Model(group_id, self.config))
        self.parked[event.envelope.request_id] = event
        return [self._output(group_id, output) for output in model.handle(event)]

    def list_groups(self, states: tuple[str, ...], types: tuple[str, ...]) -> list[ListedGroup]:
        state_names = {state.strip().lower() for state in states}
        return [
            ListedGroup(group_id=group_id, protocol_type=view.group.protocol_type or "", group_state=view.group.state)
            for group_id, view in self.groups.items()
            if view.group.in_log
            and (not state_names or view.group.state.lower() in state_names)
            and (not types or "classic" in {kind.lower() for kind in types})
        ]

    def _output(self, group_id: str, output: ModelOutput) -> Answer | LogRecord:
        if isinstance(output, Answered):
            envelope = self.parked[output.request_id].envelope
            return Answer(
                group_id,
                0,
                0,
                output.time_ms,
                output.request_id,
                0,
                envelope.api,
                envelope.api_version,
                0,
                output.response,
            )
        return LogRecord(group_id, 0, 0, output.time_ms, 0, output.key, output.value)


@pytest.mark.parametrize("path", FAMILIES, ids=lambda path: path.name.split(".")[0])
def test_the_model_does_what_kafka_does(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "Coordinator", ModelCoordinator)
    monkeypatch.setattr(history, "group_state", lambda view: view.snapshot)
    report = verify_histories([path])
    assert report.answers > 50
    assert [line for difference in report.differences[:3] for line in difference.lines()] == []
