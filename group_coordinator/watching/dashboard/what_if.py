"""The same log under other settings is shown beside what happened.

The replay itself is the caller's; this compares.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypedDict

from msgspec import Struct

from group_coordinator.watching.dashboard.change import Change
from group_coordinator.watching.dashboard.group_page import GroupOverTime
from group_coordinator.watching.dashboard.returns import PUT_OUT


class GroupPlay(Struct, frozen=True, kw_only=True):
    """One group's log, to be played again."""

    play: Callable[[Change, int], Iterable[bytes]]
    """(change, repetition) -> the values of the group's history records, as they would lie on the history topic. It is
    asked for `Change()`, too: how near that comes to what happened says how far the rest can be believed. Raises
    ValueError, with a sentence for the user, for what cannot be replayed."""
    repetitions: int = 1
    """How many there are to be seen: from 0 on, each with a little chance of its own."""


ReplayFunction = Callable[[str], GroupPlay]
"""It plays the group of an id. It raises ValueError, as `GroupPlay.play` does."""

Page = GroupOverTime


class Comparison(TypedDict):
    """A group under other settings, beside what happened; and played without a change."""

    page: Page
    before: dict[str, Any]
    after: dict[str, Any]
    unchanged: dict[str, Any]
    ranges: dict[str, dict[str, list[int]]]
    """Of `after` and `unchanged`: the least and the most of each number, where it is not always the same."""
    assumptions: list[str]


def summary(page: Page) -> dict[str, Any]:
    """Return the few numbers of a group's page that are compared."""
    rebalances = page["rebalances"]
    durations_ms = sorted(each.duration_ms for each in rebalances if each.duration_ms is not None)
    unowned_ms = _unowned_ms(page)
    stopped_ms = [after - before for before, after in _stops(page)]
    return {
        "protocols": protocols(page),
        "rebalances": len(rebalances),
        "by_trigger": dict(Counter(each.trigger for each in rebalances)),
        "rebalancing_ms": sum(durations_ms),
        "median_ms": durations_ms[len(durations_ms) // 2] if durations_ms else None,
        "longest_ms": durations_ms[-1] if durations_ms else None,
        "start_ms": _start_ms(page),
        "unowned_ms": page["unowned_ms"],
        "longest_unowned_ms": max(unowned_ms, default=0),
        "stops": len(stopped_ms),
        "stopped_ms": sum(stopped_ms),
        "silent_ms": _silent_ms(page),
        "put_out": sum(member["ended_by"] in PUT_OUT for member in page["members"]),
        "refusals": len(page["refusals"]),
        "moves": _moves(page),
        "spread": _spread(page),
    }


def ranges(summaries: Sequence[Mapping[str, Any]]) -> dict[str, list[int]]:
    """Return the least and the most of each number, where it is not always the same."""
    numbers = [{name: value for name, value in summary.items() if isinstance(value, int)} for summary in summaries]
    extremes = {
        name: [min(values), max(values)]
        for name in numbers[0]
        if (values := [of_one[name] for of_one in numbers if name in of_one])
    }
    return {name: [least, most] for name, (least, most) in extremes.items() if least < most}


def protocols(page: Page) -> list[str]:
    """Return the group protocols by which the group has rebalanced, or to which it went over without a rebalance."""
    counts = {each.counts for each in page["rebalances"]}
    if any(to_protocol == "consumer" for _, to_protocol, *_ in (page["epochs"] or {}).get("conversions", ())):
        counts.add("epoch")
    return [name for name, counted in (("classic", "generation"), ("consumer", "epoch")) if counted in counts]


def _unowned_ms(page: Page) -> list[int]:
    """Return each time for which a partition had no owner, though the group had members."""
    return [
        (page["now"] if to_ms is None else to_ms) - from_ms
        for lane in page["lanes"]
        for from_ms, to_ms, kind in lane["gaps"]
        if kind == "unowned"
    ]


def _stops(page: Page) -> Iterator[tuple[int, int]]:
    """Yield from when to when partitions had no owner that afterwards had the same one as before."""
    for lane in page["lanes"]:
        for first, second in pairwise(lane["owned"]):
            if first[0] == second[0] and second[1] > first[2]:
                yield first[2], second[1]


def _silent_ms(page: Page) -> int:
    """Return for how long partitions were owned by members of which nothing was heard any more, until they expired."""
    heard_ms = {number: member["heard"] for number, member in enumerate(page["members"])}
    return sum(
        to_ms - max(from_ms, heard_ms[number])
        for lane in page["lanes"]
        for number, from_ms, to_ms, _, ended_by in lane["owned"]
        if ended_by == "expired" and heard_ms.get(number) is not None
    )


def _start_ms(page: Page) -> int | None:
    """Return how long it took from the first member to the first owner; None where the window does not show it."""
    joined_ms = [member["first"] for member in page["members"]]
    owned_ms = [lane["owned"][0][1] for lane in page["lanes"] if lane["owned"]]
    return max(min(owned_ms) - min(joined_ms), 0) if joined_ms and owned_ms and not page["window"]["dropped"] else None


def _moves(page: Page) -> int:
    """Return how often a partition moved from one member to another. A static member is one, under whatever ids."""
    one_of = [member["instance"] or number for number, member in enumerate(page["members"])]
    return sum(
        first[0] != second[0] and (min(first[0], second[0]) < 0 or one_of[first[0]] != one_of[second[0]])
        for lane in page["lanes"]
        for first, second in pairwise(lane["owned"])
    )


def _spread(page: Page) -> list[int] | None:
    """The fewest and the most partitions that a member owns at the end; None: nobody owns any."""
    owners = Counter(owned[0] for lane in page["lanes"] for owned in lane["owned"] if owned[2] is None)
    idle = any(member["joined"] is not None and member["ended"] is None and number not in owners
               for number, member in enumerate(page["members"]))  # fmt: skip
    return [0 if idle else min(owners.values()), max(owners.values())] if owners else None


def assumptions(before: Page, change: Change, plays: int) -> list[str]:
    """Return sentences that say what is taken for granted. `before`: the page of what happened. `plays`: how many
    there were."""
    played, were = change.group_protocol, protocols(before)
    sentences = [_OF_ALL]
    if played is not None and were != [played]:
        sentences.append(_OTHER_REBALANCES)
    if played == "consumer" and "classic" in were:
        sentences.append(_TO_CONSUMER)
    if played == "classic" and "consumer" in were:
        sentences.append(_TO_CLASSIC)
    if played == "consumer" and (change.session_timeout_ms or change.heartbeat_interval_ms):
        sentences.append(_BOUNDS)
    if plays > 1:
        sentences.append(_CHANCE.format(plays))
    return [*sentences, _NOT_KNOWN]


_OF_ALL = (
    "Each client is played by a member that does what Kafka's Java consumer does. It comes, subscribes, falls silent, "
    "stalls and ends when the recorded client did, and its application is as quick to react as that one's was. A "
    "request and its answer take 2 ms."
)
_OTHER_REBALANCES = (
    "A rebalance of a consumer group stops nobody: it lasts from a new epoch until each member has what it shall have, "
    "and only partitions that move are without an owner."
)
_TO_CONSUMER = (
    "Members of the consumer protocol hear of a new assignment with their next heartbeat, and one that dies holds its "
    "partitions for the session timeout: there both are settings of the coordinator, whatever the clients had. Topics "
    "are those that the members shared out, as large as at the end of the log."
)
_TO_CLASSIC = (
    "Members of the classic protocol have Kafka's defaults where nothing else is chosen: session timeout 45 s, "
    "heartbeats each 3 s, assignors range and cooperative-sticky. They see new partitions at once; real ones ask for "
    "them every metadata.max.age.ms."
)
_BOUNDS = (
    "Brokers allow a consumer group a session timeout from 45 s to 60 s and a heartbeat interval from 5 s to 15 s, "
    "unless group.consumer.min.session.timeout.ms and its likes say otherwise."
)
_CHANCE = (
    "Where a heartbeat falls in its interval is chance: the ranges are those of {} plays, in each of which what "
    "clients do comes later by parts of a heartbeat interval, and members have other ids where the log has none: the "
    "assignor range goes by their order. Ranges that overlap are no difference."
)
_NOT_KNOWN = (
    "Not known: how other client libraries differ, how long an application would take in callbacks that it did not "
    "have, and the load that more or fewer rebalances would mean."
)
