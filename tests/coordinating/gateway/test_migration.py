"""From the classic protocol to the consumer protocol (KIP-848) and back, member by member, without a pause: groups of
unmodified consumers of both protocols behind a gateway."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import pytest

from schemas.consumer_group_history import GroupConverted
from schemas.history import MemberExpired, OffsetsCommitted, RequestRefused
from tests.coordinating.gateway.clients.consumers import ConsumerProcess, Consumers, Library, share
from tests.coordinating.gateway.clients.reading import values
from tests.coordinating.gateway.conftest import PARTITIONS, Produce
from tests.coordinating.gateway.pump import Pump
from tests.waiting import wait_until

pytestmark = pytest.mark.end_to_end

BATCH = 30


@contextmanager
def producing(produce: Produce) -> Iterator[list[int]]:
    """Records all the while; how many there are."""
    count, stop = [0], Event()

    def work() -> None:
        while not stop.wait(0.2):
            produce(count[0], count[0] + BATCH)
            count[0] += BATCH

    thread = Thread(target=work)
    thread.start()
    try:
        yield count
    finally:
        stop.set()
        thread.join()


def start(consumers: Consumers, library: Library, protocol: str, strategy: str = "range") -> ConsumerProcess:
    return consumers.start(
        library, "rolling", None, group_protocol=protocol, partition_assignment_strategy=strategy,
        enable_auto_commit=True,
    )  # fmt: skip


def roll(consumers: Consumers, members: list[ConsumerProcess], protocol: str, strategy: str, pump: Pump) -> None:
    """Replace one member after the other by one that speaks the other protocol. Who gives up partitions commits before
    what it has read of them.

    Each time when the group has settled: a classic member that has not come to the group's epoch when the last new
    member leaves loses its place, as at a broker, and what it has not committed is read again.
    """
    for place, member in enumerate(members):
        member.close()
        share([other for other in members if other is not member], PARTITIONS, timeout_s=60)
        members[place] = start(consumers, member.library, protocol, strategy)
        share(members, PARTITIONS, timeout_s=60)
        wait_until(lambda: pump.coordinator.groups["rolling"].body.state_name == "Stable")


@pytest.mark.flaky(reruns=1)  # a classic member that joins reads on after its commit (ConsumerProgram.java)
@pytest.mark.parametrize(
    ("strategy", "libraries"), [("range", ("java", "librdkafka", "java")), ("cooperative-sticky", ("java",) * 3)]
)
def test_a_rolling_migration_up_and_down_loses_and_doubles_nothing(
    consumers: Consumers, produce: Produce, pump: Pump, strategy: str, libraries: tuple[Library, ...]
) -> None:
    """A leader of librdkafka puts user data into cooperative-sticky assignments, so Kafka would not convert the group
    (`ConsumerGroup.fromClassicGroup`)."""
    with producing(produce) as count:
        members = []
        for library in libraries:
            members.append(start(consumers, library, "classic", strategy))
            share(members, PARTITIONS, timeout_s=60)
        roll(consumers, members, "consumer", strategy, pump)
        assert [record.to_protocol for record in pump.told(GroupConverted, "rolling")] == ["consumer"]
        roll(consumers, members, "classic", strategy, pump)
        assert [record.to_protocol for record in pump.told(GroupConverted, "rolling")] == ["consumer", "classic"]
    wait_until(
        lambda: set(values(*consumers.all)) == set(range(count[0])),
        message=lambda: f"missing {sorted(set(range(count[0])) - set(values(*consumers.all)))[:20]}",
    )
    doubled = [value for value, times in Counter(values(*consumers.all)).items() if times > 1]
    assert doubled == [], doubled_because(consumers, pump, set(doubled))
    assert pump.told(MemberExpired, "rolling") == []
    assert all(consumer.jumps == [] for consumer in consumers.all)
    assert [record.rule for record in pump.told(RequestRefused, "rolling")] == []


def doubled_because(consumers: Consumers, pump: Pump, doubled: set[int]) -> str:
    """What there is to find the cause: who read these records, what each was told, and what was committed when.

    A Java consumer that closes swallows it when its last commit is refused, and leaves.
    """
    readers = [
        f"{consumer.name}: {[read for read in consumer.records if int(read.value) in doubled]}, {consumer.events}"
        for consumer in consumers.all
    ]
    refused = [str(record) for record in pump.told(RequestRefused, "rolling")]
    reads = [read for consumer in consumers.all for read in consumer.records if int(read.value) in doubled]
    partitions = {read.partition for read in reads}
    commits = [
        f"{record.time_ms} {record.member_id}: {change.partition} at {change.offset}"
        for record in pump.told(OffsetsCommitted, "rolling")
        for change in record.offsets
        if change.partition in partitions
    ]
    return "\n".join(["read twice:", *readers, "refused:", *refused, "committed:", *commits])


def test_members_of_both_protocols_share_a_group(consumers: Consumers, produce: Produce, pump: Pump) -> None:
    members: list[ConsumerProcess] = []
    for library, protocol in (("librdkafka", "classic"), ("java", "consumer"), ("kafka-python", "classic")):
        members.append(start(consumers, library, protocol))  # type: ignore[arg-type]
        share(members, PARTITIONS, timeout_s=60)
    produce(0, 60)
    wait_until(lambda: values(*members) == list(range(60)))
    members.pop(0).close()
    share(members, PARTITIONS, timeout_s=60)
    members.append(start(consumers, "librdkafka", "consumer"))
    share(members, PARTITIONS, timeout_s=60)
    produce(60, 120)
    wait_until(lambda: set(values(*consumers.all)) == set(range(120)))
    assert pump.told(MemberExpired, "rolling") == []
