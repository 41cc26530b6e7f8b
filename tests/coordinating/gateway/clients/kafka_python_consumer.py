"""kafka-python's consumer, told what to do line by line: see consumers.py. Arguments: the topic, then name=value."""

from __future__ import annotations

import re
import sys
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaError

from tests.coordinating.gateway.clients.lines import commands, say

_ASSIGNORS = {"range": RangePartitionAssignor, "cooperative-sticky": CooperativeStickyAssignor}
_NAMES = {
    "group.id": "group_id",
    "client.id": "client_id",
    "group.instance.id": "group_instance_id",
    "bootstrap.servers": "bootstrap_servers",
    "auto.offset.reset": "auto_offset_reset",
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "ssl.truststore.location": "ssl_cafile",
}
_NUMBERS = {
    "session.timeout.ms": "session_timeout_ms",
    "heartbeat.interval.ms": "heartbeat_interval_ms",
    "max.poll.interval.ms": "max_poll_interval_ms",
    "auto.commit.interval.ms": "auto_commit_interval_ms",
}


def _names(partitions: Any) -> str:
    return " ".join(sorted(f"{partition.topic}-{partition.partition}" for partition in partitions))


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
    def on_partitions_assigned(self, assigned: Any) -> None:
        say("assigned", _names(assigned))

    def on_partitions_revoked(self, revoked: Any) -> None:
        say("revoked", _names(revoked))

    def on_partitions_lost(self, partitions: Any) -> None:
        say("lost", _names(partitions))


def main(topic: str, *settings: str) -> None:
    properties = dict(setting.split("=", 1) for setting in settings)
    options: dict[str, Any] = {_NAMES[name]: value for name, value in properties.items() if name in _NAMES}
    options |= {_NUMBERS[name]: int(value) for name, value in properties.items() if name in _NUMBERS}
    options["enable_auto_commit"] = properties.get("enable.auto.commit", "true") == "true"
    if "partition.assignment.strategy" in properties:
        options["partition_assignment_strategy"] = [_ASSIGNORS[properties["partition.assignment.strategy"]]]
    for option, text in re.findall(r'(username|password)="([^"]*)"', properties.get("sasl.jaas.config", "")):
        options[f"sasl_plain_{option}"] = text
    consumer = KafkaConsumer(**options)
    consumer.subscribe([topic], listener=_Listener())
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
                consumer.seek(TopicPartition(name, int(partition)), int(offset))
            case ["commit"]:
                try:
                    consumer.commit()
                    say("committed")
                except KafkaError as problem:
                    say("error", type(problem).__name__, problem)
            case _:
                try:
                    polled = consumer.poll(timeout_ms=100)
                except KafkaError as problem:
                    say("error", type(problem).__name__, problem)
                    continue
                for records in polled.values():
                    for record in records:
                        say("record", record.topic, record.partition, record.offset, record.value.decode())
    consumer.close()
    say("closed")


if __name__ == "__main__":
    main(*sys.argv[1:])
