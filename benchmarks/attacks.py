"""What honest clients feel while others attack: the time of their commits, and the memory of the coordinator.

    python -m benchmarks.attacks [NAME ...] [--after 60]

`group-coordinator run --embedded --gateway` runs as users run it, with default memory. Honest clients commit two offsets a second each
through the gateway, on connections of their own. Each attack is one that anybody with access to the gateway, or with Write on the events
topic, can try; each runs beside the honest clients, one after the other. `after` is the memory that long after the last attack.
Memory is that of the coordinator's processes (driver, JVM, Python workers) without the broker's.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from msgspec import Struct

from benchmarks.arguments import command_parser
from benchmarks.document import table
from benchmarks.process_times import cpu_times
from benchmarks.soak.measures import resident_mib
from benchmarks.wire_client import WireClient
from group_coordinator.proving.embedded_kafka.broker import free_port
from schemas.events import encode_request_event, encode_tick
from schemas.messages import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic

HONEST_CLIENTS, HONEST_INTERVAL_S = 2, 0.5
START_TIMEOUT_S, ANSWER_TIMEOUT_S = 180.0, 60.0
NO_GENERATION = -1
DAY_MS = 86_400_000


class Target:
    """A coordinator with its own broker and gateway."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.broker, self.gateway = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        self.log = directory / "log"
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        """Returns when a commit has been answered."""
        command = [
            sys.executable, "-m", "group_coordinator.command_line.main", "run", "--embedded", "--embedded-port", self.broker.rsplit(":", 1)[1],
            "--embedded-data", str(self._directory / "kafka"), "--checkpoint", str(self._directory / "checkpoint"), "--gateway", self.gateway,
        ]  # fmt: skip
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                client = await WireClient.connect(self.gateway)
                await asyncio.wait_for(commit(client, "warm", [(0, "")]), ANSWER_TIMEOUT_S)
                client.close()
                return
            except (OSError, asyncio.IncompleteReadError, TimeoutError):
                self.require_alive()
                if time.monotonic() > deadline_s:
                    raise RuntimeError(f"the coordinator does not answer\n{self.log.read_text()[-2_000:]}") from None
                await asyncio.sleep(1)

    def require_alive(self) -> None:
        """Raises RuntimeError with the end of its log."""
        if self._process is None or self._process.poll() is not None:
            raise RuntimeError(f"the coordinator has ended\n{self.log.read_text()[-2_000:]}")

    def memory_mib(self) -> int:
        """Resident memory of all its processes but the broker's."""
        assert self._process is not None
        total = 0.0
        for process_time in cpu_times(self._process.pid).times:
            try:
                if b"kafka.Kafka" not in Path(f"/proc/{process_time}/cmdline").read_bytes():
                    total += resident_mib(process_time)
            except OSError:  # it has just ended
                continue
        return int(total)

    def kill(self) -> None:
        """Kill the processes as a power cut does: the broker goes as well."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, signal_number: signal.Signals) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, signal_number)
            self._process.wait(120)


def create_topics(servers: str) -> None:
    """Create the topics of the commits."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    for created in admin.create_topics([NewTopic("payments", 1, 1)]).values():
        created.result(60)


async def commit(client: WireClient, group_id: str, partitions: list[tuple[int, str]], topic: str = "payments") -> set[int]:
    """A simple commit; the error codes of its answer."""
    rows = [
        SimpleNamespace(partition_index=index, committed_offset=1, committed_leader_epoch=-1, committed_metadata=metadata)
        for index, metadata in partitions
    ]
    answer = await client.ask(
        "OffsetCommit", group_id=group_id, generation_id_or_member_epoch=NO_GENERATION, member_id="", group_instance_id=None,
        topics=[SimpleNamespace(name=topic, partitions=rows)],
    )  # fmt: skip
    return {partition["error_code"] for topic in answer["topics"] for partition in topic["partitions"]}


class Honest:
    """Clients that commit on and on, and how long each answer took: in a process of their own, as attackers keep theirs busy."""

    def __init__(self, gateway: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._seen, sender = context.Pipe(duplex=False)
        self._process = context.Process(target=live_honestly, args=(gateway, sender), daemon=True)
        self._process.start()

    def take(self) -> tuple[list[float], int]:
        """The times since the last call, and how many had no answer."""
        times_s: list[float] = []
        failures = 0
        while self._seen.poll():
            time_s = self._seen.recv()
            if time_s is None:
                failures += 1
            else:
                times_s.append(time_s)
        return times_s, failures

    def stop(self) -> None:
        self._process.terminate()
        self._process.join()


def live_honestly(gateway: str, sender: Connection) -> None:
    """Commit until the process is ended; tell how long each answer took, or None."""

    async def live(number: int) -> None:
        client: WireClient | None = None
        while True:
            began_s = time.monotonic()
            try:
                client = client or await WireClient.connect(gateway)
                await asyncio.wait_for(commit(client, f"honest-{number}", [(0, "")]), ANSWER_TIMEOUT_S)
                sender.send(time.monotonic() - began_s)
            except (OSError, asyncio.IncompleteReadError, TimeoutError):
                client = None
                sender.send(None)
            await asyncio.sleep(HONEST_INTERVAL_S)

    async def live_all() -> None:
        await asyncio.gather(*(live(number) for number in range(HONEST_CLIENTS)))

    asyncio.run(live_all())


# ------------------------------------------------------------------------------------------------------------ the attacks


async def one_group_a_thousand_times(target: Target) -> str:
    """A member brings 700 KB, its assignment 300 KB; then a request of a few KB names the group a thousand times."""
    client = await WireClient.connect(target.gateway)
    join = await client.ask(
        "JoinGroup", group_id="big", session_timeout_ms=300_000, rebalance_timeout_ms=300_000, member_id="", group_instance_id="big",
        protocol_type="consumer", protocols=[SimpleNamespace(name="range", metadata=b"x" * 700_000)], reason=None,
    )  # fmt: skip
    await client.ask(
        "SyncGroup", group_id="big", generation_id=join["generation_id"], member_id=join["member_id"], group_instance_id="big",
        protocol_type="consumer", protocol_name="range", assignments=[SimpleNamespace(member_id=join["member_id"], assignment=b"y" * 300_000)],
    )  # fmt: skip
    answer = await client.ask("DescribeGroups", groups=["big"] * 1_000, include_authorized_operations=False)
    client.close()
    return f"{len(answer['groups'])} entries"


async def a_group_of_many_offsets(target: Target) -> str:
    """46,000 offsets with 4,000 bytes of metadata each, as events: the gateway would ask whether there are such partitions."""
    commits = []
    for first in range(0, 46_000, 230):
        rows = tuple(
            OffsetCommitRequestPartition(partition_index=index, committed_offset=1, committed_metadata="m" * 4_000)
            for index in range(first, first + 230)
        )
        topics = (OffsetCommitRequestTopic(name="bloat", partitions=rows),)
        request = OffsetCommitRequest(group_id="bloated", generation_id_or_member_epoch=NO_GENERATION, member_id="", topics=topics)
        commits.append(encode_request_event("OffsetCommit", 8, request, request_id=f"bloat-{first}", reply_partition=0, client_id="attacker"))
    for commit in commits:
        await asyncio.to_thread(_write, target, [(b"bloated", commit)])
    await asyncio.sleep(20)
    return f"{len(commits)} commits of 230"


async def member_ids_never_used(target: Target) -> str:
    """New members with ids of 32 KB ask for a member id and never come back."""
    client = await WireClient.connect(target.gateway)
    for number in range(5_000):
        await client.ask(
            "JoinGroup", group_id=f"{number:05}" + "g" * 32_000, session_timeout_ms=10_000, rebalance_timeout_ms=10_000, member_id="",
            group_instance_id=None, protocol_type="consumer", protocols=[SimpleNamespace(name="range", metadata=b"")], reason=None,
        )  # fmt: skip
    client.close()
    return "5,000 ids"


async def dense_requests(target: Target) -> str:
    """FindCoordinator over 10,000 keys, on four connections at once."""
    keys = [f"group-{number}" for number in range(10_000)]

    async def ask_on() -> None:
        client = await WireClient.connect(target.gateway)
        for _ in range(20):
            await client.ask("FindCoordinator", key_type=0, coordinator_keys=keys)
        client.close()

    await asyncio.gather(*(ask_on() for _ in range(4)))
    return "80 requests"


async def unfinished_requests(target: Target) -> str:
    """A thousand connections, each with all but the last bytes of a request of 1 MiB."""
    host, port = target.gateway.rsplit(":", 1)
    part = (1_048_576).to_bytes(4, "big") + (12).to_bytes(2, "big") + b"\0" * 1_048_000
    writers = []
    for _ in range(1_000):
        try:
            _, writer = await asyncio.wait_for(asyncio.open_connection(host, int(port)), 5)
            writer.write(part)
            writers.append(writer)
        except (OSError, TimeoutError):
            continue
    await asyncio.sleep(10)
    for writer in writers:
        writer.close()
    return f"{len(writers)} connections"


async def five_thousand_groups(target: Target) -> str:
    """One client makes 5,000 groups, a commit each."""
    clients = [await WireClient.connect(target.gateway) for _ in range(50)]

    async def commit_all(client: WireClient, first: int) -> None:
        for number in range(first, 5_000, len(clients)):
            await commit(client, f"group-{number}", [(0, "")])
        client.close()

    await asyncio.gather(*(commit_all(client, first) for first, client in enumerate(clients)))
    return "5,000 groups"


async def a_tick_of_tomorrow(target: Target) -> str:
    """A tick eight days ahead, and one of the year 9999, in the events topic."""
    now_ms = time.time_ns() // 1_000_000
    _write(target, [(None, encode_tick(clock_ms)) for clock_ms in (now_ms + 8 * DAY_MS, 253_402_300_799_990)])
    await asyncio.sleep(10)
    return "2 ticks"


async def large_records(target: Target) -> str:
    """300 records of 1 MB in the events topic, each with a group of its own."""
    await asyncio.to_thread(_write, target, [(b"large-%d" % number, b"x" * 1_040_000) for number in range(300)])
    await asyncio.sleep(20)
    return "300 records"


async def a_backlog_and_a_power_cut(target: Target) -> str:
    """1,500 records of 1 MB; coordinator and broker are killed while they are read, and started again."""
    await asyncio.to_thread(_write, target, [(b"backlog-%d" % number, b"x" * 1_040_000) for number in range(1_500)])
    target.kill()
    began_s = time.monotonic()
    await target.start()
    return f"answers again after {time.monotonic() - began_s:.0f} s"


def _write(target: Target, records: list[tuple[bytes | None, bytes]]) -> None:
    producer = Producer(
        {"bootstrap.servers": target.broker, "message.max.bytes": 1_200_000, "compression.type": "zstd", "linger.ms": 50, "log_level": 0}
    )
    for key, value in records:
        while True:
            try:
                producer.produce("coordinator.events", key=key, value=value, partition=0)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(120):
        raise RuntimeError("the broker did not take all records")


ATTACKS: dict[str, Callable[[Target], Awaitable[str]]] = {
    attack.__name__: attack
    for attack in (
        one_group_a_thousand_times, a_group_of_many_offsets, member_ids_never_used, dense_requests, unfinished_requests,
        five_thousand_groups, a_tick_of_tomorrow, large_records, a_backlog_and_a_power_cut,
    )
}  # fmt: skip


class Measurement(Struct, frozen=True):
    """The effects of one attack on others."""

    attack: str
    seconds: float
    result: str
    times_s: list[float]
    failures: int
    peak_mib: int

    def row(self) -> tuple[str, ...]:
        times = sorted(self.times_s) or [float("nan")]
        worst, median = times[-1], statistics.median(times)
        return (
            self.attack.replace("_", " "), self.result, f"{self.seconds:.0f}", str(len(self.times_s)),
            str(self.failures), f"{median:.2f}", f"{worst:.2f}", str(self.peak_mib),
        )  # fmt: skip


async def attack(name: str, target: Target, honest: Honest) -> Measurement:
    """Let one happen, and three seconds more."""
    honest.take()
    peak_mib, began_s = 0, time.monotonic()
    task = asyncio.ensure_future(ATTACKS[name](target))
    while not task.done():
        peak_mib = max(peak_mib, target.memory_mib())
        await asyncio.sleep(0.5)
    result = await task
    seconds = time.monotonic() - began_s
    await asyncio.sleep(3)
    target.require_alive()
    return Measurement(name, seconds, result, *honest.take(), max(peak_mib, target.memory_mib()))


async def run(names: list[str], after_s: float) -> None:
    with tempfile.TemporaryDirectory() as directory:
        target = Target(Path(directory))
        try:
            await target.start()
            await asyncio.to_thread(create_topics, target.broker)
            honest = Honest(target.gateway)
            await asyncio.sleep(10)
            times, _ = honest.take()
            rested_mib = target.memory_mib()
            measurements = []
            for name in names:
                measurements.append(await attack(name, target, honest))
                print(measurements[-1].row(), file=sys.stderr, flush=True)
            await asyncio.sleep(after_s)
            honest.stop()
            head = ("attack", "what it got", "s", "honest answers", "failed", "median s", "worst s", "MiB at most")
            print(table(head, [measurement.row() for measurement in measurements], words=2))
            print()
            print(f"Before: honest answers take {statistics.median(times):.2f} s, {rested_mib} MiB. {after_s:.0f} s after the last: {target.memory_mib()} MiB.")
        finally:
            target.stop()


def main() -> None:
    parser = command_parser("attacks", __doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(ATTACKS)}; all without")
    parser.add_argument("--after", type=float, default=60, metavar="SECONDS", help="how long to wait before memory is looked at last (60)")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in ATTACKS]
    if unknown:
        parser.error(f"there is no attack {unknown[0]}: {', '.join(ATTACKS)}")
    asyncio.run(run(arguments.names or list(ATTACKS), arguments.after))


if __name__ == "__main__":
    main()
