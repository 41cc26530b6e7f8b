"""What the gateway costs those who produce and fetch: `python -m benchmarks.gateway_bulk [--megabytes 200]`.

Records are written to a topic and read from it, straight from the broker, through a tap and through a gateway, in
turns. A tap passes all on; a gateway looks at the names of topics besides. Each is one process and so one core at most.
"""

from __future__ import annotations

import argparse
import time
from contextlib import ExitStack
from uuid import uuid4

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from benchmarks.tap_process import tap_process
from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from streaming.topics import ensure_topics

_ROUNDS = 4
_RECORD_BYTES = 10_240
_MEGABYTE = 1_000_000


def main() -> None:
    """Run the benchmark and print what came out."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gateway_bulk", description="What the gateway costs those who produce and fetch."
    )
    parser.add_argument("--megabytes", type=int, default=200, help="written and read in each of the rounds")
    records = parser.parse_args().megabytes * _MEGABYTE // _RECORD_BYTES
    with EmbeddedKafka() as kafka, ExitStack() as stack:
        admin = new_admin_client({"bootstrap.servers": kafka.bootstrap_servers})  # held: without it there is no answer
        ensure_topics(admin)
        fronts = {
            "tap": stack.enter_context(tap_process(kafka.bootstrap_servers)),
            "gateway": stack.enter_context(tap_process(kafka.bootstrap_servers, is_gateway=True)),
        }
        places = {"broker": kafka.bootstrap_servers} | {name: front.bootstrap_servers for name, front in fronts.items()}
        best: dict[tuple[str, str], float] = {}
        for _ in range(_ROUNDS):  # in turns: whatever else the machine does is in both
            for name, address in places.items():
                topic = f"bulk-{uuid4()}"
                admin.create_topics([NewTopic(topic, 1)])[topic].result(30)
                for action, took_s in (
                    ("produce", _produce(address, topic, records)),
                    ("fetch", _fetch(address, topic, records)),
                ):
                    best[action, name] = max(
                        best.get((action, name), 0.0), records * _RECORD_BYTES / _MEGABYTE / took_s
                    )
        spent = {name: front.end() for name, front in fronts.items()}
    for action in ("produce", "fetch"):
        direct = best[action, "broker"]
        ratios = ", ".join(
            f"{best[action, name]:5.0f} MB/s through a {name}: {best[action, name] / direct:.2f}" for name in fronts
        )
        print(f"{action:<8} {direct:5.0f} MB/s straight, {ratios}")
    megabytes = 2 * _ROUNDS * records * _RECORD_BYTES / _MEGABYTE
    for name, cpu_s in spent.items():
        print(
            f"{name}: {cpu_s.cpu_s / megabytes * 1_000:.1f} ms of its CPU for a megabyte, {cpu_s.peak_mb:.0f} MB at "
            f"most in its memory after {megabytes:,.0f} MB"
        )


def _produce(address: str, topic: str, records: int) -> float:
    producer = Producer(
        {"bootstrap.servers": address, "linger.ms": 20, "batch.size": 500_000, "acks": "all", "log_level": 2}
    )
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
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "unused", "log_level": 2, "fetch.message.max.bytes": 4_000_000}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    since, count = time.perf_counter(), 0
    while count < records:
        count += len(consumer.consume(10_000, 0.2))
    took_s = time.perf_counter() - since
    consumer.close()
    return took_s


if __name__ == "__main__":
    main()
