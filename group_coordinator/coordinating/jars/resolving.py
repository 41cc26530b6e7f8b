"""The jars beyond those of the PySpark wheel: Spark's Kafka connector, Delta, the Kafka broker and its tools.

They are declared in `ivy.xml` and resolved once, by the Apache Ivy that the wheel carries, into a cache directory:
`~/.cache/group-coordinator/jars-<hash of ivy.xml>`. `python -m group_coordinator.coordinating.jars` does it ahead of
time.

Environment: GROUP_COORDINATOR_CACHE names another cache directory; GROUP_COORDINATOR_IVY_SETTINGS an
`ivysettings.xml`, for instance of a company's own mirror, to be used instead of Ivy's default (Maven Central).
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from group_coordinator.coordinating.jars.java import find_java
from group_coordinator.ground.errors import ExpectedError

_LINE_INTERVAL_S = 5.0


class JarsProgress:
    """Reads Ivy's output line by line and says now and then how far it is: first each library is described, then
    downloaded."""

    def __init__(self, jars_expected: int, what: str = "Spark's Kafka connector, Delta, Kafka") -> None:
        self._jars_expected, self._what = jars_expected, what
        self._found = self._downloaded = 0
        self._started_s = self._line_due_s = 0.0

    def begin(self) -> None:
        """Say what is resolved."""
        self._started_s = time.monotonic()
        self._line_due_s = self._started_s + _LINE_INTERVAL_S
        self.say(f"Resolving {self._jars_expected} jars ({self._what}), once: about a minute and 70 MB.")

    def follow(self, line: str) -> None:
        """Take one line of Ivy's output."""
        self._found += re.match(r"\s+found \S+#\S+;\S+ in ", line) is not None
        self._downloaded += line.lstrip().startswith("[SUCCESSFUL")
        if time.monotonic() >= self._line_due_s:
            self._line_due_s = time.monotonic() + _LINE_INTERVAL_S
            self.say(
                f"  {self._found} of {self._jars_expected} jars described, {self._downloaded} downloaded, "
                f"{self._elapsed_s()} s"
            )

    def finish(self, jars: int, size_bytes: int, directory: Path) -> None:
        """Say what was resolved, how long it took and where it lies."""
        self.say(f"Resolved {jars} jars ({size_bytes / 1e6:.0f} MB) in {self._elapsed_s()} s into {directory}")

    def say(self, text: str) -> None:
        """Print one plain line."""
        sys.stderr.write(f"{text}\n")

    def _elapsed_s(self) -> int:
        return round(time.monotonic() - self._started_s)


IVY_FILE = Path(__file__).with_name("ivy.xml")
CONFIGURATIONS = ("spark", "broker", "tools")

# What the progress is measured against; a test compares it with what was resolved.
JARS_EXPECTED = 58

_TIMEOUT_MS = 60_000


class JarsError(ExpectedError):
    """The jars could not be resolved. The message names the cause, the remedy and the log."""


def spark_jars() -> list[Path]:
    """Return the value of `spark.jars`: the Kafka connector and Delta. Resolves when the cache is empty.

    Raises JarsError or java.JavaError.
    """
    return jars_of("spark")


def broker_jars() -> list[Path]:
    """Return the class path of the embedded Kafka broker and of Kafka's Java clients. Raises as `spark_jars`."""
    return jars_of("broker")


def tools_jars() -> list[Path]:
    """Return the class path of Kafka's command-line tools (`org.apache.kafka.tools.*`). Raises as `spark_jars`."""
    return jars_of("tools") + jars_of("broker")


def jars_directory() -> Path:
    """Return the directory of the resolved jars, one for each configuration of `ivy.xml`. It need not exist yet."""
    root = os.environ.get("GROUP_COORDINATOR_CACHE")
    cache = Path(root).expanduser() if root else Path.home() / ".cache" / "group-coordinator"
    return cache.absolute() / f"jars-{hashlib.sha256(IVY_FILE.read_bytes()).hexdigest()[:12]}"


def resolve_jars() -> Path:
    """Resolve the jars unless they are in the cache, with progress on standard error; return `jars_directory()`.

    Raises JarsError or java.JavaError.
    """
    return resolve(IVY_FILE, CONFIGURATIONS, jars_directory(), JarsProgress(JARS_EXPECTED))


def resolve(ivy_file: Path, configurations: Sequence[str], directory: Path, progress: JarsProgress) -> Path:
    """Resolve what an `ivy.xml` declares into a directory, unless it is there; return the directory.

    The directory appears by one rename when all is in it, so a killed process leaves no half cache. Several processes
    at once are safe: one resolves, the others wait for it. Raises JarsError or java.JavaError.
    """
    if not directory.exists():
        try:
            directory.parent.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise JarsError(
                f"The cache directory {directory.parent} cannot be made ({problem.strerror}). "
                "Name another one by GROUP_COORDINATOR_CACHE."
            ) from problem
        with _lock(directory.with_name(directory.name + ".lock"), progress) as lock:
            if not directory.exists():
                _resolve(directory, lock, progress, ["-ivy", str(ivy_file), "-confs", *configurations])
    return directory


def jars_of(configuration: str) -> list[Path]:
    """Return the jars of one configuration of `ivy.xml`. Raises as `spark_jars`."""
    return sorted((resolve_jars() / configuration).glob("*.jar"))


@contextmanager
def _lock(path: Path, progress: JarsProgress) -> Iterator[IO[str]]:
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.say("Another process is resolving the jars; waiting for it.")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock


def _resolve(directory: Path, lock: IO[str], progress: JarsProgress, declared: Sequence[str]) -> None:
    """Let Ivy fill a directory beside the final one, then rename it. What a killed run downloaded is used again."""
    unfinished = directory.with_name(directory.name + ".unfinished")
    log = directory.with_name(directory.name + ".log")
    shutil.rmtree(unfinished / "jars", ignore_errors=True)
    command = _ivy_command(unfinished, declared)
    progress.begin()
    with log.open("w") as log_file:
        # The child holds the lock too: should this process be killed, nobody else starts before Ivy has ended.
        ivy = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            pass_fds=[lock.fileno()],
        )
        try:
            assert ivy.stdout is not None
            for line in ivy.stdout:
                log_file.write(line)
                progress.follow(line)
            status = ivy.wait()
        except BaseException:
            ivy.kill()
            ivy.wait()
            raise
    if status != 0:
        raise JarsError(_failure(log.read_text(), log))
    (unfinished / "jars").rename(directory)
    shutil.rmtree(unfinished, ignore_errors=True)
    jars = list(directory.glob("*/*.jar"))
    progress.finish(len(jars), sum(jar.stat().st_size for jar in jars), directory)


def _ivy_command(unfinished: Path, declared: Sequence[str]) -> list[str]:
    command = [
        str(find_java()),
        # Neither sources nor documentation: Ivy would ask for both of every module.
        "-Divy.maven.lookup.sources=false",
        "-Divy.maven.lookup.javadoc=false",
        f"-Dsun.net.client.defaultConnectTimeout={_TIMEOUT_MS}",
        f"-Dsun.net.client.defaultReadTimeout={_TIMEOUT_MS}",
        "-jar",
        str(max(pyspark_jars_directory().glob("ivy-*.jar"))),
    ]
    settings = os.environ.get("GROUP_COORDINATOR_IVY_SETTINGS")
    if settings:
        command += ["-settings", settings]
    pattern = "[conf]/[artifact]-[revision](-[classifier]).[ext]"
    command += [*declared, "-cache", str(unfinished / "downloads")]
    return [*command, "-types", "jar", "bundle", "-retrieve", f"{unfinished}/jars/{pattern}"]


def pyspark_jars_directory() -> Path:
    """Return the directory of the jars of the PySpark wheel. Raises JarsError if there are none."""
    pyspark = importlib.util.find_spec("pyspark")
    directory = Path(pyspark.origin).parent / "jars" if pyspark and pyspark.origin else None
    if directory is None or not any(directory.glob("ivy-*.jar")):
        raise JarsError(
            "PySpark's jars (jars/ivy-*.jar of the package) were not found. Reinstall it: pip install pyspark==4.2.0"
        )
    return directory


def _failure(log: str, path: Path) -> str:
    unreachable = re.search(r"Server access error at url \S+ \((.+)\)", log)
    missing = sorted(set(re.findall(r":: (\S+#\S+;\S+): not found", log)))
    if unreachable and "SSL" in unreachable.group(1):
        cause = (
            f"Java does not trust the certificate of the jars' repository ({unreachable.group(1)}). If a proxy of your "
            "company's stands between, add its certificate to Java's: keytool -importcert -cacerts -file CERTIFICATE."
        )
    elif unreachable:
        cause = (
            f"The repository of the jars cannot be reached ({unreachable.group(1)}). Check the network. Behind a "
            "proxy, set JAVA_TOOL_OPTIONS='-Dhttps.proxyHost=HOST -Dhttps.proxyPort=PORT'; for a mirror of your own, "
            "GROUP_COORDINATOR_IVY_SETTINGS=/path/to/ivysettings.xml."
        )
    elif missing:
        cause = (
            f"The repository has no {', '.join(missing)}. If it is a mirror, let it fetch what it lacks, or name "
            "another by GROUP_COORDINATOR_IVY_SETTINGS=/path/to/ivysettings.xml."
        )
    else:
        lines = [line.strip() for line in log.splitlines() if line.strip()]
        cause = f"Ivy failed: {lines[-1] if lines else 'it printed nothing'}."
    return f"The jars could not be resolved. {cause} Everything that Ivy said: {path}"
