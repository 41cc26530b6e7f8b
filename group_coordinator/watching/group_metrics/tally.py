"""Counts what lies on the coordinator's topics, each record once.

The counters come from the outputs, not from the Spark tasks that made them: a task may run twice, an output has one
name (group, epoch, seq) for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

import msgspec
from msgspec import UNSET

from group_coordinator.ground.monitoring import metrics as m
from group_coordinator.ground.monitoring.registry import Metrics
from group_coordinator.watching.group_metrics.group_table import GroupTable
from group_coordinator.watching.group_metrics.light_records import (
    LightEvent,
    read_answer,
    read_event,
    read_snapshot,
)
from group_coordinator.watching.group_metrics.names import kept_name
from group_coordinator.watching.group_metrics.repeats import Remembered, Repeats
from group_coordinator.watching.history.fold import tell
from group_coordinator.watching.history.view import Departure, HistoryView, JoinedMember, Removal, RemovedOffsets
from schemas.consumer_group_history import GroupEpochBumped, TargetAssignmentComputed
from schemas.events import SESSION_RENEWAL
from schemas.history import (
    GroupDead,
    History,
    HistoryRecord,
    MemberDropped,
    MemberExpired,
    MemberFenced,
    MemberIdentity,
    OffsetsCommitted,
    RebalanceCompleted,
    RebalanceStarted,
    RequestRefused,
)
from schemas.messages import APIS
from schemas.transaction_history import NeverCounted, TransactionalOffsetsPending

_DEAD_LETTER_REASONS = frozenset(reason for (reason,) in m.DEAD_LETTERS.known)
_EVENTS_REMEMBERED = 100_000
_LETTERS_REMEMBERED = 10_000


class Tally:
    """One record after the other, by topic; all methods are for one thread. What is none of ours is passed over."""

    def __init__(self, metrics: Metrics, groups: GroupTable, shard_of: Callable[[str], int | None]) -> None:
        """`shard_of`: the shard of a group; None where another process runs it, whose groups are not counted here."""
        self._metrics = metrics
        self._groups = groups
        self._shard_of = shard_of
        self._repeats = Repeats()
        self._appended = Remembered(_EVENTS_REMEMBERED)
        """When the last requests were appended, by (shard, offset)."""
        self._letters = Remembered(_LETTERS_REMEMBERED)
        self._counts = HistoryCounts(metrics, groups)

    def event(self, shard: int, offset: int, timestamp_ms: int, key: bytes | None, value: bytes | None) -> None:
        """Count a record of the events topic."""
        self._appended[shard, offset] = timestamp_ms
        event = None if key is None or value == SESSION_RENEWAL else _event(value)
        self._metrics.add(m.EVENTS, m.TICK if key is None else m.RENEWAL if value == SESSION_RENEWAL else _api(event))

    def answer(self, partition: int, timestamp_ms: int, value: bytes) -> None:
        """Count a record of the responses topic. Raises msgspec.DecodeError."""
        answer = read_answer(value)
        shard = self._shard_of(answer.group_id)
        if shard is None or not self._repeats.is_new("answers", partition, answer.group_id, answer.epoch, answer.seq):
            return
        api = answer.api if answer.api in APIS else m.UNREADABLE
        self._metrics.add(m.ANSWERS, api, answer.error)
        appended_ms = self._appended.get((shard, answer.answers_offset))
        if appended_ms is not None:
            self._metrics.observe(m.ANSWER_SECONDS, max(0, timestamp_ms - appended_ms) / 1_000, api)

    def history(self, record: History) -> bool:
        """Count a record of the history topic; False if it was counted before, or elsewhere."""
        if self._shard_of(record.group_id) is None:
            return False
        if not self._repeats.is_new("history", record.cause.partition, record.group_id, record.epoch, record.seq):
            return False
        tell(record, self._counts)
        return True

    def group(self, key: bytes, value: bytes | None) -> None:
        """Count a record of the assignments topic. Raises msgspec.DecodeError."""
        group_id = key.decode(errors="replace")
        if self._shard_of(group_id) is not None:
            self._groups.put(kept_name(group_id), None if value is None else read_snapshot(value))

    def dead_letter(self, shards: frozenset[int], key: bytes | None, headers: Mapping[str, str]) -> str | None:
        """Count a record of the dead-letters topic, return its reason; None if it was counted before, or elsewhere."""
        shard = headers.get("partition")
        if shard is not None and int(shard) not in shards:
            return None
        identity: Hashable = (key, *(headers.get(name) for name in ("topic", "partition", "offset", "epoch", "seq")))
        if identity in self._letters:
            return None
        self._letters[identity] = None
        reason = headers.get("reason", m.UNREADABLE)
        self._metrics.add(m.DEAD_LETTERS, reason if reason in _DEAD_LETTER_REASONS else m.UNREADABLE)
        return reason


class HistoryCounts(HistoryView):
    """The counts of changes in groups. It is told each record once."""

    def __init__(self, metrics: Metrics, groups: GroupTable) -> None:
        self._metrics, self._groups = metrics, groups
        self._commits = Remembered(_EVENTS_REMEMBERED)

    def member_joined(self, record: HistoryRecord, joined: JoinedMember) -> None:
        self._metrics.add(m.MEMBERS_JOINED)

    def member_departed(self, record: History, member: MemberIdentity, departure: Departure) -> None:
        match departure:
            case "left":
                self._metrics.add(m.MEMBERS_GONE, "left")
            case "expired":
                is_stalled = isinstance(record, MemberExpired) and record.stalled_broker_id is not UNSET
                self._metrics.add(m.MEMBERS_GONE, "coordinator_stalled" if is_stalled else "session_expired")
                self._groups.happened(self._groups.expiries, record.group_id)
            case "dropped":
                self._metrics.add(m.MEMBERS_GONE, record.reason if isinstance(record, MemberDropped) else "")
            case "unknown":
                self._metrics.add(m.MEMBERS_GONE, "unknown")

    def member_fenced(self, record: MemberFenced) -> None:
        self._metrics.add(m.MEMBERS_FENCED)

    def rebalance_started(self, record: RebalanceStarted) -> None:
        self._metrics.add(m.REBALANCES, record.trigger)
        self._groups.happened(self._groups.rebalances, record.group_id)

    def epoch_raised(self, record: GroupEpochBumped) -> None:
        for reason in record.reasons:
            self._metrics.add(m.EPOCH_BUMPS, reason)

    def target_computed(self, record: TargetAssignmentComputed) -> None:
        self._metrics.add(m.TARGETS)

    def group_died(self, record: GroupDead) -> None:
        self._groups.pending.forget(record.group_id)

    def offsets_pending(self, record: TransactionalOffsetsPending) -> None:
        self._groups.pending.written(record)

    def offsets_never_counted(self, record: NeverCounted) -> None:
        self._groups.pending.never_counted(record)

    def rebalance_ended(self, record: RebalanceCompleted) -> None:
        if record.is_begin_known is not False:
            self._metrics.observe(m.REBALANCE_SECONDS, record.duration_ms / 1_000, record.outcome)

    def offsets_committed(self, record: OffsetsCommitted) -> None:
        self._metrics.add(m.OFFSETS, "committed", by=len(record.offsets))
        self._groups.pending.committed(record)
        place = kept_name(record.group_id), record.cause.offset
        if place not in self._commits:  # a large commit comes in several records
            self._commits[place] = None
            self._metrics.add(m.COMMITS)

    def offsets_removed(self, record: RemovedOffsets, removal: Removal) -> None:
        self._metrics.add(m.OFFSETS, removal, by=len(record.offsets))
        self._groups.pending.removed(record.group_id, record.offsets)

    def request_refused(self, record: RequestRefused) -> None:
        self._metrics.add(m.REFUSALS, record.api, record.rule, record.error)
        self._groups.happened(self._groups.refusals, record.group_id)


def _event(value: bytes | None) -> LightEvent | None:
    """Return an event; None: it cannot be read."""
    try:
        return read_event(value or b"")
    except msgspec.DecodeError:
        return None


def _api(event: LightEvent | None) -> str:
    if event is None:
        return m.UNREADABLE
    if event.type in m.FACTS:
        return event.type
    return event.api if event.api in APIS else m.UNREADABLE
