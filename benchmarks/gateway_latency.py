"""How long heartbeats and commits take through the gateway, beside clients of the broker itself.

    python -m benchmarks.gateway_latency [--rates 50 1000] [--seconds 10] [--rounds 2] [--without-responder]

`group-coordinator run --embedded --responder` and `group-coordinator gateway`, with `answers_heartbeats` off, are
processes of their own. Members
of groups of one speak Kafka's protocol over a connection each: half of their requests are heartbeats, half are commits
of one partition. The same clients take turns with the gateway, and with the broker, which coordinates its own groups.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import NewTopic

from benchmarks.wire_client import WireClient, WireMember
from group_coordinator.embedded_kafka.broker import free_port
from streaming.topics import admin_client

TOPIC = "orders"
CONNECTIONS = 50
WARM_UP_S = 5.0
_START_TIMEOUT_S = 180.0


def main() -> None:
    """Run the benchmark and print what came out."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gateway_latency", description="Heartbeats and commits through the gateway."
    )
    parser.add_argument("--rates", type=int, nargs="+", default=[50, 1_000], help="requests each second")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long each is measured in a round")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--without-responder", action="store_true", help="answers come at the query's speed")
    options = parser.parse_args()
    flags = () if options.without_responder else ("--responder",)
    with tempfile.TemporaryDirectory() as directory, running(Path(directory), *flags) as addresses:
        asyncio.run(_compare(addresses, options.rates, options.seconds, options.rounds))


@contextmanager
def running(
    directory: Path, *flags: str, gateway_flags: Sequence[str] = ("--no-answers-heartbeats",)
) -> Iterator[dict[str, str]]:
    """The coordinator with a broker, and a gateway; yields the addresses of broker and gateway."""
    port, broker = free_port(), f"127.0.0.1:{free_port()}"
    coordinator = (
        "run", "--embedded", "--embedded-port", broker.rpartition(":")[2], "--group-initial-rebalance-delay-ms", "0",
        *flags,
    )  # fmt: skip
    last_line = "A responder answers" if flags else "To look at them"
    gateway = ("gateway", "--bootstrap-servers", broker, "--listen", f"127.0.0.1:{port}", *gateway_flags)
    with (
        command(directory / "coordinator.log", last_line, *coordinator),
        command(directory / "gateway.log", "is ready", *gateway),
    ):
        admin = admin_client(broker)
        for future in admin.create_topics([NewTopic(TOPIC, 1, 1)]).values():
            future.result()
        yield {"broker": broker, "gateway": f"127.0.0.1:{port}"}


@contextmanager
def command(log: Path, last_line: str, *arguments: str) -> Iterator[int]:
    """A command that runs, once it has printed this; its process."""
    with log.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "group_coordinator.command_line.main", *arguments],
            stdout=out,
            stderr=subprocess.STDOUT,
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


async def _compare(addresses: dict[str, str], rates: list[int], seconds: float, rounds: int) -> None:
    members = {name: await _members(address) for name, address in addresses.items()}
    for group in members.values():
        await _measure(group, 100, WARM_UP_S)
    print(f"{'requests/s':>10} {'by':8} {'p50 ms':>8} {'p99 ms':>8} {'max ms':>8}")
    for rate in rates:
        times_ms: dict[str, list[float]] = {name: [] for name in members}
        for _ in range(rounds):
            for name, group in members.items():
                times_ms[name] += await _measure(group, rate, seconds)
        for name, measured in times_ms.items():
            measured.sort()
            p50, p99 = measured[len(measured) // 2], measured[len(measured) * 99 // 100]
            print(f"{rate:10,} {name:8} {p50:8.1f} {p99:8.1f} {measured[-1]:8.1f}", flush=True)


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
