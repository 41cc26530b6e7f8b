"""Histories made by the core, for tests of how they are told."""

from __future__ import annotations

from coordinator_state import GroupConfig, GroupCoordinator, Output, RecordedEvent
from schemas.history import History, HistoryRecord
from schemas.messages import (
    JoinGroupProtocol,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from schemas.recorded import RecordedGroup, RecordedMember, RecordingGap
from tests.coordinator_state.harness import DAY_MS, GroupHarness, assignment, of_type, subscription

START_MS = 1_767_225_600_000
"""2026-01-01 00:00:00 UTC."""
A = "a-6f1b2c3d-0000-4000-8000-00000000000a"


def records_of(outputs: list[Output]) -> list[History]:
    return of_type(outputs, HistoryRecord)  # type: ignore[arg-type]


def crash() -> list[History]:
    """b dies; a is told after half a second and takes one and a half to rejoin; the leader needs 100 ms to assign."""
    group = GroupHarness("payments", now_ms=START_MS)
    group.stable(A, "b")
    group.sleep(9_000)
    group.heartbeat(A, 2)
    group.sleep(1_500)
    group.heartbeat(A, 2)
    group.sleep(1_500)
    group.join(A)
    group.sleep(100)
    group.sync(A, 3, {A: assignment("t", 0, 1)})
    return records_of(group.outputs)


def long_wait() -> list[History]:
    """a rejoins a second after d came, b never does: it expires instead, and that is what all waited for."""
    group = GroupHarness("payments", now_ms=START_MS)
    group.stable(A, "b")
    group.add("d")
    group.sleep(1_000)
    group.join(A)
    group.heartbeat("d", 2)
    group.sleep(9_000)
    group.sync(A, 3, {A: assignment("t", 0), "d": assignment("t", 1)})
    return records_of(group.outputs)


def interrupted() -> list[History]:
    """A second change of mind before the first rebalance is over."""
    group = GroupHarness("payments", now_ms=START_MS)
    group.stable("a", "b")
    group.join("a")
    group.join("b")
    group.join("a", protocols={"range": subscription("t", "u")})
    group.join("b")
    group.sync("a", 4, {"a": assignment("t", 0), "b": assignment("u", 0)})
    return records_of(group.outputs)


def everything() -> list[History]:
    """At least one record of every type."""
    records: list[History] = []

    group = GroupHarness("many", now_ms=START_MS, group_initial_rebalance_delay_ms=3_000)
    group.add("a")
    group.sleep(1_000)
    group.add("b")
    group.sleep(5_000)
    group.sync("a", 1, {"a": assignment("t", 0), "b": assignment("t", 1)})
    group.sync("b", 1)
    group.join(new_member_id="forgotten")
    group.commit("a", 1, {("t", 0): 10})
    group.commit("a", 1, {("t", 0): 7})
    group.heartbeat("a", 9)
    group.leave("b")
    group.sleep(70_000)  # a is dropped or expires
    group.send("OffsetDelete", _offset_delete())
    records += records_of(group.outputs)

    group = GroupHarness("slow", now_ms=START_MS)
    group.stable("a", "b", session_timeout_ms=30_000, rebalance_timeout_ms=8_000)
    group.join("a", session_timeout_ms=30_000, rebalance_timeout_ms=8_000)
    group.sleep(8_000)
    group.leave("a")
    group.commit(offsets={("t", 3): 4})
    group.sleep(9 * DAY_MS)
    records += records_of(group.outputs)

    group = GroupHarness("static", now_ms=START_MS)
    group.join(new_member_id="s1", group_instance_id="s")
    group.sleep(0)
    group.sync("s1", 1, {"s1": assignment("t", 0)})
    group.join(new_member_id="s2", group_instance_id="s")
    group.heartbeat("s1", 1, group_instance_id="s")
    records += records_of(group.outputs)
    return records + crash() + recorded()


def recorded() -> list[History]:
    """A group that a recording knows for a while."""
    member = RecordedMember(
        member_id="a",
        client_id="a",
        client_host="/127.0.0.1",
        session_timeout_ms=6_000,
        rebalance_timeout_ms=6_000,
        protocols=(JoinGroupProtocol(name="range", metadata=b""),),
    )
    recorded_group = RecordedGroup(
        generation_id=7, protocol_type="consumer", protocol_name="range", leader_id="a", members=(member,)
    )
    coordinator = GroupCoordinator("recorded", GroupConfig())
    coordinator.handle(RecordedEvent(1, START_MS, START_MS, recorded_group))
    coordinator.handle(RecordedEvent(2, START_MS + 500, START_MS + 500, RecordingGap(reason="lines are missing")))
    return records_of(coordinator.take_outputs())


def _offset_delete() -> OffsetDeleteRequest:
    partitions = (OffsetDeleteRequestPartition(partition_index=0),)
    return OffsetDeleteRequest(group_id="many", topics=(OffsetDeleteRequestTopic(name="t", partitions=partitions),))
