"""The recorded histories of Kafka's own coordinator, played by ours: what came out, beside what Kafka says of the
groups."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from coordinator_state import AssignmentChange, Output
from group_coordinator.proving.recordings.kafka_json import topic_id_from_kafka
from schemas.history import AssignedTopic, GroupSnapshot, History, HistoryRecord
from schemas.kafka.json_form import uuid_to_json
from schemas.wire import encode_uuid
from tests.verify_history.histories import HistoryReport, _Replay

FOLDER = Path(__file__).parents[2] / "fixtures" / "consumer_histories"
FAMILIES = sorted(path.name.split(".")[0] for path in FOLDER.glob("*.jsonl.gz"))

Json = dict[str, Any]


class Played(Struct, kw_only=True):
    """One step of a history."""

    history: str
    step: Json
    """As it was recorded, with Kafka's answers."""
    groups: Json
    """Kafka's groups after the step."""
    outputs: list[Output]
    """Ours."""
    topic_names: dict[str, str]
    """Topic id, as Kafka prints it -> name, of all topics that there ever were."""
    topics: frozenset[str]
    """The ids of those that there are after the step."""

    @property
    def records(self) -> list[History]:
        return [output for output in self.outputs if isinstance(output, HistoryRecord)]

    @property
    def snapshots(self) -> dict[str, GroupSnapshot | None]:
        """Group -> what the step published of it last."""
        return {
            output.group_id: output.snapshot for output in self.outputs if isinstance(output, AssignmentChange)
        }

    @property
    def described(self) -> list[Json]:
        """Kafka's answer, if this step asks to describe consumer groups."""
        if self.step.get("api") != "ConsumerGroupDescribe":
            return []
        described: list[Json] = self.step["answers"][0]["response"]["groups"]
        return described

    def by_name(self, topics: Iterable[AssignedTopic]) -> dict[str, list[int]]:
        """Return partitions by name also of topics that are gone, which we tell by their id."""
        ids = {str(topic_id_from_kafka(topic_id)): name for topic_id, name in self.topic_names.items()}
        return {ids.get(topic.topic, topic.topic): sorted(topic.partitions) for topic in topics}

    def named(self, partitions: Json) -> dict[str, list[int]]:
        """Return partitions in Kafka's form by the names of their topics."""
        return {
            self.topic_names[topic_id]: sorted(int(number) for number in numbers)
            for topic_id, numbers in partitions.items()
        }


class _Playing(_Replay):
    """A replay that keeps what came out of each step."""

    def __init__(self, history: Json) -> None:
        super().__init__(history, HistoryReport())
        self.played: list[Played] = []
        self._outputs: list[Output] = []
        self._names: dict[str, str] = {}
        for method in ("advance_to", "handle"):
            setattr(self.coordinator, method, self._kept(getattr(self.coordinator, method)))

    def _kept(self, method: Any) -> Any:
        def call(*arguments: Any) -> list[Output]:
            outputs: list[Output] = method(*arguments)
            self._outputs += outputs
            return outputs

        return call

    def _compare(self, step: Json, subject: str, recorded: Any, actual: Any) -> None:
        if subject != "groups":
            return
        names = {uuid_to_json(encode_uuid(topic_id)): name for name, topic_id in self.cluster.topic_ids.items()}
        self._names |= names
        self.played.append(
            Played(
                history=self.name,
                step=step,
                groups=self.recorded_groups,
                outputs=self._outputs,
                topic_names=dict(self._names),
                topics=frozenset(names),
            )
        )
        self._outputs = []


def played(family: str) -> Iterator[list[Played]]:
    """Yield the steps of each history of a family."""
    with gzip.open(FOLDER / f"{family}.jsonl.gz", "rt") as file:
        for line in file:
            playing = _Playing(json.loads(line))
            playing.run()
            yield playing.played
