"""Rows cross the border to Spark: the columns of events, state and outputs, and outputs as producer records.

An output row is a record as the Kafka sink takes it (topic, partition, key, value, headers), plus the key of the group
that it comes from, by which a replay sorts. The streaming query and the batch replay make the same rows here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pyarrow as pa

from coordinator_state import Answer, AssignmentChange, LogRecord, Output
from schemas.error_codes import ErrorCode
from schemas.events import OUTPUT_TOO_LARGE, EventError, EventProblem, encode_json
from schemas.history import History
from schemas.java_hash import group_partition
from schemas.messages import (
    DescribeGroupsResponse,
    JoinGroupResponse,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    Response,
    SyncGroupResponse,
)
from schemas.output_records import NO_PARTITION, OutputRecord
from streaming.operator_config import OperatorConfig

if TYPE_CHECKING:
    import pandas as pd

RECORD_SCHEMA = "partition int, offset long, timestamp_ms long, key binary, value binary"
"""Records of an events topic, of any partitions."""
EVENT_SCHEMA = "key binary, offset long, value binary, timestamp_ms long, clock_ms long, tick timestamp, part int"
"""Records of one events partition with their ticks marked and the clock carried; `part` as `streaming.parts` says."""
STATE_SCHEMA = "membership binary, offsets binary"
"""Of one group."""
BUCKET_STATE_SCHEMA = "groups binary"
"""Of a bucket of groups, see `streaming.buckets`."""
OUTPUT_SCHEMA = "group_key binary, topic string, partition int, key binary, value binary, headers string"
"""`headers` is a JSON object of strings: flat columns cross from Python to the JVM faster than nested ones."""
_OUTPUT_ARROW = {
    "group_key": pa.binary(), "topic": pa.string(), "partition": pa.int32(), "key": pa.binary(), "value": pa.binary(),
    "headers": pa.string(),
}  # fmt: skip
"""The same for Arrow."""

DETAIL_MAX_CHARACTERS = 1_000
_RECORD_BYTES = 200
HEADERS_MAX_BYTES = 512
"""More than what a producer counts for the headers of any output but a dead letter."""


class EventRow(NamedTuple):
    """One row of the events topic, in the order in which they are handled."""

    offset: int
    clock_ms: int
    """The last tick before it; 0: there is none, so the time is its own timestamp."""
    timestamp_ms: int
    value: bytes | None


def record_bytes(record: OutputRecord) -> int:
    """Estimate the memory that a record takes, in bytes; exact enough for bounds on large records."""
    return _RECORD_BYTES + len(record.key or b"") + len(record.value or b"")


def output_record(output: Output, config: OperatorConfig) -> OutputRecord:
    """Return the record that the sink writes for an output. An output that no topic would take is replaced by a
    smaller record."""
    record = _record(output, config)
    small = len(record.key or b"") + len(record.value or b"") + HEADERS_MAX_BYTES <= config.output_max_bytes
    if small or record.size_bytes <= config.output_max_bytes:
        return record
    if isinstance(output, Answer):
        refusal = msgspec.structs.replace(output, response=_too_large(output.response))
        smaller = _record(refusal, config)
        if smaller.size_bytes <= config.output_max_bytes:
            return smaller
    return _too_large_dead_letter(record, config)


def _record(output: Output, config: OperatorConfig) -> OutputRecord:
    topics = config.topics
    headers = {"epoch": str(output.epoch), "seq": str(output.seq)}
    if type(output) is Answer:
        record = OutputRecord(
            topics.responses,
            output.reply_partition,
            output.request_id.encode(),
            encode_json(output.document()),
            headers,
        )
        return record if output.reply_partition in config.reply_partitions else _undeliverable(record, output, config)
    if type(output) is LogRecord:
        partition = group_partition(output.group_id, config.offsets_partitions)
        headers |= {"partition": str(config.partition), "offset": str(output.caused_by_offset)}
        return OutputRecord(topics.offsets, partition, output.key, output.value, headers)
    if type(output) is AssignmentChange:
        value = None if output.snapshot is None else encode_json(output.snapshot)
        return OutputRecord(topics.assignments, NO_PARTITION, output.group_id.encode(), value, headers)
    history: History = output  # nothing else is left
    return OutputRecord(topics.history, NO_PARTITION, history.group_id.encode(), encode_json(history), headers)


def dead_letter(key: bytes | None, row: EventRow, problem: EventError, config: OperatorConfig) -> OutputRecord:
    """Return the dead letter of an event: its key and value as they were, with reason and origin in the headers."""
    headers = {
        "reason": problem.problem.value,
        "detail": problem.detail[:DETAIL_MAX_CHARACTERS],
        "topic": config.topics.events,
        "partition": str(config.partition),
        "offset": str(row.offset),
        "timestamp_ms": str(row.timestamp_ms),
    }
    record = OutputRecord(config.topics.dead_letters, NO_PARTITION, key, row.value, headers)
    if record.size_bytes <= config.output_max_bytes:
        return record
    # Only where somebody enlarged the events topic beyond what was checked at start; the origin still says where it
    # lies.
    return record._replace(key=None, value=None)


def _undeliverable(record: OutputRecord, answer: Answer, config: OperatorConfig) -> OutputRecord:
    """The dead letter of an answer whose sender reads a partition that there is not."""
    headers = {
        "reason": EventProblem.NO_SUCH_REPLY_PARTITION.value,
        "detail": f"the answer to a request whose reply_partition is {answer.reply_partition}",
        "topic": config.topics.events,
        "partition": str(config.partition),
        "offset": str(answer.answers_offset),
        **record.headers,
    }
    return OutputRecord(config.topics.dead_letters, NO_PARTITION, record.key, record.value, headers)


def _too_large_dead_letter(record: OutputRecord, config: OperatorConfig) -> OutputRecord:
    headers = {
        "reason": OUTPUT_TOO_LARGE,
        "detail": f"{record.size_bytes} bytes; output_max_bytes is {config.output_max_bytes}",
        "topic": record.topic,
        **record.headers,
    }
    key = record.key if record.key is not None and len(record.key) < config.output_max_bytes // 2 else None
    return OutputRecord(config.topics.dead_letters, NO_PARTITION, key, None, headers)


def _too_large(response: Response) -> Response:
    """Return the answer without its bulk: UNKNOWN_SERVER_ERROR, which is what Kafka makes of a record that is too
    large.

    Only an OffsetFetch of very many offsets comes here under the default limits: `group_max_bytes` bounds what members
    bring, and the other answers are about as large as their requests.
    """
    code = ErrorCode.UNKNOWN_SERVER_ERROR
    match response:
        case OffsetFetchResponse():
            groups = tuple(
                OffsetFetchResponseGroup(group_id=group.group_id, error_code=code) for group in response.groups
            )
            return OffsetFetchResponse(groups=groups)
        case DescribeGroupsResponse():
            emptied = (msgspec.structs.replace(group, error_code=code, members=()) for group in response.groups)
            return DescribeGroupsResponse(groups=tuple(emptied))
        case JoinGroupResponse() | SyncGroupResponse():
            return type(response)(error_code=code)
        case _:
            return response


def output_columns(outputs: Iterable[tuple[bytes | None, Iterable[OutputRecord]]]) -> list[tuple[Any, ...]]:
    """Return the records of groups as the columns of `OUTPUT_SCHEMA`."""
    rows = [
        (group_key, *record[:-1], encode_json(record.headers).decode())
        for group_key, records in outputs
        for record in records
    ]
    return list(zip(*rows, strict=True)) or [()] * (1 + len(OutputRecord._fields))


def output_frame(outputs: Iterable[tuple[bytes | None, Iterable[OutputRecord]]]) -> pd.DataFrame:
    """Return the records of groups as the rows of `OUTPUT_SCHEMA`."""
    import pandas as pd  # for Spark alone: files of outputs are written where it is not installed, too

    return pd.DataFrame(
        {
            name: pd.Series(column, dtype="int32" if name == "partition" else object)
            for name, column in zip(_OUTPUT_ARROW, output_columns(outputs), strict=True)
        }
    )


def output_batch(outputs: Iterable[tuple[bytes | None, Iterable[OutputRecord]]]) -> pa.RecordBatch:
    """Return the records as an Arrow batch."""
    columns = zip(output_columns(outputs), _OUTPUT_ARROW.values(), strict=True)
    return pa.RecordBatch.from_arrays([pa.array(column, kind) for column, kind in columns], names=[*_OUTPUT_ARROW])


PRODUCER_COLUMNS = (
    "topic",
    f"nullif(partition, {NO_PARTITION}) partition",
    "key",
    "value",
    "cast(map_entries(from_json(headers, 'map<string,string>')) as array<struct<key:string,value:binary>>) headers",
)
"""SQL that makes the sink's columns of `OUTPUT_SCHEMA`."""
