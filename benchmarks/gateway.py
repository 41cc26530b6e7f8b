"""How many heartbeats one gateway takes: `python -m benchmarks.gateway [--seconds 10] [--connections 64] [--depth 4]`.

Broker, gateway, coordinator and load are four processes. The coordinator is a stand-in that says yes to every heartbeat
as soon as it has read it: what is measured is the gateway and the two topics, without the micro-batch.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import struct
import time
from multiprocessing.connection import Connection

from confluent_kafka import Consumer, Producer, TopicPartition

from group_coordinator.coordinating.gateway.config import GatewaySettings
from group_coordinator.coordinating.gateway.frames import frame
from group_coordinator.coordinating.gateway.server import Gateway
from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from schemas.events import ResponseDocument, decode_request_event, encode_json
from schemas.kafka.codec import encode
from schemas.messages import HeartbeatResponse
from streaming.topics import TopicSettings, ensure_topics

_SETTINGS = TopicSettings()
_HEARTBEAT = 12
_VERSION = 4
_HEAD = struct.Struct(">hhih")


def main() -> None:
    """Run the benchmark and print what came out."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gateway", description="Heartbeats through one gateway.")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--depth", type=int, default=4, help="heartbeats without an answer on each connection")
    options = parser.parse_args()
    spawn = multiprocessing.get_context("spawn")
    with EmbeddedKafka() as kafka:
        ensure_topics(new_admin_client({"bootstrap.servers": kafka.bootstrap_servers}), _SETTINGS)
        coordinator = spawn.Process(target=_coordinate, args=(kafka.bootstrap_servers,), daemon=True)
        own_end, gateway_end = spawn.Pipe()
        gateway = spawn.Process(target=_serve, args=(kafka.bootstrap_servers, gateway_end), daemon=True)
        coordinator.start()
        gateway.start()
        host, port = own_end.recv()
        sent, latencies_ms = asyncio.run(_load(host, port, options.connections, options.depth, options.seconds))
        own_end.send("end")
        cpu_s, memory_mb = own_end.recv()
        gateway.join()
        coordinator.terminate()
        coordinator.join()
    latencies_ms.sort()
    print(
        f"{sent / options.seconds:,.0f} heartbeats/s over {options.connections} connections, {options.depth} at a "
        "time on each"
    )
    print(f"gateway: {cpu_s / sent * 1e6:.0f} us of CPU per heartbeat, {memory_mb:.0f} MB")
    print(
        f"answer: p50 {latencies_ms[len(latencies_ms) // 2]:.1f} ms, p99 "
        f"{latencies_ms[len(latencies_ms) * 99 // 100]:.1f} ms"
    )


def _serve(bootstrap_servers: str, pipe: Connection) -> None:
    config = GatewaySettings(listen="127.0.0.1:0", bootstrap_servers=bootstrap_servers)
    with Gateway(config) as gateway:
        host, port = gateway.bootstrap_servers.rsplit(":", 1)
        before = time.process_time()
        pipe.send((host, int(port)))
        pipe.recv()
        pipe.send((time.process_time() - before, _resident_mb()))


def _resident_mb() -> float:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def _coordinate(bootstrap_servers: str) -> None:
    """Say yes to every heartbeat."""
    topics = _SETTINGS.topics
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "unused"})
    consumer.assign([TopicPartition(topics.events, 0, 0)])
    producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": "1"})
    well = HeartbeatResponse()
    while True:
        first = consumer.poll(1.0)
        if first is None:
            continue
        for message in [first, *consumer.consume(2_000, 0)]:
            key, offset = message.key(), message.offset()
            assert key is not None
            assert offset is not None
            group_id = key.decode()
            envelope, _ = decode_request_event(group_id, message.value())
            document = ResponseDocument(
                request_id=envelope.request_id, group_id=group_id, epoch=0, seq=1, api=envelope.api,
                api_version=envelope.api_version, answers_offset=offset, time_ms=0, body=well,
            )  # fmt: skip
            producer.produce(
                topics.responses,
                encode_json(document),
                envelope.request_id.encode(),
                partition=envelope.reply_partition,
            )
        producer.poll(0)


async def _load(host: str, port: int, connections: int, depth: int, seconds: float) -> tuple[int, list[float]]:
    latencies_ms: list[float] = []
    end = time.perf_counter() + seconds
    counts = await asyncio.gather(
        *(_heartbeat(host, port, f"group-{n % 16}", depth, end, latencies_ms) for n in range(connections))
    )
    return sum(counts), latencies_ms


async def _heartbeat(host: str, port: int, group_id: str, depth: int, end: float, latencies_ms: list[float]) -> int:
    """One connection: as many heartbeats at a time as `depth` says."""
    reader, writer = await asyncio.open_connection(host, port)
    body = encode(
        "HeartbeatRequest",
        _VERSION,
        {"group_id": group_id, "generation_id": 1, "member_id": f"m-{id(writer)}", "group_instance_id": None},
    )
    sent_at: dict[int, float] = {}
    number = answers = 0
    while True:
        while len(sent_at) < depth and time.perf_counter() < end:
            number += 1
            sent_at[number] = time.perf_counter()
            writer.write(frame(_HEAD.pack(_HEARTBEAT, _VERSION, number, -1) + b"\x00" + body))
        if not sent_at:
            break
        head = await reader.readexactly(8)
        size, correlation_id = struct.unpack(">ii", head)
        await reader.readexactly(size - 4)
        latencies_ms.append((time.perf_counter() - sent_at.pop(correlation_id)) * 1_000)
        answers += 1
    writer.close()
    return answers


if __name__ == "__main__":
    main()
