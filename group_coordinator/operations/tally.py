"""Counts what lies on the coordinator's topics, each record once.

The counters come from the outputs, not from the Spark tasks that made them: a task may run twice, an output has one name
(group, epoch, seq) for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

import msgspec

from group_coordinator.operations import metrics as m
from group_coordinator.operations.group_table import GroupTable
from group_coordinator.operations.light_records import (
    LightAnswer,
    LightHistory,
    read_answer,
    read_event,
    read_history,
    read_snapshot,
)
from group_coordinator.operations.repeats import Remembered, Repeats
from schemas.events import SESSION_RENEWAL
from schemas.messages import APIS

_DEAD_LETTER_REASONS = frozenset(reason for (reason,) in m.DEAD_LETTERS.known)
_EVENTS_REMEMBERED = 100_000
_LETTERS_REMEMBERED = 10_000


class Tally:
    """One record after the other, by topic; all methods are for one thread. What is none of ours is passed over."""

    def __init__(self, metrics: m.Metrics, groups: GroupTable, shard_of: Callable[[str], int | None]) -> None:
        """`shard_of`: the shard of a group; None where another process runs it, whose groups are not counted here."""
        self._metrics = metrics
        self._groups = groups
        self._shard_of = shard_of
        self._repeats = Repeats()
        self._appended = Remembered(_EVENTS_REMEMBERED)
        """When the last requests were appended, by (shard, offset)."""
        self._letters = Remembered(_LETTERS_REMEMBERED)
        self._commits = Remembered(_EVENTS_REMEMBERED)

    def event(self, shard: int, offset: int, timestamp_ms: int, key: bytes | None, value: bytes | None) -> None:
        """A record of the events topic."""
        self._appended.keep((shard, offset), timestamp_ms)
        self._metrics.add(m.EVENTS, m.TICK if key is None else _api(value))

    def answer(self, partition: int, timestamp_ms: int, value: bytes) -> None:
        """A record of the responses topic. Raises msgspec.DecodeError."""
        answer = read_answer(value)
        shard = self._shard_of(answer.group_id)
        if shard is None or not self._is_new("answers", partition, answer):
            return
        api = answer.api if answer.api in APIS else m.UNREADABLE
        self._metrics.add(m.ANSWERS, api, answer.error)
        appended_ms = self._appended.get((shard, answer.answers_offset))
        if appended_ms is not None:
            self._metrics.observe(m.ANSWER_SECONDS, max(0, timestamp_ms - appended_ms) / 1_000, api)

    def history(self, partition: int, value: bytes) -> LightHistory | None:
        """A record of the history topic; None: it was counted before, or elsewhere. Raises msgspec.DecodeError."""
        record = read_history(value)
        if self._shard_of(record.group_id) is None or not self._is_new("history", partition, record):
            return None
        self._count(record)
        return record

    def group(self, key: bytes, value: bytes | None) -> None:
        """A record of the assignments topic. Raises msgspec.DecodeError."""
        group_id = key.decode(errors="replace")
        if self._shard_of(group_id) is not None:
            self._groups.put(group_id, None if value is None else read_snapshot(value))

    def dead_letter(self, shards: frozenset[int], key: bytes | None, headers: Mapping[str, str]) -> str | None:
        """A record of the dead-letters topic: its reason. None: it was counted before, or elsewhere."""
        shard = headers.get("partition")
        if shard is not None and int(shard) not in shards:
            return None
        identity: Hashable = (key, *(headers.get(name) for name in ("topic", "partition", "offset", "epoch", "seq")))
        if identity in self._letters:
            return None
        self._letters.keep(identity, None)
        reason = headers.get("reason", m.UNREADABLE)
        self._metrics.add(m.DEAD_LETTERS, reason if reason in _DEAD_LETTER_REASONS else m.UNREADABLE)
        return reason

    def _is_new(self, stream: str, partition: int, record: LightAnswer | LightHistory) -> bool:
        return self._repeats.is_new(stream, partition, record.group_id, record.epoch, record.seq)

    def _count(self, record: LightHistory) -> None:
        metrics, groups = self._metrics, self._groups
        match record.type:
            case "rebalance_started":
                metrics.add(m.REBALANCES, record.trigger)
                groups.happened(groups.rebalances, record.group_id)
            case "rebalance_completed":
                metrics.observe(m.REBALANCE_SECONDS, record.duration_ms / 1_000, record.outcome)
            case "member_joined":
                metrics.add(m.MEMBERS_JOINED)
            case "member_left":
                metrics.add(m.MEMBERS_GONE, "left")
            case "member_expired":
                metrics.add(m.MEMBERS_GONE, "session_expired")
                groups.happened(groups.expiries, record.group_id)
            case "member_dropped":
                metrics.add(m.MEMBERS_GONE, record.reason)
            case "member_fenced":
                metrics.add(m.MEMBERS_FENCED)
            case "request_refused":
                metrics.add(m.REFUSALS, record.api, record.rule, record.error)
                groups.happened(groups.refusals, record.group_id)
            case "offsets_committed" | "offsets_expired" | "offsets_deleted":
                metrics.add(m.OFFSETS, record.type.removeprefix("offsets_"), by=len(record.offsets))
                if record.type == "offsets_committed":
                    self._commit(record)

    def _commit(self, record: LightHistory) -> None:
        """A large commit is told in several records."""
        place = record.group_id, record.cause.offset
        if place not in self._commits:
            self._commits.keep(place, None)
            self._metrics.add(m.COMMITS)


def _api(value: bytes | None) -> str:
    if value == SESSION_RENEWAL:
        return m.RENEWAL
    try:
        event = read_event(value or b"")
    except msgspec.DecodeError:
        return m.UNREADABLE
    if event.type == m.TOPICS_DELETED:
        return m.TOPICS_DELETED
    return event.api if event.api in APIS else m.UNREADABLE
