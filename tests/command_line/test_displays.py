"""What a terminal shows while it runs: the status line, and the demo's table."""

from __future__ import annotations

import io

import pytest
from msgspec.structs import replace
from rich.console import Console

from coordinator_state import AssignmentChange
from group_coordinator.command_line.errors import CommandError
from group_coordinator.command_line.times import parse_duration_s
from group_coordinator.coordinating.commands.live_groups import StatusLine, group_size
from group_coordinator.proving.commands.demo import DemoView
from group_coordinator.watching.commands.group_tables import list_lines
from schemas.history import GroupSnapshot
from streaming.application import ShardProgress
from tests.coordinator_state.consumer.harness import ConsumerHarness, consumer_heartbeat
from tests.coordinator_state.harness import GroupHarness, of_type


def snapshot(group_id: str, *members: str) -> GroupSnapshot:
    group = GroupHarness(group_id)
    group.stable(*members)
    last = of_type(group.outputs, AssignmentChange)[-1].snapshot
    assert last is not None
    return last


def consumer_group_in_motion() -> GroupSnapshot:
    """B has come, and A has to give up what B is to get."""
    group = ConsumerHarness("g")
    for member, epoch, joins_with in (("a", 0, ("foo",)), ("b", 0, ("foo",)), ("a", 2, None)):
        heartbeat = consumer_heartbeat(member, epoch, joins_with)
        group.send(*heartbeat, client_id=member, topic_metadata=group.metadata)
        group.sleep(1_000)
    last = of_type(group.outputs, AssignmentChange)[-1].snapshot
    assert last is not None
    return last


def progress(shard: int, batch_ms: int, clock_lag_ms: int) -> ShardProgress:
    return ShardProgress(
        shard=shard, batch_id=1, batch_ms=batch_ms, events=5, events_per_second=1.0, groups=1, clock_ms=1,
        clock_lag_ms=clock_lag_ms, phases_ms={}, start_offset=0, end_offset=1, state_memory_bytes=0, state_disk_bytes=0,
    )  # fmt: skip


def test_the_status_line() -> None:
    line = StatusLine()
    assert line.text([], 0, [], now_s=0.0) == "waiting for the first batch"
    shards = [progress(0, 120, 900), progress(1, 340, 400)]
    sizes = [group_size(snapshot("a", "m", "n")), group_size(snapshot("b", "o"))]
    assert line.text(shards, 200, sizes, now_s=4.0) == (
        "2 groups (2 Stable), 3 members, 50 events/s, batch 340 ms, watermark lag 900 ms"
    )


def test_events_per_second_are_those_of_the_last_ten() -> None:
    line, shards = StatusLine(), [progress(0, 1, 1)]
    for second in range(31):
        text = line.text(shards, 1_000 if second < 10 else 1_000 + (second - 10) * 30, [], now_s=float(second))
    assert ", 30 events/s," in text


def test_the_demo_on_a_terminal() -> None:
    screen = io.StringIO()
    with DemoView(Console(file=screen, force_terminal=True, width=100, height=20, color_system=None)) as view:
        view.report("payments-b is killed", is_announcement=True)
        view.report("02:14:07 payments: generation 7 because b expired " + "and so on " * 20, is_announcement=False)
        view.show(1.0, "1 group", {"payments": snapshot("payments", "a", "b")}, {"client": 42})
    text = screen.getvalue()
    assert "payments  Stable  2           client *  t 0         42" in text
    assert "payments-b is killed" in text
    assert all(len(line) <= 100 for line in text.replace("\x1b", "\n").splitlines() if "so on" in line)


def test_a_small_terminal_still_shows_the_last_causes() -> None:
    screen = io.StringIO()
    with DemoView(Console(file=screen, force_terminal=True, width=100, height=10, color_system=None)) as view:
        for number in range(30):
            view.report(f"event {number}", is_announcement=False)
        view.show(1.0, "1 group", {"payments": snapshot("payments", "a", "b")}, {})
    text = screen.getvalue()
    assert "event 29" in text
    assert "event 20" not in text


def test_the_demo_in_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    groups = {"payments": snapshot("payments", "a", "b")}
    with DemoView(Console(file=io.StringIO())) as view:
        view.report("payments-b is killed", is_announcement=True)
        view.report("02:14:07 payments: generation 7", is_announcement=False)
        for elapsed_s in (1.0, 9.9, 10.1, 10.3):
            view.show(elapsed_s, "1 group", groups, {})
    assert capsys.readouterr().out.splitlines() == [
        ">> payments-b is killed",
        "   02:14:07 payments: generation 7",
        "-- 1 group",
        "--   payments: Stable, generation 2; client has t 0, client has t 1",
    ]


def test_the_demo_tells_of_a_consumer_groups_epochs(capsys: pytest.CaptureFixture[str]) -> None:
    groups = {"g": consumer_group_in_motion()}
    with DemoView(Console(file=io.StringIO())) as view:
        view.show(11.0, "1 group", groups, {})
    assert capsys.readouterr().out.splitlines()[1:] == [
        "--   g: Reconciling, consumer group in epoch 3; a (at 2) has foo 0-3, gives up foo 2-3, b has nothing"
    ]
    screen = io.StringIO()
    with DemoView(Console(file=screen, force_terminal=True, width=120, height=20, color_system=None)) as view:
        view.show(1.0, "1 group", groups, {"a": 42})
    assert "?" in screen.getvalue(), screen.getvalue()


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("5m", 300), ("1h30m", 5_400), ("45", 45), ("1m5s", 65)])
def test_durations(text: str, seconds: int) -> None:
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "0s", "5x", "-3s", "1.5m", "m5"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(CommandError, match="is no duration"):
        parse_duration_s(text)


def test_since_is_real_time_also_when_the_groups_clock_lies_behind() -> None:
    hour_ms = 3_600_000
    delayed = replace(
        snapshot("a", "m"), time_ms=2 * hour_ms, state_since_ms=2 * hour_ms - 60_000, timestamp_ms=5 * hour_ms
    )
    assert list(list_lines([delayed]))[1].endswith("1970-01-01 04:59:00")
    of_an_earlier_version = replace(delayed, timestamp_ms=None)
    assert list(list_lines([of_an_earlier_version]))[1].endswith("1970-01-01 01:59:00")
