"""What a join costs with 1, 20 and 200 members: `python -m benchmarks.gateway_joins [--members 1 20 200]`.

`group-coordinator run --embedded --gateway` in a process of its own, as anybody would start it, and members that speak
Kafka's protocol over a connection each. Heartbeats are 3 s apart, as clients have them: so long it takes a member to
hear of a rebalance. Every group is measured by itself.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.wire_client import REBALANCE_IN_PROGRESS, WireClient, WireMember
from group_coordinator.embedded_kafka.broker import free_port

HEARTBEAT_S = 3.0
_START_TIMEOUT_S = 180.0


def main() -> None:
    """Run the benchmark and print what came out."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gateway_joins", description="What a join costs.")
    parser.add_argument("--members", type=int, nargs="+", default=[1, 20, 200])
    parser.add_argument("--answers-heartbeats", action="store_true", help="the gateway answers heartbeats")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as directory,
        _running(Path(directory), options.answers_heartbeats) as (address, metrics_url),
    ):
        asyncio.run(_measure(address, 1, quiet=True))  # whatever is done for the first time
        print("members  empty group  one more  the others stop for")
        for members in options.members:
            asyncio.run(_measure(address, members))
        for line in _hops(metrics_url):
            print(line)


@contextmanager
def _running(directory: Path, answers_heartbeats: bool) -> Iterator[tuple[str, str]]:
    port, metrics_port = free_port(), free_port()
    (directory / "gateway.toml").write_text(f"answers_heartbeats = {str(answers_heartbeats).lower()}\n")
    with (directory / "out").open("w") as out:
        app = subprocess.Popen(
            [
                sys.executable, "-m", "group_coordinator.command_line.main", "run", "--embedded",
                "--group-initial-rebalance-delay-ms", "0",
                "--gateway", f"127.0.0.1:{port}", "--gateway-config-file", str(directory / "gateway.toml"),
                "--metrics-port", str(metrics_port),
            ], stdout=out, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        give_up_at = time.monotonic() + _START_TIMEOUT_S
        while "The gateway is ready" not in (directory / "out").read_text():
            if time.monotonic() > give_up_at or app.poll() is not None:
                sys.exit((directory / "out").read_text())
            time.sleep(0.2)
        yield f"127.0.0.1:{port}", f"http://127.0.0.1:{metrics_port}/metrics"
    finally:
        app.terminate()
        app.wait()


async def _measure(address: str, count: int, *, quiet: bool = False) -> None:
    """Members join an empty group at once; when they heartbeat, one more comes; all leave."""
    group_id = f"group-{count}-{time.time_ns()}"
    members = [WireMember(await WireClient.connect(address), group_id) for _ in range(count)]
    since = time.perf_counter()
    await asyncio.gather(*(member.join() for member in members))
    empty_s = time.perf_counter() - since
    stops_s: list[float] = []
    done = asyncio.Event()
    heartbeats = asyncio.gather(*(_heartbeat(member, n / count, stops_s, done) for n, member in enumerate(members)))
    await asyncio.sleep(HEARTBEAT_S * 1.5)
    newcomer = WireMember(await WireClient.connect(address), group_id)
    since = time.perf_counter()
    await newcomer.join()
    one_more_s = time.perf_counter() - since
    done.set()
    await heartbeats
    if not quiet:
        print(
            f"{count:>7}  {empty_s:>9.2f} s  {one_more_s:>6.2f} s  {statistics.median(stops_s):.2f} s (longest "
            f"{max(stops_s):.2f} s)",
            flush=True,
        )
    for member in (*members, newcomer):
        await member.leave()


async def _heartbeat(member: WireMember, phase: float, stops_s: list[float], done: asyncio.Event) -> None:
    """Send heartbeats as clients do; when told of a rebalance, rejoin and note how long that took."""
    await asyncio.sleep(phase * HEARTBEAT_S)
    while not done.is_set() or not stops_s:
        since = time.perf_counter()
        if await member.heartbeat() == REBALANCE_IN_PROGRESS:
            since = time.perf_counter()
            await member.join()
            stops_s.append(time.perf_counter() - since)
        await asyncio.sleep(max(0.0, HEARTBEAT_S - (time.perf_counter() - since)))


def _hops(url: str) -> Iterator[str]:
    """The means of the gateway's histograms."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        text = answer.read().decode()

    def mean_ms(name: str, labels: str = "") -> float:
        found = {
            kind: re.search(rf"^group_coordinator_gateway_{name}_{kind}{re.escape(labels)} (\S+)$", text, re.M)
            for kind in ("sum", "count")
        }
        total, count = found["sum"], found["count"]
        return 1_000 * float(total[1]) / max(1.0, float(count[1])) if total and count else 0.0

    heartbeat = mean_ms("answer_seconds", '{api="Heartbeat"}')
    log, reading = mean_ms("coordinator_seconds"), mean_ms("reading_seconds")
    yield f"a heartbeat is answered after {heartbeat:.0f} ms (mean)"
    yield (
        f"any event: {log:.0f} ms until the answer is in the log (log, micro-batch, sink), {reading:.0f} ms until the "
        "gateway has read it"
    )


if __name__ == "__main__":
    main()
