"""What hostile clients may cost the gateway: memory that is bounded in bytes and age."""

from __future__ import annotations

import gc
import struct
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from group_coordinator.coordinating.gateway.admission import LIGHT_BYTES
from group_coordinator.coordinating.gateway.answer_sizes import UNKNOWN_BYTES, AnswerSizes
from group_coordinator.coordinating.gateway.config import Bounds
from group_coordinator.coordinating.gateway.handover import TopicRecord
from group_coordinator.coordinating.gateway.metrics import GatewayMetrics
from group_coordinator.coordinating.gateway.pending_request import PendingRequest
from group_coordinator.coordinating.gateway.published_groups import PublishedGroups
from group_coordinator.coordinating.operations.gateway_metrics import incomplete_lists
from schemas.events import encode_json
from schemas.history import GroupSnapshot, SnapshotMember
from schemas.message_versions import GroupResponse
from schemas.messages import DescribeGroupsRequest, HeartbeatResponse, OffsetCommitResponse
from tests.coordinating.gateway import wire
from tests.coordinating.gateway.proxies import connect, front, is_closed_within
from tests.coordinating.gateway.raw_requests import commit_of
from tests.coordinating.gateway.router_bench import Bench, described
from tests.waiting import wait_until

MIB = 1_048_576

# --------------------------------------------------------------------------------------------------------- with sockets


def test_unfinished_requests_are_bounded_over_all_connections() -> None:
    """Whoever sends almost a megabyte and stops is let go when there are too many; who is honest is served."""
    unfinished = struct.pack(">i", MIB) + wire.heartbeat(1)[4:18] + bytes(MIB - 100)
    with front(Bounds(buffered_bytes_max=8 * MIB), connections_max=200) as gateway:
        hostile = [connect(gateway) for _ in range(40)]
        honest = connect(gateway)
        for number, client in enumerate(hostile):
            with suppress(OSError):  # it may be gone already
                client.sendall(unfinished)
            honest.sendall(wire.heartbeat(number))
            assert honest.recv(100)
        wait_until(lambda: gateway.shared.buffered.bytes <= 8 * MIB, timeout_s=10)
        assert gateway.metrics.connections_broken.keys() == {"no room"}
        assert gateway.metrics.connections_open < 20
        for client in (*hostile, honest):
            client.close()
        wait_until(lambda: gateway.metrics.connections_open == 0, timeout_s=10)
        assert gateway.shared.buffered.bytes == 0


@pytest.fixture
def memory() -> Iterator[Callable[[], int]]:
    """Bytes that Python has allocated since; without its collector, which comes when it comes."""
    gc.collect()
    gc.disable()
    tracemalloc.start()
    yield lambda: tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    gc.enable()


@pytest.mark.parametrize("whose_end", ["the client's", "the gateway's"])
def test_the_memory_of_a_connection_goes_with_it(memory: Callable[[], int], whose_end: str) -> None:
    unfinished = struct.pack(">i", MIB) + wire.heartbeat(1)[4:18] + bytes(MIB - 100)
    bounds = Bounds(buffered_bytes_max=64 * MIB if whose_end == "the client's" else 2 * MIB)
    with front(bounds, connections_max=200) as gateway:
        for _ in range(60):
            with connect(gateway) as hostile, suppress(OSError):
                hostile.sendall(unfinished)
        wait_until(lambda: gateway.metrics.connections_open == 0, timeout_s=10)
        assert memory() < 8 * MIB


def test_what_was_written_to_a_client_that_does_not_read_goes_soon_after_the_connection(
    memory: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is written and not taken would lie in the transport for ever, and no bound would count it."""
    monkeypatch.setattr("group_coordinator.coordinating.gateway.session._LAST_WORDS_S", 0.5)
    describe = struct.pack(">hhih", 15, 0, 1, -1) + struct.pack(">ih", 1, 1) + b"g"
    with front(Bounds(connections_max_idle_ms=500, login_timeout_ms=100)) as gateway:
        gateway.on_ask = lambda pending, reply: reply(described("g", 16 * MIB))
        with connect(gateway) as client:
            client.sendall(struct.pack(">i", len(describe)) + describe)
            wait_until(lambda: gateway.metrics.bytes_to_clients > 0, timeout_s=10)
            wait_until(lambda: gateway.metrics.connections_open == 0, timeout_s=10)
            wait_until(lambda: memory() < 4 * MIB, timeout_s=10)


def test_connections_that_are_held_open_and_not_used_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("group_coordinator.coordinating.gateway.proxy_server._SILENT_S", 0.5)
    with front(connections_max=30) as gateway:
        waiting = connect(gateway)
        gateway.holds = True
        waiting.sendall(wire.heartbeat(1))
        wait_until(lambda: gateway.metrics.requests.get("Heartbeat") == 1, timeout_s=10)
        gateway.holds = False
        hostile = [connect(gateway) for _ in range(29)]
        wait_until(lambda: gateway.metrics.connections_open == 30, timeout_s=10)
        with connect(gateway) as early:
            assert is_closed_within(early, 10), "nobody has been silent for long enough"
        threading.Event().wait(0.6)
        for number in range(40):
            with connect(gateway) as honest:
                honest.sendall(wire.heartbeat(number))
                assert honest.recv(100)
        assert gateway.metrics.connections_broken.keys() == {"too many connections"}
        assert not is_closed_within(waiting, 0.2), "who waits for an answer stays"
        for client in (*hostile, waiting):
            client.close()


def test_a_request_that_comes_byte_by_byte_has_its_time() -> None:
    with front(Bounds(request_timeout_ms=1_000)) as gateway, connect(gateway) as slow, connect(gateway) as patient:
        heartbeat = wire.heartbeat(1)
        slow.sendall(heartbeat[:5])
        for number in range(12):
            patient.sendall(wire.heartbeat(number))
            assert patient.recv(100)
            try:
                slow.sendall(heartbeat[5 + number : 6 + number])
            except OSError:
                break
            threading.Event().wait(0.2)
        assert is_closed_within(slow, 10)
        assert gateway.metrics.connections_broken == {"unfinished": 1}


def test_answers_that_nobody_reads_are_bounded_over_all_connections() -> None:
    describe = struct.pack(">hhih", 15, 0, 1, -1) + struct.pack(">ih", 1, 1) + b"g"
    with front(Bounds(buffered_bytes_max=2 * MIB), connections_max=200) as gateway:
        gateway.on_ask = lambda pending, reply: reply(
            described("g", MIB) if pending.api == "DescribeGroups" else HeartbeatResponse()
        )
        silent_clients = [connect(gateway) for _ in range(12)]
        for client in silent_clients:
            client.sendall((struct.pack(">i", len(describe)) + describe) * 20)
        wait_until(lambda: gateway.metrics.connections_broken.get("no room", 0) > 0, timeout_s=30)
        with connect(gateway) as honest:
            honest.sendall(wire.heartbeat(1))
            assert honest.recv(100)
        assert gateway.shared.buffered.bytes <= 2 * MIB
        for client in silent_clients:
            client.close()


def test_what_the_coordinator_is_asked_is_bounded_over_all_connections() -> None:
    """Large requests wait in their connections, and small ones pass them."""
    large = commit_of(20_000)
    with front(Bounds(queued_max_request_bytes=16 * MIB), connections_max=200) as gateway:
        gateway.holds = True
        hostile = [connect(gateway) for _ in range(30)]
        for client in hostile:
            client.sendall(large)
        wait_until(lambda: gateway.metrics.requests.get("OffsetCommit", 0) >= 2, timeout_s=10)
        with connect(gateway) as honest:
            honest.sendall(wire.heartbeat(1))
            wait_until(lambda: gateway.metrics.requests.get("Heartbeat", 0) == 1, timeout_s=10)
        assert gateway.shared.room.bytes <= 16 * MIB + LIGHT_BYTES
        assert gateway.metrics.requests["OffsetCommit"] < 30
        for client in hostile:
            client.close()


def test_who_waits_and_does_not_read_does_not_hold_up_those_behind() -> None:
    large = commit_of(20_000)
    describe = struct.pack(">hhih", 15, 0, 1, -1) + struct.pack(">ih", 1, 1) + b"g"
    commits: list[Callable[[GroupResponse], None]] = []
    describes: list[Callable[[GroupResponse], None]] = []
    with front(Bounds(queued_max_request_bytes=3 * MIB, buffered_bytes_max=100 * MIB)) as gateway:
        gateway.on_ask = lambda pending, reply: (commits if pending.api == "OffsetCommit" else describes).append(reply)
        first, second, not_reading, behind = (connect(gateway) for _ in range(4))
        first.sendall(large)
        second.sendall(large)
        wait_until(lambda: len(commits) == 2, timeout_s=10)  # no room is left
        not_reading.sendall(struct.pack(">i", len(describe)) + describe + large)
        loop, room = gateway.loop, gateway.shared.room
        wait_until(lambda: len(describes) == room.waiting == 1, timeout_s=10)
        behind.sendall(large)
        wait_until(lambda: room.waiting == 2, timeout_s=10)
        loop.call_soon_threadsafe(describes[0], described("g", 30 * MIB))
        wait_until(lambda: room.waiting == 1, timeout_s=10)
        loop.call_soon_threadsafe(commits[0], OffsetCommitResponse())
        wait_until(lambda: len(commits) == 3, timeout_s=10)
        for client in (first, second, not_reading, behind):
            client.close()


# --------------------------------------------------------------------------------------------------------- answer sizes


def test_one_question_about_an_unknown_group_costs_little_and_a_thousand_do_not() -> None:
    sizes = AnswerSizes()
    assert sizes.expect("OffsetFetch", "g") == UNKNOWN_BYTES
    assert sizes.expect("OffsetFetch", "g") == MIB
    assert sizes.expect("OffsetFetch", "h") == UNKNOWN_BYTES
    assert sizes.last("OffsetFetch", "g") is None
    sizes.learn("OffsetFetch", "g", 700)
    assert sizes.expect("OffsetFetch", "g") == sizes.last("OffsetFetch", "g") == 700
    assert sizes.expect("DescribeGroups", "g") == UNKNOWN_BYTES


def test_a_group_that_is_named_again_and_again_counts_as_often() -> None:
    def weight(mentions: int) -> int:
        pending = PendingRequest(
            number=1, api="DescribeGroups", api_version=5, client_id="c", client_host="127.0.0.1",
            principal="User:alice", request=DescribeGroupsRequest(groups=("g", *["h"] * mentions)),
        )  # fmt: skip
        return Bench().router.weigh(pending)

    assert weight(10) == 11 * UNKNOWN_BYTES
    assert weight(100_000) == Bounds().answer_bytes_max


# ----------------------------------------------------------------------------------------------------- published groups


def published(group_id: str, metadata: bytes = b"", members: int = 1) -> TopicRecord:
    member = SnapshotMember(
        member_id="m", group_instance_id=None, client_id="c", client_host="/h", session_timeout_ms=1,
        rebalance_timeout_ms=1, metadata=metadata, assignment=metadata, partitions=None,
    )  # fmt: skip
    snapshot = GroupSnapshot(
        group_id=group_id, epoch=0, seq=1, time_ms=0, timestamp_ms=0, state="Stable", state_since_ms=0, generation_id=3,
        protocol_type="consumer", protocol_name="range", leader_id="m", members=(member,) * members,
    )  # fmt: skip
    return TopicRecord(group_id.encode(), encode_json(snapshot), 0)


def test_of_published_groups_only_what_is_needed_is_kept() -> None:
    groups = PublishedGroups(1_000_000)
    groups.take([published(f"g{number}", bytes(100_000)) for number in range(20)])
    groups.complete()
    assert groups.kept_bytes < 20 * 1_000
    group = groups.group("g7")
    assert group is not None
    assert (group.state, group.protocol_type) == ("Stable", "consumer")
    assert {member.group_id for member in groups.listed({}) or ()} == {f"g{number}" for number in range(20)}


def test_published_groups_are_bounded_in_bytes_and_those_that_go_make_room(caplog: pytest.LogCaptureFixture) -> None:
    metrics = GatewayMetrics()
    groups = PublishedGroups(100_000, metrics)
    assert incomplete_lists(metrics) == []
    groups.take([published("x" * 30_000 + str(number), members=1_000) for number in range(10)])
    groups.complete()
    listed = [group.group_id for group in groups.listed({}) or ()]
    assert len(listed) == 3
    assert "listed_bytes_max" in caplog.text
    assert metrics.groups_left_out == 7
    assert "ListGroups does not name all" in incomplete_lists(metrics)[0]
    groups.take([TopicRecord(group.encode(), None, 0) for group in listed])
    assert groups.kept_bytes == 0
    groups.take([published("small")])
    groups.take([published("small")])
    assert [group.group_id for group in groups.listed({}) or ()] == ["small"]
    groups.take([TopicRecord(b"small", None, 0)])
    assert groups.kept_bytes == 0
