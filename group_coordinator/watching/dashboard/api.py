"""The answers of the API, made of what the index has: the same for the server and for `--json`."""

from __future__ import annotations

from collections.abc import Iterable

from group_coordinator.ground.kafka_topics.bounds import Partition
from group_coordinator.watching.dashboard import api_types as api
from group_coordinator.watching.dashboard.committed import Committed
from group_coordinator.watching.dashboard.documents import Documents, NotFound, event_document
from group_coordinator.watching.dashboard.findings import Finding
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.dashboard.lag import EndOffsets, Lag
from group_coordinator.watching.dashboard.rebalance_page import rebalance_key
from group_coordinator.watching.dashboard.rows import GroupRow
from group_coordinator.watching.narrative.rebalances import Rebalance, because, headline
from group_coordinator.watching.narrative.steps import identities_in, moves_of, steps, waited_for

PAGE_MAX = 1_000
PAGE_DEFAULT = 100
_AFTER = "after:"
_WRONG_PAGE = "page is what an answer has named as next_page."


def group(row: GroupRow) -> api.Group:
    """Return a group of the list."""
    return api.Group(
        group_id=row.id,
        cluster=row.cluster,
        type=row.kind,
        state=row.state,
        state_since_ms=row.since,
        members=row.members,
        generation=row.generation,
        topics=row.topics,
        partitions=row.partitions,
        lag=row.lag,
        lag_ms=row.lag_ms,
        lag_ms_is_at_least=row.lag_at_least,
        lost=row.lost,
        uncommitted_partitions=row.uncommitted,
        uncommitted_messages=row.up_to,
        last_commit_ms=row.committed,
        last_rebalance_ms=row.rebalanced,
        last_rebalance_cause=row.cause,
        rebalances=row.rebalances,
        verdict=row.verdict,
        severity=row.severity,  # type: ignore[arg-type]
        reason=row.reason,
        member=row.who,
    )


def details(index: Index, name: str, now_ms: int) -> api.GroupDetails:
    """Return a group with its members and partitions. `name`: as the index has it. Raises NotFound."""
    row, facts, ends = index.row(name, now_ms), index.facts(name), index.ends_of(name)
    if row is None or facts is None:
        raise NotFound(f"There is no group {name}.")
    with index.lock:
        owners = {place: owner for place, owner in facts.owners().items() if owner in facts.members}
        offsets = dict(facts.offsets)
        owned = {member_id: facts.owned.get(member_id, ()) for member_id in facts.members}
        members = tuple(
            api.Member(
                member_id=each.member_id,
                client_id=each.client_id,
                host=each.client_host,
                group_instance_id=each.group_instance_id,
                topics={topic.topic: tuple(topic.partitions) for topic in owned[member_id]},
            )
            for member_id, each in facts.members.items()
        )
        assignor, leader_id = facts.protocol_name, facts.leader_id
    return api.GroupDetails(
        now_ms=now_ms,
        group=group(row),
        assignor=assignor,
        leader_id=leader_id,
        members=members,
        partitions=tuple(
            _partition(place, owners.get(place), offsets.get(place), ends, now_ms)
            for place in sorted(owners.keys() | offsets.keys())
        ),
        findings=tuple(map(_finding, row.findings)),
    )


def _finding(found: Finding) -> api.Finding:
    return api.Finding(
        kind=found.kind,
        topic=found.topic,
        partition=found.partition,
        member_id=found.member,
        committed_offset=found.offset,
        messages=found.messages,
        since_ms=found.since,
        in_ms=found.in_ms,
    )


def _partition(
    place: Partition, owner: str | None, committed: Committed | None, ends: EndOffsets, now_ms: int
) -> api.Partition:
    bounds = ends.bounds.get(place)
    known = None if committed is None else ends.lag(place, committed.offset, now_ms, committed.committed_ms)
    lag = known or Lag(0, None, False, 0)
    return api.Partition(
        topic=place[0],
        partition=place[1],
        member_id=owner,
        committed_offset=None if committed is None else committed.offset,
        committed_ms=None if committed is None else committed.committed_ms,
        log_start_offset=None if bounds is None else bounds.begin,
        log_end_offset=None if bounds is None else bounds.end,
        lag=None if known is None else lag.messages,
        lag_ms=lag.behind_ms,
        lag_ms_is_at_least=lag.at_least,
        lost=lag.gone,
        metadata="" if committed is None else committed.metadata,
    )


def rebalance(told: Rebalance) -> api.Rebalance:
    """Return a rebalance of the list."""
    started, completed = told.started, told.completed
    return api.Rebalance(
        key=rebalance_key(told),
        started_ms=started.timestamp_ms,
        ended_ms=None if completed is None else started.timestamp_ms + completed.duration_ms,
        duration_ms=told.duration_ms,
        generation=told.generation_id,
        outcome=None if completed is None else completed.outcome,
        trigger=started.trigger,
        cause=because(told),
        initial=started.initial,
    )


def rebalance_details(told: Rebalance) -> api.RebalanceDetails:
    """Return a rebalance, step by step."""
    return api.RebalanceDetails(
        group_id=told.started.group_id,
        rebalance=rebalance(told),
        headline=headline(told),
        steps=tuple(api.Step(time_ms=each.time_ms, text=each.text, is_cause=each.is_cause) for each in steps(told)),
        waited_for=tuple(
            api.WaitedFor(
                member_id=each.member_id, told_ms=each.told_ms, joined_ms=each.joined_ms, gone_ms=each.gone_ms,
                fate=each.fate or None, is_slowest=each.is_slowest,
            )
            for each in waited_for(told)
        ),
        moves=tuple(
            api.Move(
                topic=each.topic, partitions=each.partitions, member_id_before=each.before,
                member_id_after=each.after, member_id_target=each.target,
            )
            for each in moves_of(told)
        ),
        members=tuple(
            api.Identity(
                member_id=each.member_id, client_id=each.client_id, host=each.client_host,
                group_instance_id=each.group_instance_id,
            )
            for each in identities_in(told).values()
        ),
    )  # fmt: skip


class Api:
    """Answers questions; each page names the next one. `page` is what an answer has named, or empty. `limit`: so many
    are on a page. Methods raise NotFound, and ValueError for a page that no answer has named."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents

    @property
    def _index(self) -> Index:
        return self._documents.index

    def groups(
        self, *, contains: str = "", cluster: str = "", state: str = "", verdict: str = "", page: str = "",
        limit: int = PAGE_DEFAULT,
    ) -> api.Groups:  # fmt: skip
        now_ms, after = self._documents.now_ms, _after(page)
        rows = [
            row
            for row in self._index.rows(now_ms)
            if (after is None or row.id > after)
            and contains in row.id
            and cluster in ("", row.cluster)
            and state in ("", row.state)
            and verdict in ("", row.verdict)
        ]
        shown = rows[: _bounded(limit)]
        next_page = f"{_AFTER}{shown[-1].id}" if len(shown) < len(rows) else None
        return api.Groups(now_ms=now_ms, groups=tuple(map(group, shown)), next_page=next_page)

    def group(self, *, name: str) -> api.GroupDetails:
        return details(self._index, name, self._documents.now_ms)

    def rebalances(self, *, name: str, page: str = "", limit: int = PAGE_DEFAULT) -> api.Rebalances:
        newest_first = list(reversed(self._documents.window(name).stories.values()))
        if page:
            keys = [rebalance_key(told) for told in newest_first]
            if page not in keys:
                raise NotFound(f"Group {name} has no rebalance {page} any more.")
            newest_first = newest_first[keys.index(page) + 1 :]
        shown = newest_first[: _bounded(limit)]
        return api.Rebalances(
            now_ms=self._documents.now_ms,
            group_id=name,
            rebalances=tuple(map(rebalance, shown)),
            next_page=rebalance_key(shown[-1]) if len(shown) < len(newest_first) else None,
        )

    def rebalance(self, *, name: str, key: str = "") -> api.RebalanceDetails:
        """Without a key: the last one."""
        window = self._documents.window(name)
        told = window.rebalance(key) if key else next(reversed(window.stories.values()), None)
        if told is None:
            raise NotFound(f"Group {name} has no rebalance {key}".rstrip() + " that is known here.")
        return rebalance_details(told)

    def events(self, *, name: str = "", page: str = "", limit: int = PAGE_DEFAULT) -> api.Events:
        if page and not page.isdigit():
            raise ValueError(_WRONG_PAGE)
        found = []
        for item in self._index.feed(before=int(page) if page else None):
            if name in ("", item.record.group_id):
                found.append(item)
            if len(found) > _bounded(limit):
                break
        shown = [event_document(item) for item in found[: _bounded(limit)]]
        events = tuple(
            api.Event(number=each["n"], time_ms=each["t"], group_id=each["group"], type=each["type"], text=each["text"])
            for each in shown
        )
        next_page = str(events[-1].number) if len(found) > len(events) else None
        return api.Events(now_ms=self._documents.now_ms, events=events, next_page=next_page)

    def overview(self, source: str, caught_up: bool, progress: str, doubts: Iterable[str] = ()) -> api.Overview:
        overview = self._documents.overview()
        return api.Overview(
            now_ms=overview["now"],
            source=source,
            is_live=overview["live"],
            caught_up=caught_up,
            progress=progress,
            doubts=(*doubts, *overview["doubts"]),
            groups=overview["groups"],
            groups_left_out=self._index.on_disk().total(),
        )


def _bounded(limit: int) -> int:
    if not 1 <= limit <= PAGE_MAX:
        raise ValueError(f"limit is {limit}, but must be 1 to {PAGE_MAX}.")
    return limit


def _after(page: str) -> str | None:
    """Return the id that a page of groups begins behind; None: it is the first page. An id may be empty."""
    if page and not page.startswith(_AFTER):
        raise ValueError(_WRONG_PAGE)
    return page.removeprefix(_AFTER) if page else None
