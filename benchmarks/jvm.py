"""Kafka's own classes, run by small Java drivers (`java/`) on the jars that the embedded broker needs anyway.

A Java compiler is needed beside the Java that Spark runs on; nothing else is downloaded.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from group_coordinator.coordinating.jars.java import SHORT_LIVED, find_java
from group_coordinator.coordinating.jars.resolving import broker_jars

SOURCES = Path(__file__).with_name("java")
# One collector thread, as there is one thread to collect for. On a busy machine the compiler would come too late: with
# -Xbatch the program waits for it.
MEASURED = ("-XX:+UseSerialGC", "-Xbatch")
"""Options of a JVM whose speed counts."""


class JvmError(RuntimeError):
    """The drivers cannot run. The message names what is missing."""


class Mismatch(AssertionError):
    """Kafka's classes came to something else than ours: what was measured is not the same work."""


def run_driver(name: str, *arguments: str, timeout_seconds: float = 1_500) -> list[str]:
    """Run one of the drivers, which are compiled when the first one is, and return the lines that it printed. Raises
    `JvmError`."""
    # Kafka logs every rebalance: not here.
    java = _drivers()(*MEASURED, "-Xmx3g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
    return _run([*java, name, *arguments], timeout_seconds).splitlines()


@cache
def _drivers() -> Callable[..., list[str]]:
    """Compile the drivers. What was compiled is removed when this process ends."""
    with ExitStack() as stack:
        command = stack.enter_context(compiled(SOURCES))
        atexit.register(stack.pop_all().close)
    return command


@contextmanager
def compiled(
    sources: Path, beside: Path | None = None, kafka_jars: Callable[[], list[Path]] = broker_jars
) -> Iterator[Callable[..., list[str]]]:
    """Compile the sources in a folder, and what they use of the folder `beside`, on Kafka's jars. Yields what makes the
    command, to which the name of a class is to be added, from options of the JVM. Raises `JvmError`."""
    try:
        java, jars = find_java(), kafka_jars()
    except RuntimeError as problem:
        raise JvmError(str(problem)) from problem
    compiler = _compiler(java)
    with TemporaryDirectory(prefix="group-coordinator-java-") as classes:
        class_path = os.pathsep.join([classes, *map(str, jars)])
        files = [str(path) for path in sorted(sources.glob("*.java"))]
        short_lived = [f"-J{option}" for option in SHORT_LIVED]
        options = [*short_lived, "-proc:none", "-d", classes, "-cp", class_path]
        source_path = os.pathsep.join([str(beside or sources), str(_sources_of(kafka_version(jars)))])
        _run([str(compiler), *options, "-sourcepath", source_path, *files], 600)
        yield lambda *options: [str(java), *options, "-cp", class_path]


def kafka_version(jars: list[Path]) -> str:
    """Return the version of Kafka's jars, as `4.4.0`."""
    (version,) = (jar.stem.removeprefix("kafka-clients-") for jar in jars if jar.stem.startswith("kafka-clients-"))
    return version


def _sources_of(version: str) -> Path:
    """Return the folder of what is compiled for this version of Kafka alone."""
    folder = SOURCES / "kafka_{}_{}".format(*version.split("."))
    if not folder.is_dir():
        raise JvmError(f"There are no sources for Kafka {version}: {folder}.")
    return folder


def _compiler(java: Path) -> Path:
    sibling = java.resolve().with_name("javac")
    compiler = str(sibling) if sibling.exists() else shutil.which("javac")
    if compiler is None:
        raise JvmError(
            "There is no Java compiler (javac). Install a JDK 17 (Debian and Ubuntu: openjdk-17-jdk-headless)."
        )
    return Path(compiler)


def _run(command: list[str], timeout_seconds: float) -> str:
    result = subprocess.run(command, capture_output=True, text=True, timeout=timeout_seconds, check=False)
    if result.returncode:
        lines = (result.stderr + result.stdout).strip().splitlines()
        raise JvmError(f"{Path(command[0]).name} failed: " + "\n".join(lines[-20:]))
    return result.stdout
