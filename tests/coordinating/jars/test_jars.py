"""The jars: resolved once, whole or not at all, with errors that name the remedy."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from group_coordinator.coordinating.jars.java import JavaError, find_java
from group_coordinator.coordinating.jars.resolving import (
    JARS_EXPECTED,
    JarsError,
    broker_jars,
    jars_directory,
    resolve_jars,
    spark_jars,
    tools_jars,
)
from tests.waiting import wait_until

REQUEST_LOG = str(Path(__file__).parents[2] / "fixtures" / "recordings" / "chaos-a.request.log.gz")

# Stands in for `java -jar ivy.jar ... -retrieve DIRECTORY/jars/[conf]/...`: notes the run, prints, makes three jars.
FAKE_JAVA = """#!/bin/sh
if [ "$1" = -version ]; then echo 'openjdk version "17.0.15" 2025-04-15' >&2; exit 0; fi
echo run >> "$FAKE_DIRECTORY/runs"
cat "$FAKE_DIRECTORY/output" 2>/dev/null
if [ -e "$FAKE_DIRECTORY/fails" ]; then exit 1; fi
while [ "$1" != -retrieve ]; do shift; done
jars=${2%%/\\[conf\\]*}
for configuration in spark broker tools; do
  mkdir -p "$jars/$configuration" && echo jar > "$jars/$configuration/a-1.jar"
  echo "	found org#a;1 in public"
  sleep "${FAKE_PAUSE_S:-0}"
done
"""


class FakeIvy:
    """A cache directory of its own and a `java` that only pretends to resolve."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "bin").mkdir()
        java = directory / "bin" / "java"
        java.write_text(FAKE_JAVA)
        java.chmod(0o755)

    @property
    def runs(self) -> int:
        runs = self.directory / "runs"
        return len(runs.read_text().split()) if runs.exists() else 0

    def fail_with(self, output: str) -> None:
        (self.directory / "output").write_text(output)
        (self.directory / "fails").touch()


@pytest.fixture
def ivy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeIvy:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("FAKE_DIRECTORY", str(tmp_path))
    monkeypatch.setenv("GROUP_COORDINATOR_CACHE", str(tmp_path / "cache"))
    return FakeIvy(tmp_path)


def resolve_in_a_process() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "group_coordinator.coordinating.jars"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )


@pytest.fixture
def slow_process(ivy: FakeIvy, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[str]]:
    """A process in the middle of resolving."""
    monkeypatch.setenv("FAKE_PAUSE_S", "0.4")
    process = resolve_in_a_process()
    wait_until(lambda: ivy.runs or process.poll() is not None, interval_s=0.01)
    assert process.poll() is None
    yield process
    process.kill()
    process.communicate()


def test_resolved_once(ivy: FakeIvy, capsys: pytest.CaptureFixture[str]) -> None:
    directory = resolve_jars()
    assert directory == jars_directory() == resolve_jars()
    assert directory.parent == ivy.directory / "cache"
    assert [path.name for path in spark_jars()] == ["a-1.jar"]
    assert tools_jars() == [directory / "tools" / "a-1.jar", directory / "broker" / "a-1.jar"]
    assert ivy.runs == 1
    assert sorted(path.suffix for path in directory.parent.iterdir()) == ["", ".lock", ".log"]
    output = capsys.readouterr().err
    assert f"Resolving {JARS_EXPECTED} jars" in output
    assert "Resolved 3 jars" in output


def test_two_processes_at_once_resolve_once(ivy: FakeIvy, slow_process: subprocess.Popen[str]) -> None:
    other_process = resolve_in_a_process()
    output = other_process.communicate(timeout=30)
    assert "waiting for it" in output[1]
    assert output[0].strip() == slow_process.communicate(timeout=30)[0].strip() == str(jars_directory())
    assert (other_process.returncode, slow_process.returncode, ivy.runs) == (0, 0, 1)


def test_a_killed_process_leaves_no_half_cache(ivy: FakeIvy, slow_process: subprocess.Popen[str]) -> None:
    slow_process.send_signal(signal.SIGKILL)
    slow_process.wait()
    assert not jars_directory().exists()
    started = time.monotonic()
    resolve_jars()
    assert time.monotonic() - started > 1.2, (
        "it waits until the orphaned Ivy has ended, then takes its own three pauses"
    )
    assert ivy.runs == 2
    assert len(list(jars_directory().glob("*/*.jar"))) == 3


def test_no_network(ivy: FakeIvy) -> None:
    ivy.fail_with(
        ":: org.apache.kafka#kafka_2.13;4.4.0: not found\n"
        "\tServer access error at url https://repository.example/a.pom (java.net.UnknownHostException: "
        "repository.example)\n"
    )
    with pytest.raises(
        JarsError, match=r"cannot be reached \(java.net.UnknownHostException: repository.example\).*proxy"
    ) as raised:
        resolve_jars()
    assert str(raised.value).endswith(".log")
    assert not jars_directory().exists()
    (ivy.directory / "fails").unlink()
    assert resolve_jars() == jars_directory(), "a failure does not stand in the way of the next attempt"


def test_a_certificate_that_java_does_not_trust(ivy: FakeIvy) -> None:
    problem = "javax.net.ssl.SSLHandshakeException: PKIX path building failed"
    ivy.fail_with(f"\tServer access error at url https://repository.example/a.pom ({problem})\n")
    with pytest.raises(JarsError, match=r"does not trust the certificate.*keytool"):
        resolve_jars()


def test_any_other_failure_of_ivy(ivy: FakeIvy) -> None:
    ivy.fail_with("Exception in thread main\njava.lang.OutOfMemoryError\n\n")
    with pytest.raises(JarsError, match=r"Ivy failed: java\.lang\.OutOfMemoryError\. Everything"):
        resolve_jars()


def test_a_module_that_the_repository_lacks(ivy: FakeIvy) -> None:
    ivy.fail_with("\t\t:: org.apache.kafka#kafka_2.13;4.4.0: not found\n")
    with pytest.raises(JarsError, match=r"has no org.apache.kafka#kafka_2.13;4.4.0\. .*GROUP_COORDINATOR_IVY_SETTINGS"):
        resolve_jars()


def test_settings_of_ones_own_reach_ivy(ivy: FakeIvy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROUP_COORDINATOR_IVY_SETTINGS", "/etc/ivysettings.xml")
    java = ivy.directory / "bin" / "java"
    java.write_text(FAKE_JAVA.replace("echo run", 'echo "$@" > "$FAKE_DIRECTORY/arguments"; echo run'))
    resolve_jars()
    assert " -settings /etc/ivysettings.xml " in (ivy.directory / "arguments").read_text()


def test_a_cache_that_cannot_be_made(ivy: FakeIvy, monkeypatch: pytest.MonkeyPatch) -> None:
    (ivy.directory / "file").touch()
    monkeypatch.setenv("GROUP_COORDINATOR_CACHE", str(ivy.directory / "file"))
    with pytest.raises(JarsError, match="GROUP_COORDINATOR_CACHE"):
        resolve_jars()


def test_no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaError, match=r"JAVA_HOME is not set and there is no `java` on PATH\. Install a Java 17"):
        find_java()


RUN = ("group_coordinator.command_line.main", "run")


@pytest.mark.parametrize(
    ("arguments", "java"),
    [
        (RUN, None),
        (RUN, "exit 1"),
        (RUN, "echo 'java version \"11.0.22\"' >&2"),
        (RUN, "echo 'no Java'"),
        ((*RUN, "--embedded"), None),
        (("group_coordinator.command_line.main", "demo"), None),
        (("group_coordinator.command_line.main", "replay", REQUEST_LOG), None),
        (("group_coordinator.command_line.main", "replay", "coordinator.events"), None),
        (("group_coordinator.proving.embedded_kafka.write_class_archives",), None),
        (("benchmarks.gateway",), None),
        (("benchmarks.query",), None),
    ],
)
def test_everything_that_needs_java_says_so_in_a_sentence(
    arguments: tuple[str, ...], java: str | None, tmp_path: Path
) -> None:
    """Where there is none, where it does not start, where it is too old, where it is none."""
    if java is not None:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "java").write_text(f"#!/bin/sh\n{java}\n")
        (tmp_path / "bin" / "java").chmod(0o755)
    environment = {**os.environ, "JAVA_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", *arguments], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 1
    assert "Install a Java 17 runtime" in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr


def test_java_home_of_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaError, match=f"JAVA_HOME is {tmp_path}, but there is no program"):
        find_java()


@pytest.mark.parametrize(
    ("line", "version"), [('java version "1.8.0_402"', 8), ('openjdk version "11.0.22" 2024-01-16', 11)]
)
def test_java_too_old(ivy: FakeIvy, line: str, version: int) -> None:
    (ivy.directory / "bin" / "java").write_text(f"#!/bin/sh\necho '{line}' >&2\n")
    with pytest.raises(JavaError, match=f"is Java {version}; Spark and Kafka need 17 or newer"):
        resolve_jars()


def test_a_java_that_does_not_start(ivy: FakeIvy) -> None:
    (ivy.directory / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(JavaError, match="-version` failed"):
        find_java()


def test_what_is_resolved(kafka_jars: Path) -> None:
    def artifact(jar: str) -> str:
        return re.sub(r"-\d.*", "", jar)

    spark = [path.name for path in spark_jars()]
    broker = [path.name for path in broker_jars()]
    tools = [path.name for path in tools_jars()]
    assert f"spark-sql-kafka-0-10_2.13-{pyspark.__version__}.jar" in spark
    assert "kafka_2.13-4.4.0.jar" in broker
    assert "kafka-tools-4.4.0.jar" in tools
    assert len({*spark, *broker, *tools}) == JARS_EXPECTED
    shipped = {artifact(name) for name in os.listdir(Path(pyspark.__file__).parent / "jars")}
    assert not shipped & {artifact(name) for name in spark}, "a second copy of what Spark ships already"
