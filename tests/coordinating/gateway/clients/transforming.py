"""A loop of librdkafka that consumes, transforms and produces in transactions, until it is killed.

Arguments: bootstrap servers, group, input topic, output topic, transactional id, group protocol. Each value of
the input becomes one of the output; some transactions are aborted, and then the input is read again. It ends with exit
code 3 where only a new loop can go on. At SIGQUIT it says on standard error where it stands.
"""

from __future__ import annotations

import faulthandler
import os
import random
import signal
import sys
from collections.abc import Iterator
from typing import NoReturn

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

BEGIN_AGAIN = 3
_TIMEOUT_S = 20.0
_ROUND_S = 60.0
"""A round that takes longer ends the loop: librdkafka's calls have been seen to hold neither their own time limit nor
any other one, when the coordinator went away and came back."""


def main(servers: str, group_id: str, source: str, target: str, transactional_id: str, group_protocol: str) -> None:
    faulthandler.register(signal.SIGQUIT)
    chance = random.Random()
    settings = {} if group_protocol == "consumer" else {"session.timeout.ms": "6000"}
    consumer = Consumer(
        {
            "bootstrap.servers": servers, "group.id": group_id, "enable.auto.commit": False,
            "auto.offset.reset": "earliest", "isolation.level": "read_committed", "group.protocol": group_protocol,
            "log_level": "2", **settings,
        }
    )  # fmt: skip
    producer = Producer(
        {
            "bootstrap.servers": servers, "transactional.id": transactional_id, "transaction.timeout.ms": "15000",
            "log_level": "2",
        }
    )  # fmt: skip
    faulthandler.dump_traceback_later(_ROUND_S, exit=True)
    producer.init_transactions(_TIMEOUT_S)
    messages: list[Message] = []

    def revoked(_: Consumer, places: list[TopicPartition]) -> None:
        """What was read of them, the next owner reads."""
        numbers = {place.partition for place in places}
        messages[:] = [message for message in messages if message.partition() not in numbers]

    consumer.subscribe([source], on_revoke=revoked, on_lost=revoked)
    while True:
        faulthandler.dump_traceback_later(_ROUND_S, exit=True)
        messages.clear()
        _read(consumer, chance.randint(1, 20), messages)
        if not messages:
            continue
        producer.begin_transaction()
        try:
            for message in messages:
                producer.produce(target, message.value())
            _send_offsets(producer, consumer, messages)
            if chance.random() < 0.2:
                _abort(producer, consumer, messages)
            else:
                _commit(producer)
        except KafkaException as problem:
            error = problem.args[0]
            if error.fatal():
                _end(error)
            _abort(producer, consumer, messages)


def _read(consumer: Consumer, count: int, messages: list[Message]) -> None:
    for _ in range(count):
        message = consumer.poll(0.3)
        if message is None:
            return
        if message.error() is None:
            messages.append(message)


def _send_offsets(producer: Producer, consumer: Consumer, messages: list[Message]) -> None:
    positions = list(_ends(messages))
    metadata = consumer.consumer_group_metadata()
    _again(lambda: producer.send_offsets_to_transaction(positions, metadata, _TIMEOUT_S))


def _commit(producer: Producer) -> None:
    _again(lambda: producer.commit_transaction(_TIMEOUT_S))


def _again(work: object) -> None:
    """Do it until it is done, or not to be done."""
    assert callable(work)
    while True:
        try:
            work()
            return
        except KafkaException as problem:
            if not problem.args[0].retriable():
                raise


def _abort(producer: Producer, consumer: Consumer, messages: list[Message]) -> None:
    """Give up the transaction, and read again from what is committed."""
    try:
        _again(lambda: producer.abort_transaction(_TIMEOUT_S))
        for place in consumer.committed(list(_ends(messages)), _TIMEOUT_S):
            consumer.seek(TopicPartition(place.topic, place.partition, max(place.offset, 0)))
    except KafkaException as problem:
        _end(problem)  # the next one begins with what is committed


def _end(problem: object) -> NoReturn:
    """End at once: librdkafka may wait for ever while it is taken down, and its heartbeats go on."""
    print(problem, file=sys.stderr, flush=True)
    os._exit(BEGIN_AGAIN)


def _ends(messages: list[Message]) -> Iterator[TopicPartition]:
    """Yield for each partition where to read on behind the messages."""
    ends: dict[tuple[str, int], int] = {}
    for message in messages:
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        assert topic is not None
        assert partition is not None
        assert offset is not None
        ends[topic, partition] = offset + 1
    for (topic, partition), offset in ends.items():
        yield TopicPartition(topic, partition, offset)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Exception as problem:
        _end(problem)
