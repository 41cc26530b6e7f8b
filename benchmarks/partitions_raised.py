"""How long until every member owns its share of 900 new partitions, with the consumer protocol and the classic one.

    python -m benchmarks.partitions_raised [--members 10] [--partitions 100 1000] [--refresh-s 300] [--broker]

`group-coordinator run --embedded --responder` and `group-coordinator gateway` are processes of their own; all settings
are the defaults, as are those of the members, unmodified librdkafka consumers, ten in each group. Members of the
consumer protocol are told by the coordinator, at their next heartbeat (every 5 s) after the metadata event in the log:
the bar is one interval and a second from that event on. Members of the classic protocol find out by themselves, when
they ask for the topic's metadata again (`--refresh-s`; by default every five minutes). `--broker` measures groups of
the broker itself beside them.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from msgspec import Struct

from benchmarks.arguments import command_parser
from benchmarks.document import table
from benchmarks.gateway_latency import running
from group_coordinator.ground.kafka_topics.clients import new_admin_client
from schemas.group_metadata_events import TopicMetadata

PROTOCOLS = ("consumer", "classic")
BAR_S = 6.0
"""A heartbeat interval of Kafka's, and a second."""
_JOIN_TIMEOUT_S = 120.0
_BEYOND_REFRESH_S = 120.0


class Raised(Struct, frozen=True):
    """What came of one group, in seconds from when the partitions were there."""

    known_s: float | None
    """The metadata event was in the group's log; None: there is none."""
    owned_s: float
    """All members had all of their partitions."""


class Member:
    """One consumer in a thread of its own."""

    def __init__(self, address: str, protocol: str, topic: str, refresh_s: int) -> None:
        settings: dict[str, str | int | bool] = {
            "bootstrap.servers": address,
            "group.id": topic,
            "group.protocol": protocol,
            "auto.offset.reset": "latest",
            "enable.auto.commit": False,
            "topic.metadata.refresh.interval.ms": refresh_s * 1_000,
            "log_level": 2,
        }
        if protocol == "classic":
            settings["partition.assignment.strategy"] = "range"
        self.owned: frozenset[int] = frozenset()
        self.changed_s = 0.0
        self._stop = threading.Event()
        self._consumer = Consumer(settings)
        self._is_eager = protocol == "classic"
        self._consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._revoked)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def end(self) -> None:
        self._stop.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._consumer.poll(0.1)

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._note(self.owned | {each.partition for each in partitions})
        if self._is_eager:
            consumer.assign(partitions)
        else:
            consumer.incremental_assign(partitions)

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._note(self.owned - {each.partition for each in partitions})
        if self._is_eager:
            consumer.unassign()
        else:
            consumer.incremental_unassign(partitions)

    def _note(self, owned: frozenset[int]) -> None:
        self.owned, self.changed_s = owned, time.time()


@contextmanager
def group(address: str, protocol: str, topic: str, members: int, refresh_s: int) -> Iterator[list[Member]]:
    """So many consumers of a topic."""
    with ExitStack() as stack:
        consumers = []
        for _ in range(members):
            consumers.append(Member(address, protocol, topic, refresh_s))
            stack.callback(consumers[-1].end)
        yield consumers


def owned_since_s(members: list[Member], partitions: int, timeout_s: float) -> float:
    """Return the time since which the members own all partitions, each one once and all as many, give or take one."""
    give_up_s = time.monotonic() + timeout_s
    while time.monotonic() < give_up_s:
        owned = [member.owned for member in members]
        sizes = [len(each) for each in owned]
        if sum(sizes) == partitions == len(frozenset().union(*owned)) and max(sizes) - min(sizes) <= 1:
            return max(member.changed_s for member in members)
        time.sleep(0.02)
    raise RuntimeError(f"{partitions} partitions are not shared after {timeout_s:.0f} s: {sizes}")


def told_s(broker: str, group_id: str, topic: str, partitions: int) -> float | None:
    """Return when the group's log had the event that tells of so many partitions of the topic."""
    decoder = msgspec.json.Decoder(TopicMetadata)
    consumer = Consumer({"bootstrap.servers": broker, "group.id": "benchmark", "enable.auto.commit": False})
    try:
        place = TopicPartition("coordinator.events", 0, 0)
        _, end = consumer.get_watermark_offsets(place, timeout=10)
        consumer.assign([place])
        while True:
            message = consumer.poll(10.0)
            if message is None:
                return None
            value, offset = message.value(), message.offset()
            if message.key() == group_id.encode() and value is not None and b'"type":"topic_metadata"' in value[:40]:
                described = decoder.decode(value).topics
                if any(each.name == topic and len(each.partitions) == partitions for each in described):
                    return message.timestamp()[1] / 1_000
            if offset is not None and offset + 1 >= end:
                return None
    finally:
        consumer.close()


def measure(
    addresses: dict[str, str], coordinators: list[str], members: int, first: int, last: int, refresh_s: int
) -> dict[tuple[str, str], Raised]:
    """Raise the partitions of each group's topic, at the same time."""
    admin: AdminClient = new_admin_client({"bootstrap.servers": addresses["broker"]})
    names = {(of, protocol): f"{of}-{protocol}" for of in coordinators for protocol in PROTOCOLS}
    for future in admin.create_topics([NewTopic(name, first) for name in names.values()]).values():
        future.result()
    with ExitStack() as stack:
        groups = {
            key: stack.enter_context(group(addresses[key[0]], key[1], name, members, refresh_s))
            for key, name in names.items()
        }
        for consumers in groups.values():
            owned_since_s(consumers, first, _JOIN_TIMEOUT_S)
        time.sleep(10)  # all heartbeat by themselves
        results: dict[tuple[str, str], Raised] = {}
        begun_s: dict[tuple[str, str], float] = {}
        for key, name in names.items():
            admin.create_partitions([NewPartitions(name, last)])[name].result()
            begun_s[key] = time.time()
        for key in sorted(names, key=lambda key: key[1] == "classic"):
            since_s = owned_since_s(groups[key], last, refresh_s + _BEYOND_REFRESH_S)
            told = told_s(addresses["broker"], names[key], names[key], last) if key == ("gateway", "consumer") else None
            known_s = None if told is None else told - begun_s[key]
            results[key] = Raised(known_s, since_s - begun_s[key])
    return results


def main() -> None:
    parser = command_parser("partitions_raised", __doc__)
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--partitions", type=int, nargs=2, default=[100, 1_000], help="before and after")
    parser.add_argument("--refresh-s", type=int, default=300, help="how often members ask for a topic's metadata")
    parser.add_argument("--broker", action="store_true", help="groups of the broker itself beside those of the gateway")
    options = parser.parse_args()
    coordinators = ["gateway", *(["broker"] if options.broker else [])]
    with tempfile.TemporaryDirectory() as directory, running(Path(directory), "--responder") as addresses:
        first, last = options.partitions
        results = measure(addresses, coordinators, options.members, first, last, options.refresh_s)
    rows = []
    for (by, protocol), raised in results.items():
        known = "" if raised.known_s is None else f"{raised.known_s:.1f}"
        from_event = "" if raised.known_s is None else f"{raised.owned_s - raised.known_s:.1f}"
        rows.append([by, protocol, known, from_event, f"{raised.owned_s:.1f}"])
    head = ["coordinated by", "protocol", "event after s", "owned after the event s", "owned after s"]
    print(table(head, rows, words=2))
    raised = results["gateway", "consumer"]
    ratio = results["gateway", "classic"].owned_s / raised.owned_s
    print()
    print(f"The consumer protocol is {ratio:.0f} times as fast as the classic one.")
    if raised.known_s is not None:
        within = "within" if raised.owned_s - raised.known_s <= BAR_S else "beyond"
        print(f"It is {within} the bar of {BAR_S:.0f} s from the event on.")


if __name__ == "__main__":
    main()
