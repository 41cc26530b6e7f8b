"""Kafka's Java programs in JVMs that start quickly: half of the CPU time of a tool goes to loading classes.

The first tool that runs to its end writes them down beside the other class archives, and later programs map them.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from group_coordinator.coordinating.jars.class_archives import class_archive
from group_coordinator.coordinating.jars.java import SHORT_LIVED, find_java
from group_coordinator.coordinating.jars.resolving import JarsProgress, jars_directory, resolve, tools_jars

_STREAMS = """<ivy-module version="2.0">
  <info organisation="group-coordinator" module="kafka-streams"/>
  <configurations><conf name="streams"/></configurations>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka-streams" rev="{version}" conf="streams->master" transitive="false"/>
  </dependencies>
</ivy-module>
"""
"""Without RocksDB, which is the greater part of it: state in memory needs none."""


def run_tool(name: str, *arguments: str, log_level: str = "error") -> subprocess.CompletedProcess[str]:
    """Run a tool (a class of Kafka's) to its end."""
    archive = _archive()
    if archive.exists():
        return _run([*java(log_level=log_level), name, *arguments])
    archive.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=archive.parent) as directory:
        written = Path(directory) / archive.name
        done = _run([*java(f"-XX:ArchiveClassesAtExit={written}", log_level=log_level), name, *arguments])
        if written.exists():
            for older in archive.parent.glob("classes-tools-*.jsa"):
                older.unlink(missing_ok=True)
            written.replace(archive)  # whole, or not at all
    return done


def java(
    *options: str, heap_mb: int = 192, log_level: str = "warn", classes: Sequence[Path] = (),
    other_kafka: Sequence[Path] = (),
) -> list[str]:  # fmt: skip
    """Return the command, to which the name of a class is to be added: one of Kafka's, or of those in `classes`. They
    come last in the class path, as an archive needs the same jars in front. What is in `other_kafka` counts in place of
    Kafka's own, and starts slower."""
    archive = _archive()
    use = [f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []
    class_path = os.pathsep.join(map(str, [*other_kafka, *tools_jars(), *classes]))
    logging = ["-Xlog:disable", f"-Dorg.slf4j.simpleLogger.defaultLogLevel={log_level}"]
    return [str(find_java()), f"-Xmx{heap_mb}m", *SHORT_LIVED, *use, *options, *logging, "-cp", class_path]


def declared_jars(name: str, declared: str, configuration: str, progress: JarsProgress) -> list[Path]:
    """Return the jars of one configuration of an `ivy.xml` that a test declares; resolved once, into a directory beside
    that of the project's own. Raises JarsError or JavaError."""
    digest = hashlib.sha256(declared.encode()).hexdigest()[:12]
    directory = jars_directory().with_name(f"{name}-{digest}")
    ivy_file = directory.with_name(f"{directory.name}.xml")
    directory.parent.mkdir(parents=True, exist_ok=True)
    ivy_file.write_text(declared)
    resolve(ivy_file, (configuration,), directory, progress)
    return sorted((directory / configuration).glob("*.jar"))


def streams_jars(version: str) -> list[Path]:
    """Return the jar of Kafka Streams. Raises JarsError or JavaError."""
    progress = JarsProgress(1, what="Kafka Streams")
    return declared_jars(f"kafka-streams-{version}", _STREAMS.format(version=version), "streams", progress)


def compile_java(sources: Iterable[Path], directory: Path, jars: Iterable[Path]) -> Path:
    """Compile Java programs into a directory, which is returned."""
    compiler = find_java().with_name("javac")
    command = [
        str(compiler if compiler.exists() else "javac"), *(f"-J{option}" for option in SHORT_LIVED),
        "-cp", os.pathsep.join(map(str, jars)), "-d", str(directory), *map(str, sources),
    ]  # fmt: skip
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    return directory


def _archive() -> Path:
    kafka = class_archive("kafka")
    return kafka.with_name(kafka.name.replace("kafka", "tools"))


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=Path("/"))
