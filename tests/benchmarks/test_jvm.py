"""The Java drivers run, and what Kafka's classes do with the workloads is what our core does."""

import pytest

from benchmarks.assignors import measure as measure_assignor
from benchmarks.assignors import with_kafka
from benchmarks.core import measure_kafka
from benchmarks.jvm import JvmError
from benchmarks.workloads import commits, heartbeats, joins, mixed
from coordinator_state.assignors import ASSIGNORS


@pytest.mark.kafka
def test_kafka_writes_the_same_records() -> None:
    workloads = [heartbeats(3, 100), joins(7), commits(5, 20), mixed(4, 2)]
    try:
        rates = measure_kafka(workloads, 0.05)
    except JvmError as problem:
        if "no Java compiler" in str(problem):
            pytest.skip(str(problem))
        raise
    assert list(rates) == [workload.name for workload in workloads]
    assert min(rates.values()) > 0


@pytest.mark.kafka
def test_kafka_comes_to_the_same_assignment() -> None:
    sizes = [(13, 700)]
    figures = [measure_assignor(ASSIGNORS["sticky"], "mixed", *sizes[0], runs=1)]
    try:
        (with_times,) = with_kafka(figures, sizes, 1)
    except JvmError as problem:
        if "no Java compiler" in str(problem):
            pytest.skip(str(problem))
        raise
    assert with_times.factors is not None
