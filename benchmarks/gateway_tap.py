"""What a tap costs a request: `python -m benchmarks.gateway_tap [--requests 4000]`.

Heartbeats of one member of a broker's own group, one after the other on one connection: to the broker, and through a
tap in a process of its own that writes them down. The difference is the price.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time

from benchmarks.tap_process import tap_process
from benchmarks.wire_client import WireClient, WireMember
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka

_ROUNDS = 8


def main() -> None:
    """Run the benchmark and print what came out."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gateway_tap", description="What a tap costs a request.")
    parser.add_argument("--requests", type=int, default=4_000)
    requests: int = parser.parse_args().requests
    with EmbeddedKafka() as kafka, tap_process(kafka.bootstrap_servers) as tap:
        took_ms: dict[str, list[float]] = {"broker": [], "tap": []}
        for _ in range(_ROUNDS):  # in turns: whatever else the machine does is in both
            for name, address in (("broker", kafka.bootstrap_servers), ("tap", tap.bootstrap_servers)):
                took_ms[name] += asyncio.run(_heartbeats(address, requests // _ROUNDS))
        spent = tap.end()
    for name, values in took_ms.items():
        values.sort()
        print(f"{name:<6} p50 {statistics.median(values):.2f} ms, p99 {values[len(values) * 99 // 100]:.2f} ms")
    price_ms = statistics.median(took_ms["tap"]) - statistics.median(took_ms["broker"])
    print(
        f"a tap adds {price_ms:.2f} ms to a request; {spent.cpu_s / spent.lines * 1e6:.0f} us of its CPU for each "
        "that it writes down"
    )


async def _heartbeats(address: str, count: int) -> list[float]:
    client = await WireClient.connect(address)
    member = WireMember(client, f"group-{time.time_ns()}")
    await _join(member)
    took_ms = []
    for _ in range(count):
        since = time.perf_counter()
        assert await member.heartbeat() == 0
        took_ms.append((time.perf_counter() - since) * 1_000)
    await member.leave()
    return took_ms


async def _join(member: WireMember) -> None:
    """The broker makes its coordinator ready when it is first asked for."""
    for _ in range(100):
        try:
            if await member.find_coordinator() == 0:
                return await member.join()
        except AssertionError:  # it is still loading
            pass
        await asyncio.sleep(0.2)
    raise TimeoutError("the broker's coordinator does not answer")


if __name__ == "__main__":
    main()
