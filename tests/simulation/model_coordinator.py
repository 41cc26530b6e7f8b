"""Many models in the place of the core's `Coordinator`, to be held against recorded histories."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from typing import Any

from coordinator_state import Answer, GroupConfig, GroupEvent, LogRecord, RequestEvent, TopicsDeletedEvent
from coordinator_state.outputs import MetadataEvent
from schemas.messages import ListedGroup
from simulation.decided import decided_targets
from simulation.model import Model
from simulation.model_group import Answered, ModelOutput
from simulation.model_snapshot import Snapshot

Json = dict[str, Any]


class GroupView:
    """What the verification looks at in a group."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.snapshot: Snapshot | None = model.snapshot()


class ModelCoordinator:
    """The models of all groups. `steps` are those of the history, by id: they tell what targets Kafka decided."""

    def __init__(self, config: GroupConfig, steps: dict[int, Json] | None = None) -> None:
        self.config = config
        self.models: dict[str, Model] = {}
        self._steps = steps or {}
        self._parked: dict[str, RequestEvent] = {}

    @property
    def groups(self) -> dict[str, GroupView]:
        return {group_id: GroupView(model) for group_id, model in self.models.items() if model.life is not None}

    def advance_to(self, clock_ms: int) -> list[Answer | LogRecord]:
        outputs = []
        for group_id, model in self.models.items():
            outputs += [self._output(group_id, output) for output in model.pass_time(clock_ms)]
        return outputs

    def handle(self, group_id: str, event: GroupEvent) -> list[Answer | LogRecord]:
        model = self.models.setdefault(group_id, Model(group_id, self.config))
        if isinstance(event, MetadataEvent):
            outputs = model.take_in(event)
        elif isinstance(event, TopicsDeletedEvent):
            outputs = model.forget_topics(event)
        else:
            assert isinstance(event, RequestEvent)
            self._parked[event.envelope.request_id] = event
            outputs = model.handle(event, decided_targets(self._records(event.offset, group_id)))
            assert not model.broken_promises, model.broken_promises
        return [self._output(group_id, output) for output in outputs]

    def list_groups(self, states: tuple[str, ...], types: tuple[str, ...]) -> list[ListedGroup]:
        state_names = {state.strip().lower() for state in states}
        type_names = {kind.lower() for kind in types}
        listed = [_listed(group_id, view.model) for group_id, view in self.groups.items() if view.model.is_in_log]
        return [
            group
            for group in listed
            if (not state_names or group.group_state.lower() in state_names)
            and (not type_names or group.group_type in type_names)
        ]

    def _records(self, step_id: int, group_id: str) -> Iterator[tuple[bytes, bytes | None]]:
        for record in self._steps.get(step_id, {}).get("records", ()):
            if record["key"].get("groupId") == group_id:
                value = record.get("value_b64")
                yield b64decode(record["key_b64"]), None if value is None else b64decode(value)

    def _output(self, group_id: str, output: ModelOutput) -> Answer | LogRecord:
        if isinstance(output, Answered):
            envelope = self._parked[output.request_id].envelope
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


def _listed(group_id: str, model: Model) -> ListedGroup:
    if model.group is not None:
        group = model.group
        return ListedGroup(group_id=group_id, protocol_type=group.protocol_type or "", group_state=group.state)
    assert model.consumer is not None
    return ListedGroup(
        group_id=group_id, protocol_type="consumer", group_state=model.consumer.state, group_type="consumer"
    )
