"""What a group decides does not follow from who can hear it; an answer that nobody can hear is a dead letter."""

from __future__ import annotations

import json
import pickle

import pytest

from coordinator_state import GroupConfig
from group_coordinator.ground.settings.topic_names import Topics
from schemas.events import EventError, EventProblem, decode_group_event, encode_request_event
from schemas.messages import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from schemas.output_records import OutputRecord
from streaming import reply_partitions
from streaming.operator import coordinate_rows
from streaming.operator_config import OperatorConfig
from streaming.reply_partitions import ReplyPartitions
from streaming.rows import EventRow

TOPICS = Topics.of_prefix("c")


def commit(partition: int, offset: int = 5) -> bytes:
    topics = (
        OffsetCommitRequestTopic(
            name="t", partitions=(OffsetCommitRequestPartition(partition_index=0, committed_offset=offset),)
        ),
    )
    request = OffsetCommitRequest(group_id="g", topics=topics)
    return encode_request_event(
        "OffsetCommit", 8, request, request_id=f"r{partition}", reply_partition=partition, client_id="c"
    )


def outputs(partitions: ReplyPartitions, *values: bytes) -> list[OutputRecord]:
    config = OperatorConfig(
        group=GroupConfig(), topics=TOPICS, partition=0, reply_partitions=partitions, offsets_partitions=1,
        output_max_bytes=1_000_000,
    )  # fmt: skip
    rows = [EventRow(offset, 1_000, 1_000, value) for offset, value in enumerate(values)]
    return coordinate_rows(b"g", rows, config, group=None, clock_ms=1_000).records


def of(topic: str, records: list[OutputRecord]) -> list[OutputRecord]:
    return [record for record in records if record.topic == topic]


def test_only_the_place_of_the_answer_differs() -> None:
    of_8, of_16 = (outputs(ReplyPartitions("r", count), commit(0), commit(12), commit(1)) for count in (8, 16))
    assert [record.partition for record in of(TOPICS.responses, of_16)] == [0, 12, 1]
    assert [record.partition for record in of(TOPICS.responses, of_8)] == [0, 1]
    (letter,) = of(TOPICS.dead_letters, of_8)
    answer = of(TOPICS.responses, of_16)[1]
    assert (letter.key, letter.value) == (answer.key, answer.value)
    assert letter.headers == answer.headers | {
        "reason": "no_such_reply_partition",
        "detail": "the answer to a request whose reply_partition is 12",
        "topic": TOPICS.events,
        "partition": "0",
        "offset": "1",
    }
    others = [
        [record for record in records if record.topic not in (TOPICS.responses, TOPICS.dead_letters)]
        for records in (of_8, of_16)
    ]
    assert others[0] == others[1]


@pytest.mark.parametrize("number", [-1, -(2**31)])
def test_a_partition_that_no_topic_has_is_bad_input(number: int) -> None:
    with pytest.raises(EventError) as wrong:
        decode_group_event("g", commit(number))
    assert wrong.value.problem is EventProblem.NO_SUCH_REPLY_PARTITION
    (letter,) = outputs(ReplyPartitions("r", 8), commit(number))
    assert letter.headers["reason"] == "no_such_reply_partition"


def test_the_largest_number() -> None:
    (letter,) = of(TOPICS.dead_letters, outputs(ReplyPartitions("r", 8), commit(2**31 - 1)))
    assert json.loads(letter.value or b"")["request_id"] == "r2147483647"


def test_looks_again_when_it_is_asked_for_more_and_not_too_often(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, there, looked = [100.0], [8], []

    def look(admin: object, topic: str) -> int:
        looked.append(now_s[0])
        return there[0]

    monkeypatch.setattr(reply_partitions, "partitions_now", look)
    monkeypatch.setattr("streaming.reply_partitions.time.monotonic", lambda: now_s[0])
    monkeypatch.setattr(reply_partitions, "_counts", {})
    partitions: ReplyPartitions = pickle.loads(pickle.dumps(ReplyPartitions("r", 8, {"bootstrap.servers": "b"})))
    assert 7 in partitions
    assert looked == []
    for number in (8, 9, 2**31 - 1):
        assert number not in partitions
    assert looked == [100.0]
    there[0] = 16
    assert 12 not in partitions, "asked just now"
    now_s[0] += 1.5
    assert 12 in partitions
    assert 15 in partitions
    assert looked == [100.0, 101.5]
    assert 12 in ReplyPartitions("r", 8, {"bootstrap.servers": "b"}), "the next task need not ask"
    assert -1 not in partitions
