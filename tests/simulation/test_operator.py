"""The simulator's driver against the real operator:
the same log gives the very records that the Kafka sink would get."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from msgspec.structs import replace

from coordinator_state import Group
from group_coordinator.ground.settings.topic_names import Topics
from schemas.output_records import OutputRecord
from simulation.driver import carry_clock
from simulation.generate import scenario_of
from simulation.log import Log, Record
from simulation.random_streams import RandomStreams
from simulation.run import live_through, run_world
from simulation.scenario import Scenario
from simulation.world import World
from streaming.log_rules import RulesScan
from streaming.operator import coordinate_rows
from streaming.operator_config import OperatorConfig
from streaming.reply_partitions import ReplyPartitions
from streaming.rows import EventRow, output_record
from tests.random_requests.request_sequence import RequestSequence, run_sequence, sequence_of, write_log


def operator_config(case: Scenario | RequestSequence, shard: int) -> OperatorConfig:
    return OperatorConfig(
        group=case.config,
        topics=Topics.of_prefix("t"),
        partition=shard,
        reply_partitions=ReplyPartitions("responses", 1),
        offsets_partitions=50,
        output_max_bytes=4_000_000,
    )


def log_of(case: Scenario | RequestSequence) -> Log:
    if isinstance(case, RequestSequence):
        return write_log(case)
    world = World(case)
    live_through(world)
    return world.log


def written_in_batches(
    records: list[Record], config: OperatorConfig, dice: Random
) -> dict[bytes | None, list[OutputRecord]]:
    """What the operator writes of each group, with the log cut at random; the last batch has no events."""
    cuts = sorted({0, len(records), *(dice.randint(0, len(records)) for _ in range(20))})
    groups: dict[bytes | None, Group | None] = {}
    written: dict[bytes | None, list[OutputRecord]] = {}
    watermark_ms = 0
    for start, end in pairwise([*cuts, len(records)]):
        scan = RulesScan(config.group.tick_ahead_bound_ms, watermark_ms)
        rows = carry_clock(records[start:end], scan)
        dice.shuffle(rows)
        by_key: dict[bytes | None, list[EventRow]] = {key: [] for key in groups}
        for row in rows:
            event = EventRow(row.record.offset, row.clock_ms, row.record.timestamp_ms, row.record.value)
            by_key.setdefault(row.record.key, []).append(event)
        for key, events in by_key.items():
            outcome = coordinate_rows(key, events, config, group=groups.get(key), clock_ms=watermark_ms)
            groups[key] = outcome.group
            written.setdefault(key, []).extend(outcome.records)
        watermark_ms = scan.clock_ms
    return written


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 5, 8, 11, 12, 1_001, 1_002])
def test_the_real_operator_writes_what_the_checker_saw(seed: int) -> None:
    case = sequence_of(seed) if seed % 3 == 2 else scenario_of(seed)
    outcome = run_sequence(case) if isinstance(case, RequestSequence) else run_world(case)
    expected = outcome.result.outputs
    for shard, records in enumerate(log_of(case).partitions):
        scan = RulesScan(case.config.tick_ahead_bound_ms)
        for record in records:
            if record.key is None:
                scan.take(record.offset, record.value, record.timestamp_ms)
        config = replace(operator_config(case, shard), rule_changes=scan.changes)
        written = written_in_batches(records, config, RandomStreams(seed).of("cuts", shard))
        for (of_shard, group_id), outputs in expected.items():
            if of_shard == shard:
                records_of_group = [
                    record for record in written[group_id.encode()] if record.topic != config.topics.dead_letters
                ]
                assert records_of_group == [output_record(output, config) for output in outputs]
