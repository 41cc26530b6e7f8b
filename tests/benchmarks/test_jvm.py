"""The Java drivers run, and what Kafka's classes do with the workloads is what our core does."""

import pytest

from benchmarks import assignors, core, jvm, server_assignors
from benchmarks.assignors import measure as measure_assignor
from benchmarks.assignors import with_kafka
from benchmarks.core import measure_kafka
from benchmarks.jvm import Mismatch
from benchmarks.workloads import commits, heartbeats, joins, mixed
from coordinator_state.consumer.assignors import SERVER_ASSIGNORS
from group_coordinator.coordinating.assignors import ASSIGNORS
from group_coordinator.coordinating.jars.java import SHORT_LIVED
from tests.java_compiler import skipping_without_java_compiler


@pytest.fixture(autouse=True)
def nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Kafka's classes do counts here, not how fast."""
    monkeypatch.setattr(jvm, "MEASURED", SHORT_LIVED)


@pytest.mark.kafka
def test_kafka_writes_the_same_records() -> None:
    workloads = [heartbeats(3, 100), joins(7), commits(5, 20), mixed(4, 2)]
    with skipping_without_java_compiler():
        rates = measure_kafka(workloads, 0.05)
    assert list(rates) == [workload.name for workload in workloads]
    assert min(rates.values()) > 0


@pytest.mark.kafka
def test_kafka_comes_to_the_same_assignment() -> None:
    sizes = [(13, 700), (12, 1_200)]  # names of the latter share buckets of Java's maps
    figures = [measure_assignor(ASSIGNORS["sticky"], "mixed", *size, runs=1) for size in sizes]
    with skipping_without_java_compiler():
        with_times = list(with_kafka(figures, sizes, 1))
    assert all(time.factors is not None for time in with_times)


@pytest.mark.kafka
@pytest.mark.parametrize("kind", ["same", "mixed"])
@pytest.mark.parametrize("name", ["uniform", "range"])
def test_kafkas_coordinator_comes_to_the_same_target_assignment(name: str, kind: str) -> None:
    sizes = [(13, 700), (40, 1_200)]
    figures = [server_assignors.measure(SERVER_ASSIGNORS[name], kind, *size, runs=1) for size in sizes]
    with skipping_without_java_compiler():
        with_times = list(with_kafka(figures, sizes, 1, "ServerAssignorBenchmark"))
    assert all(time.factors is not None for time in with_times)


def test_other_records_fail_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = commits(5, 20)
    monkeypatch.setattr(core, "run_driver", lambda *_: [f"{workload.jvm} 1000.0 {len(workload.values)} 1 1"])
    with pytest.raises(Mismatch, match="Kafka wrote 1 records of 1 bytes"):
        core.run([workload], quick=True, jvm=True)


def test_another_assignment_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [(3, 200)]
    figures = [measure_assignor(ASSIGNORS["range"], "same", *sizes[0], runs=1)]
    monkeypatch.setattr(assignors, "run_driver", lambda *_: ["1.0 1.0 1 1"])
    with pytest.raises(Mismatch, match="Kafka's assignment is another one"):
        list(with_kafka(figures, sizes, 1))


def test_what_kafka_does_not_finish_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [(3, 200), (4, 300)]
    figures = [measure_assignor(ASSIGNORS["range"], "same", *size, runs=1) for size in sizes]
    first = " ".join(map(str, figures[0].checksums))
    monkeypatch.setattr(assignors, "run_driver", lambda *_: [f"1.0 1.0 {first}"])
    assert [measured.stopped for measured in with_kafka(figures, sizes, 1)] == [False, True]
    assert not any(figure.stopped for figure in figures)
