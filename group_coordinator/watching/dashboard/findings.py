"""What is wrong with single partitions of a group, and in which words that is said. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from msgspec import Struct

from group_coordinator.ground.kafka_topics.bounds import Partition
from group_coordinator.watching.dashboard.facts import GroupFacts
from group_coordinator.watching.dashboard.verdicts import Verdict, VerdictKind
from group_coordinator.watching.narrative import holding, sentences, words

FindingKind = Literal[
    "lost",
    "will_lose",
    "stalled",
    "transaction",
    "skipped",
    "rewound",
    "hot_partition",
    "member_behind",
    "member_has_most",
]
FINDINGS_SHOWN = 20
_DAY_MS = 86_400_000


class Finding(Struct, frozen=True, kw_only=True):
    """One partition of a group. Times are milliseconds since 1970."""

    kind: FindingKind
    """`lost`: the committed offset lies before the begin of the log. `will_lose`: it soon will. `stalled`: it does not
    move, though messages wait. `transaction`: it cannot move, because a transaction does not end. `skipped`,
    `rewound`: a commit passed over messages, or went back. `hot_partition`, `member_behind`: the partition, or the
    member, has most of the lag. `member_has_most`: it has most of the partitions."""
    topic: str
    partition: int
    member_id: str | None
    """The member that has the partition."""
    committed_offset: int | None
    """null: there is none."""
    messages: int
    """How many are lost, were passed over, or are read again; of the others, how many wait."""
    since_ms: int | None
    """null: since before the ends of logs were polled."""
    in_ms: int | None = None
    """In about so long messages will be lost."""
    rebalance_ms: int | None = None
    """The rebalance with which it began; null: none was near."""
    is_committed_again: bool = False
    """The same offset is committed again and again."""
    text: str = ""
    """The finding as a sentence, where it is one by itself."""


def found_in(
    place: Partition, group: GroupFacts, kind: FindingKind, member: str | None, messages: int, since_ms: int | None,
    **more: Any,
) -> Finding:  # fmt: skip
    """Return a finding in a partition of the group. `more`: its further fields."""
    committed = group.offsets.get(place)
    return Finding(
        kind=kind,
        topic=place[0],
        partition=place[1],
        member_id=member,
        committed_offset=None if committed is None else committed.offset,
        messages=messages,
        since_ms=since_ms,
        **more,
    )


def losing(group: GroupFacts, findings: Iterable[Finding], now_ms: int) -> Verdict | None:
    """Return the verdict on a group that loses messages, or soon will."""
    lost = [finding for finding in findings if finding.kind == "lost"]
    soon = [finding for finding in findings if finding.kind == "will_lose"]
    if not lost and not soon:
        return None
    worst = max(lost, key=_messages) if lost else min(soon, key=lambda finding: finding.in_ms or 0)
    who = holding.called(worst.member_id, group.members) if worst.member_id is not None else None
    reader = who or "nobody is there, and the group"
    if lost:
        since = "" if worst.since_ms is None else f", since {when(worst.since_ms, now_ms)}"
        reason = (
            f"{reader} has lost {worst.messages:,} messages of {place_of(worst)}{since}: they were deleted before they "
            "were read"
        )
    else:
        reason = (
            f"{reader} will lose messages of {place_of(worst)} in about {_roughly(worst.in_ms or 0)}: "
            f"{worst.messages:,} wait, and deleting comes nearer than reading goes on"
        )
    return Verdict(kind="losing", reason=reason + _more(lost or soon), who=who)


def stalled(group: GroupFacts, findings: Iterable[Finding], now_ms: int) -> Verdict | None:
    """Return the verdict on a group whose committed offsets do not move."""
    found = [finding for finding in findings if finding.kind == "stalled"]
    if not found:
        return None
    worst = max(found, key=_messages)
    who = None if worst.member_id is None else holding.called(worst.member_id, group.members)
    since = "" if worst.since_ms is None else when(worst.since_ms, now_ms)
    if worst.committed_offset is None:
        reason = (
            f"{who} has committed nothing for {place_of(worst)}, where {worst.messages:,} messages came since {since}: "
            "it does not get on, never commits, or keeps its offsets elsewhere"
        )
    else:
        how = "that same offset again and again" if worst.is_committed_again else "nothing since"
        reason = (
            f"{who} stands still in {place_of(worst)} at offset {worst.committed_offset} since {since}, and "
            f"{worst.messages:,} messages wait; it commits {how}"
        )
    return Verdict(kind="stalled", reason=reason + _more(found) + _began(group, worst, now_ms), who=who)


def jumped(findings: Iterable[Finding]) -> Verdict | None:
    """Return the verdict on a group with a commit that passed over messages, or went back."""
    found = list(findings)
    return _said("skipped", found, ("skipped",)) or _said("rewound", found, ("rewound",))


def uneven(findings: Iterable[Finding]) -> Verdict | None:
    """Return the verdict on a group where one partition or member has most."""
    return _said("uneven", findings, ("hot_partition", "member_behind", "member_has_most"))


def _said(verdict: VerdictKind, findings: Iterable[Finding], kinds: Sequence[FindingKind]) -> Verdict | None:
    found = [finding for finding in findings if finding.kind in kinds]
    if not found:
        return None
    worst = max(found, key=_messages)
    return Verdict(kind=verdict, reason=worst.text + _more(found), who=worst.member_id)


def waits(findings: Sequence[Finding]) -> str:
    """Return what waits for a transaction, as the end of a sentence; empty: nothing."""
    places = [place_of(finding) for finding in findings if finding.kind == "transaction"]
    return f"; {words.listed(places)} can be read up to a transaction that does not end" if places else ""


def _began(group: GroupFacts, finding: Finding, now_ms: int) -> str:
    if finding.rebalance_ms is None:
        return "; no rebalance was near"
    started = group.started
    is_last = started is not None and started.timestamp_ms == finding.rebalance_ms
    why = f", when {sentences.because(started)}" if is_last and started is not None else ""
    return f"; it began with the rebalance at {when(finding.rebalance_ms, now_ms)}{why}"


def _more(findings: Sequence[Finding]) -> str:
    others = len(findings) - 1
    return f"; the same of {words.count(others, 'other partition')}" if others else ""


def _messages(finding: Finding) -> int:
    return finding.messages


def place_of(finding: Finding) -> str:
    return f"{finding.topic}-{finding.partition}"


def when(time_ms: int, now_ms: int) -> str:
    is_old = now_ms - time_ms > _DAY_MS
    return f"{words.day(time_ms)} {words.clock(time_ms)}" if is_old else words.clock(time_ms)


def _roughly(duration_ms: int) -> str:
    """Return a duration without the smaller of its two units: it is an estimate."""
    return " ".join(words.duration(duration_ms).split()[:2])
