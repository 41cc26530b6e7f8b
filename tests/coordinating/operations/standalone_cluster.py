"""A standalone Spark cluster on this machine, and our wheel as it is shipped to it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pyspark

from group_coordinator.proving.embedded_kafka.broker import free_port
from tests.waiting import wait_until

ROOT = Path(__file__).parents[3]
SPARK = Path(pyspark.__file__).parent
START_TIMEOUT_S = 120.0


class Cluster:
    """A master and its workers, one core each."""

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self._directory, self.environment = directory, environment
        self._web_port = free_port()
        self.url = f"spark://127.0.0.1:{free_port()}"

    def state(self) -> dict[str, Any]:
        """What the master says of itself."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._web_port}/json/", timeout=5) as answer:
            state: dict[str, Any] = json.load(answer)
        return state

    @contextmanager
    def running(self, workers: int) -> Iterator[Cluster]:
        port = self.url.rpartition(":")[2]
        master = ("master.Master", "--host", "127.0.0.1", "--port", port, "--webui-port", str(self._web_port))
        with ExitStack() as stack:
            stack.enter_context(self._process("master", *master))
            for number in range(workers):
                directories = (
                    "--host", "127.0.0.1", "--webui-port", "0", "--work-dir", str(self._directory / f"work-{number}"),
                )  # fmt: skip
                stack.enter_context(
                    self._process(f"worker-{number}", "worker.Worker", "-c", "1", "-m", "700M", *directories, self.url)
                )
            self._wait_for_workers(workers)
            yield self

    def _wait_for_workers(self, number: int) -> None:
        def are_alive() -> bool:
            try:
                return bool(self.state()["aliveworkers"] == number)
            except (OSError, ValueError):  # not there yet, or a page that says so
                return False

        wait_until(are_alive, START_TIMEOUT_S, f"the cluster did not start: see {self._directory}", interval_s=0.3)

    def _process(self, name: str, role: str, *arguments: str) -> Any:
        command = [str(SPARK / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}", *arguments]
        return process(self._directory / f"{name}.log", command, self.environment, self._directory)


@contextmanager
def process(log: Path, command: list[str], environment: dict[str, str], cwd: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a session of its own, which ends with all that it started."""
    with log.open("wb") as out:
        started = subprocess.Popen(command, stdout=out, stderr=out, env=environment, cwd=cwd, start_new_session=True)
        try:
            yield started
        finally:
            with suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGKILL)
            started.wait()


def environment_without_us(directory: Path) -> dict[str, str]:
    """Variables for processes whose Python has our dependencies, but not our packages: they must be shipped.

    Without `site`, Python does not see that the project is installed as editable.
    """
    python = directory / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK", "PYTHON"))
    }
    return {
        **environment,
        "PYTHONPATH": sysconfig.get_path("purelib"),
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": str(python),
        "SPARK_HOME": str(SPARK),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "192m",
    }


def build_wheel(directory: Path) -> Path:
    """The project's wheel. Raises CalledProcessError where it cannot be built."""
    source = directory / "source"
    shutil.copytree(
        ROOT,
        source,
        ignore=shutil.ignore_patterns(".*", "tests", "benchmarks", "*.egg-info", "__pycache__", "build", "dist"),
    )
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(directory), str(source)]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = directory.glob("group_coordinator-*.whl")
    return wheel
