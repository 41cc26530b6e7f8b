"""Events per second of the pure core, in one process: heartbeats, joins, commits, and Kafka's recorded histories.

    python -m benchmarks.core [--profile NAME]

Figures are ratios to the first row, taken in one run: machines differ and are shared.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
from collections.abc import Callable, Iterator

from coordinator_state import GroupConfig, GroupCoordinator, RequestEvent, decode_group, encode_group
from schemas.consumer_protocol import Subscription, encode_subscription
from schemas.events import decode_request_event, encode_request_event
from schemas.messages import (
    HeartbeatRequest,
    JoinGroupProtocol,
    JoinGroupRequest,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    Request,
    SyncGroupAssignment,
    SyncGroupRequest,
)

CONFIG = GroupConfig(group_initial_rebalance_delay_ms=3_000, group_max_bytes=100_000_000)
METADATA = encode_subscription(Subscription(topics=("orders", "payments")))


class Log:
    """Writes events as they lie in the topic, and feeds them to one group."""

    def __init__(self) -> None:
        self.offset = 0
        self.coordinator = GroupCoordinator("g", CONFIG)

    def value(self, api: str, version: int, request: Request, member_id: str | None = None) -> bytes:
        self.offset += 1
        return encode_request_event(
            api,
            version,
            request,
            request_id=f"{self.offset:032x}",
            reply_partition=0,
            client_id="client",
            new_member_id=member_id,
        )

    def feed(self, values: list[bytes], clock_ms: int) -> None:
        handle, outputs = self.coordinator.handle, self.coordinator.outputs
        for offset, value in enumerate(values):
            envelope, request = decode_request_event("g", value, 8)
            handle(RequestEvent(offset, clock_ms, clock_ms, envelope, request))
        outputs.clear()

    def join_all(self, size: int) -> None:
        """Bring a group of `size` members to Stable."""
        ids = [f"client-{number:08d}" for number in range(size)]
        firsts = [self.value("JoinGroup", 9, _join(""), member_id) for member_id in ids]
        self.feed([*firsts, *(self.value("JoinGroup", 9, _join(member_id)) for member_id in ids)], 1_000)
        self.coordinator.advance_to(1_000 + 3 * CONFIG.group_initial_rebalance_delay_ms)
        group = self.coordinator.group
        assert group is not None
        generation_id = group.generation_id
        plan = tuple(SyncGroupAssignment(member_id=member_id, assignment=b"\0\3" + b"\0" * 40) for member_id in ids)
        self.feed([self.value("SyncGroup", 5, _sync(member_id, generation_id, plan if member_id == group.leader_id else ())) for member_id in ids], 20_000)
        assert group.state.value == "Stable", group.state


def _join(member_id: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=1_800_000,
        rebalance_timeout_ms=300_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=(JoinGroupProtocol(name="range", metadata=METADATA), JoinGroupProtocol(name="sticky", metadata=METADATA)),
    )


def _sync(member_id: str, generation_id: int, plan: tuple[SyncGroupAssignment, ...]) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id="g",
        generation_id=generation_id,
        member_id=member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=plan,
    )


def heartbeats(members: int, beats: int) -> Callable[[], int]:
    log = Log()
    log.join_all(members)
    group = log.coordinator.group
    assert group is not None
    ids = list(group.members)
    generation_id = group.generation_id
    values = [
        log.value("Heartbeat", 4, HeartbeatRequest(group_id="g", generation_id=generation_id, member_id=ids[n % members]))
        for n in range(beats)
    ]

    def work() -> int:
        log.feed(values, 500_000)
        return beats

    return work


def joins(members: int) -> Callable[[], int]:
    def work() -> int:
        log = Log()
        log.join_all(members)
        return log.offset

    return work


def commits(partitions: int, count: int) -> Callable[[], int]:
    log = Log()
    log.join_all(1)
    group = log.coordinator.group
    assert group is not None
    request = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=group.generation_id,
        member_id=next(iter(group.members)),
        topics=(
            OffsetCommitRequestTopic(
                name="orders",
                partitions=tuple(
                    OffsetCommitRequestPartition(partition_index=number, committed_offset=number, committed_metadata="")
                    for number in range(partitions)
                ),
            ),
        ),
    )
    values = [log.value("OffsetCommit", 9, request) for _ in range(count)]

    def work() -> int:
        log.feed(values, 500_000)
        return count

    return work


def state_blobs(members: int, count: int) -> Callable[[], int]:
    log = Log()
    log.join_all(members)
    group = log.coordinator.group
    assert group is not None

    def work() -> int:
        packed = encode_group(group)
        for _ in range(count):
            packed = encode_group(decode_group(*packed))
        return count

    return work


BENCHMARKS: dict[str, Callable[[], Callable[[], int]]] = {
    "heartbeat, 10 members": lambda: heartbeats(10, 50_000),
    "heartbeat, 1,000 members": lambda: heartbeats(1_000, 50_000),
    "join + sync, 1 member": lambda: joins(1),
    "join + sync, 10 members": lambda: joins(10),
    "join + sync, 100 members": lambda: joins(100),
    "join + sync, 1,000 members": lambda: joins(1_000),
    "commit, 1 partition": lambda: commits(1, 10_000),
    "commit, 100 partitions": lambda: commits(100, 300),
    "state blob there and back, 10 members": lambda: state_blobs(10, 5_000),
    "state blob there and back, 1,000 members": lambda: state_blobs(1_000, 50),
}


def measure(names: list[str]) -> Iterator[tuple[str, float]]:
    """(name, events per second): the best of several runs."""
    for name in names:
        work = BENCHMARKS[name]()
        best = 0.0
        for _ in range(5):
            begin = time.perf_counter()
            events = work()
            best = max(best, events / (time.perf_counter() - begin))
        yield name, best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", choices=BENCHMARKS, help="print where the time of one benchmark goes")
    arguments = parser.parse_args()
    if arguments.profile:
        work = BENCHMARKS[arguments.profile]()
        profile = cProfile.Profile()
        profile.runcall(work)
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)
        return
    first = 0.0
    print(f"{'':42} {'events/s':>12} {'us/event':>10} {'ratio':>8}")
    for name, rate in measure(list(BENCHMARKS)):
        first = first or rate
        print(f"{name:42} {rate:12,.0f} {1e6 / rate:10.2f} {rate / first:8.3f}", flush=True)


if __name__ == "__main__":
    main()
