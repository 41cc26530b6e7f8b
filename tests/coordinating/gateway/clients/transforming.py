"""A loop of librdkafka that consumes, transforms and produces in transactions, until it is killed.

Arguments: bootstrap servers, group, input topic, output topic, transactional id, seed, group protocol. Each value of
the input becomes one of the output; some transactions are aborted, and then the input is read again. It ends with exit
code 3 where only a new producer can go on.
"""

from __future__ import annotations

import random
import sys

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

FENCED = 3
_TIMEOUT_S = 20.0


def main(
    servers: str, group_id: str, source: str, target: str, transactional_id: str, seed: str, group_protocol: str
) -> None:
    chance = random.Random(seed)
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
    producer.init_transactions(_TIMEOUT_S)
    consumer.subscribe([source])
    while True:
        messages = [message for message in consumer.consume(chance.randint(1, 20), 0.3) if message.error() is None]
        if not messages:
            continue
        producer.begin_transaction()
        try:
            for message in messages:
                producer.produce(target, message.value())
            _send_offsets(producer, consumer)
            if chance.random() < 0.2:
                _abort(producer, consumer)
            else:
                _commit(producer)
        except KafkaException as problem:
            error = problem.args[0]
            if error.fatal():
                print(error, file=sys.stderr)
                sys.exit(FENCED)
            _abort(producer, consumer)


def _send_offsets(producer: Producer, consumer: Consumer) -> None:
    positions = [place for place in consumer.position(consumer.assignment()) if place.offset >= 0]
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


def _abort(producer: Producer, consumer: Consumer) -> None:
    """Give up the transaction, and read again from what is committed."""
    try:
        _again(lambda: producer.abort_transaction(_TIMEOUT_S))
    except KafkaException as problem:
        print(problem, file=sys.stderr)
        sys.exit(FENCED)
    while True:
        try:
            for place in consumer.committed(consumer.assignment(), _TIMEOUT_S):
                offset = place.offset if place.offset >= 0 else 0
                consumer.seek(TopicPartition(place.topic, place.partition, offset))
            return
        except KafkaException as problem:
            if problem.args[0].code() == KafkaError._STATE:  # it is not assigned any more
                return


if __name__ == "__main__":
    main(*sys.argv[1:])
