"""What hostile clients may cost the gateway: memory that is bounded in bytes and age, and turns that come after everybody else's."""

from __future__ import annotations

import asyncio
import gc
import struct
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from group_coordinator.gateway import issued_member_ids
from group_coordinator.gateway.admission import LIGHT_BYTES, Admission
from group_coordinator.gateway.answer_sizes import UNKNOWN_BYTES, AnswerSizes
from group_coordinator.gateway.buffered import Buffered
from group_coordinator.gateway.config import Bounds
from group_coordinator.gateway.digests import digest
from group_coordinator.gateway.fair_scheduler import FairScheduler
from group_coordinator.gateway.handover import Handover, TopicRecord
from group_coordinator.gateway.issued_member_ids import IssuedMemberIds
from group_coordinator.gateway.published_groups import PublishedGroups
from schemas.events import encode_json
from schemas.history import GroupSnapshot, SnapshotMember
from schemas.message_versions import GroupResponse
from schemas.messages import HeartbeatResponse, OffsetCommitResponse
from tests.gateway import wire
from tests.gateway.accounts import Clock, Someone
from tests.gateway.machines import connection, fed
from tests.gateway.proxies import connect, front, is_closed_within
from tests.gateway.router_bench import described
from tests.waiting import wait_until

MIB = 1_048_576


# --------------------------------------------------------------------------------------------------------- handed-out ids


def test_an_id_is_good_once_and_for_its_group() -> None:
    ids = IssuedMemberIds(Clock())
    ids.remember("g", "m")
    assert not ids.take("h", "m")
    assert ids.take("g", "m")
    assert not ids.take("g", "m")


def test_names_take_the_same_room_however_long_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(issued_member_ids, "KEPT_MAX", 10)
    ids = IssuedMemberIds(Clock())
    for number in range(50):
        ids.remember("g" * 32_000, f"{number}-" + "m" * 32_000)
    assert len(ids) == 10
    assert ids.kept_bytes == 10 * 16
    assert ids.take("g" * 32_000, "49-" + "m" * 32_000)
    assert not ids.take("g" * 32_000, "0-" + "m" * 32_000), "the oldest are forgotten"


def test_an_id_that_is_not_used_is_forgotten() -> None:
    clock = Clock()
    ids = IssuedMemberIds(clock)
    ids.remember("g", "m")
    clock.now = 300_001
    ids.remember("g", "n")
    assert len(ids) == 1
    assert not ids.take("g", "m")


def test_digests_do_not_mistake_names_for_others() -> None:
    names: list[tuple[str | None, ...]] = [("ab", "c"), ("a", "bc"), ("abc",), ("abc", ""), ("abc", None), ("1:a",), ("a",)]
    assert len({digest(*each) for each in names}) == len(names)
    assert digest("a", "b") == digest("a", "b")


# ------------------------------------------------------------------------------------------------------------------- room


def test_small_requests_of_who_waits_for_nothing_pass_whatever_others_ask() -> None:
    room, hostile, honest = Admission(1_000_000, 1_000_000), Someone(), Someone()
    while room.admits(hostile, 100_000):
        pass
    assert room.bytes == 1_000_000
    assert room.admits(honest, LIGHT_BYTES)
    assert not room.admits(honest, 1), "one at a time, while there is no room"
    room.release(honest, LIGHT_BYTES)
    assert room.admits(honest, LIGHT_BYTES)


def test_one_connection_does_not_take_all_the_room() -> None:
    room, greedy, other = Admission(1_000_000, 200_000), Someone(), Someone()
    assert room.admits(greedy, 150_000)
    assert not room.admits(greedy, 60_000)
    room.forget(greedy)
    assert room.admits(other, 300_000), "one request may be larger"


def test_what_is_larger_than_all_the_room_goes_alone() -> None:
    room, large, light = Admission(1_000, 1_000), Someone(), Someone()
    assert room.admits(large, 50_000)
    assert not room.admits(light, LIGHT_BYTES + 1)
    room.release(large, 50_000)
    assert light.called
    assert room.admits(light, LIGHT_BYTES + 1)


def test_who_waits_is_told_in_order_and_not_overtaken_by_what_is_heavy() -> None:
    room = Admission(100_000, 100_000)
    holder, first, second = Someone(), Someone(), Someone()
    assert room.admits(holder, 100_000)
    assert not room.admits(first, 90_000)
    assert not room.admits(second, 50_000)
    room.release(holder, 50_000)
    assert (first.called, second.called) == (1, 0)
    assert not room.admits(second, 50_000), "the first is larger, and would never come"
    room.release(holder, 50_000)
    assert room.admits(first, 90_000)
    assert second.called == 1
    room.forget(second)
    room.release(first, 90_000)
    assert room.bytes == 0


# --------------------------------------------------------------------------------------------------------------- buffered


def buffered(bytes_max: int = 1_000, timeout_s: float = 30.0) -> tuple[Buffered, Clock]:
    clock = Clock()
    return Buffered(bytes_max, timeout_s, clock), clock


def test_who_holds_most_for_longest_goes_first() -> None:
    account, clock = buffered()
    hostile, honest = [Someone() for _ in range(9)], Someone()
    for each in hostile:
        account.note(each, 100, 0, is_unfinished=True)
    clock.now = 5.0
    account.note(honest, 300, 0, is_unfinished=False)
    assert not honest.given_up
    gone = [each for each in hostile if each.given_up]
    assert gone
    account.note(honest, 0, 1, is_unfinished=False)
    assert account.bytes == 100 * (9 - len(gone))


def test_who_moves_on_counts_from_then() -> None:
    account, clock = buffered()
    moving, stuck = Someone(), Someone()
    for number in range(10):
        clock.now = float(number)
        account.note(moving, 500, number, is_unfinished=False)
        if number == 5:
            account.note(stuck, 400, 0, is_unfinished=False)
    account.note(moving, 700, 11, is_unfinished=False)
    assert stuck.given_up
    assert not moving.given_up


def test_a_request_must_come_in_time() -> None:
    account, clock = buffered()
    slow, waiting = Someone(), Someone()
    account.note(slow, 1, 0, is_unfinished=True)
    account.note(waiting, 1, 0, is_unfinished=False)
    clock.now = 29.0
    account.note(slow, 2, 0, is_unfinished=True)
    account.sweep()
    assert not slow.given_up, "a byte now and then is not the end"
    clock.now = 30.0
    account.sweep()
    assert slow.given_up
    assert not waiting.given_up


# ------------------------------------------------------------------------------------------------------------------ turns


def run_turns(work: Callable[[FairScheduler, list[str]], None]) -> list[str]:
    seen: list[str] = []

    async def live() -> None:
        loop = asyncio.get_running_loop()
        scheduler = FairScheduler(loop)
        work(scheduler, seen)
        for _ in range(20):
            seen.append("loop")
            await asyncio.sleep(0)

    asyncio.run(live())
    return seen


def test_between_two_long_turns_the_loop_sees_to_everything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("group_coordinator.gateway.fair_scheduler.SLICE_S", 0.0)

    def work(scheduler: FairScheduler, seen: list[str]) -> None:
        for name in "abc":
            scheduler.ask_for(lambda name=name: seen.append(name))  # type: ignore[misc]

    assert run_turns(work)[:6] == ["loop", "a", "loop", "b", "loop", "c"]


def test_who_has_more_comes_again_behind_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("group_coordinator.gateway.fair_scheduler.SLICE_S", 0.0)

    def work(scheduler: FairScheduler, seen: list[str]) -> None:
        left = {"a": 3, "b": 1}

        def turn_of(name: str) -> Callable[[], None]:
            def turn() -> None:
                seen.append(name)
                left[name] -= 1
                if left[name]:
                    scheduler.ask_for(turn)

            return turn

        a, b = turn_of("a"), turn_of("b")
        for turn in (a, a, b):
            scheduler.ask_for(turn)

    assert [each for each in run_turns(work) if each != "loop"] == ["a", "b", "a", "a"]


def test_a_turn_that_fails_costs_the_others_nothing() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    def work(scheduler: FairScheduler, seen: list[str]) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: seen.append("failed"))
        scheduler.ask_for(fail)
        gone = lambda: seen.append("gone")  # noqa: E731
        scheduler.ask_for(gone)
        scheduler.ask_for(lambda: seen.append("next"))
        scheduler.forget(gone)

    assert [each for each in run_turns(work) if each != "loop"] == ["failed", "next"]


# ------------------------------------------------------------------------------------------------------------- connection


def find_coordinators(keys: int, correlation_id: int = 1) -> bytes:
    """FindCoordinator v4 over so many groups."""
    count = keys + 1
    varint = b""
    while count > 127:
        varint, count = varint + bytes([count & 127 | 128]), count >> 7
    body = b"\x00" + varint + bytes([count]) + b"".join(b"\x06%05d" % number for number in range(keys)) + b"\x00"
    head = struct.pack(">hhih", 10, 4, correlation_id, 3) + b"adv\x00"
    return struct.pack(">i", len(head + body)) + head + body


def begun_at_once(data: bytes) -> tuple[int, bool]:
    """How many of the requests are begun when they come, and whether there are more."""
    machine = connection(is_alone=False)
    machine.from_client(data)
    return len(machine.to_coordinator), machine.has_more


def test_a_small_request_is_begun_at_once_and_the_many_behind_it_in_turns() -> None:
    assert begun_at_once(wire.heartbeat(1)) == (1, False)
    begun, has_more = begun_at_once(b"".join(wire.heartbeat(number) for number in range(200)))
    assert 1 <= begun <= 10
    assert has_more


def test_a_dense_request_waits_for_its_turn_and_is_alone_in_it() -> None:
    assert begun_at_once(find_coordinators(10_000)) == (0, True)
    machine = connection(is_alone=False)
    machine.from_client(find_coordinators(10_000) * 3)
    for turn in range(3):
        assert machine.has_more
        assert not machine.reads_client
        machine.go_on()
        assert len(machine.to_coordinator) == turn + 1
    assert not machine.has_more


@pytest.mark.parametrize("partitions", [24_999, 25_000, 50_000])
def test_a_request_has_only_so_many_items(partitions: int) -> None:
    """Each costs far more than its bytes; the topic is one, too."""
    machine = fed(connection(), commit_of(partitions))
    assert len(machine.to_coordinator) == (partitions < 25_000)
    assert (machine.closing is not None) == (partitions >= 25_000)


def test_an_unfinished_request_is_told_from_one_that_waits() -> None:
    whole = find_coordinators(10_000)
    machine = fed(connection(), whole[:-1])
    assert (machine.awaits_rest, machine.has_more, machine.buffered_bytes) == (True, False, len(whole) - 1)
    machine.from_client(whole[-1:])
    assert (machine.awaits_rest, machine.buffered_bytes) == (False, 0)


# ------------------------------------------------------------------------------------------------------------ with sockets


def test_unfinished_requests_are_bounded_over_all_connections() -> None:
    """Whoever sends almost a megabyte and stops is let go when there are too many; who is honest is served."""
    unfinished = struct.pack(">i", MIB) + wire.heartbeat(1)[4:18] + bytes(MIB - 100)
    with front(Bounds(buffered_bytes_max=8 * MIB), connections_max=200) as gateway:
        hostile = [connect(gateway) for _ in range(40)]
        honest = connect(gateway)
        for number, each in enumerate(hostile):
            with suppress(OSError):  # it may be gone already
                each.sendall(unfinished)
            honest.sendall(wire.heartbeat(number))
            assert honest.recv(100)
        wait_until(lambda: gateway.shared.buffered.bytes <= 8 * MIB, timeout_s=10)
        assert gateway.metrics.connections_broken.keys() == {"no room"}
        assert gateway.metrics.connections_open < 20
        for each in (*hostile, honest):
            each.close()
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
    monkeypatch.setattr("group_coordinator.gateway.session._LAST_WORDS_S", 0.5)
    describe = struct.pack(">hhih", 15, 0, 1, -1) + struct.pack(">ih", 1, 1) + b"g"
    with front(Bounds(connections_max_idle_ms=500, login_timeout_ms=100)) as gateway:
        gateway.on_ask = lambda pending, reply: reply(described("g", 16 * MIB))
        with connect(gateway) as deaf:
            deaf.sendall(struct.pack(">i", len(describe)) + describe)
            wait_until(lambda: gateway.metrics.bytes_to_clients > 0, timeout_s=10)
            wait_until(lambda: gateway.metrics.connections_open == 0, timeout_s=10)
            wait_until(lambda: memory() < 4 * MIB, timeout_s=10)


def test_connections_that_are_held_open_and_not_used_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("group_coordinator.gateway.proxy_server._SILENT_S", 0.5)
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
        for each in (*hostile, waiting):
            each.close()


def test_a_request_that_comes_byte_by_byte_has_its_time() -> None:
    with front(Bounds(request_timeout_ms=1_000)) as gateway, connect(gateway) as slow, connect(gateway) as patient:
        beat = wire.heartbeat(1)
        slow.sendall(beat[:5])
        for number in range(12):
            patient.sendall(wire.heartbeat(number))
            assert patient.recv(100)
            try:
                slow.sendall(beat[5 + number : 6 + number])
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
        deaf = [connect(gateway) for _ in range(12)]
        for each in deaf:
            each.sendall((struct.pack(">i", len(describe)) + describe) * 20)
        wait_until(lambda: gateway.metrics.connections_broken.get("no room", 0) > 0, timeout_s=30)
        with connect(gateway) as honest:
            honest.sendall(wire.heartbeat(1))
            assert honest.recv(100)
        assert gateway.shared.buffered.bytes <= 2 * MIB
        for each in deaf:
            each.close()


def test_what_the_coordinator_is_asked_is_bounded_over_all_connections() -> None:
    """Large requests wait in their connections, and small ones pass them."""
    large = commit_of(20_000)
    with front(Bounds(under_way_bytes_max=16 * MIB), connections_max=200) as gateway:
        gateway.holds = True
        hostile = [connect(gateway) for _ in range(30)]
        for each in hostile:
            each.sendall(large)
        wait_until(lambda: gateway.metrics.requests.get("OffsetCommit", 0) >= 2, timeout_s=10)
        with connect(gateway) as honest:
            honest.sendall(wire.heartbeat(1))
            wait_until(lambda: gateway.metrics.requests.get("Heartbeat", 0) == 1, timeout_s=10)
        assert gateway.shared.room.bytes <= 16 * MIB + LIGHT_BYTES
        assert gateway.metrics.requests["OffsetCommit"] < 30
        for each in hostile:
            each.close()


def test_who_waits_and_does_not_read_does_not_hold_up_those_behind() -> None:
    large = commit_of(20_000)
    describe = struct.pack(">hhih", 15, 0, 1, -1) + struct.pack(">ih", 1, 1) + b"g"
    commits: list[Callable[[GroupResponse], None]] = []
    describes: list[Callable[[GroupResponse], None]] = []
    with front(Bounds(under_way_bytes_max=3 * MIB, buffered_bytes_max=100 * MIB)) as gateway:
        gateway.on_ask = lambda pending, reply: (commits if pending.api == "OffsetCommit" else describes).append(reply)
        first, second, deaf, behind = (connect(gateway) for _ in range(4))
        first.sendall(large)
        second.sendall(large)
        wait_until(lambda: len(commits) == 2, timeout_s=10)  # no room is left
        deaf.sendall(struct.pack(">i", len(describe)) + describe + large)
        loop, room = gateway.loop, gateway.shared.room
        wait_until(lambda: len(describes) == room.waiting == 1, timeout_s=10)
        behind.sendall(large)
        wait_until(lambda: room.waiting == 2, timeout_s=10)
        loop.call_soon_threadsafe(describes[0], described("g", 30 * MIB))
        wait_until(lambda: room.waiting == 1, timeout_s=10)
        loop.call_soon_threadsafe(commits[0], OffsetCommitResponse())
        wait_until(lambda: len(commits) == 3, timeout_s=10)
        for each in (first, second, deaf, behind):
            each.close()


def commit_of(partitions: int) -> bytes:
    head = struct.pack(">hhih", 8, 2, 1, 3) + b"adv"
    body = b"\x00\x01g" + struct.pack(">i", -1) + b"\x00\x00" + struct.pack(">qi", -1, 1) + b"\x00\x01t" + struct.pack(">i", partitions)
    body += b"".join(struct.pack(">iqh", number, 1, -1) for number in range(partitions))
    return struct.pack(">i", len(head + body)) + head + body


# ---------------------------------------------------------------------------------------------------------- answer sizes


def test_one_question_about_an_unknown_group_costs_little_and_a_thousand_do_not() -> None:
    sizes = AnswerSizes()
    assert sizes.expect("OffsetFetch", "g") == UNKNOWN_BYTES
    assert sizes.expect("OffsetFetch", "g") == MIB
    assert sizes.expect("OffsetFetch", "h") == UNKNOWN_BYTES
    assert sizes.last("OffsetFetch", "g") is None
    sizes.learn("OffsetFetch", "g", 700)
    assert sizes.expect("OffsetFetch", "g") == sizes.last("OffsetFetch", "g") == 700
    assert sizes.expect("DescribeGroups", "g") == UNKNOWN_BYTES


# -------------------------------------------------------------------------------------------------------- published groups


def published(group_id: str, metadata: bytes = b"", members: int = 1) -> TopicRecord:
    each = SnapshotMember(
        member_id="m", group_instance_id=None, client_id="c", client_host="/h", session_timeout_ms=1, rebalance_timeout_ms=1,
        metadata=metadata, assignment=metadata, partitions=None,
    )  # fmt: skip
    snapshot = GroupSnapshot(
        group_id=group_id, epoch=0, seq=1, time_ms=0, timestamp_ms=0, state="Stable", state_since_ms=0, generation_id=3,
        protocol_type="consumer", protocol_name="range", leader_id="m", members=(each,) * members,
    )  # fmt: skip
    return TopicRecord(group_id.encode(), encode_json(snapshot), 0)


def test_of_published_groups_only_what_is_needed_is_kept() -> None:
    groups = PublishedGroups(1_000_000, keeps_members=True)
    groups.take([published(f"g{number}", bytes(100_000)) for number in range(20)])
    groups.complete()
    assert groups.kept_bytes < 20 * 1_000
    group = groups.group("g7")
    assert group is not None
    assert (group.state, group.generation_id, [each.member_id for each in group.members]) == ("Stable", 3, ["m"])
    assert {each.group_id for each in groups.listed() or ()} == {f"g{number}" for number in range(20)}
    assert PublishedGroups(1_000_000, keeps_members=False).group("g7") is None


def test_published_groups_are_bounded_in_bytes_and_those_that_go_make_room(caplog: pytest.LogCaptureFixture) -> None:
    groups = PublishedGroups(100_000, keeps_members=False)
    groups.take([published("x" * 30_000 + str(number), members=1_000) for number in range(10)])
    groups.complete()
    listed = [each.group_id for each in groups.listed() or ()]
    assert len(listed) == 3
    assert "listed_bytes_max" in caplog.text
    groups.take([TopicRecord(each.encode(), None, 0) for each in listed])
    assert groups.kept_bytes == 0
    groups.take([published("small")])
    groups.take([published("small")])
    assert [each.group_id for each in groups.listed() or ()] == ["small"]
    groups.take([TopicRecord(b"small", None, 0)])
    assert groups.kept_bytes == 0


# --------------------------------------------------------------------------------------------------------------- handover


def test_a_reader_waits_while_the_loop_does_not_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("group_coordinator.gateway.handover._HANDED_OVER_BYTES_MAX", 1_000)
    monkeypatch.setattr("group_coordinator.gateway.handover._SLICE_BYTES", 300)
    taken: list[TopicRecord] = []
    outstanding = []

    async def live() -> None:
        loop = asyncio.get_running_loop()
        handover = Handover(loop, taken.extend)
        records = [TopicRecord(b"k", bytes(99), number) for number in range(500)]
        done = threading.Event()
        complete = asyncio.Event()

        def give() -> None:
            handover.give(records, lambda: False)
            handover.when_taken(complete.set)
            done.set()

        thread = threading.Thread(target=give)
        thread.start()
        while not complete.is_set():
            outstanding.append(handover.waiting_bytes)
            await asyncio.sleep(0)
        thread.join()
        assert taken == records

    asyncio.run(live())
    assert max(outstanding) <= 1_300


def test_a_reader_that_is_told_to_end_does_not_wait_for_a_loop_that_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("group_coordinator.gateway.handover._HANDED_OVER_BYTES_MAX", 1_000)
    monkeypatch.setattr("group_coordinator.gateway.handover._SLICE_BYTES", 300)

    class Busy:
        def call_soon_threadsafe(self, call: Callable[[], None]) -> None:
            pass

    handover = Handover(Busy(), lambda records: None)  # type: ignore[arg-type]
    handover.give([TopicRecord(b"k", bytes(99), number) for number in range(500)], lambda: True)
    assert handover.waiting_bytes <= 1_300
