"""What led to the epochs of a watched consumer group: nobody is named who did nothing, and nobody is left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from group_coordinator.watching.broker_logs.broker_lines import (
    BrokerLine,
    EpochBumped,
    GroupLoaded,
    LineEvent,
    MemberDeparted,
    MemberFencedOut,
)
from group_coordinator.watching.dashboard.facts import GroupFacts
from group_coordinator.watching.narrative import sentences, words
from group_coordinator.watching.narrative.rebalances import because, rebalances
from group_coordinator.watching.observed.cluster import observe
from group_coordinator.watching.observed.offsets_log import LogRecord
from group_coordinator.watching.tables.fold import fold
from group_coordinator.watching.tables.rows import Member
from schemas.consumer_group_history import (
    ConsumerMemberJoined,
    ConsumerMemberUpdated,
    GroupConverted,
    GroupEpochBumped,
    TargetAssignmentComputed,
)
from schemas.group_states import GroupState
from schemas.history import GroupEmpty, History, MemberDropped, MemberLeft, MemberReplaced, RebalanceStarted
from schemas.observed_history import MemberGone
from tests.watching.history.causes import has_epochs, led_to, told
from tests.watching.observed import recorded

GROUP = "g"
STEP_MS = 1_000

Written = tuple[str, dict[str, Any], dict[str, Any] | None]


def metadata(epoch: int, metadata_hash: int = 7) -> Written:
    return "ConsumerGroupMetadata", {}, {"epoch": epoch, "metadata_hash": metadata_hash}


def member(member_id: str, **fields: object) -> Written:
    value = {
        "instance_id": None, "client_id": member_id, "client_host": "/10.0.0.1", "rebalance_timeout_ms": 60_000,
        "subscribed_topic_names": ["orders"],
    }  # fmt: skip
    return "ConsumerGroupMemberMetadata", {"member_id": member_id}, value | fields


def gone(member_id: str) -> Written:
    return "ConsumerGroupMemberMetadata", {"member_id": member_id}, None


def history_of(*steps: Sequence[Written], lines: Sequence[LineEvent] = ()) -> list[History]:
    """Return the history of a group's steps, the first at 1 s, the next at 2 s; the lines are of the last step."""
    records: list[LogRecord] = []
    for number, step in enumerate(steps, 1):
        for name, key, value in step:
            full_key: dict[str, object] = {"group_id": GROUP, **key}
            records.append(
                LogRecord(
                    partition=7, offset=len(records) + number, timestamp_ms=number * STEP_MS, leader_epoch=0,
                    group_id=GROUP, name=name, key=full_key, value=value, raw=(b"", b""),
                )
            )  # fmt: skip
    at_ms = len(steps) * STEP_MS
    told = [
        BrokerLine(time_ms=at_ms, broker=1, partition=7, file="server.log", number=number, event=event)
        for number, event in enumerate(lines, 1)
    ]
    return list(observe(records, told, {}).history)


def last(history: Sequence[History], kind: type[Any]) -> Any:
    return [record for record in history if isinstance(record, kind)][-1]


def target(epoch: int, **fields: object) -> Written:
    return "ConsumerGroupTargetAssignmentMetadata", {}, {"assignment_epoch": epoch, **fields}


def test_no_target_is_computed_for_a_group_that_only_became_empty() -> None:
    """From Kafka 4.4 on its epoch is written as that of the target, without a time (KAFKA-20442)."""
    joined, left = [member("a"), metadata(2), target(2, assignment_timestamp=STEP_MS)], [gone("a"), metadata(3)]
    history = history_of(joined, [*left, target(3)], [member("b"), metadata(4), target(4, assignment_timestamp=2)])
    computed = [record.assignment_epoch for record in history if isinstance(record, TargetAssignmentComputed)]
    assert computed == [2, 4]
    assert last(history, GroupEmpty).timestamp_ms == 2 * STEP_MS


TWO = [[member("a"), metadata(2), target(2, assignment_timestamp=STEP_MS)], [member("b"), metadata(3)]]


@pytest.mark.parametrize("with_logs", [True, False], ids=["with-logs", "without-logs"])
@pytest.mark.parametrize("name", ["migration", "migration-refused"])
def test_members_that_go_over_with_their_group_have_changed_nothing(name: str, with_logs: bool) -> None:
    history = recorded.observed(name, with_logs=with_logs).history
    converted = {
        (record.group_id, record.timestamp_ms)
        for record in history
        if isinstance(record, GroupConverted) and record.to_protocol == "consumer"
    }
    at_once = [record for record in history if (record.group_id, record.timestamp_ms) in converted]
    assert converted
    changed = {name for record in at_once if isinstance(record, ConsumerMemberUpdated) for name in record.changed}
    assert changed == {"group_protocol"}  # a static member that came back with the new protocol
    reasons = {reason for record in at_once if isinstance(record, GroupEpochBumped) for reason in record.reasons}
    assert "converted" in reasons
    assert "subscription_changed" not in reasons


@pytest.mark.parametrize("with_logs", [True, False], ids=["with-logs", "without-logs"])
@pytest.mark.parametrize("name", ["migration", "migration-refused"])
def test_who_comes_back_with_the_other_protocol_is_replaced_without_a_rebalance(name: str, with_logs: bool) -> None:
    records = [record for record in recorded.observed(name, with_logs=with_logs).history if record.group_id == "static"]
    replaced = [record for record in records if isinstance(record, MemberReplaced)]
    assert len(replaced) == 3
    assert not [record for record in replaced if record.rebalanced]
    facts = GroupFacts("static")
    for record in records:
        facts.add(record)
    last_one = [poll for poll in recorded.polls(name) if poll.group_id == "static"][-1]
    classic = {each["member_id"] for each in last_one.group["members"] if not each["upgraded"]}
    assert set(facts.classic_members) == classic


@pytest.mark.parametrize("rebalanced", [True, False])
def test_whether_a_static_member_that_is_back_needs_a_rebalance(rebalanced: bool) -> None:
    back = member("a2", instance_id="i", subscribed_topic_names=["orders", "more"] if rebalanced else ["orders"])
    steps = [[member("a1", instance_id="i"), metadata(2)], [gone("a1"), back, *([metadata(3)] if rebalanced else [])]]
    history = history_of(*steps)
    replaced = last(history, MemberReplaced)
    assert replaced.rebalanced == rebalanced
    assert sentences.sentence(replaced).endswith("a rebalance is needed" if rebalanced else "no rebalance")
    assert (last(history, RebalanceStarted).timestamp_ms == replaced.timestamp_ms) == rebalanced


@pytest.mark.parametrize("with_logs", [True, False], ids=["with-logs", "without-logs"])
@pytest.mark.parametrize("name", ["migration", "migration-refused", "consumer-protocol"])
def test_groups_are_stable_when_polls_say_so(name: str, with_logs: bool) -> None:
    groups: dict[str, GroupFacts] = {}
    for record in recorded.observed(name, with_logs=with_logs).history:
        groups.setdefault(record.group_id, GroupFacts(record.group_id)).add(record)
    checked = 0
    for poll in recorded.quiet_polls(name):
        if poll.group.get("group_epoch") is not None:
            moment = groups[poll.group_id].at(poll.until_ms)
            assert moment is not None
            assert moment.state == GroupState.STABLE, poll
            checked += 1
    assert checked > 10


@pytest.mark.parametrize("with_logs", [True, False], ids=["with-logs", "without-logs"])
@pytest.mark.parametrize("name", ["migration", "migration-refused", "consumer-protocol"])
def test_all_that_was_written_in_a_step_led_to_its_epoch(name: str, with_logs: bool) -> None:
    history = recorded.observed(name, with_logs=with_logs).history
    steps: dict[tuple[str, int], list[History]] = {}
    for record in history:
        steps.setdefault((record.group_id, record.timestamp_ms), []).append(record)
    converted = 0
    for (group_id, _), step in steps.items():
        if has_epochs(step):
            assert led_to(step).items() <= told([record for record in history if record.group_id == group_id]).items()
            converted += any(isinstance(record, GroupConverted) for record in step)
    assert converted or name == "consumer-protocol"


@pytest.mark.parametrize("name", ["migration", "migration-refused"])
def test_who_left_is_named_by_the_rebalance_of_the_group_that_is_classic_again(name: str) -> None:
    history = recorded.observed(name, with_logs=True).history
    named = 0
    for group_id in {record.group_id for record in history}:
        for rebalance in rebalances([record for record in history if record.group_id == group_id]):
            if rebalance.started.trigger == "group_converted":
                assert [type(cause) for cause in rebalance.causes] == [MemberLeft, GroupConverted]
                assert rebalance.started.member is not None
                assert because(rebalance).endswith(f"; {words.member(rebalance.started.member)} left")
                named += 1
    assert named


def test_who_changes_nothing_that_matters_led_to_nothing() -> None:
    steps = [*TWO, [member("c"), member("a", client_host="/10.0.0.2"), metadata(4)]]
    *_, rebalance = rebalances(history_of(*steps))
    assert [type(cause) for cause in rebalance.causes] == [ConsumerMemberJoined]


@pytest.mark.parametrize(
    ("field", "value"),
    [("client_host", "/10.0.0.2"), ("client_id", "other"), ("rack_id", "r2"), ("instance_id", "i")],
)
def test_what_a_member_changes_is_named(field: str, value: str) -> None:
    history = history_of(*TWO, [member("a", **{field: value})])
    updated = last(history, ConsumerMemberUpdated)
    assert [name.removeprefix("group_") for name in updated.changed] == [field]
    assert sentences.sentence(updated).endswith(f"changes its {updated.changed[0].replace('_', ' ')}")


@pytest.mark.parametrize(
    ("why", "reason", "words"),
    [
        ("it failed to transition from epoch 3 within 60000ms", "did_not_revoke", "member a was too slow"),
        ("the classic member failed to join within the rebalance timeout", "did_not_rejoin", "member a was too slow"),
        ("something else", "fenced", "member a was fenced"),
    ],
)
def test_who_is_put_out_has_not_left(why: str, reason: str, words: str) -> None:
    fenced = MemberFencedOut(group_id=GROUP, member_id="a", why=why)
    history = history_of(*TWO, [gone("a"), metadata(4)], lines=[fenced])
    assert last(history, MemberDropped).reason == reason
    started = last(history, RebalanceStarted)
    assert (started.trigger, sentences.because(started)) == ("member_dropped", words)
    assert last(history, GroupEpochBumped).reasons == ("member_dropped",)


def test_who_expired_was_not_heard_for_a_time_that_is_not_known() -> None:
    fenced = MemberFencedOut(group_id=GROUP, member_id="a", why="the member session expired")
    history = history_of(*TWO, [gone("a"), metadata(4)], lines=[fenced])
    (row,) = [row for row in fold(history) if isinstance(row, Member) and row.member_id == "a"]
    assert (row.ended_by, row.reason) == ("expired", "not heard for its session timeout")


def test_an_expiry_that_was_never_written_is_not_the_one_before() -> None:
    """A coordinator that stood still lets members expire after it has lost its partition."""
    expired = MemberFencedOut(group_id=GROUP, member_id="a", why="the member session expired")
    steps = [[member("a"), metadata(2)], [gone("a"), metadata(3)], [member("a"), metadata(4)]]
    steps += [[member(f"b{number}"), metadata(number)] for number in range(5, 50)]
    history = history_of(*steps, lines=[GroupLoaded(group_id=GROUP), EpochBumped(group_id=GROUP, epoch=49), expired])
    assert [record.timestamp_ms for record in history] == sorted(record.timestamp_ms for record in history)
    assert last(history, MemberGone).timestamp_ms == 2 * STEP_MS


def test_an_epoch_is_not_called_a_generation() -> None:
    history = history_of(TWO[0], [gone("a"), metadata(3)])
    assert last(history, GroupEmpty).generation_id == 3
    assert not [text for record in history if "generation" in (text := sentences.sentence(record))]


@pytest.mark.parametrize("lines", [True, False])
def test_all_that_went_in_one_step_led_to_the_epoch(lines: bool) -> None:
    leaves = [MemberDeparted(group_id=GROUP, member_id=each, client_reason=None) for each in ("a", "b")]
    steps = [*TWO, [member("c"), metadata(4)], [gone("a"), gone("b"), metadata(5)]]
    *_, rebalance = rebalances(history_of(*steps, lines=leaves if lines else ()))
    assert [cause.member.member_id for cause in rebalance.causes] == ["a", "b"]  # type: ignore[union-attr]
    assert rebalance.started.member is not None
    assert rebalance.started.member.member_id == "a"


def test_of_a_group_that_was_there_before_nobody_knows_why_its_epoch_rose() -> None:
    history = history_of([metadata(7)])
    assert last(history, RebalanceStarted).trigger == "not_known"
    assert last(history, GroupEpochBumped).reasons == ("not_known",)


def test_who_joins_a_group_that_was_there_before_has_not_joined_an_empty_one() -> None:
    assert sentences.because(last(history_of([member("a"), metadata(7)]), RebalanceStarted)) == "a joined"
    assert sentences.because(last(history_of(TWO[0]), RebalanceStarted)) == "a joined the empty group"
    again = history_of(TWO[0], [gone("a"), metadata(3)], [member("b"), metadata(4)])
    assert sentences.because(last(again, RebalanceStarted)) == "b joined the empty group"


@pytest.mark.parametrize(("epoch", "because"), [(1, "a joined the empty group"), (2, "a joined")])
def test_groups_of_kafka_4_0_to_4_2_begin_at_epoch_1(epoch: int, because: str) -> None:
    history = history_of([member("a"), metadata(epoch), target(epoch)])
    assert sentences.because(last(history, RebalanceStarted)) == because


def partition_metadata(**topics: tuple[int, int]) -> Written:
    """As Kafka 4.0 writes it. `topics`: name -> number in its id, and partitions."""
    value = [
        {"topic_id": bytes([number] * 16), "topic_name": name, "num_partitions": count, "partition_metadata": ()}
        for name, (number, count) in topics.items()
    ]
    return "ConsumerGroupPartitionMetadata", {}, {"topics": tuple(value)}


@pytest.mark.parametrize(
    ("now", "told"),
    [
        ({"a": (1, 4)}, "topic b was deleted"),
        ({"a": (1, 6), "b": (2, 3)}, "topic a has 6 partitions now, and had 4"),
        ({"a": (3, 4), "b": (2, 3)}, "topic a was deleted and made again"),
        ({"a": (1, 4), "b": (2, 3), "c": (4, 1)}, "topic c was created"),
    ],
)
def test_kafka_4_0_tells_which_topics_have_changed(now: dict[str, tuple[int, int]], told: str) -> None:
    first = [member("m"), partition_metadata(a=(1, 4), b=(2, 3)), metadata(1), target(1)]
    rebalance = last(history_of(first, [partition_metadata(**now), metadata(2)]), RebalanceStarted)
    assert (rebalance.trigger, rebalance.reason) == ("topics_changed", told)


def test_of_topics_that_a_member_asks_for_anew_none_has_changed() -> None:
    first = [member("m"), partition_metadata(orders=(1, 4)), metadata(1), target(1)]
    more = member("m", subscribed_topic_names=["orders", "b"])
    history = history_of(first, [more, partition_metadata(orders=(1, 4), b=(2, 3)), metadata(2)])
    assert last(history, GroupEpochBumped).reasons == ("subscription_changed",)


def test_topics_that_change_are_a_reason_where_they_were_known() -> None:
    assert last(history_of(*TWO, [metadata(4, 8)]), GroupEpochBumped).reasons == ("topics_changed",)


def test_an_empty_group_that_becomes_a_classic_one_is_empty() -> None:
    classic: Written = (
        "GroupMetadata", {},
        {"protocol_type": "consumer", "generation": 0, "protocol": None, "leader": None, "members": ()},
    )  # fmt: skip
    tombstone: Written = ("ConsumerGroupMetadata", {}, None)
    history = history_of(TWO[0], [gone("a"), metadata(3)], [tombstone, classic])
    facts = GroupFacts(GROUP)
    for record in history:
        facts.add(record)
    assert last(history, GroupConverted).to_protocol == "classic"
    assert (facts.state, facts.kind) == (GroupState.EMPTY, "classic")
