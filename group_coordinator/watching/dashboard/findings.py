"""What is wrong with single partitions of a group, and in which words that is said. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

from group_coordinator.watching.dashboard.facts import GroupFacts
from group_coordinator.watching.dashboard.verdicts import Verdict
from group_coordinator.watching.narrative import holding, sentences, words

FindingKind = Literal["lost", "will_lose", "stalled", "transaction"]
FINDINGS_SHOWN = 20
_DAY_MS = 86_400_000


class Finding(Struct, frozen=True, kw_only=True):
    """One partition of a group. Times are milliseconds since 1970."""

    kind: FindingKind
    """`lost`: the committed offset lies before the begin of the log. `will_lose`: it soon will. `stalled`: it does not
    move, though messages wait. `transaction`: it cannot move, because a transaction does not end."""
    topic: str
    partition: int
    member: str | None
    """The member that has the partition."""
    offset: int | None
    """The committed one; null: there is none."""
    messages: int
    """How many are lost; of the others, how many wait."""
    since: int | None
    """null: since before the ends of logs were polled."""
    in_ms: int | None = None
    """In about so long messages will be lost."""
    rebalanced: int | None = None
    """The rebalance with which it began; null: none was near."""
    commits: bool = False
    """The same offset is committed again and again."""


def losing(group: GroupFacts, findings: Iterable[Finding], now_ms: int) -> Verdict | None:
    """Return the verdict on a group that loses messages, or soon will."""
    lost = [finding for finding in findings if finding.kind == "lost"]
    soon = [finding for finding in findings if finding.kind == "will_lose"]
    if not lost and not soon:
        return None
    worst = max(lost, key=_messages) if lost else min(soon, key=lambda finding: finding.in_ms or 0)
    who = holding.called(worst.member, group.members) if worst.member is not None else None
    reader = who or "nobody is there, and the group"
    if lost:
        since = "" if worst.since is None else f", since {_when(worst.since, now_ms)}"
        reason = (
            f"{reader} has lost {worst.messages:,} messages of {_place(worst)}{since}: they were deleted before they "
            "were read"
        )
    else:
        reason = (
            f"{reader} will lose messages of {_place(worst)} in about {_roughly(worst.in_ms or 0)}: {worst.messages:,} "
            f"wait, and deleting comes nearer than reading goes on"
        )
    return Verdict(kind="losing", reason=reason + _more(lost or soon), who=who)


def stalled(group: GroupFacts, findings: Iterable[Finding], now_ms: int) -> Verdict | None:
    """Return the verdict on a group whose committed offsets do not move."""
    found = [finding for finding in findings if finding.kind == "stalled"]
    if not found:
        return None
    worst = max(found, key=_messages)
    who = None if worst.member is None else holding.called(worst.member, group.members)
    since = "" if worst.since is None else _when(worst.since, now_ms)
    if worst.offset is None:
        reason = (
            f"{who} has committed nothing for {_place(worst)}, where {worst.messages:,} messages came since {since}: "
            "it does not get on, never commits, or keeps its offsets elsewhere"
        )
    else:
        how = "that same offset again and again" if worst.commits else "nothing since"
        reason = (
            f"{who} stands still in {_place(worst)} at offset {worst.offset} since {since}, and {worst.messages:,} "
            f"messages wait; it commits {how}"
        )
    return Verdict(kind="stalled", reason=reason + _more(found) + _began(group, worst, now_ms), who=who)


def waits(findings: Sequence[Finding]) -> str:
    """Return what waits for a transaction, as the end of a sentence; empty: nothing."""
    places = [_place(finding) for finding in findings if finding.kind == "transaction"]
    return f"; {words.listed(places)} can be read up to a transaction that does not end" if places else ""


def _began(group: GroupFacts, finding: Finding, now_ms: int) -> str:
    if finding.rebalanced is None:
        return "; no rebalance was near"
    started = group.started
    is_last = started is not None and started.timestamp_ms == finding.rebalanced
    why = f", when {sentences.because(started)}" if is_last and started is not None else ""
    return f"; it began with the rebalance at {_when(finding.rebalanced, now_ms)}{why}"


def _more(findings: Sequence[Finding]) -> str:
    others = len(findings) - 1
    return f"; the same of {words.count(others, 'other partition')}" if others else ""


def _messages(finding: Finding) -> int:
    return finding.messages


def _place(finding: Finding) -> str:
    return f"{finding.topic}-{finding.partition}"


def _when(time_ms: int, now_ms: int) -> str:
    is_old = now_ms - time_ms > _DAY_MS
    return f"{words.day(time_ms)} {words.clock(time_ms)}" if is_old else words.clock(time_ms)


def _roughly(duration_ms: int) -> str:
    """Return a duration without the smaller of its two units: it is an estimate."""
    return " ".join(words.duration(duration_ms).split()[:2])
