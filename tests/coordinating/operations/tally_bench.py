"""The counting of the metrics by itself: logs and outputs go in, values come out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from group_coordinator.ground.monitoring import metrics as m
from group_coordinator.ground.monitoring.registry import Metrics
from group_coordinator.watching.group_metrics.group_table import GroupTable
from group_coordinator.watching.group_metrics.tally import Tally
from schemas.history import decode_history
from schemas.output_records import OutputRecord
from schemas.records_file import Record
from tests.coordinating.operations.records import APPEND_MS, CONFIG, START_MS

TOPICS = CONFIG.topics
SHARDS = frozenset({0})


@dataclass(frozen=True)
class Bench:
    metrics: Metrics
    groups: GroupTable
    tally: Tally

    def count(self, events: Iterable[Record], written: Iterable[OutputRecord]) -> None:
        for event in events:
            self.tally.event(event.partition or 0, event.offset or 0, event.timestamp_ms or 0, event.key, event.value)
        for output in written:
            value = output.value or b""
            if output.topic == TOPICS.responses:
                appended_ms = START_MS + msgspec.json.decode(value)["answers_offset"]
                self.tally.answer(output.partition, appended_ms + APPEND_MS, value)
            elif output.topic == TOPICS.history:
                self.tally.history(decode_history(value))
            elif output.topic == TOPICS.assignments:
                self.tally.group(output.key or b"", output.value)
            elif output.topic == TOPICS.dead_letters:
                self.tally.dead_letter(SHARDS, output.key, output.headers)

    def value(self, metric: m.Metric, suffix: str = "", **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(metric.name + suffix, labels)


def bench(shard: int | None = 0, top: int = 5) -> Bench:
    metrics = Metrics()
    groups = GroupTable(top, lambda group_id: 1_700_000_100_000, lambda: 1_000.0)
    metrics.values_from(groups.values)
    return Bench(metrics, groups, Tally(metrics, groups, lambda group_id: shard))
