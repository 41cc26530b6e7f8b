"""Groups in which one partition or one member has most of what waits, or one member most of the partitions. Pure.

Lag is uneven when one has more than half of it and three times as much as the others have on average, when it does not
become less while the offset moves, and when that is more than three of its commits. A burst that is being read becomes
less, and who commits seldom leaves less than a commit.

Partitions are uneven when one member has more than half of them, and half as many again as its share, though all
members ask for the same topics: then an assignor that looks at all topics together would part them evenly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from group_coordinator.ground.kafka_topics.bounds import Partition
from group_coordinator.watching.dashboard.committed import Growing
from group_coordinator.watching.dashboard.facts import CONNECT_PROTOCOLS, GroupFacts
from group_coordinator.watching.dashboard.findings import Finding, found_in
from group_coordinator.watching.dashboard.lag import EndOffsets
from group_coordinator.watching.dashboard.settings import HealthSettings
from group_coordinator.watching.history.current_group import CLASSIC, CONSUMER
from group_coordinator.watching.narrative import holding
from schemas.group_states import GroupState

TIMES_OTHERS = 3
COMMITS_MIN = 3
MOVES_MIN = 2
LOOKS_BACK = 2
"""So many times as long ago at most lies the lag that it is compared with: so soon it is seen that it becomes less."""
PARTITIONS_MIN = 4
SHARES = 1.5
_Key = TypeVar("_Key", Partition, str)


def uneven(group: GroupFacts, ends: EndOffsets, settings: HealthSettings) -> Iterator[Finding]:
    """Yield what is uneven in a group as of the last poll."""
    if group.state != GroupState.STABLE or group.kind not in (CLASSIC, CONSUMER):
        group.growing.clear()
        return
    yield from _partitions(group, ends, settings)
    waiting = {
        place: lag
        for place, committed in group.offsets.items()
        if (bounds := ends.bounds.get(place)) is not None and (lag := bounds.unread(committed.offset))
    }
    if not any(lag > COMMITS_MIN * group.offsets[place].step for place, lag in waiting.items()):
        group.growing.clear()
        return
    owners = group.owners()
    seen: set[Partition | str] = set()
    hot: dict[str, Partition] = {}
    by_member = dict.fromkeys((member for member in owners.values() if member in group.members), 0)
    of_topics: dict[str, dict[Partition, int]] = {}
    for place in owners:
        of_topics.setdefault(place[0], {})[place] = waiting.get(place, 0)
        if owners[place] in by_member:
            by_member[owners[place]] += waiting.get(place, 0)
    for lags in of_topics.values():
        most = _dominant(lags)
        if most is not None and owners[most] in by_member:
            seen.add(most)
            hot[owners[most]] = most
            if _grows(group, most, lags[most], [most], ends.polled_ms, settings):
                yield _hot(group, most, lags, owners[most])
    member = _dominant(by_member)
    if member is not None and not (member in hot and 2 * waiting[hot[member]] > by_member[member]):
        seen.add(member)
        places = [place for place, owner in owners.items() if owner == member and place in group.offsets]
        if _grows(group, member, by_member[member], places, ends.polled_ms, settings):
            yield _behind(group, member, by_member, max(places, key=lambda place: waiting.get(place, 0)))
    for key in [key for key in group.growing if key not in seen]:
        del group.growing[key]


def _dominant(lags: Mapping[_Key, int]) -> _Key | None:
    """Return which one has most of the lag."""
    if len(lags) < 2:
        return None
    key = max(lags, key=lags.__getitem__)
    others = sum(lags.values()) - lags[key]
    return key if lags[key] > max(others, TIMES_OTHERS * others / (len(lags) - 1)) else None


def _grows(
    group: GroupFacts, key: Partition | str, lag: int, places: list[Partition], now_ms: int, settings: HealthSettings
) -> bool:
    """Return whether the lag has not become less for long enough, and remember it for the next poll."""
    offsets = [group.offsets[place] for place in places if place in group.offsets]
    position, growing = sum(each.offset for each in offsets), group.growing.get(key)
    if growing is None or (lag < growing.lag and now_ms > growing.polled_ms):
        growing = Growing(now_ms, lag, now_ms, now_ms, position)
    elif now_ms > growing.polled_ms:
        moves = growing.moves + (position != growing.position)
        growing = growing._replace(polled_ms=now_ms, position=position, moves=moves)
        if now_ms - growing.lag_ms >= LOOKS_BACK * settings.settling_ms:
            growing = growing._replace(lag=lag, lag_ms=now_ms)
    group.growing[key] = growing
    return (
        now_ms - max(growing.since_ms, group.assigned_ms) >= settings.settling_ms
        and growing.moves >= MOVES_MIN
        and lag > COMMITS_MIN * sum(each.step for each in offsets)
    )


def _hot(group: GroupFacts, place: Partition, lags: Mapping[Partition, int], member: str) -> Finding:
    growing = group.growing[place]
    says = (
        f"{lags[place]:,} of {sum(lags.values()):,} messages that wait in {place[0]} wait in partition {place[1]}, one "
        f"of {len(lags)}, and it is {holding.called(member, group.members)}'s: more come than are read"
    )
    return found_in(place, group, "hot_partition", member, lags[place], growing.since_ms, text=says)


def _behind(group: GroupFacts, member: str, lags: Mapping[str, int], place: Partition) -> Finding:
    growing = group.growing[member]
    says = (
        f"{holding.called(member, group.members)} has {lags[member]:,} of {sum(lags.values()):,} messages that wait "
        f"for {len(lags)} members: it reads less than comes"
    )
    return found_in(place, group, "member_behind", member, lags[member], growing.since_ms, text=says)


def _partitions(group: GroupFacts, ends: EndOffsets, settings: HealthSettings) -> Iterator[Finding]:
    members, total = len(group.members), group.partitions
    if members < 2 or total < PARTITIONS_MIN or group.protocol_name in CONNECT_PROTOCOLS:
        return
    counts = {each: sum(len(topic.partitions) for topic in group.owned.get(each, ())) for each in group.members}
    member = max(counts, key=counts.__getitem__)
    if 2 * counts[member] <= total or counts[member] < SHARES * total / members + 1:
        return
    if ends.polled_ms - group.assigned_ms < settings.settling_ms or not _ask_for_the_same(group):
        return
    topics = group.owned[member]
    share = f"{total // members}" if total % members == 0 else f"{total // members} or {total // members + 1}"
    says = (
        f"{holding.called(member, group.members)} has {counts[member]} of {total} partitions, and there are {members} "
        f"members: round robin, sticky or cooperative sticky would give each {share}"
    )
    place = topics[0].topic, topics[0].partitions[0]
    yield found_in(place, group, "member_has_most", member, 0, group.assigned_ms, text=says)


def _ask_for_the_same(group: GroupFacts) -> bool:
    if group.kind == CLASSIC:
        wants = {None if topics is None else frozenset(topics) for topics in map(group.wants.get, group.members)}
    else:
        asks = [group.asks.get(each) for each in group.members]
        wants = {
            None if ask is None or ask.subscribed_topics is None or ask.subscribed_regex else
            frozenset(ask.subscribed_topics) for ask in asks
        }  # fmt: skip
    return len(wants) == 1 and None not in wants
