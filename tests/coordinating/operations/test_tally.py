"""Counting: what the coordinator writes is counted once, by what it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import msgspec
import pytest

from group_coordinator.ground.monitoring import metrics as m
from group_coordinator.watching.group_metrics.repeats import Remembered, Repeats
from schemas.events import SESSION_RENEWAL, GroupEventBody, SessionRenewal
from schemas.history import decode_history
from tests.coordinating.operations.records import APPEND_MS, log, outputs
from tests.coordinating.operations.tally_bench import SHARDS, TOPICS, Bench, bench


@pytest.fixture
def counted() -> Bench:
    tally_bench = bench()
    tally_bench.count(log(), outputs(log()))
    return tally_bench


def test_events_by_api(counted: Bench) -> None:
    apis = {
        "tick": 2, "unreadable": 1, "JoinGroup": 2, "SyncGroup": 1, "OffsetCommit": 1, "Heartbeat": 1, "LeaveGroup": 1,
    }  # fmt: skip
    assert {api: counted.value(m.EVENTS, api=api) for api in apis} == apis


def test_an_api_that_nobody_knows_makes_no_series(counted: Bench) -> None:
    before = counted.value(m.EVENTS, api="unreadable") or 0
    counted.tally.event(0, 99, 0, b"g", b'{"type":"request","api":"made up"}')
    counted.tally.event(0, 100, 0, b"g", None)
    assert counted.value(m.EVENTS, api="unreadable") == before + 2


@pytest.mark.parametrize("fact", [kind for kind in get_args(GroupEventBody) if kind.__module__ != "schemas.recorded"])
def test_every_event_of_a_live_log_has_a_name(counted: Bench, fact: type) -> None:
    tag = str(msgspec.inspect.type_info(fact).tag)  # type: ignore[attr-defined]
    before = counted.value(m.EVENTS, api=tag)
    value = SESSION_RENEWAL if fact is SessionRenewal else msgspec.json.encode({"type": tag})
    counted.tally.event(0, 99, 0, b"g", value)
    assert before == 0
    assert counted.value(m.EVENTS, api=tag) == 1


def test_answers_by_error_wherever_it_stands(counted: Bench) -> None:
    assert counted.value(m.ANSWERS, api="JoinGroup", error="NONE") == 2
    assert counted.value(m.ANSWERS, api="Heartbeat", error="ILLEGAL_GENERATION") == 1
    assert counted.value(m.ANSWERS, api="OffsetCommit", error="NONE") == 1
    nested = b'{"group_id":"g","epoch":9,"seq":1,"api":"OffsetCommit","answers_offset":1,"body":{"topics":[{"name":"t","partitions":[{"partition_index":0,"error_code":0},{"partition_index":1,"error_code":25}]}]}}'
    counted.tally.answer(0, 0, nested)
    assert counted.value(m.ANSWERS, api="OffsetCommit", error="UNKNOWN_MEMBER_ID") == 1


def test_how_long_answers_took(counted: Bench) -> None:
    assert counted.value(m.ANSWER_SECONDS, "_count", api="Heartbeat") == 1
    assert counted.value(m.ANSWER_SECONDS, "_sum", api="Heartbeat") == APPEND_MS / 1_000


def test_what_happened_to_groups(counted: Bench) -> None:
    assert counted.value(m.REBALANCES, trigger="member_joined") == 2
    assert counted.value(m.REBALANCES, trigger="member_left") == 1
    assert counted.value(m.MEMBERS_JOINED) == 2
    assert counted.value(m.MEMBERS_GONE, reason="left") == 1
    assert counted.value(m.REFUSALS, api="Heartbeat", rule="generation_differs", error="ILLEGAL_GENERATION") == 1
    assert counted.value(m.DEAD_LETTERS, reason="not_an_envelope") == 1
    assert counted.value(m.REBALANCE_SECONDS, "_count", outcome="stable") == 1


def test_a_commit_of_three_partitions_is_one_commit_of_three_offsets(counted: Bench) -> None:
    assert counted.value(m.COMMITS) == 1
    assert counted.value(m.OFFSETS, change="committed") == 3


def test_what_is_written_twice_counts_once(counted: Bench) -> None:
    before = exposition(counted)
    counted.count([], outputs(log()))
    assert exposition(counted) == before


def exposition(tally_bench: Bench) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    families = [family for family in tally_bench.metrics.registry.collect() if family.name.startswith(m.PREFIX)]
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def test_a_refusal_on_another_partition_hides_nothing() -> None:
    """A request that was sent to the wrong partition is refused there, under a larger epoch than the group's own."""
    tally_bench, history = bench(), [output for output in outputs(log()) if output.topic == TOPICS.history]
    refused = next(value for output in history if b'"request_refused"' in (value := output.value or b""))
    record = msgspec.json.decode(refused)
    stray = record | {"epoch": 10**9, "cause": record["cause"] | {"partition": 1}}
    assert tally_bench.tally.history(decode_history(msgspec.json.encode(stray)))
    tally_bench.count([], history)
    assert tally_bench.value(m.MEMBERS_JOINED) == 2


def test_groups_of_other_processes_are_not_counted_here() -> None:
    tally_bench = bench(shard=None)
    tally_bench.count([], outputs(log()))
    assert tally_bench.value(m.MEMBERS_JOINED) == 0
    assert tally_bench.value(m.ANSWERS, api="JoinGroup", error="NONE") == 0
    assert tally_bench.tally.dead_letter(frozenset({7}), b"g", {"partition": "3", "reason": "bad_body"}) is None


def test_what_is_none_of_ours_is_an_error_of_one_kind(counted: Bench) -> None:
    tally = counted.tally
    takes: list[Callable[[], object]] = [
        lambda: decode_history(b"{}"), lambda: tally.answer(0, 0, b"\xff"), lambda: tally.group(b"g", b"[]")
    ]  # fmt: skip
    for take in takes:
        with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)):
            take()


def test_memory_for_repeats_is_bounded() -> None:
    repeats = Repeats(groups_max=2)
    assert [repeats.is_new("t", 0, group, 1, 1) for group in ("a", "b", "a", "c")] == [True, True, False, True]
    assert repeats.is_new("t", 0, "b", 1, 2)
    assert repeats.is_new("t", 1, "b", 1, 2), "partitions have no order among them"
    remembered = Remembered(2)
    for number in range(10):
        remembered[number] = None
    assert list(remembered) == [8, 9]


def test_a_series_is_there_before_its_first_occurrence() -> None:
    """Or Prometheus sees no rise when there is one."""
    tally_bench = bench()
    for metric in (metric for metric in m.METRICS if metric.labels and metric.kind != "gauge"):
        assert metric.known or metric is m.REFUSALS or "shard" in metric.labels, (
            metric.name
        )  # shards: see test_shards.py
        for values in metric.known:
            labels = dict(zip(metric.labels, values, strict=True))
            assert tally_bench.value(metric, "_count" if metric.kind == "histogram" else "", **labels) == 0


def test_a_reason_that_nobody_knows_makes_no_series() -> None:
    tally_bench = bench()
    assert (
        tally_bench.tally.dead_letter(SHARDS, b"g", {"partition": "0", "offset": "1", "reason": "made up"}) == "made up"
    )
    assert tally_bench.value(m.DEAD_LETTERS, reason="made up") is None
    assert tally_bench.value(m.DEAD_LETTERS, reason="unreadable") == 1
