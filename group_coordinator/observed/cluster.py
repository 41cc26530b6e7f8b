"""The history of all groups of a watched cluster, from records of its offsets topic and lines of its brokers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from group_coordinator.observed.clock_skew import Skew, estimate
from group_coordinator.observed.group import ObservedGroup
from group_coordinator.observed.offsets_log import Entry, LogRecord
from group_coordinator.observed.ordering import TimedLine, in_order, timed
from group_coordinator.observed.transactions import Fact, OpenTransaction, PartitionCommits
from group_coordinator.recordings import broker_lines as told
from group_coordinator.recordings.broker_lines import BrokerLine
from group_coordinator.recordings.broker_patterns import NO_GROUP
from schemas.history import History
from schemas.java_hash import group_partition

OFFSETS_PARTITIONS = 50
"""Kafka's default of `offsets.topic.num.partitions`; of use only where neither record nor line names a partition."""


class Observed(Struct, frozen=True, kw_only=True):
    """What came of the evidence."""

    history: list[History]
    """Group by group, in order."""
    skews: Mapping[int | None, Skew]
    """Of each broker's log."""
    open_transactions: tuple[OpenTransaction, ...]
    """Those whose end is not in the log, the oldest first."""


def observe(entries: Iterable[Entry], lines: Sequence[BrokerLine], topic_names: Mapping[str, str]) -> Observed:
    """`entries`: by partition and offset. `lines`: in any order. `topic_names`: by topic id, as far as it is known."""
    facts, open_transactions = _facts_by_group(entries)
    records = [fact for of_group in facts.values() for fact in of_group if isinstance(fact, LogRecord)]
    skews = estimate(records, lines)
    told_of = _lines_by_group(timed(lines, skews), records)
    names = {**_names_in_records(facts), **topic_names}
    history: list[History] = []
    for group_id in sorted(facts.keys() | told_of.keys()):
        of_group, lines_of_group = facts.get(group_id, []), told_of.get(group_id, [])
        group = ObservedGroup(group_id, _partition(group_id, of_group, lines_of_group), names)
        history += group.follow(in_order(of_group, lines_of_group))
    return Observed(history=history, skews=skews, open_transactions=open_transactions)


def _facts_by_group(entries: Iterable[Entry]) -> tuple[dict[str, list[Fact]], tuple[OpenTransaction, ...]]:
    found: dict[str, list[Fact]] = {}
    still_open: list[OpenTransaction] = []
    for _, of_partition in groupby(entries, key=attrgetter("partition")):
        commits = PartitionCommits()
        for fact in commits.facts(of_partition):
            found.setdefault(fact.group_id, []).append(fact)
        still_open += commits.open_transactions()
    return found, tuple(sorted(still_open, key=lambda each: (each.since_ms, each.producer_id)))


def _lines_by_group(lines: Iterable[TimedLine], records: Iterable[LogRecord]) -> dict[str, list[TimedLine]]:
    """A line that names a member alone is of the group that has had this member."""
    group_of: dict[str, str] = {}
    for record in records:
        members = record.value.get("members") if record.value else None
        for member in members if isinstance(members, tuple) else ():
            group_of.setdefault(member["member_id"], record.group_id)
    found: dict[str, list[TimedLine]] = {}
    for each in lines:
        event = each.line.event
        if event.group_id == NO_GROUP:
            owner = event.owner_member_id if isinstance(event, told.InstanceFenced) else None
            group_id = group_of.get(owner or "")
            if group_id is None:
                continue
            each = replace(each, line=replace(each.line, event=replace(event, group_id=group_id)))
        found.setdefault(each.line.event.group_id, []).append(each)
    return found


def _names_in_records(facts: Mapping[str, Sequence[Fact]]) -> dict[str, str]:
    """Topic id -> name, from records that carry both: commits since 4.1, and those of share groups."""
    found: dict[str, str] = {}
    for of_group in facts.values():
        for fact in of_group:
            if isinstance(fact, LogRecord):
                found |= _names_in_share_state(fact)
                continue
            for record in fact.records:
                topic_id = record.value.get("topic_id") if record.value else None
                if isinstance(topic_id, bytes) and any(topic_id):
                    found[topic_id.hex()] = str(record.key["topic"])
    return found


def _names_in_share_state(record: LogRecord) -> dict[str, str]:
    """Share groups keep names with ids for topics whose state they begin to keep."""
    if record.name != "ShareGroupStatePartitionMetadata" or record.value is None:
        return {}
    lists = [record.value[name] for name in ("initializing_topics", "initialized_topics")]
    topics = [each for of_list in lists if isinstance(of_list, tuple) for each in of_list]
    return {each["topic_id"].hex(): each["topic_name"] for each in topics}


def _partition(group_id: str, facts: Sequence[Fact], lines: Sequence[TimedLine]) -> int:
    """Of the offsets topic."""
    if facts:
        return facts[0].partition
    named = (each.line.partition for each in lines if each.line.partition is not None)
    return next(named, None) or group_partition(group_id, OFFSETS_PARTITIONS)
