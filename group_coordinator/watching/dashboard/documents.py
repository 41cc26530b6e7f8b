"""The answers of the API, made of what the index has: the same for the server, for the report and for `--json`."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from threading import Lock
from types import MappingProxyType
from typing import Any

import msgspec

from group_coordinator.ground.kafka_topics.bounds import Partition
from group_coordinator.ground.system.ended_threads import ended_threads
from group_coordinator.watching.dashboard import api_types as api
from group_coordinator.watching.dashboard.change import Change
from group_coordinator.watching.dashboard.committed import Committed
from group_coordinator.watching.dashboard.epochs_page import present
from group_coordinator.watching.dashboard.facts import GroupFacts
from group_coordinator.watching.dashboard.feed import FeedItem
from group_coordinator.watching.dashboard.group_page import GroupOverTime, Now, Window, cost_of_window, group_page
from group_coordinator.watching.dashboard.health import offset_expires_ms
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.dashboard.offsets_page import partition
from group_coordinator.watching.dashboard.open_transactions import open_transactions
from group_coordinator.watching.dashboard.readiness import NOT_SEEN, VERDICTS, BrokerSettings, ReadinessPage
from group_coordinator.watching.dashboard.rebalance_page import kind_of, rebalance_details, seen_in
from group_coordinator.watching.dashboard.settings import DashboardSettings
from group_coordinator.watching.dashboard.what_if import (
    Comparison,
    GroupPlay,
    ReplayFunction,
    assumptions,
    ranges,
    summary,
)
from group_coordinator.watching.history.current_group import CLASSIC, CONSUMER, SHARE
from group_coordinator.watching.narrative import sentences, words
from group_coordinator.watching.tables.rows import Readiness
from schemas.group_states import GroupState

WINDOWS_KEPT = 4
NO_REQUESTS = (
    "What the clients would have done under other settings is not known: the offsets topic, brokers' logs and polls do "
    "not say which requests each client sent when. Brokers' request logs say it. Replay those of the same time "
    "(group-coordinator replay kafka-request.log* --out DIR), and look there (group-coordinator dashboard --from DIR)."
)
NOT_PLAYED = "Only classic and consumer groups can be played under other settings: this is a {} group."
"""Why there is no *What if*."""
EVENTS_MAX = 500
ENDED: Mapping[str, Any] = MappingProxyType({"caught_up": True, "detail": ""})
"""The progress of a source that does not grow."""
_AFTER = "after:"
_WRONG_PAGE = "page is what an answer has named as next_page."


class NotFound(LookupError):
    """What was asked for does not exist. The message says what it is."""


class Documents:
    """Answers questions about an index; a page names the next one. Safe to be used by many threads.

    `page` is what an answer has named, or empty. `limit`: so many are on a page; None: all.
    """

    def __init__(
        self, index: Index, clock: Callable[[], int] | None = None, what_if: ReplayFunction | None = None
    ) -> None:
        """`clock`: the present in milliseconds since 1970; None: the end of the history, for what is over."""
        self.index = index
        self._clock = clock
        self._what_if = what_if
        self._windows: OrderedDict[tuple[str, int], Window] = OrderedDict()
        self._lock = Lock()

    @property
    def now_ms(self) -> int:
        return self._clock() if self._clock is not None else self.index.last_ms

    def overview(
        self, source: str = "", progress: Mapping[str, Any] = ENDED, *, is_report: bool = False
    ) -> api.Overview:
        """Return what is known, and how far. `progress`: as of `Source.progress`."""
        index = self.index
        return api.Overview(
            now_ms=self.now_ms,
            source=source,
            is_live=self._clock is not None,
            caught_up=progress["caught_up"],
            progress=progress["detail"],
            doubts=(*ended_threads(), *self._not_listed(), *index.doubts),
            groups=len(index),
            groups_left_out=index.on_disk().total(),
            records=index.records,
            unreadable=index.unreadable,
            dead_letters=len(index.dead_letters),
            kept_bytes=index.kept_bytes,
            first_ms=index.first_ms,
            last_ms=index.last_ms,
            verdict_window_ms=index.settings.health.window_ms,
            has_what_if=self._what_if is not None,
            is_report=is_report,
            watched=index.watched,
        )

    def groups(
        self, *, contains: str = "", cluster: str = "", state: str = "", verdict: str = "", page: str = "",
        limit: int | None = None, max_wait_ms: int | None = None,
    ) -> api.Groups:  # fmt: skip
        """Return the groups by id. `max_wait_ms`: rows are as of `GroupList.rows`. Raises ValueError."""
        if page and not page.startswith(_AFTER):
            raise ValueError(_WRONG_PAGE)
        now_ms, after = self.now_ms, page.removeprefix(_AFTER)
        rows = [
            row
            for row in self.index.rows(now_ms, None if max_wait_ms is None else max_wait_ms / 1_000)
            if (not page or row.group_id > after)
            and contains in row.group_id
            and cluster in ("", row.cluster)
            and state in ("", row.state)
            and verdict in ("", row.verdict)
        ]
        shown = tuple(rows[:limit])
        return api.Groups(
            now_ms=now_ms, groups=shown, next_page=f"{_AFTER}{shown[-1].group_id}" if len(shown) < len(rows) else None,
            groups_left_out=self.index.on_disk().total(),
        )  # fmt: skip

    def past_groups(self, *, at_ms: int) -> api.PastGroups:
        return api.PastGroups(now_ms=self.now_ms, at_ms=at_ms, groups=tuple(self.index.rows_at(at_ms)))

    def readiness(
        self, *, contains: str = "", cluster: str = "", verdict: str = "", page: str = "", limit: int | None = None
    ) -> ReadinessPage:
        """Return which classic groups can go over to the consumer protocol. Raises ValueError."""
        if page and not page.isdigit():
            raise ValueError(_WRONG_PAGE)
        now_ms, begin = self.now_ms, int(page or 0)
        judged, not_judged = self.index.judged()
        asked = [each for each, of in judged if contains in each.group_id and cluster in ("", of)]
        wanted = sorted(
            (each for each in asked if verdict in ("", each.verdict)),
            key=lambda each: (VERDICTS.index(each.verdict), each.group_id),
        )
        end = len(wanted) if limit is None else begin + limit
        return ReadinessPage(
            now_ms=now_ms,
            groups=tuple(self._with_cost(each, now_ms) for each in wanted[begin:end]),
            counts=Counter(each.verdict for each in asked),
            not_judged=not_judged,
            settings={of: self.index.broker_settings.get(of, BrokerSettings()) for of in {of for _, of in judged}},
            not_seen=NOT_SEEN,
            next_page=str(end) if end < len(wanted) else None,
        )

    def _with_cost(self, judgement: Readiness, now_ms: int) -> Readiness:
        records, facts = self.index.group_records(judgement.group_id), self.index.facts(judgement.group_id)
        if records is None or facts is None:
            return judgement
        with self.index.lock:
            moments = facts.moments()
        return msgspec.structs.replace(
            judgement, cost=cost_of_window(Window(judgement.group_id, records), moments, now_ms)
        )

    def _not_listed(self) -> Iterator[str]:
        on_disk = self.index.on_disk()
        if on_disk.total():
            states = words.listed([f"{count:,} {state}" for (_, state), count in on_disk.most_common() if count])
            yield (
                f"{on_disk.total():,} of {len(self.index):,} groups are not in the list, because memory (--memory-mib) "
                f"has no room for them ({states}, when they were put on disk). They are the ones without members that "
                "changed longest ago, if these are enough. Nothing of them is lost: who searches for one by its whole "
                "name finds it. Their lag is not asked for, and that their offsets expire is not warned of."
            )

    def group(self, group: str) -> GroupOverTime:
        """Return a group over time. Raises NotFound."""
        return self._page(group, self.index, self.window(group), self.now_ms)

    def group_now(self, *, group: str) -> api.GroupDetails:
        """Return a group with its members and partitions. Raises NotFound."""
        return details(self.index, group, self.now_ms)

    def rebalances(self, *, group: str, page: str = "", limit: int | None = None) -> api.Rebalances:
        """Return the rebalances of a group, the newest first. Raises NotFound."""
        newest_first = self.window(group).rebalances[::-1]
        if page:
            keys = [each.key for each in newest_first]
            if page not in keys:
                raise NotFound(f"Group {group} has no rebalance {page} any more.")
            newest_first = newest_first[keys.index(page) + 1 :]
        shown = tuple(newest_first[:limit])
        next_page = shown[-1].key if len(shown) < len(newest_first) else None
        return api.Rebalances(now_ms=self.now_ms, group_id=group, rebalances=shown, next_page=next_page)

    def rebalance(self, group: str, rebalance: str = "") -> api.RebalanceDetails:
        """Return a rebalance by its key, or the last one. Raises NotFound."""
        window = self.window(group)
        told = window.rebalance(rebalance) if rebalance else next(reversed(window.stories.values()), None)
        if told is None:
            key = f" {rebalance}" if rebalance else ""
            raise NotFound(f"Group {group} has no rebalance{key} within this dashboard's window.")
        return rebalance_details(told)

    def events(
        self, *, group: str = "", kind: str = "", contains: str = "", page: str = "", limit: int = EVENTS_MAX
    ) -> api.Events:
        """Return the latest records of all groups, the newest first. `kind`: of this kind. Raises ValueError."""
        if page and not page.isdigit():
            raise ValueError(_WRONG_PAGE)
        contains = contains.casefold()
        found: list[api.Event] = []
        next_page = None
        for item in self.index.feed(before=int(page) if page else None):
            record = item.record
            if (group and record.group_id != group) or (kind and kind != kind_of(record)):
                continue
            event = event_of(item)
            if contains and contains not in f"{event.group_id} {event.text}".casefold():
                continue
            if len(found) >= limit:
                next_page = str(found[-1].number)
                break
            found.append(event)
        return api.Events(now_ms=self.now_ms, events=tuple(found), next_page=next_page)

    def dead_letters(self) -> api.DeadLetters:
        with self.index.lock:
            return api.DeadLetters(now_ms=self.now_ms, dead_letters=tuple(reversed(self.index.dead_letters)))

    def what_if(self, group_id: str, change: Change) -> Comparison:
        """The group under other settings, beside what happened; and played without a change, as a check on the player.

        Raises NotFound, and ValueError for what cannot be.
        """
        before = self.group(group_id)
        if self._what_if is None:
            raise NotFound(before["no_what_if"] or "Only a replay can be run again under other settings.")
        playing = self._what_if(group_id)
        after = self._played(group_id, playing, change, 0)
        sides = {"after": [summary(after)]}
        if change != Change():
            sides["unchanged"] = [summary(self._played(group_id, playing, Change(), 0))]
        for repetition in range(1, playing.repetitions):
            for side, summaries in sides.items():
                of_side = change if side == "after" else Change()
                summaries.append(summary(self._played(group_id, playing, of_side, repetition)))
        unchanged = sides.get("unchanged", sides["after"])
        return {
            "page": after,
            "before": summary(before),
            "after": sides["after"][0],
            "unchanged": unchanged[0],
            "ranges": {"after": ranges(sides["after"]), "unchanged": ranges(unchanged)},
            "assumptions": assumptions(before, change, playing.repetitions),
        }

    def _no_what_if(self, kind: str) -> str | None:
        """Why a watched group cannot be played under other settings."""
        watched = self.index.watched
        if self._what_if is not None or not watched or any(cluster.has_requests for cluster in watched):
            return None
        return NO_REQUESTS if kind in (CLASSIC, CONSUMER) else NOT_PLAYED.format(kind)

    def _played(self, group_id: str, playing: GroupPlay, change: Change, repetition: int) -> GroupOverTime:
        index = Index(DashboardSettings(health=self.index.settings.health))
        for value in playing.play(change, repetition):
            index.add(value)
        records = index.group_records(group_id)
        if records is None:
            raise ValueError(f"Under these settings nothing happens in group {group_id}.")
        return self._page(group_id, index, Window(group_id, records), max(self.index.last_ms, index.last_ms))

    def _page(self, group_id: str, index: Index, window: Window, now_ms: int) -> GroupOverTime:
        row, facts = index.row(group_id, now_ms), index.facts(group_id)
        if row is None or facts is None:
            raise NotFound(f"There is no group {group_id}.")
        with index.lock:
            offsets: dict[Partition, Committed] = dict(facts.offsets)
            settings = index.settings.health
            expires = facts.state == GroupState.EMPTY and facts.kind != SHARE
            now = Now(
                row=row,
                moments=tuple(facts.moments()),
                owners=_owners(facts),
                offsets=offsets,
                uncommitted=facts.uncommitted,
                expires_ms={
                    place: offset_expires_ms(facts, each, settings) for place, each in offsets.items() if expires
                },
                open_transactions=open_transactions(facts),
                epochs=present(facts),
                settings=settings,
                now_ms=now_ms,
            )
        return group_page(window, now, index.ends_of(group_id), self._no_what_if(row.type))

    def window(self, group_id: str) -> Window:
        """Return the records of one group within the window, decoded once. Raises NotFound."""
        records = self.index.group_records(group_id)
        if records is None:
            raise NotFound(f"There is no group {group_id}.")
        key = group_id, records.facts_version
        with self._lock:
            window = self._windows.get(key)
            if window is None:
                window = self._windows[key] = Window(group_id, records)
            self._windows.move_to_end(key)
            while len(self._windows) > WINDOWS_KEPT:
                self._windows.popitem(last=False)
        return window


def details(index: Index, group_id: str, now_ms: int) -> api.GroupDetails:
    """Return a group with its members and partitions. Raises NotFound."""
    row, facts, ends = index.row(group_id, now_ms), index.facts(group_id), index.ends_of(group_id)
    if row is None or facts is None:
        raise NotFound(f"There is no group {group_id}.")
    with index.lock:
        owners, offsets = _owners(facts), dict(facts.offsets)
        members = tuple(
            api.Member(
                member_id=each.member_id,
                client_id=each.client_id,
                host=each.client_host,
                group_instance_id=each.group_instance_id,
                topics={topic.topic: tuple(topic.partitions) for topic in facts.owned.get(member_id, ())},
            )
            for member_id, each in facts.members.items()
        )
        assignor, leader_id, waited_for = facts.protocol_name, facts.leader_id, open_transactions(facts)
    places = sorted(owners.keys() | offsets.keys())
    return api.GroupDetails(
        now_ms=now_ms,
        group=row,
        assignor=assignor,
        leader_id=leader_id,
        members=members,
        partitions=tuple(partition(each, owners.get(each), offsets.get(each), ends, now_ms) for each in places),
        findings=row.findings,
        open_transactions=waited_for,
    )


def _owners(facts: GroupFacts) -> dict[Partition, str]:
    return {place: owner for place, owner in facts.owners().items() if owner in facts.members}


def event_of(item: FeedItem) -> api.Event:
    """Return a record of the feed."""
    record = item.record
    return api.Event(
        number=item.number,
        time_ms=record.timestamp_ms,
        group_id=record.group_id,
        type=kind_of(record),
        text=sentences.sentence(record),
        cause=record.cause,
        seen=seen_in(record.cause),
    )
