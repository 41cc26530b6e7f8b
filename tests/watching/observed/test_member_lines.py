"""Lines that name a member alone find their group, and take a bounded number of bytes, whoever chose the ids."""

from __future__ import annotations

import tracemalloc

from group_coordinator.watching.broker_logs.broker_lines import BrokerLine, InstanceFenced
from group_coordinator.watching.observed.member_lines import LINES_BYTES_MAX, MEMBERS_BYTES_MAX, MemberLines


def line(number: int, member_id: str) -> BrokerLine:
    event = InstanceFenced(group_id="", member_id="old", group_instance_id="i", owner_member_id=member_id)
    return BrokerLine(time_ms=number, broker=1, partition=None, file="server.log", number=number, event=event)


def test_a_line_waits_for_the_record_that_tells_its_group() -> None:
    lines = MemberLines()
    lines.wait("m", line(1, "m"))
    lines.wait("m", line(2, "m"))
    assert lines.group_of("m") is None
    assert [each.number for each in lines.note("m", "g")] == [1, 2]
    assert lines.group_of("m") == "g"
    assert lines.note("m", "g") == []


def test_very_many_members_and_lines_are_bounded_and_the_newest_are_known() -> None:
    lines, count, length = MemberLines(), 5_000, 30_000
    tracemalloc.start()
    try:
        for number in range(count):
            member_id = f"{number:06d}".ljust(length, "m")
            lines.note(member_id, "g")
            lines.wait(f"x{member_id}", line(number, f"x{member_id}"))
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert taken < 1.5 * (MEMBERS_BYTES_MAX + LINES_BYTES_MAX)
    assert lines.group_of(f"{count - 1:06d}".ljust(length, "m")) == "g"
    assert lines.group_of("000000".ljust(length, "m")) is None
    assert lines.note("x" + f"{count - 1:06d}".ljust(length, "m"), "g")
