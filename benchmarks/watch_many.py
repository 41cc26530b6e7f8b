"""What `watch` needs beside very many groups: `python -m benchmarks.watch_many --groups 200000 --members 0`.

A real broker gets an offsets topic with groups of real size: several generations with members, what they subscribe to
and are assigned, and commits over time. Then the command is started as anybody would, and followed until it has read
all: its memory, and how long its page takes meanwhile.

    python -m benchmarks.watch_many --groups 15000 --members 6 --topics 3 --partitions 8 --generations 4 --commits 10
"""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from msgspec import Struct

from benchmarks.arguments import command_parser
from benchmarks.process_times import cpu_times
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from group_coordinator.watching.dashboard.api_routes import BASE, GROUPS_MAX
from group_coordinator.watching.dashboard.api_types import Overview
from group_coordinator.watching.observed.offsets_log import OFFSETS_TOPIC
from schemas.consumer_protocol import Assignment, Subscription, TopicPartition, encode_assignment, encode_subscription
from schemas.java_hash import group_partition
from schemas.records import (
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_group_metadata_key,
)
from tests.encoded_records import encode_group_metadata_value, encode_key, encode_offset_commit_value

OFFSETS_PARTITIONS = 50
BETWEEN_GENERATIONS_MS = 3_600_000
MAY_WRITE_INTERNAL_TOPICS = "__admin_client"
"""Brokers let a client of this name."""
_LOOK_S = 2.0
_START_TIMEOUT_S = 120.0
_MIB = 1024 * 1024


class Size(Struct, frozen=True, kw_only=True):
    """Of one group."""

    members: int
    topics: int
    partitions: int
    generations: int
    commits: int
    """Of each partition."""


class Written(NamedTuple):
    """A record to be written."""

    at_ms: int
    key: bytes
    value: bytes


class Look(NamedTuple):
    """What was seen of the watcher at a moment."""

    resident_mib: float
    page_s: float
    read: str


def records_of(number: int, size: Size, now_ms: int) -> Iterator[Written]:
    """Yield the records of a group, the oldest first. Every other generation has one member fewer."""
    group_id = f"group-{number}"
    topics = [f"topic-{(number + place) % 300}" for place in range(size.topics)]
    committed = [OffsetCommitKey(group_id, topic, each) for topic in topics for each in range(size.partitions)]
    begin_ms = now_ms - size.generations * BETWEEN_GENERATIONS_MS + number % 1_000
    commits_each = -(-size.commits // size.generations)
    for generation in range(size.generations):
        at_ms = begin_ms + generation * BETWEEN_GENERATIONS_MS
        members = size.members - generation % 2 if size.members > 1 else size.members
        yield _generation(group_id, generation + 1, topics, members, size.partitions, at_ms)
        for round_ in range(min(commits_each, size.commits - generation * commits_each)):
            commit_ms = at_ms + (round_ + 1) * BETWEEN_GENERATIONS_MS // (commits_each + 1)
            for key in committed:
                offset = 1_000 * (generation * commits_each + round_) + number % 1_000
                value = OffsetCommitValue(offset=offset, commit_timestamp_ms=commit_ms)
                yield Written(commit_ms, encode_key(key), encode_offset_commit_value(value))


def _generation(group_id: str, generation: int, topics: Sequence[str], members: int, each: int, at_ms: int) -> Written:
    subscription = encode_subscription(Subscription(topics=tuple(topics)))
    partitions = [TopicPartition(topic, partition) for topic in topics for partition in range(each)]
    ids = [f"{group_id}-client-{place}-7d1f6f5a-0b1c-4a47-9a6e-{place:012d}" for place in range(members)]
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=generation,
        protocol="range" if members else None,
        leader=ids[0] if members else None,
        current_state_timestamp_ms=at_ms,
        members=tuple(
            MemberMetadata(
                member_id=member_id,
                client_id=f"{group_id}-client-{place}",
                client_host=f"/10.0.{place}.1",
                rebalance_timeout_ms=300_000,
                session_timeout_ms=45_000,
                subscription=subscription,
                assignment=encode_assignment(Assignment(partitions=tuple(partitions[place::members]))),
            )
            for place, member_id in enumerate(ids)
        ),
    )
    return Written(at_ms, encode_group_metadata_key(group_id), encode_group_metadata_value(value))


def write_groups(servers: str, groups: int, size: Size) -> tuple[int, int]:
    """Write all records, each partition's in the order of time. Returns how many, and their bytes."""
    producer = Producer(
        {
            "bootstrap.servers": servers, "client.id": MAY_WRITE_INTERNAL_TOPICS, "linger.ms": 50, "acks": "1",
            "queue.buffering.max.messages": 500_000,
        }
    )  # fmt: skip
    now_ms = time.time_ns() // 1_000_000
    partitions: list[list[int]] = [[] for _ in range(OFFSETS_PARTITIONS)]
    for number in range(groups):
        partitions[group_partition(f"group-{number}", OFFSETS_PARTITIONS)].append(number)
    count = size_bytes = 0
    for partition, numbers in enumerate(partitions):
        # Groups live side by side: their records lie among each other, as a coordinator writes them.
        written = [record for number in numbers for record in records_of(number, size, now_ms)]
        for at_ms, key, value in sorted(written, key=lambda record: record.at_ms):
            while True:
                try:
                    producer.produce(OFFSETS_TOPIC, value, key, partition=partition, timestamp=at_ms)
                    break
                except BufferError:
                    producer.poll(0.5)
            count, size_bytes = count + 1, size_bytes + len(key) + len(value)
        producer.poll(0)
    if producer.flush(120.0):
        sys.exit("The broker did not take all records.")
    return count, size_bytes


def make_offsets_topic(servers: str) -> None:
    """The broker makes it when somebody asks for a coordinator."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    while True:
        try:
            admin.describe_consumer_groups(["nobody"])["nobody"].result(20)
        except Exception as problem:
            print(f"waiting for the offsets topic: {problem}", file=sys.stderr)
        topic = admin.list_topics(timeout=20).topics.get(OFFSETS_TOPIC)
        if topic is not None and len(topic.partitions) == OFFSETS_PARTITIONS:
            return
        time.sleep(0.5)


class Watching:
    """The command, and its page."""

    def __init__(self, servers: str, memory_mib: int, out: Path) -> None:
        self._out = out
        with out.open("w") as file:
            self.process = subprocess.Popen(
                [
                    sys.executable, "-m", "group_coordinator.command_line.main", "watch", "--port", "0",
                    "--bootstrap-servers", servers, "--memory-mib", str(memory_mib),
                ], stdout=file, stderr=subprocess.STDOUT,
            )  # fmt: skip
        self._page = self._address()

    def look(self) -> Look:
        """Ask for the list of groups, as a browser does, and for how far it is."""
        begun_s = time.monotonic()
        self.read(f"groups?limit={GROUPS_MAX}&max_wait_ms=50")
        page_s = time.monotonic() - begun_s
        overview = msgspec.json.decode(self.read("overview"), type=Overview)
        return Look(self._kib("VmRSS") / 1024, page_s, "all" if overview.caught_up else overview.progress)

    def read(self, path: str) -> bytes:
        with urllib.request.urlopen(f"{self._page}{BASE[1:]}/{path}", timeout=120) as answer:
            data: bytes = answer.read()
            return data

    def peak_mib(self) -> float:
        return self._kib("VmHWM") / 1024

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(60)

    def _kib(self, name: str) -> int:
        found = re.search(rf"{name}:\s+(\d+) kB", Path(f"/proc/{self.process.pid}/status").read_text())
        assert found is not None
        return int(found[1])

    def _address(self) -> str:
        give_up_s = time.monotonic() + _START_TIMEOUT_S
        while not (page := re.search(r"http://\S+", self._out.read_text())):
            if time.monotonic() > give_up_s or self.process.poll() is not None:
                sys.exit(self._out.read_text())
            time.sleep(0.1)
        return page[0]


def follow(watching: Watching, give_up_s: float, look_s: float) -> tuple[list[Look], float]:
    """Look until all is read. Returns what was seen, and the CPU seconds that it took."""
    before = cpu_times(watching.process.pid)
    looks = []
    end_s = time.monotonic() + give_up_s
    while time.monotonic() < end_s:
        look = watching.look()
        looks.append(look)
        print(f"  {look.resident_mib:4.0f} MiB, groups in {look.page_s:.2f} s; read: {look.read}", flush=True)
        if look.read == "all":
            break
        time.sleep(look_s)
    return looks, cpu_times(watching.process.pid).since(before).own_ms / 1_000


def main() -> None:
    arguments = command_parser("watch_many", __doc__)
    arguments.add_argument("--groups", type=int, default=15_000)
    arguments.add_argument("--members", type=int, default=4, help="0: the groups are empty")
    arguments.add_argument("--topics", type=int, default=3)
    arguments.add_argument("--partitions", type=int, default=8, help="of each topic")
    arguments.add_argument("--generations", type=int, default=3)
    arguments.add_argument("--commits", type=int, default=6, help="of each partition, over time")
    arguments.add_argument("--memory-mib", type=int, default=256)
    arguments.add_argument("--give-up-s", type=float, default=3_600)
    arguments.add_argument("--look-s", type=float, default=_LOOK_S)
    options = arguments.parse_args()
    size = Size(
        members=options.members, topics=options.topics, partitions=options.partitions,
        generations=options.generations, commits=options.commits,
    )  # fmt: skip
    with (
        tempfile.TemporaryDirectory() as directory,
        EmbeddedKafka(properties={"offsets.topic.num.partitions": str(OFFSETS_PARTITIONS)}) as kafka,
    ):
        make_offsets_topic(kafka.bootstrap_servers)
        count, size_bytes = write_groups(kafka.bootstrap_servers, options.groups, size)
        print(f"{options.groups:,} groups: {count:,} records, {size_bytes / _MIB:,.0f} MiB", flush=True)
        begun_s = time.monotonic()
        watching = Watching(kafka.bootstrap_servers, options.memory_mib, Path(directory) / "out")
        try:
            looks, cpu_s = follow(watching, options.give_up_s, options.look_s)
            pages_s = [look.page_s for look in looks]
            print(
                f"--memory-mib {options.memory_mib}: read {looks[-1].read} in {time.monotonic() - begun_s:,.0f} s "
                f"({cpu_s:,.0f} s of CPU), {watching.peak_mib():,.0f} MiB at the most; the list of groups came in "
                f"{statistics.median(pages_s):.2f} s (median), {max(pages_s):.2f} s (most)"
            )
        finally:
            watching.stop()


if __name__ == "__main__":
    main()
