"""Every record of history has its sentence."""

from __future__ import annotations

from datetime import timedelta, timezone
from typing import get_args, get_type_hints

import pytest
from msgspec.structs import replace

from group_coordinator.watching.narrative import sentences, steps, words
from schemas.consumer_group_history import ConsumerGroupHistory
from schemas.history import (
    AssignedTopic,
    Cause,
    CauseKind,
    History,
    MemberDropped,
    MemberExpired,
    MemberIdentity,
    MemberJoined,
    RebalanceTrigger,
)
from schemas.observed_history import ObservedHistory
from schemas.transaction_history import TransactionHistory
from tests.command_line.histories import A, crash, everything
from tests.coordinator_state.harness import GroupHarness, of_type

UTC_PLUS_2 = timezone(timedelta(hours=2))


def test_the_test_history_has_every_type_of_record() -> None:
    others = TransactionHistory | ConsumerGroupHistory | ObservedHistory
    assert {type(record) for record in everything()} == set(get_args(History)) - set(get_args(others))


def test_every_sentence_names_who_and_none_shows_python() -> None:
    for record in everything():
        text = sentences.sentence(record)
        assert text == text.strip()
        assert text
        for python in ("None", "(", "<", "{"):
            assert not text.startswith(python)
        assert "None" not in text, text
        assert "tuple" not in text, text


def test_there_are_as_many_words_for_triggers_as_triggers() -> None:
    assert set(sentences.TRIGGERS) == set(get_args(RebalanceTrigger))


def test_a_crash_in_sentences() -> None:
    lines = [sentences.line(record) for record in crash()]
    assert lines[19:] == [
        "00:00:10 payments: b (/127.0.0.1) expires: last heard 10 s ago, its time was 10 s",
        "00:00:10 payments: a rebalance starts, because b expired (last heard 10 s ago); it waits for a-6f1b2c3d, "
        "until "
        "00:01:10 at the latest",
        "00:00:12 payments: a-6f1b2c3d rejoins",
        "00:00:12 payments: assignor range is chosen: range 1 vote",
        "00:00:12 payments: generation 3 begins with 1 member, after 2 s; waited for a-6f1b2c3d",
        "00:00:12 payments: leader a-6f1b2c3d assigns: a-6f1b2c3d gets t 0-1",
        "00:00:12 payments: the group is stable in generation 3: 1 member, led by a-6f1b2c3d, assignor range",
        "00:00:12 payments: the rebalance to generation 3 is done after 2.1 s",
    ]


@pytest.mark.parametrize(
    "expected",
    [
        "a commits t-0 at 7 (back from 10)",
        'b leaves, saying "done"',
        "Heartbeat of a is refused with ILLEGAL_GENERATION: the request speaks of generation 9, the group is in "
        "generation 1 "
        "(the group was Stable)",
        "static member s comes back as s2 in place of s1: it keeps its partitions, no rebalance",
        "s1 is fenced off static member s: the instance is s2 now",
        "b is dropped: it did not rejoin before the rebalance timeout",
        "the offsets of t-3 (was 4) expire",
        "the offsets of t-0 (was 7) are deleted by client client (/127.0.0.1)",
        "the group is gone: it has no members and no offsets",
        "the recording tells of the group from here on: generation 7 of a, led by a",
        "from here on nothing is known of the group: lines are missing",
        "members are still arriving: the rebalance waits until 00:00:06",
    ],
)
def test_what_is_said(expected: str) -> None:
    assert expected in [sentences.sentence(record) for record in everything()]


def test_times_are_those_of_the_zone_that_is_asked_for() -> None:
    record = crash()[3]
    assert sentences.line(record, UTC_PLUS_2).startswith("02:00:00 payments: a rebalance starts")
    assert "it waits until 02:00:00" in sentences.sentence(record, UTC_PLUS_2)


@pytest.mark.parametrize(
    ("duration_ms", "expected"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1 s"),
        (10_249, "10.2 s"),
        (59_999, "59.9 s"),
        (60_000, "1 min"),
        (125_000, "2 min 5 s"),
        (3_600_000, "1 h"),
        (11_400_000, "3 h 10 min"),
        (86_400_000, "1 day"),
        (8 * 86_400_000 + 7_200_000, "8 days 2 h"),
        (-1_500, "-1.5 s"),
    ],
)
def test_durations(duration_ms: int, expected: str) -> None:
    assert words.duration(duration_ms) == expected


def test_names_stay_apart_and_can_be_read() -> None:
    assert words.name(A) == "a-6f1b2c3d"
    assert words.name("not-a-uuid") == "not-a-uuid"
    assert words.name("") == "a client without a member id"


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([], ""),
        (["a"], "a"),
        (["a", "b"], "a and b"),
        (list("abc"), "a, b and c"),
        (list("abcdefg"), "a, b, c, d, e and 2 more"),
    ],
)
def test_lists(texts: list[str], expected: str) -> None:
    assert words.listed(texts) == expected


def test_what_a_member_holds() -> None:
    topics = (AssignedTopic(topic="t", partitions=(5, 0, 2, 1)), AssignedTopic(topic="u", partitions=(3,)))
    assert words.owned(topics) == "t 0-2, 5; u 3"
    assert words.owned(()) == "nothing"
    assert words.owned(None) == "something that is no consumer assignment"


def test_times_beyond_the_calendar_do_not_fail() -> None:
    assert words.clock(2**62)
    assert words.clock(-1) == words.clock(0)


def test_the_reason_that_every_first_join_gives_is_left_out() -> None:
    (joined, *_) = (record for record in crash() if isinstance(record, MemberJoined))
    for reason, is_said in (("need to re-join with the given member-id: a-1", False), ("rebalance failed", True)):
        sentence = sentences.sentence(replace(joined, cause=replace(joined.cause, reason=reason)))
        assert ("saying" in sentence) is is_said


def test_who_expires_after_a_pause_of_the_clock_is_not_said_to_have_had_one_session_only() -> None:
    group = GroupHarness()
    group.stable("a")
    group.sleep(9_000)
    group.renew_sessions()
    (expired,) = of_type(group.sleep(10_000), MemberExpired)
    assert sentences.sentence(expired).endswith(
        "last heard 19 s ago, its time was 10 s, begun anew after a pause of the clock"
    )


@pytest.mark.parametrize("reason", get_args(get_type_hints(MemberDropped)["reason"]))
def test_every_reason_to_drop_a_member_has_words(reason: str) -> None:
    a = MemberIdentity(member_id="a", client_id="a", client_host="h")
    cause = Cause(kind="timer", partition=0, offset=1)
    record = MemberDropped("g", 1, 1, 0, 0, 3, cause, member=a, reason=reason)  # type: ignore[arg-type]
    assert sentences.sentence(record).startswith("a is dropped: ")


def test_ids_of_the_consumer_protocol_are_short_everywhere() -> None:
    identity = MemberIdentity(member_id="q7PSb5mLRyGCVxRVgnDvwQ", client_id="orders-1", client_host="h")
    assert words.member(identity) == "orders-1 (q7PSb5mL)"
    assert words.name(identity.member_id) == "q7PSb5mL"
    assert words.name("payments-consumer-9") == "payments-consumer-9"


@pytest.mark.parametrize("kind", sorted(set(get_args(CauseKind)) - {"observed"}))
def test_every_cause_has_a_place_in_the_log(kind: CauseKind) -> None:
    assert steps.place(Cause(kind=kind, partition=3, offset=17)).endswith("at events partition 3, offset 17")
