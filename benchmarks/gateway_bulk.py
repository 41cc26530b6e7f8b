"""What the gateway costs those who produce and fetch: `python -m benchmarks.gateway_bulk [--megabytes 200]`.

Records are written to a topic and read from it, straight from the broker and through the process that stands before it, in turns.
That process is a tap: what is passed through takes the same way in a gateway. It is one process and so one core at most.
"""

from __future__ import annotations

import argparse
import time
from uuid import uuid4

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from benchmarks.tap_process import tap_process
from streaming.embedded_kafka import EmbeddedKafka
from streaming.topics import admin_client

_ROUNDS = 4
_RECORD_BYTES = 10_240
_MEGABYTE = 1_000_000


def main() -> None:
    """Run the benchmark and print what came out."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gateway_bulk", description="What the gateway costs those who produce and fetch.")
    parser.add_argument("--megabytes", type=int, default=200, help="written and read in each of the rounds")
    records = parser.parse_args().megabytes * _MEGABYTE // _RECORD_BYTES
    with EmbeddedKafka() as kafka, tap_process(kafka.bootstrap_servers) as tap:
        admin = admin_client(kafka.bootstrap_servers)  # held: without it there is no answer
        best: dict[tuple[str, str], float] = {}
        for _ in range(_ROUNDS):  # in turns: whatever else the machine does is in both
            for name, where in (("broker", kafka.bootstrap_servers), ("through", tap.bootstrap_servers)):
                topic = f"bulk-{uuid4()}"
                admin.create_topics([NewTopic(topic, 1)])[topic].result(30)
                for what, took_s in (("produce", _produce(where, topic, records)), ("fetch", _fetch(where, topic, records))):
                    best[what, name] = max(best.get((what, name), 0.0), records * _RECORD_BYTES / _MEGABYTE / took_s)
        spent = tap.end()
    for what in ("produce", "fetch"):
        direct, through = best[what, "broker"], best[what, "through"]
        print(f"{what:<8} {direct:5.0f} MB/s straight, {through:5.0f} MB/s through one process: {through / direct:.2f}")
    passed = 2 * _ROUNDS * records * _RECORD_BYTES / _MEGABYTE
    print(f"{spent.cpu_s / passed * 1_000:.1f} ms of its CPU for a megabyte, {spent.peak_mb:.0f} MB at most in its memory after {passed:,.0f} MB")


def _produce(address: str, topic: str, records: int) -> float:
    producer = Producer({"bootstrap.servers": address, "linger.ms": 20, "batch.size": 500_000, "acks": "all", "log_level": 2})
    payload = bytes(range(256)) * (_RECORD_BYTES // 256)
    since = time.perf_counter()
    for _ in range(records):
        while True:
            try:
                producer.produce(topic, payload)
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(120) == 0
    return time.perf_counter() - since


def _fetch(address: str, topic: str, records: int) -> float:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "unused", "log_level": 2, "fetch.message.max.bytes": 4_000_000})
    consumer.assign([TopicPartition(topic, 0, 0)])
    since, found = time.perf_counter(), 0
    while found < records:
        found += len(consumer.consume(10_000, 0.2))
    took_s = time.perf_counter() - since
    consumer.close()
    return took_s


if __name__ == "__main__":
    main()
