"""What a fleet needs: `docs/sizing.md`.

    python -m benchmarks.sizing --members 50000 --groups 5000 [--heartbeat-interval 3] [--commit-interval 5]
    python -m benchmarks.sizing --measure [--group-members 10] [--shard-members 15620] [--rate 2000] [--batches 10]
        [--write]

The first form computes, from the slopes that are committed (`benchmarks/sizing.json`). The second measures them.
`group-coordinator run --embedded --responder` holds the members of one shard, in groups of ten or of as many as are
named. So many of them speak as make the rate with a heartbeat every 3 s and a commit every 5, and then a quarter of
them: the difference is what an event costs, and the rest, the fixed cost of batches with it, is the shard's base. A
gateway beside it, in a process of its own, has 100 and then 400 clients, who send 2,000 heartbeats a second: what it
costs then is what a gateway costs that has its share of a fleet.
"""

from __future__ import annotations

import asyncio
import math
import signal
import tempfile
import threading
import time
from argparse import Namespace
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.arguments import command_parser
from benchmarks.at_rest import kind_of, start
from benchmarks.document import SIZING_PAGE, this_run, write_section
from benchmarks.fleet import (
    FLEETS,
    Fleet,
    Slopes,
    computed_from,
    needs_table,
    read_slopes,
    runs_of,
    slopes_table,
    write_slopes,
)
from benchmarks.gateway_latency import command
from benchmarks.heartbeat_groups import beginnings, heartbeat, joins, member_commit, syncs
from benchmarks.idle_groups import commit, state_bytes
from benchmarks.process_times import CpuTimes, cpu_times
from benchmarks.responder_start import resident_bytes
from benchmarks.wire_client import WireClient, WireMember
from group_coordinator.ground.kafka_topics.reader import headers_of
from group_coordinator.proving.embedded_kafka.broker import free_port
from schemas.query_progress import WRITER_HEADER

EVENTS, RESPONSES = "coordinator.events", "coordinator.responses"
COMMITS, OF_EVENTS = 3, 8
"""Of eight events three are commits: with a heartbeat every 3 s and a commit every 5."""
MEMBER_RATE = 1 / 3 + 1 / 5
"""Events of a member in a second."""
TIMEOUT_S = 600.0
GATEWAY_CLIENTS = (100, 400)
GATEWAY_RATE = 2_000
JOINING_MS = 3_000
"""How long a new group waits for all of its members: the default."""
GATEWAY_S = 20.0
MOST_EVENTS_S = 10_000
"""So many events a second fit into a batch: with the default bound a batch every ten seconds would be the bound."""


class Load(NamedTuple):
    """What it took to answer events, from the first request to the query's last answer."""

    events: int
    elapsed_ms: float
    cpu_ms: Counter[str]
    """Of each kind of process."""
    bytes_: Counter[str]
    """Written to each topic, by event."""


class Answers:
    """Counts, in a thread, the answers that the query has given."""

    def __init__(self, broker: str) -> None:
        self.of_query = 0
        self._consumer = Consumer({"bootstrap.servers": broker, "group.id": "sizing", "fetch.wait.max.ms": 5})
        self._consumer.assign([TopicPartition(RESPONSES, 0, 0)])
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._consumer.close()

    def wait_for_query(self, answers: int) -> None:
        """Wait until the query has given so many answers."""
        give_up_s = time.monotonic() + TIMEOUT_S
        while self.of_query < answers:
            if time.monotonic() > give_up_s:
                raise RuntimeError(f"the query has given {self.of_query} of {answers} answers")
            time.sleep(0.2)

    def _read(self) -> None:
        while not self._stop.is_set():
            message = self._consumer.poll(0.1)
            if message is None or message.error() is not None:
                continue
            self.of_query += WRITER_HEADER not in headers_of(message)


class Shard:
    """The members of one shard, and what is written for them."""

    def __init__(self, broker: str, members: int, group_members: int, process: int, data: Path) -> None:
        self._members, self._group_members, self._process, self._data = members, group_members, process, data
        self._producer = Producer({"bootstrap.servers": broker, "linger.ms": 0, "log_level": 0})
        self._answers = Answers(broker)
        self._sent = 0

    def fill(self) -> None:
        """Every member joins, and the query has answered."""
        for step in (joins, syncs):
            for group in range(self._members // self._group_members):
                for key, value in step(group, self._group_members):
                    self._producer.produce(EVENTS, key=key, value=value, partition=0)
                    self._sent += 1
                self._producer.flush()
            self._answers.wait_for_query(self._sent)

    def load(self, rate: float, seconds: float) -> Load:
        """As many members as make the rate send, and the query's answers are awaited."""
        speaking = min(self._members, math.ceil(rate / MEMBER_RATE))
        events, before, files = int(rate * seconds), cpu_times(self._process), self._files()
        begin_s = time.perf_counter()
        for number in range(events):
            time.sleep(max(0.0, begin_s + number / rate - time.perf_counter()))
            self._send(speaking)
        self._producer.flush()
        self._answers.wait_for_query(self._sent)
        after, elapsed_ms = cpu_times(self._process), (time.perf_counter() - begin_s) * 1_000
        written = Counter({topic: size / events for topic, size in (self._files() - files).items()})
        return Load(events, elapsed_ms, _cpu_by_kind(before, after), written)

    def close(self) -> None:
        self._answers.stop()

    def _send(self, speaking: int) -> None:
        number, request_id = self._sent % speaking, f"{self._sent:09d}"
        key, value = (
            member_commit(number, request_id, self._sent, self._group_members)
            if self._sent % OF_EVENTS < COMMITS
            else heartbeat(number, request_id, group_members=self._group_members)
        )
        self._producer.produce(EVENTS, key=key, value=value, partition=0)
        self._producer.poll(0)
        self._sent += 1

    def _files(self) -> Counter[str]:
        """The bytes of each topic on the broker's disk."""
        sizes: Counter[str] = Counter()
        for file in self._data.rglob("coordinator.*/*.log"):
            sizes[file.parent.name.rpartition("-")[0].removeprefix("coordinator.")] += file.stat().st_size
        return sizes


def _cpu_by_kind(before: CpuTimes, after: CpuTimes) -> Counter[str]:
    used_ms: Counter[str] = Counter()
    for process, times in after.times.items():
        spent_ms = times.sum_ms - before.sum_of(process, times.began)
        used_ms[kind_of(process, after.process)] += spent_ms  # type: ignore[assignment]
    return used_ms


def _base_and_event(low: Load, high: Load, *kinds: str) -> tuple[float, float]:
    """Return the cores that processes take at no rate, and the milliseconds of CPU of an event: both loads took so much
    for their time and so much for their events."""
    low_ms, high_ms = (sum(load.cpu_ms[kind] for kind in kinds) for load in (low, high))
    determinant = low.elapsed_ms * high.events - high.elapsed_ms * low.events
    base = (low_ms * high.events - high_ms * low.events) / determinant
    return base, (low.elapsed_ms * high_ms - high.elapsed_ms * low_ms) / determinant


def _resident(process: int) -> Counter[str]:
    memory: Counter[str] = Counter()
    for descendant in cpu_times(process).times:
        memory[kind_of(descendant, process)] += resident_bytes(descendant)
    return memory


class GatewayCost(NamedTuple):
    """What a gateway takes."""

    request_us: float
    bytes_: float
    """Without clients."""
    member_bytes: float


async def measure_gateway(address: str, process: int) -> GatewayCost:
    """Let members join through a gateway and send heartbeats."""
    members: list[WireMember] = []
    resident: list[int] = []
    for clients in GATEWAY_CLIENTS:
        members += await asyncio.gather(*(_joined(address, number) for number in range(len(members), clients)))
        await _beat(members, GATEWAY_RATE, GATEWAY_S / 2)
        resident.append(resident_bytes(process))
    cpu_ms = await _beat_cost(members, GATEWAY_RATE, process)
    few, many = GATEWAY_CLIENTS
    member_bytes = max(0.0, (resident[1] - resident[0]) / (many - few))
    return GatewayCost(1_000 * cpu_ms / GATEWAY_RATE, resident[0] - few * member_bytes, member_bytes)


async def _joined(address: str, number: int) -> WireMember:
    member = WireMember(await WireClient.connect(address), f"gateway-{number}", session_timeout_ms=1_800_000)
    await member.find_coordinator()
    await member.join()
    return member


async def _beat(members: list[WireMember], rate: int, seconds: float) -> None:
    begin_s = time.perf_counter()

    async def speak(place: int) -> None:
        for number in range(place, int(rate * seconds), len(members)):
            await asyncio.sleep(max(0.0, begin_s + number / rate - time.perf_counter()))
            if code := await members[place].heartbeat():
                raise RuntimeError(f"error code {code}")

    await asyncio.gather(*map(speak, range(len(members))))


async def _beat_cost(members: list[WireMember], rate: int, process: int) -> float:
    """CPU of the gateway, in milliseconds for a second's requests."""
    before = cpu_times(process)
    await _beat(members, rate, GATEWAY_S)
    used = cpu_times(process).since(before)
    return (used.own_ms + used.descendants_ms) / GATEWAY_S


def measure(arguments: Namespace) -> Slopes:
    """Run one shard's share, and a gateway."""
    port, gateway = free_port(), f"127.0.0.1:{free_port()}"
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory) / "data"
        flags = (
            "--responder", "--group-initial-rebalance-delay-ms", str(JOINING_MS),
            "--trigger-interval-ms", f"{1_000 * arguments.batches:.0f}",
            "--max-events-per-batch", f"{MOST_EVENTS_S * max(2, arguments.batches):.0f}",
        )  # fmt: skip
        process = start(data, port, 500, *flags)
        try:
            time.sleep(30)  # it makes its topics
            while not (empty := _resident(process.pid))["responder"]:
                time.sleep(1)
            time.sleep(10)
            empty = _resident(process.pid)
            broker, members = f"127.0.0.1:{port}", arguments.shard_members
            shard = Shard(broker, members, arguments.group_members, process.pid, data)
            shard.fill()
            print(f"{members:,} members have joined", flush=True)
            shard.load(arguments.rate, arguments.seconds)  # which the JVM compiles
            low, high = (shard.load(rate, arguments.seconds) for rate in (arguments.rate / 4, arguments.rate))
            full = _resident(process.pid)
            shard.close()
            listen = ("gateway", "--bootstrap-servers", broker, "--listen", gateway)
            with command(Path(directory) / "gateway.log", "is ready", *listen) as gateway_process:
                gateway_cost = asyncio.run(measure_gateway(gateway, gateway_process))
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(120)
    return _slopes(arguments, low, high, empty, full, gateway_cost)


def _slopes(
    arguments: Namespace, low: Load, high: Load, empty: Counter[str], full: Counter[str], gateway: GatewayCost
) -> Slopes:
    def event_us(*kinds: str) -> float:
        return round(1_000 * _base_and_event(low, high, *kinds)[1], 1)

    base_cores, _ = _base_and_event(low, high, "JVM", "Python workers", "responder", "driver")
    small_bytes = state_bytes([commit("group-000000", 1_000_000)])
    return Slopes(
        run=this_run(),
        members=arguments.shard_members,
        group_members=arguments.group_members,
        rate=round(high.events / high.elapsed_ms * 1_000),
        query_us=event_us("JVM", "Python workers", "driver"),
        responder_us=event_us("responder"),
        gateway_us=round(gateway.request_us, 1),
        base_cores=round(base_cores, 3),
        query_bytes=full["JVM"] + full["Python workers"] + full["driver"],
        responder_bytes=empty["responder"],
        responder_member_bytes=round((full["responder"] - empty["responder"]) / arguments.shard_members),
        gateway_bytes=round(gateway.bytes_),
        gateway_member_bytes=round(gateway.member_bytes),
        state_group_bytes=small_bytes,
        state_member_bytes=state_bytes([value for _, value in beginnings(1)]) - small_bytes,
        topic_bytes={topic: round(size, 1) for topic, size in sorted(high.bytes_.items()) if size >= 0.1},
    )


def main() -> None:
    parser = command_parser("sizing", __doc__)
    parser.add_argument("--members", type=int, help="of the fleet")
    parser.add_argument("--groups", type=int, help="of the fleet")
    parser.add_argument("--heartbeat-interval", type=float, default=3.0, metavar="SECONDS", help="of each member (3)")
    parser.add_argument("--commit-interval", type=float, default=5.0, metavar="SECONDS", help="of each member (5)")
    parser.add_argument("--measure", action="store_true", help="measure the slopes")
    parser.add_argument("--shard-members", type=int, default=15_620, help="members of the shard that is run")
    parser.add_argument("--group-members", type=int, default=10, help="members of each of its groups")
    parser.add_argument("--rate", type=float, default=2_000, help="events a second of it")
    parser.add_argument("--batches", type=float, default=10, metavar="SECONDS", help="from one batch to the next (10)")
    parser.add_argument("--seconds", type=float, default=60, help="of each measurement")
    parser.add_argument("--write", action="store_true", help="the slopes, and the table in docs/sizing.md")
    arguments = parser.parse_args()
    measured = read_slopes()
    if arguments.measure:
        slopes = measure(arguments)
        print(slopes)
        measured = {**measured, slopes.group_members: slopes}
    if arguments.members:
        fleet = Fleet(
            members=arguments.members,
            groups=arguments.groups or arguments.members,
            heartbeat_interval_s=arguments.heartbeat_interval,
            commit_interval_s=arguments.commit_interval,
        )
        print(needs_table([fleet], measured))
    if arguments.write:
        write_slopes(measured)
        write_section("sizing", needs_table(FLEETS, measured), SIZING_PAGE, computed_from(FLEETS, measured))
        write_section("slopes", slopes_table(measured), SIZING_PAGE, runs_of(measured))


if __name__ == "__main__":
    main()
