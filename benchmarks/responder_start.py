"""How long a responder takes to start, and what an idle group costs it in memory.

    python -m benchmarks.responder_start [--groups 100 100000] [--buckets 0]

Groups with a commit of one partition are decided by the running app. Then a responder is started beside it, as `run
--responder` does: the state is read from the checkpoint in the app's session, and handed over. The start is the time
from there until it has answered all that was in the log before. The memory is that of the responder's process
(resident) then. *By itself* is `group-coordinator responder`, with a JVM of its own to read the state: the time from
the command's start until its health endpoint says that it answers.
"""

from __future__ import annotations

import tempfile
import time
from http import HTTPStatus
from pathlib import Path
from urllib.request import urlopen

from confluent_kafka import Producer

from benchmarks.arguments import command_parser
from benchmarks.gateway_latency import command
from benchmarks.heartbeat_groups import config, flags
from benchmarks.idle_groups import commit
from benchmarks.latency import coordinating
from group_coordinator.coordinating.commands.own_responders import TRIGGER_INTERVAL_MS
from group_coordinator.coordinating.responder.processes import ResponderProcesses
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka, free_port
from streaming.application import Application
from streaming.config import StreamingConfig
from streaming.session import open_session

TIMEOUT_S = 300.0


def fill(settings: StreamingConfig, app: Application, groups: int) -> None:
    """Have the app decide a commit of each group."""
    producer = Producer({**settings.client_properties, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000})
    for number in range(groups):
        group_id = f"group-{number}"
        producer.produce(
            settings.topics.events, key=group_id, value=commit(group_id, number), partition=0
        )
    producer.flush()
    give_up_s = time.monotonic() + TIMEOUT_S
    while len(app.read_state(0).whole().groups) < groups:
        if time.monotonic() > give_up_s:
            raise RuntimeError("the app has not decided all commits")
        time.sleep(2)


def resident_bytes(pid: int) -> int:
    """Return the memory of a process; one that has ended has none."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) * 1_024 for line in lines if line.startswith("VmRSS:")), 0)


def start(settings: StreamingConfig, app: Application) -> tuple[float, float, int]:
    """Return the seconds to read the state, the seconds until a responder answers, and the memory that it takes."""
    begin_s = time.perf_counter()
    app.read_state(0).whole()
    read_s = time.perf_counter() - begin_s
    responders = ResponderProcesses(settings, {}, app.read_state)
    begin_s = time.perf_counter()
    responders.start()
    try:
        while responders.statuses[0] is None:
            if time.perf_counter() - begin_s > TIMEOUT_S:
                raise RuntimeError("the responder has not begun")
            time.sleep(0.02)
        return read_s, time.perf_counter() - begin_s, resident_bytes(responders.process_ids[0])
    finally:
        responders.stop()


def start_by_itself(settings: StreamingConfig, scratch: Path) -> float:
    """Return the seconds from the command's start until it is ready."""
    port = free_port()
    begin_s = time.perf_counter()
    arguments = flags(settings, metrics_port=port)
    with command(scratch / "responder.log", "Metrics and health", "responder", *arguments):
        while not is_ready(port):
            if time.perf_counter() - begin_s > TIMEOUT_S:
                raise RuntimeError("the responder has not begun")
            time.sleep(0.02)
        return time.perf_counter() - begin_s


def is_ready(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/health/ready", timeout=5) as answer:
            return bool(answer.status == HTTPStatus.OK)
    except OSError:
        return False


def main() -> None:
    parser = command_parser("responder_start", __doc__)
    parser.add_argument("--groups", type=int, nargs="+", default=[100, 100_000], help="groups in state")
    parser.add_argument("--buckets", type=int, default=0, help="group_buckets")
    arguments = parser.parse_args()
    times = f"{'state read in s':>16} {'starts in s':>12} {'by itself in s':>15}"
    print(f"{'groups':>10} {times} {'MiB':>6} {'bytes a group':>14}")
    base_bytes, base_groups = 0, 0
    with EmbeddedKafka() as kafka:
        for groups in arguments.groups:
            with tempfile.TemporaryDirectory() as scratch:
                settings = config(
                    bootstrap_servers=kafka.bootstrap_servers,
                    topic_prefix=f"start-{groups}",
                    responses_partitions=1,
                    responders=True,
                    trigger_interval_ms=TRIGGER_INTERVAL_MS,
                    group_buckets=arguments.buckets,
                    checkpoint=f"{scratch}/checkpoint",
                )
                spark = open_session(settings)
                try:
                    with coordinating(settings, spark) as app:
                        fill(settings, app, groups)
                        read_s, start_s, resident = start(settings, app)
                        alone_s = start_by_itself(settings, Path(scratch))
                finally:
                    spark.stop()
            if not base_groups:
                base_bytes, base_groups = resident, groups
                each = ""
            else:
                each = f"{(resident - base_bytes) / (groups - base_groups):,.0f}"
            times = f"{read_s:16.2f} {start_s:12.2f} {alone_s:15.2f}"
            print(f"{groups:10,} {times} {resident / 2**20:6.0f} {each:>14}")


if __name__ == "__main__":
    main()
