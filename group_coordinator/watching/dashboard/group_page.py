"""One group, told in full: the document behind its page. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict, TypeVar, cast

from msgspec import Struct

from group_coordinator.ground.kafka_topics.bounds import Partition
from group_coordinator.watching.dashboard import api_types as api
from group_coordinator.watching.dashboard.advice import advice
from group_coordinator.watching.dashboard.committed import Committed
from group_coordinator.watching.dashboard.deploys import Deploy, deploys
from group_coordinator.watching.dashboard.epochs_page import EpochsOverTime
from group_coordinator.watching.dashboard.index import GroupRecords, decoded
from group_coordinator.watching.dashboard.lag import EndOffsets
from group_coordinator.watching.dashboard.lanes import Lane, TopicsOverTime, lanes, unowned_ms
from group_coordinator.watching.dashboard.members_page import by_appearance, last_heard, member_documents
from group_coordinator.watching.dashboard.offsets_page import REWINDS_MAX, Commits, over_time, partition
from group_coordinator.watching.dashboard.open_transactions import OpenTransactions
from group_coordinator.watching.dashboard.readiness import cost_of_rows
from group_coordinator.watching.dashboard.rebalance_page import kind_of, rebalance, rebalance_of_row, seen_in, votes
from group_coordinator.watching.dashboard.settings import HealthSettings
from group_coordinator.watching.history.states_over_time import Moment
from group_coordinator.watching.narrative import sentences
from group_coordinator.watching.narrative.rebalances import GroupStory
from group_coordinator.watching.narrative.rebalances import Rebalance as RebalanceStory
from group_coordinator.watching.tables.fold import GroupTables, row_key
from group_coordinator.watching.tables.rows import AnyRow, Cost, Member, Ownership, Rebalance
from schemas.history import History, RequestRefused

SEGMENTS_MAX = 60_000
RECORDS_SHOWN = 1_000
REFUSALS_SHOWN = 500

Row = TypeVar("Row", bound=AnyRow)


class Now(Struct, frozen=True, kw_only=True):
    """The group as it is, copied so that nothing changes while the page is made."""

    row: api.Group
    moments: tuple[Moment, ...]
    owners: Mapping[Partition, str]
    offsets: Mapping[Partition, Committed]
    uncommitted: tuple[Partition, ...]
    """They were assigned and have no committed offset."""
    expires_ms: Mapping[Partition, int]
    """It has each offset that expires if nothing happens."""
    open_transactions: OpenTransactions
    epochs: dict[str, Any]
    """What `present` returns."""
    settings: HealthSettings
    now_ms: int


class Window:
    """The records of one group within the window, decoded once; the page and each rebalance are made from it."""

    def __init__(self, group_id: str, records: GroupRecords) -> None:
        self.records = records
        self.life: list[History] = list(decoded(records.life))
        tables = GroupTables(records.base)
        rows = {row_key(row): row for row in tables.standing(group_id)}
        group = GroupStory()
        self.topics, self.epochs = TopicsOverTime(), EpochsOverTime()
        self.stories: dict[tuple[int, int], RebalanceStory] = {}
        """By epoch and seq of the record that started it."""
        for record in self.life:
            tables.add(record)
            self.topics.note(record)
            if group.add(record):
                self.epochs.note(record, group)
            if group.current is not None:
                self.stories[group.current.started.epoch, group.current.started.seq] = group.current
        rows |= {row_key(row): row for row in tables.take()}
        self._rows = list(rows.values())
        self.commits = Commits()
        self.commits.read(decoded(records.commits))

    def rows(self, kind: type[Row]) -> list[Row]:
        return [cast(Row, row) for row in self._rows if type(row) is kind]

    def rebalance(self, key: str) -> RebalanceStory | None:
        """Return a rebalance by its key, `epoch-seq`."""
        epoch, _, seq = key.partition("-")
        return self.stories.get((int(epoch), int(seq))) if epoch.isdigit() and seq.isdigit() else None

    @property
    def rebalances(self) -> list[api.Rebalance]:
        """Return all rebalances, the oldest first."""
        rows = sorted(self.rows(Rebalance), key=lambda row: (row.started_ms, row.seq))
        stories = ((row, self.stories.get((row.epoch, row.seq))) for row in rows)
        return [rebalance_of_row(row) if story is None else rebalance(story) for row, story in stories]

    @property
    def first_ms(self) -> int | None:
        return self.life[0].timestamp_ms if self.life else None


class GroupOverTime(TypedDict):
    """A group over time, as its page draws it. What is many is a list without names."""

    group: api.Group
    now: int
    window: dict[str, int]
    """From when to when, and how much lies beyond."""
    states: list[tuple[int, str, int, int]]
    """Since when, state, generation, number of members."""
    members: list[dict[str, Any]]
    """All that were there, by when they came."""
    lanes: list[dict[str, Any]]
    """By partition its owners (number among `members`, from, to, generation, end) and gaps (from, to, kind)."""
    unowned_ms: int
    rebalances: list[api.Rebalance]
    deploys: list[Deploy]
    offsets: list[api.PartitionOverTime]
    rewinds: list[dict[str, Any]]
    open_transactions: OpenTransactions
    epochs: Any
    """Of a group that counts epochs: targets, and how far members have come, over time."""
    votes: api.Votes | None
    refusals: list[dict[str, Any]]
    records: list[tuple[int, int, int, str, str]]
    """Time, epoch, seq, type, sentence; the newest first."""
    no_what_if: str | None
    """Why the group cannot be played under other settings."""


def group_page(window: Window, now: Now, ends: EndOffsets, no_what_if: str | None = None) -> GroupOverTime:
    """Return the group over time. Times are milliseconds since 1970."""
    members = by_appearance(window.rows(Member))
    number_of = {(row.epoch, row.member_id): number for number, row in enumerate(members)}
    commits_ms = min((points[0][0] for points in window.commits.points.values()), default=now.now_ms)
    from_ms = window.first_ms if window.first_ms is not None else commits_ms
    owned = sorted(window.rows(Ownership), key=lambda row: row.from_ms)
    left_out = max(len(owned) - SEGMENTS_MAX, 0)
    if left_out:
        owned = owned[left_out:]
        from_ms = owned[0].from_ms
    group_lanes = lanes(owned, now.moments, window.topics, from_ms, now.now_ms)
    rolls = deploys(window.rows(Rebalance), members, group_lanes, now.now_ms, now.settings)
    return {
        "group": now.row,
        "now": now.now_ms,
        "window": {
            "from": from_ms,
            "to": now.now_ms,
            "dropped": window.records.dropped,
            "dropped_commits": window.records.dropped_commits,
            "segments_left_out": left_out,
            "records": len(window.life),
        },
        "states": [(each.since_ms, each.state, each.generation_id, each.members) for each in now.moments],
        "members": member_documents(members, last_heard(window.life)),
        "lanes": [_lane(lane, number_of) for lane in group_lanes],
        "unowned_ms": unowned_ms(group_lanes, now.now_ms),
        "rebalances": window.rebalances,
        "deploys": rolls,
        "offsets": _offsets(window.commits, now, ends),
        "rewinds": window.commits.rewinds[-REWINDS_MAX:],
        "open_transactions": now.open_transactions,
        "epochs": window.epochs.document(now.epochs),
        "votes": votes(window.life),
        "refusals": _refusals(window.life),
        "records": _records(window.life),
        "no_what_if": no_what_if,
    }


def cost_of_window(window: Window, moments: Sequence[Moment], now_ms: int) -> Cost:
    """Return what rebalances cost the group in the last week, as far as the window goes."""
    owned = sorted(window.rows(Ownership), key=lambda row: row.from_ms)
    all_lanes = lanes(owned, moments, window.topics, window.first_ms or 0, now_ms)
    return cost_of_rows(window.rows(Rebalance), all_lanes, window.first_ms, now_ms)


def _offsets(commits: Commits, now: Now, ends: EndOffsets) -> list[api.PartitionOverTime]:
    """Return each partition that has, or had, an offset, or was assigned; by topic and number."""
    lost = {(each.topic, each.partition): each.messages for each in now.row.findings if each.kind == "lost"}
    return [
        over_time(
            partition(place, now.owners.get(place), now.offsets.get(place), ends, now.now_ms, lost.get(place, 0)),
            commits, ends, now.expires_ms.get(place),
        )
        for place in sorted({*now.offsets, *commits.points, *now.uncommitted})
    ]  # fmt: skip


def _lane(lane: Lane, number_of: Mapping[tuple[int, str], int]) -> dict[str, Any]:
    return {
        "topic": lane.topic,
        "partition": lane.partition,
        "owned": [
            [number_of.get((row.epoch, row.member_id), -1), row.from_ms, row.to_ms, row.generation_id, row.ended_by]
            for row in lane.owned
        ],
        "gaps": [list(gap) for gap in lane.gaps],
    }


def _refusals(life: Iterable[History]) -> list[dict[str, Any]]:
    refusals = [record for record in life if isinstance(record, RequestRefused)][-REFUSALS_SHOWN:]
    return [
        {
            "t": record.timestamp_ms,
            "api": record.api,
            "code": record.error_code,
            "error": record.error,
            "rule": record.rule,
            "detail": record.detail,
            "state": record.state,
            "generation": record.generation_id,
            "advice": advice(record.rule),
            "cause": record.cause,
            "seen": seen_in(record.cause),
        }
        for record in reversed(refusals)
    ]


def _records(life: Sequence[History]) -> list[tuple[int, int, int, str, str]]:
    """The latest records as sentences, the newest first."""
    return [
        (record.timestamp_ms, record.epoch, record.seq, kind_of(record), sentences.sentence(record))
        for record in reversed(life[-RECORDS_SHOWN:])
    ]
