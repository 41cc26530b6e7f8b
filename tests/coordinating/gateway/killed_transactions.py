"""Exactly once while everything is killed: `python -m tests.coordinating.gateway.killed_transactions [--kills 50]`.

Everything as in service: a broker, `group-coordinator run` with a responder, a relay and a gateway, each a process.
Loops of librdkafka, Java and franz-go, in classic and in consumer groups, consume, transform and produce in
transactions. All the while somebody is killed (kill -9): a loop, the gateway, the relay, the responder, Spark's driver,
a Python worker, the broker, or the coordinator with all that it has started. At the end each record must be in the
output once, which is asked of the broker, read committed. The exit code is 1 where it is not so.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka.admin import NewTopic

from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka, free_port
from tests.coordinating.gateway.commands import Command
from tests.coordinating.gateway.endurance_groups import PARTITIONS, PATIENCE_S, Records
from tests.coordinating.gateway.loops import LoopGroup, compile_loops
from tests.crash import processes

KINDS = ("loop", "gateway", "relay", "responder", "driver", "worker", "broker", "coordinator")
PAUSE_S = 3.0, 10.0
"""From one kill to the next, at the least and at the most."""
BROKER_AWAY_S = 3.0
FOUND_TIMEOUT_S = 120.0


class KilledTransactions:
    """One run."""

    def __init__(self, directory: Path, seed: int, stack: ExitStack) -> None:
        self.killed: Counter[str] = Counter()
        self.records = 0
        """Written for each group."""
        self._chance = random.Random(seed)
        libraries = compile_loops(directory)
        self._kafka = stack.enter_context(EmbeddedKafka(directory / "kafka"))
        where = ("--bootstrap-servers", self._kafka.bootstrap_servers)
        address = f"127.0.0.1:{free_port()}"
        self._run = Command(
            directory / "run.log", "The coordinator runs", "run", *where, "--checkpoint", str(directory / "checkpoint"),
            "--group-initial-rebalance-delay-ms", "0", "--responder", "--spark", "spark.driver.memory=512m",
        )  # fmt: skip
        self._relay = Command(directory / "relay.log", "Relaying", "relay", *where)
        self._gateway = Command(
            directory / "gateway.log", "The gateway is ready", "gateway", *where, "--listen", address, "--transactions"
        )
        for command in (self._run, self._relay, self._gateway):
            stack.callback(command.kill)
            command.start()
        self._loops = [
            LoopGroup(library, self._kafka, address, directory, protocol)
            for library in libraries
            for protocol in ("classic", "consumer")
        ]
        for group in self._loops:
            stack.callback(group.end)
        sources = [group.source for group in self._loops]
        admin = new_admin_client({"bootstrap.servers": self._kafka.bootstrap_servers})  # held: without it no answer
        names = [*sources, *(group.target for group in self._loops)]
        for future in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names]).values():
            future.result(30)
        self._records = Records(self._kafka.bootstrap_servers, sources)

    def live(self, kills: int) -> list[str]:
        """Kill so often, and return what was wrong in the end."""
        kinds = [KINDS[number % len(KINDS)] for number in range(kills)]
        self._chance.shuffle(kinds)
        for number, kind in enumerate(kinds, start=1):
            self._work(self._chance.uniform(*PAUSE_S))
            print(f"{time.strftime('%H:%M:%S')} kill {number} of {kills}: {self._kill(kind)}", flush=True)
        self._work(PAUSE_S[1])
        self._records.stop()
        self.records = self._records.produced
        return [problem for group in self._loops for problem in group.problems(self.records, PATIENCE_S)]

    def _work(self, seconds: float) -> None:
        """Start again what has ended, as a supervisor does."""
        ends_s = time.monotonic() + seconds
        while time.monotonic() < ends_s:
            for group in self._loops:
                group.look()
            for command in (self._run, self._relay, self._gateway):
                if not command.is_running:
                    command.start()
            time.sleep(0.2)

    def _kill(self, kind: str) -> str:
        """Return what was done."""
        what = f"{kind} is killed"
        if kind == "loop":
            what = self._chance.choice(self._loops).disturb(self._chance)
        elif kind == "broker":
            self._kafka.kill()
            time.sleep(self._chance.uniform(0, BROKER_AWAY_S))
            self._kafka.start()
        elif kind in ("gateway", "relay", "coordinator"):
            command = {"gateway": self._gateway, "relay": self._relay, "coordinator": self._run}[kind]
            command.kill()
            command.start()
        else:
            give_up_s = time.monotonic() + FOUND_TIMEOUT_S
            while not (pids := self._of_coordinator(kind)):  # it is just starting
                assert time.monotonic() < give_up_s, f"there is no {kind}"
                self._work(0.5)
            os.kill(self._chance.choice(pids), signal.SIGKILL)
        self.killed[kind] += 1
        return what

    def _of_coordinator(self, kind: str) -> list[int]:
        if kind == "worker":
            return processes.workers_of(self._run.pid)
        find = processes.driver_of if kind == "driver" else processes.responder_of
        pid = find(self._run.pid)
        return [] if pid is None else [pid]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.coordinating.gateway.killed_transactions",
        description="Loops in transactions, while everything is killed.",
    )
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # all that was started ends with us
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="killed-transactions-")))
        run = KilledTransactions(directory, options.seed, stack)
        problems = run.live(options.kills)
    print(f"{run.killed.total()} kills: {dict(run.killed)}; {run.records} records for each group", flush=True)
    for problem in problems:
        print(f"WRONG: {problem}", flush=True)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
