"""What a coordinator costs at rest: CPU of its processes, with one shard and no groups.

    python -m benchmarks.at_rest [--warm 180] [--seconds 60] [--tick-interval-ms 500] [--setups responder query]
        [--write]

`group-coordinator run --embedded` as users run it: with a gateway and a responder, and by itself. Each is measured
twice: while nobody writes, and while one simple consumer speaks every five seconds, so that the log is not at rest and
gets all its ticks. The ratio is between the two. In the first minutes much of it is the JVM's compiler; the broker is
left out of the sum. With a responder the first request after a minute of rest is timed, too (`first_request`).
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import threading
import time
from argparse import Namespace
from collections import Counter
from pathlib import Path

from confluent_kafka import Producer

from benchmarks.arguments import command_parser
from benchmarks.document import Printed, table
from benchmarks.first_request import measure_first_requests
from benchmarks.process_times import CpuTimes, cpu_times
from group_coordinator.proving.embedded_kafka.broker import free_port
from schemas.events import encode_request_event
from schemas.messages import HeartbeatRequest
from streaming.clock import REST_AFTER_MS

SPEAKS_EVERY_S = 5.0
KINDS = ("driver", "JVM", "Python workers", "responder", "broker")
SETUPS = {"responder": "with responder and gateway", "query": "alone"}
Shares = Counter[str]
"""Percent of a core, by kind."""


def start(directory: Path, port: int, tick_interval_ms: int, *flags: str) -> subprocess.Popen[bytes]:
    command = [
        sys.executable, "-m", "group_coordinator.command_line.main", "run", "--embedded", "--embedded-port", str(port),
        "--embedded-data", str(directory),
        "--tick-interval-ms", str(tick_interval_ms), *flags,
    ]  # fmt: skip
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)


def speak(port: int, stop: threading.Event) -> None:
    """A member that nobody knows heartbeats: it changes nothing."""
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0})
    heartbeat = HeartbeatRequest(group_id="unknown", generation_id=1, member_id="m")
    while not stop.wait(SPEAKS_EVERY_S):
        value = encode_request_event(
            "Heartbeat", 4, heartbeat, request_id="r", reply_partition=0, client_id="benchmark"
        )
        producer.produce("coordinator.events", key=b"unknown", value=value, partition=0)
        producer.flush()


def kind_of(process: int, driver: int) -> str:
    """Return the process's kind, one of `KINDS`."""
    if process == driver:
        return "driver"
    command = Path(f"/proc/{process}/cmdline").read_bytes()
    if b"kafka.Kafka" in command:
        return "broker"
    if b"group_coordinator.coordinating.responder" in command:
        return "responder"
    return "JVM" if b"java" in command.split(b"\0")[0] else "Python workers"


def shares(before: CpuTimes, after: CpuTimes, seconds: float) -> Shares:
    """Percent of a core, by kind."""
    percents: Shares = Counter()
    for process, times in after.times.items():
        used_ms = times.sum_ms - before.sum_of(process, times.began)
        percents[kind_of(process, after.process)] += used_ms / seconds / 10  # type: ignore[assignment]
    return percents


def measure(process: subprocess.Popen[bytes], seconds: float) -> Shares:
    before, began_s = cpu_times(process.pid), time.monotonic()
    time.sleep(seconds)
    if process.poll() is not None:
        raise RuntimeError("the coordinator has ended")
    return shares(before, cpu_times(process.pid), time.monotonic() - began_s)


def measure_setup(setup: str, arguments: Namespace, say: Printed) -> list[Shares]:
    """Return what it costs at rest, and when somebody speaks. Say how the first request after a rest is answered."""
    port, gateway, stop = free_port(), f"127.0.0.1:{free_port()}", threading.Event()
    flags = ("--gateway", gateway) if setup == "responder" else ()
    with tempfile.TemporaryDirectory() as directory:
        process = start(Path(directory), port, arguments.tick_interval_ms, *flags)
        try:
            time.sleep(warm_s(arguments))
            at_rest = measure(process, arguments.seconds)
            speaker = threading.Thread(target=speak, args=(port, stop), daemon=True)
            speaker.start()
            time.sleep(2 * SPEAKS_EVERY_S)
            spoken_to = measure(process, arguments.seconds)
            stop.set()
            speaker.join()
            if flags:
                say(str(measure_first_requests(f"127.0.0.1:{port}", gateway)))
                say()
        finally:
            stop.set()
            process.send_signal(signal.SIGTERM)
            process.wait(120)
    return [at_rest, spoken_to]


def warm_s(arguments: Namespace) -> float:
    """Return how long it runs before it is measured: it has to be at rest."""
    return max(float(arguments.warm), REST_AFTER_MS / 1_000 + 20)


def show(say: Printed, shares_of: dict[str, list[Shares]]) -> None:
    columns = [shares for of_setup in shares_of.values() for shares in of_setup]
    titles = [
        f"{SETUPS[setup]}: {when}" for setup in shares_of for when in ("nobody writes", "somebody speaks now and then")
    ]
    rows = [(kind, *(f"{column[kind]:.1f}" for column in columns)) for kind in KINDS]
    sums = [sum(column.values()) - column["broker"] for column in columns]
    rows.append(("all but the broker", *(f"{total:.1f}" for total in sums)))
    say(table(("percent of a core", *titles), rows))


def main() -> None:
    parser = command_parser("at_rest", __doc__)
    parser.add_argument(
        "--warm", type=float, default=180, metavar="SECONDS", help="how long it runs before it is measured (180)"
    )
    parser.add_argument("--seconds", type=float, default=60, help="of each measurement (60)")
    parser.add_argument("--tick-interval-ms", type=int, default=500)
    parser.add_argument("--setups", nargs="+", choices=SETUPS, default=list(SETUPS), help="what is run, one by one")
    parser.add_argument("--write", action="store_true", help="into docs/performance.md")
    arguments = parser.parse_args()
    say = Printed()
    shares_of = {setup: measure_setup(setup, arguments, say) for setup in arguments.setups}
    show(say, shares_of)
    say()
    say(f"{warm_s(arguments):.0f} s after the start.")
    if arguments.write:
        say.write_section("at_rest", markdown=True)


if __name__ == "__main__":
    main()
