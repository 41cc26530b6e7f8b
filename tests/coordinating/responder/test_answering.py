"""What a responder answers equals what the query answers, from whatever state of the query it begins."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from coordinator_state import StateError
from group_coordinator.coordinating.responder.answering import AnsweringShard
from schemas.events import encode_request_event, encode_tick
from schemas.messages import (
    DeleteGroupsRequest,
    JoinGroupProtocol,
    JoinGroupRequest,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    Request,
)
from schemas.output_records import OutputRecord
from schemas.records_file import Record
from streaming.config import StreamingConfig
from streaming.stored_group import ShardState, StoredGroup
from tests.coordinating.responder.query_batches import states_after_batches
from tests.streaming.mixed_groups import SETTINGS
from tests.streaming.random_log import START_MS, make_log
from tests.streaming.replays import in_process, output_order

CONFIG = StreamingConfig(**SETTINGS)
OPERATOR = CONFIG.operator_config()
BOTH_PROTOCOLS = pytest.mark.parametrize("mixed_groups", [0, 3], ids=["classic groups", "groups of both protocols"])
"""The latter migrate both ways."""
EMPTY = ShardState(batch_id=-1, start_offset=0, end_offset=0, clock_ms=0, groups={})


def answers_of(shard: AnsweringShard, records: Sequence[Record]) -> list[OutputRecord]:
    answers: list[OutputRecord] = []
    for record in records:
        answers += shard.take(record.key, record.value, record.offset or 0, record.timestamp_ms or 0)
    return answers


def answers_of_replay(log: Sequence[Record]) -> list[OutputRecord]:
    return [output for output in in_process(log, CONFIG) if output.topic == OPERATOR.topics.responses]


def in_order(answers: list[OutputRecord]) -> list[OutputRecord]:
    return sorted(answers, key=output_order)


@BOTH_PROTOCOLS
@pytest.mark.parametrize("seed", range(20))
def test_from_the_beginning_it_says_what_a_replay_says(seed: int, mixed_groups: int) -> None:
    log = make_log(seed, mixed_groups=mixed_groups)
    answers = in_order(answers_of(AnsweringShard(OPERATOR, EMPTY), log))
    assert answers == answers_of_replay(log)
    assert len(answers) > 30


@BOTH_PROTOCOLS
@pytest.mark.parametrize("seed", range(20))
def test_from_any_state_of_the_query_it_says_what_is_left_to_say(seed: int, mixed_groups: int) -> None:
    log = make_log(seed + 100, mixed_groups=mixed_groups)
    expected = answers_of_replay(log)
    for state in states_after_batches(log, OPERATOR, batch_records=7 + seed * 3):
        answers = answers_of(AnsweringShard(OPERATOR, state), log[state.start_offset :])
        assert not [answer for answer in answers if answer not in expected]
        # Timers that were due in the state's own batch may have been fired by the query: only what the log brings
        # after the state is certain to be said.
        said_before = answers_of(AnsweringShard(OPERATOR, EMPTY), log[: state.end_offset])
        missing = [answer for answer in expected if answer not in answers and answer not in said_before]
        assert not missing


@BOTH_PROTOCOLS
@pytest.mark.parametrize("seed", range(5))
def test_groups_that_rest_as_bytes_answer_as_before(seed: int, mixed_groups: int) -> None:
    log = make_log(seed, groups=6, mixed_groups=mixed_groups)
    with_objects = answers_of(AnsweringShard(OPERATOR, EMPTY), log)
    with_bytes = answers_of(AnsweringShard(OPERATOR, EMPTY, decoded_groups_max=1), log)
    assert with_bytes == with_objects
    in_few_bytes = AnsweringShard(OPERATOR, EMPTY, decoded_bytes_max=1_000)
    assert answers_of(in_few_bytes, log) == with_objects
    assert in_few_bytes.decoded_groups < 6


def test_groups_as_objects_have_a_bound_in_bytes_and_the_bytes_of_all_are_known() -> None:
    """Ids and subscriptions may have many bytes; as objects they take some times as much as at rest."""
    groups = [f"{number:03}" + "g" * 9_000 for number in range(50)]
    shard = AnsweringShard(OPERATOR, EMPTY, decoded_bytes_max=100_000)
    for offset, group_id in enumerate(groups * 2):
        shard.take(group_id.encode(), commit(group_id), offset, 1_000)
    assert shard.groups == 50
    assert shard.decoded_groups < 11
    assert 50 * 9_000 < shard.state_bytes < 50 * 9_000 * 4
    for offset, group_id in enumerate(groups, start=100):
        shard.take(group_id.encode(), deletion(group_id), offset, 1_000)
    assert (shard.groups, shard.state_bytes) == (0, 0)


def commit(group_id: str) -> bytes:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topics = (OffsetCommitRequestTopic(name="t", partitions=(partition,)),)
    request = OffsetCommitRequest(group_id=group_id, topics=topics)
    return encode_request_event(
        "OffsetCommit", 8, request, request_id="r", reply_partition=0, client_id="c", client_host="/h"
    )


def deletion(group_id: str) -> bytes:
    request = DeleteGroupsRequest(groups_names=(group_id,))
    return encode_request_event(
        "DeleteGroups", 2, request, request_id="r", reply_partition=0, client_id="c", client_host="/h"
    )


def test_each_group_of_one_partition_is_said_in_order_and_without_gaps() -> None:
    log = make_log(3)
    last: dict[tuple[int, bytes], tuple[int, int]] = {}
    shard = AnsweringShard(OPERATOR, EMPTY)
    for record in log:
        for answer in shard.take(record.key, record.value, record.offset or 0, record.timestamp_ms or 0):
            place = int(answer.headers["epoch"]), int(answer.headers["seq"])
            group = answer.partition, record.key or b""
            if record.key is not None:
                assert place > last.get(group, (-1, -1))
                last[group] = place


def test_the_ticks_of_the_states_own_batch_are_the_clock_of_what_follows() -> None:
    log = make_log(1)
    state = next(
        state
        for state in states_after_batches(log, OPERATOR, batch_records=20)
        if any(record.key is None for record in log[state.start_offset : state.end_offset]) and state.groups
    )
    shard = AnsweringShard(OPERATOR, state)
    answers_of(shard, log[state.start_offset : state.end_offset])
    clock = AnsweringShard(OPERATOR, EMPTY)
    answers_of(clock, log[: state.end_offset])
    assert shard.clock_ms == clock.clock_ms > state.clock_ms
    assert shard.next_offset == state.end_offset


def test_a_group_of_which_nothing_is_left_is_forgotten() -> None:
    log = make_log(2)
    shard = AnsweringShard(OPERATOR, EMPTY)
    answers_of(shard, log)
    alive = shard.groups
    end_ms = START_MS + 30 * 24 * 3_600_000
    gone = answers_of(
        shard,
        [
            Record(partition=0, offset=len(log), timestamp_ms=end_ms, key=None, value=encode_tick(end_ms)),
            Record(partition=0, offset=len(log) + 1, timestamp_ms=end_ms, key=None, value=encode_tick(end_ms + 500)),
        ],
    )
    assert all(answer.topic == OPERATOR.topics.responses for answer in gone)
    assert alive > 0
    assert shard.groups < alive


def test_deadlines_that_do_not_count_any_more_do_not_pile_up() -> None:
    """A consumer comes and goes, and each time the group's offsets are kept for seven days from then on."""
    shard = AnsweringShard(OPERATOR, EMPTY)
    commit = OffsetCommitRequest(
        group_id="g",
        topics=(
            OffsetCommitRequestTopic(
                name="t", partitions=(OffsetCommitRequestPartition(partition_index=0, committed_offset=1),)
            ),
        ),
    )
    join = JoinGroupRequest(
        group_id="g", session_timeout_ms=6_000, rebalance_timeout_ms=6_000, protocol_type="consumer",
        protocols=(JoinGroupProtocol(name="range", metadata=b""),),
    )  # fmt: skip
    clock_ms, offset = START_MS, 0

    def take(key: bytes | None, value: bytes) -> int:
        nonlocal offset
        offset += 1
        return len(shard.take(key, value, offset - 1, clock_ms))

    def request(api: str, version: int, body: Request) -> bytes:
        return encode_request_event(
            api, version, body, request_id=f"r{offset}", reply_partition=0, client_id="c", new_member_id=f"m{offset}"
        )

    take(None, encode_tick(clock_ms))
    assert take(b"g", request("OffsetCommit", 2, commit)) == 1
    answers = 0
    for _ in range(3_000):
        answers += take(b"g", request("JoinGroup", 3, join))
        for _ in range(3):
            clock_ms += 10_000
            answers += take(None, encode_tick(clock_ms))
    assert answers == 3_000
    assert shard.groups == 1
    assert shard.deadlines < 1_500


def test_a_state_that_cannot_be_read_is_a_loud_failure() -> None:
    state = replace(EMPTY, groups={b"g": StoredGroup(1, b"\xff", b"\xff")})
    shard = AnsweringShard(OPERATOR, state)
    with pytest.raises(StateError):
        shard.take(None, encode_tick(START_MS), 0, START_MS)
