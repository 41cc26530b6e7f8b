"""A real Apache Kafka broker as a child process: one KRaft node, up in a few seconds, gone with its parent.

    with EmbeddedKafka() as kafka:
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
"""

from __future__ import annotations

import base64
import errno
import os
import random
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException

from group_coordinator.coordinating.jars.class_archives import class_archive_options
from group_coordinator.coordinating.jars.java import SHORT_LIVED, find_java
from group_coordinator.coordinating.jars.resolving import broker_jars, jars_directory
from group_coordinator.ground.errors import ExpectedError
from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.proving.embedded_kafka import broker_properties

_HOST = "127.0.0.1"
_START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 20.0
_PORTS = range(20_000, 32_000)
_PORT_ATTEMPTS = 3
_LOG_LINES_SHOWN = 25
_STARTED = re.compile(r"Kafka Server started|\[KafkaServer id=\d+\] started")
"""The second is that of a broker that has its cluster from ZooKeeper."""
_random = random.SystemRandom()
"""Two processes whose `random` has the same seed must not choose the same ports."""

_JVM_OPTIONS = (*SHORT_LIVED, "-Djava.awt.headless=true", "-Dfile.encoding=UTF-8")
_LOG_OPTIONS = (
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=info",
    # At info these print every setting, hundreds of lines, at each start.
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config=warn",
)

# The first process of the broker's group: it waits for the end of its input, which comes when we close it or die, by
# whatever signal, and then ends the group. (PR_SET_PDEATHSIG would do on Linux only, and would end the broker with the
# thread that started it.)
# Who asks for our end may ask all of our processes: neither the guard nor the broker hears it, since what we have begun
# may need the broker for its end.
_GUARD = ("/bin/sh", "-c", "trap '' HUP INT TERM; read _; kill -9 0")
_STOP_SIGNAL = signal.SIGHUP
"""What the broker hears. Signals that a process ignores stay ignored in what it executes, in a JVM, too."""
_DEAF = (
    sys.executable, "-I", "-S", "-c",
    (
        "import os, sys; from signal import *; signal(SIGINT, SIG_IGN); signal(SIGTERM, SIG_IGN); signal(SIGHUP, "
        "SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
    ),
)  # fmt: skip


_FEATURES = Path("__cluster_metadata-0", "00000000000000000000-0000000000.checkpoint")
"""Where Kafka's tool, from 4.4 on, writes the features of a new cluster (KIP-584), which depend on Kafka's version
alone."""
_OF_THE_STORAGE = ("node.id", "process.roles", "controller.", "log.dir", "metadata.", "unstable.")
"""How names of settings begin with which a storage is another, or may be."""


class EmbeddedKafkaError(ExpectedError):
    """The broker did not start, or ended by itself. The message has what its log says, and the log's path."""


class EmbeddedKafka:
    """A single-node Apache Kafka (KRaft) that lives as a child process. A context manager.

    `data`: directory of its log, its settings and its data. One that is given survives; a broker started on it again
    keeps its cluster id and, unless told otherwise, its port. Without one a temporary directory is used and deleted
    by `close()`.
    `port`: of the PLAINTEXT listener; a free one by default.
    `properties`: further broker settings. `listeners`, `advertised.listeners` and `listener.security.protocol.map` are
    added to ours, all others replace ours. Topics are never created by the broker on its own (a mistyped name would
    pass unseen) unless `auto.create.topics.enable` says so.
    `java_options`: of the broker's JVM, besides ours.
    `jars`: the class path, if it is to be another Kafka than ours.
    """

    def __init__(
        self,
        data: Path | str | None = None,
        *,
        port: int | None = None,
        heap_mb: int = 320,
        properties: Mapping[str, str] | None = None,
        java_options: Sequence[str] = (),
        jars: Sequence[Path] | None = None,
    ) -> None:
        self._port_wanted = port
        self._port: int | None = None
        self._heap_mb = heap_mb
        self._properties = dict(properties or {})
        self._java_options = java_options
        self._jars = jars
        self._broker: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._log_start = 0
        self._delete_data: weakref.finalize[..., EmbeddedKafka] | None = None
        if data is None:
            self.data_directory = Path(tempfile.mkdtemp(prefix="embedded-kafka-"))
            self._delete_data = weakref.finalize(self, shutil.rmtree, self.data_directory, ignore_errors=True)
        else:
            self.data_directory = Path(data).absolute()

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of the broker. Known once it was started; kept over `stop` and `kill`."""
        return f"{_HOST}:{self.port}"

    @property
    def port(self) -> int:
        """The port of the PLAINTEXT listener. Raises EmbeddedKafkaError before the first start."""
        if self._port is None:
            raise EmbeddedKafkaError("The broker was not started yet: its port is not known.")
        return self._port

    @property
    def cluster_id(self) -> str:
        """The cluster id that the storage was formatted with. Raises EmbeddedKafkaError before the first start."""
        cluster_id = broker_properties.read(self._storage / "meta.properties").get("cluster.id")
        if cluster_id is None:
            raise EmbeddedKafkaError("The broker was not started yet: its storage has no cluster id.")
        return cluster_id

    @property
    def log_file(self) -> Path:
        """The broker's output."""
        return self.data_directory / "server.log"

    @property
    def pid(self) -> int | None:
        """The process id of the running broker; None when it does not run."""
        return self._broker.pid if self._broker is not None and self.running else None

    @property
    def running(self) -> bool:
        """True while the broker's process runs."""
        return self._broker is not None and self._broker.poll() is None

    def check(self) -> None:
        """Raise EmbeddedKafkaError, with what its log says, if the broker was started and ended by itself."""
        if self._broker is not None and self._guard is not None and self._broker.poll() is not None:
            raise self._failure(f"The broker ended by itself with exit code {self._broker.returncode}.")

    def start(self) -> None:
        """Start the broker and return when it answers; nothing to do when it runs.

        Raises EmbeddedKafkaError when it does not come up, and what `broker_jars` raises.
        """
        if self.running:
            return
        self._end_group()
        self.data_directory.mkdir(parents=True, exist_ok=True)
        port = self._port or self._port_wanted or self._port_kept()
        for attempt in range(1, _PORT_ATTEMPTS + 1):
            self._port = port or free_port()
            self._refuse_taken_port()
            try:
                return self._start_once()
            except EmbeddedKafkaError as problem:
                self.kill()
                # Between our look for free ports and the broker's start somebody else may have taken one.
                if attempt == _PORT_ATTEMPTS or "Address already in use" not in str(problem):
                    raise
            except BaseException:
                self.kill()
                raise

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> bool:
        """Stop the broker in order, and by SIGKILL when that takes longer than `timeout_s`.

        Data stays. False: it was killed.
        """
        ended = True
        if self._broker is not None and self.running:
            self._broker.send_signal(_STOP_SIGNAL)
            try:
                self._broker.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self._broker.kill()
                ended = False
        self._end_group()
        return ended

    def kill(self) -> None:
        """End the broker at once by SIGKILL, as a crash would. Data stays; `start` brings it back on the same port."""
        if self._broker is not None and self.running:
            self._broker.kill()
        self._end_group()

    def close(self) -> None:
        """Stop the broker, and delete its data where the directory is a temporary one."""
        self.stop()
        if self._delete_data is not None:
            self._delete_data()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _storage(self) -> Path:
        return self.data_directory / "logs"

    @property
    def _properties_file(self) -> Path:
        return self.data_directory / "server.properties"

    def _port_kept(self) -> int | None:
        listeners = broker_properties.read(self._properties_file).get("listeners")
        return int(listeners.split(",")[0].rsplit(":", 1)[1]) if listeners else None

    def _refuse_taken_port(self) -> None:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((_HOST, self.port))
            except OSError as problem:
                raise EmbeddedKafkaError(
                    f"The broker cannot listen on {self.bootstrap_servers} ({problem.strerror}). "
                    "End what uses that port, or choose another one."
                ) from problem

    def _start_once(self) -> None:
        controller_port = free_port(but=self.port)
        settings = broker_properties.server(_HOST, self.port, controller_port, self._storage, self._properties)
        broker_properties.write(self._properties_file, settings)
        self._log_start = self.log_file.stat().st_size if self.log_file.exists() else 0
        if not (self._storage / "meta.properties").exists():
            self._format_storage()
        self._spawn()
        self._wait_until_ready(time.monotonic() + _START_TIMEOUT_S)

    def _java(self, *options: str) -> list[str]:
        class_path = os.pathsep.join(map(str, broker_jars() if self._jars is None else self._jars))
        return [
            str(find_java()),
            *_JVM_OPTIONS,
            *(class_archive_options("kafka") if self._jars is None else ()),
            *_LOG_OPTIONS,
            *options,
            "-cp",
            class_path,
        ]

    def _format_storage(self) -> None:
        """Kafka's tool formats a storage. What it writes beside the ids is kept with the jars: the next one needs no
        JVM for it."""
        cluster_id, kept = _new_id(), jars_directory() / _FEATURES.name
        is_ours = self._jars is None and not any(name.startswith(_OF_THE_STORAGE) for name in self._properties)
        if is_ours and kept.exists():
            (self._storage / _FEATURES).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(kept, self._storage / _FEATURES)
            ids = {"cluster.id": cluster_id, "node.id": "1", "directory.id": _new_id(), "version": "1"}
            broker_properties.write(self._storage / "meta.properties", ids)
            return
        tool = [*self._java("-Xmx128m"), "kafka.tools.StorageTool", "format"]
        command = [*tool, "--cluster-id", cluster_id, "--config", str(self._properties_file)]
        with self.log_file.open("ab") as log:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        if done.returncode != 0:
            raise self._failure("The broker's storage could not be formatted.")
        if is_ours:
            with suppress(OSError):  # nobody has to be able to write beside the jars
                written = shutil.copyfile(self._storage / _FEATURES, f"{kept}.{os.getpid()}")
                os.replace(written, kept)

    def _spawn(self) -> None:
        command = [*self._java(f"-Xmx{self._heap_mb}m", *self._java_options), "kafka.Kafka", str(self._properties_file)]
        self._guard = subprocess.Popen(_GUARD, stdin=subprocess.PIPE, process_group=0)
        with self.log_file.open("ab") as log:
            self._broker = subprocess.Popen(
                [*_DEAF, *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=self._guard.pid
            )

    def _wait_until_ready(self, deadline: float) -> None:
        while time.monotonic() < deadline:
            self.check()
            # A look at the port first: librdkafka waits longer and longer between its attempts to connect. A broker
            # opens its listeners one by one: it may answer at one and end because another one's port is taken.
            if _listens(_HOST, self.port) and _STARTED.search(self._log()) and self._answers():
                return
            time.sleep(0.05)
        raise self._failure(f"The broker did not answer within {_START_TIMEOUT_S:g} s.")

    def _answers(self) -> bool:
        admin = new_admin_client({"bootstrap.servers": self.bootstrap_servers})
        try:
            metadata = admin.list_topics(timeout=2.0)
        except KafkaException:
            return False
        return bool(metadata.brokers) and metadata.cluster_id == self.cluster_id

    def _log(self) -> str:
        """Return the broker's output since its last start."""
        with self.log_file.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    def _failure(self, what: str) -> EmbeddedKafkaError:
        lines = _telling_lines(self._log())
        # A temporary directory will be gone when somebody reads this.
        where = "" if self._delete_data else f" ({self.log_file})"
        return EmbeddedKafkaError("\n".join([f"{what} Its log{where}:", *(f"  {line}" for line in lines)]))

    def _end_group(self) -> None:
        """Close the guard's input, which ends whatever is left of the group, and wait for both."""
        if self._guard is not None and self._guard.stdin is not None:
            self._guard.stdin.close()
            self._guard.wait()
        if self._broker is not None:
            self._broker.wait()
        self._guard = None


def _new_id() -> str:
    """Return an id as Kafka's own. The first byte keeps it from beginning with a dash, which the tool would take for
    an option."""
    return base64.urlsafe_b64encode(b"\x00" + secrets.token_bytes(15)).rstrip(b"=").decode()


def _telling_lines(log: str) -> list[str]:
    """Return the lines from the last error on, without stack frames; without an error, the last lines."""
    lines = [line for line in log.splitlines() if not line.startswith("\tat ")]
    errors = [number for number, line in enumerate(lines) if " ERROR " in line]
    start = errors[-1] if errors else max(0, len(lines) - _LOG_LINES_SHOWN)
    return lines[start : start + _LOG_LINES_SHOWN]


def free_port(host: str = _HOST, but: int | None = None) -> int:
    """Return a TCP port of `host` that is free at this moment and is not `but`.

    It lies below those that a system gives to outgoing connections (Linux from 32,768 on): nobody gets it by chance
    before it is used. Raises OSError where this machine has no such host.
    """
    while True:
        port = _random.choice(_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind((host, port))
            except OSError as problem:
                if problem.errno != errno.EADDRINUSE:
                    raise
            else:
                if port != but:
                    return port


def _listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=1.0).close()
    except OSError:
        return False
    return True
