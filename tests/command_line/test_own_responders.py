"""What `run` says of its responders, and what it waits for at its end: the query decides what they have answered."""

from __future__ import annotations

import pytest

from group_coordinator.coordinating.commands.own_responders import undecided, with_differences, words_of
from group_coordinator.coordinating.responder.process import ResponderReport, ResponderState
from group_coordinator.coordinating.responder.protocol import ResponderStatus
from streaming.watcher import ShardProgress


def batch(shard: int, end_offset: int | None) -> ShardProgress:
    return ShardProgress(
        shard=shard, batch_id=1, batch_ms=1, phases_ms={}, events=1, events_per_second=1.0, start_offset=0,
        end_offset=end_offset, groups=1, state_memory_bytes=0, state_disk_bytes=0, clock_ms=0, clock_lag_ms=0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("decided", "left"),
    [
        ({}, {0: 10, 1: 4}),
        ({0: batch(0, 7)}, {0: 3, 1: 4}),
        ({0: batch(0, None), 1: batch(1, 4)}, {0: 10}),
        ({0: batch(0, 12), 1: batch(1, 4)}, {}),
    ],
)
def test_what_is_left_to_decide(decided: dict[int, ShardProgress], left: dict[int, int]) -> None:
    assert undecided({0: 10, 1: 4}, decided) == left


def test_the_status_line_says_which_responders_do_not_answer() -> None:
    answering = ResponderReport(ResponderState.ANSWERING)
    ended = ResponderReport(ResponderState.FALLEN_BACK, "it has ended with code 1")
    statuses = {0: ResponderStatus(lead_ms=900), 1: ResponderStatus(lead_ms=700), 2: ResponderStatus()}
    assert words_of({0: answering, 1: answering, 2: answering}, statuses) == ", answers 700 ms ahead"
    assert words_of({2: answering}, {2: ResponderStatus()}) == ""
    assert words_of({0: ended, 1: answering}, {0: None, 1: statuses[1]}) == (
        ", 1 of 2 responders answer (shard 0 fallen back: it has ended with code 1)"
    )
    reports = with_differences({0: ended, 1: answering, 2: answering}, {1})
    assert words_of(reports, statuses) == (
        ", 1 of 3 responders answer (shard 0 fallen back: it has ended with code 1; 1 stopped: an answer of a "
        "responder has differed from the query's)"
    )


def test_a_difference_stops_the_responder_of_its_shard_and_no_other() -> None:
    answering = ResponderReport(ResponderState.ANSWERING)
    reports = with_differences({0: answering, 1: answering}, {1})
    assert (reports[0], reports[1].state) == (answering, ResponderState.STOPPED)
    assert "differed" in reports[1].reason
