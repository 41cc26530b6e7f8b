"""What must not be felt at the wrong moment: a coordinator that is away in the middle of each phase;
a rolling change of strategy."""

from __future__ import annotations

import time
from typing import Literal

import pytest

from group_coordinator.coordinating.gateway.server import Gateway
from schemas.history import MemberExpired, ProtocolChosen, RebalanceCompleted
from schemas.messages import JoinGroupRequest, LeaveGroupRequest, OffsetCommitRequest, Request, SyncGroupRequest
from tests.coordinating.gateway.clients import consumers as libraries
from tests.coordinating.gateway.clients.consumers import ConsumerProcess, Consumers, Library, share
from tests.coordinating.gateway.clients.reading import reads, values
from tests.coordinating.gateway.conftest import PARTITIONS, Produce
from tests.coordinating.gateway.pump import Pump
from tests.waiting import wait_until

pytestmark = pytest.mark.end_to_end

AWAY_S = 3.0
"""For many heartbeats."""
Phase = Literal["first join", "sync", "commit", "leave", "second round"]
MET: dict[Phase, type[Request]] = {
    "first join": JoinGroupRequest,
    "sync": SyncGroupRequest,
    "commit": OffsetCommitRequest,
    "leave": LeaveGroupRequest,
    "second round": JoinGroupRequest,
}
"""The request before which the coordinator goes."""


@pytest.mark.parametrize("phase", MET)
def test_a_coordinator_that_is_away_in_the_middle_of(
    phase: Phase, consumers: Consumers, produce: Produce, pump: Pump, gateway: Gateway
) -> None:
    strategy = "cooperative-sticky" if phase == "second round" else "range"

    def start(library: Library) -> ConsumerProcess:
        return consumers.start(
            library, "phase", session_timeout_ms=45_000, enable_auto_commit=False,
            partition_assignment_strategy=strategy,
        )  # fmt: skip

    def completed() -> int:
        return len(pump.told(RebalanceCompleted, "phase"))

    produce(0, 60)
    members: list[ConsumerProcess] = []
    before: dict[str, tuple[Library, ...]] = {
        "first join": (), "commit": ("librdkafka", "java"), "leave": ("librdkafka", "java")
    }  # fmt: skip
    for library in before.get(phase, ("librdkafka",)):
        members.append(start(library))
        share(members, PARTITIONS)
    if phase == "commit":  # who has read nothing in this generation has nothing to commit
        counts = [len(member.records) for member in members]
        produce(60, 120)
        wait_until(lambda: all(len(member.records) > count for member, count in zip(members, counts, strict=True)))
    rounds = completed() + (phase == "second round")
    met = pump.pause_before(lambda _, request: isinstance(request, MET[phase]) and completed() >= rounds)
    leaving: list[ConsumerProcess] = []
    if phase == "commit":
        for member in members:
            member.tell("commit")
    elif phase == "leave":
        leaving.append(members.pop())
        leaving[0].tell("close")
    else:
        members.append(start("java"))
    assert met.wait(30)
    time.sleep(AWAY_S)  # by the clients' clocks
    pump.resume()
    share(members, PARTITIONS)
    produce(60, 120)
    wait_until(lambda: set(values(*members, *leaving)) == set(range(120)), message=lambda: values(*members, *leaving))
    if phase == "commit":
        for member in members:
            member.wait_until(lambda member=member: member.said("committed") != [], 20)  # type: ignore[misc]
    assert gateway.metrics.in_doubt == 0
    assert pump.told(MemberExpired, "phase") == []
    assert {record.outcome for record in pump.told(RebalanceCompleted, "phase")} == {"stable"}
    assert [consumer.said("lost", "error") for consumer in (*members, *leaving)] == [[]] * (len(members) + len(leaving))


def test_a_rolling_change_from_range_to_cooperative_sticky(
    consumers: Consumers, produce: Produce, pump: Pump, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Kafka says to do it (KIP-429): each member is restarted with both strategies, then with the new one.
    librdkafka refuses to have both."""
    names = libraries.JAVA_ASSIGNORS
    monkeypatch.setitem(names, "both", f"{names['cooperative-sticky']},{names['range']}")
    members = [consumers.start("java", "rolling", partition_assignment_strategy="range") for _ in range(2)]
    share(members, PARTITIONS)
    produce(0, 60)
    reads(60, *members)
    everyone = list(members)
    for strategy in ("both", "cooperative-sticky"):
        for index in range(2):
            members[index].close()
            members[index] = consumers.start("java", "rolling", partition_assignment_strategy=strategy)
            everyone.append(members[index])
            share(members, PARTITIONS)
    produce(60, 120)
    reads(120, *everyone)
    assert values(*everyone) == list(range(120)), "each of them once: they commit when they close"
    assert pump.told(MemberExpired, "rolling") == []
    chosen = [record.protocol_name for record in pump.told(ProtocolChosen, "rolling")]
    assert (chosen[0], chosen[-1]) == ("range", "cooperative-sticky")
    assert chosen == sorted(chosen, reverse=True), "changed once"
