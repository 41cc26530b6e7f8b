"""Polls alone: owners and offsets are those of each poll, and nothing is said that a poll does not show."""

from __future__ import annotations

import pytest

from group_coordinator.watching.dashboard.facts import GroupFacts
from group_coordinator.watching.narrative import sentences
from group_coordinator.watching.observed.polled import PolledGroup, Polls
from group_coordinator.watching.tables.fold import fold
from group_coordinator.watching.tables.rows import Commit, Ownership
from schemas.consumer_group_history import ConsumerMemberJoined, ConsumerMemberUpdated, GroupConverted
from schemas.history import History, MemberReplaced, RebalanceStarted
from tests.watching.observed.polls import polled_group, recorded_polls

NAMES = ["old-2.8", "old-3.9", "three-brokers", "consumer-protocol", "migration", "transactions"]


def history_of(name: str) -> list[History]:
    polls = Polls()
    by_group: dict[str, list[History]] = {}
    for poll in recorded_polls(name):
        for update in polls.take(poll["at_ms"], map(polled_group, poll["groups"])):
            by_group.setdefault(update.group_id, []).extend(update.history)
    return [record for group_id in sorted(by_group) for record in by_group[group_id]]


@pytest.mark.parametrize("name", NAMES)
def test_owners_and_offsets_are_those_of_each_poll(name: str) -> None:
    rows = list(fold(history_of(name)))
    owned = [row for row in rows if isinstance(row, Ownership)]
    committed = [row for row in rows if isinstance(row, Commit)]
    for poll in recorded_polls(name):
        at_ms = poll["at_ms"]
        for group in map(polled_group, poll["groups"]):
            if group.state == "Stable" or group.kind == "consumer":
                owners_at = {
                    (row.member_id, row.topic, row.partition)
                    for row in owned
                    if row.group_id == group.group_id and row.from_ms <= at_ms
                    if row.to_ms is None or row.to_ms > at_ms
                }
                assert owners_at == {
                    (member_id, topic.topic, number)
                    for member_id, (_, of_member) in group.members.items()
                    for topic in of_member
                    for number in topic.partitions
                }
            last = {
                (row.topic, row.partition): row.offset
                for row in committed
                if row.group_id == group.group_id and row.committed_ms <= at_ms
            }
            assert (group.offsets or {}).items() <= last.items()


@pytest.mark.parametrize("name", NAMES)
def test_what_is_said_is_said_by_polls(name: str) -> None:
    for record in history_of(name):
        assert [evidence.source for evidence in record.cause.evidence] == ["poll"]
        assert sentences.sentence(record)


def test_nobody_changes_a_protocol_that_no_poll_shows() -> None:
    """Not where a group goes over to another protocol either, nor a static member that is back by another id."""
    history = history_of("migration")
    assert not [record for record in history if isinstance(record, ConsumerMemberUpdated)]
    facts: dict[str, GroupFacts] = {}
    converted = 0
    for record in history:
        of_group = facts.setdefault(record.group_id, GroupFacts(record.group_id))
        members = set(of_group.members)
        of_group.add(record)
        if isinstance(record, GroupConverted) and record.to_protocol == "consumer":
            assert set(of_group.classic_members) == members
            converted += 1
        elif isinstance(record, ConsumerMemberJoined):
            assert record.joined.member.member_id not in of_group.classic_members
    assert converted


def consumer_group(owners: dict[str, list[str]], members: dict[str, dict[str, str]]) -> PolledGroup:
    described = [
        {"member_id": member_id, "client_id": "c", "host": "/h", "assignment": places, "target": places}
        | members.get(member_id, {})
        for member_id, places in owners.items()
    ]
    return polled_group({
        "group": "g", "state": "Stable", "protocol_type": "consumer", "assignor": "uniform", "type": "Consumer",
        "members": described,
    })  # fmt: skip


@pytest.mark.parametrize("joins", [True, False])
def test_a_static_member_that_is_back_has_cost_a_rebalance_or_not(joins: bool) -> None:
    """Between two polls it may have; what is seen is that nobody came and nobody shall own something else."""
    static = {"a1": {"instance_id": "a"}, "a2": {"instance_id": "a"}}
    before = consumer_group({"a1": ["t-0"], "b": ["t-1"]}, static)
    after = consumer_group({"a2": ["t-0"], "c" if joins else "b": ["t-1"]}, static)
    polls = Polls()
    list(polls.take(1_000, [before]))
    (update,) = polls.take(2_000, [after])
    (replaced,) = [record for record in update.history if isinstance(record, MemberReplaced)]
    assert replaced.rebalanced is None
    assert sentences.sentence(replaced).endswith("keeps its partitions; whether that cost a rebalance is not known")
    assert any(isinstance(record, RebalanceStarted) for record in update.history) == joins
    facts = GroupFacts("g")
    for each in (*Polls().take(1_000, [before]), update):
        for record in each.history:
            facts.add(record)
    assert (facts.state, set(facts.members)) == ("Stable", {"a2", "c" if joins else "b"})


def test_a_group_that_is_away_is_gone() -> None:
    polls = Polls()
    first = recorded_polls("old-3.9")[7]
    assert first["groups"][0]["state"] == "Stable"
    list(polls.take(1, map(polled_group, first["groups"])))
    types = {type(record).__name__ for update in polls.take(2, ()) for record in update.history}
    assert "GroupDead" in types
    assert list(polls.take(3, ())) == []
