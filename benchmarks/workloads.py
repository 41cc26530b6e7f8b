"""What the core is measured with: histories of one group as they lie in the events topic, the same for Kafka's classes.

`java/CoreBenchmark.java` sends the same requests, in the same order, to Kafka's coordinator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import thread_time_ns

from msgspec import Struct

from coordinator_state import GroupConfig, GroupCoordinator, RequestEvent, decode_group, encode_group
from coordinator_state.outputs import LogRecord, Output
from schemas.consumer_protocol import Assignment, Subscription, TopicPartition, encode_assignment, encode_subscription
from schemas.events import decode_group_event, encode_request_event
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
GROUP_ID = "group-000"
_METADATA = encode_subscription(Subscription(topics=("orders", "payments")))
_ASSIGNMENT = encode_assignment(Assignment(partitions=(TopicPartition("orders", 0), TopicPartition("orders", 1))))
_STABLE_MS = 20_000
LATER_MS = 100_000

State = tuple[bytes, bytes]


class Workload(Struct, frozen=True):
    """Events of one group, from the state that they find."""

    name: str
    jvm: str | None
    """The same for the Java driver; None: it does not have it."""
    values: list[tuple[int, bytes]]
    """The clock, and the value of the record."""
    state: State | None = None

    def events(self) -> list[RequestEvent]:
        """The values, decoded."""
        return [_event(offset, clock_ms, value) for offset, (clock_ms, value) in enumerate(self.values)]

    def coordinator(self) -> GroupCoordinator:
        """The group before the first event."""
        group = decode_group(*self.state) if self.state is not None else None
        if group is not None:
            group.offsets.get("orders", 0)  # decodes them: here they are used, not kept
        return GroupCoordinator(GROUP_ID, CONFIG, group=group)


def _event(offset: int, clock_ms: int, value: bytes) -> RequestEvent:
    event = decode_group_event(GROUP_ID, value)
    assert isinstance(event, tuple)
    return RequestEvent(offset, clock_ms, clock_ms, *event)


def run_with_decoding(workload: Workload) -> int:
    """Nanoseconds of CPU time from the bytes of the events to the outputs."""
    coordinator = workload.coordinator()
    begin = thread_time_ns()
    for offset, (clock_ms, value) in enumerate(workload.values):
        coordinator.handle(_event(offset, clock_ms, value))
    return thread_time_ns() - begin


def run_core(workload: Workload, events: list[RequestEvent]) -> int:
    """Nanoseconds of CPU time from decoded events to the outputs."""
    coordinator = workload.coordinator()
    handle = coordinator.handle
    begin = thread_time_ns()
    for event in events:
        handle(event)
    return thread_time_ns() - begin


def best_rate(workload: Workload, run: Callable[[], int], seconds: float) -> float:
    """Events per second of CPU time: the best of at least three runs, each 20 milliseconds or longer."""
    best, spent_ns, runs = 0.0, 0, 0
    while runs < 3 or spent_ns < seconds * 1e9:
        taken_ns = events = 0
        while taken_ns < 20_000_000:
            taken_ns += run()
            events += len(workload.values)
        best = max(best, events * 1e9 / taken_ns)
        spent_ns += taken_ns
        runs += 1
    return best


def outputs_of(workload: Workload) -> list[Output]:
    """All that the workload puts out, in order."""
    coordinator = workload.coordinator()
    for event in workload.events():
        coordinator.handle(event)
    return coordinator.take_outputs()


def written(workload: Workload) -> tuple[int, int]:
    """How many records the workload writes to the offsets log, and their bytes: Kafka must write the same."""
    records = [output for output in outputs_of(workload) if isinstance(output, LogRecord)]
    return len(records), sum(len(record.key) + len(record.value or b"") for record in records)


# ---------------------------------------------------------------------------------------------------------- workloads


def all_workloads(*, quick: bool = False) -> Iterator[Workload]:
    """Those of the table; `quick`: as short as they can be."""
    scale = 10 if quick else 1
    yield heartbeats(10, 20_000 // scale)
    yield heartbeats(1_000, 20_000 // scale)
    for members in (1, 10, 100) if quick else (1, 10, 100, 1_000):
        yield joins(members)
    yield commits(1, 5_000 // scale)
    yield commits(100, 200 // scale)
    yield mixed(20, 50 // scale)


def heartbeats(members: int, count: int) -> Workload:
    ids = ids_of(members)
    values = [value_of("Heartbeat", 4, _heartbeat(ids[number % members], 1)) for number in range(count)]
    return Workload(
        f"heartbeat, {members:,} members",
        f"heartbeat {members} {count}",
        [(LATER_MS, value) for value in values],
        stable(members),
    )


def joins(members: int) -> Workload:
    """Everybody asks for an id, joins with it, and syncs."""
    name = f"join and sync, {members:,} member" + "s" * (members > 1)
    return Workload(name, f"join {members}", _joining(members))


def commits(partitions: int, count: int) -> Workload:
    value = value_of("OffsetCommit", 9, _commit(ids_of(1)[0], 1, partitions))
    name = f"commit, {partitions} partition" + "s" * (partitions > 1)
    return Workload(name, f"commit {partitions} {count}", [(LATER_MS, value)] * count, stable(1))


def mixed(members: int, rounds: int) -> Workload:
    """Each round nine heartbeats and a commit of ten partitions of every member, then a rebalance."""
    ids = ids_of(members)
    values = []
    for generation_id in range(1, rounds + 1):
        values += 9 * [value_of("Heartbeat", 4, _heartbeat(member_id, generation_id)) for member_id in ids]
        values += [value_of("OffsetCommit", 9, _commit(member_id, generation_id, 10)) for member_id in ids]
        values += [value_of("JoinGroup", 9, _join(member_id)) for member_id in ids]
        values += _syncs(ids, generation_id + 1)
    return Workload(
        f"mixed, {members} members",
        f"mixed {members} {rounds}",
        [(LATER_MS, value) for value in values],
        stable(members),
    )


def stable(members: int) -> State:
    """The state of a Stable group of so many members."""
    workload = joins(members)
    coordinator = workload.coordinator()
    for event in workload.events():
        coordinator.handle(event)
    assert coordinator.group is not None
    assert coordinator.group.body.state_name == "Stable", coordinator.group.body
    return encode_group(coordinator.group)


def _joining(members: int) -> list[tuple[int, bytes]]:
    ids = ids_of(members)
    values = [value_of("JoinGroup", 9, _join(""), member_id) for member_id in ids]
    values += [value_of("JoinGroup", 9, _join(member_id)) for member_id in ids]
    return [(1_000, value) for value in values] + [(_STABLE_MS, value) for value in _syncs(ids, 1)]


def _syncs(ids: list[str], generation_id: int) -> list[bytes]:
    plan = tuple(SyncGroupAssignment(member_id=member_id, assignment=_ASSIGNMENT) for member_id in ids)
    return [
        value_of("SyncGroup", 5, _sync(member_id, generation_id, plan if member_id == ids[0] else ()))
        for member_id in ids
    ]


def ids_of(members: int) -> list[str]:
    """As long as those that Kafka makes: the client id and a UUID."""
    return [f"client-{number:08x}-5f4e-4c3b-9a2d-{number:012x}" for number in range(members)]


# ----------------------------------------------------------------------------------------------------------- requests


def value_of(api: str, version: int, request: Request, member_id: str | None = None) -> bytes:
    return encode_request_event(
        api,
        version,
        request,
        request_id="5f4e4c3b-0000-4000-8000-0123456789ab",
        reply_partition=0,
        client_id="client",
        new_member_id=member_id,
    )


def _heartbeat(member_id: str, generation_id: int) -> HeartbeatRequest:
    return HeartbeatRequest(group_id=GROUP_ID, generation_id=generation_id, member_id=member_id)


def _join(member_id: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=GROUP_ID,
        session_timeout_ms=1_800_000,
        rebalance_timeout_ms=300_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=(
            JoinGroupProtocol(name="range", metadata=_METADATA),
            JoinGroupProtocol(name="sticky", metadata=_METADATA),
        ),
    )


def _sync(member_id: str, generation_id: int, plan: tuple[SyncGroupAssignment, ...]) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=GROUP_ID,
        generation_id=generation_id,
        member_id=member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=plan,
    )


def _commit(member_id: str, generation_id: int, partitions: int) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=GROUP_ID,
        generation_id_or_member_epoch=generation_id,
        member_id=member_id,
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
