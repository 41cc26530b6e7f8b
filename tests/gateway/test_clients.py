"""Unmodified consumers of three libraries, in groups that the coordinator's core runs behind a gateway."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from gateway.config import GatewayConfig
from gateway.server import Gateway
from schemas.history import (
    MemberExpired,
    MemberFenced,
    MemberLeft,
    MemberReplaced,
    RebalanceCompleted,
    RebalanceStarted,
)
from tests.gateway.clients.consumers import LIBRARIES, ConsumerProcess, Consumers, Library, consumers_of, share
from tests.gateway.conftest import PARTITIONS, Produce, produce_to
from tests.gateway.pump import Pump

pytestmark = pytest.mark.end_to_end



def values(*consumers: ConsumerProcess) -> list[int]:
    return sorted(int(read.value) for consumer in consumers for read in list(consumer.records))


def eventually(is_so: Callable[[], bool], timeout_s: float = 30.0, tell: Callable[[], object] = lambda: "") -> None:
    deadline = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < deadline, tell()
        time.sleep(0.01)


def reads(count: int, *consumers: ConsumerProcess) -> None:
    """Wait until these have read so many records together."""
    eventually(
        lambda: len(values(*consumers)) >= count,
        tell=lambda: f"{len(values(*consumers))} of {count} read; {[each.events for each in consumers]}",
    )


@pytest.mark.parametrize("library", LIBRARIES)
def test_join_read_commit_leave_resume(library: Library, consumers: Consumers, produce: Produce, pump: Pump) -> None:
    produce(0, 120)
    first = consumers.start(library, "group", enable_auto_commit=False)
    share([first], PARTITIONS)
    reads(120, first)
    assert first.commit() == ["committed"]
    produce(120, 150)
    reads(150, first)
    first.close()
    second = consumers.start(library, "group")
    share([second], PARTITIONS)
    reads(30, second)
    time.sleep(0.5)
    assert values(first) == list(range(150))
    assert values(second) == list(range(120, 150)), "from where was committed, and nothing else"
    assert len(pump.told(MemberLeft, "group")) == 1
    assert pump.told(MemberExpired, "group") == []


@pytest.mark.parametrize("library", LIBRARIES)
def test_automatic_commits(library: Library, consumers: Consumers, produce: Produce) -> None:
    produce(0, 60)
    first = consumers.start(library, "group", enable_auto_commit=True, auto_commit_interval_ms=200)
    reads(60, first)
    first.close()
    produce(60, 90)
    second = consumers.start(library, "group")
    reads(30, second)
    time.sleep(0.5)
    assert values(second) == list(range(60, 90))


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


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_static_member_that_comes_back_moves_nothing(library: Library, consumers: Consumers, pump: Pump) -> None:
    other = consumers.start("librdkafka", "static", group_instance_id="other")
    bounced = consumers.start(library, "static", group_instance_id="bounced")
    share([other, bounced], PARTITIONS)
    had, rebalances, before = bounced.owned, other.rebalances, len(pump.told(RebalanceStarted, "static"))
    bounced.kill()
    again = consumers.start(library, "static", group_instance_id="bounced")
    again.wait_until(lambda: again.owned == had, 20)
    time.sleep(1.5)
    assert other.rebalances == rebalances
    assert len(pump.told(RebalanceStarted, "static")) == before
    assert [record.member.group_instance_id for record in pump.told(MemberReplaced, "static")] == ["bounced"]


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_second_client_with_the_same_instance_id_fences_the_first(
    library: Library, consumers: Consumers, pump: Pump
) -> None:
    first = consumers.start(library, "fence", group_instance_id="i", enable_auto_commit=False)
    share([first], PARTITIONS)
    second = consumers.start(library, "fence", group_instance_id="i", enable_auto_commit=False)
    share([second], PARTITIONS)
    if library == "kafka-python":
        first.commit()  # its heartbeat ends silently when it is told
    first.wait_until(lambda: "fenced" in str(first.said("error")).lower(), 20)
    assert pump.told(MemberFenced, "fence")
    assert second.said("error") == []


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


def test_a_coordinator_that_is_away_for_a_while_costs_no_partition(
    consumers: Consumers, produce: Produce, pump: Pump
) -> None:
    members = [consumers.start(library, "away", session_timeout_ms=45_000) for library in LIBRARIES]
    share(members, PARTITIONS)
    produce(0, 60)
    reads(60, *members)
    before = [each.rebalances for each in members]
    pump.pause()
    time.sleep(14)
    pump.resume()
    produce(60, 120)
    reads(120, *members)
    time.sleep(3)
    assert [each.rebalances for each in members] == before
    assert values(*members) == list(range(120))
    assert pump.told(MemberExpired, "away") == []


def test_a_coordinator_that_goes_away_in_the_middle_of_a_rebalance(
    consumers: Consumers, produce: Produce, pump: Pump
) -> None:
    members = [consumers.start(library, "midway", session_timeout_ms=45_000) for library in LIBRARIES]
    share(members, PARTITIONS)
    newcomer = consumers.start("librdkafka", "midway", session_timeout_ms=45_000)
    eventually(lambda: len(pump.told(RebalanceStarted, "midway")) > len(pump.told(RebalanceCompleted, "midway")))
    pump.pause()
    time.sleep(14)
    pump.resume()
    share([*members, newcomer], PARTITIONS)
    produce(0, 60)
    reads(60, *members, newcomer)
    assert pump.told(MemberExpired, "midway") == []
    assert all(each.said("lost") == [] for each in members)


def test_a_gateway_that_is_started_again_costs_no_rebalance(
    gateway: Gateway, gateway_config: GatewayConfig, consumers: Consumers, produce: Produce, pump: Pump
) -> None:
    members = [consumers.start(library, "restart") for library in LIBRARIES]
    share(members, PARTITIONS)
    before = len(pump.told(RebalanceStarted, "restart"))
    gateway.stop()
    time.sleep(2)
    with Gateway(gateway_config):
        produce(0, 60)
        reads(60, *members)
        time.sleep(3)
        assert len(pump.told(RebalanceStarted, "restart")) == before
        share(members, PARTITIONS)
        assert values(*members) == list(range(60))
        assert pump.told(MemberExpired, "restart") == []


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_consumer_that_does_not_poll_loses_its_place_and_gets_one_again(library: Library, consumers: Consumers) -> None:
    slow = consumers.start(library, "slow", max_poll_interval_ms=10_000)
    other = consumers.start("librdkafka", "slow")
    share([slow, other], PARTITIONS)
    slow.tell("pause")
    share([other], PARTITIONS) if library == "librdkafka" else other.wait_until(lambda: len(other.owned) == PARTITIONS, 40)
    slow.tell("resume")
    other.wait_until(lambda: len(other.owned) == PARTITIONS // 2, 40)


@pytest.mark.parametrize("library", LIBRARIES)
def test_seek_after_a_rebalance(library: Library, consumers: Consumers, produce: Produce, topic: str) -> None:
    produce(0, 60)
    consumer = consumers.start(library, "seek")
    reads(60, consumer)
    consumer.tell(f"seek {topic} 2 4")
    reads(66, consumer)
    assert [read.offset for read in consumer.records if read.partition == 2] == [*range(10), *range(4, 10)]


def test_heartbeats_answered_at_the_door(
    gateway_config: GatewayConfig, topic: str, java_classes: Path, pump: Pump
) -> None:
    """Behind a coordinator that takes two seconds for an answer: heartbeats wait for none, and rebalances go on as ever."""
    pump.delay_s = 1.0
    config = msgspec.structs.replace(gateway_config, answers_heartbeats=True)
    with Gateway(config) as gateway, consumers_of(gateway.bootstrap_servers, topic, java_classes) as consumers:
        members = []
        for library in LIBRARIES:
            members.append(consumers.start(library, "door"))
            share(members, PARTITIONS, timeout_s=60)
        produce_to(gateway.bootstrap_servers, topic)(0, 60)
        reads(60, *members)
        time.sleep(5)
        members[0].kill()
        share(members[1:], PARTITIONS, timeout_s=60)
        assert gateway.metrics.answer_ms["Heartbeat"].quantile(0.7) <= 50
        assert gateway.metrics.answer_ms["OffsetCommit"].quantile(0.5) >= 500
        assert [record.member.client_id for record in pump.told(MemberExpired, "door")] == [members[0].name]
        assert {record.outcome for record in pump.told(RebalanceCompleted, "door")} == {"stable"}
