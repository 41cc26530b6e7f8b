"""Kafka's Java programs in JVMs that start quickly: half of the CPU time of a tool goes to loading classes.

The first tool that runs to its end writes them down beside the other class archives, and later programs map them.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from group_coordinator.coordinating.jars.class_archives import class_archive
from group_coordinator.coordinating.jars.java import SHORT_LIVED, find_java
from group_coordinator.coordinating.jars.resolving import tools_jars


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


def java(*options: str, heap_mb: int = 192, log_level: str = "warn", classes: Path | None = None) -> list[str]:
    """Return the command, to which the name of a class is to be added: one of Kafka's, or of those in `classes`. They
    come last in the class path, as an archive needs the same jars in front."""
    archive = _archive()
    use = [f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []
    class_path = os.pathsep.join(map(str, [*tools_jars(), *([classes] if classes else [])]))
    logging = ["-Xlog:disable", f"-Dorg.slf4j.simpleLogger.defaultLogLevel={log_level}"]
    return [str(find_java()), f"-Xmx{heap_mb}m", *SHORT_LIVED, *use, *options, *logging, "-cp", class_path]


def _archive() -> Path:
    kafka = class_archive("kafka")
    return kafka.with_name(kafka.name.replace("kafka", "tools"))


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=Path("/"))
