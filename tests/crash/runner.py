"""Real crashes: the coordinator as people run it, on a real broker, killed again and again while it works on a log.

The log is fixed by the seed, its ticks are part of it: so an undisturbed run over the same log is known, and at the end
every output must be there with the same bytes, and Kafka's own tools must read the offsets log that the query wrote.
What responders hand to a gateway on the machine must be the same, also where they are killed before Kafka has it.
It has classic groups, consumer groups, and groups that migrate between the two.
When and whom to kill is chance, by the seed too.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer

from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from schemas.records_file import Record
from streaming.config import StreamingConfig
from streaming.topics import ensure_topics
from tests.crash import processes
from tests.crash.outputs import (
    answers_of_responders,
    count,
    events_of,
    expected_of,
    has_written,
    records_so_far,
    require_same,
    written_of,
)
from tests.crash.promises import require_promises
from tests.crash.told import ToldClients
from tests.offsets_log.readers import require_kafka_reads_as_we_do, require_the_log_tells_the_groups
from tests.streaming.mixed_groups import SETTINGS
from tests.streaming.random_log import make_log
from tests.waiting import wait_until

KINDS = ("driver", "worker", "broker", "responder", "command", "everything")
"""Whom to kill: Spark's JVM, a Python worker, the broker, the responder, the command (Spark's Python side),
or all processes of the app."""
MEANT = frozenset({"driver", "worker", "broker", "responder"})
"""Each of them must have died at least once, where it was meant to."""
REQUESTS_PER_KILL = 90
FOUND_TIMEOUT_S = 60.0
"""A driver or a worker may just be starting.
Where there is none in all that time, everything is killed, and counted so."""
GONE_TIMEOUT_S = 10.0
TIMEOUT_S = 240.0
EXIT_TIMEOUT_S = 90.0


class Kill(NamedTuple):
    """A process that lived, was killed, and was gone."""

    kind: str
    pid: int
    command: str


@dataclass
class Report:
    """What happened."""

    killed: list[Kill] = field(default_factory=list)
    starts: int = 0
    events: int = 0
    outputs: int = 0
    repeated: int = 0
    by_responder: int = 0
    handed_over: int = 0
    duration_s: float = 0.0

    @property
    def kills(self) -> Counter[str]:
        """How many of each kind really died."""
        return Counter(kill.kind for kill in self.killed)

    def __str__(self) -> str:
        kills = ", ".join(f"{number} {kind}" for kind, number in sorted(self.kills.items()))
        return (
            f"{self.kills.total()} kills ({kills}), {self.starts} starts, {self.events} events, "
            f"{self.outputs} outputs as of an "
            f"undisturbed run, {self.repeated} written again, {self.by_responder} by responders, "
            f"{self.handed_over} handed over, {self.duration_s:.0f} s"
        )


class App:
    """`group-coordinator run` as a child process, started again when it ends by itself, as a supervisor does."""

    def __init__(self, config: StreamingConfig, directory: Path, *flags: str) -> None:
        self.starts = 0
        self.log_file = directory / "app.log"
        self._command = [*_command(config), *flags]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        self.starts += 1
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def exit_code(self) -> int | None:
        assert self._process is not None
        return self._process.poll()

    def supervise(self) -> None:
        """Start it again when it has ended. It may only end so after a crash: with exit code 1, or killed."""
        code = self.exit_code()
        if code is not None:
            assert code in (1, -signal.SIGKILL), f"exit code {code}\n{self.said()}"
            output = self.said()
            assert output.count("Traceback (most recent call last)") <= output.count("The query of shard"), (
                f"a bare traceback\n{output}"
            )
            self.start()

    def stop(self) -> int:
        """Ask for the end, as people do. Returns the exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(EXIT_TIMEOUT_S)

    def kill(self) -> None:
        if self._process is not None:
            processes.kill_all(self._process.pid)
            self._process.wait()

    def said(self) -> str:
        """What it printed, from the last start on."""
        text = self.log_file.read_text(errors="replace")
        return text[text.rfind("Starting Spark for") :]


def _command(config: StreamingConfig) -> list[str]:
    flags = {
        "bootstrap-servers": config.bootstrap_servers,
        "checkpoint": config.checkpoint,
        "topic-prefix": config.topic_prefix,
        "responses-partitions": config.responses_partitions,
        "offsets-partitions": config.offsets_partitions,
        "max-events-per-batch": config.max_events_per_batch,
        "shuffle-partitions": config.shuffle_partitions,
        "trigger-interval-ms": 0,
        **{name.replace("_", "-"): getattr(config, name) for name in SETTINGS},
        "master": "local[2]",
        "spark": "spark.driver.memory=512m",
    }
    arguments = [text for name, value in flags.items() for text in (f"--{name}", str(value))]
    program = [sys.executable, "-m", "group_coordinator.command_line.main"]
    return [*program, "run", "--no-ticker", *arguments]


class CrashRun:
    """One run. `directory` keeps the broker's data, the checkpoint and what everybody printed."""

    def __init__(self, directory: Path, *, kills: int, seed: int, report: Callable[[str], None] = print) -> None:
        self._chance = random.Random(f"kills-{seed}")
        self._told = ToldClients(seed)
        self._log = make_log(
            seed, groups=3, mixed_groups=4, requests=REQUESTS_PER_KILL * (kills + 1),
            request_id_of=self._told.request_id_of,
        )  # fmt: skip
        self._kinds = [*KINDS[: min(kills, 4)], *(self._chance.choice(KINDS) for _ in range(kills - 4))]
        self._chance.shuffle(self._kinds)
        self._report = report
        self._directory = directory
        self._kafka = EmbeddedKafka(directory / "kafka")
        self.report = Report(events=len(self._log))

    def run(self) -> Report:
        """Raises AssertionError when anything differs from an undisturbed run."""
        begun_s = time.monotonic()
        with self._kafka, self._told:
            self._config = self._settings()
            ensure_topics(new_admin_client(self._config.client_properties), self._config.topic_settings)
            self._producer = Producer(
                {"log_level": 0, "enable.idempotence": True, "linger.ms": 5, **self._config.client_properties}
            )
            self._app = App(
                self._config, self._directory, "--responder", "--answers-directory", self._told.directory
            )  # fmt: skip
            self._app.start()
            try:
                self._disturb()
                self._append(self._pieces()[-1])
                self._settle()
                assert self._app.stop() == 0, self._app.said()
            finally:
                self._app.kill()
            require_kafka_reads_as_we_do(self._kafka, self._config)
            require_the_log_tells_the_groups(self._config, self._log)
        spared = MEANT.intersection(self._kinds).difference(self.report.kills)
        assert not spared, f"never killed: {', '.join(sorted(spared))}"
        self.report.starts = self._app.starts
        self.report.duration_s = time.monotonic() - begun_s
        return self.report

    def _settings(self) -> StreamingConfig:
        return StreamingConfig(
            bootstrap_servers=self._kafka.bootstrap_servers, checkpoint=str(self._directory / "checkpoint"),
            ticker=False, responses_partitions=8, offsets_partitions=4, shuffle_partitions=2, max_events_per_batch=40,
            **SETTINGS,
        )  # fmt: skip

    def _pieces(self) -> list[list[Record]]:
        size = len(self._log) // (len(self._kinds) + 1) + 1
        return [self._log[start : start + size] for start in range(0, len(self._log), size)]

    def _append(self, records: list[Record]) -> None:
        topic = self._config.topics.events
        for record in records:
            self._producer.produce(topic, key=record.key, value=record.value, partition=0)
        assert self._producer.flush(60) == 0

    def _disturb(self) -> None:
        for number, (kind, piece) in enumerate(zip(self._kinds, self._pieces(), strict=False), start=1):
            self._append(piece)
            moment = self._wait_for_a_moment()
            killed = self._kill(kind)
            self.report.killed.append(killed)
            self._report(f"kill {number} of {len(self._kinds)}: {killed.kind} ({killed.pid}), {moment}")
            self._app.supervise()

    def _wait_for_a_moment(self) -> str:
        """Most kills fall when outputs are being written, some at any moment: in a start, between batches."""
        if self._chance.random() < 0.3:
            delay_s = self._chance.uniform(0, 12)
            deadline = time.monotonic() + delay_s
            while time.monotonic() < deadline:
                self._app.supervise()
                time.sleep(0.1)
            return f"after {delay_s:.1f} s"
        before = self._outputs_of_the_query()
        self._wait(lambda: self._outputs_of_the_query() > before, "no output came")
        if self._chance.random() < 0.5:
            return "while outputs were written"
        delay_s = self._chance.uniform(0, 2)
        time.sleep(delay_s)
        return f"{delay_s:.1f} s after outputs were written"

    def _outputs_of_the_query(self) -> int:
        """Not answers, which a responder writes as well: it would be killed before the query has got anywhere."""
        return records_so_far(self._config, "responses")

    def _kill(self, kind: str) -> Kill:
        """Kill one of a kind, or everything where there is none of it, and see that it is gone."""
        pid = self._find(kind)
        if pid is None:
            kind, pid = "everything", self._app.pid
        killed = Kill(kind, pid, processes.command_of(pid))
        if kind == "broker":
            self._kafka.kill()
        elif kind == "everything":
            self._app.kill()
        else:
            os.kill(pid, signal.SIGKILL)
        self._wait(
            lambda: processes.parent_of(pid) is None,
            f"{killed} still lives",
            supervise=False,
            timeout_s=GONE_TIMEOUT_S,
        )
        if kind == "broker":
            time.sleep(self._chance.uniform(0, 3))
            self._kafka.start()
        elif kind in ("driver", "command"):  # an idle worker is not missed
            self._wait(
                lambda: self._app.exit_code() is not None, f"{kind} was killed and the app goes on", supervise=False
            )
        return killed

    def _find(self, kind: str) -> int | None:
        """Whom to kill. A driver and a worker are waited for, for a while."""
        deadline = time.monotonic() + FOUND_TIMEOUT_S
        while time.monotonic() < deadline:
            self._app.supervise()
            match kind:
                case "broker":
                    pids = [self._kafka.pid]
                case "driver":
                    pids = [processes.driver_of(self._app.pid)]
                case "worker":
                    pids = [*processes.workers_of(self._app.pid)]
                case "responder":
                    pids = [processes.responder_of(self._app.pid)]
                case _:
                    pids = [self._app.pid]
            if pids and pids[0] is not None:
                return self._chance.choice(pids)
            time.sleep(0.05)
        return None

    def _wait(
        self, done: Callable[[], bool], otherwise: str, *, supervise: bool = True, timeout_s: float = TIMEOUT_S
    ) -> None:
        def look() -> bool:
            if done():
                return True
            if supervise:
                self._app.supervise()
            return False

        wait_until(look, timeout_s, lambda: f"{otherwise}\n{self._app.said()}")

    def _wait_for(self, outputs: int) -> None:
        """Until there are so many outputs; there may be a backlog, so as long as more comes."""
        before = 0
        while not has_written(self._config, outputs):
            self._wait(partial(self._has_more, before, outputs), "not all outputs came")
            before = records_so_far(self._config)

    def _has_more(self, than: int, outputs: int) -> bool:
        time.sleep(0.5)
        return records_so_far(self._config) > than or has_written(self._config, outputs)

    def _settle(self) -> None:
        """Until all that an undisturbed run writes is there; then look at all of it."""
        log = events_of(self._config)
        assert [(message.key, message.value) for message in log] == [(record.key, record.value) for record in self._log]
        expected = expected_of(self._config, log)

        self._wait_for(count(expected))
        written = written_of(self._config)
        require_same(written.outputs, expected)
        require_promises(log, written.outputs, self._config)
        self._told.require(expected, self._config.topics.responses)
        self.report.outputs, self.report.repeated = count(expected), written.repeated
        self.report.by_responder = answers_of_responders(self._config)
        self.report.handed_over = len(self._told.answers)
