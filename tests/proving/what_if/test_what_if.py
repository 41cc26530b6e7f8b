"""What if: without a change the players do what the recorded clients did; with one, what clients would have done."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from coordinator_state import GroupConfig
from group_coordinator.coordinating.assignors import ASSIGNORS
from group_coordinator.proving.what_if.group_log import LogClock, WhatIfError, group_log
from group_coordinator.proving.what_if.reading import read_clients
from group_coordinator.proving.what_if.what_if import play
from group_coordinator.watching.dashboard.change import Change
from group_coordinator.watching.tables.fold import fold
from group_coordinator.watching.tables.rows import Ownership, Rebalance
from schemas.events import encode_json
from schemas.history import decode_history
from schemas.recorded import RecordingGap
from schemas.records_file import Record
from tests.proving.what_if.pages import summary_of
from tests.proving.what_if.recordings import log_of, recorded, records

NOW_MS = 1_900_000_000_000
GROUPS = ("crash", "coop", "deploy", "poll", "static")
"""Each is the main group of the recording of its name."""


def rebalances(values: list[bytes] | tuple[bytes, ...]) -> list[Rebalance]:
    return [row for row in fold([decode_history(value) for value in values]) if isinstance(row, Rebalance)]


def triggers(values: list[bytes] | tuple[bytes, ...]) -> Counter[str]:
    return Counter(row.trigger for row in rebalances(values))


def owners(values: list[bytes] | tuple[bytes, ...]) -> Counter[str]:
    """How many partitions each member id ever owned."""
    return Counter(
        row.member_id for row in fold([decode_history(value) for value in values]) if isinstance(row, Ownership)
    )


@pytest.mark.parametrize("name", GROUPS)
def test_without_a_change_it_is_as_it_was(name: str) -> None:
    """The same rebalances for the same reasons, among the same members; but for how long clients take to react, and one
    that a member may hear of before it leaves, or not: that depends on when its heartbeat falls."""
    played = play(log_of(name), GroupConfig(), ASSIGNORS)
    before, after = rebalances(recorded(name)), rebalances(played)
    assert (triggers(played) - triggers(recorded(name)) + (triggers(recorded(name)) - triggers(played))).total() <= 1
    assert sum(row.total_ms or 0 for row in after) == pytest.approx(
        sum(row.total_ms or 0 for row in before), rel=0.3, abs=500
    )
    for recorded_row in before[: len(after)]:
        assert any(
            played_row.trigger == recorded_row.trigger
            and abs(recorded_row.started_ms - played_row.started_ms) < 1_500
            for played_row in after
        )
    assert set(owners(played)) & set(owners(recorded(name))), "members have the ids that they had"


def test_the_same_twice() -> None:
    assert play(log_of("crash"), GroupConfig(), ASSIGNORS) == play(log_of("crash"), GroupConfig(), ASSIGNORS)


def test_a_longer_session_timeout_and_a_client_that_is_silent_for_a_while() -> None:
    """`poll`: a client is silent, expires, and comes back. With a longer session it is never missed."""
    assert triggers(recorded("poll"))["member_expired"] == 1
    played = play(log_of("poll"), GroupConfig(), ASSIGNORS, Change(session_timeout_ms=60_000))
    assert triggers(played)["member_expired"] == 0
    assert len(rebalances(played)) < len(rebalances(recorded("poll")))


def test_a_longer_session_timeout_and_a_client_that_died() -> None:
    """`crash`: now the group waits for the dead one, and its partitions have nobody at work on them for longer."""
    played = rebalances(play(log_of("crash"), GroupConfig(), ASSIGNORS, Change(session_timeout_ms=30_000)))
    assert max(row.total_ms or 0 for row in played) > 2 * max(
        row.total_ms or 0 for row in rebalances(recorded("crash"))
    )


def test_a_shorter_initial_delay() -> None:
    first = rebalances(play(log_of("crash"), GroupConfig(), ASSIGNORS, Change(initial_delay_ms=0)))[0]
    assert (first.join_ms or 0) < 1_000
    assert (rebalances(recorded("crash"))[0].join_ms or 0) >= 3_000


def test_static_members_do_not_leave() -> None:
    """`deploy`, where the new version comes under other names, and `crash`, whose clients leave at the end."""
    assert triggers(recorded("crash"))["member_left"] == 3
    assert triggers(play(log_of("crash"), GroupConfig(), ASSIGNORS, Change(static_members=True)))["member_left"] == 0


def test_another_assignor_moves_less() -> None:
    """`deploy` with cooperative-sticky in place of range: partitions that stay have an owner all the time."""
    played = [
        decode_history(value)
        for value in play(log_of("deploy"), GroupConfig(), ASSIGNORS, Change(assignor="cooperative-sticky"))
    ]
    ownerships = [row for row in fold(played) if isinstance(row, Ownership)]
    assert len(ownerships) < sum(owners(recorded("deploy")).values()) / 2


def test_what_cannot_be_played() -> None:
    with pytest.raises(WhatIfError, match="between 6 s and 1800 s"):
        play(log_of("crash"), GroupConfig(), ASSIGNORS, Change(session_timeout_ms=3_000))
    with pytest.raises(WhatIfError, match="no assignor 'mine'"):
        play(log_of("crash"), GroupConfig(), ASSIGNORS, Change(assignor="mine"))
    gap = Record(
        partition=0, offset=0, timestamp_ms=1, key=b"g", value=encode_json(RecordingGap(reason="lines are missing"))
    )
    with pytest.raises(WhatIfError, match="does not tell all of the group's life"):
        read_clients(group_log([gap], "g", GroupConfig().tick_ahead_bound_ms), GroupConfig())
    with pytest.raises(WhatIfError, match="no request of group nobodys"):
        group_log(records("crash"), "nobodys", 3_000)
    for batch in (100, 1_000_000):  # records of a batch have one append time
        imported = [
            msgspec.structs.replace(record, timestamp_ms=NOW_MS + number // batch)
            for number, record in enumerate(records("crash"))
        ]
        with pytest.raises(WhatIfError, match="as those of an import do"):
            group_log(imported, "crash", GroupConfig().tick_ahead_bound_ms)
    with pytest.raises(WhatIfError, match="not known here"):
        play(log_of("crash"), GroupConfig(), {})


def test_lives_of_a_crash() -> None:
    clients = {life.client_id: life for life in read_clients(log_of("crash"), GroupConfig()).clients}
    assert len(clients) == 4
    assert (clients["b"].leaves, clients["b"].ends_ms is not None) == (False, True)
    assert [clients[name].leaves for name in "acd"] == [True, True, True]


def test_the_clock_of_a_log() -> None:
    clock = LogClock([(1_000, 1_000), (2_000, 2_000), (62_000, 3_000), (63_000, 4_000)])
    assert [clock.at(time_ms) for time_ms in (500, 1_500, 32_000, 64_000)] == [500, 1_500, 2_500, 5_000]
    assert [clock.when(clock_ms) for clock_ms in (500, 1_500, 2_500, 5_000)] == [500, 1_500, 32_000, 64_000]
    assert LogClock([]).at(7) == 7


@pytest.mark.parametrize("name", ["deploy", "manual", "mixed", "poll", "static"])
def test_partitions_are_without_owner_for_as_long_as_in_the_recording(name: str) -> None:
    """Though each rebalance is played anew: clients react as quickly, and hear of it when their heartbeats fall."""

    before = summary_of(recorded(name), name)
    after = summary_of(play(log_of(name), GroupConfig(), ASSIGNORS), name)
    assert after["unowned_ms"] == pytest.approx(before["unowned_ms"], rel=0.1)
    assert after["silent_ms"] == pytest.approx(before["silent_ms"], rel=0.05)
    assert (after["moves"], after["put_out"]) == (before["moves"], before["put_out"])
