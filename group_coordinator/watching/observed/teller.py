"""Says what happened in one group, record by record of history, each numbered and with its evidence."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from group_coordinator.watching.observed.ordering import OF_RECORDS, Item, TimedLine
from schemas.history import Cause, Certainty, Evidence, History

NO_OFFSET = -1
"""A line of a log has this offset: it lies in no topic."""
REASON_MAX = 255
"""Kafka keeps so much of what a client says."""


class Look(Struct, frozen=True, kw_only=True):
    """A poll, as the evidence of what is said because of it."""

    timestamp_ms: int
    offset: int = NO_OFFSET


class Teller:
    """The history of one group so far."""

    def __init__(self, group_id: str, partition: int) -> None:
        """`partition`: of the offsets topic."""
        self.group_id = group_id
        self.partition = partition
        self.life = 0
        """Which life of the group it is, as far as the evidence goes back."""
        self.generation_id = 0
        self._history: list[History] = []
        self.is_confirmed = True
        """Whether what the evidence tells is more than a line of a log that a client may have written."""
        self._last_seq = 0
        self._at_ms = 0
        self._evidence: tuple[Evidence, ...] = ()
        self._offset = NO_OFFSET

    def take_history(self) -> list[History]:
        """Return the records since the last call."""
        history, self._history = self._history, []
        return history

    def look_at(self, item: Item | Look) -> None:
        """Name this record, line or poll as the evidence of all records from now on."""
        evidence = evidence_of(item)
        self._evidence = (evidence,)
        self._offset = NO_OFFSET if evidence.offset is None else evidence.offset
        self._at_ms = item.at_ms if isinstance(item, TimedLine) else item.timestamp_ms

    @property
    def at_ms(self) -> int:
        """The time of the evidence."""
        return self._at_ms

    def say(
        self,
        kind: type[Any],
        *,
        at_ms: int | None = None,
        certainty: Certainty = "told",
        caused_by: int | None = None,
        given_reason: str | None = None,
        **fields: Any,
    ) -> int:
        """Append a record of this type. `given_reason`: the reason that a client gave. Returns its `seq`."""
        moment_ms = self._at_ms if at_ms is None else at_ms
        seq = self._last_seq = self._last_seq + 1
        self._history.append(
            kind(
                group_id=self.group_id,
                epoch=self.life,
                seq=seq,
                time_ms=moment_ms,
                timestamp_ms=moment_ms,
                generation_id=self.generation_id,
                cause=Cause(
                    kind="observed",
                    partition=self.partition,
                    offset=self._offset,
                    reason=None if given_reason is None else given_reason[:REASON_MAX],
                    evidence=self._evidence,
                    certainty="not_confirmed" if certainty == "told" and not self.is_confirmed else certainty,
                ),
                caused_by=caused_by,
                **fields,
            )
        )
        return seq


def evidence_of(item: Item | Look) -> Evidence:
    """Return where a record or a line stands."""
    if isinstance(item, Look):
        return Evidence(source="poll")
    if isinstance(item, TimedLine):
        line = item.line
        if line.file == OF_RECORDS:
            return Evidence(source="offsets_log", partition=line.partition, offset=line.number)
        return Evidence(
            source=line.source, partition=line.partition, broker=line.broker, file=line.file, line=line.number
        )
    return Evidence(source="offsets_log", partition=item.partition, offset=item.offset)
