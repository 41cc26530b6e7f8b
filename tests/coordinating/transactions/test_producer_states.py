"""What a leader says of producers: read as kafka-python reads it, and asked for once for all who wait."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.errors import KafkaError
from kafka.net.selector import NetworkSelector
from kafka.protocol.admin.transactions import DescribeProducersResponse

from group_coordinator.coordinating.transactions.producer_states import (
    DescribeProducers,
    ProducerStates,
    State,
    states_in,
)

PARTITION = DescribeProducersResponse.TopicResponse.PartitionResponse


def answer(producers: dict[int, State], error_code: int = 0, error_message: str | None = None) -> bytes:
    """As kafka-python writes it."""
    entries = [
        PARTITION.ProducerState(
            producer_id=producer_id, producer_epoch=state.epoch, last_sequence=state.last_sequence, last_timestamp=5,
            coordinator_epoch=2, current_txn_start_offset=-1, version=0,
        )
        for producer_id, state in producers.items()
    ]  # fmt: skip
    partition = PARTITION(
        partition_index=3, error_code=error_code, error_message=error_message, active_producers=entries, version=0
    )
    topic = DescribeProducersResponse.TopicResponse(name="log" * 50, partitions=[partition], version=0)
    return bytes(DescribeProducersResponse(throttle_time_ms=7, topics=[topic], version=0).encode())


INT32 = st.integers(-(2**31), 2**31 - 1)


@given(st.dictionaries(st.integers(0, 2**63 - 1), st.builds(State, INT32, INT32), max_size=200), st.data())
def test_states_are_read_as_the_library_writes_them(producers: dict[int, State], data: st.DataObject) -> None:
    wanted = data.draw(st.sets(st.sampled_from(sorted(producers)))) if producers else {1}
    assert states_in(answer(producers), wanted) == {each: producers[each] for each in wanted if each in producers}


@given(st.integers(0, 100))
def test_what_is_cut_or_refused_is_an_error(cut: int) -> None:
    whole = answer({1: State(0, 1), 2: State(0, 2)})
    with pytest.raises(KafkaError):
        states_in(whole[: min(cut, len(whole) - 1)], {1})
    with pytest.raises(KafkaError, match="error 6"):
        states_in(answer({}, 6, "not the leader"), {1})


def test_the_answer_to_its_question_comes_as_bytes() -> None:
    question = DescribeProducers.of("log", 3)
    question.with_header(1, "client")
    assert question.encode(header=True, framed=True)
    kind = question.header.get_response_class()
    frame = io.BytesIO(b"\x00\x00\x00\x01\x00" + answer({1: State(4, 5)}))
    assert kind.parse_header(frame).correlation_id == 1
    assert states_in(kind.decode(frame), {1}) == {1: State(4, 5)}


def test_all_who_wait_share_the_next_question_and_none_takes_an_older_answer() -> None:
    net = NetworkSelector()
    net.start()
    log: dict[int, State] = {}
    asked: list[int] = []

    async def ask(partition: int) -> bytes:
        asked.append(partition)
        known = answer(log)
        await net.sleep(0.05)
        if len(asked) == 3:
            raise KafkaError("no leader")
        return known

    states = ProducerStates(ask, net.call_soon)
    found: dict[int, Any] = {}

    async def want(producer_id: int) -> None:
        try:
            found[producer_id] = await states.of(0, producer_id)
        except KafkaError as problem:
            found[producer_id] = str(problem)

    async def many(first: int) -> None:
        waiting = [net.call_soon_with_future(want, first)]
        await net.sleep(0.01)  # its question is under way
        log.update({number: State(0, number) for number in range(first, first + 50)})
        waiting += [net.call_soon_with_future(want, number) for number in range(first + 1, first + 50)]
        for each in waiting:
            await each

    try:
        net.run(many, 0)
        assert found == {0: None} | {number: State(0, number) for number in range(1, 50)}
        assert asked == [0, 0]
        found.clear()
        net.run(many, 100)
        assert found.pop(100) == "KafkaError: no leader"
        assert found == {number: State(0, number) for number in range(101, 150)}, "an answer that fails is no answer"
        assert asked == [0] * 4
    finally:
        net.stop(1_000)
