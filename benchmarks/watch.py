"""Reading a whole offsets topic, and keeping up with it: what a watcher does with what it has fetched.

    python -m benchmarks.watch --groups 15000 --records 2000000 --rate 20000

Prints CPU seconds of one thread, and the most memory that the process took above what it began with. The fetched bytes
are made beforehand, piece by piece, and do not count.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Iterator

from kafka.record.default_records import DefaultRecordBatchBuilder

from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.observed.observer import Observer
from group_coordinator.watching.observed.offsets_log import Entry, UnknownRecord, read_raw
from group_coordinator.watching.watch.index_updater import IndexUpdater
from group_coordinator.watching.watch.offsets_topic import uncompress
from schemas.kafka.record_batches import read_stretch
from schemas.records import OffsetCommitKey, OffsetCommitValue
from tests.encoded_records import encode_key, encode_offset_commit_value

PARTITIONS = 50
"""Of the offsets topic."""
COMMITTED_PARTITIONS = 10
"""That each group commits for, in one batch."""
START_MS = 1_795_371_000_000
ROUND_MS = 5_000
"""Between two commits of a group while the topic is filled."""
PIECE_BATCHES = 2_000


class Topic:
    """Makes what a fetch brings."""

    def __init__(self, groups: int) -> None:
        self._keys = [
            [
                encode_key(OffsetCommitKey(f"group-{group}", f"topic-{group % 300}", number))
                for number in range(COMMITTED_PARTITIONS)
            ]
            for group in range(groups)
        ]
        self._ends = [0] * PARTITIONS

    def piece(self, partition: int, commits: list[tuple[int, int]]) -> bytes:
        """Batches of one partition: groups, and when they commit."""
        return b"".join(self._batch(partition, group, at_ms) for group, at_ms in commits)

    def _batch(self, partition: int, group: int, at_ms: int) -> bytes:
        builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1_000_000)
        value = encode_offset_commit_value(OffsetCommitValue(offset=at_ms - START_MS, commit_timestamp_ms=at_ms))
        for number, key in enumerate(self._keys[group]):
            builder.append(number, at_ms, key, value, [])
        data = builder.build()
        data[0:8] = self._ends[partition].to_bytes(8)
        self._ends[partition] += COMMITTED_PARTITIONS
        return bytes(data)


class Watcher:
    """What is measured."""

    def __init__(self) -> None:
        self.index = Index()
        self.records = 0
        self.cpu_s = 0.0
        self._observer = Observer()
        self._updater = IndexUpdater(self.index)

    def read(self, partition: int, data: bytes) -> None:
        begun_s = time.process_time()
        self._observer.add_records(self._entries(partition, data))
        self.cpu_s += time.process_time() - begun_s

    def update_index(self) -> None:
        begun_s = time.process_time()
        self._updater.apply(self._observer.take())
        self.cpu_s += time.process_time() - begun_s

    def _entries(self, partition: int, data: bytes) -> Iterator[Entry]:
        for record in read_stretch(data, 0, uncompress).records:
            entry = read_raw(partition, record)
            assert not isinstance(entry, UnknownRecord)
            self.records += 1
            yield entry


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--groups", type=int, default=15_000)
    arguments.add_argument("--records", type=int, default=2_000_000)
    arguments.add_argument("--rate", type=int, default=20_000, help="commits a second, once all is read")
    arguments.add_argument("--seconds", type=int, default=10, help="of that rate")
    options = arguments.parse_args()
    topic, watcher = Topic(options.groups), Watcher()
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rounds = -(-options.records // (options.groups * COMMITTED_PARTITIONS))
    for partition in range(PARTITIONS):
        commits = [
            (group, START_MS + number * ROUND_MS)
            for number in range(rounds)
            for group in range(partition, options.groups, PARTITIONS)
        ]
        for begin in range(0, len(commits), PIECE_BATCHES):
            watcher.read(partition, topic.piece(partition, commits[begin : begin + PIECE_BATCHES]))
        if partition % 10 == 9:
            watcher.update_index()
    print(f"{watcher.records:,} records of {len(watcher.index):,} groups: {watcher.cpu_s:.1f} s")
    keep_up(topic, watcher, options.groups, options.rate, options.seconds, START_MS + rounds * ROUND_MS)
    peak_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib) / 1024
    print(f"memory: {peak_mib:,.0f} MiB more at the most")


def keep_up(topic: Topic, watcher: Watcher, groups: int, rate: int, seconds: int, begin_ms: int) -> None:
    """So many commits each second, told once a second."""
    watcher.cpu_s = 0.0
    group = 0
    for second in range(seconds):
        by_partition: dict[int, list[tuple[int, int]]] = {}
        for _ in range(rate // COMMITTED_PARTITIONS):
            by_partition.setdefault(group % PARTITIONS, []).append((group, begin_ms + second * 1_000))
            group = (group + 1) % groups
        for partition, commits in by_partition.items():
            watcher.read(partition, topic.piece(partition, commits))
        watcher.update_index()
    print(f"{rate:,} commits a second: {watcher.cpu_s / seconds:.2f} CPU seconds each second")


if __name__ == "__main__":
    main()
