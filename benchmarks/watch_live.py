"""How soon the page of `watch` has what a broker recorded: `python -m benchmarks.watch_live --groups 200 --seconds 60`.

Each group has a member that stays and one that comes and goes, so that it rebalances twice in each pause. What counts
is the time from a generation's record, as the broker dated it, to the moment at which the page's stream brings it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.process_times import cpu_times
from benchmarks.wire_client import REBALANCE_IN_PROGRESS, WireClient, WireMember
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from group_coordinator.watching.observed.offsets_log import LogRecord, read_raw
from group_coordinator.watching.watch.offsets_topic import OffsetsTopicReader
from schemas.consumer_protocol import Assignment, Subscription, TopicPartition, encode_assignment, encode_subscription

TOPIC = "orders"
HEARTBEAT_INTERVAL_S = 1.0
_START_TIMEOUT_S = 60.0
_SETTLING_S = 10.0
"""At the end, so long the page may take for the last generations."""

Generation = tuple[str, int]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--groups", type=int, default=200)
    arguments.add_argument("--pause", type=float, default=5.0, help="seconds between the rebalances of a group")
    arguments.add_argument("--seconds", type=float, default=60.0)
    options = arguments.parse_args()
    with EmbeddedKafka() as kafka, tempfile.TemporaryDirectory() as directory:
        asyncio.run(_first_group(kafka.bootstrap_servers))
        with _watching(kafka, Path(directory)) as (process, page):
            page_reader = PageReader(page)
            page_reader.start()
            before = cpu_times(process.pid)
            begun_ms = time.time_ns() // 1_000_000
            asyncio.run(_churn(kafka.bootstrap_servers, options.groups, options.pause, options.seconds))
            time.sleep(_SETTLING_S)
            cpu_used = cpu_times(process.pid).since(before)
            recorded = _recorded(kafka.bootstrap_servers, begun_ms)
    print(report(recorded, page_reader.first_ms, cpu_used.own_ms / 10 / (options.seconds + _SETTLING_S)))


def report(recorded: dict[Generation, int], seen_ms: dict[Generation, int], cpu_percent: float) -> str:
    """A page that has a later generation of a group has the earlier ones, too."""
    latencies, missing = [], 0
    for (group_id, generation), at_ms in recorded.items():
        seen_later_ms = [ms for (of, number), ms in seen_ms.items() if of == group_id and number >= generation]
        if seen_later_ms:
            latencies.append(min(seen_later_ms) - at_ms)
        else:
            missing += 1
    steps = statistics.quantiles(latencies, n=100)
    return (
        f"{len(latencies):,} generations: on the page after {steps[49]:,.0f} ms (median), {steps[94]:,.0f} ms (p95), "
        f"{max(latencies):,} ms (most); {missing} never; the watcher took {cpu_percent:.0f} % of a core"
    )


class PageReader:
    """When the page's stream first brought each generation."""

    def __init__(self, page: str) -> None:
        self.first_ms: dict[Generation, int] = {}
        self._stream = urllib.request.urlopen(f"{page}api/stream")
        self._thread = threading.Thread(target=self._read, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _read(self) -> None:
        name = ""
        for line in self._stream:
            kind, _, text = line.decode().rstrip().partition(": ")
            if kind == "event":
                name = text
            elif kind == "data" and name == "rows":
                now_ms = time.time_ns() // 1_000_000
                for row in json.loads(text):
                    self.first_ms.setdefault((row["id"], row["generation"]), now_ms)


@contextmanager
def _watching(kafka: EmbeddedKafka, directory: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """The command as anybody would start it, and the address of its page."""
    with (directory / "out").open("w") as out:
        process = subprocess.Popen(
            [
                sys.executable, "-m", "group_coordinator.command_line.main", "watch", "--port", "0", "--follow",
                "--bootstrap-servers", kafka.bootstrap_servers, "--broker-log", str(kafka.log_file),
                "--state", str(directory / "state"),
            ], stdout=out, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        give_up_s = time.monotonic() + _START_TIMEOUT_S
        while not (page := re.search(r"http://\S+", (directory / "out").read_text())):
            if time.monotonic() > give_up_s or process.poll() is not None:
                sys.exit((directory / "out").read_text())
            time.sleep(0.1)
        yield process, page[0]
    finally:
        process.terminate()
        process.wait()


async def _first_group(address: str) -> None:
    """The broker makes the offsets topic for it."""
    member = WireMember(await WireClient.connect(address), "the first one")
    while await member.find_coordinator() != 0:
        await asyncio.sleep(0.2)


async def _churn(address: str, groups: int, pause_s: float, seconds: float) -> None:
    end_s = time.monotonic() + seconds
    await asyncio.gather(
        *(_group(address, f"group-{number}", pause_s, number / groups, end_s) for number in range(groups))
    )


async def _group(address: str, group_id: str, pause_s: float, phase: float, end_s: float) -> None:
    staying = await _member(address, group_id)
    await staying.join()
    done = asyncio.Event()
    heartbeating = asyncio.create_task(_heartbeat(staying, done))
    await asyncio.sleep(phase * 2 * pause_s)
    while time.monotonic() < end_s:
        newcomer = await _member(address, group_id)
        await newcomer.join()
        await asyncio.sleep(pause_s)
        await newcomer.leave()
        await asyncio.sleep(pause_s)
    done.set()
    await heartbeating
    await staying.leave()


async def _member(address: str, group_id: str) -> WireMember:
    member = WireMember(
        await WireClient.connect(address),
        group_id,
        metadata=encode_subscription(Subscription(topics=(TOPIC,))),
        assignment=encode_assignment(Assignment(partitions=(TopicPartition(TOPIC, 0),))),
    )
    while await member.find_coordinator() != 0:
        await asyncio.sleep(0.2)
    return member


async def _heartbeat(member: WireMember, done: asyncio.Event) -> None:
    while not done.is_set():
        if await member.heartbeat() == REBALANCE_IN_PROGRESS:
            await member.join()
        await asyncio.sleep(HEARTBEAT_INTERVAL_S)


def _recorded(address: str, begun_ms: int) -> dict[Generation, int]:
    """When the broker wrote each generation, by its own clock."""
    recorded_ms: dict[Generation, int] = {}
    with OffsetsTopicReader({"bootstrap.servers": address}) as reader:
        for partition, raw in reader.read(reader.bounds()):
            record = read_raw(partition, raw)
            if isinstance(record, LogRecord) and record.value and record.timestamp_ms >= begun_ms:
                recorded_ms.setdefault((record.group_id, int(str(record.value["generation"]))), record.timestamp_ms)
    return recorded_ms


if __name__ == "__main__":
    main()
