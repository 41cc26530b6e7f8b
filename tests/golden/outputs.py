"""What the coordinator puts out for every input that the tests have: the digests of each output topic, by input.

A digest is SHA-256 over the lines that `replay --out` would write: partition, key, value and headers of each record.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks import heartbeat_groups
from benchmarks.day_log import write_log
from benchmarks.workloads import Workload, all_workloads, outputs_of
from coordinator_state import Coordinator, Group, GroupConfig, Output
from coordinator_state.outputs import GroupEvent
from group_coordinator.command_line.main import app
from schemas.events import encode_tick
from schemas.messages import ListedGroup
from schemas.output_records import NO_PARTITION, OutputRecord
from schemas.records_file import Record, encode_record
from streaming.config import StreamingConfig
from streaming.event_log import read_records
from streaming.replay import replay_in_process
from streaming.rows import output_record
from tests.streaming.mixed_groups import SETTINGS
from tests.streaming.random_log import RESPONSES_PARTITIONS, make_log
from tests.verify_history import histories

FIXTURES = Path(__file__).parents[1] / "fixtures"
START_MS = 1_767_225_600_000

Lines = dict[str, list[bytes]]
"""The records of each output topic, each as a line."""


def digests(lines: Lines) -> dict[str, str]:
    """The digest of each topic that has records."""
    return {topic: sha256(b"\n".join(records)).hexdigest() for topic, records in sorted(lines.items()) if records}


def inputs() -> dict[str, Callable[[Path], Lines]]:
    """Every input by its name, with the function that runs it. The function may write to the directory that it gets."""
    recordings = sorted([*FIXTURES.glob("recordings/*.request.log.gz"), *FIXTURES.glob("clusters/*.request.log.gz")])
    families = sorted(FIXTURES.glob("histories/*.jsonl.gz"))
    workloads = {
        f"workload: {workload.name}": partial(_of_workload, workload) for workload in all_workloads(quick=True)
    }
    return (
        {f"recording: {_name(path)}": partial(_of_recording, path) for path in recordings}
        | {f"histories: {_name(path)}": partial(_of_histories, path) for path in families}
        | workloads
        | {f"random log: {seed}": partial(_of_random_log, seed) for seed in (1, 2, 3)}
        | {f"log of both protocols: {seed}": partial(_of_both_protocols, seed) for seed in (1, 2)}
        | {"log of a day": _of_day_log, "heartbeats of many groups": _of_heartbeats}
    )


def _name(path: Path) -> str:
    return path.name.split(".")[0]


# ------------------------------------------------------------------------------------------------ ways to run an input


def _of_recording(path: Path, directory: Path) -> Lines:
    """A broker's request log, followed and replayed by the command.
    The events that it was made into are a topic, too."""
    result = CliRunner().invoke(app, ["replay", str(path), "--in-process", "--utc", "--out", str(directory)])
    assert result.exit_code == 0, result.output
    files = {path.name.removesuffix(".jsonl"): path.read_bytes() for path in directory.glob("*.jsonl")}
    files["events"] = gzip.decompress((directory / "events.jsonl.gz").read_bytes())
    return {topic: content.splitlines() for topic, content in files.items()}


class _CollectingCoordinator:
    """A coordinator of many groups that keeps all outputs, of all coordinators of its class."""

    def __init__(self, collected: list[Output], config: GroupConfig) -> None:
        self._coordinator = Coordinator(config)
        self._collected = collected

    @property
    def groups(self) -> dict[str, Group]:
        return self._coordinator.groups

    def advance_to(self, clock_ms: int) -> list[Output]:
        return self._keep(self._coordinator.advance_to(clock_ms))

    def handle(self, group_id: str, event: GroupEvent) -> list[Output]:
        return self._keep(self._coordinator.handle(group_id, event))

    def list_groups(self, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[ListedGroup]:
        return self._coordinator.list_groups(states, types)

    def _keep(self, outputs: list[Output]) -> list[Output]:
        self._collected += outputs
        return outputs


def _of_histories(path: Path, directory: Path) -> Lines:
    """All histories of a family, one after the other."""
    collected: list[Output] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(histories, "Coordinator", partial(_CollectingCoordinator, collected))
        report = histories.verify_histories([path])
    assert not report.differences
    return _of_outputs(collected)


def _of_workload(workload: Workload, directory: Path) -> Lines:
    return _of_outputs(outputs_of(workload))


def _of_random_log(seed: int, directory: Path) -> Lines:
    config = StreamingConfig.load(
        {"group_initial_rebalance_delay_ms": 1_000, "responses_partitions": RESPONSES_PARTITIONS}
    )
    return _replayed(make_log(seed), config)


def _of_both_protocols(seed: int, directory: Path) -> Lines:
    """A kept log of `make_log(seed, groups=2, mixed_groups=4, requests=600)`: whoever changes the simulation's members
    changes no digest."""
    config = StreamingConfig.load({**SETTINGS, "responses_partitions": RESPONSES_PARTITIONS})
    return _replayed(read_records([FIXTURES / "golden" / f"both_protocols_{seed}.jsonl.gz"]), config)


def _of_day_log(directory: Path) -> Lines:
    write_log(directory / "log.parquet", groups=3, members=2, heartbeats=300)
    return _replayed(read_records([directory / "log.parquet"]), StreamingConfig.load({}))


def _of_heartbeats(directory: Path) -> Lines:
    values = [
        *heartbeat_groups.beginnings(5),
        *(heartbeat_groups.heartbeat(number % 5, f"beat-{number}") for number in range(100)),
    ]
    keyed = [(None, encode_tick(START_MS)), *values, (None, encode_tick(START_MS + 1_000))]
    records = [
        Record(partition=0, offset=offset, timestamp_ms=START_MS + offset, key=key, value=value)
        for offset, (key, value) in enumerate(keyed)
    ]
    return _replayed(records, heartbeat_groups.config())


# ----------------------------------------------------------------------------------------------------- outputs as lines


def _of_outputs(outputs: Iterable[Output]) -> Lines:
    config = StreamingConfig.load({})
    operator_config = config.operator_config(partition=0)
    return _by_topic((output_record(output, operator_config) for output in outputs), config)


def _replayed(records: Iterable[Record], config: StreamingConfig) -> Lines:
    return _by_topic((record for _, group in replay_in_process(records, config) for record in group), config)


def _by_topic(records: Iterator[OutputRecord], config: StreamingConfig) -> Lines:
    lines: Lines = {}
    for record in records:
        partition = None if record.partition == NO_PARTITION else record.partition
        line = encode_record(Record(partition=partition, key=record.key, value=record.value, headers=record.headers))
        lines.setdefault(record.topic.removeprefix(f"{config.topic_prefix}."), []).append(line)
    return lines
