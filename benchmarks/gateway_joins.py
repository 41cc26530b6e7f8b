"""What a join costs with 1, 20 and 200 members, through the gateway and at the broker itself.

    python -m benchmarks.gateway_joins [--members 1 20 200] [--rounds 3] [--without-responder]
        [--write]

`group-coordinator run --embedded --responder` and `group-coordinator gateway` are processes of their own, and members
speak Kafka's protocol over a connection each. Heartbeats are 3 s apart, as clients have them: so long it takes a member
to hear of a rebalance. The same members take turns with the gateway and with the broker, which coordinates its own
groups. Every group is measured by itself. Printed are the medians of all rounds, and the longest.

*settled* is the time from when the last member has heard of the rebalance until all have their assignment. With a
responder it may be 200 ms with 20 members.
"""

from __future__ import annotations

import asyncio
import re
import statistics
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from benchmarks.arguments import command_parser
from benchmarks.document import Printed
from benchmarks.gateway_latency import running
from benchmarks.wire_client import REBALANCE_IN_PROGRESS, WireClient, WireMember
from group_coordinator.proving.embedded_kafka.broker import free_port

HEARTBEAT_S = 3.0
BAR_MEMBERS, BAR_S = 20, 0.2
"""One more member into such a group: it settles within this time."""


class Join(Struct):
    """One more member in a group, in seconds."""

    empty_s: float
    """Until all members had their assignment when the group was empty."""
    one_more_s: float
    """Until the newcomer had its assignment."""
    stops_s: list[float]
    """For so long each other member had none that holds."""
    settled_s: float
    """From when the last of the others had heard of the rebalance until all had their assignment."""


def main() -> None:
    """Run the benchmark and print what came out."""
    parser = command_parser("gateway_joins", __doc__)
    parser.add_argument("--members", type=int, nargs="+", default=[1, 20, 200])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--without-responder", action="store_true", help="answers come at the query's speed")
    parser.add_argument("--write", action="store_true", help="into docs/performance.md")
    options = parser.parse_args()
    say = Printed()
    flags = () if options.without_responder else ("--responder",)
    metrics_port = free_port()
    gateway_flags = [f"--metrics-port={metrics_port}"]
    with (
        tempfile.TemporaryDirectory() as directory,
        running(Path(directory), *flags, gateway_flags=gateway_flags) as addresses,
    ):
        asyncio.run(_compare(say, addresses, options.members, options.rounds))
        for line in _hops(f"http://127.0.0.1:{metrics_port}/metrics"):
            print(line)
    if options.write:
        say.write_section("gateway_joins")


async def _compare(say: Printed, addresses: dict[str, str], sizes: Sequence[int], rounds: int) -> None:
    for address in addresses.values():
        await _measure(address, 1)  # whatever is done for the first time
    say("members  by        empty group   one more  the others stop for  settled")
    for members in sizes:
        joins: dict[str, list[Join]] = {name: [] for name in addresses}
        for _ in range(rounds):
            for name, address in addresses.items():
                joins[name].append(await _measure(address, members))
        for name, measured in joins.items():
            stops_s = [stop_s for join in measured for stop_s in join.stops_s]
            say(
                f"{members:>7}  {name:8}  {_ms([join.empty_s for join in measured])}  "
                f"{_ms([join.one_more_s for join in measured])}  {_ms(stops_s)}  "
                f"{_ms([join.settled_s for join in measured])}"
            )
        if members == BAR_MEMBERS:
            settled_s = max(join.settled_s for join in joins["gateway"])
            words = "within" if settled_s <= BAR_S else "beyond"
            say(f"{members} members and one more settle {words} {1_000 * BAR_S:.0f} ms.")


def _ms(times_s: list[float]) -> str:
    return f"{1_000 * statistics.median(times_s):,.0f} ms ({1_000 * max(times_s):,.0f})"


async def _measure(address: str, count: int) -> Join:
    """Members join an empty group at once; when they heartbeat, one more comes; all leave."""
    group_id = f"group-{count}-{time.time_ns()}"
    members = [WireMember(await WireClient.connect(address), group_id) for _ in range(count)]
    since = time.perf_counter()
    await asyncio.gather(*(member.join() for member in members))
    empty_s = time.perf_counter() - since
    done = asyncio.Event()
    rejoins = asyncio.gather(*(_heartbeat(member, n / count, done) for n, member in enumerate(members)))
    await asyncio.sleep(HEARTBEAT_S * 1.5)
    newcomer = WireMember(await WireClient.connect(address), group_id)
    since = time.perf_counter()
    await newcomer.join()
    end = time.perf_counter()
    done.set()
    rejoined = await rejoins
    for member in (*members, newcomer):
        await member.leave()
    return Join(
        empty_s=empty_s,
        one_more_s=end - since,
        stops_s=[synced - heard for heard, synced in rejoined],
        settled_s=max(end, *(synced for _, synced in rejoined)) - max(heard for heard, _ in rejoined),
    )


async def _heartbeat(member: WireMember, phase: float, done: asyncio.Event) -> tuple[float, float]:
    """Send heartbeats as clients do; when told of a rebalance, rejoin. Return when it was told, and when it had its
    assignment."""
    await asyncio.sleep(phase * HEARTBEAT_S)
    rejoined: tuple[float, float] | None = None
    while rejoined is None or not done.is_set():
        since = time.perf_counter()
        if await member.heartbeat() == REBALANCE_IN_PROGRESS:
            heard = time.perf_counter()
            await member.join()
            rejoined = heard, time.perf_counter()
        if not done.is_set():
            await asyncio.sleep(max(0.0, HEARTBEAT_S - (time.perf_counter() - since)))
    return rejoined


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
    yield f"a heartbeat is answered after {heartbeat:.1f} ms (mean)"
    yield (
        f"any event: {log:.1f} ms until the answer is in the log (log, responder or micro-batch, log), "
        f"{reading:.1f} ms until the gateway has read it"
    )


if __name__ == "__main__":
    main()
