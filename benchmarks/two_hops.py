"""A plain loop between two topics, in a process of its own: the least that an answer through Kafka takes.

    python -m benchmarks.two_hops BOOTSTRAP_SERVERS SOURCE TARGET

Each record of the source is written to the target as it is. It prints a line when it reads, and ends with its standard
input.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, Producer, TopicPartition


def relay(bootstrap_servers: str, source: str, target: str) -> None:
    """Copy records from the source's present end on, until standard input ends."""
    ended = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "two-hops"})
    _, end = consumer.get_watermark_offsets(TopicPartition(source, 0), timeout=30)
    consumer.assign([TopicPartition(source, 0, end)])
    producer = Producer({"bootstrap.servers": bootstrap_servers, "acks": "all", "linger.ms": 0})
    print("reads", flush=True)
    while not ended.is_set():
        first = consumer.poll(0.1)
        messages = [] if first is None else [first, *consumer.consume(1_000, 0)]
        for message in messages:
            producer.produce(target, key=message.key(), value=message.value(), partition=0)
        producer.poll(0)
    producer.flush()
    consumer.close()


@contextmanager
def relaying(bootstrap_servers: str, source: str, target: str) -> Iterator[None]:
    """The loop at work."""
    command = [sys.executable, "-m", "benchmarks.two_hops", bootstrap_servers, source, target]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield
        finally:
            process.stdin.close()
            process.wait()


if __name__ == "__main__":
    relay(*sys.argv[1:4])
