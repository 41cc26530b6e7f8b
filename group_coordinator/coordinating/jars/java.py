"""The Java that Spark, Ivy and the embedded Kafka broker run on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from group_coordinator.ground.errors import ExpectedError

JAVA_VERSION_MIN = 17
SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Options of a JVM that is to start quickly and stay small: it ends before the optimising compiler pays."""
_REMEDY = (
    f"Install a Java {JAVA_VERSION_MIN} runtime (Debian and Ubuntu: openjdk-17-jre-headless; macOS: temurin@17), "
    "or set JAVA_HOME to the one that you have."
)


class JavaError(ExpectedError):
    """There is no Java that Spark and Kafka can run on. The message names the remedy."""


def java_program() -> Path:
    """Return the `java` program of JAVA_HOME if it is set, as Spark does, else the one on PATH. Raises JavaError if
    there is none."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if found is None:
        raise JavaError(f"Java was not found: JAVA_HOME is not set and there is no `java` on PATH. {_REMEDY}")
    if not os.access(found, os.X_OK):
        raise JavaError(f"Java was not found: JAVA_HOME is {home}, but there is no program {found}. {_REMEDY}")
    return Path(found)


def find_java() -> Path:
    """Return `java_program` after a check. Raises JavaError also if it does not start, or is older than Java 17."""
    found = java_program()
    version = _version(found, found.stat().st_mtime_ns)
    if version < JAVA_VERSION_MIN:
        raise JavaError(f"{found} is Java {version}; Spark and Kafka need {JAVA_VERSION_MIN} or newer. {_REMEDY}")
    return found


def require_java() -> None:
    """Raise JavaError if Spark could not start its JVM. Under spark-submit the JVM runs already."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        find_java()


@cache
def _version(program: Path, changed_ns: int) -> int:
    try:
        answer = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as problem:
        raise JavaError(f"`{program} -version` failed ({problem}). {_REMEDY}") from problem
    version = _feature_version(answer.stderr + answer.stdout)
    if version is None:
        raise JavaError(f"`{program} -version` printed no version that we understand. {_REMEDY}")
    return version


def _feature_version(text: str) -> int | None:
    """17 of `openjdk version "17.0.15"`; 8 of `java version "1.8.0_402"`."""
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match.group(1)) if match else None
