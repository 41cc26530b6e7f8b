"""The verdict on a group: what is wrong, and whose doing it is, in one sentence. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from group_coordinator.watching.dashboard import findings, underway
from group_coordinator.watching.dashboard.committed import Committed
from group_coordinator.watching.dashboard.facts import GroupFacts, Recent
from group_coordinator.watching.dashboard.findings import Finding
from group_coordinator.watching.dashboard.lag import Lag
from group_coordinator.watching.dashboard.returns import PUT_OUT, Coming, Life, client_key, returned
from group_coordinator.watching.dashboard.settings import HealthSettings
from group_coordinator.watching.dashboard.verdicts import Verdict
from group_coordinator.watching.history.current_group import CLASSIC, SHARE
from group_coordinator.watching.narrative import sentences, words
from schemas.group_states import NO_GROUP, REBALANCING, UNKNOWN, GroupState

REPLACED_MIN = 2
"""So many members that others have come for are a deploy."""


def verdict(
    group: GroupFacts, lag: Lag | None, now_ms: int, settings: HealthSettings, partitions: Sequence[Finding] = ()
) -> Verdict:
    """Return the worst verdict that is true of the group at this time. `partitions`: what is wrong with single ones."""
    return (
        _stuck(group, now_ms, settings)
        or findings.losing(group, partitions, now_ms)
        or findings.stalled(group, partitions, now_ms)
        or _restless(group, now_ms, settings)
        or findings.jumped(partitions)
        or findings.uneven(partitions)
        or _deploying(group, now_ms, settings)
        or _empty(group, lag, now_ms, settings)
        or _calm(group, now_ms, settings, findings.waits(partitions))
    )


def _stuck(group: GroupFacts, now_ms: int, settings: HealthSettings) -> Verdict | None:
    running_ms = now_ms - group.state_since_ms
    if group.state == GroupState.PREPARING_REBALANCE and group.started is not None:
        overdue = group.deadline_ms is not None and now_ms > group.deadline_ms + settings.deadline_grace_ms
        if running_ms <= settings.stuck_after_ms and not overdue:
            return None
        waiting = list(group.waiting)
        whom = f"waits for {words.names(waiting)}" if waiting else "waits for nobody that this history names"
        overdue_text = ", beyond its deadline" if overdue else ""
        reason = (
            f"{whom} to rejoin for {words.duration(running_ms)}{overdue_text}; it began because "
            f"{sentences.because(group.started)}"
        )
        return Verdict(kind="stuck", reason=reason, who=waiting[0] if waiting else None, holds_until_ms=now_ms + 5_000)
    if group.state == GroupState.COMPLETING_REBALANCE and running_ms > settings.stuck_after_ms:
        leader = words.name(group.leader_id) if group.leader_id else "its leader"
        reason = f"waits for {leader}, the leader, to send the assignment for {words.duration(running_ms)}"
        return Verdict(kind="stuck", reason=reason, who=group.leader_id, holds_until_ms=now_ms + 5_000)
    return underway.stuck(group, now_ms, settings)


def _restless(group: GroupFacts, now_ms: int, settings: HealthSettings) -> Verdict | None:
    since_ms = now_ms - settings.window_ms
    recent = [rebalance for rebalance in group.recent if rebalance.started_ms > since_ms]
    if len(recent) < settings.flapping_rebalances:
        return None
    rolls = _rolls(group, settings)
    odd = [each for each in recent if not any(roll.since_ms <= each.started_ms <= roll.last_ms for roll in rolls)]
    over_ms = recent[0].started_ms + settings.window_ms + 1
    times = f"{words.count(len(recent), 'rebalance')} in {words.duration(settings.window_ms)}"
    doers = Counter(rebalance.client for rebalance in odd if rebalance.client).most_common(1)
    client, doing = doers[0] if doers else ("", 0)
    goings = (each for each in group.comings if each.at_ms > since_ms and each.client == client and each.is_own_doing)
    departures = [each.departure for each in goings if each.departure is not None]
    if (
        doing >= settings.flapping_rebalances
        and 2 * doing >= len(odd)
        and len(departures) >= settings.flapping_departures
        and (len(group.members) > 1 or len(recent) > doing)
    ):
        departures_text = ", ".join(f"{how} {_times(number)}" for how, number in Counter(departures).items())
        reason = f"{client} comes and goes: {doing} of {times} are its doing ({departures_text})"
        return Verdict(kind="flapping", reason=reason, who=client, holds_until_ms=over_ms)
    if _beyond_comings_and_goings(odd) >= settings.storm_rebalances:
        trigger, number = Counter(rebalance.trigger for rebalance in recent).most_common(1)[0]
        mostly = sentences.TRIGGERS[trigger]  # type: ignore[index]
        reason = f"{times}, {number} of them because {mostly}"
        return Verdict(kind="storming", reason=reason, who=client or None, holds_until_ms=over_ms)
    return None


def _beyond_comings_and_goings(odd: list[Recent]) -> int:
    """Return how many rebalances count for a storm, of those that belong to no roll.

    Each member that comes or goes makes an epoch of a group that counts them, for which nobody else stops. There, those
    count that are nobody's doing, and of one client those beyond two.
    """
    by_client = Counter(rebalance.client for rebalance in odd if not rebalance.stops_all)
    epochs = sum(number if not client else max(0, number - 2) for client, number in by_client.items())
    return epochs + sum(rebalance.stops_all for rebalance in odd)


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number} times")


def _empty(group: GroupFacts, lag: Lag | None, now_ms: int, settings: HealthSettings) -> Verdict | None:
    if group.state != GroupState.EMPTY:
        return None
    first_ms = expires_ms(group, settings)
    if first_ms is not None and first_ms <= now_ms + settings.expiry_warning_ms:
        expiry = f"expire in {words.duration(first_ms - now_ms)}" if first_ms > now_ms else "are due to expire"
        reason = f"nobody is there, and offsets of {words.count(len(group.offsets), 'partition')} {expiry}"
        return Verdict(kind="expiring", reason=reason, holds_until_ms=now_ms + 60_000)
    warns_ms = None if first_ms is None else first_ms - settings.expiry_warning_ms
    if lag is not None and (lag.messages > 0 or (lag.up_to > 0 and group.offsets)):
        up_to = f"; {words.count(lag.uncommitted, 'partition')} without a commit" if lag.uncommitted else ""
        up_to += f" {'have' if lag.uncommitted > 1 else 'has'} up to {lag.up_to:,} more" if lag.up_to else ""
        reason = f"nobody is there, and {lag.messages:,} messages wait{up_to}"
        return Verdict(kind="empty_with_lag", reason=reason, holds_until_ms=warns_ms)
    reason = "nobody is there" if group.had_members else "offsets only: nobody ever joined"
    return Verdict(kind="empty", reason=reason, holds_until_ms=warns_ms)


class _Roll(NamedTuple):
    """Members are replaced one after the other."""

    since_ms: int
    last_ms: int
    """The last one came or went."""
    replaced: int
    rebalances: int


def _rolls(group: GroupFacts, settings: HealthSettings) -> list[_Roll]:
    """Return the rolls that are remembered, the last one first: a rollback follows soon."""
    episodes: list[list[Coming]] = []
    back = returned(_lives(group))
    for coming in group.comings:
        if coming.member_id in back:
            continue
        if not episodes or coming.at_ms - episodes[-1][-1].at_ms > settings.roll_apart_ms:
            episodes.append([])
        episodes[-1].append(coming)
    return [roll for comings in reversed(episodes) if (roll := _roll(group, comings)) is not None]


def _lives(group: GroupFacts) -> Iterable[Life]:
    """Yield what is remembered of the clients of which a member was put out."""
    clients = {coming.client for coming in group.comings if coming.departure in PUT_OUT}
    if not clients:
        return ()
    keys = ((member_id, client_key(member)) for member_id, member in group.members.items())
    lives = {member_id: Life(client, member_id, None, None, False) for member_id, client in keys if client in clients}
    for at_ms, member_id, client, departure, _ in group.comings:
        if client in clients:
            life = lives.get(member_id) or Life(client, member_id, None, None, False)
            lives[member_id] = (
                life._replace(joined_ms=at_ms)
                if departure is None
                else life._replace(ended_ms=at_ms, was_put_out=departure in PUT_OUT)
            )
    return lives.values()


def _roll(group: GroupFacts, comings: Sequence[Coming]) -> _Roll | None:
    """Return the roll that an episode is. Who comes and goes is replaced once, and where several do so it is none.

    Who comes before anybody goes replaces somebody only where most that came have done so: all new members may start
    before the old ones stop.
    """
    first = next((number for number, coming in enumerate(comings) if coming.departure is not None), len(comings))
    return _replacing(group, comings[first:]) or _replacing(group, comings, most=True)


def _replacing(group: GroupFacts, comings: Sequence[Coming], most: bool = False) -> _Roll | None:
    came = {coming.member_id for coming in comings if coming.departure is None}
    left = {coming.member_id for coming in comings if coming.departure is not None}
    gone, stayed = left - came, came - left
    replaced = min(len(gone), len(stayed))
    if replaced < REPLACED_MIN or len(came & left) >= replaced or (most and 2 * replaced <= len(stayed)):
        return None
    since_ms, last_ms = comings[0].at_ms, comings[-1].at_ms
    rebalances = sum(since_ms <= recent.started_ms <= last_ms for recent in group.recent)
    return _Roll(since_ms, last_ms, replaced, rebalances) if rebalances <= 2 * len(comings) else None


def _deploying(group: GroupFacts, now_ms: int, settings: HealthSettings) -> Verdict | None:
    if all(now_ms - coming.at_ms > settings.roll_apart_ms for coming in reversed(group.comings)):
        return None  # at most polls: what is remembered need not be gone through
    roll = next(iter(_rolls(group, settings)), None)
    if roll is None or now_ms - roll.last_ms > settings.roll_apart_ms:
        return None
    reason = (
        f"members are being replaced since {words.clock(roll.since_ms)}: {roll.replaced} so far, in "
        f"{words.count(roll.rebalances, 'rebalance')}; {words.count(len(group.members), 'member')} now"
    )
    return Verdict(kind="deploying", reason=reason, holds_until_ms=roll.last_ms + settings.roll_apart_ms + 1)


def expires_ms(group: GroupFacts, settings: HealthSettings) -> int | None:
    """Return when the first offset of an empty group expires (KIP-211).

    The retention counts from when its last member left; if it never had one, and in a consumer group, from the commit.
    """
    if group.state != GroupState.EMPTY or not group.offsets or group.kind == SHARE:
        return None
    return min(offset_expires_ms(group, committed, settings) for committed in group.offsets.values())


def _unresolved(group: GroupFacts) -> str:
    """Return which patterns give nothing yet, as the end of a sentence; empty: none."""
    regexes = [regex for regex, topics in group.regexes.items() if topics is None]
    return f"; {words.patterns_wait(regexes)}" if regexes else ""


def offset_expires_ms(group: GroupFacts, committed: Committed, settings: HealthSettings) -> int:
    """Return when an offset of an empty group expires."""
    from_emptying = group.had_members and group.kind == CLASSIC
    return (group.state_since_ms if from_emptying else committed.committed_ms) + settings.offsets_retention_ms


def _calm(group: GroupFacts, now_ms: int, settings: HealthSettings, waiting: str) -> Verdict:
    if group.state in REBALANCING:
        due_ms = underway.due_ms(group, settings)
        if due_ms is None:
            due_ms = group.state_since_ms + settings.stuck_after_ms
        if group.deadline_ms is not None:
            due_ms = min(due_ms, group.deadline_ms + settings.deadline_grace_ms)
        waits = f", waits for {words.names(group.waiting)}" if group.waiting else underway.waits(group)
        because = f": {sentences.because(group.started)}" if group.started is not None else ""
        reason = f"rebalancing{because}{waits}{_unresolved(group)}"
        return Verdict(kind="rebalancing", reason=reason, holds_until_ms=due_ms + 1)
    if group.state == GroupState.STABLE:
        reason = f"{words.count(len(group.members), 'member')}, {words.count(group.partitions, 'partition')}"
        idle = f"; {words.count(group.idle, 'member')} without a partition" if group.idle else ""
        return Verdict(kind="stable", reason=reason + idle + waiting + _unresolved(group))
    if group.state == NO_GROUP:
        refusals = words.count(group.refusals, "request")
        return Verdict(kind="dead", reason=f"there is no such group; {refusals} for it refused")
    if group.state == UNKNOWN:
        return Verdict(kind="unknown", reason="the recording does not tell what became of the group")
    return Verdict(kind="dead", reason="the group is gone")
