"""The fold of history into rows: what each row says, repetitions, lost history, packing between batches."""

import json
from base64 import b64decode
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from group_coordinator.watching.tables.fold import GroupTables, StateError, fold, row_key
from group_coordinator.watching.tables.rows import (
    TABLES,
    AnyRow,
    Commit,
    Event,
    Expiry,
    Member,
    Ownership,
    Rebalance,
    Refusal,
    Row,
    Target,
)
from schemas.consumer_group_messages import LEAVE_STATIC_EPOCH
from schemas.events import encode_json
from schemas.history import Cause, GroupDead, History, HistoryRecord, RebalanceStarted
from tests.coordinator_state.consumer.harness import FOO, ConsumerHarness
from tests.coordinator_state.harness import GroupHarness, assignment, subscription
from tests.watching.tables.example_history import START_MS, example_history, history, moment

R = TypeVar("R", bound=Row)


def rows_of(kind: type[R], group_id: str, records: Iterable[History] | None = None) -> list[R]:
    rows = fold(example_history() if records is None else records)
    return [row for row in rows if isinstance(row, kind) and row.group_id == group_id]


def by_key(rows: Iterable[AnyRow]) -> dict[tuple[object, ...], AnyRow]:
    rows_by_key = {row_key(row): row for row in rows}
    return rows_by_key


def spans(group_id: str) -> list[tuple[object, ...]]:
    """(partition, member, from, to, why), seconds since the start of the story."""
    return [
        (row.partition, row.member_id, (row.from_ms - START_MS) / 1000, row.to_ms and (row.to_ms - START_MS) / 1000,
         row.ended_by)
        for row in rows_of(Ownership, group_id)
    ]  # fmt: skip


# ------------------------------------------------------------------------------------------------------------- the rows


def test_a_crash_in_one_row() -> None:
    rebalance = rows_of(Rebalance, "orders")[-1]
    assert (rebalance.trigger, rebalance.outcome, rebalance.member_id, rebalance.client_id) == (
        "member_expired",
        "stable",
        "b",
        "orders-2",
    )
    assert rebalance.cause_chain == "b was not heard for 30000 ms -> rebalance"
    (waited,) = rebalance.waited_for
    assert (waited.member_id, waited.told_ms, waited.joined_ms) == (
        "a",
        moment("2026-11-20 14:01:11"),
        moment("2026-11-20 14:01:15"),
    )
    assert (rebalance.join_ms, rebalance.sync_ms, rebalance.total_ms, rebalance.slowest) == (4_000, 0, 4_000, "a")
    assert (rebalance.generation_before, rebalance.generation_after) == (2, 3)
    assert (rebalance.members, rebalance.partitions, rebalance.leader_id, rebalance.protocol_name) == (
        1,
        3,
        "a",
        "range",
    )


def test_the_chain_of_cause_can_be_looked_up_in_events() -> None:
    for group_id in ("orders", "nervous", "fleet"):
        events = {event.seq: event for event in rows_of(Event, group_id)}
        for rebalance in rows_of(Rebalance, group_id):
            chain = [events[seq] for seq in rebalance.cause_seqs]
            assert chain, "no rebalance has an unknown cause"
            assert events[rebalance.seq].caused_by == chain[-1].seq
            assert all(later.caused_by == earlier.seq for earlier, later in pairwise(chain))


def test_an_eager_owner_gives_up_when_it_rejoins_and_a_dead_one_when_it_expires() -> None:
    assert spans("orders") == [
        (0, "a", 0, 1, "rejoined"),
        (1, "a", 0, 1, "rejoined"),
        (2, "a", 0, 1, "rejoined"),
        (0, "a", 1, 75, "rejoined"),
        (1, "a", 1, 75, "rejoined"),
        (2, "b", 1, 71, "expired"),
        (0, "a", 75, None, None),
        (1, "a", 75, None, None),
        (2, "a", 75, None, None),
    ]
    ended = [row for row in rows_of(Ownership, "orders") if row.ended_by == "expired"]
    assert ended[0].end_seq in rows_of(Rebalance, "orders")[-1].cause_seqs, "the gap's cause can be joined"


def test_a_cooperative_owner_keeps_its_partitions_through_a_rebalance() -> None:
    assert spans("gentle") == [(0, "c1", 0, None, None), (1, "c1", 0, 4, "revoked"), (1, "c2", 5, None, None)]


def test_a_static_member_hands_over_without_a_gap() -> None:
    assert spans("fleet") == [
        (0, "s1", 0, 5, "replaced"),
        (1, "s1", 0, 5, "replaced"),
        (0, "s2", 5, None, None),
        (1, "s2", 5, None, None),
    ]
    old, new = rows_of(Member, "fleet")
    assert (old.ended_by, old.reason, new.replaces, new.protocols) == ("replaced", "by s2", "s1", ("range",))


def test_who_owns_or_shall_own_a_partition_is_named_as_the_member_is() -> None:
    group = ConsumerHarness()
    for member_id in ("a", "b"):
        group.joins(member_id, "foo", instance_id="i")
        group.told(member_id, LEAVE_STATIC_EPOCH, instance_id="i")
    told = [output for output in group.outputs if isinstance(output, HistoryRecord)]
    for records in (told, example_history()):
        rows = list(fold(records))
        members = {(row.group_id, row.member_id): row for row in rows if isinstance(row, Member)}
        owned = [row for row in rows if isinstance(row, Ownership | Target)]
        for row in owned:
            member = members[row.group_id, row.member_id]
            names = (member.client_id, member.client_host, member.group_instance_id)
            assert (row.client_id, row.client_host, row.group_instance_id) == names, row
    assert {row.member_id for row in rows if isinstance(row, Ownership)} >= {"s1", "s2"}


def test_a_target_that_a_static_member_takes_over_is_of_the_epoch_that_it_was_of() -> None:
    """The group may be ahead of it: the member has come back with another subscription."""
    group = ConsumerHarness()
    group.joins("a", "foo", instance_id="i")
    group.told("a", LEAVE_STATIC_EPOCH, instance_id="i")
    group.joins("b", "foo", "bar", instance_id="i")
    assert (group.body.group_epoch, group.body.assignment_epoch) == (3, 2)
    told = [output for output in group.outputs if isinstance(output, HistoryRecord)]
    rows = [row for row in fold(told) if isinstance(row, Target)]
    told_of = {(row.member_id, row.assignment_epoch, row.to_ms is None) for row in rows}
    assert told_of == {("a", 2, False), ("b", 2, True)}


def test_a_static_member_of_a_consumer_group_hands_over_also_where_a_rebalance_follows() -> None:
    group = ConsumerHarness(group_consumer_migration_policy="bidirectional")
    group.joins("a", "bar")
    group.sleep(1_000)
    group.join(new_member_id="b1", protocols={"range": subscription("foo")}, group_instance_id="i")
    owned_partitions = sorted(group.body.members["b1"].assigned[FOO])
    assert owned_partitions
    group.join(new_member_id="b2", protocols={"range": subscription("foo", "bar")}, group_instance_id="i")
    told = [output for output in group.outputs if isinstance(output, HistoryRecord)]
    rows = [row for row in fold(told) if isinstance(row, Ownership)]
    before = [(row.partition, row.ended_by, row.to_ms) for row in rows if row.member_id == "b1"]
    after = [(row.partition, row.from_ms) for row in rows if row.member_id == "b2"]
    assert before == [(partition, "replaced", group.now_ms) for partition in owned_partitions]
    assert after == [(partition, group.now_ms) for partition in owned_partitions]


def test_a_members_life() -> None:
    a, b = sorted(rows_of(Member, "orders"), key=lambda row: row.member_id)
    assert (a.rejoins, a.ended_by, a.first_generation_id, a.last_generation_id) == (2, None, 1, 3)
    assert (b.ended_by, b.reason, b.last_generation_id) == ("expired", "not heard for 30000 ms", 2)
    assert (b.first_seen_ms, b.ended_ms) == (START_MS, START_MS + 71_000)
    assert (b.subscribed_topics, b.protocols, b.session_timeout_ms) == (("t",), ("range",), 30_000)
    (ghost,) = rows_of(Member, "forgotten")
    assert (ghost.joined_ms, ghost.ended_by, ghost.reason) == (None, "never_joined", "expired")


def test_a_commit_that_goes_back() -> None:
    commits = [
        (row.partition, row.previous_offset, row.offset, row.moved, row.rewind) for row in rows_of(Commit, "orders")
    ]
    assert commits == [
        (2, None, 500, None, False),
        (0, None, 100, None, False),
        (1, None, 100, None, False),
        (2, 500, 480, -20, True),
    ]


def test_refusals_and_expiries() -> None:
    (refusal,) = rows_of(Refusal, "shared")
    assert (refusal.error, refusal.rule, refusal.client_id) == (
        "INCONSISTENT_GROUP_PROTOCOL",
        "no_common_protocol",
        "etl-1",
    )
    assert [(row.kind, row.reason, row.partition, row.offset) for row in rows_of(Expiry, "forgotten")] == [
        ("offset", "expired", 0, 7),
        ("offset", "expired", 1, 8),
        ("group", "expired", None, None),
        ("pending_member", "expired", None, None),
    ]
    (expiry,) = rows_of(Expiry, "orders")
    assert (expiry.member_id, expiry.last_heard_ms, expiry.timeout_ms) == ("b", moment("2026-11-20 14:00:41"), 30_000)


def test_every_record_is_one_event() -> None:
    records = [record for record in example_history() if record.group_id == "orders"]
    events = rows_of(Event, "orders")
    assert [(event.epoch, event.seq) for event in events] == [(record.epoch, record.seq) for record in records]
    assert [event.record.encode() for event in events] == [encode_json(record) for record in records]


def test_a_rebalance_that_runs_says_whom_it_waits_for() -> None:
    group = GroupHarness()
    group.stable("a", "b", "c")
    group.sleep(1_000)
    group.leave("c")
    group.sleep(1_000)
    group.join("a")
    (running,) = [row for row in rows_of(Rebalance, "g", history(group)) if row.ended_ms is None]
    assert running.outcome is None
    assert [(member.member_id, member.joined_ms) for member in running.waited_for] == [("a", group.now_ms), ("b", None)]
    assert (running.member_id, running.client_reason) == ("c", "done")


def test_an_interrupted_rebalance_is_named_by_the_next() -> None:
    group = GroupHarness()
    group.stable("a", "b")
    group.join("a")
    group.join("b")
    group.add("c")
    first, second = rows_of(Rebalance, "g", history(group))[-2:]
    assert (first.outcome, first.partitions, second.interrupts) == ("interrupted", None, first.seq)


def test_a_partition_given_to_two_members_is_two_rows() -> None:
    group = GroupHarness()
    group.stable("a", "b")
    group.join("a")
    group.join("b")
    group.sync("a", 3, {"a": assignment("t", 0), "b": assignment("t", 0)})
    owners = [row.member_id for row in rows_of(Ownership, "g", history(group)) if row.to_ms is None]
    assert owners == ["a", "b"]


# ------------------------------------------------------------------------------------------- how the records come


@given(st.randoms(use_true_random=False))
@settings(max_examples=25)
def test_batches_packing_and_repetitions_change_nothing(random: Random) -> None:
    """Any cut into batches, each with a crash that writes some of it again: the same rows in the end."""
    for group_id in ("orders", "nervous", "gentle", "forgotten"):
        records = [record for record in example_history() if record.group_id == group_id]
        latest: dict[tuple[object, ...], AnyRow] = {}
        added: list[AnyRow] = []
        packed = None
        done = 0
        while done < len(records):
            begin = max(0, done - random.randrange(4))
            end = min(len(records), done + 1 + random.randrange(12))
            tables = GroupTables(packed)
            for record in records[begin:end]:
                tables.add(record, encode_json(record).decode())
            for row in tables.take():
                latest[row_key(row)] = row
                if not TABLES[str(row_key(row)[0])].changes:
                    added.append(row)
            packed, done = tables.pack(), end
        expected = by_key(fold(records))
        assert latest == expected
        assert len(added) == len({row_key(row) for row in added}), "a row that only is added is added once"


def test_the_order_of_the_input_does_not_matter() -> None:
    shuffled = list(example_history()) * 2
    Random(7).shuffle(shuffled)
    assert by_key(fold(shuffled)) == by_key(fold(example_history()))


def test_history_that_begins_in_the_midst_of_a_life() -> None:
    """Retention has deleted the beginning: what follows still makes rows, without what is not known."""
    records = [record for record in example_history() if record.group_id == "orders"]
    for begin in range(len(records)):
        rows = list(fold(records[begin:]))
        assert [row for row in rows if isinstance(row, Event)]
        assert all(row.to_ms is None or row.to_ms >= row.from_ms for row in rows if isinstance(row, Ownership))
    after_joining = next(
        n for n, record in enumerate(records) if isinstance(record, RebalanceStarted) and not record.initial
    )
    lives = rows_of(Member, "orders", records[after_joining:])
    assert [(life.member_id, life.ended_by) for life in lives] == [("a", None), ("b", "expired")]


def test_history_with_a_hole_closes_what_was_open() -> None:
    """The end of a life is lost and the next one begins: nothing of the first stays open."""
    first, second = GroupHarness("g"), GroupHarness("g", now_ms=2_000_000)
    first.stable("a", "b")
    first.join("a")  # a rebalance is running
    second.offset = 100
    second.stable("z")
    records = [*history(first), *history(second)]
    rows = list(fold(records))
    ended = [row for row in rows if isinstance(row, Ownership | Member | Rebalance) and row.epoch < 100]
    assert {row.ended_by for row in ended if isinstance(row, Member)} == {"unknown"}
    assert {row.ended_by for row in ended if isinstance(row, Ownership)} == {"rejoined", "unknown"}
    assert [row.outcome for row in ended if isinstance(row, Rebalance)] == ["stable", "stable", "unknown"]
    assert [row.member_id for row in rows if isinstance(row, Ownership) and row.to_ms is None] == ["z"]


def test_refusals_of_another_shard_do_not_hide_the_group() -> None:
    """A request sent to a wrong partition is refused there, under numbers that are larger than the group's own."""
    stray = GroupHarness("orders", START_MS, shard_count=50)
    stray.offset = 10_000
    stray.heartbeat("a", 1)
    moved = [replace(record, cause=of_the_next_partition(record)) for record in history(stray)]
    records = [record for record in example_history() if record.group_id == "orders"]
    tables = GroupTables()
    for record in [*records[:10], *moved, *records[10:]]:
        tables.add(record)
    rows = by_key(tables.take())
    expected = by_key(row for row in fold(records) if not isinstance(row, Event))
    assert {key: row for key, row in rows.items() if key in expected} == expected
    assert len(rows) == len(expected) + 1


def of_the_next_partition(record: History) -> Cause:
    return replace(record.cause, partition=record.cause.partition + 1)


def test_append_times_that_step_back_make_no_row_that_ends_before_it_began() -> None:
    random = Random(3)
    records = [
        replace(record, timestamp_ms=record.timestamp_ms - random.randrange(60_000))
        for record in example_history()
        if record.group_id in ("orders", "nervous", "gentle")
    ]
    for row in fold(records):
        match row:
            case Ownership():
                assert row.duration_ms is None or row.duration_ms >= 0
            case Member():
                assert row.lived_ms is None or row.lived_ms >= 0
            case Rebalance():
                assert min(row.join_ms or 0, row.sync_ms or 0, row.total_ms or 0) >= 0


def test_little_is_kept_of_a_dead_group() -> None:
    records = [record for record in example_history() if record.group_id == "forgotten"]
    death = next(n for n, record in enumerate(records) if isinstance(record, GroupDead))
    tables = GroupTables()
    for record in records[: death + 1]:
        tables.add(record)
    tables.take()
    assert sum(map(len, tables.pack())) < 50


def test_state_that_earlier_programs_packed_goes_on() -> None:
    """`packed_version_1.json`: what was packed after so many records of a group, when version 1 was first written."""
    for packed in json.loads((Path(__file__).parent / "packed_version_1.json").read_bytes()):
        records = [record for record in example_history() if record.group_id == packed["group_id"]]
        from_beginning, opened = GroupTables(), GroupTables((b64decode(packed["head"]), b64decode(packed["body"])))
        for record in records[: packed["records"]]:
            from_beginning.add(record)
        from_beginning.take()
        for record in records[packed["records"] :]:
            from_beginning.add(record)
        for record in records:  # the first ones come again
            opened.add(record)
        assert opened.take() == from_beginning.take()
        assert opened.standing(packed["group_id"]) == from_beginning.standing(packed["group_id"])


def test_state_of_another_version_is_told() -> None:
    tables = GroupTables()
    head, body = tables.pack()
    with pytest.raises(StateError, match="version"):
        GroupTables((b"\x09" + head[1:], body))
