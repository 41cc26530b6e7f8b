"""librdkafka's consumer, told what to do line by line: see consumers.py. Arguments: the topic, then name=value."""

from __future__ import annotations

import sys

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.coordinating.gateway.clients.lines import commands, say


def _names(partitions: list[TopicPartition]) -> str:
    return " ".join(sorted(f"{partition.topic}-{partition.partition}" for partition in partitions))


def main(topic: str, *settings: str) -> None:
    properties = dict(setting.split("=", 1) for setting in settings)
    consumer = Consumer({**properties, "log_level": "2"})
    consumer.subscribe(
        [topic],
        on_assign=lambda _, partitions: say("assigned", _names(partitions)),
        on_revoke=lambda _, partitions: say("revoked", _names(partitions)),
        on_lost=lambda _, partitions: say("lost", _names(partitions)),
    )
    waiting = commands()
    polls = True
    while True:
        command = waiting.get(block=not polls) if not polls or not waiting.empty() else None
        match command:
            case ["close"]:
                break
            case ["pause" | "resume" as word]:
                polls = word == "resume"
            case ["seek", name, partition, offset]:
                consumer.seek(TopicPartition(name, int(partition), int(offset)))
            case ["commit"]:
                try:
                    consumer.commit(asynchronous=False)
                    say("committed")
                except KafkaException as problem:
                    say("error", problem.args[0].name(), problem.args[0].str())
            case _:
                message = consumer.poll(0.1)
                if message is None:
                    continue
                error = message.error()
                if error is None:
                    value = (message.value() or b"").decode()
                    say("record", message.topic(), message.partition(), message.offset(), value)
                elif error.code() != KafkaError._PARTITION_EOF:
                    say("error", error.name(), error.str())
    consumer.close()
    say("closed")


if __name__ == "__main__":
    main(*sys.argv[1:])
