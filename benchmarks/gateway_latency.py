"""How long heartbeats and commits take through the gateway, beside clients of the broker itself.

    python -m benchmarks.gateway_latency [--rates 50 1000] [--seconds 5] [--rounds 8] [--without-responder] [--write]

`group-coordinator run --responder` and `group-coordinator gateway` are processes of
their own, and so is a broker whose JVM has the options of Kafka's own start script. Members of groups of one speak
Kafka's protocol over a connection each: half of their requests are heartbeats, half are commits of one partition. The
same clients take turns with the gateway, and with the broker, which coordinates its own groups.
*Two hops* is a plain loop between two topics, the least that an answer through Kafka takes. CPU is of each process,
also of those that are idle in this turn: Spark works off what the gateway's clients have asked a moment ago.

The bars of the gateway with a responder: its p50 is at most the larger of 5 ms and 5 times the broker's, its p99 at
most 3 times that of two hops.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import NewTopic
from msgspec import Struct

from benchmarks import latency, two_hops
from benchmarks.arguments import command_parser
from benchmarks.document import Printed
from benchmarks.process_times import CpuTimes, cpu_times
from benchmarks.wire_client import WireClient, WireMember
from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka, free_port
from streaming.config import StreamingConfig

TOPIC = "orders"
CONNECTIONS = 50
GATEWAY, TWO_HOPS, COPIED = "gateway", "two hops", ("copy.in", "copy.out")
WARM_UP_ROUNDS, WARM_UP_S, WARM_UP_OF_GATEWAY_S = 10, 5.0, 15.0
"""What has just started is compiled while it answers: the broker for a minute, Spark's query for two and a half. In
turns, because members that are silent for long are expired."""
HEAP_MB, JAVA_OPTIONS = 1_024, (
    "-Xms1g", "-XX:TieredStopAtLevel=4", "-XX:-UseSerialGC", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35", "-XX:MaxInlineLevel=15",
)  # fmt: skip
"""What `kafka-server-start.sh` of Kafka 4.3 sets (`KAFKA_HEAP_OPTS`, `KAFKA_JVM_PERFORMANCE_OPTS`). The embedded broker
has others, which start quicker, and stops more often to collect its smaller heap."""
_PROCESSES = {
    "command_line.main gateway": "gateway",
    "command_line.main run": "coordinator",
    "group_coordinator.coordinating.responder": "responder",
    "kafka.Kafka": "broker",
    "embedded_kafka": "broker",
    "SparkSubmit": "Spark's JVM",
    "benchmarks.two_hops": "loop",
}
_START_TIMEOUT_S = 180.0
P50_MS, P50_FACTOR, P99_FACTOR = 5.0, 5.0, 3.0
"""The bars, see above."""


def main() -> None:
    """Run the benchmark and print what came out."""
    parser = command_parser("gateway_latency", __doc__)
    parser.add_argument("--rates", type=int, nargs="+", default=[50, 1_000], help="requests each second")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long each is measured in a round")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--without-responder", action="store_true", help="answers come at the query's speed")
    parser.add_argument("--write", action="store_true", help="into docs/performance.md")
    options = parser.parse_args()
    if options.write and options.without_responder:
        parser.error("--write writes what is measured with a responder: not with --without-responder")
    flags = () if options.without_responder else ("--responder",)
    say = Printed()
    with tempfile.TemporaryDirectory() as directory, running(Path(directory), *flags) as addresses:
        asyncio.run(_compare(say, addresses, options.rates, options.seconds, options.rounds))
    if options.write:
        say.write_section("gateway_latency")


@contextmanager
def running(
    directory: Path, *flags: str, gateway_flags: Sequence[str] = ()
) -> Iterator[dict[str, str]]:
    """The coordinator with a broker, and a gateway; yields the addresses of broker and gateway."""
    port, last_line = free_port(), "A responder answers" if flags else "The coordinator runs"
    with EmbeddedKafka(directory / "kafka", heap_mb=HEAP_MB, java_options=JAVA_OPTIONS) as kafka:
        broker = kafka.bootstrap_servers
        coordinator = (
            "run", "--bootstrap-servers", broker, "--checkpoint", str(directory / "checkpoint"),
            "--group-initial-rebalance-delay-ms", "0", *flags,
        )  # fmt: skip
        gateway = ("gateway", "--bootstrap-servers", broker, "--listen", f"127.0.0.1:{port}", *gateway_flags)
        with (
            command(directory / "coordinator.log", last_line, *coordinator),
            command(directory / "gateway.log", "is ready", *gateway),
        ):
            admin = new_admin_client({"bootstrap.servers": broker})
            for future in admin.create_topics([NewTopic(name, 1, 1) for name in (TOPIC, *COPIED)]).values():
                future.result()
            yield {"broker": broker, GATEWAY: f"127.0.0.1:{port}"}


@contextmanager
def command(log: Path, last_line: str, *arguments: str, tree: Path | None = None) -> Iterator[int]:
    """A command that runs, once it has printed this; its process. `tree`: a checkout, if not this one."""
    with log.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "group_coordinator.command_line.main", *arguments],
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=tree,
            env=None if tree is None else {**os.environ, "PYTHONPATH": str(tree)},
        )
    try:
        give_up_s = time.monotonic() + _START_TIMEOUT_S
        while last_line not in log.read_text():
            if time.monotonic() > give_up_s or process.poll() is not None:
                sys.exit(log.read_text())
            time.sleep(0.2)
        yield process.pid
    finally:
        process.terminate()
        process.wait()


async def _compare(
    say: Printed, addresses: dict[str, str], rates: list[int], seconds: float, rounds: int
) -> None:
    members = {name: await _members(address) for name, address in addresses.items()}
    for _ in range(WARM_UP_ROUNDS):
        for name, group in members.items():
            await _measure(group, max(rates), WARM_UP_OF_GATEWAY_S if name == GATEWAY else WARM_UP_S)
        _two_hops(addresses["broker"], max(rates), WARM_UP_S)
    say(f"{'requests/s':>10} {'by':8} {'p50 ms':>8} {'p99 ms':>8} {'max ms':>8}   CPU ms a request, from 0.2 on")
    bars = []
    for rate in rates:
        turns = {name: Turn([], Counter()) for name in [*members, TWO_HOPS]}
        for _ in range(rounds):
            for name, turn in turns.items():
                before = cpu_times(os.getpid())
                if name == TWO_HOPS:
                    turn.times_ms += _two_hops(addresses["broker"], rate, seconds)
                else:
                    turn.times_ms += await _measure(members[name], rate, seconds)
                turn.cpu_ms += cpu_by_process(before, cpu_times(os.getpid()))
        for name, turn in turns.items():
            say(f"{rate:10,} {name:8} {turn}")
        bars.append(bar(rate, turns[GATEWAY], turns["broker"], turns[TWO_HOPS]))
    say()
    for line in bars:
        say(line)


def bar(rate: int, gateway: Turn, broker: Turn, two_hops: Turn) -> str:
    """Return in words whether the gateway's times hold the bars."""
    p50_max_ms = max(P50_MS, P50_FACTOR * broker.percentile_ms(50))
    p99_max_ms = P99_FACTOR * two_hops.percentile_ms(99)
    words = [
        f"p{percent} {time_ms:.1f} ms of at most {most_ms:.1f}: {'holds' if time_ms <= most_ms else 'MISSED'}"
        for percent, time_ms, most_ms in (
            (50, gateway.percentile_ms(50), p50_max_ms), (99, gateway.percentile_ms(99), p99_max_ms)
        )
    ]
    return f"{rate:,} requests/s through the gateway: {', '.join(words)}"


class Turn(Struct):
    """What was measured of one way to an answer."""

    times_ms: list[float]
    cpu_ms: Counter[str]

    def percentile_ms(self, percent: int) -> float:
        times_ms = sorted(self.times_ms)
        return times_ms[len(times_ms) * percent // 100]

    def __str__(self) -> str:
        count = len(self.times_ms)
        cpu = ", ".join(f"{process} {ms / count:.2f}" for process, ms in self.cpu_ms.most_common() if ms > count / 5)
        return f"{self.percentile_ms(50):8.1f} {self.percentile_ms(99):8.1f} {max(self.times_ms):8.1f}   {cpu}"


def cpu_by_process(before: CpuTimes, after: CpuTimes) -> Counter[str]:
    """Return the milliseconds that each kind of process used."""
    used_ms: Counter[str] = Counter()
    for process, times in after.times.items():
        name = "clients" if process == after.process else _name_of(process)
        used_ms[name] += round(times.own_ms - (before.times[process].own_ms if process in before.times else 0.0))
    return used_ms


def _name_of(process: int) -> str:
    try:
        command = Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return "ended"
    return next((name for words, name in _PROCESSES.items() if words in command), "Python workers")


def _two_hops(broker: str, rate: int, seconds: float) -> list[float]:
    settings = StreamingConfig(bootstrap_servers=broker)
    with two_hops.relaying(broker, *COPIED):
        return latency.measure(settings, *COPIED, latency.copied_request_id, rate, seconds)


async def _members(address: str) -> list[WireMember]:
    """Members of groups of one, each over its connection."""
    members = [
        WireMember(await WireClient.connect(address), f"group-{number}", session_timeout_ms=60_000)
        for number in range(CONNECTIONS)
    ]
    while any(await asyncio.gather(*(member.find_coordinator() for member in members))):
        await asyncio.sleep(0.5)
    await asyncio.gather(*(member.join() for member in members))
    return members


async def _measure(members: list[WireMember], rate: int, seconds: float) -> list[float]:
    """Return the milliseconds of each request; each member keeps its pace, or waits for its answer."""
    times_ms: list[float] = []
    begin_s = time.perf_counter()
    interval_s = len(members) / rate

    async def speak(member: WireMember, phase: float) -> None:
        due_s, number = begin_s + phase * interval_s, 0
        while due_s < begin_s + seconds:
            await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
            sent_s = time.perf_counter()
            code = await (member.commit(TOPIC, number) if number % 2 else member.heartbeat())
            times_ms.append((time.perf_counter() - sent_s) * 1_000)
            if code:
                raise RuntimeError(f"error code {code}")
            number += 1
            due_s += interval_s

    await asyncio.gather(*(speak(member, number / len(members)) for number, member in enumerate(members)))
    return times_ms


if __name__ == "__main__":
    main()
