"""Unmodified consumers of three libraries, in groups that the coordinator's core runs behind a gateway."""

from __future__ import annotations

import time
from functools import partial

import pytest

from group_coordinator.coordinating.gateway.config import GatewaySettings
from group_coordinator.coordinating.gateway.server import Gateway
from schemas.history import (
    MemberExpired,
    MemberFenced,
    MemberLeft,
    MemberReplaced,
    RebalanceCompleted,
    RebalanceStarted,
)
from tests.coordinating.gateway.clients.consumers import (
    LIBRARIES,
    ConsumerProcess,
    Consumers,
    share,
    with_kafka_python,
)
from tests.coordinating.gateway.clients.reading import reads, values
from tests.coordinating.gateway.clients.stories import Run, joins_reads_commits_leaves_and_resumes
from tests.coordinating.gateway.conftest import PARTITIONS, Produce
from tests.coordinating.gateway.pump import Pump
from tests.waiting import wait_until

pytestmark = pytest.mark.end_to_end


def one_of_each(consumers: Consumers, group: str, **settings: str | int | bool) -> Run:
    """A consumer of each library, each in a group of its own:
    what one of them waits for does not hold up the others."""
    return {library: consumers.start(library, f"{group}-{library}", None, **settings) for library in LIBRARIES}


@with_kafka_python
def test_join_read_commit_leave_resume(consumers: Consumers, produce: Produce, pump: Pump) -> None:
    joins_reads_commits_leaves_and_resumes(partial(one_of_each, consumers, "group"), LIBRARIES, produce, pump)


@with_kafka_python
def test_automatic_commits_and_seek(consumers: Consumers, produce: Produce, topic: str) -> None:
    produce(0, 60)
    first = one_of_each(consumers, "group", enable_auto_commit=True, auto_commit_interval_ms=200)
    for library in LIBRARIES:
        reads(60, first[library])
        first[library].close()
    produce(60, 90)
    second = one_of_each(consumers, "group")
    for library in LIBRARIES:
        reads(30, second[library])
    produce(90, 90 + PARTITIONS)  # one in each partition, behind all that could be read twice
    for library in LIBRARIES:
        reads(30 + PARTITIONS, second[library])
        assert values(second[library]) == list(range(60, 90 + PARTITIONS))
        second[library].tell(f"seek {topic} 2 4")
    for library in LIBRARIES:
        reads(30 + PARTITIONS + 12, second[library])
        offsets = [read.offset for read in second[library].records if read.partition == 2]
        assert offsets == [*range(10, 16), *range(4, 16)]


@with_kafka_python
def test_three_libraries_in_one_group(consumers: Consumers, produce: Produce, pump: Pump) -> None:
    """Join one after the other, leave, crash, join again: each partition has one owner, each record is read."""
    produce(0, 60)
    members = [consumers.start("librdkafka", "mixed", session_timeout_ms=6_000)]
    share(members, PARTITIONS)
    members.append(consumers.start("kafka-python", "mixed", session_timeout_ms=6_000))
    share(members, PARTITIONS)
    members.append(consumers.start("java", "mixed", session_timeout_ms=6_000))
    share(members, PARTITIONS)
    rdkafka, python, java = members
    produce(60, 120)
    reads(120, *members)
    python.close()
    share([rdkafka, java], PARTITIONS)
    java.kill()
    share([rdkafka], PARTITIONS)
    members.append(consumers.start("java", "mixed"))
    share([rdkafka, members[-1]], PARTITIONS)
    produce(120, 180)
    reads(180, *members)
    assert set(values(*members)) == set(range(180))
    assert [record.member.client_id for record in pump.told(MemberExpired, "mixed")] == [java.name]
    assert [record.member.client_id for record in pump.told(MemberLeft, "mixed")] == [python.name]
    assert {record.outcome for record in pump.told(RebalanceCompleted, "mixed")} == {"stable"}


@with_kafka_python
def test_a_static_member_that_comes_back_moves_nothing(consumers: Consumers, pump: Pump) -> None:
    others = {
        library: consumers.start("librdkafka", f"static-{library}", group_instance_id="other") for library in LIBRARIES
    }
    bounced = one_of_each(consumers, "static", group_instance_id="bounced")
    for library in LIBRARIES:
        share([others[library], bounced[library]], PARTITIONS)
    rebalances = {library: others[library].rebalances for library in LIBRARIES}
    before = {library: len(pump.told(RebalanceStarted, f"static-{library}")) for library in LIBRARIES}
    for library in LIBRARIES:
        bounced[library].kill()
    again = one_of_each(consumers, "static", group_instance_id="bounced")
    for library in LIBRARIES:
        owns(again[library], bounced[library].owned)
    for library in LIBRARIES:
        pump.wait_for_heartbeats(f"static-{library}", members=2)
        assert others[library].rebalances == rebalances[library]
        assert len(pump.told(RebalanceStarted, f"static-{library}")) == before[library]
        replaced = pump.told(MemberReplaced, f"static-{library}")
        assert [record.member.group_instance_id for record in replaced] == ["bounced"]


@with_kafka_python
def test_a_second_client_with_the_same_instance_id_fences_the_first(consumers: Consumers, pump: Pump) -> None:
    first = one_of_each(consumers, "fence", group_instance_id="i", enable_auto_commit=False)
    for library in LIBRARIES:
        share([first[library]], PARTITIONS)
    second = one_of_each(consumers, "fence", group_instance_id="i", enable_auto_commit=False)
    for library in LIBRARIES:
        share([second[library]], PARTITIONS)
        if library == "kafka-python":
            first[library].commit()  # its heartbeat ends silently when it is told
        is_told_that_it_is_fenced(first[library])
        assert pump.told(MemberFenced, f"fence-{library}")
        assert second[library].said("error") == []


def is_told_that_it_is_fenced(consumer: ConsumerProcess) -> None:
    consumer.wait_until(lambda: "fenced" in str(consumer.said("error")).lower(), 20)


@with_kafka_python
def test_cooperative_members_keep_what_they_have(consumers: Consumers, produce: Produce) -> None:
    strategy = "cooperative-sticky"
    members: list[ConsumerProcess] = []
    for library in LIBRARIES:
        members.append(consumers.start(library, "cooperative", partition_assignment_strategy=strategy))
        share(members, PARTITIONS, timeout_s=60)
    produce(0, 60)
    reads(60, *members)
    assert values(*members) == list(range(60))
    members.pop().close()
    share(members, PARTITIONS, timeout_s=60)
    first = members[0]
    assert first.said("lost") == []
    given_up = [set(words[1].split()) for words in first.said("revoked") if words[1]]
    assert all(len(partitions) <= 3 for partitions in given_up), "never all of them at once"


@with_kafka_python
def test_a_coordinator_that_is_away_costs_no_partition(consumers: Consumers, produce: Produce, pump: Pump) -> None:
    """While the group is at rest, and once more in the middle of a rebalance."""
    members = [consumers.start(library, "away", session_timeout_ms=45_000) for library in LIBRARIES]
    share(members, PARTITIONS)
    produce(0, 60)
    reads(60, *members)
    before = [member.rebalances for member in members]
    away(pump)
    produce(60, 120)
    reads(120, *members)
    pump.wait_for_heartbeats("away", members=len(members))
    assert [member.rebalances for member in members] == before
    assert values(*members) == list(range(120))
    newcomer = consumers.start("librdkafka", "away", session_timeout_ms=45_000)
    wait_until(lambda: len(pump.told(RebalanceStarted, "away")) > len(pump.told(RebalanceCompleted, "away")))
    away(pump)
    share([*members, newcomer], PARTITIONS)
    produce(120, 180)
    reads(180, *members, newcomer)
    assert pump.told(MemberExpired, "away") == []
    assert all(member.said("lost") == [] for member in members)


def away(pump: Pump) -> None:
    """For many heartbeats, by the clients' clocks."""
    pump.pause()
    time.sleep(8)
    pump.resume()


@with_kafka_python
def test_a_gateway_that_is_started_again_costs_no_rebalance(
    gateway: Gateway, gateway_config: GatewaySettings, consumers: Consumers, produce: Produce, pump: Pump
) -> None:
    members = [consumers.start(library, "restart") for library in LIBRARIES]
    share(members, PARTITIONS)
    before = len(pump.told(RebalanceStarted, "restart"))
    gateway.stop()
    time.sleep(2)  # a few heartbeats of the clients find nobody
    with Gateway(gateway_config):
        produce(0, 60)
        reads(60, *members)
        pump.wait_for_heartbeats("restart", members=len(members))
        assert len(pump.told(RebalanceStarted, "restart")) == before
        share(members, PARTITIONS)
        assert values(*members) == list(range(60))
        assert pump.told(MemberExpired, "restart") == []


@with_kafka_python
def test_a_consumer_that_does_not_poll_loses_its_place_and_gets_one_again(consumers: Consumers) -> None:
    slow = one_of_each(consumers, "slow", max_poll_interval_ms=7_000, session_timeout_ms=6_000)
    others = {library: consumers.start("librdkafka", f"slow-{library}") for library in LIBRARIES}
    for library in LIBRARIES:
        share([slow[library], others[library]], PARTITIONS)
    for library in LIBRARIES:
        slow[library].tell("pause")
    for library in LIBRARIES:
        owns_as_many(others[library], PARTITIONS)
        slow[library].tell("resume")
    for library in LIBRARIES:
        owns_as_many(others[library], PARTITIONS // 2)


def owns(consumer: ConsumerProcess, partitions: set[int]) -> None:
    consumer.wait_until(lambda: consumer.owned == partitions, 40)


def owns_as_many(consumer: ConsumerProcess, count: int) -> None:
    consumer.wait_until(lambda: len(consumer.owned) == count, 40)
