"""What a partition's leader knows of producers, asked for by one question for all who wait (DescribeProducers).

A leader names every producer of the last day (`producer.id.expiration.ms`), so the answer grows with them: of a million
it has 37 MB. Therefore it is not made objects of, and nobody waits for more than two answers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from functools import partial
from struct import Struct as Layout
from struct import error as LayoutError
from typing import Any, NamedTuple

from kafka.errors import KafkaError
from kafka.future import Future
from kafka.protocol.admin.transactions import DescribeProducersRequest, DescribeProducersResponse
from kafka.protocol.api_header import RequestHeader

from group_coordinator.coordinating.gateway.topic_fields import unsigned_varint
from schemas.wire import DecodeError

ANSWER_BYTES = 100_000_000
_VERSION = 0
_THROTTLE_BYTES = 4
_PARTITION = Layout(">ih")
"""Its number and an error code."""
_ENTRY = Layout(">qiiqiqx")
"""Producer id, its epoch, last sequence number, last timestamp, epoch of the coordinator, first offset of what is open,
and that no tagged field follows."""
_TAIL = 3
"""So many structures end behind the entries, each without tagged fields."""


class State(NamedTuple):
    """A producer in a partition."""

    epoch: int
    last_sequence: int


class DescribeProducers(DescribeProducersRequest, init=False):  # type: ignore[misc,call-arg]
    """A question for the producers of a partition, whose answer comes as bytes."""

    @classmethod
    def of(cls, topic: str, partition: int) -> DescribeProducers:
        wanted = cls.TopicRequest(name=topic, partition_indexes=[partition], version=_VERSION)
        return cls(topics=[wanted], version=_VERSION)

    def with_header(self, correlation_id: int = 0, client_id: str = "") -> None:
        self._header = _Header(
            request_api_key=self.API_KEY, request_api_version=_VERSION, correlation_id=correlation_id,
            client_id=client_id,
        )  # fmt: skip


class _Header(RequestHeader, init=False):  # type: ignore[misc,call-arg]
    def get_response_class(self) -> type[_Answer]:
        return _Answer


class _Answer:
    """In place of the library's class: it leaves the body as it is."""

    @staticmethod
    def parse_header(data: Any) -> Any:
        return DescribeProducersResponse[_VERSION].parse_header(data)

    @staticmethod
    def decode(data: Any) -> bytes:
        return bytes(data.read())


class _Waiting(NamedTuple):
    """Those whose question is not sent yet."""

    producer_ids: set[int]
    answered: Future


class ProducerStates:
    """For the thread of kafka-python's network."""

    def __init__(self, ask: Callable[[int], Awaitable[bytes]], call_soon: Callable[[Any], object]) -> None:
        """`ask`: sends a question for a partition's producers. `call_soon` runs a coroutine."""
        self._ask, self._call_soon = ask, call_soon
        self._waiting: dict[int, _Waiting] = {}
        self._under_way: dict[int, Future] = {}

    async def of(self, partition: int, producer_id: int) -> State | None:
        """Return what the leader knows, and None where that is nothing. Raises KafkaError. A question that was sent
        earlier does not count: it may not know of what was appended since."""
        waiting = self._waiting.get(partition)
        if waiting is None:
            waiting = self._waiting[partition] = _Waiting(set(), Future())
            self._call_soon(partial(self._ask_next, partition, waiting))
        waiting.producer_ids.add(producer_id)
        states: dict[int, State] = await waiting.answered
        return states.get(producer_id)

    async def _ask_next(self, partition: int, waiting: _Waiting) -> None:
        earlier = self._under_way.get(partition)
        if earlier is not None:
            await earlier
        del self._waiting[partition]
        ended = self._under_way[partition] = Future()
        try:
            waiting.answered.success(states_in(await self._ask(partition), waiting.producer_ids))
        except Exception as problem:  # whatever it is: those who wait must hear of it
            waiting.answered.failure(problem)
        finally:
            del self._under_way[partition]
            ended.success(None)


def states_in(answer: bytes, producer_ids: Collection[int]) -> dict[int, State]:
    """Return the states of these producers from an answer about one partition. Raises KafkaError."""
    try:
        _, position = _size(answer, _THROTTLE_BYTES)  # one topic
        size, position = _size(answer, position)
        _, position = _size(answer, position + size)  # one partition
        _, error_code = _PARTITION.unpack_from(answer, position)
        size, position = _size(answer, position + _PARTITION.size)
        count, position = _size(answer, position + max(size, 0))
        end = position + count * _ENTRY.size
        if error_code:
            raise KafkaError(f"the producers of a partition are not told: error {error_code}")
        if end + _TAIL != len(answer):
            raise KafkaError("the producers of a partition are told in a form that is not known")
        entries = _ENTRY.iter_unpack(memoryview(answer)[position:end])
    except (IndexError, LayoutError, DecodeError) as problem:
        raise KafkaError("the producers of a partition are told in a form that is not known") from problem
    return {
        producer_id: State(epoch, sequence)
        for producer_id, epoch, sequence, *_ in entries
        if producer_id in producer_ids
    }


def _size(data: bytes, position: int) -> tuple[int, int]:
    """A length, of which the wire has one more, -1 for null; and where it ends."""
    number, position = unsigned_varint(data, position)
    return number - 1, position
