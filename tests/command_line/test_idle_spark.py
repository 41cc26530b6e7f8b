"""When Spark gives way to everybody else, and when it does so no more."""

from __future__ import annotations

import pytest

from group_coordinator.coordinating.commands.idle_spark import IN_TIME_S, PATIENCE_MIN_S, IdleSpark

JVM = 4711


class Policies:
    """Says what was done, and is the clock."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.now_s = 1_000.0

    def take(self, process_id: int) -> None:
        assert process_id == JVM
        self.done.append("take")

    def leave(self, process_id: int) -> None:
        assert process_id == JVM
        self.done.append("leave")


def run(policies: Policies, spark: IdleSpark, seconds: float, every_s: float | None, shards: int = 1) -> None:
    """Let time go on, with a batch of each shard every so often."""
    for step in range(round(seconds * 4)):
        policies.now_s += 0.25
        if every_s is not None and step % round(every_s * 4) == 0:
            for shard in range(shards):
                spark.batch_ended(shard)
        spark.look()


def made(policies: Policies, shards: int = 1, trigger_interval_ms: int = 2_000) -> IdleSpark:
    return IdleSpark(
        JVM, range(shards), trigger_interval_ms, policy=policies, now_s=lambda: policies.now_s
    )


def test_spark_gives_way_after_a_minute_of_batches_in_time() -> None:
    policies = Policies()
    spark = made(policies)
    run(policies, spark, IN_TIME_S - 1, 2.0)
    assert policies.done == []
    run(policies, spark, 600, 2.0)
    assert policies.done == ["take"]
    spark.leave()
    spark.leave()
    assert policies.done == ["take", "leave"]


def test_a_late_batch_ends_it_before_it_ends_itself() -> None:
    policies = Policies()
    spark = made(policies)
    run(policies, spark, IN_TIME_S + 1, 2.0)
    run(policies, spark, 5, None)
    assert policies.done == ["take"]
    run(policies, spark, 3, None)
    assert policies.done == ["take", "leave"]


def test_where_batches_are_late_for_good_it_is_not_tried_again() -> None:
    policies = Policies()
    spark = made(policies)
    run(policies, spark, 600, 15.0)
    assert policies.done == []
    run(policies, spark, IN_TIME_S + 30, 2.0)
    assert policies.done == ["take"]


def test_one_shard_that_is_late_is_enough() -> None:
    policies = Policies()
    spark = made(policies, shards=2)
    run(policies, spark, IN_TIME_S + 1, 2.0, shards=2)
    run(policies, spark, 20, 2.0, shards=1)
    assert policies.done == ["take", "leave"]


@pytest.mark.parametrize(("trigger_interval_ms", "patience_s"), [(0, PATIENCE_MIN_S), (10_000, 30.0)])
def test_what_late_is_depends_on_how_often_batches_are_to_come(trigger_interval_ms: int, patience_s: float) -> None:
    policies = Policies()
    spark = made(policies, trigger_interval_ms=trigger_interval_ms)
    run(policies, spark, IN_TIME_S + 1, 1.0)
    run(policies, spark, patience_s - 1, None)
    assert policies.done == ["take"]
    run(policies, spark, 2, None)
    assert policies.done == ["take", "leave"]
