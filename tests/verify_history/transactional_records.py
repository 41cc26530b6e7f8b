"""Transactions of a recorded history: Kafka's log has offsets when they are written, ours when they are committed.

The records of Kafka's log are read as a reader must who wants committed offsets only. What so comes out at a marker is
compared with the records that the core writes there; what was written in a transaction, with what history tells.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from coordinator_state import Output
from group_coordinator.watching.observed.transactions import OpenTransactions
from schemas.records import NO_TIMESTAMP, encode_offset_commit, encode_offset_commit_key
from schemas.transaction_history import TransactionalOffsetsPending

Json = dict[str, Any]
_Key = tuple[str, str, int]

_MARKER = "EndTransactionMarker"
_VALUE_VERSION = 4
OFFSETS_TOPIC = "__consumer_offsets"


class _Record(Struct, frozen=True):
    offset: int
    """Its place in the log."""
    record: Json

    @property
    def value(self) -> Json | None:
        value: Json | None = self.record["value"]
        return value

    @property
    def timestamp_ms(self) -> int:
        return int(self.record["at_ms"])

    @property
    def producer_id(self) -> int | None:
        return self.record.get("producer_id")


class RecordedTransactions:
    """What a recorded log has of open transactions. Fed with each step's records, in their order."""

    def __init__(self) -> None:
        self._transactions = OpenTransactions[_Key, _Record]()
        self._place = 0

    def committed(self, records: Iterable[Json]) -> list[Json]:
        """Return the records that count, in the order in which they come to do so."""
        counting: list[Json] = []
        for record in records:
            self._place += 1
            if record["type"] == _MARKER:
                is_committed = record["value"]["result"] == "COMMIT"
                ended, _ = self._transactions.end(record["producer_id"], committed=is_committed)
                taken = sorted((one.record for one in ended), key=_key) if is_committed else []
                counting += [{**one, "at_ms": record["at_ms"]} for one in taken]
            elif record["type"] != "OffsetCommit" or not self._transactions.wait(
                _key(record), _Record(self._place, record)
            ):
                counting.append(record)
        return counting


def recorded_pending(records: Iterable[Json]) -> list[Json]:
    """Return what was written in transactions, in the form of `told_pending`."""
    return [
        {
            "at_ms": record["at_ms"],
            "producer_id": record["producer_id"],
            "producer_epoch": record["producer_epoch"],
            "key": record["key_b64"],
            "value": record["value_b64"],
        }
        for record in records
        if record["type"] == "OffsetCommit" and "producer_id" in record
    ]


def told_pending(outputs: Iterable[Output], id_of: Callable[[str], str | None]) -> list[Json]:
    """Return the records that Kafka would write of the offsets that history tells to be pending, with the ids of their
    topics."""
    return [
        {
            "at_ms": told.time_ms,
            "producer_id": told.producer_id,
            "producer_epoch": told.producer_epoch,
            "key": b64encode(encode_offset_commit_key(told.group_id, change.topic, change.partition)).decode(),
            "value": b64encode(
                encode_offset_commit(
                    _VALUE_VERSION, change.offset or 0, change.leader_epoch, change.metadata, told.timestamp_ms,
                    NO_TIMESTAMP, id_of(change.topic),
                )
            ).decode(),
        }
        for told in outputs
        if isinstance(told, TransactionalOffsetsPending)
        for change in told.offsets
    ]  # fmt: skip


def markers_answer(request: Json) -> Json:
    """Return a broker's answer to markers that it has written."""
    return {
        "markers": [
            {
                "producerId": marker["producerId"],
                "topics": [
                    {
                        "name": topic["name"],
                        "partitions": [
                            {"partitionIndex": index, "errorCode": 0} for index in topic["partitionIndexes"]
                        ],
                    }
                    for topic in marker["topics"]
                ],
            }
            for marker in request["markers"]
        ]
    }


def _key(record: Json) -> _Key:
    key = record["key"]
    return key["group"], key["topic"], key["partition"]
