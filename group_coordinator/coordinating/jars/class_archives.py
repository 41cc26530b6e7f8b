"""Class archives: the classes of Spark, and of the embedded Kafka, as a JVM has them in memory once they are loaded.

A JVM that starts Spark and runs its first query spends half of its CPU time on loading classes. One that maps an
archive into its memory does not (class data sharing, JEP 350). `python -m
group_coordinator.proving.embedded_kafka.write_class_archives` writes them, into the Python environment, where they go
when it goes. Without them, or with those of another Java or of other jars, which the JVM notices by itself, all is as
it was.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Literal

from group_coordinator.coordinating.jars.java import JavaError, java_program
from group_coordinator.coordinating.jars.resolving import JarsError, jars_directory, pyspark_jars_directory

Kind = Literal["spark", "kafka"]
_SILENT = ("-Xlog:cds*=off", "-Xlog:class+path*=off")
"""The JVM would print a warning when an archive does not fit."""


def class_archive(kind: Kind) -> Path:
    """Return the path of the archive, whether it exists or not; its name depends on the Java and the jars.

    Raises JavaError, and JarsError or OSError without jars.
    """
    jars = [pyspark_jars_directory(), jars_directory() / "spark"] if kind == "spark" else [jars_directory() / "broker"]
    found = [java_program().resolve(), *jars]
    about = " ".join(f"{path} {int(path.stat().st_mtime)}" for path in found)  # an image keeps no more than seconds
    name = f"classes-{kind}-{hashlib.sha256(about.encode()).hexdigest()[:12]}.jsa"
    return Path(sys.prefix) / "share" / "group-coordinator" / name


def class_archive_options(kind: Kind) -> list[str]:
    """Return the JVM's options to use the archive; none if there is no archive."""
    try:
        archive = class_archive(kind)
    except (JavaError, JarsError, OSError):
        return []
    return [f"-XX:SharedArchiveFile={archive}", *_SILENT] if archive.exists() else []
