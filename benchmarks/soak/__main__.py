"""How the coordinator lives with members that come and go: memory, state, batch time and disk against time.

    python -m benchmarks.soak --minutes 30 --groups 1000 --members 10

Starts a broker, `group-coordinator run` as people do, and very many members (`population.py`). They crash, leave and
are bounced; groups end for good and others begin. Offsets of ended groups expire after a few minutes, so that state
must shrink again. Samples go to a CSV file while it runs (`--plot-only` draws it once more); at the end the curves are
drawn and must be flat after the warm-up: exit code 1 if one is not (`report.py` says what flat is), if the run was too
short to tell, or if a member was expired that had not crashed."""

from __future__ import annotations

import argparse
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from confluent_kafka.admin import NewTopic

from benchmarks.arguments import command_parser
from benchmarks.soak.measures import Measures, Sample, SampleFile, read_samples
from benchmarks.soak.population import Pace, Population
from benchmarks.soak.report import TooFewSamples, curves, lines, plot, problems
from group_coordinator.coordinating.members.host import MemberHost
from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka, free_port

SAMPLE_EVERY_S = 10.0
STEP_S = 1.0
TOPIC = "soak-data"
READY_TIMEOUT_S = 120.0
RETENTION_MINUTES = 5


def main() -> None:
    options = _options()
    directory: Path = options.directory or Path(tempfile.mkdtemp(prefix="soak-"))
    directory.mkdir(parents=True, exist_ok=True)
    samples_file = directory / "samples.csv"
    pace = Pace(options.groups, options.members, options.heartbeat_interval, options.ramp * 60, options.churn)
    failures: list[str] = []
    if not options.plot_only:
        print(f"Samples and logs: {directory}", flush=True)
        failures = soak(directory, pace, options.minutes * 60, SampleFile(samples_file))
    samples = read_samples(samples_file)
    warm_up_s = options.warm_up * 60
    title = (
        f"{pace.groups:,} groups of {pace.members} members, a heartbeat every {pace.heartbeat_interval_s:g} s, "
        f"{pace.churn_per_minute * pace.groups:g} disturbances a minute"
    )
    plot(samples, title, warm_up_s, options.svg or directory / "soak.svg")
    try:
        all_curves = curves(samples, warm_up_s)
        print("\n".join(lines(all_curves)))
        failures += problems(all_curves)
    except TooFewSamples as problem:
        failures.append(str(problem))
    if failures:
        sys.exit("; ".join(failures))
    print("All curves are flat.")


def _options() -> argparse.Namespace:
    parser = command_parser("soak", __doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--members", type=int, default=10, help="of each group")
    parser.add_argument(
        "--heartbeat-interval",
        type=float,
        default=30,
        help="seconds between two heartbeats; a session is three of them (default 30)",
    )
    parser.add_argument(
        "--churn", type=float, default=0.03, help="which share of the groups is disturbed in a minute (default 0.03)"
    )
    parser.add_argument("--ramp", type=float, default=4, help="minutes in which the groups come to be (default 4)")
    parser.add_argument(
        "--warm-up", type=float, default=10, help="minutes before which nothing needs to be flat (default 10)"
    )
    parser.add_argument(
        "--directory", type=Path, help="where samples, logs and data go (default: a temporary one, kept)"
    )
    parser.add_argument("--svg", type=Path, help="where the picture goes (default: into the directory)")
    parser.add_argument("--plot-only", action="store_true", help="draw the samples of an earlier run in --directory")
    return parser.parse_args()


def soak(directory: Path, pace: Pace, duration_s: float, file: SampleFile) -> list[str]:
    """Run it. Returns what went wrong."""
    port, local = free_port(), directory / "local"
    with EmbeddedKafka(directory / "kafka", heap_mb=512) as kafka, (directory / "coordinator.log").open("wb") as log:
        admin = new_admin_client({"bootstrap.servers": kafka.bootstrap_servers})
        for future in admin.create_topics([NewTopic(TOPIC, 2 * pace.members, 1)]).values():
            future.result(30)
        coordinator = subprocess.Popen(
            [
                sys.executable, "-m", "group_coordinator.command_line.main", "run", "--bootstrap-servers",
                kafka.bootstrap_servers,
                "--checkpoint", str(directory / "checkpoint"), "--metrics-port", str(port), "--responses-partitions",
                "1",
                "--offsets-retention-minutes", str(RETENTION_MINUTES), "--offsets-retention-check-interval-ms", "60000",
                "--spark", "spark.driver.memory=1g", "--spark", f"spark.local.dir={local}",
            ],
            stdout=log, stderr=log, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            _wait_until_ready(coordinator, port, directory)
            measures = Measures(coordinator.pid, port, directory / "checkpoint", local)
            with MemberHost(kafka.bootstrap_servers, client_properties={"log_level": "0"}) as host:
                failures = _live(Population(host, pace, TOPIC), measures, file, duration_s, coordinator)
            coordinator.send_signal(signal.SIGTERM)
            if coordinator.wait(120) != 0:
                failures.append(f"the coordinator ended with exit code {coordinator.returncode}")
            return failures
        finally:
            if coordinator.poll() is None:
                coordinator.kill()
                coordinator.wait()


def _live(
    population: Population,
    measures: Measures,
    file: SampleFile,
    duration_s: float,
    coordinator: subprocess.Popen[bytes],
) -> list[str]:
    began_s = sampled_s = time.monotonic()
    crashed = expired = 0
    while (age_s := time.monotonic() - began_s) < duration_s:
        step_s = time.monotonic()
        population.step()
        if coordinator.poll() is not None:
            return [f"the coordinator ended by itself with exit code {coordinator.returncode}"]
        if step_s - sampled_s >= SAMPLE_EVERY_S:
            sampled_s = step_s
            sample: Sample = {
                "t_s": age_s,
                **measures.sample(),
                "hosted": population.member_count,
                "settled": population.stable_count,
            }
            expired += int(sample["expired"])
            file.add(sample)
            print(_line(sample, population), flush=True)
        time.sleep(max(0.0, STEP_S - (time.monotonic() - step_s)))
    crashed = population.disturbed["crash"]
    failures = [f"{count} members ended with {name}" for name, count in population.failures.items()]
    if expired > crashed:
        failures.append(f"{expired} members were expired, and only {crashed} had crashed")
    return failures


def _line(sample: Sample, population: Population) -> str:
    disturbed = ", ".join(f"{count} {kind}" for kind, count in sorted(population.disturbed.items()))
    return (
        f"{sample['t_s'] / 60:6.1f} min  {sample['hosted']:.0f} members ({sample['settled']:.0f} settled, coordinator: "
        f"{sample['members']:.0f} in {sample['groups']:.0f})  batch {sample['batch_s']:.2f} s  answer "
        f"{sample['heartbeat_answer_s']:.2f} s  {sample['events'] / SAMPLE_EVERY_S:.0f} events/s  JVM "
        f"{sample['driver_mib']:.0f}  workers {sample['workers_mib']:.0f}  checkpoint {sample['checkpoint_mib']:.0f} "
        f"MiB  {disturbed}"
    )


def _wait_until_ready(coordinator: subprocess.Popen[bytes], port: int, directory: Path) -> None:
    deadline_s = time.monotonic() + READY_TIMEOUT_S
    while time.monotonic() < deadline_s:
        if coordinator.poll() is not None:
            sys.exit((directory / "coordinator.log").read_text(errors="replace"))
        with socket.socket() as probe:
            text = (directory / "coordinator.log").read_text(errors="replace")
            if "The coordinator runs" in text and probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.5)
    sys.exit(f"The coordinator did not become ready within {READY_TIMEOUT_S:g} s.")


if __name__ == "__main__":
    main()
