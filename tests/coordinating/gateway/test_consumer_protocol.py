"""Unmodified consumers with `group.protocol=consumer` (KIP-848), in groups that the coordinator's core runs behind a
gateway."""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path

import pytest

from group_coordinator.coordinating.gateway.config import GatewaySettings
from group_coordinator.coordinating.gateway.server import Gateway
from schemas.error_codes import ErrorCode
from schemas.history import MemberExpired, MemberLeft, RequestRefused
from tests.coordinating.gateway.clients.consumers import ConsumerProcess, Consumers, Library, consumers_of, share
from tests.coordinating.gateway.clients.reading import reads, values
from tests.coordinating.gateway.clients.stories import Run, joins_reads_commits_leaves_and_resumes
from tests.coordinating.gateway.conftest import PARTITIONS, Produce, produce_to
from tests.coordinating.gateway.pump import Pump
from tests.waiting import wait_until

pytestmark = pytest.mark.end_to_end

LIBRARIES: tuple[Library, ...] = ("librdkafka", "java")
"""Those that have the protocol; franz-go's own tests are in test_go_clients.py."""


def start(consumers: Consumers, library: Library, group: str, **settings: str | int | bool) -> ConsumerProcess:
    return consumers.start(library, group, None, group_protocol="consumer", **settings)


def one_of_each(consumers: Consumers, group: str, **settings: str | int | bool) -> Run:
    """A consumer of each library, each in a group of its own."""
    return {library: start(consumers, library, f"{group}-{library}", **settings) for library in LIBRARIES}


def test_join_read_commit_leave_resume(consumers: Consumers, produce: Produce, pump: Pump) -> None:
    joins_reads_commits_leaves_and_resumes(partial(one_of_each, consumers, "group"), LIBRARIES, produce, pump)
    for library in LIBRARIES:
        assert pump.told(RequestRefused, f"group-{library}") == []


def test_members_of_both_libraries_in_one_group(consumers: Consumers, produce: Produce, pump: Pump) -> None:
    """Join one after the other, leave, crash, join again: each partition has one owner, each record is read."""
    produce(0, 60)
    members = []
    for library in (*LIBRARIES, *LIBRARIES):
        members.append(start(consumers, library, "both"))
        share(members, PARTITIONS)
    produce(60, 120)
    reads(120, *members)
    assert [member.said("lost") for member in members] == [[]] * 4
    members.pop().close()
    share(members, PARTITIONS)
    members.pop().kill()
    share(members, PARTITIONS)
    members.append(start(consumers, "java", "both"))
    share(members, PARTITIONS)
    produce(120, 180)
    wait_until(lambda: set(values(*consumers.all)) == set(range(180)))
    assert [record.member.client_id for record in pump.told(MemberExpired, "both")] == ["librdkafka-2"]
    assert [record.member.client_id for record in pump.told(MemberLeft, "both")] == ["java-3"]
    assert pump.told(RequestRefused, "both") == []


def test_partitions_move_one_by_one(consumers: Consumers, produce: Produce) -> None:
    """A member gives up what another is to have, and keeps the rest."""
    first = start(consumers, "java", "moves")
    share([first], PARTITIONS)
    second = start(consumers, "librdkafka", "moves")
    share([first, second], PARTITIONS)
    given_up = [set(words[1].split()) for words in first.said("revoked") if words[1]]
    assert [len(partitions) for partitions in given_up] == [PARTITIONS // 2]
    produce(0, 60)
    reads(60, first, second)
    assert values(first, second) == list(range(60))
    assert first.strays == second.strays == 0


def test_a_static_member_that_comes_back_moves_nothing(consumers: Consumers, pump: Pump) -> None:
    """It closes, which its client says to the coordinator with epoch -2, and starts again."""
    others = {
        library: start(consumers, "librdkafka", f"static-{library}", group_instance_id="other")
        for library in LIBRARIES
    }
    bounced = one_of_each(consumers, "static", group_instance_id="bounced")
    for library in LIBRARIES:
        share([others[library], bounced[library]], PARTITIONS)
    rebalances = {library: others[library].rebalances for library in LIBRARIES}
    owned = {library: set(bounced[library].owned) for library in LIBRARIES}
    for library in LIBRARIES:
        bounced[library].close()
    again = one_of_each(consumers, "static", group_instance_id="bounced")
    for library in LIBRARIES:
        wait_until(lambda library=library: again[library].owned == owned[library])  # type: ignore[misc]
        pump.wait_for_heartbeats(f"static-{library}", members=2)
        assert others[library].rebalances == rebalances[library]
        assert pump.told(MemberExpired, f"static-{library}") == []


def test_an_instance_id_that_is_in_use_is_not_given_to_a_second_client(consumers: Consumers, pump: Pump) -> None:
    first = one_of_each(consumers, "held", group_instance_id="i")
    for library in LIBRARIES:
        share([first[library]], PARTITIONS)
    second = one_of_each(consumers, "held", group_instance_id="i")
    for library in LIBRARIES:
        group_id = f"held-{library}"
        wait_until(lambda group_id=group_id: pump.told(RequestRefused, group_id))  # type: ignore[misc]
        assert {record.error_code for record in pump.told(RequestRefused, group_id)} == {
            ErrorCode.UNRELEASED_INSTANCE_ID
        }
        pump.wait_for_heartbeats(group_id, members=1)
        assert len(first[library].owned) == PARTITIONS
        assert second[library].owned == set()


def test_automatic_commits(consumers: Consumers, produce: Produce) -> None:
    produce(0, 60)
    first = one_of_each(consumers, "auto", enable_auto_commit=True, auto_commit_interval_ms=200)
    for library in LIBRARIES:
        reads(60, first[library])
        first[library].close()
    produce(60, 90)
    second = one_of_each(consumers, "auto")
    for library in LIBRARIES:
        reads(30, second[library])
        assert values(second[library]) == list(range(60, 90))


def test_a_member_that_does_not_poll_loses_its_place_and_gets_one_again(consumers: Consumers) -> None:
    slow = one_of_each(consumers, "slow", max_poll_interval_ms=7_000)
    others = {library: start(consumers, "librdkafka", f"slow-{library}") for library in LIBRARIES}
    for library in LIBRARIES:
        share([slow[library], others[library]], PARTITIONS)
        slow[library].tell("pause")
    for library in LIBRARIES:
        owns_as_many(others[library], PARTITIONS)
        slow[library].tell("resume")
    for library in LIBRARIES:
        owns_as_many(others[library], PARTITIONS // 2)


def owns_as_many(consumer: ConsumerProcess, count: int) -> None:
    consumer.wait_until(lambda: len(consumer.owned) == count, 40)


def test_a_coordinator_that_is_away_costs_no_partition(
    gateway_config: GatewaySettings, topic: str, java_classes: Path, pump: Pump
) -> None:
    """While the group is at rest, and once more when a member has just come.

    The gateway gives up before the heartbeat interval is over, as librdkafka does then, which forgets the answer.
    """
    timeout_ms = pump.group_config.group_consumer_heartbeat_interval_ms * 3 // 5
    config = dataclasses.replace(gateway_config, consumer_heartbeat_timeout_ms=timeout_ms)
    with Gateway(config) as gateway, consumers_of(gateway.bootstrap_servers, topic, java_classes) as consumers:
        produce = produce_to(gateway.bootstrap_servers, topic)
        members = [start(consumers, library, "away") for library in LIBRARIES]
        share(members, PARTITIONS)
        before = [member.rebalances for member in members]
        away(pump, gateway)
        produce(0, 60)
        reads(60, *members)
        pump.wait_for_heartbeats("away", members=len(members))
        assert [member.rebalances for member in members] == before
        joins = pump.pause_before(lambda group_id, request: getattr(request, "member_epoch", None) == 0)
        newcomer = start(consumers, "librdkafka", "away")
        assert joins.wait(60)
        away(pump, gateway)
        share([*members, newcomer], PARTITIONS)
        assert pump.told(MemberExpired, "away") == []
        assert pump.told(RequestRefused, "away") == []
        assert all(member.said("lost") == [] for member in members)


def away(pump: Pump, gateway: Gateway) -> None:
    """Until several requests have had no answer in time."""
    pump.pause()
    before = gateway.metrics.in_doubt
    wait_until(lambda: gateway.metrics.in_doubt >= before + 4)
    pump.resume()


def test_a_gateway_that_is_started_again_costs_no_partition(
    gateway: Gateway, gateway_config: GatewaySettings, consumers: Consumers, produce: Produce, pump: Pump
) -> None:
    members = [start(consumers, library, "restart") for library in LIBRARIES]
    share(members, PARTITIONS)
    before = [member.rebalances for member in members]
    gateway.stop()
    with Gateway(gateway_config):
        produce(0, 60)
        reads(60, *members)
        pump.wait_for_heartbeats("restart", members=len(members))
        assert [member.rebalances for member in members] == before
        assert values(*members) == list(range(60))
        assert pump.told(MemberExpired, "restart") == []
        assert pump.told(RequestRefused, "restart") == []
