"""A second kind of group needs records and a table of what they mean: no view changes for it."""

from __future__ import annotations

import pytest
from msgspec import Struct

from group_coordinator.watching.commands.summary import Summary
from group_coordinator.watching.dashboard.facts import GroupFacts
from group_coordinator.watching.history import fold
from group_coordinator.watching.history.meanings import MEANINGS, Meaning, meaning
from group_coordinator.watching.history.view import HistoryView
from group_coordinator.watching.tables.fold import GroupTables
from group_coordinator.watching.tables.rows import Member, Ownership
from schemas.history import AssignedTopic, Cause, HistoryRecord, MemberAssignment, MemberIdentity


class Entered(HistoryRecord, frozen=True, kw_only=True, tag="toy_member_entered"):
    """A member that has neither protocols nor a leader."""

    member: MemberIdentity
    partitions: tuple[int, ...]


class _Details(Struct, frozen=True):
    member: MemberIdentity
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 300_000
    protocols: tuple[str, ...] = ()
    subscribed_topics: tuple[str, ...] | None = ("t",)


def _entered(view: HistoryView, record: Entered) -> None:
    view.member_joined(record, _Details(record.member))
    topics = (AssignedTopic(topic="t", partitions=record.partitions),)
    view.partitions_assigned(record, [MemberAssignment(member_id=record.member.member_id, topics=topics)])


def test_views_show_a_group_of_another_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    meanings: dict[type[HistoryRecord], Meaning] = {**MEANINGS, Entered: meaning(Entered, _entered, state="Stable")}
    monkeypatch.setattr(fold, "MEANINGS", meanings)
    record = Entered(
        group_id="g", epoch=7, seq=1, time_ms=1_000, timestamp_ms=1_000, generation_id=2, partitions=(0, 1),
        cause=Cause(kind="request", partition=0, offset=7),
        member=MemberIdentity(member_id="m", client_id="c", client_host="h"),
    )  # fmt: skip
    facts, tables, summary = GroupFacts("g"), GroupTables(), Summary()
    for view in (facts, tables, summary):
        view.add(record)  # type: ignore[arg-type]  # a record of history is one of the union
    assert (facts.state, list(facts.members), facts.partitions, facts.topics) == ("Stable", ["m"], 2, ("t",))
    rows = tables.take()
    assert [row.member_id for row in rows if isinstance(row, Member)] == ["m"]
    assert [(row.member_id, row.partition) for row in rows if isinstance(row, Ownership)] == [("m", 0), ("m", 1)]
    assert (summary.groups["g"].state, summary.groups["g"].joined) == ("Stable", 1)
