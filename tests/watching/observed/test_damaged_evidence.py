"""Evidence with gaps: what is shown is less, and never wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import TypeGuard

import pytest

from group_coordinator.watching.broker_logs.broker_lines import BrokerLine
from group_coordinator.watching.narrative import sentences
from group_coordinator.watching.observed.cluster import observe
from group_coordinator.watching.observed.evidence import ALL, Bounds
from group_coordinator.watching.observed.offsets_log import CommitRecord, Entry, LogRecord, TransactionMarker
from group_coordinator.watching.observed.stored_groups import stored_generation
from group_coordinator.watching.tables.fold import fold
from group_coordinator.watching.tables.rows import Ownership
from schemas.history import (
    GroupCreated,
    GroupRecorded,
    History,
    MemberJoined,
    MemberReplaced,
    RebalanceCompleted,
    RebalanceStarted,
    RecordingGap,
)
from tests.watching.observed.recorded import entries, lines, observed, owners_among, quiet_polls

NAMES = ["old-2.8", "old-3.9", "three-brokers", "connect", "migration", "migration-refused", "transactions"]
DAMAGES = ["a gap in the logs", "lines missing", "a compacted past", "begun in the middle"]


def damaged(damage: str, name: str, random: Random) -> tuple[Sequence[Entry], Sequence[BrokerLine]]:
    """Return what is left of a recording."""
    records, log_lines = entries(name), lines(name)
    times = sorted(record.timestamp_ms for record in records)
    since_ms = times[int(random.uniform(0.1, 0.8) * len(times))]
    match damage:
        case "a gap in the logs":
            gap = range(since_ms, since_ms + random.randrange(1_000, 30_000))
            return records, [line for line in log_lines if line.time_ms not in gap]
        case "lines missing":
            return records, [line for line in log_lines if random.random() > 0.3]
        case "a compacted past":
            return compacted(records, since_ms), log_lines
        case "none":
            return records, log_lines
        case _:
            after = [record for record in records if record.timestamp_ms >= since_ms]
            return after, [line for line in log_lines if line.time_ms >= since_ms]


def compacted(records: Sequence[Entry], until_ms: int) -> list[Entry]:
    """Keep of older records the last of each key."""
    last: dict[tuple[object, ...], int] = {}
    for record in records:
        if not isinstance(record, TransactionMarker) and record.timestamp_ms < until_ms:
            last[_key(record)] = record.offset
    return [
        record
        for record in records
        if isinstance(record, TransactionMarker)
        or record.timestamp_ms >= until_ms
        or last[_key(record)] == record.offset
    ]


def _key(record: LogRecord | CommitRecord) -> tuple[object, ...]:
    return record.partition, type(record) if isinstance(record, CommitRecord) else record.name, str(record.key)


@pytest.mark.parametrize("bounds", [ALL, Bounds(commits_max=1, records_per_group=9, lines_per_group=15)])
@pytest.mark.parametrize("damage", [*DAMAGES, "none"])
@pytest.mark.parametrize("name", NAMES)
def test_nobody_owns_what_it_does_not_have(damage: str, name: str, bounds: Bounds) -> None:
    history = observe(*damaged(damage, name, Random(f"{damage} {name}")), {}, bounds).history
    owned = [row for row in fold(history) if isinstance(row, Ownership)]
    for record in history:
        assert sentences.sentence(record)
    for poll in quiet_polls(name):
        owners = owners_among(owned, poll.group_id, poll.at_ms)
        if poll.group["protocol_type"] != "connect":  # an admin client does not know tasks
            assert owners <= poll.owners


def test_a_past_that_is_not_in_the_evidence_is_not_invented() -> None:
    """The logs begin between two generations: members that were there before are found, and have not joined."""
    name = "three-brokers"
    log_lines = lines(name)
    first = {line.event.group_id: line.time_ms for line in reversed(log_lines)}
    history = observe((), [line for line in log_lines if line.time_ms > first[line.event.group_id] + 8_000], {}).history
    gaps = {record.group_id for record in history if isinstance(record, RecordingGap)}
    assert gaps
    for group_id in gaps:
        of_group = [record for record in history if record.group_id == group_id]
        types_before_gap = [type(record) for record in of_group[: of_group.index(next(filter(_is_gap, of_group)))]]
        assert not {RebalanceStarted, MemberJoined, GroupRecorded} & set(types_before_gap)


def _is_gap(record: object) -> bool:
    return isinstance(record, RecordingGap)


def written_again(name: str) -> Iterator[LogRecord]:
    """Yield the records by which a group stored its generation once more: a static member was back."""
    last: dict[str, int] = {}
    for record in entries(name):
        if isinstance(record, LogRecord) and record.name == "GroupMetadata" and record.value:
            generation = stored_generation(record)
            assert generation is not None
            is_static = any(member.identity.group_instance_id for member in generation.members.values())
            if is_static and last.get(record.group_id) == generation.generation_id:
                yield record
            last[record.group_id] = generation.generation_id


@pytest.mark.parametrize("evidence", ["a dump", "with logs of later", "with all logs"])
@pytest.mark.parametrize("name", ["old-2.8", "old-3.9", "three-brokers", "roll-4.2"])
def test_a_static_member_that_comes_back_begins_no_rebalance(name: str, evidence: str) -> None:
    """The group's first record that is left was written when it was back: the ones before are compacted."""
    again = list(written_again(name))
    assert again
    for record in again:
        left = [one for one in entries(name) if one.timestamp_ms >= record.timestamp_ms]
        told_lines = [] if evidence == "a dump" else [line for line in lines(name) if line.event.group_id]
        if evidence == "with logs of later":
            told_lines = [line for line in told_lines if line.time_ms >= record.timestamp_ms]
        history = observe(left, told_lines, {}).history
        of_group = [one for one in history if one.group_id == record.group_id]
        completed = [one for one in of_group if isinstance(one, RebalanceCompleted)]
        near = [one for one in completed if abs(one.timestamp_ms - record.timestamp_ms) < 2]
        assert not near, [sentences.sentence(one) for one in near]
        whole = [one for one in observed(name, with_logs=True).history if one.group_id == record.group_id]
        assert rebalanced(of_group) <= rebalanced(whole)


def rebalanced(history: Iterable[History]) -> set[tuple[str, str]]:
    """Return the ids of static members whose return is told to have begun a rebalance."""
    replaced = (one for one in history if isinstance(one, MemberReplaced) and one.rebalanced)
    return {(one.old_member_id, one.member.member_id) for one in replaced}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["old-2.8", "old-3.9", "three-brokers", "roll-4.2", "lifecycle-3.4"])
def test_lines_tell_all_rebalances_whatever_is_compacted(name: str, seed: int) -> None:
    """What lines tell to the millisecond is told so, though the records beside them are gone, or of a later life."""
    history = observe(*damaged("a compacted past", name, Random(seed)), {}).history
    whole = [one for one in observed(name, with_logs=True).history if isinstance(one, RebalanceCompleted)]
    for one in history:
        if isinstance(one, RebalanceCompleted) and one.cause.certainty == "told":
            assert any(
                (one.group_id, one.outcome) == (other.group_id, other.outcome)
                and abs(one.started_ms - other.started_ms) < 20
                and abs(one.timestamp_ms - other.timestamp_ms) < 20
                for other in whole
            ), sentences.sentence(one)


def test_a_member_whose_records_alone_are_left_makes_no_group() -> None:
    """Compaction leaves what a member asked for, which it wrote once, and of the group's epochs the last."""
    for name in ("consumer-protocol", "rack-4.0", "transactions"):
        for group_id in {record.group_id for record in entries(name) if is_of_member(record)}:
            of_group = [record for record in entries(name) if is_of_member(record) and record.group_id == group_id]
            last = max(of_group, key=lambda record: record.timestamp_ms).timestamp_ms
            older = [record for record in of_group if record.value and record.timestamp_ms < last]
            later = [record for record in entries(name) if record.timestamp_ms >= last]
            history = observe([*older, *later], (), {}).history
            is_by_name = older and older[0].value and older[0].value["subscribed_topic_names"]
            if is_by_name:
                created = [one for one in history if isinstance(one, GroupCreated) and one.group_id == group_id]
                assert not [one for one in created if one.timestamp_ms < last]


@pytest.mark.parametrize("name", ["consumer-protocol", "rack-4.0"])
def test_a_member_with_an_expression_whose_records_alone_are_left_makes_no_group(name: str) -> None:
    """Who subscribes by an expression is in no epoch at first, as in a new group; then its group's is the first."""
    checked = 0
    for record in entries(name):
        if is_of_member(record) and record.value and not record.value["subscribed_topic_names"]:
            history = observe([record], lines(name), {}).history
            assert not [one for one in history if isinstance(one, GroupCreated) and one.group_id == record.group_id]
            checked += 1
    assert checked > 1


def is_of_member(record: Entry) -> TypeGuard[LogRecord]:
    return isinstance(record, LogRecord) and record.name == "ConsumerGroupMemberMetadata"


@pytest.mark.parametrize("name", ["consumer-protocol", "rack-4.0", "share-streams"])
def test_a_target_whose_members_are_compacted_away_is_not_told(name: str) -> None:
    """What it gave to whom went with them: that it gave nothing to nobody would be told of a group that has owners."""
    for record in entries(name):
        if isinstance(record, LogRecord) and record.name.endswith("TargetAssignmentMetadata") and record.value:
            history = observe([record], (), {}).history
            assert [type(one) for one in history] == [RecordingGap]
